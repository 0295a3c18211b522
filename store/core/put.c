/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put.c - reservations: a put or an upsert begins, ends, is revoked
 *
 * A start claims its key, gets an object, room for its replicas, and a place in
 * the reply. An end makes the object READY with the replicas that were written,
 * in the place of what it succeeds; a revoked one is forgotten. Replicas whose
 * writer may still write are fenced.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "store/core/codes.h"
#include "store/core/epoch.h"
#include "store/core/evict.h"
#include "store/core/fence.h"
#include "store/core/object.h"
#include "store/core/policy.h"
#include "store/core/replica.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/task.h"
#include "store/core/tenant.h"

#define SOFT_PIN_TTL_MS 1800000u

/* Attributes of a new object. */
struct put_traits {
	bool hard;
	uint64_t pin_ms; /* from when it is READY */
	bool preserve;   /* the pin of its predecessor: */
	uint64_t pin_until_ms;
	const char *group; /* group[group_len], NULL: none */
	size_t group_len;
	uint32_t data_type;
};

/* Starts of one event, or of a part of one. */
struct tes_starts {
	struct tes_placement placement;
	uint64_t generation; /* the last one before the event */
	uint16_t epoch;      /* index; the same in all parts */
};

/* ---- the event is checked, and gets its room in the arena ---- */

static int32_t check_how(const struct tes_core *core,
			 const struct tes_core_replicate *how)
{
	uint64_t most = core->config.soft_pin_ttl_max_ms;

	if (!how)
		return CODE_OK;
	if (!most)
		most = TES_CORE_PIN_MAX_MS;
	if (!how->replica_num || how->replica_num > TES_CORE_REPLICAS_MAX ||
	    how->soft_pin > TES_CORE_SOFT_DISABLE ||
	    how->n_preferred > TES_CORE_PREFERRED_MAX ||
	    how->soft_pin_ttl_ms > most)
		return CODE_ARGUMENT;
	return CODE_OK;
}

static void resolve_preferred(const struct tes_core *core,
			      struct tes_placement *placement)
{
	const struct tes_core_replicate *how = placement->how;

	for (size_t i = 0; i < how->n_preferred; i++) {
		struct tes_mount *m =
			tes_core_mount_named(core, how->preferred[i]);

		for (; m; m = tes_core_mount_namesake(m)) {
			/* A name that is said again gives nothing more. */
			if (placement->n_preferred == core->n_mounts)
				return;
			placement->preferred[placement->n_preferred++] = m;
		}
	}
}

/* Index of the epoch of the event's starts: one reply has one. */
static uint16_t epoch_of_starts(const struct tes_step *step)
{
	struct tes_core *core = step->core;
	struct tes_core_part *part = step->ev->part;

	if (!part)
		return core->own_epoch;
	if (!part->epoch) {
		part->epoch = core->own_epoch;
		tes_core_epoch_hold(core, part->epoch);
	}
	return part->epoch;
}

int tes_core_prepare_put_start(struct tes_step *step)
{
	static const struct tes_core_replicate one = {.replica_num = 1};
	struct tei_arena *arena = step->out->arena;
	const struct tes_core *core = step->core;
	const struct tes_core_replicate *how = step->ev->u.put_start.how;
	struct tes_starts *starts;

	step->code = check_how(core, how);
	if (step->code)
		return 0;
	starts = tei_arena_calloc(arena, 1, sizeof(*starts));
	if (!starts)
		return -ENOMEM;
	starts->generation = step->generation;
	starts->epoch = epoch_of_starts(step);
	starts->placement.how = how ? how : &one;
	starts->placement.writer = step->session;
	step->starts = starts;
	if (!starts->placement.how->n_preferred || !core->n_mounts)
		return 0;
	starts->placement.preferred = tei_arena_alloc(
		arena, core->n_mounts * sizeof(struct tes_mount *));
	if (!starts->placement.preferred)
		return -ENOMEM;
	resolve_preferred(core, &starts->placement);
	return 0;
}

/* ---- a key is claimed ---- */

