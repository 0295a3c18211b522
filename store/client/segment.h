/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h - the memory that we lend to the pool, and fences of its writers
 *
 * Published for members of the pool's group only. What blocks is done by the
 * helper; the outcome comes back to the link on the loop.
 */
#ifndef STORE_CLIENT_SEGMENT_H
#define STORE_CLIENT_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include <te/te.h>

#include "store/proto/protocol.h"

struct te_store;

struct tei_segment {
	uint8_t id[16];
	void *memory; /* memory[bytes]; NULL: nothing is lent */
	uint64_t bytes;
	te_region_id region;                /* the helper's; 0: none */
	uint8_t group[TEI_STORE_GROUP_LEN]; /* the helper's: of the region */
	bool published; /* the helper's: there may be writers */
	bool ending;    /* the helper's: of their access, which may go on */
	bool mounted;   /* the loop's */
};

/* Takes the memory. 0 bytes: nothing. -EINVAL, -ENOMEM. */
int tei_segment_init(struct te_store *store, uint64_t bytes);
/* After the helper has ended. What is still touched is the engine's then. */
void tei_segment_fini(struct te_store *store);
/*
 * Make the segment reachable for @group and for nobody who could write to it
 * before, and mount it; then tei_master_link_mounted(). Loop thread. -ENOMEM.
 */
int tei_segment_publish(struct te_store *store, uint64_t generation,
			const uint8_t group[TEI_STORE_GROUP_LEN]);
/* End the access of @writer; then tei_master_link_fenced(). Loop thread. -ENOMEM. */
int tei_segment_fence(struct te_store *store, uint64_t generation,
		      uint64_t fence, const uint8_t writer[TE_INCARNATION_LEN]);

#endif
