/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ghosts.c - what is remembered of keys that were evicted
 *
 * Linear hashing over buckets of two cache lines: the table grows by a bucket
 * when it, or a bucket that is wanted, is too full, so no eviction costs more than two buckets, and memory
 * comes in chunks. The table never shrinks; each put sweeps one bucket of
 * ghosts that have become too old.
 */
#include "store/core/ghosts.h"

#include <string.h>

#include "base/mem.h"

#define WAYS          16u  /* ghosts of a bucket */
#define FULL          12u  /* of them used, on average, before it grows */
#define CHUNK_BUCKETS 512u /* 64 KiB */
#define FIRST_BUCKETS 8u

struct ghost {
	uint32_t tag;
	uint16_t tick;
	uint8_t touches; /* 0: free */
};

struct tes_ghost_bucket {
	struct ghost ghost[WAYS];
};

void tes_ghosts_init(struct tes_ghosts *g)
{
	*g = (struct tes_ghosts){0};
}

void tes_ghosts_fini(struct tes_ghosts *g)
{
	for (size_t i = 0; i < g->n_chunks; i++)
		tei_free(g->chunks[i]);
	tei_free(g->chunks);
	tes_ghosts_init(g);
}

size_t tes_ghosts_bytes(const struct tes_ghosts *g)
{
	return g->chunks_room * sizeof(*g->chunks) +
	       g->n_chunks * CHUNK_BUCKETS * sizeof(struct tes_ghost_bucket);
}

static uint32_t tag_of(uint64_t hash)
{
	return (uint32_t)(hash >> 32);
}

/* Largest power of two that is not above n_buckets. */
static size_t level_of(const struct tes_ghosts *g)
{
	return (size_t)1 << (63 - __builtin_clzll(g->n_buckets));
}

static struct tes_ghost_bucket *bucket_at(const struct tes_ghosts *g, size_t i)
{
	return &g->chunks[i / CHUNK_BUCKETS][i % CHUNK_BUCKETS];
}

static struct tes_ghost_bucket *bucket_of(const struct tes_ghosts *g,
					  uint32_t tag)
{
	size_t low = level_of(g), i = tag & (2 * low - 1);

	return bucket_at(g, i < g->n_buckets ? i : i - low);
}

void tes_ghosts_prefetch(const struct tes_ghosts *g, uint64_t hash)
{
	const char *b;

	if (!g->n_buckets)
		return;
	b = (const char *)bucket_of(g, tag_of(hash));
	__builtin_prefetch(b, 1);
	__builtin_prefetch(b + 64, 1);
}

static bool is_too_old(const struct ghost *e, uint16_t now)
{
	return (uint16_t)(now - e->tick) >= TES_GHOSTS_AGES;
}

static void drop_ghost(struct tes_ghosts *g, struct ghost *e)
{
	e->touches = 0;
	g->n--;
}

static void sweep_bucket(struct tes_ghosts *g, struct tes_ghost_bucket *b,
			 uint16_t now)
{
	for (size_t i = 0; i < WAYS; i++)
		if (b->ghost[i].touches && is_too_old(&b->ghost[i], now))
			drop_ghost(g, &b->ghost[i]);
}

static bool add_chunk(struct tes_ghosts *g)
{
	size_t room = g->chunks_room ? g->chunks_room * 2 : 8;
	struct tes_ghost_bucket **chunks = g->chunks, *chunk;

	if (g->n_chunks == g->chunks_room) {
		chunks = tei_realloc(chunks, room * sizeof(*chunks));
		if (!chunks)
			return false;
		g->chunks = chunks;
		g->chunks_room = room;
	}
	chunk = tei_aligned_calloc(sizeof(*chunk),
				   CHUNK_BUCKETS * sizeof(*chunk));
	if (!chunk)
		return false;
	g->chunks[g->n_chunks++] = chunk;
	return true;
}

/* Add one bucket and move what belongs there from the one it splits. */
static void split_bucket(struct tes_ghosts *g)
{
	size_t added = g->n_buckets, low = level_of(g);
	struct tes_ghost_bucket *from, *to;

	if (added == g->n_chunks * CHUNK_BUCKETS && !add_chunk(g))
		return;
	from = bucket_at(g, added - low);
	to = bucket_at(g, added);
	g->n_buckets++;
	for (size_t i = 0; i < WAYS; i++)
		if (from->ghost[i].touches && (from->ghost[i].tag & low)) {
			to->ghost[i] = from->ghost[i];
			from->ghost[i].touches = 0;
		}
}

static bool create_table(struct tes_ghosts *g)
{
	if (!g->n_buckets && add_chunk(g))
		g->n_buckets = FIRST_BUCKETS;
	return g->n_buckets;
}

/* A free place, or that of the oldest. */
static struct ghost *place_in_bucket(struct tes_ghost_bucket *b, uint16_t now)
{
	struct ghost *oldest = &b->ghost[0];

	for (size_t i = 0; i < WAYS; i++) {
		struct ghost *e = &b->ghost[i];

		if (!e->touches)
			return e;
		if ((uint16_t)(now - e->tick) > (uint16_t)(now - oldest->tick))
			oldest = e;
	}
	return oldest;
}

void tes_ghosts_put(struct tes_ghosts *g, uint64_t hash, uint16_t tick,
		    uint8_t touches, uint16_t now, size_t limit)
{
	struct ghost *e;

	if (!create_table(g))
		return;
	g->swept = g->swept + 1 < g->n_buckets ? g->swept + 1 : 0;
	sweep_bucket(g, bucket_at(g, g->swept), now);
	e = place_in_bucket(bucket_of(g, tag_of(hash)), now);
	if ((e->touches || g->n >= g->n_buckets * FULL) &&
	    g->n_buckets * FULL < limit) {
		split_bucket(g);
		e = place_in_bucket(bucket_of(g, tag_of(hash)), now);
	}
	if (!e->touches)
		g->n++;
	*e = (struct ghost){tag_of(hash), tick, touches};
}

bool tes_ghosts_take(struct tes_ghosts *g, uint64_t hash, uint16_t now,
		     uint16_t *tick, uint8_t *touches)
{
	struct tes_ghost_bucket *b;

	if (!g->n)
		return false;
	b = bucket_of(g, tag_of(hash));
	for (size_t i = 0; i < WAYS; i++) {
		struct ghost *e = &b->ghost[i];

		if (!e->touches || e->tag != tag_of(hash) || is_too_old(e, now))
			continue;
		*tick = e->tick;
		*touches = e->touches;
		drop_ghost(g, e);
		return true;
	}
	return false;
}
