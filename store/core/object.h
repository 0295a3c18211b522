/* SPDX-License-Identifier: Apache-2.0 */
/* object.h - objects, and the table of them */
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
#include "store/core/readers.h"
#include "store/core/space.h"

struct tei_group;
struct tei_session;

/* Keys of a batch that are looked up together. */
#define TEI_CORE_GROUP 32

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

#endif
