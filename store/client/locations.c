/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locations.c - where objects lay when we last read them
 *
 * The clock is an array without holes: the last entry replaces one that leaves.
 * Pinned entries are in the table, but not on the clock. An entry that leaves
 * the table is freed after the lock, with its last reference.
 */
#include "store/client/locations.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

int tes_locations_init(struct tes_locations *l, struct tes_owners *owners,
		       uint32_t n_max)
{
	memset(l, 0, sizeof(*l));
	l->owners = owners;
	l->n_max = n_max;
	tei_list_init(&l->pinned);
	tei_mutex_init(&l->mu);
	l->slots = tei_calloc((size_t)n_max + 1, sizeof(l->slots[0]));
	if (l->slots && !tei_hash_init(&l->table))
		return 0;
	tei_free(l->slots);
	tei_mutex_fini(&l->mu);
	return -ENOMEM;
}

static uint64_t size_of(const struct tes_location *e)
{
	return sizeof(*e) + e->n_extents * sizeof(e->extents[0]) + e->key_len;
}

void tes_location_put(struct tes_locations *l, struct tes_location *e)
{
	/* Release: our reads are over. Acquire: so are those of all others. */
	if (!e ||
	    atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
		return;
	tes_owners_put(l->owners, e->owner);
	tei_free(e);
}

/* ---- the table ---- */

static void unlink_entry(struct tes_locations *l, struct tes_location *e)
	TEI_REQUIRES(l->mu)
{
	struct tes_location *last;

	if (e->pins) {
		tei_list_del(&e->lease);
		/* Relaxed: see tes_locations_on(). */
		atomic_fetch_sub_explicit(&l->n_pinned, 1,
					  memory_order_relaxed);
	} else {
		last = l->slots[--l->n];
		last->slot = e->slot;
		l->slots[last->slot] = last;
	}
	tei_hash_remove(&l->table, &e->node);
	l->bytes -= size_of(e);
}

static void link_entry(struct tes_locations *l, struct tes_location *e,
		       uint64_t digest) TEI_REQUIRES(l->mu)
{
	if (e->pins) {
		tei_list_add_tail(&l->pinned, &e->lease);
		atomic_fetch_add_explicit(&l->n_pinned, 1,
					  memory_order_relaxed);
	} else {
		e->slot = l->n;
		l->slots[l->n++] = e;
	}
	tei_hash_insert(&l->table, &e->node, digest);
	l->bytes += size_of(e);
}

static struct tes_location *find_location(struct tes_locations *l,
					  const void *key, size_t len,
					  uint64_t digest) TEI_REQUIRES(l->mu)
{
	struct tei_hash_node *node = tei_hash_first(&l->table, digest);

	for (; node; node = tei_hash_next(&l->table, node)) {
		struct tes_location *e =
			TEI_CONTAINER(node, struct tes_location, node);

		if (e->key_len == len && memcmp(e->key, key, len) == 0)
			return e;
	}
	return NULL;
}

/* The hand takes the mark of use from whom it passes; at most one turn. */
static struct tes_location *take_victim(struct tes_locations *l)
	TEI_REQUIRES(l->mu)
{
	struct tes_location *e;

	for (;;) {
		if (l->hand >= l->n)
			l->hand = 0;
		e = l->slots[l->hand];
		if (!e->used)
			break;
		e->used = false;
		l->hand++;
	}
	unlink_entry(l, e);
	return e;
}

/* Ends an entry whose lease is over: removed, or kept for its pins. */
static struct tes_location *end_entry(struct tes_locations *l,
				      struct tes_location *e)
	TEI_REQUIRES(l->mu)
{
	if (e->pins) {
		/* Relaxed: who has it already may as well have been first. */
		atomic_store_explicit(&e->expires_ns, 0, memory_order_relaxed);
		tei_list_del(&e->lease);
		return NULL;
	}
	unlink_entry(l, e);
	return e;
}

struct tes_location *tes_locations_get(struct tes_locations *l, const void *key,
				       size_t len, uint64_t digest,
				       uint64_t now_ns)
{
	struct tes_location *e, *over = NULL;

	if (!tes_locations_on(l))
		return NULL;
	tei_mutex_lock(&l->mu);
	e = find_location(l, key, len, digest);
	if (e && e->expires_ns <= now_ns) {
		over = end_entry(l, e);
		e = NULL;
	}
	if (e) {
		e->used = true;
		/* Relaxed: the table's own reference keeps it meanwhile. */
		atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
	}
	tei_mutex_unlock(&l->mu);
	tes_location_put(l, over);
	return e;
}

/* ---- renewing ---- */

bool tes_locations_pinned(struct tes_locations *l)
{
	bool some;

	tei_mutex_lock(&l->mu);
	some = atomic_load_explicit(&l->n_pinned, memory_order_relaxed) > 0;
	tei_mutex_unlock(&l->mu);
	return some;
}

/* Unlists entries whose leases are over: their next reader looks them up. */
static void drop_over(struct tes_locations *l, uint64_t now_ns)
	TEI_REQUIRES(l->mu)
{
	while (!tei_list_empty(&l->pinned)) {
		struct tes_location *e = TEI_CONTAINER(
			l->pinned.next, struct tes_location, lease);

		if (atomic_load_explicit(&e->expires_ns, memory_order_relaxed) >
		    now_ns)
			return;
		(void)end_entry(l, e);
	}
}

static bool copy_key(struct tei_arena *arena, const struct tes_location *e,
		     struct te_store_key *out)
{
	void *copy = tei_arena_alloc(arena, e->key_len);

	if (!copy)
		return false;
	memcpy(copy, e->key, e->key_len);
	*out = (struct te_store_key){.bytes = copy, .len = e->key_len};
	return true;
}

size_t tes_locations_due(struct tes_locations *l, uint64_t now_ns,
			 uint64_t before_ns, struct tei_arena *arena,
			 struct te_store_key *keys, size_t max)
{
	struct tei_list *node;
	size_t n = 0;

	tei_mutex_lock(&l->mu);
	drop_over(l, now_ns);
	for (node = l->pinned.next; node != &l->pinned && n < max;
	     node = node->next) {
		const struct tes_location *e =
			TEI_CONTAINER(node, struct tes_location, lease);

		if (atomic_load_explicit(&e->expires_ns,
					 memory_order_relaxed) >= before_ns ||
		    !copy_key(arena, e, &keys[n]))
			break;
		n++;
	}
	tei_mutex_unlock(&l->mu);
	return n;
}

void tes_locations_extend(struct tes_locations *l, struct tes_location *e,
			  uint64_t expires_ns)
{
	tei_mutex_lock(&l->mu);
	if (!tei_list_empty(&e->lease)) {
		atomic_store_explicit(&e->expires_ns, expires_ns,
				      memory_order_relaxed);
		tei_list_del(&e->lease);
		tei_list_add_tail(&l->pinned, &e->lease);
	}
	tei_mutex_unlock(&l->mu);
}

/* ---- filling ---- */

static struct tes_location *
create_entry(const void *key, size_t len, const struct tes_location *from,
	     const struct tes_location_extent *extents)
{
	size_t extent_bytes = from->n_extents * sizeof(extents[0]);
	struct tes_location *e = tei_malloc(sizeof(*e) + extent_bytes + len);

	if (!e)
		return NULL;
	memset(e, 0, sizeof(*e));
	atomic_init(&e->refs, 1);
	tei_list_init(&e->lease);
	e->no_crc = from->no_crc;
	e->unverified = from->unverified;
	e->n_extents = from->n_extents;
	e->key_len = (uint32_t)len;
	e->generation = from->generation;
	e->gen_epoch = from->gen_epoch;
	e->size = from->size;
	e->expires_ns = from->expires_ns;
	e->owner = from->owner;
	memcpy(e->extents, extents, extent_bytes);
	e->key = memcpy((uint8_t *)e->extents + extent_bytes, key, len);
	return e;
}

/* Puts @e in place of an old entry. Returns the entry to release, if any. */
static struct tes_location *
replace_location(struct tes_locations *l, struct tes_location *e,
		 uint64_t digest, uint32_t more_pins) TEI_REQUIRES(l->mu)
{
	struct tes_location *old = find_location(l, e->key, e->key_len, digest);

	e->pins = more_pins + (old ? old->pins : 0);
	if (!e->pins && !l->n_max)
		return e;
	if (old)
		unlink_entry(l, old);
	else if (!e->pins && l->n == l->n_max)
		old = take_victim(l);
	link_entry(l, e, digest);
	return old;
}

bool tes_locations_add(struct tes_locations *l, const void *key, size_t len,
		       uint64_t digest, const struct tes_location *from,
		       const struct tes_location_extent *extents)
{
	struct tes_location *e, *old;
	bool pinned;

	if (!tes_locations_on(l) || from->n_extents > TES_LOCATION_EXTENTS)
		return false;
	e = create_entry(key, len, from, extents);
	if (!e)
		return false;
	tes_owners_ref(l->owners, e->owner);
	tei_mutex_lock(&l->mu);
	old = replace_location(l, e, digest, 0);
	pinned = e->pins > 0;
	tei_mutex_unlock(&l->mu);
	tes_location_put(l, old);
	return pinned;
}

int tes_locations_pin(struct tes_locations *l, const void *key, size_t len,
		      uint64_t digest, const struct tes_location *from,
		      const struct tes_location_extent *extents)
{
	struct tes_location *e, *old;

	if (from->n_extents > TES_LOCATION_EXTENTS)
		return -ENOMEM;
	e = create_entry(key, len, from, extents);
	if (!e)
		return -ENOMEM;
	tes_owners_ref(l->owners, e->owner);
	tei_mutex_lock(&l->mu);
	old = replace_location(l, e, digest, 1);
	tei_mutex_unlock(&l->mu);
	tes_location_put(l, old);
	return 0;
}

uint64_t tes_locations_unpin(struct tes_locations *l, const void *key,
			     size_t len, uint64_t digest, uint64_t now_ns,
			     uint64_t *gen_epoch)
{
	struct tes_location *e;
	uint64_t generation = 0;

	*gen_epoch = 0;
	if (!tes_locations_on(l))
		return 0;
	tei_mutex_lock(&l->mu);
	e = find_location(l, key, len, digest);
	if (!e || !e->pins) {
		e = NULL;
	} else if (e->pins > 1) {
		e->pins--;
		e = NULL;
	} else {
		unlink_entry(l, e);
		if (e->expires_ns > now_ns) {
			generation = e->generation;
			*gen_epoch = e->gen_epoch;
		}
	}
	tei_mutex_unlock(&l->mu);
	tes_location_put(l, e);
	return generation;
}

void tes_locations_drop(struct tes_locations *l, const void *key, size_t len,
			uint64_t digest, uint64_t generation)
{
	struct tes_location *e;

	if (!tes_locations_on(l))
		return;
	tei_mutex_lock(&l->mu);
	e = find_location(l, key, len, digest);
	if (e && generation && e->generation != generation)
		e = NULL;
	if (e)
		e = end_entry(l, e);
	tei_mutex_unlock(&l->mu);
	tes_location_put(l, e);
}

static void take_first(struct tei_hash_node *node, void *arg)
{
	struct tes_location **first = arg;

	if (!*first)
		*first = TEI_CONTAINER(node, struct tes_location, node);
}

/* Takes some entry out of the table; NULL: it is empty. */
static struct tes_location *take_any(struct tes_locations *l)
	TEI_REQUIRES(l->mu)
{
	struct tes_location *e = l->n ? l->slots[l->n - 1] : NULL;
	size_t cursor = 0;

	while (!e && tei_hash_walk(&l->table, &cursor, 1, take_first, &e))
		;
	if (e)
		unlink_entry(l, e);
	return e;
}

void tes_locations_clear(struct tes_locations *l)
{
	struct tes_location *e;

	if (!tes_locations_on(l))
		return;
	do {
		tei_mutex_lock(&l->mu);
		e = take_any(l);
		tei_mutex_unlock(&l->mu);
		tes_location_put(l, e);
	} while (e);
}

void tes_locations_fini(struct tes_locations *l)
{
	tes_locations_clear(l);
	tei_hash_fini(&l->table);
	tei_free(l->slots);
	l->slots = NULL;
	l->n_max = 0;
	tei_mutex_fini(&l->mu);
}

uint64_t tes_locations_bytes(struct tes_locations *l)
{
	uint64_t bytes;

	if (!tes_locations_on(l))
		return 0;
	tei_mutex_lock(&l->mu);
	bytes = l->bytes + tei_hash_bytes(&l->table) +
		(uint64_t)l->n_max * sizeof(l->slots[0]);
	tei_mutex_unlock(&l->mu);
	return bytes;
}
