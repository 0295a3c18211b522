/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get.c - fetch values: find, read header and data, verify
 *
 * Leases and timeouts are hints: bytes are the object's when its header carries
 * the generation that the look-up named and the CRC holds. A replica that does
 * not verify, or whose owner is new or does not answer, is followed by the next
 * replica, then by one more look-up, and then the key is a miss.
 */
#include "store/client/get.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "store/client/buffers.h"
#include "store/client/hot.h"
#include "store/client/ranges.h"
#include "store/client/release.h"
#include "store/proto/extent.h"
#include "store/proto/keys.h"

/* ---- look-up: leases first, then the master ---- */

/* ---- cached locations ---- */

static int use_location(struct tes_get_round *round,
			struct tes_get_entry *entry,
			const struct tes_location *location)
{
	struct tes_extent_at *x;
	uint64_t offset = 0;
	uint32_t place, k;

	x = tei_arena_calloc(&round->chunk->work->round, location->n_extents,
			     sizeof(*x));
	if (!x || tes_places_add_owner(&round->places, location->owner, &place))
		return -ENOMEM;
	for (k = 0; k < location->n_extents; k++) {
		const struct tes_location_extent *from = &location->extents[k];

		x[k].address = from->address;
		x[k].offset = offset;
		x[k].length = from->length;
		x[k].crc = from->crc;
		x[k].place = place;
		x[k].index = (uint16_t)k;
		x[k].count = location->n_extents;
		offset += from->length;
	}
	entry->source = TES_GET_LOCATION;
	entry->open = true;
	entry->no_crc = location->no_crc;
	entry->unverified = location->unverified;
	entry->size = location->size;
	entry->generation = location->generation;
	entry->gen_epoch = location->gen_epoch;
	/* Relaxed: a lease that is extended meanwhile only lasts longer. */
	entry->lease_until_ns = atomic_load_explicit(&location->expires_ns,
						     memory_order_relaxed);
	entry->layout.extents = x;
	entry->layout.n_extents = location->n_extents;
	entry->layout.n_replicas = 1;
	return 0;
}

static void find_location(struct tes_get_round *round,
			  struct tes_get_entry *entry, uint64_t digest_seed,
			  uint64_t now_ns)
{
	struct tes_locations *l = &round->chunk->store->locations;
	const struct te_store_key *key = &round->chunk->keys[entry->item];
	struct tes_location *location;

	entry->digest = tes_key_digest(key->bytes, key->len, digest_seed);
	location = tes_locations_get(l, key->bytes, key->len, entry->digest,
				     now_ns);
	if (!location)
		atomic_fetch_add_explicit(&l->n_misses, 1,
					  memory_order_relaxed);
	else
		(void)use_location(round, entry, location);
	tes_location_put(l, location);
}

static bool uses_locations(const struct tes_get_chunk *chunk)
{
	return !chunk->fresh && tes_locations_on(&chunk->store->locations);
}

/* The cached location of the replica that was chosen. */
static void fill_location(const struct tes_get_round *round,
			  const struct tes_get_entry *entry,
			  struct tes_location *out,
			  struct tes_location_extent *extents)
{
	const struct tes_extent_at *x = &entry->layout.extents[entry->first];
	uint32_t k;

	memset(out, 0, sizeof(*out));
	out->no_crc = entry->no_crc;
	out->unverified = entry->unverified;
	out->n_extents = (uint16_t)entry->n;
	out->generation = entry->generation;
	out->gen_epoch = entry->gen_epoch;
	out->size = entry->size;
	out->expires_ns = entry->lease_until_ns;
	out->owner = round->places.at[x->place].owner;
	for (k = 0; k < entry->n; k++) {
		extents[k].address = x[k].address;
		extents[k].length = x[k].length;
		extents[k].crc = x[k].crc;
	}
}

void tes_get_remember(struct tes_get_round *round, struct tes_get_entry *entry)
{
	struct tes_location_extent extents[TES_LOCATION_EXTENTS];
	const struct te_store_key *key = &round->chunk->keys[entry->item];
	struct tes_location from;

	if (!uses_locations(round->chunk) || entry->n > TES_LOCATION_EXTENTS)
		return;
	fill_location(round, entry, &from, extents);
	entry->held =
		tes_locations_add(&round->chunk->store->locations, key->bytes,
				  key->len, entry->digest, &from, extents);
}

