/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.c - mounts are emptied: jobs of operators, and owners that leave
 *
 * A mount belongs to one drain at most; an owner that leaves takes its mounts
 * over from a job, which goes on with the others.
 *
 * A walk looks at the extents of one mount after the other, by address. It
 * stands still while as many tasks as allowed are under way, and goes on when
 * one has ended; so a drain costs what its mounts hold, not what the pool does.
 * When nothing of a walk failed the next one begins as soon as its tasks have
 * ended, else after a pause.
 */

#include "store/core/drain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/core/epoch.h"
#include "store/core/evict.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/task.h"

#define AT_A_TIME         4u
#define LEAVING_AT_A_TIME 16u

/* Pauses between two walks when one was in vain. */
#define JOB_PAUSE_MS     500u
#define LEAVING_PAUSE_MS 50u
/* Extents that are looked at when a task is over. */
#define LOOKS 64u
/* Targets that cost as much as an extent to look at. */
#define TARGETS_EACH 8u
/* A task's cookie: whether it is parting, the drain's number, and the index of
 * the source. */
#define SOURCE_BITS 16
#define PARTING     ((uint64_t)1 << 63)

_Static_assert(TES_CORE_MOUNTS_MAX <= 1u << SOURCE_BITS, "sources of a drain");

/* ---- which drain ---- */

static struct tes_drain *drain_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tes_drain, link);
}

static struct tes_drain *find_in(const struct tei_list *list, uint64_t number)
{
	tei_list_for_each (link, list)
		if (drain_at(link)->number == number)
			return drain_at(link);
	return NULL;
}

/* NULL: it is none any more. */
static struct tes_drain *find_drain(const struct tes_core *core,
				    uint64_t number)
{
	struct tes_drain *d = find_in(&core->drains.active, number);

	if (!d)
		d = find_in(&core->drains.answers, number);
	return d ? d : find_in(&core->drains.ended, number);
}

/* NULL: there is no such job. */
static struct tes_drain *job_of(const struct tes_core *core, const uint8_t *id)
{
	struct tes_drain *d = NULL;
	uint64_t number;

	if (id && tes_core_id_number(core, id, &number))
		d = find_drain(core, number);
	return d && !d->leaving ? d : NULL;
}

/* Finds one of the drain's mounts; NULL: it is gone, or another drain's. */
static struct tes_mount *source_at(const struct tes_core *core,
				   const struct tes_drain *d, size_t i)
{
	struct tes_mount *m = tes_core_mount_of(core, d->sources[i]);

	return m && m->drain == d ? m : NULL;
}

static uint64_t number_of(uint64_t cookie)
{
	return (cookie & ~PARTING) >> SOURCE_BITS;
}

static const char *failure_text(const struct tes_drain *d)
{
	if (d->state != TES_DRAIN_FAILED)
		return "";
	switch (d->code) {
	case CODE_NO_SEGMENT:
		return d->lost ? "a segment has gone before it was empty"
			       : "the targets have gone";
	case CODE_FULL:
		return "no target has room";
	case CODE_TIMEOUT:
		return "it took too long";
	case CODE_CHECKSUM:
		return "copies do not agree with their checksums";
	default:
		return "what is left cannot be copied";
	}
}

static void describe_drain(const struct tes_core *core,
			   const struct tes_drain *d,
			   struct tes_core_drain *out)
{
	*out = (struct tes_core_drain){
		.state = d->state,
		.code = d->state == TES_DRAIN_FAILED ? d->code : CODE_OK,
		.created_ms = d->created_ms,
		.updated_ms = d->updated_ms,
		.total = d->total,
		.moved = d->moved,
		.moved_bytes = d->moved_bytes,
		.active = d->active,
		.failed = d->failed,
		.blocked = d->blocked,
		.left = d->left,
		.segments = d->names,
		.n_segments = d->n_names,
	};
	if (!d->leaving)
		tes_core_id_of(core, d->number, out->id);
	snprintf(out->message, sizeof(out->message), "%s", failure_text(d));
}

/* ---- a drain ends ---- */

static void forget_drain(struct tes_core *core, struct tes_drain *d)
{
	tei_list_del(&d->link);
	core->heap_bytes -= d->bytes;
	tei_free(d);
}

