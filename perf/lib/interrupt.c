/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt.c - an interrupt ends a load, and what came of it is reported
 */
#include "perf/lib/interrupt.h"

#include <signal.h>
#include <stdatomic.h>

static _Atomic bool interrupted;

static void note_interrupt(int signal)
{
	(void)signal;
	atomic_store_explicit(&interrupted, true, memory_order_relaxed);
}

const _Atomic bool *tei_interrupt_catch(void)
{
	struct sigaction action = {.sa_handler = note_interrupt,
				   .sa_flags =
					   (int)(SA_RESETHAND | SA_RESTART)};

	sigaction(SIGINT, &action, NULL);
	return &interrupted;
}