int tes_get_hold(struct tes_get_round *round, struct tes_get_entry *entry)
{
	struct tes_location_extent extents[TES_LOCATION_EXTENTS];
	const struct te_store_key *key = &round->chunk->keys[entry->item];
	struct tes_location from;
	int rc;

	if (entry->n > TES_LOCATION_EXTENTS)
		return -ENOMEM;
	fill_location(round, entry, &from, extents);
	rc = tes_locations_pin(&round->chunk->store->locations, key->bytes,
			       key->len, entry->digest, &from, extents);
	entry->held = !rc;
	return rc;
}

void tes_get_forget(struct tes_get_round *round,
		    const struct tes_get_entry *entry)
{
	struct tes_locations *l = &round->chunk->store->locations;
	const struct te_store_key *key = &round->chunk->keys[entry->item];

	atomic_fetch_add_explicit(&l->n_stale, 1, memory_order_relaxed);
	tes_locations_drop(l, key->bytes, key->len, entry->digest,
			   entry->generation);
}

/* ---- look-up ---- */

static int decode_layouts(struct tes_get_round *round, const uint32_t *which,
			  size_t n, const Store__LookupReply *m)
{
	struct tei_arena *arena = &round->chunk->work->round;
	const struct tes_columns columns = {
		TES_COLUMNS_OF(m),   .n = n,        .size = m->size,
		.n_size = m->n_size, .crc = m->crc, .n_crc = m->n_crc,
	};
	struct tes_layout *layouts =
		tei_arena_alloc(arena, n * sizeof(*layouts));
	size_t base = round->places.n, i;
	int rc;

	if (!layouts)
		return -ENOMEM;
	rc = tes_layouts_decode(&columns, arena, (uint32_t)base, layouts);
	if (rc)
		return rc;
	for (i = 0; i < n; i++)
		if (!m->status[i] &&
		    (m->n_gen_epoch != n || (m->n_no_crc && m->n_no_crc != n) ||
		     (m->n_unverified && m->n_unverified != n) ||
		     (!m->n_crc && (!m->n_no_crc || !m->no_crc[i]))))
			return -EBADMSG;
	if (tes_places_add(&round->places, m->segments, m->n_segments))
		return -ENOMEM;
	for (i = 0; i < n; i++)
		round->entries[which[i]].layout = layouts[i];
	return 0;
}

static void set_entry(struct tes_get_round *round, struct tes_get_entry *entry,
		      const Store__LookupReply *m, size_t i)
{
	int status = m->status[i];

	if (status == TE_STORE_REPLICA_IS_NOT_READY)
		status = TE_STORE_OBJECT_NOT_FOUND;
	if (status) {
		tes_get_set_code(round->chunk, entry->item, status);
		return;
	}
	entry->source = TES_GET_MASTER;
	entry->open = true;
	entry->no_crc = m->n_no_crc && m->no_crc[i];
	entry->unverified = m->n_unverified && m->unverified[i];
	entry->size = m->size[i];
	entry->generation = m->generation[i];
	entry->gen_epoch = m->gen_epoch[i];
}

static int ask_master(struct tes_get_round *round, const uint32_t *which,
		      size_t n, struct tes_reply *reply)
{
	struct tei_arena *arena = &round->chunk->work->round;
	Store__Lookup msg = STORE__LOOKUP__INIT;
	uint64_t deadline = tes_call_deadline(round->chunk->store);
	struct tes_key_column column;
	size_t i;

	if (tes_key_column_init(
		    &column, arena, n,
		    tes_keys_bytes(round->chunk->keys, round->chunk->n)))
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < n; i++) {
		const struct te_store_key *key =
			&round->chunk->keys[round->entries[which[i]].item];

		tes_key_column_add(&column, key->bytes, key->len);
	}
	msg.keys = column.bytes;
	msg.key_lens = column.lens;
	msg.n_key_lens = column.n;
	if (deadline > round->chunk->deadline_ns)
		deadline = round->chunk->deadline_ns;
	return tes_store_call(round->chunk->store,
			      STORE__STORE_TYPE__STORE_LOOKUP, &msg.base, arena,
			      deadline, reply);
}

