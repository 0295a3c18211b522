/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c - the master: store/core behind sockets
 *
 * The server hands the core one event at a time and carries out all its actions
 * before the next; carrying them out never steps the core again.
 */
#include "store/server/server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/net.h"
#include "store/core/codes.h"
#include "store/proto/identity.h"
#include "store/proto/store.pb-c.h"
#include "store/server/admin.h"
#include "store/server/admin_reply.h"
#include "store/server/epoch_key.h"
#include "store/server/metadata_http.h"
#include "store/server/random.h"
#include "store/server/rpc.h"
#include "store/server/state.h"
#include "store/server/summary.h"

/*
 * The master's ports: clients, admin HTTP, metadata.
 */

static void on_port_fault(enum tei_frame_fault fault, void *arg)
{
	struct tes_server *s = arg;

	s->counters.refused[fault]++;
}

/* No connection stays without a link, which has others. */
static const struct tei_frame_ops port_ops = {.fault = on_port_fault};

/* The IPv4 address of @name as text. -ENODEV: it has none, or is not there. */
static int interface_address(const char *name, char out[INET_ADDRSTRLEN],
			     char error[TEI_CONF_ERROR_LEN])
{
	struct ifaddrs *all, *i;
	int rc = -ENODEV;

	if (getifaddrs(&all))
		return -errno;
	for (i = all; i && rc; i = i->ifa_next) {
		const struct sockaddr_in *in = (const void *)i->ifa_addr;

		if (!in || in->sin_family != AF_INET ||
		    strcmp(i->ifa_name, name))
			continue;
		inet_ntop(AF_INET, &in->sin_addr, out, INET_ADDRSTRLEN);
		rc = 0;
	}
	freeifaddrs(all);
	if (rc)
		snprintf(error, TEI_CONF_ERROR_LEN,
			 "rpc_interface %.80s: has no IPv4 address", name);
	return rc;
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

/* On an error @error is one line that names the setting. */
static int server_open_rpc(struct tes_server *s, char error[TEI_CONF_ERROR_LEN])
{
	const struct tes_server_settings *set = &s->settings;
	char address[INET_ADDRSTRLEN];
	struct tei_frame_server_config config = {
		.protocol = &tes_store_protocol,
		.host = tes_server_host(set->rpc_address),
		.port = tes_server_wanted_port(set),
		.insecure = set->insecure,
		.allow_uids = set->allow_uids,
		.n_max = TES_SERVER_LINKS_MAX,
		.n_each = TES_SERVER_LINKS_EACH,
		.hello_ms = TES_SERVER_HELLO_MS,
		.hello_max = tes_store_protocol
				     .request[STORE__STORE_TYPE__STORE_HELLO],
		.ops = &port_ops,
		.arg = s,
		.accepted = tes_server_accepted,
	};
	int rc = 0;

	if (*set->rpc_interface) {
		rc = interface_address(set->rpc_interface, address, error);
		config.host = address;
	}
	if (rc)
		return rc;
	rc = tei_frame_listen(s->loop, &config, &s->rpc_port, &s->port);
	if (rc)
		say_listen(error, rc, set->rpc_port ? "rpc_port" : "port",
			   config.port, "rpc_address", config.host);
	return rc;
}

static int server_open_http(struct tes_server *s,
			    char error[TEI_CONF_ERROR_LEN])
{
	const struct tes_server_settings *set = &s->settings;
	struct tei_http_config config = {
		.what = "HTTP metrics port",
		.host = tes_server_host(set->metrics_host),
		.port = (uint16_t)set->metrics_port,
		.insecure = set->insecure,
		.allow_uids = set->allow_uids,
		.allow_host = set->allow_host,
		.routes = tes_server_routes,
		.n_routes = tes_server_n_routes,
		.arg = s,
		.refused = s->counters.refused_http,
		.refusal = tes_server_admin_refusal,
	};
	int rc = tei_http_start(s->loop, &config, &s->http_port, &s->http);

	if (rc)
		say_listen(error, rc, "metrics_port", set->metrics_port,
			   "metrics_host", config.host);
	return rc;
}

/* Opens the metadata port, unless it is not enabled, which is fine. */
static int server_open_metadata(struct tes_server *s,
				char error[TEI_CONF_ERROR_LEN])
{
	const struct tes_server_settings *set = &s->settings;
	const struct tes_metadata_config config = {
		.host = tes_server_host(set->http_metadata_server_host),
		.port = (uint16_t)set->http_metadata_server_port,
		.insecure = set->insecure,
		.allow_uids = set->allow_uids,
		.allow_host = set->allow_host,
		.limits = {TES_METADATA_ENTRIES, TES_METADATA_VALUE,
			   TES_METADATA_BYTES},
	};
	int rc;

	if (!set->enable_http_metadata_server)
		return 0;
	rc = tes_metadata_server_start(s->loop, &config, &s->metadata_port,
				       &s->metadata);
	if (rc)
		say_listen(error, rc, "http_metadata_server_port", config.port,
			   "http_metadata_server_host", config.host);
	return rc;
}

#define OUT_ARENA_MAX (32u << 20)
#define TICK_MS       50 /* every second one is skipped when idle */
#define BUSY_NS       (TEI_NS_PER_MS / 2) /* in one go, plus one step */
#define BUSY_PAUSE_MS 8
/* Once a turn of the loop has taken so long, what can wait does. */
#define TURN_NS (3 * TEI_NS_PER_MS / 4)
/* Objects that one tick looks at: each may cost cache misses, up to 2 us with
 * millions of objects. */
#define TICK_OBJECTS     256
#define FENCE_TIMEOUT_MS 2000
#define HEARTBEAT_MAX_MS 1000
#define SUSPECT_BEATS    3
/*
 * A client that gives up a master that stands still tries again within a
 * second, and if it has to say hello once more within three.
 */
#define LEFT_MS 5000
/* Epochs take up numbers and lines, and a raise is told to everybody. */
#define RAISE_MS 5000

static void carry_out(struct tes_server *s, const struct tes_action *action)
{
	switch (action->type) {
	case TES_ACTION_REPLY:
		if (!action->session &&
		    action->u.reply.of == TES_EVENT_REMOVE_ALL)
			tes_server_admin_removed(s, action);
		else if (!action->session)
			tes_server_admin_drained(s, action);
		else if (action->u.reply.of == TES_EVENT_REMOVE_ALL)
			tes_server_remove_all_done(s, action);
		else if (action->cookie != s->call.event->cookie)
			tes_server_reply_later(s, action);
		else if (s->call.link)
			tes_server_reply(s, action);
		break;
	case TES_ACTION_FENCE:
		tes_server_push_fence(s, action);
		break;
	case TES_ACTION_CLOSE:
		tes_server_session_end(s, action->session);
		break;
	case TES_ACTION_BURY:
		tes_server_push_bury(s, action);
		break;
	case TES_ACTION_PROBE:
		tes_server_push_probe(s, action);
		break;
	case TES_ACTION_TASK:
		tes_server_push_task(s, action);
		break;
	case TES_ACTION_OWNER:
		tes_server_tell_owner(action);
		break;
	case TES_ACTION_COMMITTED: /* done before */
		break;
	}
}

/* From action @first on; @over: the call's reply is among them, or is late. */
static void carry_out_all(struct tes_server *s,
			  const struct tes_actions *actions, size_t first,
			  bool over)
{
	const struct tes_action *at = actions->at;

	for (size_t i = first; i < actions->n; i++)
		if (at[i].type == TES_ACTION_COMMITTED)
			tes_server_push_committed(s, &at[i]);
	s->replied = false;
	for (size_t i = first; i < actions->n; i++)
		carry_out(s, &at[i]);
	if (over && s->call.link && s->call.frame->id && !s->replied)
		tes_server_later(s);
}

/* Without a proof of it (no memory) clients keep the one that they have. */
static void prove_epoch(struct tes_server *s)
{
	if (tes_epoch_prove(s->epoch_key, s->epoch, s->epoch_proof))
		memset(s->epoch_proof, 0, sizeof(s->epoch_proof));
}

static void take_epoch(struct tes_server *s)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	uint64_t epoch = tes_core_epoch(s->core);

	if (epoch == s->epoch)
		return;
	if (tei_log_allowed(&limit))
		LOG_WARN("master: wall clock is behind a known epoch: epoch "
			 "raised from %llu to %llu",
			 (unsigned long long)s->epoch,
			 (unsigned long long)epoch);
	s->epoch = epoch;
	prove_epoch(s);
}

