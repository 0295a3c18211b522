/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - join a pool and leave it */
#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <openssl/rand.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/http.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/api/http.h"
#include "store/client/client.h"

/* ---- the HTTP port: health and metrics ---- */

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

#define MASTER     "127.0.0.1:50051"
#define CALL_MS    1000
#define REPLICA_MS 1000
#define SETUP_MS   5000
#define UNMOUNT_MS 250 /* of the 2 s that closing may take */

_Static_assert(sizeof(struct te_store_config) == 120, "pinned");
_Static_assert(sizeof(struct te_store_range) == 32, "pinned");
_Static_assert(sizeof(struct te_store_stats) == 96, "pinned");
_Static_assert(sizeof(struct te_store_pool) == 136, "pinned");
_Static_assert(sizeof(struct te_store_key) == 16, "pinned");
_Static_assert(sizeof(struct te_store_value) == 16, "pinned");
_Static_assert(sizeof(struct te_store_replicate) == 96, "pinned");

struct te_engine *tes_direct_engine(struct te_store *store)
{
	return store->engine;
}

const char *tes_direct_hostname(struct te_store *store)
{
	return te_engine_name(store->engine);
}

void tes_direct_stats(struct te_store *store, struct te_store_stats *out)
{
	struct tes_locations *l = &store->locations;
	struct tes_hot *hot = &store->hot;

	memset(out, 0, sizeof(*out));
	out->location_hits =
		atomic_load_explicit(&l->n_hits, memory_order_relaxed);
	out->location_misses =
		atomic_load_explicit(&l->n_misses, memory_order_relaxed);
	out->location_stale =
		atomic_load_explicit(&l->n_stale, memory_order_relaxed);
	out->location_bytes = tes_locations_bytes(l);
	out->put_retries = atomic_load_explicit(&store->n_put_retries,
						memory_order_relaxed);
	out->hot_hits =
		atomic_load_explicit(&hot->n_hits, memory_order_relaxed);
	out->hot_misses =
		atomic_load_explicit(&hot->n_misses, memory_order_relaxed);
	out->hot_added =
		atomic_load_explicit(&hot->n_added, memory_order_relaxed);
	out->hot_evicted =
		atomic_load_explicit(&hot->n_evicted, memory_order_relaxed);
	out->hot_bytes = tes_hot_bytes(hot);
	out->local_buffer_bytes = store->buffers.bytes;
}

/* ---- setup ---- */

/*
 * Creates the engine, with a port, if only "any free one": owners are reached
 * at their hosts, and two on one host must not fight for its name in a
 * directory.
 */
static int create_engine(struct te_store *store,
			 const struct te_store_config *c)
{
	char host[TEI_HOST_LEN_MAX + 1], full[TEI_NAME_LEN_MAX + 1];
	const char *name = c->host; /* the engine says what is wrong with it */
	uint16_t port;

	if (name && !tei_name_split(name, host, &port)) {
		tei_name_join(host, port, full);
		name = full;
	}
	return te_engine_create(c->engine_config, name, &store->engine);
}

/* *cause: as join_pool(). */
static int open_engine(struct te_store *store, const struct te_store_config *c,
		       int *cause)
{
	int rc = 0;

	store->engine = c->engine;
	store->own_engine = !c->engine;
	if (store->own_engine)
		rc = create_engine(store, c);
	if (rc) {
		*cause = rc;
		/* -ENODEV: of the backends that the caller has set. */
		return rc == -EINVAL || rc == -ENODEV ? TE_STORE_INVALID_PARAMS
						      : TE_STORE_INTERNAL_ERROR;
	}
	te_engine_incarnation(store->engine, store->incarnation);
	te_engine_secret(store->engine, store->engine_secret);
	return 0;
}

struct start {
	struct te_store *store;
	int rc;
};

static void start_link(void *arg)
{
	struct start *start = arg;

	tes_renewal_start(start->store);
	start->rc = tes_master_link_start(&start->store->link);
}

static void stop_link(void *arg)
{
	struct te_store *store = arg;

	tei_http_stop(store->http);
	tes_renewal_stop(store);
	tes_master_link_stop(&store->link);
	tes_segments_ungrace(store);
	store->executor.ended = true;
}

