/* SPDX-License-Identifier: Apache-2.0 */
/* object.h - objects, their table and their groups */
#ifndef STORE_CORE_OBJECT_H
#define STORE_CORE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "store/core/core.h"
#include "store/core/policy.h"
#include "store/core/space.h"
#include "store/core/state.h"

struct tes_core;
struct tes_extra;
struct tes_session;

/*
 * Look-ups that have not been released, by who made them: of two sessions, or
 * of more, who then are one and release nothing. A session is a number within
 * 16 bits; two that have the same are one, too.
 */
#define TES_CORE_READERS      2
#define TES_CORE_READERS_MANY UINT16_MAX
struct tes_readers {
	struct {
		uint16_t who, n; /* n: 0: free; UINT16_MAX: or more */
	} at[TES_CORE_READERS];
};

/* Objects that are evicted together; there as long as it has members. */
struct tes_group {
	struct tei_hash_node node;
	uint16_t tenant;         /* all members' */
	struct tei_list members; /* struct tes_extra */
	size_t name_len;
	char name[];
};

/* -ENOMEM. */
int tes_core_group_join(struct tes_core *core, struct tes_extra *x,
			const char *name, size_t len);

/* Keys of a batch that are looked up together. */
#define TES_CORE_PREFETCH 32

enum tes_object_state { TES_OBJECT_BUILDING, TES_OBJECT_READY };

enum tes_object_flags {
	TES_OBJECT_LEASED = 1u << 0,     /* in core `leased` */
	TES_OBJECT_SUCCESSOR = 1u << 2,  /* BUILDING; find() passes over it */
	TES_OBJECT_SUCCEEDED = 1u << 3,  /* has a successor */
	TES_OBJECT_NO_CRC = 1u << 4,     /* writer gave none */
	TES_OBJECT_HARD = 1u << 5,       /* never evicted */
	TES_OBJECT_EXTRA = 1u << 6,      /* struct tes_extra behind the key */
	TES_OBJECT_PROTECTED = 1u << 7,  /* hidden by protect() */
	TES_OBJECT_UNVERIFIED = 1u << 8, /* offered; nobody looked at it */
	TES_OBJECT_TASKED = 1u << 9,     /* has a task */
	TES_OBJECT_BUSY = 1u << 10,      /* its task is under way */
	TES_OBJECT_COPY = 1u << 11,      /* BUILDING: a task's, in no table */
	TES_OBJECT_SHORT = 1u << 12,     /* lost a replica, has no task yet */
};

/* Rare attributes, behind the key. */
struct tes_extra {
	struct tei_list link; /* group's members */
	struct tes_object *object;
	struct tes_group *group; /* NULL: none */
	struct tei_heap_node pin;
	uint64_t pin_ms; /* BUILDING: how long to pin softly; 0: not */
	uint64_t pin_until_ms;
	uint32_t data_type;
	bool pinned; /* counted as such, which may end late */
};

struct tes_object {
	struct tes_extent *extents; /* never NULL in the table */
	uint64_t generation;
	uint64_t size; /* data, without header and rounding */
	union {
		struct tei_list link;           /* see above */
		struct {                        /* BUILDING */
			struct tei_list builds; /* is link */
			struct tes_session *writer;
			struct tei_list age;
		};
		struct {                               /* READY */
			struct tes_policy_node policy; /* begins with link */
			uint64_t read_until_ms;        /* LEASED: not evicted */
			struct tes_readers readers;
		};
	};
	/* An existence check touches what follows: two lines of cache. */
	struct tei_hash_node node;
	union {
		uint64_t started_ms;    /* BUILDING */
		uint64_t weak_until_ms; /* READY: no remove until then */
	};
	uint16_t key_len : 15;
	uint16_t state : 1; /* enum tes_object_state */
	uint16_t flags;
	uint16_t epoch;  /* generation's: index into core's epochs */
	uint16_t tenant; /* index into core's tenants */
	char key[];      /* key[key_len] */
};

/* Cost of one object besides its key, malloc's own included: 200 bytes with its
 * extent, two slots of the table's directory and its share of holes. */
_Static_assert(offsetof(struct tes_object, key) <= 96, "200 bytes an object");
_Static_assert(sizeof(struct tes_extent) <= 64, "200 bytes an object");
_Static_assert(TES_CORE_KEY_MAX < 1 << 15, "key_len");

