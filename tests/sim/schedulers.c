/* SPDX-License-Identifier: Apache-2.0 */
/* schedulers.c - other planners behind the interface of te/transfer/plan.h */
#include "tests/sim/schedulers.h"

#include "te/transfer/plan.h"

#define SLICE       65536u
#define PROBE_EVERY 100u
#define DEPTH       1048576u /* of a rail's queue, in bytes */

/* te/transfer/plan.c, built under other names: this file takes its place. */
int our_plan_next(struct tei_plan *plan, uint64_t may, uint64_t rest,
		  uint64_t *length);
void our_plan_size(struct tei_plan_rail *rail, uint64_t rate,
		   const struct tei_plan_limits *limits);

static enum scheduler used;
static unsigned int turn;

void scheduler_use(enum scheduler scheduler)
{
	used = scheduler;
	turn = 0;
}

const char *scheduler_name(enum scheduler scheduler)
{
	static const char *const names[] = {"ours", "round-robin", "ewma"};

	return names[scheduler];
}

/* The @n-th rail of @may, counted round and round. */
static int nth(uint64_t may, unsigned int n)
{
	n %= (unsigned int)__builtin_popcountll(may);
	while (n--)
		may &= may - 1;
	return __builtin_ctzll(may);
}

/* Seconds, as far as the queue and the rate measured tell. */
static double cost(const struct tei_plan_rail *rail, uint64_t more)
{
	return (double)(rail->in_flight + more) / (double)rail->rate +
	       (double)rail->delay / 1e9;
}

static int cheapest(const struct tei_plan *plan, uint64_t may, uint64_t length)
{
	int best = -1;

	for (; may; may &= may - 1) {
		int i = __builtin_ctzll(may);

		if (best < 0 || cost(&plan->rails[i], length) <
					cost(&plan->rails[best], length))
			best = i;
	}
	return best;
}

int tei_plan_next(struct tei_plan *plan, uint64_t may, uint64_t rest,
		  uint64_t *length)
{
	uint64_t part = rest < SLICE ? rest : SLICE;
	int rail;

	if (used == SCHEDULER_OURS)
		return our_plan_next(plan, may, rest, length);
	if (used == SCHEDULER_ROUND_ROBIN)
		rail = nth(may, turn);
	else if (turn % PROBE_EVERY == PROBE_EVERY - 1)
		rail = nth(may, turn / PROBE_EVERY);
	else
		rail = cheapest(plan, may, part);
	if (plan->rails[rail].full ||
	    plan->rails[rail].in_flight >=
		    DEPTH) /* its turn it is, all the same */
		return -1;
	turn++;
	*length = part;
	return rail;
}

void tei_plan_size(struct tei_plan_rail *rail, uint64_t rate,
		   const struct tei_plan_limits *limits)
{
	our_plan_size(rail, rate, limits);
	if (used == SCHEDULER_OURS)
		return;
	rail->slice = SLICE;
	rail->window = UINT64_MAX;
}
