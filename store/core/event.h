/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - what the core is told: requests, ticks, changes of links */
#ifndef STORE_CORE_EVENT_H
#define STORE_CORE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TES_CORE_ID_LEN        16
#define TES_CORE_HEADER_LEN    64 /* of an extent, before its data */
#define TES_CORE_KEY_MAX       1024
#define TES_CORE_BATCH_MAX     4096
#define TES_CORE_REPLICAS_MAX  32 /* of an object: a bit each */
#define TES_CORE_PREFERRED_MAX 32
#define TES_CORE_HOST_MAX      64
#define TES_CORE_TENANT_MAX    64   /* of a tenant's name */
#define TES_CORE_TENANTS_MAX   4096 /* each costs 10 KiB */
#define TES_CORE_TARGETS_MAX   32   /* of a task */
#define TES_CORE_MESSAGE_MAX   96   /* of a task, with the 0 at its end */
#define TES_CORE_MOUNTS_MAX    4096 /* of all clients; each costs 12 KiB */
#define TES_CORE_DRAIN_MAX     64   /* segments of a drain job, and targets */
#define TES_CORE_AT_A_TIME_MAX 1024 /* tasks of a drain job */

struct tes_core_key {
	const void *bytes; /* bytes[len]; borrowed for the step */
	size_t len;
};

/* A session number is the shell's handle of one client, never reused, not 0. */
typedef uint64_t tes_session_id;

enum tes_event_type {
	TES_EVENT_JOIN,      /* a client said hello on its main connection */
	TES_EVENT_HEARTBEAT, /* of a session: it lives */
	TES_EVENT_LEAVE,     /* a session's main connection closed */
	TES_EVENT_MOUNT,
	TES_EVENT_UNMOUNT,
	TES_EVENT_PUT_START,
	TES_EVENT_PUT_END,
	TES_EVENT_LOOKUP,
	TES_EVENT_RELEASE,
	TES_EVENT_EXIST,
	TES_EVENT_SIZE,
	TES_EVENT_REMOVE,
	TES_EVENT_REMOVE_ALL, /* the reply comes when the walk is through */
	TES_EVENT_REPLICA_CLEAR,
	TES_EVENT_FENCED,      /* an owner has confirmed (or failed) a fence, or
			   * confirmed a burial */
	TES_EVENT_TASK_CREATE, /* one key: a copy or a move of it */
	TES_EVENT_TASK_QUERY,
	TES_EVENT_TASK_DONE,    /* an executor's answer to an attempt */
	TES_EVENT_DRAIN_CREATE, /* segments are to be emptied; of any session */
	TES_EVENT_DRAIN_QUERY,
	TES_EVENT_DRAIN_CANCEL,
	/* An owner is about to leave: the reply comes when its segments are
	 * empty, as far as that can be, or the time is over. */
	TES_EVENT_DRAIN_LEAVE,
	TES_EVENT_OFFER,  /* what an owner has from before; n may be 0 */
	TES_EVENT_REPORT, /* a client finds that an owner does not answer */
	TES_EVENT_PROBED, /* an owner answers a probe */
	/* The starts of @n keys have been answered, and there is time to make
	 * room for the next, as ticks do. */
	TES_EVENT_MAKE_ROOM,
	TES_EVENT_TICK, /* at least every 100 ms; bounded work */
};

enum tes_core_soft_pin {
	TES_CORE_SOFT_PRESERVE,
	TES_CORE_SOFT_ENABLE,
	TES_CORE_SOFT_DISABLE,
};

/* How objects are to be kept; see Replicate in store.proto. */
struct tes_core_replicate {
	uint32_t replica_num;
	uint32_t soft_pin; /* enum tes_core_soft_pin */
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
	uint32_t *attributes; /* TES_CORE_PINNED | data type << TYPE_SHIFT */
	uint64_t *pin_ms;     /* pinned softly, for so long; 0: not */
	struct tes_core_key *groups; /* len 0: none */
};

#define TES_CORE_PINNED     1u /* for good */
#define TES_CORE_TYPE_SHIFT 8

/*
 * One event. Everything pointed to is borrowed for the step. Batches carry n
 * keys, 1 .. TES_CORE_BATCH_MAX (the shell has checked n), and columns[n]; a
 * column that may be NULL says so. Entries are extents, as in store.proto.
 */
struct tes_event {
	enum tes_event_type type;
	tes_session_id session; /* 0 for ticks, and to make room */
	uint64_t cookie;        /* the shell's: comes back in the reply */
	size_t n;
	const struct tes_core_key *keys;
	union {
		struct {
			const uint8_t *client_id;   /* [TES_CORE_ID_LEN] */
			const uint8_t *incarnation; /* [TES_CORE_ID_LEN] */
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
			const uint8_t *segment; /* [TES_CORE_ID_LEN] */
			const char *name;
			uint64_t base, size;
			bool offering;     /* its objects follow in offers */
			uint64_t grace_ms; /* of an unmount; 0: at once */
		} mount;                   /* unmount: segment and grace_ms */
		struct {
			const uint64_t *sizes;
			/* NULL: one replica, nothing special */
			const struct tes_core_replicate *how;
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
			bool burial;  /* it is the number of one */
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
			const char *source; /* of a move */
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
			const uint8_t *id; /* [TES_CORE_ID_LEN] */
		} drain;                   /* query and cancel */
		struct {
			const uint8_t *segment; /* NULL: all of the session */
			uint64_t timeout_ms;
		} drain_leave;
	} u;
};

#endif
