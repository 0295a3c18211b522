/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - which rail takes how much of a request next
 *
 * Threads: the token, or a test's own. Pure: reads no clock, and keeps what it
 * has worked out only in the caller's struct tei_plan.
 * Rails are given little at a time and get more as they drain, so that rails of
 * unequal or changing speed balance themselves. What was measured of them says
 * only
 *
 *   - how little is enough to keep a rail busy: its window,
 *   - how large a slice may be: about half a millisecond of the rail, so that
 *     the last one of a slow rail holds nobody up,
 *   - who is offered a part first: who would end it first,
 *   - who is better left out near the end: whose part would end later than all
 *     the others were done with everything.
 *
 * Small requests stay whole. A rail that is alone gets large slices and the
 * whole window that is configured.
 */
#ifndef TE_TRANSFER_PLAN_H
#define TE_TRANSFER_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEI_PLAN_RAILS 64

struct tei_plan_rail {
	uint64_t in_flight; /* bytes given to it and not yet done */
	uint64_t idle;      /* ns since anything of these was done */
	uint64_t rate;      /* bytes a second, >= 1; where unknown: a hope */
	uint64_t delay;     /* ns that a slice takes beyond its bytes */
	uint64_t slice;     /* the largest it should get */
	uint64_t window;    /* in_flight at which it gets no more */
	bool full;          /* takes nothing just now for other reasons */
};

struct tei_plan_limits {
	uint64_t slice_min, slice_max; /* bytes; min <= max, min >= 1 */
};

/* Figures that tei_plan_look() has worked out from a rail's fields. */
struct tei_plan_seen {
	double rate, inverse; /* bytes a second; 1 / rate */
	double taken;         /* bytes: taken() in plan.c */
	int64_t room;         /* bytes that its window has left; may be < 0 */
};

struct tei_plan {
	/* Set by the caller. */
	struct tei_plan_rail rails[TEI_PLAN_RAILS];
	uint64_t waiting; /* bytes given to no rail; a lower bound will do */
	uint64_t extra;   /* bytes by which this request may exceed a window */
	struct tei_plan_limits limits;

	/* Kept by the planner. */
	struct tei_plan_seen seen[TEI_PLAN_RAILS];
	uint64_t summed;    /* a bit for each rail that is in the sums */
	double rate, taken; /* sums of what was seen of those */
};

/* Forgets all rails, and what waits; the caller then sets both anew. */
void tei_plan_begin(struct tei_plan *plan,
		    const struct tei_plan_limits *limits);

/*
 * Takes over the fields of @rail. The caller calls it before @rail is first in
 * the @may of tei_plan_next() or tei_plan_part(), and again whenever it has
 * changed one of these fields; waiting and extra may change without it.
 */
void tei_plan_look(struct tei_plan *plan, int rail);

/*
 * @may: bit set of the rails that may carry the request, >= 1 of them
 * @rest: bytes of it not given to any rail, >= 1
 *
 * Returns the rail and sets *length to 1 .. rest, or -1: none just now.
 */
int tei_plan_next(struct tei_plan *plan, uint64_t may, uint64_t rest,
		  uint64_t *length);

/*
 * Returns how much @rail, of @may, should get at once of what waits, were all
 * that one request: how much of small ones it may carry together.
 */
uint64_t tei_plan_part(struct tei_plan *plan, uint64_t may, int rail);

/*
 * Set @rail's slice and window: enough to keep it busy, and no more. @rate: as
 * it was measured; 0: never, so begin with little.
 */
void tei_plan_size(struct tei_plan_rail *rail, uint64_t rate,
		   const struct tei_plan_limits *limits);

#endif
