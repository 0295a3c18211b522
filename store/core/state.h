/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h - state of the core, shared by the files of store/core
 *
 * Ownership: sessions own mounts (segments), mounts own their space and
 * with it every extent. An object holds a chain of taken extents, by replica
 * and then by offset; all extents of a replica are of one mount, replicas of
 * one object are of distinct ones. A READY object has only replicas that are
 * all there. An extent whose object is gone but whose writer may still write
 * belongs to a fence.
 *
 * A key may have two objects: the one that is there, and a BUILDING successor
 * that takes its place at its end. find() passes over successors.
 *
 * An object's link is in exactly one list:
 *   BUILDING                        its writer's `builds`
 *   READY, read lease               core `leased`, earliest lease first
 *   READY, pinned hard              none
 *   READY, pinned softly            none, but its pin core `pins`
 *   READY, no owner live            `parked` of its mount, or of the core when
 *                                   it has several, or core `back` when an
 *                                   owner has come back
 *   READY, else                     a queue of core `policy`
 * and a BUILDING one's age in core `building`, oldest first. An extent's link:
 * free, a bin; FENCING, its fence; an object's, the chain instead.
 *
 * A tenant is charged for the extents of its objects, READY or BUILDING, from
 * tes_core_extent_own() to tes_core_extent_disown(): not for what is lost or
 * belongs to a fence. Each tenant has an eviction policy of its own.
 *
 * A mount's death costs what it holds: `dropping` mounts are walked extent by
 * extent in ticks, gone sessions build by build.
 */
#ifndef STORE_CORE_STATE_H
#define STORE_CORE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/slab.h"
#include "store/core/core.h"
#include "store/core/drain.h"
#include "store/core/epoch.h"
#include "store/core/hot.h"
#include "store/core/replica.h"
#include "store/core/task.h"

struct tes_epoch;
struct tes_mount;
struct tes_object;
struct tes_tenant;

/* Objects of up to 512 bytes, with their keys, come from slabs. */
#define TES_CORE_BLOCK_STEP  16
#define TES_CORE_BLOCK_SLABS 32

struct tes_core {
	struct tes_core_config config;
	uint64_t last_ms;    /* caller's clock at the last step */
	uint64_t stalled_ms; /* time that passed while nobody stepped */
	uint64_t now_ms;     /* core's clock: last_ms - stalled_ms */
	uint64_t started_ms; /* core's clock at the first step */
	uint64_t random;
	/* Last ones given out. */
	uint64_t generation, mount_serial, fence_id, reply_serial, name_holds;

	struct tei_hash objects, sessions, clients, groups;
	struct tei_hash incarnations; /* sessions, by incarnation */
	struct tei_hash names;        /* by name: the first mount of each */
	uint64_t claims;              /* owners that came back for theirs */
	struct tei_slab extents;
	struct tei_slab blocks[TES_CORE_BLOCK_SLABS]; /* objects */
	/* tenants[n_tenants]; NULL: a place that is free */
	struct tes_tenant **tenants;
	size_t n_tenants, free_tenant; /* first place that may be free */
	size_t n_without_quota;        /* tenants */
	struct tei_hash tenant_names;
	bool idle_tenants;        /* may exist */
	bool shares_due;          /* pool size has changed */
	uint16_t payer;           /* tenant that evicts for all ... */
	unsigned int payer_turns; /* ... for so many objects more */
	struct tei_list leased, parked, back;
	struct tei_heap pins;     /* key: end of the pin */
	size_t n_extras;          /* each has a place there */
	struct tei_list building; /* objects, by age */
	struct tei_list live, silent, left, idle, gone;
	struct tei_list closes, changed;
	struct tei_list unprobed; /* sessions that are to be asked */
	struct tei_list probed;   /* probed, longest first */
	uint64_t gap_ms;          /* end of the last gap between steps */
	struct tei_list fences, unsent;
	struct tei_list burials; /* fences of that kind, oldest first */
	struct tei_list notices, resyncs;
	struct tei_list answers; /* waiters that wait no more */
	struct tei_list dropping, walks;
	struct tei_list graces; /* mounts, in no order: they are few */
	size_t n_walks;
	struct tes_tasks tasks;
	struct tes_drains drains;
	struct tes_hot_keys hot;
	struct tes_tombstones tombstones;

	struct tes_mount **mounts; /* mounts[n_mounts], in mount order, usable
				    * or suspect but not dropping */
	size_t n_mounts, mounts_room;
	uint64_t pool_bytes;           /* all mounts', suspect ones too */
	size_t n_all_mounts;           /* with those that are being dropped */
	size_t n_live_mounts;          /* all: every READY object can be read */
	uint64_t largest_mount;        /* upper bound of its extents */
	bool largest_went;             /* may be less by now */
	struct tes_no_room no_room[2]; /* in one extent, in several */
	bool evicting;                 /* from high to low watermark */
	unsigned int effort;           /* left to the starts of this event */

	uint64_t announce_serial; /* last step that announced */
	struct tes_epoch *epochs; /* epochs[n_epochs]; the first is nobody's */
	/* epochs_by_number[n_known_epochs]: indices, sorted */
	uint16_t *epochs_by_number;
	size_t n_epochs, n_known_epochs;
	size_t epochs_room;   /* of both arrays */
	size_t n_idle_epochs; /* known ones that no object is of */
	uint16_t own_epoch;   /* index */
	/* Objects that were begun below it are not committed, and clients that
	 * know of a number from above it wait. Less than ours for a while
	 * after a raise. */
	uint64_t floor_epoch;
	uint64_t asked_epoch; /* highest that was to be exceeded */
	uint64_t raised_ms;   /* when ours was raised last */
	uint16_t free_epoch;  /* index of one that was forgotten; 0: none */
	uint64_t heap_bytes;  /* objects, mounts, sessions, fences; no keys */
	struct tes_core_figures figures; /* counters */
};

/* True: @since is @ms ago; @ms 0: never. */
static inline bool tes_core_is_past(const struct tes_core *core, uint64_t since,
				    uint64_t ms)
{
	return ms && since + ms <= core->now_ms;
}

/* Counts one object more, or less, of the epoch at index @i: others may be
 * forgotten. */
static inline void tes_core_epoch_hold(struct tes_core *core, uint16_t i)
{
	if (!core->epochs[i].n_objects++)
		core->n_idle_epochs--;
}

static inline void tes_core_epoch_release(struct tes_core *core, uint16_t i)
{
	if (!--core->epochs[i].n_objects)
		core->n_idle_epochs++;
}

/*
 * Budgets bound the work of a step, in objects looked at, some 40 ns each.
 * Ticks hand one from subject to subject; core `effort` is that of an event's
 * starts.
 */

/* Takes @cost from *@budget, all of it when @cost is more. */
static inline void tes_core_spend(unsigned int *budget, size_t cost)
{
	*budget -= *budget < cost ? *budget : (unsigned int)cost;
}

#endif
