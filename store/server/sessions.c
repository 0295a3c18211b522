/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sessions.c - connections and the sessions they belong to
 *
 * Identity comes from the connection: whatever a frame says, its event bears
 * the session of the link it came by. A session stays when its connections
 * go, because the client may come back; only the core ends it.
 */
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/core/codes.h"
#include "store/proto/identity.h"
#include "store/proto/store.pb-c.h"
#include "store/server/metadata_http.h"
#include "store/server/rpc.h"
#include "store/server/state.h"

/*
 * The first frame of a connection: who is it.
 *
 *   main connection       the client joins, or comes back to its session when
 *                         client id and incarnation are the same
 *   heartbeat connection  belongs to the session of that client id
 *
 * Who says hello with a client's secret is that client; its id, which others
 * see, opens nothing. A newer connection of the same kind takes the place of
 * the older, which may be half dead without anybody knowing.
 */

static uint64_t client_hash(const struct tes_server *s, const uint8_t *id)
{
	return XXH3_64bits_withSeed(id, TES_CORE_ID_LEN, s->hash_seed);
}

static struct tes_server_session *find_client(const struct tes_server *s,
					      const uint8_t *client_id)
{
	uint64_t hash = client_hash(s, client_id);
	struct tei_hash_node *n;

	for (n = tei_hash_first(&s->by_client, hash); n;
	     n = tei_hash_next(&s->by_client, n)) {
		struct tes_server_session *session =
			TEI_CONTAINER(n, struct tes_server_session, by_client);

		if (!memcmp(session->client_id, client_id, TES_CORE_ID_LEN))
			return session;
	}
	return NULL;
}

/* Gives a new number: the core tells joins apart by it. */
static void session_number(struct tes_server *s,
			   struct tes_server_session *session)
{
	session->id = ++s->last_session;
	tei_hash_insert(&s->by_id, &session->by_id, session->id);
}

static struct tes_server_session *
session_new(struct tes_server *s, const struct tes_server_rpc_hello *hello)
{
	struct tes_server_session *session;

	if (s->by_id.n_nodes >= TES_SERVER_SESSIONS_MAX)
		return NULL;
	session = tei_calloc(1, sizeof(*session));
	if (!session)
		return NULL;
	memcpy(session->client_id, hello->client_id, TES_CORE_ID_LEN);
	memcpy(session->incarnation, hello->incarnation, TES_CORE_ID_LEN);
	session->named = true;
	tes_server_share_init(&session->share);
	/* Without memory for it its entries stay until they expire. */
	session->engine = tei_strdup(hello->engine);
	session_number(s, session);
	tei_hash_insert(&s->by_client, &session->by_client,
			client_hash(s, hello->client_id));
	return session;
}

static void send_hello(struct tes_server *s, struct tes_server_link *link,
		       const struct tei_frame *f, int32_t code, const char *why)
{
	Store__HelloReply m = STORE__HELLO_REPLY__INIT;

	m.status = code;
	m.why = (char *)(uintptr_t)why; /* only read by packing */
	m.version = TES_STORE_VERSION;
	if (!code) {
		m.features = TES_STORE_PADS;
		if (s->settings.enable_multi_tenants)
			m.features |= TES_STORE_TENANTS;
		m.epoch = s->epoch;
		m.epoch_proof.data = s->epoch_proof;
		m.epoch_proof.len = sizeof(s->epoch_proof);
		m.group.data = s->group;
		m.group.len = sizeof(s->group);
		m.digest_seed = s->digest_seed;
		m.heartbeat_ms = s->heartbeat_ms;
		m.client_ttl_ms = (uint32_t)s->settings.client_ttl;
	}
	tei_frame_reply(link->conn, f, &m.base);
	if (code)
		tei_frame_refuse(link->conn, why);
}

static void server_link_drop(struct tes_server_link *link);

static void adopt(struct tes_server_link *link,
		  struct tes_server_session *session, enum tes_server_role role)
{
	struct tes_server_link **place =
		role == TES_SERVER_HEART ? &session->heart : &session->main;
	struct tes_server_link *old = *place;

	link->role = role;
	link->session = session;
	tei_frame_name(link->conn, session->client_id);
	*place = link;
	if (old)
		server_link_drop(old);
}

