/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shuffle.h - the numbers below n in an order that looks random
 *
 * Nothing is stored, so orders of any length cost nothing; the same each time.
 */
#ifndef PERF_LIB_SHUFFLE_H
#define PERF_LIB_SHUFFLE_H

#include <stdint.h>

/*
 * Number @i of the order of 0 .. @n - 1, each of which is there once. @i is
 * below @n, which is 2^62 at most.
 */
uint64_t tei_shuffle(uint64_t n, uint64_t i);

#endif
