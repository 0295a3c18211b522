/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h - kernels that copy memory
 *
 * Streaming stores do not read the target's cache lines before they overwrite
 * them, and several pages side by side keep more of the memory's banks busy
 * than one after the other. How much that gains, or loses, depends on the
 * processor: copy_choice.h finds the fastest kernel.
 */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stddef.h>
#include <stdint.h>

#define TEI_COPY_LINE  64u
#define TEI_COPY_PAGE  4096u
#define TEI_COPY_GROUP (16u << 10) /* four pages */

/*
 * Copies @len bytes. The ranges do not overlap; any alignment. What is stored
 * to @to is in order with later stores only after tei_copy_fence(). Best in
 * groups that begin at a line.
 */
typedef void tei_copy_fn(void *to, const void *from, size_t len);

/*
 * Copies to @to and to @keep, which stays in the caches; both get the same
 * bytes, also where @from changes meanwhile.
 */
typedef void tei_keep_fn(void *to, void *keep, const void *from, size_t len);

/*
 * Copies as tei_copy_fn, and returns the raw CRC32C state @crc moved on over
 * the bytes that are stored.
 */
typedef uint32_t tei_sum_fn(uint32_t crc, void *to, const void *from,
			    size_t len);

struct tei_copier {
	const char *name; /* one of TEI_COPY_KERNELS; static */
	tei_copy_fn *copy;
	tei_keep_fn *keep;
	tei_sum_fn *sum; /* NULL: none; called by tei_copier_sum() alone */
};

/*
 * Lists the names of all kernels: memcpy(), "rep movsb", and streaming stores of a width
 * of one, two and four pages side by side.
 */
#define TEI_COPY_KERNELS                     \
	"memcpy|movsb|sse2-1|sse2-2|sse2-4|" \
	"avx2-1|avx2-2|avx2-4|avx512-1|avx512-2|avx512-4"
#define TEI_COPY_KERNELS_MAX 11u

/*
 * Number of kernels that this CPU can run, at least 1. Any thread, here and
 * below.
 */
unsigned int tei_copiers(void);
/* Returns one of them, @i < tei_copiers(); 0 is memcpy(). */
const struct tei_copier *tei_copier_at(unsigned int i);
/*
 * Returns the plain order: one page after the other, by the widest streaming
 * stores of this CPU; memcpy() where there are none.
 */
const struct tei_copier *tei_copier_plain(void);
/* Finds a kernel by name; NULL: this CPU cannot run it, or it is unknown. */
const struct tei_copier *tei_copier_find(const char *name);
void tei_copy_fence(void);
/* Takes memory out of the caches where a CPU can, for measurements. */
void tei_copy_evict(const void *from, size_t len);

#endif
