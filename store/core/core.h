/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h - the master's whole logic as a state machine
 *
 * tes_core_step(core, event, now, actions): events are decoded requests, timer
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
 *   drain: CREATED --> PLANNING --all counted--> RUNNING --all moved-->
 *   SUCCEEDED, or, when all that is left was given up, FAILED; or CANCELED. Its
 *   segments are DRAINING and get nothing new; then DRAINED, or OK again.
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

#include "store/core/event.h"

struct tes_core;

/* Purpose of a segment; Mooncake's numbers. Only OK gets new objects. */
enum tes_core_segment_status {
	TES_CORE_SEGMENT_OK = 1,
	TES_CORE_SEGMENT_DRAINING,
	TES_CORE_SEGMENT_DRAINED,
	TES_CORE_SEGMENT_GRACEFULLY_UNMOUNTING, /* readable until it goes */
	TES_CORE_SEGMENT_UNMOUNTING,
};

/* Choice of a segment when the writer prefers none. */
enum tes_core_strategy {
	TES_CORE_RANDOM,
	TES_CORE_FREE_RATIO_FIRST,
	TES_CORE_LOCAL_FIRST, /* segments on the writer's machine */
};

/*
 * News for the watch: an object became READY, or was removed, whatever the
 * reason; a replaced one is removed first. Replicas that come and go, and
 * owners that are silent for a while, are no news.
 */
enum tes_core_news { TES_CORE_STORED, TES_CORE_REMOVED };

struct tes_core_item {
	struct tes_core_key key, tenant;
	struct tes_core_key group; /* len 0: none */
};

/* @item is borrowed for the call, which comes from inside a step. */
typedef void tes_core_watch_fn(enum tes_core_news news,
			       const struct tes_core_item *item, void *arg);

/* Treatment of objects that are looked up often. */
enum tes_core_hot {
	TES_CORE_HOT_OFF,
	TES_CORE_HOT_OBSERVE, /* count them */
	TES_CORE_HOT_ENFORCE, /* give them further replicas */
};

struct tes_core_config {
	uint64_t epoch;            /* life of this master, us since 1970 */
	uint64_t hash_seed;        /* against chosen keys */
	uint64_t lease_ttl_ms;     /* default_kv_lease_ttl */
	uint64_t client_ttl_ms;    /* client_ttl */
	uint64_t suspect_ms;       /* silence before SUSPECT; 3 heartbeats */
	uint64_t left_ms;          /* for a client whose connection closed to be
				    * back; 0: suspect_ms */
	uint64_t put_discard_ms;   /* put_start_discard_timeout_sec */
	uint64_t raise_ms;         /* least time from a raise of the epoch to
				    * the next; 0: none */
	uint64_t fence_timeout_ms; /* an owner that has not confirmed by then is
				    * dropped with its segment */
	enum tes_core_strategy strategy;
	uint64_t soft_pin_ttl_ms;     /* default_kv_soft_pin_ttl */
	uint64_t soft_pin_ttl_max_ms; /* 0: a day */
	bool evict_soft_pinned;       /* when nothing else is left to evict */
	double high_watermark;        /* eviction_high_watermark_ratio */
	double eviction_ratio;        /* low watermark is high - this */
	uint64_t seed;                /* placement among segments */
	bool tenants; /* each has its own keys, and none without a quota; else
		       * all have the same and names of tenants mean nothing */
	/* Objects that one tick looks at, or of which it evicts an eighth; 0:
	 * 1024. The starts of one batch: 64 times as many. */
	unsigned int step_objects;
	/* Tasks: how many at most wait, are under way, are remembered; how long
	 * (0: for ever); how often one without room is tried again. */
	uint64_t tasks_pending_max, tasks_processing_max, tasks_finished_max;
	uint64_t task_pending_ms, task_processing_ms, task_retries;
	/* Dynamic replication: of what is looked up hot_qps times a second
	 * over a window, up to so many replicas. */
	enum tes_core_hot hot;
	uint64_t hot_window_ms;
	double hot_qps;
	uint64_t hot_replicas;
	tes_core_watch_fn *watch; /* NULL: nobody watches */
	void *watch_arg;
};

/* @config is copied. -ENOMEM, -EINVAL (a ratio outside 0 .. 1, a ttl of 0). */
int tes_core_create(const struct tes_core_config *config,
		    struct tes_core **out);
void tes_core_destroy(struct tes_core *core);

/*
 * The session's hold of the name of its engine, without life and epoch. None:
 * it lends nothing under the name, or only as long as somebody else is silent;
 * or we are young, and it has brought one of an earlier life, which goes
 * before.
 */
struct tes_core_hold tes_core_name_hold(struct tes_core *core,
					tes_session_id session);

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
int tes_core_step(struct tes_core *core, const struct tes_event *event,
		  uint64_t now_ms, struct tes_actions *out);

/* Forgets an event in parts that will not be finished; its client has gone. */
void tes_core_part_abort(struct tes_core *core, struct tes_core_part *part);

/* Number of this master's life: as configured, or later if somebody knew a
 * later one. */
uint64_t tes_core_epoch(const struct tes_core *core);
/*
 * Lets somebody in who is believed to know of @epoch: our epoch is raised above
 * it, unless it is, by chance so far that another life that exceeds the same
 * number gets the same once in 2^24 times. Objects put under ours stay. What is
 * being put while it is raised is still committed under the number before: so
 * nobody who knows of a later one is let in until that has ended, for up to
 * put_discard_ms. -EAGAIN: not yet, for that reason or since the last raise was
 * less than raise_ms ago; what was asked for meanwhile is exceeded by the next
 * one. -EINVAL: no life has that number; -ENOMEM; our epoch is as it was then.
 */
