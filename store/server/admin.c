/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.c - what the admin HTTP port answers
 *
 * Nothing here tells who the clients are: figures only, and the names that
 * owners gave their segments.
 */
#include "store/server/admin.h"

#include <inttypes.h>
#include <string.h>

#include <event2/buffer.h>

#include <te/version.h>

#include "base/clock.h"
#include "store/server/http.h"
#include "store/server/metrics.h"
#include "store/server/state.h"

static void health(struct tei_server *s, struct tei_server_http_reply *reply)
{
	reply->type = "application/json";
	evbuffer_add_printf(
		reply->body,
		"{\"status\":\"ok\",\"role\":\"leader\",\"ha_state\":"
		"\"disabled\",\"service_ready\":true,\"view_version\":0,"
		"\"version\":\"%s\",\"epoch\":%" PRIu64
		",\"uptime_ms\":%" PRIu64 "}\n",
		TE_VERSION, s->epoch, tei_now_ms() - s->started_ms);
}

static void segment_names(struct tei_server *s, struct evbuffer *out)
{
	struct tei_core_segment segment;
	size_t cursor = 0;

	while (tei_core_segment_next(s->core, &cursor, &segment))
		if (!segment.suspect)
			evbuffer_add_printf(out, "%s\n", segment.name);
}

int tei_server_admin_get(const char *path, struct tei_server_http_reply *reply,
			 void *arg)
{
	struct tei_server *s = arg;

	if (!strcmp(path, "/health")) {
		health(s, reply);
	} else if (!strcmp(path, "/metrics")) {
		reply->type = "text/plain; version=0.0.4; charset=utf-8";
		tei_server_metrics(s, reply->body);
	} else if (!strcmp(path, "/metrics/summary")) {
		tei_server_summary(s, reply->body);
	} else if (!strcmp(path, "/get_all_segments")) {
		segment_names(s, reply->body);
	} else {
		evbuffer_add_printf(reply->body, "no such page; there are "
						 "/health, /metrics, "
						 "/metrics/summary, "
						 "/get_all_segments\n");
		return 404;
	}
	return 200;
}
