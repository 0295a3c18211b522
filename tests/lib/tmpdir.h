/* SPDX-License-Identifier: Apache-2.0 */
/* tmpdir.h - a directory of the test's own */
#ifndef TESTS_LIB_TMPDIR_H
#define TESTS_LIB_TMPDIR_H

#define TEST_PATH_MAX 512

/* A new, empty directory under $TMPDIR or /tmp. Fails the test on error. */
void test_tmpdir_create(char path[TEST_PATH_MAX]);
/* With everything in it. */
void test_tmpdir_remove(const char *path);

#endif
