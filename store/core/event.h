/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h - events, which go into the core, and actions, which come out
 *
 * Events are requests, ticks, and changes of connections. Replies point to
 * struct tes_core_task and struct tes_core_drain, the answers to queries.
 */
#ifndef STORE_CORE_EVENT_H
#define STORE_CORE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#define TES_CORE_ID_LEN        16
#define TES_CORE_HEADER_LEN    64 /* bytes of an extent before its data */
#define TES_CORE_KEY_MAX       1024
#define TES_CORE_BATCH_MAX     4096
#define TES_CORE_REPLICAS_MAX  32 /* per object: a bit each */
#define TES_CORE_PREFERRED_MAX 32
#define TES_CORE_HOST_MAX      64
#define TES_CORE_TENANT_MAX    64   /* bytes of a name */
#define TES_CORE_TENANTS_MAX   4096 /* 10 KiB each */
#define TES_CORE_TARGETS_MAX   32   /* per task */
#define TES_CORE_MESSAGE_MAX   96   /* per task, with the 0 at its end */
#define TES_CORE_MOUNTS_MAX    4096 /* all clients' together; 12 KiB each */
#define TES_CORE_MOUNTS_SOURCE 3072 /* of one source's clients */
#define TES_CORE_MOUNTS_EACH   256  /* of one client */
#define TES_CORE_DRAIN_MAX     64   /* segments of a drain job, and targets */
#define TES_CORE_AT_A_TIME_MAX 1024 /* tasks of a drain job */
#define TES_CORE_ROOM_KEYS     64   /* started, of one step of room */

struct tes_core_key {
	const void *bytes; /* bytes[len]; borrowed for the step */
	size_t len;
};

/* A session number is the shell's handle of one client, never reused, not 0. */
typedef uint64_t tes_session_id;

enum tes_event_type {
	TES_EVENT_JOIN,      /* client said hello on its main connection */
	TES_EVENT_HEARTBEAT, /* session is alive */
	TES_EVENT_LEAVE,     /* session's main connection closed */
	TES_EVENT_MOUNT,
	TES_EVENT_UNMOUNT,
	TES_EVENT_PUT_START,
	TES_EVENT_PUT_END,
	TES_EVENT_LOOKUP,
	TES_EVENT_RELEASE,
	TES_EVENT_EXIST,
	TES_EVENT_SIZE,
	TES_EVENT_REMOVE,
	TES_EVENT_REMOVE_ALL, /* reply comes when the walk has ended */
	TES_EVENT_REPLICA_CLEAR,
	TES_EVENT_FENCED,      /* an owner has confirmed (or failed) a fence, or
			   * confirmed a burial */
	TES_EVENT_TASK_CREATE, /* copy or move of one key */
	TES_EVENT_TASK_QUERY,
	TES_EVENT_TASK_DONE,    /* executor's answer to an attempt */
	TES_EVENT_DRAIN_CREATE, /* segments are to be emptied; of any session */
	TES_EVENT_DRAIN_QUERY,
	TES_EVENT_DRAIN_CANCEL,
	/* Sent by an owner that is about to leave: the reply comes when its
	 * segments are as empty as they can be, or the time is over. */
	TES_EVENT_DRAIN_LEAVE,
	TES_EVENT_OFFER,  /* an owner's objects of earlier lives; n may be 0 */
	TES_EVENT_REPORT, /* client reports that an owner does not answer */
	TES_EVENT_PROBED, /* owner answers a probe */
	/* Sent when the starts of @n keys have been answered, and there is time
	 * to make room for the next, as ticks do. Of more keys than
	 * TES_CORE_ROOM_KEYS the rest is left to further events. */
	TES_EVENT_MAKE_ROOM,
	TES_EVENT_TICK, /* every 100 ms or sooner; bounded work */
};

enum tes_core_soft_pin {
	TES_CORE_SOFT_PRESERVE,
	TES_CORE_SOFT_ENABLE,
	TES_CORE_SOFT_DISABLE,
};

