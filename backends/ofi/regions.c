/* SPDX-License-Identifier: Apache-2.0 */
/* regions.c - register memory in chunks, find descriptors by address */
#include "backends/ofi/regions.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <sys/random.h>
#include <unistd.h>

#include <te/te.h>

#include "base/log.h"
#include "base/mem.h"

#define TRIES 8 /* of random keys, one of which may be in use */
#define GiB   ((uint64_t)1 << 30)
#define MiB   ((uint64_t)1 << 20)

/* ---- registering ---- */

static int mr_mode(const struct ofi_nic *nic)
{
	return nic->info->domain_attr->mr_mode;
}

/* Bytes of a chunk: whole pages, or all of the region. */
static uint64_t chunk_of(const struct ofi_nic *nic, uint64_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t chunk = nic->config->chunk;

	if (!chunk || chunk >= length)
		return length;
	return chunk > page ? chunk / page * page : page;
}

/*
 * Returns the bytes of a chunk of a region that is registered in part: small
 * enough for OFI_PARTS_MAX of them, whole pages, and of whatever size those
 * are where the region has that much. 0: the settings want smaller ones, or it
 * cannot be cut.
 */
static uint64_t part_of(const struct ofi_nic *nic, uint64_t length)
{
	uint64_t most = chunk_of(nic, length);
	uint64_t part = (length - 1) / OFI_PARTS_MAX + 1;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	page = part >= GiB ? GiB : part >= 2 * MiB ? 2 * MiB : page;
	part = tei_rdma_least((part - 1) / page * page + page, most);
	if (part >= length || tei_rdma_chunks(length, part) > OFI_PARTS_MAX)
		return 0;
	return part;
}

static bool is_bound(const struct ofi_nic *nic)
{
	return mr_mode(nic) & FI_MR_ENDPOINT;
}

static uint64_t rights_of_peers(uint32_t access)
{
	return (access & TE_ACCESS_REMOTE_READ ? FI_REMOTE_READ : 0) |
	       (access & TE_ACCESS_REMOTE_WRITE ? FI_REMOTE_WRITE : 0);
}

/*
 * Rights of a region's own keys. Where those of peers are bound to endpoints,
 * one of no use to peers stays for as long as the region: providers keep what
 * is registered in a cache, so that making the others takes little time.
 */
static uint64_t rights_of(const struct ofi_nic *nic, uint32_t access)
{
	uint64_t of_peers = rights_of_peers(access);

	if (is_bound(nic))
		return of_peers ? FI_READ | FI_WRITE : 0;
	return of_peers | (mr_mode(nic) & FI_MR_LOCAL ? FI_READ | FI_WRITE : 0);
}

/*
 * A key that nobody guesses, nor has from before. Where the provider chooses
 * it, this one is not looked at.
 */
static int random_key(const struct ofi_nic *nic, uint64_t *out)
{
	size_t size = nic->info->domain_attr->mr_key_size;

	if (getrandom(out, sizeof(*out), 0) != sizeof(*out))
		return -EIO;
	if (size < sizeof(*out))
		*out &= ((uint64_t)1 << 8 * size) - 1;
	return 0;
}

static int register_as(struct ofi_nic *nic, struct fi_mr_attr *attr,
		       uint64_t flags, struct fid_mr **out)
{
	int rc = -FI_ENOKEY;

	for (int i = 0; i < TRIES && rc == -FI_ENOKEY; i++) {
		rc = random_key(nic, &attr->requested_key);
		if (rc)
			break;
		tei_ofi_nic_lock(nic);
		rc = nic->api->mr_regattr(nic->domain, attr, flags, out);
		tei_ofi_nic_unlock(nic);
	}
	return rc;
}

static int register_chunk(struct ofi_nic *nic, uint64_t at, uint64_t length,
			  uint64_t rights, struct fid_mr **out)
{
	struct iovec iov = {(void *)(uintptr_t)at, length};
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = rights};

	return register_as(nic, &attr, 0, out);
}

static int close_key(const struct ofi_regions *regions, struct fid_mr *mr)
{
	int rc;

	tei_ofi_nic_lock(regions->nic);
	rc = regions->nic->api->close(&mr->fid);
	tei_ofi_nic_unlock(regions->nic);
	return rc;
}

/*
 * Tells whether the device has what was registered. From 2.1 on efa also takes
 * a GPU's memory to which its devices have no way: then the key, which is the
 * provider's alone, is longer than those of its devices.
 */
