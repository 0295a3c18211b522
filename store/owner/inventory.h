/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inventory.h - what an owner knows of the objects in a segment of its own
 *
 * The master tells of each replica that was committed and of each that is to
 * be buried. When it has lost its memory, this is where the pool's comes from.
 * An object that is not told of any more goes when a newer one is committed to
 * a part of its space. Places are offsets in the segment; an extent takes its
 * header and its data, rounded up to TES_INVENTORY_UNIT.
 *
 * An object of one extent costs at most TES_INVENTORY_OBJECT_MAX bytes of heap
 * beside its key, what malloc adds included, and what few objects have: a soft
 * pin, a group, a type above TES_INVENTORY_TYPE_MAX.
 *
 * Threads: none of its own; one caller at a time.
 */
#ifndef STORE_OWNER_INVENTORY_H
#define STORE_OWNER_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TES_INVENTORY_UNIT        64u
#define TES_INVENTORY_OBJECT_MAX  100u
#define TES_INVENTORY_KEY_MAX     1024u
#define TES_INVENTORY_EXTENTS_MAX 16u /* of one object */

struct tes_inventory_extent {
	struct tes_inventory_extent *left, *right; /* by offset */
	uint64_t offset;                           /* of the header */
	uint64_t length;                           /* of the data behind it */
	uint32_t crc;                              /* of that data */
	uint16_t index;                            /* among the object's */
};

#define TES_INVENTORY_TYPE_MAX 15u

enum tes_inventory_flags {
	TES_INVENTORY_NO_CRC = 1u << 0,
	TES_INVENTORY_PINNED = 1u << 1, /* for good */
	TES_INVENTORY_RARE = 1u << 2,
	TES_INVENTORY_TYPE = 4, /* from this bit on, its data type */
};

/* Rules by which an object is to be kept. */
struct tes_inventory_rare {
	uint64_t pin_until_ms; /* softly; 0: not */
	uint32_t attributes;   /* bit 0: for good; from bit 8 on: data type */
	uint16_t group_len;    /* 0: none */
};

struct tes_inventory_object {
	uint64_t generation, gen_epoch;
	uint64_t size; /* of the value */
	uint16_t key_len, n_extents;
	uint8_t flags;   /* enum tes_inventory_flags */
	uint8_t round;   /* the inventory's when it was added */
	uint16_t tenant; /* 0: `default`; else see tes_inventory_tenant() */
	/* extents[n_extents], in order of the value; behind them the key, and
	 * behind that, with TES_INVENTORY_RARE, struct tes_inventory_rare. */
	struct tes_inventory_extent extents[];
};

struct tes_inventory {
	struct tes_inventory_extent *root;
	uint64_t size; /* of the segment */
	uint64_t salt; /* of the tree's balance */
	size_t n_objects, n_extents;
	uint64_t heap_bytes; /* keys left out */
	uint64_t key_bytes;
	char **tenants; /* tenants[n_tenants]; whoever was named */
	uint16_t n_tenants;
	uint8_t round;
};

/* An extent to add. Everything is borrowed for the call. */
struct tes_inventory_place {
	uint64_t offset, length;
	uint32_t crc;
};
struct tes_inventory_entry {
	const void *key;
	size_t key_len;
	uint64_t generation, gen_epoch, size;
	bool no_crc;
	struct tes_inventory_rare rare;
	const char *group;                        /* group[rare.group_len] */
	const char *tenant;                       /* NULL: `default` */
	const struct tes_inventory_place *places; /* in order of the value */
	size_t n_places;
};

/* Empty, for a segment of @size bytes. Takes no memory. */
void tes_inventory_init(struct tes_inventory *d, uint64_t size, uint64_t salt);
/* Forget everything; it is as after init(). */
void tes_inventory_clear(struct tes_inventory *d);

/*
 * Remember an object. Those that it overlaps are forgotten, also when there is
 * no memory for it: their bytes are no more. -ENOMEM; -EINVAL (nothing
 * changes): it has no key or too long a one, no extents or too many, one
 * outside the segment, misplaced or over another, or they do not add up.
 */
int tes_inventory_add(struct tes_inventory *d,
		      const struct tes_inventory_entry *entry);
/* The object with that generation that has an extent at @offset; or NULL. */
const struct tes_inventory_object *
tes_inventory_find(const struct tes_inventory *d, uint64_t offset,
		   uint64_t gen_epoch, uint64_t generation);
/* Forget it. False: it is not there. */
bool tes_inventory_drop(struct tes_inventory *d, uint64_t offset,
			uint64_t gen_epoch, uint64_t generation);

/*
 * Between begin and sweep everything is added once more; sweep forgets what was
 * not. A begin whose sweep never came counts for nothing.
 */
void tes_inventory_begin(struct tes_inventory *d);
void tes_inventory_sweep(struct tes_inventory *d);

const void *tes_inventory_key(const struct tes_inventory_object *object);
/*
 * Reads the rules by which an object is to be kept. Returns the group's name,
 * which has no 0 at its end.
 */
const char *tes_inventory_rare(const struct tes_inventory_object *object,
			       struct tes_inventory_rare *out);
/* Tenant of @object, valid until clear(); NULL: `default`. */
const char *tes_inventory_tenant(const struct tes_inventory *d,
				 const struct tes_inventory_object *object);

/*
 * The next object in order of its first extent's place, or NULL at the end.
 * *@cursor starts at 0. What is added or dropped meanwhile disturbs nothing
 * but itself.
 */
const struct tes_inventory_object *
tes_inventory_next(const struct tes_inventory *d, uint64_t *cursor);

#endif
