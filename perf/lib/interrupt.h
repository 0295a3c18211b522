/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt.h - an interrupt ends a load, and what came of it is reported
 */
#ifndef PERF_LIB_INTERRUPT_H
#define PERF_LIB_INTERRUPT_H

#include <stdbool.h>

/*
 * From now on the first SIGINT sets *@flag, which stays to the end of the
 * process, and the second ends the process at once. Relaxed, as whoever looks
 * at the flag looks again. Threads: set-up only.
 */
void tei_interrupt_catch(_Atomic bool *flag);

#endif
