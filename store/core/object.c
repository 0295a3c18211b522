/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object.c - the table of objects
 *
 * One heap block an object, its key behind it. Keys come from outside, so the
 * table's hash is seeded.
 */
#include <stddef.h>
#include <string.h>

#include <xxhash.h>

#include "base/mem.h"
#include "store/core/state.h"

uint64_t tei_core_hash(const struct tei_core *core, const void *bytes,
		       size_t len)
{
	return XXH3_64bits_withSeed(bytes, len, core->config.hash_seed);
}

bool tei_core_key_valid(const struct tei_core_key *key)
{
	return key->bytes && key->len && key->len <= TEI_CORE_KEY_MAX;
}

struct tei_object *tei_core_object_find(const struct tei_core *core,
					const struct tei_core_key *key,
					uint64_t hash)
{
	struct tei_hash_node *n;

	if (!tei_core_key_valid(key))
		return NULL;
	for (n = tei_hash_first(&core->objects, hash); n;
	     n = tei_hash_next(n)) {
		struct tei_object *o =
			TEI_CONTAINER(n, struct tei_object, node);

		if (o->key_len == key->len &&
		    memcmp(o->key, key->bytes, key->len) == 0)
			return o;
	}
	return NULL;
}

size_t tei_core_objects_warm(const struct tei_core *core,
			     const struct tei_core_key *keys, size_t n,
			     uint64_t *hashes)
{
	if (n > TEI_CORE_GROUP)
		n = TEI_CORE_GROUP;
	for (size_t i = 0; i < n; i++) {
		hashes[i] = 0;
		if (tei_core_key_valid(&keys[i]))
			hashes[i] =
				tei_core_hash(core, keys[i].bytes, keys[i].len);
		tei_hash_prefetch_bucket(&core->objects, hashes[i]);
	}
	for (size_t i = 0; i < n; i++)
		tei_hash_prefetch_node(&core->objects, hashes[i]);
	return n;
}

size_t tei_core_objects_find(const struct tei_core *core,
			     const struct tei_core_key *keys, size_t n,
			     struct tei_object **objects)
{
	uint64_t hashes[TEI_CORE_GROUP];

	n = tei_core_objects_warm(core, keys, n, hashes);
	for (size_t i = 0; i < n; i++) {
		objects[i] = tei_core_object_find(core, &keys[i], hashes[i]);
		if (!objects[i])
			continue;
		__builtin_prefetch(objects[i]->extent);
		__builtin_prefetch(objects[i]->link.next, 1);
		__builtin_prefetch(objects[i]->link.prev, 1);
	}
	return n;
}

/* What malloc takes for an object, its key left out. */
static uint64_t heap_bytes(const struct tei_object *o)
{
	size_t block = offsetof(struct tei_object, key) + o->key_len;

	return (block + sizeof(size_t) + 15) / 16 * 16 - o->key_len;
}

struct tei_object *tei_core_object_new(struct tei_core *core,
				       const struct tei_core_key *key)
{
	size_t size = offsetof(struct tei_object, key) + key->len;
	struct tei_object *o;

	if (size < sizeof(*o))
		size = sizeof(*o);
	o = tei_malloc(size);
	if (!o)
		return NULL;
	memset(o, 0, sizeof(*o));
	tei_list_init(&o->link);
	o->key_len = (uint16_t)key->len;
	memcpy(o->key, key->bytes, key->len);
	core->heap_bytes += heap_bytes(o);
	core->figures.key_bytes += key->len;
	return o;
}

void tei_core_object_free(struct tei_core *core, struct tei_object *o)
{
	core->heap_bytes -= heap_bytes(o);
	core->figures.key_bytes -= o->key_len;
	tei_free(o);
}

void tei_core_object_forget(struct tei_core *core, struct tei_object *o)
{
	if (o->state == TEI_OBJECT_BUILDING) {
		tei_list_del(&o->extent->link);
		core->figures.building--;
	} else {
		core->figures.objects--;
	}
	tei_list_del(&o->link);
	tei_hash_remove(&core->objects, &o->node);
	o->extent->user = NULL;
	tei_core_object_free(core, o);
}

void tei_core_object_drop(struct tei_core *core, struct tei_object *o)
{
	struct tei_extent *e = o->extent;

	tei_core_object_forget(core, o);
	tei_core_extent_free(core, e);
}

struct tei_mount *tei_core_object_mount(const struct tei_object *o)
{
	return TEI_CONTAINER(o->extent->space, struct tei_mount, space);
}
