/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.c - intrusive hash table that never stops to rehash
 *
 * Linear hashing. With 2^k <= n_buckets < 2^(k+1), a hash belongs to the
 * bucket of its low k+1 bits if that one exists, else of its low k bits. To
 * grow by one, the nodes of bucket n - 2^k are shared out between it and the
 * new bucket n. Split above LOAD nodes a bucket, join below half of that: the
 * distance keeps a table of steady size from splitting and joining in turn.
 *
 * A slot is a pointer with the TAG of the node's hash in the 16 bits that
 * addresses of processes leave free. The last one is for those that find no
 * room: a chain by `next`, with a mark of each node's hash in place of the tag.
 * So mostly it can be seen that what is looked for is not in the chain.
 */
#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define FIRST      8 /* buckets in chunk 0, and the least there are */
#define SLOTS      8
#define CHAIN      (SLOTS - 1) /* the slot that begins a chain */
#define LOAD       4
#define MARKED_MAX 16 /* nodes of a chain whose marks are read */
#define LINE       64

#define TAG_SHIFT 16 /* the bits of a hash from there on */
#define TAG_BITS  16
#define PTR_BITS  48
#define TAG       (~(uint64_t)0 << PTR_BITS)

struct tei_hash_bucket {
	uint64_t slot[SLOTS]; /* 0: empty, and all after it but the chain */
};

_Static_assert(sizeof(struct tei_hash_bucket) == LINE, "a line");
_Static_assert(sizeof(uintptr_t) == sizeof(uint64_t), "room for the tag");

static uint64_t tag_of(uint64_t hash)
{
	return hash << (PTR_BITS - TAG_SHIFT) & TAG;
}

/* A bit of TAG, chosen by bits of the hash that are not in its tag. */
static uint64_t mark_of(uint64_t hash)
{
	return (uint64_t)1 << (PTR_BITS + (hash >> 60));
}

static uint64_t slot_of(struct tei_hash_node *node)
{
	return (uint64_t)(uintptr_t)node | tag_of(node->hash);
}

static struct tei_hash_node *node_of(uint64_t slot)
{
	return (struct tei_hash_node *)(uintptr_t)(slot & ~TAG);
}

/* ---- buckets ---- */

/* Largest power of two <= @n, n >= 1. */
static size_t floor_pow2(size_t n)
{
	return (size_t)1 << (63 - __builtin_clzll(n));
}

static size_t chunk_buckets(unsigned int chunk)
{
	return chunk ? (size_t)FIRST << (chunk - 1) : FIRST;
}

/* Returns the bytes of a chunk, with room to begin at a line. */
static size_t chunk_bytes(unsigned int chunk)
{
	return chunk_buckets(chunk) * sizeof(struct tei_hash_bucket) + LINE;
}

/* Returns in which chunk @bucket is; *at: where in it. */
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

static struct tei_hash_bucket *bucket_at(const struct tei_hash *h,
					 size_t bucket)
{
	size_t at;
	unsigned int chunk = chunk_of(bucket, &at);
	uintptr_t first = (uintptr_t)h->chunk[chunk];

	first = (first + LINE - 1) / LINE * LINE;
	return (struct tei_hash_bucket *)first + at;
}

static struct tei_hash_bucket *bucket_of(const struct tei_hash *h,
					 uint64_t hash)
{
	size_t low = floor_pow2(h->n_buckets);
	size_t bucket = hash & (2 * low - 1);

	if (bucket >= h->n_buckets)
		bucket = hash & (low - 1);
	return bucket_at(h, bucket);
}

static int chunk_add(struct tei_hash *h, unsigned int chunk)
{
	/* Not aligned by the allocator: it would have to be zeroed by hand. */
	h->chunk[chunk] = tei_calloc(1, chunk_bytes(chunk));
	if (!h->chunk[chunk])
		return -ENOMEM;
	tei_huge_want(h->chunk[chunk], chunk_bytes(chunk));
	return 0;
}

