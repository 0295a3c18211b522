/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c - the master's figures as text: the page, and single figures
 *
 * Names are those that Mooncake's dashboards ask for, so some are odd; what it
 * has no name for begins with te_master_. docs/metrics.md is made from what is
 * printed here.
 */
#include "store/server/metrics.h"

#include <inttypes.h>
#include <stdio.h>

#include <event2/buffer.h>

#include "base/mem.h"
#include "store/server/metrics_parts.h"
#include "store/server/state.h"

void tes_server_metric_head(struct evbuffer *out, const char *name,
			    const char *type, const char *help)
{
	evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help,
			    name, type);
}

static void one(struct evbuffer *out, const char *type, const char *name,
		const char *help, uint64_t value)
{
	tes_server_metric_head(out, name, type, help);
	evbuffer_add_printf(out, "%s %" PRIu64 "\n", name, value);
}

struct figure {
	const char *name, *help;
	uint64_t value;
};

static void all(struct evbuffer *out, const char *type,
		const struct figure *figures, size_t n)
{
	for (size_t i = 0; i < n; i++)
		one(out, type, figures[i].name, figures[i].help,
		    figures[i].value);
}

/* What Mooncake has no name for begins with te_. */
static const struct op {
	const char *single, *batch; /* NULL: never in batches */
} ops[TES_SERVER_OPS] = {
	[TES_SERVER_OP_MOUNT] = {"master_mount_segment", NULL},
	[TES_SERVER_OP_UNMOUNT] = {"master_unmount_segment", NULL},
	[TES_SERVER_OP_PUT_START] = {"master_put_start",
				     "master_batch_put_start"},
	[TES_SERVER_OP_PUT_END] = {"master_put_end", "master_batch_put_end"},
	[TES_SERVER_OP_PUT_REVOKE] = {"master_put_revoke",
				      "master_batch_put_revoke"},
	[TES_SERVER_OP_LOOKUP] = {"master_get_replica_list",
				  "master_batch_get_replica_list"},
	[TES_SERVER_OP_EXIST] = {"master_exist_key", "master_batch_exist_key"},
	[TES_SERVER_OP_SIZE] = {"te_master_get_size",
				"te_master_batch_get_size"},
	[TES_SERVER_OP_REMOVE] = {"master_remove", "te_master_batch_remove"},
	[TES_SERVER_OP_REMOVE_ALL] = {"master_remove_all", NULL},
	[TES_SERVER_OP_REMOVE_BY_REGEX] = {"master_remove_by_regex", NULL},
	[TES_SERVER_OP_REPLICA_CLEAR] = {"te_master_replica_clear",
					 "master_batch_replica_clear"},
	[TES_SERVER_OP_CREATE_COPY] = {"master_create_copy_task", NULL},
	[TES_SERVER_OP_CREATE_MOVE] = {"master_create_move_task", NULL},
	[TES_SERVER_OP_QUERY_TASK] = {"master_query_task", NULL},
	[TES_SERVER_OP_UPDATE_TASK] = {"master_update_task", NULL},
	[TES_SERVER_OP_PING] = {"master_ping", NULL},
};

static void op_counter(struct evbuffer *out, const char *op, const char *what,
		       const char *help, uint64_t value)
{
	char name[96];

	snprintf(name, sizeof(name), "%s_%s_total", op, what);
	one(out, "counter", name, help, value);
}

static void op_metrics(const struct tes_server *s, struct evbuffer *out)
{
	for (int i = 0; i < TES_SERVER_OPS; i++) {
		const struct tes_server_op_count *c = &s->counters.op[i];
		const struct op *op = &ops[i];

		op_counter(out, op->single, "requests",
			   "calls, with one key where they have keys",
			   c->requests);
		op_counter(out, op->single, "failures", "of these, failed",
			   c->failures);
		if (!op->batch)
			continue;
		op_counter(out, op->batch, "requests",
			   "calls with several keys", c->batches);
		op_counter(out, op->batch, "failures",
			   "of these, failed for every key", c->batch_failures);
		op_counter(out, op->batch, "partial_successes",
			   "of these, failed for some keys", c->batch_partial);
		op_counter(out, op->batch, "items", "keys of these calls",
			   c->items);
		op_counter(out, op->batch, "failed_items",
			   "of these keys, failed", c->items_failed);
	}
}

