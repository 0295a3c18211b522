/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h - the master's whole logic as a state machine
 *
 * tei_core_step(core, event, now, actions): events are decoded requests, timer
 * ticks and link changes; actions are replies and messages. The core does no
 * I/O, owns no thread, reads no clock and no random numbers: the same events
 * give the same actions. `now` is in milliseconds of a monotonic clock and
 * must not go back. When more than half of suspect_ms (a second at most)
 * passes between two steps the master itself was stalled: no deadline of
 * others runs in that time.
 *
 * An object has replicas, each in extents of one segment that an owner
 * mounted; it can be read while one replica's owner is live. Every reservation
 * gets a new generation; space that a writer may still write to is fenced at
 * its owner before it is used again.
 *
 *   put:  absent --start--> BUILDING --end--> READY --evict, remove--> freed
 *                              |
 *                              +-- revoke: freed at once
 *                              +-- writer gone or late, or (per replica) end
 *                                  says that it is not quiet: extents FENCING,
 *                                  freed when the owner has confirmed
 *
 *   upsert: as put; what is READY at the key stays until the end, which takes
 *   its place. It preempts what is BUILDING there. So is a put of what only
 *   SUSPECT owners have, which they may bring back; but it preempts nothing.
 *
 *   task: PENDING --place, executor free--> PROCESSING --done--> SUCCESS
 *            ^                                   |
 *            +------ executor gone, no room -----+--failed--> FAILED
 *   Its copy is BUILDING, with the executor for writer, and so fenced, dropped
 *   and lost as one; in no table until it joins its object as a replica.
 *
 *   drain: CREATED --> PLANNING --all counted--> RUNNING --all moved--> SUCCEEDED
 *   or, when all that is left was given up, FAILED; or CANCELED. Its segments
 *   are DRAINING and get nothing new; then DRAINED, or OK again.
 *
 *   session: LIVE --closed, heartbeat missed--> SUSPECT --ttl--> GONE
 *            LIVE --reported silent, and a probe not answered--> SUSPECT
 *            SUSPECT --heartbeat--> LIVE. Suspect owners get no new objects and
 *            theirs count as absent; gone ones are removed in steps.
 *
 * Threads: none of its own; one caller at a time.
 */
#ifndef STORE_CORE_CORE_H
#define STORE_CORE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#define TEI_CORE_ID_LEN        16
#define TEI_CORE_HEADER_LEN    64 /* of an extent, before its data */
#define TEI_CORE_KEY_MAX       1024
#define TEI_CORE_BATCH_MAX     4096
#define TEI_CORE_REPLICAS_MAX  32 /* of an object: a bit each */
#define TEI_CORE_PREFERRED_MAX 32
#define TEI_CORE_HOST_MAX      64
#define TEI_CORE_TENANT_MAX    64   /* of a tenant's name */
#define TEI_CORE_TENANTS_MAX   4096 /* each costs 10 KiB */
#define TEI_CORE_TARGETS_MAX   32   /* of a task */
#define TEI_CORE_MESSAGE_MAX   96   /* of a task, with the 0 at its end */
#define TEI_CORE_MOUNTS_MAX    4096 /* of all clients; each costs 12 KiB */
#define TEI_CORE_DRAIN_MAX     64   /* segments of a drain job, and targets */
#define TEI_CORE_AT_A_TIME_MAX 1024 /* tasks of a drain job */

struct tei_core;

/* What a segment is there for; Mooncake's numbers. Only OK gets new objects. */
enum tei_core_segment_status {
	TEI_CORE_SEGMENT_OK = 1,
	TEI_CORE_SEGMENT_DRAINING,
	TEI_CORE_SEGMENT_DRAINED,
	TEI_CORE_SEGMENT_GRACEFULLY_UNMOUNTING, /* readable until it goes */
	TEI_CORE_SEGMENT_UNMOUNTING,
};

/* How a segment is chosen when the writer prefers none. */
enum tei_core_strategy {
	TEI_CORE_RANDOM,
	TEI_CORE_FREE_RATIO_FIRST,
	TEI_CORE_LOCAL_FIRST, /* the writer's machine */
};

struct tei_core_key {
	const void *bytes; /* bytes[len]; borrowed for the step */
	size_t len;
};

