/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local.h - the local memory of a slice, for devices that need it registered
 *
 * A slice is cut from a cursor on, piece by piece. What is not registered goes
 * by way of a block (base/bounce.h), one for each operation. When a slice is
 * over its checksum is taken of its local memory.
 *
 * Threads: the holder of the drive token, and the lock of the regions where it
 * says so.
 */
#ifndef RDMA_LOCAL_H
#define RDMA_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/rdma/regions.h"
#include "base/bounce.h"
#include "te/backend.h"

/* A place in the local pieces of a slice. */
struct rdma_cursor {
	uint64_t in_piece; /* bytes behind the start of the piece */
	uint32_t piece;
};

/*
 * Moves the cursor past pieces that are over, and returns how many bytes the
 * next one has from there on, >= 1; *addr: where they are. The slice has a byte
 * behind the cursor.
 */
static inline uint64_t tei_rdma_piece_at(const struct tei_slice *slice,
					 struct rdma_cursor *cursor,
					 uint64_t *addr)
{
	while (cursor->in_piece == slice->iov[cursor->piece].iov_len) {
		cursor->piece++;
		cursor->in_piece = 0;
	}
	*addr = (uintptr_t)slice->iov[cursor->piece].iov_base +
		cursor->in_piece;
	return slice->iov[cursor->piece].iov_len - cursor->in_piece;
}

/* Tells whether all local memory of a slice is registered here. */
bool tei_rdma_has_all(struct rdma_regions *regions,
		      const struct tei_slice *slice) TEI_REQUIRES(regions->mu);
/* Tells whether a checksum is wanted of bytes that no processor may touch. */
bool tei_rdma_wants_crc_of_gpu(struct rdma_regions *regions,
			       const struct tei_slice *slice)
	TEI_REQUIRES(regions->mu);

/* ---- blocks ---- */

/* A block that an operation carries instead of its slice's memory. */
struct rdma_block {
	uint8_t *bytes; /* NULL: it has none */
	struct rdma_cursor
		from; /* where the memory begins that it stands for */
};

/*
 * Takes a block for the memory from the cursor on, and moves that: by at most
 * @limit bytes, which the slice has there, and a whole block, up to the next
 * piece that is registered. *length: how many. Copies nothing, but memory that
 * fill() will copy is seen to be there. On error no block is taken. -EAGAIN:
 * all blocks are in use; -EOPNOTSUPP: there are none; -EFAULT: the memory is
 * not there, and the cursor has moved up to what is missing.
 */
int tei_rdma_block_take(struct rdma_regions *regions, struct tei_bounce *bounce,
			const struct tei_slice *slice,
			struct rdma_cursor *cursor, uint64_t limit,
			struct rdma_block *block, uint64_t *length)
	TEI_REQUIRES(regions->mu);

/*
 * Copies the @length bytes of a write into the block. Without the lock, as it
 * may take long.
 */
static inline void tei_rdma_block_fill(const struct rdma_block *block,
				       const struct tei_slice *slice,
				       uint64_t length)
{
	tei_bounce_fill(block->bytes, slice->iov + block->from.piece,
			block->from.in_piece, length);
}

/*
 * Copies the @length bytes that a read has brought to where they belong.
 * -EFAULT: that cannot be written (any more).
 */
static inline int tei_rdma_block_empty(const struct rdma_block *block,
				       const struct tei_slice *slice,
				       uint64_t length)
{
	return tei_bounce_empty(block->bytes, slice->iov + block->from.piece,
				block->from.in_piece, length);
}

/* ---- the end ---- */

/*
 * Hands a slice of which nothing is posted back to the core, with its checksum
 * if it went well, and counts its bytes. @pinned: regions whose memory a
 * processor can read without asking the kernel; NULL: it is asked of all. May
 * block, for the kernel. From inside progress(), flush() or cancel(), without
 * the lock.
 */
void tei_rdma_slice_end(struct tei_slice *slice, int err,
			struct rdma_regions *pinned);

#endif
