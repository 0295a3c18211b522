/* SPDX-License-Identifier: Apache-2.0 */
/* regions.c - a rail's regions in order of their addresses */
#include "backends/rdma/regions.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mapped.h"
#include "base/mem.h"
#include "te/backend.h"

#define ROOM_MIN 16u

void tei_rdma_regions_init(struct rdma_regions *regions)
{
	*regions = (struct rdma_regions){.n = 0};
	tei_mutex_init(&regions->mu);
}

void tei_rdma_regions_fini(struct rdma_regions *regions)
{
	assert(!regions->n);
	tei_free(regions->sorted);
	tei_mutex_fini(&regions->mu);
}

/* ---- looked up ---- */

/* Returns where the first region is that begins behind @addr. */
static size_t place_behind(const struct rdma_regions *regions, uint64_t addr)
{
	size_t low = 0, high = regions->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (regions->sorted[middle]->range.base <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct rdma_region *tei_rdma_region_find(struct rdma_regions *regions,
					 uint64_t addr)
{
	size_t place = place_behind(regions, addr);
	struct rdma_region *region;

	if (!place)
		return NULL;
	region = regions->sorted[place - 1];
	if (region->hidden || !tei_rdma_range_has(&region->range, addr))
		return NULL;
	return region;
}

bool tei_rdma_is_gpu(struct rdma_regions *regions, uint64_t addr)
{
	const struct rdma_region *region = tei_rdma_region_find(regions, addr);

	return region && region->gpu;
}

/* Copying memory that is not pinned may raise SIGBUS: the kernel is asked. */
bool tei_rdma_is_readable(struct rdma_regions *regions, uint64_t addr,
			  uint64_t length)
{
	const struct rdma_region *region = tei_rdma_region_find(regions, addr);

	if (region && region->gpu)
		return false;
	return (region &&
		length <= tei_rdma_range_rest(&region->range, addr)) ||
	       tei_is_there(addr, length, false);
}

/* ---- come and go ---- */

static int insert_locked(struct rdma_regions *regions,
			 struct rdma_region *region) TEI_REQUIRES(regions->mu)
{
	size_t place;

	if (regions->n == regions->room) {
		size_t room = regions->room ? 2 * regions->room : ROOM_MIN;
		struct rdma_region **grown = tei_realloc(
			regions->sorted, room * sizeof(struct rdma_region *));

		if (!grown)
			return -ENOMEM;
		regions->sorted = grown;
		regions->room = room;
	}
	place = place_behind(regions, region->range.base);
	memmove(&regions->sorted[place + 1], &regions->sorted[place],
		(regions->n - place) * sizeof(struct rdma_region *));
	regions->sorted[place] = region;
	regions->n++;
	return 0;
}

int tei_rdma_region_insert(struct rdma_regions *regions,
			   struct rdma_region *region)
{
	int rc;

	tei_mutex_lock(&regions->mu);
	rc = insert_locked(regions, region);
	tei_mutex_unlock(&regions->mu);
	return rc;
}

/* Looks at every region: ids are not sorted, but removing is rare. */
static size_t place_of(const struct rdma_regions *regions, uint64_t id)
{
	size_t place = 0;

	while (place < regions->n && regions->sorted[place]->id != id)
		place++;
	assert(place < regions->n);
	return place;
}

struct rdma_region *tei_rdma_region_hide(struct rdma_regions *regions,
					 uint64_t id, bool *used)
{
	struct rdma_region *region;

	tei_mutex_lock(&regions->mu);
	region = regions->sorted[place_of(regions, id)];
	region->hidden = true;
	*used = atomic_load_explicit(&region->n_uses, memory_order_acquire);
	tei_mutex_unlock(&regions->mu);
	return region;
}

struct rdma_region *tei_rdma_region_take(struct rdma_regions *regions,
					 uint64_t id)
{
	struct rdma_region *region;
	size_t place;

	tei_mutex_lock(&regions->mu);
	place = place_of(regions, id);
	region = regions->sorted[place];
	regions->n--;
	memmove(&regions->sorted[place], &regions->sorted[place + 1],
		(regions->n - place) * sizeof(struct rdma_region *));
	tei_mutex_unlock(&regions->mu);
	return region;
}

/* ---- memory of GPUs ---- */

bool tei_rdma_is_of_gpu(struct tei_engine_core *core, uint64_t id,
			struct rdma_range *range, struct tei_gpu_memory *memory)
{
	if (!core || tei_region_gpu(core, id, range->base, memory))
		return false;
	if (memory->fd >= 0 && memory->length < range->length &&
	    memory->addr == range->base && memory->length < range->chunk)
		range->chunk = memory->length;
	return true;
}

bool tei_rdma_gpu_part(struct tei_engine_core *core,
		       const struct rdma_region *region, uint64_t i,
		       struct tei_gpu_memory *part)
{
	const struct rdma_range *range = &region->range;
	uint64_t at = tei_rdma_chunk_base(range, i);

	return !tei_region_gpu(core, region->id, at, part) && part->fd >= 0 &&
	       at + tei_rdma_chunk_length(range, i) <=
		       part->addr + part->length;
}