static void hello_heart(struct tes_server_link *link, const struct tei_frame *f,
			const struct tes_server_rpc_hello *hello)
{
	struct tes_server *s = link->server;
	struct tes_server_session *session = find_client(s, hello->client_id);
	struct tes_event ev = {.type = TES_EVENT_HEARTBEAT};

	if (!session ||
	    memcmp(session->incarnation, hello->incarnation, TES_CORE_ID_LEN)) {
		s->counters.refused_unknown++;
		send_hello(s, link, f, CODE_NO_CLIENT,
			   "no session of this client; join first");
		return;
	}
	adopt(link, session, TES_SERVER_HEART);
	session->hold_told = 0;
	ev.session = session->id;
	ev.u.heartbeat.fresh = true;
	send_hello(s, link, f, 0, "");
	tes_server_step(s, &ev, NULL, NULL);
}

/*
 * The session that this hello opens or comes back to; NULL: no room. The core
 * ends the session of a client that was restarted and kept its id.
 */
static struct tes_server_session *
session_for(struct tes_server *s, const struct tes_server_rpc_hello *hello)
{
	struct tes_server_session *session = find_client(s, hello->client_id);

	if (!session)
		return session_new(s, hello);
	if (memcmp(session->incarnation, hello->incarnation, TES_CORE_ID_LEN) ==
	    0) {
		tei_hash_remove(&s->by_id, &session->by_id);
		session_number(s, session);
		return session;
	}
	tei_hash_remove(&s->by_client, &session->by_client);
	session->named = false;
	return session_new(s, hello);
}

/* Warns once that tenants are off, so that all clients share one key space. */
static void note_tenant(struct tes_server *s, const char *tenant)
{
	if (s->settings.enable_multi_tenants || s->tenants_told || !*tenant ||
	    strcmp(tenant, "default") == 0)
		return;
	s->tenants_told = true;
	LOG_WARN("master: a client is of tenant '%s', but shares its keys with "
		 "all others: --enable_multi_tenants is off",
		 tenant);
}

/*
 * Tells whether our epoch is to be above that of @hello: its client has a proof
 * of a master before us, or is one of us. With --insecure anybody may come, so
 * only a proof counts.
 */
static bool believes(struct tes_server *s,
		     const struct tes_server_rpc_hello *hello)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (hello->epoch <= s->epoch || !s->settings.insecure ||
	    tes_epoch_is_proven(s->epoch_key, hello->epoch, hello->epoch_proof,
				hello->epoch_proof_len))
		return true;
	if (tei_log_allowed(&limit))
		LOG_WARN(
			"master: %s names epoch %llu, later than ours, without "
			"a proof: not believed, and its objects of later "
			"epochs are refused. Masters of one pool share their "
			"--epoch_key_file",
			hello->engine, (unsigned long long)hello->epoch);
	return false;
}

/* Returns what the client of @hello proves to have had at an earlier master. */
static struct tes_core_hold
held_before(const struct tes_server *s,
	    const struct tes_server_rpc_hello *hello)
{
	struct tes_name_hold hold = {
		.port = s->rpc_port,
		.life = hello->incarnation,
		.name = hello->engine,
	};

	if (!tes_name_is_proven(s->epoch_key, &hold, hello->name_proof,
				hello->name_proof_len) ||
	    hold.seed == s->digest_seed)
		return (struct tes_core_hold){0};
	return (struct tes_core_hold){.life = hold.seed,
				      .epoch = hold.epoch,
				      .n = hold.n,
				      .young = hold.young};
}

static void hello_main(struct tes_server_link *link, const struct tei_frame *f,
		       const struct tes_server_rpc_hello *hello)
{
	struct tes_server *s = link->server;
	struct tes_event ev = {.type = TES_EVENT_JOIN};
	struct tes_server_session *session;

	ev.u.join.believed = believes(s, hello);
	if (ev.u.join.believed &&
	    tes_core_epoch_exceed(s->core, hello->epoch) == -EAGAIN) {
		s->counters.refused_early++;
		tei_frame_refuse_for_now(
			link->conn,
			"you know of a later epoch than this master: it lets "
			"you in when what is being put has ended");
		return;
	}
	session = session_for(s, hello);
	if (!session) {
		send_hello(s, link, f, CODE_INTERNAL, "too many sessions");
		return;
	}
	adopt(link, session, TES_SERVER_MAIN);
	ev.session = session->id;
	ev.u.join.client_id = hello->client_id;
	ev.u.join.incarnation = hello->incarnation;
	ev.u.join.engine = hello->engine;
	ev.u.join.host = hello->host;
	ev.u.join.host_len = hello->host_len;
	ev.u.join.epoch = hello->epoch;
	ev.u.join.held = held_before(s, hello);
	ev.u.join.source = tei_frame_source(link->conn);
	ev.u.join.buries = hello->features & TES_STORE_BURIES;
	ev.u.join.tenant = hello->tenant;
	note_tenant(s, hello->tenant);
	ev.u.join.probes = hello->features & TES_STORE_PROBES;
	ev.u.join.executes = hello->features & TES_STORE_EXECUTES;
	tes_server_step(s, &ev, link, f);
}

