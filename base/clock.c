/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - monotonic time */
#include "base/clock.h"

#include <time.h>

static uint64_t read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * TEI_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t tei_now_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t tei_now_ms(void)
{
	return read_ns(CLOCK_MONOTONIC) / TEI_NS_PER_MS;
}

uint64_t tei_wall_us(void)
{
	return read_ns(CLOCK_REALTIME) / TEI_NS_PER_US;
}
