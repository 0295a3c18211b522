/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the slicing decision */
#include "te/transfer/plan.h"

#define PAGE 4096u
#define NS   1e9

#define SLICES_A_SECOND 2000

/* Sums over the rails that may carry a request, and their parts. */
struct sums {
	double rate, taken;
	double end; /* seconds until all that waits were done by all of them */
	double of[TEI_PLAN_RAILS]; /* of[rail]: taken(), only of these */
};

/* Below 2^63, which a processor converts by one instruction. */
static double number(uint64_t n)
{
	return (double)(int64_t)n;
}

/*
 * Bytes that could be done on @rail until what it has is: those, or on an idle
 * rail as many as its delay is worth. What is under way in a long pipe is done
 * at the rate at which it went in, so the delay counts once.
 */
static double taken(const struct tei_plan_rail *rail)
{
	double rate = number(rail->rate) * (1 / NS);
	double pipe = rate * number(rail->delay);
	double moved = rate * number(rail->idle);
	double slice = number(rail->slice);
	/* Bytes left, also of the slice that the rail is moving now. */
	double left = number(rail->in_flight) - (moved < slice ? moved : slice);

	return left > pipe ? left : pipe;
}

/* Seconds until rail @i had done what it has and @more, if nothing changes. */
static double end_of(const struct tei_plan *plan, const struct sums *sums,
		     int i, uint64_t more)
{
	return (sums->of[i] + number(more)) / number(plan->rails[i].rate);
}

static bool has_room(const struct tei_plan *plan, int i)
{
	const struct tei_plan_rail *rail = &plan->rails[i];

	return !rail->full && rail->in_flight < rail->window + plan->extra;
}

/* True: the rail has room, and half of the part at least is in its window. */
static bool has_room_for(const struct tei_plan *plan, int i, uint64_t part)
{
	const struct tei_plan_rail *rail = &plan->rails[i];

	return has_room(plan, i) &&
	       (!rail->in_flight ||
		rail->in_flight + part / 2 <= rail->window + plan->extra);
}

void tei_plan_size(struct tei_plan_rail *rail, uint64_t rate,
		   const struct tei_plan_limits *limits)
{
	/*
	 * More than once the delay: a rate seen through it must be able to
	 * grow.
	 */
	double seconds = 3 * (double)rail->delay / NS + 250e-6;
	uint64_t bytes = (uint64_t)((double)rate * seconds);

	rail->slice = rate / SLICES_A_SECOND / PAGE * PAGE;
	if (rail->slice < limits->slice_min)
		rail->slice = limits->slice_min;
	if (rail->slice > limits->slice_max)
		rail->slice = limits->slice_max;
	rail->window = bytes > 2 * rail->slice ? bytes : 2 * rail->slice;
}

/* Cuts @most at most, in whole pages, and no crumb at the end. */
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
static uint64_t part_of(const struct tei_plan *plan, int i, uint64_t rest,
			const struct sums *sums)
{
	const struct tei_plan_limits *limits = &plan->limits;
	const struct tei_plan_rail *rail = &plan->rails[i];
	double share = sums->end * number(rail->rate) - sums->of[i];
	double least = number(limits->slice_min);
	uint64_t most = rail->slice;

	if (rest < 2 * limits->slice_min)
		return rest;
	if (share * 0.5 >= least)
		share *= 0.5;
	if (share < number(most))
		most = share > least ? (uint64_t)share : limits->slice_min;
	return cut(rest, most, limits->slice_min / 4);
}

static void sum_up(const struct tei_plan *plan, uint64_t may, struct sums *out)
{
	out->rate = out->taken = 0;
	for (; may; may &= may - 1) {
		int i = __builtin_ctzll(may);

		out->of[i] = taken(&plan->rails[i]);
		out->rate += number(plan->rails[i].rate);
		out->taken += out->of[i];
	}
	out->end = (out->taken + number(plan->waiting)) / out->rate;
}

/*
 * Tells whether @rail's part ends before the others were done without its help:
 * with all that waits, and were it only with this part.
 */
static bool helps(const struct tei_plan *plan, uint64_t may, int rail,
		  uint64_t length, const struct sums *sums)
{
	double end = end_of(plan, sums, rail, length);
	double others = sums->taken - sums->of[rail] + number(plan->waiting);
	bool is_first = true;

	if (others / (sums->rate - number(plan->rails[rail].rate)) >= end)
		return true;
	for (may &= ~(1ull << rail); may && is_first; may &= may - 1)
		is_first =
			end <= end_of(plan, sums, __builtin_ctzll(may), length);
	return is_first;
}

static int one_alone(const struct tei_plan *plan, int rail, uint64_t rest,
		     uint64_t *length)
{
	const struct tei_plan_limits *limits = &plan->limits;

	*length = cut(rest, limits->slice_max, limits->slice_min);
	return has_room_for(plan, rail, *length) ? rail : -1;
}

uint64_t tei_plan_part(const struct tei_plan *plan, uint64_t may, int rail)
{
	struct sums sums;

	if (!(may & (may - 1)))
		return plan->rails[rail].slice;
	sum_up(plan, may, &sums);
	return part_of(plan, rail, plan->waiting, &sums);
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
	sum_up(plan, may, &sums);
	for (left = may; left; left &= left - 1) {
		int i = __builtin_ctzll(left);
		uint64_t part;
		double end;

		if (!has_room(plan, i))
			continue;
		part = part_of(plan, i, rest, &sums);
		if (!has_room_for(plan, i, part))
			continue;
		end = end_of(plan, &sums, i, part);
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
