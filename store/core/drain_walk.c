/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain_walk.c - drains at work: what is moved next, and to where
 *
 * A walk looks at the extents of one mount after the other, by address. It
 * stands still while as many tasks as may be are under way, and goes on when one
 * is over; so a drain costs what its mounts hold, not what the pool does. When
 * nothing of a walk failed the next one begins as soon as its tasks are over,
 * else after a pause.
 */
#include "store/core/budget.h"
#include "store/core/codes.h"
#include "store/core/drain.h"
#include "store/core/extent.h"
#include "store/core/mount.h"
#include "store/core/object.h"
#include "store/core/place.h"
#include "store/core/remove.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/task.h"
#include "store/core/tasks.h"

/* Between two walks when one was in vain, of a job and of who leaves. */
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

uint64_t tes_core_drain_number(uint64_t cookie)
{
	return (cookie & ~PARTING) >> SOURCE_BITS;
}

struct tes_mount *tes_core_drain_source(const struct tes_core *core,
					const struct tes_drain *d, size_t i)
{
	struct tes_mount *m = tes_core_mount_of(core, d->sources[i]);

	return m && m->drain == d ? m : NULL;
}

/* ---- where to ---- */

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

struct choice {
	struct tes_mount *best; /* NULL: none so far */
	double rank;            /* its; the least wins */
};

/* The least used one; one on a machine with another replica only if it must. */
static void consider_target(struct choice *c, const struct tes_object *o,
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
	struct choice c = {.best = NULL};

	for (size_t i = 0; i < n; i++)
		consider_target(&c, o, source,
				d->n_targets
					? tes_core_mount_of(core, d->targets[i])
					: core->mounts[i]);
	tes_core_spend(budget, n / TARGETS_EACH);
	return c.best;
}

/* Something could be moved to somewhere. */
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
	/* Who leaves does not wait for room. */
	if (d->leaving && code == CODE_FULL)
		e->tries = TES_DRAIN_TRIES;
	else if (e->tries < TES_DRAIN_TRIES)
		e->tries++;
}

static void note_moved(struct tes_core *core, struct tes_drain *d,
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
	       tes_core_drain_number(t->cookie) == d->number;
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
	struct tes_core_task_want want = {
		.object = e->user,
		.kind = TES_TASK_DRAIN,
		.source = m,
		.cookie = d->number << SOURCE_BITS | d->pass.at,
	};

	want.target = target_for(core, d, e->user, m, budget);
	if (!want.target) {
		note_failure(d, e, CODE_FULL);
		return e->tries < TES_DRAIN_TRIES;
	}
	if (tes_core_task_add(core, &want)) {
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
	struct tes_mount *m = tes_core_drain_source(core, d, at);

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
		const struct tes_mount *m = tes_core_drain_source(core, d, i);

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
		tes_core_drain_end(core, d, TES_DRAIN_FAILED, CODE_FULL);
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
		tes_core_drain_end(core, d, TES_DRAIN_FAILED, d->code);
	else if (d->lost)
		tes_core_drain_end(core, d, TES_DRAIN_FAILED, CODE_NO_SEGMENT);
	else
		tes_core_drain_end(core, d, TES_DRAIN_SUCCEEDED, CODE_OK);
}

static bool has_ended(const struct tes_drain *d)
{
	return d->state > TES_DRAIN_RUNNING;
}

/* It could go on at once. */
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
		m = tes_core_drain_source(core, d, d->pass.at);
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

/* ---- in time ---- */

/* The extent with which the replica of @o on that source begins; or NULL. */
static struct tes_extent *replica_on_source(const struct tes_core *core,
					    const struct tes_drain *d,
					    const struct tes_object *o,
					    size_t i)
{
	const struct tes_mount *m = tes_core_drain_source(core, d, i);

	if (!o || !m)
		return NULL;
	for (struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_mount(e) == m)
			return e;
	return NULL;
}

uint64_t tes_core_drain_copied(struct tes_core *core, uint64_t cookie)
{
	struct tes_drain *d =
		tes_core_drain_find(core, tes_core_drain_number(cookie));
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
	struct tes_drain *d =
		tes_core_drain_find(core, tes_core_drain_number(cookie));
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
		note_moved(core, d, object);
	else if (e)
		note_failure(d, e, code);
	advance_drain(core, d, &budget);
}

static void end_late_drains(struct tes_core *core)
{
	tei_list_for_each_safe (link, next, &core->drains.active) {
		struct tes_drain *d =
			tei_list_entry(link, struct tes_drain, link);

		if (d->leaving && d->deadline_ms <= core->now_ms)
			tes_core_drain_end(core, d, TES_DRAIN_FAILED,
					   CODE_TIMEOUT);
	}
}

/* Drains take turns, so that a large one does not keep the others. */
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