static void refused(struct evbuffer *out, const char *port, const char *why,
		    uint64_t value)
{
	evbuffer_add_printf(
		out,
		"te_master_refused_total{port=\"%s\",reason=\"%s\"} %" PRIu64
		"\n",
		port, why, value);
}

static void refusal_metrics(const struct tes_server *s, struct evbuffer *out)
{
	static const char *const rpc[TEI_FRAME_FAULTS] = {
		[TEI_FRAME_BAD_TYPE] = "bad type",
		[TEI_FRAME_TOO_LONG] = "too long",
		[TEI_FRAME_BAD_BODY] = "malformed",
		[TEI_FRAME_LATE] = "late",
		[TEI_FRAME_STRANGER] = "protected mode",
		[TEI_FRAME_CROWD] = "too many connections",
	};
	static const char *const http[TEI_HTTP_REFUSALS] = {
		[TEI_HTTP_MALFORMED] = "malformed",
		[TEI_HTTP_TOO_LONG] = "too long",
		[TEI_HTTP_METHOD] = "method",
		[TEI_HTTP_LATE] = "late",
		[TEI_HTTP_STRANGER] = "protected mode",
		[TEI_HTTP_CROWD] = "too many connections",
	};
	const struct tes_server_counters *c = &s->counters;

	tes_server_metric_head(
		out, "te_master_refused_total", "counter",
		"connections and requests that were not served, by port and "
		"reason");
	for (int i = 0; i < TEI_FRAME_FAULTS; i++)
		refused(out, "rpc", rpc[i], c->refused[i]);
	refused(out, "rpc", "version", c->refused_version);
	refused(out, "rpc", "does not read", c->refused_slow);
	refused(out, "rpc", "unknown client", c->refused_unknown);
	for (int i = 0; i < TEI_HTTP_REFUSALS; i++)
		refused(out, "http", http[i], c->refused_http[i]);
}

static void state_metrics(const struct tes_server *s,
			  const struct tes_core_figures *f,
			  struct evbuffer *out)
{
	const struct figure gauges[] = {
		{"master_allocated_bytes", "memory of the pool in use",
		 f->used_bytes},
		{"master_total_capacity_bytes", "memory of the pool",
		 f->capacity_bytes},
		{"master_key_count", "objects that can be read", f->objects},
		{"master_soft_pin_key_count", "objects that are softly pinned",
		 f->soft_pinned},
		{"te_master_building_count", "objects being put", f->building},
		{"te_master_fencing_count", "extents awaiting a fence",
		 f->fencing},
		{"te_master_pending_tasks", "copies and moves that wait",
		 f->tasks_pending},
		{"te_master_processing_tasks",
		 "copies and moves that owners work on", f->tasks_processing},
		{"te_master_drains", "drains of segments under way",
		 f->drains_active},
		{"te_master_segment_count", "mounted segments", f->segments},
		{"master_active_clients", "sessions that are not suspect",
		 f->sessions - f->suspects},
		{"te_master_suspect_clients", "sessions not heard of lately",
		 f->suspects},
		{"te_master_connections", "open connections", s->n_links},
		{"te_master_metadata_bytes", "memory of the object tables",
		 f->metadata_bytes},
		{"te_master_key_bytes", "of it: the keys", f->key_bytes},
	};

	all(out, "gauge", gauges, sizeof(gauges) / sizeof(gauges[0]));
}

