/* SPDX-License-Identifier: Apache-2.0 */
/* http.c - a client's HTTP port: is it well, and what has it done */
#include "store/api/http.h"

#include <inttypes.h>
#include <stddef.h>

#include <event2/buffer.h>

#include "base/http_page.h"
#include "base/log.h"
#include "store/client/client.h"

#define ROW(field) offsetof(struct te_store_stats, field)

static const struct {
	const char *name, *type, *help;
	size_t at; /* in struct te_store_stats */
} rows[] = {
	{"te_store_location_hits_total", "counter",
	 "keys read from where they were remembered to be", ROW(location_hits)},
	{"te_store_location_misses_total", "counter",
	 "keys whose place was not remembered", ROW(location_misses)},
	{"te_store_location_stale_total", "counter",
	 "keys that were not there any more", ROW(location_stale)},
	{"te_store_location_bytes", "gauge", "memory of what is remembered",
	 ROW(location_bytes)},
	{"te_store_put_retries_total", "counter",
	 "keys of puts that were tried again", ROW(put_retries)},
	{"te_store_hot_hits_total", "counter",
	 "keys whose bytes came from the hot cache", ROW(hot_hits)},
	{"te_store_hot_misses_total", "counter",
	 "keys of other owners that were not in it", ROW(hot_misses)},
	{"te_store_hot_added_total", "counter", "values that came into it",
	 ROW(hot_added)},
	{"te_store_hot_evicted_total", "counter",
	 "values that had to go for others", ROW(hot_evicted)},
	{"te_store_hot_bytes", "gauge", "memory of the hot cache",
	 ROW(hot_bytes)},
};

static int health(const struct tei_http_request *request,
		  struct tei_http_reply *reply, void *arg)
{
	(void)request;
	return tei_http_health(reply, te_store_health(arg) == 0,
			       "the master is not reached");
}

static int metrics(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	struct te_store_stats stats;
	struct te_store *store = arg;

	(void)request;
	te_store_stats(store, &stats);
	reply->type = TEI_HTTP_METRICS_TYPE;
	tei_http_metric(reply->body, "te_store_healthy", "gauge",
			"1: in the pool", te_store_health(store) == 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		tei_http_metric(
			reply->body, rows[i].name, rows[i].type, rows[i].help,
			*(const uint64_t *)((const char *)&stats + rows[i].at));
	return 200;
}

static int summary(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	struct te_store_stats s;
	struct te_store *store = arg;

	(void)request;
	te_store_stats(store, &s);
	(void)evbuffer_add_printf(
		reply->body,
		"Client Metrics: %s | Places: hits=%" PRIu64 ", misses=%" PRIu64
		", stale=%" PRIu64 " | Hot cache: hits=%" PRIu64
		", misses=%" PRIu64 ", %" PRIu64
		" bytes | Put retries: %" PRIu64 "\n",
		te_store_health(store) ? "not in the pool" : "healthy",
		s.location_hits, s.location_misses, s.location_stale,
		s.hot_hits, s.hot_misses, s.hot_bytes, s.put_retries);
	return 200;
}

static const struct tei_http_route routes[] = {
	{TEI_HTTP_GET, "/health", health},
	{TEI_HTTP_GET, "/metrics", metrics},
	{TEI_HTTP_GET, "/metrics/summary", summary},
};

int tes_store_http_start(struct te_store *store, uint16_t port, bool insecure,
			 const char *allow_host)
{
	const struct tei_http_config config = {
		.what = "HTTP port of the client",
		.port = port,
		.insecure = insecure,
		.allow_host = allow_host,
		.routes = routes,
		.n_routes = sizeof(routes) / sizeof(routes[0]),
		.arg = store,
		.refused = store->http_refused,
	};
	uint16_t bound;
	int rc =
		tei_http_start_from(store->loop, &config, &bound, &store->http);

	if (!rc)
		LOG_INFO("store: HTTP port %u", bound);
	return rc;
}
