/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h - copying past the caches
 *
 * Streaming stores do not read the target's cache lines before they overwrite
 * them, and four pages at a time keep more of the memory's banks busy than one
 * after the other: together 1.7 times memcpy() on cold memory. On small or hot
 * memory they lose.
 */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stddef.h>
#include <stdint.h>

#define TEI_COPY_LINE  64u
#define TEI_COPY_GROUP (16u << 10) /* four pages */

/*
 * The ranges do not overlap; any alignment. What is stored to @to is in order
 * with later stores only after tei_copy_fence(). Best in groups that begin
 * at a line.
 */
typedef void tei_copy_fn(void *to, const void *from, size_t len);

/* The same, and to @keep, which stays in the caches; both from one look. */
typedef void tei_keep_fn(void *to, void *keep, const void *from, size_t len);

struct tei_copier {
	tei_copy_fn *copy;
	tei_keep_fn *keep;
};

/* The widest of this CPU; memcpy() where there is none. Any thread. */
struct tei_copier tei_copier_streaming(void);
void tei_copy_fence(void);

/*
 * Copies TEI_COPY_GROUP bytes to @to, which is at a line, in one pass with
 * their checksum. Returns the raw CRC32C state @crc moved on over them.
 */
typedef uint32_t tei_sum_fn(uint32_t crc, void *to, const void *from);

/*
 * Returns NULL where the processor cannot, or where @from and @to lie so that
 * two passes are faster; groups that follow each other lie alike. Any thread.
 */
tei_sum_fn *tei_copy_summing(const void *to, const void *from);

/* All there are that this CPU can do, for tests; NULLs after the last. */
struct tei_copier tei_copier_variant(unsigned int i);

#endif
