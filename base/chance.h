/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chance.h - numbers that are spread, and the same again from the same seed
 *
 * splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators, 2014). Nothing secret may depend on them.
 */
#ifndef BASE_CHANCE_H
#define BASE_CHANCE_H

#include <stdint.h>

#define TEI_CHANCE_STEP 0x9e3779b97f4a7c15u

/* Every bit of @x bears on every bit of the result; no two have the same. */
static inline uint64_t tei_chance_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* The next number of *@state, whose first value is the seed. */
static inline uint64_t tei_chance(uint64_t *state)
{
	return tei_chance_mix(*state += TEI_CHANCE_STEP);
}

#endif
