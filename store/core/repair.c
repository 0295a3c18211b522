/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repair.c - replicas that were lost with their mount are made again
 *
 * As tasks, of which a bounded number waits at a time. Objects that find no
 * place are marked; a walk over the table finds them when there is room again.
 * An object that was put with fewer replicas than asked for, since space was
 * short, is as it is: what counts is what it had.
 */
#include "store/core/repair.h"

#include "store/core/codes.h"
#include "store/core/object.h"
#include "store/core/state.h"
#include "store/core/task.h"
#include "store/core/tasks.h"

/* That wait; the walk looks for others below half of it. */
#define WAITING_MAX 1024u

static bool add_repair(struct tes_core *core, struct tes_object *o)
{
	struct tes_core_task_want want = {.object = o, .kind = TES_TASK_REPAIR};

	return core->tasks.n_pending[1] < WAITING_MAX &&
	       tes_core_task_add(core, &want) == CODE_OK;
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

void tes_core_repair_over(struct tes_core *core, int32_t code)
{
	core->figures.replicas_remade_total += !code;
	core->figures.replicas_given_up_total += code && code != CODE_TASK;
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
