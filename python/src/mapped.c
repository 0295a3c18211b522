/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped.c - whether memory named by a number is there, as the kernel says
 */
#include "python/src/mapped.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* of Linux 5.14 */
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* The pages of a range; false: it is empty or wraps around. */
static bool pages_of(uint64_t addr, uint64_t length, void **begin, size_t *len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t first = addr / page * page;

	if (!addr || !length || addr + length < addr ||
	    addr + length > UINT64_MAX - page)
		return false;
	*begin = (void *)(uintptr_t)first;
	*len = (size_t)((addr + length - first + page - 1) / page * page);
	return true;
}

bool py_is_mapped(uint64_t addr, uint64_t length)
{
	void *begin;
	size_t len;

	/* MS_ASYNC does nothing but this check. */
	return pages_of(addr, length, &begin, &len) &&
	       !msync(begin, len, MS_ASYNC);
}

/* Whether this kernel knows the advice: it does of the caller's own stack. */
static bool knows_populate(void)
{
	char here = 0;
	void *begin;
	size_t len;

	return pages_of((uintptr_t)&here, 1, &begin, &len) &&
	       !madvise(begin, len, MADV_POPULATE_READ);
}

bool py_is_usable(uint64_t addr, uint64_t length, bool writable)
{
	void *begin;
	size_t len;

	if (!pages_of(addr, length, &begin, &len))
		return false;
	if (!madvise(begin, len,
		     writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return true;
	return errno == EINVAL && !knows_populate() &&
	       py_is_mapped(addr, length);
}
