/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the slicing decision */
#include "te/transfer/plan.h"

#define PAGE 4096u
#define NS   1e9

#define SLICES_A_SECOND 2000

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

static int64_t room_of(const struct tei_plan_rail *rail)
{
	/* A full rail stays below 0 whatever `extra` adds to the window. */
	return rail->full ? INT64_MIN / 2
			  : (int64_t)(rail->window - rail->in_flight);
}

void tei_plan_begin(struct tei_plan *plan, const struct tei_plan_limits *limits)
{
	plan->limits = *limits;
	plan->waiting = plan->extra = plan->summed = 0;
}

void tei_plan_look(struct tei_plan *plan, int rail)
{
	const struct tei_plan_rail *from = &plan->rails[rail];
	struct tei_plan_seen *seen = &plan->seen[rail];
	struct tei_plan_seen now = {.rate = number(from->rate),
				    .inverse = 1 / number(from->rate),
				    .taken = taken(from),
				    .room = room_of(from)};

	if (plan->summed >> rail & 1) {
		plan->rate += now.rate - seen->rate;
		plan->taken += now.taken - seen->taken;
	}
	*seen = now;
}

/* Adds up the rails of @may, unless these are what has been added up. */
static void sum_up(struct tei_plan *plan, uint64_t may)
{
	if (plan->summed == may)
		return;
	plan->rate = plan->taken = 0;
	for (uint64_t left = may; left; left &= left - 1) {
		const struct tei_plan_seen *seen =
			&plan->seen[__builtin_ctzll(left)];

		plan->rate += seen->rate;
		plan->taken += seen->taken;
	}
	plan->summed = may;
}

/* Seconds until all that waits were done by all of them. */
static double end_of_all(const struct tei_plan *plan)
{
	return (plan->taken + number(plan->waiting)) / plan->rate;
}

/* Seconds until rail @i had done what it has and @more, if nothing changes. */
static double end_of(const struct tei_plan *plan, int i, uint64_t more)
{
	return (plan->seen[i].taken + number(more)) * plan->seen[i].inverse;
}

/* True: the rail has room, and half of the part at least is in its window. */
static bool has_room_for(const struct tei_plan *plan, int i, uint64_t part)
{
	int64_t room = plan->seen[i].room + (int64_t)plan->extra;

	return room > 0 &&
	       (!plan->rails[i].in_flight || (int64_t)(part / 2) <= room);
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
			double end)
{
	const struct tei_plan_limits *limits = &plan->limits;
	const struct tei_plan_seen *seen = &plan->seen[i];
	double least = number(limits->slice_min), share;
	uint64_t most = plan->rails[i].slice;

	if (rest < 2 * limits->slice_min)
		return rest;
	share = end * seen->rate - seen->taken;
	if (share * 0.5 >= least)
		share *= 0.5;
	if (share < number(most))
		most = share > least ? (uint64_t)share : limits->slice_min;
	return cut(rest, most, limits->slice_min / 4);
}

/*
 * Tells whether @rail's part ends before the others were done without its help:
 * with all that waits, and were it only with this part.
 */
static bool helps(const struct tei_plan *plan, uint64_t may, int rail,
		  uint64_t length)
{
	const struct tei_plan_seen *seen = &plan->seen[rail];
	double end = end_of(plan, rail, length);
	double others = plan->taken - seen->taken + number(plan->waiting);
	bool is_first = true;

	if (others >= end * (plan->rate - seen->rate))
		return true;
	for (may &= ~(1ull << rail); may && is_first; may &= may - 1)
		is_first = end <= end_of(plan, __builtin_ctzll(may), length);
	return is_first;
}

static int one_alone(const struct tei_plan *plan, int rail, uint64_t rest,
		     uint64_t *length)
{
	const struct tei_plan_limits *limits = &plan->limits;

	*length = cut(rest, limits->slice_max, limits->slice_min);
	return has_room_for(plan, rail, *length) ? rail : -1;
}

uint64_t tei_plan_part(struct tei_plan *plan, uint64_t may, int rail)
{
	if (!(may & (may - 1)))
		return plan->rails[rail].slice;
	sum_up(plan, may);
	return part_of(plan, rail, plan->waiting, end_of_all(plan));
}

int tei_plan_next(struct tei_plan *plan, uint64_t may, uint64_t rest,
		  uint64_t *length)
{
	uint64_t left, chosen = 0;
	double all, first = 0;
	int best = -1;

	if (!(may & (may - 1)))
		return one_alone(plan, __builtin_ctzll(may), rest, length);
	sum_up(plan, may);
	all = end_of_all(plan);
	for (left = may; left; left &= left - 1) {
		int i = __builtin_ctzll(left);
		uint64_t part = part_of(plan, i, rest, all);
		double end = end_of(plan, i, part);

		if ((best >= 0 && end >= first) || !has_room_for(plan, i, part))
			continue;
		best = i;
		first = end;
		chosen = part;
	}
	if (best < 0 || !helps(plan, may, best, chosen))
		return -1;
	*length = chosen;
	return best;
}
