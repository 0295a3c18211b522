/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoch.h - lives of the master, and keys that must not come back from earlier
 * ones
 *
 * Somebody who names an epoch to us may be believed, since he has a proof or is
 * one of us: then ours goes on above it, and he is let in when nothing is being
 * put under the number before. Else his number counts for nothing: what he
 * offers of lives above ours is refused.
 */
#ifndef STORE_CORE_EPOCH_H
#define STORE_CORE_EPOCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tes_core;
struct tes_object;
struct tes_tenant;

/* A life of the master; ours may have had several numbers. */
struct tes_epoch {
	uint64_t number;    /* or, where forgotten, index of the next one */
	uint32_t n_objects; /* of it, whatever their state */
	bool ours;
};

#define TES_TOMBSTONE_PARTS 64u

/* Hashes of one range. */
struct tes_tombstone_part {
	uint64_t *at;     /* at[room], owned; 0: free, else each at its place or
		       * in the next that was free */
	uint32_t n, room; /* a power of two, or 0 */
};

/* Keys whose values from earlier lives are void: they do not come back. */
struct tes_tombstones {
	bool open; /* owners may still bring others */
	size_t n;  /* hashes */
	struct tes_tombstone_part
		part[TES_TOMBSTONE_PARTS]; /* index: the first bits */
};

/* Epoch 1 is the configured one, and values may come back. -ENOMEM. */
int tes_core_epochs_init(struct tes_core *core);
void tes_core_epochs_fini(struct tes_core *core);
/* True: some life of a master may have had the number @epoch. */
bool tes_core_epoch_valid(uint64_t epoch);
/* True: ours has, or had, the number @epoch. */
bool tes_core_epoch_is_ours(const struct tes_core *core, uint64_t epoch);
/*
 * Index of @epoch, a valid one of an object from outside, which holds it from
 * now on. -ENOSPC: there are objects of too many epochs; -ENOMEM.
 */
int tes_core_epoch_index(struct tes_core *core, uint64_t epoch,
			 uint16_t *index);
/* Gives @o, which is of another epoch, the one at index @i. */
void tes_core_epoch_change(struct tes_core *core, struct tes_object *o,
			   uint16_t i);

/* True: owners of earlier lives may still come back, with what they have. */
bool tes_core_is_young(const struct tes_core *core);

/* Id of something with @number in this master's life, a task or a drain. */
void tes_core_id_of(const struct tes_core *core, uint64_t number, uint8_t *id);
/* False: @id is of another life. */
bool tes_core_id_number(const struct tes_core *core, const uint8_t *id,
			uint64_t *number);

/* Remembers that the key with @hash was changed here: older values do not come
 * back. */
void tes_core_tombstone(struct tes_core *core, uint64_t hash);
/* Starts to load what tombstone() of @hash will touch. */
void tes_core_tombstone_prefetch(const struct tes_core *core, uint64_t hash);
/* Remembers it for all keys of @t that are not here yet. */
void tes_core_tombstone_all(struct tes_core *core, struct tes_tenant *t);
/* True: an owner may bring the key of @t, which is not here. */
bool tes_core_may_return(const struct tes_core *core,
			 const struct tes_tenant *t, uint64_t hash);
void tes_core_tombstones_tick(struct tes_core *core);

#endif
