/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/self.h"

#include <dirent.h>

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
