/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c - the master's figures as text: the page, and single figures
 *
 * Names are those that Mooncake's dashboards ask for, so some are odd; what it
 * has no name for begins with te_master_. docs/metrics.md is made from what is
 * printed here.
 */
#include "store/server/metrics.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/core/core.h"
#include "store/proto/protocol.h"
#include "store/proto/store.pb-c.h"
#include "store/server/state.h"
#include "store/server/timing.h"

/* The names of all segments, each behind 16 bytes at most. */
#define TES_SERVER_METRICS_NAMES_MAX \
	((size_t)TES_CORE_MOUNTS_MAX * (TEI_NAME_LEN_MAX + 32))

/* A page that is being sent. */
struct tes_server_metrics {
	const struct tes_server *server;
	size_t part;                 /* that comes next */
	size_t series, at;           /* in it: where it goes on */
	struct tes_server_sum *sums; /* sums[n_sums]: segments by name */
	size_t n_sums;
	uint64_t cpu_max_ns;
	struct tei_arena names; /* of theirs: segments may go meanwhile */
};

/* Adds its next piece. 1: it has more, 0, or -ENOMEM. */
typedef int metrics_part(struct tes_server_metrics *m, struct evbuffer *out);

/*
 * Where requests spend their time in the master.
 *
 *   untimed --lot--> drawn --end of this turn--> (drawn) --request--> timed
 *      ^                                                                |
 *      +------------------------ end of that turn ----------------------+
 *
 * The end of a turn is seen by an event that is made active in it: libevent
 * calls it after all that were active before.
 */

/* Requests to the next lot, for each one of the last timed turn: 16 .. 47. */
#define DRAW_MIN  16u
#define DRAW_MASK 31u
#define TIMED_MAX 65536u

static void wait_for_draw(struct tes_server_timing *t)
{
	/* By chance, so that no rhythm of clients hides from it. */
	t->random = t->random * 6364136223846793005u + 1442695040888963407u;
	t->until_draw = DRAW_MIN + (uint32_t)(t->random >> 33 & DRAW_MASK);
	t->until_draw *= t->n_timed;
	t->turn = TES_SERVER_TURN_UNTIMED;
}

static void on_turn_end(evutil_socket_t fd, short what, void *arg)
{
	struct tes_server_timing *t = arg;

	(void)fd;
	(void)what;
	if (t->turn != TES_SERVER_TURN_TIMED) {
		t->turn = TES_SERVER_TURN_DRAWN;
		return;
	}
	tes_histogram_add(&t->turns, tei_now_ns() - t->turn_ns);
	wait_for_draw(t);
}

int tes_server_timing_init(struct tes_server_timing *t, struct event_base *base)
{
	*t = (struct tes_server_timing){.random = tei_now_ns(), .n_timed = 1};
	wait_for_draw(t);
	t->turn_end = event_new(base, -1, 0, on_turn_end, t);
	return t->turn_end ? 0 : -ENOMEM;
}

void tes_server_timing_fini(struct tes_server_timing *t)
{
	if (t->turn_end)
		event_free(t->turn_end);
	t->turn_end = NULL;
}

void tes_server_timing_draw(struct tes_server_timing *t)
{
	t->until_draw = UINT32_MAX; /* until the turn has ended */
	event_active(t->turn_end, EV_TIMEOUT, 0);
}

void tes_server_timing_begin_timed(struct tes_server_timing *t, uint16_t type)
{
	uint64_t now = tei_now_ns();

	if (t->turn == TES_SERVER_TURN_DRAWN) {
		t->turn = TES_SERVER_TURN_TIMED;
		t->turn_ns = now;
		t->n_timed = 0;
		event_active(t->turn_end, EV_TIMEOUT, 0);
	}
	if (t->n_timed < TIMED_MAX)
		t->n_timed++;
	t->type = type % TEI_FRAME_TYPES;
	t->at_ns = now;
	tes_histogram_add(&t->phases[t->type][TES_SERVER_QUEUE],
			  now - t->turn_ns);
}

