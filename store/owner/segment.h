/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h - the memory that we lend to the pool, and fences of its writers
 *
 *   segment.c  memory: where it comes from; publishing it, ending its writers'
 *              access
 *   mount.c    what the caller asks for, at once and later; telling the master:
 *              after each heartbeat that finds a segment that is not mounted
 *
 * Published for members of the pool's group only. What blocks is done by the
 * helper, one after the other, so a segment that was withdrawn by it is in no
 * other job; the outcome comes back to the link on the loop.
 */
#ifndef STORE_OWNER_SEGMENT_H
#define STORE_OWNER_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/te.h>

#include "base/list.h"
#include "base/loop.h"
#include "store/client/helper.h"
#include "store/owner/ledger.h"
#include "store/proto/protocol.h"

struct te_store;
struct tes_master_link;

/* Timer of a segment that leaves by itself. Loop thread, except until_ns. */
struct tes_grace {
	atomic_ullong until_ns; /* 0: it stays */
	struct te_store *store;
	struct tei_alarm over;
	/* State of the end, once the time is over. */
	struct tes_job job;
	struct tei_call left;
	int code;
};

struct tes_segment {
	struct tei_list link; /* the loop's: in segments->list, or in none */
	uint8_t id[TES_STORE_SEGMENT_ID_LEN];
	void *memory; /* memory[bytes]; NULL: withdrawn */
	uint64_t bytes;
	/* The file that was mapped. */
	void *mapping; /* NULL: memory is the engine's */
	bool pinned;   /* for GPUs; counts in store->pins */
	uint64_t device, inode, offset;
	/* The helper's. */
	te_region_id region;                /* 0: none */
	uint8_t group[TES_STORE_GROUP_LEN]; /* of the region */
	bool published;                     /* there may be writers */
	struct tes_ledger ledger;           /* of what lies in it */
	/* The loop's. */
	bool lasting;    /* comes back with every master; else one try */
	bool publishing; /* the helper is at it */
	bool leaving;    /* nothing but the master's memory of it is left */
	bool mounted;
	bool unmount_sent; /* as the store closes */
	/* Time when the last master that has it was asked the last time, by a
	 * mount or a heartbeat that it answered. */
	uint64_t heard_ns;
	struct tes_grace grace;
	/* Guarded by store->mu. */
	bool settled; /* the one try is over */
	int code;     /* and how: a store code */
};

struct tes_segments {
	struct tei_list list; /* the loop's */
	bool ending; /* the helper's: of writers' access, which may go on */
};

void tes_segments_init(struct te_store *store);
/*
 * Frees the segments after the helper has ended. Memory still touched is the
 * engine's then.
 */
void tes_segments_fini(struct te_store *store);

/* ---- memory (segment.c) ---- */

/* Fresh memory. A store code. */
int tes_segment_create(struct te_store *store, uint64_t bytes,
		       struct tes_segment **out);
/* Part of a file. A store code. */
int tes_segment_map(struct te_store *store, const char *path, uint64_t offset,
		    uint64_t bytes, struct tes_segment **out);
/* Frees a segment that is in no list and whose memory was released. */
void tes_segment_free(struct tes_segment *segment);
/*
 * Nobody reaches it any more, bar a warning; blocks @ms at most. Helper's
 * thread, or after it.
 */
void tes_segment_withdraw(struct te_store *store, struct tes_segment *segment,
			  uint32_t ms);

/* ---- leaving later (mount.c) ---- */

/* Stops all grace timers: segments stay, or leave another way. Loop thread. */
void tes_segments_ungrace(struct te_store *store);
/* Milliseconds that are left of the segment's grace period; 0: it has none. */
uint64_t tes_segment_grace_ms(const struct tes_segment *segment);

/* ---- publishing (segment.c) ---- */

/* Finds a segment that has not left, or NULL. Loop thread. */
struct tes_segment *tes_segment_find(struct te_store *store, const uint8_t *id);
/*
 * The code of telling the master, not that of its answer. @generation 0:
 * whichever master there is. Any thread but the loop's.
 */
int tes_segment_tell_unmount(struct te_store *store, uint64_t generation,
			     const uint8_t *id, uint64_t grace_ms,
			     uint64_t deadline_ns);

/*
 * Unmount, wherever it is mounted, and withdraw: done by the helper; blocks.
 * The code of telling the master.
 */
int tes_segment_retire(struct te_store *store, struct tes_segment *segment);
/*
 * Has the helper unmount a segment that has left and then call
 * tes_mounting_left(). -ENOMEM.
 */
int tes_segment_unmount(struct te_store *store, uint64_t generation,
			const struct tes_segment *segment);
/*
 * Make all that are not mounted reachable for @group and for nobody who could
 * write to them before, and mount them; then tes_mounting_done(). Loop thread.
 * -ENOMEM.
 */
int tes_segments_publish(struct te_store *store, uint64_t generation,
			 const uint8_t group[TES_STORE_GROUP_LEN]);
/*
 * End the access of @writer; then tes_master_link_fenced(). Loop thread.
 * -ENOMEM.
 */
int tes_segment_fence(struct te_store *store, uint64_t generation,
		      uint64_t fence, const uint8_t writer[TE_INCARNATION_LEN]);

/* ---- at the master (mount.c): loop thread ---- */

/*
 * Result of mounting several segments; of those after a failure nothing is
 * known.
 */
struct tes_mount_result {
	uint64_t generation; /* the link's */
	uint64_t begun_ns;
	int rc;   /* of the engine; then */
	int code; /* of the calls; then of each: */
	size_t n;
	struct {
		const struct tes_segment *segment; /* it may be gone */
		bool slept; /* in: so long that it was given up */
		int status;
		char why[80];
	} of[];
};

/* The owner's side of the master link; store/client/link.h has the contract. */
extern const struct tes_owner_messages tes_owner_messages;
/* Takes the result of mounting from the helper. Loop thread. */
void tes_mounting_done(struct tes_master_link *link,
		       const struct tes_mount_result *result);
/* The master has forgotten a segment, or could not be told. */
void tes_mounting_left(struct tes_master_link *link,
		       const uint8_t id[TES_STORE_SEGMENT_ID_LEN], int code);

#endif
