/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shuffle.c - the numbers below n in an order that looks random
 *
 * A Feistel network permutes the numbers of an even count of bits. Where it
 * leads out of those below n it is applied again, which ends below n, since a
 * permutation leads from each number back to itself (Black and Rogaway: Ciphers
 * with arbitrary finite domains, 2002).
 */
#include "perf/lib/shuffle.h"

#include "base/chance.h"

#define ROUNDS 4

static uint64_t scramble_bits(uint64_t x, unsigned int half_bits)
{
	uint64_t mask = (1ull << half_bits) - 1;
	uint64_t left = x >> half_bits, right = x & mask, next;

	for (uint64_t round = 1; round <= ROUNDS; round++) {
		next = (right + round) * TEI_CHANCE_STEP;
		next = left ^ ((next ^ next >> 32) & mask);
		left = right;
		right = next;
	}
	return left << half_bits | right;
}

uint64_t tei_shuffle(uint64_t n, uint64_t i)
{
	unsigned int bits;

	if (n < 2)
		return i;
	bits = 64 - (unsigned int)__builtin_clzll(n - 1);
	do
		i = scramble_bits(i, (bits + 1) / 2);
	while (i >= n);
	return i;
}
