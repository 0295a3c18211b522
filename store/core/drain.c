/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.c - drains: how they end, and what is known about them
 */
#include "store/core/drain.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/core/mount.h"
#include "store/core/place.h"
#include "store/core/reply.h"
#include "store/core/state.h"
#include "store/core/task.h"
#include "store/core/tasks.h"

static struct tes_drain *drain_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tes_drain, link);
}

/* ---- life ---- */

void tes_core_drains_init(struct tes_core *core)
{
	tei_list_init(&core->drains.active);
	tei_list_init(&core->drains.ended);
	tei_list_init(&core->drains.answers);
}

static void forget_drain(struct tes_core *core, struct tes_drain *d)
{
	tei_list_del(&d->link);
	core->heap_bytes -= d->bytes;
	tei_free(d);
}

void tes_core_drains_free(struct tes_core *core)
{
	struct tei_list *lists[] = {&core->drains.active, &core->drains.ended,
				    &core->drains.answers};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		while (!tei_list_empty(lists[i]))
			forget_drain(core, drain_at(lists[i]->next));
}

static struct tes_drain *find_in(const struct tei_list *list, uint64_t number)
{
	tei_list_for_each (link, list)
		if (drain_at(link)->number == number)
			return drain_at(link);
	return NULL;
}

struct tes_drain *tes_core_drain_find(const struct tes_core *core,
				      uint64_t number)
{
	struct tes_drain *d = find_in(&core->drains.active, number);

	if (!d)
		d = find_in(&core->drains.answers, number);
	return d ? d : find_in(&core->drains.ended, number);
}

/* ---- the end ---- */

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
		struct tes_mount *m = tes_core_drain_source(core, d, i);

		if (!m)
			continue;
		m->drain = NULL;
		if (m->status == TES_CORE_SEGMENT_DRAINING)
			m->status = empty ? TES_CORE_SEGMENT_DRAINED
					  : TES_CORE_SEGMENT_OK;
	}
	tes_core_loosen_all(core);
}

/* Its tasks that no executor has yet. */
static void drop_waiting(struct tes_core *core, const struct tes_drain *d)
{
	uint64_t number = d->number;

	tei_list_for_each_safe (link, next, &core->tasks.pending[0]) {
		struct tes_task *t =
			tei_list_entry(link, struct tes_task, link);

		if (t->kind == TES_TASK_DRAIN &&
		    tes_core_drain_number(t->cookie) == number)
			tes_core_task_end(core, t, CODE_TASK);
	}
}

static void count_ended(struct tes_core *core, uint8_t state)
{
	core->figures.drains_succeeded_total += state == TES_DRAIN_SUCCEEDED;
	core->figures.drains_failed_total += state == TES_DRAIN_FAILED;
	core->figures.drains_canceled_total += state == TES_DRAIN_CANCELED;
}

void tes_core_drain_end(struct tes_core *core, struct tes_drain *d,
			uint8_t state, int32_t code)
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

/* ---- what is known ---- */

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

void tes_core_drain_describe(const struct tes_core *core,
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
		tes_core_drain_describe(core, d, m);
		a = tes_core_action_add(out, TES_ACTION_REPLY, d->session);
		a->cookie = d->cookie;
		a->u.reply.of = TES_EVENT_DRAIN_LEAVE;
		a->u.reply.drain = m;
		core->drains.n_active--;
		forget_drain(core, d);
	}
}
