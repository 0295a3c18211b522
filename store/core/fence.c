/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence.c - space that others may still touch: fences and burials
 *
 * Fences. A writer that died or stalled may have bytes under way. Before its
 * space is used again the owner of that space ends the writer's access and
 * confirms. An owner that does not confirm in time is dropped with what it
 * mounted: its space is never used again. An owner that reports in time that
 * the writer may still write, since it was stopped in the middle of a copy,
 * gets all the time it needs: that space is set aside, and nothing else is
 * lost.
 *
 * Burials. Readers remember addresses for a while, and owners keep a directory
 * from which a restarted master learns what there is. So before it is answered
 * that an object was removed or replaced, its owners void the headers of its
 * extents and forget it. A burial is a fence without a writer: it is numbered,
 * sent to the owner's heartbeat connection, sent again when that was lost, and
 * its space is free when it is confirmed. Owners that are not live delay no
 * reply; they confirm before anything else when they are back. A live owner
 * that never confirms is dropped in the end.
 *
 * Notices. An evicted object is valid as long as its bytes are there: its
 * owners learn of the eviction, but nobody waits. They must not touch the
 * bytes, whose space may be in use again.
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
#include "store/core/step.h"

/* Limit of one burial, so that its message fits a frame. */
#define GRAVES_MAX 65536u
/* Limit of one fence, whose extents its owner confirms all at once. */
#define FENCE_EXTENTS 1024u

/* ---- fences ---- */

static struct tes_fence *fence_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tes_fence, link);
}

/* List of fences of its kind, oldest first. */
static struct tei_list *ages_of(struct tes_core *core,
				const struct tes_fence *f)
{
	return f->burial ? &core->burials : &core->fences;
}

/* Creates a fence or burial that is to be sent to @owner. NULL: no memory. */
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

/*
 * Finds the fence for all extents given up in this step, or creates it, as when
 * it has @full of them: its owner confirms them all at once.
 */
static struct tes_fence *fence_for(struct tes_core *core,
				   struct tes_session *owner,
				   const uint8_t *writer, size_t full)
{
	struct tei_list *link = owner->fences.prev;
	struct tes_fence *f;

	for (; link != &owner->fences; link = link->prev) {
		f = fence_at(link);
		if (f->sent)
			break;
		if (f->burial ||
		    memcmp(f->writer, writer, sizeof(f->writer)) != 0)
			continue;
		if (f->n_extents < full)
			return f;
		break;
	}
	f = create_fence(core, owner, false);
	if (f)
		memcpy(f->writer, writer, sizeof(f->writer));
	return f;
}

/* Ends sending and timing of @f. */
static void stop_fence(struct tes_fence *f)
{
	tei_list_del(&f->age);
	tei_list_del(&f->unsent);
}

/* ---- graves: headers to be voided ---- */

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

static void free_graves(struct tes_core *core, struct tes_graves *g)
{
	core->heap_bytes -= g->room * sizeof(*g->at);
	tei_free(g->at);
	*g = (struct tes_graves){0};
}

/* Fills the action for the owner. -ENOMEM: the arena is full. */
static int put_graves(struct tes_action *a, const struct tes_graves *g,
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

/* ---- replies that wait for burials ---- */

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

struct tes_waiter *tes_core_step_waiter(struct tes_step *step)
{
	if (!step->waiter)
		step->waiter = tes_core_waiter_new(step->ev, step->ev->n);
	return step->waiter;
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

void tes_core_waiter_end(struct tes_step *step)
{
	struct tes_waiter *w = step->waiter;

	if (!w)
		return;
	step->waiter = NULL;
	if (!w->left) {
		tei_free(w);
		return;
	}
	assert(step->reply == &step->out->at[step->out->n - 1]);
	memcpy(w->status, step->reply->u.reply.status,
	       w->n * sizeof(w->status[0]));
	w->armed = true;
	step->reply = NULL;
	step->out->n--;
}

/* ---- the owner of fences joins again, is silent, or is gone ---- */

static void free_fence(struct tes_core *core, struct tes_fence *f)
{
	stop_fence(f);
	detach_waiter(core, f);
	free_graves(core, &f->graves);
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

void tes_core_fences_excuse(struct tes_core *core, struct tes_session *owner)
{
	tei_list_for_each (link, &owner->fences)
		detach_waiter(core, fence_at(link));
}

void tes_core_fences_abandon(struct tes_core *core, struct tes_session *owner)
{
	tei_list_for_each (link, &owner->fences)
		stop_fence(fence_at(link));
	tes_core_fences_excuse(core, owner);
}

void tes_core_fences_free(struct tes_core *core, struct tes_session *owner)
{
	struct tei_list *link;

	while ((link = tei_list_pop(&owner->fences)))
		free_fence(core, fence_at(link));
	free_graves(core, &owner->evicted);
}

void tes_core_fences_resend(struct tes_core *core, struct tes_session *owner)
{
	tei_list_for_each (link, &owner->fences) {
		struct tes_fence *f = fence_at(link);

		if (tei_list_empty(&f->unsent))
			tei_list_add_tail(&core->unsent, &f->unsent);
	}
}

/* True: nothing waits for @f any more, its space was unmounted meanwhile. */
static bool is_moot(struct tes_fence *f)
{
	while (!tei_list_empty(&f->extents)) {
		struct tes_extent *e = tei_list_entry(f->extents.next,
						      struct tes_extent, link);

		if (!TEI_CONTAINER(e->space, struct tes_mount, space)->dropping)
			return false;
		tei_list_del(&e->link);
	}
	return true;
}

/* ---- a put is given up ---- */

bool tes_core_discard_due(const struct tes_core *core,
			  const struct tes_object *o)
{
	return o->writer->state == TES_SESSION_GONE ||
	       o->started_ms + core->config.put_discard_ms <= core->now_ms;
}

/* True: nobody will write or read there, as the owner or the writer is gone. */
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
		    !fence_for(core, m->owner, o->writer->incarnation,
			       FENCE_EXTENTS))
			return -ENOMEM;
	}
	return 0;
}