static int wait_ready(struct te_store *store, uint64_t timeout_ms)
{
	uint64_t deadline = tei_now_ns() + timeout_ms * TEI_NS_PER_MS;
	int code;

	tei_mutex_lock(&store->mu);
	while (!store->ready && !store->verdict)
		if (!tei_cond_wait(&store->changed, &store->mu, deadline))
			break;
	code = store->ready     ? 0
	       : store->verdict ? store->verdict
				: TE_STORE_RPC_FAIL;
	tei_mutex_unlock(&store->mu);
	return code;
}

/*
 * Any two clients of one machine find the same, also in containers, and those
 * of two machines do not. Empty: the master takes us for a machine of our own.
 */
static void find_host(char *host)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!f)
		return;
	if (!fgets(host, TES_STORE_HOST_MAX, f))
		host[0] = 0;
	(void)fclose(f);
	host[strcspn(host, "\n")] = 0;
}

static struct te_store *create(const struct te_store_config *c)
{
	struct te_store *store = tei_calloc(1, sizeof(*store));

	if (!store)
		return NULL;
	store->ops = &tes_direct_ops;
	store->call_timeout_ms =
		c->call_timeout_ms ? c->call_timeout_ms : CALL_MS;
	store->replica_timeout_ms =
		c->replica_timeout_ms ? c->replica_timeout_ms : REPLICA_MS;
	store->drain_timeout_ms = c->drain_timeout_ms;
	tei_mutex_init(&store->mu);
	tei_cond_init(&store->changed);
	tes_pins_init(&store->pins, c->pin_mib);
	tes_addresses_init(&store->addresses);
	tes_segments_init(store);
	tes_executor_init(&store->executor);
	find_host(store->host);
	if (c->tenant)
		memcpy(store->tenant, c->tenant, strlen(c->tenant) + 1);
	return store;
}

static void destroy(struct te_store *store)
{
	tes_executor_fini(&store->executor);
	tes_addresses_fini(&store->addresses);
	tei_cond_fini(&store->changed);
	tei_mutex_fini(&store->mu);
	tei_free(store);
}

/* The threads that are ours, and the way to the master on them. */
static int start_threads(struct te_store *store,
			 const struct te_store_config *c)
{
	struct start start = {.store = store};
	int rc = tes_master_link_init(&store->link, store, &tes_owner_messages,
				      c->master ? c->master : MASTER);

	if (rc)
		return rc;
	rc = tei_loop_create("te-store", &store->loop);
	if (rc)
		goto err_link;
	rc = tes_helper_init(&store->helper);
	if (rc)
		goto err_loop;
	(void)tei_loop_do(store->loop, start_link, &start);
	rc = start.rc;
	if (rc)
		goto err_helper;
	return 0;

err_helper:
	tes_helper_fini(&store->helper);
err_loop:
	tei_loop_stop(store->loop);
	tei_loop_destroy(store->loop);
err_link:
	tes_master_link_fini(&store->link);
	assert(rc < 0);
	return rc;
}

/* Jobs of the helper post to the loop: it ends first. */
static void stop_threads(struct te_store *store)
{
	(void)tei_loop_do(store->loop, stop_link, store);
	tes_executor_stop(&store->executor);
	tes_helper_fini(&store->helper);
	tei_loop_stop(store->loop);
	tei_loop_destroy(store->loop);
	tes_master_link_fini(&store->link);
}

static void close_engine(struct te_store *store)
{
	tes_works_fini(&store->works);
	tes_drafts_fini(&store->drafts);
	tes_hot_fini(&store->hot);
	tes_locations_fini(&store->locations);
	tes_owners_fini(&store->owners);
	tes_segments_fini(store);
	if (store->own_engine)
		te_engine_destroy(store->engine);
}

