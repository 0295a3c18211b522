/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c - the master's figures as text
 *
 * Names are those that Mooncake's dashboards ask for, so some are odd. Several
 * mounts may bear one name; their figures are added up, because one series may
 * appear only once.
 */
#include "store/server/metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/clock.h"
#include "base/http.h"
#include "base/mem.h"
#include "store/server/state.h"

struct segment_sum {
	const char *name;
	uint64_t used, size;
};

static void metric(struct evbuffer *out, const char *type, const char *name,
		   const char *help, uint64_t value)
{
	evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n",
			    name, help, name, type, name, value);
}

static void gauge(struct evbuffer *out, const char *name, const char *help,
		  uint64_t value)
{
	metric(out, "gauge", name, help, value);
}

static void counter(struct evbuffer *out, const char *name, const char *help,
		    uint64_t value)
{
	metric(out, "counter", name, help, value);
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

static void segment_metrics(const struct tei_server *s, struct evbuffer *out,
			    size_t n_max)
{
	char label[TEI_SERVER_LABEL_ROOM];
	struct segment_sum *list;
	size_t n;

	list = segments(s, n_max, &n);
	evbuffer_add_printf(out, "# TYPE segment_allocated_bytes gauge\n");
	for (size_t i = 0; i < n; i++) {
		tei_server_label(list[i].name, label, sizeof(label));
		evbuffer_add_printf(
			out,
			"segment_allocated_bytes{segment=\"%s\"} %" PRIu64 "\n",
			label, list[i].used);
	}
	evbuffer_add_printf(out, "# TYPE segment_total_capacity_bytes gauge\n");
	for (size_t i = 0; i < n; i++) {
		tei_server_label(list[i].name, label, sizeof(label));
		evbuffer_add_printf(
			out,
			"segment_total_capacity_bytes{segment=\"%s\"} %" PRIu64
			"\n",
			label, list[i].size);
	}
	tei_free(list);
}

static const char *const op_names[TEI_SERVER_OPS] = {
	[TEI_SERVER_OP_MOUNT] = "mount_segment",
	[TEI_SERVER_OP_UNMOUNT] = "unmount_segment",
	[TEI_SERVER_OP_PUT_START] = "put_start",
	[TEI_SERVER_OP_PUT_END] = "put_end",
	[TEI_SERVER_OP_PUT_REVOKE] = "put_revoke",
	[TEI_SERVER_OP_LOOKUP] = "get_replica_list",
	[TEI_SERVER_OP_EXIST] = "exist_key",
	[TEI_SERVER_OP_SIZE] = "get_size",
	[TEI_SERVER_OP_REMOVE] = "remove",
	[TEI_SERVER_OP_PING] = "ping",
};

static void op_counter(struct evbuffer *out, const char *kind, const char *op,
		       const char *what, uint64_t value)
{
	evbuffer_add_printf(out, "# TYPE master_%s%s_%s_total counter\n", kind,
			    op, what);
	evbuffer_add_printf(out, "master_%s%s_%s_total %" PRIu64 "\n", kind, op,
			    what, value);
}

static void op_metrics(const struct tei_server *s, struct evbuffer *out)
{
	for (int i = 0; i < TEI_SERVER_OPS; i++) {
		const struct tei_server_op_count *c = &s->counters.op[i];
		const char *op = op_names[i];

		op_counter(out, "", op, "requests", c->requests);
		op_counter(out, "", op, "failures", c->failures);
		if (i == TEI_SERVER_OP_MOUNT || i == TEI_SERVER_OP_UNMOUNT ||
		    i == TEI_SERVER_OP_PING)
			continue; /* never in batches */
		op_counter(out, "batch_", op, "requests", c->batches);
		op_counter(out, "batch_", op, "failures", c->batch_failures);
		op_counter(out, "batch_", op, "partial_successes",
			   c->batch_partial);
		op_counter(out, "batch_", op, "items", c->items);
		op_counter(out, "batch_", op, "failed_items", c->items_failed);
	}
}

static void refused(struct evbuffer *out, const char *port, const char *why,
		    uint64_t value)
{
	evbuffer_add_printf(
		out,
		"master_refused_total{port=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
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

	evbuffer_add_printf(out, "# HELP master_refused_total connections and "
				 "requests that were not served\n"
				 "# TYPE master_refused_total counter\n");
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
	gauge(out, "master_building_count", "objects being put", f->building);
	gauge(out, "master_fencing_count", "extents awaiting a fence",
	      f->fencing);
	gauge(out, "master_segment_count", "mounted segments", f->segments);
	gauge(out, "master_active_clients", "sessions that are not suspect",
	      f->sessions - f->suspects);
	gauge(out, "master_suspect_clients", "sessions not heard of lately",
	      f->suspects);
	gauge(out, "master_connections", "open connections", s->n_links);
	gauge(out, "master_metadata_bytes", "memory of the object tables",
	      f->metadata_bytes);
	gauge(out, "master_key_bytes", "of it: the keys", f->key_bytes);
}

static void event_metrics(const struct tei_server *s,
			  const struct tei_core_figures *f,
			  struct evbuffer *out)
{
	const struct tei_server_counters *c = &s->counters;

	counter(out, "master_evicted_key_count", "objects evicted",
		f->evicted_objects_total);
	counter(out, "master_evicted_size_bytes", "bytes evicted",
		f->evicted_bytes_total);
	counter(out, "master_dropped_key_count", "objects lost with owners",
		f->dropped_objects_total);
	counter(out, "master_put_start_alloc_failures_total",
		"puts that found the pool full", f->alloc_failures_total);
	counter(out, "master_put_start_discard_cnt", "puts that were given up",
		f->discarded_puts_total);
	counter(out, "master_late_put_end_total",
		"ends of puts that had been given up", f->late_ends_total);
	counter(out, "master_fences_total", "writers fenced", f->fences_total);
	counter(out, "master_fences_failed_total",
		"fences that owners did not confirm", f->fences_failed_total);
	counter(out, "total_get_nums_", "keys looked up", c->lookup_keys);
	counter(out, "valid_get_nums_", "keys looked up and there",
		c->lookup_hits);
	counter(out, "mem_cache_hit_nums_", "keys found in memory",
		c->lookup_hits);
	counter(out, "mem_cache_hit_bytes_total", "bytes of these",
		c->lookup_hit_bytes);
	counter(out, "master_steps_failed_total",
		"requests refused for want of memory", c->steps_failed);
}

void tei_server_metrics(const struct tei_server *s, struct evbuffer *out)
{
	struct tei_core_figures figures;

	tei_core_figures(s->core, &figures);
	state_metrics(s, &figures, out);
	segment_metrics(s, out, (size_t)figures.segments);
	op_metrics(s, out);
	event_metrics(s, &figures, out);
	refusal_metrics(s, out);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

void tei_server_summary(const struct tei_server *s, struct evbuffer *out)
{
	const struct tei_server_counters *c = &s->counters;
	struct tei_core_figures f;

	tei_core_figures(s->core, &f);
	evbuffer_add_printf(
		out,
		"Mem Storage: %" PRIu64 " / %" PRIu64 " bytes (%.1f%%) | "
		"Keys: %" PRIu64 " | Clients: %" PRIu64 " | "
		"Requests: PutStart=%" PRIu64 " PutEnd=%" PRIu64 " Get=%" PRIu64
		" Exist=%" PRIu64 " Remove=%" PRIu64 " | ",
		f.used_bytes, f.capacity_bytes,
		percent(f.used_bytes, f.capacity_bytes), f.objects,
		f.sessions - f.suspects,
		c->op[TEI_SERVER_OP_PUT_START].requests +
			c->op[TEI_SERVER_OP_PUT_START].items,
		c->op[TEI_SERVER_OP_PUT_END].requests +
			c->op[TEI_SERVER_OP_PUT_END].items,
		c->lookup_keys,
		c->op[TEI_SERVER_OP_EXIST].requests +
			c->op[TEI_SERVER_OP_EXIST].items,
		c->op[TEI_SERVER_OP_REMOVE].requests +
			c->op[TEI_SERVER_OP_REMOVE].items);
	evbuffer_add_printf(out,
			    "Hits: %.1f%% | Eviction: AllocFail=%" PRIu64
			    ", keys=%" PRIu64 ", size=%" PRIu64
			    " | Discard: %" PRIu64 "\n",
			    percent(c->lookup_hits, c->lookup_keys),
			    f.alloc_failures_total, f.evicted_objects_total,
			    f.evicted_bytes_total, f.discarded_puts_total);
}
