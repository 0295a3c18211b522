/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.c - slots whose generations make them name one object after the other
 */
#include "compat/handle/handle.h"

#include <stdlib.h>

#define GENERATION(state) ((state) >> 32)
#define LIVE              (1ull << 31)
#define PINS              (LIVE - 1)

/* 1 + index in the lower half, so that no handle is 0. */
static uint64_t handle_of(uint64_t generation, uint32_t index)
{
	return generation << 32 | (index + 1);
}

static struct mc_slot *slot_at(struct mc_table *table, uint32_t index)
{
	struct mc_slot *chunk;

	if (index / MC_CHUNK >= MC_CHUNKS)
		return NULL;
	chunk = atomic_load_explicit(&table->chunks[index / MC_CHUNK],
				     memory_order_acquire);
	return chunk ? &chunk[index % MC_CHUNK] : NULL;
}

static struct mc_slot *slot_of(struct mc_table *table, uint64_t handle)
{
	uint32_t low = (uint32_t)handle;

	return low ? slot_at(table, low - 1) : NULL;
}

/* A slot that nothing is in; called with the mutex. */
static struct mc_slot *take_slot(struct mc_table *table, uint32_t *index)
{
	struct mc_slot *slot, *chunk;

	if (table->first_free) {
		*index = table->first_free - 1;
		slot = slot_at(table, *index);
		table->first_free = slot->next_free;
		return slot;
	}
	*index = table->n;
	if (*index / MC_CHUNK >= MC_CHUNKS)
		return NULL;
	if (!slot_at(table, *index)) {
		chunk = calloc(MC_CHUNK, sizeof(*chunk));
		if (!chunk)
			return NULL;
		atomic_store_explicit(&table->chunks[*index / MC_CHUNK], chunk,
				      memory_order_release);
	}
	table->n++;
	return slot_at(table, *index);
}

uint64_t mc_table_add(struct mc_table *table, void *object)
{
	uint64_t handle = 0, generation;
	struct mc_slot *slot;
	uint32_t index;

	(void)pthread_mutex_lock(&table->mutex);
	slot = take_slot(table, &index);
	if (slot) {
		generation = GENERATION(atomic_load_explicit(
				     &slot->state, memory_order_relaxed)) &
			     (UINT32_MAX >> 1);
		generation++;
		slot->object = object;
		atomic_store_explicit(&slot->state, generation << 32 | LIVE,
				      memory_order_release);
		handle = handle_of(generation, index);
	}
	(void)pthread_mutex_unlock(&table->mutex);
	return handle;
}

void *mc_table_pin(struct mc_table *table, uint64_t handle)
{
	struct mc_slot *slot = slot_of(table, handle);
	uint64_t state;

	if (!slot)
		return NULL;
	state = atomic_load_explicit(&slot->state, memory_order_acquire);
	do {
		if (GENERATION(state) != GENERATION(handle) || !(state & LIVE))
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(
		&slot->state, &state, state + 1, memory_order_acquire,
		memory_order_acquire));
	return slot->object;
}

void *mc_table_unpin(struct mc_table *table, uint64_t handle)
{
	struct mc_slot *slot = slot_of(table, handle);
	uint64_t state = atomic_fetch_sub_explicit(&slot->state, 1,
						   memory_order_acq_rel) -
			 1;
	void *object;

	if (state & (LIVE | PINS))
		return NULL;
	object = slot->object;
	(void)pthread_mutex_lock(&table->mutex);
	slot->object = NULL;
	slot->next_free = table->first_free;
	table->first_free = (uint32_t)handle;
	(void)pthread_mutex_unlock(&table->mutex);
	return object;
}

bool mc_table_give_back(struct mc_table *table, uint64_t handle)
{
	struct mc_slot *slot = slot_of(table, handle);

	return (atomic_fetch_and_explicit(&slot->state, ~LIVE,
					  memory_order_acq_rel) &
		LIVE) != 0;
}

uint64_t mc_table_next(struct mc_table *table, uint64_t handle)
{
	uint64_t next = 0;
	uint32_t index;

	(void)pthread_mutex_lock(&table->mutex);
	for (index = (uint32_t)handle; !next && index < table->n; index++) {
		uint64_t state = atomic_load_explicit(
			&slot_at(table, index)->state, memory_order_acquire);

		if (state & LIVE)
			next = handle_of(GENERATION(state), index);
	}
	(void)pthread_mutex_unlock(&table->mutex);
	return next;
}
