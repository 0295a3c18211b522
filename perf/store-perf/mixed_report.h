/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixed_report.h - what came of a mixed load, for people and machines
 */
#ifndef PERF_STORE_PERF_MIXED_REPORT_H
#define PERF_STORE_PERF_MIXED_REPORT_H

#include <stdint.h>
#include <te/store.h>

#include "perf/lib/percentiles.h"
#include "perf/lib/reference.h"
#include "perf/store-perf/intervals.h"
#include "perf/store-perf/mix.h"
#include "perf/store-perf/options.h"

/* CPU time of all processes of a kind, in ns. */
struct mixed_cpu {
	uint64_t master, owners, workers;
};

struct mixed_results {
	const struct mix_plan *plan; /* not owned */
	struct mix_tally sum;
	double seconds;
	uint64_t put_retries, location_hits, location_misses;
	struct mixed_cpu cpu; /* with a running master only the workers' */
	struct te_store_pool before, after;
	struct tei_reference reference; /* with --reference */
	struct tei_percentiles percentiles;
	struct intervals intervals;
};

/* Writes the latencies of each kind of call to r->percentiles. */
void mixed_write_percentiles(struct mixed_results *r, const struct options *o);
/* Prints all to stdout, as asked for. -ENOMEM, -EIO. */
int mixed_report(const struct mixed_results *r, const struct options *o);

#endif
