/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - attempts of tasks: who copies what to where, and what comes of it
 *
 * An attempt reserves its extents as a BUILDING object of its own, with the
 * executor as writer: whatever ends a put ends it, too, with the same care
 * about bytes that may still arrive.
 *
 * When the executor is done and its checksums are the object's, the extents of
 * the copy join the object as a replica; else its extents are fenced and the
 * task waits again, or ends.
 *
 * A moved replica is buried when readers that may be at it have had the time of
 * a lease, and never while it is the only one that is there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/crc.h"
#include "store/core/codes.h"
#include "store/core/drain.h"
#include "store/core/evict.h"
#include "store/core/fence.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/task.h"
#include "store/core/tenant.h"

/* Pause after the n-th try to find room, or the n-th failed attempt: n times
 * this. */
#define RETRY_MS 50u
/* Failed attempts of a task; users and drains try again themselves. */
#define FAILURES_MAX 3
/* Waiting ones looked at when one was added or is done; they take turns. */
#define LOOKS 16u
#define LATER 1 /* besides codes: try again */

/* ---- targets ---- */

static int32_t reserve_on(struct tes_core *core, const struct tes_task *t,
			  struct tes_object *copy, uint8_t replica,
			  struct tes_mount *m)
{
	if (tes_core_object_on(t->object, m))
		return CODE_REPLICA_EXISTS;
	if (m->status != TES_CORE_SEGMENT_OK)
		return CODE_NO_SEGMENT;
	if (!tes_core_mount_takes(m)) /* a drain finds another one */
		return t->kind == TES_TASK_DRAIN ? CODE_NO_SEGMENT : LATER;
	return tes_core_place_on(core, m, copy, replica) ? CODE_OK : CODE_FULL;
}

/* Tries every mount that bears the name. */
static int32_t reserve_named(struct tes_core *core, const struct tes_task *t,
			     struct tes_object *copy, uint8_t replica)
{
	struct tes_mount *m =
		tes_core_mount_named(core, t->targets[t->next].name);
	int32_t best = CODE_NO_SEGMENT;

	for (; m; m = tes_core_mount_namesake(m)) {
		int32_t code = reserve_on(core, t, copy, replica, m);

		tes_core_spend(&core->effort, 1);
		if (!code)
			return CODE_OK;
		if (best == CODE_NO_SEGMENT || code > best)
			best = code;
	}
	return best;
}

/* Places one more replica of the object as for a put. */
static int32_t reserve_any(struct tes_core *core, const struct tes_task *t,
			   struct tes_object *copy, uint8_t replica,
			   const struct tes_session *executor)
{
	static const struct tes_core_replicate one = {.replica_num = 1};
	struct tes_placement placement = {.how = &one, .writer = executor};

	if (!tes_core_place(core, &placement, t->object, replica))
		return CODE_FULL;
	copy->extents = tes_core_replica_cut(core, t->object, replica);
	for (struct tes_extent *e = copy->extents; e; e = e->next)
		tes_core_extent_own(core, e, copy);
	return CODE_OK;
}

static int32_t reserve_target(struct tes_core *core, const struct tes_task *t,
			      struct tes_object *copy, uint8_t replica,
			      const struct tes_session *executor)
{
	const struct tes_task_place *to = &t->targets[t->next];
	struct tes_mount *m;

	if (to->name)
		return reserve_named(core, t, copy, replica);
	if (!to->serial)
		return reserve_any(core, t, copy, replica, executor);
	m = tes_core_mount_of(core, to->serial);
	return m ? reserve_on(core, t, copy, replica, m) : CODE_NO_SEGMENT;
}

/* ---- executors ---- */

static bool is_free(const struct tes_session *s)
{
	return s->executes && s->beating && s->state == TES_SESSION_LIVE &&
	       s->n_tasks < TES_CORE_TASKS_EACH;
}

/* Finds the least busy owner of a replica; NULL: none is free. */
static struct tes_session *executor_for(const struct tes_object *o)
{
	struct tes_session *best = NULL;

	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		struct tes_session *s;

		if (!tes_core_extent_there(e))
			continue;
		s = tes_core_extent_mount(e)->owner;
		if (is_free(s) && (!best || s->n_tasks < best->n_tasks))
			best = s;
	}
	return best;
}

/* ---- an attempt begins ---- */

