/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - how much of a request a rail takes next
 *
 * Pure: no clock, no state. Large requests are pulled in slices by whichever
 * rail has room, so rails of unequal or changing speed balance themselves;
 * a small request goes whole to the rail that would end it first.
 */
#ifndef TE_PLAN_H
#define TE_PLAN_H

#include <stddef.h>
#include <stdint.h>

struct tei_plan_rail {
	uint64_t in_flight; /* bytes posted and not yet done */
	uint64_t rate;      /* bytes a second, 0: unknown */
};

struct tei_plan_limits {
	uint64_t slice_min, slice_max; /* bytes; min <= max, min >= 1 */
};

/*
 * @rest: bytes of the request not given to any rail, >= 1
 * @mine: the rail that has room; @others: others[n_others] that are up
 *
 * Returns 1 .. rest, or 0: leave it to another rail.
 */
uint64_t tei_plan_next(uint64_t rest, const struct tei_plan_rail *mine,
		       const struct tei_plan_rail *others, size_t n_others,
		       const struct tei_plan_limits *limits);

#endif
