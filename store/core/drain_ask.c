/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain_ask.c - what is asked of drains: how they come, and are cancelled
 *
 * A mount belongs to one drain at most; an owner that leaves takes its mounts
 * over from a job, which goes on with the others. drain_walk.c does the work.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/core/drain.h"
#include "store/core/mount.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/state.h"
#include "store/core/tasks.h"

#define AT_A_TIME         4u
#define LEAVING_AT_A_TIME 16u

/* NULL: there is no such job. */
static struct tes_drain *job_of(const struct tes_core *core, const uint8_t *id)
{
	struct tes_drain *d = NULL;
	uint64_t number;

	if (id && tes_core_id_number(core, id, &number))
		d = tes_core_drain_find(core, number);
	return d && !d->leaving ? d : NULL;
}

static int32_t query_job(const struct tes_core *core,
			 const struct tes_event *ev, struct tes_core_drain *out)
{
	const struct tes_drain *d = job_of(core, ev->u.drain.id);

	if (!d)
		return CODE_NO_JOB;
	tes_core_drain_describe(core, d, out);
	return CODE_OK;
}

/* Copies that are under way are not stopped: they would only be thrown away. */
static int32_t cancel_job(struct tes_core *core, const struct tes_event *ev,
			  struct tes_core_drain *out)
{
	struct tes_drain *d = job_of(core, ev->u.drain.id);

	if (!d)
		return CODE_NO_JOB;
	if (d->state > TES_DRAIN_RUNNING)
		return CODE_NOT_NOW;
	tes_core_drain_end(core, d, TES_DRAIN_CANCELED, CODE_OK);
	tes_core_drain_describe(core, d, out);
	return CODE_OK;
}

/* ---- the beginning ---- */

