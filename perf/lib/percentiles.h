/* SPDX-License-Identifier: Apache-2.0 */
/*
 * percentiles.h - latency histograms in a file, as HdrHistogram's tools read it
 *
 * Each histogram is a section:
 *
 *	# title
 *	       Value     Percentile TotalCount 1/(1-Percentile)
 *
 *	       16383 0.250000000000          1           1.33
 *	       33791 1.000000000000          4
 *	#[Mean    =    29000.000, StdDeviation   =     7500.000]
 *	#[Max     =    33333.000, Total count    =            4]
 *	#[Buckets =           59, SubBuckets     =           64]
 *
 * A line stands for a bucket that is not empty. Value is the last latency of
 * the bucket, in ns, of which the greatest is the largest latency itself;
 * TotalCount is how many latencies are no greater, so that the difference to
 * the line before is the bucket's count. A bucket is one ns wide below 128 ns,
 * and at most a 64th of its latencies above.
 *
 * Threads: one per file at a time.
 */
#ifndef PERF_LIB_PERCENTILES_H
#define PERF_LIB_PERCENTILES_H

#include <stdio.h>

#include "perf/lib/histogram.h"

/* Writes one section; errors of @out are its owner's to look for. */
void tei_percentiles_print(const struct tei_histogram *h, const char *title,
			   FILE *out);

/* All zero is no file: add and close do nothing. */
struct tei_percentiles {
	const char *program, *path; /* not owned */
	FILE *out;
	int error; /* errno of the first write that failed; 0: none has */
};

/*
 * Makes the file @path, or empties it; NULL and "": no file. -errno, said on
 * stderr by the setting's name, "histogram".
 */
int tei_percentiles_open(struct tei_percentiles *p, const char *program,
			 const char *path);
void tei_percentiles_add(struct tei_percentiles *p, const char *title,
			 const struct tei_histogram *h);
/* Closes the file. -EIO, said: what was added could not be written. */
int tei_percentiles_close(struct tei_percentiles *p);

#endif