/*
 * What those who watch are told: an object is READY, or is no more, whatever
 * the reason; a replaced one first is no more. Replicas that come and go, and
 * owners that are silent for a while, are no news.
 */
enum tei_core_news { TEI_CORE_STORED, TEI_CORE_REMOVED };

struct tei_core_item {
	struct tei_core_key key, tenant;
	struct tei_core_key group; /* len 0: none */
};

/* @item is borrowed for the call, which comes from inside a step. */
typedef void tei_core_watch_fn(enum tei_core_news news,
			       const struct tei_core_item *item, void *arg);

/* What becomes of objects that are read much. */
enum tei_core_heat {
	TEI_CORE_HEAT_OFF,
	TEI_CORE_HEAT_OBSERVE, /* they are counted */
	TEI_CORE_HEAT_ENFORCE, /* they get further replicas */
};

struct tei_core_config {
	uint64_t epoch;            /* of this master's life, us since 1970 */
	uint64_t hash_seed;        /* against chosen keys */
	uint64_t lease_ttl_ms;     /* default_kv_lease_ttl */
	uint64_t client_ttl_ms;    /* client_ttl */
	uint64_t suspect_ms;       /* silence before SUSPECT; 3 heartbeats */
	uint64_t left_ms;          /* for a client whose connection closed to be
				    * back; 0: suspect_ms */
	uint64_t put_discard_ms;   /* put_start_discard_timeout_sec */
	uint64_t fence_timeout_ms; /* an owner that has not confirmed by then is
				    * dropped with its segment */
	enum tei_core_strategy strategy;
	uint64_t soft_pin_ttl_ms;     /* default_kv_soft_pin_ttl */
	uint64_t soft_pin_ttl_max_ms; /* 0: a day */
	bool evict_soft_pinned;       /* when nothing else can go */
	double high_watermark;        /* eviction_high_watermark_ratio */
	double eviction_ratio;        /* low watermark is high - this */
	uint64_t seed;                /* placement among segments */
	bool tenants; /* each has its own keys, and none without a quota; else
		       * all have the same and names of tenants mean nothing */
	unsigned int step_objects; /* objects touched by one tick; 0: 1024. The
				    * starts of one batch may look at 64 times
				    * as many, or evict an eighth of that */
	/* Tasks: how many at most wait, are under way, are remembered; how long
	 * (0: for ever); how often one without room is tried again. */
	uint64_t tasks_pending_max, tasks_processing_max, tasks_finished_max;
	uint64_t task_pending_ms, task_processing_ms, task_retries;
	/* Dynamic replication: of what is looked up heat_qps times a second
	 * over a window, up to so many replicas. */
	enum tei_core_heat heat;
	uint64_t heat_window_ms;
	double heat_qps;
	uint64_t heat_replicas;
	tei_core_watch_fn *watch; /* NULL: nobody watches */
	void *watch_arg;
};

/* A session number is the shell's handle of one client, never reused, not 0. */
typedef uint64_t tei_session_id;

enum tei_event_type {
	TEI_EVENT_JOIN,      /* a client said hello on its main connection */
	TEI_EVENT_HEARTBEAT, /* of a session: it lives */
	TEI_EVENT_LEAVE,     /* a session's main connection closed */
	TEI_EVENT_MOUNT,
	TEI_EVENT_UNMOUNT,
	TEI_EVENT_PUT_START,
	TEI_EVENT_PUT_END,
	TEI_EVENT_LOOKUP,
	TEI_EVENT_RELEASE,
	TEI_EVENT_EXIST,
	TEI_EVENT_SIZE,
	TEI_EVENT_REMOVE,
	TEI_EVENT_REMOVE_ALL, /* the reply comes when the walk is through */
	TEI_EVENT_REPLICA_CLEAR,
	TEI_EVENT_FENCED,      /* an owner has confirmed (or failed) a fence, or
			   * confirmed a burial */
	TEI_EVENT_TASK_CREATE, /* one key: a copy or a move of it */
	TEI_EVENT_TASK_QUERY,
	TEI_EVENT_TASK_DONE,    /* an executor's answer to an attempt */
	TEI_EVENT_DRAIN_CREATE, /* segments are to be emptied; of any session */
	TEI_EVENT_DRAIN_QUERY,
	TEI_EVENT_DRAIN_CANCEL,
	/* An owner is about to leave: the reply comes when its segments are
	 * empty, as far as that can be, or the time is over. */
	TEI_EVENT_DRAIN_LEAVE,
	TEI_EVENT_OFFER,  /* what an owner has from before; n may be 0 */
	TEI_EVENT_REPORT, /* a client finds that an owner does not answer */
	TEI_EVENT_PROBED, /* an owner answers a probe */
	TEI_EVENT_TICK,   /* at least every 100 ms; bounded work */
};

