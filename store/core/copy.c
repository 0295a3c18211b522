/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - tasks at work: who copies what to where
 *
 * An attempt reserves its extents as a BUILDING object of its own, with the
 * executor as writer: whatever ends a put ends it, too, with the same care about
 * bytes that may still arrive. copied.c settles what comes of it.
 */
#include "store/core/copy.h"

#include <errno.h>
#include <string.h>

#include "store/core/budget.h"
#include "store/core/codes.h"
#include "store/core/copied.h"
#include "store/core/evict.h"
#include "store/core/evictable.h"
#include "store/core/extent.h"
#include "store/core/mount.h"
#include "store/core/object.h"
#include "store/core/place.h"
#include "store/core/repair.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/task.h"
#include "store/core/tasks.h"
#include "store/core/tell.h"
#include "store/core/tenant.h"

/* Of tries to find room. */
#define RETRY_MS 50u
/* Waiting ones looked at when one was added or is done; they take turns. */
#define LOOKS 16u
#define LATER 1 /* besides codes: try again */
/* Mounts whose names cost as much as an object to look at. */
#define NAMES_EACH 8u

/* ---- where to ---- */

static int32_t place_on(struct tei_core *core, const struct tei_task *t,
			struct tei_object *copy, uint8_t replica,
			struct tei_mount *m)
{
	if (tei_core_object_on(t->object, m))
		return CODE_REPLICA_EXISTS;
	if (m->status != TEI_CORE_SEGMENT_OK)
		return CODE_NO_SEGMENT;
	if (!tei_core_mount_takes(m)) /* a drain finds another one */
		return t->kind == TEI_TASK_DRAIN ? CODE_NO_SEGMENT : LATER;
	return tei_core_place_on(core, m, copy, replica) ? CODE_OK : CODE_FULL;
}

/* On any of the mounts that bear the name. */
static int32_t place_named(struct tei_core *core, const struct tei_task *t,
			   struct tei_object *copy, uint8_t replica)
{
	int32_t best = CODE_NO_SEGMENT;

	tei_core_spend(&core->effort, core->n_mounts / NAMES_EACH);
	for (size_t i = 0; i < core->n_mounts; i++) {
		struct tei_mount *m = core->mounts[i];
		int32_t code;

		if (strcmp(m->name, t->targets[t->next].name) != 0)
			continue;
		code = place_on(core, t, copy, replica, m);
		if (!code)
			return CODE_OK;
		if (best == CODE_NO_SEGMENT || code > best)
			best = code;
	}
	return best;
}

/* Where placement puts one more replica of the object. */
static int32_t place_any(struct tei_core *core, const struct tei_task *t,
			 struct tei_object *copy, uint8_t replica,
			 const struct tei_session *executor)
{
	static const struct tei_core_replicate one = {.replica_num = 1};
	struct tei_wish wish = {.how = &one, .writer = executor};

	if (!tei_core_place(core, &wish, t->object, replica))
		return CODE_FULL;
	copy->extents = tei_core_replica_cut(core, t->object, replica);
	for (struct tei_extent *e = copy->extents; e; e = e->next)
		tei_core_extent_own(core, e, copy);
	return CODE_OK;
}

static int32_t place(struct tei_core *core, const struct tei_task *t,
		     struct tei_object *copy, uint8_t replica,
		     const struct tei_session *executor)
{
	const struct tei_task_place *to = &t->targets[t->next];
	struct tei_mount *m;

	if (to->name)
		return place_named(core, t, copy, replica);
	if (!to->serial)
		return place_any(core, t, copy, replica, executor);
	m = tei_core_mount_of(core, to->serial);
	return m ? place_on(core, t, copy, replica, m) : CODE_NO_SEGMENT;
}

/* ---- who ---- */

static bool is_free(const struct tei_session *s)
{
	return s->executes && s->beating && s->state == TEI_SESSION_LIVE &&
	       s->n_tasks < TEI_CORE_TASKS_EACH;
}

/* The least busy owner of a replica; NULL: none is free. */
static struct tei_session *executor_for(const struct tei_object *o)
{
	struct tei_session *best = NULL;

