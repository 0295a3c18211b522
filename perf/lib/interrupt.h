/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt.h - an interrupt ends a load, and what came of it is reported
 */
#ifndef PERF_LIB_INTERRUPT_H
#define PERF_LIB_INTERRUPT_H

#include <stdbool.h>

/*
 * From now on the first SIGINT sets the flag that is returned, and the second
 * ends the process at once. The flag is one for the process; relaxed, as
 * whoever looks at it looks again. Threads: set-up only.
 */
const _Atomic bool *tei_interrupt_catch(void);

#endif
