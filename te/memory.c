/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - memory that every backend likes: page aligned, huge if possible */
#include "te/memory.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <te/te.h>

#include "base/fault.h"
#include "base/mem.h"
#include "te/engine.h"

#define HUGE_PAGE ((size_t)2 << 20)

struct memory {
	struct tei_list link; /* engine->memories */
	void *addr;
	size_t length;
};

/*
 * Not every kernel begins a mapping where a huge page does, so map more and
 * give back what sticks out. Huge pages are only a wish: others do as well.
 */
static int map(struct memory *memory)
{
	size_t more = memory->length >= HUGE_PAGE ? HUGE_PAGE : 0, head;
	char *at;

	if (tei_fault_check(TEI_FAULT_ALLOC))
		return -ENOMEM;
	at = mmap(NULL, memory->length + more, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	memory->addr = at;
	if (!more)
		return 0;
	head = -(uintptr_t)at & (HUGE_PAGE - 1);
	memory->addr = at + head;
	if (head)
		munmap(at, head);
	munmap(at + head + memory->length, more - head);
	madvise(memory->addr, memory->length, MADV_HUGEPAGE);
	return 0;
}

int te_memory_alloc(struct te_engine *engine, uint64_t length, void **out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct memory *memory;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!length || length > TE_LENGTH_MAX || !out)
		return -EINVAL;
	memory = tei_calloc(1, sizeof(*memory));
	if (!memory)
		return -ENOMEM;
	memory->length = (length + page - 1) & ~(page - 1);
	if (map(memory)) {
		tei_free(memory);
		return -ENOMEM;
	}
	tei_mutex_lock(&engine->mu);
	tei_list_add_tail(&engine->memories, &memory->link);
	tei_mutex_unlock(&engine->mu);
	*out = memory->addr;
	return 0;
}

static void memory_free(struct memory *memory)
{
	munmap(memory->addr, memory->length);
	tei_free(memory);
}

void te_memory_free(struct te_engine *engine, void *addr)
{
	struct memory *found = NULL;

	if (!addr || !tei_engine_alive(engine))
		return;
	tei_mutex_lock(&engine->mu);
	tei_list_for_each (node, &engine->memories) {
		struct memory *memory =
			tei_list_entry(node, struct memory, link);

		if (memory->addr == addr) {
			found = memory;
			tei_list_del(node);
			break;
		}
	}
	tei_mutex_unlock(&engine->mu);
	if (found)
		memory_free(found);
}

void tei_memories_free(struct te_engine *engine)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&engine->memories)))
		memory_free(tei_list_entry(node, struct memory, link));
}
