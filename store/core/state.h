/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h - what the core remembers, shared by the files of store/core
 *
 * Who owns what: sessions own mounts (segments), mounts own their space and
 * with it every extent. An object holds a chain of taken extents, by replica
 * and then by offset; all extents of a replica are of one mount, replicas of
 * one object are of distinct ones. A READY object has only replicas that are
 * all there. An extent whose object is gone but whose writer may still write
 * belongs to a fence.
 *
 * Of one key there may be two objects: what is there, and a BUILDING successor
 * that takes its place at its end. find() passes over successors.
 *
 * An object's link is in exactly one list:
 *   BUILDING                        its writer's `builds`
 *   READY, read lease               core `leased`, earliest lease first
 *   READY, pinned hard              none
 *   READY, pinned softly            none, but its pin core `pins`
 *   READY, no owner live            `parked` of its mount, or of the core when
 *                                   it has several, or core `back` when an
 *                                   owner has come back
 *   READY, else                     a queue of core `policy`
 * and a BUILDING one's age in core `building`, oldest first. An extent's link:
 * free, a bin; FENCING, its fence; an object's, the chain instead.
 *
 * A tenant is charged for the extents of its objects, READY or BUILDING, from
 * tei_core_extent_own() to tei_core_extent_disown(): not for what is lost or
 * belongs to a fence. Each tenant has an eviction policy of its own.
 *
 * A mount's death costs what it holds: `dropping` mounts are walked extent by
 * extent in ticks, gone sessions build by build.
 */
#ifndef STORE_CORE_STATE_H
#define STORE_CORE_STATE_H

#include <stddef.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/slab.h"
#include "store/core/core.h"
#include "store/core/drain.h"
#include "store/core/heat.h"
#include "store/core/policy.h"
#include "store/core/space.h"

/* Mooncake's numbers; include/te/store.h names them for users. */
enum {
	CODE_OK = 0,
	CODE_INTERNAL = -1,
	CODE_NO_SEGMENT = -101,
	CODE_SEGMENT_EXISTS = -102,
	CODE_NO_CLIENT = -103,
	CODE_FULL = -200,
	CODE_ARGUMENT = -600,
	CODE_NOT_YOURS = -601,
	CODE_NOT_BUILDING = -700,
	CODE_NOT_READY = -703,
	CODE_NOT_FOUND = -704,
	CODE_EXISTS = -705,
	CODE_LEASED = -706,
	CODE_TASK = -708,
	CODE_NO_REPLICA = -710,
	CODE_REPLICA_EXISTS = -711,
	CODE_TRANSFER = -800,
	CODE_CHECKSUM = -801,
	CODE_TIMEOUT = -901,
	CODE_NOT_NOW = -1010,
	CODE_NO_TASK = -1400,
	CODE_TASKS_FULL = -1401,
	CODE_NO_JOB = -1402,
	CODE_QUOTA = -1700,
	CODE_NO_TENANT = -1701,
};

/* Keys of a batch that are looked up together. */
#define TEI_CORE_GROUP 32
/* A step this long after the one before: this master was stalled itself; less
 * when suspect_ms is short. */
#define TEI_CORE_STALL_MS     1000
#define TEI_CORE_STALL_MIN_MS 250
/*
 * Who was asked and has not answered for so long is suspect; how often one is
 * asked.
 */
#define TEI_CORE_PROBE_MS       300
#define TEI_CORE_PROBE_EVERY_MS 250
/* A -200 that a fence or another writer may cure: when to ask again. */
#define TEI_CORE_RETRY_MS 20
/* Objects of up to 512 bytes, with their keys, come from slabs. */
#define TEI_CORE_BLOCK_STEP  16
#define TEI_CORE_BLOCK_SLABS 32
/* Entries of a reply; the keys after them get one replica each. */
#define TEI_CORE_ENTRIES_MANY 65536
/* Softly, when the configuration says nothing. */
#define TEI_CORE_PIN_MAX_MS 86400000u
/* Of remove_all; more at a time is not worth the memory. */
#define TEI_CORE_WALKS_MAX 64
/* Of a walk, that are not confirmed: then it waits for the owners. They may
 * confirm all at once, which is some milliseconds of work. */
#define TEI_CORE_WALK_GRAVES 4096
/* What the starts of one event may spend on evicting, times step_objects. */
#define TEI_CORE_EFFORT 64
/* Tasks that one owner works on at a time. */
#define TEI_CORE_TASKS_EACH 4

enum tei_object_state { TEI_OBJECT_BUILDING, TEI_OBJECT_READY };

enum tei_object_flags {
	TEI_OBJECT_LEASED = 1u << 0,     /* in core `leased` */
	TEI_OBJECT_NAMED = 1u << 1,      /* in this very batch already */
	TEI_OBJECT_SUCCESSOR = 1u << 2,  /* BUILDING; find() passes over it */
	TEI_OBJECT_SUCCEEDED = 1u << 3,  /* has a successor */
	TEI_OBJECT_NO_CRC = 1u << 4,     /* its writer gave none */
	TEI_OBJECT_HARD = 1u << 5,       /* never evicted */
	TEI_OBJECT_EXTRA = 1u << 6,      /* struct tei_extra behind the key */
	TEI_OBJECT_SHELTERED = 1u << 7,  /* of shelter() */
	TEI_OBJECT_UNVERIFIED = 1u << 8, /* offered; nobody looked at it */
	TEI_OBJECT_TASKED = 1u << 9,     /* has a task */
	TEI_OBJECT_BUSY = 1u << 10,      /* which is under way */
	TEI_OBJECT_COPY = 1u << 11,      /* BUILDING: a task's, in no table */
	TEI_OBJECT_SHORT = 1u << 12,     /* of a replica: it had no task yet */
};

/* What few objects have. */
struct tei_extra {
	struct tei_list link; /* group's members */
	struct tei_object *object;
	struct tei_group *group; /* or NULL */
	struct tei_heap_node pin;
	uint64_t pin_ms; /* BUILDING: how long to pin softly; 0: not */
	uint64_t pin_until_ms;
	uint32_t data_type;
	bool pinned; /* counted as such, which may end late */
};

