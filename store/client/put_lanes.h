/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_lanes.h - whether puts of many keys are faster in one lane or in two
 *
 * Both ways are used, and a round is compared with the one just before it when
 * that went the other way and was about as large. Which was faster has a vote.
 * So neither a round that something else held up nor slow first ones, for which
 * memory is touched and connections are made, weigh more than any other, and
 * values of one size say nothing of those of another.
 *
 * Threads: any; what one of them overwrites is a vote less.
 */
#ifndef STORE_CLIENT_PUT_LANES_H
#define STORE_CLIENT_PUT_LANES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed at first. */
struct tes_put_lanes {
	atomic_uint n_rounds;
	atomic_int votes;   /* for two lanes; fewer than 0: for one */
	atomic_ullong last; /* the last round; 0: none */
};

/* How the next round goes: in two lanes, or in one. */
bool tes_put_lanes_two(struct tes_put_lanes *lanes);
/* A round of @n keys and @bytes, in two lanes or in one, took @ns. */
void tes_put_lanes_learn(struct tes_put_lanes *lanes, bool two, size_t n,
			 uint64_t bytes, uint64_t ns);

#endif