void tes_server_timing_end_timed(struct tes_server_timing *t,
				 enum tes_server_phase phase)
{
	uint64_t now = tei_now_ns();

	tes_histogram_add(&t->phases[t->type][phase], now - t->at_ns);
	t->at_ns = now;
}

/*
 * Requests counted the way Mooncake's dashboards expect.
 *
 * A call of one key is an operation, one of several a batch. A call that only
 * revokes counts as put_revoke. A miss is a failure of a look-up, as upstream;
 * "not there" is an answer of exist, not a failure.
 */

static bool revokes_only(const struct tes_event *ev)
{
	for (size_t i = 0; i < ev->n; i++)
		if (ev->u.put_end.written[i])
			return false;
	return true;
}

static int op_of(const struct tes_event *ev)
{
	switch (ev->type) {
	case TES_EVENT_MOUNT:
		return TES_SERVER_OP_MOUNT;
	case TES_EVENT_UNMOUNT:
		return TES_SERVER_OP_UNMOUNT;
	case TES_EVENT_PUT_START:
		return TES_SERVER_OP_PUT_START;
	case TES_EVENT_PUT_END:
		return revokes_only(ev) ? TES_SERVER_OP_PUT_REVOKE
					: TES_SERVER_OP_PUT_END;
	case TES_EVENT_LOOKUP:
		return TES_SERVER_OP_LOOKUP;
	case TES_EVENT_EXIST:
		return TES_SERVER_OP_EXIST;
	case TES_EVENT_SIZE:
		return TES_SERVER_OP_SIZE;
	case TES_EVENT_REMOVE:
		return TES_SERVER_OP_REMOVE;
	case TES_EVENT_REPLICA_CLEAR:
		return TES_SERVER_OP_REPLICA_CLEAR;
	case TES_EVENT_TASK_CREATE:
		return ev->u.task_create.move ? TES_SERVER_OP_CREATE_MOVE
					      : TES_SERVER_OP_CREATE_COPY;
	case TES_EVENT_TASK_QUERY:
		return TES_SERVER_OP_QUERY_TASK;
	case TES_EVENT_TASK_DONE:
		return TES_SERVER_OP_UPDATE_TASK;
	case TES_EVENT_HEARTBEAT:
		return TES_SERVER_OP_PING;
	default:
		return -1;
	}
}

static size_t count_failed(int32_t code, const int32_t *status, size_t n)
{
	size_t failed = 0;

	if (code || !status)
		return code ? n : 0;
	for (size_t i = 0; i < n; i++)
		failed += status[i] < 0;
	return failed;
}

void tes_server_count(struct tes_server *s, const struct tes_event *ev,
		      int32_t code, const int32_t *status, size_t n)
{
	struct tes_server_op_count *c;
	size_t failed;
	int op = op_of(ev);

	if (op < 0)
		return;
	c = &s->counters.op[op];
	failed = count_failed(code, status, n);
	if (n <= 1) {
		c->requests++;
		c->failures += code || failed;
		return;
	}
	c->batches++;
	c->items += n;
	c->items_failed += failed;
	if (failed == n)
		c->batch_failures++;
	else if (failed)
		c->batch_partial++;
}

/* metrics.c: what goes before the series of a metric. */
static void server_metric_head(struct evbuffer *out, const char *name,
			       const char *type, const char *help)
{
	evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help,
			    name, type);
}

static void one(struct evbuffer *out, const char *type, const char *name,
		const char *help, uint64_t value)
{
	server_metric_head(out, name, type, help);
	evbuffer_add_printf(out, "%s %" PRIu64 "\n", name, value);
}

