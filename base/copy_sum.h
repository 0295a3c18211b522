/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_sum.h - copies past the caches with the checksums of what is stored
 *
 * A checksum has to be that of the bytes that are stored, also where the source
 * changes meanwhile. Some kernels fold it out of the registers that they store;
 * others keep a second copy, which ISA-L sums.
 */
#ifndef BASE_COPY_SUM_H
#define BASE_COPY_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/copy.h"

/*
 * Copies @len bytes that another thread may change meanwhile to @to, which
 * nobody else does: what is read of @to from here on is what was copied. After
 * a plain memcpy() the compiler may read @from again instead. Any thread.
 */
static inline void tei_copy_snapshot(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	__asm__ volatile("" : : "r"(to) : "memory");
}

/*
 * Tells whether @copier, one that this CPU can run (tei_copiers()), folds
 * checksums out of what it stores, and this CPU can do that. Any thread.
 */
bool tei_copier_folds(const struct tei_copier *copier);

/*
 * Copies @len bytes by @copier and returns the raw CRC32C state @crc moved on
 * over the bytes that are stored. @keep: keep[len] of the caller's, which get
 * any value; not NULL. Ranges do not overlap; tei_copy_fence() as for all
 * copiers. Any thread.
 */
uint32_t tei_copier_sum(const struct tei_copier *copier, uint32_t crc, void *to,
			void *keep, const void *from, size_t len);

/*
 * Copies TEI_COPY_GROUP bytes to @to, which is at a line, in one pass with
 * their checksum; the source does not change meanwhile. tei_copy_fence() as for
 * all copiers.
 */
typedef uint32_t tei_sum_group_fn(uint32_t crc, void *to, const void *from);

/*
 * Returns NULL where the processor cannot, or where @from and @to lie so that
 * two passes are faster; groups that follow each other lie alike. Any thread.
 */
tei_sum_group_fn *tei_copy_summing(const void *to, const void *from);

/* ---- between the kernels ---- */

#define TEI_COPY_TURN 4u /* lines that a kernel moves in turn */

/*
 * Tells whether the lines of four pages go from the last to the first: a load
 * waits for a store of a moment ago whose address is the same in a page, which
 * it takes for one to the same place. Where the target is ahead of the source,
 * all loads would follow such stores, and take up to eight times as long. Lines
 * of a single page do not meet that, and take 1.7 times as long downwards from
 * cold memory: they always go upwards.
 */
static inline bool tei_copy_is_down(const void *to, const void *from)
{
	uintptr_t ahead =
		((uintptr_t)to - (uintptr_t)from) & (TEI_COPY_PAGE - 1);

	return ahead && ahead < TEI_COPY_PAGE / 4;
}

/* Kernels of one, two and four pages side by side; see tei_copier_folds(). */
tei_sum_fn tei_copy_sum_1_avx512, tei_copy_sum_2_avx512, tei_copy_sum_4_avx512,
	tei_copy_sum_1_avx2, tei_copy_sum_2_avx2, tei_copy_sum_4_avx2;

#endif
