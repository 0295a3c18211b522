/* SPDX-License-Identifier: Apache-2.0 */
/* agent.c - life of the agent: start, stop */
#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/http.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/daemon/agent_private.h"

_Static_assert(TEI_HTTP_REFUSALS <= 8, "they fit agent->http_refused");

#define REFUSALS_A_MINUTE 6 /* lines of the log */

struct open {
	struct tes_agent *agent;
	const struct tes_agent_config *config;
	int rc;
};

/* The port first: the socket is named after it. */
static void open_all(void *arg)
{
	struct open *open = arg;

	open->rc = tes_where_open(open->agent, open->config);
	if (open->rc)
		return;
	open->rc = tes_door_find(open->agent, open->config);
	if (!open->rc)
		open->rc = tes_door_open(open->agent);
	if (open->rc)
		tes_where_close(open->agent);
}

static void shut(void *arg)
{
	struct tes_agent *agent = arg;

	tes_where_close(agent);
	tes_door_close(agent);
	tei_http_stop(agent->http);
	agent->http = NULL;
}

static void end_sessions(void *arg)
{
	tes_sessions_clear(arg);
}

static void destroy(struct tes_agent *agent)
{
	tei_cond_fini(&agent->work);
	tei_mutex_fini(&agent->mu);
	tei_free(agent);
}

static int start_agent(struct tes_agent *agent,
		       const struct tes_agent_config *config)
{
	struct open open = {.agent = agent, .config = config};
	int rc = tei_loop_create("te-agent-loop", &agent->loop);

	if (rc)
		return rc;
	rc = tes_workers_start(agent, config->n_threads);
	if (rc)
		goto err_loop;
	(void)tei_loop_do(agent->loop, open_all, &open);
	rc = open.rc;
	if (!rc)
		return 0;
	(void)tes_workers_quiet(agent, UINT64_MAX);
	tes_workers_join(agent);
err_loop:
	tei_loop_stop(agent->loop);
	tei_loop_destroy(agent->loop);
	assert(rc < 0);
	return rc;
}

int tes_agent_start(const struct tes_agent_config *config,
		    struct tes_agent **out)
{
	struct tes_agent *agent = tei_calloc(1, sizeof(*agent));
	int rc;

	if (!agent)
		return -ENOMEM;
	agent->store = config->store;
	agent->memory_max = config->memory_max;
	agent->budget.max = config->buffers_max;
	agent->memory_each_max = config->memory_each_max
					 ? config->memory_each_max
					 : config->memory_max;
	agent->listener = -1;
	agent->refusals.per_minute = REFUSALS_A_MINUTE;
	agent->made_way.per_minute = REFUSALS_A_MINUTE;
	tei_list_init(&agent->greeters);
	tei_list_init(&agent->askers);
	tei_list_init(&agent->sessions);
	tei_list_init(&agent->turns);
	tei_list_init(&agent->gone);
	tei_mutex_init(&agent->mu);
	tei_cond_init(&agent->work);
	rc = start_agent(agent, config);
	if (rc) {
		destroy(agent);
		return rc;
	}
	LOG_INFO("dummies: served at %s, announced on port %u", agent->path,
		 (unsigned int)agent->port);
	*out = agent;
	return 0;
}

bool tes_agent_stop(struct tes_agent *agent, uint64_t wait_ms)
{
	uint64_t deadline = tei_now_ns() + wait_ms * TEI_NS_PER_MS;

	(void)tei_loop_do(agent->loop, shut, agent);
	if (!tes_workers_quiet(agent, deadline))
		return false;
	tes_workers_join(agent);
	/* Answers that are posted go out before the connections end. */
	(void)tei_loop_do(agent->loop, end_sessions, agent);
	tei_loop_stop(agent->loop);
	assert(tei_list_empty(&agent->sessions));
	tei_loop_destroy(agent->loop);
	destroy(agent);
	return true;
}

/* ---- the HTTP port: health and metrics ---- */

#define STATS_MAX 1024 /* of an engine; beyond them rails' */

/* Metric that is a counter or a gauge of the engine. */
struct tes_engine_metric {
	const char *name, *type, *help;
	const char *stat, *label; /* in struct te_stat */
};

static const char *const type_names[] = {
	[AGENT__AGENT_TYPE__AGENT_PUT] = "put",
	[AGENT__AGENT_TYPE__AGENT_GET] = "get",
	[AGENT__AGENT_TYPE__AGENT_EXIST] = "exist",
	[AGENT__AGENT_TYPE__AGENT_SIZE] = "size",
	[AGENT__AGENT_TYPE__AGENT_REMOVE] = "remove",
	[AGENT__AGENT_TYPE__AGENT_STATUS] = "status",
	[AGENT__AGENT_TYPE__AGENT_POOL] = "pool",
	[AGENT__AGENT_TYPE__AGENT_RANGES] = "get_ranges",
	[AGENT__AGENT_TYPE__AGENT_UPSERT] = "upsert",
	[AGENT__AGENT_TYPE__AGENT_REPLICAS] = "replicas",
	[AGENT__AGENT_TYPE__AGENT_REMOVE_ALL] = "remove_all",
	[AGENT__AGENT_TYPE__AGENT_WHERE] = "where",
	[AGENT__AGENT_TYPE__AGENT_BUFFERS] = "get_buffers",
};

