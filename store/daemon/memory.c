/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - a dummy's memory in our address space */
#include <errno.h>
#include <sys/mman.h>

#include "store/daemon/agent_private.h"

int tes_agent_memory_map(struct te_store *store, int fd, uint64_t length,
			 struct tes_agent_memory *out)
{
	void *base;

	if (length < TES_AGENT_REGION_MIN || length % TES_AGENT_REGION_MIN ||
	    length > TE_LENGTH_MAX || tes_sealed_check(fd, length))
		return -EINVAL;
	base = mmap(NULL, length, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED) /* -EPERM, -EACCES: not to be written to */
		return errno == ENOMEM || errno == EAGAIN ? -ENOMEM : -EINVAL;
	/* A copy would keep the dummy's memory after both have gone. */
	(void)madvise(base, length, MADV_DONTFORK);
	if (te_store_register(store, base, length)) {
		(void)munmap(base, length);
		return -ENOMEM;
	}
	out->base = base;
	out->length = length;
	return 0;
}

void tes_agent_memory_unmap(struct te_store *store,
			    struct tes_agent_memory *memory)
{
	(void)te_store_unregister(store, memory->base);
	(void)munmap(memory->base, memory->length);
	memory->base = NULL;
}

void *tes_agent_memory_at(const struct tes_agent_memory *memory,
			  uint64_t offset, uint64_t length)
{
	if (offset > memory->length || length > memory->length - offset)
		return NULL;
	return memory->base + offset;
}
