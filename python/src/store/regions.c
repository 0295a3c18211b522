/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions.c - addresses that callers name, proved before they are touched
 */
#include "python/src/store/regions.h"

#include <sys/mman.h>

#include <te/memory.h>

bool ps_region_add(struct ps_client *client, uint64_t addr, uint64_t length)
{
	struct ps_region *more;
	int protection;

	Py_BEGIN_ALLOW_THREADS;
	protection = te_memory_protection(addr, length);
	Py_END_ALLOW_THREADS;
	more = PyMem_Realloc(client->regions,
			     (client->n_regions + 1) * sizeof(*more));
	if (!more)
		return false;
	more[client->n_regions++] =
		(struct ps_region){addr, length, protection};
	client->regions = more;
	return true;
}

void ps_region_remove(struct ps_client *client, uint64_t addr)
{
	for (size_t i = 0; i < client->n_regions; i++) {
		if (client->regions[i].addr != addr)
			continue;
		client->regions[i] = client->regions[--client->n_regions];
		return;
	}
}

/* Few are registered: consumers have one for each tensor's memory. */
static const struct ps_region *find(const struct ps_client *client,
				    uint64_t addr, uint64_t length)
{
	for (size_t i = 0; i < client->n_regions; i++) {
		const struct ps_region *region = &client->regions[i];

		if (addr >= region->addr && length <= region->length &&
		    addr - region->addr <= region->length - length)
			return region;
	}
	return NULL;
}

static bool is_known(struct ps_suspects *suspects,
		     const struct ps_client *client, uint64_t addr,
		     uint64_t length)
{
	const struct ps_region *region = find(client, addr, length);
	int wanted = suspects->writable ? PROT_WRITE : PROT_READ;

	if (!region || !(region->protection & wanted))
		return false;
	/* Freed without a word? Once is enough for neighbours. */
	if (suspects->sure != region->addr &&
	    !te_memory_is_mapped(region->addr, region->length))
		return false;
	suspects->sure = region->addr;
	return true;
}

bool ps_suspect(struct ps_suspects *suspects, const struct ps_client *client,
		uint64_t addr, uint64_t length, size_t at)
{
	if (!length || is_known(suspects, client, addr, length))
		return true;
	if (suspects->n == suspects->room) {
		size_t room = suspects->room ? 2 * suspects->room : 64;
		struct ps_suspect *more =
			PyMem_Realloc(suspects->list, room * sizeof(*more));

		if (!more) {
			PyErr_NoMemory();
			return false;
		}
		suspects->list = more;
		suspects->room = room;
	}
	suspects->list[suspects->n++] = (struct ps_suspect){addr, length, at};
	return true;
}

/* Rooms may be much larger than what comes into them: no more is populated. */
#define POPULATE_MAX (64ull << 20)

static bool is_usable(uint64_t addr, uint64_t length, bool writable)
{
	if (length > POPULATE_MAX)
		return te_memory_is_mapped(addr, length) &&
		       te_memory_is_usable(addr, POPULATE_MAX, writable);
	return te_memory_is_usable(addr, length, writable);
}

void ps_suspects_ask(struct ps_suspects *suspects)
{
	/* The mapping that was found last: small values lie side by side. */
	uint64_t begin = 0, end = 0;
	size_t wrong = 0;

	for (size_t i = 0; i < suspects->n; i++) {
		struct ps_suspect s = suspects->list[i];

		if (s.addr >= begin && s.addr < end && s.length <= end - s.addr)
			continue;
		if (is_usable(s.addr, s.length, suspects->writable)) {
			begin = s.addr & ~(uint64_t)4095;
			end = (s.addr + s.length + 4095) & ~(uint64_t)4095;
		} else {
			suspects->list[wrong++] = s;
		}
	}
	suspects->n = wrong;
}

void ps_suspects_free(struct ps_suspects *suspects)
{
	PyMem_Free(suspects->list);
}
