/* SPDX-License-Identifier: Apache-2.0 */
/*
 * percentiles.c - latency histograms in a file, as HdrHistogram's tools read it
 */
#include "perf/lib/percentiles.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "perf/lib/report.h"

static uint64_t last_of(const struct tei_histogram *h, unsigned int i)
{
	uint64_t last = tei_histogram_bucket_last(i);

	return last < h->max ? last : h->max;
}

static double mean_of(const struct tei_histogram *h)
{
	return h->n ? (double)h->sum / (double)h->n : 0;
}

static double deviation_of(const struct tei_histogram *h)
{
	double mean = mean_of(h), sum = 0, off;

	for (unsigned int i = 0; i < TEI_HISTOGRAM_BUCKETS; i++) {
		if (!h->bucket[i])
			continue;
		off = (double)last_of(h, i) - mean;
		sum += off * off * (double)h->bucket[i];
	}
	return h->n ? sqrt(sum / (double)h->n) : 0;
}

/* The last has no fourth column: it would be infinite. */
static void print_bucket(uint64_t last, uint64_t seen, uint64_t n, FILE *out)
{
	double share = (double)seen / (double)n;

	fprintf(out, "%12" PRIu64 " %14.12f %10" PRIu64, last, share, seen);
	if (seen < n)
		fprintf(out, " %14.2f", (double)n / (double)(n - seen));
	fputc('\n', out);
}

void tei_percentiles_print(const struct tei_histogram *h, const char *title,
			   FILE *out)
{
	uint64_t seen = 0;

	fprintf(out, "# %s\n", title);
	fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile",
		"TotalCount", "1/(1-Percentile)");
	for (unsigned int i = 0; i < TEI_HISTOGRAM_BUCKETS; i++) {
		if (!h->bucket[i])
			continue;
		seen += h->bucket[i];
		print_bucket(last_of(h, i), seen, h->n, out);
	}
	fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n",
		mean_of(h), deviation_of(h));
	fprintf(out, "#[Max     = %12.3f, Total count    = %12" PRIu64 "]\n",
		(double)h->max, h->n);
	fprintf(out, "#[Buckets = %12u, SubBuckets     = %12u]\n",
		TEI_HISTOGRAM_BUCKETS >> TEI_HISTOGRAM_SUB_BITS,
		1u << TEI_HISTOGRAM_SUB_BITS);
}

/* ---- the file ---- */

static int fail_file(const struct tei_percentiles *p, int error)
{
	fprintf(stderr, "%s: histogram: %s: %s\n", p->program, p->path,
		strerror(error));
	return -error;
}

int tei_percentiles_open(struct tei_percentiles *p, const char *program,
			 const char *path)
{
	*p = (struct tei_percentiles){.program = program, .path = path};
	if (!tei_path_given(path))
		return 0;
	p->out = fopen(path, "we");
	return p->out ? 0 : fail_file(p, errno);
}

void tei_percentiles_add(struct tei_percentiles *p, const char *title,
			 const struct tei_histogram *h)
{
	if (!p->out)
		return;
	errno = 0;
	tei_percentiles_print(h, title, p->out);
	/* A full buffer was written, in vain perhaps, while printing. */
	if ((ferror(p->out) || fflush(p->out)) && !p->error)
		p->error = errno ? errno : EIO;
}

int tei_percentiles_close(struct tei_percentiles *p)
{
	if (!p->out)
		return 0;
	if (fclose(p->out) && !p->error)
		p->error = errno;
	p->out = NULL;
	if (!p->error)
		return 0;
	(void)fail_file(p, p->error);
	return -EIO;
}
