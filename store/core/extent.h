/* SPDX-License-Identifier: Apache-2.0 */
/* extent.h - chains of extents: where the replicas of an object lie */
#ifndef STORE_CORE_EXTENT_H
#define STORE_CORE_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "store/core/core.h"
#include "store/core/space.h"

struct tes_mount;
struct tes_object;

/* @e, of @o, is the first one of its replica. */
bool tes_core_extent_begins(const struct tes_object *o,
			    const struct tes_extent *e);
/* Some of its replicas is there. */
bool tes_core_object_on(const struct tes_object *o, const struct tes_mount *m);
/* NULL: it was lost with its mount. */
struct tes_mount *tes_core_extent_mount(const struct tes_extent *e);
/* Its mount is there, not being dropped. */
bool tes_core_extent_there(const struct tes_extent *e);
/* Of one that holds @size bytes of data. */
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
/* One that is in no chain and no list; lost ones too. */
void tes_core_extent_free(struct tes_core *core, struct tes_extent *e);
/* All of a chain. */
void tes_core_chain_free(struct tes_core *core, struct tes_extent *chain);
/*
 * Take replica @replica out of the chain of @o; returns it as a chain of its
 * own, its extents without user.
 */
struct tes_extent *tes_core_replica_cut(struct tes_core *core,
					struct tes_object *o, uint8_t replica);
/* The lowest number that no replica of @o has; TES_CORE_REPLICAS_MAX: none. */
uint8_t tes_core_replica_free(const struct tes_object *o);
/* @chain, which @o owns, is replica @replica of it, which it has not yet. */
void tes_core_replica_join(struct tes_object *o, struct tes_extent *chain,
			   uint8_t replica);

#endif
