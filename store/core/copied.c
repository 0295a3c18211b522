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

static bool is_source(const struct tei_task *t, const struct tei_mount *m)
{
	return t->source.name ? strcmp(m->name, t->source.name) == 0
			      : m->serial == t->source.serial;
}

struct tei_extent *tei_core_task_source(const struct tei_task *t)
{
	for (struct tei_extent *e = t->object->extents; e; e = e->next)
		if (tei_core_extent_there(e) &&
		    is_source(t, tei_core_extent_mount(e)))
			return e;
	return NULL;
}

/* @o has others than @replica; @live: that can be read. */
static bool is_elsewhere(const struct tei_object *o, uint8_t replica, bool live)
{
	for (const struct tei_extent *e = o->extents; e; e = e->next)
		if (e->replica != replica &&
		    (!live || tei_core_mount_live(tei_core_extent_mount(e))))
			return true;
	return false;
}

/* What it frees may be used again: not so when its mount is to go. */
static bool keeps_leases(const struct tei_extent *e)
{
	return tei_core_extent_mount(e)->status !=
	       TEI_CORE_SEGMENT_GRACEFULLY_UNMOUNTING;
}

/* Give up what was moved, if it may go now. */
static void let_go(struct tei_core *core, struct tei_task *t)
{
	struct tei_object *o = t->object;
	struct tei_extent *e = o ? tei_core_task_source(t) : NULL;

	if (!e) {
		tei_core_task_end(core, t, o ? CODE_OK : CODE_NOT_FOUND);
		return;
	}
	if (!is_elsewhere(o, e->replica, false)) {
		/* What was copied is lost: there are as many as before. */
		if (t->lost)
			t->lost--;
		tei_core_task_end(core, t, CODE_NO_SEGMENT);
		return;
	}
	if (!is_elsewhere(o, e->replica, true)) {
		if (tei_core_is_past(core, t->since_ms,
				     core->config.client_ttl_ms))
			tei_core_task_end(core, t, CODE_NO_SEGMENT);
		return;
	}
	if (tei_core_leased(core, o) && keeps_leases(e) &&
	    !tei_core_is_past(core, t->since_ms, core->config.lease_ttl_ms))
		return;
	if (tei_core_bury_reserve(core, o) < 0)
		return;
	tei_core_bury_replica(core, o, e->replica);
	tei_core_task_end(core, t, CODE_OK);
}

void tei_core_task_copied(struct tei_core *core, struct tei_task *t)
{
	t->tries = t->failed = 0;
	if (++t->next < t->n_targets)
		return;
	if (!t->move) {
		tei_core_task_end(core, t, CODE_OK);
		return;
	}
	tei_core_hold(core, t->object);
	tei_core_task_work(core, t, &core->tasks.leaving);
	if (t->kind == TEI_TASK_DRAIN)
		t->cookie = tei_core_drain_copied(core, t->cookie);
	let_go(core, t);
}

/* ---- failure ---- */

/* It waits since its attempt has ended with @code. */
static void failed(struct tei_core *core, struct tei_task *t, int32_t code)
{
	bool again = code == CODE_NO_REPLICA || t->kind == TEI_TASK_REPAIR ||
		     t->kind == TEI_TASK_HEAT;

	if (!t->object)
		code = CODE_NOT_FOUND;
	else if (again && ++t->failed < FAILURES_MAX) {
		tei_core_task_wait(core, t, RETRY_MS * t->failed);
		return;
	}
	tei_core_task_end(core, t, code);
}

/* The attempt has failed; @quiet: nothing of it can arrive any more. Without
 * memory for fences it is tried again in ticks. */
static void give_up(struct tei_core *core, struct tei_task *t, int32_t code,
		    bool quiet)
{
	const struct tei_session *writer = t->executor;
	struct tei_extent *chain;

	if (!quiet && tei_core_fences_reserve(core, t->copy, UINT32_MAX) < 0) {
		t->code = code;
		tei_list_del(&t->unsent);
		tei_core_task_work(core, t, &core->tasks.broken);
		return;
	}
	chain = tei_core_object_forget(core, t->copy);
	tei_core_chain_fence(core, chain, writer, quiet ? 0 : UINT32_MAX);
	failed(core, t, code);
}

int tei_core_task_abort(struct tei_core *core, struct tei_object *o)
{
	struct tei_task *t = tei_core_task_of(core, o);

	if (!t->copy) {
		tei_core_unhold(core, o);
		return 0;
	}
	return tei_core_discard(core, t->copy);
}

/* ---- success ---- */

/* CRC of the value whose replica @chain begins with; by @crcs, or its own. */
static uint32_t whole_crc(const struct tei_extent *chain, const uint32_t *crcs,
			  uint64_t rest)
{
	uint32_t crc = 0;

	for (const struct tei_extent *e = chain;
	     e && e->replica == chain->replica; e = e->next) {
		uint64_t length = tei_core_extent_length(e, rest);
		uint32_t part = crcs ? *crcs++ : e->crc;

		crc = tei_crc32c_join(crc, part, length);
		rest -= length;
	}
	return crc;
}

