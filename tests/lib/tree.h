/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h - folders that are kept as one text file
 *
 * A line is "path: text" (a file with that line), "path -> target" (a link) or
 * "path = 00ff" (a file with those bytes); lines that begin with # are left
 * out. tests/data/topology/machines.py writes such files.
 */
#ifndef TESTS_LIB_TREE_H
#define TESTS_LIB_TREE_H

/*
 * Unpack tests/data/@name below @dir. Fails the test on error.
 */
void test_tree_unpack(const char *name, const char *dir);
/* Write one file of a tree anew, with the folders that it needs. */
void test_tree_write(const char *dir, const char *path, const char *text);
/* Where tests/data/@name lies; lives until the next call. */
const char *test_data(const char *name);

#endif