static void begin_step(struct tes_server *s, struct tes_event *ev,
		       struct tes_server_link *link,
		       const struct tei_frame *frame)
{
	assert(!s->stepping);
	s->stepping = true;
	s->call = (struct tes_server_call){link, frame, ev};
}

static void end_step(struct tes_server *s, int rc, struct tes_actions *actions,
		     bool keep)
{
	const struct tes_event *ev = s->call.event;
	bool over = !ev->part || ev->part->to == ev->n;

	take_epoch(s);
	tes_server_timing_end(&s->timing, TES_SERVER_STEP);
	if (rc == 0)
		carry_out_all(s, actions, keep ? 1 : 0, over && !keep);
	actions->n = keep ? 1 : 0;
	if (ev->type == TES_EVENT_PUT_START && tes_core_short(s->core)) {
		s->n_started +=
			ev->part ? ev->part->to - ev->part->from : ev->n;
		tei_alarm_now(&s->room);
	}
	if (rc < 0) {
		s->counters.steps_failed++;
		if (s->call.link && !ev->part)
			tes_server_reply_code(s, CODE_INTERNAL);
	}
	tes_server_timing_end(&s->timing, TES_SERVER_ENCODE);
	tei_arena_reset(&s->out);
	s->call = (struct tes_server_call){0};
	s->stepping = false;
	/* An owner has caught up with a removal that somebody waits for. */
	if (ev->type == TES_EVENT_FENCED && !tei_list_empty(&s->walks) &&
	    tes_core_busy(s->core))
		(void)tei_alarm_set(&s->hurry, 0);
}

