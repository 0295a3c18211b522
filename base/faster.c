/* SPDX-License-Identifier: Apache-2.0 */
/* faster.c - rounds by turns, and votes of those that followed each other */
#include "base/faster.h"

#define VOTES_MAX  8   /* limit of votes: a change is noticed soon */
#define EARLY      64u /* rounds in which both take turns */
#define EARLY_TURN 2u
#define TURN       32u /* later, every so many rounds goes the slower way */

/*
 * A round in one word, which threads exchange: ns per item from bit 16 on, the
 * order of magnitude of its items and bytes, its way in bit 0.
 */
#define LAST_NS_SHIFT 16u
#define LAST_NS_MAX   (UINT64_MAX >> LAST_NS_SHIFT)
#define LAST_SECOND   1u

static uint64_t magnitude(uint64_t n)
{
	return n ? 64u - (uint64_t)__builtin_clzll(n) : 0;
}

static uint64_t word_of(bool second, size_t n, uint64_t bytes, uint64_t ns)
{
	uint64_t item_ns = ns / n + 1;

	if (item_ns > LAST_NS_MAX)
		item_ns = LAST_NS_MAX;
	return item_ns << LAST_NS_SHIFT | magnitude(n) << 9 |
	       magnitude(bytes) << 1 | (second ? LAST_SECOND : 0);
}

/* Relaxed, here and below: hints, to which nothing else belongs. */
bool tei_faster_second(struct tei_faster *faster)
{
	int votes = atomic_load_explicit(&faster->votes, memory_order_relaxed);
	uint32_t round = atomic_fetch_add_explicit(&faster->n_rounds, 1,
						   memory_order_relaxed);
	uint32_t turn = round < EARLY ? EARLY_TURN : TURN;

	return (votes >= 0) != (round % turn == turn - 1);
}

static void vote(struct tei_faster *faster, int by)
{
	int votes = atomic_load_explicit(&faster->votes, memory_order_relaxed);

	votes += by;
	if (votes >= -VOTES_MAX && votes <= VOTES_MAX)
		atomic_store_explicit(&faster->votes, votes,
				      memory_order_relaxed);
}

void tei_faster_learn(struct tei_faster *faster, bool second, size_t n,
		      uint64_t bytes, uint64_t ns)
{
	const uint64_t alike = (1u << LAST_NS_SHIFT) - 1 - LAST_SECOND;
	uint64_t is, was;

	if (n == 0)
		return;
	is = word_of(second, n, bytes, ns);
	was = atomic_exchange_explicit(&faster->last, is, memory_order_relaxed);
	if ((is & alike) != (was & alike) || !((is ^ was) & LAST_SECOND))
		return;
	is >>= LAST_NS_SHIFT;
	was >>= LAST_NS_SHIFT;
	if (is != was)
		vote(faster, second == (is < was) ? 1 : -1);
}
