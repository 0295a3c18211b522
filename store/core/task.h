/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.h - tasks: further replicas of objects, and moved ones
 *
 * Parts of the core that need copies request tasks. A task is about one object,
 * which has at most one at a time. It waits (PENDING) until a mount has room
 * and an owner with a whole replica is free to make the copy; none of that
 * evicts anything. While the copy is made (PROCESSING) the object is BUSY: not
 * evicted, not removed, not replaced. A copy counts once its bytes were
 * checked.
 */
#ifndef STORE_CORE_TASK_H
#define STORE_CORE_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "store/core/core.h"

struct tes_action;
struct tes_actions;
struct tes_core;
struct tes_event;
struct tes_extent;
struct tes_mount;
struct tes_object;
struct tes_session;

enum tes_task_kind {
	TES_TASK_USER,   /* somebody may ask about it */
	TES_TASK_DRAIN,  /* empties a mount */
	TES_TASK_REPAIR, /* replaces a replica that was lost with its mount */
	TES_TASK_HOT,    /* adds a replica to a hot object */
};

struct tes_task_request {
	struct tes_object *object; /* READY */
	enum tes_task_kind kind;
	/* Mount whose replica is given up after the copy; NULL: none. */
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
			  const struct tes_task_request *request);

/* ---- tasks and their states: for task.c and copy.c ---- */

/* Target of a copy, or source of a move: one mount, any of a name, any. */
struct tes_task_place {
	uint64_t serial;  /* mount's, or 0 */
	const char *name; /* task's own; or NULL */
};

struct tes_task {
	struct tei_hash_node by_number, by_object;
	struct tei_list link;      /* in a list of tes_tasks, by state */
	struct tei_list at;        /* executor's tasks */
	struct tei_list unsent;    /* tes_tasks' */
	struct tes_object *object; /* NULL: it is no more */
	struct tes_object *copy;   /* there while an executor works on it */
	struct tes_session *executor;
	struct tes_session *asker; /* of USER; NULL: it is no more */
	struct tei_list of_asker;
	uint64_t number, cookie;
	uint64_t since_ms, not_before_ms;
	uint64_t created_ms, updated_ms; /* caller's clock */
	uint16_t attempt;
	uint8_t kind, state; /* enum tes_task_kind, enum tes_task_state */
	bool move, assigned;
	uint16_t tenant; /* may ask about it */
	uint8_t lost;    /* more replicas that its object lost meanwhile */
	uint8_t failed;  /* attempts */
	uint64_t tries;  /* attempts to find room */
	int32_t code;
	uint8_t client[TES_CORE_ID_LEN];
	char message[TES_CORE_MESSAGE_MAX];
	size_t bytes; /* allocated for all this */
	struct tes_task_place source;
	size_t n_targets, next; /* those before next are done */
	struct tes_task_place targets[];
};

struct tes_tasks {
	struct tei_hash by_number, by_object; /* objects that have a task */
	struct tei_list pending[2]; /* the second are repairs, which yield */
	size_t n_pending[2];
	struct tei_list processing; /* in order of time */
	struct tei_list broken;     /* PROCESSING: to be given up */
	struct tei_list leaving;    /* PROCESSING: moved, its readers remain */
	size_t n_processing;        /* in these three lists */
	struct tei_list finished;   /* oldest first */
	size_t n_finished;
	struct tei_list unsent;
	uint64_t number; /* number of the last task */
	size_t n_short;  /* objects of that flag */
	size_t cursor;   /* walk that looks for them */
};

int tes_core_tasks_init(struct tes_core *core);
void tes_core_tasks_fini(struct tes_core *core);
/* @s is no more: the tasks that it has asked for are nobody's. */
void tes_core_tasks_leave(struct tes_session *s);
/* Task of @o; NULL: it has none. */
struct tes_task *tes_core_task_of(const struct tes_core *core,
				  const struct tes_object *o);
/* NULL: no such number. */
struct tes_task *tes_core_task_find(const struct tes_core *core,
				    const uint8_t *id, uint16_t *attempt);
/* Id of an attempt; attempt 0: of the task. */
void tes_core_task_id(const struct tes_core *core, const struct tes_task *t,
		      uint16_t attempt, uint8_t *id);
/* Makes @t wait (again), for @wait_ms at least. */
void tes_core_task_wait(struct tes_core *core, struct tes_task *t,
			uint64_t wait_ms);
/* PROCESSING, in @list of tes_tasks. */
void tes_core_task_work(struct tes_core *core, struct tes_task *t,
			struct tei_list *list);
/* Ends @t. It has no copy any more, and may itself be freed. */
void tes_core_task_end(struct tes_core *core, struct tes_task *t, int32_t code);
/* @o, which is TASKED or SHORT, is being forgotten. */
void tes_core_task_orphan(struct tes_core *core, struct tes_object *o);
/* Called when a COPY is being forgotten, whatever the reason. */
void tes_core_task_unbuilt(struct tes_core *core,
			   const struct tes_object *copy);
/* Moves the task of @old, if it is about the key, to READY @o, which takes the
 * place of @old. */
void tes_core_task_inherit(struct tes_core *core, struct tes_object *old,
			   struct tes_object *o);

/* ---- running copies: source, target, owner ---- */

/* Tasks that one owner works on at a time. */
#define TES_CORE_TASKS_EACH 4

/* Begin with some of those that wait. */
void tes_core_tasks_choose(struct tes_core *core);
/* Begin, time out and settle tasks. */
void tes_core_tasks_tick(struct tes_core *core, unsigned int *budget);
void tes_core_tasks_flush(struct tes_core *core, struct tes_actions *out);
/* Makes every task that @s works on due to be sent (again). */
void tes_core_tasks_resend(struct tes_core *core, struct tes_session *s);

/* Give up what @o, which is BUSY, is copied to. -ENOMEM: nothing changed. */
int tes_core_task_abort(struct tes_core *core, struct tes_object *o);

/* Makes a lost replica of @o again, which has others. */
void tes_core_repair(struct tes_core *core, struct tes_object *o);
/* Queue some of those that found no place in the queue. */
void tes_core_repair_some(struct tes_core *core, unsigned int *budget);

#endif