static uint64_t read_counter(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static int health(const struct tei_http_request *request,
		  struct tei_http_reply *reply, void *arg)
{
	struct tes_agent *agent = arg;

	(void)request;
	return tei_http_health(reply, te_store_health(agent->store) == 0,
			       "the master is not reached");
}

static void calls(struct evbuffer *out, struct tes_agent *agent)
{
	static const char name[] = "te_agent_calls_total";

	tei_http_metric_head(out, name, "counter", "calls of dummy clients");
	for (size_t i = 1; i < sizeof(type_names) / sizeof(type_names[0]); i++)
		(void)evbuffer_add_printf(out, "%s{call=\"%s\"} %" PRIu64 "\n",
					  name, type_names[i],
					  read_counter(&agent->stats.calls[i]));
}

static void refused(struct evbuffer *out, const char *name, const char *reason,
		    uint64_t value)
{
	(void)evbuffer_add_printf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", name,
				  reason, value);
}

static void refusals(struct evbuffer *out, const struct tes_agent *agent)
{
	static const char name[] = "te_agent_refused_total";

	tei_http_metric_head(out, name, "counter", "dummy clients turned away");
	for (int i = TES_GREETED + 1; i < TES_GREETING_STATUSES; i++)
		refused(out, name,
			tes_greeting_status_name((enum tes_greeting_status)i),
			agent->stats.refused[i]);
}

static void faults(struct evbuffer *out, const struct tes_agent *agent)
{
	static const char name[] = "te_agent_faults_total";
	static const char *const reasons[TEI_FRAME_FAULTS] = {
		[TEI_FRAME_BAD_TYPE] = "bad_type",
		[TEI_FRAME_TOO_LONG] = "too_long",
		[TEI_FRAME_BAD_BODY] = "malformed",
		[TEI_FRAME_TIMEOUT] = "late",
		[TEI_FRAME_PROTECTED] = "protected_mode",
		[TEI_FRAME_FULL] = "too_many_connections",
		[TEI_FRAME_IDLE] = "idle",
		[TEI_FRAME_UNFINISHED] = "unfinished",
		[TEI_FRAME_UNREAD] = "unread",
	};

	tei_http_metric_head(out, name, "counter",
			     "connections hung up on for what they sent");
	for (int i = 0; i < TEI_FRAME_FAULTS; i++)
		refused(out, name, reasons[i], agent->stats.faults[i]);
}

/* Prints a counter or gauge of the engine; @label: as of struct te_stat. */
static void engine_stat(struct evbuffer *out, const struct te_stat *stats,
			size_t n, const struct tes_engine_metric *metric)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(stats[i].name, metric->stat) &&
		    !strcmp(stats[i].label, metric->label))
			tei_http_metric(out, metric->name, metric->type,
					metric->help, stats[i].value);
	}
}

/* Prints how much memory the engine has brought in ahead of use. */
static void prefault(struct evbuffer *out, struct te_engine *engine)
{
	static const struct tes_engine_metric metrics[] = {
		{"te_store_prefault_bytes_total", "counter",
		 "lent memory brought in ahead of use",
		 "te_prefault_bytes_total", "lent"},
		{"te_store_prefault_mapped_bytes_total", "counter",
		 "memory of others on this host, mapped ahead of use",
		 "te_prefault_bytes_total", "mapped"},
		{"te_store_prefault_left_bytes", "gauge",
		 "lent memory still to be brought in", "te_prefault_left_bytes",
		 ""},
	};
	struct te_stat stats[STATS_MAX];
	size_t n = STATS_MAX;

	if (!engine || te_engine_stats(engine, stats, &n))
		return;
	n = n < STATS_MAX ? n : STATS_MAX;
	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
		engine_stat(out, stats, n, &metrics[i]);
}

/* Prints the caches of the daemon's own client: locations and hot values. */
static void caches(struct evbuffer *out, struct te_store *store)
{
	struct te_store_stats stats;

	te_store_stats(store, &stats);
	tei_http_metric(out, "te_store_location_hits_total", "counter",
			"keys read from where they were remembered to be",
			stats.location_hits);
	tei_http_metric(out, "te_store_location_misses_total", "counter",
			"keys whose place was not remembered",
			stats.location_misses);
	tei_http_metric(out, "te_store_location_stale_total", "counter",
			"keys that were not there any more",
			stats.location_stale);
	tei_http_metric(out, "te_store_location_bytes", "gauge",
			"memory of what is remembered", stats.location_bytes);
	tei_http_metric(out, "te_store_hot_hits_total", "counter",
			"keys whose bytes came from the hot cache",
			stats.hot_hits);
	tei_http_metric(out, "te_store_hot_misses_total", "counter",
			"keys of other owners that were not in it",
			stats.hot_misses);
	tei_http_metric(out, "te_store_hot_added_total", "counter",
			"values that came into it", stats.hot_added);
	tei_http_metric(out, "te_store_hot_evicted_total", "counter",
			"values that had to go for others", stats.hot_evicted);
	tei_http_metric(out, "te_store_hot_bytes", "gauge",
			"memory of the hot cache", stats.hot_bytes);
}