static int look_up(struct tes_get_round *round, const uint32_t *which, size_t n)
{
	uint64_t t0 = tei_now_ns();
	struct tes_reply reply;
	Store__LookupReply *m;
	size_t i;
	int rc = ask_master(round, which, n, &reply);

	if (rc)
		return rc;
	m = store__lookup_reply__unpack(&round->chunk->work->round.pb,
					reply.len, reply.body);
	rc = m ? decode_layouts(round, which, n, m) : -EBADMSG;
	if (rc)
		return rc == -EBADMSG ? tes_bad_reply("look-up")
				      : TE_STORE_INTERNAL_ERROR;
	round->chunk->lease_ms = m->lease_ms;
	for (i = 0; i < n; i++) {
		struct tes_get_entry *entry = &round->entries[which[i]];
		const struct te_store_key *key =
			&round->chunk->keys[entry->item];

		round->chunk->lookups[entry->item]++;
		entry->lease_until_ns = t0 + m->lease_ms * TEI_NS_PER_MS;
		entry->digest =
			tes_key_digest(key->bytes, key->len, reply.digest_seed);
		set_entry(round, entry, m, i);
	}
	return 0;
}

/* Fills the entries: from cached locations, the rest from the master. */
static void find_objects(struct tes_get_round *round)
{
	uint64_t seed, now = tei_now_ns();
	uint32_t *which = tei_arena_alloc(&round->chunk->work->round,
					  round->n * sizeof(*which));
	size_t n = 0, i;
	int code = TE_STORE_INTERNAL_ERROR;

	seed = atomic_load_explicit(&round->chunk->store->digest_seed,
				    memory_order_relaxed);
	for (i = 0; i < round->n; i++) {
		struct tes_get_entry *entry = &round->entries[i];

		entry->item = round->chunk->todo[i];
		if (uses_locations(round->chunk) &&
		    !round->chunk->lookups[entry->item])
			find_location(round, entry, seed, now);
		if (which && entry->source == TES_GET_NOWHERE)
			which[n++] = (uint32_t)i;
	}
	if (which)
		code = n ? look_up(round, which, n) : 0;
	for (i = 0; i < round->n && code; i++)
		if (round->entries[i].source == TES_GET_NOWHERE)
			tes_get_set_code(round->chunk, round->entries[i].item,
					 code);
}

/* ---- releasing ---- */

void tes_get_release(struct tes_get_round *round)
{
	struct tei_arena *arena = &round->chunk->work->round;
	struct tes_release release;
	uint64_t bytes = 0;

	if (tes_release_init(
		    &release, arena, round->n,
		    tes_keys_bytes(round->chunk->keys, round->chunk->n)))
		return; /* leases end by themselves */
	for (size_t i = 0; i < round->n; i++) {
		const struct tes_get_entry *entry = &round->entries[i];

		if (entry->source != TES_GET_MASTER || entry->held)
			continue;
		bytes += entry->size;
		tes_release_add(&release, &round->chunk->keys[entry->item],
				entry->generation, entry->gen_epoch);
	}
	tes_release_tell_later(&release, round->chunk->store, arena, bytes);
}

/* ---- reads from the local cache ---- */

/*
 * Every get proves anew which generation a key has. After a look-up at the
 * master the generation is known, and cached bytes of it are copied. With only
 * a cached location, the object's headers are read at the owner: they are
 * voided before a remove or replace is answered. Either way the data itself is
 * not transferred again.
 */

static struct tes_hot_name name_of(const struct tes_get_round *round,
				   const struct tes_get_entry *entry)
{
	const struct te_store_key *key = &round->chunk->keys[entry->item];

	return (struct tes_hot_name){
		.key = key->bytes,
		.key_len = key->len,
		.digest = entry->digest,
		.gen_epoch = entry->gen_epoch,
		.generation = entry->generation,
	};
}

