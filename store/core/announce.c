/* SPDX-License-Identifier: Apache-2.0 */
/*
 * announce.c - owners learn which objects their memory holds
 *
 * The objects that one step commits go to each owner as one batch of columns,
 * which nobody answers. An owner that may have missed some (its connection was
 * lost, or memory was short) gets everything that its segment holds again, in
 * steps: a resync.
 */
#include <errno.h>
#include <string.h>

#include "store/core/drain.h"
#include "store/core/epoch.h"
#include "store/core/fence.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/task.h"
#include "store/core/tenant.h"

/* Extents that one step of a resync looks at. */
#define SYNC_STEP 1024u

/* Batch of one owner in this step. */
struct tes_announcement {
	struct tes_announcement *next;
	struct tes_session *owner;
	size_t n, n_entries;
	struct tes_core_objects objects;
};

/* ---- columns of objects ---- */

/* Counts @e and the extents that follow it in its replica. */
static size_t replica_entries(const struct tes_extent *e)
{
	size_t n = 1;

	for (; e->next && e->next->replica == e->replica; e = e->next)
		n++;
	return n;
}

/* Allocates columns of rare attributes, only where some object has them. */
static int extras_init(const struct tes_core *core, struct tes_core_objects *c,
		       size_t n, struct tei_arena *arena)
{
	if (!core->n_extras)
		return 0;
	c->pin_ms = tei_arena_calloc(arena, n, sizeof(c->pin_ms[0]));
	c->groups = tei_arena_calloc(arena, n, sizeof(c->groups[0]));
	return c->pin_ms && c->groups ? 0 : -ENOMEM;
}

static int objects_init(const struct tes_core *core, struct tes_core_objects *c,
			size_t n, size_t n_entries, struct tei_arena *arena)
{
	*c = (struct tes_core_objects){
		.keys = tei_arena_alloc(arena, n * sizeof(c->keys[0])),
		.generation =
			tei_arena_alloc(arena, n * sizeof(c->generation[0])),
		.gen_epoch =
			tei_arena_alloc(arena, n * sizeof(c->gen_epoch[0])),
		.size = tei_arena_alloc(arena, n * sizeof(c->size[0])),
		.extents = tei_arena_alloc(arena, n * sizeof(c->extents[0])),
		.no_crc = tei_arena_alloc(arena, n * sizeof(c->no_crc[0])),
		.tenant = tei_arena_alloc(arena, n * sizeof(c->tenant[0])),
		.tenants = tei_arena_alloc(arena, n * sizeof(c->tenants[0])),
		.address = tei_arena_alloc(arena,
					   n_entries * sizeof(c->address[0])),
		.length = tei_arena_alloc(arena,
					  n_entries * sizeof(c->length[0])),
		.crc = tei_arena_alloc(arena, n_entries * sizeof(c->crc[0])),
		.attributes =
			tei_arena_alloc(arena, n * sizeof(c->attributes[0])),
	};
	return c->keys && c->generation && c->gen_epoch && c->size &&
			       c->extents && c->no_crc && c->tenant &&
			       c->tenants && c->address && c->length &&
			       c->crc && c->attributes
		       ? extras_init(core, c, n, arena)
		       : -ENOMEM;
}

/* Index of the tenant @t in the column; mostly that of the object before. */
static uint32_t tenant_column(struct tes_core_objects *c,
			      const struct tes_tenant *t)
{
	size_t i = c->n_tenants;

	if (!t->index)
		return 0;
	while (i && c->tenants[i - 1] != t->name)
		i--;
	if (i)
		return (uint32_t)i;
	c->tenants[c->n_tenants++] = t->name;
	return (uint32_t)c->n_tenants;
}

static uint32_t attributes_of(const struct tes_object *o)
{
	const struct tes_extra *x = tes_core_object_extra(o);
	uint32_t all = x ? x->data_type << TES_CORE_TYPE_SHIFT : 0;

	return o->flags & TES_OBJECT_HARD ? all | TES_CORE_PINNED : all;
}

