/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.c - actions and the columns of replies, in the caller's arena
 *
 * Everything that a reply can need is taken from the arena before the event
 * changes anything, so a full arena leaves the state as it was.
 */
#include "store/core/reply.h"

#include <errno.h>
#include <string.h>

#include "store/core/epoch.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/step.h"

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

/* calloc that remembers in *@bad that one of many failed. */
static void *alloc_column(struct tei_arena *arena, size_t n, size_t size,
			  bool *bad)
{
	void *p = *bad ? NULL : tei_arena_calloc(arena, n, size);

	if (!p)
		*bad = true;
	return p;
}

/* The columns of extents: each key has one entry until count_entries(). */
static bool alloc_places(struct tes_step *step, struct tes_action *a)
{
	struct tei_arena *arena = step->out->arena;
	uint64_t sessions = step->core->figures.sessions;
	size_t n = step->ev->n;
	size_t names = sessions < n ? (size_t)sessions : n;
	bool bad = false;

	step->room = (struct tes_reply_room){n, names + 1, NULL};
	a->u.reply.segment = alloc_column(arena, n, sizeof(uint32_t), &bad);
	a->u.reply.address = alloc_column(arena, n, sizeof(uint64_t), &bad);
	a->u.reply.generation = alloc_column(arena, n, sizeof(uint64_t), &bad);
	a->u.reply.gen_epoch = alloc_column(arena, n, sizeof(uint64_t), &bad);
	step->room.segments = alloc_column(arena, names + 1,
					   sizeof(*step->room.segments), &bad);
	a->u.reply.segments = step->room.segments;
	return !bad;
}

static bool alloc_columns(struct tes_step *step, struct tes_action *a)
{
	struct tei_arena *arena = step->out->arena;
	unsigned int has = step->flags;
	size_t n = step->ev->n;
	bool bad = false;

	if (has & TES_STEP_TASK)
		a->u.reply.task =
			alloc_column(arena, 1, sizeof(*a->u.reply.task), &bad);
	if (has & TES_STEP_DRAIN)
		a->u.reply.drain =
			alloc_column(arena, 1, sizeof(*a->u.reply.drain), &bad);
	if (has & TES_STEP_STATUS) {
		a->u.reply.n = n;
		a->u.reply.status =
			alloc_column(arena, n, sizeof(int32_t), &bad);
	}
	if (has & TES_STEP_SIZES)
		a->u.reply.size =
			alloc_column(arena, n, sizeof(uint64_t), &bad);
	if (has & TES_STEP_CHECKSUMS) {
		a->u.reply.crc = alloc_column(arena, n, sizeof(uint32_t), &bad);
		a->u.reply.no_crc = alloc_column(arena, n, sizeof(bool), &bad);
		/* Another epoch may be met between two parts. */
		if (step->core->n_epochs > 2 || step->ev->part)
			a->u.reply.unverified =
				alloc_column(arena, n, sizeof(bool), &bad);
	}
	if (bad)
		return false;
	return !(has & TES_STEP_PLACES) || alloc_places(step, a);
}