static bool is_value_gpu(struct tes_addresses *a,
			 const struct te_store_value *value)
{
	for (uint32_t i = 0; i < value->n_pieces; i++)
		if (tes_addresses_is_gpu(a, value->pieces[i].iov_base))
			return true;
	return false;
}

/* Tells whether some of the bytes go where no processor may put them. */
static bool goes_to_gpu(const struct tes_get_round *round,
			const struct tes_get_entry *entry)
{
	const struct tes_get_chunk *chunk = round->chunk;
	struct tes_addresses *a = &chunk->store->addresses;
	const struct tes_get_ranges *r = chunk->ranges;
	uint32_t i;

	if (!atomic_load_explicit(&a->any_gpu, memory_order_relaxed) ||
	    chunk->buffers)
		return false;
	if (!r)
		return is_value_gpu(a, &chunk->values[entry->item]);
	for (i = r->starts[entry->item]; i < r->starts[entry->item + 1]; i++)
		if (tes_addresses_is_gpu(a, r->all[r->order[i]].addr))
			return true;
	return false;
}

void tes_get_warm(struct tes_get_round *round, struct tes_get_entry *entry)
{
	struct tes_hot *hot = &round->chunk->store->hot;
	struct tes_hot_name name;

	if (!tes_hot_on(hot) || entry->hot || goes_to_gpu(round, entry))
		return;
	name = name_of(round, entry);
	/* A second look-up in the same call is no further access. */
	if (round->chunk->lookups[entry->item] <= 1)
		tes_hot_note(hot, entry->digest);
	entry->hot = tes_hot_get(hot, &name);
	if (entry->hot && entry->hot->size != entry->size)
		tes_get_cool(round, entry);
	/* Relaxed: a statistic. */
	if (!entry->hot)
		atomic_fetch_add_explicit(&hot->n_misses, 1,
					  memory_order_relaxed);
}

void tes_get_cool(struct tes_get_round *round, struct tes_get_entry *entry)
{
	tes_hot_put(&round->chunk->store->hot, entry->hot);
	entry->hot = NULL;
}

/* ---- copy out of the cache ---- */

static void copy_value(const struct te_store_value *value, const uint8_t *from,
		       uint64_t size)
{
	for (uint32_t i = 0; i < value->n_pieces && size; i++) {
		size_t len = value->pieces[i].iov_len;

		if (len > size)
			len = (size_t)size;
		if (len)
			memcpy(value->pieces[i].iov_base, from, len);
		from += len;
		size -= len;
	}
}

static void copy_ranges(struct tes_get_round *round,
			const struct tes_get_entry *entry)
{
	const struct tes_get_ranges *r = round->chunk->ranges;
	uint32_t i;

	for (i = r->starts[entry->item]; i < r->starts[entry->item + 1]; i++) {
		const struct te_store_range *range = &r->all[r->order[i]];

		if (range->length &&
		    r->results[r->order[i]] != TE_STORE_INVALID_PARAMS)
			memcpy(range->addr, entry->hot->bytes + range->offset,
			       (size_t)range->length);
	}
}

void tes_get_copy(struct tes_get_round *round, struct tes_get_entry *entry)
{
	const struct tes_hot_value *hot = entry->hot;

	if (round->chunk->ranges)
		copy_ranges(round, entry);
	else if (round->chunk->buffers)
		memcpy(round->chunk->buffers[entry->item]->data, hot->bytes,
		       (size_t)hot->size);
	else
		copy_value(&round->chunk->values[entry->item], hot->bytes,
			   hot->size);
	/* Relaxed: a statistic. */
	atomic_fetch_add_explicit(&round->chunk->store->hot.n_hits, 1,
				  memory_order_relaxed);
	tes_get_cool(round, entry);
}

/* ---- copy into the cache ---- */

static void copy_to_cache(const struct tes_get_round *round,
			  const struct tes_get_entry *entry, uint8_t *to)
{
	const struct te_store_value *value = &round->chunk->values[entry->item];
	uint64_t left = entry->size;

	if (round->chunk->buffers) {
		memcpy(to, round->chunk->buffers[entry->item]->data,
		       (size_t)left);
		return;
	}
	for (uint32_t i = 0; i < value->n_pieces && left; i++) {
		size_t len = value->pieces[i].iov_len;

		if (len > left)
			len = (size_t)left;
		if (len)
			memcpy(to, value->pieces[i].iov_base, len);
		to += len;
		left -= len;
	}
}