static const struct tes_server_steps job_steps = {
	.begin = begin_step,
	.end = end_step,
};

int tes_server_step(struct tes_server *s, struct tes_event *ev,
		    struct tes_server_link *link, const struct tei_frame *frame)
{
	struct tes_actions actions = {.arena = &s->out};
	int rc;

	begin_step(s, ev, link, frame);
	ev->cookie = ++s->cookie;
	rc = tes_core_step(s->core, ev, tei_now_ms(), &actions);
	end_step(s, rc, &actions, false);
	return rc;
}

/*
 * A large owner's death is long work. A little of it at a time, so that no call
 * waits for more; at once again when somebody waits for it, too.
 */
void tes_server_hurry(struct tes_server *s)
{
	struct tes_event ev = {.type = TES_EVENT_TICK};
	uint64_t end = tei_now_ns() + BUSY_NS;

	while (tes_core_busy(s->core) && tei_now_ns() < end &&
	       tei_loop_turn_ns(s->loop) < TURN_NS)
		tes_server_step(s, &ev, NULL, NULL);
	if (tes_core_busy(s->core)) /* without memory: with the next tick */
		(void)tei_alarm_set(&s->hurry, tei_list_empty(&s->walks)
						       ? BUSY_PAUSE_MS
						       : 0);
}

/*
 * Makes room for as many keys as were started, while their writers write: what
 * ticks evict besides holds up whoever calls meanwhile, and starts that find no
 * room evict one by one. At least a piece, then as much as the turn allows.
 */
static void on_room(void *arg)
{
	struct tes_event ev = {.type = TES_EVENT_MAKE_ROOM};
	struct tes_server *s = arg;

	do {
		ev.n = s->n_started < TES_CORE_ROOM_KEYS ? s->n_started
							 : TES_CORE_ROOM_KEYS;
		s->n_started -= ev.n;
		tes_server_step(s, &ev, NULL, NULL);
		if (!tes_core_short(s->core))
			s->n_started = 0;
	} while (s->n_started && tei_loop_turn_ns(s->loop) < TURN_NS);
	if (s->n_started)
		tei_alarm_now(&s->room);
}

static void on_hurry(void *arg)
{
	struct tes_event ev = {.type = TES_EVENT_TICK};
	struct tes_server *s = arg;

	/* However busy the turn is, the background gets on. */
	if (tei_loop_turn_ns(s->loop) >= TURN_NS && tes_core_busy(s->core))
		tes_server_step(s, &ev, NULL, NULL);
	tes_server_hurry(s);
}

static void on_tick(void *arg)
{
	struct tes_server *s = arg;
	struct tes_event ev = {.type = TES_EVENT_TICK};

	if (!tei_list_empty(&s->queue))
		tes_server_turns_go_on(s);
	s->skip_tick = !s->skip_tick && !tes_core_busy(s->core);
	if (s->skip_tick)
		return;
	tes_server_step(s, &ev, NULL, NULL);
	tes_server_hurry(s);
	tes_server_push_waiting(s);
}

static int draw_secrets(struct tes_server *s)
{
	int rc = tes_server_random(s->group, sizeof(s->group));

	if (!rc)
		rc = tes_server_random(&s->digest_seed, sizeof(s->digest_seed));
	if (!rc)
		rc = tes_server_random(&s->hash_seed, sizeof(s->hash_seed));
	if (!rc)
		rc = tes_epoch_key_load(s->settings.epoch_key_file,
					s->epoch_key);
	if (!rc)
		prove_epoch(s);
	return rc;
}

