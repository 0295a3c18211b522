/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.c - readers and operators look for objects
 *
 * A look-up grants a read lease: until it ends, or its readers have released
 * it, the object is neither removed nor evicted. A mere existence check
 * refuses remove for as long, but yields to eviction.
 *
 * A release is its session's, and ends no lease of another's, however often it
 * is sent. Nor does a late one: readers are counted until they have released,
 * even if their lease has ended meanwhile; a reader that has not released for a
 * whole lease more is forgotten. Few objects are read by three sessions at
 * once, and those will hardly be evicted soon, so their leases may end by time
 * alone.
 */
#include <string.h>

#include "store/core/codes.h"
#include "store/core/evict.h"
#include "store/core/hot.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/tenant.h"

struct lookup_batch {
	uint16_t tenant;
	enum tes_core_touch touch;
	struct tes_object *objects[TES_CORE_PREFETCH];
};

/* Finds object i of the event; called in order of i. */
static struct tes_object *next_object(const struct tes_step *step, size_t i,
				      struct lookup_batch *b)
{
	if (i % TES_CORE_PREFETCH == 0)
		tes_core_objects_find(step->core, b->tenant, &step->ev->keys[i],
				      step->to - i, b->touch, b->objects);
	return tes_core_object_now(step->core,
				   b->objects[i % TES_CORE_PREFETCH]);
}

/* True: no owner is away, so READY objects can be read without a look at their
 * extents. */
static bool all_live(const struct tes_core *core)
{
	return core->n_live_mounts == core->n_all_mounts;
}

/* Batch for events that only ask whether objects can be read. */
static struct lookup_batch batch_of_heads(const struct tes_core *core,
					  const struct tes_session *s)
{
	return (struct lookup_batch){.tenant = s->tenant->index,
				     .touch = all_live(core)
						      ? TES_CORE_TOUCH_HEAD
						      : TES_CORE_TOUCH_EXTENTS};
}

/* Returns CODE_OK when readers may have @o. */
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

/* 1 .. 65534 */
static uint16_t reader_number(const struct tes_session *s)
{
	return (uint16_t)(1 + s->id % (TES_CORE_READERS_MANY - 1));
}

/* Finds the place of @who, or a free one; NULL: all are others'. */
static uint16_t *reader_place(struct tes_readers *readers, uint16_t who)
{
	uint16_t *free = NULL;

	for (size_t i = 0; i < TES_CORE_READERS; i++) {
		if (readers->at[i].n && readers->at[i].who == who)
			return &readers->at[i].n;
		if (!readers->at[i].n && !free) {
			readers->at[i].who = who;
			free = &readers->at[i].n;
		}
	}
	return free;
}

static void add_reader(struct tes_readers *readers, const struct tes_session *s)
{
	uint16_t *n;

	if (readers->at[0].who == TES_CORE_READERS_MANY)
		return;
	n = reader_place(readers, reader_number(s));
	if (!n) {
		*readers = (struct tes_readers){0};
		readers->at[0].who = TES_CORE_READERS_MANY;
		readers->at[0].n = 1;
	} else if (*n < UINT16_MAX) {
		++*n;
	}
}

/* Gives @o a read lease from now on. */
static void lease(struct tes_core *core, struct tes_object *o,
		  const struct tes_session *s)
{
	uint64_t until = core->now_ms + core->config.lease_ttl_ms;

	/* Readers before that time will not release any more. */
	if (o->read_until_ms + core->config.lease_ttl_ms <= core->now_ms)
		o->readers = (struct tes_readers){0};
	add_reader(&o->readers, s);
	if ((o->flags & TES_OBJECT_LEASED) && o->read_until_ms == until)
		return;
	o->flags |= TES_OBJECT_LEASED;
	o->read_until_ms = until;
	tes_core_evict_later(core, o, &core->leased);
}

int tes_core_on_lookup(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_session *s = step->session;
	struct tes_action *reply = step->reply;
	struct lookup_batch batch = {.tenant = s->tenant->index,
				     .touch = TES_CORE_TOUCH_LISTS};

	reply->u.reply.lease_ms = core->config.lease_ttl_ms > UINT32_MAX
					  ? UINT32_MAX
					  : (uint32_t)core->config.lease_ttl_ms;
	for (size_t i = step->from; i < step->to; i++) {
		struct tes_object *o = next_object(step, i, &batch);
		int32_t code = check_readable(core, o);

		if (!tes_core_reply_place(step, i, code ? NULL : o))
			code = CODE_INTERNAL;
		reply->u.reply.status[i] = code;
		if (code)
			continue;
		lease(core, o, s);
		tes_core_touch(core, o);
		if (core->hot.slots)
			tes_core_hot_touch(core, o);
		reply->u.reply.size[i] = o->size;
		if (o->flags & TES_OBJECT_NO_CRC)
			reply->u.reply.no_crc[i] = true;
		if (o->flags & TES_OBJECT_UNVERIFIED)
			reply->u.reply.unverified[i] = true;
	}
	return 0;
}

