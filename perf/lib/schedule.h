/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.h - when the calls of a load with a given rate begin: an open loop
 *
 * Begin times are fixed beforehand: call i of all threads is due i / rate
 * seconds after the start, and belongs to thread i modulo the threads. A call
 * that is still under way holds up those that its thread has to make next; they
 * begin at once when it ends, and their latency counts from when they were due.
 * A stall so shows in every call that it delayed, and not in one alone, as it
 * does where a thread begins its next call when the last one has ended
 * ("coordinated omission").
 *
 * A rate of 0 is such a closed loop: each call is due at once.
 *
 * Threads: one per schedule at a time. A load of several threads has a schedule
 * of each.
 */
#ifndef PERF_LIB_SCHEDULE_H
#define PERF_LIB_SCHEDULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TEI_SCHEDULE_RATE_MAX 1000000000ull

struct tei_schedule {
	uint64_t start_ns; /* when call 0 of all threads is due */
	uint64_t rate;     /* calls a second of all threads; 0: closed loop */
	uint64_t next;     /* number of the thread's next call */
	uint64_t n_threads;
	bool precise; /* its thread's timer has been made exact */
};

/*
 * Begins the schedule of thread @thread of @n_threads (1 or more) with a rate
 * up to TEI_SCHEDULE_RATE_MAX.
 */
void tei_schedule_init(struct tei_schedule *s, uint64_t rate, uint64_t thread,
		       uint64_t n_threads, uint64_t start_ns);

/* Returns when the next call is due, in ns; 0 in a closed loop. */
uint64_t tei_schedule_due(const struct tei_schedule *s);

/* Calls that are due by @now_ns and have not begun. 0 in a closed loop. */
uint64_t tei_schedule_behind(const struct tei_schedule *s, uint64_t now_ns);

/*
 * Takes the next call, which begins at @now_ns. Returns the time from which its
 * latency counts: when it was due; in a closed loop @now_ns.
 */
uint64_t tei_schedule_take(struct tei_schedule *s, uint64_t now_ns);

/*
 * Sleeps, without spinning, until the next call is due; not at all if it is.
 * False: it is not to begin, because @end_ns (UINT64_MAX: never) has come, or
 * comes before it is due, or because *@ended, which may be NULL, is set: it is
 * looked at ten times a second. Calls that are due then are never made;
 * tei_schedule_behind() tells how many. Sets the timer slack of the calling
 * thread to the least, at the first sleep.
 */
bool tei_schedule_await(struct tei_schedule *s, uint64_t end_ns,
			const _Atomic bool *ended);

#endif
