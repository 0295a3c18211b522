/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence.c - puts that were given up, and their space
 *
 * A writer that died or stalled may have bytes under way. Before its space is
 * used again the owner of that space ends the writer's access and confirms.
 * An owner that does not confirm in time is dropped with what it mounted: its
 * space is never used again. One that says in time that the writer may still
 * write, since it was stopped in the middle of a copy, is given all the time it
 * needs: that space is set aside, and nothing else is lost.
 */
#include "store/core/fence.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/epoch.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"

/* Of one burial, so that its message fits a frame. */
#define GRAVES_MAX 65536u

static struct tes_fence *fence_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tes_fence, link);
}

/* Those of its kind, oldest first. */
static struct tei_list *ages_of(struct tes_core *core,
				const struct tes_fence *f)
{
	return f->burial ? &core->burials : &core->fences;
}

/* A new one, to be sent to @owner. NULL: no memory. */
static struct tes_fence *create_fence(struct tes_core *core,
				      struct tes_session *owner, bool burial)
{
	struct tes_fence *f = tei_calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	tei_list_init(&f->extents);
	tei_list_init(&f->unsent);
	f->owner = owner;
	f->burial = burial;
	f->id = ++core->fence_id;
	f->created_ms = core->now_ms;
	tei_list_add_tail(&owner->fences, &f->link);
	tei_list_add_tail(ages_of(core, f), &f->age);
	if (owner->beating)
		tei_list_add_tail(&core->unsent, &f->unsent);
	core->heap_bytes += sizeof(*f);
	return f;
}

/* One fence covers all extents that are given up in the same step. */
static struct tes_fence *fence_for(struct tes_core *core,
				   struct tes_session *owner,
				   const uint8_t *writer)
{
	struct tei_list *link = owner->fences.prev;
	struct tes_fence *f;

	for (; link != &owner->fences; link = link->prev) {
		f = fence_at(link);
		if (f->sent)
			break;
		if (!f->burial &&
		    memcmp(f->writer, writer, sizeof(f->writer)) == 0)
			return f;
	}
	f = create_fence(core, owner, false);
	if (f)
		memcpy(f->writer, writer, sizeof(f->writer));
	return f;
}

void tes_core_fence_cease(struct tes_fence *f)
{
	tei_list_del(&f->age);
	tei_list_del(&f->unsent);
}

static void detach_waiter(struct tes_core *core, struct tes_fence *f)
{
	struct tes_waiter *w = f->waiter;

	f->waiter = NULL;
	if (!w)
		return;
	w->graves -= f->graves.n;
	if (--w->left == 0 && w->armed)
		tei_list_add_tail(&core->answers, &w->link);
}

void tes_core_fence_free(struct tes_core *core, struct tes_fence *f)
{
	tes_core_fence_cease(f);
	detach_waiter(core, f);
	tes_core_graves_free(core, &f->graves);
	tei_list_del(&f->link);
	core->heap_bytes -= sizeof(*f);
	tei_free(f);
}

void tes_core_fences_restart(struct tes_core *core, struct tes_session *owner)
{
	tei_list_for_each (link, &owner->fences) {
		struct tes_fence *f = fence_at(link);

		f->created_ms = core->now_ms;
		tei_list_del(&f->age);
		tei_list_add_tail(ages_of(core, f), &f->age);
	}
}

void tes_core_fences_resend(struct tes_core *core, struct tes_session *owner)
{
	tei_list_for_each (link, &owner->fences) {
		struct tes_fence *f = fence_at(link);

		if (tei_list_empty(&f->unsent))
			tei_list_add_tail(&core->unsent, &f->unsent);
	}
}

bool tes_core_fence_moot(struct tes_fence *f)
{
	tei_list_for_each_safe (link, next, &f->extents) {
		struct tes_extent *e =
			tei_list_entry(link, struct tes_extent, link);

		if (TEI_CONTAINER(e->space, struct tes_mount, space)->dropping)
			tei_list_del(link);
	}
	return tei_list_empty(&f->extents);
}

bool tes_core_discard_due(const struct tes_core *core,
			  const struct tes_object *o)
{
	return o->writer->state == TES_SESSION_GONE ||
	       o->started_ms + core->config.put_discard_ms <= core->now_ms;
}

/* Nobody will write to it or read it: the owner or the writer is no more. */
static bool needs_no_fence(const struct tes_mount *m,
			   const struct tes_session *writer)
{
	return m->dropping || m->owner->state == TES_SESSION_GONE ||
	       (m->owner == writer && writer->state == TES_SESSION_GONE);
}

static bool has_replica(uint32_t replicas, const struct tes_extent *e)
{
	return replicas >> e->replica & 1;
}

