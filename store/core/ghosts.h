/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ghosts.h - what is remembered of keys that were evicted
 *
 * A hash of the key, when it was last asked for and how often: 8 bytes each,
 * in buckets of 16 of which three quarters are used, so about 11 bytes a ghost.
 * A ghost is a hint: one may be lost (memory is short, its bucket is full of
 * younger ones) or belong to another key with the same 32 bits.
 *
 * Times are ticks of the policy, 16 bits of them; a ghost older than
 * TES_GHOSTS_AGES ticks is none.
 *
 * Threads: none of its own.
 */
#ifndef STORE_CORE_GHOSTS_H
#define STORE_CORE_GHOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TES_GHOSTS_AGES 64

struct tes_ghost_bucket;

struct tes_ghosts {
	struct tes_ghost_bucket **chunks; /* chunks[n_chunks] */
	size_t n_chunks, chunks_room;
	size_t n_buckets; /* 0: nothing was evicted yet */
	size_t swept;     /* the bucket that was last rid of old ghosts */
	size_t n;         /* those that are too old and not yet swept too */
};

/* Allocates nothing. */
void tes_ghosts_init(struct tes_ghosts *g);
void tes_ghosts_fini(struct tes_ghosts *g);
/*
 * Remember @hash. There is room for @limit ghosts at least; beyond that, and
 * when memory is short, the oldest of a bucket makes room.
 */
void tes_ghosts_put(struct tes_ghosts *g, uint64_t hash, uint16_t tick,
		    uint8_t touches, uint16_t now, size_t limit);
/* Forget @hash; false: it was not remembered. */
bool tes_ghosts_take(struct tes_ghosts *g, uint64_t hash, uint16_t now,
		     uint16_t *tick, uint8_t *touches);
/* Start to load what put() and take() of @hash touch. */
void tes_ghosts_prefetch(const struct tes_ghosts *g, uint64_t hash);
size_t tes_ghosts_bytes(const struct tes_ghosts *g);

#endif
