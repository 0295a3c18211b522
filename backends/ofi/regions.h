/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions.h - registered memory of a rail
 *
 * A region is registered in chunks, each with a key of its own; not at all
 * where neither peers nor the provider need that. Peers get the keys of what
 * they may reach; local pieces of slices find their descriptors by address.
 * Where the provider binds keys to endpoints, peers get them by grants.h. A
 * device that has no room for all of a region takes some of its chunks; local
 * memory in the others is used as memory that is not registered.
 *
 * add -> used by operations, reached by peers -> hide: from now on no operation
 * finds it; -EBUSY while one still uses it; then its keys are gone. Where the
 * provider is software, what peers had begun goes on: so the rail's inbound
 * endpoints are closed, by who drives, before hide says 0; without any it needs
 * no fence -> remove
 *
 * Threads: any, by a lock; uses are noted by the holder of the drive token, who
 * also has the calls of fences and the blocks. A region that is in use stays
 * where it is.
 */
#ifndef OFI_REGIONS_H
#define OFI_REGIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backends/ofi/grants.h"
#include "backends/ofi/nic.h"
#include "backends/rdma/regions.h"
#include "base/bounce.h"

struct ofi_region {
	struct rdma_region common; /* first */
	bool remote;               /* peers may reach it */
	struct ofi_shared shared;  /* where keys are bound to endpoints */
	uint64_t fence; /* guarded by table.mu: 0: none was asked for yet */
	/* mrs[common.range.n]; NULL: a chunk that the device had no room for */
	struct fid_mr *mrs[];
};

static inline struct ofi_region *ofi_region(const struct rdma_region *region)
{
	return (struct ofi_region *)(uintptr_t)region;
}

struct ofi_regions {
	struct ofi_nic *nic;         /* not owned */
	const struct tei_rail *rail; /* not owned; for the core */
	struct rdma_regions table;   /* ofi_region.common */
	struct ofi_grants grants;    /* empty where keys are not bound */
	/*
	 * Fences of inbound endpoints: asked for, and done. Guarded by
	 * table.mu; asked is also read without it, as a hint.
	 */
	_Atomic uint64_t fences_asked;
	uint64_t fences_done;
	/*
	 * Open endpoints by which peers may touch memory whose key has ended.
	 * Guarded by table.mu.
	 */
	uint32_t n_inbound;
	/*
	 * Blocks for local memory that is not registered, where the provider
	 * needs that; none elsewhere, or where they cannot be had. Token.
	 */
	struct tei_bounce bounce;
	struct fid_mr *bounce_mr; /* of all blocks; NULL: there are none */
};

void tei_ofi_regions_init(struct ofi_regions *regions, struct ofi_nic *nic,
			  const struct tei_rail *rail);
/* Frees the table; all regions are removed, all blocks given back by now. */
void tei_ofi_regions_fini(struct ofi_regions *regions);

/*
 * region_add(), region_hide(), region_remove() of te/backend.h. -ENOBUFS: too
 * many chunks, or no keys left; -EOPNOTSUPP: a GPU's memory that the provider
 * does not take; other errors are the provider's, logged.
 * hide(): *kick is set where progress() is to be called for its fence.
 */
int tei_ofi_region_add(struct ofi_regions *regions, uint64_t id, void *addr,
		       uint64_t length, uint32_t access, void *key,
		       size_t *len);
int tei_ofi_region_hide(struct ofi_regions *regions, uint64_t id, bool *kick);
void tei_ofi_region_remove(struct ofi_regions *regions, uint64_t id);

/*
 * Counts an endpoint by which a peer may touch memory whose key has ended:
 * before a peer can use it, and once it is closed. Token.
 */
void tei_ofi_inbound_opened(struct ofi_regions *regions);
void tei_ofi_inbound_closed(struct ofi_regions *regions);

/* The last fence that was asked for, or 0: all are done. Token. */
uint64_t tei_ofi_fence_asked(struct ofi_regions *regions);
/* Notes that inbound endpoints were closed since @fence was seen. Token. */
void tei_ofi_fence_done(struct ofi_regions *regions, uint64_t fence);

/*
 * Finds the descriptor of the byte at @addr, of a region that has it and has
 * keys; *room: bytes under it from there. The provider has it at hand. False:
 * its chunk is not registered.
 */
static inline bool tei_ofi_region_desc(const struct ofi_regions *regions,
				       const struct rdma_region *region,
				       uint64_t addr, uint64_t *room,
				       void **desc)
{
	uint64_t i = tei_rdma_chunk_at(&region->range, addr, room);
	struct fid_mr *mr = ofi_region(region)->mrs[i];

	if (!mr)
		return false;
	*desc = regions->nic->api->mr_desc(mr);
	return true;
}

#endif