static struct tes_object *copy_new(struct tes_core *core,
				   const struct tes_object *o)
{
	struct tes_core_key key = {o->key, 1}; /* nobody looks for it */
	struct tes_object *copy =
		tes_core_object_new(core, o->tenant, &key, false);

	if (!copy)
		return NULL;
	copy->size = o->size;
	copy->flags |= TES_OBJECT_COPY;
	tei_list_init(&copy->age);
	return copy;
}

static void begin_attempt(struct tes_core *core, struct tes_task *t,
			  struct tes_object *copy, struct tes_session *executor)
{
	copy->generation = t->number;
	copy->state = TES_OBJECT_BUILDING;
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
	tes_core_make_busy(core, t->object);
	tes_core_task_work(core, t, &core->tasks.processing);
}

static int32_t note_no_room(struct tes_core *core, struct tes_task *t)
{
	if (t->kind == TES_TASK_DRAIN ||
	    t->tries++ >= core->config.task_retries)
		return CODE_FULL;
	tes_core_task_wait(core, t, RETRY_MS * t->tries);
	return LATER;
}

static int32_t reserve_copy(struct tes_core *core, struct tes_task *t,
			    struct tes_session *executor)
{
	uint8_t replica = tes_core_replica_free(t->object);
	struct tes_object *copy;
	int32_t code;

	if (replica == TES_CORE_REPLICAS_MAX)
		return CODE_ARGUMENT;
	if (!t->move &&
	    !tes_core_tenant_has_room(tes_core_tenant_of(core, t->object),
				      tes_core_extent_size(t->object->size)))
		return note_no_room(core, t);
	if (tei_slab_reserve(&core->extents, 1) < 0)
		return LATER;
	copy = copy_new(core, t->object);
	if (!copy)
		return LATER;
	code = reserve_target(core, t, copy, replica, executor);
	if (!code)
		begin_attempt(core, t, copy, executor);
	else
		tes_core_object_free(core, copy);
	return code == CODE_FULL ? note_no_room(core, t) : code;
}

static bool is_source(const struct tes_task *t, const struct tes_mount *m)
{
	return t->source.name ? strcmp(m->name, t->source.name) == 0
			      : m->serial == t->source.serial;
}

/* Finds the first extent of the replica to be moved; NULL: there is none. */
static struct tes_extent *find_source(const struct tes_task *t)
{
	for (struct tes_extent *e = t->object->extents; e; e = e->next)
		if (tes_core_extent_there(e) &&
		    is_source(t, tes_core_extent_mount(e)))
			return e;
	return NULL;
}

/* Begin with @t; LATER, or the code that ends it. */
static int32_t try_begin(struct tes_core *core, struct tes_task *t)
{
	struct tes_object *o = t->object;
	struct tes_session *executor;

	if (!o || tes_core_object_gone(o))
		return CODE_NOT_FOUND;
	if (tes_core_is_past(core, t->since_ms, core->config.task_pending_ms))
		return CODE_TIMEOUT;
	if (t->not_before_ms > core->now_ms ||
	    core->tasks.n_processing >= core->config.tasks_processing_max ||
	    (o->flags & TES_OBJECT_SUCCEEDED) || !tes_core_object_live(o))
		return LATER;
	if (t->move && !find_source(t))
		return CODE_NO_REPLICA;
	executor = executor_for(o);
	return executor ? reserve_copy(core, t, executor) : LATER;
}

/* ---- a target has its copy; a moved replica is released ---- */

/* @o has others than @replica; @live: that can be read. */
static bool is_elsewhere(const struct tes_object *o, uint8_t replica, bool live)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (e->replica != replica &&
		    (!live || tes_core_mount_live(tes_core_extent_mount(e))))
			return true;
	return false;
}

/* True: leases protect the replica, since its space may be used again; not so
 * when its mount is to go. */
static bool keeps_leases(const struct tes_extent *e)
{
	return tes_core_extent_mount(e)->status !=
	       TES_CORE_SEGMENT_GRACEFULLY_UNMOUNTING;
}