void tes_core_fence_chain(struct tes_core *core, struct tes_extent *chain,
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
		f = fence_for(core, m->owner, writer->incarnation, SIZE_MAX);
		assert(f); /* reserved */
		core->figures.fences_total += tei_list_empty(&f->extents);
		tei_list_init(&chain->link);
		tei_list_add_tail(&f->extents, &chain->link);
		f->n_extents++;
		core->figures.fencing++;
	}
}

int tes_core_discard(struct tes_core *core, struct tes_object *o)
{
	const struct tes_session *writer = o->writer;
	bool put = !(o->flags & TES_OBJECT_COPY);

	if (tes_core_fences_reserve(core, o, UINT32_MAX) < 0)
		return -ENOMEM;
	tes_core_fence_chain(core, tes_core_object_forget(core, o), writer,
			     UINT32_MAX);
	core->figures.discarded_puts_total += put;
	return 0;
}

/* ---- an object is buried ---- */

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

/* Finds the burial of this step for the same reply, or creates it; NULL: no
 * memory. */
static struct tes_fence *burial_for(struct tes_core *core,
				    struct tes_session *owner,
				    struct tes_waiter *waiter)
{
	struct tei_list *link = owner->fences.prev;

	if (owner->state != TES_SESSION_LIVE)
		waiter = NULL;
	for (; link != &owner->fences; link = link->prev) {
		struct tes_fence *f = fence_at(link);

		if (f->sent)
			break;
		if (f->burial && f->waiter == waiter &&
		    f->graves.n + TES_SPACE_PARTS <= GRAVES_MAX)
			return f;
	}
	return burial_new(core, owner, waiter);
}

/* True: the owner is gone, or never learns of objects: nothing comes back. */
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

int tes_core_bury_reserve(struct tes_core *core, const struct tes_object *o,
			  struct tes_waiter *waiter)
{
	size_t n = tes_core_object_entries(o);

	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		struct tes_mount *m = tes_core_extent_mount(e);
		struct tes_fence *f;

