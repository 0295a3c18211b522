/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram.h - latencies counted in buckets that are 1.6 % wide
 *
 * Log-linear: 64 buckets to each power of two, so that no percentile is off
 * by more than 1/64 of itself. Plain memory of fixed size without pointers:
 * it may lie in memory shared by processes.
 *
 * Threads: one writer at a time; readers see a consistent picture only when
 * the writer has stopped.
 */
#ifndef PERF_LIB_HISTOGRAM_H
#define PERF_LIB_HISTOGRAM_H

#include <stdint.h>

#define TEI_HISTOGRAM_SUB_BITS 6
#define TEI_HISTOGRAM_BUCKETS \
	((65u - TEI_HISTOGRAM_SUB_BITS) << TEI_HISTOGRAM_SUB_BITS)

/* All zero is an empty histogram. */
struct tei_histogram {
	uint64_t n, sum, max;
	uint64_t bucket[TEI_HISTOGRAM_BUCKETS];
};

void tei_histogram_add(struct tei_histogram *h, uint64_t value);
void tei_histogram_merge(struct tei_histogram *into,
			 const struct tei_histogram *from);
/* Returns the greatest value that bucket[@i] counts. */
uint64_t tei_histogram_bucket_last(unsigned int i);
/*
 * Returns the value that a share @q (0 .. 1) of all values does not exceed: the
 * upper end of its bucket, never above the largest value. 0 when empty.
 */
uint64_t tei_histogram_quantile(const struct tei_histogram *h, double q);

/* Returns a quantile of nanoseconds in microseconds. */
double tei_histogram_us(const struct tei_histogram *h, double q);

#endif