/* Objects that are evicted together; there as long as it has members. */
struct tei_group {
	struct tei_hash_node node;
	uint16_t tenant;         /* of all of them */
	struct tei_list members; /* struct tei_extra */
	size_t name_len;
	char name[];
};

/*
 * Look-ups that have not been released, by who made them: of two sessions, or of
 * more, who then are one and release nothing. A session is a number within 16
 * bits; two that have the same are one, too.
 */
#define TEI_CORE_READERS      2
#define TEI_CORE_READERS_MANY UINT16_MAX
struct tei_readers {
	struct {
		uint16_t who, n; /* n: 0: free; UINT16_MAX: or more */
	} at[TEI_CORE_READERS];
};

struct tei_object {
	struct tei_extent *extents; /* the chain; never NULL in the table */
	uint64_t generation;
	uint64_t size; /* of the data, without header and rounding */
	union {
		struct tei_list link;           /* see above */
		struct {                        /* BUILDING */
			struct tei_list builds; /* is link */
			struct tei_session *writer;
			struct tei_list age;
		};
		struct {                               /* READY */
			struct tei_policy_node policy; /* begins with link */
			uint64_t read_until_ms;        /* LEASED: not evicted */
			struct tei_readers readers;
		};
	};
	/* From here on what an existence check touches: two lines of cache. */
	struct tei_hash_node node;
	union {
		uint64_t started_ms;    /* BUILDING */
		uint64_t weak_until_ms; /* READY: refuses remove until then */
	};
	uint16_t key_len : 15;
	uint16_t state : 1; /* enum tei_object_state */
	uint16_t flags;
	uint16_t epoch;  /* of the generation: index into core's epochs */
	uint16_t tenant; /* index into core's tenants */
	char key[];      /* key[key_len] */
};

/*
 * What one object may cost besides its key, malloc's own included: 200 bytes
 * with its extent, two slots of the table's directory and its share of holes.
 */
_Static_assert(offsetof(struct tei_object, key) <= 96, "200 bytes an object");
_Static_assert(sizeof(struct tei_extent) <= 64, "200 bytes an object");
_Static_assert(TEI_CORE_KEY_MAX < 1 << 15, "key_len");

/* Whose key space an object is in. The first is `default`. */
struct tei_tenant {
	struct tei_hash_node by_name;
	struct tei_policy policy;      /* of its objects */
	uint64_t requested, effective; /* bytes; effective: of what there is */
	uint64_t charged;
	uint64_t evicted_bytes_total, rejects_total;
	size_t objects, users; /* users: sessions and walks */
	uint16_t index;
	bool registered; /* it has a quota, or nobody needs one */
	bool renounced;  /* nothing is recalled that is not here yet */
	char name[];
};

struct tei_mount {
	struct tei_space space;
	struct tei_session *owner;
	struct tei_list link;      /* owner's mounts */
	struct tei_list drop_link; /* core's dropping */
	struct tei_list parked;    /* objects while the owner is suspect */
	uint64_t serial;           /* grows in mount order */
	uint64_t base, size;       /* as mounted */
	uint8_t id[TEI_CORE_ID_LEN];
	bool dropping;
	uint8_t status;        /* enum tei_core_segment_status */
	bool offering;         /* what it holds is not all known yet */
	bool sync_begun;       /* of it a part was told again */
	struct tei_list syncs; /* core's syncs: it is due */
	struct tei_list grace; /* core's graces: it goes at leave_ms */
	uint64_t leave_ms;
	struct tei_drain *drain; /* that empties it; or NULL */
	char name[];
};

/* Where headers are to be voided. */
struct tei_grave {
	uint64_t address, generation, gen_epoch;
};
struct tei_graves {
	struct tei_grave *at; /* at[n] */
	size_t n, room;
};

/* A reply that waits for burials. */
struct tei_waiter {
	struct tei_list link; /* core's answers, once nothing is left */
	tei_session_id session;
	uint64_t cookie;
	enum tei_event_type of;
	unsigned int left; /* burials that are not confirmed */
	size_t graves;     /* in these */
	bool armed;        /* the event is over */
	size_t n;
	int32_t status[]; /* status[n] */
};

/* What one owner is told of one step's commits. */
struct tei_telling;

enum tei_session_state {
	TEI_SESSION_LIVE,
	TEI_SESSION_SUSPECT,
	TEI_SESSION_GONE, /* in no table; kept until its builds are settled */
};

struct tei_session {
	struct tei_hash_node by_id, by_client, by_life;
	tei_session_id id;
	uint8_t state;
	bool left;    /* its main connection closed */
	bool beating; /* a heartbeat came since it joined: fences may go out */
	bool buries;  /* it is told what it has, and buries it */
	bool probes;  /* it answers when it is asked */
	bool executes;
	unsigned int n_tasks;  /* it works on, at most TEI_CORE_TASKS_EACH */
	struct tei_list tasks; /* these */
	uint8_t client_id[TEI_CORE_ID_LEN];
	uint8_t incarnation[TEI_CORE_ID_LEN];
	struct tei_list age;   /* core's live, silent, left or gone */
	struct tei_list close; /* core's closes: an action is due */
	struct tei_list mounts, builds;
	struct tei_list fences;      /* as owner */
	uint64_t seen_ms;            /* left: when it left */
	uint64_t joined_generation;  /* the counter at its last join */
	uint64_t named_by;           /* reply serial */
	uint32_t named_as;           /* index in that reply's segments */
	uint64_t host;               /* a number for its machine */
	struct tei_tenant *tenant;   /* whose keys it means */
	struct tei_graves evicted;   /* to tell it, without an answer */
	struct tei_list notices;     /* core's notices: evicted is not empty */
	struct tei_list probing;     /* core's unprobed or probed, or none */
	uint64_t probe, probe_ms;    /* the last one, and when it was sent */
	struct tei_telling *telling; /* of told_by */
	uint64_t told_by;            /* telling's serial */
	char engine[];
};

