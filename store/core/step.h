/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.h - one event on its way through the core
 *
 * tes_core_step() fills a step, calls the event's handler of the table in
 * core.c, and sends what has become due. Handlers are below, by the file that
 * defines them. They return 0, or -ENOMEM when the arena is full: then the
 * state is as it was and no action was appended.
 */
#ifndef STORE_CORE_STEP_H
#define STORE_CORE_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/core/core.h"

struct tes_object;
struct tes_session;
struct tes_starts;
struct tes_waiter;

/* Soft pins last at most a day when the configuration sets no limit. */
#define TES_CORE_PIN_MAX_MS 86400000u

/* Entries of a reply; the keys after them get one replica each. */
#define TES_CORE_ENTRIES_MANY 65536

/* Treatment of an event, and columns of its reply. */
enum tes_step_flags {
	/* The reply goes with this step, or waits for burials. */
	TES_STEP_ANSWERED = 1u << 0,
	/* Runs even when no session sent the event. */
	TES_STEP_ANYBODY = 1u << 1,
	/* Gets no reply; ignored when the session has ended. */
	TES_STEP_NOTE = 1u << 2,
	/* Shows that the client of the session lives. */
	TES_STEP_SIGN_OF_LIFE = 1u << 3,
	/* Refused without 1 .. BATCH_MAX keys, unless it may have none. */
	TES_STEP_KEYS = 1u << 4,
	TES_STEP_MAY_BE_EMPTY = 1u << 5,
	/* Refused when the session's tenant has no quota any more. */
	TES_STEP_TENANT = 1u << 6,
	TES_STEP_STATUS = 1u << 7, /* column: status */
	TES_STEP_PLACES = 1u << 8, /* columns: where each key's extents lie */
	TES_STEP_SIZES = 1u << 9,  /* column: size */
	TES_STEP_CHECKSUMS = 1u << 10, /* columns: crc, no_crc, unverified */
	TES_STEP_TASK = 1u << 11,      /* one task */
	TES_STEP_DRAIN = 1u << 12,     /* one drain */
};

/* Capacity of the reply's columns of entries and of segments. */
struct tes_reply_room {
	size_t entries, names;
	struct tes_core_segment_name *segments;
};

struct tes_step {
	struct tes_core *core;
	const struct tes_event *ev;
	struct tes_session *session; /* sender; NULL: none, or ended */
	size_t from, to;     /* keys that this step handles: all, or a part */
	uint64_t generation; /* the last one before the event */
	unsigned int flags;  /* enum tes_step_flags, of the event */
	struct tes_actions *out;
	int32_t code; /* refused with it, when not 0 */
	/* Columns are there, zeroed; NULL before tes_core_reply(). */
	struct tes_action *reply;
	struct tes_reply_room room;
	struct tes_waiter *waiter; /* burials that the reply has to wait for */
	struct tes_starts *starts; /* PUT_START's */
	/* Objects that became readable, or got a replica: their owners learn of
	 * them at the end of the step. NULL: no room, owners are resynced. */
	struct tes_object **committed;
	size_t n_committed;
};

/* announce.c */
/* Room for @n committed objects. -ENOMEM: the arena is full. */
int tes_core_commits_reserve(struct tes_step *step, size_t n);
/* @o is READY, or has a further replica: there is room for it. */
void tes_core_commit(struct tes_step *step, struct tes_object *o);

/* fence.c: burials */
/* Returns the step's waiter, created by the first call. NULL: no memory. */
struct tes_waiter *tes_core_step_waiter(struct tes_step *step);
/* Sends the event's reply off, or leaves it to wait for burials. */
void tes_core_waiter_end(struct tes_step *step);

/* session.c */
int tes_core_on_join(struct tes_step *step);
int tes_core_on_heartbeat(struct tes_step *step);
int tes_core_on_leave(struct tes_step *step);
int tes_core_on_report(struct tes_step *step);
int tes_core_on_probed(struct tes_step *step);
/* mount.c */
int tes_core_on_mount(struct tes_step *step);
int tes_core_on_unmount(struct tes_step *step);
/* put.c */
int tes_core_prepare_put_start(struct tes_step *step);
int tes_core_on_put_start(struct tes_step *step);
int tes_core_prepare_put_end(struct tes_step *step);
int tes_core_on_put_end(struct tes_step *step);
/* lookup.c */
int tes_core_on_lookup(struct tes_step *step);
int tes_core_on_release(struct tes_step *step);
int tes_core_on_exist(struct tes_step *step);
int tes_core_on_size(struct tes_step *step);
/* remove.c */
int tes_core_on_remove(struct tes_step *step);
int tes_core_on_replica_clear(struct tes_step *step);
int tes_core_on_remove_all(struct tes_step *step);
/* fence.c */
int tes_core_on_fenced(struct tes_step *step);
/* offer.c */
int tes_core_on_offer(struct tes_step *step);
/* task.c and copy.c */
int tes_core_on_task_create(struct tes_step *step);
int tes_core_on_task_query(struct tes_step *step);
int tes_core_prepare_task_done(struct tes_step *step);
int tes_core_on_task_done(struct tes_step *step);
/* drain.c */
int tes_core_on_drain_create(struct tes_step *step);
int tes_core_on_drain_query(struct tes_step *step);
int tes_core_on_drain_cancel(struct tes_step *step);
int tes_core_on_drain_leave(struct tes_step *step);
/* evict.c */
int tes_core_on_make_room(struct tes_step *step);

#endif
