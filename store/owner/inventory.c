/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inventory.c - the objects in a segment of its own
 *
 * An object is one heap block: its extents, then its key. Extents are nodes of
 * one treap by offset, whose priorities are a hash of the offset, so that
 * balance costs no bytes. No two overlap, so that their ends are in order,
 * too.
 */
#include "store/owner/inventory.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/chance.h"
#include "base/mem.h"

#define HEADER 64u

static uint64_t end_of(const struct tes_inventory_extent *e)
{
	uint64_t taken = HEADER + e->length;

	return e->offset + (taken + TES_INVENTORY_UNIT - 1) /
				   TES_INVENTORY_UNIT * TES_INVENTORY_UNIT;
}

static uint64_t priority(const struct tes_inventory *d, uint64_t offset)
{
	return tei_chance_mix(offset ^ d->salt);
}

/* ---- the tree ---- */

/* Splits the tree below @at into extents before @offset and the others. */
static void split_extent(struct tes_inventory_extent *at, uint64_t offset,
			 struct tes_inventory_extent **left,
			 struct tes_inventory_extent **right)
{
	while (at) {
		if (at->offset < offset) {
			*left = at;
			left = &at->right;
			at = at->right;
		} else {
			*right = at;
			right = &at->left;
			at = at->left;
		}
	}
	*left = *right = NULL;
}

/* Returns the link where @e belongs. NULL: another extent overlaps it. */
static struct tes_inventory_extent **
place_of(struct tes_inventory *d, const struct tes_inventory_extent *e)
{
	struct tes_inventory_extent **at = &d->root, **place = NULL;
	uint64_t mine = priority(d, e->offset), end = end_of(e);

	while (*at) {
		struct tes_inventory_extent *other = *at;

		if (other->offset < end && e->offset < end_of(other))
			return NULL;
		if (!place && priority(d, other->offset) < mine)
			place = at;
		at = e->offset < other->offset ? &other->left : &other->right;
	}
	return place ? place : at;
}

static void insert_extent(struct tes_inventory *d,
			  struct tes_inventory_extent **at,
			  struct tes_inventory_extent *e)
{
	split_extent(*at, e->offset, &e->left, &e->right);
	*at = e;
	d->n_extents++;
}

/* Returns the link to the extent at @offset; it holds NULL if there is none. */
static struct tes_inventory_extent **link_to(struct tes_inventory *d,
					     uint64_t offset)
{
	struct tes_inventory_extent **at = &d->root;

	while (*at && (*at)->offset != offset)
		at = offset < (*at)->offset ? &(*at)->left : &(*at)->right;
	return at;
}

/* Takes the extent that @at points to out of the treap. */
static struct tes_inventory_extent *take_out(struct tes_inventory *d,
					     struct tes_inventory_extent **at)
{
	struct tes_inventory_extent *e = *at, *left, *right;

	assert(e);
	left = e->left;
	right = e->right;
	while (left && right) {
		if (priority(d, left->offset) >= priority(d, right->offset)) {
			*at = left;
			at = &left->right;
			left = left->right;
		} else {
			*at = right;
			at = &right->left;
			right = right->left;
		}
	}
	*at = left ? left : right;
	d->n_extents--;
	return e;
}

/* The first extent that ends behind @offset; NULL: none. */
static struct tes_inventory_extent *first_behind(const struct tes_inventory *d,
						 uint64_t offset)
{
	struct tes_inventory_extent *at = d->root, *found = NULL;

	while (at) {
		if (end_of(at) > offset) {
			found = at;
			at = at->left;
		} else {
			at = at->right;
		}
	}
	return found;
}

/* ---- objects ---- */

static struct tes_inventory_object *object_of(struct tes_inventory_extent *e)
{
	char *first = (char *)(e - e->index);

	return (void *)(first - offsetof(struct tes_inventory_object, extents));
}

static size_t block_of(size_t n_extents, size_t key_len)
{
	return offsetof(struct tes_inventory_object, extents) +
	       n_extents * sizeof(struct tes_inventory_extent) + key_len;
}

const void *tes_inventory_key(const struct tes_inventory_object *o)
{
	return &o->extents[o->n_extents];
}

/* Length of the optional fields behind the key. */
static size_t rare_len(const struct tes_inventory_object *o)
{
	struct tes_inventory_rare rare;

	if (!(o->flags & TES_INVENTORY_RARE))
		return 0;
	(void)tes_inventory_rare(o, &rare);
	return sizeof(rare) + rare.group_len;
}

const char *tes_inventory_rare(const struct tes_inventory_object *o,
			       struct tes_inventory_rare *out)
{
	const char *at = (const char *)tes_inventory_key(o) + o->key_len;

	*out = (struct tes_inventory_rare){
		.attributes = (uint32_t)(o->flags >> TES_INVENTORY_TYPE) << 8 |
			      !!(o->flags & TES_INVENTORY_PINNED)};
	if (!(o->flags & TES_INVENTORY_RARE))
		return NULL;
	memcpy(out, at, sizeof(*out));
	return at + sizeof(*out);
}

