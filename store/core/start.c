/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put.c - reservations: start, end, revoke
 */
#include "store/core/state.h"

/* 0: no extent can have it. */
static uint64_t extent_size(const struct tei_core *core, uint64_t size)
{
	uint64_t total;

	if (!size || size > TEI_SPACE_MAX)
		return 0;
	total = (TEI_CORE_HEADER_LEN + size + TEI_SPACE_UNIT - 1) /
		TEI_SPACE_UNIT * TEI_SPACE_UNIT;
	if (core->n_mounts && total > core->largest_mount)
		return 0;
	return total;
}

/*
 * Asked before by the same process, on a connection that has broken since: the
 * answer may be lost, so the put is given up. Its space is not given again but
 * fenced: the answer may as well have arrived, and somebody write there. On
 * the same connection it is another put of the same key: the first one writes.
 */
static bool may_be_lost(const struct tei_object *o, const struct tei_session *s)
{
	return o->writer == s && o->generation <= s->joined_generation;
}

/*
 * Whether @o leaves its key to a new put: CODE_OK, and *@o is gone. Else what
 * to answer.
 */
static int32_t give_way(struct tei_core *core, struct tei_object *o,
			const struct tei_session *s)
{
	struct tei_mount *m = tei_core_object_mount(o);

	if (o->flags & TEI_OBJECT_NAMED)
		return CODE_EXISTS;
	if (m->dropping ||
	    (o->state == TEI_OBJECT_READY && !tei_core_mount_live(m))) {
		core->figures.dropped_objects_total++;
		tei_core_object_drop(core, o);
		return CODE_OK;
	}
	if (o->state == TEI_OBJECT_READY) {
		o->flags |= TEI_OBJECT_REF;
		return CODE_EXISTS;
	}
	if (!tei_core_discard_due(core, o) && !may_be_lost(o, s))
		return CODE_EXISTS;
	return tei_core_discard(core, o) < 0 ? CODE_FULL : CODE_OK;
}

static void begin(struct tei_core *core, struct tei_object *o,
		  struct tei_session *s, uint64_t size, uint64_t hash)
{
	o->generation = ++core->generation;
	o->size = size;
	o->state = TEI_OBJECT_BUILDING;
	o->writer = s;
	o->started_ms = core->now_ms;
	tei_hash_insert(&core->objects, &o->node, hash);
	tei_list_add_tail(&s->builds, &o->link);
	tei_list_add_tail(&core->building, &o->extent->link);
	core->figures.building++;
}

/* NULL: no room or no memory. */
static struct tei_object *
reserve(struct tei_core *core, const struct tei_core_key *key, uint64_t total)
{
	struct tei_object *o = tei_core_object_new(core, key);

	if (!o)
		return NULL;
	if (tei_slab_reserve(&core->extents, 1) == 0)
		o->extent = tei_core_place_or_evict(core, total, o);
	if (!o->extent) {
		tei_core_object_free(core, o);
		return NULL;
	}
	return o;
}

static int32_t start_one(struct tei_core *core, struct tei_session *s,
			 const struct tei_core_key *key, uint64_t hash,
			 uint64_t size, struct tei_object **out)
{
	uint64_t total = extent_size(core, size);
	struct tei_object *o;
	int32_t code = CODE_OK;

	if (!tei_core_key_valid(key) || !total)
		return CODE_ARGUMENT;
	o = tei_core_object_find(core, key, hash);
	if (o)
		code = give_way(core, o, s);
	if (code)
		return code;
	o = reserve(core, key, total);
	if (!o)
		return CODE_FULL;
	begin(core, o, s, size, hash);
	*out = o;
	return CODE_OK;
}

static void note_full(struct tei_core *core, struct tei_action *reply,
		      uint64_t size)
{
	uint32_t wait = 0;

	core->figures.alloc_failures_total++;
	if (tei_core_mounts_hold(core, size))
		wait = tei_core_retry_ms(core);
	if (wait &&
	    (!reply->u.reply.retry_ms || wait < reply->u.reply.retry_ms))
		reply->u.reply.retry_ms = wait;
}

