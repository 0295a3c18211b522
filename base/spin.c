/* SPDX-License-Identifier: Apache-2.0 */
/* spin.c - how long to stay awake for what may come soon */
#include "base/spin.h"

#include <sched.h>

#define YIELD_LONG     (5 * TEI_NS_PER_US)
#define CONTENDED      TEI_NS_PER_MS
#define TIME_SLICE     TEI_NS_PER_MS /* and more: somebody else's */
#define WORTH_MOST     5u            /* times as long, as a power of two */
#define CONTENDED_MOST TEI_NS_PER_S

/*
 * The thread that is waited for may need this very core: schedulers like to
 * wake it where the message was sent from. A yield that takes long shows that.
 * A single one may be the doing of a thread that runs briefly; two in a row are
 * not.
 *
 * A yield in which others had whole time slices has cost far more than sleeping
 * would have: no thread yields again before twice that time, and when the next
 * one takes long as well, before 4, 8 .. 32 times that time.
 */
void tei_contention_learn(struct tei_contention *contention, uint64_t from,
			  uint64_t to)
{
	uint64_t took = to - from, worth;

	if (took < YIELD_LONG) {
		contention->n_long = 0;
		return;
	}
	contention->n_long++;
	worth = (uint64_t)1
		<< (contention->n_long < WORTH_MOST ? contention->n_long
						    : WORTH_MOST);
	if (took > CONTENDED_MOST / worth)
		contention->until = to + CONTENDED_MOST;
	else if (took >= TIME_SLICE)
		contention->until = to + took * worth;
	else if (contention->n_long > 1)
		contention->until = to + CONTENDED;
}

bool tei_contention_yield(struct tei_contention *contention, uint64_t *now)
{
	uint64_t from = *now;

	if (tei_contention_lasts(contention, from))
		return false;
	sched_yield();
	*now = tei_now_ns();
	tei_contention_learn(contention, from, *now);
	return true;
}