/* Removes one reader; returns whether it was the last. */
static bool remove_reader(struct tes_readers *readers,
			  const struct tes_session *s)
{
	uint16_t who = reader_number(s);
	bool taken = false, left = false;

	for (size_t i = 0; i < TES_CORE_READERS; i++) {
		uint16_t *n = &readers->at[i].n;

		/* Readers beyond what can be counted end by time. */
		if (*n && *n < UINT16_MAX && readers->at[i].who == who) {
			--*n;
			taken = true;
		}
		left |= *n > 0;
	}
	return taken && !left;
}

/* True: @o is the object whose reads are over, by place @i of the event. */
static bool is_released(const struct tes_core *core, const struct tes_object *o,
			const struct tes_event *ev, size_t i)
{
	size_t n = ev->u.release.n_gen_epochs;

	return o && o->state == TES_OBJECT_READY &&
	       o->generation == ev->u.release.generations[i] &&
	       (!n || ev->u.release.gen_epochs[n == 1 ? 0 : i] ==
			      core->epochs[o->epoch].number);
}

int tes_core_on_release(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	const struct tes_session *s = step->session;
	struct lookup_batch batch = {.tenant = s->tenant->index,
				     .touch = TES_CORE_TOUCH_LISTS};

	for (size_t i = step->from; i < step->to; i++) {
		struct tes_object *o = next_object(step, i, &batch);

		if (!is_released(core, o, ev, i))
			continue;
		if (remove_reader(&o->readers, s) &&
		    (o->flags & TES_OBJECT_LEASED))
			tes_core_unlease(core, o);
	}
	return 0;
}

int tes_core_on_exist(struct tes_step *step)
{
	struct tes_core *core = step->core;
	struct tes_action *reply = step->reply;
	uint64_t until = core->now_ms + core->config.lease_ttl_ms;
	struct lookup_batch batch = batch_of_heads(core, step->session);

	for (size_t i = step->from; i < step->to; i++) {
		struct tes_object *o = next_object(step, i, &batch);

		if (check_readable(core, o) != CODE_OK)
			continue;
		reply->u.reply.status[i] = 1;
		if (o->weak_until_ms < until)
			o->weak_until_ms = until;
	}
	return 0;
}

int tes_core_on_size(struct tes_step *step)
{
	struct tes_core *core = step->core;
	struct tes_action *reply = step->reply;
	struct lookup_batch batch = batch_of_heads(core, step->session);

	for (size_t i = step->from; i < step->to; i++) {
		struct tes_object *o = next_object(step, i, &batch);
		int32_t code = check_readable(core, o);

		reply->u.reply.status[i] = code;
		if (!code)
			reply->u.reply.size[i] = o->size;
	}
	return 0;
}

/* ---- operators look at keys: no lease, no use ---- */

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
	code = check_readable(core, o);
	if (code)
		return code;
	*n = places_of(o, places, room);
	*size = o->size;
	return CODE_OK;
}

struct key_listing {
	const struct tes_core *core;
	const struct tes_tenant *tenant;
	void (*fn)(const struct tes_core_key *key, void *arg);
	void *arg;
};

static void show_key(struct tei_hash_node *node, void *arg)
{
	const struct tes_object *o =
		TEI_CONTAINER(node, struct tes_object, node);
	const struct tes_core_key key = {o->key, o->key_len};
	struct key_listing *to = arg;

	if (o->tenant == to->tenant->index &&
	    check_readable(to->core, o) == CODE_OK)
		to->fn(&key, to->arg);
}

bool tes_core_keys(const struct tes_core *core, const char *tenant,
		   size_t *cursor, size_t n_buckets,
		   void (*fn)(const struct tes_core_key *key, void *arg),
		   void *arg)
{
	/* The walk may write; this one only reads. */
	struct tei_hash *table = &((struct tes_core *)(uintptr_t)core)->objects;
	struct key_listing to = {core, tes_core_tenant_find(core, tenant), fn,
				 arg};

	if (!to.tenant)
		return false;
	return tei_hash_walk(table, cursor, n_buckets, show_key, &to);
}