/* Placement and retention of new objects; see Replicate in store.proto. */
struct tes_core_replicate {
	uint32_t replica_num;
	uint32_t soft_pin; /* enum tes_core_soft_pin */
	uint64_t soft_pin_ttl_ms;
	uint32_t data_type;
	bool hard_pin, same_node;
	const char *const *preferred; /* preferred[n_preferred] */
	size_t n_preferred;
};

/* True: remove_all removes this key. Adds its cost to *@cost, where looking at
 * an object is 1, some 40 ns; it should take half a ms at most. */
typedef bool tes_core_match_fn(const void *key, size_t len, void *arg,
			       unsigned int *cost);

/*
 * Columns of objects that lie whole in one owner's memory: objects[n], and
 * entries[n_entries], an object's in order of the value.
 */
struct tes_core_objects {
	size_t n, n_entries;
	struct tes_core_key *keys;
	uint64_t *generation, *gen_epoch;
	uint64_t *size;    /* value's */
	uint32_t *extents; /* entries of an object; NULL: one each */
	uint64_t *address; /* extent's header */
	uint64_t *length;  /* bytes of the value in it */
	uint32_t *crc;
	bool *no_crc; /* NULL: all have one */
	/* Tenants: 1 + index into tenants[n_tenants]; 0, or NULL: `default`. */
	uint32_t *tenant;
	const char **tenants;
	size_t n_tenants;
	/* Retention; NULL: nothing special. */
	uint32_t *attributes; /* TES_CORE_PINNED | data type << TYPE_SHIFT */
	uint64_t *pin_ms;     /* pinned softly, for so long; 0: not */
	struct tes_core_key *groups; /* len 0: none */
};

#define TES_CORE_PINNED     1u /* never evicted */
#define TES_CORE_TYPE_SHIFT 8

/*
 * A batch in parts, so that nobody waits for all of it: each step handles the
 * keys from .. to - 1, from 0 on without a gap. The event, the actions and
 * their arena are the same in all steps. The first action is the reply, which
 * grows and which the shell leaves there, until @to is the event's n, or the
 * code of the reply is not 0; what is behind it is carried out and taken off
 * after each step. Others' events may come in between.
 */
struct tes_waiter;
struct tes_core_part {
	size_t from, to; /* from: a multiple of TES_CORE_PART */
	/* The core's own; zeroed before the first step. */
	bool begun;
	size_t entry;          /* PUT_END, OFFER: first of key `from` */
	size_t entries, names; /* room in the reply */
	uint64_t generation;   /* the last one before the event */
	uint16_t epoch;        /* PUT_START: index, held; 0: none yet */
	struct tes_waiter *waiter;
};
#define TES_CORE_PART 32

/* Hold of an owner of the name of its engine, at a master; n 0: none. */
struct tes_core_hold {
	uint64_t life, epoch; /* of the master */
	uint64_t n;           /* higher for what began later in that life */
	bool young; /* it may have to be given back to who was there before */
};

/*
 * An event. Everything pointed to is borrowed for the step. Batches carry n
 * keys, 1 .. TES_CORE_BATCH_MAX (the shell has checked n), and columns[n]; a
 * column that may be NULL says so. Entries are extents, as in store.proto.
 */
