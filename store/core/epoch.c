/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoch.c - lives of the master, and keys that must not come back from earlier
 * ones
 *
 * Generations are distinguished by the life that gave them: epochs only grow,
 * but ours began with the clock, which may have gone back since the last life.
 * Clients that join name the last epoch that they have seen, and a master never
 * serves under one below what a client that it believes knows of. How far above
 * is chance: else two lives that are raised from the same number would have the
 * same epoch, and each take the other's objects for its own. What is being put
 * meanwhile is committed under the number before, and may take its time: until
 * then that client waits. An object that was put in this life, under whatever
 * number, is newer than everything that comes from others.
 *
 * Owners bring objects of earlier lives one after the other, some late. Values
 * that were removed or replaced here meanwhile must not come back with one of
 * them: such keys are remembered, by their hash, until so many are known or so
 * much time has passed that nothing is accepted any more that is not here yet.
 * An object that is not accepted is lost, as if its owner had died.
 *
 * Every eviction remembers its key, so a hash costs one line of cache and 11 to
 * 21 bytes. Each range of hashes has a table that grows by itself: never much
 * at a time.
 */

#include "store/core/epoch.h"

#include <errno.h>
#include <string.h>

#include "base/chance.h"
#include "base/mem.h"
#include "store/core/state.h"
#include "store/core/tenant.h"

/*
 * Epochs are forgotten when the table is full and no object is of them. Of ours
 * nothing comes back for that: what we gave up is remembered by its key. Those
 * from outside leave some for us, so that room is not made one by one.
 */
#define EPOCHS_MAX     UINT16_MAX
#define EPOCHS_OFFERED (EPOCHS_MAX / 8 * 7)
#define EPOCHS_MIN     2u /* room; it doubles */
/* A raise goes at most so far above the number that it exceeds: 17 s. */
#define RAISE_MAX ((uint64_t)1 << 24)

/* Remembered keys: some 16 MiB. */
#define KEYS_MAX ((size_t)1 << 20)
/* Keys are remembered for so many times client_ttl_ms, from the first step. */
#define TTLS      6u
#define ROOM_MIN  64u
#define FIRST     1u /* index of the epoch that our life began with */
#define PART_BITS 6

_Static_assert(1u << PART_BITS == TES_TOMBSTONE_PARTS, "the first bits");

int tes_core_epochs_init(struct tes_core *core)
{
	core->epochs = tei_malloc(EPOCHS_MIN * sizeof(*core->epochs));
	core->epochs_by_number =
		tei_malloc(EPOCHS_MIN * sizeof(*core->epochs_by_number));
	if (!core->epochs || !core->epochs_by_number) {
		tei_free(core->epochs);
		tei_free(core->epochs_by_number);
		return -ENOMEM;
	}
	core->epochs[0] = (struct tes_epoch){.number = 0};
	core->epochs[FIRST] =
		(struct tes_epoch){.number = core->config.epoch, .ours = true};
	core->epochs_by_number[0] = FIRST;
	core->n_epochs = 2;
	core->epochs_room = EPOCHS_MIN;
	core->n_known_epochs = core->n_idle_epochs = 1;
	core->own_epoch = FIRST;
	core->floor_epoch = core->config.epoch;
	core->tombstones = (struct tes_tombstones){.open = true};
	return 0;
}

/* Ends the time in which values come back that are not here yet. */
static void close_tombstones(struct tes_core *core)
{
	for (size_t i = 0; i < TES_TOMBSTONE_PARTS; i++) {
		struct tes_tombstone_part *part = &core->tombstones.part[i];

		core->heap_bytes -= part->room * sizeof(*part->at);
		tei_free(part->at);
	}
	core->tombstones = (struct tes_tombstones){0};
}

void tes_core_epochs_fini(struct tes_core *core)
{
	close_tombstones(core);
	tei_free(core->epochs_by_number);
	tei_free(core->epochs);
}

/* ---- epochs ---- */

bool tes_core_epoch_valid(uint64_t epoch)
{
	return epoch && epoch < INT64_MAX;
}