/* True: an object of @size bytes could be placed, if not now then later. */
static bool could_ever_fit(struct tes_core *core, uint64_t size)
{
	return !core->n_mounts ||
	       tes_core_mounts_fit(core, tes_core_extent_size(size));
}

/*
 * True: the same process has begun @o before, on a connection that has broken
 * since, or without waiting for the answer. That answer may be lost, so the
 * first put is given up. Its space is fenced and not given again: the answer
 * may as well have arrived, and somebody write there. Else this is another put
 * of the same key, and the first one writes.
 */
static bool reply_may_be_lost(const struct tes_object *o,
			      const struct tes_session *s,
			      const struct tes_event *ev)
{
	return o->writer == s && (ev->u.put_start.unanswered ||
				  o->generation <= s->joined_generation);
}

/* True: the writer of the BUILDING @o is silent or has left, so nobody knows
 * when, or whether, its value will be there. */
static bool writer_is_silent(const struct tes_object *o)
{
	return o->writer->state != TES_SESSION_LIVE;
}

/* An object keeps its group: returns whether the upsert names that group, or
 * none. */
static bool same_group(const struct tes_object *o, const struct put_traits *t)
{
	const struct tes_extra *x = tes_core_object_extra(o);
	const struct tes_group *g = x ? x->group : NULL;

	if (!t->group)
		return true;
	return g && g->name_len == t->group_len &&
	       memcmp(g->name, t->group, t->group_len) == 0;
}

/* The objects at the key of a new one. */
struct put_claim {
	uint64_t generation;      /* the last one before the event */
	struct tes_object *old;   /* stays until the new one is READY */
	struct tes_object *loser; /* BUILDING: given up for it */
};

/* True: this very event has begun @o, so it names the key once more. */
static bool is_named_again(const struct tes_object *o,
			   const struct tes_session *s,
			   const struct put_claim *at)
{
	return o->state == TES_OBJECT_BUILDING && o->writer == s &&
	       o->generation > at->generation;
}

/* Decides whether the BUILDING @o is given up for a new one, and makes sure
 * that it can be without memory. "There already" must be true: only a put whose
 * writer is live keeps others away. */
static int32_t preempt_put(struct tes_core *core, struct tes_object *o,
			   const struct tes_session *s,
			   const struct tes_event *ev, struct put_claim *at)
{
	if (is_named_again(o, s, at))
		return CODE_EXISTS;
	if (!ev->u.put_start.upsert && !tes_core_object_gone(o) &&
	    !writer_is_silent(o) && !tes_core_discard_due(core, o) &&
	    !reply_may_be_lost(o, s, ev))
		return CODE_EXISTS;
	if (tes_core_fences_reserve(core, o, UINT32_MAX) < 0)
		return CODE_FULL;
	at->loser = o;
	return CODE_OK;
}

/* Decides whether @o, READY and there, may get a successor. That inherits what
 * an object has for life, unless @o counts as absent. */
static int32_t claim_successor(struct tes_core *core, struct tes_object *o,
			       const struct tes_session *s,
			       const struct tes_event *ev, struct put_traits *t,
			       struct put_claim *at)
{
	struct tes_object *other = tes_core_successor_find(core, o);
	const struct tes_extra *x = tes_core_object_extra(o);
	bool live = tes_core_object_live(o);
	int32_t code = CODE_OK;

	if (live && (o->flags & TES_OBJECT_BUSY))
		return CODE_TASK;
	if (live && !same_group(o, t))
		return CODE_ARGUMENT;
	if (other)
		code = preempt_put(core, other, s, ev, at);
	if (!code && (o->flags & TES_OBJECT_BUSY) &&
	    tes_core_task_abort(core, o) < 0)
		code = CODE_FULL;
	if (code)
		return code;
	at->old = o;
	if (!live)
		return CODE_OK;
	t->hard = o->flags & TES_OBJECT_HARD;
	if (x && x->group) {
		t->group = x->group->name;
		t->group_len = x->group->name_len;
	}
	if (x && t->preserve)
		t->pin_until_ms = x->pin_until_ms;
	return CODE_OK;
}