/* A remove_all under way. */
struct tei_walk {
	struct tei_list link; /* core's walks */
	tei_session_id session;
	uint64_t cookie, removed;
	size_t cursor;
	struct tei_tenant *tenant;
	bool force, done;
	struct tei_waiter *waiter; /* counts what is to be buried */
	tei_core_match_fn *match;
	void *arg;
};

struct tei_fence {
	struct tei_session *owner;
	struct tei_list link;    /* owner's fences */
	struct tei_list age;     /* core's fences, oldest first */
	struct tei_list unsent;  /* core's unsent */
	struct tei_list extents; /* by link */
	uint64_t id, created_ms;
	bool sent; /* once sent it covers no further extents */
	uint8_t writer[TEI_CORE_ID_LEN];
	/* A burial is one, too, without writer: */
	bool burial;
	struct tei_graves graves;
	struct tei_waiter *waiter; /* not owned; or NULL */
};

/*
 * Objects of @size and more have no room on any live mount but on those in
 * @loose, perhaps: so a full pool of many mounts is not searched at every put.
 */
struct tei_tight {
	uint64_t size;
	struct tei_mount *loose[8];
	size_t n;
};

/* A life of the master; ours may have had several numbers. */
struct tei_epoch {
	uint64_t number;
	bool ours;
};

/* Which keys are not to come back from lives before this one. */
struct tei_recall {
	bool open; /* owners may still bring others */
	uint64_t from_ms;
	struct tei_hash gone;
	struct tei_slab nodes;
};

/* What the columns of entries of a reply have room for. */
struct tei_reply_room {
	struct tei_arena *arena;
	size_t entries, names;
	struct tei_core_segment_name *segments;
};

/* Where a copy goes, or what is moved: one mount, any of a name, any at all. */
struct tei_task_place {
	uint64_t serial;  /* of a mount, or 0 */
	const char *name; /* the task's own; or NULL */
};

struct tei_task {
	struct tei_hash_node by_number, by_object;
	struct tei_list link;      /* a list of tei_tasks, by state */
	struct tei_list at;        /* executor's tasks */
	struct tei_list unsent;    /* tei_tasks' */
	struct tei_object *object; /* NULL: it is no more */
	struct tei_object *copy;   /* there while an executor works on it */
	struct tei_session *executor;
	uint64_t number, cookie;
	uint64_t since_ms, not_before_ms;
	uint64_t created_ms, updated_ms; /* by the caller's clock */
	uint16_t attempt;
	uint8_t kind, state; /* enum tei_task_kind, enum tei_task_state */
	bool move, assigned;
	uint16_t tenant; /* who may ask about it */
	uint8_t lost;    /* more replicas that its object lost meanwhile */
	uint8_t failed;  /* attempts */
	uint64_t tries;  /* to find room */
	int32_t code;
	uint8_t client[TEI_CORE_ID_LEN];
	char message[TEI_CORE_MESSAGE_MAX];
	size_t bytes; /* of all this */
	struct tei_task_place source;
	size_t n_targets, next; /* those before next are done */
	struct tei_task_place targets[];
};

struct tei_tasks {
	struct tei_hash by_number, by_object; /* of objects that have one */
	struct tei_list pending[2]; /* the second are repairs, which yield */
	size_t n_pending[2];
	struct tei_list processing; /* in order of time */
	struct tei_list broken;     /* PROCESSING: to be given up */
	struct tei_list leaving;    /* PROCESSING: moved, its readers remain */
	size_t n_processing;        /* of these three */
	struct tei_list finished;   /* oldest first */
	size_t n_finished;
	struct tei_list unsent;
	uint64_t number; /* of the last */
	size_t n_short;  /* objects of that flag */
	size_t cursor;   /* of the walk that looks for them */
};

struct tei_core {
	struct tei_core_config config;
	uint64_t last_ms;    /* the caller's clock at the last step */
	uint64_t stalled_ms; /* time that passed while nobody stepped */
	uint64_t now_ms;     /* the core's clock: last_ms - stalled_ms */
	uint64_t random;
	uint64_t generation, mount_serial, fence_id, reply_serial; /* last */

	struct tei_hash objects, sessions, clients, groups;
	struct tei_hash lives; /* sessions, by incarnation */
	struct tei_slab extents;
	struct tei_slab blocks[TEI_CORE_BLOCK_SLABS]; /* of objects */
	/* tenants[n_tenants]; NULL: a place that is free */
	struct tei_tenant **tenants;
	size_t n_tenants, free_tenant; /* no place before that one is free */
	struct tei_hash tenant_names;
	bool idle_tenants;        /* there may be some that nobody needs */
	bool shares_due;          /* the pool has another size */
	uint16_t payer;           /* who pays for room that all need ... */
	unsigned int payer_turns; /* ... for so many objects more */
	struct tei_list leased, parked, back;
	struct tei_heap pins;     /* by their end */
	size_t n_extras;          /* each has a place there */
	struct tei_list building; /* objects, by age */
	struct tei_list live, silent, left, gone;
	struct tei_list closes;
	struct tei_list unprobed; /* sessions that are to be asked */
	struct tei_list probed;   /* that have been, longest first */
	uint64_t gap_ms;          /* when we had not looked for a while */
	struct tei_list fences, unsent;
	struct tei_list burials; /* fences of that kind, oldest first */
	struct tei_list notices, syncs;
	struct tei_list answers; /* waiters that wait no more */
	struct tei_list dropping, walks;
	struct tei_list graces; /* mounts, in no order: they are few */
	size_t n_walks;
	struct tei_tasks tasks;
	struct tei_drains drains;
	struct tei_heat heat;
	struct tei_recall recall;

