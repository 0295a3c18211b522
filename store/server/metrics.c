/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c - the master's figures as text
 *
 * Names are those that Mooncake's dashboards ask for, so some are odd; what it
 * has no name for begins with te_master_. docs/metrics.md is made from what is
 * printed here. Several mounts may bear one name; their figures are added up, because one series may
 * appear only once.
 */
#include "store/server/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/mem.h"
#include "store/proto/store.pb-c.h"
#include "store/server/state.h"

struct segment_sum {
	const char *name;
	uint64_t used, size;
};

static void head(struct evbuffer *out, const char *name, const char *type,
		 const char *help)
{
	evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help,
			    name, type);
}

static void gauge(struct evbuffer *out, const char *name, const char *help,
		  uint64_t value)
{
	head(out, name, "gauge", help);
	evbuffer_add_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void counter(struct evbuffer *out, const char *name, const char *help,
		    uint64_t value)
{
	head(out, name, "counter", help);
	evbuffer_add_printf(out, "%s %" PRIu64 "\n", name, value);
}

void tei_server_label(const char *value, char *out, size_t room)
{
	size_t n = 0;

	for (; *value && n + 3 <= room; value++) {
		if (*value == '\\' || *value == '"' || *value == '\n')
			out[n++] = '\\';
		out[n++] = (char)(*value == '\n' ? 'n' : *value);
	}
	out[n] = '\0';
}

static int by_name(const void *a, const void *b)
{
	const struct segment_sum *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Live segments, added up by name. NULL with *n 0: none, or no memory. */
static struct segment_sum *segments(const struct tei_server *s, size_t n_max,
				    size_t *n)
{
	struct segment_sum *list = tei_calloc(n_max + 1, sizeof(*list));
	struct tei_core_segment segment;
	size_t cursor = 0, count = 0, sums = 0;

	*n = 0;
	if (!list)
		return NULL;
	while (count < n_max &&
	       tei_core_segment_next(s->core, &cursor, &segment)) {
		if (segment.suspect)
			continue;
		list[count].name = segment.name;
		list[count].used = segment.used;
		list[count++].size = segment.size;
	}
	qsort(list, count, sizeof(*list), by_name);
	for (size_t i = 0; i < count; i++) {
		if (sums && !strcmp(list[sums - 1].name, list[i].name)) {
			list[sums - 1].used += list[i].used;
			list[sums - 1].size += list[i].size;
		} else {
			list[sums++] = list[i];
		}
	}
	*n = sums;
	return list;
}

static void segment_series(struct evbuffer *out, const char *name,
			   const char *help, const struct segment_sum *list,
			   size_t n, bool used)
{
	char label[TEI_SERVER_LABEL_ROOM];

	head(out, name, "gauge", help);
	for (size_t i = 0; i < n; i++) {
		tei_server_label(list[i].name, label, sizeof(label));
		evbuffer_add_printf(out, "%s{segment=\"%s\"} %" PRIu64 "\n",
				    name, label,
				    used ? list[i].used : list[i].size);
	}
}

static void segment_metrics(const struct tei_server *s, struct evbuffer *out,
			    size_t n_max)
{
	struct segment_sum *list;
	size_t n;

	list = segments(s, n_max, &n);
	segment_series(out, "segment_allocated_bytes",
		       "memory of a segment in use", list, n, true);
	segment_series(out, "segment_total_capacity_bytes",
		       "memory of a segment", list, n, false);
	tei_free(list);
}

/* What Mooncake has no name for begins with te_. */
static const struct op {
	const char *single, *batch; /* NULL: never in batches */
} ops[TEI_SERVER_OPS] = {
	[TEI_SERVER_OP_MOUNT] = {"master_mount_segment", NULL},
	[TEI_SERVER_OP_UNMOUNT] = {"master_unmount_segment", NULL},
	[TEI_SERVER_OP_PUT_START] = {"master_put_start",
				     "master_batch_put_start"},
	[TEI_SERVER_OP_PUT_END] = {"master_put_end", "master_batch_put_end"},
	[TEI_SERVER_OP_PUT_REVOKE] = {"master_put_revoke",
				      "master_batch_put_revoke"},
	[TEI_SERVER_OP_LOOKUP] = {"master_get_replica_list",
				  "master_batch_get_replica_list"},
	[TEI_SERVER_OP_EXIST] = {"master_exist_key", "master_batch_exist_key"},
	[TEI_SERVER_OP_SIZE] = {"te_master_get_size",
				"te_master_batch_get_size"},
	[TEI_SERVER_OP_REMOVE] = {"master_remove", "te_master_batch_remove"},
	[TEI_SERVER_OP_REMOVE_ALL] = {"master_remove_all", NULL},
	[TEI_SERVER_OP_REMOVE_BY_REGEX] = {"master_remove_by_regex", NULL},
	[TEI_SERVER_OP_REPLICA_CLEAR] = {"te_master_replica_clear",
					 "master_batch_replica_clear"},
	[TEI_SERVER_OP_CREATE_COPY] = {"master_create_copy_task", NULL},
	[TEI_SERVER_OP_CREATE_MOVE] = {"master_create_move_task", NULL},
	[TEI_SERVER_OP_QUERY_TASK] = {"master_query_task", NULL},
	[TEI_SERVER_OP_UPDATE_TASK] = {"master_update_task", NULL},
	[TEI_SERVER_OP_PING] = {"master_ping", NULL},
};

static void op_counter(struct evbuffer *out, const char *op, const char *what,
		       const char *help, uint64_t value)
{
	char name[96];

	snprintf(name, sizeof(name), "%s_%s_total", op, what);
	counter(out, name, help, value);
}

static void op_metrics(const struct tei_server *s, struct evbuffer *out)
{
	for (int i = 0; i < TEI_SERVER_OPS; i++) {
		const struct tei_server_op_count *c = &s->counters.op[i];
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

static void refusal_metrics(const struct tei_server *s, struct evbuffer *out)
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
	const struct tei_server_counters *c = &s->counters;

	head(out, "te_master_refused_total", "counter",
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

static void state_metrics(const struct tei_server *s,
			  const struct tei_core_figures *f,
			  struct evbuffer *out)
{
	gauge(out, "master_allocated_bytes", "memory of the pool in use",
	      f->used_bytes);
	gauge(out, "master_total_capacity_bytes", "memory of the pool",
	      f->capacity_bytes);
	gauge(out, "master_key_count", "objects, being put or readable",
	      f->objects);
	gauge(out, "master_soft_pin_key_count",
	      "objects that are softly pinned", f->soft_pinned);
	gauge(out, "te_master_building_count", "objects being put",
	      f->building);
	gauge(out, "te_master_fencing_count", "extents awaiting a fence",
	      f->fencing);
	gauge(out, "te_master_pending_tasks", "copies and moves that wait",
	      f->tasks_pending);
	gauge(out, "te_master_processing_tasks",
	      "copies and moves that owners work on", f->tasks_processing);
	gauge(out, "te_master_segment_count", "mounted segments", f->segments);
	gauge(out, "master_active_clients", "sessions that are not suspect",
	      f->sessions - f->suspects);
	gauge(out, "te_master_suspect_clients", "sessions not heard of lately",
	      f->suspects);
	gauge(out, "te_master_connections", "open connections", s->n_links);
	gauge(out, "te_master_metadata_bytes", "memory of the object tables",
	      f->metadata_bytes);
	gauge(out, "te_master_key_bytes", "of it: the keys", f->key_bytes);
}

static void event_metrics(const struct tei_server *s,
			  const struct tei_core_figures *f,
			  struct evbuffer *out)
{
	const struct tei_server_counters *c = &s->counters;

	counter(out, "master_attempted_evictions_total",
		"times that room was to be made", f->evictions_attempted_total);
	counter(out, "master_successful_evictions_total", "of these, it was",
		f->evictions_successful_total);
	counter(out, "master_evicted_key_count", "objects evicted",
		f->evicted_objects_total);
	counter(out, "master_evicted_size_bytes", "bytes evicted",
		f->evicted_bytes_total);
	counter(out, "master_evicted_key_count_mem", "the same, from memory",
		f->evicted_objects_total);
	counter(out, "master_evicted_size_bytes_mem", "the same, from memory",
		f->evicted_bytes_total);
	counter(out, "te_master_dropped_key_count", "objects lost with owners",
		f->dropped_objects_total);
	counter(out, "master_put_start_alloc_failures_total",
		"puts that found the pool full", f->alloc_failures_total);
	counter(out, "master_put_start_partial_allocations_total",
		"puts that got fewer replicas than asked for",
		f->partial_puts_total);
	counter(out, "te_master_lost_replicas_total",
		"replicas lost with owners, of objects that have others",
		f->lost_replicas_total);
	counter(out, "te_master_remade_replicas_total", "of these, made again",
		f->replicas_remade_total);
	counter(out, "te_master_given_up_replicas_total",
		"of these, not made again: no room, or no owner to copy from",
		f->replicas_given_up_total);
	counter(out, "te_master_succeeded_tasks_total",
		"copies and moves that are done", f->tasks_succeeded_total);
	counter(out, "te_master_failed_tasks_total", "those that failed",
		f->tasks_failed_total);
	counter(out, "te_master_late_tasks_total",
		"answers to tasks that had been given up", f->tasks_late_total);
	counter(out, "te_master_heat_proposed_total",
		"objects that are read so much that a replica is worth it",
		f->heat_proposed_total);
	counter(out, "te_master_heat_refused_total",
		"of these, for which there was no room or no task",
		f->heat_refused_total);
	counter(out, "te_master_heat_made_total", "replicas made for them",
		f->heat_made_total);
	counter(out, "te_master_heat_failed_total",
		"replicas that could not be made", f->heat_failed_total);
	counter(out, "te_master_heat_given_back_total",
		"replicas given back because nobody read them any more",
		f->heat_given_back_total);
	counter(out, "master_put_start_discard_cnt", "puts that were given up",
		f->discarded_puts_total);
	counter(out, "te_master_late_put_end_total",
		"ends of puts that had been given up", f->late_ends_total);
	counter(out, "te_master_fences_total", "writers fenced",
		f->fences_total);
	counter(out, "te_master_fences_failed_total",
		"fences that owners did not confirm", f->fences_failed_total);
	counter(out, "te_master_reports_total",
		"owners said by clients not to answer", f->reports_total);
	counter(out, "te_master_probes_total", "owners asked for that reason",
		f->probes_total);
	counter(out, "te_master_probes_failed_total",
		"that did not answer the master either",
		f->probes_failed_total);
	counter(out, "total_get_nums_", "keys looked up", c->lookup_keys);
	counter(out, "valid_get_nums_", "keys looked up and there",
		c->lookup_hits);
	counter(out, "mem_cache_hit_nums_", "keys found in memory",
		c->lookup_hits);
	counter(out, "mem_cache_hit_bytes_total", "bytes of these",
		c->lookup_hit_bytes);
	counter(out, "te_master_steps_failed_total",
		"requests refused for want of memory", c->steps_failed);
}

static void size_metrics(const struct tei_core_figures *f, struct evbuffer *out)
{
	static const char name[] = "master_value_size_bytes";
	uint64_t sum = 0;

	head(out, name, "histogram", "sizes of the values that were stored");
	for (unsigned int i = 0; i < TEI_CORE_SIZES - 1; i++) {
		sum += f->sizes[i];
		evbuffer_add_printf(
			out, "%s_bucket{le=\"%" PRIu64 "\"} %" PRIu64 "\n",
			name, (uint64_t)TEI_CORE_SIZE_FIRST << 2 * i, sum);
	}
	sum += f->sizes[TEI_CORE_SIZES - 1];
	evbuffer_add_printf(out,
			    "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n"
			    "%s_sum %" PRIu64 "\n%s_count %" PRIu64 "\n",
			    name, sum, name, f->stored_bytes_total, name, sum);
}

static void published_metrics(const struct tei_server *s, struct evbuffer *out)
{
	struct tei_events_figures f;

	tei_events_figures(s->events, &f);
	counter(out, "te_master_kv_events_published_total",
		"key/value events that were published", f.events);
	counter(out, "te_master_kv_events_dropped_total",
		"of those that were not, for want of room or memory",
		f.dropped);
}

static const char *const phases[TEI_SERVER_PHASES] = {
	[TEI_SERVER_QUEUE] = "queue",
	[TEI_SERVER_DECODE] = "decode",
	[TEI_SERVER_STEP] = "step",
	[TEI_SERVER_ENCODE] = "encode",
};

static const char *const types[TEI_FRAME_TYPES] = {
	[STORE__STORE_TYPE__STORE_HELLO] = "hello",
	[STORE__STORE_TYPE__STORE_HEARTBEAT] = "ping",
	[STORE__STORE_TYPE__STORE_MOUNT] = "mount_segment",
	[STORE__STORE_TYPE__STORE_UNMOUNT] = "unmount_segment",
	[STORE__STORE_TYPE__STORE_PUT_START] = "put_start",
	[STORE__STORE_TYPE__STORE_PUT_END] = "put_end",
	[STORE__STORE_TYPE__STORE_LOOKUP] = "get_replica_list",
	[STORE__STORE_TYPE__STORE_RELEASE] = "release",
	[STORE__STORE_TYPE__STORE_EXIST] = "exist_key",
	[STORE__STORE_TYPE__STORE_SIZE] = "get_size",
	[STORE__STORE_TYPE__STORE_REMOVE] = "remove",
	[STORE__STORE_TYPE__STORE_POOL] = "pool",
	[STORE__STORE_TYPE__STORE_FENCED] = "fenced",
	[STORE__STORE_TYPE__STORE_REMOVE_ALL] = "remove_all",
	[STORE__STORE_TYPE__STORE_REPLICA_CLEAR] = "replica_clear",
	[STORE__STORE_TYPE__STORE_TASK_DONE] = "update_task",
	[STORE__STORE_TYPE__STORE_TASK_CREATE] = "create_task",
	[STORE__STORE_TYPE__STORE_TASK_QUERY] = "query_task",
};

/* @labels: "a=\"b\"" or "". */
static void histogram(struct evbuffer *out, const char *name,
		      const char *labels, const struct tei_histogram *h)
{
	const char *comma = *labels ? "," : "";
	char braced[80] = "";
	uint64_t sum = 0;

	if (*labels)
		snprintf(braced, sizeof(braced), "{%s}", labels);
	for (unsigned int i = 0; i < TEI_HISTOGRAM_BUCKETS - 1; i++) {
		sum += h->n[i];
		evbuffer_add_printf(
			out, "%s_bucket{%s%sle=\"%.9f\"} %" PRIu64 "\n", name,
			labels, comma,
			(double)(1ull << (TEI_HISTOGRAM_FIRST_BITS + i)) / 1e9,
			sum);
	}
	sum += h->n[TEI_HISTOGRAM_BUCKETS - 1];
	evbuffer_add_printf(out,
			    "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n"
			    "%s_sum%s %.9f\n%s_count%s %" PRIu64 "\n",
			    name, labels, comma, sum, name, braced,
			    (double)h->sum_ns / 1e9, name, braced, sum);
}

static void tenant_series(const struct tei_server *s, struct evbuffer *out,
			  const char *name, size_t at)
{
	char label[TEI_SERVER_LABEL_ROOM];
	struct tei_core_tenant t;
	size_t cursor = 0;

	while (tei_core_tenant_next(s->core, &cursor, &t)) {
		const uint64_t values[] = {t.charged, t.effective,
					   t.evicted_bytes_total,
					   t.rejects_total};

		tei_server_label(t.name, label, sizeof(label));
		evbuffer_add_printf(out, "%s{tenant=\"%s\"} %" PRIu64 "\n",
				    name, label, values[at]);
	}
}

static void tenant_metrics(const struct tei_server *s, struct evbuffer *out)
{
	static const struct {
		const char *name, *type, *help;
	} series[] = {
		{"te_master_tenant_charged_bytes", "gauge",
		 "memory that a tenant's objects take"},
		{"te_master_tenant_quota_bytes", "gauge",
		 "memory that they may take"},
		{"mooncake_tenant_evict_bytes_total", "counter",
		 "evicted because of a tenant's quota"},
		{"mooncake_tenant_quota_reject_total", "counter",
		 "puts refused because of it"},
	};

	for (size_t i = 0; i < sizeof(series) / sizeof(series[0]); i++) {
		head(out, series[i].name, series[i].type, series[i].help);
		if (s->settings.enable_multi_tenants)
			tenant_series(s, out, series[i].name, i);
	}
}

static bool is_empty(const struct tei_histogram *h)
{
	for (unsigned int i = 0; i < TEI_HISTOGRAM_BUCKETS; i++)
		if (h->n[i])
			return false;
	return true;
}

static void timing_metrics(const struct tei_server_timing *t,
			   struct evbuffer *out)
{
	char labels[64];

	head(out, "te_master_phase_seconds", "histogram",
	     "time of a request in queue, decode, step and encode, of a "
	     "random share of all");
	for (int i = 0; i < TEI_FRAME_TYPES; i++) {
		for (int j = 0; types[i] && j < TEI_SERVER_PHASES; j++) {
			if (is_empty(&t->phases[i][j]))
				continue;
			snprintf(labels, sizeof(labels),
				 "type=\"%s\",phase=\"%s\"", types[i],
				 phases[j]);
			histogram(out, "te_master_phase_seconds", labels,
				  &t->phases[i][j]);
		}
	}
	head(out, "te_master_turn_seconds", "histogram",
	     "what one wake-up of the loop brought, from its first request to "
	     "its end, of a random share of all");
	histogram(out, "te_master_turn_seconds", "", &t->turns);
}

void tei_server_metrics(const struct tei_server *s, struct evbuffer *out)
{
	struct tei_core_figures figures;

	tei_core_figures(s->core, &figures);
	state_metrics(s, &figures, out);
	segment_metrics(s, out, (size_t)figures.segments);
	tenant_metrics(s, out);
	op_metrics(s, out);
	event_metrics(s, &figures, out);
	size_metrics(&figures, out);
	published_metrics(s, out);
	refusal_metrics(s, out);
	timing_metrics(&s->timing, out);
}