static bool agrees(const struct tei_object *o, const struct tei_object *copy,
		   const uint32_t *crcs)
{
	return whole_crc(o->extents, NULL, o->size) ==
	       whole_crc(copy->extents, crcs, o->size);
}

static int32_t check(const struct tei_task *t, const struct tei_event *ev)
{
	const struct tei_object *o = t->object;

	if (!o)
		return CODE_NOT_FOUND;
	if (tei_core_object_gone(t->copy))
		return CODE_NO_SEGMENT;
	if (o->flags & TEI_OBJECT_NO_CRC)
		return CODE_OK;
	if (ev->u.task_done.no_crc ||
	    ev->u.task_done.n_crcs != tei_core_object_entries(t->copy) ||
	    !agrees(o, t->copy, ev->u.task_done.crcs))
		return CODE_CHECKSUM;
	return CODE_OK;
}

/* The copy is one more replica. */
static void splice(struct tei_core *core, struct tei_task *t,
		   const struct tei_event *ev)
{
	bool bare = t->object->flags & TEI_OBJECT_NO_CRC;
	const uint32_t *crcs = ev->u.task_done.crcs;
	struct tei_object *o = t->object;
	struct tei_extent *chain =
		tei_core_replica_cut(core, t->copy, t->copy->extents->replica);

	for (struct tei_extent *e = chain; e; e = e->next) {
		tei_core_extent_own(core, e, o);
		if (!bare)
			e->crc = *crcs++;
	}
	(void)tei_core_object_forget(core, t->copy);
	tei_core_replica_join(o, chain, tei_core_replica_free(o));
	tei_core_unpark(core, o);
	if (core->committed)
		tei_core_committed(core, o);
	else
		tei_core_sync(core, tei_core_extent_mount(chain));
}

void tei_core_on_task_done(struct tei_core *core, const struct tei_event *ev,
			   struct tei_session *s)
{
	uint16_t attempt = 0;
	struct tei_task *t = NULL;
	int32_t code = ev->u.task_done.status;
	bool quiet = !code || ev->u.task_done.quiet;

	if (ev->u.task_done.id)
		t = tei_core_task_find(core, ev->u.task_done.id, &attempt);
	if (!t || t->attempt != attempt || t->executor != s) {
		core->figures.tasks_late_total++;
		return;
	}
	if (!code)
		code = check(t, ev);
	if (!code && tei_core_replica_free(t->object) == TEI_CORE_REPLICAS_MAX)
		code = CODE_REPLICA_EXISTS;
	if (!code) {
		splice(core, t, ev);
		tei_core_task_copied(core, t);
	} else {
		if (ev->u.task_done.status && ev->u.task_done.message)
			snprintf(t->message, sizeof(t->message), "%s",
				 ev->u.task_done.message);
		give_up(core, t, code, quiet);
	}
	tei_core_tasks_choose(core);
}

/* ---- in time ---- */

/* What was found broken, or could not be given up for want of memory. */
static void settle(struct tei_core *core, unsigned int *budget)
{
	size_t n = core->tasks.n_processing;

	for (; n && *budget && !tei_list_empty(&core->tasks.broken); n--) {
		struct tei_task *t = tei_list_entry(core->tasks.broken.next,
						    struct tei_task, link);

		give_up(core, t, t->code ? t->code : CODE_NO_REPLICA, false);
		--*budget;
	}
}

static void time_out(struct tei_core *core, unsigned int *budget)
{
	while (*budget && !tei_list_empty(&core->tasks.processing)) {
		struct tei_task *t = tei_list_entry(core->tasks.processing.next,
						    struct tei_task, link);

		if (!tei_core_is_past(core, t->since_ms,
				      core->config.task_processing_ms))
			return;
		give_up(core, t, CODE_TIMEOUT, false);
		--*budget;
	}
}

static void let_some_go(struct tei_core *core, unsigned int *budget)
{
	struct tei_list *list = &core->tasks.leaving, turn;

	tei_list_init(&turn);
	tei_list_splice_tail(&turn, list);
	while (*budget && !tei_list_empty(&turn)) {
		struct tei_list *link = tei_list_pop(&turn);

		tei_list_add_tail(list, link);
		let_go(core, tei_list_entry(link, struct tei_task, link));
		--*budget;
	}
	tei_list_splice_tail(&turn, list);
	tei_list_splice_tail(list, &turn);
}

void tei_core_copies_tick(struct tei_core *core, unsigned int *budget)
{
	settle(core, budget);
	time_out(core, budget);
	let_some_go(core, budget);
}