/* The strategies for memories that are not here place by chance. */
static enum tes_core_strategy strategy(const char *name)
{
	if (!strcmp(name, "free_ratio_first"))
		return TES_CORE_FREE_RATIO_FIRST;
	if (!strcmp(name, "local_first"))
		return TES_CORE_LOCAL_FIRST;
	return TES_CORE_RANDOM;
}

static uint64_t left_ms(const struct tes_server *s, uint64_t suspect_ms)
{
	uint64_t ms = suspect_ms < LEFT_MS ? LEFT_MS : suspect_ms;

	return ms < s->settings.client_ttl ? ms : s->settings.client_ttl;
}

static enum tes_core_hot heat(const char *mode)
{
	if (!strcmp(mode, "enforce"))
		return TES_CORE_HOT_ENFORCE;
	return strcmp(mode, "observe") ? TES_CORE_HOT_OFF
				       : TES_CORE_HOT_OBSERVE;
}

static int create_core(struct tes_server *s)
{
	const struct tes_server_settings *set = &s->settings;
	struct tes_core_config config = {
		.epoch = s->epoch,
		.hash_seed = s->hash_seed,
		.lease_ttl_ms = set->default_kv_lease_ttl,
		.client_ttl_ms = set->client_ttl,
		.suspect_ms = (uint64_t)SUSPECT_BEATS * s->heartbeat_ms,
		.left_ms =
			left_ms(s, (uint64_t)SUSPECT_BEATS * s->heartbeat_ms),
		.put_discard_ms = set->put_start_discard_timeout_sec,
		.raise_ms = RAISE_MS,
		.fence_timeout_ms = FENCE_TIMEOUT_MS,
		.step_objects = TICK_OBJECTS,
		.strategy = strategy(set->allocation_strategy),
		.soft_pin_ttl_ms = set->default_kv_soft_pin_ttl,
		.soft_pin_ttl_max_ms = set->max_kv_soft_pin_ttl,
		.evict_soft_pinned = set->allow_evict_soft_pinned_objects,
		.high_watermark = set->eviction_high_watermark_ratio,
		.eviction_ratio = set->eviction_ratio,
		.tasks_pending_max = set->max_total_pending_tasks,
		.tasks_processing_max = set->max_total_processing_tasks,
		.tasks_finished_max = set->max_total_finished_tasks,
		.task_pending_ms = set->pending_task_timeout_sec,
		.task_processing_ms = set->processing_task_timeout_sec,
		.task_retries = set->max_retry_attempts,
		.hot = heat(set->dynamic_replication_mode),
		.hot_window_ms = set->dynamic_replication_heat_window_seconds,
		.hot_qps = set->dynamic_replication_admission_qps_threshold,
		.hot_replicas = set->dynamic_replication_max_memory_replicas,
		.watch = s->events ? tes_events_note : NULL,
		.watch_arg = s->events,
		.tenants = set->enable_multi_tenants,
	};
	int rc = tes_server_random(&config.seed, sizeof(config.seed));

	return rc ? rc : tes_core_create(&config, &s->core);
}

static void init(struct tes_server *s, struct tei_loop *loop,
		 const struct tes_server_settings *settings)
{
	uint64_t beat = settings->client_ttl / 10;

	s->loop = loop;
	s->settings = *settings;
	s->epoch = s->first_epoch = tei_wall_us();
	s->started_ms = tei_now_ms();
	s->heartbeat_ms =
		(uint32_t)(beat < HEARTBEAT_MAX_MS ? beat : HEARTBEAT_MAX_MS);
	tei_alarm_init(&s->hurry, loop, on_hurry, s);
	tei_alarm_init(&s->room, loop, on_room, s);
	tei_list_init(&s->links);
	tei_list_init(&s->walks);
	tes_server_turns_init(s, &job_steps);
	tei_arena_init(&s->in, TES_SERVER_RPC_ARENA_MAX);
	tei_arena_init(&s->out, OUT_ARENA_MAX);
}

static void on_turned(uint64_t cpu_ns, void *arg)
{
	struct tes_server *s = arg;

	tes_server_timing_turned(&s->timing, cpu_ns);
}

static int start_timers(struct tes_server *s)
{
	int rc = tes_server_timing_init(&s->timing, tei_loop_base(s->loop));

	if (rc)
		return rc;
	tei_loop_measure(s->loop, on_turned, s);
	s->timer = tei_timer_start(s->loop, TICK_MS, true, on_tick, s);
	return s->timer ? tes_server_summary_start(s) : -ENOMEM;
}

