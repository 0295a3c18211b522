/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - monotonic time; wall clocks are only for logs and epochs
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define TEI_NS_PER_MS 1000000ull
#define TEI_NS_PER_US 1000ull
#define TEI_NS_PER_S  1000000000ull

/* CLOCK_MONOTONIC in nanoseconds, milliseconds. */
uint64_t tei_now_ns(void);
uint64_t tei_now_ms(void);
/* Microseconds since 1970 by CLOCK_REALTIME: epochs and logs, no decisions. */
uint64_t tei_wall_us(void);

#endif