/*
 * The caller's memory may have changed since it was verified: it may be shared
 * with another process. So the copy is verified itself.
 */
static bool copy_verifies(const struct tes_get_entry *entry,
			  const uint8_t *bytes)
{
	const struct tes_extent_at *x = &entry->layout.extents[entry->first];

	for (uint32_t k = 0; k < entry->n; k++)
		if (te_crc32c(0, bytes + x[k].offset, (size_t)x[k].length) !=
		    x[k].crc)
			return false;
	return true;
}

void tes_get_keep(struct tes_get_round *round,
		  const struct tes_get_entry *entry)
{
	struct tes_hot *hot = &round->chunk->store->hot;
	struct tes_hot_value *value;
	struct tes_hot_name name;

	if (!tes_hot_on(hot) || round->chunk->ranges || entry->no_crc ||
	    goes_to_gpu(round, entry))
		return;
	name = name_of(round, entry);
	value = tes_hot_begin(hot, &name, entry->size);
	if (!value)
		return;
	copy_to_cache(round, entry, value->bytes);
	if (copy_verifies(entry, value->bytes))
		tes_hot_add(hot, value, entry->digest);
	else
		tes_hot_put(hot, value);
}

/* ---- results ---- */

/* Ranges that are not inside the object keep TE_STORE_INVALID_PARAMS. */
static void set_range_results(struct tes_get_chunk *chunk, uint32_t item,
			      int code)
{
	const struct tes_get_ranges *r = chunk->ranges;
	uint32_t i;

	for (i = r->starts[item]; i < r->starts[item + 1]; i++) {
		int64_t *result = &r->results[r->order[i]];

		if (*result != TE_STORE_INVALID_PARAMS)
			*result = code;
	}
}

void tes_get_set_code(struct tes_get_chunk *chunk, uint32_t item, int code)
{
	chunk->results[item] = code;
	if (chunk->ranges)
		set_range_results(chunk, item, code);
}

/* ---- rounds ---- */

/* A round for the keys that are to do, with no entry filled yet. -ENOMEM. */
static int begin_round(struct tes_get_chunk *chunk, struct tes_get_round *round)
{
	struct te_store *store = chunk->store;

	memset(round, 0, sizeof(*round));
	round->chunk = chunk;
	round->n = chunk->n_todo;
	round->entries = tei_arena_calloc(&chunk->work->round, round->n,
					  sizeof(round->entries[0]));
	if (!round->entries)
		return -ENOMEM;
	tes_places_init(&round->places, &store->owners, chunk->work,
			(uint32_t)store->replica_timeout_ms,
			chunk->deadline_ns);
	round->places.report_only_ms = (uint32_t)store->replica_timeout_ms;
	return 0;
}

static void run_round(struct tes_get_chunk *chunk)
{
	struct tes_get_round round;
	size_t i;

	if (begin_round(chunk, &round)) {
		for (i = 0; i < chunk->n_todo; i++)
			tes_get_set_code(chunk, chunk->todo[i],
					 TE_STORE_INTERNAL_ERROR);
		return;
	}
	find_objects(&round);
	tes_get_read(&round);
	tes_places_fini(&round.places);
	tes_get_release(&round);
}

static void run_rounds(struct tes_get_chunk *chunk)
{
	uint32_t *old;
	bool first = true;

	while (chunk->n_todo && (first || tei_now_ns() < chunk->deadline_ns)) {
		chunk->n_next = 0;
		run_round(chunk);
		tes_work_next_round(chunk->work);
		old = chunk->todo;
		chunk->todo = chunk->next;
		chunk->next = old;
		chunk->n_todo = chunk->n_next;
		first = false;
	}
}

static bool has_room(const struct tes_get_chunk *chunk, size_t i)
{
	return !chunk->values || tes_value_bytes(&chunk->values[i]);
}