int tes_core_reply(struct tes_step *step)
{
	struct tes_actions *out = step->out;
	struct tes_action a = {.type = TES_ACTION_REPLY,
			       .session = step->ev->session,
			       .cookie = step->ev->cookie};

	a.u.reply.of = step->ev->type;
	a.u.reply.code = step->code;
	if (!step->code && !alloc_columns(step, &a))
		return -ENOMEM;
	if (tes_core_actions_reserve(out, 1) < 0)
		return -ENOMEM;
	step->core->reply_serial++;
	out->at[out->n] = a;
	step->reply = &out->at[out->n++];
	return 0;
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

static bool grow_entries(struct tes_step *step, size_t need)
{
	struct tes_action *a = step->reply;
	struct tei_arena *arena = step->out->arena;
	size_t n = a->u.reply.n_entries, room = step->room.entries;
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
		step->room.entries = room;
	return !bad;
}

static bool grow_names(struct tes_step *step, size_t need)
{
	struct tes_action *a = step->reply;
	size_t room = step->room.names;
	bool bad = false;

	need += a->u.reply.n_segments;
	if (need <= room)
		return true;
	grow_column(step->out->arena, &step->room.segments,
		    a->u.reply.n_segments, need * 2,
		    sizeof(*step->room.segments), &bad);
	a->u.reply.segments = step->room.segments;
	if (!bad)
		step->room.names = need * 2;
	return !bad;
}

/* Lets keys from key @i on have any number of entries. */
static bool count_entries(struct tes_step *step, size_t i)
{
	struct tes_action *a = step->reply;
	struct tei_arena *arena = step->out->arena;
	const uint64_t *size = a->u.reply.size;
	uint32_t *extents, *replica;
	uint64_t *length;
	bool bad = false;

	if (a->u.reply.extents)
		return true;
	extents = alloc_column(arena, step->ev->n, sizeof(*extents), &bad);
	replica =
		alloc_column(arena, step->room.entries, sizeof(*replica), &bad);
	length = alloc_column(arena, step->room.entries, sizeof(*length), &bad);
	if (bad)
		return false;
	if (step->ev->type == TES_EVENT_PUT_START)
		size = step->ev->u.put_start.sizes;
	for (size_t j = 0; j < i; j++) {
		extents[j] = 1;
		length[j] = a->u.reply.status[j] ? 0 : size[j];
	}
	a->u.reply.extents = extents;
	a->u.reply.replica = replica;
	a->u.reply.length = length;
	return true;
}

/* Index of @s among the segments of the reply. */
static uint32_t segment_index(struct tes_step *step, struct tes_session *s)
{
	struct tes_core_segment_name *names = step->room.segments;

	if (s->named_by != step->core->reply_serial) {
		s->named_by = step->core->reply_serial;
		s->named_as = (uint32_t)step->reply->u.reply.n_segments++;
		names[s->named_as].engine = s->engine;
		names[s->named_as].incarnation = s->incarnation;
	}
	return s->named_as;
}

/* True: @e belongs in the reply; readers get what they can reach. */
static bool is_listed(const struct tes_action *a, const struct tes_extent *e)
{
	const struct tes_mount *m = tes_core_extent_mount(e);

	return m &&
	       (a->u.reply.of == TES_EVENT_PUT_START || tes_core_mount_live(m));
}

/* Entry @k: @e, of which @rest bytes of the object are left. */
static void put_entry(struct tes_step *step, size_t k,
		      const struct tes_extent *e, uint32_t replica,
		      uint64_t length)
{
	struct tes_action *a = step->reply;
	struct tes_mount *m = tes_core_extent_mount(e);

	a->u.reply.segment[k] = segment_index(step, m->owner);
	a->u.reply.address[k] = m->base + e->offset;
	if (a->u.reply.crc)
		a->u.reply.crc[k] = e->crc;
	if (!a->u.reply.extents)
		return;
	a->u.reply.replica[k] = replica;
	a->u.reply.length[k] = length;
}

/* Writes at most @n entries, whole replicas. */
static size_t put_entries(struct tes_step *step, const struct tes_object *o,
			  size_t n)
{
	struct tes_action *a = step->reply;
	size_t from = a->u.reply.n_entries, k = from;
	uint32_t replica = 0;
	uint64_t rest = o->size, length;

	for (const struct tes_extent *e = o->extents; e && k < from + n;
	     e = e->next) {
		bool last = !e->next || e->next->replica != e->replica;

		length = tes_core_extent_length(e, rest);
		if (is_listed(a, e)) {
			put_entry(step, k++, e, replica, length);
			replica += last;
		}
		rest = last ? o->size : rest - length;
	}
	return k - from;
}

/* Counts the entries of @o: only one replica once there are many. */
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

bool tes_core_reply_place(struct tes_step *step, size_t i,
			  const struct tes_object *o)
{
	struct tes_action *a = step->reply;
	size_t n = o ? entries_of(a, o) : 1;
	size_t later = step->ev->n - i - 1;

	if (n != 1 && !count_entries(step, i))
		goto nowhere;
	if (!grow_entries(step, a->u.reply.n_entries + n + later) ||
	    (o && !grow_names(step, n)))
		goto nowhere;
	if (o) {
		put_entries(step, o, n);
		a->u.reply.generation[i] = o->generation;
		a->u.reply.gen_epoch[i] = step->core->epochs[o->epoch].number;
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