static void remember_drain(struct tes_core *core, struct tes_drain *d)
{
	struct tes_drains *all = &core->drains;

	all->n_active--;
	tei_list_add_tail(&all->ended, &d->link);
	if (++all->n_ended <= TES_DRAINS_ENDED)
		return;
	all->n_ended--;
	forget_drain(core, drain_at(all->ended.next));
}

static void release_mounts(struct tes_core *core, const struct tes_drain *d)
{
	bool empty = d->state == TES_DRAIN_SUCCEEDED;

	for (size_t i = 0; i < d->n_sources; i++) {
		struct tes_mount *m = source_at(core, d, i);

		if (!m)
			continue;
		m->drain = NULL;
		if (m->status == TES_CORE_SEGMENT_DRAINING)
			m->status = empty ? TES_CORE_SEGMENT_DRAINED
					  : TES_CORE_SEGMENT_OK;
	}
	tes_core_forget_no_room(core);
}

/* Ends the drain's tasks that no executor has yet. */
static void drop_waiting(struct tes_core *core, const struct tes_drain *d)
{
	uint64_t number = d->number;

	tei_list_for_each_safe (link, next, &core->tasks.pending[0]) {
		struct tes_task *t =
			tei_list_entry(link, struct tes_task, link);

		if (t->kind == TES_TASK_DRAIN && number_of(t->cookie) == number)
			tes_core_task_end(core, t, CODE_TASK);
	}
}

static void count_ended(struct tes_core *core, uint8_t state)
{
	core->figures.drains_succeeded_total += state == TES_DRAIN_SUCCEEDED;
	core->figures.drains_failed_total += state == TES_DRAIN_FAILED;
	core->figures.drains_canceled_total += state == TES_DRAIN_CANCELED;
}

/* Ends @d; its mounts are OK again, or empty, or about to go. */
static void end_drain(struct tes_core *core, struct tes_drain *d, uint8_t state,
		      int32_t code)
{
	d->state = state;
	d->code = code;
	d->pass.under_way = false;
	d->updated_ms = core->last_ms;
	count_ended(core, state);
	release_mounts(core, d);
	drop_waiting(core, d);
	tei_list_del(&d->link);
	if (d->leaving)
		tei_list_add_tail(&core->drains.answers, &d->link);
	else
		remember_drain(core, d);
}

/* ---- a drain begins ---- */