static bool is_of_device(const struct ofi_nic *nic, struct fid_mr *mr)
{
	size_t size = nic->info->domain_attr->mr_key_size;

	return size >= sizeof(uint64_t) || !(nic->api->mr_key(mr) >> 8 * size);
}

/* Registers chunk @i of a GPU's memory, as a dma-buf. */
static int register_dmabuf(const struct ofi_regions *regions,
			   const struct ofi_region *region, uint32_t i,
			   uint64_t rights, struct fid_mr **out)
{
	const struct rdma_range *range = &region->common.range;
	struct tei_gpu_memory part;
	struct fi_mr_dmabuf d = {.len = tei_rdma_chunk_length(range, i)};
	struct fi_mr_attr attr = {.mr_iov = (const void *)&d,
				  .iov_count = 1,
				  .access = rights,
				  .iface = FI_HMEM_CUDA};
	int rc;

	if (!tei_rdma_gpu_part(regions->rail->core, &region->common, i, &part))
		return -FI_EOPNOTSUPP;
	d.fd = part.fd;
	d.offset = tei_rdma_chunk_base(range, i) - part.addr;
	d.base_addr = (void *)(uintptr_t)part.addr;
	attr.device.cuda = part.gpu;
	rc = register_as(regions->nic, &attr, FI_MR_DMABUF, out);
	if (rc || is_of_device(regions->nic, *out))
		return rc;
	(void)close_key(regions, *out);
	return -FI_EOPNOTSUPP;
}

static int register_chunk_of(const struct ofi_regions *regions,
			     struct ofi_region *region, uint32_t i,
			     uint64_t rights)
{
	const struct rdma_range *range = &region->common.range;
	struct fid_mr *mr;
	int rc;

	rc = region->common.gpu
		     ? register_dmabuf(regions, region, i, rights, &mr)
		     : register_chunk(
			       regions->nic, tei_rdma_chunk_base(range, i),
			       tei_rdma_chunk_length(range, i), rights, &mr);
	if (!rc)
		region->mrs[i] = mr;
	return rc;
}

/* -EBUSY: the provider keeps some, which is logged; to be tried again. */
static int take_keys_back(const struct ofi_regions *regions,
			  struct ofi_region *region)
{
	static struct tei_log_limit limit = {.per_minute = 6};
	struct rdma_range *range = &region->common.range;
	int rc;

	for (; range->n; range->n--) {
		struct fid_mr **mr = &region->mrs[range->n - 1];

		rc = *mr ? close_key(regions, *mr) : 0;
		if (!rc) {
			*mr = NULL;
			continue;
		}
		if (tei_log_allowed(&limit))
			LOG_ERROR("rail %s: a key cannot be taken back: %s",
				  regions->nic->name,
				  regions->nic->api->strerror(-rc));
		return -EBUSY;
	}
	return 0;
}

/* Takes back what it can: keys that the provider keeps are left to it. */
static void leave_keys(const struct ofi_regions *regions,
		       struct ofi_region *region)
{
	while (take_keys_back(regions, region))
		region->mrs[--region->common.range.n] = NULL;
}

static int log_refusal(const struct ofi_regions *regions,
		       const struct ofi_region *region, int rc)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	const struct rdma_region *r = &region->common;
	const struct ofi_nic *nic = regions->nic;
	bool told = tei_log_allowed(&limit);

	if (told && r->gpu)
		LOG_WARN("rail %s: %" PRIu64 " bytes of a GPU at %#" PRIx64
			 " are not reached: %s",
			 nic->name, r->range.length, r->range.base,
			 nic->api->strerror(-rc));
	else if (told)
		LOG_ERROR("rail %s: %" PRIu64 " bytes at %#" PRIx64
			  " cannot be registered: %s",
			  nic->name, r->range.length, r->range.base,
			  nic->api->strerror(-rc));
	rc = tei_ofi_error(rc);
	if (r->gpu && rc != -ENOMEM && rc != -ENOSPC)
		return -EOPNOTSUPP; /* another way may reach it */
	return rc == -ENOSPC || rc == -EACCES ? -ENOBUFS : rc;
}

/* Registers all chunks, or none. Returns what the provider says. */
static int register_all(const struct ofi_regions *regions,
			struct ofi_region *region, uint32_t n, uint64_t rights)
{
	struct rdma_range *range = &region->common.range;
	int rc = 0;

	while (!rc && range->n < n) {
		rc = register_chunk_of(regions, region, range->n, rights);
		range->n += !rc;
	}
	if (rc)
		leave_keys(regions, region);
	return rc;
}

