/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - a load of one kind of call, over keys that no thread shares
 */
#ifndef PERF_STORE_PERF_WALK_H
#define PERF_STORE_PERF_WALK_H

#include "perf/store-perf/options.h"

/*
 * Measures all rows that @o asks for, and reports. An exit code; errors are
 * said.
 */
int walk_run(const struct options *o);

#endif
