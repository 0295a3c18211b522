/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - memory that every backend likes: page aligned, huge if possible
 *
 * Where a rail can share memory (TEI_CAP_BACKING) each allocation is a memfd of
 * its own, sealed so that nobody can shrink it under those who map it.
 * Otherwise, and where that fails, it is anonymous memory.
 *
 * Pages come when they are touched, by us or by a peer that has mapped them,
 * and are paid for by who that is; those of memory that peers may write come
 * ahead of that (prefault.c). Reserved huge pages come at once: the mapping has
 * them set aside, but a limit of the control group would be heard of by a
 * signal.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <te/memory.h>
#include <te/te.h>

#include "base/fault.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "te/backend.h"
#include "te/core/engine.h"
#include "te/device/process.h"
#include "te/region/memory.h"
#include "te/region/region.h"
#include "te/worker/worker.h"

#define HUGE_PAGE ((size_t)2 << 20)

#ifndef MADV_POPULATE_WRITE /* since Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) & ~(unit - 1);
}

/*
 * Reserves more and gives back what sticks out, because not every kernel begins
 * a mapping where a huge page does. NULL: no room.
 */
static char *reserve_addresses(size_t length)
{
	size_t more = length >= HUGE_PAGE ? HUGE_PAGE : 0, head;
	char *at;

	at = mmap(NULL, length + more, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	if (!more)
		return at;
	head = -(uintptr_t)at & (HUGE_PAGE - 1);
	if (head)
		munmap(at, head);
	munmap(at + head + length, more - head);
	return at + head;
}

static int map_at(struct tei_memory *memory, int flags)
{
	char *at = reserve_addresses(memory->length);

	if (!at)
		return -ENOMEM;
	if (mmap(at, memory->length, PROT_READ | PROT_WRITE, MAP_FIXED | flags,
		 memory->fd, 0) == MAP_FAILED) {
		munmap(at, memory->length);
		return -ENOMEM;
	}
	memory->addr = at;
	if (memory->node >= 0)
		tei_memory_bind(memory);
	return 0;
}

/* Older kernels do not know that nobody wants to execute it. */
static int open_memfd(unsigned int flags)
{
	int fd;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -1;
	flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
	fd = memfd_create("te-memory", flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("te-memory", flags);
	return fd;
}

/* Leaves the set of seals open: another one may follow for read-only users. */
static int map_memfd(struct tei_memory *memory, unsigned int flags)
{
	memory->fd = open_memfd(flags);
	if (memory->fd < 0)
		return -EMFILE;
	if (ftruncate(memory->fd, (off_t)memory->length) ||
	    fcntl(memory->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) ||
	    map_at(memory, MAP_SHARED)) {
		close(memory->fd);
		memory->fd = -1;
		return -ENOMEM;
	}
	return 0;
}

static bool can_share(const struct te_engine *engine)
{
	const struct tei_worker *w = engine->worker;

	for (uint32_t i = 0; i < w->n_rails; i++) {
		if (w->rails[i]->rail.ops->caps & TEI_CAP_BACKING)
			return true;
	}
	return false;
}

static void unmap(struct tei_memory *memory)
{
	munmap(memory->addr, memory->length);
	if (memory->fd >= 0)
		close(memory->fd);
	memory->fd = -1;
}

/* An older kernel gives the pages when they are touched. */
static int populate(const struct tei_memory *memory)
{
	if (!madvise(memory->addr, memory->length, MADV_POPULATE_WRITE))
		return 0;
	return errno == EINVAL ? 0 : -ENOMEM;
}

/* Reserved huge pages; there may be too few. */
static int map_reserved(struct tei_memory *memory)
{
	int rc;

	memory->length = round_up(memory->asked, HUGE_PAGE);
	rc = map_memfd(memory, MFD_HUGETLB);
	memory->reserved = !rc;
	if (!rc && populate(memory)) {
		unmap(memory);
		memory->reserved = false;
		rc = -ENOMEM;
	}
	return rc;
}

static int map(const struct te_engine *engine, struct tei_memory *memory)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int rc = -ENOMEM;

	if (tei_fault_check(TEI_FAULT_ALLOC))
		return rc;
	if (can_share(engine)) {
		if (engine->config.hugetlb && memory->asked >= HUGE_PAGE)
			rc = map_reserved(memory);
		if (rc) {
			memory->length = round_up(memory->asked, page);
			rc = map_memfd(memory, 0);
		}
	}
	if (rc) {
		memory->length = round_up(memory->asked, page);
		rc = map_at(memory,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	}
	/* Only a wish: other pages do as well. */
	if (!rc && memory->length >= HUGE_PAGE)
		madvise(memory->addr, memory->length, MADV_HUGEPAGE);
	return rc;
}

int tei_memory_map(const struct te_engine *engine, uint64_t length, int node,
		   struct tei_memory **out)
{
	struct tei_memory *memory = tei_calloc(1, sizeof(*memory));

	if (!memory)
		return -ENOMEM;
	memory->asked = length;
	memory->fd = -1;
	memory->node = node;
	if (map(engine, memory)) {
		tei_free(memory);
		return -ENOMEM;
	}
	*out = memory;
	return 0;
}

void *tei_memory_keep(struct te_engine *engine, struct tei_memory *memory)
{
	tei_mutex_lock(&engine->mu);
	tei_list_add_tail(&engine->memories, &memory->link);
	tei_mutex_unlock(&engine->mu);
	return memory->addr;
}

int te_memory_alloc(struct te_engine *engine, uint64_t length, void **out)
{
	struct tei_memory *memory;
	int rc;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!length || length > TE_LENGTH_MAX || !out)
		return -EINVAL;
	rc = tei_memory_map(engine, length, -1, &memory);
	if (rc)
		return rc;
	*out = tei_memory_keep(engine, memory);
	return 0;
}

void tei_memory_drop(struct tei_memory *memory)
{
	tei_memory_leave_gpu(memory);
	if (!memory->of_gpu) {
		tei_gpu_unmapping(memory->addr);
		unmap(memory);
	}
	tei_free(memory);
}

/* Finds the memory in which @addr lies; NULL: in none. */
static struct tei_memory *find_memory(struct te_engine *engine,
				      const void *addr) TEI_REQUIRES(engine->mu)
{
	tei_list_for_each (node, &engine->memories) {
		struct tei_memory *memory =
			tei_list_entry(node, struct tei_memory, link);
		uintptr_t from = (uintptr_t)memory->addr;

		if ((uintptr_t)addr >= from &&
		    (uintptr_t)addr - from < memory->length)
			return memory;
	}
	return NULL;
}

int tei_memory_backing(struct tei_engine_core *core, const void *addr,
		       uint64_t length, struct tei_backing *out)
{
	struct te_engine *engine = core->engine;
	const struct tei_memory *memory;
	int rc = -ENOENT;

	tei_mutex_lock(&engine->mu);
	memory = find_memory(engine, addr);
	if (memory && memory->fd >= 0) {
		*out = (struct tei_backing){
			.fd = memory->fd,
			.offset = (uintptr_t)addr - (uintptr_t)memory->addr,
			.length = memory->length,
			.asked = memory->asked,
		};
		if (length <= memory->length - out->offset)
			rc = 0;
	}
	tei_mutex_unlock(&engine->mu);
	return rc;
}

bool tei_memory_is_lazy(struct te_engine *engine, const void *addr,
			uint64_t length)
{
	const struct tei_memory *memory;
	bool lazy;

	tei_mutex_lock(&engine->mu);
	memory = find_memory(engine, addr);
	lazy = memory && !memory->of_gpu && !memory->reserved &&
	       length <= memory->length -
				 ((uintptr_t)addr - (uintptr_t)memory->addr);
	tei_mutex_unlock(&engine->mu);
	return lazy;
}

void te_memory_free(struct te_engine *engine, void *addr)
{
	struct tei_memory *found;

	if (!addr || !tei_engine_alive(engine))
		return;
	tei_mutex_lock(&engine->mu);
	found = find_memory(engine, addr);
	if (found && found->addr == addr)
		tei_list_del(&found->link);
	else
		found = NULL;
	tei_mutex_unlock(&engine->mu);
	if (found)
		tei_memory_drop(found);
}

void tei_memories_free(struct te_engine *engine)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&engine->memories)))
		tei_memory_drop(tei_list_entry(node, struct tei_memory, link));
}

/* ---- other memory ---- */

bool te_memory_is_mapped(uint64_t addr, uint64_t length)
{
	return tei_is_mapped(addr, length);
}

bool te_memory_is_usable(uint64_t addr, uint64_t length, bool writable)
{
	return tei_is_usable(addr, length, writable);
}

int te_memory_protection(uint64_t addr, uint64_t length)
{
	return tei_protection(addr, length);
}
