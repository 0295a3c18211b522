/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold.c - look-ups that are kept, so that reading asks the master nothing
 *
 * They are pinned locations, whose leases are renewed (renewal.h). One that is
 * over, or did not hold, is looked up by the read that finds out, which pins what
 * it finds; its lease is kept, too.
 */
#include "base/clock.h"
#include "store/client/get.h"
#include "store/proto/keys.h"

static int hold_key(struct tes_get *get, struct tes_get_entry *entry)
{
	int rc = tes_get_reach(get, entry);

	if (rc)
		return TE_STORE_TRANSFER_FAIL;
	return tes_get_hold(get, entry) ? TE_STORE_INTERNAL_ERROR : 0;
}

static void open_chunk(struct te_store *store, const struct te_store_key *keys,
		       size_t n, int *results)
{
	struct tes_get get = {.store = store, .keys = keys, .n = n};
	int rc = tes_get_look_up(&get);
	size_t i;

	for (i = 0; i < n; i++)
		results[i] = rc ? TE_STORE_INTERNAL_ERROR : (int)get.results[i];
	if (rc)
		return;
	for (i = 0; i < get.n_todo; i++) {
		struct tes_get_entry *entry = &get.entries[i];

		if (entry->open)
			results[entry->item] = hold_key(&get, entry);
	}
	tes_get_release(&get);
	if (get.lease_ms)
		tes_renewal_ask(store, get.lease_ms);
	tes_get_looked_up(&get);
}

int tes_direct_get_open(struct te_store *store, const struct te_store_key *keys,
			size_t n, int *results)
{
	size_t from, len;

	if (!tes_keys_given(store, keys, n, results))
		return TE_STORE_INVALID_PARAMS;
	for (from = 0; from < n; from += len) {
		len = tes_chunk(keys, from, n);
		open_chunk(store, keys + from, len, results + from);
	}
	return tes_first_code(results, n);
}

/* ---- closing ---- */

static uint64_t unpin(struct te_store *store, const struct te_store_key *key,
		      uint64_t now)
{
	uint64_t seed =
		atomic_load_explicit(&store->digest_seed, memory_order_relaxed);

	return tes_locations_unpin(&store->locations, key->bytes, key->len,
				   tes_key_digest(key->bytes, key->len, seed),
				   now);
}

static void close_chunk(struct te_store *store, const struct te_store_key *keys,
			size_t n, struct tei_arena *arena)
{
	Store__Release msg = STORE__RELEASE__INIT;
	uint64_t now = tei_now_ns(), generation;
	struct tes_key_column column;
	bool can_tell;
	size_t i;

	msg.generation = tei_arena_alloc(arena, n * sizeof(msg.generation[0]));
	can_tell =
		msg.generation && !tes_key_column_init(&column, arena, n,
						       tes_keys_bytes(keys, n));
	for (i = 0; i < n; i++) {
		generation = tes_key_holds(&keys[i])
				     ? unpin(store, &keys[i], now)
				     : 0;
		if (!generation || !can_tell)
			continue;
		msg.generation[msg.n_generation++] = generation;
		tes_key_column_add(&column, keys[i].bytes, keys[i].len);
	}
	if (!msg.n_generation)
		return; /* leases end by themselves */
	msg.keys = column.bytes;
	msg.key_lens = column.lens;
	msg.n_key_lens = column.n;
	tes_channel_tell(&store->channel, STORE__STORE_TYPE__STORE_RELEASE,
			 &msg.base, arena);
}

int tes_direct_get_close(struct te_store *store,
			 const struct te_store_key *keys, size_t n)
{
	struct tei_arena arena;
	size_t from, len;

	if (!tes_keys_given(store, keys, n, keys))
		return TE_STORE_INVALID_PARAMS;
	tei_arena_init(&arena, 64u << 20);
	for (from = 0; from < n; from += len) {
		len = tes_chunk(keys, from, n);
		close_chunk(store, keys + from, len, &arena);
		tei_arena_reset(&arena);
	}
	tei_arena_fini(&arena);
	return 0;
}