static void event_metrics(const struct tes_server *s,
			  const struct tes_core_figures *f,
			  struct evbuffer *out)
{
	const struct tes_server_counters *c = &s->counters;
	const struct figure counters[] = {
		{"master_attempted_evictions_total",
		 "times that room was to be made",
		 f->evictions_attempted_total},
		{"master_successful_evictions_total", "of these, it was",
		 f->evictions_successful_total},
		{"master_evicted_key_count", "objects evicted",
		 f->evicted_objects_total},
		{"master_evicted_size_bytes", "bytes evicted",
		 f->evicted_bytes_total},
		{"master_evicted_key_count_mem", "the same, from memory",
		 f->evicted_objects_total},
		{"master_evicted_size_bytes_mem", "the same, from memory",
		 f->evicted_bytes_total},
		{"master_attempted_evictions_mem", "the same, from memory",
		 f->evictions_attempted_total},
		{"master_successful_evictions_mem", "the same, from memory",
		 f->evictions_successful_total},
		{"te_master_dropped_key_count", "objects lost with owners",
		 f->dropped_objects_total},
		{"master_put_start_alloc_failures_total",
		 "puts that found the pool full", f->alloc_failures_total},
		{"master_put_start_partial_allocations_total",
		 "puts that got fewer replicas than asked for",
		 f->partial_puts_total},
		{"te_master_lost_replicas_total",
		 "replicas lost with owners, of objects that have others",
		 f->lost_replicas_total},
		{"te_master_remade_replicas_total", "of these, made again",
		 f->replicas_remade_total},
		{"te_master_given_up_replicas_total",
		 "of these, not made again: no room, or no owner to copy from",
		 f->replicas_given_up_total},
		{"te_master_succeeded_tasks_total",
		 "copies and moves that are done", f->tasks_succeeded_total},
		{"te_master_failed_tasks_total", "those that failed",
		 f->tasks_failed_total},
		{"te_master_late_tasks_total",
		 "answers to tasks that had been given up",
		 f->tasks_late_total},
		{"te_master_succeeded_drains_total",
		 "drains that left their segments empty",
		 f->drains_succeeded_total},
		{"te_master_failed_drains_total", "those that could not",
		 f->drains_failed_total},
		{"te_master_cancelled_drains_total", "those given up",
		 f->drains_canceled_total},
		{"te_master_drained_replicas_total",
		 "replicas that drains have moved", f->drained_objects_total},
		{"te_master_drained_bytes_total", "bytes of these",
		 f->drained_bytes_total},
		{"te_master_heat_proposed_total",
		 "objects that are read so much that a replica is worth it",
		 f->heat_proposed_total},
		{"te_master_heat_refused_total",
		 "of these, for which there was no room or no task",
		 f->heat_refused_total},
		{"te_master_heat_made_total", "replicas made for them",
		 f->heat_made_total},
		{"te_master_heat_failed_total",
		 "replicas that could not be made", f->heat_failed_total},
		{"te_master_heat_given_back_total",
		 "replicas given back because nobody read them any more",
		 f->heat_given_back_total},
		{"master_put_start_discard_cnt", "puts that were given up",
		 f->discarded_puts_total},
		{"te_master_late_put_end_total",
		 "ends of puts that had been given up", f->late_ends_total},
		{"te_master_fences_total", "writers fenced", f->fences_total},
		{"te_master_fences_failed_total",
		 "fences that owners did not confirm", f->fences_failed_total},
		{"te_master_reports_total",
		 "owners said by clients not to answer", f->reports_total},
		{"te_master_probes_total", "owners asked for that reason",
		 f->probes_total},
		{"te_master_probes_failed_total",
		 "that did not answer the master either",
		 f->probes_failed_total},
		{"total_get_nums_", "keys looked up", c->lookup_keys},
		{"valid_get_nums_", "keys looked up and there", c->lookup_hits},
		{"mem_cache_hit_nums_", "keys found in memory", c->lookup_hits},
		{"mem_cache_hit_bytes_total", "bytes of these",
		 c->lookup_hit_bytes},
		{"te_master_steps_failed_total",
		 "requests refused for want of memory", c->steps_failed},
	};