enum tei_core_soft_pin {
	TEI_CORE_SOFT_PRESERVE,
	TEI_CORE_SOFT_ENABLE,
	TEI_CORE_SOFT_DISABLE,
};

/* How objects are to be kept; see Replicate in store.proto. */
struct tei_core_replicate {
	uint32_t replica_num;
	uint32_t soft_pin; /* enum tei_core_soft_pin */
	uint64_t soft_pin_ttl_ms;
	uint32_t data_type;
	bool hard_pin, same_node;
	const char *const *preferred; /* preferred[n_preferred] */
	size_t n_preferred;
};

/*
 * Whether remove_all means this key. Adds what it took to *@cost, where looking
 * at an object is 1, some 40 ns; it may take a ms at most.
 */
typedef bool tei_core_match_fn(const void *key, size_t len, void *arg,
			       unsigned int *cost);

/*
 * Columns of objects that lie whole in one owner's memory: objects[n], and
 * entries[n_entries], an object's in order of the value.
 */
struct tei_core_objects {
	size_t n, n_entries;
	struct tei_core_key *keys;
	uint64_t *generation, *gen_epoch;
	uint64_t *size;    /* of the value */
	uint32_t *extents; /* entries of an object; NULL: one each */
	uint64_t *address; /* of the extent's header */
	uint64_t *length;  /* of the value's part in it */
	uint32_t *crc;
	bool *no_crc; /* NULL: all have one */
	/* Whose: 1 + index into tenants[n_tenants]; 0, or NULL: `default`. */
	uint32_t *tenant;
	const char **tenants;
	size_t n_tenants;
	/* How they are to be kept; NULL: in no special way. */
	uint32_t *attributes; /* TEI_CORE_PINNED | data type << TYPE_SHIFT */
	uint64_t *pin_ms;     /* pinned softly, for so long; 0: not */
	struct tei_core_key *groups; /* len 0: none */
};

#define TEI_CORE_PINNED     1u /* for good */
#define TEI_CORE_TYPE_SHIFT 8

/*
 * One event. Everything pointed to is borrowed for the step. Batches carry n
 * keys, 1 .. TEI_CORE_BATCH_MAX (the shell has checked n), and columns[n]; a
 * column that may be NULL says so. Entries are extents, as in store.proto.
 */
