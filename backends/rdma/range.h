/* SPDX-License-Identifier: Apache-2.0 */
/*
 * range.h - a range of memory whose chunks have a key each
 *
 * The owner of a region registers it in chunks, and peers get a key of each.
 * Both ask which chunk has an address: of local memory, and of what a peer has
 * said in a blob. Runs once or twice per slice, so all is inline. Pure.
 */
#ifndef RDMA_RANGE_H
#define RDMA_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdma_range {
	uint64_t base, length; /* bytes of all chunks */
	uint64_t chunk;        /* bytes; the last one may have fewer */
	/*
	 * Chunks that have a key, from the first on; of regions that are
	 * registered in part all chunks, and who has the keys knows which.
	 */
	uint32_t n;
};

static inline uint64_t tei_rdma_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns how many chunks @length > 0 bytes have; UINT64_MAX: @chunk is 0. */
static inline uint64_t tei_rdma_chunks(uint64_t length, uint64_t chunk)
{
	return chunk ? (length - 1) / chunk + 1 : UINT64_MAX;
}

/* Describes what is wrong with one that a peer has said; NULL: nothing. */
static inline const char *tei_rdma_range_fault(const struct rdma_range *range)
{
	if (!range->length || range->base + (range->length - 1) < range->base)
		return "region of no or too many bytes";
	if (range->n &&
	    tei_rdma_chunks(range->length, range->chunk) != range->n)
		return "chunks do not cover the region";
	return NULL;
}

static inline bool tei_rdma_range_has(const struct rdma_range *range,
				      uint64_t addr)
{
	return addr >= range->base && addr - range->base < range->length;
}

/* Returns the bytes from @addr, which the range has, to its end. */
static inline uint64_t tei_rdma_range_rest(const struct rdma_range *range,
					   uint64_t addr)
{
	return range->length - (addr - range->base);
}

/* Returns the address at which chunk @i begins. */
static inline uint64_t tei_rdma_chunk_base(const struct rdma_range *range,
					   uint64_t i)
{
	return range->base + i * range->chunk;
}

/* Returns the bytes of chunk @i. */
static inline uint64_t tei_rdma_chunk_length(const struct rdma_range *range,
					     uint64_t i)
{
	return tei_rdma_least(range->length - i * range->chunk, range->chunk);
}

/*
 * Finds the chunk that has the byte at @addr, which the range has. *room: bytes
 * of the chunk from there on.
 */
static inline uint64_t tei_rdma_chunk_at(const struct rdma_range *range,
					 uint64_t addr, uint64_t *room)
{
	uint64_t at = addr - range->base, i = at / range->chunk;

	*room = tei_rdma_chunk_length(range, i) - (at - i * range->chunk);
	return i;
}

#endif
