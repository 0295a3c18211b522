/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faster.h - which of two ways to do the same is the faster one here
 *
 * Both are used by turns. A round is compared with the one just before it when
 * that one went the other way and moved about as many items and bytes; the
 * faster of the two gets a vote. So one round that was held up, or slow first
 * rounds, in which memory is touched and connections are made, count no more
 * than any other, and sizes do not mix. The slower way is tried in every 32nd
 * round, so that a change is noticed.
 *
 * Threads: any. A vote that another thread overwrites is lost, no more.
 */
#ifndef BASE_FASTER_H
#define BASE_FASTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed at first. */
struct tei_faster {
	atomic_uint n_rounds;
	atomic_int votes;   /* 0 and above: the second; below: the first */
	atomic_ullong last; /* the round before; 0: none */
};

/* Tells whether the next round goes the second way. */
bool tei_faster_second(struct tei_faster *faster);
/* Records that @n items of @bytes in all took @ns, the second way or not. */
void tei_faster_learn(struct tei_faster *faster, bool second, size_t n,
		      uint64_t bytes, uint64_t ns);

#endif