	struct tei_mount **mounts; /* mounts[n_mounts], in mount order, usable
				    * or suspect but not dropping */
	size_t n_mounts, mounts_room;
	uint64_t pool_bytes;       /* of all of them, suspect ones too */
	size_t n_all_mounts;       /* with those that are being dropped */
	size_t n_live_mounts;      /* all: every READY object can be read */
	uint64_t largest_mount;    /* an upper bound of its extents */
	bool largest_went;         /* it may be less by now */
	struct tei_tight tight[2]; /* in one extent, in several */
	bool evicting;             /* from high to low watermark */
	unsigned int effort;       /* left to the starts of this event */

	struct tei_reply_room room;      /* of the reply being made */
	const struct tei_event *waiting; /* whose reply may wait; or NULL */
	struct tei_waiter *waiter;       /* its, once it has to */
	struct tei_object **committed;   /* committed[n_committed], a put end's,
					  * in its arena */
	size_t n_committed;
	uint64_t telling;         /* serial of the last */
	struct tei_epoch *epochs; /* epochs[n_epochs]; the first is nobody's */
	size_t n_epochs;
	uint16_t own_epoch;  /* index */
	uint64_t heap_bytes; /* objects, mounts, sessions, fences; no keys */
	struct tei_core_figures figures; /* those kept by counting */
};

/* tenant.c */
/* -ENOMEM. */
int tei_core_tenants_init(struct tei_core *core);
void tei_core_tenants_free(struct tei_core *core);
/* NULL: there is none of that name. Names mean nothing when tenants are off. */
struct tei_tenant *tei_core_tenant_find(const struct tei_core *core,
					const char *name);
/* The same, made if need be; NULL: no memory, or too many. */
struct tei_tenant *tei_core_tenant_get(struct tei_core *core, const char *name);
static inline struct tei_tenant *tei_core_tenant_of(const struct tei_core *core,
						    const struct tei_object *o)
{
	return core->tenants[o->tenant];
}
/* Its quota leaves it so many bytes more. */
static inline bool tei_core_tenant_has_room(const struct tei_tenant *t,
					    uint64_t bytes)
{
	return t->charged <= t->effective && t->effective - t->charged >= bytes;
}
/* When shares are due: the pool is as large as core says now. */
void tei_core_tenants_share(struct tei_core *core);
/* Of those who have something to evict, who has most of what is its; NULL:
 * nobody has anything. */
struct tei_tenant *tei_core_tenant_payer(struct tei_core *core);
/* Forget those that nobody needs. */
void tei_core_tenants_tick(struct tei_core *core);
size_t tei_core_tenants_bytes(const struct tei_core *core);

/* object.c */
uint64_t tei_core_hash(const struct tei_core *core, const void *bytes,
		       size_t len);
/* Of names that each tenant has for itself. */
uint64_t tei_core_hash_of(const struct tei_core *core, uint16_t tenant,
			  const void *bytes, size_t len);
/* Not empty and not longer than a key may be. */
bool tei_core_key_valid(const struct tei_core_key *key);
/* NULL: not there, or the key is not valid. Successors are not found. */
struct tei_object *tei_core_object_find(const struct tei_core *core,
					uint16_t tenant,
					const struct tei_core_key *key,
					uint64_t hash);
/* The successor of @o, what @o is the successor of; NULL: none. */
struct tei_object *tei_core_successor_find(const struct tei_core *core,
					   const struct tei_object *o);
struct tei_object *tei_core_predecessor_find(const struct tei_core *core,
					     const struct tei_object *o);
/* What stands at the key of @o (or NULL), which find() has found: its successor
 * when it is as good as gone. */
struct tei_object *tei_core_object_now(const struct tei_core *core,
				       struct tei_object *o);
/*
 * Hash up to TEI_CORE_GROUP keys and start to load what finding them touches,
 * so that the cache misses of one group overlap. Returns min(n, group).
 */
size_t tei_core_objects_warm(const struct tei_core *core, uint16_t tenant,
			     const struct tei_core_key *keys, size_t n,
			     uint64_t *hashes);
/* What of an object an event is going to touch besides its head and key. */
enum tei_core_touch {
	TEI_CORE_TOUCH_HEAD,
	TEI_CORE_TOUCH_EXTENTS,
	TEI_CORE_TOUCH_LISTS, /* extents, and its neighbours: it will move */
};
/* The same, and find them; for events that free no object. */
size_t tei_core_objects_find(const struct tei_core *core, uint16_t tenant,
			     const struct tei_core_key *keys, size_t n,
			     enum tei_core_touch touch,
			     struct tei_object **objects);
void tei_core_blocks_init(struct tei_core *core);
void tei_core_blocks_fini(struct tei_core *core);
/* Not in the table, without extents. NULL: out of memory. */
struct tei_object *tei_core_object_new(struct tei_core *core, uint16_t tenant,
				       const struct tei_core_key *key,
				       bool with_extra);
/* It is no longer softly pinned. */
void tei_core_object_unpin(struct tei_core *core, struct tei_extra *x);
/* Its rare attributes; NULL: it has none. */
struct tei_extra *tei_core_object_extra(const struct tei_object *o);
/* Free one that is in no table and has no extents. */
void tei_core_object_free(struct tei_core *core, struct tei_object *o);
/*
 * Take @o out of table and lists and free it. Its extents stay taken, without
 * user: the chain, less those that were lost.
 */
struct tei_extent *tei_core_object_forget(struct tei_core *core,
					  struct tei_object *o);
/* The same, and its extents are free. */
void tei_core_object_drop(struct tei_core *core, struct tei_object *o);
/* Some replica lies on a live mount. */
bool tei_core_object_live(const struct tei_object *o);
/* Every replica lies on a mount that is being dropped: it is as good as not
 * there. */
bool tei_core_object_gone(const struct tei_object *o);
size_t tei_core_object_entries(const struct tei_object *o);

/* watch.c */
/* @o, which is READY, has become so or is about to go. */
void tei_core_told(const struct tei_core *core, const struct tei_object *o,
		   enum tei_core_news news);