static bool has_name(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static int32_t check_segment(const struct tes_core *core, const char *name)
{
	int32_t code = CODE_NO_SEGMENT;

	for (size_t i = 0; i < core->n_mounts; i++) {
		const struct tes_mount *m = core->mounts[i];

		if (strcmp(m->name, name) != 0)
			continue;
		if (!tes_core_mount_live(m) || m->status != TES_CORE_SEGMENT_OK)
			return CODE_NOT_NOW;
		code = CODE_OK;
	}
	return code;
}

static int32_t check_target(const struct tes_core *core, const char *name)
{
	int32_t code = CODE_NO_SEGMENT;

	for (size_t i = 0; i < core->n_mounts; i++) {
		if (strcmp(core->mounts[i]->name, name) != 0)
			continue;
		if (tes_core_mount_takes(core->mounts[i]))
			return CODE_OK;
		code = CODE_NOT_NOW;
	}
	return code;
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

/* Which mounts a drain is about. */
struct wanted {
	const char *const *names; /* names[n_names], of segments */
	const char *const *targets;
	size_t n_names, n_targets;
	const struct tes_session *leaving; /* or NULL; then no names */
	const uint8_t *segment;            /* one of its; NULL: all */
};

static bool is_drained(const struct wanted *w, const struct tes_mount *m)
{
	if (!w->leaving)
		return has_name(w->names, w->n_names, m->name);
	return m->owner == w->leaving &&
	       (!w->segment || memcmp(m->id, w->segment, TES_CORE_ID_LEN) == 0);
}

static size_t names_room(const struct wanted *w)
{
	size_t room = 0;

	for (size_t i = 0; i < w->n_names; i++)
		room += strlen(w->names[i]) + 1;
	return room;
}

static void fill_drain(const struct tes_core *core, struct tes_drain *d,
		       const struct wanted *w)
{
	char *at = (char *)&d->names[w->n_names];

	for (size_t i = 0; i < core->n_mounts; i++) {
		const struct tes_mount *m = core->mounts[i];

		if (is_drained(w, m))
			d->sources[d->n_sources++] = m->serial;
		else if (has_name(w->targets, w->n_targets, m->name))
			d->targets[d->n_targets++] = m->serial;
	}
	for (size_t i = 0; i < w->n_names; i++) {
		size_t room = strlen(w->names[i]) + 1;

		memcpy(at, w->names[i], room);
		d->names[d->n_names++] = at;
		at += room;
	}
}

/* NULL: no memory. */
static struct tes_drain *create_drain(struct tes_core *core,
				      const struct wanted *w)
{
	size_t n_sources = 0, n_targets = 0, bytes;
	struct tes_drain *d;

	for (size_t i = 0; i < core->n_mounts; i++) {
		const struct tes_mount *m = core->mounts[i];

		n_sources += is_drained(w, m);
		n_targets += has_name(w->targets, w->n_targets, m->name);
	}
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

/* What differs between a job and one who leaves is the caller's to set. */
static int32_t begin_drain(struct tes_core *core, const struct wanted *w,
			   enum tes_core_segment_status status,
			   struct tes_drain **out)
{
	struct tes_drains *all = &core->drains;
	struct tes_drain *d;

	if (all->n_active >= TES_DRAINS_MAX)
		return CODE_TASKS_FULL;
	d = create_drain(core, w);
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

static int32_t create_job(struct tes_core *core, const struct tes_event *ev,
			  struct tes_core_drain *out)
{
	const struct wanted w = {
		.names = ev->u.drain_create.segments,
		.n_names = ev->u.drain_create.n_segments,
		.targets = ev->u.drain_create.targets,
		.n_targets = ev->u.drain_create.n_targets,
	};
	int32_t code = check_job(core, ev);
	struct tes_drain *d;

	if (!code)
		code = begin_drain(core, &w, TES_CORE_SEGMENT_DRAINING, &d);
	if (code)
		return code;
	d->at_a_time = ev->u.drain_create.at_a_time;
	if (!d->at_a_time)
		d->at_a_time = AT_A_TIME;
	tes_core_drain_describe(core, d, out);
	return CODE_OK;
}

/* ---- owners that leave ---- */

static int32_t check_leave(const struct tes_core *core,
			   const struct tes_session *s, const uint8_t *segment)
{
	const struct tes_mount *m;

	if (!s)
		return CODE_NO_CLIENT;
	if (segment) {
		m = tes_core_mount_find(core, segment);
		if (!m)
			return CODE_NO_SEGMENT;
		if (m->owner != s)
			return CODE_NOT_YOURS;
		return m->drain && m->drain->leaving ? CODE_NOT_NOW : CODE_OK;
	}
	tei_list_for_each (link, &s->mounts) {
		m = tei_list_entry(link, struct tes_mount, link);
		if (!m->dropping && m->drain && m->drain->leaving)
			return CODE_NOT_NOW;
	}
	return tes_core_mounted(core, s->id) ? CODE_OK : CODE_NO_SEGMENT;
}

static int32_t begin_leaving(struct tes_core *core, const struct tes_event *ev,
			     struct tes_session *s)
{
	const struct wanted w = {.leaving = s,
				 .segment = ev->u.drain_leave.segment};
	uint64_t until = core->now_ms + ev->u.drain_leave.timeout_ms;
	int32_t code = check_leave(core, s, w.segment);
	struct tes_drain *d;

	if (!code)
		code = begin_drain(core, &w,
				   TES_CORE_SEGMENT_GRACEFULLY_UNMOUNTING, &d);
	if (code)
		return code;
	d->leaving = true;
	d->session = ev->session;
	d->cookie = ev->cookie;
	d->deadline_ms = until < core->now_ms ? UINT64_MAX : until;
	d->at_a_time = LEAVING_AT_A_TIME;
	return CODE_OK;
}

/* The reply comes later unless it is refused. */
static int on_leave(struct tes_core *core, const struct tes_event *ev,
		    struct tes_actions *out)
{
	struct tes_session *s = tes_core_session_find(core, ev->session);
	int32_t code;

	if (tes_core_actions_reserve(out, 1) < 0)
		return -ENOMEM;
	code = begin_leaving(core, ev, s);
	if (s)
		tes_core_session_seen(core, s);
	if (code)
		(void)tes_core_reply(core, ev, code, out); /* reserved */
	return 0;
}

int tes_core_on_drain(struct tes_core *core, const struct tes_event *ev,
		      struct tes_actions *out)
{
	struct tes_action *reply;
	int32_t code;

	if (ev->type == TES_EVENT_DRAIN_LEAVE)
		return on_leave(core, ev, out);
	reply = tes_core_reply(core, ev, CODE_OK, out);
	if (!reply)
		return -ENOMEM;
	if (ev->type == TES_EVENT_DRAIN_CREATE)
		code = create_job(core, ev, reply->u.reply.drain);
	else if (ev->type == TES_EVENT_DRAIN_QUERY)
		code = query_job(core, ev, reply->u.reply.drain);
	else
		code = cancel_job(core, ev, reply->u.reply.drain);
	reply->u.reply.code = code;
	return 0;
}