static void add_extra(const struct tes_core *core, struct tes_core_objects *c,
		      size_t i, const struct tes_object *o)
{
	const struct tes_extra *x = tes_core_object_extra(o);

	if (!x || !c->pin_ms || !c->groups)
		return;
	if (x->pin_until_ms > core->now_ms)
		c->pin_ms[i] = x->pin_until_ms - core->now_ms;
	if (x->group)
		c->groups[i] = (struct tes_core_key){x->group->name,
						     x->group->name_len};
}

/* Adds the replica of @o that begins at @e; the columns have room. */
static void objects_add(const struct tes_core *core, struct tes_core_objects *c,
			const struct tes_object *o, const struct tes_extent *e)
{
	const struct tes_mount *m = tes_core_extent_mount(e);
	size_t i = c->n++, n = replica_entries(e);
	uint64_t rest = o->size;

	c->keys[i] = (struct tes_core_key){o->key, o->key_len};
	c->generation[i] = o->generation;
	c->gen_epoch[i] = core->epochs[o->epoch].number;
	c->size[i] = o->size;
	c->extents[i] = (uint32_t)n;
	c->no_crc[i] = o->flags & TES_OBJECT_NO_CRC;
	c->tenant[i] = tenant_column(c, tes_core_tenant_of(core, o));
	c->attributes[i] = attributes_of(o);
	add_extra(core, c, i, o);
	for (; n; n--, e = e->next) {
		size_t k = c->n_entries++;

		c->address[k] = m->base + e->offset;
		c->length[k] = tes_core_extent_length(e, rest);
		c->crc[k] = e->crc;
		rest -= c->length[k];
	}
}

/* Finds the first extent of a replica that lies at @owner; NULL: none. */
static const struct tes_extent *replica_at(const struct tes_object *o,
					   const struct tes_session *owner)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_there(e) &&
		    tes_core_extent_mount(e)->owner == owner)
			return e;
	return NULL;
}

int tes_core_objects_one(const struct tes_core *core,
			 const struct tes_object *o,
			 const struct tes_session *owner,
			 struct tes_core_objects *out, struct tei_arena *arena)
{
	const struct tes_extent *e = replica_at(o, owner);

	*out = (struct tes_core_objects){.n = 0};
	if (!e)
		return 0;
	if (objects_init(core, out, 1, replica_entries(e), arena) < 0)
		return -ENOMEM;
	objects_add(core, out, o, e);
	return 0;
}

/* ---- objects that a step has committed ---- */

int tes_core_commits_reserve(struct tes_step *step, size_t n)
{
	step->committed = tei_arena_alloc(step->out->arena,
					  n * sizeof(struct tes_object *));
	return step->committed ? 0 : -ENOMEM;
}

void tes_core_commit(struct tes_step *step, struct tes_object *o)
{
	step->committed[step->n_committed++] = o;
}

void tes_core_resync(struct tes_core *core, struct tes_mount *m)
{
	if (m->dropping || m->offering || !m->owner->buries)
		return;
	m->resync_begun = false;
	tes_space_rewind(&m->space, TES_SPACE_RESYNC);
	if (tei_list_empty(&m->resyncs))
		tei_list_add_tail(&core->resyncs, &m->resyncs);
}

static void resync_owners(struct tes_core *core, const struct tes_object *o)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_there(e))
			tes_core_resync(core, tes_core_extent_mount(e));
}

/* Session that learns of the replica that begins at @e; NULL: none. */
static struct tes_session *announced_to(const struct tes_object *o,
					const struct tes_extent *e)
{
	struct tes_session *s;

	if (!tes_core_extent_there(e) || !tes_core_extent_begins(o, e))
		return NULL;
	s = tes_core_extent_mount(e)->owner;
	return s->buries && s->beating ? s : NULL;
}