void tes_server_hello_done(struct tes_server *s, struct tes_server_link *link,
			   const struct tei_frame *f, int32_t code)
{
	struct tes_server_session *session;

	if (!link)
		return;
	if (!code) {
		send_hello(s, link, f, 0, "");
		return;
	}
	/* The core does not know this session, so nobody would end it. */
	session = link->session;
	session->main = NULL;
	link->session = NULL;
	link->role = TES_SERVER_UNKNOWN;
	tes_server_session_end(s, session->id);
	send_hello(s, link, f, code, "the master could not open a session");
}

static void server_on_hello(struct tes_server_link *link,
			    const struct tei_frame *f)
{
	struct tes_server *s = link->server;
	struct tes_server_rpc_hello hello;
	const char *why;

	if (tes_server_rpc_hello(&s->in, f->body, f->len, &hello, &why)) {
		tei_frame_bad(link->conn, why);
		return;
	}
	if (hello.version != TES_STORE_VERSION) {
		s->counters.refused_version++;
		send_hello(s, link, f, CODE_VERSION,
			   "this master speaks version 3 of the protocol: use "
			   "a client of its release");
		return;
	}
	if (hello.epoch > TES_STORE_EPOCH_MAX &&
	    !tes_epoch_is_proven(s->epoch_key, hello.epoch, hello.epoch_proof,
				 hello.epoch_proof_len)) {
		s->counters.refused_epoch++;
		send_hello(s, link, f, CODE_ARGUMENT,
			   "no master has had the epoch that your hello names");
		return;
	}
	if (hello.heartbeat)
		hello_heart(link, f, &hello);
	else
		hello_main(link, f, &hello);
}

/* Take @link out of everything and free it; its connection too. */
static void link_free(struct tes_server_link *link)
{
	struct tes_server *s = link->server;

	if (s->call.link == link)
		s->call.link = NULL;
	if (link->session && link->session->main == link)
		link->session->main = NULL;
	if (link->session && link->session->heart == link)
		link->session->heart = NULL;
	tes_server_laters_drop(link);
	tes_server_turns_drop(link);
	tei_list_del(&link->link);
	s->n_links--;
	tei_frame_close(link->conn);
	tei_free(link);
}

/* Close a connection for its peer's fault, and let the core know. */
static void server_link_drop(struct tes_server_link *link)
{
	struct tes_server *s = link->server;
	struct tes_server_session *session = link->session;
	struct tes_event ev = {.type = TES_EVENT_LEAVE};
	bool left = session && session->main == link;

	link_free(link);
	if (!left)
		return;
	ev.session = session->id;
	tes_server_remove_all_left(s, ev.session);
	tes_server_step(s, &ev, NULL, NULL);
}

/*
 * Proves to a client that its engine has its name, when it begins to or the
 * proof may have been lost. False: there is nothing to be told.
 */
static bool prove_name(struct tes_server *s, struct tes_server_session *session,
		       uint8_t proof[TES_STORE_NAME_LEN])
{
	struct tes_core_hold held = tes_core_name_hold(s->core, session->id);
	struct tes_name_hold hold = {
		.port = s->rpc_port,
		.seed = s->digest_seed,
		.epoch = s->epoch,
		.n = held.n,
		.young = held.young,
		.life = session->incarnation,
		.name = session->engine,
	};

	if (!held.n || held.n == session->hold_told || !hold.name ||
	    tes_name_prove(s->epoch_key, &hold, proof))
		return false;
	session->hold_told = held.n;
	return true;
}

