/* SPDX-License-Identifier: Apache-2.0 */
/* query.c - what only asks the master: exist, size, remove, pool */
#include <string.h>

#include "store/client/client.h"
#include "store/proto/extent.h"
#include "store/proto/keys.h"
#include "store/proto/store.pb-c.h"

/* exist, size and remove differ in the type, the flag and where results go. */
struct query {
	struct te_store *store;
	uint16_t type;
	bool force;
	bool sized;     /* sizes are asked for, else codes */
	int *codes;     /* codes[n] */
	int64_t *sizes; /* sizes[n] */
};

static void set_result(const struct query *q, size_t i, int code, uint64_t size)
{
	if (q->sized)
		q->sizes[i] = code ? code : (int64_t)size;
	else
		q->codes[i] = code;
}

static int result(const struct query *q, size_t i)
{
	if (q->sized)
		return q->sizes[i] < 0 ? (int)q->sizes[i] : 0;
	return q->codes[i] < 0 ? q->codes[i] : 0;
}

static int ask(const struct query *q, struct tei_arena *arena,
	       const Store__Keys *msg, const uint32_t *which)
{
	Store__KeysReply *answer;
	struct tes_reply reply;
	size_t n = msg->n_key_lens, i;
	int code;

	code = tes_store_call(q->store, q->type, &msg->base, arena,
			      tes_call_deadline(q->store), &reply);
	if (code)
		return code;
	answer = store__keys_reply__unpack(&arena->pb, reply.len, reply.body);
	if (!answer || answer->n_status != n ||
	    (q->sized && answer->n_size != n))
		return tes_bad_reply("a question about keys");
	for (i = 0; i < n; i++)
		set_result(q, which[i], answer->status[i],
			   q->sized ? answer->size[i] : 0);
	return 0;
}

static int query_chunk(const struct query *q, struct tei_arena *arena,
		       const struct te_store_key *keys, size_t from, size_t n)
{
	Store__Keys msg = STORE__KEYS__INIT;
	uint32_t *which = tei_arena_alloc(arena, n * sizeof(*which));
	struct tes_key_column column;
	size_t i;

	if (!which || tes_key_column_init(&column, arena, n,
					  tes_keys_bytes(keys + from, n)))
		return TE_STORE_INTERNAL_ERROR;
	msg.force = q->force;
	for (i = from; i < from + n; i++) {
		set_result(q, i, TE_STORE_INVALID_PARAMS, 0);
		if (!tes_key_holds(&keys[i]))
			continue;
		which[column.n] = (uint32_t)i;
		tes_key_column_add(&column, keys[i].bytes, keys[i].len);
	}
	msg.keys = column.bytes;
	msg.key_lens = column.lens;
	msg.n_key_lens = column.n;
	return column.n ? ask(q, arena, &msg, which) : 0;
}

static void fail_chunk(const struct query *q, const struct te_store_key *keys,
		       size_t from, size_t n, int code)
{
	size_t i;

	for (i = from; i < from + n; i++)
		set_result(q, i,
			   tes_key_holds(&keys[i]) ? code
						   : TE_STORE_INVALID_PARAMS,
			   0);
}

static int query(const struct query *q, const struct te_store_key *keys,
		 size_t n)
{
	struct tei_arena arena;
	size_t from, len, i;
	int code;

	tei_arena_init(&arena, 64u << 20);
	for (from = 0; from < n; from += len) {
		len = tes_chunk(keys, from, n);
		code = query_chunk(q, &arena, keys, from, len);
		if (code)
			fail_chunk(q, keys, from, len, code);
		tei_arena_reset(&arena);
	}
	tei_arena_fini(&arena);
	for (i = 0; i < n; i++)
		if (result(q, i))
			return result(q, i);
	return 0;
}

int tes_direct_exist(struct te_store *store, const struct te_store_key *keys,
		     size_t n, int *results)
{
	const struct query q = {
		.store = store,
		.type = STORE__STORE_TYPE__STORE_EXIST,
		.codes = results,
	};

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	return query(&q, keys, n);
}

int tes_direct_size(struct te_store *store, const struct te_store_key *keys,
		    size_t n, int64_t *results)
{
	const struct query q = {
		.store = store,
		.type = STORE__STORE_TYPE__STORE_SIZE,
		.sized = true,
		.sizes = results,
	};

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	return query(&q, keys, n);
}

void tes_forget_keys(struct te_store *store, const struct te_store_key *keys,
		     size_t n)
{
	uint64_t seed =
		atomic_load_explicit(&store->digest_seed, memory_order_relaxed);
	uint64_t digest;
	size_t i;

	if (!tes_locations_on(&store->locations) && !tes_hot_on(&store->hot))
		return;
	for (i = 0; i < n; i++) {
		if (!tes_key_holds(&keys[i]))
			continue;
		digest = tes_key_digest(keys[i].bytes, keys[i].len, seed);
		tes_locations_drop(&store->locations, keys[i].bytes,
				   keys[i].len, digest, 0);
		tes_hot_drop(&store->hot, keys[i].bytes, keys[i].len, digest);
	}
}

int tes_direct_remove(struct te_store *store, const struct te_store_key *keys,
		      size_t n, int force, int *results)
{
	const struct query q = {
		.store = store,
		.type = STORE__STORE_TYPE__STORE_REMOVE,
		.force = force != 0,
		.codes = results,
	};
	int code;

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	code = query(&q, keys, n);
	tes_forget_keys(store, keys, n);
	return code;
}

static void copy_pool(struct te_store_pool *out, const Store__PoolReply *reply)
{
	memset(out, 0, sizeof(*out));
	out->capacity_bytes = reply->capacity_bytes;
	out->used_bytes = reply->used_bytes;
	out->objects = reply->objects;
	out->owners = reply->owners;
	out->clients = reply->clients;
	out->evicted_objects = reply->evicted_objects;
	out->evicted_bytes = reply->evicted_bytes;
	out->master_metadata_bytes = reply->metadata_bytes;
	out->master_key_bytes = reply->key_bytes;
}

int tes_direct_pool(struct te_store *store, struct te_store_pool *out)
{
	Store__Pool msg = STORE__POOL__INIT;
	Store__PoolReply *answer;
	struct tes_reply reply;
	struct tei_arena arena;
	int code;

	if (!store || !out)
		return TE_STORE_INVALID_PARAMS;
	tei_arena_init(&arena, 64u << 10);
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_POOL, &msg.base,
			      &arena, tes_call_deadline(store), &reply);
	if (code)
		goto out;
	answer = store__pool_reply__unpack(&arena.pb, reply.len, reply.body);
	if (!answer) {
		code = tes_bad_reply("a question about the pool");
		goto out;
	}
	code = answer->status;
	if (!code)
		copy_pool(out, answer);
out:
	tei_arena_fini(&arena);
	return code;
}
