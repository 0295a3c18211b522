/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - settings of te-perf, and engines made by them
 */
#ifndef PERF_TE_PERF_OPTIONS_H
#define PERF_TE_PERF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <te/te.h>

#include "perf/lib/report.h"

struct options {
	char *backend, *op, *size, *engine, *role;
	uint64_t batch, threads, duration, working_set;
	bool reference, json, pin;
	/* What follows is derived from them. */
	uint64_t sizes[TEI_SIZES_MAX];
	int n_sizes;
};

/*
 * An engine on loopback with only --backend, and with what --engine asks for.
 * -errno, said on stderr; -EINVAL: one of the two settings is wrong.
 */
int engine_open(const struct options *o, struct te_engine **out);

#endif
