/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt.c - an interrupt ends a load, and what came of it is reported
 */
#include "perf/lib/interrupt.h"

#include <signal.h>
#include <stdatomic.h>

static _Atomic bool *interrupted; /* set before a signal can come */

static void note_interrupt(int signal)
{
	(void)signal;
	atomic_store_explicit(interrupted, true, memory_order_relaxed);
}

void tei_interrupt_catch(_Atomic bool *flag)
{
	struct sigaction action = {.sa_handler = note_interrupt,
				   .sa_flags =
					   (int)(SA_RESETHAND | SA_RESTART)};

	interrupted = flag;
	sigaction(SIGINT, &action, NULL);
}
