/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep.h - sleeps of benchmarks, which a signal may end early
 *
 * Threads: any; the calling one sleeps.
 */
#ifndef PERF_LIB_SLEEP_H
#define PERF_LIB_SLEEP_H

#include <stdint.h>
#include <time.h>

#include "base/clock.h"

/* Sleeps for @ns; not at all for 0. */
static inline void tei_sleep_ns(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / TEI_NS_PER_S),
			      (long)(ns % TEI_NS_PER_S)};

	if (ns)
		nanosleep(&ts, NULL);
}

/* Sleeps until tei_now_ns() is @at_ns. */
static inline void tei_sleep_until(uint64_t at_ns)
{
	struct timespec ts = {(time_t)(at_ns / TEI_NS_PER_S),
			      (long)(at_ns % TEI_NS_PER_S)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

#endif
