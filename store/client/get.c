/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get.c - fetch values: find, read header and data, verify
 *
 * Leases and timeouts are hints; what was read is the object's when its header
 * carries the generation that the look-up named and the CRC holds. Whatever
 * does not verify, or cannot be read because its owner is new or gone, is
 * tried with the next replica, looked up once more, and then a miss.
 */
#include "store/client/get.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "store/client/buffers.h"

/* ---- results ---- */

/* Ranges that are not inside the object keep their own. */
static void set_range_results(struct tes_get *get, uint32_t item, int code)
{
	const struct tes_get_ranges *r = get->ranges;
	uint32_t i;

	for (i = r->starts[item]; i < r->starts[item + 1]; i++) {
		int64_t *result = &r->results[r->order[i]];

		if (*result != TE_STORE_INVALID_PARAMS)
			*result = code;
	}
}

void tes_get_set_code(struct tes_get *get, uint32_t item, int code)
{
	get->results[item] = code;
	if (get->ranges)
		set_range_results(get, item, code);
}

/* ---- rounds ---- */

/* Entries and places, to be filled by find(). -ENOMEM. */
static int begin_round(struct tes_get *get)
{
	get->entries = tei_arena_calloc(&get->work->round, get->n_todo,
					sizeof(get->entries[0]));
	if (!get->entries)
		return -ENOMEM;
	tes_places_init(&get->places, &get->store->owners, get->work,
			(uint32_t)get->store->replica_timeout_ms,
			get->deadline_ns);
	get->places.only_tell = true;
	return 0;
}

static void run_round(struct tes_get *get)
{
	size_t i;

	if (begin_round(get)) {
		for (i = 0; i < get->n_todo; i++)
			tes_get_set_code(get, get->todo[i],
					 TE_STORE_INTERNAL_ERROR);
		return;
	}
	tes_get_find(get);
	tes_get_read(get);
	tes_places_fini(&get->places);
	tes_get_release(get);
}

static void get_items(struct tes_get *get)
{
	uint32_t *old;
	bool first = true;

	while (get->n_todo && (first || tei_now_ns() < get->deadline_ns)) {
		get->n_next = 0;
		run_round(get);
		tes_work_next_round(get->work);
		old = get->todo;
		get->todo = get->next;
		get->next = old;
		get->n_todo = get->n_next;
		first = false;
	}
}

static bool has_room(const struct tes_get *get, size_t i)
{
	return !get->values || tes_value_bytes(&get->values[i]);
}

/* Of a chunk whose first fields, up to n, are set. -ENOMEM. */
static int prepare(struct tes_get *get)
{
	const struct te_store *store = get->store;
	struct tei_arena *arena = &get->work->call;
	size_t i;

	get->todo = tei_arena_alloc(arena, get->n * sizeof(get->todo[0]));
	get->next = tei_arena_alloc(arena, get->n * sizeof(get->next[0]));
	get->lookups = tei_arena_calloc(arena, get->n, 1);
	if (!get->todo || !get->next || !get->lookups)
		return -ENOMEM;
	get->deadline_ns = tes_call_deadline(store) +
			   store->replica_timeout_ms * TEI_NS_PER_MS;
	for (i = 0; i < get->n; i++) {
		if (tes_key_holds(&get->keys[i]) && has_room(get, i))
			get->todo[get->n_todo++] = (uint32_t)i;
		else
			tes_get_set_code(get, (uint32_t)i,
					 TE_STORE_INVALID_PARAMS);
	}
	return 0;
}

void tes_get_chunk(struct tes_get *get)
{
	struct te_store *store = get->store;
	uint32_t i;

	get->work = tes_work_get(&store->works, get->n);
	if (!get->work || prepare(get))
		for (i = 0; i < get->n; i++)
			tes_get_set_code(get, i, TE_STORE_INTERNAL_ERROR);
	else
		get_items(get);
	tes_work_put(&store->works, get->work);
}

/* ---- where keys lie, and no more ---- */

int tes_get_look_up(struct tes_get *get)
{
	struct tes_works *works = &get->store->works;

	get->fresh = true;
	get->work = tes_work_get(works, get->n);
	if (!get->work)
		return -ENOMEM;
	get->results = tei_arena_calloc(&get->work->call, get->n,
					sizeof(get->results[0]));
	if (!get->results || prepare(get) || begin_round(get)) {
		tes_work_put(works, get->work);
		return -ENOMEM;
	}
	tes_get_find(get);
	return 0;
}

void tes_get_looked_up(struct tes_get *get)
{
	tes_places_fini(&get->places);
	tes_work_put(&get->store->works, get->work);
}

/* ---- into the caller's memory ---- */

int tes_direct_get(struct te_store *store, const struct te_store_key *keys,
		   const struct te_store_value *values, size_t n,
		   int64_t *results)
{
	size_t from, len, i;
	int n_found = 0;

	if (!tes_keys_given(store, keys, n, results) || (n && !values))
		return TE_STORE_INVALID_PARAMS;
	for (from = 0; from < n; from += len) {
		struct tes_get get = {
			.store = store,
			.keys = keys + from,
			.values = values + from,
			.results = results + from,
			.n = tes_chunk(keys, from, n),
		};

		len = get.n;
		tes_get_chunk(&get);
	}
	for (i = 0; i < n; i++)
		n_found += results[i] >= 0;
	return n_found;
}

/* ---- into memory of ours ---- */

static int get_buffers(struct te_store *store, const struct te_store_key *keys,
		       size_t n, struct te_store_buffer **out, int64_t *results)
{
	size_t from, len, i;
	int n_found = 0;

	for (from = 0; from < n; from += len) {
		struct tes_get get = {
			.store = store,
			.keys = keys + from,
			.results = results + from,
			.buffers = out + from,
			.n = tes_chunk(keys, from, n),
		};

		len = get.n;
		tes_get_chunk(&get);
	}
	for (i = 0; i < n; i++) {
		n_found += results[i] >= 0;
		if (results[i] >= 0)
			continue;
		tes_buffer_destroy(out[i]);
		out[i] = NULL;
	}
	return n_found;
}

int tes_direct_get_buffers(struct te_store *store,
			   const struct te_store_key *keys, size_t n,
			   struct te_store_buffer **out, int64_t *results)
{
	size_t i;

	if (!tes_keys_given(store, keys, n, results) || (n && !out))
		return TE_STORE_INVALID_PARAMS;
	for (i = 0; i < n; i++)
		out[i] = NULL;
	return get_buffers(store, keys, n, out, results);
}
