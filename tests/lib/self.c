/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/self.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"

static unsigned int count_in(const char *path)
{
	DIR *dir = opendir(path);
	unsigned int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

unsigned int test_fds_open(void)
{
	return count_in("/proc/self/fd");
}

unsigned int test_threads(void)
{
	return count_in("/proc/self/task");
}

/* Tells whether the kernel reads the byte at @at; @pipes: of one pipe. */
static bool is_read(uint64_t at, const int pipes[2])
{
	char byte;

	if (write(pipes[1], (const void *)(uintptr_t)at, 1) != 1)
		return errno != EFAULT;
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	return true;
}

/* Pages of clocks that the host does not have are without memory. */
static uint64_t find_out_of_reach(FILE *maps, const int pipes[2])
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at, end;
	char line[512];

	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "[vvar") ||
		    sscanf(line, "%" SCNx64 "-%" SCNx64, &at, &end) != 2)
			continue;
		for (; at < end; at += page)
			if (!is_read(at, pipes))
				return at;
	}
	return 0;
}

void *test_page_out_of_reach(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t at;
	int pipes[2];

	assert_non_null(maps);
	assert_int_equal(pipe(pipes), 0);
	at = find_out_of_reach(maps, pipes);
	close(pipes[0]);
	close(pipes[1]);
	fclose(maps);
	return (void *)(uintptr_t)at;
}
