/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h - what the files of this backend share
 *
 *   loop.c    endpoints, slices, copies that the processor makes
 *   copied.c  regions of a GPU's memory, which the host has copied
 */
#ifndef BACKENDS_LOOP_LOOP_H
#define BACKENDS_LOOP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/copy_choice.h"
#include "base/faster.h"
#include "base/list.h"
#include "te/backend.h"

struct loop_copy;

struct loop_rail {
	struct tei_list halves;
	struct tei_list queue;         /* slices, in the order of post() */
	struct tei_list copying;       /* slices with a copy under way */
	struct tei_list awaiting_room; /* slices without, for want of memory */
	unsigned int n_queued;         /* in all of them */
	bool room_came;
	uint64_t last_id;
	int maps; /* tei_maps_open()'s, for large memory */
	struct tei_copy_use copies;
	struct tei_faster summing; /* by turns with the copy, or in its pass */
	/* Keeps a part whose checksum is not folded out of its copy. */
	uint8_t bounce[TEI_COPY_GROUP + TEI_COPY_LINE];
};

struct loop_half {
	struct tei_list link; /* rail->halves */
	struct tei_endpoint *base;
	struct loop_half *other; /* not owned; NULL: alone */
	uint64_t id;
	unsigned int n_copies; /* under way, of a target */
	bool broken, reported;
	bool flushing, dropping; /* the core waits for the end of copies */
};

struct loop_slice {
	uint64_t at; /* bytes done, or gathered for a copy */
	uint32_t piece;
	uint64_t offset;        /* in that piece */
	struct loop_copy *copy; /* begun; or NULL */
};

static inline struct loop_rail *loop_rail(const struct tei_rail *rail)
{
	return (struct loop_rail *)(uintptr_t)rail->priv;
}

static inline struct loop_half *loop_half(const struct tei_endpoint *ep)
{
	return (struct loop_half *)(uintptr_t)ep->priv;
}

static inline struct loop_slice *loop_slice(const struct tei_slice *slice)
{
	return (struct loop_slice *)(uintptr_t)slice->priv;
}

/* ---- loop.c ---- */

/*
 * Copies the next @n bytes between the slice's pieces and @remote, and takes
 * their checksum. -EFAULT: one of them has been unmapped, or its file is
 * shorter now; touching it would be a signal.
 */
int tei_loop_copy(struct tei_slice *slice, uint8_t *remote, uint64_t n);

/* ---- copied.c ---- */

/*
 * Begins to copy up to @n bytes of the region that @pin holds, which go on
 * without it. Returns 0, -EAGAIN (no room: the slice is in awaiting_room),
 * -EFAULT (the slice's own memory), -ENOMEM.
 */
int tei_loop_begin_copy(struct tei_slice *slice, struct tei_endpoint *target,
			uint64_t pin, void *remote, uint64_t n);
/* Ends the copy, which has been made; *@moved: bytes. 0, -EIO, -EFAULT. */
int tei_loop_end_copy(struct tei_slice *slice, uint64_t *moved);
/* Has the slice's copy, if it has one, end without it. */
void tei_loop_forget_copy(struct tei_slice *slice);

#endif
