/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot.h - bytes of objects of other owners that are read again and again
 *
 * An entry is the value of one generation of a key, whole and verified, and
 * for ever right for that generation. It never says what the key's generation
 * is now: whoever reads has that from the master's look-up, or from the header
 * at the owner (get.c), and asks for the bytes of exactly that one. So a
 * value that was removed or replaced is never read from here.
 *
 * A value comes in when its key was asked for often enough of late, and at
 * least as often as those that would have to go for it: the least recently
 * used ones. Memory is bounded, readers' references included.
 *
 * Threads: any; init and fini set-up only.
 */
#ifndef STORE_CLIENT_HOT_H
#define STORE_CLIENT_HOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/thread.h"
#include "store/client/sketch.h"

/* Name of a value: digest and generation, and the key itself. */
struct tes_hot_name {
	const void *key;
	size_t key_len;
	uint64_t digest, gen_epoch, generation;
};

/* Value in the cache, which never changes once it is added. */
struct tes_hot_value {
	struct tei_hash_node node; /* hash: the key's digest */
	struct tei_list link;      /* guarded by hot->mu: in hot->recent */
	atomic_uint refs;          /* the table has one */
	uint32_t key_len;
	uint64_t gen_epoch, generation;
	uint64_t size;
	uint8_t *key;    /* key[key_len], behind it */
	uint8_t bytes[]; /* bytes[size] */
};

struct tes_hot {
	uint64_t bytes_max;       /* 0: off */
	uint64_t value_max;       /* larger ones are not kept */
	unsigned int threshold;   /* how often asked for */
	struct tei_mutex mu;      /* lock 53 */
	struct tes_sketch sketch; /* guarded by mu */
	struct tei_hash table;    /* guarded by mu */
	struct tei_list recent;   /* guarded by mu; most recently used first */
	uint64_t bytes;           /* guarded by mu: of all values alive */
	/* Relaxed, all of them: for people. */
	atomic_ullong n_hits, n_misses, n_added, n_evicted;
};

#define TES_HOT_VALUE_MAX (16ull << 20) /* unless told otherwise */
#define TES_HOT_THRESHOLD 2u

/* @bytes 0: off. The others 0: as above. -ENOMEM. */
int tes_hot_init(struct tes_hot *hot, uint64_t bytes, uint64_t value_max,
		 unsigned int threshold);
/* Frees all; to be called when nobody holds a value any more. */
void tes_hot_fini(struct tes_hot *hot);
static inline bool tes_hot_on(const struct tes_hot *hot)
{
	return hot->bytes_max;
}

/* The key was asked for. */
void tes_hot_note(struct tes_hot *hot, uint64_t digest);
/*
 * The bytes of exactly this generation; give them back with put(). NULL: not
 * there. Those of another generation of the key are forgotten.
 */
struct tes_hot_value *tes_hot_get(struct tes_hot *hot,
				  const struct tes_hot_name *name);
void tes_hot_put(struct tes_hot *hot, struct tes_hot_value *value);

/*
 * Room for a value that is worth it, to be filled by the caller, who then adds
 * it or puts it back. NULL: it is not asked for often enough, too large, or
 * there is no room.
 */
struct tes_hot_value *tes_hot_begin(struct tes_hot *hot,
				    const struct tes_hot_name *name,
				    uint64_t size);
/* Takes it. */
void tes_hot_add(struct tes_hot *hot, struct tes_hot_value *value,
		 uint64_t digest);

/* Forget a key; all of them. */
void tes_hot_drop(struct tes_hot *hot, const void *key, size_t len,
		  uint64_t digest);
void tes_hot_clear(struct tes_hot *hot);
/* Memory of values, and of what there is besides. */
uint64_t tes_hot_bytes(struct tes_hot *hot);

#endif