/* Memory that malloc uses for a block: a word more, in steps of 16. */
static uint64_t heap_of(const struct tes_inventory_object *o)
{
	size_t block = block_of(o->n_extents, o->key_len) + rare_len(o);

	return (block + sizeof(size_t) + 15) / 16 * 16 - o->key_len;
}

_Static_assert(sizeof(struct tes_inventory_object) +
			       sizeof(struct tes_inventory_extent) +
			       sizeof(size_t) + 15 <=
		       TES_INVENTORY_OBJECT_MAX,
	       "the inventory's budget");

const char *tes_inventory_tenant(const struct tes_inventory *d,
				 const struct tes_inventory_object *o)
{
	return o->tenant ? d->tenants[o->tenant - 1] : NULL;
}

/* The object of the extent that @at points to. */
static void forget_at(struct tes_inventory *d, struct tes_inventory_extent **at)
{
	struct tes_inventory_extent *first = take_out(d, at);
	struct tes_inventory_object *o = object_of(first);

	for (size_t i = 0; i < o->n_extents; i++) {
		if (i != first->index)
			(void)take_out(d, link_to(d, o->extents[i].offset));
	}
	d->n_objects--;
	d->heap_bytes -= heap_of(o);
	d->key_bytes -= o->key_len;
	tei_free(o);
}

static void forget_object(struct tes_inventory *d,
			  struct tes_inventory_object *o)
{
	forget_at(d, link_to(d, o->extents[0].offset));
}

static bool is_of(const struct tes_inventory_object *o, uint64_t gen_epoch,
		  uint64_t generation)
{
	return o->generation == generation && o->gen_epoch == gen_epoch;
}

const struct tes_inventory_object *
tes_inventory_find(const struct tes_inventory *d, uint64_t offset,
		   uint64_t gen_epoch, uint64_t generation)
{
	struct tes_inventory_extent *e = first_behind(d, offset);

	if (!e || e->offset != offset ||
	    !is_of(object_of(e), gen_epoch, generation))
		return NULL;
	return object_of(e);
}

bool tes_inventory_drop(struct tes_inventory *d, uint64_t offset,
			uint64_t gen_epoch, uint64_t generation)
{
	struct tes_inventory_extent **at = link_to(d, offset);

	if (!*at || !is_of(object_of(*at), gen_epoch, generation))
		return false;
	forget_at(d, at);
	return true;
}

/* ---- adding ---- */

static bool place_holds(const struct tes_inventory *d,
			const struct tes_inventory_place *p)
{
	uint64_t room;

	if (p->offset % TES_INVENTORY_UNIT || p->offset >= d->size ||
	    !p->length)
		return false;
	room = d->size - p->offset;
	return room > HEADER && p->length <= room - HEADER;
}

static bool places_meet(const struct tes_inventory_place *a,
			const struct tes_inventory_place *b)
{
	return a->offset < b->offset + HEADER + b->length &&
	       b->offset < a->offset + HEADER + a->length;
}

static bool holds(const struct tes_inventory *d,
		  const struct tes_inventory_entry *entry)
{
	uint64_t sum = 0;

	if (!entry->key_len || entry->key_len > TES_INVENTORY_KEY_MAX ||
	    !entry->n_places || entry->n_places > TES_INVENTORY_EXTENTS_MAX)
		return false;
	for (size_t i = 0; i < entry->n_places; i++) {
		if (!place_holds(d, &entry->places[i]))
			return false;
		sum += entry->places[i].length;
		for (size_t j = 0; j < i; j++)
			if (places_meet(&entry->places[i], &entry->places[j]))
				return false;
	}
	return sum == entry->size;
}

static void forget_overlapped(struct tes_inventory *d, uint64_t offset,
			      uint64_t length)
{
	struct tes_inventory_extent *e;

	while ((e = first_behind(d, offset)) &&
	       e->offset < offset + HEADER + length)
		forget_object(d, object_of(e));
}

static void take_place(struct tes_inventory *d, struct tes_inventory_extent *e)
{
	struct tes_inventory_extent **at = place_of(d, e);

	if (!at) {
		forget_overlapped(d, e->offset, e->length);
		at = place_of(d, e);
	}
	assert(at);
	insert_extent(d, at, e);
}

static bool is_rare(const struct tes_inventory_entry *entry)
{
	const struct tes_inventory_rare *r = &entry->rare;

	return r->pin_until_ms || r->group_len ||
	       r->attributes >> 8 > TES_INVENTORY_TYPE_MAX;
}

static uint8_t flags_of(const struct tes_inventory_entry *entry)
{
	uint32_t attributes = entry->rare.attributes, flags = 0;

	if (entry->no_crc)
		flags |= TES_INVENTORY_NO_CRC;
	if (is_rare(entry))
		return (uint8_t)(flags | TES_INVENTORY_RARE);
	if (attributes & 1)
		flags |= TES_INVENTORY_PINNED;
	return (uint8_t)(flags | attributes >> 8 << TES_INVENTORY_TYPE);
}

