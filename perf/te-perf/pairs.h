/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.h - rows of many pairs of hosts that move bytes at once
 */
#ifndef PERF_TE_PERF_PAIRS_H
#define PERF_TE_PERF_PAIRS_H

#include "perf/te-perf/options.h"

/* --scheme and --bidirectional: measure all rows in rounds. An exit code. */
int pairs_main(const struct options *o);

#endif