static void on_heartbeat(struct tes_server_link *link,
			 const struct tei_frame *f)
{
	struct tes_server *s = link->server;
	struct tes_event ev = {.type = TES_EVENT_HEARTBEAT};
	Store__HeartbeatReply m = STORE__HEARTBEAT_REPLY__INIT;
	uint8_t name_proof[TES_STORE_NAME_LEN];
	const char *why;
	size_t n_mounts;
	uint32_t claimed;
	uint64_t epoch;

	if (tes_server_rpc_heartbeat(&s->in, f->body, f->len, &epoch, &claimed,
				     &why)) {
		tei_frame_bad(link->conn, why);
		return;
	}
	ev.session = link->session->id;
	m.epoch = s->epoch;
	if (epoch != s->epoch) {
		m.epoch_proof.data = s->epoch_proof;
		m.epoch_proof.len = sizeof(s->epoch_proof);
	}
	if (prove_name(s, link->session, name_proof)) {
		m.name_proof.data = name_proof;
		m.name_proof.len = sizeof(name_proof);
	}
	n_mounts = tes_core_mounted(s->core, ev.session);
	m.remount = !n_mounts || n_mounts < claimed;
	tes_server_count(s, &ev, 0, NULL, 0);
	tei_frame_reply(link->conn, f, &m.base);
	tes_server_step(s, &ev, NULL, NULL);
}

static void on_event(struct tes_server_link *link, const struct tei_frame *f)
{
	struct tes_server *s = link->server;
	struct tei_frame_conn *conn = link->conn;
	struct tes_event ev;
	const char *why;

	if (tes_server_rpc_event(&s->in, f->type, f->body, f->len, &ev, &why)) {
		tei_frame_bad(conn, why);
		return;
	}
	ev.session = link->session->id;
	if (ev.type == TES_EVENT_TASK_DONE)
		tes_server_count(s, &ev, ev.u.task_done.status, NULL, 0);
	tes_server_timing_end(&s->timing, TES_SERVER_DECODE);
	if (tes_server_is_large(&ev))
		tes_server_job_begin(link, f, &ev);
	else
		tes_server_step(s, &ev, link, f);
}

/* The owners' answers to what is pushed. */
static bool is_answer(const struct tei_frame *f)
{
	return f->type == STORE__STORE_TYPE__STORE_FENCED ||
	       f->type == STORE__STORE_TYPE__STORE_TASK_DONE ||
	       f->type == STORE__STORE_TYPE__STORE_BURIED ||
	       f->type == STORE__STORE_TYPE__STORE_PROBED;
}

/* Frames without an answer bear no id, all others do. */
static bool id_fits(const struct tei_frame *f)
{
	bool quiet = is_answer(f) ||
		     f->type == STORE__STORE_TYPE__STORE_RELEASE ||
		     f->type == STORE__STORE_TYPE__STORE_REPORT;

	return quiet || f->id != 0;
}

static void dispatch(struct tes_server_link *link, const struct tei_frame *f)
{
	bool heartbeat = f->type == STORE__STORE_TYPE__STORE_HEARTBEAT;
	bool hello = f->type == STORE__STORE_TYPE__STORE_HELLO;

	if (f->flags || !id_fits(f))
		tei_frame_bad(link->conn, "unknown flags, or no request id");
	else if (link->role == TES_SERVER_UNKNOWN && hello)
		server_on_hello(link, f);
	else if (link->role == TES_SERVER_UNKNOWN)
		tei_frame_bad(link->conn, "say hello first");
	else if (hello)
		tei_frame_bad(link->conn, "hello is said once");
	else if (link->role == TES_SERVER_HEART && heartbeat)
		on_heartbeat(link, f);
	else if (link->role == TES_SERVER_HEART && !is_answer(f))
		tei_frame_bad(link->conn, "this connection is for heartbeats");
	else if (f->type == STORE__STORE_TYPE__STORE_POOL)
		tes_server_reply_pool(link, f);
	else if (f->type == STORE__STORE_TYPE__STORE_REMOVE_ALL)
		tes_server_on_remove_all(link, f);
	else
		on_event(link, f);
}

static void on_frame(struct tei_frame_conn *conn, const struct tei_frame *f,
		     void *arg)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct tes_server_link *link = arg;
	struct tes_server *s = link->server;

	/* A peer that asks and does not read must not cost us memory. */
	if (tei_frame_backlog(conn) > TES_SERVER_BACKLOG_MAX) {
		s->counters.refused_slow++;
		if (tei_log_allowed(&limit))
			LOG_WARN("master: client %s does not read its "
				 "answers: closed",
				 link->session && link->session->engine
					 ? link->session->engine
					 : "without a session");
		server_link_drop(link);
		return;
	}
	tes_server_timing_begin(&s->timing, f->type);
	dispatch(link, f);
	if (f->len > TES_SERVER_LONG)
		tes_server_turns_book(s);
	tes_server_timing_over(&s->timing);
	tei_arena_reset(&s->in);
}