static bool has_name(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* The mounts that a new drain is about. */
struct drain_scope {
	const char *const *names; /* names[n_names], of segments */
	const char *const *targets;
	size_t n_names, n_targets;
	const struct tes_session *leaving; /* or NULL; then no names */
	const uint8_t *segment;            /* one of its; NULL: all */
};

/* Serials of mounts are counted, and listed where there is room. */
struct serial_list {
	uint64_t *at; /* at[n]; NULL: they are only counted */
	size_t n;
};

static void note_serial(struct serial_list *list, const struct tes_mount *m)
{
	if (list->at)
		list->at[list->n] = m->serial;
	list->n++;
}

static int compare_serials(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Finds all that bear one of the names, in mount order; returns how many. */
static size_t find_named(const struct tes_core *core, const char *const *names,
			 size_t n, uint64_t *serials)
{
	struct serial_list found = {.at = serials};

	for (size_t i = 0; i < n; i++) {
		const struct tes_mount *m =
			tes_core_mount_named(core, names[i]);

		for (; m; m = tes_core_mount_namesake(m))
			note_serial(&found, m);
	}
	if (serials)
		qsort(serials, found.n, sizeof(*serials), compare_serials);
	return found.n;
}

/* Finds what the owner leaves with, in mount order; returns how many. */
static size_t find_leaving(const struct drain_scope *w, uint64_t *serials)
{
	struct serial_list found = {.at = serials};

	tei_list_for_each (link, &w->leaving->mounts) {
		const struct tes_mount *m =
			tei_list_entry(link, struct tes_mount, link);

		if (!m->dropping &&
		    (!w->segment ||
		     memcmp(m->id, w->segment, TES_CORE_ID_LEN) == 0))
			note_serial(&found, m);
	}
	return found.n;
}

static size_t find_sources(const struct tes_core *core,
			   const struct drain_scope *w, uint64_t *serials)
{
	return w->leaving ? find_leaving(w, serials)
			  : find_named(core, w->names, w->n_names, serials);
}

static size_t names_room(const struct drain_scope *w)
{
	size_t room = 0;

	for (size_t i = 0; i < w->n_names; i++)
		room += strlen(w->names[i]) + 1;
	return room;
}

static void fill_drain(const struct tes_core *core, struct tes_drain *d,
		       const struct drain_scope *w)
{
	char *at = (char *)&d->names[w->n_names];

	d->n_sources = find_sources(core, w, d->sources);
	d->n_targets = find_named(core, w->targets, w->n_targets, d->targets);
	for (size_t i = 0; i < w->n_names; i++) {
		size_t room = strlen(w->names[i]) + 1;

		memcpy(at, w->names[i], room);
		d->names[d->n_names++] = at;
		at += room;
	}
}

/* NULL: no memory. */
static struct tes_drain *create_drain(struct tes_core *core,
				      const struct drain_scope *w)
{
	size_t n_sources = find_sources(core, w, NULL), bytes;
	size_t n_targets = find_named(core, w->targets, w->n_targets, NULL);
	struct tes_drain *d;

	bytes = sizeof(*d) + (n_sources + n_targets) * sizeof(uint64_t) +
		w->n_names * sizeof(char *) + names_room(w);
	d = tei_calloc(1, bytes);
	if (!d)
		return NULL;
	d->bytes = bytes;
	d->sources = (uint64_t *)(d + 1);
	d->targets = d->sources + n_sources;
	d->names = (const char **)(d->targets + n_targets);
	fill_drain(core, d, w);
	return d;
}

/* Begins a drain; the caller sets what jobs and leaving owners do not share. */
static int32_t begin_drain(struct tes_core *core, const struct drain_scope *w,
			   enum tes_core_segment_status status,
			   struct tes_drain **out)
{
	struct tes_drains *all = &core->drains;
	struct tes_drain *d = create_drain(core, w);

	if (!d)
		return CODE_INTERNAL;
	for (size_t i = 0; i < d->n_sources; i++) {
		struct tes_mount *m = tes_core_mount_of(core, d->sources[i]);

		m->drain = d;
		m->status = (uint8_t)status;
	}
	d->number = ++all->number;
	d->created_ms = d->updated_ms = core->last_ms;
	d->moved_ms = core->now_ms;
	core->heap_bytes += d->bytes;
	tei_list_add_tail(&all->active, &d->link);
	all->n_active++;
	*out = d;
	return CODE_OK;
}

/* ---- an operator asks ---- */

static int32_t check_segment(const struct tes_core *core, const char *name)
{
	const struct tes_mount *m = tes_core_mount_named(core, name);

	if (!m)
		return CODE_NO_SEGMENT;
	for (; m; m = tes_core_mount_namesake(m))
		if (!tes_core_mount_live(m) || m->status != TES_CORE_SEGMENT_OK)
			return CODE_NOT_NOW;
	return CODE_OK;
}

static int32_t check_target(const struct tes_core *core, const char *name)
{
	const struct tes_mount *m = tes_core_mount_named(core, name);

	if (!m)
		return CODE_NO_SEGMENT;
	for (; m; m = tes_core_mount_namesake(m))
		if (tes_core_mount_takes(m))
			return CODE_OK;
	return CODE_NOT_NOW;
}

static int32_t check_job(const struct tes_core *core,
			 const struct tes_event *ev)
{
	const char *const *segments = ev->u.drain_create.segments;
	const char *const *targets = ev->u.drain_create.targets;
	size_t n = ev->u.drain_create.n_segments;
	size_t n_targets = ev->u.drain_create.n_targets;
	int32_t code = CODE_OK;

	if (!n || n > TES_CORE_DRAIN_MAX || n_targets > TES_CORE_DRAIN_MAX ||
	    ev->u.drain_create.at_a_time > TES_CORE_AT_A_TIME_MAX)
		return CODE_ARGUMENT;
	for (size_t i = 0; i < n; i++)
		if (has_name(segments, i, segments[i]))
			return CODE_ARGUMENT;
	for (size_t i = 0; i < n_targets; i++)
		if (has_name(segments, n, targets[i]) ||
		    has_name(targets, i, targets[i]))
			return CODE_ARGUMENT;
	for (size_t i = 0; i < n && !code; i++)
		code = check_segment(core, segments[i]);
	for (size_t i = 0; i < n_targets && !code; i++)
		code = check_target(core, targets[i]);
	return code;
}

int tes_core_on_drain_create(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	const struct drain_scope scope = {
		.names = ev->u.drain_create.segments,
		.n_names = ev->u.drain_create.n_segments,
		.targets = ev->u.drain_create.targets,
		.n_targets = ev->u.drain_create.n_targets,
	};
	const struct tes_drains *all = &core->drains;
	int32_t code = check_job(core, ev);
	struct tes_drain *d;

	if (!code && all->n_active - all->n_leaving >= TES_DRAINS_MAX)
		code = CODE_TASKS_FULL;
	if (!code)
		code = begin_drain(core, &scope, TES_CORE_SEGMENT_DRAINING, &d);
	step->reply->u.reply.code = code;
	if (code)
		return 0;
	d->at_a_time = ev->u.drain_create.at_a_time;
	if (!d->at_a_time)
		d->at_a_time = AT_A_TIME;
	describe_drain(core, d, step->reply->u.reply.drain);
	return 0;
}

int tes_core_on_drain_query(struct tes_step *step)
{
	const struct tes_drain *d = job_of(step->core, step->ev->u.drain.id);

	if (d)
		describe_drain(step->core, d, step->reply->u.reply.drain);
	else
		step->reply->u.reply.code = CODE_NO_JOB;
	return 0;
}

/* Copies under way go on: they would only be thrown away. */
int tes_core_on_drain_cancel(struct tes_step *step)
{
	struct tes_drain *d = job_of(step->core, step->ev->u.drain.id);
	struct tes_action *reply = step->reply;

	if (!d) {
		reply->u.reply.code = CODE_NO_JOB;
	} else if (d->state > TES_DRAIN_RUNNING) {
		reply->u.reply.code = CODE_NOT_NOW;
	} else {
		end_drain(step->core, d, TES_DRAIN_CANCELED, CODE_OK);
		describe_drain(step->core, d, reply->u.reply.drain);
	}
	return 0;
}

/* ---- an owner leaves ---- */

/* Counts the segments that @s leaves with already. */
static size_t count_leaving(const struct tes_session *s)
{
	size_t n = 0;

	tei_list_for_each (link, &s->mounts) {
		const struct tes_mount *m =
			tei_list_entry(link, struct tes_mount, link);

		n += !m->dropping && m->drain && m->drain->leaving;
	}
	return n;
}

static int32_t check_leave(const struct tes_core *core,
			   const struct tes_session *s, const uint8_t *segment)
{
	const struct tes_mount *m;
	size_t n;

	if (!s)
		return CODE_NO_CLIENT;
	n = count_leaving(s);
	if (!segment) {
		if (n)
			return CODE_NOT_NOW;
		return tes_core_mounted(core, s->id) ? CODE_OK
						     : CODE_NO_SEGMENT;
	}
	m = tes_core_mount_find(s, segment);
	if (!m)
		return CODE_NO_SEGMENT;
	if (m->drain && m->drain->leaving)
		return CODE_NOT_NOW;
	return n && (n >= TES_DRAINS_EACH ||
		     core->drains.n_leaving >= TES_DRAINS_MAX)
		       ? CODE_TASKS_FULL
		       : CODE_OK;
}

static int32_t begin_leaving(struct tes_core *core, const struct tes_event *ev,
			     struct tes_session *s)
{
	const struct drain_scope w = {.leaving = s,
				      .segment = ev->u.drain_leave.segment};
	uint64_t ms = ev->u.drain_leave.timeout_ms;
	int32_t code = check_leave(core, s, w.segment);
	struct tes_drain *d;

	if (!code)
		code = begin_drain(core, &w,
				   TES_CORE_SEGMENT_GRACEFULLY_UNMOUNTING, &d);
	if (code)
		return code;
	d->leaving = true;
	core->drains.n_leaving++;
	d->session = ev->session;
	d->cookie = ev->cookie;
	if (ms > TES_DRAIN_LEAVE_MAX_MS)
		ms = TES_DRAIN_LEAVE_MAX_MS;
	d->deadline_ms = core->now_ms + ms;
	d->at_a_time = LEAVING_AT_A_TIME;
	return CODE_OK;
}

/* The reply comes when the drain has ended, unless it is refused. */
int tes_core_on_drain_leave(struct tes_step *step)
{
	if (tes_core_actions_reserve(step->out, 1) < 0)
		return -ENOMEM;
	step->code = begin_leaving(step->core, step->ev, step->session);
	if (step->session)
		tes_core_session_seen(step->core, step->session);
	if (step->code)
		(void)tes_core_reply(step); /* reserved */
	return 0;
}

/* ---- targets ---- */

/* Another replica than that on @source is on the machine of @m. */
static bool shares_host(const struct tes_object *o,
			const struct tes_mount *source,
			const struct tes_mount *m)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		const struct tes_mount *at = tes_core_extent_mount(e);

		if (at && at != source && at->owner->host == m->owner->host)
			return true;
	}
	return false;
}