	all(out, "counter", counters, sizeof(counters) / sizeof(counters[0]));
}

/* No files hold values here; but dashboards add them to what memory holds. */
static void file_metrics(const struct tes_core_figures *f, struct evbuffer *out)
{
	one(out, "gauge", "mem_cache_nums_",
	    "objects in memory that can be read", f->objects);
	one(out, "gauge", "file_cache_nums_", "objects in files: none here", 0);
	one(out, "counter", "file_cache_hit_nums_",
	    "keys found in files: none here", 0);
	one(out, "counter", "file_cache_hit_bytes_total", "bytes of these", 0);
	one(out, "gauge", "master_allocated_file_size_bytes",
	    "bytes in files: none here", 0);
	one(out, "gauge", "master_total_file_capacity_bytes",
	    "room in files: none here", 0);
}

static void size_metrics(const struct tes_core_figures *f, struct evbuffer *out)
{
	static const char name[] = "master_value_size_bytes";
	uint64_t sum = 0;

	tes_server_metric_head(out, name, "histogram",
			       "sizes of the values that were stored");
	for (unsigned int i = 0; i < TES_CORE_SIZES - 1; i++) {
		sum += f->sizes[i];
		evbuffer_add_printf(
			out, "%s_bucket{le=\"%" PRIu64 "\"} %" PRIu64 "\n",
			name, (uint64_t)TES_CORE_SIZE_FIRST << 2 * i, sum);
	}
	sum += f->sizes[TES_CORE_SIZES - 1];
	evbuffer_add_printf(out,
			    "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n"
			    "%s_sum %" PRIu64 "\n%s_count %" PRIu64 "\n",
			    name, sum, name, f->stored_bytes_total, name, sum);
}

static void published_metrics(const struct tes_server *s, struct evbuffer *out)
{
	struct tes_events_figures f;

	tes_events_figures(s->events, &f);
	one(out, "counter", "te_master_kv_events_published_total",
	    "key/value events that were published", f.events);
	one(out, "counter", "te_master_kv_events_dropped_total",
	    "of those that were not, for want of room or memory", f.dropped);
}

static int state_part(struct tes_server_metrics *m, struct evbuffer *out)
{
	struct tes_core_figures figures;

	tes_core_figures(m->server->core, &figures);
	state_metrics(m->server, &figures, out);
	return 0;
}

static int event_part(struct tes_server_metrics *m, struct evbuffer *out)
{
	struct tes_core_figures figures;

	tes_core_figures(m->server->core, &figures);
	op_metrics(m->server, out);
	event_metrics(m->server, &figures, out);
	file_metrics(&figures, out);
	size_metrics(&figures, out);
	published_metrics(m->server, out);
	refusal_metrics(m->server, out);
	return 0;
}

static tes_server_metrics_part *const parts[] = {
	state_part,
	tes_server_metrics_collect,
	tes_server_metrics_sum,
	tes_server_metrics_segments,
	tes_server_metrics_tenants,
	event_part,
	tes_server_metrics_timing,
};

struct tes_server_metrics *tes_server_metrics_new(const struct tes_server *s)
{
	struct tes_server_metrics *m = tei_calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->server = s;
	tei_arena_init(&m->names, TES_SERVER_METRICS_NAMES_MAX);
	return m;
}

void tes_server_metrics_free(void *page)
{
	struct tes_server_metrics *m = page;

	tei_arena_fini(&m->names);
	tei_free(m->sums);
	tei_free(m);
}

int tes_server_metrics_more(struct evbuffer *out, void *page)
{
	struct tes_server_metrics *m = page;
	int rc = parts[m->part](m, out);

	if (rc)
		return rc;
	m->series = 0;
	m->at = 0;
	return ++m->part < sizeof(parts) / sizeof(parts[0]);
}