/*
 * Allocates the rest of a chunk whose first fields, up to n, are set. -ENOMEM.
 */
static int prepare_chunk(struct tes_get_chunk *chunk)
{
	const struct tes_named named = {
		.values = chunk->values,
		.n = chunk->values ? chunk->n : 0,
		.writable = true,
	};
	struct te_store *store = chunk->store;
	struct tei_arena *arena = &chunk->work->call;
	bool *bad = tei_arena_calloc(arena, chunk->n, sizeof(*bad));
	size_t i;

	chunk->todo = tei_arena_alloc(arena, chunk->n * sizeof(chunk->todo[0]));
	chunk->next = tei_arena_alloc(arena, chunk->n * sizeof(chunk->next[0]));
	chunk->lookups = tei_arena_calloc(arena, chunk->n, 1);
	if (!bad || !chunk->todo || !chunk->next || !chunk->lookups)
		return -ENOMEM;
	tes_addresses_check(&store->addresses, &named, bad);
	chunk->deadline_ns = tes_call_deadline(store) +
			     store->replica_timeout_ms * TEI_NS_PER_MS;
	for (i = 0; i < chunk->n; i++) {
		if (tes_key_holds(&chunk->keys[i]) && has_room(chunk, i) &&
		    !bad[i])
			chunk->todo[chunk->n_todo++] = (uint32_t)i;
		else
			tes_get_set_code(chunk, (uint32_t)i,
					 TE_STORE_INVALID_PARAMS);
	}
	return 0;
}

void tes_get_chunk_run(struct tes_get_chunk *chunk)
{
	struct te_store *store = chunk->store;
	uint32_t i;

	chunk->work = tes_work_get(&store->works, chunk->n);
	if (!chunk->work || prepare_chunk(chunk))
		for (i = 0; i < chunk->n; i++)
			tes_get_set_code(chunk, i, TE_STORE_INTERNAL_ERROR);
	else
		run_rounds(chunk);
	tes_work_put(&store->works, chunk->work);
}

/* ---- look-up without a read ---- */

static int look_up_keys(struct tes_get_chunk *chunk,
			struct tes_get_round *round)
{
	struct tes_works *works = &chunk->store->works;

	chunk->fresh = true;
	chunk->work = tes_work_get(works, chunk->n);
	if (!chunk->work)
		return -ENOMEM;
	chunk->results = tei_arena_calloc(&chunk->work->call, chunk->n,
					  sizeof(chunk->results[0]));
	if (!chunk->results || prepare_chunk(chunk) ||
	    begin_round(chunk, round)) {
		tes_work_put(works, chunk->work);
		return -ENOMEM;
	}
	find_objects(round);
	return 0;
}

int tes_look_up(struct tes_get_chunk *chunk, struct tes_get_round *round,
		int *results)
{
	int rc = look_up_keys(chunk, round);

	for (size_t i = 0; results && i < chunk->n; i++)
		results[i] =
			rc ? TE_STORE_INTERNAL_ERROR : (int)chunk->results[i];
	return rc;
}

void tes_look_up_end(struct tes_get_round *round)
{
	tes_places_fini(&round->places);
	tes_work_put(&round->chunk->store->works, round->chunk->work);
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
		struct tes_get_chunk chunk = {
			.store = store,
			.keys = keys + from,
			.values = values + from,
			.results = results + from,
			.n = tes_chunk(keys, from, n),
		};

		len = chunk.n;
		tes_get_chunk_run(&chunk);
	}
	for (i = 0; i < n; i++)
		n_found += results[i] >= 0;
	return n_found;
}

/* ---- into buffers of the store ---- */

static int get_buffers(struct te_store *store, const struct te_store_key *keys,
		       size_t n, struct te_store_buffer **out, int64_t *results)
{
	size_t from, len, i;
	int n_found = 0;

	for (from = 0; from < n; from += len) {
		struct tes_get_chunk chunk = {
			.store = store,
			.keys = keys + from,
			.results = results + from,
			.buffers = out + from,
			.n = tes_chunk(keys, from, n),
		};

		len = chunk.n;
		tes_get_chunk_run(&chunk);
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
