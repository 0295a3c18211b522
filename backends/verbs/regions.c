/* SPDX-License-Identifier: Apache-2.0 */
/* regions.c - register memory in chunks, find keys by address */
#include "backends/verbs/regions.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <te/te.h>

#include "backends/verbs/verbs.h"
#include "base/log.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "base/thread.h"

/* Bring memory in by several threads. */

#define STEP        (16u << 20) /* bytes that a thread takes at a time */
#define THREADS_MAX 8

struct crew {
	uint64_t addr, length;
	/*
	 * Next part that no thread has taken. Relaxed: joining orders the rest.
	 */
	_Atomic uint64_t next;
};

static void *check_pages(void *arg)
{
	struct crew *crew = arg;

	for (;;) {
		uint64_t at = atomic_fetch_add_explicit(&crew->next, STEP,
							memory_order_relaxed);
		uint64_t n;

		if (at >= crew->length)
			return NULL;
		n = crew->length - at;
		if (!tei_is_usable(crew->addr + at, n < STEP ? n : STEP, true))
			return NULL;
	}
}

/* Besides the caller. */
static unsigned int helpers_for(uint64_t length)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t n = (length - 1) / STEP;

	if (cpus > THREADS_MAX)
		cpus = THREADS_MAX;
	if (cpus < 1)
		cpus = 1;
	return (unsigned int)(n < (uint64_t)cpus - 1 ? n : (uint64_t)cpus - 1);
}

/*
 * Brings in the pages of a range and leaves their bytes as they were. Only a
 * hint: memory that cannot be written, or a kernel before 5.14, is left to the
 * registration. Blocks.
 */
static void verbs_prefault(uint64_t addr, uint64_t length)
{
	struct crew crew = {.addr = addr, .length = length};
	unsigned int n = 0, wanted = helpers_for(length);
	pthread_t helpers[THREADS_MAX];

	while (n < wanted && !tei_thread_start(&helpers[n], "te-prefault",
					       check_pages, &crew))
		n++;
	(void)check_pages(&crew); /* also alone */
	while (n)
		pthread_join(helpers[--n], NULL);
}

/* Blocks that stand in for memory which is not registered. */

void tei_verbs_bounce_init(struct verbs_rail *rail)
{
	const struct verbs_port *port = &rail->port;
	struct tei_bounce *bounce = &rail->bounce;
	int rc = tei_bounce_init(bounce, port->config->bounce);

	rail->bounce_mr = NULL;
	if (!rc && bounce->n) {
		rail->bounce_mr =
			port->api->reg_mr(rail->pd, bounce->memory,
					  (size_t)bounce->n * TEI_BOUNCE_LEN,
					  IBV_ACCESS_LOCAL_WRITE);
		rc = rail->bounce_mr ? 0 : tei_verbs_error(-1);
	}
	if (!rc)
		return;
	LOG_WARN("device %s: no bounce buffers, so it does not carry memory "
		 "that is not registered: %s",
		 port->name, strerror(-rc));
	tei_bounce_fini(bounce);
}

void tei_verbs_bounce_fini(struct verbs_rail *rail)
{
	int rc = 0;

	if (rail->bounce_mr)
		rc = tei_verbs_error(rail->port.api->dereg_mr(rail->bounce_mr));
	if (rc)
		LOG_ERROR("device %s: a key cannot be taken back: %s",
			  rail->port.name, strerror(-rc));
	tei_bounce_fini(&rail->bounce);
}

void tei_verbs_regions_init(struct verbs_regions *regions,
			    const struct verbs_port *port, struct ibv_pd *pd)
{
	*regions = (struct verbs_regions){.port = port, .pd = pd};
	tei_rdma_regions_init(&regions->table);
}

void tei_verbs_regions_fini(struct verbs_regions *regions)
{
	tei_rdma_regions_fini(&regions->table);
}

/* ---- registering ---- */

const char *tei_verbs_refusal(int err, uint64_t length, uint64_t memlock)
{
	switch (err) {
	case -ENOMEM:
		if (memlock < length)
			return "more than this process may lock (ulimit -l)";
		return memlock == UINT64_MAX
			       ? "no memory, or no keys left in the device"
			       : "no memory, no keys left in the device, or "
				 "with what is locked already more than this "
				 "process may lock (ulimit -l)";
	case -EAGAIN: /* what mlock()'s accounting answers on some kernels */
	case -EPERM:
		return "this process may lock no more memory (ulimit -l)";
	case -EFAULT:
		return "not mapped, or not for this access";
	case -EINVAL:
		return "the device refuses its length or access";
	case -ENOSPC:
		return "no keys left in the device";
	case -EOPNOTSUPP:
		return "memory of a kind that the device cannot reach";
	default:
		return strerror(-err);
	}
}

#define ALIBABA 0x1ded