/* ---- registering in part ---- */

/*
 * Devices have a limit of the pages under all keys, and one of those under each
 * key. Providers say either of these, also where there is another cause.
 */
static bool is_want_of_room(int rc)
{
	return rc == -FI_ENOMEM || rc == -FI_ENOSPC || rc == -FI_EINVAL;
}

/*
 * Tells whether a region may be registered in part: not a GPU's memory, as no
 * processor may copy what is not registered, nor where keys are bound, which
 * are made later on, of all of it.
 */
static bool may_be_in_part(const struct ofi_regions *regions,
			   const struct ofi_region *region)
{
	return !region->common.gpu && !is_bound(regions->nic);
}

/* Returns the bytes of all chunks that are registered. */
static uint64_t length_of_parts(const struct ofi_region *region)
{
	const struct rdma_range *range = &region->common.range;
	uint64_t length = 0;

	for (uint32_t i = 0; i < range->n; i++) {
		if (region->mrs[i])
			length += tei_rdma_chunk_length(range, i);
	}
	return length;
}

/* Registers chunks from @first on, cyclically, until one is refused. */
static int register_from(const struct ofi_regions *regions,
			 struct ofi_region *region, uint32_t first,
			 uint64_t rights, uint32_t *taken)
{
	uint32_t n = region->common.range.n;
	int rc = 0;

	for (*taken = 0; *taken < n; ++*taken) {
		uint32_t i = (first + *taken) % n;

		rc = register_chunk_of(regions, region, i, rights);
		if (rc)
			break;
	}
	return rc;
}

static void log_parts(const struct ofi_regions *regions,
		      const struct ofi_region *region, int why)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	const struct rdma_range *range = &region->common.range;
	uint64_t there = length_of_parts(region);

	if (tei_log_allowed(&limit))
		LOG_INFO("rail %s: %" PRIu64 " of %" PRIu64
			 " bytes at %#" PRIx64
			 " are registered, in parts of %" PRIu64
			 ": the device has no room for all of it%s (%s)%s",
			 regions->nic->name, there, range->length, range->base,
			 range->chunk,
			 there == range->length ? " under one key" : "",
			 regions->nic->api->strerror(-why),
			 there == range->length
				 ? ""
				 : "; the rest goes by other rails");
}

/* Gives a chunk back, unless the provider keeps it. */
static void give_back(const struct ofi_regions *regions,
		      struct ofi_region *region, uint32_t i)
{
	if (!close_key(regions, region->mrs[i]))
		region->mrs[i] = NULL;
}

/*
 * Registers as many of a region's chunks as the device has room for, less one,
 * whose room is left to endpoints and small regions. @why: what the provider
 * said of all of it. Returns what it says: 0 if one chunk is registered.
 */
static int register_parts(const struct ofi_regions *regions,
			  struct ofi_region *region, uint64_t rights, int why)
{
	struct rdma_range *range = &region->common.range;
	uint32_t n_rails, taken, first, place;
	int rc;

	place = tei_region_spread(regions->rail, region->common.id, &n_rails);
	if (!n_rails)
		return why;
	range->n = (uint32_t)tei_rdma_chunks(range->length, range->chunk);
	first = (uint32_t)((uint64_t)range->n * place / n_rails);
	rc = register_from(regions, region, first, rights, &taken);
	if (rc && (!taken || !is_want_of_room(rc))) {
		leave_keys(regions, region);
		return rc;
	}
	if (rc && taken > 1)
		give_back(regions, region, (first + taken - 1) % range->n);
	log_parts(regions, region, why);
	return 0;
}

/* Registers a region, whole or else in part, logged where that fails. */
static int register_region(const struct ofi_regions *regions,
			   struct ofi_region *region, uint32_t n,
			   uint64_t rights)
{
	uint64_t part = part_of(regions->nic, region->common.range.length);
	int rc = register_all(regions, region, n, rights);

	if (part && is_want_of_room(rc) && may_be_in_part(regions, region)) {
		region->common.range.chunk = part;
		rc = register_parts(regions, region, rights, rc);
	}
	return rc ? log_refusal(regions, region, rc) : 0;
}

/* Has peers reach it by keys of their endpoints. */
static int share(struct ofi_regions *regions, struct ofi_region *region,
		 uint32_t n, uint64_t rights)
{
	struct ofi_shared *shared = &region->shared;
	int rc;

	shared->range = region->common.range;
	shared->range.n = n;
	shared->rights = rights;
	rc = tei_ofi_share(&regions->grants, shared);
	return rc ? log_refusal(regions, region, rc) : 0;
}