/* Give up what was moved, if it may go now. */
static void release_source(struct tes_core *core, struct tes_task *t)
{
	struct tes_object *o = t->object;
	struct tes_extent *e = o ? find_source(t) : NULL;

	if (!e) {
		tes_core_task_end(core, t, o ? CODE_OK : CODE_NOT_FOUND);
		return;
	}
	if (!is_elsewhere(o, e->replica, false)) {
		/* The copy was lost: there are as many replicas as before. */
		if (t->lost)
			t->lost--;
		tes_core_task_end(core, t, CODE_NO_SEGMENT);
		return;
	}
	if (!is_elsewhere(o, e->replica, true)) {
		if (tes_core_is_past(core, t->since_ms,
				     core->config.client_ttl_ms))
			tes_core_task_end(core, t, CODE_NO_SEGMENT);
		return;
	}
	if (tes_core_leased(core, o) && keeps_leases(e) &&
	    !tes_core_is_past(core, t->since_ms, core->config.lease_ttl_ms))
		return;
	if (tes_core_bury_reserve(core, o, NULL) < 0)
		return;
	tes_core_bury_replica(core, o, e->replica, NULL);
	tes_core_task_end(core, t, CODE_OK);
}

static void finish_target(struct tes_core *core, struct tes_task *t)
{
	t->tries = t->failed = 0;
	if (++t->next < t->n_targets)
		return;
	if (!t->move) {
		tes_core_task_end(core, t, CODE_OK);
		return;
	}
	tes_core_make_busy(core, t->object);
	tes_core_task_work(core, t, &core->tasks.leaving);
	if (t->kind == TES_TASK_DRAIN)
		t->cookie = tes_core_drain_copied(core, t->cookie);
	release_source(core, t);
}

/* ---- waiting tasks are tried ---- */

static void start_task(struct tes_core *core, struct tes_task *t)
{
	int32_t code = try_begin(core, t);

	if (code == CODE_OK || code == LATER)
		return;
	if (code == CODE_REPLICA_EXISTS && !t->move)
		finish_target(core, t);
	else
		tes_core_task_end(core, t, code);
}

/* Look at @n of those that wait, at the most. */
static void choose_tasks(struct tes_core *core, unsigned int n)
{
	core->effort = TES_CORE_EFFORT * core->config.step_objects;
	for (size_t k = 0; k < 2; k++) {
		size_t some = core->tasks.n_pending[k];
		struct tei_list *list = &core->tasks.pending[k];

		for (some = some < n ? some : n; some; some--) {
			struct tei_list *link = list->next;

			if (tei_list_empty(list) || !core->effort)
				break;
			tei_list_del(link);
			tei_list_add_tail(list, link);
			start_task(core,
				   tei_list_entry(link, struct tes_task, link));
		}
	}
}

void tes_core_tasks_choose(struct tes_core *core)
{
	choose_tasks(core, LOOKS);
}

/* ---- an attempt is sent ---- */

void tes_core_tasks_resend(struct tes_core *core, struct tes_session *s)
{
	tei_list_for_each (link, &s->tasks) {
		struct tes_task *t = tei_list_entry(link, struct tes_task, at);

		if (tei_list_empty(&t->unsent) && t->object)
			tei_list_add_tail(&core->tasks.unsent, &t->unsent);
	}
}

static int put_extents(struct tes_action *a, const struct tes_object *copy,
		       struct tei_arena *arena)
{
	size_t n = tes_core_object_entries(copy);
	uint64_t rest = copy->size;

	a->u.task.address = tei_arena_alloc(arena, n * sizeof(uint64_t));
	a->u.task.length = tei_arena_alloc(arena, n * sizeof(uint64_t));
	if (!a->u.task.address || !a->u.task.length)
		return -ENOMEM;
	for (const struct tes_extent *e = copy->extents; e; e = e->next) {
		size_t i = a->u.task.n++;

		a->u.task.address[i] =
			tes_core_extent_mount(e)->base + e->offset;
		a->u.task.length[i] = tes_core_extent_length(e, rest);
		rest -= a->u.task.length[i];
	}
	return 0;
}

static int put_task(const struct tes_core *core, const struct tes_task *t,
		    struct tes_action *a, struct tei_arena *arena)
{
	const struct tes_session *owner =
		tes_core_extent_mount(t->copy->extents)->owner;

	if (tes_core_objects_one(core, t->object, t->executor,
				 &a->u.task.source, arena) < 0)
		return -ENOMEM;
	tes_core_task_id(core, t, t->attempt, a->u.task.id);
	a->u.task.target.engine = owner->engine;
	a->u.task.target.incarnation = owner->incarnation;
	a->u.task.timeout_ms = core->config.task_processing_ms;
	return put_extents(a, t->copy, arena);
}