/* Figures for which Mooncake has no name begin with te_. */
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
		[TEI_FRAME_TIMEOUT] = "late",
		[TEI_FRAME_PROTECTED] = "protected mode",
		[TEI_FRAME_FULL] = "too many connections",
		[TEI_FRAME_IDLE] = "idle",
		[TEI_FRAME_UNFINISHED] = "unfinished",
		[TEI_FRAME_UNREAD] = "unread",
	};
	static const char *const http[TEI_HTTP_REFUSALS] = {
		[TEI_HTTP_MALFORMED] = "malformed",
		[TEI_HTTP_TOO_LONG] = "too long",
		[TEI_HTTP_METHOD] = "method",
		[TEI_HTTP_TIMEOUT] = "late",
		[TEI_HTTP_FORBIDDEN] = "protected mode",
		[TEI_HTTP_FULL] = "too many connections",
	};
	const struct tes_server_counters *c = &s->counters;

	server_metric_head(
		out, "te_master_refused_total", "counter",
		"connections and requests that were not served, by port and "
		"reason");
	for (int i = 0; i < TEI_FRAME_FAULTS; i++)
		refused(out, "rpc", rpc[i], c->refused[i]);
	refused(out, "rpc", "version", c->refused_version);
	refused(out, "rpc", "does not read", c->refused_slow);
	refused(out, "rpc", "unknown client", c->refused_unknown);
	refused(out, "rpc", "impossible epoch", c->refused_epoch);
	refused(out, "rpc", "later epoch, for now", c->refused_early);
	for (int i = 0; i < TEI_HTTP_REFUSALS; i++)
		refused(out, "http", http[i], c->refused_http[i]);
}

