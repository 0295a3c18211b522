/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.h - a peer's requests with something to post, by priority
 *
 * Urgent before normal before bulk, in order of arrival within each. What has
 * been passed by 15 slices of more urgent requests goes next, so that nothing
 * waits for ever.
 *
 * Threads: the token.
 */
#ifndef TE_TRANSFER_SCHEDULE_H
#define TE_TRANSFER_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct tei_peer_work;

#define TEI_QUEUE_CLASSES 3u
#define TEI_QUEUE_PASSED  15u

enum { /* in this order; see tei_queue_class() */
       TEI_QUEUE_URGENT,
       TEI_QUEUE_NORMAL,
       TEI_QUEUE_BULK,
};

struct tei_queue {
	struct tei_list classes[TEI_QUEUE_CLASSES]; /* requests, by queue */
	uint32_t passed[TEI_QUEUE_CLASSES]; /* slices that went before it */
};

void tei_queue_init(struct tei_queue *q);
/* Returns the class in which requests of that enum te_priority stand. */
uint32_t tei_queue_class(uint32_t priority);
/* The class to be served next, but none of the bit set @not; -1: nothing. */
int tei_queue_turn(const struct tei_queue *q, uint32_t not );
/* True: @class was passed over too often and goes before more urgent ones. */
static inline bool tei_queue_is_overdue(const struct tei_queue *q,
					uint32_t class)
{
	return q->passed[class] >= TEI_QUEUE_PASSED;
}
/* A slice of that class has been made. */
void tei_queue_served(struct tei_queue *q, uint32_t class);

static inline bool tei_queue_empty(const struct tei_queue *q)
{
	return tei_list_empty(&q->classes[TEI_QUEUE_NORMAL]) &&
	       tei_list_empty(&q->classes[TEI_QUEUE_URGENT]) &&
	       tei_list_empty(&q->classes[TEI_QUEUE_BULK]);
}

/* ---- giving a peer's waiting requests to its links. Token ---- */

/* Rails, of the bit set @reach, over which requests would go now. */
uint64_t tei_schedule_rails(struct tei_peer_work *peer, uint64_t reach);
/*
 * Open links that are missed though nothing may wait: those that there are owe
 * all of it, and show no life.
 */
void tei_schedule_links(struct tei_peer_work *peer);

#endif