struct target_choice {
	struct tes_mount *best; /* NULL: none so far */
	double rank;            /* its; the least wins */
};

/* Prefers the least used mount; one on a machine with another replica only if
 * no other has room. */
static void consider_target(struct target_choice *c, const struct tes_object *o,
			    const struct tes_mount *source, struct tes_mount *m)
{
	double rank;

	if (!m || !tes_core_mount_takes(m) || tes_core_object_on(o, m) ||
	    !tes_core_mount_may_fit(m, o->size))
		return;
	rank = (double)m->space.used / (double)m->space.size +
	       (shares_host(o, source, m) ? 1 : 0);
	if (c->best && rank >= c->rank)
		return;
	c->best = m;
	c->rank = rank;
}

static struct tes_mount *target_for(struct tes_core *core,
				    const struct tes_drain *d,
				    const struct tes_object *o,
				    const struct tes_mount *source,
				    unsigned int *budget)
{
	size_t n = d->n_targets ? d->n_targets : core->n_mounts;
	struct target_choice c = {.best = NULL};

	for (size_t i = 0; i < n; i++)
		consider_target(&c, o, source,
				d->n_targets
					? tes_core_mount_of(core, d->targets[i])
					: core->mounts[i]);
	tes_core_spend(budget, n / TARGETS_EACH);
	return c.best;
}

