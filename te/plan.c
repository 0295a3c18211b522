/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the slicing decision */
#include "te/plan.h"

#define PAGE 4096u
#define NS   1e9

#define SLICES_A_SECOND 1000

/* Of what is going on at the rails that may carry a request. */
struct sums {
	double rate, in_flight;
};

/* Seconds until @rail had moved what it has and @more, if nothing changes. */
static double end_of(const struct tei_plan_rail *rail, uint64_t more)
{
	return (double)(rail->in_flight + more) / (double)rail->rate +
	       (double)rail->delay / NS;
}

static bool has_room(const struct tei_plan *plan, int i)
{
	const struct tei_plan_rail *rail = &plan->rails[i];

	return !rail->full && rail->in_flight < rail->window + plan->extra;
}

void tei_plan_size(struct tei_plan_rail *rail, uint64_t rate,
		   const struct tei_plan_limits *limits)
{
	/* More than once the delay: a rate seen through it must be able to grow. */
	double seconds = 3 * (double)rail->delay / NS + 500e-6;
	uint64_t bytes = (uint64_t)((double)rate * seconds);

	rail->slice = rate / SLICES_A_SECOND;
	if (rail->slice < limits->slice_min)
		rail->slice = limits->slice_min;
	if (rail->slice > limits->slice_max)
		rail->slice = limits->slice_max;
	rail->window = bytes > 2 * rail->slice ? bytes : 2 * rail->slice;
}

/* At most @most, in whole pages, and no crumb at the end. */
static uint64_t cut(uint64_t rest, uint64_t most, uint64_t crumb)
{
	uint64_t length = most;

	if (rest <= most)
		return rest;
	if (rest - most < crumb && rest > 2 * crumb)
		length = rest - crumb;
	if (length > PAGE)
		length -= length % PAGE;
	return length;
}

/*
 * Half of what the rail could still move until all of them were done, so that
 * slices shrink as the end comes near; all of it where halves were crumbs.
 */
static uint64_t part_of(const struct tei_plan *plan,
			const struct tei_plan_rail *rail, uint64_t rest,
			const struct sums *sums)
{
	const struct tei_plan_limits *limits = &plan->limits;
	double all = (sums->in_flight + (double)plan->waiting) / sums->rate;
	double share = all * (double)rail->rate - (double)rail->in_flight;
	uint64_t most = rail->slice;

	if (rest < 2 * limits->slice_min)
		return rest;
	if (share / 2 >= (double)limits->slice_min)
		share /= 2;
	if (share < (double)most)
		most = share > (double)limits->slice_min ? (uint64_t)share
							 : limits->slice_min;
	return cut(rest, most, limits->slice_min / 4);
}

static struct sums sum_up(const struct tei_plan *plan, uint64_t may)
{
	struct sums sums = {0};

	for (; may; may &= may - 1) {
		const struct tei_plan_rail *rail =
			&plan->rails[__builtin_ctzll(may)];

		sums.rate += (double)rail->rate;
		sums.in_flight += (double)rail->in_flight;
	}
	return sums;
}

/*
 * Whether @rail's part ends before the others were done without its help:
 * with all that waits, and were it only with this part.
 */
static bool helps(const struct tei_plan *plan, uint64_t may, int rail,
		  uint64_t length, const struct sums *sums)
{
	const struct tei_plan_rail *mine = &plan->rails[rail];
	double others = sums->in_flight - (double)mine->in_flight;
	double end = end_of(mine, length);
	bool is_first = true;

	if ((others + (double)plan->waiting) /
		    (sums->rate - (double)mine->rate) >=
	    end)
		return true;
	for (may &= ~(1ull << rail); may && is_first; may &= may - 1)
		is_first = end <=
			   end_of(&plan->rails[__builtin_ctzll(may)], length);
	return is_first;
}

static int one_alone(const struct tei_plan *plan, int rail, uint64_t rest,
		     uint64_t *length)
{
	const struct tei_plan_limits *limits = &plan->limits;

	if (!has_room(plan, rail))
		return -1;
	*length = cut(rest, limits->slice_max, limits->slice_min);
	return rail;
}

int tei_plan_next(const struct tei_plan *plan, uint64_t may, uint64_t rest,
		  uint64_t *length)
{
	struct sums sums;
	uint64_t left;
	double first = 0;
	int best = -1;

	if (!(may & (may - 1)))
		return one_alone(plan, __builtin_ctzll(may), rest, length);
	sums = sum_up(plan, may);
	for (left = may; left; left &= left - 1) {
		int i = __builtin_ctzll(left);
		uint64_t part;
		double end;

		if (!has_room(plan, i))
			continue;
		part = part_of(plan, &plan->rails[i], rest, &sums);
		end = end_of(&plan->rails[i], part);
		if (best >= 0 && end >= first)
			continue;
		best = i;
		first = end;
		*length = part;
	}
	if (best >= 0 && !helps(plan, may, best, *length, &sums))
		return -1;
	return best;
}
