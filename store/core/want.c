/* SPDX-License-Identifier: Apache-2.0 */
/*
 * want.c - tasks: how they come, and what clients ask about them
 */
#include "store/core/want.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/core/copy.h"
#include "store/core/extent.h"
#include "store/core/mount.h"
#include "store/core/object.h"
#include "store/core/session.h"
#include "store/core/state.h"
#include "store/core/task.h"
#include "store/core/tasks.h"
#include "store/core/tenant.h"

/* ---- the beginning ---- */

struct plan {
	struct tes_object *object;
	enum tes_task_kind kind;
	uint64_t cookie;
	bool move;
	struct tes_task_place source, targets[TES_CORE_TARGETS_MAX];
	size_t n_targets;
};

static size_t name_room(const struct tes_task_place *p)
{
	return p->name ? strlen(p->name) + 1 : 0;
}

/* A copy of @p, whose name is put at *@at. */
static struct tes_task_place copy_place(const struct tes_task_place *p,
					char **at)
{
	size_t len = name_room(p);
	struct tes_task_place kept = *p;

	if (!len)
		return kept;
	memcpy(*at, p->name, len);
	kept.name = *at;
	*at += len;
	return kept;
}

/* NULL: no memory. */
static struct tes_task *create_task(const struct plan *plan)
{
	size_t targets = plan->n_targets * sizeof(plan->targets[0]);
	size_t bytes =
		sizeof(struct tes_task) + targets + name_room(&plan->source);
	struct tes_task *t;
	char *names;

	for (size_t i = 0; i < plan->n_targets; i++)
		bytes += name_room(&plan->targets[i]);
	t = tei_calloc(1, bytes);
	if (!t)
		return NULL;
	t->bytes = bytes;
	t->kind = (uint8_t)plan->kind;
	t->cookie = plan->cookie;
	t->move = plan->move;
	t->tenant = plan->object->tenant;
	names = (char *)t + sizeof(*t) + targets;
	t->source = copy_place(&plan->source, &names);
	for (size_t i = 0; i < plan->n_targets; i++)
		t->targets[i] = copy_place(&plan->targets[i], &names);
	t->n_targets = plan->n_targets;
	tei_list_init(&t->link);
	tei_list_init(&t->at);
	tei_list_init(&t->unsent);
	return t;
}

static bool yields_to(const struct tes_task *t, enum tes_task_kind to)
{
	return t->state == TES_TASK_PENDING &&
	       (t->kind == TES_TASK_REPAIR || t->kind == TES_TASK_HEAT) &&
	       (to == TES_TASK_USER || to == TES_TASK_DRAIN);
}

size_t tes_core_task_slots(const struct tes_core *core)
{
	const struct tes_tasks *all = &core->tasks;
	size_t n = all->n_pending[0] + all->n_pending[1];
	uint64_t most = core->config.tasks_pending_max;

	return n < most ? (size_t)(most - n) : 0;
}

static int32_t add_task(struct tes_core *core, const struct plan *plan,
			struct tes_task **out)
{
	struct tes_task *old = tes_core_task_of(core, plan->object), *t;

	if (old && !yields_to(old, plan->kind))
		return CODE_TASK;
	if (!old && !tes_core_task_slots(core))
		return CODE_TASKS_FULL;
	t = create_task(plan);
	if (!t)
		return CODE_INTERNAL;
	if (old) {
		t->lost = (uint8_t)(old->lost + (old->kind == TES_TASK_REPAIR));
		old->lost = 0;
		tes_core_task_end(core, old, CODE_TASK);
	}
	tes_core_task_enter(core, t, plan->object);
	*out = t;
	return CODE_OK;
}

int32_t tes_core_task_add(struct tes_core *core,
			  const struct tes_core_task_want *want)
{
	struct plan plan = {
		.object = want->object,
		.kind = want->kind,
		.cookie = want->cookie,
		.move = want->source != NULL,
		.n_targets = 1,
	};
	struct tes_task *t;

	if (want->source && !tes_core_object_on(want->object, want->source))
		return CODE_NO_REPLICA;
	if (want->target && tes_core_object_on(want->object, want->target))
		return CODE_REPLICA_EXISTS;
	if (want->source)
		plan.source.serial = want->source->serial;
	if (want->target)
		plan.targets[0].serial = want->target->serial;
	return add_task(core, &plan, &t);
}

