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

struct tei_mount *tei_core_extent_mount(const struct tei_extent *e)
{
	if (!e->space)
		return NULL;
	return TEI_CONTAINER(e->space, struct tei_mount, space);
}

bool tei_core_extent_begins(const struct tei_object *o,
			    const struct tei_extent *e)
{
	const struct tei_extent *at = o->extents;

	while (at->replica != e->replica)
		at = at->next;
	return at == e;
}

bool tei_core_extent_there(const struct tei_extent *e)
{
	return e->space && !tei_core_extent_mount(e)->dropping;
}

uint64_t tei_core_extent_length(const struct tei_extent *e, uint64_t rest)
{
	uint64_t room = e->size - TEI_CORE_HEADER_LEN;

	return rest < room ? rest : room;
}

void tei_core_extent_own(struct tei_core *core, struct tei_extent *e,
			 struct tei_object *o)
{
	e->user = o;
	tei_core_tenant_of(core, o)->charged += e->size;
}

void tei_core_extent_disown(struct tei_core *core, struct tei_extent *e)
{
	const struct tei_object *o = e->user;

	if (o && e->space)
		tei_core_tenant_of(core, o)->charged -= e->size;
	e->user = NULL;
}

void tei_core_extent_free(struct tei_core *core, struct tei_extent *e)
{
	struct tei_mount *m = tei_core_extent_mount(e);

	tei_core_extent_disown(core, e);
	if (!m) {
		tei_slab_put(&core->extents, e);
		return;
	}
	if (tei_core_mount_live(m))
		core->figures.used_bytes -= e->size;
	tei_space_give(&m->space, e);
	if (!m->dropping)
		tei_core_loosen(core, m);
}

void tei_core_chain_free(struct tei_core *core, struct tei_extent *chain)
{
	struct tei_extent *next;

	for (; chain; chain = next) {
		next = chain->next;
		tei_core_extent_free(core, chain);
	}
}

struct tei_extent *tei_core_replica_cut(struct tei_core *core,
					struct tei_object *o, uint8_t replica)
{
	struct tei_extent **from = &o->extents, *cut, **to = &cut;

	while (*from && (*from)->replica != replica)
		from = &(*from)->next;
	while (*from && (*from)->replica == replica) {
		tei_core_extent_disown(core, *from);
		*to = *from;
		to = &(*from)->next;
		*from = *to;
	}
	*to = NULL;
	return cut;
}

bool tei_core_object_live(const struct tei_object *o)
{
	for (const struct tei_extent *e = o->extents; e; e = e->next)
		if (e->space && tei_core_mount_live(tei_core_extent_mount(e)))
			return true;
	return false;
}

bool tei_core_object_gone(const struct tei_object *o)
{
	for (const struct tei_extent *e = o->extents; e; e = e->next)
		if (tei_core_extent_there(e))
			return false;
	return true;
}

uint8_t tei_core_replica_free(const struct tei_object *o)
{
	uint32_t taken = 0;
	uint8_t r = 0;

	for (const struct tei_extent *e = o->extents; e; e = e->next)
		taken |= (uint32_t)1 << e->replica;
	while (r < TEI_CORE_REPLICAS_MAX && taken >> r & 1)
		r++;
	return r;
}

void tei_core_replica_join(struct tei_object *o, struct tei_extent *chain,
			   uint8_t replica)
{
	struct tei_extent **at = &o->extents, *last = chain;

	while (*at && (*at)->replica < replica)
		at = &(*at)->next;
	for (; last->next; last = last->next)
		last->replica = replica;
	last->replica = replica;
	last->next = *at;
	*at = chain;
}

bool tei_core_object_on(const struct tei_object *o, const struct tei_mount *m)
{
	for (const struct tei_extent *e = o->extents; e; e = e->next)
		if (tei_core_extent_mount(e) == m)
			return true;
	return false;
}

size_t tei_core_object_entries(const struct tei_object *o)
{
	size_t n = 0;

	for (const struct tei_extent *e = o->extents; e; e = e->next)
		n++;
	return n;
}
