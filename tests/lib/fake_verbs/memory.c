/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - protection domains and keys of the fake provider */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/chance.h"
#include "base/mem.h"
#include "tests/lib/fake_verbs/private.h"

static void count_child(struct ibv_context *context, int by)
{
	((struct fake_context *)(void *)context)->n_children += (unsigned)by;
}

struct ibv_pd *fake_alloc_pd(struct ibv_context *context)
{
	struct fake_pd *pd;

	if (fake_fails())
		return NULL;
	pd = tei_calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->base.context = context;
	tei_mutex_lock(&fake.mu);
	count_child(context, 1);
	tei_mutex_unlock(&fake.mu);
	return &pd->base;
}

int fake_dealloc_pd(struct ibv_pd *base)
{
	struct fake_pd *pd = (struct fake_pd *)(void *)base;

	tei_mutex_lock(&fake.mu);
	assert(!pd->n_children);
	count_child(base->context, -1);
	tei_mutex_unlock(&fake.mu);
	tei_free(pd);
	return 0;
}

/* A key is its place and a number that no earlier key of the place had. */
static bool place_key(struct fake_mr *mr)
{
	for (uint32_t i = 0; i < FAKE_KEYS_MAX; i++) {
		uint32_t place = (fake.next_key + i) % FAKE_KEYS_MAX;

		if (!place || fake.keys[place])
			continue;
		fake.keys[place] = mr;
		mr->base.lkey = mr->base.rkey =
			place << 8 |
			(uint8_t)((fake.next_key + i) / FAKE_KEYS_MAX);
		fake.next_key += i + 1;
		fake.counts.keys++;
		return true;
	}
	return false;
}

/* Returns what the device says to a registration, once it is not held. */
static int refusal(const struct fake_device *device)
{
	int err;

	tei_mutex_lock(&fake.mu);
	fake.counts.registering++;
	while (device->holds_memory)
		(void)tei_cond_wait(&fake.released, &fake.mu, UINT64_MAX);
	fake.counts.registering--;
	err = device->refuses_memory;
	tei_mutex_unlock(&fake.mu);
	return err;
}

struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			   unsigned int access)
{
	const struct fake_device *device = fake_device_of(pd->context);
	struct fake_mr *mr;
	bool placed;

	if (fake_fails())
		return NULL;
	errno = refusal(device);
	if (errno)
		return NULL;
	errno = EINVAL;
	if (!length || length > device->attr.max_mr_size)
		return NULL;
	/* A peer that may write needs the same right at home. */
	if ((access & IBV_ACCESS_REMOTE_WRITE) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return NULL;
	mr = tei_calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	mr->base.context = pd->context;
	mr->base.pd = pd;
	mr->base.addr = addr;
	mr->base.length = length;
	mr->access = access;
	tei_mutex_lock(&fake.mu);
	placed = fake.counts.keys < (unsigned)device->attr.max_mr &&
		 place_key(mr);
	((struct fake_pd *)(void *)pd)->n_children += placed;
	fake.counts.relaxed += placed && (access & IBV_ACCESS_RELAXED_ORDERING);
	tei_mutex_unlock(&fake.mu);
	if (placed)
		return &mr->base;
	tei_free(mr);
	errno = ENOMEM;
	return NULL;
}

/*
 * The descriptor is of a file whose place says where the dma-buf begins in it, as
 * those of the fake driver of GPUs are.
 */
struct ibv_mr *fake_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				  size_t length, uint64_t iova, int fd,
				  int access)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct fake_mr *mr;
	off_t from = lseek(fd, 0, SEEK_CUR);
	uint64_t within;
	void *bytes;

	tei_mutex_lock(&fake.mu);
	errno = fake.refuse_dmabufs;
	tei_mutex_unlock(&fake.mu);
	if (errno)
		return NULL;
	errno = EBADF;
	if (from < 0)
		return NULL;
	errno = EINVAL;
	if ((offset ^ iova) % page)
		return NULL;
	mr = (struct fake_mr *)(void *)fake_reg_mr(
		pd, (void *)(uintptr_t)iova, length, (unsigned int)access);
	if (!mr)
		return NULL;
	within = offset % page;
	bytes = mmap(NULL, within + length, PROT_READ | PROT_WRITE, MAP_SHARED,
		     fd, from + (off_t)(offset - within));
	assert(bytes != MAP_FAILED);
	mr->bytes = (uint8_t *)bytes + within;
	return &mr->base;
}

uint8_t *fake_mr_bytes(const struct fake_mr *mr, uint64_t addr)
{
	void *found;

	if (mr && mr->bytes)
		return mr->bytes + (addr - (uintptr_t)mr->base.addr);
	found = fake.translate ? fake.translate(addr) : NULL;
	return found ? found : (uint8_t *)(uintptr_t)addr;
}

static void unmap(struct fake_mr *mr)
{
	uint64_t within =
		(uintptr_t)mr->bytes % (uint64_t)sysconf(_SC_PAGESIZE);

	if (mr->bytes)
		munmap(mr->bytes - within, within + mr->base.length);
}

int fake_dereg_mr(struct ibv_mr *base)
{
	tei_mutex_lock(&fake.mu);
	/* No work request finds the key any more when its bytes go. */
	fake.keys[base->lkey >> 8] = NULL;
	unmap((struct fake_mr *)(void *)base);
	fake.counts.keys--;
	((struct fake_pd *)(void *)base->pd)->n_children--;
	tei_mutex_unlock(&fake.mu);
	tei_free(base);
	return 0;
}

struct fake_mr *fake_mr_find(const struct ibv_pd *pd, uint32_t key)
{
	struct fake_mr *mr =
		key >> 8 < FAKE_KEYS_MAX ? fake.keys[key >> 8] : NULL;

	return mr && mr->base.pd == pd && mr->base.lkey == key ? mr : NULL;
}