void tei_core_on_put_start(struct tei_core *core, const struct tei_event *ev,
			   struct tei_session *s, struct tei_action *reply,
			   struct tei_object **started)
{
	uint64_t hashes[TEI_CORE_GROUP];

	tei_core_evict_begin(core);
	for (size_t i = 0; i < ev->n; i++) {
		uint64_t size = ev->u.put_start.sizes[i];
		size_t at = i % TEI_CORE_GROUP;
		int32_t code;

		if (!at)
			tei_core_objects_warm(core, &ev->keys[i], ev->n - i,
					      hashes);
		started[i] = NULL;
		code = start_one(core, s, &ev->keys[i], hashes[at], size,
				 &started[i]);
		reply->u.reply.status[i] = code;
		if (code == CODE_FULL)
			note_full(core, reply, size);
		if (!started[i])
			continue;
		started[i]->flags |= TEI_OBJECT_NAMED;
		tei_core_reply_place(core, reply, i, started[i]);
	}
	for (size_t i = 0; i < ev->n; i++)
		if (started[i])
			started[i]->flags &= (uint8_t)~TEI_OBJECT_NAMED;
}

static void make_ready(struct tei_core *core, struct tei_object *o,
		       uint32_t crc)
{
	tei_list_del(&o->extent->link);
	tei_list_del(&o->link);
	o->state = TEI_OBJECT_READY;
	o->crc = crc;
	o->readers = 0;
	o->soft_until_ms = 0;
	tei_core_ring_add(core, o);
	core->figures.building--;
	core->figures.objects++;
}

/* Of an end that is not what the core waits for; 0: it was done before. */
static int32_t check_end(const struct tei_session *s,
			 const struct tei_object *o, uint64_t generation,
			 bool written)
{
	if (!o || tei_core_object_mount(o)->dropping)
		return CODE_NOT_FOUND;
	if (o->state == TEI_OBJECT_READY)
		return written && o->generation == generation
			       ? CODE_OK
			       : CODE_NOT_BUILDING;
	if (o->writer != s)
		return CODE_NOT_YOURS;
	return o->generation == generation ? CODE_OK : CODE_NOT_FOUND;
}

static size_t entries_of(const struct tei_event *ev, size_t i)
{
	return ev->u.put_end.extents ? ev->u.put_end.extents[i] : 1;
}

/* @entry: the first of key @i. */
static int32_t end_one(struct tei_core *core, const struct tei_event *ev,
		       const struct tei_session *s, size_t i, size_t entry,
		       uint64_t hash)
{
	const struct tei_core_key *key = &ev->keys[i];
	bool written = ev->u.put_end.written[i] & 1;
	struct tei_object *o;
	int32_t code;

	if (!tei_core_key_valid(key) || entries_of(ev, i) != 1)
		return CODE_ARGUMENT;
	o = tei_core_object_find(core, key, hash);
	code = check_end(s, o, ev->u.put_end.generations[i], written);
	if (!code && ev->u.put_end.epoch != core->config.epoch)
		code = CODE_NOT_FOUND;
	if (code)
		core->figures.late_ends_total++;
	else if (o->state == TEI_OBJECT_BUILDING && written)
		make_ready(core, o,
			   ev->u.put_end.crcs ? ev->u.put_end.crcs[entry] : 0);
	else if (o->state == TEI_OBJECT_BUILDING)
		tei_core_object_drop(core, o);
	return code;
}

void tei_core_on_put_end(struct tei_core *core, const struct tei_event *ev,
			 struct tei_session *s, struct tei_action *reply)
{
	uint64_t hashes[TEI_CORE_GROUP];
	size_t entry = 0;

	for (size_t i = 0; i < ev->n; i++) {
		size_t at = i % TEI_CORE_GROUP;

		if (!at)
			tei_core_objects_warm(core, &ev->keys[i], ev->n - i,
					      hashes);
		reply->u.reply.status[i] =
			end_one(core, ev, s, i, entry, hashes[at]);
		entry += entries_of(ev, i);
	}
}
