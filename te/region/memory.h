/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - what te_memory_alloc() and te_memory_alloc_at() have given
 *
 *   memory.c  mappings of the host
 *   place.c   memory of GPUs, of NUMA nodes, and locked for GPUs
 */
#ifndef TE_REGION_MEMORY_H
#define TE_REGION_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "te/device/device.h"

struct te_engine;

struct tei_memory {
	struct tei_list link; /* engine->memories */
	void *addr;
	size_t length, asked; /* mapped; by the caller */
	int fd;               /* -1: anonymous, or of a GPU */
	int node;             /* of NUMA, that its pages come from; -1: any */
	bool of_gpu;
	bool reserved; /* huge pages that were committed at once */
	/* Driver that has the memory or has locked it; ops NULL: none. */
	struct tei_gpu_named gpu;
};

/*
 * Maps @length bytes, 1 .. TE_LENGTH_MAX, of the NUMA node, -1: of any.
 * Returns 0, -ENOMEM.
 */
int tei_memory_map(const struct te_engine *engine, uint64_t length, int node,
		   struct tei_memory **out);
/* Has the engine know it until te_memory_free(). Returns its address. */
void *tei_memory_keep(struct te_engine *engine, struct tei_memory *memory);
/* Frees what the engine does not know: unlocks it, unmaps it. */
void tei_memory_drop(struct tei_memory *memory);

/*
 * Tells whether all of the range is memory of the host of one
 * te_memory_alloc(), whose pages come when they are touched. Takes lock 10.
 */
bool tei_memory_is_lazy(struct te_engine *engine, const void *addr,
			uint64_t length);

/* ---- place.c ---- */

/*
 * Has pages of a new mapping come from its node, as far as that has room. A
 * process that may not say so gets them from where it runs.
 */
void tei_memory_bind(const struct tei_memory *memory);
/*
 * Has pages of no node that this thread touches come from @node, as far as that
 * has room; -1: from where it runs. Nothing changes where the process has a
 * policy of its own, as of numactl.
 */
void tei_memory_prefer(int node);
/* Returns the node where this thread runs; -1: not known. */
int tei_memory_node(void);
/* Gives back what drivers of GPUs have of it. */
void tei_memory_leave_gpu(struct tei_memory *memory);

#endif