/* Returns which of @n chunks have no key, as struct ofi_key has it. */
static uint64_t lacks_of(const struct ofi_region *region, uint32_t n)
{
	uint64_t lacks = 0;

	if (n > OFI_PARTS_MAX)
		return 0; /* none: it is registered whole */
	for (uint32_t i = 0; i < n; i++)
		lacks |= (uint64_t)!region->mrs[i] << i;
	return lacks;
}

static uint64_t key_of(const struct ofi_nic *nic,
		       const struct ofi_region *region, uint32_t i)
{
	if (is_bound(nic))
		return region->shared.secret + i;
	return region->mrs[i] ? nic->api->mr_key(region->mrs[i]) : 0;
}

static int encode_key(const struct ofi_regions *regions,
		      const struct ofi_region *region, void *key, size_t *len)
{
	const struct ofi_nic *nic = regions->nic;
	struct ofi_key k = {.offsets = !(mr_mode(nic) & FI_MR_VIRT_ADDR),
			    .range = region->common.range};
	int rc;

	if (is_bound(nic))
		k.range.n = region->shared.range.n;
	if (is_bound(nic))
		k.bound = (unsigned int)nic->info->domain_attr->mr_key_size;
	else
		k.lacks = lacks_of(region, k.range.n);
	/* Not for peers: only which chunks there are, if not all. */
	if (!region->remote && !k.lacks)
		k.range.n = 0;
	rc = tei_ofi_key_encode(&k, key, len);
	for (uint32_t i = 0; i < k.range.n && !rc; i++)
		tei_ofi_key_set(key, i,
				region->remote ? key_of(nic, region, i) : 0);
	return rc;
}

static uint32_t chunks_of(const struct ofi_nic *nic, uint64_t length,
			  uint64_t chunk)
{
	uint64_t n = tei_rdma_chunks(length, chunk);

	if (n <= OFI_CHUNKS_MAX)
		return (uint32_t)n;
	LOG_ERROR("rail %s: %" PRIu64 " bytes need %" PRIu64 " keys of %" PRIu64
		  " bytes each, and a region has %d: raise ofi.chunk",
		  nic->name, length, n, chunk, OFI_CHUNKS_MAX);
	return 0;
}

/* ---- blocks that stand in for memory which is not registered ---- */

static void make_blocks(struct ofi_regions *regions)
{
	struct tei_bounce *bounce = &regions->bounce;
	struct ofi_nic *nic = regions->nic;
	int rc = tei_bounce_init(bounce, nic->config->bounce);

	if (!rc && bounce->n)
		rc = register_chunk(nic, (uintptr_t)bounce->memory,
				    (uint64_t)bounce->n * TEI_BOUNCE_LEN,
				    FI_READ | FI_WRITE, &regions->bounce_mr);
	if (!rc)
		return;
	LOG_WARN("rail %s: no bounce buffers, so it does not carry memory that "
		 "is not registered: %s",
		 nic->name, nic->api->strerror(-rc));
	regions->bounce_mr = NULL;
	tei_bounce_fini(bounce);
}

static void end_blocks(struct ofi_regions *regions)
{
	int rc = 0;

	if (regions->bounce_mr)
		rc = close_key(regions, regions->bounce_mr);
	if (rc)
		LOG_ERROR("rail %s: a key cannot be taken back: %s",
			  regions->nic->name, regions->nic->api->strerror(-rc));
	tei_bounce_fini(&regions->bounce);
}

void tei_ofi_regions_init(struct ofi_regions *regions, struct ofi_nic *nic,
			  const struct tei_rail *rail)
{
	*regions = (struct ofi_regions){.nic = nic, .rail = rail};
	tei_rdma_regions_init(&regions->table);
	tei_ofi_grants_init(&regions->grants, nic);
	if (mr_mode(nic) & FI_MR_LOCAL)
		make_blocks(regions);
}

void tei_ofi_regions_fini(struct ofi_regions *regions)
{
	end_blocks(regions);
	tei_ofi_grants_fini(&regions->grants);
	tei_rdma_regions_fini(&regions->table);
}

/* ---- adding ---- */

/* Returns how many chunks a region may have, registered whole or in part. */
static size_t mrs_of(const struct ofi_nic *nic, uint64_t length, uint32_t n)
{
	return n < OFI_PARTS_MAX && part_of(nic, length) ? OFI_PARTS_MAX : n;
}

