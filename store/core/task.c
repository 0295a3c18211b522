/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.c - tasks: requests, states, ends; repairs of lost replicas
 *
 * A task is in one list of struct tes_tasks, by its state, and in the table of
 * tasked objects as long as its object is there. When an object or a copy is
 * forgotten its task only changes its list; it ends in a tick or with an
 * answer, where the part that requested it may be called. copy.c does the work.
 *
 * Replicas that were lost with their mount are made again by tasks, of which a
 * bounded number waits at a time. Objects that find no place are marked; a walk
 * over the table finds them when there is room again. An object that was put
 * with fewer replicas than asked for, since space was short, stays as it is.
 */
#include "store/core/task.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/core/drain.h"
#include "store/core/epoch.h"
#include "store/core/evict.h"
#include "store/core/hot.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/session.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/tenant.h"

#define NUMBER_BITS 48

/* Limit of waiting repairs; the walk looks for others below half of it. */
#define WAITING_MAX 1024u

/* ---- all tasks ---- */

int tes_core_tasks_init(struct tes_core *core)
{
	struct tes_tasks *all = &core->tasks;

	tei_list_init(&all->pending[0]);
	tei_list_init(&all->pending[1]);
	tei_list_init(&all->processing);
	tei_list_init(&all->broken);
	tei_list_init(&all->leaving);
	tei_list_init(&all->finished);
	tei_list_init(&all->unsent);
	if (tei_hash_init(&all->by_number) < 0)
		return -ENOMEM;
	if (tei_hash_init(&all->by_object) < 0) {
		tei_hash_fini(&all->by_number);
		return -ENOMEM;
	}
	return 0;
}

static void free_task(struct tei_hash_node *node, void *arg)
{
	struct tes_core *core = arg;
	struct tes_task *t = TEI_CONTAINER(node, struct tes_task, by_number);

	tei_list_del(&t->of_asker);
	if (t->copy)
		tes_core_object_free(core, t->copy);
	tei_free(t);
}

void tes_core_tasks_fini(struct tes_core *core)
{
	struct tes_tasks *all = &core->tasks;
	size_t cursor = 0;

	while (tei_hash_walk(&all->by_number, &cursor, SIZE_MAX, free_task,
			     core))
		;
	tei_hash_fini(&all->by_number);
	tei_hash_fini(&all->by_object);
}

struct tes_task *tes_core_task_of(const struct tes_core *core,
				  const struct tes_object *o)
{
	struct tei_hash_node *n;

	if (!(o->flags & TES_OBJECT_TASKED))
		return NULL;
	n = tei_hash_first(&core->tasks.by_object, o->node.hash);
	for (; n; n = tei_hash_next(&core->tasks.by_object, n)) {
		struct tes_task *t =
			TEI_CONTAINER(n, struct tes_task, by_object);

		if (t->object == o)
			return t;
	}
	return NULL;
}

void tes_core_tasks_leave(struct tes_session *s)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&s->asked)))
		tei_list_entry(node, struct tes_task, of_asker)->asker = NULL;
}

static struct tes_task *find_by_number(const struct tes_core *core,
				       uint64_t number)
{
	struct tei_hash_node *n =
		tei_hash_first(&core->tasks.by_number, number);

	return n ? TEI_CONTAINER(n, struct tes_task, by_number) : NULL;
}

void tes_core_task_id(const struct tes_core *core, const struct tes_task *t,
		      uint16_t attempt, uint8_t *id)
{
	tes_core_id_of(core, (uint64_t)attempt << NUMBER_BITS | t->number, id);
}

struct tes_task *tes_core_task_find(const struct tes_core *core,
				    const uint8_t *id, uint16_t *attempt)
{
	uint64_t low;

	if (!tes_core_id_number(core, id, &low))
		return NULL;
	*attempt = (uint16_t)(low >> NUMBER_BITS);
	return find_by_number(core, low & (((uint64_t)1 << NUMBER_BITS) - 1));
}

/* ---- a task is added ---- */

struct task_plan {
	struct tes_object *object;
	struct tes_session *asker; /* of USER */
	enum tes_task_kind kind;
	uint64_t cookie;
	bool move;
	struct tes_task_place source, targets[TES_CORE_TARGETS_MAX];
	size_t n_targets;
};

static size_t name_bytes(const struct tes_task_place *p)
{
	return p->name ? strlen(p->name) + 1 : 0;
}

/* Copies @p; its name is put at *@at. */
static struct tes_task_place copy_place(const struct tes_task_place *p,
					char **at)
{
	size_t len = name_bytes(p);
	struct tes_task_place copy = *p;

	if (!len)
		return copy;
	memcpy(*at, p->name, len);
	copy.name = *at;
	*at += len;
	return copy;
}

