/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h - kill or stop the target in mid-load, and see what it costs
 */
#ifndef PERF_TE_PERF_FAULT_H
#define PERF_TE_PERF_FAULT_H

#include "perf/te-perf/results.h"
#include "perf/te-perf/target.h"

/* Another peer of the same engine, which nothing happens to. */
struct bystander {
	struct target target;
	struct load load;
	struct load_result result;
	struct series series;
	struct memory local;
	pthread_t thread;
	int error;
};

struct fault {
	const struct options *options; /* NULL: nothing happens */
	struct target *target;
	pthread_t thread;
	_Atomic uint64_t struck_ns; /* UINT64_MAX: not yet */
	struct bystander *bystander;
};

/*
 * Starts threads: one kills or stops the target after half of the duration, as
 * options->fault says; the bystander's works all the time. -errno.
 */
int fault_begin(struct fault *f, const struct options *o, struct target *target,
		struct te_engine *engine);
/*
 * Ends the fault after the load: lets a stopped target go on, and notes in @row
 * whether our memory stayed as it was, and how the bystander fared.
 */
void fault_end(struct fault *f, const struct load *l, struct row *row);

#endif