int tes_core_fences_reserve(struct tes_core *core, const struct tes_object *o,
			    uint32_t replicas)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		struct tes_mount *m = tes_core_extent_mount(e);

		if (m && has_replica(replicas, e) &&
		    !needs_no_fence(m, o->writer) &&
		    !fence_for(core, m->owner, o->writer->incarnation))
			return -ENOMEM;
	}
	return 0;
}

void tes_core_chain_fence(struct tes_core *core, struct tes_extent *chain,
			  const struct tes_session *writer, uint32_t replicas)
{
	struct tes_extent *next;

	for (; chain; chain = next) {
		struct tes_mount *m = tes_core_extent_mount(chain);
		struct tes_fence *f;

		next = chain->next;
		if (!m || !has_replica(replicas, chain) ||
		    needs_no_fence(m, writer)) {
			tes_core_extent_free(core, chain);
			continue;
		}
		f = fence_for(core, m->owner, writer->incarnation);
		assert(f); /* reserved */
		core->figures.fences_total += tei_list_empty(&f->extents);
		tei_list_init(&chain->link);
		tei_list_add_tail(&f->extents, &chain->link);
		core->figures.fencing++;
	}
}

int tes_core_discard(struct tes_core *core, struct tes_object *o)
{
	const struct tes_session *writer = o->writer;
	bool put = !(o->flags & TES_OBJECT_COPY);

	if (tes_core_fences_reserve(core, o, UINT32_MAX) < 0)
		return -ENOMEM;
	tes_core_chain_fence(core, tes_core_object_forget(core, o), writer,
			     UINT32_MAX);
	core->figures.discarded_puts_total += put;
	return 0;
}

static void confirm_fence(struct tes_core *core, struct tes_fence *f)
{
	struct tei_list *link;

	while ((link = tei_list_pop(&f->extents))) {
		core->figures.fencing--;
		tes_core_extent_free(
			core, tei_list_entry(link, struct tes_extent, link));
	}
	tes_core_fence_free(core, f);
}

static void fail_fence(struct tes_core *core, struct tes_fence *f)
{
	if (tes_core_fence_moot(f)) {
		tes_core_fence_free(core, f);
		return;
	}
	core->figures.fences_failed_total++;
	tes_core_session_end(core, f->owner);
}

void tes_core_on_fenced(struct tes_core *core, const struct tes_event *ev,
			struct tes_session *owner)
{
	tei_list_for_each (link, &owner->fences) {
		struct tes_fence *f = fence_at(link);

		if (f->id != ev->u.fenced.fence || !f->sent ||
		    f->burial != ev->u.fenced.burial)
			continue;
		if (ev->u.fenced.confirmed)
			confirm_fence(core, f);
		else if (ev->u.fenced.pending)
			tes_core_fence_cease(f);
		else
			fail_fence(core, f);
		return;
	}
}

static void discard_late_puts(struct tes_core *core, unsigned int *budget)
{
	struct tes_object *o;

	while (*budget && !tei_list_empty(&core->building)) {
		o = tei_list_entry(core->building.next, struct tes_object, age);
		if (!tes_core_discard_due(core, o) ||
		    tes_core_discard(core, o) < 0)
			return;
		--*budget;
	}
}

void tes_core_fences_tick(struct tes_core *core, unsigned int *budget)
{
	uint64_t timeout = core->config.fence_timeout_ms;
	struct tes_fence *f;

	while (!tei_list_empty(&core->fences)) {
		f = tei_list_entry(core->fences.next, struct tes_fence, age);
		if (f->created_ms + timeout > core->now_ms)
			break;
		fail_fence(core, f);
	}
	discard_late_puts(core, budget);
}

/*
 * bury.c - objects that must not come back
 *
 * Readers keep addresses for a while, and owners a directory from which a
 * master that was started anew learns what there is. So before it is answered
 * that an object was removed or replaced, its owners void the headers of its
 * extents and forget it. A burial is a fence without a writer: it is numbered,
 * sent to the owner's heartbeat connection, sent again when that was lost, and
 * space is free when it is confirmed. Owners that are not live hold up no
 * answer; they have to do it before anything else when they are back. One that
 * lives and does not confirm is dropped in the end.
 *
 * What was evicted is right as long as it is there: its owners are told, but
 * nobody waits. Only they must not touch the bytes, whose space may be in use
 * again.
 */

/* ---- graves ---- */

