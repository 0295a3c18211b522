/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferred.h - regions that rails could not take at first
 *
 * A rail that had no link and refused a region gets it when it has one; one
 * that is far from it (rails.h) and refused is asked again, less and less
 * often. Registering a big region takes a device seconds, so it is done by a
 * thread, the background thread of the regions. Each new key is sent to peers
 * as any change of the regions is.
 *
 * A rail that gets its first link is not described to peers before the regions
 * that it refused have been offered to it once more: a peer that took it for
 * the partner of its rail would have no way to those. Once described it stays
 * so, whatever it lacks, since peers use it for other regions.
 *
 * The thread pins the region that it is at, so that no caller removes it.
 */
#ifndef TE_REGION_DEFERRED_H
#define TE_REGION_DEFERRED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/thread.h"

struct te_engine;
struct tei_region;
struct tei_regions;

/* Regions that some rail does not have yet, and the thread that sees to it. */
struct tei_deferred {
	struct tei_list todo,
		waiting;   /* of tei_region.deferred; guarded by mu */
	uint64_t again_at; /* ns: then `waiting` is tried; guarded by mu */
	uint64_t pause;    /* ns: until then, the next time; guarded by mu */
	uint64_t n_ups;    /* rails that came up; guarded by mu */
	uint64_t known;    /* rails described with a link; guarded by mu */
	bool stop;         /* guarded by mu */
	struct tei_cond work;
	pthread_t thread;
	bool started; /* fixed while there are regions */
};

void tei_deferred_init(struct tei_deferred *deferred);
void tei_deferred_fini(struct tei_deferred *deferred);
/* The rails are open. -EAGAIN, -ENOMEM: there is no thread. */
int tei_deferred_start(struct te_engine *engine);
/* Blocks while a device registers something. Before the regions are removed. */
void tei_deferred_stop(struct te_engine *engine);
/* Notes that some rail has a link again. Any thread. */
void tei_deferred_rail_up(struct te_engine *engine);
/* Queues a region that shows, if some rail did not take it. With mu held. */
void tei_deferred_add(struct tei_regions *r, struct tei_region *region);
/*
 * Returns a bit for each rail that peers are not to know of yet: since it got
 * its first link, some region that they see has not been offered to it. With mu
 * held.
 */
uint64_t tei_deferred_hold_back(const struct tei_regions *r);
/*
 * Notes rails, a bit each, that were described with a link: none of them is
 * held back again. Any thread, not with mu held.
 */
void tei_deferred_described(struct tei_regions *r, uint64_t rails);

#endif
