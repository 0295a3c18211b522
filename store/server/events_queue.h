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

struct tes_events_chunk;

struct tes_events_queue {
	struct tes_events_chunk *head, *tail;
	size_t n;
	uint64_t capacity; /* 0: no end */
	uint64_t next;     /* number of the next event */
};

struct tes_events_record {
	uint64_t number; /* from 0 */
	enum tes_core_news news;
	struct tes_core_item item; /* in the chunk */
};

void tes_events_queue_init(struct tes_events_queue *q, uint64_t capacity);
void tes_events_queue_fini(struct tes_events_queue *q);

/*
 * Returns how many were dropped: older ones when the queue is full, this one
 * when there is no memory.
 */
unsigned int tes_events_queue_add(struct tes_events_queue *q,
				  enum tes_core_news news,
				  const struct tes_core_item *item);

/*
 * The oldest events; NULL: there are none. Free with tes_events_chunk_free().
 */
struct tes_events_chunk *tes_events_queue_take(struct tes_events_queue *q);
/* The next event of @chunk; false: that was all. */
bool tes_events_chunk_next(struct tes_events_chunk *chunk,
			   struct tes_events_record *out);
void tes_events_chunk_free(struct tes_events_chunk *chunk);

#endif