/* Counts the objects for each owner. -ENOMEM. */
static int count_announced(struct tes_step *step, const struct tes_object *o,
			   struct tes_announcement **all)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		struct tes_session *s = announced_to(o, e);

		if (!s)
			continue;
		if (s->announced_by != step->core->announce_serial) {
			s->announcement = tei_arena_calloc(
				step->out->arena, 1, sizeof(*s->announcement));
			if (!s->announcement)
				return -ENOMEM;
			s->announced_by = step->core->announce_serial;
			s->announcement->owner = s;
			s->announcement->next = *all;
			*all = s->announcement;
		}
		s->announcement->n++;
		s->announcement->n_entries += replica_entries(e);
	}
	return 0;
}

static int announce_committed(struct tes_step *step)
{
	struct tes_core *core = step->core;
	struct tes_actions *out = step->out;
	struct tes_announcement *all = NULL;
	size_t n = 0;

	core->announce_serial++;
	for (size_t i = 0; i < step->n_committed; i++)
		if (count_announced(step, step->committed[i], &all) < 0)
			return -ENOMEM;
	for (struct tes_announcement *a = all; a; a = a->next, n++)
		if (objects_init(core, &a->objects, a->n, a->n_entries,
				 out->arena) < 0)
			return -ENOMEM;
	if (tes_core_actions_reserve(out, n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < step->n_committed; i++) {
		const struct tes_object *o = step->committed[i];

		for (const struct tes_extent *e = o->extents; e; e = e->next) {
			struct tes_session *s = announced_to(o, e);

			if (s)
				objects_add(core, &s->announcement->objects, o,
					    e);
		}
	}
	for (struct tes_announcement *a = all; a; a = a->next)
		tes_core_action_add(out, TES_ACTION_COMMITTED, a->owner->id)
			->u.committed.objects = a->objects;
	return 0;
}

void tes_core_announce(struct tes_step *step)
{
	if (step->n_committed && announce_committed(step) < 0)
		for (size_t i = 0; i < step->n_committed; i++)
			resync_owners(step->core, step->committed[i]);
}

/* ---- resync: everything that a mount holds, in steps ---- */

/* Finds the object whose replica begins at @e; NULL: nothing to announce. */
static const struct tes_object *announced_object(const struct tes_extent *e)
{
	const struct tes_object *o = e->space ? e->user : NULL;

	if (!o || o->state != TES_OBJECT_READY || !tes_core_extent_begins(o, e))
		return NULL;
	return o;
}

/* Sends the next part of @m. -ENOMEM: nothing changed. */
static int resync_part(struct tes_core *core, struct tes_mount *m,
		       struct tes_actions *out)
{
	struct tes_core_objects objects;
	struct tes_extent *e = NULL;
	struct tes_action *a;
	size_t n = 0, n_extents = SYNC_STEP * TES_SPACE_PARTS;

	if (tes_core_actions_reserve(out, 1) < 0 ||
	    objects_init(core, &objects, SYNC_STEP, n_extents, out->arena) < 0)
		return -ENOMEM;
	while (n++ < SYNC_STEP &&
	       (e = tes_space_next(&m->space, TES_SPACE_RESYNC)))
		if (announced_object(e))
			objects_add(core, &objects, e->user, e);
	a = tes_core_action_add(out, TES_ACTION_COMMITTED, m->owner->id);
	a->u.committed.objects = objects;
	a->u.committed.segment = m->id;
	a->u.committed.begins = !m->resync_begun;
	a->u.committed.ends = !e;
	m->resync_begun = true;
	if (!e)
		tei_list_del(&m->resyncs);
	return 0;
}

void tes_core_resync_tick(struct tes_core *core, struct tes_actions *out)
{
	struct tes_mount *m;

	if (tei_list_empty(&core->resyncs))
		return;
	m = tei_list_entry(core->resyncs.next, struct tes_mount, resyncs);
	if (!m->owner->beating)
		tei_list_del(&m->resyncs); /* its first heartbeat is due */
	else
		(void)resync_part(core, m, out);
}
