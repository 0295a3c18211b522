/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefault.h - memory that is brought in before it is used
 *
 * The first touch of a page costs five times as much as its copy. One
 * background thread of the engine makes that touch ahead of peers:
 *
 *   regions   memory of te_memory_alloc() that peers may write is committed,
 *             page by page (MADV_POPULATE_WRITE), in the order of addresses,
 *             on its NUMA node, or else on that of the thread that added the
 *             region
 *   mappings  of what other processes of the host lend (tei_mapping): pages
 *             that are there are entered into the page tables of this process
 *
 * Memory of callers, regions that peers only read and local ones stay as they
 * are. Nothing waits for the thread; what it has not reached yet is touched by
 * who uses it, as without it.
 *
 * Limits: `prefault` bytes of the regions that there are, and what the host and
 * the control groups leave, less a margin (base/room.h), which is read again
 * after each 16 MiB. Who is stopped by room goes on when there is 64 MiB more
 * than the margin, looked at once a second.
 *
 * Giving way: the thread has the usual priority (SCHED_BATCH), as it holds the
 * lock of the address space during a piece, and one that runs only on idle
 * cores would hold it for seconds on a busy host. A piece is short (256 KiB),
 * and the core is offered to others after it. When that and the piece took
 * longer than its CPU time, as somebody else wanted the core or the lock, the
 * thread sleeps for 20 times that CPU time.
 *
 * Ownership: a region is pinned for one piece at a time, so its removal and the
 * end of the engine wait for a piece; so does tei_mapping_remove(). The thread
 * starts with the first work and ends with the engine; a forked child has none,
 * and no live engine. Under a simulated clock, and where no thread can be had
 * (logged), nothing is brought in.
 */
#ifndef TE_REGION_PREFAULT_H
#define TE_REGION_PREFAULT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/thread.h"

struct te_engine;
struct tei_region;
struct tei_regions;

/* Part of a region that was brought in; guarded by regions.mu. */
struct tei_ahead {
	struct tei_list link; /* prefault.regions, until it is all there */
	uint64_t begin,
		length; /* of its pages; length 0: it is left as it is */
	uint64_t done;  /* bytes from @begin on */
	int node;       /* NUMA, of who added it; -1: not known */
};

/* All but the thread's own is guarded by regions.mu. */
struct tei_prefault {
	struct tei_list regions;           /* tei_ahead.link */
	struct tei_list mappings, waiting; /* tei_mapping.link */
	struct tei_cond work;              /* to the thread */
	struct tei_cond idle;              /* a mapping is not busy any more */
	uint64_t left;  /* bytes of `regions` that are not done */
	uint64_t held;  /* bytes that were brought in of regions there are */
	uint64_t pause; /* ns: of mappings with pages that are not there */
	uint64_t
		waiting_at; /* ns: then `waiting` is looked at; or UINT64_MAX */
	bool is_full;       /* `prefault` is reached, until a region goes */
	bool no_room;       /* until the room is looked at again */
	bool told;          /* that it stopped, since a region was added */
	bool news;          /* something was added or taken out */
	bool started;       /* the thread, until the engine ends */
	bool failed;        /* there is no thread, or the kernel has no way */
	bool stop;          /* the thread is to end */
	uint64_t since;     /* ns: when it began with regions; 0: it has none */
	uint64_t before;    /* held then */
	uint64_t tell_at;   /* ns: time of the next line about progress */
	/* The thread's own. */
	uint64_t room;    /* bytes until the room is looked at again */
	uint64_t look_at; /* ns: then, if there was no room */
	pthread_t thread;
};

void tei_prefault_init(struct tei_prefault *p);
void tei_prefault_fini(struct tei_prefault *p);
/* Stops the thread; waits for a piece. Before the regions are removed. */
void tei_prefault_stop(struct te_engine *engine);

/*
 * Finds out whether pages of a new region are to be brought in. Any thread, not
 * with mu held. Takes lock 10.
 */
void tei_prefault_prepare(struct te_engine *engine, struct tei_region *region);
/* Queues a region that shows, if they are. With mu held. */
void tei_prefault_add(struct te_engine *engine, struct tei_region *region);
/* Takes a region out, which is not pinned. With mu held. */
void tei_prefault_remove(struct tei_regions *r, struct tei_region *region);

#endif
