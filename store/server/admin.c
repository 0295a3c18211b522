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
#include "base/http.h"
#include "store/server/metrics.h"
#include "store/server/state.h"
#include "store/server/summary.h"

static int health(const struct tei_http_request *request,
		  struct tei_http_reply *reply, void *arg)
{
	const struct tei_server *s = arg;

	(void)request;
	reply->type = "application/json";
	evbuffer_add_printf(
		reply->body,
		"{\"status\":\"ok\",\"role\":\"leader\",\"ha_state\":"
		"\"disabled\",\"service_ready\":true,\"view_version\":0,"
		"\"version\":\"%s\",\"epoch\":%" PRIu64
		",\"uptime_ms\":%" PRIu64 "}\n",
		TE_VERSION, s->epoch, tei_now_ms() - s->started_ms);
	return 200;
}

static int metrics(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	(void)request;
	reply->type = "text/plain; version=0.0.4; charset=utf-8";
	tei_server_metrics(arg, reply->body);
	return 200;
}

static int summary(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	(void)request;
	tei_server_summary(arg, reply->body);
	return 200;
}

static int segment_names(const struct tei_http_request *request,
			 struct tei_http_reply *reply, void *arg)
{
	const struct tei_server *s = arg;
	struct tei_core_segment segment;
	size_t cursor = 0;

	(void)request;
	while (tei_core_segment_next(s->core, &cursor, &segment))
		if (!segment.suspect)
			evbuffer_add_printf(reply->body, "%s\n", segment.name);
	return 200;
}

const struct tei_http_route tei_server_routes[] = {
	{TEI_HTTP_GET, "/health", health},
	{TEI_HTTP_GET, "/metrics", metrics},
	{TEI_HTTP_GET, "/metrics/summary", summary},
	{TEI_HTTP_GET, "/get_all_segments", segment_names},
};
const size_t tei_server_n_routes =
	sizeof(tei_server_routes) / sizeof(tei_server_routes[0]);
