/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram.h - times in buckets that double, from half a microsecond on
 *
 * Threads: none of its own.
 */
#ifndef STORE_SERVER_HISTOGRAM_H
#define STORE_SERVER_HISTOGRAM_H

#include <stdint.h>

#define TES_HISTOGRAM_FIRST_BITS 9  /* the first bucket: up to 512 ns */
#define TES_HISTOGRAM_BUCKETS    20 /* the last has no end: beyond 134 ms */

struct tes_histogram {
	uint64_t n[TES_HISTOGRAM_BUCKETS];
	uint64_t sum_ns;
};

static inline void tes_histogram_add(struct tes_histogram *h, uint64_t ns)
{
	/* A bucket's upper end belongs to the bucket. */
	unsigned int bits =
		ns > 1 ? 64 - (unsigned int)__builtin_clzll(ns - 1) : 0;
	unsigned int i = bits > TES_HISTOGRAM_FIRST_BITS
				 ? bits - TES_HISTOGRAM_FIRST_BITS
				 : 0;

	if (i >= TES_HISTOGRAM_BUCKETS)
		i = TES_HISTOGRAM_BUCKETS - 1;
	h->n[i]++;
	h->sum_ns += ns;
}

#endif
