/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.h - the rows that te-perf has measured, for people and machines
 */
#ifndef PERF_TE_PERF_RESULTS_H
#define PERF_TE_PERF_RESULTS_H

#include <stddef.h>
#include <stdint.h>

#include "perf/lib/reference.h"
#include "perf/te-perf/options.h"

#define ROWS_MAX (2 * TEI_SIZES_MAX)

struct row {
	const char *op; /* static */
	uint64_t size;
	double gb_per_s, ops_per_s, p50_us, p99_us, p999_us, cpu_s_per_gb;
	uint64_t wrong_bytes;
};

struct results {
	size_t n_rows;
	struct row row[ROWS_MAX];
	struct tei_reference reference; /* with --reference */
};

/* Print them to stdout. -EIO also when there are wrong bytes, said. */
int results_report(const struct results *r, const struct options *o);

#endif
