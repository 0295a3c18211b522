/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cram.h - a pool that is filled to the last byte with objects that stay
 *
 * Parts of PART bytes, header included, that are pinned for good: when as many
 * as the segment holds are there, whatever else had space has lost it.
 */
#ifndef TESTS_STORE_CRAM_H
#define TESTS_STORE_CRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/store.h>

#define CRAM_PART         (64u << 10)
#define CRAM_PARTS        32u
#define CRAM_BYTES        ((uint64_t)CRAM_PARTS * CRAM_PART) /* of the segment */
#define CRAM_VALUE(parts) ((uint64_t)(parts)*CRAM_PART - 64) /* takes so many */

struct cram {
	struct te_store *store;
	uint64_t round; /* others than those of the round before */
	size_t n;       /* parts that are there */
};

/* A client that lends CRAM_BYTES, of memory that others can map or cannot. */
struct te_store *cram_owner(const char *master, bool mapped);
/* Until @n parts are there; fails the test when that takes a minute. */
void cram_fill(struct cram *c, size_t n);
/* One more has no place. */
void cram_is_full(struct cram *c);
/* Every part is what was put, to the last byte. */
void cram_check(struct cram *c);
/* Take all away; the next ones have other bytes. */
void cram_empty(struct cram *c);

#endif