	for (const struct tei_extent *e = o->extents; e; e = e->next) {
		struct tei_session *s;

		if (!tei_core_extent_there(e))
			continue;
		s = tei_core_extent_mount(e)->owner;
		if (is_free(s) && (!best || s->n_tasks < best->n_tasks))
			best = s;
	}
	return best;
}

/* ---- to begin ---- */

static struct tei_object *copy_new(struct tei_core *core,
				   const struct tei_object *o)
{
	struct tei_core_key key = {o->key, 1}; /* nobody looks for it */
	struct tei_object *copy =
		tei_core_object_new(core, o->tenant, &key, false);

	if (!copy)
		return NULL;
	copy->size = o->size;
	copy->flags |= TEI_OBJECT_COPY;
	tei_list_init(&copy->age);
	return copy;
}

static void begin(struct tei_core *core, struct tei_task *t,
		  struct tei_object *copy, struct tei_session *executor)
{
	copy->generation = t->number;
	copy->state = TEI_OBJECT_BUILDING;
	copy->writer = executor;
	copy->started_ms = core->now_ms;
	tei_list_add_tail(&executor->builds, &copy->link);
	core->figures.building++;
	t->copy = copy;
	t->executor = executor;
	t->code = CODE_OK;
	*t->message = '\0';
	if (!++t->attempt)
		t->attempt = 1;
	t->assigned = true;
	memcpy(t->client, executor->client_id, sizeof(t->client));
	executor->n_tasks++;
	tei_list_add_tail(&executor->tasks, &t->at);
	tei_list_add_tail(&core->tasks.unsent, &t->unsent);
	tei_core_hold(core, t->object);
	tei_core_task_work(core, t, &core->tasks.processing);
}

static int32_t no_room(struct tei_core *core, struct tei_task *t)
{
	if (t->kind == TEI_TASK_DRAIN ||
	    t->tries++ >= core->config.task_retries)
		return CODE_FULL;
	tei_core_task_wait(core, t, RETRY_MS * t->tries);
	return LATER;
}

static int32_t reserve(struct tei_core *core, struct tei_task *t,
		       struct tei_session *executor)
{
	uint8_t replica = tei_core_replica_free(t->object);
	struct tei_object *copy;
	int32_t code;

	if (replica == TEI_CORE_REPLICAS_MAX)
		return CODE_ARGUMENT;
	if (!t->move &&
	    !tei_core_tenant_has_room(tei_core_tenant_of(core, t->object),
				      tei_core_extent_size(t->object->size)))
		return no_room(core, t);
	if (tei_slab_reserve(&core->extents, 1) < 0)
		return LATER;
	copy = copy_new(core, t->object);
	if (!copy)
		return LATER;
	code = place(core, t, copy, replica, executor);
	if (!code)
		begin(core, t, copy, executor);
	else
		tei_core_object_free(core, copy);
	return code == CODE_FULL ? no_room(core, t) : code;
}

/* Begin with @t; LATER, or the code that ends it. */
static int32_t try_begin(struct tei_core *core, struct tei_task *t)
{
	struct tei_object *o = t->object;
	struct tei_session *executor;

	if (!o || tei_core_object_gone(o))
		return CODE_NOT_FOUND;
	if (tei_core_is_past(core, t->since_ms, core->config.task_pending_ms))
		return CODE_TIMEOUT;
	if (t->not_before_ms > core->now_ms ||
	    core->tasks.n_processing >= core->config.tasks_processing_max ||
	    (o->flags & TEI_OBJECT_SUCCEEDED) || !tei_core_object_live(o))
		return LATER;
	if (t->move && !tei_core_task_source(t))
		return CODE_NO_REPLICA;
	executor = executor_for(o);
	return executor ? reserve(core, t, executor) : LATER;
}

/* ---- to choose ---- */

static void look_at(struct tei_core *core, struct tei_task *t)
{
	int32_t code = try_begin(core, t);

	if (code == CODE_OK || code == LATER)
		return;
	if (code == CODE_REPLICA_EXISTS && !t->move)
		tei_core_task_copied(core, t);
	else
		tei_core_task_end(core, t, code);
}