/*
 * Decides whether a new object may stand at @key; not CODE_OK: the answer.
 * Objects that are as good as gone go; but a value whose owners are silent
 * stays, since they may come back, and nobody's put is given up before the new
 * one has room.
 */
static int32_t claim_key(struct tes_core *core, const struct tes_event *ev,
			 const struct tes_core_key *key, uint64_t hash,
			 const struct tes_session *s, struct put_traits *t,
			 struct put_claim *at)
{
	struct tes_object *o;

	while ((o = tes_core_object_find(core, s->tenant->index, key, hash))) {
		if (is_named_again(o, s, at))
			return CODE_EXISTS;
		if (!tes_core_object_gone(o))
			break;
		core->figures.dropped_objects_total++;
		tes_core_object_drop(core, o);
	}
	if (!o)
		return CODE_OK;
	if (o->state == TES_OBJECT_BUILDING)
		return preempt_put(core, o, s, ev, at);
	if (ev->u.put_start.upsert || !tes_core_object_live(o))
		return claim_successor(core, o, s, ev, t, at);
	tes_core_touch(core, o);
	return CODE_EXISTS;
}

static struct put_traits traits_of(const struct tes_core *core,
				   const struct tes_event *ev, size_t i,
				   const struct tes_core_replicate *how)
{
	struct put_traits t = {.hard = how->hard_pin,
			       .data_type = how->data_type};
	const uint32_t *group = ev->u.put_start.group;

	if (group && group[i]) {
		t.group = ev->u.put_start.groups[group[i] - 1];
		t.group_len = strlen(t.group);
	}
	if (how->soft_pin == TES_CORE_SOFT_ENABLE) {
		t.pin_ms = how->soft_pin_ttl_ms;
		if (!t.pin_ms)
			t.pin_ms = core->config.soft_pin_ttl_ms;
		if (!t.pin_ms)
			t.pin_ms = SOFT_PIN_TTL_MS;
	}
	t.preserve = how->soft_pin == TES_CORE_SOFT_PRESERVE;
	return t;
}

static int set_traits(struct tes_core *core, struct tes_object *o,
		      const struct put_traits *t)
{
	struct tes_extra *x = tes_core_object_extra(o);

	if (t->hard)
		o->flags |= TES_OBJECT_HARD;
	if (!x)
		return 0;
	x->pin_ms = t->pin_ms;
	x->pin_until_ms = t->pin_until_ms;
	x->data_type = t->data_type;
	if (!t->group)
		return 0;
	return tes_core_group_join(core, x, t->group, t->group_len);
}

/* NULL: no memory. */
static struct tes_object *create_object(struct tes_core *core,
					const struct tes_session *s,
					const struct tes_core_key *key,
					const struct put_traits *t)
{
	bool extra = t->group || t->pin_ms || t->pin_until_ms || t->data_type;
	struct tes_object *o =
		tes_core_object_new(core, s->tenant->index, key, extra);

	if (o && set_traits(core, o, t) < 0) {
		tes_core_object_free(core, o);
		return NULL;
	}
	return o;
}

/* Places as many replicas as there is room for; false: none. */
static bool place_replicas(struct tes_core *core,
			   struct tes_placement *placement,
			   struct tes_object *o, uint32_t n)
{
	const struct tes_tenant *t = placement->writer->tenant;
	uint64_t total = tes_core_extent_size(o->size);
	uint8_t made = 0;

	if (tei_slab_reserve(&core->extents, 1) < 0 ||
	    !tes_core_place_or_evict(core, placement, o))
		return false;
	while (++made < n)
		if (!tes_core_tenant_has_room(t, total) ||
		    tei_slab_reserve(&core->extents, 1) < 0 ||
		    !tes_core_place(core, placement, o, made))
			break;
	if (placement->how->same_node)
		placement->near = tes_core_extent_mount(o->extents);
	core->figures.partial_puts_total += made < n;
	return true;
}

