/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object.c - objects, their table and their groups
 *
 * An object is one block, with its key behind it. Blocks come from slabs by
 * size, which cost neither malloc's header nor its time. Keys come from
 * clients, so the table's hash is seeded. Members of a group are evicted
 * together.
 */
#include "store/core/object.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/epoch.h"
#include "store/core/evict.h"
#include "store/core/replica.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/task.h"
#include "store/core/tenant.h"

#define CHUNK_BYTES 65536 /* of a slab */

/* ---- an object is found ---- */

bool tes_core_key_valid(const struct tes_core_key *key)
{
	return key->bytes && key->len && key->len <= TES_CORE_KEY_MAX;
}

static struct tes_object *object_of(struct tei_hash_node *n)
{
	return TEI_CONTAINER(n, struct tes_object, node);
}

/* Key by which an object is found. */
struct object_name {
	const void *key;
	size_t len;
	uint64_t hash;
	uint16_t tenant;
};

static struct object_name name_of(const struct tes_object *o)
{
	return (struct object_name){o->key, o->key_len, o->node.hash,
				    o->tenant};
}

static bool is_named(const struct tes_object *o, const struct object_name *name,
		     bool successor)
{
	return o->node.hash == name->hash && o->key_len == name->len &&
	       o->tenant == name->tenant &&
	       memcmp(o->key, name->key, name->len) == 0 &&
	       !(o->flags & TES_OBJECT_SUCCESSOR) == !successor;
}

static struct tes_object *find_named(const struct tes_core *core,
				     const struct object_name *name,
				     bool successor)
{
	const struct tei_hash *table = &core->objects;
	struct tei_hash_node *n = tei_hash_first(table, name->hash);

	for (; n; n = tei_hash_next(table, n))
		if (is_named(object_of(n), name, successor))
			return object_of(n);
	return NULL;
}

struct tes_object *tes_core_object_find(const struct tes_core *core,
					uint16_t tenant,
					const struct tes_core_key *key,
					uint64_t hash)
{
	struct object_name name = {key->bytes, key->len, hash, tenant};

	if (!tes_core_key_valid(key))
		return NULL;
	return find_named(core, &name, false);
}

struct tes_object *tes_core_successor_find(const struct tes_core *core,
					   const struct tes_object *o)
{
	struct object_name name = name_of(o);

	if (!(o->flags & TES_OBJECT_SUCCEEDED))
		return NULL;
	return find_named(core, &name, true);
}

struct tes_object *tes_core_object_now(const struct tes_core *core,
				       struct tes_object *o)
{
	if (!o || !(o->flags & TES_OBJECT_SUCCEEDED) ||
	    !tes_core_object_gone(o))
		return o;
	return tes_core_successor_find(core, o);
}

struct tes_object *tes_core_predecessor_find(const struct tes_core *core,
					     const struct tes_object *o)
{
	struct object_name name = name_of(o);

	if (!(o->flags & TES_OBJECT_SUCCESSOR))
		return NULL;
	return find_named(core, &name, false);
}

/* ---- a batch of objects is found ---- */

/* Loads the part that shows whether it is the one: node to end of key. */
static void prefetch_object(const struct tes_object *o, size_t key_len,
			    enum tes_core_touch touch)
{
	if (touch != TES_CORE_TOUCH_HEAD)
		__builtin_prefetch(o);
	__builtin_prefetch(&o->node);
	__builtin_prefetch(o->key + key_len - 1);
}

/* Finds the most likely object of each key; NULL: there is none. */
static void prefetch_keys(const struct tes_core *core, uint16_t tenant,
			  const struct tes_core_key *keys, size_t n,
			  enum tes_core_touch touch, uint64_t *hashes,
			  struct tes_object **likely)
{
	for (size_t i = 0; i < n; i++) {
		hashes[i] = 0;
		if (tes_core_key_valid(&keys[i]))
			hashes[i] = tes_core_hash_of(
				core, tenant, keys[i].bytes, keys[i].len);
		tei_hash_prefetch(&core->objects, hashes[i]);
	}
	for (size_t i = 0; i < n; i++) {
		struct tei_hash_node *node =
			tei_hash_likely(&core->objects, hashes[i]);

		likely[i] = node ? object_of(node) : NULL;
		if (node)
			prefetch_object(likely[i], keys[i].len, touch);
	}
	for (size_t i = 0; i < n && touch != TES_CORE_TOUCH_HEAD; i++)
		if (likely[i])
			__builtin_prefetch(likely[i]->extents);
}

static size_t batch_of(size_t n)
{
	return n < TES_CORE_PREFETCH ? n : TES_CORE_PREFETCH;
}

size_t tes_core_objects_prefetch(const struct tes_core *core, uint16_t tenant,
				 const struct tes_core_key *keys, size_t n,
				 uint64_t *hashes)
{
	struct tes_object *likely[TES_CORE_PREFETCH];

	n = batch_of(n);
	prefetch_keys(core, tenant, keys, n, TES_CORE_TOUCH_EXTENTS, hashes,
		      likely);
	return n;
}

