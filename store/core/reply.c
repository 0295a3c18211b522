/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.c - actions and their columns, in the caller's arena
 *
 * All that a reply can need is taken from the arena before the event changes
 * anything, so that a full arena leaves the state as it was. Fences and closes
 * that find no room stay due and go out with a later step.
 */
#include "store/core/reply.h"

#include <errno.h>
#include <string.h>

#include "store/core/drain.h"
#include "store/core/epoch.h"
#include "store/core/fence.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/task.h"
#include "store/core/tenant.h"

struct tes_telling {
	struct tes_telling *next;
	struct tes_session *owner;
	size_t n, n_entries;
	struct tes_core_objects objects;
};

/* Extents of one step that are told again. */
#define SYNC_STEP 1024u

int tes_core_actions_reserve(struct tes_actions *out, size_t n)
{
	size_t room = out->room ? out->room : 8;
	struct tes_action *grown;

	if (out->room - out->n >= n)
		return 0;
	while (room - out->n < n)
		room *= 2;
	grown = tei_arena_alloc(out->arena, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	if (out->n)
		memcpy(grown, out->at, out->n * sizeof(*grown));
	out->at = grown;
	out->room = room;
	return 0;
}

struct tes_action *tes_core_action_add(struct tes_actions *out,
				       enum tes_action_type type,
				       tes_session_id session)
{
	struct tes_action *a = &out->at[out->n++];

	*a = (struct tes_action){.type = type, .session = session};
	return a;
}

static bool has_place(enum tes_event_type type)
{
	return type == TES_EVENT_PUT_START || type == TES_EVENT_LOOKUP;
}

static bool has_status(enum tes_event_type type)
{
	return has_place(type) || type == TES_EVENT_PUT_END ||
	       type == TES_EVENT_EXIST || type == TES_EVENT_SIZE ||
	       type == TES_EVENT_REMOVE || type == TES_EVENT_REPLICA_CLEAR ||
	       type == TES_EVENT_OFFER;
}

static bool is_drain(enum tes_event_type type)
{
	return type == TES_EVENT_DRAIN_CREATE ||
	       type == TES_EVENT_DRAIN_QUERY || type == TES_EVENT_DRAIN_CANCEL;
}

/* calloc that remembers in *@bad that one of many failed. */
static void *alloc_column(struct tei_arena *arena, size_t n, size_t size,
			  bool *bad)
{
	void *p = *bad ? NULL : tei_arena_calloc(arena, n, size);

	if (!p)
		*bad = true;
	return p;
}

static bool place_columns(struct tes_core *core, struct tes_action *a,
			  struct tei_arena *arena, size_t n)
{
	size_t names =
		core->figures.sessions < n ? (size_t)core->figures.sessions : n;
	bool bad = false;

	core->room = (struct tes_reply_room){arena, n, names + 1, NULL};
	a->u.reply.segment = alloc_column(arena, n, sizeof(uint32_t), &bad);
	a->u.reply.address = alloc_column(arena, n, sizeof(uint64_t), &bad);
	a->u.reply.generation = alloc_column(arena, n, sizeof(uint64_t), &bad);
	a->u.reply.gen_epoch = alloc_column(arena, n, sizeof(uint64_t), &bad);
	core->room.segments = alloc_column(arena, names + 1,
					   sizeof(*core->room.segments), &bad);
	a->u.reply.segments = core->room.segments;
	return !bad;
}

static bool alloc_columns(struct tes_core *core, const struct tes_event *ev,
			  struct tes_action *a, struct tei_arena *arena)
{
	size_t n = ev->n;
	bool bad = false;

	if (ev->type == TES_EVENT_TASK_CREATE ||
	    ev->type == TES_EVENT_TASK_QUERY) {
		a->u.reply.task =
			alloc_column(arena, 1, sizeof(*a->u.reply.task), &bad);
		return !bad;
	}
	if (is_drain(ev->type)) {
		a->u.reply.drain =
			alloc_column(arena, 1, sizeof(*a->u.reply.drain), &bad);
		return !bad;
	}
	if (!has_status(ev->type))
		return true;
	a->u.reply.n = n;
	a->u.reply.status = alloc_column(arena, n, sizeof(int32_t), &bad);
	if (ev->type == TES_EVENT_LOOKUP || ev->type == TES_EVENT_SIZE)
		a->u.reply.size =
			alloc_column(arena, n, sizeof(uint64_t), &bad);
	if (ev->type == TES_EVENT_LOOKUP)
		a->u.reply.crc = alloc_column(arena, n, sizeof(uint32_t), &bad);
	if (ev->type == TES_EVENT_LOOKUP)
		a->u.reply.no_crc = alloc_column(arena, n, sizeof(bool), &bad);
	if (ev->type == TES_EVENT_LOOKUP && core->n_epochs > 2)
		a->u.reply.unverified =
			alloc_column(arena, n, sizeof(bool), &bad);
	if (bad)
		return false;
	return !has_place(ev->type) || place_columns(core, a, arena, n);
}

struct tes_action *tes_core_reply(struct tes_core *core,
				  const struct tes_event *ev, int32_t code,
				  struct tes_actions *out)
{
	struct tes_action a = {.type = TES_ACTION_REPLY,
			       .session = ev->session,
			       .cookie = ev->cookie};

	a.u.reply.of = ev->type;
	a.u.reply.code = code;
	if (!code && !alloc_columns(core, ev, &a, out->arena))
		return NULL;
	if (tes_core_actions_reserve(out, 1) < 0)
		return NULL;
	core->reply_serial++;
	out->at[out->n] = a;
	return &out->at[out->n++];
}

/* Column @*at of @n, grown to @room items. */
static void grow_column(struct tei_arena *arena, void *at, size_t n,
			size_t room, size_t size, bool *bad)
{
	void *old, *grown = alloc_column(arena, room, size, bad);

	memcpy(&old, at, sizeof(old));
	if (!grown || !old)
		return;
	memcpy(grown, old, n * size);
	memcpy(at, &grown, sizeof(grown));
}

static bool grow_entries(struct tes_core *core, struct tes_action *a,
			 size_t need)
{
	struct tei_arena *arena = core->room.arena;
	size_t n = a->u.reply.n_entries, room = core->room.entries;
	bool bad = false;

	if (need <= room)
		return true;
	while (room < need)
		room *= 2;
	grow_column(arena, &a->u.reply.segment, n, room, sizeof(uint32_t),
		    &bad);
	grow_column(arena, &a->u.reply.address, n, room, sizeof(uint64_t),
		    &bad);
	grow_column(arena, &a->u.reply.replica, n, room, sizeof(uint32_t),
		    &bad);
	grow_column(arena, &a->u.reply.length, n, room, sizeof(uint64_t), &bad);
	grow_column(arena, &a->u.reply.crc, n, room, sizeof(uint32_t), &bad);
	if (!bad)
		core->room.entries = room;
	return !bad;
}

static bool grow_names(struct tes_core *core, struct tes_action *a, size_t need)
{
	size_t room = core->room.names;
	bool bad = false;

	need += a->u.reply.n_segments;
	if (need <= room)
		return true;
	grow_column(core->room.arena, &core->room.segments,
		    a->u.reply.n_segments, need * 2,
		    sizeof(*core->room.segments), &bad);
	a->u.reply.segments = core->room.segments;
	if (!bad)
		core->room.names = need * 2;
	return !bad;
}

/* From key @i on keys may have any number of entries. */
static bool count_entries(struct tes_core *core, struct tes_action *a,
			  const struct tes_event *ev, size_t i)
{
	struct tei_arena *arena = core->room.arena;
	const uint64_t *size = a->u.reply.size;
	uint32_t *extents, *replica;
	uint64_t *length;
	bool bad = false;

	if (a->u.reply.extents)
		return true;
	extents = alloc_column(arena, ev->n, sizeof(*extents), &bad);
	replica =
		alloc_column(arena, core->room.entries, sizeof(*replica), &bad);
	length = alloc_column(arena, core->room.entries, sizeof(*length), &bad);
	if (bad)
		return false;
	if (ev->type == TES_EVENT_PUT_START)
		size = ev->u.put_start.sizes;
	for (size_t j = 0; j < i; j++) {
		extents[j] = 1;
		length[j] = a->u.reply.status[j] ? 0 : size[j];
	}
	a->u.reply.extents = extents;
	a->u.reply.replica = replica;
	a->u.reply.length = length;
	return true;
}

/* The index of @s among the segments of the reply being made. */
static uint32_t segment_index(struct tes_core *core, struct tes_action *reply,
			      struct tes_session *s)
{
	struct tes_core_segment_name *names = core->room.segments;

	if (s->named_by != core->reply_serial) {
		s->named_by = core->reply_serial;
		s->named_as = (uint32_t)reply->u.reply.n_segments++;
		names[s->named_as].engine = s->engine;
		names[s->named_as].incarnation = s->incarnation;
	}
	return s->named_as;
}

/* Whether @e is told of: readers are told of what they can reach. */
static bool is_listed(const struct tes_action *a, const struct tes_extent *e)
{
	const struct tes_mount *m = tes_core_extent_mount(e);

	return m &&
	       (a->u.reply.of == TES_EVENT_PUT_START || tes_core_mount_live(m));
}

/* Entry @k: @e, of which @rest bytes of the object are left. */
static void put_entry(struct tes_core *core, struct tes_action *a, size_t k,
		      const struct tes_extent *e, uint32_t replica,
		      uint64_t length)
{
	struct tes_mount *m = tes_core_extent_mount(e);

	a->u.reply.segment[k] = segment_index(core, a, m->owner);
	a->u.reply.address[k] = m->base + e->offset;
	if (a->u.reply.crc)
		a->u.reply.crc[k] = e->crc;
	if (!a->u.reply.extents)
		return;
	a->u.reply.replica[k] = replica;
	a->u.reply.length[k] = length;
}

/* At most @n entries, whole replicas. */
static size_t put_entries(struct tes_core *core, struct tes_action *a,
			  const struct tes_object *o, size_t n)
{
	size_t from = a->u.reply.n_entries, k = from;
	uint32_t replica = 0;
	uint64_t rest = o->size, length;

	for (const struct tes_extent *e = o->extents; e && k < from + n;
	     e = e->next) {
		bool last = !e->next || e->next->replica != e->replica;

		length = tes_core_extent_length(e, rest);
		if (is_listed(a, e)) {
			put_entry(core, a, k++, e, replica, length);
			replica += last;
		}
		rest = last ? o->size : rest - length;
	}
	return k - from;
}

/* How many entries @o gets: only one replica once there are many. */
static size_t entries_of(const struct tes_action *a, const struct tes_object *o)
{
	const struct tes_extent *first = NULL;
	size_t n = 0;

	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		if (!is_listed(a, e))
			continue;
		if (!first)
			first = e;
		if (a->u.reply.n_entries >= TES_CORE_ENTRIES_MANY &&
		    e->replica != first->replica)
			break;
		n++;
	}
	return n;
}

