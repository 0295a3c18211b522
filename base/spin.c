/* SPDX-License-Identifier: Apache-2.0 */
/* spin.c - how long to stay awake for what may come soon */
#include "base/spin.h"

#include <sched.h>

#define YIELD_LONG     (5 * TEI_NS_PER_US) /* see is_long_yield() */
#define CONTENDED      TEI_NS_PER_MS
#define TIME_SLICE     TEI_NS_PER_MS /* and more: somebody else's */
#define WORTH_MOST     8u            /* times as long, as a power of two */
#define AGAIN          8u            /* times as long as nobody yielded */
#define CONTENDED_MOST TEI_NS_PER_S

/*
 * A yield in which others had whole time slices has cost far more than sleeping
 * would have: no thread yields again before twice that time. When another one
 * follows soon after, compared with that pause, the host is still busy, however
 * short the yields between them were: 4, 8 .. 256 times that time. So a host
 * that stays busy costs one time slice a second, and one that is disturbed now
 * and then is awake most of the time.
 */
static void avoid_time_slices(struct tei_contention *contention, uint64_t from,
			      uint64_t to)
{
	uint64_t took = to - from;

	if (contention->n_again &&
	    from < contention->until + contention->lasting * AGAIN) {
		if (contention->n_again < WORTH_MOST)
			contention->n_again++;
	} else {
		contention->n_again = 1;
	}
	contention->lasting = took > CONTENDED_MOST >> contention->n_again
				      ? CONTENDED_MOST
				      : took << contention->n_again;
	contention->until = to + contention->lasting;
}

/*
 * A yield is long from 5 us on, or from a third of a wake-up, if that is more.
 * Two long ones in a row make a thread sleep: shorter ones cost less than that.
 */
static bool is_long_yield(uint64_t took, uint64_t wakeup)
{
	return took >= YIELD_LONG && took >= wakeup / 3;
}

/*
 * The thread that is waited for may need this very core: schedulers like to
 * wake it where the message was sent from. A yield that takes long shows that.
 * A single one may be the doing of a thread that runs briefly; two in a row are
 * not.
 */
void tei_contention_learn(struct tei_contention *contention, uint64_t from,
			  uint64_t to, uint64_t wakeup)
{
	uint64_t took = to - from;

	if (!is_long_yield(took, wakeup)) {
		contention->n_long = 0;
		return;
	}
	contention->n_long++;
	if (took >= TIME_SLICE)
		avoid_time_slices(contention, from, to);
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
	tei_contention_learn(contention, from, *now, tei_wakeup_ns());
	return true;
}
