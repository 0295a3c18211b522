/* SPDX-License-Identifier: Apache-2.0 */
/*
 * costs.h - what comes before requests: registration, and the first one
 */
#ifndef PERF_TE_PERF_COSTS_H
#define PERF_TE_PERF_COSTS_H

#include "perf/te-perf/options.h"

/*
 * --registration: register and unregister memory of each size, over and over
 * for --duration. --first_request: the same with an engine that is created,
 * opens the target, and writes twice. Both report and return an exit code.
 */
int costs_main(const struct options *o);

#endif
