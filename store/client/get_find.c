/* SPDX-License-Identifier: Apache-2.0 */
/* get_find.c - where objects lie: remembered, or from the master */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "store/client/get.h"
#include "store/proto/extent.h"
#include "store/proto/keys.h"

/* ---- what is remembered ---- */

static int take_location(struct tes_get *get, struct tes_get_entry *entry,
			 const struct tes_location *location)
{
	struct tes_extent_at *x;
	uint64_t offset = 0;
	uint32_t place, k;

	x = tei_arena_calloc(&get->work->round, location->n_extents,
			     sizeof(*x));
	if (!x || tes_places_add_owner(&get->places, location->owner, &place))
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
	/* Relaxed: it holds at least until then, whatever is written now. */
	entry->lease_until_ns = atomic_load_explicit(&location->expires_ns,
						     memory_order_relaxed);
	entry->layout.extents = x;
	entry->layout.n_extents = location->n_extents;
	entry->layout.n_replicas = 1;
	return 0;
}

static void recall(struct tes_get *get, struct tes_get_entry *entry,
		   uint64_t digest_seed, uint64_t now_ns)
{
	struct tes_locations *l = &get->store->locations;
	const struct te_store_key *key = &get->keys[entry->item];
	struct tes_location *location;

	entry->digest = tes_key_digest(key->bytes, key->len, digest_seed);
	location = tes_locations_get(l, key->bytes, key->len, entry->digest,
				     now_ns);
	if (!location)
		atomic_fetch_add_explicit(&l->n_misses, 1,
					  memory_order_relaxed);
	else
		(void)take_location(get, entry, location);
	tes_location_put(l, location);
}

static bool remembers(const struct tes_get *get)
{
	return !get->fresh && tes_locations_on(&get->store->locations);
}

/* The chosen replica of @entry, as it is remembered. */
static void describe(const struct tes_get *get,
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
	out->owner = get->places.at[x->place].owner;
	for (k = 0; k < entry->n; k++) {
		extents[k].address = x[k].address;
		extents[k].length = x[k].length;
		extents[k].crc = x[k].crc;
	}
}

void tes_get_remember(struct tes_get *get, struct tes_get_entry *entry)
{
	struct tes_location_extent extents[TES_LOCATION_EXTENTS];
	const struct te_store_key *key = &get->keys[entry->item];
	struct tes_location from;

	if (!remembers(get) || entry->n > TES_LOCATION_EXTENTS)
		return;
	describe(get, entry, &from, extents);
	entry->held =
		tes_locations_add(&get->store->locations, key->bytes, key->len,
				  entry->digest, &from, extents);
}

int tes_get_hold(struct tes_get *get, struct tes_get_entry *entry)
{
	struct tes_location_extent extents[TES_LOCATION_EXTENTS];
	const struct te_store_key *key = &get->keys[entry->item];
	struct tes_location from;
	int rc;

	if (entry->n > TES_LOCATION_EXTENTS)
		return -ENOMEM;
	describe(get, entry, &from, extents);
	rc = tes_locations_pin(&get->store->locations, key->bytes, key->len,
			       entry->digest, &from, extents);
	entry->held = !rc;
	return rc;
}

void tes_get_forget(struct tes_get *get, const struct tes_get_entry *entry)
{
	struct tes_locations *l = &get->store->locations;
	const struct te_store_key *key = &get->keys[entry->item];

	atomic_fetch_add_explicit(&l->n_stale, 1, memory_order_relaxed);
	tes_locations_drop(l, key->bytes, key->len, entry->digest,
			   entry->generation);
}

/* ---- look-up ---- */

static int take_found(struct tes_get *get, const uint32_t *which, size_t n,
		      const Store__LookupReply *m)
{
	struct tei_arena *arena = &get->work->round;
	const struct tes_columns columns = {
		.n = n,
		.status = m->status,
		.n_status = m->n_status,
		.size = m->size,
		.n_size = m->n_size,
		.generation = m->generation,
		.n_generation = m->n_generation,
		.extents = m->extents,
		.n_extents = m->n_extents,
		.segment = m->segment,
		.n_segment = m->n_segment,
		.replica = m->replica,
		.n_replica = m->n_replica,
		.crc = m->crc,
		.n_crc = m->n_crc,
		.address = m->address,
		.n_address = m->n_address,
		.length = m->length,
		.n_length = m->n_length,
		.n_segments = m->n_segments,
	};
	struct tes_layout *layouts =
		tei_arena_alloc(arena, n * sizeof(*layouts));
	size_t base = get->places.n, i;
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
	if (tes_places_add(&get->places, m->segments, m->n_segments))
		return -ENOMEM;
	for (i = 0; i < n; i++)
		get->entries[which[i]].layout = layouts[i];
	return 0;
}