/* -ENOMEM: it is due again with the next step. */
static int put_action(struct tes_core *core, struct tes_task *t,
		      struct tes_actions *out)
{
	struct tes_action *a;

	if (tes_core_actions_reserve(out, 1) < 0)
		return -ENOMEM;
	a = tes_core_action_add(out, TES_ACTION_TASK, t->executor->id);
	if (put_task(core, t, a, out->arena) < 0) {
		out->n--;
		return -ENOMEM;
	}
	tei_list_del(&t->unsent);
	if (a->u.task.source.n)
		return 0;
	out->n--; /* its replica was lost meanwhile */
	tes_core_task_work(core, t, &core->tasks.broken);
	return 0;
}

void tes_core_tasks_flush(struct tes_core *core, struct tes_actions *out)
{
	tei_list_for_each_safe (link, next, &core->tasks.unsent) {
		struct tes_task *t =
			tei_list_entry(link, struct tes_task, unsent);

		if (t->executor->beating &&
		    t->executor->state != TES_SESSION_GONE &&
		    !tes_core_object_gone(t->copy) &&
		    put_action(core, t, out) < 0)
			return;
	}
}

/* ---- an attempt fails ---- */

/* Retries the task, whose attempt has ended with @code, or ends it. */
static void retry_or_end(struct tes_core *core, struct tes_task *t,
			 int32_t code)
{
	bool again = code == CODE_NO_REPLICA || t->kind == TES_TASK_REPAIR ||
		     t->kind == TES_TASK_HOT;

	if (!t->object)
		code = CODE_NOT_FOUND;
	else if (again && ++t->failed < FAILURES_MAX) {
		tes_core_task_wait(core, t, RETRY_MS * t->failed);
		return;
	}
	tes_core_task_end(core, t, code);
}

/* Ends an attempt; @quiet: no byte of it can arrive any more. Without memory
 * for fences it is ended in a tick. */
static void fail_attempt(struct tes_core *core, struct tes_task *t,
			 int32_t code, bool quiet)
{
	const struct tes_session *writer = t->executor;
	struct tes_extent *chain;

	if (!quiet && tes_core_fences_reserve(core, t->copy, UINT32_MAX) < 0) {
		t->code = code;
		tei_list_del(&t->unsent);
		tes_core_task_work(core, t, &core->tasks.broken);
		return;
	}
	chain = tes_core_object_forget(core, t->copy);
	tes_core_fence_chain(core, chain, writer, quiet ? 0 : UINT32_MAX);
	retry_or_end(core, t, code);
}

int tes_core_task_abort(struct tes_core *core, struct tes_object *o)
{
	struct tes_task *t = tes_core_task_of(core, o);

	if (!t->copy) {
		tes_core_end_busy(core, o);
		return 0;
	}
	return tes_core_discard(core, t->copy);
}

/* ---- an attempt is done ---- */

/* CRC of the value whose replica @chain begins with; by @crcs, or its own. */
static uint32_t whole_crc(const struct tes_extent *chain, const uint32_t *crcs,
			  uint64_t rest)
{
	uint32_t crc = 0;

	for (const struct tes_extent *e = chain;
	     e && e->replica == chain->replica; e = e->next) {
		uint64_t length = tes_core_extent_length(e, rest);
		uint32_t part = crcs ? *crcs++ : e->crc;

		crc = tei_crc32c_join(crc, part, length);
		rest -= length;
	}
	return crc;
}

static bool agrees(const struct tes_object *o, const struct tes_object *copy,
		   const uint32_t *crcs)
{
	return whole_crc(o->extents, NULL, o->size) ==
	       whole_crc(copy->extents, crcs, o->size);
}

static int32_t check_copy(const struct tes_task *t, const struct tes_event *ev)
{
	const struct tes_object *o = t->object;

	if (!o)
		return CODE_NOT_FOUND;
	if (tes_core_object_gone(t->copy))
		return CODE_NO_SEGMENT;
	if (o->flags & TES_OBJECT_NO_CRC)
		return CODE_OK;
	if (ev->u.task_done.no_crc ||
	    ev->u.task_done.n_crcs != tes_core_object_entries(t->copy) ||
	    !agrees(o, t->copy, ev->u.task_done.crcs))
		return CODE_CHECKSUM;
	return CODE_OK;
}

