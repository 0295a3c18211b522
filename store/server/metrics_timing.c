/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_timing.c - figures of where requests spend their time
 */
#include <inttypes.h>
#include <stdio.h>

#include <event2/buffer.h>

#include "store/proto/store.pb-c.h"
#include "store/server/metrics_parts.h"
#include "store/server/state.h"

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

int tes_server_metrics_timing(struct tes_server_metrics *m,
			      struct evbuffer *out)
{
	const struct tes_server_timing *t = &m->server->timing;

	if (!m->at)
		tes_server_metric_head(
			out, "te_master_phase_seconds", "histogram",
			"time of a request in queue, decode, step and encode, "
			"of a random share of all");
	while (m->at < TEI_FRAME_TYPES)
		if (add_type(t, (int)m->at++, out))
			return 1;
	tes_server_metric_head(out, "te_master_turn_seconds", "histogram",
			       "what one wake-up of the loop brought, from its "
			       "first request to its end, of a random share of "
			       "all");
	histogram(out, "te_master_turn_seconds", "", &t->turns);
	return 0;
}
