/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locations.h - where objects lay when we last read them
 *
 * An entry names one replica of an object, as a look-up gave it and a read has
 * proved it. It is a hint: its reader checks the extent headers as always, and
 * drops it when they are another object's. It ends with the lease that came
 * with the look-up. Entries of an earlier master are never found, for digests
 * are seeded by the master.
 *
 * At most n_max entries, replaced by CLOCK; each operation costs O(1). Pinned
 * ones are on top of that: they stay for as long as they are pinned, though
 * what they say may be over. Until then their leases are renewed (leases.c).
 *
 * Threads: any.
 */
#ifndef STORE_CLIENT_LOCATIONS_H
#define STORE_CLIENT_LOCATIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/store.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/thread.h"
#include "store/client/owners.h"

#define TES_LOCATION_EXTENTS 16 /* more of one replica are not kept */

struct tes_location_extent {
	uint64_t address; /* of the header */
	uint64_t length;  /* of the data in it */
	uint32_t crc;
};

/* Entry that never changes while it is referenced, except its end. */
struct tes_location {
	struct tei_hash_node node; /* hash: the key's digest */
	struct tei_list lease;     /* guarded by mu: in pinned, or none */
	atomic_uint refs;          /* the table has one */
	uint32_t slot;             /* guarded by mu: its place on the clock */
	uint32_t pins;             /* guarded by mu; with some it has no slot */
	bool used;                 /* guarded by mu: since the hand passed */
	bool no_crc;
	bool unverified; /* ranges alone prove nothing */
	uint16_t n_extents;
	uint32_t key_len;
	uint64_t generation, gen_epoch;
	uint64_t size;            /* of the object */
	atomic_ullong expires_ns; /* written under mu once it is in the table */
	struct tes_owner *owner;  /* a reference */
	const uint8_t *key;       /* key[key_len], behind extents */
	struct tes_location_extent extents[];
};

struct tes_locations {
	struct tes_owners *owners;   /* not owned */
	uint32_t n_max;              /* 0: only what is pinned is kept */
	atomic_uint n_pinned;        /* entries; changed under mu */
	struct tei_mutex mu;         /* lock 42 */
	struct tei_list pinned;      /* guarded by mu: that are not over, those
				      * that end first in front */
	struct tei_hash table;       /* guarded by mu */
	struct tes_location **slots; /* guarded by mu: slots[n_max] */
	uint32_t n, hand;            /* guarded by mu */
	uint64_t bytes;              /* guarded by mu: entries and table */
	/* Counted by who uses them: read by it; not there; there, but wrong. */
	atomic_ullong n_hits, n_misses, n_stale;
};

/* -ENOMEM. */
int tes_locations_init(struct tes_locations *l, struct tes_owners *owners,
		       uint32_t n_max);
/* Frees all; to be called when nobody holds an entry any more. */
void tes_locations_fini(struct tes_locations *l);

/* Give it back with put(). NULL: not there, or over by @now_ns. */
struct tes_location *tes_locations_get(struct tes_locations *l, const void *key,
				       size_t len, uint64_t digest,
				       uint64_t now_ns);
void tes_location_put(struct tes_locations *l, struct tes_location *location);

/*
 * Keep what @from says of a key, in place of what was there. @from->owner,
 * generation, gen_epoch, size, expires_ns, no_crc, unverified and n_extents are
 * copied, a reference to the owner is taken; @extents[@from->n_extents].
 * Without memory, or with more than TES_LOCATION_EXTENTS, nothing is kept.
 * True: it is pinned.
 */
bool tes_locations_add(struct tes_locations *l, const void *key, size_t len,
		       uint64_t digest, const struct tes_location *from,
		       const struct tes_location_extent *extents);
/* The same, and pin it once more. -ENOMEM. */
int tes_locations_pin(struct tes_locations *l, const void *key, size_t len,
		      uint64_t digest, const struct tes_location *from,
		      const struct tes_location_extent *extents);
/*
 * Undo one pin. Returns the generation whose lease is nobody's any more, of
 * *@gen_epoch, or 0: still pinned, not pinned at all, or over by @now_ns.
 */
uint64_t tes_locations_unpin(struct tes_locations *l, const void *key,
			     size_t len, uint64_t digest, uint64_t now_ns,
			     uint64_t *gen_epoch);
/* Tells whether any entry is pinned. */
bool tes_locations_pinned(struct tes_locations *l);
/*
 * Keys of pinned entries that end before @before_ns, up to @max, copied to
 * @arena. What is over by @now_ns is left to who reads it. Returns how many.
 */
size_t tes_locations_due(struct tes_locations *l, uint64_t now_ns,
			 uint64_t before_ns, struct tei_arena *arena,
			 struct te_store_key *keys, size_t max);
/* @location, which get() gave, holds until then if it is still in the table. */
void tes_locations_extend(struct tes_locations *l,
			  struct tes_location *location, uint64_t expires_ns);
/* Tells whether there may be any entry at all. */
static inline bool tes_locations_on(struct tes_locations *l)
{
	/* Relaxed: who has pinned knows that by other means. */
	return l->n_max ||
	       atomic_load_explicit(&l->n_pinned, memory_order_relaxed);
}
/* Forget a key, if it is still of @generation; 0: of any. */
void tes_locations_drop(struct tes_locations *l, const void *key, size_t len,
			uint64_t digest, uint64_t generation);
void tes_locations_clear(struct tes_locations *l);
/* Memory of entries and table. */
uint64_t tes_locations_bytes(struct tes_locations *l);

#endif
