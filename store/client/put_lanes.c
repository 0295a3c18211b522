/* SPDX-License-Identifier: Apache-2.0 */
/* put_lanes.c - whether puts of many keys are faster in one lane or in two */
#include "store/client/put_lanes.h"

#define VOTES_MAX  8   /* so that a change is noticed soon */
#define EARLY      64u /* rounds in which the ways take turns */
#define EARLY_TURN 2u
#define TURN       32u /* then each so many goes the other way */

/*
 * A round in a word, so that threads may exchange it: ns of a key from bit 16 on,
 * the order of magnitude of its keys and bytes, its lanes in bit 0.
 */
#define LAST_NS_SHIFT 16u
#define LAST_NS_MAX   (UINT64_MAX >> LAST_NS_SHIFT)
#define LAST_TWO      1u

static uint64_t magnitude(uint64_t n)
{
	return n ? 64u - (uint64_t)__builtin_clzll(n) : 0;
}

static uint64_t word_of(bool two, size_t n, uint64_t bytes, uint64_t ns)
{
	uint64_t key_ns = ns / n + 1;

	if (key_ns > LAST_NS_MAX)
		key_ns = LAST_NS_MAX;
	return key_ns << LAST_NS_SHIFT | magnitude(n) << 9 |
	       magnitude(bytes) << 1 | (two ? LAST_TWO : 0);
}

/* Relaxed, here and below: hints, to which nothing else belongs. */
bool tes_put_lanes_two(struct tes_put_lanes *lanes)
{
	int votes = atomic_load_explicit(&lanes->votes, memory_order_relaxed);
	uint32_t round = atomic_fetch_add_explicit(&lanes->n_rounds, 1,
						   memory_order_relaxed);
	uint32_t turn = round < EARLY ? EARLY_TURN : TURN;

	return (votes >= 0) != (round % turn == turn - 1);
}

static void vote(struct tes_put_lanes *lanes, int by)
{
	int votes = atomic_load_explicit(&lanes->votes, memory_order_relaxed);

	votes += by;
	if (votes >= -VOTES_MAX && votes <= VOTES_MAX)
		atomic_store_explicit(&lanes->votes, votes,
				      memory_order_relaxed);
}

void tes_put_lanes_learn(struct tes_put_lanes *lanes, bool two, size_t n,
			 uint64_t bytes, uint64_t ns)
{
	const uint64_t alike = (1u << LAST_NS_SHIFT) - 1 - LAST_TWO;
	uint64_t is = word_of(two, n, bytes, ns);
	uint64_t was = atomic_exchange_explicit(&lanes->last, is,
						memory_order_relaxed);

	if ((is & alike) != (was & alike) || !((is ^ was) & LAST_TWO))
		return;
	is >>= LAST_NS_SHIFT;
	was >>= LAST_NS_SHIFT;
	if (is != was)
		vote(lanes, two == (is < was) ? 1 : -1);
}
