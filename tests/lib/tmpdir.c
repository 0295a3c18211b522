/* SPDX-License-Identifier: Apache-2.0 */
/* tmpdir.c - a directory of the test's own */
#include "tests/lib/tmpdir.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/test.h"

void test_tmpdir_create(char path[TEST_PATH_MAX])
{
	const char *parent = getenv("TMPDIR");

	snprintf(path, TEST_PATH_MAX, "%s/te-test-XXXXXX",
		 parent && *parent ? parent : "/tmp");
	assert_non_null(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void test_tmpdir_remove(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