/* Makes @o, which has room, BUILDING in the place @at of its key. */
static void begin_put(struct tes_core *core, struct tes_object *o,
		      struct tes_session *s, const struct put_claim *at,
		      uint64_t hash)
{
	int rc = at->loser ? tes_core_discard(core, at->loser) : 0;

	assert(!rc); /* reserved */
	(void)rc;
	o->generation = ++core->generation;
	o->state = TES_OBJECT_BUILDING;
	o->writer = s;
	o->started_ms = core->now_ms;
	if (at->old) {
		o->flags |= TES_OBJECT_SUCCESSOR;
		at->old->flags |= TES_OBJECT_SUCCEEDED;
	}
	tei_hash_insert(&core->objects, &o->node, hash);
	tei_list_add_tail(&s->builds, &o->link);
	tei_list_add_tail(&core->building, &o->age);
	core->figures.building++;
}

/* Finds room for @o. The object that it succeeds yields to no eviction
 * meanwhile: a failed upsert would cost the old value. */
static int32_t reserve_space(struct tes_core *core,
			     struct tes_placement *placement,
			     struct tes_object *o, struct tes_object *old,
			     uint32_t n)
{
	struct tes_tenant *t = placement->writer->tenant;
	int32_t code;

	if (old)
		tes_core_protect(core, old);
	code = tes_core_afford(core, t, tes_core_extent_size(o->size));
	if (!code && !place_replicas(core, placement, o, n))
		code = CODE_FULL;
	/* Several extents take a little more than one. */
	if (!code)
		code = tes_core_afford(core, t, 0);
	if (old)
		tes_core_requeue(core, old);
	return code;
}

/* *@out: the object; NULL: it has not begun. */
static int32_t start_put(struct tes_step *step, size_t i, uint64_t hash,
			 uint32_t n_replicas, struct tes_object **out)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	struct tes_session *s = step->session;
	struct tes_starts *starts = step->starts;
	const struct tes_core_key *key = &ev->keys[i];
	struct tes_placement *placement = &starts->placement;
	struct put_traits t = traits_of(core, ev, i, placement->how);
	uint64_t size = ev->u.put_start.sizes[i];
	struct put_claim at = {.generation = starts->generation};
	struct tes_object *o;
	int32_t code;

	*out = NULL;
	if (!tes_core_key_valid(key) || !size || size > TES_SPACE_MAX)
		return CODE_ARGUMENT;
	code = claim_key(core, ev, key, hash, s, &t, &at);
	if (code)
		return code;
	if (!could_ever_fit(core, size))
		return CODE_FULL;
	o = create_object(core, s, key, &t);
	if (!o)
		return CODE_FULL;
	o->size = size;
	code = reserve_space(core, placement, o, at.old, n_replicas);
	if (code) {
		tes_core_chain_free(core, o->extents);
		tes_core_object_free(core, o);
		return code;
	}
	if (o->epoch != starts->epoch)
		tes_core_epoch_change(core, o, starts->epoch);
	begin_put(core, o, s, &at, hash);
	*out = o;
	return CODE_OK;
}

static void note_no_room(struct tes_core *core, struct tes_action *reply,
			 uint64_t size)
{
	uint64_t extent = tes_core_extent_size(size);
	uint32_t wait = 0;

	core->figures.alloc_failures_total++;
	if (tes_core_mounts_hold(core, extent))
		wait = tes_core_retry_ms(core);
	if ((!wait || wait > TES_CORE_RETRY_MS) &&
	    tes_core_mounts_to_come(core, extent))
		wait = TES_CORE_RETRY_MS;
	if (wait &&
	    (!reply->u.reply.retry_ms || wait < reply->u.reply.retry_ms))
		reply->u.reply.retry_ms = wait;
}

static uint32_t replicas_of(const struct tes_action *reply,
			    const struct tes_placement *placement)
{
	if (reply->u.reply.n_entries >= TES_CORE_ENTRIES_MANY)
		return 1;
	return placement->how->replica_num;
}