/* True: something could be moved somewhere. */
static bool has_target(const struct tes_core *core)
{
	for (size_t i = 0; i < core->n_mounts; i++)
		if (tes_core_mount_takes(core->mounts[i]))
			return true;
	return false;
}

/* ---- one replica ---- */

static void note_failure(struct tes_drain *d, struct tes_extent *e,
			 int32_t code)
{
	d->pass.hurt = true;
	d->code = code;
	/* A leaving owner does not wait for room. */
	if (d->leaving && code == CODE_FULL)
		e->tries = TES_DRAIN_TRIES;
	else if (e->tries < TES_DRAIN_TRIES)
		e->tries++;
}

static void count_moved(struct tes_core *core, struct tes_drain *d,
			const struct tes_object *o)
{
	d->moved++;
	d->moved_bytes += o->size;
	core->figures.drained_objects_total++;
	core->figures.drained_bytes_total += o->size;
}

static bool is_ours(const struct tes_core *core, const struct tes_drain *d,
		    const struct tes_object *o)
{
	const struct tes_task *t = tes_core_task_of(core, o);

	return t && t->kind == TES_TASK_DRAIN &&
	       number_of(t->cookie) == d->number;
}

static bool is_blocked(const struct tes_core *core, const struct tes_drain *d,
		       const struct tes_object *o)
{
	if (o->state != TES_OBJECT_READY || !tes_core_object_live(o) ||
	    (o->flags & TES_OBJECT_SUCCEEDED))
		return true;
	if (d->leaving)
		return false;
	return (o->flags & TES_OBJECT_HARD) ||
	       (!d->pass.impatient && tes_core_leased(core, o));
}

/* Begin to move the replica that begins with @e; false: not now. */
static bool start_move(struct tes_core *core, struct tes_drain *d,
		       struct tes_mount *m, struct tes_extent *e,
		       unsigned int *budget)
{
	struct tes_task_request request = {
		.object = e->user,
		.kind = TES_TASK_DRAIN,
		.source = m,
		.cookie = d->number << SOURCE_BITS | d->pass.at,
	};

	request.target = target_for(core, d, e->user, m, budget);
	if (!request.target) {
		note_failure(d, e, CODE_FULL);
		return e->tries < TES_DRAIN_TRIES;
	}
	if (tes_core_task_add(core, &request)) {
		d->pass.blocked++;
		return true;
	}
	d->pass.started = true;
	d->moved_ms = core->now_ms;
	d->active++;
	return true;
}