const char *tei_verbs_refusal_hint(const struct ibv_device_attr *device)
{
	if (device->vendor_id != ALIBABA)
		return "";
	return "; an eRDMA device takes about 64 GiB of registered memory in "
	       "pages of 4 KiB: use huge pages (setting hugetlb), or register "
	       "less";
}

static uint64_t memlock_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

/* Bytes of a chunk: whole pages, within what settings and device allow. */
static uint64_t chunk_of(const struct verbs_port *port)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t chunk = port->config->chunk;

	if (!chunk || chunk > port->device.max_mr_size)
		chunk = port->device.max_mr_size;
	return chunk > page ? chunk / page * page : chunk;
}

static unsigned int flags_of(const struct verbs_port *port, uint32_t access)
{
	unsigned int flags = IBV_ACCESS_LOCAL_WRITE;

	if (access & TE_ACCESS_REMOTE_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (access & TE_ACCESS_REMOTE_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	/* An optional bit: devices and kernels without it ignore it. */
	if (port->config->relaxed)
		flags |= IBV_ACCESS_RELAXED_ORDERING;
	return flags;
}

static void give_back(const struct verbs_regions *regions,
		      struct verbs_region *region)
{
	struct rdma_range *range = &region->common.range;
	int rc;

	for (; range->n; range->n--) {
		rc = tei_verbs_error(regions->port->api->dereg_mr(
			region->mrs[range->n - 1]));
		if (rc)
			LOG_ERROR("device %s: a key cannot be taken back: %s",
				  regions->port->name, strerror(-rc));
	}
}

/* How a registration goes about it. */
struct way {
	bool by_address; /* else as a dma-buf */
	unsigned int flags;
};

/* Registers chunk @i of a GPU's memory, as a dma-buf. NULL, and errno. */
static struct ibv_mr *register_dmabuf(const struct verbs_regions *regions,
				      const struct verbs_region *region,
				      uint32_t i, unsigned int flags)
{
	const struct rdma_range *range = &region->common.range;
	uint64_t at = tei_rdma_chunk_base(range, i);
	struct tei_gpu_memory part;

	if (!tei_rdma_gpu_part(regions->core, &region->common, i, &part)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return regions->port->api->reg_dmabuf_mr(
		regions->pd, at - part.addr, tei_rdma_chunk_length(range, i),
		at, part.fd, (int)flags);
}

static struct ibv_mr *register_chunk(const struct verbs_regions *regions,
				     const struct verbs_region *region,
				     uint32_t i, const struct way *way)
{
	const struct rdma_range *range = &region->common.range;

	if (!way->by_address)
		return register_dmabuf(regions, region, i, way->flags);
	return regions->port->api->reg_mr(
		regions->pd, (void *)(uintptr_t)tei_rdma_chunk_base(range, i),
		tei_rdma_chunk_length(range, i), way->flags);
}

/* Registers all chunks, or none. */
static int register_chunks(const struct verbs_regions *regions,
			   struct verbs_region *region, uint32_t n,
			   const struct way *way)
{
	struct rdma_range *range = &region->common.range;
	int rc;

	for (; range->n < n; range->n++) {
		struct ibv_mr *mr =
			register_chunk(regions, region, range->n, way);

		if (!mr) {
			rc = tei_verbs_error(-1);
			give_back(regions, region);
			return rc;
		}
		region->mrs[range->n] = mr;
	}
	return 0;
}

static struct tei_log_limit refusals = {.per_minute = 60};

static int register_host(const struct verbs_regions *regions,
			 struct verbs_region *region, uint32_t n,
			 unsigned int flags)
{
	const struct way way = {.by_address = true, .flags = flags};
	const struct verbs_port *port = regions->port;
	const struct rdma_range *range = &region->common.range;
	int rc = register_chunks(regions, region, n, &way);

	if (rc && tei_log_allowed(&refusals))
		LOG_ERROR("device %s: %" PRIu64 " bytes at %#" PRIx64
			  " cannot be registered: %s%s",
			  port->name, range->length, range->base,
			  tei_verbs_refusal(rc, range->length, memlock_limit()),
			  tei_verbs_refusal_hint(&port->device));
	return rc == -ENOSPC ? -ENOBUFS : rc;
}

static void say_reached(const struct verbs_regions *regions,
			const struct verbs_region *region, const char *by)
{
	static struct tei_log_limit limit = {.per_minute = 60};

	if (tei_log_allowed(&limit))
		LOG_INFO("device %s: %" PRIu64 " bytes of a GPU at %#" PRIx64
			 " are reached by %s",
			 regions->port->name, region->common.range.length,
			 region->common.range.base, by);
}

/*
 * Returns -ENOMEM or -ENOBUFS where the device lacks room, which it may have
 * later; else -EOPNOTSUPP: another device may reach it.
 */
static int say_unreached(const struct verbs_regions *regions,
			 const struct verbs_region *region, int rc,
			 const struct tei_gpu_memory *memory)
{
	const char *cause = rc == -ENOMEM
				    ? "the device has no memory for it, or "
				      "BAR1 of the GPU is smaller"
				    : strerror(-rc);

	if (tei_log_allowed(&refusals))
		LOG_WARN("device %s: %" PRIu64 " bytes of a GPU at %#" PRIx64
			 " are not reached: %s; %s",
			 regions->port->name, region->common.range.length,
			 region->common.range.base,
			 memory->fd < 0 ? memory->why : cause,
			 memory->by_address ? cause : memory->how);
	if (rc == -ENOSPC)
		return -ENOBUFS;
	return rc == -ENOMEM ? rc : -EOPNOTSUPP;
}

/*
 * Registers a GPU's memory: as a dma-buf, else by its address, where a driver
 * helps.
 */
static int register_gpu(const struct verbs_regions *regions,
			struct verbs_region *region, uint32_t n,
			unsigned int flags, const struct tei_gpu_memory *memory)
{
	struct way way = {.by_address = false, .flags = flags};
	int rc = -EOPNOTSUPP;

	region->common.gpu = true;
	if (memory->fd >= 0)
		rc = register_chunks(regions, region, n, &way);
	if (rc && memory->by_address) {
		way.by_address = true;
		rc = register_chunks(regions, region, n, &way);
	}
	if (rc)
		return say_unreached(regions, region, rc, memory);
	say_reached(regions, region, way.by_address ? "address" : "dma-buf");
	return 0;
}

static int encode_key(const struct verbs_region *region, uint32_t access,
		      void *key, size_t *len)
{
	struct verbs_key k = {.range = region->common.range};
	int rc;

	if (!access)
		k.range.n = 0;
	rc = tei_verbs_key_encode(&k, key, len);
	for (uint32_t i = 0; i < k.range.n && !rc; i++)
		tei_verbs_key_set(key, i, region->mrs[i]->rkey);
	return rc;
}

static uint32_t chunks_of(const struct verbs_port *port, uint64_t length,
			  uint64_t chunk)
{
	uint64_t n = tei_rdma_chunks(length, chunk);

	if (n <= VERBS_CHUNKS_MAX)
		return (uint32_t)n;
	LOG_ERROR("device %s: %" PRIu64 " bytes need %" PRIu64
		  " keys of %" PRIu64 " bytes each, and a region has %d: %s",
		  port->name, length, n, chunk, VERBS_CHUNKS_MAX,
		  chunk < port->device.max_mr_size
			  ? "raise verbs.chunk"
			  : "the device takes no more in one, so make several "
			    "regions of it");
	return 0;
}

static bool is_big(const struct verbs_config *config, uint64_t length)
{
	return config->prefault && length >= config->prefault;
}

int tei_verbs_region_add(struct verbs_regions *regions, uint64_t id, void *addr,
			 uint64_t length, uint32_t access, void *key,
			 size_t *len)
{
	unsigned int flags = flags_of(regions->port, access);
	struct rdma_range range = {.base = (uintptr_t)addr,
				   .length = length,
				   .chunk = chunk_of(regions->port)};
	struct tei_gpu_memory memory;
	bool gpu = tei_rdma_is_of_gpu(regions->core, id, &range, &memory);
	uint32_t n = chunks_of(regions->port, length, range.chunk);
	struct verbs_region *region;
	int rc;

	if (!n)
		return -ENOBUFS;
	region = tei_calloc(1, sizeof(*region) + n * sizeof(region->mrs[0]));
	if (!region)
		return -ENOMEM;
	region->common.id = id;
	region->common.range = range;
	if (!gpu && is_big(regions->port->config, length))
		verbs_prefault(range.base, length);
	rc = gpu ? register_gpu(regions, region, n, flags, &memory)
		 : register_host(regions, region, n, flags);
	if (rc)
		goto free_region;
	rc = encode_key(region, access, key, len);
	if (rc)
		goto give_back;
	rc = tei_rdma_region_insert(&regions->table, &region->common);
	if (rc)
		goto give_back;
	return 0;

give_back:
	give_back(regions, region);
free_region:
	tei_free(region);
	assert(rc < 0);
	return rc;
}

/* ---- removing ---- */

int tei_verbs_region_hide(struct verbs_regions *regions, uint64_t id)
{
	bool used;
	struct rdma_region *region =
		tei_rdma_region_hide(&regions->table, id, &used);

	if (used)
		return -EBUSY;
	/* The device ends what peers had under way by its keys. */
	give_back(regions, verbs_region(region));
	return 0;
}

void tei_verbs_region_remove(struct verbs_regions *regions, uint64_t id)
{
	struct verbs_region *region =
		verbs_region(tei_rdma_region_take(&regions->table, id));

	give_back(regions, region);
	tei_free(region);
}