int tes_core_on_put_start(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	struct tes_action *reply = step->reply;
	uint64_t hashes[TES_CORE_PREFETCH];

	reply->u.reply.epoch = core->epochs[step->starts->epoch].number;
	tes_core_evict_begin(core);
	for (size_t i = step->from; i < step->to; i++) {
		size_t at = i % TES_CORE_PREFETCH;
		struct tes_object *o;
		int32_t code;

		if (!at)
			tes_core_objects_prefetch(
				core, step->session->tenant->index,
				&ev->keys[i], step->to - i, hashes);
		code = start_put(step, i, hashes[at],
				 replicas_of(reply, &step->starts->placement),
				 &o);
		if (code == CODE_FULL)
			note_no_room(core, reply, ev->u.put_start.sizes[i]);
		if (!tes_core_reply_place(step, i, o)) {
			tes_core_object_drop(core, o);
			code = CODE_INTERNAL;
		}
		reply->u.reply.status[i] = code;
	}
	return 0;
}

/* ---- a put ends, or is revoked ---- */

/* Names of a put that the call for its end gives. */
struct ended {
	const struct tes_core_key *key;
	uint64_t hash;
	uint64_t generation, epoch; /* of its start: other lives of the master
				     * may have given the same generation */
	bool written;
};

static bool is_ended(const struct tes_core *core, const struct tes_object *o,
		     const struct ended *it)
{
	return o->generation == it->generation &&
	       core->epochs[o->epoch].number == it->epoch;
}

/* Finds the object that an end is about; NULL: no such key. */
static struct tes_object *find_ended(const struct tes_core *core,
				     uint16_t tenant, const struct ended *it)
{
	struct tes_object *o = tes_core_object_now(
		core, tes_core_object_find(core, tenant, it->key, it->hash));
	struct tes_object *successor;

	if (!o)
		return NULL;
	successor = tes_core_successor_find(core, o);
	if (successor && is_ended(core, successor, it) &&
	    !tes_core_object_gone(successor))
		return successor;
	return o;
}

/* Checks an end: CODE_OK, also when it was done before, or the answer. */
static int32_t check_end(const struct tes_core *core,
			 const struct tes_session *s,
			 const struct tes_object *o, const struct ended *it)
{
	bool same;

	if (!o || tes_core_object_gone(o))
		return CODE_NOT_FOUND;
	same = is_ended(core, o, it);
	if (o->state == TES_OBJECT_READY)
		return it->written && same ? CODE_OK : CODE_NOT_BUILDING;
	if (o->writer != s)
		return CODE_NOT_YOURS;
	return same ? CODE_OK : CODE_NOT_FOUND;
}

static size_t entries_of_key(const struct tes_event *ev, size_t i)
{
	return ev->u.put_end.extents ? ev->u.put_end.extents[i] : 1;
}

/* Mask of the replicas of @o whose mount is there. */
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

/* Counts a value of @size bytes that was stored. */
static void count_size(struct tes_core_figures *f, uint64_t size)
{
	unsigned int k = 0;

	while (k + 1 < TES_CORE_SIZES && size > (uint64_t)TES_CORE_SIZE_FIRST
							 << 2 * k)
		k++;
	f->sizes[k]++;
	f->stored_bytes_total += size;
}

/* Makes @o READY, in the place of what it succeeds, if that is still there. */
static void make_ready(struct tes_step *step, struct tes_object *o)
{
	struct tes_core *core = step->core;
	struct tes_object *old = tes_core_predecessor_find(core, o);

	tei_list_del(&o->age);
	tei_list_del(&o->link);
	o->state = TES_OBJECT_READY;
	o->weak_until_ms = o->read_until_ms = 0;
	o->readers = (struct tes_readers){0};
	start_pin(core, o);
	tes_core_evictable(core, o);
	core->figures.building--;
	core->figures.objects++;
	count_size(&core->figures, o->size);
	tes_core_commit(step, o);
	if (old) {
		tes_core_task_inherit(core, old, o);
		tes_core_bury(core, old, step->waiter);
	}
	tes_core_notify_watch(core, o, TES_CORE_STORED);
}

