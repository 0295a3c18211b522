/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.h - the rows that store-perf has measured, for people and machines
 */
#ifndef PERF_STORE_PERF_RESULTS_H
#define PERF_STORE_PERF_RESULTS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/lib/reference.h"
#include "perf/store-perf/options.h"

struct row {
	uint64_t value_size;
	double gb_per_s, keys_per_s, calls_per_s, p50_us, p99_us, p999_us;
	double cpu_s_per_gb; /* of clients, owners, master; NAN: not known */
	/* --first-call measures these of one more client; else they are NAN. */
	double join_ms, register_ms, first_us;
	uint64_t missed, failed, wrong_bytes;
	uint64_t behind; /* calls that were due by --rate and never begun */
	json_t *series;  /* array of intervals; NULL: it is not asked for */
};

struct results {
	size_t n_rows;
	struct row row[TEI_SIZES_MAX];
	struct tei_reference reference; /* with --reference */
};

/*
 * Prints all rows to stdout, as asked for. -ENOMEM; -EIO: stdout cannot be
 * written, or bytes are wrong; said on stderr.
 */
int results_report(const struct results *r, const struct options *o);
/*
 * Says on stderr that @behind calls of @rate a second were due and never begun,
 * unless each of @n_threads may have had one under way at the end: latencies
 * are then those of a queue that grows while the load lasts.
 */
void results_warn_behind(uint64_t behind, uint64_t n_threads, uint64_t rate);
void results_fini(struct results *r);

#endif
