/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin.h - how long to stay awake for what may come soon
 *
 * Falling asleep and being woken costs tens of microseconds (base/wakeup.h
 * measures it). Spinning pays as long as what is waited for comes soon: after a
 * longer wait half as long is spun next time, and after a short one the full
 * time. Nobody spins while others need the core.
 *
 * Threads: none of its own.
 */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/wakeup.h"

#define TEI_SPIN_LEAST (2 * TEI_NS_PER_US)
/* Assumed for a wake-up where less, or nothing, has been measured. */
#define TEI_WAKING_UP (30 * TEI_NS_PER_US)
/* Wake-ups that a spin may last, by measurements (decision 082). */
#define TEI_SPIN_WAKES 4u

struct tei_spin {
	uint64_t now, max; /* ns without work before sleeping; 0: none */
	bool wakes;        /* or TEI_SPIN_WAKES wake-ups, if longer */
};

/* Returns how long to spin at most, ns, where a wake-up takes @wakeup. */
static inline uint64_t tei_spin_most(const struct tei_spin *spin,
				     uint64_t wakeup)
{
	uint64_t wakes = spin->wakes ? TEI_SPIN_WAKES * wakeup : 0;

	return spin->max && wakes > spin->max ? wakes : spin->max;
}

/*
 * @waited, spinning and then asleep, is longer than it would have been awake.
 * @wakeup: what being woken takes on this host, ns; 0: not known.
 */
static inline void tei_spin_learn_by(struct tei_spin *spin, uint64_t waited,
				     uint64_t wakeup)
{
	uint64_t most = tei_spin_most(spin, wakeup);

	if (wakeup < TEI_WAKING_UP)
		wakeup = TEI_WAKING_UP;
	if (waited < most + wakeup)
		spin->now = most;
	else if (spin->now > TEI_SPIN_LEAST)
		spin->now /= 2;
	else
		spin->now = 0;
}

/* The same with what has been measured on this host. */
static inline void tei_spin_learn(struct tei_spin *spin, uint64_t waited)
{
	tei_spin_learn_by(spin, waited, tei_wakeup_ns());
}

/* Load of this core by others, as yields show it; zeroed at first. */
struct tei_contention {
	uint32_t n_long;  /* yields that took long, in a row */
	uint32_t n_again; /* time slices given away, each soon after the last */
	uint64_t lasting; /* ns: for so long nobody yields, after the last */
	uint64_t until;   /* ns: others need the core */
};

/* A yield has taken from @from to @to, ns; @wakeup as for a spin. */
void tei_contention_learn(struct tei_contention *contention, uint64_t from,
			  uint64_t to, uint64_t wakeup);

/* Tells whether at @now, ns, spinning would only keep others from the core. */
static inline bool tei_contention_lasts(const struct tei_contention *contention,
					uint64_t now)
{
	return now < contention->until;
}

/*
 * Lets other threads run after one more round without work. @now, ns, is
 * brought up to date. False: others need the core.
 */
bool tei_contention_yield(struct tei_contention *contention, uint64_t *now);

#endif
