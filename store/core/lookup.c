/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.c - what readers ask: look-up, release, exist, size
 *
 * A look-up grants a read lease: until it ends, or its readers have released
 * it, the object is neither removed nor evicted. A mere existence check
 * refuses remove for as long, but yields to eviction.
 *
 * A release is its session's, and ends no lease of another's, however often it
 * is said. Nor does a late one: readers are counted until they have released,
 * even if their lease has ended meanwhile; who has not for a whole lease more is
 * forgotten.
 */
#include "store/core/lookup.h"

#include "store/core/codes.h"
#include "store/core/evictable.h"
#include "store/core/heat.h"
#include "store/core/object.h"
#include "store/core/readers.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/state.h"
#include "store/core/tenant.h"

struct group {
	uint16_t tenant;
	enum tes_core_touch touch;
	struct tes_object *objects[TES_CORE_GROUP];
};

/* Object i of the event, which are asked for in order. */
static struct tes_object *next_object(const struct tes_core *core,
				      const struct tes_event *ev, size_t i,
				      struct group *g)
{
	if (i % TES_CORE_GROUP == 0)
		tes_core_objects_find(core, g->tenant, &ev->keys[i], ev->n - i,
				      g->touch, g->objects);
	return tes_core_object_now(core, g->objects[i % TES_CORE_GROUP]);
}

/* Nobody is away: what is READY can be read, whatever its extents say. */
static bool all_live(const struct tes_core *core)
{
	return core->n_live_mounts == core->n_all_mounts;
}

/* For who asks whether objects can be read, and no more. */
static struct group batch_of_heads(const struct tes_core *core,
				   const struct tes_session *s)
{
	return (struct group){.tenant = s->tenant->index,
			      .touch = all_live(core) ? TES_CORE_TOUCH_HEAD
						      : TES_CORE_TOUCH_EXTENTS};
}

/* Whether readers may have it. */
static int32_t check_readable(const struct tes_core *core,
			      const struct tes_object *o)
{
	if (!o)
		return CODE_NOT_FOUND;
	if (o->state == TES_OBJECT_READY && all_live(core))
		return CODE_OK;
	if (!tes_core_object_live(o))
		return CODE_NOT_FOUND;
	return o->state == TES_OBJECT_READY ? CODE_OK : CODE_NOT_READY;
}

void tes_core_on_lookup(struct tes_core *core, const struct tes_event *ev,
			const struct tes_session *s, struct tes_action *reply)
{
	struct group group = {.tenant = s->tenant->index,
			      .touch = TES_CORE_TOUCH_LISTS};

	reply->u.reply.lease_ms = core->config.lease_ttl_ms > UINT32_MAX
					  ? UINT32_MAX
					  : (uint32_t)core->config.lease_ttl_ms;
	for (size_t i = 0; i < ev->n; i++) {
		struct tes_object *o = next_object(core, ev, i, &group);
		int32_t code = check_readable(core, o);

		if (!tes_core_reply_place(core, reply, ev, i, code ? NULL : o))
			code = CODE_INTERNAL;
		reply->u.reply.status[i] = code;
		if (code)
			continue;
		tes_core_lease(core, o, s);
		tes_core_touch(core, o);
		if (core->heat.slots)
			tes_core_heat_touch(core, o);
		reply->u.reply.size[i] = o->size;
		if (o->flags & TES_OBJECT_NO_CRC)
			reply->u.reply.no_crc[i] = true;
		if (o->flags & TES_OBJECT_UNVERIFIED)
			reply->u.reply.unverified[i] = true;
	}
}

void tes_core_on_release(struct tes_core *core, const struct tes_event *ev,
			 const struct tes_session *s)
{
	struct group group = {.tenant = s->tenant->index,
			      .touch = TES_CORE_TOUCH_LISTS};

	for (size_t i = 0; i < ev->n; i++) {
		struct tes_object *o = next_object(core, ev, i, &group);

		if (!o || o->state != TES_OBJECT_READY ||
		    o->generation != ev->u.release.generations[i])
			continue;
		if (tes_core_readers_take(&o->readers, s) &&
		    (o->flags & TES_OBJECT_LEASED))
			tes_core_unlease(core, o);
	}
}

void tes_core_on_exist(struct tes_core *core, const struct tes_event *ev,
		       const struct tes_session *s, struct tes_action *reply)
{
	uint64_t until = core->now_ms + core->config.lease_ttl_ms;
	struct group group = batch_of_heads(core, s);

	for (size_t i = 0; i < ev->n; i++) {
		struct tes_object *o = next_object(core, ev, i, &group);

		if (check_readable(core, o) != CODE_OK)
			continue;
		reply->u.reply.status[i] = 1;
		if (o->weak_until_ms < until)
			o->weak_until_ms = until;
	}
}

void tes_core_on_size(struct tes_core *core, const struct tes_event *ev,
		      const struct tes_session *s, struct tes_action *reply)
{
	struct group group = batch_of_heads(core, s);

	for (size_t i = 0; i < ev->n; i++) {
		struct tes_object *o = next_object(core, ev, i, &group);
		int32_t code = check_readable(core, o);

		reply->u.reply.status[i] = code;
		if (!code)
			reply->u.reply.size[i] = o->size;
	}
}