static void state_metrics(const struct tes_server *s,
			  const struct tes_core_figures *f,
			  struct evbuffer *out)
{
	const struct {
		const char *name, *help;
		uint64_t value;
	} gauges[] = {
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

	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
		one(out, "gauge", gauges[i].name, gauges[i].help,
		    gauges[i].value);
}

/* A counter that is read from a struct of counters. */
struct counter_row {
	const char *name, *help;
	size_t at; /* of its uint64_t in the struct */
};

#define OF_CORE(field)   offsetof(struct tes_core_figures, field)
#define OF_SERVER(field) offsetof(struct tes_server_counters, field)

static const struct counter_row core_rows[] = {
	{"master_attempted_evictions_total", "times that room was to be made",
	 OF_CORE(evictions_attempted_total)},
	{"master_successful_evictions_total", "of these, it was",
	 OF_CORE(evictions_successful_total)},
	{"master_evicted_key_count", "objects evicted",
	 OF_CORE(evicted_objects_total)},
	{"master_evicted_size_bytes", "bytes evicted",
	 OF_CORE(evicted_bytes_total)},
	{"master_evicted_key_count_mem", "the same, from memory",
	 OF_CORE(evicted_objects_total)},
	{"master_evicted_size_bytes_mem", "the same, from memory",
	 OF_CORE(evicted_bytes_total)},
	{"master_attempted_evictions_mem", "the same, from memory",
	 OF_CORE(evictions_attempted_total)},
	{"master_successful_evictions_mem", "the same, from memory",
	 OF_CORE(evictions_successful_total)},
	{"te_master_dropped_key_count", "objects lost with owners",
	 OF_CORE(dropped_objects_total)},
	{"master_put_start_alloc_failures_total",
	 "puts that found the pool full", OF_CORE(alloc_failures_total)},
	{"master_put_start_partial_allocations_total",
	 "puts that got fewer replicas than asked for",
	 OF_CORE(partial_puts_total)},
	{"te_master_lost_replicas_total",
	 "replicas lost with owners, of objects that have others",
	 OF_CORE(lost_replicas_total)},
	{"te_master_remade_replicas_total", "of these, made again",
	 OF_CORE(replicas_remade_total)},
	{"te_master_given_up_replicas_total",
	 "of these, not made again: no room, or no owner to copy from",
	 OF_CORE(replicas_given_up_total)},
	{"te_master_succeeded_tasks_total", "copies and moves that are done",
	 OF_CORE(tasks_succeeded_total)},
	{"te_master_failed_tasks_total", "those that failed",
	 OF_CORE(tasks_failed_total)},
	{"te_master_late_tasks_total",
	 "answers to tasks that had been given up", OF_CORE(tasks_late_total)},
	{"te_master_succeeded_drains_total",
	 "drains that left their segments empty",
	 OF_CORE(drains_succeeded_total)},
	{"te_master_failed_drains_total", "those that could not",
	 OF_CORE(drains_failed_total)},
	{"te_master_cancelled_drains_total", "those given up",
	 OF_CORE(drains_canceled_total)},
	{"te_master_drained_replicas_total", "replicas that drains have moved",
	 OF_CORE(drained_objects_total)},
	{"te_master_drained_bytes_total", "bytes of these",
	 OF_CORE(drained_bytes_total)},
	{"te_master_heat_proposed_total",
	 "objects that are read so much that a replica is worth it",
	 OF_CORE(hot_proposed_total)},
	{"te_master_heat_refused_total",
	 "of these, for which there was no room or no task",
	 OF_CORE(hot_refused_total)},
	{"te_master_heat_made_total", "replicas made for them",
	 OF_CORE(hot_made_total)},
	{"te_master_heat_failed_total", "replicas that could not be made",
	 OF_CORE(hot_failed_total)},
	{"te_master_heat_given_back_total",
	 "replicas given back because nobody read them any more",
	 OF_CORE(hot_given_back_total)},
	{"master_put_start_discard_cnt", "puts that were given up",
	 OF_CORE(discarded_puts_total)},
	{"te_master_late_put_end_total", "ends of puts that had been given up",
	 OF_CORE(late_ends_total)},
	{"te_master_fences_total", "writers fenced", OF_CORE(fences_total)},
	{"te_master_fences_failed_total", "fences that owners did not confirm",
	 OF_CORE(fences_failed_total)},
	{"te_master_reports_total", "owners said by clients not to answer",
	 OF_CORE(reports_total)},
	{"te_master_probes_total", "owners asked for that reason",
	 OF_CORE(probes_total)},
	{"te_master_probes_failed_total",
	 "that did not answer the master either", OF_CORE(probes_failed_total)},
};

static const struct counter_row server_rows[] = {
	{"total_get_nums_", "keys looked up", OF_SERVER(lookup_keys)},
	{"valid_get_nums_", "keys looked up and there", OF_SERVER(lookup_hits)},
	{"mem_cache_hit_nums_", "keys found in memory", OF_SERVER(lookup_hits)},
	{"mem_cache_hit_bytes_total", "bytes of these",
	 OF_SERVER(lookup_hit_bytes)},
	{"te_master_steps_failed_total", "requests refused for want of memory",
	 OF_SERVER(steps_failed)},
};

/* Prints @n counters of the struct @from. */
static void print_rows(struct evbuffer *out, const struct counter_row *rows,
		       size_t n, const void *from)
{
	for (size_t i = 0; i < n; i++)
		one(out, "counter", rows[i].name, rows[i].help,
		    *(const uint64_t *)((const char *)from + rows[i].at));
}

static void event_metrics(const struct tes_server *s,
			  const struct tes_core_figures *f,
			  struct evbuffer *out)
{
	print_rows(out, core_rows, sizeof(core_rows) / sizeof(core_rows[0]), f);
	print_rows(out, server_rows,
		   sizeof(server_rows) / sizeof(server_rows[0]), &s->counters);
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

