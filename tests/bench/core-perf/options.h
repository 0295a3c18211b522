/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - settings of te-core-perf
 */
#ifndef PERF_CORE_PERF_OPTIONS_H
#define PERF_CORE_PERF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
	const char *only;
	uint64_t objects, asked, value_size, cycles, expire, space_rounds;
	bool json;
};

#endif
