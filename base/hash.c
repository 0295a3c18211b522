/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.c - intrusive hash table that never stops to rehash
 *
 * Linear hashing. With 2^k <= n_buckets < 2^(k+1), a hash belongs to the
 * bucket of its low k+1 bits if that one exists, else of its low k bits. To
 * grow by one, the nodes of bucket n - 2^k are shared out between it and the
 * new bucket n. Split above one node a bucket, join below one in two: the
 * distance keeps a table of steady size from splitting and joining in turn.
 */
#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define FIRST 64 /* buckets in chunk 0, and the least there are */

/* Largest power of two <= @n, n >= 1. */
static size_t floor_pow2(size_t n)
{
	return (size_t)1 << (63 - __builtin_clzll(n));
}

static size_t chunk_buckets(unsigned int chunk)
{
	return chunk ? (size_t)FIRST << (chunk - 1) : FIRST;
}

/* In which chunk @bucket is; *at: where in it. */
static unsigned int chunk_of(size_t bucket, size_t *at)
{
	unsigned int chunk;

	if (bucket < FIRST) {
		*at = bucket;
		return 0;
	}
	chunk = (unsigned int)(64 - __builtin_clzll(bucket / FIRST));
	*at = bucket - chunk_buckets(chunk);
	return chunk;
}

static struct tei_hash_node **bucket_at(const struct tei_hash *h, size_t bucket)
{
	size_t at;
	unsigned int chunk = chunk_of(bucket, &at);

	return &h->chunk[chunk][at];
}

static struct tei_hash_node **bucket_of(const struct tei_hash *h, uint64_t hash)
{
	size_t low = floor_pow2(h->n_buckets);
	size_t bucket = hash & (2 * low - 1);

	if (bucket >= h->n_buckets)
		bucket = hash & (low - 1);
	return bucket_at(h, bucket);
}

int tei_hash_init(struct tei_hash *h)
{
	memset(h, 0, sizeof(*h));
	h->chunk[0] = tei_calloc(FIRST, sizeof(struct tei_hash_node *));
	if (!h->chunk[0])
		return -ENOMEM;
	h->n_buckets = FIRST;
	return 0;
}

void tei_hash_fini(struct tei_hash *h)
{
	for (unsigned int i = 0; i < TEI_HASH_CHUNKS; i++)
		tei_free(h->chunk[i]);
	memset(h, 0, sizeof(*h));
}

static void split(struct tei_hash *h)
{
	size_t low = floor_pow2(h->n_buckets), at;
	unsigned int chunk = chunk_of(h->n_buckets, &at);
	struct tei_hash_node **from, **to, *node;

	if (chunk >= TEI_HASH_CHUNKS)
		return;
	if (!h->chunk[chunk]) {
		h->chunk[chunk] = tei_calloc(chunk_buckets(chunk),
					     sizeof(struct tei_hash_node *));
		if (!h->chunk[chunk])
			return; /* longer chains until a later insert */
		tei_huge_want(h->chunk[chunk],
			      chunk_buckets(chunk) *
				      sizeof(struct tei_hash_node *));
	}
	from = bucket_at(h, h->n_buckets - low);
	to = &h->chunk[chunk][at];
	h->n_buckets++;
	while ((node = *from)) {
		if (node->hash & low) {
			*from = node->next;
			node->next = *to;
			*to = node;
		} else {
			from = &node->next;
		}
	}
}

/*
 * The last bucket's chain goes behind its partner's. A walk that stands in
 * either chain goes on to the other's nodes at worst.
 */
static void join(struct tei_hash *h)
{
	size_t last = h->n_buckets - 1, low = floor_pow2(last), at;
	unsigned int chunk = chunk_of(last, &at);
	struct tei_hash_node **tail = bucket_at(h, last - low);

	while (*tail)
		tail = &(*tail)->next;
	*tail = h->chunk[chunk][at];
	h->chunk[chunk][at] = NULL;
	h->n_buckets = last;
	if (at == 0) { /* chunk 0 never gets here: FIRST buckets stay */
		tei_free(h->chunk[chunk]);
		h->chunk[chunk] = NULL;
	}
}

void tei_hash_insert(struct tei_hash *h, struct tei_hash_node *node,
		     uint64_t hash)
{
	struct tei_hash_node **bucket = bucket_of(h, hash);

	node->hash = hash;
	node->next = *bucket;
	*bucket = node;
	if (++h->n_nodes > h->n_buckets)
		split(h);
}

void tei_hash_remove(struct tei_hash *h, struct tei_hash_node *node)
{
	struct tei_hash_node **link = bucket_of(h, node->hash);

	while (*link != node) {
		assert(*link); /* not in the table */
		link = &(*link)->next;
	}
	*link = node->next;
	node->next = NULL;
	h->n_nodes--;
	for (int i = 0; i < 2; i++) /* two, to keep up with the removes */
		if (h->n_nodes < h->n_buckets / 2 && h->n_buckets > FIRST)
			join(h);
}

static struct tei_hash_node *with_hash(struct tei_hash_node *node,
				       uint64_t hash)
{
	while (node && node->hash != hash)
		node = node->next;
	return node;
}

struct tei_hash_node *tei_hash_first(const struct tei_hash *h, uint64_t hash)
{
	return with_hash(*bucket_of(h, hash), hash);
}

struct tei_hash_node *tei_hash_next(const struct tei_hash_node *node)
{
	return with_hash(node->next, node->hash);
}

void tei_hash_prefetch_bucket(const struct tei_hash *h, uint64_t hash)
{
	__builtin_prefetch(bucket_of(h, hash));
}

void tei_hash_prefetch_node(const struct tei_hash *h, uint64_t hash)
{
	__builtin_prefetch(*bucket_of(h, hash));
}

struct tei_hash_node *tei_hash_chain(const struct tei_hash *h, uint64_t hash)
{
	return *bucket_of(h, hash);
}

static void visit(struct tei_hash *h, size_t bucket, tei_hash_fn *fn, void *arg)
{
	struct tei_hash_node *node, *next;

	for (node = *bucket_at(h, bucket); node; node = next) {
		next = node->next;
		fn(node, arg);
	}
}

/* Count @v up from its highest bit below @low. False: that was the last. */
static bool next_class(size_t *v, size_t low)
{
	for (size_t bit = low / 2; bit; bit /= 2) {
		*v ^= bit;
		if (*v & bit)
			return true;
	}
	return false;
}

/*
 * Visits all nodes of equal low bits at a time, in the order of these bits read
 * backwards: however the number of bits changes meanwhile, what was visited is
 * what lies before the cursor. Of a bucket and its partner the upper one goes
 * first, since a join puts its nodes behind those of the lower one.
 */
bool tei_hash_walk(struct tei_hash *h, size_t *cursor, size_t n_buckets,
		   tei_hash_fn *fn, void *arg)
{
	for (; n_buckets > 0; n_buckets--) {
		size_t low = floor_pow2(h->n_buckets);

		*cursor &= low - 1;
		if (*cursor + low < h->n_buckets)
			visit(h, *cursor + low, fn, arg);
		if (*cursor >= h->n_buckets)
			continue; /* many went: once more, with fewer bits */
		visit(h, *cursor, fn, arg);
		if (!next_class(cursor, low))
			return false;
	}
	return true;
}

size_t tei_hash_bytes(const struct tei_hash *h)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < TEI_HASH_CHUNKS; i++)
		if (h->chunk[i])
			bytes += chunk_buckets(i) * sizeof(h->chunk[i][0]);
	return bytes;
}