static int graves_reserve(struct tes_core *core, struct tes_graves *g, size_t n)
{
	size_t room = g->room ? g->room : 4;
	struct tes_grave *grown;

	if (g->room - g->n >= n)
		return 0;
	while (room - g->n < n)
		room *= 2;
	grown = tei_realloc(g->at, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	core->heap_bytes += (room - g->room) * sizeof(*grown);
	g->at = grown;
	g->room = room;
	return 0;
}

void tes_core_graves_free(struct tes_core *core, struct tes_graves *g)
{
	core->heap_bytes -= g->room * sizeof(*g->at);
	tei_free(g->at);
	*g = (struct tes_graves){0};
}

int tes_core_graves_put(struct tes_action *a, const struct tes_graves *g,
			struct tei_arena *arena)
{
	size_t bytes = g->n * sizeof(uint64_t);

	a->type = TES_ACTION_BURY;
	a->u.bury.burial = 0;
	a->u.bury.n = g->n;
	a->u.bury.address = tei_arena_alloc(arena, bytes);
	a->u.bury.generation = tei_arena_alloc(arena, bytes);
	a->u.bury.gen_epoch = tei_arena_alloc(arena, bytes);
	if (!a->u.bury.address || !a->u.bury.generation || !a->u.bury.gen_epoch)
		return -ENOMEM;
	for (size_t i = 0; i < g->n; i++) {
		a->u.bury.address[i] = g->at[i].address;
		a->u.bury.generation[i] = g->at[i].generation;
		a->u.bury.gen_epoch[i] = g->at[i].gen_epoch;
	}
	return 0;
}

static struct tes_grave grave_of(const struct tes_mount *m,
				 const struct tes_extent *e,
				 uint64_t generation, uint64_t gen_epoch)
{
	return (struct tes_grave){m->base + e->offset, generation, gen_epoch};
}

/* ---- who waits ---- */

struct tes_waiter *tes_core_waiter_new(const struct tes_event *ev, size_t n)
{
	struct tes_waiter *w =
		tei_calloc(1, sizeof(*w) + n * sizeof(w->status[0]));

	if (!w)
		return NULL;
	tei_list_init(&w->link);
	w->session = ev->session;
	w->cookie = ev->cookie;
	w->of = ev->type;
	w->n = n;
	return w;
}

void tes_core_waiter_end(struct tes_core *core, struct tes_actions *out)
{
	struct tes_waiter *w = core->waiter;

	core->waiter = NULL;
	core->waiting = NULL;
	if (!w)
		return;
	if (!w->left) {
		tei_free(w);
		return;
	}
	assert(out->n && out->at[out->n - 1].type == TES_ACTION_REPLY);
	memcpy(w->status, out->at[out->n - 1].u.reply.status,
	       w->n * sizeof(w->status[0]));
	w->armed = true;
	out->n--;
}

void tes_core_bury_excuse(struct tes_core *core, struct tes_session *owner)
{
	tei_list_for_each (link, &owner->fences)
		detach_waiter(core,
			      tei_list_entry(link, struct tes_fence, link));
}

/* ---- burials ---- */

static struct tes_fence *burial_new(struct tes_core *core,
				    struct tes_session *owner,
				    struct tes_waiter *waiter)
{
	struct tes_fence *f = create_fence(core, owner, true);

	if (!f)
		return NULL;
	f->waiter = waiter;
	if (waiter)
		waiter->left++;
	return f;
}

/* Of this step and for the same reply; NULL: no memory. */
static struct tes_fence *burial_for(struct tes_core *core,
				    struct tes_session *owner)
{
	struct tes_waiter *waiter =
		owner->state == TES_SESSION_LIVE ? core->waiter : NULL;
	struct tei_list *link = owner->fences.prev;

	for (; link != &owner->fences; link = link->prev) {
		struct tes_fence *f =
			tei_list_entry(link, struct tes_fence, link);

		if (f->sent)
			break;
		if (f->burial && f->waiter == waiter &&
		    f->graves.n + TES_SPACE_PARTS <= GRAVES_MAX)
			return f;
	}
	return burial_new(core, owner, waiter);
}

/* Who is gone, or is never told of anything, cannot bring it back. */
static bool needs_no_burial(const struct tes_mount *m)
{
	return m->dropping || m->owner->state == TES_SESSION_GONE ||
	       !m->owner->buries;
}

bool tes_core_may_bury(const struct tes_object *o)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (e->space && !needs_no_burial(tes_core_extent_mount(e)))
			return true;
	return false;
}