static inline void tei_core_tell(const struct tei_core *core,
				 const struct tei_object *o,
				 enum tei_core_news news)
{
	if (core->config.watch)
		tei_core_told(core, o, news);
}

/* group.c */
/* -ENOMEM. */
int tei_core_group_join(struct tei_core *core, struct tei_extra *x,
			const char *name, size_t len);
/* Nothing when it is in none. The last one's leave is the group's end. */
void tei_core_group_leave(struct tei_core *core, struct tei_extra *x);

/* extent.c */
/* @e, of @o, is the first one of its replica. */
bool tei_core_extent_begins(const struct tei_object *o,
			    const struct tei_extent *e);
/* Some of its replicas is there. */
bool tei_core_object_on(const struct tei_object *o, const struct tei_mount *m);
/* NULL: it was lost with its mount. */
struct tei_mount *tei_core_extent_mount(const struct tei_extent *e);
/* Its mount is there, not being dropped. */
bool tei_core_extent_there(const struct tei_extent *e);
/* Of one that holds @size bytes of data. */
static inline uint64_t tei_core_extent_size(uint64_t size)
{
	return (TEI_CORE_HEADER_LEN + size + TEI_SPACE_UNIT - 1) /
	       TEI_SPACE_UNIT * TEI_SPACE_UNIT;
}
/* Bytes of data in @e, where @rest are left from its beginning. */
uint64_t tei_core_extent_length(const struct tei_extent *e, uint64_t rest);
/* @e is a part of @o now, or no longer one of anything: its tenant is charged
 * for it until then. Before @e is lost, too. */
void tei_core_extent_own(struct tei_core *core, struct tei_extent *e,
			 struct tei_object *o);
void tei_core_extent_disown(struct tei_core *core, struct tei_extent *e);
/* One that is in no chain and no list; lost ones too. */
void tei_core_extent_free(struct tei_core *core, struct tei_extent *e);
/* All of a chain. */
void tei_core_chain_free(struct tei_core *core, struct tei_extent *chain);
/*
 * Take replica @replica out of the chain of @o; returns it as a chain of its
 * own, its extents without user.
 */
struct tei_extent *tei_core_replica_cut(struct tei_core *core,
					struct tei_object *o, uint8_t replica);
/* The lowest number that no replica of @o has; TEI_CORE_REPLICAS_MAX: none. */
uint8_t tei_core_replica_free(const struct tei_object *o);
/* @chain, which @o owns, is replica @replica of it, which it has not yet. */
void tei_core_replica_join(struct tei_object *o, struct tei_extent *chain,
			   uint8_t replica);

/* mount.c */
/* Not one that is being dropped; NULL: none. */
struct tei_mount *tei_core_mount_find(const struct tei_core *core,
				      const uint8_t *id);
void tei_core_on_mount(struct tei_core *core, const struct tei_event *ev,
		       struct tei_session *s, struct tei_action *reply);
void tei_core_on_unmount(struct tei_core *core, const struct tei_event *ev,
			 struct tei_session *s, struct tei_action *reply);
/* Its owner is LIVE and it is not being dropped. */
bool tei_core_mount_live(const struct tei_mount *m);
/* Something new may be placed there. */
bool tei_core_mount_takes(const struct tei_mount *m);
/* Those whose grace is over go. */
void tei_core_graces_tick(struct tei_core *core);
/* Some mount that takes something has room for @size bytes when empty. */
bool tei_core_mounts_hold(const struct tei_core *core, uint64_t size);
/* Some would, but its owner has not yet offered all that it has. */
bool tei_core_mounts_offering(const struct tei_core *core, uint64_t size);
/* NULL: it is gone, or going. */
struct tei_mount *tei_core_mount_of(const struct tei_core *core,
				    uint64_t serial);
/* Some mount, if it were empty, would have room for an extent of @size. */
bool tei_core_mounts_fit(struct tei_core *core, uint64_t size);
/* Start to drop @m: absent from now on, its extents go in ticks. */
void tei_core_mount_drop(struct tei_core *core, struct tei_mount *m);
/* Drop extents of dropping mounts, at most *@budget of them. */
void tei_core_drop_some(struct tei_core *core, unsigned int *budget);
/* Count @m's bytes as usable (@sign 1) or no longer so (-1). */
void tei_core_mount_count(struct tei_core *core, const struct tei_mount *m,
			  int sign);

/* place.c */
/* What the starts of one event want. */
struct tei_wish {
	const struct tei_core_replicate *how;
	const struct tei_session *writer;
	struct tei_mount **preferred; /* preferred[n_preferred] */
	size_t n_preferred;
	struct tei_mount *near; /* same_node: where the batch went so far */
};

/* @wish for the event's start. -ENOMEM: the arena is full. */
int tei_core_wish_init(struct tei_core *core, struct tei_wish *wish,
		       const struct tei_event *ev,
		       const struct tei_session *writer,
		       struct tei_arena *arena);
/*
 * Give @o, which has a size, one more replica, with number @replica. False:
 * no room on any mount that it is not on yet.
 */
bool tei_core_place(struct tei_core *core, struct tei_wish *wish,
		    struct tei_object *o, uint8_t replica);
/* The same on @m only. */
bool tei_core_place_on(struct tei_core *core, struct tei_mount *m,
		       struct tei_object *o, uint8_t replica);
/* Nothing is known that keeps @size bytes from being placed on @m. */
bool tei_core_mount_may_fit(const struct tei_mount *m, uint64_t size);
/* Something has become free on @m. */
void tei_core_loosen(struct tei_core *core, struct tei_mount *m);
/* There are other live mounts than before. */
void tei_core_loosen_all(struct tei_core *core);

/* session.c */
struct tei_session *tei_core_session_find(const struct tei_core *core,
					  tei_session_id id);
int tei_core_on_join(struct tei_core *core, const struct tei_event *ev,
		     struct tei_actions *out);
