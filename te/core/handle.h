/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.h - 64-bit ids that go stale instead of dangling
 *
 * An id is {generation, place + 1}. Freeing a place raises its generation, so
 * an old id finds nothing, and 0 is never an id.
 *
 * Threads: none of its own; the user's lock guards the table.
 */
#ifndef TE_CORE_HANDLE_H
#define TE_CORE_HANDLE_H

#include <stdint.h>

struct tei_handle_slot {
	void *object; /* NULL: free; not owned */
	uint32_t generation;
	uint32_t next_free; /* place + 1; 0: none */
};

struct tei_handles {
	struct tei_handle_slot *slots; /* slots[room] */
	uint32_t room, n, free;
};

void tei_handles_init(struct tei_handles *h);
void tei_handles_fini(struct tei_handles *h);
/* The id of @object (not NULL), or 0: out of memory. */
uint64_t tei_handle_add(struct tei_handles *h, void *object);
/* NULL: no such id, or not any more. */
void *tei_handle_get(const struct tei_handles *h, uint64_t id);
/* Returns the object that the id stood for, NULL as get(). */
void *tei_handle_remove(struct tei_handles *h, uint64_t id);

#endif
