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
	enum tei_core_touch touch;
	struct tei_object *objects[TEI_CORE_GROUP];
};

/* Object i of the event, which are asked for in order. */
static struct tei_object *next(const struct tei_core *core,
			       const struct tei_event *ev, size_t i,
			       struct group *g)
{
	if (i % TEI_CORE_GROUP == 0)
		tei_core_objects_find(core, g->tenant, &ev->keys[i], ev->n - i,
				      g->touch, g->objects);
	return tei_core_object_now(core, g->objects[i % TEI_CORE_GROUP]);
}

/* Nobody is away: what is READY can be read, whatever its extents say. */
static bool all_live(const struct tei_core *core)
{
	return core->n_live_mounts == core->n_all_mounts;
}

/* For who asks whether objects can be read, and no more. */
static struct group heads(const struct tei_core *core,
			  const struct tei_session *s)
{
	return (struct group){.tenant = s->tenant->index,
			      .touch = all_live(core) ? TEI_CORE_TOUCH_HEAD
						      : TEI_CORE_TOUCH_EXTENTS};
}

/* Whether readers may have it. */
static int32_t readable(const struct tei_core *core, const struct tei_object *o)
{
	if (!o)
		return CODE_NOT_FOUND;
	if (o->state == TEI_OBJECT_READY && all_live(core))
		return CODE_OK;
	if (!tei_core_object_live(o))
		return CODE_NOT_FOUND;
	return o->state == TEI_OBJECT_READY ? CODE_OK : CODE_NOT_READY;
}

void tei_core_on_lookup(struct tei_core *core, const struct tei_event *ev,
			const struct tei_session *s, struct tei_action *reply)
{
	struct group group = {.tenant = s->tenant->index,
			      .touch = TEI_CORE_TOUCH_LISTS};

	reply->u.reply.lease_ms = core->config.lease_ttl_ms > UINT32_MAX
					  ? UINT32_MAX
					  : (uint32_t)core->config.lease_ttl_ms;
	for (size_t i = 0; i < ev->n; i++) {
		struct tei_object *o = next(core, ev, i, &group);
		int32_t code = readable(core, o);

		if (!tei_core_reply_place(core, reply, ev, i, code ? NULL : o))
			code = CODE_INTERNAL;
		reply->u.reply.status[i] = code;
		if (code)
			continue;
		tei_core_lease(core, o, s);
		tei_core_touch(core, o);
		if (core->heat.slots)
			tei_core_heat_touch(core, o);
		reply->u.reply.size[i] = o->size;
		if (o->flags & TEI_OBJECT_NO_CRC)
			reply->u.reply.no_crc[i] = true;
		if (o->flags & TEI_OBJECT_UNVERIFIED)
			reply->u.reply.unverified[i] = true;
	}
}

void tei_core_on_release(struct tei_core *core, const struct tei_event *ev,
			 const struct tei_session *s)
{
	struct group group = {.tenant = s->tenant->index,
			      .touch = TEI_CORE_TOUCH_LISTS};

	for (size_t i = 0; i < ev->n; i++) {
		struct tei_object *o = next(core, ev, i, &group);

		if (!o || o->state != TEI_OBJECT_READY ||
		    o->generation != ev->u.release.generations[i])
			continue;
		if (tei_core_readers_take(&o->readers, s) &&
		    (o->flags & TEI_OBJECT_LEASED))
			tei_core_unlease(core, o);
	}
}

void tei_core_on_exist(struct tei_core *core, const struct tei_event *ev,
		       const struct tei_session *s, struct tei_action *reply)
{
	uint64_t until = core->now_ms + core->config.lease_ttl_ms;
	struct group group = heads(core, s);

	for (size_t i = 0; i < ev->n; i++) {
		struct tei_object *o = next(core, ev, i, &group);

		if (readable(core, o) != CODE_OK)
			continue;
		reply->u.reply.status[i] = 1;
		if (o->weak_until_ms < until)
			o->weak_until_ms = until;
	}
}

void tei_core_on_size(struct tei_core *core, const struct tei_event *ev,
		      const struct tei_session *s, struct tei_action *reply)
{
	struct group group = heads(core, s);

	for (size_t i = 0; i < ev->n; i++) {
		struct tei_object *o = next(core, ev, i, &group);
		int32_t code = readable(core, o);

		reply->u.reply.status[i] = code;
		if (!code)
			reply->u.reply.size[i] = o->size;
	}
}
