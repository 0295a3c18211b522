/* SPDX-License-Identifier: Apache-2.0 */
/* wait.h - wait on a condition with a deadline, instead of sleeping */
#ifndef TESTS_LIB_WAIT_H
#define TESTS_LIB_WAIT_H

#include <stdbool.h>

/*
 * Asks @cond every millisecond. False: it was never true for @timeout_ms of a
 * machine that has nothing else to do; where others want its processors, for as
 * many times that as there are programs for each of them.
 */
bool test_wait_until(bool (*cond)(void *), void *arg, unsigned int timeout_ms);

#endif