static int tenant_add(struct tes_inventory *d, const char *name)
{
	char **grown;

	if (d->n_tenants == UINT16_MAX)
		return -ENOMEM;
	grown = tei_realloc(d->tenants, (d->n_tenants + 1u) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	d->tenants = grown;
	grown[d->n_tenants] = tei_strdup(name);
	if (!grown[d->n_tenants])
		return -ENOMEM;
	d->n_tenants++;
	return 0;
}

/* The number of @name, mostly of those that came last. -ENOMEM. */
static int tenant_number(struct tes_inventory *d, const char *name,
			 uint16_t *out)
{
	uint16_t i = d->n_tenants;

	*out = 0;
	if (!name)
		return 0;
	while (i && strcmp(d->tenants[i - 1], name) != 0)
		i--;
	if (!i && tenant_add(d, name) < 0)
		return -ENOMEM;
	*out = i ? i : d->n_tenants;
	return 0;
}

static struct tes_inventory_object *
new_object(const struct tes_inventory_entry *entry)
{
	size_t aside = is_rare(entry)
			       ? sizeof(entry->rare) + entry->rare.group_len
			       : 0;
	struct tes_inventory_object *o =
		tei_malloc(block_of(entry->n_places, entry->key_len) + aside);
	char *at;

	if (!o)
		return NULL;
	o->generation = entry->generation;
	o->gen_epoch = entry->gen_epoch;
	o->size = entry->size;
	o->key_len = (uint16_t)entry->key_len;
	o->n_extents = (uint16_t)entry->n_places;
	o->flags = flags_of(entry);
	for (size_t i = 0; i < entry->n_places; i++)
		o->extents[i] = (struct tes_inventory_extent){
			.offset = entry->places[i].offset,
			.length = entry->places[i].length,
			.crc = entry->places[i].crc,
			.index = (uint16_t)i,
		};
	at = (char *)&o->extents[o->n_extents];
	memcpy(at, entry->key, entry->key_len);
	if (!aside)
		return o;
	at += entry->key_len;
	memcpy(at, &entry->rare, sizeof(entry->rare));
	if (entry->rare.group_len)
		memcpy(at + sizeof(entry->rare), entry->group,
		       entry->rare.group_len);
	return o;
}

int tes_inventory_add(struct tes_inventory *d,
		      const struct tes_inventory_entry *entry)
{
	struct tes_inventory_object *o = NULL;
	uint16_t tenant;
	size_t i;

	if (!holds(d, entry))
		return -EINVAL;
	if (!tenant_number(d, entry->tenant, &tenant))
		o = new_object(entry);
	if (!o) {
		for (i = 0; i < entry->n_places; i++)
			forget_overlapped(d, entry->places[i].offset,
					  entry->places[i].length);
		return -ENOMEM;
	}
	o->tenant = tenant;
	for (i = 0; i < o->n_extents; i++)
		take_place(d, &o->extents[i]);
	o->round = d->round;
	d->n_objects++;
	d->heap_bytes += heap_of(o);
	d->key_bytes += o->key_len;
	return 0;
}

/* ---- all of it ---- */

void tes_inventory_init(struct tes_inventory *d, uint64_t size, uint64_t salt)
{
	*d = (struct tes_inventory){.size = size, .salt = salt};
}

/* The first in order to the root, at the cost of the balance. */
static void lift_first(struct tes_inventory *d)
{
	struct tes_inventory_extent *left;

	while ((left = d->root->left)) {
		d->root->left = left->right;
		left->right = d->root;
		d->root = left;
	}
}

/*
 * A root without a left side is taken out in one step, and all rotations
 * together are no more than there are extents: with ten million objects, whose
 * subtrees would else be joined again for each of them, that is seconds.
 */
void tes_inventory_clear(struct tes_inventory *d)
{
	while (d->root) {
		lift_first(d);
		forget_object(d, object_of(d->root));
	}
	while (d->n_tenants)
		tei_free(d->tenants[--d->n_tenants]);
	tei_free(d->tenants);
	d->tenants = NULL;
	assert(!d->n_objects && !d->n_extents && !d->heap_bytes);
}

void tes_inventory_begin(struct tes_inventory *d)
{
	d->round++;
}

void tes_inventory_sweep(struct tes_inventory *d)
{
	struct tes_inventory_extent *e;
	uint64_t cursor = 0;

	while ((e = first_behind(d, cursor))) {
		struct tes_inventory_object *o = object_of(e);

		cursor = end_of(e);
		if (o->round != d->round)
			forget_object(d, o);
	}
}

const struct tes_inventory_object *
tes_inventory_next(const struct tes_inventory *d, uint64_t *cursor)
{
	struct tes_inventory_extent *e;

	while ((e = first_behind(d, *cursor))) {
		*cursor = end_of(e);
		if (!e->index)
			return object_of(e);
	}
	return NULL;
}