struct tei_event {
	enum tei_event_type type;
	tei_session_id session; /* 0 for ticks */
	uint64_t cookie;        /* the shell's: comes back in the reply */
	size_t n;
	const struct tei_core_key *keys;
	union {
		struct {
			const uint8_t *client_id;   /* [TEI_CORE_ID_LEN] */
			const uint8_t *incarnation; /* [TEI_CORE_ID_LEN] */
			const char *engine;
			const void *host; /* host[host_len], NULL: unknown */
			size_t host_len;
			uint64_t epoch; /* that it knows of; 0: none */
			bool buries;    /* it wants to be told of commits and
				      * burials, and confirms them */
			bool probes;    /* it answers probes */
			bool executes;  /* tasks */
			const char *tenant; /* NULL or "": `default` */
		} join;
		struct {
			const uint8_t *segment; /* [TEI_CORE_ID_LEN] */
			const char *name;
			uint64_t base, size;
			bool offering;     /* its objects follow in offers */
			uint64_t grace_ms; /* of an unmount; 0: at once */
		} mount;                   /* unmount: segment and grace_ms */
		struct {
			const uint64_t *sizes;
			/* NULL: one replica, nothing special */
			const struct tei_core_replicate *how;
			const char *const *groups; /* groups[n_groups] */
			size_t n_groups;
			const uint32_t *group; /* 1 + index; 0: none; or NULL */
			bool upsert;
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
			const char *tenant; /* the shell's: as of a join */
			/* NULL: all; else called until the reply has come */
			tei_core_match_fn *match;
			void *arg;
		} remove_all;
		struct {
			const char *segment; /* "": any */
		} replica_clear;
		struct {
			uint64_t fence;
			bool confirmed;
			bool pending; /* not confirmed: it will be */
			bool burial;  /* it is the number of one */
		} fenced;
		struct {
			const uint8_t *segment; /* [TEI_CORE_ID_LEN] */
			const struct tei_core_objects *objects; /* event's n */
			bool last;
		} offer;
		struct {
			const uint8_t *incarnation; /* [TEI_CORE_ID_LEN] */
		} report;
		struct {
			uint64_t probe;
		} probed;
		struct {
			bool move;
			const char *const *targets; /* targets[n_targets] */
			size_t n_targets;
			const char *source; /* of a move */
		} task_create;
		struct {
			const uint8_t *id; /* [TEI_CORE_ID_LEN] */
		} task_query;
		struct {
			const uint8_t *id; /* [TEI_CORE_ID_LEN] */
			int32_t status;
			bool quiet;           /* with a status not 0 */
			const uint32_t *crcs; /* crcs[n_crcs]: extents */
			size_t n_crcs;
			bool no_crc;
			const char *message; /* or NULL */
		} task_done;
		struct {
			const char *const *segments; /* segments[n_segments] */
			size_t n_segments;
			const char *const *targets; /* n_targets 0: any */
			size_t n_targets;
			uint32_t at_a_time; /* tasks; 0: 4 */
		} drain_create;
		struct {
			const uint8_t *id; /* [TEI_CORE_ID_LEN] */
		} drain;                   /* query and cancel */
		struct {
			const uint8_t *segment; /* NULL: all of the session */
			uint64_t timeout_ms;
		} drain_leave;
	} u;
};

enum tei_task_state {
	TEI_TASK_PENDING,
	TEI_TASK_PROCESSING,
	TEI_TASK_SUCCESS,
	TEI_TASK_FAILED,
};

/* What can be asked about a task. Times are those of tei_core_step(). */
struct tei_core_task {
	uint8_t id[TEI_CORE_ID_LEN];
	bool move;
	enum tei_task_state state;
	int32_t code; /* FAILED: why */
	uint64_t created_ms, updated_ms;
	bool assigned;
	uint8_t client[TEI_CORE_ID_LEN]; /* who executes it, or did */
	char message[TEI_CORE_MESSAGE_MAX];
};

/* Mooncake's numbers. */
enum tei_drain_state {
	TEI_DRAIN_CREATED,
	TEI_DRAIN_PLANNING, /* what is there is being counted */
	TEI_DRAIN_RUNNING,
	TEI_DRAIN_SUCCEEDED,
	TEI_DRAIN_FAILED,
	TEI_DRAIN_CANCELED,
};

/*
 * What can be asked about a drain. It counts replicas; one that is blocked (has
 * a lease, is pinned hard, unfinished, in other hands) is tried again and again,
 * one that could not be moved three times more before it is given up. Times are
 * those of tei_core_step().
 */
struct tei_core_drain {
	uint8_t id[TEI_CORE_ID_LEN]; /* zeros: of one that leaves */
	enum tei_drain_state state;
	int32_t code; /* FAILED: why */
	uint64_t created_ms, updated_ms;
	uint64_t total; /* when they were counted */
	uint64_t moved, moved_bytes;
	uint64_t active; /* waiting for their task or being moved */
	/* When last looked at: given up, blocked, still there at all. */
	uint64_t failed, blocked, left;
	const char *const *segments; /* the core's, until the next step */
	size_t n_segments;           /* of one that leaves: 0 */
	char message[TEI_CORE_MESSAGE_MAX];
};

enum tei_action_type {
	TEI_ACTION_REPLY, /* to the event: columns below */
	TEI_ACTION_FENCE, /* tell the owner's session to revoke a writer */
	TEI_ACTION_CLOSE, /* drop this session's connections: it is gone */
	TEI_ACTION_TASK,  /* tell an owner's session to copy an object */
	TEI_ACTION_BURY,  /* tell the owner's session to void headers */
	TEI_ACTION_PROBE, /* ask the owner's session whether it is there */
	/* Tell the owner's session what it has. To be sent before the replies
	 * of the step: what was acknowledged is known to its owner. */
	TEI_ACTION_COMMITTED,
};

