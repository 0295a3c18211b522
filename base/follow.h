/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow.h - answer on the core from which the question came
 *
 * Where other threads keep the cores of a host busy, two of its threads that
 * take turns do so three times as often on one core as on two: there the one
 * that falls asleep leaves its core to the other, while a thread that is woken
 * on another core often waits for the end of a time slice. Schedulers bring
 * such threads together or do not. So a thread that serves others of its host
 * moves to the core of whom it serves. It is not bound to that core: the
 * scheduler may move it away at any time.
 *
 * A move takes 40 us, or some milliseconds where both cores are busy, in which
 * the thread does nothing. So it is made only where one socket is read again
 * and again, each time for little work, and has its data from one other core;
 * and ever more rarely where moves do not last.
 *
 * Threads: each has a state of its own, and calls both functions itself.
 */
#ifndef BASE_FOLLOW_H
#define BASE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

/* State of a thread; zeroed at first. */
struct tei_follow {
	uint32_t n_calls;
	int fd, cpu;      /* of the last look */
	uint32_t n_alike; /* consecutive looks that saw them */
	uint64_t until;   /* ns: no move before */
	uint64_t pause;   /* ns: after the last move */
	bool forbidden;   /* the system does not allow it */
};

/*
 * Returns the core to which the thread should move; -1: it stays. To be called
 * where others need the cores, each time that the thread has been woken by what
 * came by the connected socket @fd: it has been awake for @awake ns since, and
 * goes to sleep at @now, ns. Never blocks.
 */
int tei_follow_look(struct tei_follow *follow, int fd, uint64_t awake,
		    uint64_t now);
/*
 * Moves the thread to core @cpu. Blocks for as long as it takes to get there.
 * The cores that it may use are as before; those that somebody sets meanwhile
 * stay.
 */
void tei_follow_move(struct tei_follow *follow, int cpu);

#endif
