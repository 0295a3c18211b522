/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - intrusive hash table that never stops to rehash
 *
 * Linear hashing: an insert splits at most one bucket, a remove joins at most
 * one, so no operation ever costs more than a few buckets. The table owns only
 * its buckets, never the nodes. The caller computes the hash (XXH3, seeded, for
 * keys from outside) and compares keys.
 *
 * A bucket is a line of the cache: pointers to nodes, with some bits of their
 * hashes. So a miss touches no node and a hit, as a rule, only its own.
 *
 * Threads: none of its own.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tei_hash_node {
	struct tei_hash_node *next; /* of a bucket that is full */
	uint64_t hash;
};

struct tei_hash_bucket;

#define TEI_HASH_CHUNKS 48

struct tei_hash {
	/* chunk[0] has 8 buckets, chunk[i] has 8 << (i - 1); calloc'd. */
	void *chunk[TEI_HASH_CHUNKS];
	size_t n_nodes;
	size_t n_buckets; /* in use now; 8 at least */
	bool walking;     /* joins wait until the nodes at hand were visited */
};

/* -ENOMEM. */
int tei_hash_init(struct tei_hash *h);
/* The table must be empty or its nodes forgotten by the caller. */
void tei_hash_fini(struct tei_hash *h);

/*
 * Add @node under @hash. Does not look for an equal key. Never fails: when
 * memory for a new chunk is short the table only gets slower.
 */
void tei_hash_insert(struct tei_hash *h, struct tei_hash_node *node,
		     uint64_t hash);
/* @node must be in the table. */
void tei_hash_remove(struct tei_hash *h, struct tei_hash_node *node);

/*
 * First node of exactly @hash, then the next; NULL: none. Up to a remove only,
 * which moves nodes: for (n = first(h, x); n; n = next(h, n)) if (same key) ...
 */
struct tei_hash_node *tei_hash_first(const struct tei_hash *h, uint64_t hash);
struct tei_hash_node *tei_hash_next(const struct tei_hash *h,
				    const struct tei_hash_node *node);

/*
 * Prefetches for batches: start to load the buckets of several hashes, then ask
 * for the likely nodes (which waits for the buckets) and start to load what the
 * caller touches of them, then look them up; their cache misses overlap.
 *
 * likely(): what first() returns, unless that has the same few bits as another
 * in its bucket. NULL: first() returns NULL. Touches no node.
 */
void tei_hash_prefetch(const struct tei_hash *h, uint64_t hash);
struct tei_hash_node *tei_hash_likely(const struct tei_hash *h, uint64_t hash);

/*
 * Walk, resumable: *@cursor starts at 0. Calls @fn on each node of at most
 * twice @n_buckets buckets, of some three nodes each; @fn may remove the node
 * it is given. Returns false when the walk has reached the end. A node that is
 * in the table all the time is visited; joins meanwhile may show it more than
 * once.
 */
typedef void tei_hash_fn(struct tei_hash_node *node, void *arg);
bool tei_hash_walk(struct tei_hash *h, size_t *cursor, size_t n_buckets,
		   tei_hash_fn *fn, void *arg);

/*
 * Bytes of the buckets, for memory figures. What is reserved to grow is not
 * counted: nobody has touched it.
 */
size_t tei_hash_bytes(const struct tei_hash *h);

#endif
