/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dummy_buffers.c - values in memory that the caller has not to bring along
 *
 * The daemon reads them into its own, where we only look. For those that it has
 * no room for, and where it lends none, they are read into ours.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/client/client.h"
#include "store/daemon/dummy_batch.h"
#include "store/daemon/dummy_shelf.h"

#define SLACK_MS 500

struct borrowing {
	struct tes_dummy_batch batch;
	struct tes_dummy_conn *conn;
	struct tes_shelf *shelf;
	struct tei_list told; /* freed ones that the message names */
	struct te_store_buffer **out;
	int64_t *results;
};

static void take_value(struct borrowing *b, const Agent__BuffersReply *reply,
		       size_t i)
{
	uint32_t k = b->batch.which[i];
	int64_t result = reply->result[i];

	b->results[k] = result;
	if (result <= 0)
		return;
	b->out[k] = tes_shelf_buffer(b->shelf, reply->offset[i],
				     (uint64_t)result, reply->id[i]);
	if (!b->out[k])
		b->results[k] = TE_STORE_INTERNAL_ERROR;
}

static int take_values(struct borrowing *b, const uint8_t *body, size_t len)
{
	size_t n = b->batch.n;
	Agent__BuffersReply *reply =
		agent__buffers_reply__unpack(&b->batch.arena->pb, len, body);

	if (!reply || reply->code > 0)
		return tes_bad_reply("daemon");
	if (reply->code)
		return reply->code;
	if (reply->n_result != n || reply->n_offset != n || reply->n_id != n)
		return tes_bad_reply("daemon");
	for (size_t i = 0; i < n; i++)
		take_value(b, reply, i);
	return 0;
}

static int exchange(struct borrowing *b)
{
	struct tes_dummy *dummy = b->batch.dummy;
	uint64_t ms = 3 * dummy->call_ms + dummy->replica_ms + SLACK_MS;
	struct tes_shelf *late = NULL;
	const uint8_t *body;
	size_t len;
	int code;

	b->batch.msg.wait_ms = (uint32_t)dummy->call_ms;
	code = tes_dummy_exchange(
		b->conn, AGENT__AGENT_TYPE__AGENT_BUFFERS, &b->batch.msg.base,
		b->batch.arena, tei_now_ns() + ms * TEI_NS_PER_MS, &body, &len);
	if (code == TE_STORE_RPC_TIMEOUT) {
		late = b->shelf; /* with its reference */
		b->shelf = NULL;
	}
	tes_shelf_told(late ? late : b->shelf, &b->told, !code);
	b->conn->shelf = late;
	tes_dummy_release(dummy, b->conn, code, NULL);
	return code ? code : take_values(b, body, len);
}

static int ask(struct borrowing *b)
{
	uint64_t *ids = tei_arena_alloc(b->batch.arena,
					TES_AGENT_KEYS_MAX * sizeof(*ids));

	if (!ids) {
		tes_dummy_release(b->batch.dummy, b->conn, 0, NULL);
		return TE_STORE_INTERNAL_ERROR;
	}
	b->batch.msg.freed = ids;
	b->batch.msg.n_freed = tes_shelf_take_freed(b->shelf, &b->told, ids,
						    TES_AGENT_KEYS_MAX);
	return exchange(b);
}

/* False: the daemon lends no memory; then results are as before. */
static bool borrow(struct tes_dummy *dummy, const struct te_store_key *keys,
		   size_t n, struct te_store_buffer **out, int64_t *results)
{
	uint64_t deadline = tei_now_ns() + dummy->call_ms * TEI_NS_PER_MS;
	struct tei_arena arena;
	struct borrowing b = {
		.batch = {.dummy = dummy, .arena = &arena},
		.out = out,
		.results = results,
	};
	bool lends = true;
	int code;

	tei_arena_init(&arena, TES_BATCH_ARENA_MAX);
	tei_list_init(&b.told);
	code = tes_batch_add_keys(&b.batch, keys, n, NULL, results);
	if (!code && b.batch.n)
		code = tes_dummy_connect(dummy, deadline, &b.conn);
	if (!code && b.batch.n) {
		b.shelf = tes_shelf_get(dummy, b.conn, deadline);
		lends = b.shelf != NULL;
		if (lends)
			code = ask(&b);
		else
			tes_dummy_release(dummy, b.conn, 0, NULL);
	}
	if (!b.batch.which)
		for (size_t i = 0; i < n; i++)
			results[i] = code;
	for (size_t i = 0; code && b.batch.which && i < b.batch.n; i++)
		results[b.batch.which[i]] = code;
	tes_shelf_put(b.shelf);
	tei_arena_fini(&arena);
	return lends;
}

/* Those of keys[from .. to) that have no room there. */
static void read_rest(struct te_store *store, const struct te_store_key *keys,
		      size_t n, bool all, struct te_store_buffer **out,
		      int64_t *results)
{
	size_t i, len;

	for (i = 0; i < n; i += len) {
		bool wanted = all || results[i] == TE_STORE_BUFFER_OVERFLOW;

		for (len = 1; i + len < n; len++)
			if (wanted != (all || results[i + len] ==
						      TE_STORE_BUFFER_OVERFLOW))
				break;
		if (wanted)
			tes_dummy_read_own(store, keys + i, len, out + i,
					   results + i);
	}
}

int tes_dummy_get_buffers(struct te_store *store,
			  const struct te_store_key *keys, size_t n,
			  struct te_store_buffer **out, int64_t *results)
{
	size_t from, len, i;
	int n_found = 0;
	bool lends = true;

	if (!tes_keys_given(store, keys, n, results) || (n && !out))
		return TE_STORE_INVALID_PARAMS;
	for (i = 0; i < n; i++) {
		out[i] = NULL;
		results[i] = TE_STORE_INTERNAL_ERROR;
	}
	for (from = 0; from < n; from += len) {
		len = lends ? tes_chunk(keys, from, n) : n - from;
		if (lends)
			lends = borrow(store->dummy, keys + from, len,
				       out + from, results + from);
		read_rest(store, keys + from, len, !lends, out + from,
			  results + from);
	}
	for (i = 0; i < n; i++)
		n_found += results[i] >= 0;
	return n_found;
}
