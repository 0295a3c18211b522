/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summary.c - the master's figures in one line, as Mooncake's master logs them
 *
 * Rates are those since the last sample that is not brand-new; a sample is
 * taken whenever the line is logged.
 */
#include "store/server/summary.h"

#include <errno.h>
#include <inttypes.h>

#include <event2/buffer.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "store/server/admin_reply.h"
#include "store/server/state.h"

#define PERIOD_MS 10000
#define FRESH_MS  1000 /* too short a time to tell a rate */

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

static void bytes(struct evbuffer *out, uint64_t n)
{
	char text[TES_SERVER_BYTES_ROOM];

	tes_server_bytes(n, text);
	evbuffer_add_printf(out, "%s", text);
}

static const struct tes_server_sample *before(const struct tes_server *s,
					      uint64_t now_ms)
{
	bool fresh = now_ms - s->samples[0].ms < FRESH_MS;

	return &s->samples[fresh ? 1 : 0];
}

static const struct op {
	enum tes_server_op op;
	const char *name;
} ops[] = {
	{TES_SERVER_OP_PUT_START, "PutStart"},
	{TES_SERVER_OP_PUT_END, "PutEnd"},
	{TES_SERVER_OP_PUT_REVOKE, "PutRevoke"},
	{TES_SERVER_OP_LOOKUP, "Get"},
	{TES_SERVER_OP_EXIST, "Exist"},
	{TES_SERVER_OP_REMOVE, "Del"},
	{TES_SERVER_OP_REMOVE_ALL, "DelAll"},
	{TES_SERVER_OP_PING, "Ping"},
};

#define N_OPS       (sizeof(ops) / sizeof(ops[0]))
#define N_BATCH_OPS (N_OPS - 2) /* not of the last two */

/* "PutStart=12.0/12.5": succeeded and all, a second. */
static void singles(struct evbuffer *out, const struct tes_server *s,
		    const struct tes_server_sample *then, double seconds)
{
	evbuffer_add_printf(out, " | Requests (Success/Total per sec):");
	for (size_t i = 0; i < N_OPS; i++) {
		const struct tes_server_op_count *now, *old;
		double all, failed;

		now = &s->counters.op[ops[i].op];
		old = &then->op[ops[i].op];
		all = (double)(now->requests - old->requests);
		failed = (double)(now->failures - old->failures);
		evbuffer_add_printf(out, "%s %s=%.1f/%.1f", i ? "," : "",
				    ops[i].name, (all - failed) / seconds,
				    all / seconds);
	}
}

/* Succeeded, succeeded in part and all calls; keys of them; a second. */
static void batches(struct evbuffer *out, const struct tes_server *s,
		    const struct tes_server_sample *then, double seconds)
{
	evbuffer_add_printf(out,
			    " | Batch Requests (Req=Success/PartialSuccess/"
			    "Total, Item=Success/Total per sec):");
	for (size_t i = 0; i < N_BATCH_OPS; i++) {
		const struct tes_server_op_count *now, *old;
		double all, bad, part, items, lost;

		now = &s->counters.op[ops[i].op];
		old = &then->op[ops[i].op];
		all = (double)(now->batches - old->batches);
		bad = (double)(now->batch_failures - old->batch_failures);
		part = (double)(now->batch_partial - old->batch_partial);
		items = (double)(now->items - old->items);
		lost = (double)(now->items_failed - old->items_failed);
		evbuffer_add_printf(
			out, "%s %s:(Req=%.1f/%.1f/%.1f, Item=%.1f/%.1f)",
			i ? "," : "", ops[i].name, (all - bad - part) / seconds,
			part / seconds, all / seconds, (items - lost) / seconds,
			items / seconds);
	}
}

void tes_server_summary(const struct tes_server *s, struct evbuffer *out)
{
	const struct tes_server_counters *c = &s->counters;
	uint64_t now_ms = tei_now_ms();
	const struct tes_server_sample *then = before(s, now_ms);
	double seconds = (double)(now_ms - then->ms + 1) / 1000;
	struct tes_core_figures f;

	tes_core_figures(s->core, &f);
	evbuffer_add_printf(out, "Mem Storage: ");
	bytes(out, f.used_bytes);
	evbuffer_add_printf(out, " / ");
	bytes(out, f.capacity_bytes);
	evbuffer_add_printf(out,
			    " (%.1f%%) | Keys: %" PRIu64
			    " (soft-pinned: %" PRIu64 ") | Clients: %" PRIu64,
			    percent(f.used_bytes, f.capacity_bytes), f.objects,
			    f.soft_pinned, f.sessions - f.suspects);
	singles(out, s, then, seconds);
	batches(out, s, then, seconds);
	evbuffer_add_printf(
		out,
		" | Hits: %.1f%% | Eviction: Success/Attempts=%" PRIu64
		"/%" PRIu64 ", AllocFail=%" PRIu64 ", keys=%" PRIu64 ", size=",
		percent(c->lookup_hits, c->lookup_keys),
		f.evictions_successful_total, f.evictions_attempted_total,
		f.alloc_failures_total, f.evicted_objects_total);
	bytes(out, f.evicted_bytes_total);
	evbuffer_add_printf(out, " | Discard: %" PRIu64 "\n",
			    f.discarded_puts_total);
}

static void take_sample(struct tes_server *s)
{
	struct tes_server_sample *sample = &s->samples[0];

	s->samples[1] = *sample;
	sample->ms = tei_now_ms();
	for (int i = 0; i < TES_SERVER_OPS; i++)
		sample->op[i] = s->counters.op[i];
}

static void on_period(void *arg)
{
	struct tes_server *s = arg;
	struct evbuffer *line = evbuffer_new();

	if (!line)
		return;
	tes_server_summary(s, line);
	evbuffer_add(line, "", 1);
	/* "Mem " is on the page only. */
	if (s->settings.enable_metric_reporting)
		LOG_INFO("Master Metrics: %.*s",
			 (int)evbuffer_get_length(line) - 6,
			 (char *)evbuffer_pullup(line, -1) + 4);
	evbuffer_free(line);
	take_sample(s);
}

int tes_server_summary_start(struct tes_server *s)
{
	take_sample(s);
	take_sample(s);
	s->reporter = tei_timer_start(s->loop, PERIOD_MS, true, on_period, s);
	return s->reporter ? 0 : -ENOMEM;
}