/* Look at @n of those that wait, at the most. */
static void choose(struct tei_core *core, unsigned int n)
{
	core->effort = TEI_CORE_EFFORT * core->config.step_objects;
	for (size_t k = 0; k < 2; k++) {
		size_t some = core->tasks.n_pending[k];
		struct tei_list *list = &core->tasks.pending[k];

		for (some = some < n ? some : n; some; some--) {
			struct tei_list *link = list->next;

			if (tei_list_empty(list) || !core->effort)
				break;
			tei_list_del(link);
			tei_list_add_tail(list, link);
			look_at(core,
				tei_list_entry(link, struct tei_task, link));
		}
	}
}

void tei_core_tasks_choose(struct tei_core *core)
{
	choose(core, LOOKS);
}

void tei_core_tasks_tick(struct tei_core *core, unsigned int *budget)
{
	tei_core_repair_some(core, budget);
	tei_core_copies_tick(core, budget);
	if (core->tasks.n_pending[0] || core->tasks.n_pending[1])
		choose(core, core->config.step_objects);
}

/* ---- out ---- */

void tei_core_tasks_resend(struct tei_core *core, struct tei_session *s)
{
	tei_list_for_each (link, &s->tasks) {
		struct tei_task *t = tei_list_entry(link, struct tei_task, at);

		if (tei_list_empty(&t->unsent) && t->object)
			tei_list_add_tail(&core->tasks.unsent, &t->unsent);
	}
}

static int put_extents(struct tei_action *a, const struct tei_object *copy,
		       struct tei_arena *arena)
{
	size_t n = tei_core_object_entries(copy);
	uint64_t rest = copy->size;

	a->u.task.address = tei_arena_alloc(arena, n * sizeof(uint64_t));
	a->u.task.length = tei_arena_alloc(arena, n * sizeof(uint64_t));
	if (!a->u.task.address || !a->u.task.length)
		return -ENOMEM;
	for (const struct tei_extent *e = copy->extents; e; e = e->next) {
		size_t i = a->u.task.n++;

		a->u.task.address[i] =
			tei_core_extent_mount(e)->base + e->offset;
		a->u.task.length[i] = tei_core_extent_length(e, rest);
		rest -= a->u.task.length[i];
	}
	return 0;
}

static int put_task(const struct tei_core *core, const struct tei_task *t,
		    struct tei_action *a, struct tei_arena *arena)
{
	const struct tei_session *owner =
		tei_core_extent_mount(t->copy->extents)->owner;

	if (tei_core_objects_one(core, t->object, t->executor,
				 &a->u.task.source, arena) < 0)
		return -ENOMEM;
	tei_core_task_id(core, t, t->attempt, a->u.task.id);
	a->u.task.target.engine = owner->engine;
	a->u.task.target.incarnation = owner->incarnation;
	a->u.task.timeout_ms = core->config.task_processing_ms;
	return put_extents(a, t->copy, arena);
}

/* -ENOMEM: it is due again with the next step. */
static int send(struct tei_core *core, struct tei_task *t,
		struct tei_actions *out)
{
	struct tei_action *a;

	if (tei_core_actions_reserve(out, 1) < 0)
		return -ENOMEM;
	a = tei_core_action_add(out, TEI_ACTION_TASK, t->executor->id);
	if (put_task(core, t, a, out->arena) < 0) {
		out->n--;
		return -ENOMEM;
	}
	tei_list_del(&t->unsent);
	if (a->u.task.source.n)
		return 0;
	out->n--; /* its replica was lost meanwhile */
	tei_core_task_work(core, t, &core->tasks.broken);
	return 0;
}

void tei_core_tasks_flush(struct tei_core *core, struct tei_actions *out)
{
	tei_list_for_each_safe (link, next, &core->tasks.unsent) {
		struct tei_task *t =
			tei_list_entry(link, struct tei_task, unsent);

		if (t->executor->beating &&
		    t->executor->state != TEI_SESSION_GONE &&
		    !tei_core_object_gone(t->copy) && send(core, t, out) < 0)
			return;
	}
}
