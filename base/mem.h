/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.h - allocation that tests can make fail
 *
 * All memory that this repository takes goes through here, so that a test
 * can fail the n-th allocation (fault.h). What libraries allocate does not.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

#define TEI_CACHE_LINE 64 /* bytes */

/*
 * Counterparts of malloc, calloc, realloc, free, strdup and aligned_alloc; NULL
 * on failure.
 */
void *tei_malloc(size_t size);
void *tei_calloc(size_t n, size_t size);
void *tei_realloc(void *old, size_t size);
void tei_free(void *p);
char *tei_strdup(const char *s);
/* @size is rounded up to a multiple of @align; zeroed. Free with tei_free(). */
void *tei_aligned_calloc(size_t align, size_t size);

#define TEI_HUGE_LEN ((size_t)2 << 20)
/*
 * TEI_HUGE_LEN bytes, not zeroed, in one huge page where the system has them
 * for those who ask: what is reached at random is reached faster there. Free
 * with tei_free(). NULL on failure.
 */
void *tei_huge_alloc(void);
/* Ask for huge pages in what was just calloc'd; a hint. */
void tei_huge_want(void *p, size_t size);

#endif