/* Opens engine and segments; close_engine() undoes it. *cause: join_pool(). */
static int open_all(struct te_store *store, const struct te_store_config *c,
		    int *cause)
{
	int code = open_engine(store, c, cause);

	if (code)
		return code;
	tes_owners_init(&store->owners, store->engine);
	store->owners.silent = tes_report_silent;
	store->owners.silent_arg = store;
	tes_works_init(&store->works, store->engine, &store->addresses);
	if (tes_locations_init(&store->locations, &store->owners,
			       c->location_cache_entries))
		goto err_works;
	if (tes_hot_init(&store->hot, c->hot_cache_bytes,
			 c->hot_cache_value_bytes, c->hot_cache_threshold))
		goto err_locations;
	if (!tes_drafts_init(&store->drafts, &store->owners))
		return 0;
	tes_hot_fini(&store->hot);
err_locations:
	tes_locations_fini(&store->locations);
err_works:
	tes_works_fini(&store->works);
	tes_owners_fini(&store->owners);
	if (store->own_engine)
		te_engine_destroy(store->engine);
	*cause = -ENOMEM;
	return TE_STORE_INTERNAL_ERROR;
}

/* Lends memory before there is a loop. */
static int lend(struct te_store *store, uint64_t bytes)
{
	struct tes_segment *segment;
	int code = tes_segment_create(store, bytes, &segment);

	if (code)
		return code;
	segment->lasting = true;
	tei_list_add_tail(&store->segments.list, &segment->link);
	return 0;
}

static int draw_secret(struct te_store *store)
{
	uint8_t *secret = store->client_secret;

	return RAND_bytes(secret, sizeof(store->client_secret)) == 1 ? 0 : -EIO;
}

/*
 * A store code. *cause is set to the negative errno where there is one, which
 * says more.
 */
static int join_pool(struct te_store *store, const struct te_store_config *c,
		     int *cause)
{
	int code = open_all(store, c, cause);

	if (code)
		return code;
	code = TE_STORE_INTERNAL_ERROR;
	*cause = tes_buffers_init(&store->buffers, store->engine,
				  c->local_buffer_bytes);
	if (*cause)
		goto err_engine;
	*cause = draw_secret(store);
	if (*cause)
		goto err_buffers;
	if (c->segment_bytes) {
		code = lend(store, c->segment_bytes);
		if (code)
			goto err_buffers;
		code = TE_STORE_INTERNAL_ERROR;
	}
	/* te_memory_free() unpins it. */
	if (store->buffers.memory)
		(void)tes_pins_add(&store->pins, "local buffer",
				   store->buffers.memory, store->buffers.bytes);
	*cause = start_threads(store, c);
	if (*cause)
		goto err_buffers;
	if (c->setup_timeout_ms == TE_STORE_NO_WAIT)
		return 0;
	code = wait_ready(store,
			  c->setup_timeout_ms ? c->setup_timeout_ms : SETUP_MS);
	if (!code)
		return 0;
	stop_threads(store);
err_buffers:
	tes_buffers_fini(&store->buffers);
err_engine:
	close_engine(store);
	return code;
}

int tes_direct_setup(const struct te_store_config *config,
		     struct te_store **out)
{
	struct te_store *store;
	int code, cause = 0;

	if (!config || !out || !tes_config_holds(config)) {
		LOG_ERROR("store: a field of the configuration is out of range "
			  "or a name malformed");
		return TE_STORE_INVALID_PARAMS;
	}
	store = create(config);
	if (!store)
		return TE_STORE_INTERNAL_ERROR;
	code = join_pool(store, config, &cause);
	if (code) {
		LOG_ERROR("store: cannot join the pool of %s: %s",
			  config->master ? config->master : MASTER,
			  cause ? te_strerror(cause) : te_store_strerror(code));
		destroy(store);
		return code;
	}
	*out = store;
	return 0;
}

/* ---- closing ---- */

static void forget_registered(struct te_store *store)
{
	te_region_id region;

	while (tes_addresses_take(&store->addresses, 0, &region))
		(void)te_region_remove(store->engine, region);
}

void tes_direct_close(struct te_store *store)
{
	if (!store)
		return;
	if (store->drain_timeout_ms && tes_lends(store))
		(void)tes_direct_drain(store, NULL, store->drain_timeout_ms,
				       NULL);
	/* Only so that it is gone when we return: the connection ends too. */
	tes_unmount_all(store, tei_now_ns() + UNMOUNT_MS * TEI_NS_PER_MS);
	stop_threads(store);
	forget_registered(store);
	tes_buffers_fini(&store->buffers);
	close_engine(store);
	destroy(store);
}
