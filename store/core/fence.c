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
#include "store/core/bury.h"
#include "store/core/extent.h"
#include "store/core/mount.h"
#include "store/core/object.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"

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

struct tes_fence *tes_core_fence_new(struct tes_core *core,
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
	f = tes_core_fence_new(core, owner, false);
	if (f)
		memcpy(f->writer, writer, sizeof(f->writer));
	return f;
}

void tes_core_fence_cease(struct tes_fence *f)
{
	tei_list_del(&f->age);
	tei_list_del(&f->unsent);
}

void tes_core_fence_free(struct tes_core *core, struct tes_fence *f)
{
	tes_core_fence_cease(f);
	tes_core_waiter_leave(core, f);
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
