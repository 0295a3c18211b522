/* SPDX-License-Identifier: Apache-2.0 */
/* replica.h - replicas: chains of extents, and their placement on segments */
#ifndef STORE_CORE_REPLICA_H
#define STORE_CORE_REPLICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/core/core.h"
#include "store/core/space.h"

struct tei_arena;
struct tes_core;
struct tes_core_replicate;
struct tes_event;
struct tes_mount;
struct tes_object;
struct tes_session;

/* @e, of @o, is the first one of its replica. */
bool tes_core_extent_begins(const struct tes_object *o,
			    const struct tes_extent *e);
/* True: some replica of @o lies on @m. */
bool tes_core_object_on(const struct tes_object *o, const struct tes_mount *m);
/* NULL: it was lost with its mount. */
struct tes_mount *tes_core_extent_mount(const struct tes_extent *e);
/* True: its mount is there, not being dropped. */
bool tes_core_extent_there(const struct tes_extent *e);
/* Size of an extent that holds @size bytes of data. */
static inline uint64_t tes_core_extent_size(uint64_t size)
{
	return (TES_CORE_HEADER_LEN + size + TES_SPACE_UNIT - 1) /
	       TES_SPACE_UNIT * TES_SPACE_UNIT;
}
/* Bytes of data in @e, where @rest are left from its beginning. */
uint64_t tes_core_extent_length(const struct tes_extent *e, uint64_t rest);
/* @e is a part of @o now, or no longer one of anything: its tenant is charged
 * for it until then. Before @e is lost, too. */
void tes_core_extent_own(struct tes_core *core, struct tes_extent *e,
			 struct tes_object *o);
void tes_core_extent_disown(struct tes_core *core, struct tes_extent *e);
/* Frees an extent that is in no chain and no list; lost ones too. */
void tes_core_extent_free(struct tes_core *core, struct tes_extent *e);
/* Frees all extents of a chain. */
void tes_core_chain_free(struct tes_core *core, struct tes_extent *chain);
/*
 * Take replica @replica out of the chain of @o; returns it as a chain of its
 * own, its extents without user.
 */
struct tes_extent *tes_core_replica_cut(struct tes_core *core,
					struct tes_object *o, uint8_t replica);
/* Lowest number that no replica of @o has; TES_CORE_REPLICAS_MAX: none. */
uint8_t tes_core_replica_free(const struct tes_object *o);
/* @chain, which @o owns, is replica @replica of it, which it has not yet. */
void tes_core_replica_join(struct tes_object *o, struct tes_extent *chain,
			   uint8_t replica);

/*
 * Objects of @size and more have no room on any live mount but perhaps on those
 * in @except: so a full pool of many mounts is not searched at every put.
 */
struct tes_no_room {
	uint64_t size;
	struct tes_mount *except[8];
	size_t n;
};

/* Constraints of the starts of one event. */
struct tes_placement {
	const struct tes_core_replicate *how;
	const struct tes_session *writer;
	struct tes_mount **preferred; /* preferred[n_preferred] */
	size_t n_preferred;
	struct tes_mount *near; /* same_node: mount of the objects before */
	/* No other host than those of the object's replicas has room for one
	 * more. */
	bool hosts_tried;
};

/*
 * Give @o, which has a size, one more replica, with number @replica. False:
 * no room on any mount that it is not on yet.
 */
bool tes_core_place(struct tes_core *core, struct tes_placement *placement,
		    struct tes_object *o, uint8_t replica);
/* Does the same on @m only. */
bool tes_core_place_on(struct tes_core *core, struct tes_mount *m,
		       struct tes_object *o, uint8_t replica);
/*
 * Tells whether nothing is known that keeps @size bytes from being placed on
 * @m.
 */
bool tes_core_mount_may_fit(const struct tes_mount *m, uint64_t size);
/* Forgets where there is no room: live mounts have changed. */
void tes_core_forget_no_room(struct tes_core *core);

#endif