/* NULL: no memory. */
static struct tes_task *create_task(const struct task_plan *plan)
{
	size_t targets = plan->n_targets * sizeof(plan->targets[0]);
	size_t bytes =
		sizeof(struct tes_task) + targets + name_bytes(&plan->source);
	struct tes_task *t;
	char *names;

	for (size_t i = 0; i < plan->n_targets; i++)
		bytes += name_bytes(&plan->targets[i]);
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
	tei_list_init(&t->of_asker);
	t->asker = plan->asker;
	if (t->asker)
		tei_list_add_tail(&t->asker->asked, &t->of_asker);
	return t;
}

static bool yields_to(const struct tes_task *t, enum tes_task_kind to)
{
	return t->state == TES_TASK_PENDING &&
	       (t->kind == TES_TASK_REPAIR || t->kind == TES_TASK_HOT) &&
	       (to == TES_TASK_USER || to == TES_TASK_DRAIN);
}

/*
 * Tells whether one more task of @asker, or NULL, may wait. Where all places
 * are taken, each client may still have its share of as many: so none that
 * takes all keeps the others out.
 */
static bool may_wait(const struct tes_core *core,
		     const struct tes_session *asker)
{
	const struct tes_tasks *all = &core->tasks;
	uint64_t most = core->config.tasks_pending_max;
	uint64_t share;

	if (all->n_pending[0] + all->n_pending[1] < most)
		return true;
	if (!most || !asker)
		return false;
	share = most / core->figures.sessions;
	return asker->n_waiting < (share ? share : 1);
}

static size_t *pending_count(struct tes_core *core, const struct tes_task *t)
{
	return &core->tasks.n_pending[t->kind == TES_TASK_REPAIR];
}

static void enter_pending(struct tes_core *core, struct tes_task *t)
{
	t->state = TES_TASK_PENDING;
	t->since_ms = core->now_ms;
	++*pending_count(core, t);
	if (t->asker)
		t->asker->n_waiting++;
	tei_list_add_tail(&core->tasks.pending[t->kind == TES_TASK_REPAIR],
			  &t->link);
}

static void attach_object(struct tes_core *core, struct tes_task *t,
			  struct tes_object *o)
{
	t->object = o;
	o->flags |= TES_OBJECT_TASKED;
	tei_hash_insert(&core->tasks.by_object, &t->by_object, o->node.hash);
}

/* Registers a new task about @o, which waits. */
static void register_task(struct tes_core *core, struct tes_task *t,
			  struct tes_object *o)
{
	t->number = ++core->tasks.number;
	t->created_ms = t->updated_ms = core->last_ms;
	core->heap_bytes += t->bytes;
	tei_hash_insert(&core->tasks.by_number, &t->by_number, t->number);
	attach_object(core, t, o);
	enter_pending(core, t);
}

static int32_t add_task(struct tes_core *core, const struct task_plan *plan,
			struct tes_task **out)
{
	struct tes_task *old = tes_core_task_of(core, plan->object), *t;

	if (old && !yields_to(old, plan->kind))
		return CODE_TASK;
	if (!old && !may_wait(core, plan->asker))
		return CODE_TASKS_FULL;
	t = create_task(plan);
	if (!t)
		return CODE_INTERNAL;
	if (old) {
		t->lost = (uint8_t)(old->lost + (old->kind == TES_TASK_REPAIR));
		old->lost = 0;
		tes_core_task_end(core, old, CODE_TASK);
	}
	register_task(core, t, plan->object);
	*out = t;
	return CODE_OK;
}

int32_t tes_core_task_add(struct tes_core *core,
			  const struct tes_task_request *request)
{
	struct task_plan plan = {
		.object = request->object,
		.kind = request->kind,
		.cookie = request->cookie,
		.move = request->source != NULL,
		.n_targets = 1,
	};
	struct tes_task *t;

	if (request->source &&
	    !tes_core_object_on(request->object, request->source))
		return CODE_NO_REPLICA;
	if (request->target &&
	    tes_core_object_on(request->object, request->target))
		return CODE_REPLICA_EXISTS;
	if (request->source)
		plan.source.serial = request->source->serial;
	if (request->target)
		plan.targets[0].serial = request->target->serial;
	return add_task(core, &plan, &t);
}

/* ---- clients create tasks and ask about them ---- */

/* True: some mount called @name has a replica of @o. */
static bool is_on_named(const struct tes_core *core, const struct tes_object *o,
			const char *name)
{
	const struct tes_mount *m = tes_core_mount_named(core, name);

	while (m && !tes_core_object_on(o, m))
		m = tes_core_mount_namesake(m);
	return m != NULL;
}