/* True: neither empty nor longer than a key may be. */
bool tes_core_key_valid(const struct tes_core_key *key);
/* NULL: not there, or the key is not valid. Successors are not found. */
struct tes_object *tes_core_object_find(const struct tes_core *core,
					uint16_t tenant,
					const struct tes_core_key *key,
					uint64_t hash);
/* Successor of @o, and the object that @o succeeds; NULL: none. */
struct tes_object *tes_core_successor_find(const struct tes_core *core,
					   const struct tes_object *o);
struct tes_object *tes_core_predecessor_find(const struct tes_core *core,
					     const struct tes_object *o);
/* Follows from @o (or NULL), which find() has found, to its successor when @o
 * is as good as gone. */
struct tes_object *tes_core_object_now(const struct tes_core *core,
				       struct tes_object *o);
/*
 * Hash up to TES_CORE_PREFETCH keys and start to load what finding them
 * touches, so that the cache misses of one group overlap. Returns min(n,
 * group).
 */
size_t tes_core_objects_prefetch(const struct tes_core *core, uint16_t tenant,
				 const struct tes_core_key *keys, size_t n,
				 uint64_t *hashes);
/* Parts of an object that an event will touch besides its head and key. */
enum tes_core_touch {
	TES_CORE_TOUCH_HEAD,
	TES_CORE_TOUCH_EXTENTS,
	TES_CORE_TOUCH_LISTS, /* extents, and its neighbours: it will move */
};
/* Prefetches and finds; for events that free no object. */
size_t tes_core_objects_find(const struct tes_core *core, uint16_t tenant,
			     const struct tes_core_key *keys, size_t n,
			     enum tes_core_touch touch,
			     struct tes_object **objects);
void tes_core_blocks_init(struct tes_core *core);
void tes_core_blocks_fini(struct tes_core *core);
/* Creates an object that is in no table and has no extents. NULL: no memory. */
struct tes_object *tes_core_object_new(struct tes_core *core, uint16_t tenant,
				       const struct tes_core_key *key,
				       bool with_extra);
/* Ends the soft pin of @x. */
void tes_core_object_unpin(struct tes_core *core, struct tes_extra *x);
/* Offset of the extra in the block; without one, the block's end. */
static inline size_t tes_core_extra_at(size_t key_len)
{
	size_t align = _Alignof(struct tes_extra);

	return (offsetof(struct tes_object, key) + key_len + align - 1) /
	       align * align;
}
/* Rare attributes of @o; NULL: it has none. */
static inline struct tes_extra *
tes_core_object_extra(const struct tes_object *o)
{
	if (!(o->flags & TES_OBJECT_EXTRA))
		return NULL;
	return (struct tes_extra *)(void *)((char *)(uintptr_t)o +
					    tes_core_extra_at(o->key_len));
}
/* Free one that is in no table and has no extents. */
void tes_core_object_free(struct tes_core *core, struct tes_object *o);
/*
 * Take @o out of table and lists and free it. Its extents stay taken, without
 * user: the chain, less those that were lost.
 */
struct tes_extent *tes_core_object_forget(struct tes_core *core,
					  struct tes_object *o);
/* Forgets @o and frees its extents. */
void tes_core_object_drop(struct tes_core *core, struct tes_object *o);
/* True: some replica lies on a live mount. */
bool tes_core_object_live(const struct tes_object *o);
/* True: every replica lies on a mount that is being dropped, so @o is as good
 * as not there. */
bool tes_core_object_gone(const struct tes_object *o);
size_t tes_core_object_entries(const struct tes_object *o);
/* Number of the client that has written READY @o; 0: unknown, as it was offered
 * by owners. */
uint16_t tes_core_object_writer(const struct tes_object *o);

/* Tells the watch, if any, that @o has become READY, or is about to go. */
void tes_core_call_watch(const struct tes_core *core,
			 const struct tes_object *o, enum tes_core_news news);
static inline void tes_core_notify_watch(const struct tes_core *core,
					 const struct tes_object *o,
					 enum tes_core_news news)
{
	if (core->config.watch)
		tes_core_call_watch(core, o, news);
}

#endif