/* Makes the copy one more replica of its object. */
static void join_copy(struct tes_step *step, struct tes_task *t)
{
	struct tes_core *core = step->core;
	bool bare = t->object->flags & TES_OBJECT_NO_CRC;
	const uint32_t *crcs = step->ev->u.task_done.crcs;
	struct tes_object *o = t->object;
	uint16_t writer = tes_core_object_writer(o);
	struct tes_extent *chain =
		tes_core_replica_cut(core, t->copy, t->copy->extents->replica);

	for (struct tes_extent *e = chain; e; e = e->next) {
		tes_core_extent_own(core, e, o);
		e->writer = writer;
		if (!bare)
			e->crc = *crcs++;
	}
	(void)tes_core_object_forget(core, t->copy);
	tes_core_replica_join(o, chain, tes_core_replica_free(o));
	tes_core_requeue(core, o);
	if (step->committed)
		tes_core_commit(step, o);
	else
		tes_core_resync(core, tes_core_extent_mount(chain));
}

/* Needs nothing: without room for the announcement its owner is resynced. */
int tes_core_prepare_task_done(struct tes_step *step)
{
	(void)tes_core_commits_reserve(step, 1);
	return 0;
}

int tes_core_on_task_done(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	const struct tes_session *s = step->session;
	uint16_t attempt = 0;
	struct tes_task *t = NULL;
	int32_t code = ev->u.task_done.status;
	bool quiet = !code || ev->u.task_done.quiet;

	if (ev->u.task_done.id)
		t = tes_core_task_find(core, ev->u.task_done.id, &attempt);
	if (!t || t->attempt != attempt || t->executor != s) {
		core->figures.tasks_late_total++;
		return 0;
	}
	if (!code)
		code = check_copy(t, ev);
	if (!code && tes_core_replica_free(t->object) == TES_CORE_REPLICAS_MAX)
		code = CODE_REPLICA_EXISTS;
	if (!code) {
		join_copy(step, t);
		finish_target(core, t);
	} else {
		if (ev->u.task_done.status && ev->u.task_done.message)
			snprintf(t->message, sizeof(t->message), "%s",
				 ev->u.task_done.message);
		fail_attempt(core, t, code, quiet);
	}
	tes_core_tasks_choose(core);
	return 0;
}

/* ---- in time ---- */

/* Ends attempts that are broken, or had no memory to end before. */
static void settle_broken(struct tes_core *core, unsigned int *budget)
{
	size_t n = core->tasks.n_processing;

	for (; n && *budget && !tei_list_empty(&core->tasks.broken); n--) {
		struct tes_task *t = tei_list_entry(core->tasks.broken.next,
						    struct tes_task, link);

		fail_attempt(core, t, t->code ? t->code : CODE_NO_REPLICA,
			     false);
		--*budget;
	}
}

static void time_out_copies(struct tes_core *core, unsigned int *budget)
{
	while (*budget && !tei_list_empty(&core->tasks.processing)) {
		struct tes_task *t = tei_list_entry(core->tasks.processing.next,
						    struct tes_task, link);

		if (!tes_core_is_past(core, t->since_ms,
				      core->config.task_processing_ms))
			return;
		fail_attempt(core, t, CODE_TIMEOUT, false);
		--*budget;
	}
}

static void release_sources(struct tes_core *core, unsigned int *budget)
{
	struct tei_list *list = &core->tasks.leaving, turn;

	tei_list_init(&turn);
	tei_list_splice_tail(&turn, list);
	while (*budget && !tei_list_empty(&turn)) {
		struct tei_list *link = tei_list_pop(&turn);

		tei_list_add_tail(list, link);
		release_source(core,
			       tei_list_entry(link, struct tes_task, link));
		--*budget;
	}
	tei_list_splice_tail(&turn, list);
	tei_list_splice_tail(list, &turn);
}

/* Ends copies that broke off or are late, and moves whose source may go. */
static void settle_copies(struct tes_core *core, unsigned int *budget)
{
	settle_broken(core, budget);
	time_out_copies(core, budget);
	release_sources(core, budget);
}

void tes_core_tasks_tick(struct tes_core *core, unsigned int *budget)
{
	tes_core_repair_some(core, budget);
	settle_copies(core, budget);
	if (core->tasks.n_pending[0] || core->tasks.n_pending[1])
		choose_tasks(core, core->config.step_objects);
}