int tei_hash_init(struct tei_hash *h)
{
	memset(h, 0, sizeof(*h));
	if (chunk_add(h, 0))
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

/* ---- to put and take ---- */

/* Links @slot, of a node whose hash belongs to @b and that is in no chain. */
static void put_slot(struct tei_hash_bucket *b, uint64_t slot)
{
	uint64_t *chain = &b->slot[CHAIN];
	struct tei_hash_node *node = node_of(slot);

	for (size_t i = 0; i < CHAIN; i++)
		if (!b->slot[i]) {
			b->slot[i] = slot;
			return;
		}
	node->next = node_of(*chain);
	*chain = (uint64_t)(uintptr_t)node | (*chain & TAG) |
		 mark_of(node->hash);
}

/*
 * A long chain keeps the marks of what was taken from it: to read them anew at
 * each take would make emptying it the square of its length.
 */
static void set_chain(struct tei_hash_bucket *b, struct tei_hash_node *first)
{
	uint64_t kept = b->slot[CHAIN] & TAG, marks = 0;
	struct tei_hash_node *n = first;

	for (int i = 0; n && i < MARKED_MAX; i++, n = n->next)
		marks |= mark_of(n->hash);
	b->slot[CHAIN] = (uint64_t)(uintptr_t)first | (n ? kept : marks);
}

static void take_slot(struct tei_hash_bucket *b, size_t i)
{
	size_t last = i;

	while (last + 1 < CHAIN && b->slot[last + 1])
		last++;
	b->slot[i] = b->slot[last];
	b->slot[last] = 0;
}

static void unlink_node(struct tei_hash_bucket *b, struct tei_hash_node *node)
{
	struct tei_hash_node *first = node_of(b->slot[CHAIN]), **at = &first;

	for (size_t i = 0; i < CHAIN; i++)
		if (node_of(b->slot[i]) == node) {
			take_slot(b, i);
			return;
		}
	while (*at != node) {
		assert(*at); /* not in the table */
		at = &(*at)->next;
	}
	*at = node->next;
	node->next = NULL;
	set_chain(b, first);
}

/* ---- to grow and shrink ---- */

/* Bit @low of the hash of a node. */
static bool is_upper(uint64_t slot, size_t low)
{
	uint64_t first = (uint64_t)1 << TAG_SHIFT;

	if (low >= first && low < first << TAG_BITS)
		return slot & tag_of(low);
	return node_of(slot)->hash & low;
}

/* The nodes of what was a bucket to where they belong, by bit @low. */
static void share(const struct tei_hash_bucket *old, size_t low,
		  struct tei_hash_bucket *lower, struct tei_hash_bucket *upper)
{
	struct tei_hash_node *node, *next;

	for (size_t i = 0; i < CHAIN && old->slot[i]; i++)
		put_slot(is_upper(old->slot[i], low) ? upper : lower,
			 old->slot[i]);
	for (node = node_of(old->slot[CHAIN]); node; node = next) {
		next = node->next;
		node->next = NULL;
		put_slot(node->hash & low ? upper : lower, slot_of(node));
	}
}

static void split_bucket(struct tei_hash *h)
{
	size_t low = floor_pow2(h->n_buckets), at;
	unsigned int chunk = chunk_of(h->n_buckets, &at);
	struct tei_hash_bucket *from, *to, old;

	if (chunk >= TEI_HASH_CHUNKS)
		return;
	if (!h->chunk[chunk] && chunk_add(h, chunk))
		return; /* longer chains until a later insert */
	from = bucket_at(h, h->n_buckets - low);
	to = bucket_at(h, h->n_buckets);
	h->n_buckets++;
	old = *from;
	memset(from, 0, sizeof(*from));
	share(&old, low, from, to);
	/* Prefetch what the next ones will touch. */
	__builtin_prefetch(from + 1, 1);
	__builtin_prefetch(to + 1, 1);
}

/* Moves the last bucket's nodes to its partner. */
static void join_buckets(struct tei_hash *h)
{
	size_t last = h->n_buckets - 1, low = floor_pow2(last), at;
	unsigned int chunk = chunk_of(last, &at);
	struct tei_hash_bucket *from = bucket_at(h, last);
	struct tei_hash_bucket *to = bucket_at(h, last - low);

	share(from, low, to, to);
	memset(from, 0, sizeof(*from));
	h->n_buckets = last;
	if (at == 0) { /* chunk 0 never gets here: FIRST buckets stay */
		tei_free(h->chunk[chunk]);
		h->chunk[chunk] = NULL;
	}
}

/* Joins some buckets after @n removes; one each keeps up with them. */
static void join_some(struct tei_hash *h, size_t n)
{
	while (n-- && h->n_nodes < h->n_buckets * LOAD / 2 &&
	       h->n_buckets > FIRST)
		join_buckets(h);
}

void tei_hash_insert(struct tei_hash *h, struct tei_hash_node *node,
		     uint64_t hash)
{
	assert(!((uintptr_t)node & TAG));
	node->hash = hash;
	node->next = NULL;
	put_slot(bucket_of(h, hash), slot_of(node));
	if (++h->n_nodes > h->n_buckets * LOAD)
		split_bucket(h);
}

void tei_hash_remove(struct tei_hash *h, struct tei_hash_node *node)
{
	unlink_node(bucket_of(h, node->hash), node);
	h->n_nodes--;
	if (!h->walking)
		join_some(h, 1);
}

/* ---- to find ---- */

/* The first with @hash from @node on, along its chain. */
static struct tei_hash_node *along(struct tei_hash_node *node, uint64_t hash)
{
	while (node && node->hash != hash)
		node = node->next;
	return node;
}

/* The first with @hash from slot @i of @b on. */
static struct tei_hash_node *from_slot(const struct tei_hash_bucket *b,
				       size_t i, uint64_t hash)
{
	uint64_t tag = tag_of(hash);

	for (; i < CHAIN; i++)
		if ((b->slot[i] & TAG) == tag && b->slot[i] &&
		    node_of(b->slot[i])->hash == hash)
			return node_of(b->slot[i]);
	if (b->slot[CHAIN] & mark_of(hash))
		return along(node_of(b->slot[CHAIN]), hash);
	return NULL;
}

struct tei_hash_node *tei_hash_first(const struct tei_hash *h, uint64_t hash)
{
	return from_slot(bucket_of(h, hash), 0, hash);
}

struct tei_hash_node *tei_hash_next(const struct tei_hash *h,
				    const struct tei_hash_node *node)
{
	const struct tei_hash_bucket *b = bucket_of(h, node->hash);

	for (size_t i = 0; i < CHAIN; i++)
		if (node_of(b->slot[i]) == node)
			return from_slot(b, i + 1, node->hash);
	return along(node->next, node->hash);
}

void tei_hash_prefetch(const struct tei_hash *h, uint64_t hash)
{
	__builtin_prefetch(bucket_of(h, hash));
}

struct tei_hash_node *tei_hash_likely(const struct tei_hash *h, uint64_t hash)
{
	const struct tei_hash_bucket *b = bucket_of(h, hash);
	uint64_t tag = tag_of(hash);

	for (size_t i = 0; i < CHAIN; i++)
		if ((b->slot[i] & TAG) == tag && b->slot[i])
			return node_of(b->slot[i]);
	if (b->slot[CHAIN] & mark_of(hash))
		return node_of(b->slot[CHAIN]);
	return NULL;
}

/* ---- to walk ---- */

/* Visits from the last to the first: a remove moves what was visited. */
static void visit(struct tei_hash *h, size_t bucket, tei_hash_fn *fn, void *arg)
{
	struct tei_hash_bucket *b = bucket_at(h, bucket);
	struct tei_hash_node *node, *next;

	for (size_t i = 0; i < SLOTS; i++)
		__builtin_prefetch(node_of(b->slot[i]));
	for (node = node_of(b->slot[CHAIN]); node; node = next) {
		next = node->next;
		fn(node, arg);
	}
	for (size_t i = CHAIN; i-- > 0;)
		if (b->slot[i])
			fn(node_of(b->slot[i]), arg);
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
 * what lies before the cursor. Joins wait until all of these were visited.
 */
bool tei_hash_walk(struct tei_hash *h, size_t *cursor, size_t n_buckets,
		   tei_hash_fn *fn, void *arg)
{
	for (; n_buckets > 0; n_buckets--) {
		size_t low = floor_pow2(h->n_buckets), n = h->n_nodes;

		*cursor &= low - 1;
		h->walking = true;
		if (*cursor + low < h->n_buckets)
			visit(h, *cursor + low, fn, arg);
		visit(h, *cursor, fn, arg);
		h->walking = false;
		if (h->n_nodes < n)
			join_some(h, n - h->n_nodes);
		if (!next_class(cursor, low))
			return false;
	}
	return true;
}

size_t tei_hash_bytes(const struct tei_hash *h)
{
	return h->n_buckets * sizeof(struct tei_hash_bucket);
}
