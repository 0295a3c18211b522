/* SPDX-License-Identifier: Apache-2.0 */
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
#include "store/core/bury.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/epoch.h"
#include "store/core/extent.h"
#include "store/core/fence.h"
#include "store/core/mount.h"
#include "store/core/object.h"
#include "store/core/reply.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/tell.h"

/* Of one burial, so that its message fits a frame. */
#define GRAVES_MAX 65536u

/* ---- graves ---- */

static int graves_reserve(struct tei_core *core, struct tei_graves *g, size_t n)
{
	size_t room = g->room ? g->room : 4;
	struct tei_grave *grown;

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

void tei_core_graves_free(struct tei_core *core, struct tei_graves *g)
{
	core->heap_bytes -= g->room * sizeof(*g->at);
	tei_free(g->at);
	*g = (struct tei_graves){0};
}

int tei_core_graves_put(struct tei_action *a, const struct tei_graves *g,
			struct tei_arena *arena)
{
	size_t bytes = g->n * sizeof(uint64_t);

	a->type = TEI_ACTION_BURY;
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

static struct tei_grave grave_of(const struct tei_mount *m,
				 const struct tei_extent *e,
				 uint64_t generation, uint64_t gen_epoch)
{
	return (struct tei_grave){m->base + e->offset, generation, gen_epoch};
}

/* ---- who waits ---- */

struct tei_waiter *tei_core_waiter_new(const struct tei_event *ev, size_t n)
{
	struct tei_waiter *w =
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

void tei_core_waiter_leave(struct tei_core *core, struct tei_fence *f)
{
	struct tei_waiter *w = f->waiter;

	f->waiter = NULL;
	if (!w)
		return;
	w->graves -= f->graves.n;
	if (--w->left == 0 && w->armed)
		tei_list_add_tail(&core->answers, &w->link);
}

void tei_core_waiter_end(struct tei_core *core, struct tei_actions *out)
{
	struct tei_waiter *w = core->waiter;

	core->waiter = NULL;
	core->waiting = NULL;
	if (!w)
		return;
	if (!w->left) {
		tei_free(w);
		return;
	}
	assert(out->n && out->at[out->n - 1].type == TEI_ACTION_REPLY);
	memcpy(w->status, out->at[out->n - 1].u.reply.status,
	       w->n * sizeof(w->status[0]));
	w->armed = true;
	out->n--;
}

void tei_core_bury_excuse(struct tei_core *core, struct tei_session *owner)
{
	tei_list_for_each (link, &owner->fences)
		tei_core_waiter_leave(
			core, tei_list_entry(link, struct tei_fence, link));
}

/* ---- burials ---- */

static struct tei_fence *burial_new(struct tei_core *core,
				    struct tei_session *owner,
				    struct tei_waiter *waiter)
{
	struct tei_fence *f = tei_core_fence_new(core, owner, true);

	if (!f)
		return NULL;
	f->waiter = waiter;
	if (waiter)
		waiter->left++;
	return f;
}

/* Of this step and for the same reply; NULL: no memory. */
static struct tei_fence *burial_for(struct tei_core *core,
				    struct tei_session *owner)
{
	struct tei_waiter *waiter =
		owner->state == TEI_SESSION_LIVE ? core->waiter : NULL;
	struct tei_list *link = owner->fences.prev;

	for (; link != &owner->fences; link = link->prev) {
		struct tei_fence *f =
			tei_list_entry(link, struct tei_fence, link);

		if (f->sent)
			break;
		if (f->burial && f->waiter == waiter &&
		    f->graves.n + TEI_SPACE_PARTS <= GRAVES_MAX)
			return f;
	}
	return burial_new(core, owner, waiter);
}

/* Who is gone, or is never told of anything, cannot bring it back. */
static bool needs_none(const struct tei_mount *m)
{
	return m->dropping || m->owner->state == TEI_SESSION_GONE ||
	       !m->owner->buries;
}

bool tei_core_may_bury(const struct tei_object *o)
{
	for (const struct tei_extent *e = o->extents; e; e = e->next)
		if (e->space && !needs_none(tei_core_extent_mount(e)))
			return true;
	return false;
}

int tei_core_bury_reserve(struct tei_core *core, const struct tei_object *o)
{
	size_t n = tei_core_object_entries(o);

	if (core->waiting && !core->waiter) {
		core->waiter =
			tei_core_waiter_new(core->waiting, core->waiting->n);
		if (!core->waiter)
			return -ENOMEM;
	}
	for (const struct tei_extent *e = o->extents; e; e = e->next) {
		struct tei_mount *m = tei_core_extent_mount(e);
		struct tei_fence *f;

		if (!m || needs_none(m))
			continue;
		f = burial_for(core, m->owner);
		if (!f || graves_reserve(core, &f->graves, n) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void bury_extent(struct tei_core *core, struct tei_extent *e,
			uint64_t generation, uint64_t gen_epoch)
{
	struct tei_mount *m = tei_core_extent_mount(e);
	struct tei_fence *f;

	if (!m || needs_none(m)) {
		tei_core_extent_free(core, e);
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

static void bury_chain(struct tei_core *core, struct tei_extent *chain,
		       uint64_t generation, uint64_t gen_epoch)
{
	struct tei_extent *next;

	core->figures.burials_total++;
	for (; chain; chain = next) {
		next = chain->next;
		bury_extent(core, chain, generation, gen_epoch);
	}
}

void tei_core_bury(struct tei_core *core, struct tei_object *o)
{
	uint64_t generation = o->generation;
	uint64_t gen_epoch = core->epochs[o->epoch].number;

	bury_chain(core, tei_core_object_forget(core, o), generation,
		   gen_epoch);
}

void tei_core_bury_replica(struct tei_core *core, struct tei_object *o,
			   uint8_t replica)
{
	bury_chain(core, tei_core_replica_cut(core, o, replica), o->generation,
		   core->epochs[o->epoch].number);
}

void tei_core_burials_tick(struct tei_core *core)
{
	while (!tei_list_empty(&core->burials)) {
		struct tei_fence *f = tei_list_entry(core->burials.next,
						     struct tei_fence, age);

		if (f->created_ms + core->config.client_ttl_ms > core->now_ms)
			return;
		if (tei_core_fence_moot(f)) {
			tei_core_fence_free(core, f);
			continue;
		}
		core->figures.fences_failed_total++;
		tei_core_session_end(core, f->owner);
	}
}

/* ---- notices ---- */

static void notice(struct tei_core *core, struct tei_mount *m,
		   struct tei_grave grave)
{
	struct tei_session *s = m->owner;

	/* Who does not listen now is told all again. */
	if (m->dropping || !s->buries || !s->beating)
		return;
	if (graves_reserve(core, &s->evicted, 1) < 0) {
		tei_core_sync(core, m);
		return;
	}
	s->evicted.at[s->evicted.n++] = grave;
	if (tei_list_empty(&s->notices))
		tei_list_add_tail(&core->notices, &s->notices);
}

void tei_core_notice(struct tei_core *core, const struct tei_object *o)
{
	uint64_t gen_epoch = core->epochs[o->epoch].number;
	const struct tei_extent *last = NULL;

	/* One place tells all of a replica. */
	for (const struct tei_extent *e = o->extents; e; e = e->next) {
		struct tei_mount *m = tei_core_extent_mount(e);

		if (m && (!last || last->replica != e->replica))
			notice(core, m,
			       grave_of(m, e, o->generation, gen_epoch));
		last = e;
	}
}

/* ---- out ---- */

void tei_core_notices_flush(struct tei_core *core, struct tei_actions *out)
{
	while (!tei_list_empty(&core->notices)) {
		struct tei_session *s = tei_list_entry(
			core->notices.next, struct tei_session, notices);

		if (tei_core_actions_reserve(out, 1) < 0)
			return;
		if (tei_core_graves_put(
			    tei_core_action_add(out, TEI_ACTION_BURY, s->id),
			    &s->evicted, out->arena) < 0) {
			out->n--;
			return;
		}
		s->evicted.n = 0;
		tei_list_del(&s->notices);
	}
}

static int answer(struct tei_waiter *w, struct tei_actions *out)
{
	int32_t *status =
		tei_arena_alloc(out->arena, w->n * sizeof(w->status[0]));
	struct tei_action *a;

	if (!status || tei_core_actions_reserve(out, 1) < 0)
		return -ENOMEM;
	memcpy(status, w->status, w->n * sizeof(*status));
	a = tei_core_action_add(out, TEI_ACTION_REPLY, w->session);
	a->cookie = w->cookie;
	a->u.reply.of = w->of;
	a->u.reply.n = w->n;
	a->u.reply.status = status;
	return 0;
}

void tei_core_answers_flush(struct tei_core *core, struct tei_actions *out)
{
	while (!tei_list_empty(&core->answers)) {
		struct tei_waiter *w = tei_list_entry(core->answers.next,
						      struct tei_waiter, link);

		if (answer(w, out) < 0)
			return;
		tei_list_del(&w->link);
		tei_free(w);
	}
}

void tei_core_bury_fini(struct tei_core *core)
{
	struct tei_list *link;

	while ((link = tei_list_pop(&core->answers)))
		tei_free(tei_list_entry(link, struct tei_waiter, link));
}
