/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello.c - the first frame of a connection: who is it
 *
 *   main connection       the client joins, or comes back to its session when
 *                         client id and incarnation are the same
 *   heartbeat connection  belongs to the session of that client id
 *
 * The client id is known to the client and us only, so who says it is that
 * client. A newer connection of the same kind takes the place of the older,
 * which may be half dead without anybody knowing.
 */
#include <errno.h>
#include <string.h>

#include <xxhash.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/core/codes.h"
#include "store/proto/store.pb-c.h"
#include "store/server/rpc.h"
#include "store/server/state.h"

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

/* Under a new number: the core tells joins apart by it. */
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
		if (s->settings.enable_multi_tenants)
			m.features = TES_STORE_TENANTS;
		m.epoch = s->epoch;
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

static void adopt(struct tes_server_link *link,
		  struct tes_server_session *session, enum tes_server_role role)
{
	struct tes_server_link **place =
		role == TES_SERVER_HEART ? &session->heart : &session->main;
	struct tes_server_link *old = *place;

	link->role = role;
	link->session = session;
	*place = link;
	if (old)
		tes_server_link_drop(old);
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

/* Whose keys are everybody's is to be said, once. */
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

static void hello_main(struct tes_server_link *link, const struct tei_frame *f,
		       const struct tes_server_rpc_hello *hello)
{
	struct tes_server *s = link->server;
	struct tes_server_session *session = session_for(s, hello);
	struct tes_event ev = {.type = TES_EVENT_JOIN};

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
	link->role = TES_SERVER_STRANGER;
	tes_server_session_end(s, session->id);
	send_hello(s, link, f, code, "the master could not open a session");
}

void tes_server_on_hello(struct tes_server_link *link,
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
			   "this master speaks version 1 of the protocol");
		return;
	}
	if (hello.heartbeat)
		hello_heart(link, f, &hello);
	else
		hello_main(link, f, &hello);
}
