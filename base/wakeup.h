/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wakeup.h - how long it takes on this host until a thread that is woken runs
 *
 * An idle core of bare metal needs some microseconds. That of a virtual machine
 * may have to be scheduled by the hypervisor first, which took 40 to 90 us on
 * one. How long staying awake is worth it depends on that, so it is measured
 * once (docs/decisions/082-time-to-wake-up.md); base/spin.h uses it. On a host
 * whose cores are all busy the time includes a wait for a core.
 *
 * Threads: any. What is measured belongs to the library or the program that
 * this is part of, so a process may measure more than once. A child has what
 * was known when it was forked, and goes on from there.
 */
#ifndef BASE_WAKEUP_H
#define BASE_WAKEUP_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Sleeps half a millisecond at a time, and counts how late it runs again, until
 * enough is known: 5 ms in all. Returns early when @fd becomes readable (-1:
 * there is none), when threads of others run for so long that what is measured
 * does not count, and when another thread measures. Gives up for good after 64
 * whole sleeps, after 4096 begun, which @fd may have ended, or where exact
 * timers are refused. Returns false if the next call goes on;
 * true: it is known or given up, or the clock is simulated, and calls do
 * nothing. To be called by a thread that has just seen that nothing is to be
 * done: what comes meanwhile by another way than @fd waits.
 */
bool tei_wakeup_measure(int fd);
/* Tells whether there is nothing more to measure. */
bool tei_wakeup_done(void);
/* Returns the median, ns, at most TEI_WAKEUP_MOST; 0: it is not known (yet). */
uint64_t tei_wakeup_ns(void);

#define TEI_WAKEUP_SAMPLES 9u
/* Limit of what counts, ns: later ones were held up by threads of others. */
#define TEI_WAKEUP_MOST (200 * 1000ull)

/* Sleeps that have been measured; zeroed at first. */
struct tei_wakeup {
	uint32_t n_samples;
	uint32_t late[TEI_WAKEUP_SAMPLES]; /* ns, those that count */
};

/*
 * Counts one that was late by @late ns. Returns the median, > 0, once there are
 * TEI_WAKEUP_SAMPLES that count, else 0.
 */
uint64_t tei_wakeup_count(struct tei_wakeup *w, uint64_t late);

#endif
