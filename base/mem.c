/* SPDX-License-Identifier: Apache-2.0 */
/* mem.c - allocation that tests can make fail */
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fault.h"

void *tei_malloc(size_t size)
{
	return tei_fault_check(TEI_FAULT_ALLOC) ? NULL : malloc(size);
}

void *tei_calloc(size_t n, size_t size)
{
	return tei_fault_check(TEI_FAULT_ALLOC) ? NULL : calloc(n, size);
}

void *tei_realloc(void *old, size_t size)
{
	return tei_fault_check(TEI_FAULT_ALLOC) ? NULL : realloc(old, size);
}

void tei_free(void *p)
{
	free(p);
}

char *tei_strdup(const char *s)
{
	return tei_fault_check(TEI_FAULT_ALLOC) ? NULL : strdup(s);
}

void *tei_aligned_calloc(size_t align, size_t size)
{
	void *p;

	if (size > SIZE_MAX - align || tei_fault_check(TEI_FAULT_ALLOC))
		return NULL;
	size = (size + align - 1) / align * align;
	p = aligned_alloc(align, size);
	if (p)
		memset(p, 0, size);
	return p;
}

void tei_huge_want(void *p, size_t size)
{
	uintptr_t mask = TEI_HUGE_LEN - 1;
	uintptr_t from = ((uintptr_t)p + mask) & ~mask;
	uintptr_t to = ((uintptr_t)p + size) & ~mask;

	if (from < to)
		(void)madvise((char *)p + (from - (uintptr_t)p), to - from,
			      MADV_HUGEPAGE);
}

void *tei_huge_alloc(void)
{
	void *p;

	if (tei_fault_check(TEI_FAULT_ALLOC))
		return NULL;
	p = aligned_alloc(TEI_HUGE_LEN, TEI_HUGE_LEN);
	if (p)
		tei_huge_want(p, TEI_HUGE_LEN);
	return p;
}
