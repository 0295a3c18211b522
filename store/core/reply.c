/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.c - actions and their columns, in the caller's arena
 *
 * All that a reply can need is taken from the arena before the event changes
 * anything, so that a full arena leaves the state as it was. Fences and closes
 * that find no room stay due and go out with a later step.
 */
#include <errno.h>
#include <string.h>

#include "store/core/state.h"

int tei_core_actions_reserve(struct tei_actions *out, size_t n)
{
	size_t room = out->room ? out->room : 8;
	struct tei_action *grown;

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

struct tei_action *tei_core_action_add(struct tei_actions *out,
				       enum tei_action_type type,
				       tei_session_id session)
{
	struct tei_action *a = &out->at[out->n++];

	*a = (struct tei_action){.type = type, .session = session};
	return a;
}

static bool has_place(enum tei_event_type type)
{
	return type == TEI_EVENT_PUT_START || type == TEI_EVENT_LOOKUP;
}

static bool has_status(enum tei_event_type type)
{
	return has_place(type) || type == TEI_EVENT_PUT_END ||
	       type == TEI_EVENT_EXIST || type == TEI_EVENT_SIZE ||
	       type == TEI_EVENT_REMOVE;
}

/* calloc that remembers in *@bad that one of many failed. */
static void *column(struct tei_arena *arena, size_t n, size_t size, bool *bad)
{
	void *p = *bad ? NULL : tei_arena_calloc(arena, n, size);

	if (!p)
		*bad = true;
	return p;
}

static bool place_columns(struct tei_core *core, struct tei_action *a,
			  struct tei_arena *arena, size_t n)
{
	size_t names =
		core->figures.sessions < n ? (size_t)core->figures.sessions : n;
	bool bad = false;

	a->u.reply.segment = column(arena, n, sizeof(uint32_t), &bad);
	a->u.reply.address = column(arena, n, sizeof(uint64_t), &bad);
	a->u.reply.generation = column(arena, n, sizeof(uint64_t), &bad);
	a->u.reply.gen_epoch = column(arena, n, sizeof(uint64_t), &bad);
	core->names = column(arena, names + 1, sizeof(*core->names), &bad);
	a->u.reply.segments = core->names;
	return !bad;
}

static bool columns(struct tei_core *core, const struct tei_event *ev,
		    struct tei_action *a, struct tei_arena *arena)
{
	size_t n = ev->n;
	bool bad = false;

	if (!has_status(ev->type))
		return true;
	a->u.reply.n = n;
	a->u.reply.status = column(arena, n, sizeof(int32_t), &bad);
	if (ev->type == TEI_EVENT_LOOKUP || ev->type == TEI_EVENT_SIZE)
		a->u.reply.size = column(arena, n, sizeof(uint64_t), &bad);
	if (ev->type == TEI_EVENT_LOOKUP)
		a->u.reply.crc = column(arena, n, sizeof(uint32_t), &bad);
	if (bad)
		return false;
	return !has_place(ev->type) || place_columns(core, a, arena, n);
}

struct tei_action *tei_core_reply(struct tei_core *core,
				  const struct tei_event *ev, int32_t code,
				  struct tei_actions *out)
{
	struct tei_action a = {.type = TEI_ACTION_REPLY,
			       .session = ev->session,
			       .cookie = ev->cookie};

	a.u.reply.of = ev->type;
	a.u.reply.code = code;
	if (!code && !columns(core, ev, &a, out->arena))
		return NULL;
	if (tei_core_actions_reserve(out, 1) < 0)
		return NULL;
	core->reply_serial++;
	out->at[out->n] = a;
	return &out->at[out->n++];
}

/* The index of @s among the segments of the reply being made. */
static uint32_t name_of(struct tei_core *core, struct tei_action *reply,
			struct tei_session *s)
{
	if (s->named_by != core->reply_serial) {
		s->named_by = core->reply_serial;
		s->named_as = (uint32_t)reply->u.reply.n_segments++;
		core->names[s->named_as].engine = s->engine;
		core->names[s->named_as].incarnation = s->incarnation;
	}
	return s->named_as;
}

void tei_core_reply_place(struct tei_core *core, struct tei_action *reply,
			  size_t i, const struct tei_object *o)
{
	struct tei_mount *m = tei_core_object_mount(o);

	reply->u.reply.segment[i] = name_of(core, reply, m->owner);
	reply->u.reply.address[i] = m->base + o->extent->offset;
	reply->u.reply.generation[i] = o->generation;
	reply->u.reply.gen_epoch[i] = core->config.epoch;
}

static void flush_fences(struct tei_core *core, struct tei_actions *out)
{
	while (!tei_list_empty(&core->unsent)) {
		struct tei_fence *f = tei_list_entry(core->unsent.next,
						     struct tei_fence, unsent);
		struct tei_action *a;

		if (tei_core_fence_moot(f)) {
			tei_core_fence_free(core, f);
			continue;
		}
		if (tei_core_actions_reserve(out, 1) < 0)
			return;
		a = tei_core_action_add(out, TEI_ACTION_FENCE, f->owner->id);
		a->u.fence.fence = f->id;
		a->u.fence.writer = f->writer;
		f->sent = true;
		tei_list_del(&f->unsent);
	}
}

void tei_core_flush(struct tei_core *core, struct tei_actions *out)
{
	flush_fences(core, out);
	while (!tei_list_empty(&core->closes)) {
		struct tei_session *s = tei_list_entry(
			core->closes.next, struct tei_session, close);

		if (tei_core_actions_reserve(out, 1) < 0)
			return;
		tei_core_action_add(out, TEI_ACTION_CLOSE, s->id);
		tei_list_del(&s->close);
	}
}
