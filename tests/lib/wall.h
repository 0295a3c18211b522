/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wall.h - the wall clock of one process, stepped by a test
 *
 * Namespaces move other clocks only, so a library is loaded before the process's
 * own (wall_step.c): it adds a shift to CLOCK_REALTIME and counts who asks for
 * which clock.
 */
#ifndef TESTS_LIB_WALL_H
#define TESTS_LIB_WALL_H

#include <stdatomic.h>

#include "tests/lib/tmpdir.h"

#define TEST_WALL_FILE "TE_TEST_WALL" /* environment: where the page is */

/* Shared with the processes whose clock it is. */
struct test_wall_page {
	atomic_llong shift_s;
	atomic_ullong n_wall, n_monotonic; /* readings */
};

struct test_wall {
	struct test_wall_page *page;
	char dir[TEST_PATH_MAX];
};

void test_wall_init(struct test_wall *wall);
void test_wall_fini(struct test_wall *wall);
/* Processes that the test starts between these two have that clock. */
void test_wall_enter(const struct test_wall *wall);
void test_wall_leave(void);

#endif