/* Finds the place of @epoch in epochs_by_number, or where it would be. */
static size_t place_of_epoch(const struct tes_core *core, uint64_t epoch)
{
	size_t from = 0, to = core->n_known_epochs;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (core->epochs[core->epochs_by_number[mid]].number < epoch)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* Returns the index of @epoch; 0: nothing here is of it. */
static uint16_t find_epoch(const struct tes_core *core, uint64_t epoch)
{
	size_t at = place_of_epoch(core, epoch);
	uint16_t i;

	if (at == core->n_known_epochs)
		return 0;
	i = core->epochs_by_number[at];
	return core->epochs[i].number == epoch ? i : 0;
}

bool tes_core_epoch_is_ours(const struct tes_core *core, uint64_t epoch)
{
	return core->epochs[find_epoch(core, epoch)].ours;
}

/* Forgets all epochs that no object is of, bar our first and our last. */
static void forget_idle_epochs(struct tes_core *core)
{
	size_t n = core->n_known_epochs, kept = 0;

	for (size_t at = 0; at < n; at++) {
		uint16_t i = core->epochs_by_number[at];
		struct tes_epoch *e = &core->epochs[i];

		if (e->n_objects || i == FIRST || i == core->own_epoch) {
			core->epochs_by_number[kept++] = i;
			continue;
		}
		*e = (struct tes_epoch){.number = core->free_epoch};
		core->free_epoch = i;
	}
	core->n_idle_epochs -= n - kept;
	core->n_known_epochs = kept;
}

/* Makes room for one more in both arrays. -ENOMEM. */
static int grow_epochs(struct tes_core *core)
{
	size_t room = 2 * core->epochs_room;
	struct tes_epoch *grown;
	uint16_t *sorted;

	if (core->n_epochs < core->epochs_room)
		return 0;
	grown = tei_realloc(core->epochs, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	core->epochs = grown;
	sorted = tei_realloc(core->epochs_by_number, room * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	core->epochs_by_number = sorted;
	core->heap_bytes +=
		(room - core->epochs_room) * (sizeof(*grown) + sizeof(*sorted));
	core->epochs_room = room;
	return 0;
}

/* Finds an index that is free; 0: none. */
static uint16_t free_epoch(struct tes_core *core)
{
	uint16_t i;

	if (!core->free_epoch && core->n_epochs > EPOCHS_MAX)
		forget_idle_epochs(core);
	i = core->free_epoch;
	if (i) {
		core->free_epoch = (uint16_t)core->epochs[i].number;
		return i;
	}
	if (core->n_epochs > EPOCHS_MAX || grow_epochs(core) < 0)
		return 0;
	return (uint16_t)core->n_epochs++;
}

static uint16_t add_epoch(struct tes_core *core, uint64_t epoch)
{
	uint16_t i = free_epoch(core);
	size_t at = place_of_epoch(core, epoch);

	if (!i)
		return 0;
	memmove(&core->epochs_by_number[at + 1], &core->epochs_by_number[at],
		(core->n_known_epochs - at) *
			sizeof(core->epochs_by_number[0]));
	core->epochs_by_number[at] = i;
	core->epochs[i] = (struct tes_epoch){.number = epoch};
	core->n_known_epochs++;
	core->n_idle_epochs++;
	return i;
}

int tes_core_epoch_index(struct tes_core *core, uint64_t epoch, uint16_t *index)
{
	uint16_t i = find_epoch(core, epoch);

	if (!i && core->n_known_epochs - core->n_idle_epochs >= EPOCHS_OFFERED)
		return -ENOSPC;
	if (!i)
		i = add_epoch(core, epoch);
	if (!i)
		return -ENOMEM;
	tes_core_epoch_hold(core, i);
	*index = i;
	return 0;
}

void tes_core_epoch_change(struct tes_core *core, struct tes_object *o,
			   uint16_t i)
{
	tes_core_epoch_release(core, o->epoch);
	tes_core_epoch_hold(core, i);
	o->epoch = i;
}

/*
 * Raises the floor to our epoch when no put is left that was begun below it:
 * the oldest one shows that. Starts of a batch in parts may be behind later
 * ones; should one be left, it is refused and begun again.
 */
static void settle_floor(struct tes_core *core)
{
	const struct tei_list *all = &core->building;

	if (!tei_list_empty(all) &&
	    tei_list_entry(all->next, struct tes_object, age)->epoch !=
		    core->own_epoch &&
	    core->raised_ms + core->config.put_discard_ms > core->now_ms)
		return;
	core->floor_epoch = core->config.epoch;
}

static bool is_raised_lately(const struct tes_core *core)
{
	return core->own_epoch != FIRST &&
	       core->raised_ms + core->config.raise_ms > core->now_ms;
}

/* Takes a number from above @epoch. -ENOMEM. */
static int raise_epoch(struct tes_core *core, uint64_t epoch)
{
	uint16_t own;

	epoch += 1 + tei_chance(&core->random) % RAISE_MAX;
	own = find_epoch(core, epoch);
	if (!own)
		own = add_epoch(core, epoch);
	if (!own)
		return -ENOMEM;
	core->epochs[own].ours = true;
	core->own_epoch = own;
	core->config.epoch = epoch;
	core->raised_ms = core->now_ms;
	return 0;
}

/* Raises once for all clients that wait, so that none is overtaken for ever. */
int tes_core_epoch_exceed(struct tes_core *core, uint64_t epoch)
{
	int rc;

	if (epoch <= core->floor_epoch || epoch == core->config.epoch)
		return 0;
	if (epoch >= INT64_MAX - RAISE_MAX)
		return -EINVAL;
	if (epoch > core->asked_epoch)
		core->asked_epoch = epoch;
	settle_floor(core);
	if (epoch <= core->floor_epoch)
		return 0;
	if (core->floor_epoch < core->config.epoch || is_raised_lately(core))
		return -EAGAIN;
	rc = raise_epoch(core, core->asked_epoch);
	if (rc)
		return rc;
	settle_floor(core);
	return epoch <= core->floor_epoch ? 0 : -EAGAIN;
}

uint64_t tes_core_epoch(const struct tes_core *core)
{
	return core->config.epoch;
}

/* ---- ids of tasks and drains ---- */

static void put_be64(uint8_t *to, uint64_t x)
{
	for (int i = 0; i < 8; i++)
		to[i] = (uint8_t)(x >> (56 - 8 * i));
}

static uint64_t get_be64(const uint8_t *from)
{
	uint64_t x = 0;

	for (int i = 0; i < 8; i++)
		x = x << 8 | from[i];
	return x;
}

/* Number that our life began with: it may get others while tasks go on. */
static uint64_t first_epoch(const struct tes_core *core)
{
	return core->epochs[FIRST].number;
}

void tes_core_id_of(const struct tes_core *core, uint64_t number, uint8_t *id)
{
	put_be64(id, first_epoch(core));
	put_be64(id + 8, number);
}

bool tes_core_id_number(const struct tes_core *core, const uint8_t *id,
			uint64_t *number)
{
	*number = get_be64(id + 8);
	return get_be64(id) == first_epoch(core);
}

/* ---- keys that do not come back ---- */

/* Finds the place of @hash, or where it would be; there is room. */
static uint64_t *place_of_hash(const struct tes_tombstone_part *part,
			       uint64_t hash)
{
	size_t mask = part->room - 1, i = hash & mask;

	while (part->at[i] && part->at[i] != hash)
		i = (i + 1) & mask;
	return &part->at[i];
}

static bool part_is_full(const struct tes_tombstone_part *part)
{
	return part->n >= part->room / 4 * 3;
}

static int grow_part(struct tes_core *core, struct tes_tombstone_part *part)
{
	struct tes_tombstone_part bigger = {
		.n = part->n,
		.room = part->room ? 2 * part->room : ROOM_MIN,
	};

	bigger.at = tei_calloc(bigger.room, sizeof(*bigger.at));
	if (!bigger.at)
		return -ENOMEM;
	for (size_t i = 0; i < part->room; i++) {
		if (part->at[i])
			*place_of_hash(&bigger, part->at[i]) = part->at[i];
	}
	core->heap_bytes += (bigger.room - part->room) * sizeof(*part->at);
	tei_free(part->at);
	*part = bigger;
	return 0;
}

/* 0 is what a free place holds. */
static uint64_t hash_to_store(uint64_t hash)
{
	return hash ? hash : 1;
}

/* -ENOMEM, or there are too many. */
static int add_hash(struct tes_core *core, uint64_t hash)
{
	struct tes_tombstones *r = &core->tombstones;
	struct tes_tombstone_part *part = &r->part[hash >> (64 - PART_BITS)];
	uint64_t *place;

	if (r->n == KEYS_MAX || (part_is_full(part) && grow_part(core, part)))
		return -ENOMEM;
	place = place_of_hash(part, hash);
	if (*place)
		return 0;
	*place = hash;
	part->n++;
	r->n++;
	return 0;
}

void tes_core_tombstone(struct tes_core *core, uint64_t hash)
{
	if (core->tombstones.open && add_hash(core, hash_to_store(hash)))
		close_tombstones(core);
}

void tes_core_tombstone_prefetch(const struct tes_core *core, uint64_t hash)
{
	const struct tes_tombstone_part *part =
		&core->tombstones.part[hash >> (64 - PART_BITS)];

	if (part->room)
		__builtin_prefetch(&part->at[hash & (part->room - 1)], 1);
}

void tes_core_tombstone_all(struct tes_core *core, struct tes_tenant *t)
{
	t->tombstoned = core->tombstones.open;
}

static bool has_tombstone(const struct tes_core *core, uint64_t hash)
{
	uint64_t stored = hash_to_store(hash);
	const struct tes_tombstone_part *part =
		&core->tombstones.part[stored >> (64 - PART_BITS)];

	return part->room && *place_of_hash(part, stored);
}

bool tes_core_may_return(const struct tes_core *core,
			 const struct tes_tenant *t, uint64_t hash)
{
	return core->tombstones.open && !t->tombstoned &&
	       !has_tombstone(core, hash);
}

bool tes_core_is_young(const struct tes_core *core)
{
	return core->now_ms - core->started_ms <=
	       TTLS * core->config.client_ttl_ms;
}

void tes_core_tombstones_tick(struct tes_core *core)
{
	if (core->tombstones.open && !tes_core_is_young(core))
		close_tombstones(core);
}
