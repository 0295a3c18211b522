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

static int32_t readable(const struct tei_object *o)
{
	if (!o || !tei_core_object_live(o))
		return CODE_NOT_FOUND;
	return o->state == TEI_OBJECT_READY ? CODE_OK : CODE_NOT_READY;
}

static size_t places_of(const struct tei_object *o,
			struct tei_core_place *places, size_t room)
{
	uint64_t rest = o->size;
	uint32_t replica = 0;
	size_t n = 0;

	for (const struct tei_extent *e = o->extents; e && n < room;
	     e = e->next) {
		const struct tei_mount *m = tei_core_extent_mount(e);
		bool last = !e->next || e->next->replica != e->replica;
		uint64_t length = tei_core_extent_length(e, rest);

		if (m && tei_core_mount_live(m)) {
			places[n++] = (struct tei_core_place){
				.segment = m->name,
				.engine = m->owner->engine,
				.address = m->base + e->offset +
					   TEI_CORE_HEADER_LEN,
				.length = length,
				.replica = replica,
			};
			replica += last;
		}
		rest = last ? o->size : rest - length;
	}
	return n;
}

int32_t tei_core_key_query(const struct tei_core *core, const char *tenant,
			   const struct tei_core_key *key,
			   struct tei_core_place *places, size_t room,
			   size_t *n, uint64_t *size)
{
	const struct tei_tenant *t = tei_core_tenant_find(core, tenant);
	const struct tei_object *o;
	int32_t code;

	if (!tei_core_key_valid(key))
		return CODE_ARGUMENT;
	if (!t)
		return CODE_NO_TENANT;
	o = tei_core_object_find(
		core, t->index, key,
		tei_core_hash_of(core, t->index, key->bytes, key->len));
	code = readable(o);
	if (code)
		return code;
	*n = places_of(o, places, room);
	*size = o->size;
	return CODE_OK;
}

struct shown {
	const struct tei_tenant *tenant;
	void (*fn)(const struct tei_core_key *key, void *arg);
	void *arg;
};

static void show(struct tei_hash_node *node, void *arg)
{
	const struct tei_object *o =
		TEI_CONTAINER(node, struct tei_object, node);
	const struct tei_core_key key = {o->key, o->key_len};
	struct shown *to = arg;

	if (o->tenant == to->tenant->index && readable(o) == CODE_OK)
		to->fn(&key, to->arg);
}

bool tei_core_keys(const struct tei_core *core, const char *tenant,
		   size_t *cursor, size_t n_buckets,
		   void (*fn)(const struct tei_core_key *key, void *arg),
		   void *arg)
{
	/* The walk is for readers and writers alike; this one only reads. */
	struct tei_hash *table = &((struct tei_core *)(uintptr_t)core)->objects;
	struct shown to = {tei_core_tenant_find(core, tenant), fn, arg};

	if (!to.tenant)
		return false;
	return tei_hash_walk(table, cursor, n_buckets, show, &to);
}