static void stop_timers(struct tes_server *s)
{
	tei_loop_measure(s->loop, NULL, NULL);
	tei_alarm_clear(&s->hurry);
	tei_alarm_clear(&s->room);
	tei_alarm_clear(&s->turns);
	tei_timer_stop(s->reporter);
	tei_timer_stop(s->timer);
	tes_server_timing_fini(&s->timing);
}

static int init_tables(struct tes_server *s)
{
	if (tei_hash_init(&s->by_id))
		return -ENOMEM;
	if (tei_hash_init(&s->by_client))
		goto fini_by_id;
	if (tei_hash_init(&s->laters))
		goto fini_by_client;
	return 0;

fini_by_client:
	tei_hash_fini(&s->by_client);
fini_by_id:
	tei_hash_fini(&s->by_id);
	return -ENOMEM;
}

static void fini_tables(struct tes_server *s)
{
	tei_hash_fini(&s->laters);
	tei_hash_fini(&s->by_client);
	tei_hash_fini(&s->by_id);
}

/* Makes what decides, and what it tells of: the core, its tenants, events. */
static int start_core(struct tes_server *s, char error[TEI_CONF_ERROR_LEN])
{
	int rc = draw_secrets(s);

	if (!rc)
		rc = tes_events_start(&s->settings, &s->events, error);
	if (rc)
		return rc;
	rc = create_core(s);
	if (rc)
		goto stop_events;
	rc = tes_server_tenants_start(s, error);
	if (rc)
		goto destroy_core;
	return 0;

destroy_core:
	tes_core_destroy(s->core);
stop_events:
	tes_events_stop(s->events);
	assert(rc < 0);
	return rc;
}

static void stop_core(struct tes_server *s)
{
	tes_core_destroy(s->core);
	tes_events_stop(s->events);
}

static int open_ports(struct tes_server *s, char error[TEI_CONF_ERROR_LEN])
{
	int rc = server_open_rpc(s, error);

	if (rc)
		return rc;
	rc = server_open_http(s, error);
	if (rc)
		goto close_rpc;
	rc = server_open_metadata(s, error);
	if (rc)
		goto close_http;
	return 0;

close_http:
	tei_http_stop(s->http);
close_rpc:
	tei_frame_server_close(s->port);
	assert(rc < 0);
	return rc;
}

static void close_ports(struct tes_server *s)
{
	tes_metadata_server_stop(s->metadata);
	tei_http_stop(s->http);
	tei_frame_server_close(s->port);
}

int tes_server_create(struct tei_loop *loop,
		      const struct tes_server_settings *settings,
		      struct tes_server **out, char error[TEI_CONF_ERROR_LEN])
{
	struct tes_server *s;
	int rc = -ENOMEM;

	snprintf(error, TEI_CONF_ERROR_LEN, "cannot start");
	s = tei_calloc(1, sizeof(*s));
	if (!s)
		goto say;
	init(s, loop, settings);
	rc = init_tables(s);
	if (rc)
		goto free_server;
	rc = start_core(s, error);
	if (rc)
		goto fini_tables;
	rc = open_ports(s, error);
	if (rc)
		goto stop_core;
	rc = start_timers(s);
	if (rc)
		goto stop_timers;
	*out = s;
	return 0;

stop_timers:
	stop_timers(s);
	close_ports(s);
stop_core:
	stop_core(s);
fini_tables:
	fini_tables(s);
free_server:
	tei_free(s);
say:
	assert(rc < 0);
	if (!strcmp(error, "cannot start"))
		snprintf(error, TEI_CONF_ERROR_LEN, "cannot start: %s",
			 strerror(-rc));
	return rc;
}

void tes_server_destroy(struct tes_server *s)
{
	if (!s)
		return;
	close_ports(s);
	tes_server_sessions_free(s);
	/* Only now: connections that go let others into the queue. */
	stop_timers(s);
	stop_core(s);
	tes_server_remove_all_free(s);
	fini_tables(s);
	tei_arena_fini(&s->in);
	tei_arena_fini(&s->out);
	tei_free(s);
}

uint16_t tes_server_rpc_port(const struct tes_server *s)
{
	return s->rpc_port;
}

uint16_t tes_server_http_port(const struct tes_server *s)
{
	return s->http_port;
}

uint16_t tes_server_metadata_port(const struct tes_server *s)
{
	return s->metadata_port;
}

const char *tes_server_events_endpoint(const struct tes_server *s)
{
	return tes_events_endpoint(s->events);
}
