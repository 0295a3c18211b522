/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram.c - latencies counted in buckets that are 1.6 % wide
 *
 * Values below 64 have a bucket each. Above, a value with its highest bit at
 * place e shares group e - 5 with all of 2^e .. 2^(e+1) - 1, and the six bits
 * below the highest choose the bucket in the group.
 */
#include "perf/lib/histogram.h"

#include <math.h>

#define SUB_BITS TEI_HISTOGRAM_SUB_BITS
#define SUBS     (1u << SUB_BITS)

static unsigned int bucket_of(uint64_t value)
{
	unsigned int e;

	if (value < SUBS)
		return (unsigned int)value;
	e = 63 - (unsigned int)__builtin_clzll(value);
	return ((e - SUB_BITS + 1) << SUB_BITS) +
	       (unsigned int)((value >> (e - SUB_BITS)) & (SUBS - 1));
}

uint64_t tei_histogram_bucket_last(unsigned int i)
{
	unsigned int shift;

	if (i < SUBS)
		return i;
	shift = (i >> SUB_BITS) - 1;
	return (((uint64_t)SUBS + (i & (SUBS - 1))) << shift) +
	       ((1ull << shift) - 1);
}

void tei_histogram_add(struct tei_histogram *h, uint64_t value)
{
	h->n++;
	h->sum += value;
	if (value > h->max)
		h->max = value;
	h->bucket[bucket_of(value)]++;
}

void tei_histogram_merge(struct tei_histogram *into,
			 const struct tei_histogram *from)
{
	into->n += from->n;
	into->sum += from->sum;
	if (from->max > into->max)
		into->max = from->max;
	for (unsigned int i = 0; i < TEI_HISTOGRAM_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

uint64_t tei_histogram_quantile(const struct tei_histogram *h, double q)
{
	double rank = ceil(q * (double)h->n);
	uint64_t seen = 0, last;

	if (!h->n)
		return 0;
	for (unsigned int i = 0; i < TEI_HISTOGRAM_BUCKETS; i++) {
		seen += h->bucket[i];
		if (!seen || (double)seen < rank)
			continue;
		last = tei_histogram_bucket_last(i);
		return last < h->max ? last : h->max;
	}
	return h->max;
}

double tei_histogram_us(const struct tei_histogram *h, double q)
{
	return (double)tei_histogram_quantile(h, q) / 1000.0;
}
