/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.c - what the admin HTTP port answers
 *
 * Here are the pages about the master itself, and the table of all.
 */
#include "store/server/admin.h"

#include <event2/buffer.h>

#include <te/version.h>

#include "base/clock.h"
#include "base/net.h"
#include "store/server/admin_reply.h"
#include "store/server/metrics.h"
#include "store/server/state.h"
#include "store/server/summary.h"

/* The configured address of this master, for clients that came by HTTP. */
static void leader_address(const struct tes_server *s,
			   char out[TEI_NAME_LEN_MAX + 1])
{
	tei_name_join(s->settings.rpc_address, s->rpc_port, out);
}

static int health(const struct tei_http_request *request,
		  struct tei_http_reply *reply, void *arg)
{
	char address[TEI_NAME_LEN_MAX + 1];
	const struct tes_server *s = arg;

	(void)request;
	leader_address(s, address);
	return tes_server_admin_json(
		reply, 200,
		json_pack("{s:s,s:s,s:s,s:b,s:o,s:i,s:s,s:I,s:I}", "status",
			  "ok", "role", "leader", "ha_state", "disabled",
			  "service_ready", 1, "leader_address",
			  tes_server_admin_string(address), "view_version", 0,
			  "version", TE_VERSION, "epoch", (json_int_t)s->epoch,
			  "uptime_ms",
			  (json_int_t)(tei_now_ms() - s->started_ms)));
}

static int role(const struct tei_http_request *request,
		struct tei_http_reply *reply, void *arg)
{
	(void)request;
	(void)arg;
	evbuffer_add_printf(reply->body, "leader\n");
	return 200;
}

static int ha_status(const struct tei_http_request *request,
		     struct tei_http_reply *reply, void *arg)
{
	(void)request;
	(void)arg;
	evbuffer_add_printf(reply->body, "disabled\n");
	return 200;
}

static int leader(const struct tei_http_request *request,
		  struct tei_http_reply *reply, void *arg)
{
	char address[TEI_NAME_LEN_MAX + 1];

	(void)request;
	leader_address(arg, address);
	evbuffer_add_printf(reply->body, "%s\n", address);
	return 200;
}

static int kv_events(const struct tei_http_request *request,
		     struct tei_http_reply *reply, void *arg)
{
	const struct tes_server *s = arg;
	struct tes_events_figures f;

	(void)request;
	tes_events_figures(s->events, &f);
	return tes_server_admin_json(
		reply, 200,
		json_pack("{s:b,s:I,s:I,s:I,s:I,s:I,s:I}", "enabled", f.enabled,
			  "published_batches", (json_int_t)f.batches,
			  "published_events", (json_int_t)f.events,
			  "dropped_events", (json_int_t)f.dropped,
			  "skipped_unparsed_keys", (json_int_t)f.unparsed,
			  "last_sequence", (json_int_t)f.sequence,
			  "queued_events", (json_int_t)f.queued));
}

static int metrics(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	(void)request;
	reply->state = tes_server_metrics_new(arg);
	if (!reply->state)
		return 500;
	reply->type = "text/plain; version=0.0.4; charset=utf-8";
	reply->more = tes_server_metrics_more;
	reply->done = tes_server_metrics_free;
	return 200;
}

static int summary(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	(void)request;
	tes_server_summary(arg, reply->body);
	return 200;
}

const struct tei_http_route tes_server_routes[] = {
	{TEI_HTTP_GET, "/health", health},
	{TEI_HTTP_GET, "/role", role},
	{TEI_HTTP_GET, "/ha_status", ha_status},
	{TEI_HTTP_GET, "/leader", leader},
	{TEI_HTTP_GET, "/metrics", metrics},
	{TEI_HTTP_GET, "/metrics/summary", summary},
	{TEI_HTTP_GET, "/kv_events/status", kv_events},
	{TEI_HTTP_GET, "/query_key", tes_server_admin_query_key},
	{TEI_HTTP_GET, "/batch_query_keys", tes_server_admin_query_keys},
	{TEI_HTTP_GET, "/get_all_keys", tes_server_admin_all_keys},
	{TEI_HTTP_GET, "/get_all_segments", tes_server_admin_segment_names},
	{TEI_HTTP_GET, "/get_segments_detail",
	 tes_server_admin_segments_detail},
	{TEI_HTTP_GET, "/query_segment", tes_server_admin_segment},
	{TEI_HTTP_GET, "/api/v1/segments/status",
	 tes_server_admin_segment_status},
	{TEI_HTTP_POST, "/api/v1/remove_all", tes_server_admin_remove_all},
	{TEI_HTTP_POST, "/api/v1/drain_jobs", tes_server_admin_drain},
	{TEI_HTTP_GET, "/api/v1/drain_jobs/query",
	 tes_server_admin_query_drain},
	{TEI_HTTP_POST, "/api/v1/drain_jobs/cancel",
	 tes_server_admin_cancel_drain},
	{TEI_HTTP_GET, "/api/v1/tenant_quotas", tes_server_admin_quotas},
	{TEI_HTTP_PUT, "/api/v1/tenant_quotas", tes_server_admin_set_quota},
	{TEI_HTTP_DELETE, "/api/v1/tenant_quotas",
	 tes_server_admin_unset_quota},
};
const size_t tes_server_n_routes =
	sizeof(tes_server_routes) / sizeof(tes_server_routes[0]);
