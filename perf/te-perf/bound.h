/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bound.h - for each row, what the bare system does of the same work
 */
#ifndef PERF_TE_PERF_BOUND_H
#define PERF_TE_PERF_BOUND_H

#include "perf/lib/bare.h"
#include "perf/te-perf/results.h"
#include "perf/te-perf/target.h"

struct bound {
	const struct options *options;
	struct tei_process process; /* pid 0: on the target's host */
	struct tei_bare_peer peer;
	bool shared;    /* the memory is, by a file */
	double seconds; /* of the longest measurements */
};

/* Starts the peer and maps memory. -errno, said on stderr. */
int bound_open(struct bound *b, const struct options *o, struct target *t);
/*
 * Measures what belongs to a row whose carrier is known, and sets its figures
 * in @v, and the engine's divided by them. -errno, said.
 */
int bound_round(struct bound *b, struct row *row, double v[N_FIGURES]);
void bound_close(struct bound *b);

#endif