static void look_at_extent(struct tes_core *core, struct tes_drain *d,
			   struct tes_mount *m, struct tes_extent *e,
			   unsigned int *budget)
{
	struct tes_object *o = e->space ? e->user : NULL;

	if (!o || !tes_core_extent_begins(o, e))
		return;
	if (d->state == TES_DRAIN_PLANNING) {
		d->total++;
		e->tries = 0;
		return;
	}
	d->pass.left++;
	if (is_ours(core, d, o))
		return;
	if (e->tries >= TES_DRAIN_TRIES)
		d->pass.failed++;
	else if (is_blocked(core, d, o))
		d->pass.blocked++;
	else if (!start_move(core, d, m, e, budget))
		d->pass.failed++;
}

/* ---- a walk ---- */

static void enter_source(struct tes_core *core, struct tes_drain *d, size_t at)
{
	struct tes_mount *m = source_at(core, d, at);

	d->pass.at = at;
	if (m)
		tes_space_rewind(&m->space, TES_SPACE_DRAIN);
}

static void begin_pass(struct tes_core *core, struct tes_drain *d)
{
	if (d->state == TES_DRAIN_CREATED)
		d->state = TES_DRAIN_PLANNING;
	d->pass = (struct tes_drain_pass){
		.under_way = true,
		.impatient = tes_core_is_past(core, d->moved_ms,
					      core->config.lease_ttl_ms),
	};
	enter_source(core, d, 0);
}

static bool is_offering(const struct tes_core *core, const struct tes_drain *d)
{
	for (size_t i = 0; i < d->n_sources; i++) {
		const struct tes_mount *m = source_at(core, d, i);

		if (m && m->offering)
			return true;
	}
	return false;
}

static void end_planning(struct tes_core *core, struct tes_drain *d)
{
	d->state = TES_DRAIN_RUNNING;
	d->left = d->total;
	d->next_ms = core->now_ms;
	if (d->leaving && d->left && !has_target(core))
		end_drain(core, d, TES_DRAIN_FAILED, CODE_FULL);
}

static void end_pass(struct tes_core *core, struct tes_drain *d)
{
	struct tes_drain_pass *p = &d->pass;

	p->under_way = false;
	d->updated_ms = core->last_ms;
	if (d->state == TES_DRAIN_PLANNING) {
		end_planning(core, d);
		return;
	}
	d->next_ms =
		core->now_ms + (d->leaving ? LEAVING_PAUSE_MS : JOB_PAUSE_MS);
	d->left = p->left;
	d->blocked = p->blocked;
	d->failed = p->failed;
	if (d->left != d->failed || is_offering(core, d))
		return;
	if (d->failed)
		end_drain(core, d, TES_DRAIN_FAILED, d->code);
	else if (d->lost)
		end_drain(core, d, TES_DRAIN_FAILED, CODE_NO_SEGMENT);
	else
		end_drain(core, d, TES_DRAIN_SUCCEEDED, CODE_OK);
}

static bool has_ended(const struct tes_drain *d)
{
	return d->state > TES_DRAIN_RUNNING;
}

/* True: the drain could go on at once. */
static bool may_advance(const struct tes_core *core, const struct tes_drain *d)
{
	if (has_ended(d))
		return false;
	if (d->pass.under_way)
		return d->state == TES_DRAIN_PLANNING ||
		       (d->active - d->parting < d->at_a_time &&
			d->parting < TES_DRAIN_PARTING_MAX);
	return d->next_ms <= core->now_ms ||
	       (d->pass.started && !d->pass.hurt && !d->active);
}