/* ---- what clients ask ---- */

/* Some mount is called @name, and has a replica of @o unless that is NULL. */
static bool is_mounted(const struct tes_core *core, const char *name,
		       const struct tes_object *o)
{
	for (size_t i = 0; i < core->n_mounts; i++)
		if (strcmp(core->mounts[i]->name, name) == 0 &&
		    (!o || tes_core_object_on(o, core->mounts[i])))
			return true;
	return false;
}

static int32_t check_task(const struct tes_core *core,
			  const struct tes_event *ev,
			  const struct tes_object *o)
{
	const char *const *targets = ev->u.task_create.targets;
	const char *source = ev->u.task_create.source;
	size_t n = ev->u.task_create.n_targets;

	if (!n || n > TES_CORE_TARGETS_MAX ||
	    (ev->u.task_create.move && (n != 1 || !source)))
		return CODE_ARGUMENT;
	if (!o || !tes_core_object_live(o))
		return CODE_NOT_FOUND;
	if (o->state == TES_OBJECT_BUILDING)
		return CODE_NOT_READY;
	for (size_t i = 0; i < n; i++)
		if (!is_mounted(core, targets[i], NULL))
			return CODE_NO_SEGMENT;
	if (!ev->u.task_create.move)
		return CODE_OK;
	if (!is_mounted(core, source, NULL))
		return CODE_NO_SEGMENT;
	if (strcmp(source, targets[0]) == 0)
		return CODE_ARGUMENT;
	return is_mounted(core, source, o) ? CODE_OK : CODE_NO_REPLICA;
}

void tes_core_on_task_create(struct tes_core *core, const struct tes_event *ev,
			     const struct tes_session *s,
			     struct tes_action *reply)
{
	struct plan plan = {.kind = TES_TASK_USER};
	struct tes_object *o = NULL;
	struct tes_task *t;
	int32_t code = CODE_ARGUMENT;

	if (ev->n == 1 && tes_core_key_valid(&ev->keys[0])) {
		o = tes_core_object_find(
			core, s->tenant->index, &ev->keys[0],
			tes_core_hash_of(core, s->tenant->index,
					 ev->keys[0].bytes, ev->keys[0].len));
		o = tes_core_object_now(core, o);
		code = check_task(core, ev, o);
	}
	if (!code) {
		plan.object = o;
		plan.move = ev->u.task_create.move;
		if (plan.move)
			plan.source.name = ev->u.task_create.source;
		plan.n_targets = ev->u.task_create.n_targets;
		for (size_t i = 0; i < plan.n_targets; i++)
			plan.targets[i].name = ev->u.task_create.targets[i];
		code = add_task(core, &plan, &t);
	}
	reply->u.reply.code = code;
	if (code)
		return;
	tes_core_task_id(core, t, 0, reply->u.reply.task->id);
	tes_core_tasks_choose(core);
}

void tes_core_on_task_query(struct tes_core *core, const struct tes_event *ev,
			    const struct tes_session *s,
			    struct tes_action *reply)
{
	struct tes_core_task *out = reply->u.reply.task;
	const struct tes_task *t = NULL;
	uint16_t attempt = 0;

	if (ev->u.task_query.id)
		t = tes_core_task_find(core, ev->u.task_query.id, &attempt);
	if (!t || attempt || t->kind != TES_TASK_USER ||
	    t->tenant != s->tenant->index) {
		reply->u.reply.code = CODE_NO_TASK;
		return;
	}
	tes_core_task_id(core, t, 0, out->id);
	out->move = t->move;
	out->state = t->state;
	out->code = t->code;
	out->created_ms = t->created_ms;
	out->updated_ms = t->updated_ms;
	out->assigned = t->assigned;
	memcpy(out->client, t->client, sizeof(out->client));
	snprintf(out->message, sizeof(out->message), "%s", t->message);
}
