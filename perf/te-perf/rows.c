/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - what a row gets of each of its rounds, and statistics over them */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "perf/lib/reference.h"
#include "perf/te-perf/results.h"

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
	[BEST_COPY_GB_PER_S] = "best_copy_gb_per_s",
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

size_t results_directions(const struct options *o, struct direction out[2])
{
	bool both = !strcmp(o->op, "both");

	out[0] = (struct direction){"write", 0};
	out[1] = (struct direction){"read", 100};
	if (both)
		return 2;
	if (!strcmp(o->op, "read"))
		out[0] = out[1];
	else if (!strcmp(o->op, "notify"))
		out[0].op = "notify";
	else if (!strcmp(o->op, "mixed"))
		out[0] = (struct direction){"mixed", (uint32_t)o->read_share};
	return 1;
}

/* Lists the values that there are; returns how many. */
static size_t list_values(const struct row *row, enum figure f,
			  double v[ROUNDS_MAX])
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
	size_t n = list_values(row, f, v);

	return n ? tei_median(v, n) : NAN;
}

/* Both pass over NAN, as fmin() and fmax() do. */
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

bool results_have(const struct results *r, enum figure f)
{
	for (size_t i = 0; i < r->n_rows; i++)
		if (!isnan(row_median(&r->row[i], f)))
			return true;
	return false;
}

uint64_t row_failed(const struct row *row)
{
	uint64_t n = 0;

	for (size_t i = 0; i < LOAD_ERRORS; i++)
		n += row->errors[i].n;
	return n;
}

void results_forget_unmeasured(struct results *r)
{
	while (r->n_rows && !r->row[r->n_rows - 1].n_rounds)
		r->n_rows--;
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
	for (size_t i = 0; i < r->n_rows; i++) {
		tei_free(r->row[i].points);
		tei_free(r->row[i].latency);
	}
	(void)tei_percentiles_close(&r->histograms);
}

/* ---- a round ---- */

static void fill_probe(double v[N_FIGURES], const struct tei_histogram *probe)
{
	if (!probe->n)
		return;
	v[PROBE_P50_US] = tei_histogram_us(probe, 0.5);
	v[PROBE_P99_US] = tei_histogram_us(probe, 0.99);
	v[PROBE_P999_US] = tei_histogram_us(probe, 0.999);
}

void row_figures(const struct row *row, const struct load_result *result,
		 uint64_t cpu_ns, double v[N_FIGURES])
{
	double ns = (double)result->elapsed_ns, n = (double)result->requests;
	double bytes = n * (double)row->size;

	v[GB_PER_S] = bytes / ns;
	v[OPS_PER_S] = n / ns * 1e9;
	if (result->latency.n) {
		v[P50_US] = tei_histogram_us(&result->latency, 0.5);
		v[P99_US] = tei_histogram_us(&result->latency, 0.99);
		v[P999_US] = tei_histogram_us(&result->latency, 0.999);
	}
	if (cpu_ns && result->requests) {
		v[CPU_S_PER_GB] = (double)cpu_ns / bytes;
		v[CPU_US_PER_REQUEST] = (double)cpu_ns / n / 1e3;
	}
	v[GAP_MS] = (double)result->gap_ns / 1e6;
	if (result->late_ns != LOAD_NEVER_LATE)
		v[LATE_MS] = (double)result->late_ns / 1e6;
	fill_probe(v, &result->probe);
}

int row_add(struct row *row, const struct options *o,
	    const struct load_result *result)
{
	load_add_errors(row->errors, result->errors);
	row->behind += result->behind;
	if (!tei_path_given(o->histogram))
		return 0;
	if (!row->latency)
		row->latency = tei_calloc(1, sizeof(*row->latency));
	if (!row->latency)
		return -ENOMEM;
	tei_histogram_merge(row->latency, &result->latency);
	return 0;
}
