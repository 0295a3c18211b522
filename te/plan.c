/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the slicing decision */
#include "te/plan.h"

#include <stdbool.h>

#define PAGE 4096u

/* Seconds until @rail had moved what it has and @more, if nothing changes. */
static double end_of(const struct tei_plan_rail *rail, uint64_t more)
{
	double rate = rail->rate ? (double)rail->rate : 1e9;

	return (double)(rail->in_flight + more) / rate;
}

static bool is_best(uint64_t length, const struct tei_plan_rail *mine,
		    const struct tei_plan_rail *others, size_t n_others)
{
	double my_end = end_of(mine, length);
	size_t i;

	for (i = 0; i < n_others; i++) {
		if (end_of(&others[i], length) < my_end)
			return false;
	}
	return true;
}

/* What is left for one rail alone: full slices, and no crumb at the end. */
static uint64_t cut(uint64_t rest, uint64_t most,
		    const struct tei_plan_limits *limits)
{
	uint64_t length = most;

	if (rest <= most)
		return rest;
	if (rest - most < limits->slice_min && rest > 2 * limits->slice_min)
		length = rest - limits->slice_min;
	if (length > PAGE)
		length -= length % PAGE;
	return length;
}

/* Half of this rail's fair share: the slices shrink as the end comes near. */
static uint64_t share(uint64_t rest, const struct tei_plan_rail *mine,
		      const struct tei_plan_rail *others, size_t n_others)
{
	double rate = mine->rate ? (double)mine->rate : 1e9, sum = rate;
	size_t i;

	for (i = 0; i < n_others; i++)
		sum += others[i].rate ? (double)others[i].rate : 1e9;
	return (uint64_t)((double)rest * rate / sum / 2);
}

uint64_t tei_plan_next(uint64_t rest, const struct tei_plan_rail *mine,
		       const struct tei_plan_rail *others, size_t n_others,
		       const struct tei_plan_limits *limits)
{
	uint64_t most = limits->slice_max;

	if (!n_others)
		return cut(rest, most, limits);
	if (rest < 2 * limits->slice_min)
		return is_best(rest, mine, others, n_others) ? rest : 0;
	if (share(rest, mine, others, n_others) < most)
		most = share(rest, mine, others, n_others);
	if (most < limits->slice_min)
		most = limits->slice_min;
	if (!is_best(most, mine, others, n_others) &&
	    end_of(mine, most) > 2 * end_of(&others[0], rest))
		return 0; /* so slow that it would only hold up the end */
	return cut(rest, most, limits);
}