size_t tes_core_objects_find(const struct tes_core *core, uint16_t tenant,
			     const struct tes_core_key *keys, size_t n,
			     enum tes_core_touch touch,
			     struct tes_object **objects)
{
	uint64_t hashes[TES_CORE_PREFETCH];

	n = batch_of(n);
	prefetch_keys(core, tenant, keys, n, touch, hashes, objects);
	for (size_t i = 0; i < n; i++) {
		const struct object_name name = {keys[i].bytes, keys[i].len,
						 hashes[i], tenant};
		struct tes_object *o = objects[i];

		if (o && !tes_core_key_valid(&keys[i]))
			o = NULL;
		if (o && !is_named(o, &name, false))
			o = find_named(core, &name, false);
		objects[i] = o;
		if (!o || touch == TES_CORE_TOUCH_HEAD)
			continue;
		__builtin_prefetch(o->extents);
		if (touch == TES_CORE_TOUCH_LISTS) {
			__builtin_prefetch(o->link.next, 1);
			__builtin_prefetch(o->link.prev, 1);
		}
	}
	return n;
}

/* ---- groups ---- */

static size_t group_bytes(const struct tes_group *g)
{
	return sizeof(*g) + g->name_len;
}

static struct tes_group *find_group(const struct tes_core *core,
				    uint16_t tenant, const char *name,
				    size_t len, uint64_t hash)
{
	struct tei_hash_node *n = tei_hash_first(&core->groups, hash);

	for (; n; n = tei_hash_next(&core->groups, n)) {
		struct tes_group *g = TEI_CONTAINER(n, struct tes_group, node);

		if (g->tenant == tenant && g->name_len == len &&
		    memcmp(g->name, name, len) == 0)
			return g;
	}
	return NULL;
}

static struct tes_group *create_group(struct tes_core *core, uint16_t tenant,
				      const char *name, size_t len,
				      uint64_t hash)
{
	struct tes_group *g = tei_malloc(sizeof(*g) + len);

	if (!g)
		return NULL;
	tei_list_init(&g->members);
	g->tenant = tenant;
	g->name_len = len;
	memcpy(g->name, name, len);
	tei_hash_insert(&core->groups, &g->node, hash);
	core->heap_bytes += group_bytes(g);
	return g;
}

int tes_core_group_join(struct tes_core *core, struct tes_extra *x,
			const char *name, size_t len)
{
	uint16_t tenant = x->object->tenant;
	uint64_t hash = tes_core_hash_of(core, tenant, name, len);
	struct tes_group *g = find_group(core, tenant, name, len, hash);

	if (!g)
		g = create_group(core, tenant, name, len, hash);
	if (!g)
		return -ENOMEM;
	x->group = g;
	tei_list_add_tail(&g->members, &x->link);
	return 0;
}

/* Leaves the group, if any. A group without members is freed. */
static void leave_group(struct tes_core *core, struct tes_extra *x)
{
	struct tes_group *g = x->group;

	if (!g)
		return;
	x->group = NULL;
	tei_list_del(&x->link);
	if (!tei_list_empty(&g->members))
		return;
	tei_hash_remove(&core->groups, &g->node);
	core->heap_bytes -= group_bytes(g);
	tei_free(g);
}

/* ---- an object is created ---- */

static size_t block_bytes(size_t key_len, bool with_extra)
{
	size_t size = offsetof(struct tes_object, key) + key_len;

	if (with_extra)
		return tes_core_extra_at(key_len) + sizeof(struct tes_extra);
	return size < sizeof(struct tes_object) ? sizeof(struct tes_object)
						: size;
}

/* Slab of blocks of @size; NULL: malloc provides them. */
static struct tei_slab *slab_of(struct tes_core *core, size_t size)
{
	size_t i = (size - 1) / TES_CORE_BLOCK_STEP;

	return i < TES_CORE_BLOCK_SLABS ? &core->blocks[i] : NULL;
}

void tes_core_blocks_init(struct tes_core *core)
{
	for (size_t i = 0; i < TES_CORE_BLOCK_SLABS; i++) {
		size_t size = (i + 1) * TES_CORE_BLOCK_STEP;

		tei_slab_init(&core->blocks[i], size, CHUNK_BYTES / size);
	}
}

void tes_core_blocks_fini(struct tes_core *core)
{
	for (size_t i = 0; i < TES_CORE_BLOCK_SLABS; i++)
		tei_slab_fini(&core->blocks[i]);
}

static void *block_new(struct tes_core *core, size_t size)
{
	struct tei_slab *slab = slab_of(core, size);

	return slab ? tei_slab_get(slab) : tei_calloc(1, size);
}

static void block_free(struct tes_core *core, void *block, size_t size)
{
	struct tei_slab *slab = slab_of(core, size);

	if (slab)
		tei_slab_put(slab, block);
	else
		tei_free(block);
}

