/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.h - new bytes before a load, and the comparison after it
 */
#ifndef PERF_TE_PERF_VERIFY_H
#define PERF_TE_PERF_VERIFY_H

#include <stdint.h>

#include "perf/te-perf/load.h"
#include "perf/te-perf/memory.h"

/*
 * Makes the local working set new, and for reads the target's too, so that both
 * differ from whatever was there. @local is the memory of l->local; @seed is
 * another one each time. -errno. Blocks.
 */
int verify_prepare(const struct load *l, struct memory *local, uint64_t seed);
/*
 * Compares @percent of the slots that were used (64 at least, if there are as
 * many): what was read with what the target had, what was written by reading it
 * back. Adds bytes to *checked and *wrong. -errno. Blocks.
 */
int verify_check(const struct load *l, struct memory *local,
		 const struct load_result *result, uint64_t seed,
		 double percent, uint64_t *checked, uint64_t *wrong);

#endif
