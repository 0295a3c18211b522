/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc.h - CRC32C of pieces from those of their parts
 *
 * What takes CRCs of bytes is in te.h and te/backend.h. Threads: any.
 */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stdint.h>

/* The raw state after @len more zero bytes. O(log len). */
uint32_t tei_crc32c_shift(uint32_t state, uint64_t len);

/* CRC32C of A followed by B, of @len_b bytes. */
static inline uint32_t tei_crc32c_join(uint32_t crc_a, uint32_t crc_b,
				       uint64_t len_b)
{
	/* The inversions of A's end and B's start and end cancel out but for
	 * B's. */
	return tei_crc32c_shift(crc_a, len_b) ^ crc_b;
}

#endif
