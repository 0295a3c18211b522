/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the initiator: measure all rows in rounds
 */
#ifndef PERF_TE_PERF_RUN_H
#define PERF_TE_PERF_RUN_H

#include "perf/te-perf/options.h"

/* Measures and reports. Returns an exit code. */
int run_main(const struct options *o);

#endif