bool tes_core_reply_place(struct tes_core *core, struct tes_action *a,
			  const struct tes_event *ev, size_t i,
			  const struct tes_object *o)
{
	size_t n = o ? entries_of(a, o) : 1;
	size_t later = ev->n - i - 1;

	if (n != 1 && !count_entries(core, a, ev, i))
		goto nowhere;
	if (!grow_entries(core, a, a->u.reply.n_entries + n + later) ||
	    (o && !grow_names(core, a, n)))
		goto nowhere;
	if (o) {
		put_entries(core, a, o, n);
		a->u.reply.generation[i] = o->generation;
		a->u.reply.gen_epoch[i] = core->epochs[o->epoch].number;
	}
	if (a->u.reply.extents)
		a->u.reply.extents[i] = (uint32_t)n;
	a->u.reply.n_entries += n;
	return true;

nowhere:
	if (a->u.reply.extents)
		a->u.reply.extents[i] = 1;
	a->u.reply.n_entries++;
	return false;
}

static int fence_put(struct tes_action *a, const struct tes_fence *f,
		     struct tei_arena *arena)
{
	if (!f->burial) {
		a->u.fence.fence = f->id;
		a->u.fence.writer = f->writer;
		return 0;
	}
	if (tes_core_graves_put(a, &f->graves, arena) < 0)
		return -ENOMEM;
	a->u.bury.burial = f->id;
	return 0;
}