int tei_ofi_region_add(struct ofi_regions *regions, uint64_t id, void *addr,
		       uint64_t length, uint32_t access, void *key, size_t *len)
{
	const struct ofi_nic *nic = regions->nic;
	uint64_t rights = rights_of(nic, access);
	uint64_t of_peers = rights_of_peers(access);
	struct rdma_range range = {.base = (uintptr_t)addr,
				   .length = length,
				   .chunk = chunk_of(nic, length)};
	struct tei_gpu_memory memory;
	bool gpu = tei_rdma_is_of_gpu(regions->rail->core, id, &range, &memory);
	uint32_t n = chunks_of(nic, length, range.chunk);
	struct ofi_region *region;
	int rc;

	if (gpu && !nic->gpus)
		return -EOPNOTSUPP;
	if (!n)
		return -ENOBUFS;
	region =
		tei_calloc(1, sizeof(*region) + mrs_of(nic, length, n) *
							sizeof(region->mrs[0]));
	if (!region)
		return -ENOMEM;
	region->common.id = id;
	region->common.range = range;
	region->common.gpu = gpu;
	region->remote = of_peers;
	tei_ofi_shared_init(&region->shared);
	rc = rights ? register_region(regions, region, n, rights) : 0;
	if (rc)
		goto free_region;
	if (of_peers && is_bound(nic))
		rc = share(regions, region, n, of_peers);
	if (rc)
		goto leave_keys;
	rc = encode_key(regions, region, key, len);
	if (rc)
		goto leave_keys;
	rc = tei_rdma_region_insert(&regions->table, &region->common);
	if (rc)
		goto leave_keys;
	return 0;

leave_keys:
	tei_ofi_forget_region(&regions->grants, &region->shared);
	leave_keys(regions, region);
free_region:
	tei_free(region);
	assert(rc < 0);
	return rc;
}

/* ---- removing ---- */

void tei_ofi_inbound_opened(struct ofi_regions *regions)
{
	tei_rdma_regions_lock(&regions->table);
	regions->n_inbound++;
	tei_rdma_regions_unlock(&regions->table);
}

void tei_ofi_inbound_closed(struct ofi_regions *regions)
{
	tei_rdma_regions_lock(&regions->table);
	assert(regions->n_inbound);
	regions->n_inbound--;
	tei_rdma_regions_unlock(&regions->table);
}

uint64_t tei_ofi_fence_asked(struct ofi_regions *regions)
{
	uint64_t asked = atomic_load_explicit(&regions->fences_asked,
					      memory_order_relaxed);
	uint64_t done;

	if (!asked)
		return 0;
	tei_rdma_regions_lock(&regions->table);
	asked = atomic_load_explicit(&regions->fences_asked,
				     memory_order_relaxed);
	done = regions->fences_done;
	tei_rdma_regions_unlock(&regions->table);
	return asked == done ? 0 : asked;
}

void tei_ofi_fence_done(struct ofi_regions *regions, uint64_t fence)
{
	tei_rdma_regions_lock(&regions->table);
	regions->fences_done = fence;
	tei_rdma_regions_unlock(&regions->table);
}

/* Asks for a fence, once. */
static void ask_fence(struct ofi_regions *regions, struct ofi_region *region)
	TEI_REQUIRES(regions->table.mu)
{
	region->fence = 1 + atomic_fetch_add_explicit(&regions->fences_asked, 1,
						      memory_order_relaxed);
}

int tei_ofi_region_hide(struct ofi_regions *regions, uint64_t id, bool *kick)
{
	bool used, fenced = true;
	struct ofi_region *region =
		ofi_region(tei_rdma_region_hide(&regions->table, id, &used));

	*kick = false;
	if (used || tei_ofi_unshare(&regions->grants, &region->shared) ||
	    take_keys_back(regions, region))
		return -EBUSY;
	if (!region->remote)
		return 0;
	/* Only now: who came until then could begin by the old key. */
	tei_rdma_regions_lock(&regions->table);
	if (regions->n_inbound && !region->fence) {
		ask_fence(regions, region);
		*kick = true;
	}
	fenced = !regions->n_inbound || regions->fences_done >= region->fence;
	tei_rdma_regions_unlock(&regions->table);
	return fenced ? 0 : -EBUSY;
}

void tei_ofi_region_remove(struct ofi_regions *regions, uint64_t id)
{
	struct ofi_region *region =
		ofi_region(tei_rdma_region_take(&regions->table, id));

	tei_ofi_forget_region(&regions->grants, &region->shared);
	leave_keys(regions, region);
	tei_free(region);
}