/* A sign of life. */
void tei_core_session_seen(struct tei_core *core, struct tei_session *s);
/* @fresh: what was pushed to it before may be lost. */
void tei_core_session_beat(struct tei_core *core, struct tei_session *s,
			   bool fresh);
void tei_core_session_leave(struct tei_core *core, struct tei_session *s);
/* SUSPECT, until the next sign of life. */
void tei_core_session_suspect(struct tei_core *core, struct tei_session *s);
/* GONE: out of the tables at once, its mounts and builds in ticks. */
void tei_core_session_end(struct tei_core *core, struct tei_session *s);
void tei_core_session_free(struct tei_core *core, struct tei_session *s);
/* Expire by time; settle what gone sessions left. */
void tei_core_sessions_tick(struct tei_core *core, unsigned int *budget);

/* probe.c */
void tei_core_on_report(struct tei_core *core, const struct tei_event *ev);
void tei_core_on_probed(struct tei_session *s, uint64_t probe);
/* It has shown that it lives, or cannot be asked any more. */
void tei_core_probe_cease(struct tei_session *s);
/* So long since the last step; core->now_ms is set. */
void tei_core_probes_gap(struct tei_core *core, uint64_t passed_ms);
/* Who has not answered in time is suspect. */
void tei_core_probes_tick(struct tei_core *core);
/* Probes that are due, as far as the arena has room. */
void tei_core_probes_flush(struct tei_core *core, struct tei_actions *out);

/* start.c */
struct tei_starts {
	struct tei_wish wish;
	struct tei_object **started; /* started[n]; NULL: not */
};

/* 0, or what to answer instead of starting anything. @how may be NULL. */
int32_t tei_core_how_valid(const struct tei_core *core,
			   const struct tei_core_replicate *how);
/* -ENOMEM: the arena is full. */
int tei_core_starts_init(struct tei_core *core, struct tei_starts *starts,
			 const struct tei_event *ev,
			 const struct tei_session *s, struct tei_arena *arena);

/* start.c, end.c, lookup.c, remove.c: columns of @reply are there, zeroed. */
void tei_core_on_put_start(struct tei_core *core, const struct tei_event *ev,
			   struct tei_session *s, struct tei_action *reply,
			   struct tei_starts *starts);
void tei_core_on_put_end(struct tei_core *core, const struct tei_event *ev,
			 struct tei_session *s, struct tei_action *reply);
void tei_core_on_lookup(struct tei_core *core, const struct tei_event *ev,
			const struct tei_session *s, struct tei_action *reply);
void tei_core_on_release(struct tei_core *core, const struct tei_event *ev,
			 const struct tei_session *s);
void tei_core_on_exist(struct tei_core *core, const struct tei_event *ev,
		       const struct tei_session *s, struct tei_action *reply);
void tei_core_on_size(struct tei_core *core, const struct tei_event *ev,
		      const struct tei_session *s, struct tei_action *reply);
void tei_core_on_remove(struct tei_core *core, const struct tei_event *ev,
			const struct tei_session *s, struct tei_action *reply);

void tei_core_on_replica_clear(struct tei_core *core,
			       const struct tei_event *ev,
			       const struct tei_session *s,
			       struct tei_action *reply);
/* Neither read nor asked for, for a remove without force. */
bool tei_core_leased(const struct tei_core *core, const struct tei_object *o);

/* walk.c */
/* A walk begins, or is refused with a reply at once. -ENOMEM: of the arena. */
int tei_core_on_remove_all(struct tei_core *core, const struct tei_event *ev,
			   struct tei_actions *out);
void tei_core_walks_tick(struct tei_core *core, unsigned int *budget);
/* The replies of walks that are through. */
void tei_core_walks_flush(struct tei_core *core, struct tei_actions *out);
/* Whether there is one to go on with: others wait for owners. */
bool tei_core_walking(const struct tei_core *core);
void tei_core_walks_free(struct tei_core *core);

/* evictable.c */
static inline struct tei_object *tei_core_object_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tei_object, link);
}
static inline struct tei_policy *tei_core_policy_of(const struct tei_core *core,
						    const struct tei_object *o)
{
	return &tei_core_tenant_of(core, o)->policy;
}
/* What its extents take. */
uint64_t tei_core_object_room(const struct tei_object *o);
/* Out of whatever list its link is in; from none to the one where it belongs. */
void tei_core_take_out(struct tei_core *core, struct tei_object *o);
void tei_core_put_back(struct tei_core *core, struct tei_object *o);
/* @o has just become READY, without link: where it belongs. */
void tei_core_evictable(struct tei_core *core, struct tei_object *o);
/* @o goes: out of what eviction knows. */
void tei_core_unevictable(struct tei_core *core, struct tei_object *o);
/* It was asked for. */
void tei_core_touch(struct tei_core *core, struct tei_object *o);
/* @o is no longer parked, or need not be: a replica of it went. */
void tei_core_unpark(struct tei_core *core, struct tei_object *o);
/* Out of eviction's sight until unpark(); meanwhile nothing else happens. */
void tei_core_shelter(struct tei_core *core, struct tei_object *o);
/* A task begins: out of sight as long as it is BUSY. Then unpark(). */
void tei_core_hold(struct tei_core *core, struct tei_object *o);
/* Softly pinned now. */
bool tei_core_pinned(const struct tei_core *core, const struct tei_object *o);
/* A read lease from now on. */
void tei_core_readers_clear(struct tei_readers *readers);
void tei_core_readers_add(struct tei_readers *readers,
			  const struct tei_session *s);
/* Whether that was the last one. */
bool tei_core_readers_take(struct tei_readers *readers,
			   const struct tei_session *s);
void tei_core_lease(struct tei_core *core, struct tei_object *o,
		    const struct tei_session *s);
