/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copied.c - tasks at work: what comes of a copy
 *
 * When the executor is done and its checksums are the object's, the extents of
 * the copy join the object as a replica; else its extents are fenced and the task
 * waits again, or ends.
 *
 * A moved replica is buried when the readers that may be at it have had a lease's
 * time, and never while it is the only one that is there.
 */
#include "store/core/copied.h"

#include <stdio.h>
#include <string.h>

#include "base/crc.h"
#include "store/core/bury.h"
#include "store/core/codes.h"
#include "store/core/copy.h"
#include "store/core/drain.h"
#include "store/core/evictable.h"
#include "store/core/extent.h"
#include "store/core/fence.h"
#include "store/core/mount.h"
#include "store/core/object.h"
#include "store/core/remove.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/task.h"
#include "store/core/tasks.h"
#include "store/core/tell.h"

/* Of attempts that failed, save those for users and drains, which try again
 * themselves. */
#define RETRY_MS     50u
#define FAILURES_MAX 3

/* ---- the end of a move ---- */

static bool is_source(const struct tes_task *t, const struct tes_mount *m)
{
	return t->source.name ? strcmp(m->name, t->source.name) == 0
			      : m->serial == t->source.serial;
}

struct tes_extent *tes_core_task_source(const struct tes_task *t)
{
	for (struct tes_extent *e = t->object->extents; e; e = e->next)
		if (tes_core_extent_there(e) &&
		    is_source(t, tes_core_extent_mount(e)))
			return e;
	return NULL;
}

/* @o has others than @replica; @live: that can be read. */
static bool is_elsewhere(const struct tes_object *o, uint8_t replica, bool live)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (e->replica != replica &&
		    (!live || tes_core_mount_live(tes_core_extent_mount(e))))
			return true;
	return false;
}

/* What it frees may be used again: not so when its mount is to go. */
static bool keeps_leases(const struct tes_extent *e)
{
	return tes_core_extent_mount(e)->status !=
	       TES_CORE_SEGMENT_GRACEFULLY_UNMOUNTING;
}

/* Give up what was moved, if it may go now. */
static void release_source(struct tes_core *core, struct tes_task *t)
{
	struct tes_object *o = t->object;
	struct tes_extent *e = o ? tes_core_task_source(t) : NULL;

	if (!e) {
		tes_core_task_end(core, t, o ? CODE_OK : CODE_NOT_FOUND);
		return;
	}
	if (!is_elsewhere(o, e->replica, false)) {
		/* What was copied is lost: there are as many as before. */
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
	if (tes_core_bury_reserve(core, o) < 0)
		return;
	tes_core_bury_replica(core, o, e->replica);
	tes_core_task_end(core, t, CODE_OK);
}

void tes_core_task_copied(struct tes_core *core, struct tes_task *t)
{
	t->tries = t->failed = 0;
	if (++t->next < t->n_targets)
		return;
	if (!t->move) {
		tes_core_task_end(core, t, CODE_OK);
		return;
	}
	tes_core_hold(core, t->object);
	tes_core_task_work(core, t, &core->tasks.leaving);
	if (t->kind == TES_TASK_DRAIN)
		t->cookie = tes_core_drain_copied(core, t->cookie);
	release_source(core, t);
}

/* ---- failure ---- */

/* It waits since its attempt has ended with @code. */
static void failed(struct tes_core *core, struct tes_task *t, int32_t code)
{
	bool again = code == CODE_NO_REPLICA || t->kind == TES_TASK_REPAIR ||
		     t->kind == TES_TASK_HEAT;

	if (!t->object)
		code = CODE_NOT_FOUND;
	else if (again && ++t->failed < FAILURES_MAX) {
		tes_core_task_wait(core, t, RETRY_MS * t->failed);
		return;
	}
	tes_core_task_end(core, t, code);
}

/* The attempt has failed; @quiet: nothing of it can arrive any more. Without
 * memory for fences it is tried again in ticks. */
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
	tes_core_chain_fence(core, chain, writer, quiet ? 0 : UINT32_MAX);
	failed(core, t, code);
}

int tes_core_task_abort(struct tes_core *core, struct tes_object *o)
{
	struct tes_task *t = tes_core_task_of(core, o);

	if (!t->copy) {
		tes_core_unhold(core, o);
		return 0;
	}
	return tes_core_discard(core, t->copy);
}

/* ---- success ---- */

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

/* The copy is one more replica. */
static void join_copy(struct tes_core *core, struct tes_task *t,
		      const struct tes_event *ev)
{
	bool bare = t->object->flags & TES_OBJECT_NO_CRC;
	const uint32_t *crcs = ev->u.task_done.crcs;
	struct tes_object *o = t->object;
	struct tes_extent *chain =
		tes_core_replica_cut(core, t->copy, t->copy->extents->replica);

	for (struct tes_extent *e = chain; e; e = e->next) {
		tes_core_extent_own(core, e, o);
		if (!bare)
			e->crc = *crcs++;
	}
	(void)tes_core_object_forget(core, t->copy);
	tes_core_replica_join(o, chain, tes_core_replica_free(o));
	tes_core_unpark(core, o);
	if (core->committed)
		tes_core_committed(core, o);
	else
		tes_core_sync(core, tes_core_extent_mount(chain));
}

void tes_core_on_task_done(struct tes_core *core, const struct tes_event *ev,
			   struct tes_session *s)
{
	uint16_t attempt = 0;
	struct tes_task *t = NULL;
	int32_t code = ev->u.task_done.status;
	bool quiet = !code || ev->u.task_done.quiet;

	if (ev->u.task_done.id)
		t = tes_core_task_find(core, ev->u.task_done.id, &attempt);
	if (!t || t->attempt != attempt || t->executor != s) {
		core->figures.tasks_late_total++;
		return;
	}
	if (!code)
		code = check_copy(t, ev);
	if (!code && tes_core_replica_free(t->object) == TES_CORE_REPLICAS_MAX)
		code = CODE_REPLICA_EXISTS;
	if (!code) {
		join_copy(core, t, ev);
		tes_core_task_copied(core, t);
	} else {
		if (ev->u.task_done.status && ev->u.task_done.message)
			snprintf(t->message, sizeof(t->message), "%s",
				 ev->u.task_done.message);
		fail_attempt(core, t, code, quiet);
	}
	tes_core_tasks_choose(core);
}

/* ---- in time ---- */

/* What was found broken, or could not be given up for want of memory. */
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

void tes_core_copies_tick(struct tes_core *core, unsigned int *budget)
{
	settle_broken(core, budget);
	time_out_copies(core, budget);
	release_sources(core, budget);
}
