/* SPDX-License-Identifier: Apache-2.0 */
/* wall.c - the test's side of a wall clock that is stepped */
#include "tests/lib/wall.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/test.h"

void test_wall_init(struct test_wall *wall)
{
	char path[TEST_PATH_MAX + 8];
	int fd;

	test_tmpdir_create(wall->dir);
	(void)snprintf(path, sizeof(path), "%s/wall", wall->dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(*wall->page)), 0);
	wall->page = mmap(NULL, sizeof(*wall->page), PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
	assert_true(wall->page != MAP_FAILED);
	assert_int_equal(close(fd), 0);
}

void test_wall_fini(struct test_wall *wall)
{
	assert_int_equal(munmap(wall->page, sizeof(*wall->page)), 0);
	test_tmpdir_remove(wall->dir);
}

void test_wall_enter(const struct test_wall *wall)
{
	char path[TEST_PATH_MAX + 8];

	(void)snprintf(path, sizeof(path), "%s/wall", wall->dir);
	assert_int_equal(setenv(TEST_WALL_FILE, path, 1), 0);
	assert_int_equal(setenv("LD_PRELOAD", TEST_WALL_LIBRARY, 1), 0);
	/* AddressSanitizer wants to be the first library, but works so, too. */
	assert_int_equal(setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1),
			 0);
}

void test_wall_leave(void)
{
	(void)unsetenv("ASAN_OPTIONS");
	(void)unsetenv("LD_PRELOAD");
	(void)unsetenv(TEST_WALL_FILE);
}
