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

static struct tei_drain *drain_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tei_drain, link);
}

/* ---- life ---- */

void tei_core_drains_init(struct tei_core *core)
{
	tei_list_init(&core->drains.active);
	tei_list_init(&core->drains.ended);
	tei_list_init(&core->drains.answers);
}

static void forget(struct tei_core *core, struct tei_drain *d)
{
	tei_list_del(&d->link);
	core->heap_bytes -= d->bytes;
	tei_free(d);
}

void tei_core_drains_free(struct tei_core *core)
{
	struct tei_list *lists[] = {&core->drains.active, &core->drains.ended,
				    &core->drains.answers};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		while (!tei_list_empty(lists[i]))
			forget(core, drain_at(lists[i]->next));
}

static struct tei_drain *find_in(const struct tei_list *list, uint64_t number)
{
	tei_list_for_each (link, list)
		if (drain_at(link)->number == number)
			return drain_at(link);
	return NULL;
}

struct tei_drain *tei_core_drain_find(const struct tei_core *core,
				      uint64_t number)
{
	struct tei_drain *d = find_in(&core->drains.active, number);

	if (!d)
		d = find_in(&core->drains.answers, number);
	return d ? d : find_in(&core->drains.ended, number);
}

/* ---- the end ---- */

static void remember(struct tei_core *core, struct tei_drain *d)
{
	struct tei_drains *all = &core->drains;

	all->n_active--;
	tei_list_add_tail(&all->ended, &d->link);
	if (++all->n_ended <= TEI_DRAINS_ENDED)
		return;
	all->n_ended--;
	forget(core, drain_at(all->ended.next));
}

static void release(struct tei_core *core, const struct tei_drain *d)
{
	bool empty = d->state == TEI_DRAIN_SUCCEEDED;

	for (size_t i = 0; i < d->n_sources; i++) {
		struct tei_mount *m = tei_core_drain_source(core, d, i);

		if (!m)
			continue;
		m->drain = NULL;
		if (m->status == TEI_CORE_SEGMENT_DRAINING)
			m->status = empty ? TEI_CORE_SEGMENT_DRAINED
					  : TEI_CORE_SEGMENT_OK;
	}
	tei_core_loosen_all(core);
}

/* Its tasks that no executor has yet. */
static void drop_waiting(struct tei_core *core, const struct tei_drain *d)
{
	uint64_t number = d->number;

	tei_list_for_each_safe (link, next, &core->tasks.pending[0]) {
		struct tei_task *t =
			tei_list_entry(link, struct tei_task, link);

		if (t->kind == TEI_TASK_DRAIN &&
		    tei_core_drain_number(t->cookie) == number)
			tei_core_task_end(core, t, CODE_TASK);
	}
}

static void count(struct tei_core *core, uint8_t state)
{
	core->figures.drains_succeeded_total += state == TEI_DRAIN_SUCCEEDED;
	core->figures.drains_failed_total += state == TEI_DRAIN_FAILED;
	core->figures.drains_canceled_total += state == TEI_DRAIN_CANCELED;
}

void tei_core_drain_end(struct tei_core *core, struct tei_drain *d,
			uint8_t state, int32_t code)
{
	d->state = state;
	d->code = code;
	d->pass.under_way = false;
	d->updated_ms = core->last_ms;
	count(core, state);
	release(core, d);
	drop_waiting(core, d);
	tei_list_del(&d->link);
	if (d->leaving)
		tei_list_add_tail(&core->drains.answers, &d->link);
	else
		remember(core, d);
}

/* ---- what is known ---- */

static const char *words(const struct tei_drain *d)
{
	if (d->state != TEI_DRAIN_FAILED)
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

void tei_core_drain_describe(const struct tei_core *core,
			     const struct tei_drain *d,
			     struct tei_core_drain *out)
{
	*out = (struct tei_core_drain){
		.state = d->state,
		.code = d->state == TEI_DRAIN_FAILED ? d->code : CODE_OK,
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
		tei_core_id_of(core, d->number, out->id);
	snprintf(out->message, sizeof(out->message), "%s", words(d));
}

void tei_core_drains_flush(struct tei_core *core, struct tei_actions *out)
{
	tei_list_for_each_safe (link, next, &core->drains.answers) {
		struct tei_drain *d = drain_at(link);
		struct tei_core_drain *m;
		struct tei_action *a;

		if (tei_core_actions_reserve(out, 1) < 0)
			return;
		m = tei_arena_alloc(out->arena, sizeof(*m));
		if (!m)
			return;
		tei_core_drain_describe(core, d, m);
		a = tei_core_action_add(out, TEI_ACTION_REPLY, d->session);
		a->cookie = d->cookie;
		a->u.reply.of = TEI_EVENT_DRAIN_LEAVE;
		a->u.reply.drain = m;
		core->drains.n_active--;
		forget(core, d);
	}
}