int tes_core_epoch_exceed(struct tes_core *core, uint64_t epoch);

/* Segments that @session has in the pool. */
size_t tes_core_mounted(const struct tes_core *core, tes_session_id session);

/* True: ticks should come sooner, work is left (dropping, evicting). */
bool tes_core_busy(const struct tes_core *core);
/* Room for starts to come is to be made: see TES_EVENT_MAKE_ROOM. */
bool tes_core_short(const struct tes_core *core);

/* Count k is of values of up to TES_CORE_SIZE_FIRST * 4^k bytes, the last of
 * all that are larger. */
#define TES_CORE_SIZES      9
#define TES_CORE_SIZE_FIRST 4096u

struct tes_core_figures {
	uint64_t capacity_bytes, used_bytes; /* fencing extents count as used */
	uint64_t objects, building, fencing, segments, sessions, suspects;
	uint64_t metadata_bytes, key_bytes;
	uint64_t soft_pinned;           /* objects */
	uint64_t sizes[TES_CORE_SIZES]; /* values that were stored */
	uint64_t stored_bytes_total;
	/* Runs for a start that found no room, or from a watermark to the
	 * other. */
	uint64_t evictions_attempted_total, evictions_successful_total;
	uint64_t evicted_objects_total, evicted_bytes_total;
	uint64_t dropped_objects_total; /* lost with their owner */
	uint64_t lost_replicas_total;   /* their objects have others */
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
	uint64_t hot_proposed_total, hot_refused_total, hot_made_total;
	uint64_t hot_failed_total, hot_given_back_total;
	uint64_t drains_active, drains_succeeded_total, drains_failed_total;
	uint64_t drains_canceled_total;
	uint64_t drained_objects_total, drained_bytes_total; /* replicas */
	/* Part of lost_replicas_total; others wait for their turn. */
	uint64_t replicas_remade_total, replicas_given_up_total;
};
void tes_core_figures(const struct tes_core *core,
		      struct tes_core_figures *out);

/* Segments in mount order, for the admin API: resumable, *@cursor from 0. */
struct tes_core_segment {
	const char *name, *engine;
	const uint8_t *id, *client_id; /* [TES_CORE_ID_LEN] */
	uint64_t base, size, used;
	bool suspect;
	enum tes_core_segment_status status;
};
bool tes_core_segment_next(const struct tes_core *core, size_t *cursor,
			   struct tes_core_segment *out);

/*
 * Keys, for the admin API: nobody gets a lease, nothing counts as a use. Only
 * objects are shown that readers could read.
 */

/* An extent of an object. */
struct tes_core_place {
	const char *segment, *engine; /* valid until the next step */
	uint64_t address, length;     /* data, behind the header */
	uint32_t replica;
};

/* Finds where @key of @tenant is: up to @room places, *n of them, and *size.
 * Returns 0, or the code that a look-up would answer. */
int32_t tes_core_key_query(const struct tes_core *core, const char *tenant,
			   const struct tes_core_key *key,
			   struct tes_core_place *places, size_t room,
			   size_t *n, uint64_t *size);

/*
 * Call @fn for @tenant's keys of the next @n_buckets buckets of the table, each
 * of which holds about three; resumable: *@cursor starts at 0, steps may come
 * in between. A key that is there all the time is shown, more than once only if
 * the table shrinks meanwhile. Returns false when that was all.
 */
bool tes_core_keys(const struct tes_core *core, const char *tenant,
		   size_t *cursor, size_t n_buckets,
		   void (*fn)(const struct tes_core_key *key, void *arg),
		   void *arg);

/*
 * Tenants, when they are on. Who has no quota has no keys: its calls are
 * answered with -1701. Together they get what there is: when the quotas are
 * more than the pool, each the same part of its own.
 */
struct tes_core_tenant {
	const char *name;                       /* valid until the next step */
	uint64_t requested, effective, charged; /* bytes */
	uint64_t objects;                       /* unfinished ones too */
	/* Evicted to make room for its own objects; calls refused. */
	uint64_t evicted_bytes_total, rejects_total;
	bool registered; /* has a quota */
};

/* Resumable, *@cursor from 0; those that have a quota, or objects. */
bool tes_core_tenant_next(const struct tes_core *core, size_t *cursor,
			  struct tes_core_tenant *out);
/* False: nothing is known of @name. */
bool tes_core_tenant_query(const struct tes_core *core, const char *name,
			   struct tes_core_tenant *out);
/*
 * Give @name a quota, or another one. -EINVAL: no usable name, or 0 bytes;
 * -ENOSPC: there are too many; -ENOMEM; -ENOTSUP: tenants are off.
 */
int tes_core_tenant_set(struct tes_core *core, const char *name,
			uint64_t bytes);
/* Take it away. -ENOENT: it has none; -EBUSY: it has objects; -ENOTSUP. */
int tes_core_tenant_unset(struct tes_core *core, const char *name);
/* Fit to be one's name: 1 .. TES_CORE_TENANT_MAX bytes, none of them a control
 * character, and no '_' at the beginning. */
bool tes_core_tenant_name_valid(const char *name);

#endif
