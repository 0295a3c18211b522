/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram.h - times in buckets that double, from half a microsecond on
 *
 * Threads: none of its own.
 */
#ifndef STORE_SERVER_HISTOGRAM_H
#define STORE_SERVER_HISTOGRAM_H

#include <stdint.h>

#define TEI_HISTOGRAM_FIRST_BITS 9  /* the first bucket: up to 512 ns */
#define TEI_HISTOGRAM_BUCKETS    20 /* the last has no end: beyond 134 ms */

struct tei_histogram {
	uint64_t n[TEI_HISTOGRAM_BUCKETS];
	uint64_t sum_ns;
};

static inline void tei_histogram_add(struct tei_histogram *h, uint64_t ns)
{
	/* Of a bucket's upper end, which belongs to it. */
	unsigned int bits =
		ns > 1 ? 64 - (unsigned int)__builtin_clzll(ns - 1) : 0;
	unsigned int i = bits > TEI_HISTOGRAM_FIRST_BITS
				 ? bits - TEI_HISTOGRAM_FIRST_BITS
				 : 0;

	if (i >= TEI_HISTOGRAM_BUCKETS)
		i = TEI_HISTOGRAM_BUCKETS - 1;
	h->n[i]++;
	h->sum_ns += ns;
}

#endif