int tes_core_bury_reserve(struct tes_core *core, const struct tes_object *o)
{
	size_t n = tes_core_object_entries(o);

	if (core->waiting && !core->waiter) {
		core->waiter =
			tes_core_waiter_new(core->waiting, core->waiting->n);
		if (!core->waiter)
			return -ENOMEM;
	}
	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		struct tes_mount *m = tes_core_extent_mount(e);
		struct tes_fence *f;

		if (!m || needs_no_burial(m))
			continue;
		f = burial_for(core, m->owner);
		if (!f || graves_reserve(core, &f->graves, n) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void bury_extent(struct tes_core *core, struct tes_extent *e,
			uint64_t generation, uint64_t gen_epoch)
{
	struct tes_mount *m = tes_core_extent_mount(e);
	struct tes_fence *f;

	if (!m || needs_no_burial(m)) {
		tes_core_extent_free(core, e);
		return;
	}
	f = burial_for(core, m->owner);
	assert(f && f->graves.n < f->graves.room); /* reserved */
	f->graves.at[f->graves.n++] = grave_of(m, e, generation, gen_epoch);
	if (f->waiter)
		f->waiter->graves++;
	tei_list_init(&e->link);
	tei_list_add_tail(&f->extents, &e->link);
	core->figures.fencing++;
}

static void bury_chain(struct tes_core *core, struct tes_extent *chain,
		       uint64_t generation, uint64_t gen_epoch)
{
	struct tes_extent *next;

	core->figures.burials_total++;
	for (; chain; chain = next) {
		next = chain->next;
		bury_extent(core, chain, generation, gen_epoch);
	}
}

void tes_core_bury(struct tes_core *core, struct tes_object *o)
{
	uint64_t generation = o->generation;
	uint64_t gen_epoch = core->epochs[o->epoch].number;

	bury_chain(core, tes_core_object_forget(core, o), generation,
		   gen_epoch);
}

void tes_core_bury_replica(struct tes_core *core, struct tes_object *o,
			   uint8_t replica)
{
	bury_chain(core, tes_core_replica_cut(core, o, replica), o->generation,
		   core->epochs[o->epoch].number);
}

void tes_core_burials_tick(struct tes_core *core)
{
	while (!tei_list_empty(&core->burials)) {
		struct tes_fence *f = tei_list_entry(core->burials.next,
						     struct tes_fence, age);

		if (f->created_ms + core->config.client_ttl_ms > core->now_ms)
			return;
		if (tes_core_fence_moot(f)) {
			tes_core_fence_free(core, f);
			continue;
		}
		core->figures.fences_failed_total++;
		tes_core_session_end(core, f->owner);
	}
}

/* ---- notices ---- */

static void notice_mount(struct tes_core *core, struct tes_mount *m,
			 struct tes_grave grave)
{
	struct tes_session *s = m->owner;

	/* Who does not listen now is told all again. */
	if (m->dropping || !s->buries || !s->beating)
		return;
	if (graves_reserve(core, &s->evicted, 1) < 0) {
		tes_core_sync(core, m);
		return;
	}
	s->evicted.at[s->evicted.n++] = grave;
	if (tei_list_empty(&s->notices))
		tei_list_add_tail(&core->notices, &s->notices);
}

void tes_core_notice(struct tes_core *core, const struct tes_object *o)
{
	uint64_t gen_epoch = core->epochs[o->epoch].number;
	const struct tes_extent *last = NULL;

	/* One place tells all of a replica. */
	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		struct tes_mount *m = tes_core_extent_mount(e);

		if (m && (!last || last->replica != e->replica))
			notice_mount(core, m,
				     grave_of(m, e, o->generation, gen_epoch));
		last = e;
	}
}

/* ---- out ---- */

void tes_core_notices_flush(struct tes_core *core, struct tes_actions *out)
{
	while (!tei_list_empty(&core->notices)) {
		struct tes_session *s = tei_list_entry(
			core->notices.next, struct tes_session, notices);

		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		if (tes_core_graves_put(
			    tes_core_action_add(out, TES_ACTION_BURY, s->id),
			    &s->evicted, out->arena) < 0) {
			out->n--;
			return;
		}
		s->evicted.n = 0;
		tei_list_del(&s->notices);
	}
}

static int put_answer(struct tes_waiter *w, struct tes_actions *out)
{
	int32_t *status =
		tei_arena_alloc(out->arena, w->n * sizeof(w->status[0]));
	struct tes_action *a;

	if (!status || tes_core_actions_reserve(out, 1) < 0)
		return -ENOMEM;
	memcpy(status, w->status, w->n * sizeof(*status));
	a = tes_core_action_add(out, TES_ACTION_REPLY, w->session);
	a->cookie = w->cookie;
	a->u.reply.of = w->of;
	a->u.reply.n = w->n;
	a->u.reply.status = status;
	return 0;
}

void tes_core_answers_flush(struct tes_core *core, struct tes_actions *out)
{
	while (!tei_list_empty(&core->answers)) {
		struct tes_waiter *w = tei_list_entry(core->answers.next,
						      struct tes_waiter, link);

		if (put_answer(w, out) < 0)
			return;
		tei_list_del(&w->link);
		tei_free(w);
	}
}

void tes_core_bury_fini(struct tes_core *core)
{
	struct tei_list *link;

	while ((link = tei_list_pop(&core->answers)))
		tei_free(tei_list_entry(link, struct tes_waiter, link));
}
