/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions.h - the regions that a rail has registered, by address
 *
 * A backend embeds a region in its own, beside the keys that its provider gave
 * for the chunks. Local pieces of slices find their region by address, and an
 * operation notes which ones it names.
 *
 * insert -> found, used by operations -> hide: from now on nothing finds it,
 * and it is unused once those operations are over -> take out
 *
 * Threads: any, by the lock; operations are noted by the holder of the drive
 * token. A region that is in use stays where it is.
 */
#ifndef RDMA_REGIONS_H
#define RDMA_REGIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/rdma/range.h"
#include "base/thread.h"

struct tei_engine_core;
struct tei_gpu_memory;

struct rdma_region {
	uint64_t id;
	struct rdma_range range; /* range.n: keys; 0: none, or taken back */
	bool gpu;    /* memory of a GPU: no processor may touch it */
	bool hidden; /* guarded by rdma_regions.mu */
	/*
	 * Operations that name it. Raised under the lock; lowered without it,
	 * with release, which hide() reads with acquire.
	 */
	_Atomic uint32_t n_uses;
};

struct rdma_regions {
	struct tei_mutex mu; /* lock 15 */
	/* sorted[n] by base; they do not overlap. Guarded by mu. */
	struct rdma_region **sorted;
	size_t n, room;
};

void tei_rdma_regions_init(struct rdma_regions *regions);
/* Frees the table; all regions are taken out by now. */
void tei_rdma_regions_fini(struct rdma_regions *regions);

/* Inserts a region whose fields are set; it stays the caller's. -ENOMEM. */
int tei_rdma_region_insert(struct rdma_regions *regions,
			   struct rdma_region *region);
/*
 * Hides the region @id, which is in the table. *used: operations still name it;
 * to be asked again.
 */
struct rdma_region *tei_rdma_region_hide(struct rdma_regions *regions,
					 uint64_t id, bool *used);
/* Takes the region @id, which is in the table, out of it. */
struct rdma_region *tei_rdma_region_take(struct rdma_regions *regions,
					 uint64_t id);

/*
 * Locks for several look-ups in a row: the calls with TEI_REQUIRES need it. It
 * is never held while a device is asked for anything that takes time.
 */
static inline void tei_rdma_regions_lock(struct rdma_regions *regions)
	TEI_ACQUIRES(regions->mu)
{
	tei_mutex_lock(&regions->mu);
}

static inline void tei_rdma_regions_unlock(struct rdma_regions *regions)
	TEI_RELEASES(regions->mu)
{
	tei_mutex_unlock(&regions->mu);
}

/* The region that has the byte at @addr; NULL: none, or it is hidden. */
struct rdma_region *tei_rdma_region_find(struct rdma_regions *regions,
					 uint64_t addr)
	TEI_REQUIRES(regions->mu);
/* Tells whether the byte at @addr is of a GPU's memory that is registered. */
bool tei_rdma_is_gpu(struct rdma_regions *regions, uint64_t addr)
	TEI_REQUIRES(regions->mu);
/*
 * Tells whether the processor can read local memory. Quick if one region has
 * it, since registered memory stays pinned; else may block.
 */
bool tei_rdma_is_readable(struct rdma_regions *regions, uint64_t addr,
			  uint64_t length) TEI_REQUIRES(regions->mu);

/* ---- the regions that an operation names ---- */

#define RDMA_USES 2

struct rdma_uses {
	struct rdma_region *of[RDMA_USES]; /* NULL: none */
};

/* Notes that an operation names a region. False: it names as many as it may. */
static inline bool tei_rdma_use(struct rdma_regions *regions,
				struct rdma_uses *uses,
				struct rdma_region *region)
	TEI_REQUIRES(regions->mu)
{
	(void)regions;
	for (int i = 0; i < RDMA_USES; i++) {
		if (uses->of[i] == region)
			return true;
		if (uses->of[i])
			continue;
		uses->of[i] = region;
		atomic_fetch_add_explicit(&region->n_uses, 1,
					  memory_order_relaxed);
		return true;
	}
	return false;
}

/* Ends what an operation has noted; afterwards it names none. No lock. */
static inline void tei_rdma_uses_end(struct rdma_uses *uses)
{
	for (int i = 0; i < RDMA_USES && uses->of[i]; i++) {
		atomic_fetch_sub_explicit(&uses->of[i]->n_uses, 1,
					  memory_order_release);
		uses->of[i] = NULL;
	}
}

/* ---- memory of GPUs ---- */

/*
 * Tells whether a range that is to be registered is a GPU's memory. Then a part
 * that is exported alone is the most that a key can have, and range->chunk is
 * lowered to that. For region_add(): *memory is valid as tei_region_gpu() says.
 * @core NULL: all is the host's.
 */
bool tei_rdma_is_of_gpu(struct tei_engine_core *core, uint64_t id,
			struct rdma_range *range,
			struct tei_gpu_memory *memory);
/*
 * Finds the exported part of a GPU's memory that has chunk @i of the region.
 * False: no part has all of it, or it has no descriptor. As above.
 */
bool tei_rdma_gpu_part(struct tei_engine_core *core,
		       const struct rdma_region *region, uint64_t i,
		       struct tei_gpu_memory *part);

#endif