/* It is over, or its readers are done: what is left yields to eviction. */
void tei_core_unlease(struct tei_core *core, struct tei_object *o);
/* The first of the leases is over. */
bool tei_core_lease_over(const struct tei_core *core);
/* Whose pin ends first; some object is pinned. */
struct tei_object *tei_core_first_pinned(const struct tei_core *core);
/* Those whose owner is back, and those whose lease is over. */
void tei_core_take_in(struct tei_core *core, unsigned int *budget);
/* At most @n whose pin is over are as others again; how many. */
unsigned int tei_core_end_pins(struct tei_core *core, unsigned int n);

/* evict.c */
/* Before the starts of an event: they share an effort. */
void tei_core_evict_begin(struct tei_core *core);
/* As place(), evicting until there is room, nothing can go or effort is out. */
bool tei_core_place_or_evict(struct tei_core *core, struct tei_wish *wish,
			     struct tei_object *o);
/*
 * Make sure that @t may have @bytes more, evicting what it has. CODE_QUOTA: it
 * may not; CODE_FULL: the step has done its share.
 */
int32_t tei_core_afford(struct tei_core *core, struct tei_tenant *t,
			uint64_t bytes);
/* After place_or_evict() failed: in how many ms to try again; 0: never. */
uint32_t tei_core_retry_ms(const struct tei_core *core);
void tei_core_evict_tick(struct tei_core *core, unsigned int *budget);
bool tei_core_evict_busy(const struct tei_core *core);

/* fence.c */
/*
 * Give up the BUILDING object @o: its key is free at once, its extents when
 * their owners have confirmed that the writer cannot write any more. -ENOMEM:
 * nothing was changed, try later.
 */
int tei_core_discard(struct tei_core *core, struct tei_object *o);
/*
 * Make sure that fences for these replicas (a mask) of @o can be had without
 * memory, for tei_core_chain_fence() in the same step. -ENOMEM.
 */
int tei_core_fences_reserve(struct tei_core *core, const struct tei_object *o,
			    uint32_t replicas);
/*
 * Free the extents of @chain: those of @replicas (a mask) when @writer cannot
 * write to them any more, the others at once.
 */
void tei_core_chain_fence(struct tei_core *core, struct tei_extent *chain,
			  const struct tei_session *writer, uint32_t replicas);
bool tei_core_discard_due(const struct tei_core *core,
			  const struct tei_object *o);
void tei_core_on_fenced(struct tei_core *core, const struct tei_event *ev,
			struct tei_session *owner);
void tei_core_fences_tick(struct tei_core *core, unsigned int *budget);
/* Whether nothing waits for @f any more: its space was unmounted meanwhile. */
bool tei_core_fence_moot(struct tei_fence *f);
/* Its owner is gone: it is neither sent nor timed any more. */
void tei_core_fence_cease(struct tei_fence *f);
void tei_core_fence_free(struct tei_core *core, struct tei_fence *f);
/* Fences that @owner has not answered get their full time once more. */
void tei_core_fences_restart(struct tei_core *core, struct tei_session *owner);
/* They are due (again): @owner can be reached. */
void tei_core_fences_resend(struct tei_core *core, struct tei_session *owner);

/* bury.c */
/* Whether some owner of @o has to void headers. */
bool tei_core_may_bury(const struct tei_object *o);
/*
 * Make sure that @o, which is READY, can be buried without memory in the same
 * step. -ENOMEM.
 */
int tei_core_bury_reserve(struct tei_core *core, const struct tei_object *o);
/*
 * Forget @o; its extents are free when their owners have voided the headers.
 * The reply of the event under way, if it may wait, waits for those owners that
 * are live.
 */
void tei_core_bury(struct tei_core *core, struct tei_object *o);
/* The same with one replica of it. */
void tei_core_bury_replica(struct tei_core *core, struct tei_object *o,
			   uint8_t replica);
/* Its owners will be told, no matter when, that @o is forgotten. */
void tei_core_notice(struct tei_core *core, const struct tei_object *o);
/* @owner is not live any more: nobody waits for what it has to bury. */
void tei_core_bury_excuse(struct tei_core *core, struct tei_session *owner);
/* For a reply with @n statuses. NULL: no memory. */
struct tei_waiter *tei_core_waiter_new(const struct tei_event *ev, size_t n);
void tei_core_waiter_leave(struct tei_core *core, struct tei_fence *f);
/* The event is over: its reply, the last in @out, goes or waits. */
void tei_core_waiter_end(struct tei_core *core, struct tei_actions *out);
void tei_core_burials_tick(struct tei_core *core);
/* Into the action for the owner. -ENOMEM: the arena is full. */
int tei_core_graves_put(struct tei_action *a, const struct tei_graves *graves,
			struct tei_arena *arena);
void tei_core_graves_free(struct tei_core *core, struct tei_graves *graves);
/* What is due, as far as the arena has room. */
void tei_core_notices_flush(struct tei_core *core, struct tei_actions *out);
void tei_core_answers_flush(struct tei_core *core, struct tei_actions *out);
void tei_core_bury_fini(struct tei_core *core);

/* tell.c */
/* @o has become READY: its owners will be told at the end of the step. */
void tei_core_committed(struct tei_core *core, struct tei_object *o);
/* All that @m holds has to be told again. */
void tei_core_sync(struct tei_core *core, struct tei_mount *m);
void tei_core_tell_flush(struct tei_core *core, struct tei_actions *out);
/*
 * The replica of @o that lies at @owner, as columns of one object. *@out->n is
 * 0: there is none. -ENOMEM: the arena is full.
 */
int tei_core_objects_one(const struct tei_core *core,
			 const struct tei_object *o,
			 const struct tei_session *owner,
			 struct tei_core_objects *out, struct tei_arena *arena);
/* Tell some of what is to be told again. */
void tei_core_sync_some(struct tei_core *core, struct tei_actions *out);

/* task.c; see task.h, too */
int tei_core_tasks_init(struct tei_core *core);
void tei_core_tasks_fini(struct tei_core *core);
/* @number, of something of this master's life, as others know it. */
void tei_core_id_of(const struct tei_core *core, uint64_t number, uint8_t *id);
/* False: @id is of another life. */
bool tei_core_id_number(const struct tei_core *core, const uint8_t *id,
			uint64_t *number);