		if (!m || needs_no_burial(m))
			continue;
		f = burial_for(core, m->owner, waiter);
		if (!f || graves_reserve(core, &f->graves, n) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void bury_extent(struct tes_core *core, struct tes_extent *e,
			uint64_t generation, uint64_t gen_epoch,
			struct tes_waiter *waiter)
{
	struct tes_mount *m = tes_core_extent_mount(e);
	struct tes_fence *f;

	if (!m || needs_no_burial(m)) {
		tes_core_extent_free(core, e);
		return;
	}
	f = burial_for(core, m->owner, waiter);
	assert(f && f->graves.n < f->graves.room); /* reserved */
	f->graves.at[f->graves.n++] = grave_of(m, e, generation, gen_epoch);
	if (f->waiter)
		f->waiter->graves++;
	tei_list_init(&e->link);
	tei_list_add_tail(&f->extents, &e->link);
	core->figures.fencing++;
}

static void bury_chain(struct tes_core *core, struct tes_extent *chain,
		       uint64_t generation, uint64_t gen_epoch,
		       struct tes_waiter *waiter)
{
	struct tes_extent *next;

	core->figures.burials_total++;
	for (; chain; chain = next) {
		next = chain->next;
		bury_extent(core, chain, generation, gen_epoch, waiter);
	}
}

void tes_core_bury(struct tes_core *core, struct tes_object *o,
		   struct tes_waiter *waiter)
{
	uint64_t generation = o->generation;
	uint64_t gen_epoch = core->epochs[o->epoch].number;

	bury_chain(core, tes_core_object_forget(core, o), generation, gen_epoch,
		   waiter);
}

void tes_core_bury_replica(struct tes_core *core, struct tes_object *o,
			   uint8_t replica, struct tes_waiter *waiter)
{
	bury_chain(core, tes_core_replica_cut(core, o, replica), o->generation,
		   core->epochs[o->epoch].number, waiter);
}

/* ---- an eviction is noticed ---- */

static void notice_mount(struct tes_core *core, struct tes_mount *m,
			 struct tes_grave grave)
{
	struct tes_session *s = m->owner;

	/* An owner that does not listen now is resynced. */
	if (m->dropping || !s->buries || !s->beating)
		return;
	if (graves_reserve(core, &s->evicted, 1) < 0) {
		tes_core_resync(core, m);
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

	/* The first extent stands for its replica. */
	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		struct tes_mount *m = tes_core_extent_mount(e);

		if (m && (!last || last->replica != e->replica))
			notice_mount(core, m,
				     grave_of(m, e, o->generation, gen_epoch));
		last = e;
	}
}

/* ---- actions ---- */

static void flush_notices(struct tes_core *core, struct tes_actions *out)
{
	while (!tei_list_empty(&core->notices)) {
		struct tes_session *s = tei_list_entry(
			core->notices.next, struct tes_session, notices);

		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		if (put_graves(tes_core_action_add(out, TES_ACTION_BURY, s->id),
			       &s->evicted, out->arena) < 0) {
			out->n--;
			return;
		}
		s->evicted.n = 0;
		tei_list_del(&s->notices);
	}
}

static int fence_put(struct tes_action *a, const struct tes_fence *f,
		     struct tei_arena *arena)
{
	if (!f->burial) {
		a->u.fence.fence = f->id;
		a->u.fence.writer = f->writer;
		return 0;
	}
	if (put_graves(a, &f->graves, arena) < 0)
		return -ENOMEM;
	a->u.bury.burial = f->id;
	return 0;
}

static void flush_fences(struct tes_core *core, struct tes_actions *out)
{
	while (!tei_list_empty(&core->unsent)) {
		struct tes_fence *f = tei_list_entry(core->unsent.next,
						     struct tes_fence, unsent);
		struct tes_action *a;

		if (is_moot(f)) {
			free_fence(core, f);
			continue;
		}
		if (tes_core_actions_reserve(out, 1) < 0)
			return;
		a = tes_core_action_add(out, TES_ACTION_FENCE, f->owner->id);
		if (fence_put(a, f, out->arena) < 0) {
			out->n--;
			return;
		}
		f->sent = true;
		tei_list_del(&f->unsent);
	}
}

void tes_core_fences_flush(struct tes_core *core, struct tes_actions *out)
{
	flush_notices(core, out);
	flush_fences(core, out);
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

void tes_core_answers_free(struct tes_core *core)
{
	struct tei_list *link;

	while ((link = tei_list_pop(&core->answers)))
		tei_free(tei_list_entry(link, struct tes_waiter, link));
}

/* ---- owners confirm, or do not in time ---- */

static void confirm_fence(struct tes_core *core, struct tes_fence *f)
{
	struct tei_list *link;

	while ((link = tei_list_pop(&f->extents))) {
		core->figures.fencing--;
		tes_core_extent_free(
			core, tei_list_entry(link, struct tes_extent, link));
	}
	free_fence(core, f);
}

static void fail_fence(struct tes_core *core, struct tes_fence *f)
{
	if (is_moot(f)) {
		free_fence(core, f);
		return;
	}
	core->figures.fences_failed_total++;
	tes_core_session_end(core, f->owner);
}

int tes_core_on_fenced(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	struct tes_session *owner = step->session;

	tei_list_for_each (link, &owner->fences) {
		struct tes_fence *f = fence_at(link);

		if (f->id != ev->u.fenced.fence || !f->sent ||
		    f->burial != ev->u.fenced.burial)
			continue;
		if (ev->u.fenced.confirmed)
			confirm_fence(core, f);
		else if (ev->u.fenced.pending)
			stop_fence(f);
		else
			fail_fence(core, f);
		return 0;
	}
	return 0;
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

static void end_late_burials(struct tes_core *core)
{
	while (!tei_list_empty(&core->burials)) {
		struct tes_fence *f = tei_list_entry(core->burials.next,
						     struct tes_fence, age);

		if (f->created_ms + core->config.client_ttl_ms > core->now_ms)
			return;
		if (is_moot(f)) {
			free_fence(core, f);
			continue;
		}
		core->figures.fences_failed_total++;
		tes_core_session_end(core, f->owner);
	}
}

void tes_core_fences_tick(struct tes_core *core, unsigned int *budget)
{
	uint64_t timeout = core->config.fence_timeout_ms;
	struct tes_fence *f;

	end_late_burials(core);
	while (!tei_list_empty(&core->fences)) {
		f = tei_list_entry(core->fences.next, struct tes_fence, age);
		if (f->created_ms + timeout > core->now_ms)
			break;
		fail_fence(core, f);
	}
	discard_late_puts(core, budget);
}