static void flush_fences(struct tes_core *core, struct tes_actions *out)
{
	while (!tei_list_empty(&core->unsent)) {
		struct tes_fence *f = tei_list_entry(core->unsent.next,
						     struct tes_fence, unsent);
		struct tes_action *a;

		if (tes_core_fence_moot(f)) {
			tes_core_fence_free(core, f);
			continue;
		}
		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		a = tes_core_action_add(out, TES_ACTION_FENCE, f->owner->id);
		if (fence_put(a, f, out->arena) < 0) {
			out->n--;
			return;
		}
		f->sent = true;
		tei_list_del(&f->unsent);
	}
}

static void resync_owners(struct tes_core *core, const struct tes_object *o)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_there(e))
			tes_core_sync(core, tes_core_extent_mount(e));
}

/* What few objects have: only where some do. */
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

/* The extents that follow @e in its replica, and itself. */
static size_t replica_entries(const struct tes_extent *e)
{
	size_t n = 1;

	for (; e->next && e->next->replica == e->replica; e = e->next)
		n++;
	return n;
}

/* What the column says for one of @t's; mostly the one before was, too. */
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

/* The replica of @o that begins at @e, whose columns have room. */
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

/* Whom the replica that begins at @e is told to; NULL: nobody listens. */
static struct tes_session *announced_to(const struct tes_object *o,
					const struct tes_extent *e)
{
	struct tes_session *s;

	if (!tes_core_extent_there(e) || !tes_core_extent_begins(o, e))
		return NULL;
	s = tes_core_extent_mount(e)->owner;
	return s->buries && s->beating ? s : NULL;
}

