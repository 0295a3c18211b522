/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c - the master: store/core behind sockets
 *
 * One event at a time goes to the core and all its actions are carried out
 * before the next; carrying them out never steps the core again.
 */
#include "store/server/server.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/http.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/net.h"
#include "store/proto/store.pb-c.h"
#include "store/server/admin.h"
#include "store/server/random.h"
#include "store/server/rpc.h"
#include "store/server/state.h"

#define CODE_INTERNAL    (-1)
#define OUT_ARENA_MAX    (32u << 20)
#define TICK_MS          50 /* every second one is skipped when idle */
#define BUSY_MS          3  /* of a tick, at most, plus one step */
#define FENCE_TIMEOUT_MS 2000
#define HEARTBEAT_MAX_MS 1000
#define SUSPECT_BEATS    3

static void carry_out(struct tei_server *s, const struct tei_action *action)
{
	switch (action->type) {
	case TEI_ACTION_REPLY:
		if (s->call.link && action->cookie == s->cookie)
			tei_server_reply(s, action);
		break;
	case TEI_ACTION_FENCE:
		tei_server_push_fence(s, action);
		break;
	case TEI_ACTION_CLOSE:
		tei_server_session_end(s, action->session);
		break;
	}
}

int tei_server_step(struct tei_server *s, struct tei_event *ev,
		    struct tei_server_link *link, const struct tei_frame *frame)
{
	struct tei_actions actions = {.arena = &s->out};
	int rc;

	assert(!s->stepping);
	s->stepping = true;
	s->call = (struct tei_server_call){link, frame, ev};
	ev->cookie = ++s->cookie;
	rc = tei_core_step(s->core, ev, tei_now_ms(), &actions);
	for (size_t i = 0; rc == 0 && i < actions.n; i++)
		carry_out(s, &actions.at[i]);
	if (rc < 0) {
		s->counters.steps_failed++;
		if (link)
			tei_server_reply_code(s, CODE_INTERNAL);
	}
	tei_arena_reset(&s->out);
	s->call = (struct tei_server_call){0};
	s->stepping = false;
	return rc;
}

static void on_tick(void *arg)
{
	struct tei_server *s = arg;
	struct tei_event ev = {.type = TEI_EVENT_TICK};

	uint64_t end = tei_now_ms() + BUSY_MS;

	s->skip_tick = !s->skip_tick && !tei_core_busy(s->core);
	if (s->skip_tick)
		return;
	/* A large owner's death is long work: several short steps of it. */
	do {
		tei_server_step(s, &ev, NULL, NULL);
	} while (tei_core_busy(s->core) && tei_now_ms() < end);
}

static void on_port_fault(enum tei_frame_fault fault, void *arg)
{
	struct tei_server *s = arg;

	s->counters.refused[fault]++;
}

/* Connections get here only when there was no memory for their link. */
static void on_orphan_frame(struct tei_frame_conn *conn,
			    const struct tei_frame *f, void *arg)
{
	(void)f;
	(void)arg;
	tei_frame_refuse_for_now(conn, "out of memory");
}

static void on_orphan_down(struct tei_frame_conn *conn, int err,
			   const char *text, void *arg)
{
	(void)err;
	(void)text;
	(void)arg;
	tei_frame_close(conn);
}

static const struct tei_frame_ops port_ops = {
	.frame = on_orphan_frame,
	.down = on_orphan_down,
	.fault = on_port_fault,
};

static int draw_secrets(struct tei_server *s)
{
	int rc = tei_server_random(s->group, sizeof(s->group));

	if (!rc)
		rc = tei_server_random(&s->digest_seed, sizeof(s->digest_seed));
	if (!rc)
		rc = tei_server_random(&s->hash_seed, sizeof(s->hash_seed));
	return rc;
}

static int create_core(struct tei_server *s)
{
	const struct tei_server_settings *set = &s->settings;
	struct tei_core_config config = {
		.epoch = s->epoch,
		.hash_seed = s->hash_seed,
		.lease_ttl_ms = set->default_kv_lease_ttl,
		.client_ttl_ms = set->client_ttl,
		.suspect_ms = (uint64_t)SUSPECT_BEATS * s->heartbeat_ms,
		.put_discard_ms = set->put_start_discard_timeout_sec,
		.fence_timeout_ms = FENCE_TIMEOUT_MS,
		.high_watermark = set->eviction_high_watermark_ratio,
		.eviction_ratio = set->eviction_ratio,
	};
	int rc = tei_server_random(&config.seed, sizeof(config.seed));

	return rc ? rc : tei_core_create(&config, &s->core);
}

/* "port 50051: Address already in use", or the address when that is bad. */
static void say_listen(char error[TEI_CONF_ERROR_LEN], int rc,
		       const char *port_name, uint64_t port,
		       const char *host_name, const char *host)
{
	bool port_is_it = rc == -EADDRINUSE || rc == -EACCES || !host;

	if (port_is_it)
		snprintf(error, TEI_CONF_ERROR_LEN, "%s %llu: %s", port_name,
			 (unsigned long long)port, strerror(-rc));
	else
		snprintf(error, TEI_CONF_ERROR_LEN, "%s %.80s: %s", host_name,
			 host, strerror(-rc));
}

