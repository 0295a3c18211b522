/* SPDX-License-Identifier: Apache-2.0 */
/* clear.c - remove all objects, those that match, and replicas in a segment */
#include <string.h>

#include "base/clock.h"
#include "store/client/client.h"
#include "store/proto/keys.h"
#include "store/proto/store.pb-c.h"

#define WALK_NS     (60 * TEI_NS_PER_S) /* over all objects of a pool */
#define PATTERN_MAX 2048u

static int remove_walk(struct te_store *store, const char *pattern, bool force,
		       uint64_t *removed)
{
	Store__RemoveAll msg = STORE__REMOVE_ALL__INIT;
	Store__RemoveAllReply *answer;
	struct tei_arena arena;
	struct tes_reply reply;
	int code;

	msg.force = force;
	msg.pattern = (char *)(uintptr_t)pattern;
	tei_arena_init(&arena, 64u << 10);
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_REMOVE_ALL,
			      &msg.base, &arena, tei_now_ns() + WALK_NS,
			      &reply);
	if (code)
		goto out;
	answer = store__remove_all_reply__unpack(&arena.pb, reply.len,
						 reply.body);
	code = answer ? answer->status : tes_bad_reply("remove all");
	if (answer && !code && removed)
		*removed = answer->removed;
out:
	tes_locations_clear(&store->locations);
	tes_hot_clear(&store->hot);
	tei_arena_fini(&arena);
	return code;
}

int tes_direct_remove_all(struct te_store *store, int force, uint64_t *removed)
{
	return remove_walk(store, "", force != 0, removed);
}

int tes_direct_remove_matching(struct te_store *store, const char *pattern,
			       int force, uint64_t *removed)
{
	if (!pattern || strlen(pattern) > PATTERN_MAX)
		return TE_STORE_INVALID_PARAMS;
	return remove_walk(store, pattern, force != 0, removed);
}

/* ---- replicas ---- */

static int clear(struct te_store *store, struct tei_arena *arena,
		 const struct te_store_key *keys, size_t n, const char *segment,
		 int *results)
{
	Store__ReplicaClear msg = STORE__REPLICA_CLEAR__INIT;
	uint32_t *which = tei_arena_alloc(arena, n * sizeof(*which));
	struct tes_key_column column;
	Store__KeysReply *answer;
	struct tes_reply reply;
	size_t i;
	int code;

	if (!which ||
	    tes_key_column_init(&column, arena, n, tes_keys_bytes(keys, n)))
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < n; i++) {
		if (!tes_key_holds(&keys[i]))
			continue;
		which[column.n] = (uint32_t)i;
		tes_key_column_add(&column, keys[i].bytes, keys[i].len);
	}
	if (!column.n)
		return 0;
	msg.keys = column.bytes;
	msg.key_lens = column.lens;
	msg.n_key_lens = column.n;
	msg.segment = (char *)(uintptr_t)segment;
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_REPLICA_CLEAR,
			      &msg.base, arena, tes_call_deadline(store),
			      &reply);
	if (code)
		return code;
	answer = store__keys_reply__unpack(&arena->pb, reply.len, reply.body);
	if (!answer || answer->n_status != column.n)
		return tes_bad_reply("replica clear");
	for (i = 0; i < column.n; i++)
		results[which[i]] = answer->status[i];
	return 0;
}

int tes_direct_replica_clear(struct te_store *store,
			     const struct te_store_key *keys, size_t n,
			     const char *segment, int *results)
{
	struct tei_arena arena;
	size_t from, len, i;
	int code;

	if (!tes_keys_given(store, keys, n, results) ||
	    (segment && strlen(segment) > TE_NAME_LEN_MAX))
		return TE_STORE_INVALID_PARAMS;
	tei_arena_init(&arena, 64u << 20);
	for (from = 0; from < n; from += len) {
		len = tes_chunk(keys, from, n);
		for (i = from; i < from + len; i++)
			results[i] = TE_STORE_INVALID_PARAMS;
		code = clear(store, &arena, keys + from, len,
			     segment ? segment : "", results + from);
		for (i = from; i < from + len && code; i++)
			if (tes_key_holds(&keys[i]))
				results[i] = code;
		tei_arena_reset(&arena);
	}
	tei_arena_fini(&arena);
	tes_forget_keys(store, keys, n);
	return tes_first_code(results, n);
}