/* Count what each owner will be told. -ENOMEM. */
static int count_announced(struct tes_core *core, const struct tes_object *o,
			   struct tes_telling **all, struct tei_arena *arena)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		struct tes_session *s = announced_to(o, e);

		if (!s)
			continue;
		if (s->told_by != core->telling) {
			s->telling =
				tei_arena_calloc(arena, 1, sizeof(*s->telling));
			if (!s->telling)
				return -ENOMEM;
			s->told_by = core->telling;
			s->telling->owner = s;
			s->telling->next = *all;
			*all = s->telling;
		}
		s->telling->n++;
		s->telling->n_entries += replica_entries(e);
	}
	return 0;
}

static int announce_committed(struct tes_core *core, struct tes_actions *out)
{
	struct tes_telling *all = NULL;
	size_t n = 0;

	core->telling++;
	for (size_t i = 0; i < core->n_committed; i++)
		if (count_announced(core, core->committed[i], &all,
				    out->arena) < 0)
			return -ENOMEM;
	for (struct tes_telling *t = all; t; t = t->next, n++)
		if (objects_init(core, &t->objects, t->n, t->n_entries,
				 out->arena))
			return -ENOMEM;
	if (tes_core_actions_reserve(out, n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < core->n_committed; i++) {
		const struct tes_object *o = core->committed[i];

		for (const struct tes_extent *e = o->extents; e; e = e->next) {
			struct tes_session *s = announced_to(o, e);

			if (s)
				objects_add(core, &s->telling->objects, o, e);
		}
	}
	for (struct tes_telling *t = all; t; t = t->next)
		tes_core_action_add(out, TES_ACTION_COMMITTED, t->owner->id)
			->u.committed.objects = t->objects;
	return 0;
}

static void flush_announcements(struct tes_core *core, struct tes_actions *out)
{
	if (core->n_committed && announce_committed(core, out) < 0)
		for (size_t i = 0; i < core->n_committed; i++)
			resync_owners(core, core->committed[i]);
	core->n_committed = 0;
}

void tes_core_flush(struct tes_core *core, struct tes_actions *out)
{
	flush_announcements(core, out);
	tes_core_notices_flush(core, out);
	flush_fences(core, out);
	tes_core_probes_flush(core, out);
	tes_core_tasks_flush(core, out);
	tes_core_walks_flush(core, out);
	tes_core_drains_flush(core, out);
	tes_core_answers_flush(core, out);
	tes_core_news_flush(core, out);
	while (!tei_list_empty(&core->closes)) {
		struct tes_session *s = tei_list_entry(
			core->closes.next, struct tes_session, close);

		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		tes_core_action_add(out, TES_ACTION_CLOSE, s->id);
		tei_list_del(&s->close);
	}
}

/*
 * tell.c - owners are told what was committed to their memory
 *
 * What one step commits goes to each owner as one batch of columns, which
 * nobody answers. Who may have missed some (its connection was lost, or memory
 * was short) is told all that its segment holds again, in steps.
 */

/* ---- columns ---- */

/* Where a replica begins that lies at @owner; NULL: none does. */
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

/* ---- what a step has committed ---- */

void tes_core_committed(struct tes_core *core, struct tes_object *o)
{
	core->committed[core->n_committed++] = o;
}

/* ---- all again ---- */

void tes_core_sync(struct tes_core *core, struct tes_mount *m)
{
	if (m->dropping || m->offering || !m->owner->buries)
		return;
	m->sync_begun = false;
	tes_space_rewind(&m->space, TES_SPACE_SYNC);
	if (tei_list_empty(&m->syncs))
		tei_list_add_tail(&core->syncs, &m->syncs);
}

/* The object whose replica begins at @e; NULL: nothing to tell of. */
static const struct tes_object *announced_object(const struct tes_extent *e)
{
	const struct tes_object *o = e->space ? e->user : NULL;

	if (!o || o->state != TES_OBJECT_READY || !tes_core_extent_begins(o, e))
		return NULL;
	return o;
}

/* The next part of @m. -ENOMEM: nothing changed. */
static int sync_part(struct tes_core *core, struct tes_mount *m,
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
	       (e = tes_space_next(&m->space, TES_SPACE_SYNC)))
		if (announced_object(e))
			objects_add(core, &objects, e->user, e);
	a = tes_core_action_add(out, TES_ACTION_COMMITTED, m->owner->id);
	a->u.committed.objects = objects;
	a->u.committed.segment = m->id;
	a->u.committed.begins = !m->sync_begun;
	a->u.committed.ends = !e;
	m->sync_begun = true;
	if (!e)
		tei_list_del(&m->syncs);
	return 0;
}

void tes_core_sync_some(struct tes_core *core, struct tes_actions *out)
{
	struct tes_mount *m;

	if (tei_list_empty(&core->syncs))
		return;
	m = tei_list_entry(core->syncs.next, struct tes_mount, syncs);
	if (!m->owner->beating)
		tei_list_del(&m->syncs); /* its first heartbeat is due */
	else
		(void)sync_part(core, m, out);
}
