/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peak.h - the greatest of values that several threads have
 *
 * Threads: any.
 */
#ifndef PERF_LIB_PEAK_H
#define PERF_LIB_PEAK_H

#include <stdatomic.h>
#include <stdint.h>

/* Raises *@peak to @value if it is less. Relaxed. */
static inline void tei_peak_raise(_Atomic uint64_t *peak, uint64_t value)
{
	uint64_t old = atomic_load_explicit(peak, memory_order_relaxed);

	while (value > old && !atomic_compare_exchange_weak_explicit(
				      peak, &old, value, memory_order_relaxed,
				      memory_order_relaxed))
		;
}

#endif
