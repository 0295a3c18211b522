/* SPDX-License-Identifier: Apache-2.0 */
/* dummy_admin.c - calls that move no values: removing all, listing replicas */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/daemon/dummy_batch.h"
#include "store/proto/keys.h"

/*
 * Sends @msg over a connection of the pool and awaits the reply, whose body
 * lies in @arena, for @wait_ms beyond the time of a call. Codes as those of
 * tes_dummy_connect() and tes_dummy_exchange().
 */
static int ask_daemon(struct tes_dummy *dummy, uint16_t type,
		      const ProtobufCMessage *msg, struct tei_arena *arena,
		      uint64_t wait_ms, const uint8_t **body, size_t *len)
{
	uint64_t deadline = tei_now_ns() + dummy->call_ms * TEI_NS_PER_MS;
	struct tes_dummy_conn *conn;
	int code = tes_dummy_connect(dummy, deadline, &conn);

	if (code)
		return code;
	deadline += (wait_ms + TES_DUMMY_SLACK_MS) * TEI_NS_PER_MS;
	code = tes_dummy_exchange(conn, type, msg, arena, deadline, body, len);
	tes_dummy_release(dummy, conn, code, NULL);
	return code;
}

/* ---- removing all ---- */

static int ask_remove_all(struct tes_dummy *dummy, Agent__RemoveAll *msg,
			  struct tei_arena *arena, uint64_t *removed)
{
	/* Our walk, and before it that of another dummy. */
	uint64_t wait_ms = dummy->call_ms + 2 * TES_AGENT_WALK_MS;
	Agent__RemoveAllReply *reply;
	const uint8_t *body;
	size_t len;
	int code = ask_daemon(dummy, AGENT__AGENT_TYPE__AGENT_REMOVE_ALL,
			      &msg->base, arena, wait_ms, &body, &len);

	if (code)
		return code;
	reply = agent__remove_all_reply__unpack(&arena->pb, len, body);
	if (!reply || reply->code > 0)
		return tes_bad_reply("daemon");
	if (!reply->code && removed)
		*removed = reply->removed;
	return reply->code;
}

static int remove_all(struct tes_dummy *dummy, const char *pattern, int force,
		      uint64_t *removed)
{
	Agent__RemoveAll msg = AGENT__REMOVE_ALL__INIT;
	struct tei_arena arena;
	int code;

	msg.force = force;
	msg.pattern = (char *)(uintptr_t)pattern; /* only read from */
	msg.wait_ms = (uint32_t)dummy->call_ms;
	tei_arena_init(&arena, 64u << 10);
	code = ask_remove_all(dummy, &msg, &arena, removed);
	tei_arena_fini(&arena);
	return code;
}

int tes_dummy_remove_all(struct te_store *store, int force, uint64_t *removed)
{
	return remove_all(store->dummy, "", force, removed);
}

int tes_dummy_remove_matching(struct te_store *store, const char *pattern,
			      int force, uint64_t *removed)
{
	/* An empty one matches every key. */
	if (!pattern || strlen(pattern) > TES_AGENT_PATTERN_MAX)
		return TE_STORE_INVALID_PARAMS;
	return remove_all(store->dummy, pattern, force, removed);
}

/* ---- replicas ---- */

struct replicas {
	struct te_store *store;
	struct te_store_replica *out;
	size_t n, room; /* n: found, which may exceed the room */
};

static bool columns_hold(const Agent__ReplicasReply *reply, size_t n_keys)
{
	size_t n = reply->n_status, sum = 0, i;

	if (reply->n_result != n_keys || reply->n_n_extents != n ||
	    reply->n_address != n || reply->n_size != n ||
	    reply->n_segment != n)
		return false;
	for (i = 0; i < n_keys; i++)
		sum += reply->result[i] > 0 ? (size_t)reply->result[i] : 0;
	return sum == n;
}

static void take_replicas(struct replicas *r, const Agent__ReplicasReply *reply)
{
	for (size_t i = 0; i < reply->n_status; i++) {
		size_t len = strnlen(reply->segment[i], TE_NAME_LEN_MAX);
		struct te_store_replica *out;

		if (r->n++ >= r->room)
			continue;
		out = &r->out[r->n - 1];
		memset(out, 0, sizeof(*out));
		out->status = reply->status[i];
		out->n_extents = reply->n_extents[i];
		out->address = reply->address[i];
		out->size = reply->size[i];
		memcpy(out->segment, reply->segment[i], len);
	}
}

/* 0, or the code of all keys of the batch. */
static int ask_replicas(struct replicas *r, struct tes_dummy_batch *b,
			int *results)
{
	struct tes_dummy *dummy = b->dummy;
	Agent__ReplicasReply *reply;
	const uint8_t *body;
	size_t len;
	int code;

	b->msg.wait_ms = (uint32_t)dummy->call_ms;
	code = ask_daemon(dummy, b->type, &b->msg.base, b->arena,
			  2 * dummy->call_ms, &body, &len);
	if (code)
		return code;
	reply = agent__replicas_reply__unpack(&b->arena->pb, len, body);
	if (!reply || reply->code > 0)
		return tes_bad_reply("daemon");
	if (reply->code)
		return reply->code;
	if (!columns_hold(reply, b->n))
		return tes_bad_reply("daemon");
	for (size_t i = 0; i < b->n; i++)
		results[b->which[i]] = reply->result[i];
	take_replicas(r, reply);
	return 0;
}

static void replicas_of(struct replicas *r, const struct te_store_key *keys,
			size_t n, int *results)
{
	int64_t wide[TES_AGENT_REPLICAS_KEYS_MAX];
	struct tei_arena arena;
	struct tes_dummy_batch b = {
		.dummy = r->store->dummy,
		.type = AGENT__AGENT_TYPE__AGENT_REPLICAS,
		.arena = &arena,
	};
	int code;

	tei_arena_init(&arena, TES_BATCH_ARENA_MAX);
	code = tes_dummy_batch_add_keys(&b, keys, n, NULL, wide);
	for (size_t i = 0; i < n; i++)
		results[i] = code ? code : (int)wide[i];
	if (!code && b.n)
		code = ask_replicas(r, &b, results);
	for (size_t i = 0; code && i < b.n; i++)
		results[b.which[i]] = code;
	tei_arena_fini(&arena);
}

int tes_dummy_replicas(struct te_store *store, const struct te_store_key *keys,
		       size_t n, int *results, struct te_store_replica *out,
		       size_t *n_out)
{
	struct replicas r = {.store = store, .out = out};
	size_t from, len, i;
	int n_found = 0;

	if (!tes_keys_given(store, keys, n, results) || !n_out ||
	    (*n_out && !out))
		return TE_STORE_INVALID_PARAMS;
	r.room = *n_out;
	for (from = 0; from < n; from += len) {
		len = tes_chunk(keys, from, n);
		if (len > TES_AGENT_REPLICAS_KEYS_MAX)
			len = TES_AGENT_REPLICAS_KEYS_MAX;
		replicas_of(&r, keys + from, len, results + from);
	}
	*n_out = r.n;
	for (i = 0; i < n; i++)
		n_found += results[i] > 0;
	return n_found;
}
