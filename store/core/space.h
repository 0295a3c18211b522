/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.h - allocator of one mounted segment
 *
 * A good-fit allocator after the two-level segregated fit idea: free extents
 * hang in bins by size, two levels of bitmaps find the first bin that has one,
 * neighbours are joined when an extent comes back. Book-keeping is out of
 * band: the segment's memory is remote and never touched. Extents are
 * multiples of 64 bytes and never waste more than their rounding.
 *
 * The extents of a space, in order of address, are also the reverse index of
 * its segment: dropping a segment walks them.
 *
 * Threads: none of its own.
 */
#ifndef STORE_CORE_SPACE_H
#define STORE_CORE_SPACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/slab.h"

#define TES_SPACE_UNIT   64u
#define TES_SPACE_LEVELS 44
#define TES_SPACE_SUBS   16 /* bins a level: sizes within 1/16 of each other */
#define TES_SPACE_PARTS  16
#define TES_SPACE_MAX    ((uint64_t)1 << 52) /* bytes of one space */

struct tes_space;

struct tes_extent {
	struct tei_list order; /* in the space, by address */
	union {
		struct tei_list link; /* free: in its bin; taken: the user's */
		struct {              /* taken by an object; zeroed at first */
			struct tes_extent *next;
			uint32_t crc;
			uint8_t replica;
			uint8_t tries;   /* drain.c's failed attempts */
			uint16_t writer; /* number of its client; 0: unknown */
		};
	};
	uint64_t offset, size;   /* bytes, multiples of TES_SPACE_UNIT */
	struct tes_space *space; /* NULL: free, or lost */
	void *user;
};

/* Users of a walk; they do not disturb each other. */
enum tes_space_walk {
	TES_SPACE_RESYNC, /* take_at() moves its place */
	TES_SPACE_DRAIN,
	TES_SPACE_WALKS,
};

struct tes_space {
	struct tei_slab *nodes; /* struct tes_extent; not owned */
	uint64_t size, used;    /* bytes */
	uint64_t too_large;     /* no hole is known for this size and more */
	uint64_t too_wide;      /* nor parts that hold so much and more */
	struct tei_list order;
	struct tei_list *at[TES_SPACE_WALKS]; /* in order; survive changes */
	uint64_t levels; /* bit l: level l has a free extent */
	uint32_t subs[TES_SPACE_LEVELS];
	struct tei_list bins[TES_SPACE_LEVELS][TES_SPACE_SUBS];
};

/* @size: a multiple of the unit, 1 unit .. TES_SPACE_MAX. -ENOMEM. */
int tes_space_init(struct tes_space *s, struct tei_slab *nodes, uint64_t size);
/* Gives every node back; taken extents are gone too. */
void tes_space_fini(struct tes_space *s);

/*
 * Take @size bytes (a multiple of the unit, not 0). NULL: no hole is large
 * enough, or no node (never after tei_slab_reserve(nodes, 1)). About 100 ns.
 */
struct tes_extent *tes_space_take(struct tes_space *s, uint64_t size,
				  void *user);
/*
 * Take room for @size bytes of data in at most TES_SPACE_PARTS extents, the
 * largest first, each of which begins with @header bytes; all but the last are
 * full. Holes below @floor bytes are left alone. How many, in @out; 0: the
 * holes are too small, or no node.
 */
size_t tes_space_take_parts(struct tes_space *s, uint64_t size, uint64_t header,
			    uint64_t floor, void *user,
			    struct tes_extent *out[TES_SPACE_PARTS]);
/*
 * Take the @size bytes at @offset, both multiples of TES_SPACE_UNIT. NULL: they
 * are not all free, or no node. Cheap when @offset is near that of the call
 * before.
 */
struct tes_extent *tes_space_take_at(struct tes_space *s, uint64_t offset,
				     uint64_t size, void *user);
/* Frees @e, whose link the caller has taken out of its list. */
void tes_space_give(struct tes_space *s, struct tes_extent *e);

/* Extent at the lowest address; NULL: all were detached. */
struct tes_extent *tes_space_first(const struct tes_space *s);
/*
 * Forget @e without joining neighbours: for a space that is being dropped.
 * Nothing may be taken from it any more. As for give(), link is the caller's.
 */
void tes_space_detach(struct tes_space *s, struct tes_extent *e);
/* Detaches a taken extent, but keeps its node, without space and with the
 * user's part as it is: the user gives it back with tei_slab_put(). */
void tes_space_lose(struct tes_space *s, struct tes_extent *e);

/*
 * Walk: rewind, then all extents by address, free ones too; NULL at the end.
 * Taking and giving meanwhile does no harm.
 */
void tes_space_rewind(struct tes_space *s, enum tes_space_walk walk);
struct tes_extent *tes_space_next(struct tes_space *s,
				  enum tes_space_walk walk);

#endif