struct tei_core_segment_name {
	const char *engine;
	const uint8_t *incarnation; /* [TEI_CORE_ID_LEN] */
};

/*
 * Arrays are in the actions' arena and live until its reset; strings and
 * incarnations that they name are the core's and live until the next step.
 * Columns that the event's reply does not need are NULL, and so are extents,
 * replica and length when every key has one entry.
 */
struct tei_action {
	enum tei_action_type type;
	tei_session_id session; /* whom it goes to */
	uint64_t cookie;        /* replies: of the event */
	union {
		struct {
			enum tei_event_type of;
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
			const struct tei_core_segment_name *segments;
			size_t n_segments;
			uint32_t lease_ms;
			/* With a -200: when space may be free; 0: never by
			 * itself; 1 also when eviction has to go on. */
			uint32_t retry_ms;
			bool kept;        /* of a mount: it was there */
			uint64_t removed; /* of remove_all */
			/* Of TASK_*: of a create only its id. */
			struct tei_core_task *task;
			struct tei_core_drain *drain; /* of DRAIN_* */
		} reply;
		struct {
			uint64_t fence;
			const uint8_t *writer; /* incarnation */
		} fence;
		struct {
			uint8_t id[TEI_CORE_ID_LEN];    /* of this attempt */
			struct tei_core_objects source; /* one */
			struct tei_core_segment_name target;
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
			struct tei_core_objects objects;
			/* All that this segment has is told: */
			const uint8_t *segment; /* [TEI_CORE_ID_LEN] or NULL */
			bool begins, ends;
		} committed;
		uint64_t probe;
	} u;
};

struct tei_actions {
	struct tei_arena *arena;
	struct tei_action *at; /* at[n]; grown in the arena */
	size_t n, room;
};

/* @config is copied. -ENOMEM, -EINVAL (a ratio outside 0 .. 1, a ttl of 0). */
int tei_core_create(const struct tei_core_config *config,
		    struct tei_core **out);
void tei_core_destroy(struct tei_core *core);

/*
 * Apply one event. Appends to @out (n is not reset). Every event but HEARTBEAT,
 * LEAVE, RELEASE, FENCED, REPORT, PROBED, TASK_DONE and TICK gets exactly one
 * reply to its session: with this step, or with a later one and the event's
 * cookie, where an owner has to bury something before, for REMOVE_ALL and for
 * DRAIN_LEAVE; that comes even if the session has gone. The event was refused
 * as a whole when the reply's code is not 0: state is as it was. -ENOMEM: the
 * arena is full; state is as it was and nothing was appended.
 * A FENCE or a TASK waits for the first HEARTBEAT of its owner's session, since
 * it goes to that connection; one without an answer comes again on the first
 * HEARTBEAT after the owner has joined anew.
 */
int tei_core_step(struct tei_core *core, const struct tei_event *event,
		  uint64_t now_ms, struct tei_actions *out);

/* Of this master's life: as configured, or later if somebody knew a later one. */
uint64_t tei_core_epoch(const struct tei_core *core);

/* How many segments @session has in the pool. */
size_t tei_core_mounted(const struct tei_core *core, tei_session_id session);

/* Whether work is left that ticks should hurry with (dropping, evicting). */
bool tei_core_busy(const struct tei_core *core);

/* The k-th counts values of up to TEI_CORE_SIZE_FIRST * 4^k bytes, the last all
 * that are larger. */
#define TEI_CORE_SIZES      9
#define TEI_CORE_SIZE_FIRST 4096u