static int open_rpc(struct tei_server *s, char error[TEI_CONF_ERROR_LEN])
{
	const struct tei_server_settings *set = &s->settings;
	struct tei_frame_server_config config = {
		.protocol = &tei_store_protocol,
		.host = tei_server_host(set->rpc_address),
		.port = tei_server_wanted_port(set),
		.insecure = set->insecure,
		.n_max = TEI_SERVER_LINKS_MAX,
		.hello_ms = TEI_SERVER_HELLO_MS,
		.hello_max =
			tei_store_protocol.cap[STORE__STORE_TYPE__STORE_HELLO],
		.ops = &port_ops,
		.arg = s,
		.accepted = tei_server_accepted,
	};
	int rc = tei_frame_listen(s->loop, &config, &s->rpc_port, &s->port);

	if (rc)
		say_listen(error, rc, set->rpc_port ? "rpc_port" : "port",
			   config.port, "rpc_address", config.host);
	return rc;
}

static int open_http(struct tei_server *s, char error[TEI_CONF_ERROR_LEN])
{
	const struct tei_server_settings *set = &s->settings;
	struct tei_http_config config = {
		.what = "HTTP metrics port",
		.host = tei_server_host(set->metrics_host),
		.port = (uint16_t)set->metrics_port,
		.insecure = set->insecure,
		.routes = tei_server_routes,
		.n_routes = tei_server_n_routes,
		.arg = s,
		.refused = s->counters.refused_http,
	};
	int rc = tei_http_start(s->loop, &config, &s->http_port, &s->http);

	if (rc)
		say_listen(error, rc, "metrics_port", set->metrics_port,
			   "metrics_host", config.host);
	return rc;
}

static void init(struct tei_server *s, struct tei_loop *loop,
		 const struct tei_server_settings *settings)
{
	uint64_t beat = settings->client_ttl / 10;

	s->loop = loop;
	s->settings = *settings;
	s->epoch = tei_wall_us();
	s->started_ms = tei_now_ms();
	s->heartbeat_ms =
		(uint32_t)(beat < HEARTBEAT_MAX_MS ? beat : HEARTBEAT_MAX_MS);
	tei_list_init(&s->links);
	tei_arena_init(&s->in, TEI_SERVER_RPC_ARENA_MAX);
	tei_arena_init(&s->out, OUT_ARENA_MAX);
}

int tei_server_create(struct tei_loop *loop,
		      const struct tei_server_settings *settings,
		      struct tei_server **out, char error[TEI_CONF_ERROR_LEN])
{
	struct tei_server *s;
	int rc = -ENOMEM;

	snprintf(error, TEI_CONF_ERROR_LEN, "cannot start");
	s = tei_calloc(1, sizeof(*s));
	if (!s)
		goto say;
	init(s, loop, settings);
	if (tei_hash_init(&s->by_id))
		goto free_server;
	if (tei_hash_init(&s->by_client))
		goto free_by_id;
	rc = draw_secrets(s);
	if (!rc)
		rc = create_core(s);
	if (rc)
		goto free_by_client;
	rc = open_rpc(s, error);
	if (rc)
		goto destroy_core;
	rc = open_http(s, error);
	if (rc)
		goto close_port;
	rc = -ENOMEM;
	s->timer = tei_timer_start(loop, TICK_MS, true, on_tick, s);
	if (!s->timer)
		goto stop_http;
	*out = s;
	return 0;

stop_http:
	tei_http_stop(s->http);
close_port:
	tei_frame_server_close(s->port);
destroy_core:
	tei_core_destroy(s->core);
free_by_client:
	tei_hash_fini(&s->by_client);
free_by_id:
	tei_hash_fini(&s->by_id);
free_server:
	tei_free(s);
say:
	assert(rc < 0);
	if (!strcmp(error, "cannot start"))
		snprintf(error, TEI_CONF_ERROR_LEN, "cannot start: %s",
			 strerror(-rc));
	return rc;
}

void tei_server_destroy(struct tei_server *s)
{
	if (!s)
		return;
	tei_timer_stop(s->timer);
	tei_http_stop(s->http);
	tei_frame_server_close(s->port);
	tei_server_sessions_free(s);
	tei_core_destroy(s->core);
	tei_hash_fini(&s->by_client);
	tei_hash_fini(&s->by_id);
	tei_arena_fini(&s->in);
	tei_arena_fini(&s->out);
	tei_free(s);
}

uint16_t tei_server_rpc_port(const struct tei_server *s)
{
	return s->rpc_port;
}

uint16_t tei_server_http_port(const struct tei_server *s)
{
	return s->http_port;
}