static void advance_drain(struct tes_core *core, struct tes_drain *d,
			  unsigned int *budget)
{
	while (*budget && may_advance(core, d)) {
		struct tes_extent *e = NULL;
		struct tes_mount *m;

		if (!d->pass.under_way)
			begin_pass(core, d);
		m = source_at(core, d, d->pass.at);
		if (m)
			e = tes_space_next(&m->space, TES_SPACE_DRAIN);
		else
			d->lost = true;
		--*budget;
		if (e)
			look_at_extent(core, d, m, e, budget);
		else if (d->pass.at + 1 < d->n_sources)
			enter_source(core, d, d->pass.at + 1);
		else
			end_pass(core, d);
	}
}

/* ---- a task has copied, or has ended ---- */

/* Finds the first extent of the replica of @o on that source; or NULL. */
static struct tes_extent *replica_on_source(const struct tes_core *core,
					    const struct tes_drain *d,
					    const struct tes_object *o,
					    size_t i)
{
	const struct tes_mount *m = source_at(core, d, i);

	if (!o || !m)
		return NULL;
	for (struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_mount(e) == m)
			return e;
	return NULL;
}

uint64_t tes_core_drain_copied(struct tes_core *core, uint64_t cookie)
{
	struct tes_drain *d = find_drain(core, number_of(cookie));
	unsigned int budget = LOOKS;

	if (!d)
		return cookie;
	d->parting++;
	advance_drain(core, d, &budget);
	return cookie | PARTING;
}

void tes_core_drain_over(struct tes_core *core, uint64_t cookie,
			 struct tes_object *object, int32_t code)
{
	struct tes_drain *d = find_drain(core, number_of(cookie));
	size_t i = cookie & (((size_t)1 << SOURCE_BITS) - 1);
	unsigned int budget = LOOKS;
	struct tes_extent *e;

	if (!d)
		return;
	d->active--;
	d->parting -= (cookie & PARTING) != 0;
	d->updated_ms = core->last_ms;
	if (d->left && (!code || !object))
		d->left--;
	e = replica_on_source(core, d, object, i);
	if (!code)
		count_moved(core, d, object);
	else if (e)
		note_failure(d, e, code);
	advance_drain(core, d, &budget);
}

/* ---- in time ---- */

static void end_late_drains(struct tes_core *core)
{
	tei_list_for_each_safe (link, next, &core->drains.active) {
		struct tes_drain *d =
			tei_list_entry(link, struct tes_drain, link);

		if (d->leaving && d->deadline_ms <= core->now_ms)
			end_drain(core, d, TES_DRAIN_FAILED, CODE_TIMEOUT);
	}
}

/* Drains take turns, so that a large one does not delay the others. */
void tes_core_drains_tick(struct tes_core *core, unsigned int *budget)
{
	struct tes_drains *all = &core->drains;

	end_late_drains(core);
	for (size_t n = all->n_active; n && *budget; n--) {
		unsigned int share = *budget / (unsigned int)n + 1, left;
		struct tei_list *link = all->active.next;

		if (tei_list_empty(&all->active))
			return;
		tei_list_del(link);
		tei_list_add_tail(&all->active, link);
		left = share;
		advance_drain(core,
			      tei_list_entry(link, struct tes_drain, link),
			      &left);
		tes_core_spend(budget, share - left);
	}
}

bool tes_core_drains_busy(const struct tes_core *core)
{
	tei_list_for_each (link, &core->drains.active)
		if (may_advance(core,
				tei_list_entry(link, struct tes_drain, link)))
			return true;
	return false;
}

void tes_core_drains_flush(struct tes_core *core, struct tes_actions *out)
{
	tei_list_for_each_safe (link, next, &core->drains.answers) {
		struct tes_drain *d = drain_at(link);
		struct tes_core_drain *m;
		struct tes_action *a;

		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		m = tei_arena_alloc(out->arena, sizeof(*m));
		if (!m)
			return;
		describe_drain(core, d, m);
		a = tes_core_action_add(out, TES_ACTION_REPLY, d->session);
		a->cookie = d->cookie;
		a->u.reply.of = TES_EVENT_DRAIN_LEAVE;
		a->u.reply.drain = m;
		core->drains.n_active--;
		core->drains.n_leaving--;
		forget_drain(core, d);
	}
}

void tes_core_drains_free(struct tes_core *core)
{
	struct tei_list *lists[] = {&core->drains.active, &core->drains.ended,
				    &core->drains.answers};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		while (!tei_list_empty(lists[i]))
			forget_drain(core, drain_at(lists[i]->next));
}
