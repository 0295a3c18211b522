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
 * Threads: any, by a lock; uses are noted by the holder of the drive token. A
 * region that is in use stays where it is.
 */
#ifndef VERBS_REGIONS_H
#define VERBS_REGIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/rdma/regions.h"
#include "backends/verbs/port.h"

struct verbs_region {
	struct rdma_region common; /* first */
	struct ibv_mr *mrs[];      /* mrs[common.range.n] */
};

struct tei_engine_core;

struct verbs_regions {
	const struct verbs_port *port; /* not owned */
	struct ibv_pd *pd;             /* not owned */
	/* Core that knows whose memory it is; NULL: all is the host's. */
	struct tei_engine_core *core;
	struct rdma_regions table; /* verbs_region.common */
};

static inline struct verbs_region *
verbs_region(const struct rdma_region *region)
{
	return (struct verbs_region *)(uintptr_t)region;
}

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
 * Returns the key of the byte at @addr, which the region has; *room: bytes
 * under it from there.
 */
static inline uint32_t tei_verbs_region_key(const struct rdma_region *region,
					    uint64_t addr, uint64_t *room)
{
	uint64_t i = tei_rdma_chunk_at(&region->range, addr, room);

	return verbs_region(region)->mrs[i]->lkey;
}

/*
 * Why @length bytes were not registered, in words, for errno @err; @memlock:
 * the process's limit, UINT64_MAX for none. Pure.
 */
const char *tei_verbs_refusal(int err, uint64_t length, uint64_t memlock);
/* Returns what is known of such devices, for behind it, or "". Pure. */
const char *tei_verbs_refusal_hint(const struct ibv_device_attr *device);

#endif
