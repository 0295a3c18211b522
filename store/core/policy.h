/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h - the object that is worth least, which eviction takes first
 *
 * Objects are queued by how often they were asked for (once, 2-3, 4-7, 8 times
 * and more), each queue in order of last use; the oldest of some queue is the
 * victim. The queue is chosen by measurement: for each queue, the probability
 * of a use of an object by the time since its last use. Ghosts of evicted
 * objects extend the measurement beyond what there is room for.
 *
 * Time is counted in bytes added, not in seconds: a tick is 1/16 of the
 * capacity. So an idle pool forgets nothing, and nothing here depends on how
 * large objects are or how fast they come.
 *
 * A node is in a queue of the policy, or held: out of the queues and its link
 * is the caller's. Its statistics count either way.
 *
 * Threads: none of its own.
 */
#ifndef STORE_CORE_POLICY_H
#define STORE_CORE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct tes_ghost_bucket;

/*
 * Ghosts: hashes of keys that were evicted, when they were last asked for and
 * how often: 8 bytes each, in buckets of 16 of which three quarters are used:
 * about 11 bytes a ghost.
 * A ghost is a hint: one may be lost (memory is short, its bucket is full of
 * younger ones) or belong to another key with the same 32 bits.
 *
 * Times are ticks of the policy, 16 bits of them; a ghost older than
 * TES_GHOSTS_AGES ticks is none.
 */
#define TES_GHOSTS_AGES 64

struct tes_ghosts {
	struct tes_ghost_bucket **chunks; /* chunks[n_chunks] */
	size_t n_chunks, chunks_room;
	size_t n_buckets; /* 0: nothing was evicted yet */
	size_t swept;     /* bucket that was swept last */
	size_t n;         /* in use, with those too old but not yet swept */
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
/* Bytes in use, for memory figures. */
size_t tes_ghosts_bytes(const struct tes_ghosts *g);

#define TES_POLICY_UNIT    64u
#define TES_POLICY_QUEUES  4
#define TES_POLICY_AGES    TES_GHOSTS_AGES /* distinct ages, in ticks */
#define TES_POLICY_TOUCHES 8               /* counting ends here */

/* Part of an object. 24 bytes. */
struct tes_policy_node {
	struct tei_list link; /* held: the caller's */
	uint32_t units;       /* object's TES_POLICY_UNITs; as many as fit */
	uint16_t tick;        /* last use */
	uint8_t touches;      /* 1 .. TES_POLICY_TOUCHES; 0: it has left */
	bool queued;
};

/* Observations of one queue, by age in ticks; in units. */
struct tes_policy_past {
	double alive
		[TES_POLICY_AGES]; /* index: tick of last use, modulo ages */
	double fresh[TES_POLICY_AGES]; /* used again in this tick */
	double used[TES_POLICY_AGES];  /* used again at that age ... */
	double seen[TES_POLICY_AGES];  /* ... of so many; both fade */
	double worth[TES_POLICY_AGES + 1];
};

struct tes_policy {
	struct tei_list queues[TES_POLICY_QUEUES]; /* oldest first */
	struct tes_ghosts ghosts;
	uint64_t capacity, tick_units, filled; /* units; filled of this tick */
	size_t n;                              /* nodes, held ones too */
	uint16_t now;                          /* tick */
	bool stale; /* worth has to be appraised again */
	struct tes_policy_past past[TES_POLICY_QUEUES];
};

/* Allocates nothing; the capacity is 0. */
void tes_policy_init(struct tes_policy *p);
void tes_policy_fini(struct tes_policy *p);
/* Sets the bytes that the objects share, whenever they change. */
void tes_policy_set_capacity(struct tes_policy *p, uint64_t bytes);

/* Queues a new object. @hash of its key: 64 good bits. */
void tes_policy_add(struct tes_policy *p, struct tes_policy_node *node,
		    uint64_t bytes, uint64_t hash);
/* Notes that @node, queued or held, was asked for. */
void tes_policy_touch(struct tes_policy *p, struct tes_policy_node *node);
/* Takes @node out of its queue; does nothing when it is held already. */
void tes_policy_hold(struct tes_policy *p, struct tes_policy_node *node);
/* Back into its queue; its link is in no list. */
void tes_policy_release(struct tes_policy *p, struct tes_policy_node *node);
/* Puts @node back where it was as the victim; the last one taken first. */
void tes_policy_restore(struct tes_policy *p, struct tes_policy_node *node);
/* Forgets @node, queued or held. evicted() first where both are called. */
void tes_policy_evicted(struct tes_policy *p, struct tes_policy_node *node,
			uint64_t hash);
void tes_policy_removed(struct tes_policy *p, struct tes_policy_node *node);

/* Finds the queued node that is worth least, NULL: none. It stays queued. */
struct tes_policy_node *tes_policy_victim(struct tes_policy *p);
/* Finds the node behind @node in its queue; NULL: none. */
struct tes_policy_node *tes_policy_after(struct tes_policy *p,
					 struct tes_policy_node *node);
/* Start to load what add() and evicted() of @hash touch. */
void tes_policy_prefetch(const struct tes_policy *p, uint64_t hash);
/* Tells whether nothing is queued. */
bool tes_policy_empty(const struct tes_policy *p);

/* Bytes of the ghosts, for memory figures. */
size_t tes_policy_bytes(const struct tes_policy *p);

#endif
