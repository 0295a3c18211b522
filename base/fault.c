/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c - fail the n-th allocation or system call, for tests
 *
 * A counter a kind: how many checks are left up to and with the one that
 * fails; 0 is unarmed. Relaxed is enough: the counter guards no other data.
 */
#include "base/fault.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic unsigned int left[TEI_FAULT_N];
static _Atomic bool struck[TEI_FAULT_N];
static _Atomic unsigned int slow_ms;

void tei_fault_arm(enum tei_fault kind, unsigned int nth)
{
	atomic_store(&struck[kind], false);
	atomic_store(&left[kind], nth);
}

void tei_fault_disarm_all(void)
{
	for (int kind = 0; kind < TEI_FAULT_N; kind++)
		tei_fault_arm((enum tei_fault)kind, 0);
	tei_fault_slow_names(0);
}

void tei_fault_slow_names(unsigned int ms)
{
	atomic_store(&slow_ms, ms);
}

void tei_fault_wait_for_name(void)
{
	const struct timespec step = {.tv_nsec = 1000000};
	unsigned int ms;

	for (ms = 0; ms < atomic_load(&slow_ms); ms++)
		nanosleep(&step, NULL);
}

bool tei_fault_struck(enum tei_fault kind)
{
	return atomic_load(&struck[kind]);
}

bool tei_fault_check(enum tei_fault kind)
{
	unsigned int n;

	n = atomic_load_explicit(&left[kind], memory_order_relaxed);
	do {
		if (n == 0)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&left[kind], &n, n - 1,
							memory_order_relaxed,
							memory_order_relaxed));
	if (n > 1)
		return false;
	atomic_store(&struck[kind], true);
	return true;
}
