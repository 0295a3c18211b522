/* SPDX-License-Identifier: Apache-2.0 */
/* http.c - a client's HTTP port: is it well, and what has it done */
#include "store/client/http.h"

#include <inttypes.h>
#include <stddef.h>

#include <event2/buffer.h>

#include "base/http.h"
#include "base/log.h"
#include "base/loop.h"
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

static void metric(struct evbuffer *out, const char *name, const char *type,
		   const char *help, uint64_t value)
{
	(void)evbuffer_add_printf(
		out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help,
		name, type, name, value);
}

static int health(const struct tei_http_request *request,
		  struct tei_http_reply *reply, void *arg)
{
	bool well = te_store_health(arg) == 0;

	(void)request;
	(void)evbuffer_add_printf(reply->body, "%s\n",
				  well ? "OK" : "the master is not reached");
	return well ? 200 : 503;
}

static int metrics(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	struct te_store_stats stats;
	struct te_store *store = arg;

	(void)request;
	te_store_stats(store, &stats);
	reply->type = "text/plain; version=0.0.4; charset=utf-8";
	metric(reply->body, "te_store_healthy", "gauge", "1: in the pool",
	       te_store_health(store) == 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		metric(reply->body, rows[i].name, rows[i].type, rows[i].help,
		       *(const uint64_t *)((const char *)&stats + rows[i].at));
	return 200;
}

static const struct tei_http_route routes[] = {
	{TEI_HTTP_GET, "/health", health},
	{TEI_HTTP_GET, "/metrics", metrics},
};

struct start {
	struct te_store *store;
	struct tei_http_config config;
	uint16_t port;
	int rc;
};

static void start(void *arg)
{
	struct start *s = arg;

	s->rc = tei_http_start(s->store->loop, &s->config, &s->port,
			       &s->store->http);
}

int tei_store_http_start(struct te_store *store, uint16_t port, bool insecure)
{
	struct start s = {
		.store = store,
		.config =
			{
				.what = "HTTP port of the client",
				.port = port,
				.insecure = insecure,
				.routes = routes,
				.n_routes = sizeof(routes) / sizeof(routes[0]),
				.arg = store,
				.refused = store->http_refused,
			},
	};

	(void)tei_loop_do(store->loop, start, &s);
	if (!s.rc)
		LOG_INFO("store: HTTP port %u", s.port);
	return s.rc;
}