/* Keep the replicas @good, settle the others. */
static void keep_replicas(struct tes_step *step, struct tes_object *o,
			  uint32_t good, uint32_t not_quiet)
{
	const struct tes_session *writer = o->writer;
	uint16_t number = tes_core_client_number(writer);

	for (uint8_t r = 0; r < TES_CORE_REPLICAS_MAX; r++)
		if (!(good >> r & 1))
			tes_core_fence_chain(
				step->core,
				tes_core_replica_cut(step->core, o, r), writer,
				not_quiet);
	for (struct tes_extent *e = o->extents; e; e = e->next)
		e->writer = number;
	make_ready(step, o);
}

/* End the BUILDING @o, whose first entry is @entry. */
static int32_t finish_put(struct tes_step *step, struct tes_object *o, size_t i,
			  size_t entry)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	uint32_t written = ev->u.put_end.written[i];
	uint32_t quiet =
		ev->u.put_end.quiet ? ev->u.put_end.quiet[i] : UINT32_MAX;
	/* Somebody may have objects of later lives than that of its start. */
	bool outlived = core->epochs[o->epoch].number < core->floor_epoch;
	uint32_t good = outlived ? 0 : written & replicas_there(o);
	uint32_t not_quiet = ~(quiet | written);
	const struct tes_session *writer = o->writer;
	struct tes_object *old = tes_core_predecessor_find(core, o);

	if (entries_of_key(ev, i) != tes_core_object_entries(o))
		return CODE_ARGUMENT;
	if (tes_core_fences_reserve(core, o, not_quiet) < 0)
		return CODE_INTERNAL;
	if (good && old &&
	    (!tes_core_step_waiter(step) ||
	     tes_core_bury_reserve(core, old, step->waiter) < 0))
		return CODE_INTERNAL;
	if (good) {
		set_crcs(o, ev, i, entry);
		keep_replicas(step, o, good, not_quiet);
		return CODE_OK;
	}
	tes_core_fence_chain(core, tes_core_object_forget(core, o), writer,
			     not_quiet);
	if (!written)
		return CODE_OK;
	return outlived ? CODE_VERSION : CODE_NOT_FOUND;
}

/* @entry: the first of key @i. */
static int32_t end_put(struct tes_step *step, size_t i, size_t entry,
		       uint64_t hash)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	const struct tes_session *s = step->session;
	const struct ended it = {
		.key = &ev->keys[i],
		.hash = hash,
		.generation = ev->u.put_end.generations[i],
		.epoch = ev->u.put_end.epoch,
		.written = ev->u.put_end.written[i],
	};
	struct tes_object *o;
	int32_t code;

	if (!tes_core_key_valid(it.key))
		return CODE_ARGUMENT;
	o = find_ended(core, s->tenant->index, &it);
	code = check_end(core, s, o, &it);
	if (!code && o->state == TES_OBJECT_BUILDING)
		code = finish_put(step, o, i, entry);
	core->figures.late_ends_total += code != CODE_OK;
	return code;
}

/* Hash the next keys and start to load what making them READY touches. */
static void prefetch_ended(const struct tes_core *core,
			   const struct tes_session *s,
			   const struct tes_core_key *keys, size_t n,
			   uint64_t *hashes)
{
	n = tes_core_objects_prefetch(core, s->tenant->index, keys, n, hashes);
	for (size_t i = 0; i < n; i++)
		tes_policy_prefetch(&s->tenant->policy, hashes[i]);
}

int tes_core_prepare_put_end(struct tes_step *step)
{
	return tes_core_commits_reserve(step, step->to - step->from);
}

int tes_core_on_put_end(struct tes_step *step)
{
	const struct tes_event *ev = step->ev;
	struct tes_action *reply = step->reply;
	uint64_t hashes[TES_CORE_PREFETCH];
	size_t entry = ev->part ? ev->part->entry : 0;

	for (size_t i = step->from; i < step->to; i++) {
		size_t at = i % TES_CORE_PREFETCH;

		if (!at)
			prefetch_ended(step->core, step->session, &ev->keys[i],
				       step->to - i, hashes);
		reply->u.reply.status[i] = end_put(step, i, entry, hashes[at]);
		entry += entries_of_key(ev, i);
	}
	if (ev->part)
		ev->part->entry = entry;
	return 0;
}