static int metrics(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	struct tes_agent *agent = arg;
	struct tes_agent_stats *stats = &agent->stats;
	struct evbuffer *out = reply->body;

	(void)request;
	reply->type = TEI_HTTP_METRICS_TYPE;
	calls(out, agent);
	refusals(out, agent);
	faults(out, agent);
	tei_http_metric(out, "te_agent_silent_total", "counter",
			"connections hung up on before they said who they are",
			stats->silent);
	tei_http_metric(out, "te_agent_keys_total", "counter",
			"keys of those calls", read_counter(&stats->keys));
	tei_http_metric(out, "te_agent_failed_keys_total", "counter",
			"keys with a negative result, misses too",
			read_counter(&stats->failed_keys));
	tei_http_metric(out, "te_agent_put_bytes_total", "counter",
			"bytes of values put", read_counter(&stats->put_bytes));
	tei_http_metric(out, "te_agent_get_bytes_total", "counter",
			"bytes of values got", read_counter(&stats->got_bytes));
	/* As dashboards know them. */
	tei_http_metric(out, "mooncake_transfer_write_bytes", "counter",
			"bytes of values put", read_counter(&stats->put_bytes));
	tei_http_metric(out, "mooncake_transfer_read_bytes", "counter",
			"bytes of values got", read_counter(&stats->got_bytes));
	tei_http_metric(out, "te_agent_late_calls_total", "counter",
			"calls that waited too long to be begun",
			read_counter(&stats->late));
	tei_http_metric(out, "te_agent_dummies", "gauge", "dummy clients now",
			agent->n_sessions + agent->n_leaving);
	tei_http_metric(out, "te_agent_dummies_total", "counter",
			"dummy clients since the start", stats->sessions_total);
	tei_http_metric(out, "te_agent_died_dummies_total", "counter",
			"of them, processes that ended without leaving",
			stats->died);
	tei_http_metric(out, "te_agent_made_way_dummies_total", "counter",
			"of them, ended since their process had most",
			stats->made_way);
	tei_http_metric(out, "te_agent_memory_bytes", "gauge",
			"memory of dummies that is mapped",
			agent->memory_bytes + agent->leaving_bytes);
	tei_http_metric(out, "te_agent_buffer_bytes", "gauge",
			"memory of ours that dummies read values from",
			read_counter(&agent->budget.used));
	tei_http_metric(out, "te_agent_waiting_bytes", "gauge",
			"bodies of calls that wait or run",
			agent->queued_bytes);
	tei_http_metric(out, "te_agent_healthy", "gauge", "1: in the pool",
			te_store_health(agent->store) == 0);
	caches(out, agent->store);
	prefault(out, te_store_engine(agent->store));
	return 200;
}

static int summary(const struct tei_http_request *request,
		   struct tei_http_reply *reply, void *arg)
{
	struct tes_agent *agent = arg;
	struct tes_agent_stats *stats = &agent->stats;

	(void)request;
	(void)evbuffer_add_printf(
		reply->body,
		"Client Metrics: %s | Dummies: %u | Memory: %" PRIu64
		" bytes | Keys: %" PRIu64 ", failed %" PRIu64 " | Put: %" PRIu64
		" bytes | Get: %" PRIu64 " bytes\n",
		te_store_health(agent->store) ? "not in the pool" : "healthy",
		agent->n_sessions + agent->n_leaving,
		agent->memory_bytes + agent->leaving_bytes,
		read_counter(&stats->keys), read_counter(&stats->failed_keys),
		read_counter(&stats->put_bytes),
		read_counter(&stats->got_bytes));
	return 200;
}

static const struct tei_http_route routes[] = {
	{TEI_HTTP_GET, "/health", health},
	{TEI_HTTP_GET, "/metrics", metrics},
	{TEI_HTTP_GET, "/metrics/summary", summary},
};

int tes_agent_http(struct tes_agent *agent, const char *host, uint16_t port,
		   bool insecure, const char *allow_host, uint16_t *out_port)
{
	const struct tei_http_config config = {
		.what = "HTTP port of the client",
		.host = host,
		.port = port,
		.insecure = insecure,
		.allow_host = allow_host,
		.routes = routes,
		.n_routes = sizeof(routes) / sizeof(routes[0]),
		.arg = agent,
		.refused = agent->http_refused,
	};

	return tei_http_start_from(agent->loop, &config, out_port,
				   &agent->http);
}
