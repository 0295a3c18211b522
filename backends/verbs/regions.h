/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions.h - registered memory of a rail
 *
 * A region is registered in chunks, each with a key of its own. Peers get the
 * keys of what they may reach; local pieces of slices find theirs by address.
 *
 * add -> used by work requests, reached by peers -> hide: from now on no work
 * request finds it; -EBUSY while one still uses it; then its keys are gone, and
 * so is what peers had under way -> remove
 *
 * Threads: any, by a lock; use() is of the holder of the drive token. A region
 * that is in use stays where it is.
 */
#ifndef VERBS_REGIONS_H
#define VERBS_REGIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backends/rdma/range.h"
#include "backends/verbs/port.h"
#include "base/thread.h"

struct verbs_region {
	uint64_t id;
	struct rdma_range range; /* range.n: keys; 0: taken back */
	bool hidden;             /* guarded by regions.mu */
	bool gpu;                /* memory of a GPU: no processor touches it */
	/*
	 * Work requests that name it. Raised under regions.mu; lowered without
	 * it, with release, which hide() reads with acquire.
	 */
	_Atomic uint32_t n_uses;
	struct ibv_mr *mrs[]; /* mrs[range.n] */
};

struct tei_engine_core;

struct verbs_regions {
	const struct verbs_port *port; /* not owned */
	struct ibv_pd *pd;             /* not owned */
	/* Core that knows whose memory it is; NULL: all is the host's. */
	struct tei_engine_core *core;
	struct tei_mutex mu; /* lock 15 */
	/* sorted[n] by base; they do not overlap. Guarded by mu. */
	struct verbs_region **sorted;
	size_t n, room;
};

void tei_verbs_regions_init(struct verbs_regions *regions,
			    const struct verbs_port *port, struct ibv_pd *pd);
/* Frees the table; all regions are removed by now. */
void tei_verbs_regions_fini(struct verbs_regions *regions);

/*
 * region_add(), region_hide(), region_remove() of te/backend.h. -ENOMEM: no
 * memory, or the process may not lock so much; -EFAULT: it is not mapped, or
 * only for reading; -ENOBUFS: the device has no keys left, or too many chunks;
 * -EOPNOTSUPP: a GPU's, which the device cannot reach; all with the reason in
 * the log.
 */
int tei_verbs_region_add(struct verbs_regions *regions, uint64_t id, void *addr,
			 uint64_t length, uint32_t access, void *key,
			 size_t *len);
int tei_verbs_region_hide(struct verbs_regions *regions, uint64_t id);
void tei_verbs_region_remove(struct verbs_regions *regions, uint64_t id);

/*
 * Locks for several look-ups in a row: the calls with TEI_REQUIRES need it. It
 * is never held while a device is asked for anything.
 */
void tei_verbs_regions_lock(struct verbs_regions *regions)
	TEI_ACQUIRES(regions->mu);
void tei_verbs_regions_unlock(struct verbs_regions *regions)
	TEI_RELEASES(regions->mu);
/* The region that has the byte at @addr; NULL: none, or it is hidden. */
struct verbs_region *tei_verbs_region_find(struct verbs_regions *regions,
					   uint64_t addr)
	TEI_REQUIRES(regions->mu);
/*
 * Tells whether the processor can read local memory. Quick if one region has
 * it; else may block.
 */
bool tei_verbs_is_readable(struct verbs_regions *regions, uint64_t addr,
			   uint64_t length) TEI_REQUIRES(regions->mu);
/* Tells whether the byte at @addr is of a GPU's memory that is registered. */
bool tei_verbs_is_gpu(struct verbs_regions *regions, uint64_t addr)
	TEI_REQUIRES(regions->mu);
/* A work request names it; end with done(), without the lock. */
void tei_verbs_region_use(struct verbs_regions *regions,
			  struct verbs_region *region)
	TEI_REQUIRES(regions->mu);
void tei_verbs_region_done(struct verbs_region *region);
/*
 * The key of the byte at @addr, which it has; *room: bytes under it from there.
 */
uint32_t tei_verbs_region_key(const struct verbs_region *region, uint64_t addr,
			      uint64_t *room);

/*
 * Why @length bytes were not registered, in words, for errno @err; @memlock:
 * the process's limit, UINT64_MAX for none. Pure.
 */
const char *tei_verbs_refusal(int err, uint64_t length, uint64_t memlock);
/* Returns what is known of such devices, for behind it, or "". Pure. */
const char *tei_verbs_refusal_hint(const struct ibv_device_attr *device);

#endif
