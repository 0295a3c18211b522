/* SPDX-License-Identifier: Apache-2.0 */
/* maps.h - mappings of memory of te_memory_alloc() in this process, for tests */
#ifndef TESTS_LIB_MAPS_H
#define TESTS_LIB_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

/*
 * Returns how many bytes are in the page tables of the mapping of @len bytes of
 * such memory that does not begin at @but; -1: there is none.
 */
static inline long test_memory_entered(uint64_t len, const void *but)
{
	FILE *maps = fopen("/proc/self/smaps", "re");
	unsigned long begin, end, kib;
	bool here = false;
	long entered = -1;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
			here = begin != (uintptr_t)but && end - begin == len &&
			       strstr(line, "/memfd:te-memory");
		else if (here && sscanf(line, "Rss: %lu kB", &kib) == 1)
			entered = (long)kib * 1024;
	}
	fclose(maps);
	return entered;
}

#endif