static void on_down(struct tei_frame_conn *conn, int err, const char *text,
		    void *arg)
{
	struct tes_server_link *link = arg;

	(void)conn;
	LOG_DEBUG("master: connection ended: %s%s%s", strerror(-err),
		  text ? ": " : "", text ? text : "");
	server_link_drop(link);
}

static void on_fault(enum tei_frame_fault fault, void *arg)
{
	struct tes_server_link *link = arg;

	link->server->counters.refused[fault]++;
}

/* It is an owner's, or an answer is still to come. */
static bool is_needed(void *arg)
{
	const struct tes_server_link *link = arg;

	return !tei_list_empty(&link->laters) || link->job ||
	       !tei_list_empty(&link->queued) ||
	       (link->session &&
		tes_core_mounted(link->server->core, link->session->id));
}

const struct tei_frame_ops tes_server_link_ops = {
	.frame = on_frame,
	.ready = tes_server_ready,
	.down = on_down,
	.fault = on_fault,
	.needed = is_needed,
};

void tes_server_accepted(struct tei_frame_conn *conn, void *server)
{
	struct tes_server *s = server;
	struct tes_server_link *link = tei_calloc(1, sizeof(*link));

	if (!link) {
		tei_frame_refuse_for_now(conn, "out of memory");
		tei_frame_close(conn);
		return;
	}
	link->server = s;
	link->conn = conn;
	tei_list_init(&link->laters);
	tei_list_init(&link->queued);
	tei_list_add_tail(&s->links, &link->link);
	s->n_links++;
	tei_frame_set_ops(conn, &tes_server_link_ops, link);
}

struct tes_server_session *tes_server_session_find(const struct tes_server *s,
						   tes_session_id id)
{
	struct tei_hash_node *n = tei_hash_first(&s->by_id, id);

	return n ? TEI_CONTAINER(n, struct tes_server_session, by_id) : NULL;
}

static void session_free(struct tes_server *s,
			 struct tes_server_session *session)
{
	if (session->main)
		link_free(session->main);
	if (session->heart)
		link_free(session->heart);
	tei_hash_remove(&s->by_id, &session->by_id);
	if (session->named)
		tei_hash_remove(&s->by_client, &session->by_client);
	tei_free(session->engine);
	tei_free(session);
}

void tes_server_session_end(struct tes_server *s, tes_session_id id)
{
	struct tes_server_session *session = tes_server_session_find(s, id);

	if (!session)
		return;
	LOG_DEBUG("master: session %llu has ended", (unsigned long long)id);
	if (session->engine && s->metadata &&
	    s->settings.enable_metadata_cleanup_on_timeout)
		tes_metadata_server_forget(s->metadata, session->engine,
					   session->incarnation);
	session_free(s, session);
}

static void free_visited(struct tei_hash_node *node, void *arg)
{
	session_free(arg,
		     TEI_CONTAINER(node, struct tes_server_session, by_id));
}

void tes_server_sessions_free(struct tes_server *s)
{
	while (s->by_id.n_nodes) {
		size_t cursor = 0;

		while (tei_hash_walk(&s->by_id, &cursor, 64, free_visited, s))
			;
	}
	tei_list_for_each_safe (pos, tmp, &s->links)
		link_free(tei_list_entry(pos, struct tes_server_link, link));
}

struct owners {
	const struct tes_core *core;
	uint64_t n;
};

static void count_owner(struct tei_hash_node *node, void *arg)
{
	struct tes_server_session *session =
		TEI_CONTAINER(node, struct tes_server_session, by_id);
	struct owners *owners = arg;

	owners->n += session->main &&
		     tes_core_mounted(owners->core, session->id) > 0;
}

uint64_t tes_server_owners(const struct tes_server *s)
{
	/* The walk is for readers and writers alike; this one only reads. */
	struct tei_hash *table = &((struct tes_server *)(uintptr_t)s)->by_id;
	struct owners owners = {.core = s->core};
	size_t cursor = 0;

	while (tei_hash_walk(table, &cursor, 64, count_owner, &owners))
		;
	return owners.n;
}
