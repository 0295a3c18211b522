/* SPDX-License-Identifier: Apache-2.0 */
/*
 * end.c - reservations: a put or an upsert ends, or is revoked
 */
#include "store/core/put.h"

#include "store/core/bury.h"
#include "store/core/codes.h"
#include "store/core/evictable.h"
#include "store/core/extent.h"
#include "store/core/fence.h"
#include "store/core/object.h"
#include "store/core/policy.h"
#include "store/core/readers.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/tasks.h"
#include "store/core/tell.h"
#include "store/core/tenant.h"
#include "store/core/watch.h"

/* The object that an end with @generation means; NULL: no such key. */
static struct tei_object *meant(const struct tei_core *core, uint16_t tenant,
				const struct tei_core_key *key, uint64_t hash,
				uint64_t generation)
{
	struct tei_object *o = tei_core_object_now(
		core, tei_core_object_find(core, tenant, key, hash));
	struct tei_object *successor;

	if (!o || o->generation == generation)
		return o;
	successor = tei_core_successor_find(core, o);
	if (successor && successor->generation == generation &&
	    !tei_core_object_gone(successor))
		return successor;
	return o;
}

/* Of an end that is not what the core waits for; 0: it was done before. */
static int32_t check_end(const struct tei_session *s,
			 const struct tei_object *o, uint64_t generation,
			 bool written)
{
	if (!o || tei_core_object_gone(o))
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

/* The replicas of @o whose mount is there. */
static uint32_t replicas_there(const struct tei_object *o)
{
	uint32_t mask = 0;

	for (const struct tei_extent *e = o->extents; e; e = e->next)
		if (tei_core_extent_there(e))
			mask |= (uint32_t)1 << e->replica;
	return mask;
}

static void set_crcs(struct tei_object *o, const struct tei_event *ev, size_t i,
		     size_t entry)
{
	const uint32_t *crcs = ev->u.put_end.crcs;

	if (!crcs || (ev->u.put_end.no_crc && ev->u.put_end.no_crc[i])) {
		o->flags |= TEI_OBJECT_NO_CRC;
		return;
	}
	for (struct tei_extent *e = o->extents; e; e = e->next)
		e->crc = crcs[entry++];
}

static void start_pin(const struct tei_core *core, struct tei_object *o)
{
	struct tei_extra *x = tei_core_object_extra(o);

	if (x && x->pin_ms)
		x->pin_until_ms = core->now_ms + x->pin_ms;
}

/* A value of @size bytes is stored. */
static void count_size(struct tei_core_figures *f, uint64_t size)
{
	unsigned int k = 0;

	while (k + 1 < TEI_CORE_SIZES && size > (uint64_t)TEI_CORE_SIZE_FIRST
							 << 2 * k)
		k++;
	f->sizes[k]++;
	f->stored_bytes_total += size;
}

/* In the place of what it succeeds, if that is still there. */
static void make_ready(struct tei_core *core, struct tei_object *o)
{
	struct tei_object *old = tei_core_predecessor_find(core, o);

	tei_list_del(&o->age);
	tei_list_del(&o->link);
	o->state = TEI_OBJECT_READY;
	o->weak_until_ms = o->read_until_ms = 0;
	tei_core_readers_clear(&o->readers);
	start_pin(core, o);
	tei_core_evictable(core, o);
	core->figures.building--;
	core->figures.objects++;
	count_size(&core->figures, o->size);
	tei_core_committed(core, o);
	if (old) {
		tei_core_task_inherit(core, old, o);
		tei_core_bury(core, old);
	}
	tei_core_tell(core, o, TEI_CORE_STORED);
}

/* Keep the replicas @good, settle the others. */
static void keep(struct tei_core *core, struct tei_object *o, uint32_t good,
		 uint32_t loud)
{
	const struct tei_session *writer = o->writer;

	for (uint8_t r = 0; r < TEI_CORE_REPLICAS_MAX; r++)
		if (!(good >> r & 1))
			tei_core_chain_fence(core,
					     tei_core_replica_cut(core, o, r),
					     writer, loud);
	make_ready(core, o);
}

/* End the BUILDING @o, whose first entry is @entry. */
static int32_t finish(struct tei_core *core, struct tei_object *o,
		      const struct tei_event *ev, size_t i, size_t entry)
{
	uint32_t written = ev->u.put_end.written[i];
	uint32_t quiet =
		ev->u.put_end.quiet ? ev->u.put_end.quiet[i] : UINT32_MAX;
	uint32_t good = written & replicas_there(o);
	uint32_t loud = ~(quiet | written);
	const struct tei_session *writer = o->writer;
	struct tei_object *old = tei_core_predecessor_find(core, o);

	if (entries_of(ev, i) != tei_core_object_entries(o))
		return CODE_ARGUMENT;
	if (tei_core_fences_reserve(core, o, loud) < 0 ||
	    (good && old && tei_core_bury_reserve(core, old) < 0))
		return CODE_INTERNAL;
	if (good) {
		set_crcs(o, ev, i, entry);
		keep(core, o, good, loud);
		return CODE_OK;
	}
	tei_core_chain_fence(core, tei_core_object_forget(core, o), writer,
			     loud);
	return written ? CODE_NOT_FOUND : CODE_OK;
}

/* @entry: the first of key @i. */
static int32_t end_one(struct tei_core *core, const struct tei_event *ev,
		       const struct tei_session *s, size_t i, size_t entry,
		       uint64_t hash)
{
	const struct tei_core_key *key = &ev->keys[i];
	uint64_t generation = ev->u.put_end.generations[i];
	struct tei_object *o;
	int32_t code;

	if (!tei_core_key_valid(key))
		return CODE_ARGUMENT;
	o = meant(core, s->tenant->index, key, hash, generation);
	code = check_end(s, o, generation, ev->u.put_end.written[i]);
	if (!code && ev->u.put_end.epoch != core->config.epoch)
		code = CODE_NOT_FOUND;
	if (!code && o->state == TEI_OBJECT_BUILDING)
		code = finish(core, o, ev, i, entry);
	core->figures.late_ends_total += code != CODE_OK;
	return code;
}

/* Hash the next keys and start to load what making them READY touches. */
static void warm(const struct tei_core *core, const struct tei_session *s,
		 const struct tei_core_key *keys, size_t n, uint64_t *hashes)
{
	n = tei_core_objects_warm(core, s->tenant->index, keys, n, hashes);
	for (size_t i = 0; i < n; i++)
		tei_policy_prefetch(&s->tenant->policy, hashes[i]);
}

void tei_core_on_put_end(struct tei_core *core, const struct tei_event *ev,
			 struct tei_session *s, struct tei_action *reply)
{
	uint64_t hashes[TEI_CORE_GROUP];
	size_t entry = 0;

	for (size_t i = 0; i < ev->n; i++) {
		size_t at = i % TEI_CORE_GROUP;

		if (!at)
			warm(core, s, &ev->keys[i], ev->n - i, hashes);
		reply->u.reply.status[i] =
			end_one(core, ev, s, i, entry, hashes[at]);
		entry += entries_of(ev, i);
	}
}
