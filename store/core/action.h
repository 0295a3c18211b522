/* SPDX-License-Identifier: Apache-2.0 */
/*
 * action.h - what the core answers, and what it tells others
 *
 * What can be asked about tasks and drains is here, too: replies point to it.
 */
#ifndef STORE_CORE_ACTION_H
#define STORE_CORE_ACTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "store/core/event.h"

enum tes_task_state {
	TES_TASK_PENDING,
	TES_TASK_PROCESSING,
	TES_TASK_SUCCESS,
	TES_TASK_FAILED,
};

/* What can be asked about a task. Times are those of tes_core_step(). */
struct tes_core_task {
	uint8_t id[TES_CORE_ID_LEN];
	bool move;
	enum tes_task_state state;
	int32_t code; /* FAILED: why */
	uint64_t created_ms, updated_ms;
	bool assigned;
	uint8_t client[TES_CORE_ID_LEN]; /* who executes it, or did */
	char message[TES_CORE_MESSAGE_MAX];
};

/* Mooncake's numbers. */
enum tes_drain_state {
	TES_DRAIN_CREATED,
	TES_DRAIN_PLANNING, /* what is there is being counted */
	TES_DRAIN_RUNNING,
	TES_DRAIN_SUCCEEDED,
	TES_DRAIN_FAILED,
	TES_DRAIN_CANCELED,
};

/*
 * What can be asked about a drain. It counts replicas; one that is blocked (has
 * a lease, is pinned hard, unfinished, in other hands) is tried again and again,
 * one that could not be moved three times more before it is given up. Times are
 * those of tes_core_step().
 */
struct tes_core_drain {
	uint8_t id[TES_CORE_ID_LEN]; /* zeros: of one that leaves */
	enum tes_drain_state state;
	int32_t code; /* FAILED: why */
	uint64_t created_ms, updated_ms;
	uint64_t total; /* when they were counted */
	uint64_t moved, moved_bytes;
	uint64_t active; /* waiting for their task or being moved */
	/* When last looked at: given up, blocked, still there at all. */
	uint64_t failed, blocked, left;
	const char *const *segments; /* the core's, until the next step */
	size_t n_segments;           /* of one that leaves: 0 */
	char message[TES_CORE_MESSAGE_MAX];
};

enum tes_action_type {
	TES_ACTION_REPLY, /* to the event: columns below */
	TES_ACTION_FENCE, /* tell the owner's session to revoke a writer */
	TES_ACTION_CLOSE, /* drop this session's connections: it is gone */
	TES_ACTION_TASK,  /* tell an owner's session to copy an object */
	TES_ACTION_BURY,  /* tell the owner's session to void headers */
	TES_ACTION_PROBE, /* ask the owner's session whether it is there */
	TES_ACTION_OWNER, /* for the log: what became of an owner */
	/* Tell the owner's session what it has. To be sent before the replies
	 * of the step: what was acknowledged is known to its owner. */
	TES_ACTION_COMMITTED,
};

enum tes_owner_news {
	TES_OWNER_SILENT, /* its objects are misses until it is back */
	TES_OWNER_BACK,
	TES_OWNER_GONE, /* with its objects */
};

struct tes_core_segment_name {
	const char *engine;
	const uint8_t *incarnation; /* [TES_CORE_ID_LEN] */
};

/*
 * Arrays are in the actions' arena and live until its reset; strings and
 * incarnations that they name are the core's and live until the next step.
 * Columns that the event's reply does not need are NULL, and so are extents,
 * replica and length when every key has one entry.
 */
struct tes_action {
	enum tes_action_type type;
	tes_session_id session; /* whom it goes to */
	uint64_t cookie;        /* replies: of the event */
	union {
		struct {
			enum tes_event_type of;
			int32_t code; /* of the whole call; columns when 0 */
			size_t n;
			int32_t *status; /* status[n] */
			uint64_t *size;
			uint64_t *generation, *gen_epoch;
			bool *no_crc;     /* NULL: all have one */
			bool *unverified; /* NULL: none is */
			uint32_t *extents;
			/* Per entry; n of them when extents is NULL. */
			size_t n_entries;
			uint32_t *segment; /* index into segments */
			uint64_t *address; /* of the extent's header */
			uint32_t *replica;
			uint64_t *length;
			uint32_t *crc;
			const struct tes_core_segment_name *segments;
			size_t n_segments;
			uint32_t lease_ms;
			/* With a -200: when space may be free; 0: never by
			 * itself; 1 also when eviction has to go on. */
			uint32_t retry_ms;
			bool kept;        /* of a mount: it was there */
			uint64_t removed; /* of remove_all */
			/* Of TASK_*: of a create only its id. */
			struct tes_core_task *task;
			struct tes_core_drain *drain; /* of DRAIN_* */
		} reply;
		struct {
			uint64_t fence;
			const uint8_t *writer; /* incarnation */
		} fence;
		struct {
			uint8_t id[TES_CORE_ID_LEN];    /* of this attempt */
			struct tes_core_objects source; /* one */
			struct tes_core_segment_name target;
			size_t n; /* extents there */
			uint64_t *address, *length;
			uint64_t timeout_ms; /* 0: none */
		} task;
		struct {
			uint64_t burial; /* 0: no answer is wanted */
			size_t n;
			uint64_t *address, *generation, *gen_epoch;
		} bury;
		struct {
			struct tes_core_objects objects;
			/* All that this segment has is told: */
			const uint8_t *segment; /* [TES_CORE_ID_LEN] or NULL */
			bool begins, ends;
		} committed;
		uint64_t probe;
		struct {
			enum tes_owner_news news;
			const char *engine;
			bool left;          /* its connection ended */
			uint64_t silent_ms; /* not heard of, or left, since */
		} owner;
	} u;
};

struct tes_actions {
	struct tei_arena *arena;
	struct tes_action *at; /* at[n]; grown in the arena */
	size_t n, room;
};

#endif
