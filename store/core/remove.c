/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove.c - objects that users take out
 *
 * An object of a suspect owner is removed too, so that it does not come back
 * when the owner does. Readers that are still at work notice by generation
 * and checksum that the bytes are no longer theirs.
 */
#include "store/core/state.h"

static bool leased(const struct tei_core *core, const struct tei_object *o)
{
	return o->weak_until_ms > core->now_ms ||
	       ((o->flags & TEI_OBJECT_LEASED) &&
		o->read_until_ms > core->now_ms);
}

static int32_t remove_one(struct tei_core *core, const struct tei_core_key *key,
			  uint64_t hash, bool force)
{
	struct tei_object *o;

	if (!tei_core_key_valid(key))
		return CODE_ARGUMENT;
	o = tei_core_object_find(core, key, hash);
	if (!o || tei_core_object_gone(o))
		return CODE_NOT_FOUND;
	if (o->state == TEI_OBJECT_BUILDING)
		return CODE_NOT_READY;
	if (!force && leased(core, o))
		return CODE_LEASED;
	tei_core_object_drop(core, o);
	return CODE_OK;
}

void tei_core_on_remove(struct tei_core *core, const struct tei_event *ev,
			struct tei_action *reply)
{
	uint64_t hashes[TEI_CORE_GROUP];

	for (size_t i = 0; i < ev->n; i++) {
		size_t at = i % TEI_CORE_GROUP;

		if (!at)
			tei_core_objects_warm(core, &ev->keys[i], ev->n - i,
					      hashes);
		reply->u.reply.status[i] = remove_one(
			core, &ev->keys[i], hashes[at], ev->u.remove.force);
	}
}
