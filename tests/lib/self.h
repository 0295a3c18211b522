/* SPDX-License-Identifier: Apache-2.0 */
/* self.h - what this process has, to be compared with what it has later */
#ifndef TESTS_LIB_SELF_H
#define TESTS_LIB_SELF_H

/* Both count some more than there are, always as many. Fail the test on error. */
unsigned int test_fds_open(void);
unsigned int test_threads(void);

/*
 * Finds a page that the kernel lists as readable and does not read, as it is with
 * memory of some drivers. NULL: this process has none.
 */
void *test_page_out_of_reach(void);

#endif
