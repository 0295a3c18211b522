/* SPDX-License-Identifier: Apache-2.0 */
/* runtimes.c - the drivers of GPUs that this library knows */
#include "te/device/cuda.h"
#include "te/device/runtime.h"

const struct tei_runtime_ops *const tei_runtimes[] = {&tei_cuda_ops, NULL};
_Static_assert(sizeof(tei_runtimes) / sizeof(tei_runtimes[0]) <=
		       TEI_RUNTIMES_MAX,
	       "there is room for all");
