/* SPDX-License-Identifier: Apache-2.0 */
/* mem.c - allocation that tests can make fail */
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
