/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove.c - objects and replicas that users take out
 *
 * An object of a suspect owner is removed too, so that it does not come back
 * when the owner does. Readers that are still at work notice by generation
 * and checksum that the bytes are no longer theirs; who asks an owner later
 * finds no header (bury.c).
 */
#include "store/core/remove.h"

#include <string.h>

#include "store/core/bury.h"
#include "store/core/codes.h"
#include "store/core/evictable.h"
#include "store/core/extent.h"
#include "store/core/mount.h"
#include "store/core/object.h"
#include "store/core/recall.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/tenant.h"

bool tes_core_leased(const struct tes_core *core, const struct tes_object *o)
{
	return o->weak_until_ms > core->now_ms ||
	       ((o->flags & TES_OBJECT_LEASED) &&
		o->read_until_ms > core->now_ms);
}

/* The object at @key, which may be buried now: *out; or why not. */
static int32_t find_removable(struct tes_core *core, uint16_t tenant,
			      const struct tes_core_key *key, uint64_t hash,
			      bool force, struct tes_object **out)
{
	struct tes_object *o;

	if (!tes_core_key_valid(key))
		return CODE_ARGUMENT;
	o = tes_core_object_now(core,
				tes_core_object_find(core, tenant, key, hash));
	if (!o || tes_core_object_gone(o))
		return CODE_NOT_FOUND;
	if (o->state == TES_OBJECT_BUILDING)
		return CODE_NOT_READY;
	if (o->flags & TES_OBJECT_BUSY)
		return CODE_TASK;
	if (!force && tes_core_leased(core, o))
		return CODE_LEASED;
	if (tes_core_bury_reserve(core, o) < 0)
		return CODE_INTERNAL;
	*out = o;
	return CODE_OK;
}

static int32_t remove_one(struct tes_core *core, uint16_t tenant,
			  const struct tes_core_key *key, uint64_t hash,
			  bool force)
{
	struct tes_object *o;
	int32_t code = find_removable(core, tenant, key, hash, force, &o);

	if (!code)
		tes_core_bury(core, o);
	/* What is not there an owner may yet bring. */
	if (!code || code == CODE_NOT_FOUND)
		tes_core_renounce(core, hash);
	return code;
}

void tes_core_on_remove(struct tes_core *core, const struct tes_event *ev,
			const struct tes_session *s, struct tes_action *reply)
{
	uint16_t tenant = s->tenant->index;
	uint64_t hashes[TES_CORE_GROUP];

	for (size_t i = 0; i < ev->n; i++) {
		size_t at = i % TES_CORE_GROUP;

		if (!at)
			tes_core_objects_warm(core, tenant, &ev->keys[i],
					      ev->n - i, hashes);
		reply->u.reply.status[i] =
			remove_one(core, tenant, &ev->keys[i], hashes[at],
				   ev->u.remove.force);
	}
}

static bool is_on_segment(const struct tes_extent *e, const char *segment)
{
	if (!tes_core_extent_there(e))
		return false;
	return !*segment ||
	       strcmp(tes_core_extent_mount(e)->name, segment) == 0;
}

/* Free the replicas on @segment; false: there are none. */
static bool clear_replicas(struct tes_core *core, struct tes_object *o,
			   const char *segment)
{
	struct tes_extent *e = o->extents;
	bool any = false;

	while (e) {
		uint8_t replica = e->replica;
		bool it = is_on_segment(e, segment);

		while (e && e->replica == replica)
			e = e->next;
		if (it)
			tes_core_bury_replica(core, o, replica);
		any |= it;
	}
	if (tes_core_object_gone(o)) {
		tes_core_renounce(core, o->node.hash);
		tes_core_object_drop(core, o);
	} else if (any) {
		tes_core_unpark(core, o);
	}
	return any;
}

static int32_t clear_one(struct tes_core *core, uint16_t tenant,
			 const struct tes_core_key *key, const char *segment,
			 uint64_t hash)
{
	struct tes_object *o;
	int32_t code = find_removable(core, tenant, key, hash, false, &o);

	if (code)
		return code;
	return clear_replicas(core, o, segment) ? CODE_OK : CODE_NO_REPLICA;
}

void tes_core_on_replica_clear(struct tes_core *core,
			       const struct tes_event *ev,
			       const struct tes_session *s,
			       struct tes_action *reply)
{
	uint16_t tenant = s->tenant->index;
	uint64_t hashes[TES_CORE_GROUP];

	for (size_t i = 0; i < ev->n; i++) {
		size_t at = i % TES_CORE_GROUP;

		if (!at)
			tes_core_objects_warm(core, tenant, &ev->keys[i],
					      ev->n - i, hashes);
		reply->u.reply.status[i] =
			clear_one(core, tenant, &ev->keys[i],
				  ev->u.replica_clear.segment, hashes[at]);
	}
}
