/* SPDX-License-Identifier: Apache-2.0 */
/*
 * browse.c - what operators ask: which keys there are, and where
 */
#include "store/core/codes.h"
#include "store/core/extent.h"
#include "store/core/mount.h"
#include "store/core/object.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/tenant.h"

static int32_t check_live_readable(const struct tes_object *o)
{
	if (!o || !tes_core_object_live(o))
		return CODE_NOT_FOUND;
	return o->state == TES_OBJECT_READY ? CODE_OK : CODE_NOT_READY;
}

static size_t places_of(const struct tes_object *o,
			struct tes_core_place *places, size_t room)
{
	uint64_t rest = o->size;
	uint32_t replica = 0;
	size_t n = 0;

	for (const struct tes_extent *e = o->extents; e && n < room;
	     e = e->next) {
		const struct tes_mount *m = tes_core_extent_mount(e);
		bool last = !e->next || e->next->replica != e->replica;
		uint64_t length = tes_core_extent_length(e, rest);

		if (m && tes_core_mount_live(m)) {
			places[n++] = (struct tes_core_place){
				.segment = m->name,
				.engine = m->owner->engine,
				.address = m->base + e->offset +
					   TES_CORE_HEADER_LEN,
				.length = length,
				.replica = replica,
			};
			replica += last;
		}
		rest = last ? o->size : rest - length;
	}
	return n;
}

int32_t tes_core_key_query(const struct tes_core *core, const char *tenant,
			   const struct tes_core_key *key,
			   struct tes_core_place *places, size_t room,
			   size_t *n, uint64_t *size)
{
	const struct tes_tenant *t = tes_core_tenant_find(core, tenant);
	const struct tes_object *o;
	int32_t code;

	if (!tes_core_key_valid(key))
		return CODE_ARGUMENT;
	if (!t)
		return CODE_NO_TENANT;
	o = tes_core_object_find(
		core, t->index, key,
		tes_core_hash_of(core, t->index, key->bytes, key->len));
	code = check_live_readable(o);
	if (code)
		return code;
	*n = places_of(o, places, room);
	*size = o->size;
	return CODE_OK;
}

struct shown {
	const struct tes_tenant *tenant;
	void (*fn)(const struct tes_core_key *key, void *arg);
	void *arg;
};

static void show_key(struct tei_hash_node *node, void *arg)
{
	const struct tes_object *o =
		TEI_CONTAINER(node, struct tes_object, node);
	const struct tes_core_key key = {o->key, o->key_len};
	struct shown *to = arg;

	if (o->tenant == to->tenant->index && check_live_readable(o) == CODE_OK)
		to->fn(&key, to->arg);
}

bool tes_core_keys(const struct tes_core *core, const char *tenant,
		   size_t *cursor, size_t n_buckets,
		   void (*fn)(const struct tes_core_key *key, void *arg),
		   void *arg)
{
	/* The walk is for readers and writers alike; this one only reads. */
	struct tei_hash *table = &((struct tes_core *)(uintptr_t)core)->objects;
	struct shown to = {tes_core_tenant_find(core, tenant), fn, arg};

	if (!to.tenant)
		return false;
	return tei_hash_walk(table, cursor, n_buckets, show_key, &to);
}