	server_metric_head(out, name, "histogram",
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

/*
 * Figures of each segment and of each tenant.
 *
 * Several mounts may bear one name; their figures are added up, because one
 * series may appear only once.
 */

#define LINES_MAX 512 /* of a piece: a third of a millisecond */

/*
 * Returns how many bytes of @value are one character of a label, put at @out.
 */
static size_t label_one(const char *value, char out[4], size_t *n)
{
	size_t len = tei_utf8_len(value, strnlen(value, 4));

	*n = 0;
	if (*value == '\\' || *value == '"' || *value == '\n')
		out[(*n)++] = '\\';
	if (len > 1) {
		memcpy(out, value, len);
		*n = len;
	} else if (!len) {
		out[(*n)++] = '?';
	} else {
		out[(*n)++] = (char)(*value == '\n' ? 'n' : *value);
	}
	return len ? len : 1;
}

void tes_server_label(const char *value, char *out, size_t room)
{
	size_t at = 0, n, len;
	char one[4];

	for (; *value; value += len, at += n) {
		len = label_one(value, one, &n);
		if (at + n + 1 > room)
			break;
		memcpy(&out[at], one, n);
	}
	out[at] = '\0';
}

/* ---- segments ---- */

struct tes_server_sum {
	const char *name;
	uint64_t used, size;
};

static int by_name(const void *a, const void *b)
{
	const struct tes_server_sum *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int add_sum(struct tes_server_metrics *m,
		   const struct tes_core_segment *segment)
{
	size_t room = strlen(segment->name) + 1;
	char *name = tei_arena_alloc(&m->names, room);

	if (!name)
		return -ENOMEM;
	m->sums[m->n_sums++] = (struct tes_server_sum){
		memcpy(name, segment->name, room),
		segment->used,
		segment->size,
	};
	return 0;
}

/* Live segments as they are now; no text yet. */
static int collect_part(struct tes_server_metrics *m, struct evbuffer *out)
{
	struct tes_core_segment segment;
	size_t cursor = 0;

	(void)out;
	m->sums = tei_calloc(TES_CORE_MOUNTS_MAX, sizeof(*m->sums));
	if (!m->sums)
		return -ENOMEM;
	while (m->n_sums < TES_CORE_MOUNTS_MAX &&
	       tes_core_segment_next(m->server->core, &cursor, &segment))
		if (!segment.suspect && add_sum(m, &segment))
			return -ENOMEM;
	return 0;
}

static int sum_part(struct tes_server_metrics *m, struct evbuffer *out)
{
	struct tes_server_sum *sums = m->sums;
	size_t n = 0;

	(void)out;
	qsort(sums, m->n_sums, sizeof(*sums), by_name);
	for (size_t i = 0; i < m->n_sums; i++) {
		if (n && !strcmp(sums[n - 1].name, sums[i].name)) {
			sums[n - 1].used += sums[i].used;
			sums[n - 1].size += sums[i].size;
		} else {
			sums[n++] = sums[i];
		}
	}
	m->n_sums = n;
	return 0;
}

static int segments_part(struct tes_server_metrics *m, struct evbuffer *out)
{
	static const struct {
		const char *name, *help;
	} series[] = {
		{"segment_allocated_bytes", "memory of a segment in use"},
		{"segment_total_capacity_bytes", "memory of a segment"},
	};
	const char *name = series[m->series].name;
	char label[TES_SERVER_LABEL_ROOM];

	if (!m->at)
		server_metric_head(out, name, "gauge", series[m->series].help);
	for (int i = 0; i < LINES_MAX && m->at < m->n_sums; i++, m->at++) {
		const struct tes_server_sum *sum = &m->sums[m->at];

		tes_server_label(sum->name, label, sizeof(label));
		evbuffer_add_printf(out, "%s{segment=\"%s\"} %" PRIu64 "\n",
				    name, label,
				    m->series ? sum->size : sum->used);
	}
	if (m->at < m->n_sums)
		return 1;
	m->at = 0;
	return ++m->series < sizeof(series) / sizeof(series[0]);
}

/* ---- tenants ---- */

static void tenant_line(struct evbuffer *out, const char *name, size_t series,
			const struct tes_core_tenant *t)
{
	const uint64_t values[] = {t->charged, t->effective,
				   t->evicted_bytes_total, t->rejects_total};
	char label[TES_SERVER_LABEL_ROOM];

	tes_server_label(t->name, label, sizeof(label));
	evbuffer_add_printf(out, "%s{tenant=\"%s\"} %" PRIu64 "\n", name, label,
			    values[series]);
}

static int tenants_part(struct tes_server_metrics *m, struct evbuffer *out)
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
	bool on = m->server->settings.enable_multi_tenants;
	const char *name = series[m->series].name;
	struct tes_core_tenant t;

	if (!m->at)
		server_metric_head(out, name, series[m->series].type,
				   series[m->series].help);
	for (int i = 0; i < LINES_MAX; i++) {
		if (!on || !tes_core_tenant_next(m->server->core, &m->at, &t)) {
			m->at = 0;
			return ++m->series < sizeof(series) / sizeof(series[0]);
		}
		tenant_line(out, name, m->series, &t);
	}
	return 1;
}

/*
 * Figures of where requests spend their time.
 */

static const char *const phases[TES_SERVER_PHASES] = {
	[TES_SERVER_QUEUE] = "queue",
	[TES_SERVER_DECODE] = "decode",
	[TES_SERVER_STEP] = "step",
	[TES_SERVER_ENCODE] = "encode",
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
	[STORE__STORE_TYPE__STORE_DRAIN] = "drain",
};

/* @labels: "a=\"b\"" or "". */
static void histogram(struct evbuffer *out, const char *name,
		      const char *labels, const struct tes_histogram *h)
{
	const char *comma = *labels ? "," : "";
	char braced[80] = "";
	uint64_t sum = 0;

	if (*labels)
		snprintf(braced, sizeof(braced), "{%s}", labels);
	for (unsigned int i = 0; i < TES_HISTOGRAM_BUCKETS - 1; i++) {
		sum += h->n[i];
		evbuffer_add_printf(
			out, "%s_bucket{%s%sle=\"%.9f\"} %" PRIu64 "\n", name,
			labels, comma,
			(double)(1ull << (TES_HISTOGRAM_FIRST_BITS + i)) / 1e9,
			sum);
	}
	sum += h->n[TES_HISTOGRAM_BUCKETS - 1];
	evbuffer_add_printf(out,
			    "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n"
			    "%s_sum%s %.9f\n%s_count%s %" PRIu64 "\n",
			    name, labels, comma, sum, name, braced,
			    (double)h->sum_ns / 1e9, name, braced, sum);
}

static bool is_empty(const struct tes_histogram *h)
{
	for (unsigned int i = 0; i < TES_HISTOGRAM_BUCKETS; i++)
		if (h->n[i])
			return false;
	return true;
}

static bool add_type(const struct tes_server_timing *t, int type,
		     struct evbuffer *out)
{
	char labels[64];
	bool any = false;

	for (int i = 0; types[type] && i < TES_SERVER_PHASES; i++) {
		const struct tes_histogram *h = &t->phases[type][i];

		if (is_empty(h))
			continue;
		snprintf(labels, sizeof(labels), "type=\"%s\",phase=\"%s\"",
			 types[type], phases[i]);
		histogram(out, "te_master_phase_seconds", labels, h);
		any = true;
	}
	return any;
}

static int timing_part(struct tes_server_metrics *m, struct evbuffer *out)
{
	const struct tes_server_timing *t = &m->server->timing;

	if (!m->at)
		server_metric_head(
			out, "te_master_phase_seconds", "histogram",
			"time of a request in queue, decode, step and encode, "
			"of a random share of all");
	while (m->at < TEI_FRAME_TYPES)
		if (add_type(t, (int)m->at++, out))
			return 1;
	server_metric_head(out, "te_master_turn_seconds", "histogram",
			   "what one wake-up of the loop brought, from its "
			   "first request to its end, of a random share of "
			   "all");
	histogram(out, "te_master_turn_seconds", "", &t->turns);
	server_metric_head(out, "te_master_turn_cpu_seconds", "histogram",
			   "CPU time of the loop's turns; those of less than "
			   "0.1 ms are counted several at a time");
	histogram(out, "te_master_turn_cpu_seconds", "", &t->cpu);
	server_metric_head(out, "te_master_turn_cpu_max_us", "gauge",
			   "the longest of them since this page was asked for "
			   "before");
	evbuffer_add_printf(out, "te_master_turn_cpu_max_us %" PRIu64 "\n",
			    m->cpu_max_ns / 1000);
	return 0;
}

static metrics_part *const parts[] = {
	state_part,   collect_part, sum_part,    segments_part,
	tenants_part, event_part,   timing_part,
};

struct tes_server_metrics *tes_server_metrics_new(struct tes_server *s)
{
	struct tes_server_metrics *m = tei_calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->server = s;
	m->cpu_max_ns = s->timing.cpu_max_ns;
	s->timing.cpu_max_ns = 0;
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
