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
static struct tes_object *find_ended(const struct tes_core *core,
				     uint16_t tenant,
				     const struct tes_core_key *key,
				     uint64_t hash, uint64_t generation)
{
	struct tes_object *o = tes_core_object_now(
		core, tes_core_object_find(core, tenant, key, hash));
	struct tes_object *successor;

	if (!o || o->generation == generation)
		return o;
	successor = tes_core_successor_find(core, o);
	if (successor && successor->generation == generation &&
	    !tes_core_object_gone(successor))
		return successor;
	return o;
}

/* Of an end that is not what the core waits for; 0: it was done before. */
static int32_t check_end(const struct tes_session *s,
			 const struct tes_object *o, uint64_t generation,
			 bool written)
{
	if (!o || tes_core_object_gone(o))
		return CODE_NOT_FOUND;
	if (o->state == TES_OBJECT_READY)
		return written && o->generation == generation
			       ? CODE_OK
			       : CODE_NOT_BUILDING;
	if (o->writer != s)
		return CODE_NOT_YOURS;
	return o->generation == generation ? CODE_OK : CODE_NOT_FOUND;
}

static size_t entries_of_key(const struct tes_event *ev, size_t i)
{
	return ev->u.put_end.extents ? ev->u.put_end.extents[i] : 1;
}

/* The replicas of @o whose mount is there. */
static uint32_t replicas_there(const struct tes_object *o)
{
	uint32_t mask = 0;

	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_there(e))
			mask |= (uint32_t)1 << e->replica;
	return mask;
}

static void set_crcs(struct tes_object *o, const struct tes_event *ev, size_t i,
		     size_t entry)
{
	const uint32_t *crcs = ev->u.put_end.crcs;

	if (!crcs || (ev->u.put_end.no_crc && ev->u.put_end.no_crc[i])) {
		o->flags |= TES_OBJECT_NO_CRC;
		return;
	}
	for (struct tes_extent *e = o->extents; e; e = e->next)
		e->crc = crcs[entry++];
}

static void start_pin(const struct tes_core *core, struct tes_object *o)
{
	struct tes_extra *x = tes_core_object_extra(o);

	if (x && x->pin_ms)
		x->pin_until_ms = core->now_ms + x->pin_ms;
}

/* A value of @size bytes is stored. */
static void count_size(struct tes_core_figures *f, uint64_t size)
{
	unsigned int k = 0;

	while (k + 1 < TES_CORE_SIZES && size > (uint64_t)TES_CORE_SIZE_FIRST
							 << 2 * k)
		k++;
	f->sizes[k]++;
	f->stored_bytes_total += size;
}

/* In the place of what it succeeds, if that is still there. */
static void make_ready(struct tes_core *core, struct tes_object *o)
{
	struct tes_object *old = tes_core_predecessor_find(core, o);

	tei_list_del(&o->age);
	tei_list_del(&o->link);
	o->state = TES_OBJECT_READY;
	o->weak_until_ms = o->read_until_ms = 0;
	tes_core_readers_clear(&o->readers);
	start_pin(core, o);
	tes_core_evictable(core, o);
	core->figures.building--;
	core->figures.objects++;
	count_size(&core->figures, o->size);
	tes_core_committed(core, o);
	if (old) {
		tes_core_task_inherit(core, old, o);
		tes_core_bury(core, old);
	}
	tes_core_tell(core, o, TES_CORE_STORED);
}

/* Keep the replicas @good, settle the others. */
static void keep_replicas(struct tes_core *core, struct tes_object *o,
			  uint32_t good, uint32_t loud)
{
	const struct tes_session *writer = o->writer;

	for (uint8_t r = 0; r < TES_CORE_REPLICAS_MAX; r++)
		if (!(good >> r & 1))
			tes_core_chain_fence(core,
					     tes_core_replica_cut(core, o, r),
					     writer, loud);
	make_ready(core, o);
}

/* End the BUILDING @o, whose first entry is @entry. */
static int32_t finish_put(struct tes_core *core, struct tes_object *o,
			  const struct tes_event *ev, size_t i, size_t entry)
{
	uint32_t written = ev->u.put_end.written[i];
	uint32_t quiet =
		ev->u.put_end.quiet ? ev->u.put_end.quiet[i] : UINT32_MAX;
	uint32_t good = written & replicas_there(o);
	uint32_t loud = ~(quiet | written);
	const struct tes_session *writer = o->writer;
	struct tes_object *old = tes_core_predecessor_find(core, o);

	if (entries_of_key(ev, i) != tes_core_object_entries(o))
		return CODE_ARGUMENT;
	if (tes_core_fences_reserve(core, o, loud) < 0 ||
	    (good && old && tes_core_bury_reserve(core, old) < 0))
		return CODE_INTERNAL;
	if (good) {
		set_crcs(o, ev, i, entry);
		keep_replicas(core, o, good, loud);
		return CODE_OK;
	}
	tes_core_chain_fence(core, tes_core_object_forget(core, o), writer,
			     loud);
	return written ? CODE_NOT_FOUND : CODE_OK;
}

/* @entry: the first of key @i. */
static int32_t end_put(struct tes_core *core, const struct tes_event *ev,
		       const struct tes_session *s, size_t i, size_t entry,
		       uint64_t hash)
{
	const struct tes_core_key *key = &ev->keys[i];
	uint64_t generation = ev->u.put_end.generations[i];
	struct tes_object *o;
	int32_t code;

	if (!tes_core_key_valid(key))
		return CODE_ARGUMENT;
	o = find_ended(core, s->tenant->index, key, hash, generation);
	code = check_end(s, o, generation, ev->u.put_end.written[i]);
	if (!code && ev->u.put_end.epoch != core->config.epoch)
		code = CODE_NOT_FOUND;
	if (!code && o->state == TES_OBJECT_BUILDING)
		code = finish_put(core, o, ev, i, entry);
	core->figures.late_ends_total += code != CODE_OK;
	return code;
}

/* Hash the next keys and start to load what making them READY touches. */
static void prefetch_ended(const struct tes_core *core,
			   const struct tes_session *s,
			   const struct tes_core_key *keys, size_t n,
			   uint64_t *hashes)
{
	n = tes_core_objects_warm(core, s->tenant->index, keys, n, hashes);
	for (size_t i = 0; i < n; i++)
		tes_policy_prefetch(&s->tenant->policy, hashes[i]);
}

void tes_core_on_put_end(struct tes_core *core, const struct tes_event *ev,
			 struct tes_session *s, struct tes_action *reply)
{
	uint64_t hashes[TES_CORE_GROUP];
	size_t entry = 0;

	for (size_t i = 0; i < ev->n; i++) {
		size_t at = i % TES_CORE_GROUP;

		if (!at)
			prefetch_ended(core, s, &ev->keys[i], ev->n - i,
				       hashes);
		reply->u.reply.status[i] =
			end_put(core, ev, s, i, entry, hashes[at]);
		entry += entries_of_key(ev, i);
	}
}