static int32_t check_target(const struct tes_core *core, const char *name)
{
	const struct tes_mount *m = tes_core_mount_named(core, name);

	if (!m)
		return CODE_NO_SEGMENT;
	for (; m; m = tes_core_mount_namesake(m))
		if (m->status == TES_CORE_SEGMENT_OK)
			return CODE_OK;
	return CODE_NOT_NOW;
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
	for (size_t i = 0; i < n; i++) {
		int32_t code = check_target(core, targets[i]);

		if (code)
			return code;
	}
	if (!ev->u.task_create.move)
		return CODE_OK;
	if (!tes_core_mount_named(core, source))
		return CODE_NO_SEGMENT;
	if (strcmp(source, targets[0]) == 0)
		return CODE_ARGUMENT;
	return is_on_named(core, o, source) ? CODE_OK : CODE_NO_REPLICA;
}

int tes_core_on_task_create(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	const struct tes_session *s = step->session;
	struct tes_action *reply = step->reply;
	struct task_plan plan = {.kind = TES_TASK_USER, .asker = step->session};
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
		return 0;
	tes_core_task_id(core, t, 0, reply->u.reply.task->id);
	tes_core_tasks_choose(core);
	return 0;
}

int tes_core_on_task_query(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	const struct tes_session *s = step->session;
	struct tes_core_task *out = step->reply->u.reply.task;
	const struct tes_task *t = NULL;
	uint16_t attempt = 0;

	if (ev->u.task_query.id)
		t = tes_core_task_find(core, ev->u.task_query.id, &attempt);
	if (!t || attempt || t->kind != TES_TASK_USER ||
	    t->tenant != s->tenant->index) {
		step->reply->u.reply.code = CODE_NO_TASK;
		return 0;
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
	return 0;
}

/* ---- states ---- */

/* Takes @t out of the list of its state. */
static void leave_state(struct tes_core *core, struct tes_task *t)
{
	tei_list_del(&t->link);
	if (t->state == TES_TASK_PENDING) {
		--*pending_count(core, t);
		if (t->asker)
			t->asker->n_waiting--;
	} else if (t->state == TES_TASK_PROCESSING) {
		core->tasks.n_processing--;
	}
	t->updated_ms = core->last_ms;
}

void tes_core_task_wait(struct tes_core *core, struct tes_task *t,
			uint64_t wait_ms)
{
	t->not_before_ms = core->now_ms + wait_ms;
	if (t->state == TES_TASK_PENDING)
		return;
	leave_state(core, t);
	enter_pending(core, t);
}

void tes_core_task_work(struct tes_core *core, struct tes_task *t,
			struct tei_list *list)
{
	leave_state(core, t);
	t->state = TES_TASK_PROCESSING;
	t->since_ms = core->now_ms;
	core->tasks.n_processing++;
	tei_list_add_tail(list, &t->link);
}

/* ---- the object or the copy changes ---- */

static void detach_object(struct tes_core *core, struct tes_task *t)
{
	tei_hash_remove(&core->tasks.by_object, &t->by_object);
	t->object->flags &= (uint16_t)~TES_OBJECT_TASKED;
	t->object = NULL;
}

void tes_core_task_orphan(struct tes_core *core, struct tes_object *o)
{
	struct tes_task *t = tes_core_task_of(core, o);

	core->tasks.n_short -= (o->flags & TES_OBJECT_SHORT) != 0;
	if (!t)
		return;
	detach_object(core, t);
	tei_list_del(&t->unsent);
	if (t->copy)
		tes_core_task_work(core, t, &core->tasks.broken);
}

void tes_core_task_unbuilt(struct tes_core *core, const struct tes_object *copy)
{
	struct tes_task *t = find_by_number(core, copy->generation);

	t->copy = NULL;
	t->executor->n_tasks--;
	t->executor = NULL;
	tei_list_del(&t->at);
	tei_list_del(&t->unsent);
	if (t->object)
		tes_core_end_busy(core, t->object);
	tes_core_task_wait(core, t, 0);
}

void tes_core_task_inherit(struct tes_core *core, struct tes_object *old,
			   struct tes_object *o)
{
	struct tes_task *t = tes_core_task_of(core, old);

	if (!t || t->kind != TES_TASK_USER || t->state != TES_TASK_PENDING)
		return;
	detach_object(core, t);
	attach_object(core, t, o);
	/* The new object has no replica from it yet, and has lost nothing. */
	t->next = 0;
	t->tries = 0;
	t->lost = t->failed = 0;
}

/* ---- a task ends ---- */

static void forget_task(struct tes_core *core, struct tes_task *t)
{
	tei_list_del(&t->link);
	tei_list_del(&t->of_asker);
	tei_hash_remove(&core->tasks.by_number, &t->by_number);
	core->heap_bytes -= t->bytes;
	tei_free(t);
}

static void remember_task(struct tes_core *core, struct tes_task *t)
{
	struct tes_tasks *all = &core->tasks;

	tei_list_add_tail(&all->finished, &t->link);
	all->n_finished++;
	while (all->n_finished > core->config.tasks_finished_max) {
		all->n_finished--;
		forget_task(core, tei_list_entry(all->finished.next,
						 struct tes_task, link));
	}
}

/* Text for people, unless the executor has given its own. */
static const char *failure_text(int32_t code)
{
	switch (code) {
	case CODE_OK:
		return "";
	case CODE_NO_SEGMENT:
		return "the target is not mounted";
	case CODE_FULL:
		return "the target has no room";
	case CODE_TASK:
		return "another task took its place";
	case CODE_NOT_FOUND:
		return "the object is no more";
	case CODE_NO_REPLICA:
		return "the source has no replica of it";
	case CODE_REPLICA_EXISTS:
		return "the target has a replica of it";
	case CODE_CHECKSUM:
		return "the copy does not agree with the checksum";
	case CODE_TIMEOUT:
		return "it took too long";
	default:
		return "the copy failed";
	}
}

static void count_repair(struct tes_core *core, int32_t code)
{
	core->figures.replicas_remade_total += !code;
	core->figures.replicas_given_up_total += code && code != CODE_TASK;
}

/* Reports the end of a task: 0, or the code. @object: NULL when it is no more.
 * Callees may add tasks, but must not touch objects otherwise. */
static void notify_task_end(struct tes_core *core, enum tes_task_kind kind,
			    uint64_t cookie, struct tes_object *object,
			    int32_t code)
{
	switch (kind) {
	case TES_TASK_REPAIR:
		count_repair(core, code);
		break;
	case TES_TASK_DRAIN:
		tes_core_drain_over(core, cookie, object, code);
		break;
	case TES_TASK_USER: /* asks */
		break;
	case TES_TASK_HOT:
		tes_core_hot_over(core, object, code);
		break;
	}
}

void tes_core_task_end(struct tes_core *core, struct tes_task *t, int32_t code)
{
	struct tes_object *o = t->object;
	enum tes_task_kind kind = t->kind;
	uint64_t cookie = t->cookie;
	uint8_t lost = t->lost;

	leave_state(core, t);
	if (o) {
		detach_object(core, t);
		tes_core_end_busy(core, o);
	}
	t->state = code ? TES_TASK_FAILED : TES_TASK_SUCCESS;
	t->code = code;
	if (!*t->message)
		snprintf(t->message, sizeof(t->message), "%s",
			 failure_text(code));
	core->figures.tasks_succeeded_total += !code;
	core->figures.tasks_failed_total += code != 0;
	if (kind == TES_TASK_USER)
		remember_task(core, t);
	else
		forget_task(core, t);
	while (o && lost--)
		tes_core_repair(core, o);
	notify_task_end(core, kind, cookie, o, code);
}

/* ---- repairs ---- */

static bool add_repair(struct tes_core *core, struct tes_object *o)
{
	struct tes_task_request request = {.object = o,
					   .kind = TES_TASK_REPAIR};

	return core->tasks.n_pending[1] < WAITING_MAX &&
	       tes_core_task_add(core, &request) == CODE_OK;
}

void tes_core_repair(struct tes_core *core, struct tes_object *o)
{
	struct tes_task *t = tes_core_task_of(core, o);

	if (t && t->lost < TES_CORE_REPLICAS_MAX) {
		t->lost++;
		return;
	}
	if (t || add_repair(core, o) || (o->flags & TES_OBJECT_SHORT))
		return;
	o->flags |= TES_OBJECT_SHORT;
	core->tasks.n_short++;
}

static void repair_if_short(struct tei_hash_node *node, void *arg)
{
	struct tes_core *core = arg;
	struct tes_object *o = TEI_CONTAINER(node, struct tes_object, node);

	if (!(o->flags & TES_OBJECT_SHORT) || (o->flags & TES_OBJECT_TASKED) ||
	    !add_repair(core, o))
		return;
	o->flags &= (uint16_t)~TES_OBJECT_SHORT;
	core->tasks.n_short--;
}

void tes_core_repair_some(struct tes_core *core, unsigned int *budget)
{
	struct tes_tasks *all = &core->tasks;

	if (!core->config.tasks_pending_max)
		return;
	while (*budget && all->n_short && all->n_pending[1] < WAITING_MAX / 2) {
		if (!tei_hash_walk(&core->objects, &all->cursor, 1,
				   repair_if_short, core))
			all->cursor = 0;
		--*budget;
	}
}
