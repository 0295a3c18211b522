/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c - generation-tagged ids over one growing array */
#include "te/core/handle.h"

#include <stddef.h>

#include "base/mem.h"

#define FIRST_ROOM 16u
#define ROOM_MAX   (1u << 30)

void tei_handles_init(struct tei_handles *h)
{
	*h = (struct tei_handles){0};
}

void tei_handles_fini(struct tei_handles *h)
{
	tei_free(h->slots);
	tei_handles_init(h);
}

static int grow_table(struct tei_handles *h)
{
	uint32_t i, room = h->room ? h->room * 2 : FIRST_ROOM;
	struct tei_handle_slot *slots;

	if (room > ROOM_MAX)
		return -1;
	slots = tei_realloc(h->slots, room * sizeof(*slots));
	if (!slots)
		return -1;
	for (i = h->room; i < room; i++) {
		slots[i] = (struct tei_handle_slot){.generation = 1,
						    .next_free = h->free};
		h->free = i + 1;
	}
	h->slots = slots;
	h->room = room;
	return 0;
}

uint64_t tei_handle_add(struct tei_handles *h, void *object)
{
	struct tei_handle_slot *slot;
	uint32_t place;

	if (!h->free && grow_table(h))
		return 0;
	place = h->free;
	slot = &h->slots[place - 1];
	h->free = slot->next_free;
	slot->object = object;
	h->n++;
	return (uint64_t)slot->generation << 32 | place;
}

static struct tei_handle_slot *find_slot(const struct tei_handles *h,
					 uint64_t id)
{
	uint32_t place = (uint32_t)id, generation = (uint32_t)(id >> 32);
	struct tei_handle_slot *slot;

	if (!place || place > h->room)
		return NULL;
	slot = &h->slots[place - 1];
	if (!slot->object || slot->generation != generation)
		return NULL;
	return slot;
}

void *tei_handle_get(const struct tei_handles *h, uint64_t id)
{
	struct tei_handle_slot *slot = find_slot(h, id);

	return slot ? slot->object : NULL;
}

void *tei_handle_remove(struct tei_handles *h, uint64_t id)
{
	struct tei_handle_slot *slot = find_slot(h, id);
	void *object;

	if (!slot)
		return NULL;
	object = slot->object;
	slot->object = NULL;
	slot->generation++;
	if (!slot->generation)
		slot->generation = 1;
	slot->next_free = h->free;
	h->free = (uint32_t)id;
	h->n--;
	return object;
}
