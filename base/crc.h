/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc.h - CRC32C of bytes, of pieces from those of their parts, and a repair
 * after ISA-L
 *
 * A raw state is a CRC without the inversions at both ends. Threads: any.
 */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* The raw state after bytes[len], which are only read; @len may be 0. */
uint32_t tei_crc32c_raw(uint32_t state, const void *bytes, size_t len);

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

#ifdef __x86_64__
__attribute__((target("avx"))) static inline void tei_vector_clear_avx(void)
{
	_mm256_zeroupper();
}
#endif

/*
 * Clears the upper parts of vector registers; to be called after ISA-L, takes
 * about a nanosecond. Code for wide registers has to do so before it returns;
 * else every later use of their lower parts waits for them, in all code that is
 * compiled for processors without them. ISA-L 2.30 does not: a checksum of 4
 * KiB took 42 ns, and made the next 20 ns of copying small structures 140.
 */
static inline void tei_vector_clear_upper(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx"))
		tei_vector_clear_avx();
#endif
}

#endif