static void take_key(struct tes_get *get, struct tes_get_entry *entry,
		     const Store__LookupReply *m, size_t i)
{
	int status = m->status[i];

	if (status == TE_STORE_REPLICA_IS_NOT_READY)
		status = TE_STORE_OBJECT_NOT_FOUND;
	if (status) {
		tes_get_set_code(get, entry->item, status);
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

static int ask(struct tes_get *get, const uint32_t *which, size_t n,
	       struct tes_reply *reply)
{
	struct tei_arena *arena = &get->work->round;
	Store__Lookup msg = STORE__LOOKUP__INIT;
	uint64_t deadline = tes_call_deadline(get->store);
	struct tes_key_column column;
	size_t i;

	if (tes_key_column_init(&column, arena, n,
				tes_keys_bytes(get->keys, get->n)))
		return TE_STORE_INTERNAL_ERROR;
	for (i = 0; i < n; i++) {
		const struct te_store_key *key =
			&get->keys[get->entries[which[i]].item];

		tes_key_column_add(&column, key->bytes, key->len);
	}
	msg.keys = column.bytes;
	msg.key_lens = column.lens;
	msg.n_key_lens = column.n;
	if (deadline > get->deadline_ns)
		deadline = get->deadline_ns;
	return tes_store_call(get->store, STORE__STORE_TYPE__STORE_LOOKUP,
			      &msg.base, arena, deadline, reply);
}

static int look_up(struct tes_get *get, const uint32_t *which, size_t n)
{
	uint64_t t0 = tei_now_ns();
	struct tes_reply reply;
	Store__LookupReply *m;
	size_t i;
	int rc = ask(get, which, n, &reply);

	if (rc)
		return rc;
	m = store__lookup_reply__unpack(&get->work->round.pb, reply.len,
					reply.body);
	rc = m ? take_found(get, which, n, m) : -EBADMSG;
	if (rc)
		return rc == -EBADMSG ? tes_bad_reply("look-up")
				      : TE_STORE_INTERNAL_ERROR;
	get->lease_ms = m->lease_ms;
	for (i = 0; i < n; i++) {
		struct tes_get_entry *entry = &get->entries[which[i]];
		const struct te_store_key *key = &get->keys[entry->item];

		get->lookups[entry->item]++;
		entry->lease_until_ns = t0 + m->lease_ms * TEI_NS_PER_MS;
		entry->digest =
			tes_key_digest(key->bytes, key->len, reply.digest_seed);
		take_key(get, entry, m, i);
	}
	return 0;
}

void tes_get_find(struct tes_get *get)
{
	uint64_t seed, now = tei_now_ns();
	uint32_t *which = tei_arena_alloc(&get->work->round,
					  get->n_todo * sizeof(*which));
	size_t n = 0, i;
	int code = TE_STORE_INTERNAL_ERROR;

	seed = atomic_load_explicit(&get->store->digest_seed,
				    memory_order_relaxed);
	for (i = 0; i < get->n_todo; i++) {
		struct tes_get_entry *entry = &get->entries[i];

		entry->item = get->todo[i];
		if (remembers(get) && !get->lookups[entry->item])
			recall(get, entry, seed, now);
		if (which && entry->source == TES_GET_NOWHERE)
			which[n++] = (uint32_t)i;
	}
	if (which)
		code = n ? look_up(get, which, n) : 0;
	for (i = 0; i < get->n_todo && code; i++)
		if (get->entries[i].source == TES_GET_NOWHERE)
			tes_get_set_code(get, get->entries[i].item, code);
}

/* ---- releasing ---- */

void tes_get_release(struct tes_get *get)
{
	struct tei_arena *arena = &get->work->round;
	Store__Release msg = STORE__RELEASE__INIT;
	struct tes_key_column column;
	size_t n = 0, i;

	msg.generation =
		tei_arena_alloc(arena, get->n_todo * sizeof(msg.generation[0]));
	if (!msg.generation ||
	    tes_key_column_init(&column, arena, get->n_todo,
				tes_keys_bytes(get->keys, get->n)))
		return; /* leases end by themselves */
	for (i = 0; i < get->n_todo; i++) {
		const struct tes_get_entry *entry = &get->entries[i];
		const struct te_store_key *key = &get->keys[entry->item];

		if (entry->source != TES_GET_MASTER || entry->held)
			continue;
		tes_key_column_add(&column, key->bytes, key->len);
		msg.generation[n++] = entry->generation;
	}
	msg.keys = column.bytes;
	msg.key_lens = column.lens;
	msg.n_key_lens = msg.n_generation = n;
	if (n)
		tes_channel_tell(&get->store->channel,
				 STORE__STORE_TYPE__STORE_RELEASE, &msg.base,
				 arena);
}
