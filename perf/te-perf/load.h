/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - threads that submit batches for a while, and what came of it
 */
#ifndef PERF_TE_PERF_LOAD_H
#define PERF_TE_PERF_LOAD_H

#include <stdint.h>
#include <te/te.h>

#include "perf/lib/histogram.h"

/*
 * Each thread walks over its own part of the working set, in steps of one
 * request, the same offsets on both sides; at the end it starts over.
 */
struct load {
	struct te_engine *engine; /* not owned */
	te_segment_id segment;
	uint64_t remote;
	char *local;
	uint64_t working_set; /* room for a batch of each thread */
	uint32_t op;          /* TE_READ, TE_WRITE */
	uint64_t size;
	uint32_t batch, n_threads;
	uint64_t duration_ms;
};

struct load_result {
	uint64_t requests, elapsed_ns;
	uint64_t first_requests;      /* those of the first thread */
	struct tei_histogram latency; /* ns from submit to the batch's end */
};

/* -errno of the first request that failed, or of threads and memory. */
int load_run(const struct load *l, struct load_result *out);

/* Write all of the local working set to the target. -errno. */
int load_prime(const struct load *l);

/*
 * Compare a sample of what was moved with the pattern of @seed: after writes
 * by reading it back. *out_wrong: bytes that differ. -errno.
 */
int load_check(const struct load *l, const struct load_result *result,
	       uint64_t seed, uint64_t *out_wrong);

#endif