struct tes_event {
	enum tes_event_type type;
	tes_session_id session; /* 0 for ticks, and to make room */
	uint64_t cookie;        /* shell's: comes back in the reply */
	size_t n;
	const struct tes_core_key *keys;
	struct tes_core_part *part; /* NULL: all keys in one step */
	union {
		struct {
			const uint8_t *client_id;   /* [TES_CORE_ID_LEN] */
			const uint8_t *incarnation; /* [TES_CORE_ID_LEN] */
			const char *engine;
			const void *host; /* host[host_len], NULL: unknown */
			size_t host_len;
			uint64_t
				source; /* where it has come from; 0: unknown */
			uint64_t epoch; /* latest that it knows of; 0: none */
			bool believed;  /* ours goes on above it */
			/* in an earlier life, and proven */
			struct tes_core_hold held;
			bool buries;   /* learns of commits, confirms burials */
			bool probes;   /* answers probes */
			bool executes; /* tasks */
			const char *tenant; /* NULL or "": `default` */
		} join;
		struct {
			const uint8_t *segment; /* [TES_CORE_ID_LEN] */
			const char *name;
			uint64_t base, size;
			bool offering;     /* its objects follow in offers */
			uint64_t grace_ms; /* unmount only; 0: at once */
		} mount;                   /* unmount: segment and grace_ms */
		struct {
			const uint64_t *sizes;
			/* NULL: one replica, nothing special */
			const struct tes_core_replicate *how;
			const char *const *groups; /* groups[n_groups] */
			size_t n_groups;
			const uint32_t *group; /* 1 + index; 0: none; or NULL */
			bool upsert;
			bool unanswered; /* a start before this one was */
		} put_start;
		struct {
			const uint64_t *generations;
			const uint32_t *extents; /* NULL: one entry each */
			const uint32_t *crcs;    /* entries; NULL: none */
			const bool *no_crc;      /* NULL: as crcs say */
			const uint32_t *written; /* masks of replicas */
			const uint32_t *quiet;   /* masks; NULL: all are */
			uint64_t epoch;
		} put_end;
		struct {
			const uint64_t *generations;
			const uint64_t *gen_epochs;
			size_t n_gen_epochs; /* 0: any; 1: of all */
		} release;
		struct {
			bool fresh; /* on a connection of its own: pushes to
				     * the one before may be lost */
		} heartbeat;
		struct {
			bool force;
		} remove;
		struct { /* session 0: the shell itself */
			bool force;
			const char *tenant; /* shell's tenant: as for a join */
			/* NULL: all; else called until the reply has come */
			tes_core_match_fn *match;
			void *arg;
		} remove_all;
		struct {
			const char *segment; /* "": any */
		} replica_clear;
		struct {
			uint64_t fence;
			bool confirmed;
			bool pending; /* not confirmed: it will be */
			bool burial;  /* number of a burial */
		} fenced;
		struct {
			const uint8_t *segment; /* [TES_CORE_ID_LEN] */
			const struct tes_core_objects *objects; /* event's n */
			bool last;
		} offer;
		struct {
			const uint8_t *incarnation; /* [TES_CORE_ID_LEN] */
		} report;
		struct {
			uint64_t probe;
		} probed;
		struct {
			bool move;
			const char *const *targets; /* targets[n_targets] */
			size_t n_targets;
			const char *source; /* a move's */
		} task_create;
		struct {
			const uint8_t *id; /* [TES_CORE_ID_LEN] */
		} task_query;
		struct {
			const uint8_t *id; /* [TES_CORE_ID_LEN] */
			int32_t status;
			bool quiet;           /* with a status not 0 */
			const uint32_t *crcs; /* crcs[n_crcs]: extents */
			size_t n_crcs;
			bool no_crc;
			const char *message; /* NULL: none */
		} task_done;
		struct {
			const char *const *segments; /* segments[n_segments] */
			size_t n_segments;
			const char *const *targets; /* n_targets 0: any */
			size_t n_targets;
			uint32_t at_a_time; /* tasks; 0: 4 */
		} drain_create;
		struct {
			const uint8_t *id; /* [TES_CORE_ID_LEN] */
		} drain;                   /* query and cancel */
		struct {
			const uint8_t *segment; /* NULL: all of the session */
			uint64_t timeout_ms;
		} drain_leave;
	} u;
};

/* ---- actions: replies, and messages to sessions ---- */

enum tes_task_state {
	TES_TASK_PENDING,
	TES_TASK_PROCESSING,
	TES_TASK_SUCCESS,
	TES_TASK_FAILED,
};

/* Answer to a query of a task. Times are those of tes_core_step(). */
struct tes_core_task {
	uint8_t id[TES_CORE_ID_LEN];
	bool move;
	enum tes_task_state state;
	int32_t code; /* FAILED: why */
	uint64_t created_ms, updated_ms;
	bool assigned;
	uint8_t client[TES_CORE_ID_LEN]; /* last executor */
	char message[TES_CORE_MESSAGE_MAX];
};

