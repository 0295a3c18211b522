/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffers.h - memory for values that the client reads into on its own account
 *
 * Buffers are pieces of an arena that is registered with the engine once. When
 * the arena is used up, or there is none, a buffer is plain memory: slower, but
 * never refused.
 *
 * Threads: any; init and fini set-up only.
 */
#ifndef STORE_CLIENT_BUFFERS_H
#define STORE_CLIENT_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

#include <te/te.h>

#include "base/list.h"
#include "base/thread.h"

struct tes_buffers;

struct te_store_buffer {
	struct tei_list link; /* in buffers->pieces by address; or in none */
	struct tes_buffers *buffers; /* not owned */
	uint8_t *data;
	uint64_t length; /* that the user asked for */
	uint64_t room;   /* of the piece; 0: plain memory */
	bool taken;      /* guarded by buffers->mu */
	/* Frees memory that is not the arena's. NULL: tes_buffer_destroy(). */
	void (*release)(struct te_store_buffer *buffer);
};

struct tes_buffers {
	struct te_engine *engine; /* not owned; NULL: memory neither */
	bool lowest;              /* a piece is cut as low as one fits */
	void *memory;             /* NULL: none */
	uint64_t bytes;
	te_region_id region;
	struct tei_mutex mu;    /* lock 46 */
	struct tei_list pieces; /* guarded by mu; by address, no gaps */
	struct tei_list *rover; /* guarded by mu: where the last one was cut */
};

/* @bytes 0: no arena. -ENOMEM, -EINVAL and the errors of te_region_add(). */
int tes_buffers_init(struct tes_buffers *buffers, struct te_engine *engine,
		     uint64_t bytes);
/*
 * Manages memory of the caller's: @bytes, a multiple of 4096. Pieces lie as low
 * as they fit, so that what is used now and then stays small. -ENOMEM.
 */
int tes_buffers_init_over(struct tes_buffers *buffers, void *memory,
			  uint64_t bytes);
/* All buffers have been freed. */
void tes_buffers_fini(struct tes_buffers *buffers);
/* @length bytes, at least 1. NULL: out of memory. */
struct te_store_buffer *tes_buffer_create(struct tes_buffers *buffers,
					  uint64_t length);
/* The same, but never plain memory. NULL: no room, or out of memory. */
struct te_store_buffer *tes_buffer_take(struct tes_buffers *buffers,
					uint64_t length);
/* The taken piece that begins at @data, or NULL. */
struct te_store_buffer *tes_buffer_find(struct tes_buffers *buffers,
					const void *data);
/* Bytes from @addr to the end of the taken piece it lies in; 0: in none. */
uint64_t tes_buffer_left(struct tes_buffers *buffers, uint64_t addr);
void tes_buffer_destroy(struct te_store_buffer *buffer); /* NULL is fine */

#endif
