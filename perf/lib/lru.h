/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lru.h - what an LRU cache of given size would have hit in a trace
 */
#ifndef PERF_LIB_LRU_H
#define PERF_LIB_LRU_H

#include <stdint.h>

#include "perf/lib/trace.h"

#define TEI_LRU_UNLIMITED UINT64_MAX

/*
 * Blocks of @t, in the trace's order, that are in an LRU of @capacity blocks
 * when they are read; each is in it afterwards. -ENOMEM.
 */
int tei_lru_hits(const struct tei_trace *t, uint64_t capacity,
		 uint64_t *out_hits);

#endif
