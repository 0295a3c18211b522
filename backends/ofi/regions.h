/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions.h - registered memory of a rail
 *
 * A region is registered in chunks, each with a key of its own; not at all
 * where neither peers nor the provider need that. Peers get the keys of what
 * they may reach; local pieces of slices find their descriptors by address.
 * Where the provider binds keys to endpoints, peers get them by grants.h.
 *
 * add -> used by operations, reached by peers -> hide: from now on no operation
 * finds it; -EBUSY while one still uses it; then its keys are gone. Where the
 * provider is software, what peers had begun goes on: so the rail's inbound
 * endpoints are closed, by who drives, before hide says 0; without any it needs
 * no fence -> remove
 *
 * Threads: any, by a lock; use() and the calls of fences are of the holder of
 * the drive token, as are the blocks. A region that is in use stays where it
 * is.
 */
#ifndef OFI_REGIONS_H
#define OFI_REGIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backends/ofi/grants.h"
#include "backends/ofi/nic.h"
#include "backends/rdma/range.h"
#include "base/bounce.h"
#include "base/thread.h"

struct ofi_region {
	uint64_t id;
	struct rdma_range range;  /* range.n: keys; 0: none, or taken back */
	bool remote;              /* peers may reach it */
	bool gpu;                 /* no processor may touch it */
	struct ofi_shared shared; /* where keys are bound to endpoints */
	bool hidden;              /* guarded by regions.mu */
	uint64_t fence; /* guarded by regions.mu: 0: none was asked for yet */
	/*
	 * Operations that name it. Raised under regions.mu; lowered without
	 * it, with release, which hide() reads with acquire.
	 */
	_Atomic uint32_t n_uses;
	struct fid_mr *mrs[]; /* mrs[range.n] */
};

struct ofi_regions {
	struct ofi_nic *nic;          /* not owned */
	struct tei_engine_core *core; /* not owned */
	struct tei_mutex mu;          /* lock 25 */
	/* sorted[n] by base; they do not overlap. Guarded by mu. */
	struct ofi_region **sorted;
	size_t n, room;
	struct ofi_grants grants; /* empty where keys are not bound */
	/*
	 * Fences of inbound endpoints: asked for, and done. Guarded by mu;
	 * asked is also read without it, as a hint.
	 */
	_Atomic uint64_t fences_asked;
	uint64_t fences_done;
	/*
	 * Open endpoints by which peers may touch memory whose key has ended.
	 * Guarded by mu.
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
			  struct tei_engine_core *core);
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
 * Locks for several look-ups in a row: the calls with TEI_REQUIRES need it. The
 * provider is asked for nothing with it but descriptors, which it has at hand.
 */
void tei_ofi_regions_lock(struct ofi_regions *regions)
	TEI_ACQUIRES(regions->mu);
void tei_ofi_regions_unlock(struct ofi_regions *regions)
	TEI_RELEASES(regions->mu);
/* The region that has the byte at @addr; NULL: none, or it is hidden. */
struct ofi_region *tei_ofi_region_find(struct ofi_regions *regions,
				       uint64_t addr) TEI_REQUIRES(regions->mu);
/* Notes that an operation names it; ends with done(), without the lock. */
void tei_ofi_region_use(struct ofi_regions *regions, struct ofi_region *region)
	TEI_REQUIRES(regions->mu);
void tei_ofi_region_done(struct ofi_region *region);
/*
 * The descriptor of the byte at @addr, of a region that has it and has keys;
 * *room: bytes under it from there.
 */
void *tei_ofi_region_desc(const struct ofi_regions *regions,
			  const struct ofi_region *region, uint64_t addr,
			  uint64_t *room);

#endif
