/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events_queue.h - events that wait to be published: bounded, oldest go first
 *
 * Events are numbered without gaps; who finds one knows how many were dropped
 * before it. They are copied into chunks, which are taken as a whole.
 *
 * Threads: one per queue at a time. A chunk is whose who has taken it.
 */
#ifndef STORE_SERVER_EVENTS_QUEUE_H
#define STORE_SERVER_EVENTS_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/core/core.h"

struct tei_events_chunk;

struct tei_events_queue {
	struct tei_events_chunk *head, *tail;
	size_t n;
	uint64_t capacity; /* 0: no end */
	uint64_t next;     /* number of the next event */
};

struct tei_events_record {
	uint64_t number; /* from 0 */
	enum tei_core_news news;
	struct tei_core_item item; /* in the chunk */
};

void tei_events_queue_init(struct tei_events_queue *q, uint64_t capacity);
void tei_events_queue_fini(struct tei_events_queue *q);

/*
 * Returns how many were dropped: older ones when the queue is full, this one
 * when there is no memory.
 */
unsigned int tei_events_queue_add(struct tei_events_queue *q,
				  enum tei_core_news news,
				  const struct tei_core_item *item);

/* The oldest events; NULL: there are none. Free with tei_events_chunk_free(). */
struct tei_events_chunk *tei_events_queue_take(struct tei_events_queue *q);
/* The next event of @chunk; false: that was all. */
bool tei_events_chunk_next(struct tei_events_chunk *chunk,
			   struct tei_events_record *out);
void tei_events_chunk_free(struct tei_events_chunk *chunk);

#endif