/* The task of @o; NULL: it has none. */
struct tei_task *tei_core_task_of(const struct tei_core *core,
				  const struct tei_object *o);
/* NULL: no such number. */
struct tei_task *tei_core_task_find(const struct tei_core *core,
				    const uint8_t *id, uint16_t *attempt);
/* Of an attempt; 0: what the task is known as. */
void tei_core_task_id(const struct tei_core *core, const struct tei_task *t,
		      uint16_t attempt, uint8_t *id);
/* A new one, about @o: it waits. */
void tei_core_task_enter(struct tei_core *core, struct tei_task *t,
			 struct tei_object *o);
/* It waits (again): to be tried, and not before @wait_ms. */
void tei_core_task_wait(struct tei_core *core, struct tei_task *t,
			uint64_t wait_ms);
/* PROCESSING, in @list of tei_tasks. */
void tei_core_task_work(struct tei_core *core, struct tei_task *t,
			struct tei_list *list);
/* It is over. It has no copy any more, and may be no more itself. */
void tei_core_task_end(struct tei_core *core, struct tei_task *t, int32_t code);
/* @o, which is TASKED or SHORT, is being forgotten. */
void tei_core_task_orphan(struct tei_core *core, struct tei_object *o);
/* A COPY is being forgotten: no matter why, its task waits again. */
void tei_core_task_unbuilt(struct tei_core *core,
			   const struct tei_object *copy);
/* READY @o takes the place of @old, whose task may be about its key. */
void tei_core_task_inherit(struct tei_core *core, struct tei_object *old,
			   struct tei_object *o);

/* want.c; see task.h, too */
void tei_core_on_task_create(struct tei_core *core, const struct tei_event *ev,
			     const struct tei_session *s,
			     struct tei_action *reply);
void tei_core_on_task_query(struct tei_core *core, const struct tei_event *ev,
			    const struct tei_session *s,
			    struct tei_action *reply);

/* copy.c */
/* Begin with some of those that wait. */
void tei_core_tasks_choose(struct tei_core *core);
/* Begin, time out and settle tasks. */
void tei_core_tasks_tick(struct tei_core *core, unsigned int *budget);
void tei_core_tasks_flush(struct tei_core *core, struct tei_actions *out);
/* All that @s works on is to be sent (again). */
void tei_core_tasks_resend(struct tei_core *core, struct tei_session *s);

/* copied.c */
/* The extent with which the replica begins that is to be moved; NULL: none. */
struct tei_extent *tei_core_task_source(const struct tei_task *t);
/* One target of @t has its copy. */
void tei_core_task_copied(struct tei_core *core, struct tei_task *t);
void tei_core_on_task_done(struct tei_core *core, const struct tei_event *ev,
			   struct tei_session *s);
/* Time out and settle. */
void tei_core_copies_tick(struct tei_core *core, unsigned int *budget);
/* Give up what @o, which is BUSY, is copied to. -ENOMEM: nothing changed. */
int tei_core_task_abort(struct tei_core *core, struct tei_object *o);
/* The time @since is @ms ago; 0: that is never. */
static inline bool tei_core_is_past(const struct tei_core *core, uint64_t since,
				    uint64_t ms)
{
	return ms && since + ms <= core->now_ms;
}

/* repair.c */
/* @o has lost a replica and has others. */
void tei_core_repair(struct tei_core *core, struct tei_object *o);
void tei_core_repair_over(struct tei_core *core, int32_t code);
/* Queue some of those that found no place in the queue. */
void tei_core_repair_some(struct tei_core *core, unsigned int *budget);

/* offer.c */
void tei_core_on_offer(struct tei_core *core, const struct tei_event *ev,
		       const struct tei_session *s, struct tei_action *reply);

/* recall.c */
/* -ENOMEM. */
int tei_core_recall_init(struct tei_core *core);
void tei_core_recall_fini(struct tei_core *core);
size_t tei_core_recall_bytes(const struct tei_core *core);
/* The key of that hash was changed here: older values do not come back. */
void tei_core_renounce(struct tei_core *core, uint64_t hash);
/* All that @t had before, too. */
void tei_core_renounce_all(struct tei_core *core, struct tei_tenant *t);
/* Whether @t's key, which is not here, may be brought by an owner. */
bool tei_core_recalls(const struct tei_core *core, const struct tei_tenant *t,
		      uint64_t hash);
void tei_core_recall_tick(struct tei_core *core);

/* epoch.c */
/* The index of @epoch; 0: it cannot be one, there are too many, no memory. */
uint16_t tei_core_epoch_index(struct tei_core *core, uint64_t epoch);
/*
 * Somebody knows of @epoch: ours is later. What was put under ours stays, but
 * ends of puts that were begun under it come too late.
 */
void tei_core_epoch_exceed(struct tei_core *core, uint64_t epoch);
int tei_core_epochs_init(struct tei_core *core);

/* reply.c */
/*
 * The reply to @ev with its columns zeroed, appended to @out. NULL: the arena
 * is full and nothing was appended. @code: not 0, no columns.
 */
struct tei_action *tei_core_reply(struct tei_core *core,
				  const struct tei_event *ev, int32_t code,
				  struct tei_actions *out);
/* Room for @n more actions without allocation. -ENOMEM. */
int tei_core_actions_reserve(struct tei_actions *out, size_t n);
struct tei_action *tei_core_action_add(struct tei_actions *out,
				       enum tei_action_type type,
				       tei_session_id session);
/*
 * Where key i, which is @o, lies; NULL: it is nowhere. To be called for every
 * key, in order. False: the arena is full, and the key is nowhere.
 */
bool tei_core_reply_place(struct tei_core *core, struct tei_action *reply,
			  const struct tei_event *ev, size_t i,
			  const struct tei_object *o);
/* Fences and closes that are due, as far as the arena has room. */
void tei_core_flush(struct tei_core *core, struct tei_actions *out);

#endif
