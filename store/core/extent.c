/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extent.c - chains of extents: where the replicas of an object lie
 *
 * A chain is in order of replicas and, in each, of offsets in the object. All
 * extents of a replica but the last are full, so lengths need no room. While
 * an object is BUILDING its chain keeps the place of extents whose mount has
 * gone: its writer counts entries as they were given to it.
 */
#include "store/core/extent.h"

#include "store/core/mount.h"
#include "store/core/object.h"
#include "store/core/place.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/tenant.h"

struct tes_mount *tes_core_extent_mount(const struct tes_extent *e)
{
	if (!e->space)
		return NULL;
	return TEI_CONTAINER(e->space, struct tes_mount, space);
}

bool tes_core_extent_begins(const struct tes_object *o,
			    const struct tes_extent *e)
{
	const struct tes_extent *at = o->extents;

	while (at->replica != e->replica)
		at = at->next;
	return at == e;
}

bool tes_core_extent_there(const struct tes_extent *e)
{
	return e->space && !tes_core_extent_mount(e)->dropping;
}

uint64_t tes_core_extent_length(const struct tes_extent *e, uint64_t rest)
{
	uint64_t room = e->size - TES_CORE_HEADER_LEN;

	return rest < room ? rest : room;
}

void tes_core_extent_own(struct tes_core *core, struct tes_extent *e,
			 struct tes_object *o)
{
	e->user = o;
	tes_core_tenant_of(core, o)->charged += e->size;
}

void tes_core_extent_disown(struct tes_core *core, struct tes_extent *e)
{
	const struct tes_object *o = e->user;

	if (o && e->space)
		tes_core_tenant_of(core, o)->charged -= e->size;
	e->user = NULL;
}

void tes_core_extent_free(struct tes_core *core, struct tes_extent *e)
{
	struct tes_mount *m = tes_core_extent_mount(e);

	tes_core_extent_disown(core, e);
	if (!m) {
		tei_slab_put(&core->extents, e);
		return;
	}
	if (tes_core_mount_live(m))
		core->figures.used_bytes -= e->size;
	tes_space_give(&m->space, e);
	if (!m->dropping)
		tes_core_loosen(core, m);
}

void tes_core_chain_free(struct tes_core *core, struct tes_extent *chain)
{
	struct tes_extent *next;

	for (; chain; chain = next) {
		next = chain->next;
		tes_core_extent_free(core, chain);
	}
}

struct tes_extent *tes_core_replica_cut(struct tes_core *core,
					struct tes_object *o, uint8_t replica)
{
	struct tes_extent **from = &o->extents, *cut, **to = &cut;

	while (*from && (*from)->replica != replica)
		from = &(*from)->next;
	while (*from && (*from)->replica == replica) {
		tes_core_extent_disown(core, *from);
		*to = *from;
		to = &(*from)->next;
		*from = *to;
	}
	*to = NULL;
	return cut;
}

bool tes_core_object_live(const struct tes_object *o)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (e->space && tes_core_mount_live(tes_core_extent_mount(e)))
			return true;
	return false;
}

bool tes_core_object_gone(const struct tes_object *o)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_there(e))
			return false;
	return true;
}

uint8_t tes_core_replica_free(const struct tes_object *o)
{
	uint32_t taken = 0;
	uint8_t r = 0;

	for (const struct tes_extent *e = o->extents; e; e = e->next)
		taken |= (uint32_t)1 << e->replica;
	while (r < TES_CORE_REPLICAS_MAX && taken >> r & 1)
		r++;
	return r;
}

void tes_core_replica_join(struct tes_object *o, struct tes_extent *chain,
			   uint8_t replica)
{
	struct tes_extent **at = &o->extents, *last = chain;

	while (*at && (*at)->replica < replica)
		at = &(*at)->next;
	for (; last->next; last = last->next)
		last->replica = replica;
	last->replica = replica;
	last->next = *at;
	*at = chain;
}

bool tes_core_object_on(const struct tes_object *o, const struct tes_mount *m)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_mount(e) == m)
			return true;
	return false;
}

size_t tes_core_object_entries(const struct tes_object *o)
{
	size_t n = 0;

	for (const struct tes_extent *e = o->extents; e; e = e->next)
		n++;
	return n;
}
