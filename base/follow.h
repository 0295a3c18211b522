/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow.h - answer on the core from which the question came
 *
 * Where other threads keep all cores of a host busy, two of its threads that
 * take turns do so three times as often on one core as on two: there the one
 * that falls asleep leaves its core to the other, while a thread that is woken
 * on another core often waits for the end of a time slice. Schedulers bring
 * such threads together or do not. So one that serves others of its host moves
 * to the core of whom it serves, once, and may be moved again by the scheduler:
 * the cores that it may use stay the same.
 *
 * Threads move only while others need the cores, for what takes little time,
 * and where what wakes them comes from one core again and again.
 *
 * Threads: of the one that moves.
 */
#ifndef BASE_FOLLOW_H
#define BASE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

/* State of a thread; zeroed at first. */
struct tei_follow {
	uint32_t n_asked; /* times */
	int cpu;          /* that the last looks saw */
	uint32_t n_alike; /* so many of them */
	uint64_t until;   /* ns: it does not move before */
	bool off;         /* the system does not allow it */
};

/*
 * Moves the calling thread if that is worth it. Others need the cores; it was
 * woken by what came by the connected socket @fd, has been awake for @awake ns,
 * and goes to sleep again at @now, ns.
 */
void tei_follow(struct tei_follow *follow, int fd, uint64_t awake,
		uint64_t now);

#endif