/* Mooncake's numbers. */
enum tes_drain_state {
	TES_DRAIN_CREATED,
	TES_DRAIN_PLANNING, /* counting its replicas */
	TES_DRAIN_RUNNING,
	TES_DRAIN_SUCCEEDED,
	TES_DRAIN_FAILED,
	TES_DRAIN_CANCELED,
};

/*
 * Answer to a query of a drain. It counts replicas; one that is blocked (has a
 * lease, is pinned hard, unfinished, in other hands) is tried again and again,
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
	/* Result of the last walk: given up, blocked, still there at all. */
	uint64_t failed, blocked, left;
	const char *const *segments; /* valid until the next step */
	size_t n_segments;           /* leaving: 0 */
	char message[TES_CORE_MESSAGE_MAX];
};

enum tes_action_type {
	TES_ACTION_REPLY, /* answers the event: columns below */
	TES_ACTION_FENCE, /* asks the owner's session to revoke a writer */
	TES_ACTION_CLOSE, /* drop this session's connections: it is gone */
	TES_ACTION_TASK,  /* asks an owner's session to copy an object */
	TES_ACTION_BURY,  /* asks the owner's session to void headers */
	TES_ACTION_PROBE, /* ask the owner's session whether it is there */
	TES_ACTION_OWNER, /* owner's state has changed, for the log */
	/* Tell the owner's session what it has. To be sent before the replies
	 * of the step: what was acknowledged is known to its owner. */
	TES_ACTION_COMMITTED,
};

enum tes_owner_news {
	TES_OWNER_SILENT, /* its objects are misses until it is back */
	TES_OWNER_BACK,
	TES_OWNER_GONE, /* its objects are lost */
	/* Lost what it lent under the name of another, who is back. */
	TES_OWNER_DISPLACED,
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
			int32_t code;    /* whole call's; columns when 0 */
			const char *why; /* static; NULL: no words for it */
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
			uint64_t *address; /* extent's header */
			uint32_t *replica;
			uint64_t *length;
			uint32_t *crc;
			const struct tes_core_segment_name *segments;
			size_t n_segments;
			uint32_t lease_ms;
			/*
			 * Time in which space may be free, with a -200; 0:
			 * never by itself; 1 also when eviction has to go on.
			 */
			uint32_t retry_ms;
			uint64_t epoch;   /* put start: of all generations */
			bool kept;        /* mount: it was there */
			uint64_t removed; /* remove_all */
			/* Reply to TASK_*; a create's has only the id. */
			struct tes_core_task *task;
			struct tes_core_drain *drain; /* reply to DRAIN_* */
		} reply;
		struct {
			uint64_t fence;
			const uint8_t *writer; /* incarnation */
		} fence;
		struct {
			uint8_t id[TES_CORE_ID_LEN];    /* attempt */
			struct tes_core_objects source; /* one object */
			struct tes_core_segment_name target;
			size_t n; /* extents there */
			uint64_t *address, *length;
			uint64_t timeout_ms; /* 0: none */
		} task;
		struct {
			uint64_t burial; /* 0: needs no answer */
			size_t n;
			uint64_t *address, *generation, *gen_epoch;
		} bury;
		struct {
			struct tes_core_objects objects;
			/* Resync of this segment, or NULL: commits of this
			 * step. */
			const uint8_t *segment; /* [TES_CORE_ID_LEN] or NULL */
			bool begins, ends;
		} committed;
		uint64_t probe;
		struct {
			enum tes_owner_news news;
			const char *engine;
			bool left;          /* connection ended */
			uint64_t silent_ms; /* since it was heard, or left */
		} owner;
	} u;
};

struct tes_actions {
	struct tei_arena *arena;
	struct tes_action *at; /* at[n]; grown in the arena */
	size_t n, room;
};

#endif
