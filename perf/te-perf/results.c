/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.c - the rows that te-perf has measured
 */
#include "perf/te-perf/results.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "perf/lib/reference.h"

const char *const figure_names[N_FIGURES] = {
	[GB_PER_S] = "gb_per_s",
	[OPS_PER_S] = "ops_per_s",
	[P50_US] = "p50_us",
	[P99_US] = "p99_us",
	[P999_US] = "p999_us",
	[CPU_S_PER_GB] = "cpu_s_per_gb",
	[CPU_US_PER_REQUEST] = "cpu_us_per_request",
	[GAP_MS] = "gap_ms",
	[LATE_MS] = "late_ms",
	[PROBE_P50_US] = "probe_p50_us",
	[PROBE_P99_US] = "probe_p99_us",
	[PROBE_P999_US] = "probe_p999_us",
	[STREAM_GB_PER_S] = "stream_gb_per_s",
	[STREAM_CPU_S_PER_GB] = "stream_cpu_s_per_gb",
	[EXCHANGE_GB_PER_S] = "exchange_gb_per_s",
	[EXCHANGE_CPU_S_PER_GB] = "exchange_cpu_s_per_gb",
	[EXCHANGE_P50_US] = "exchange_p50_us",
	[PINGPONG_SPINNING_US] = "pingpong_spinning_us",
	[PINGPONG_BLOCKING_US] = "pingpong_blocking_us",
	[MEMCPY_GB_PER_S] = "memcpy_gb_per_s",
	[STREAMING_COPY_GB_PER_S] = "streaming_copy_gb_per_s",
	[PROCESS_VM_GB_PER_S] = "process_vm_gb_per_s",
	[RAW_GB_PER_S] = "raw_gb_per_s",
	[BOUND_GB_PER_S] = "bound_gb_per_s",
	[OF_RAW] = "of_raw",
	[OF_BOUND] = "of_bound",
	[OF_PINGPONG_SPINNING] = "of_pingpong_spinning",
	[OF_PINGPONG_BLOCKING] = "of_pingpong_blocking",
	[CPU_OF_STREAM] = "cpu_of_stream",
	[P99_OF_IDEAL] = "p99_of_ideal",
};

/* The values that there are; returns how many. */
static size_t values(const struct row *row, enum figure f, double v[ROUNDS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < row->n_rounds; i++)
		if (!isnan(row->v[i][f]))
			v[n++] = row->v[i][f];
	return n;
}

double row_median(const struct row *row, enum figure f)
{
	double v[ROUNDS_MAX];
	size_t n = values(row, f, v);

	return n ? tei_median(v, n) : NAN;
}

/* fmin() and fmax() pass over NAN. */
double row_min(const struct row *row, enum figure f)
{
	double min = NAN;

	for (size_t i = 0; i < row->n_rounds; i++)
		min = fmin(min, row->v[i][f]);
	return min;
}

double row_max(const struct row *row, enum figure f)
{
	double max = NAN;

	for (size_t i = 0; i < row->n_rounds; i++)
		max = fmax(max, row->v[i][f]);
	return max;
}

uint64_t row_failed(const struct row *row)
{
	uint64_t n = 0;

	for (size_t i = 0; i < LOAD_ERRORS; i++)
		n += row->errors[i].n;
	return n;
}

uint64_t results_wrong_bytes(const struct results *r)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < r->n_rows; i++)
		wrong += r->row[i].wrong_bytes;
	return wrong;
}

void results_fini(struct results *r)
{
	for (size_t i = 0; i < r->n_rows; i++)
		tei_free(r->row[i].points);
}

static void say_what_failed(const struct row *row)
{
	for (size_t i = 0; i < LOAD_ERRORS; i++)
		if (row->errors[i].n)
			fprintf(stderr,
				"te-perf: %" PRIu64 " requests failed: %s\n",
				row->errors[i].n,
				te_strerror(row->errors[i].error));
}

int results_report(const struct results *r, const struct options *o)
{
	uint64_t wrong = results_wrong_bytes(r);
	int rc = o->json ? results_json(r, o) : results_table(r, o);

	if (!rc && o->svg && *o->svg)
		rc = results_svg(r, o);
	for (size_t i = 0; !o->json && i < r->n_rows; i++)
		say_what_failed(&r->row[i]);
	if (wrong)
		fprintf(stderr, "te-perf: %" PRIu64 " wrong bytes\n", wrong);
	return rc ? rc : wrong ? -EIO : 0;
}