static size_t bytes_of(const struct tes_object *o)
{
	return block_bytes(o->key_len, o->flags & TES_OBJECT_EXTRA);
}

/* Bytes of an object, its key left out. */
static uint64_t heap_bytes_of(const struct tes_object *o)
{
	size_t step = TES_CORE_BLOCK_STEP;

	return (bytes_of(o) + step - 1) / step * step - o->key_len;
}

struct tes_object *tes_core_object_new(struct tes_core *core, uint16_t tenant,
				       const struct tes_core_key *key,
				       bool with_extra)
{
	struct tes_object *o;
	struct tes_extra *x;

	if (with_extra && tei_heap_reserve(&core->pins, core->n_extras + 1) < 0)
		return NULL;
	o = block_new(core, block_bytes(key->len, with_extra));
	if (!o)
		return NULL;
	tei_list_init(&o->link);
	o->key_len = key->len & 0x7fffu;
	o->tenant = tenant;
	core->tenants[tenant]->objects++;
	o->epoch = core->own_epoch;
	tes_core_epoch_hold(core, o->epoch);
	memcpy(o->key, key->bytes, key->len);
	if (with_extra)
		o->flags |= TES_OBJECT_EXTRA;
	x = tes_core_object_extra(o);
	if (x) {
		*x = (struct tes_extra){.object = o};
		core->n_extras++;
		tei_list_init(&x->link);
	}
	core->heap_bytes += heap_bytes_of(o);
	core->figures.key_bytes += key->len;
	return o;
}

/* ---- the watch ---- */

void tes_core_call_watch(const struct tes_core *core,
			 const struct tes_object *o, enum tes_core_news news)
{
	const char *tenant = tes_core_tenant_of(core, o)->name;
	const struct tes_extra *x = tes_core_object_extra(o);
	struct tes_core_item item = {
		.key = {o->key, o->key_len},
		.tenant = {tenant, strlen(tenant)},
	};

	if (x && x->group)
		item.group = (struct tes_core_key){x->group->name,
						   x->group->name_len};
	core->config.watch(news, &item, core->config.watch_arg);
}

/* ---- an object goes ---- */

void tes_core_object_unpin(struct tes_core *core, struct tes_extra *x)
{
	core->figures.soft_pinned -= x->pinned;
	x->pinned = false;
}

void tes_core_object_free(struct tes_core *core, struct tes_object *o)
{
	struct tes_extra *x = tes_core_object_extra(o);

	if (x) {
		tes_core_object_unpin(core, x);
		leave_group(core, x);
		core->n_extras--;
	}
	if (--core->tenants[o->tenant]->objects == 0)
		core->idle_tenants = true;
	tes_core_epoch_release(core, o->epoch);
	core->heap_bytes -= heap_bytes_of(o);
	core->figures.key_bytes -= o->key_len;
	block_free(core, o, bytes_of(o));
}

/* Parts successor and predecessor: the one that is left stands alone. */
static void separate_pair(struct tes_core *core, struct tes_object *o)
{
	struct tes_object *successor = tes_core_successor_find(core, o);
	struct tes_object *predecessor = tes_core_predecessor_find(core, o);

	if (successor)
		successor->flags &= (uint16_t)~TES_OBJECT_SUCCESSOR;
	if (predecessor)
		predecessor->flags &= (uint16_t)~TES_OBJECT_SUCCEEDED;
}

/* Makes the chain nobody's, and frees the nodes of lost extents. */
static struct tes_extent *strip_chain(struct tes_core *core,
				      struct tes_object *o)
{
	struct tes_extent **at = &o->extents, *e;

	while ((e = *at)) {
		tes_core_extent_disown(core, e);
		if (e->space) {
			at = &e->next;
		} else {
			*at = e->next;
			tei_slab_put(&core->extents, e);
		}
	}
	return o->extents;
}

struct tes_extent *tes_core_object_forget(struct tes_core *core,
					  struct tes_object *o)
{
	struct tes_extent *chain = strip_chain(core, o);

	if (o->state == TES_OBJECT_BUILDING) {
		tei_list_del(&o->age);
		tei_list_del(&o->link);
		core->figures.building--;
		if (o->flags & TES_OBJECT_COPY) {
			tes_core_task_unbuilt(core, o);
			tes_core_object_free(core, o);
			return chain;
		}
	} else {
		tes_core_notify_watch(core, o, TES_CORE_REMOVED);
		if (core->epochs[o->epoch].ours)
			tes_core_tombstone(core, o->node.hash);
		if (o->flags & (TES_OBJECT_TASKED | TES_OBJECT_SHORT))
			tes_core_task_orphan(core, o);
		tes_core_unevictable(core, o);
		core->figures.objects--;
	}
	separate_pair(core, o);
	tei_hash_remove(&core->objects, &o->node);
	tes_core_object_free(core, o);
	return chain;
}

void tes_core_object_drop(struct tes_core *core, struct tes_object *o)
{
	tes_core_chain_free(core, tes_core_object_forget(core, o));
}
