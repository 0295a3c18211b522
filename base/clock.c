/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - monotonic time, real or simulated */
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

/* Set before the threads that read it are made: relaxed. */
static _Atomic(struct tei_clock *) simulated;

static uint64_t read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * TEI_NS_PER_S + (uint64_t)ts.tv_nsec;
}

struct tei_clock *tei_clock_simulated(void)
{
	return atomic_load_explicit(&simulated, memory_order_relaxed);
}

void tei_clock_set(struct tei_clock *clock)
{
	atomic_store_explicit(&simulated, clock, memory_order_relaxed);
}

uint64_t tei_now_ns(void)
{
	const struct tei_clock *clock = tei_clock_simulated();

	if (clock)
		return atomic_load_explicit(&clock->now, memory_order_relaxed);
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t tei_now_ms(void)
{
	return tei_now_ns() / TEI_NS_PER_MS;
}

uint64_t tei_thread_cpu_ns(void)
{
	return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t tei_wall_us(void)
{
	return read_ns(CLOCK_REALTIME) / TEI_NS_PER_US;
}
