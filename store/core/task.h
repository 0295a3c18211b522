/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.h - tasks: further replicas of objects, and moved ones
 *
 * For the parts of the core that want copies made. A task is about one object,
 * which has at most one at a time. It waits (PENDING) until a mount has room and
 * an owner with a whole replica is free to make the copy; none of that evicts
 * anything. While the copy is made (PROCESSING) the object is BUSY: not evicted,
 * not removed, not replaced. A copy counts once its bytes were checked.
 */
#ifndef STORE_CORE_TASK_H
#define STORE_CORE_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tes_core;
struct tes_mount;
struct tes_object;

enum tes_task_kind {
	TES_TASK_USER,   /* somebody may ask about it */
	TES_TASK_DRAIN,  /* a mount is to be emptied */
	TES_TASK_REPAIR, /* a replica was lost with its mount */
	TES_TASK_HEAT,   /* it is read much */
};

struct tes_core_task_want {
	struct tes_object *object; /* READY */
	enum tes_task_kind kind;
	/* To be given up after the copy is there; or NULL: nothing is. */
	const struct tes_mount *source;
	/* NULL: any but those it is on, on another machine if there is one. */
	const struct tes_mount *target;
	uint64_t cookie; /* comes back */
};

/*
 * 0; or -708: it has a task, -710: not on @source, -711: it is on @target,
 * -1401: too many wait, -1: no memory. A task of REPAIR or HEAT that only waits
 * yields to one of the other kinds.
 */
int32_t tes_core_task_add(struct tes_core *core,
			  const struct tes_core_task_want *want);

/* How many more may be added now. */
size_t tes_core_task_slots(const struct tes_core *core);

/*
 * A task has ended: 0, or the code. @object: NULL when it is no more. May add
 * tasks, but must not touch objects otherwise. In task.c, by kind.
 */
void tes_core_task_over(struct tes_core *core, enum tes_task_kind kind,
			uint64_t cookie, struct tes_object *object,
			int32_t code);

#endif
