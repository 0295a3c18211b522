/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixed.h - what came of a mixed load
 */
#ifndef PERF_STORE_PERF_MIXED_H
#define PERF_STORE_PERF_MIXED_H

#include <te/store.h>

#include "perf/lib/reference.h"
#include "perf/store-perf/mix.h"

/* CPU time of a kind of process, in ns. */
struct mixed_cpu {
	uint64_t master, owners, workers;
};

struct mixed_results {
	const struct mix_plan *plan;
	struct mix_tally sum;
	double seconds;
	uint64_t put_retries, location_hits, location_misses;
	struct mixed_cpu cpu; /* with a running master only the workers' */
	struct te_store_pool before, after;
	struct tei_reference reference; /* with --reference */
};

/* Print them to stdout. -ENOMEM, -EIO. */
int mixed_report(const struct mixed_results *r, const struct options *o);

#endif
