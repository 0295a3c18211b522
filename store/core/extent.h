/* SPDX-License-Identifier: Apache-2.0 */
/* extent.h - chains of extents: where the replicas of an object lie */
#ifndef STORE_CORE_EXTENT_H
#define STORE_CORE_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "store/core/core.h"
#include "store/core/space.h"

struct tei_mount;
struct tei_object;

/* @e, of @o, is the first one of its replica. */
bool tei_core_extent_begins(const struct tei_object *o,
			    const struct tei_extent *e);
/* Some of its replicas is there. */
bool tei_core_object_on(const struct tei_object *o, const struct tei_mount *m);
/* NULL: it was lost with its mount. */
struct tei_mount *tei_core_extent_mount(const struct tei_extent *e);
/* Its mount is there, not being dropped. */
bool tei_core_extent_there(const struct tei_extent *e);
/* Of one that holds @size bytes of data. */
static inline uint64_t tei_core_extent_size(uint64_t size)
{
	return (TEI_CORE_HEADER_LEN + size + TEI_SPACE_UNIT - 1) /
	       TEI_SPACE_UNIT * TEI_SPACE_UNIT;
}
/* Bytes of data in @e, where @rest are left from its beginning. */
uint64_t tei_core_extent_length(const struct tei_extent *e, uint64_t rest);
/* @e is a part of @o now, or no longer one of anything: its tenant is charged
 * for it until then. Before @e is lost, too. */
void tei_core_extent_own(struct tei_core *core, struct tei_extent *e,
			 struct tei_object *o);
void tei_core_extent_disown(struct tei_core *core, struct tei_extent *e);
/* One that is in no chain and no list; lost ones too. */
void tei_core_extent_free(struct tei_core *core, struct tei_extent *e);
/* All of a chain. */
void tei_core_chain_free(struct tei_core *core, struct tei_extent *chain);
/*
 * Take replica @replica out of the chain of @o; returns it as a chain of its
 * own, its extents without user.
 */
struct tei_extent *tei_core_replica_cut(struct tei_core *core,
					struct tei_object *o, uint8_t replica);
/* The lowest number that no replica of @o has; TEI_CORE_REPLICAS_MAX: none. */
uint8_t tei_core_replica_free(const struct tei_object *o);
/* @chain, which @o owns, is replica @replica of it, which it has not yet. */
void tei_core_replica_join(struct tei_object *o, struct tei_extent *chain,
			   uint8_t replica);

#endif
