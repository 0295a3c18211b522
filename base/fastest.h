/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fastest.h - which of several ways to do the same is the fastest one here
 *
 * Ways take turns on real work, of which each piece is timed. Once each way has
 * TEI_FASTEST_SAMPLES clean samples, the one with the least median is chosen;
 * until then it is way 0. Samples that were disturbed do not count. Where
 * neighbours take half of the processor's time, medians of pieces by turns keep
 * the order of the ways, which runs of each way in a row do not.
 *
 * Pieces are alike: each may be twice or four times as long as another, but
 * which way gets which follows no pattern (base/faster.h compares two ways
 * whose rounds differ more).
 *
 * Threads: any. Nobody waits: while one thread times a piece, others use what
 * is chosen. A child that is forked just then keeps the choice for good.
 */
#ifndef BASE_FASTEST_H
#define BASE_FASTEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

#define TEI_FASTEST_WAYS    16u
#define TEI_FASTEST_SAMPLES 16u

/* Zeroed at first. What all threads read has a cache line of its own. */
struct tei_fastest {
	_Alignas(TEI_CACHE_LINE) atomic_uint chosen; /* a way */
	atomic_ullong speed; /* of it, bytes a second; 0: nothing is chosen */
	/* A thread has a turn, and all that follows. */
	_Alignas(TEI_CACHE_LINE) atomic_bool timing;
	unsigned int n_turns, n_full;
	struct tei_fastest_way {
		uint32_t n; /* samples there ever were */
		uint32_t cost[TEI_FASTEST_SAMPLES]; /* ps a byte; a ring */
	} ways[TEI_FASTEST_WAYS];
};

/* Returns the way that is chosen. */
unsigned int tei_fastest_chosen(const struct tei_fastest *fastest);
/* Bytes a second of the way that is chosen, its median; 0: none is yet. */
uint64_t tei_fastest_speed(const struct tei_fastest *fastest);

/* The same of any way; nobody has a turn. 0: it has too few samples. */
uint64_t tei_fastest_speed_of(const struct tei_fastest *fastest,
			      unsigned int way);

/*
 * Begins a turn of one of @n_ways, the same number in each call. Returns the
 * way to be timed, or -1: another thread has a turn.
 */
int tei_fastest_begin(struct tei_fastest *fastest, unsigned int n_ways);
/*
 * Ends the turn: @bytes went the way @way in @ns. @clean: nothing disturbed it;
 * a sample of no time is not counted either. Returns whether it was counted.
 */
bool tei_fastest_end(struct tei_fastest *fastest, unsigned int way,
		     unsigned int n_ways, uint64_t bytes, uint64_t ns,
		     bool clean);

#endif
