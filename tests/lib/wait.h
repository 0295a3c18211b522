/* SPDX-License-Identifier: Apache-2.0 */
/* wait.h - wait on a condition with a deadline, instead of sleeping */
#ifndef TESTS_LIB_WAIT_H
#define TESTS_LIB_WAIT_H

#include <stdbool.h>

/*
 * How many times as long as on a machine that has nothing else to do things take
 * here, 1 to 10: by its load as of now, or by the environment's SLOW, percent,
 * which a virtual machine of the lab has from its boot.
 */
double test_stretch(void);

/*
 * Asks @cond every millisecond. False: it was never true for @timeout_ms of a
 * machine that has nothing else to do, times test_stretch().
 */
bool test_wait_until(bool (*cond)(void *), void *arg, unsigned int timeout_ms);

#endif
