/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.h - the bytes of a load: made before it, compared after it
 */
#ifndef PERF_TE_PERF_VERIFY_H
#define PERF_TE_PERF_VERIFY_H

#include "perf/te-perf/load.h"

/*
 * Make the local working set new, and for reads the target's too, so that
 * both differ from whatever was there. @seed: another one each time. -errno.
 */
int verify_prepare(const struct load *l, uint64_t seed);

/*
 * Compare @percent of the slots that were used (64 at least, if there are as
 * many): what was read with what the target had, what was written by reading
 * it back. *checked and *wrong are bytes. -errno.
 */
int verify_check(const struct load *l, const struct load_result *result,
		 uint64_t seed, double percent, uint64_t *checked,
		 uint64_t *wrong);

#endif