struct tei_core_figures {
	uint64_t capacity_bytes, used_bytes; /* fencing extents count as used */
	uint64_t objects, building, fencing, segments, sessions, suspects;
	uint64_t metadata_bytes, key_bytes;
	uint64_t soft_pinned;           /* objects */
	uint64_t sizes[TEI_CORE_SIZES]; /* of values that were stored */
	uint64_t stored_bytes_total;
	/* For a start that found no room, or from a watermark to the other. */
	uint64_t evictions_attempted_total, evictions_successful_total;
	uint64_t evicted_objects_total, evicted_bytes_total;
	uint64_t dropped_objects_total; /* with their owner */
	uint64_t lost_replicas_total;   /* of objects that have others */
	uint64_t partial_puts_total;    /* fewer replicas than asked for */
	uint64_t alloc_failures_total, fences_total, fences_failed_total;
	uint64_t discarded_puts_total, late_ends_total;
	uint64_t burials_total; /* objects that owners had to confirm */
	uint64_t offered_total, offers_refused_total; /* objects */
	uint64_t reports_total, probes_total, probes_failed_total;
	uint64_t tasks_pending, tasks_processing;
	uint64_t tasks_succeeded_total, tasks_failed_total, tasks_late_total;
	/* Dynamic replication: objects that were worth a replica; of these,
	 * not made for want of room or a task; made; failed; given back. */
	uint64_t heat_proposed_total, heat_refused_total, heat_made_total;
	uint64_t heat_failed_total, heat_given_back_total;
	uint64_t drains_active, drains_succeeded_total, drains_failed_total;
	uint64_t drains_canceled_total;
	uint64_t drained_objects_total, drained_bytes_total; /* replicas */
	/* Of lost_replicas_total; others wait for their turn. */
	uint64_t replicas_remade_total, replicas_given_up_total;
};
void tei_core_figures(const struct tei_core *core,
		      struct tei_core_figures *out);

/* Segments in mount order, for the admin API: resumable, *@cursor from 0. */
struct tei_core_segment {
	const char *name, *engine;
	const uint8_t *id, *client_id; /* [TEI_CORE_ID_LEN] */
	uint64_t base, size, used;
	bool suspect;
	enum tei_core_segment_status status;
};
bool tei_core_segment_next(const struct tei_core *core, size_t *cursor,
			   struct tei_core_segment *out);

/*
 * Keys, for the admin API: nobody gets a lease, nothing counts as a use. What
 * is told of here is what readers could read.
 */

/* An extent of an object. */
struct tei_core_place {
	const char *segment, *engine; /* the core's, until the next step */
	uint64_t address, length;     /* of the data, behind the header */
	uint32_t replica;
};

/*
 * Where @key of @tenant is: up to @room places, *n of them, and *size. 0, or
 * the code that a look-up would answer.
 */
int32_t tei_core_key_query(const struct tei_core *core, const char *tenant,
			   const struct tei_core_key *key,
			   struct tei_core_place *places, size_t room,
			   size_t *n, uint64_t *size);

/*
 * Call @fn for @tenant's keys of the next @n_buckets buckets of the table, each
 * of which holds about three; resumable: *@cursor starts at 0, steps may come in
 * between. A key that is there all the time is shown, more than once only if
 * the table shrinks meanwhile. Returns false when that was all.
 */
bool tei_core_keys(const struct tei_core *core, const char *tenant,
		   size_t *cursor, size_t n_buckets,
		   void (*fn)(const struct tei_core_key *key, void *arg),
		   void *arg);

/*
 * Tenants, when they are on. Who has no quota has no keys: its calls are
 * answered with -1701. Together they get what there is: when the quotas are
 * more than the pool, each the same part of its own.
 */
struct tei_core_tenant {
	const char *name; /* the core's, until the next step */
	uint64_t requested, effective, charged; /* bytes */
	uint64_t objects;                       /* unfinished ones too */
	/* To make room for its own; what it was refused. */
	uint64_t evicted_bytes_total, rejects_total;
	bool registered; /* it has a quota */
};

/* Resumable, *@cursor from 0; those that have a quota, or objects. */
bool tei_core_tenant_next(const struct tei_core *core, size_t *cursor,
			  struct tei_core_tenant *out);
/* False: nothing is known of @name. */
bool tei_core_tenant_query(const struct tei_core *core, const char *name,
			   struct tei_core_tenant *out);
/*
 * Give @name a quota, or another one. -EINVAL: no usable name, or 0 bytes;
 * -ENOSPC: there are too many; -ENOMEM; -ENOTSUP: tenants are off.
 */
int tei_core_tenant_set(struct tei_core *core, const char *name,
			uint64_t bytes);
/* Take it away. -ENOENT: it has none; -EBUSY: it has objects; -ENOTSUP. */
int tei_core_tenant_unset(struct tei_core *core, const char *name);
/* Fit to be one's name: 1 .. TEI_CORE_TENANT_MAX bytes, none of them a control
 * character, and no '_' at the beginning. */
bool tei_core_tenant_name_valid(const char *name);

#endif
