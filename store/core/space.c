/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.c - free extents of one segment, in bins by size
 *
 * Invariants: extents in `order` tile the space without gaps; no two free
 * ones are neighbours; a bin's bit is set exactly when the bin is not empty.
 * A size that found no hole finds none before one grows, and larger ones find
 * none either: full segments are not searched at every start.
 */
#include "store/core/space.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

/* Holes of its own bin that an allocation tries before it goes up. */
#define OWN_BIN_TRIES 8
/* Holes tried when nothing larger is left: better slow than evicting for
 * nothing. */
#define LAST_TRIES 64

#define SUB_BITS 4

struct bin {
	unsigned int level, sub;
};

/* Level 0 has sizes 1 .. 15 units exactly, level l has 16 << (l - 1) and up. */
static struct bin bin_of(uint64_t size)
{
	uint64_t units = size / TES_SPACE_UNIT;
	unsigned int top;

	if (units < TES_SPACE_SUBS)
		return (struct bin){0, (unsigned int)units};
	top = 63u - (unsigned int)__builtin_clzll(units);
	return (struct bin){top - SUB_BITS + 1,
			    (unsigned int)(units >> (top - SUB_BITS)) &
				    (TES_SPACE_SUBS - 1)};
}

static void bin_add(struct tes_space *s, struct tes_extent *e)
{
	struct bin b = bin_of(e->size);

	e->space = NULL;
	e->user = NULL;
	tei_list_add_head(&s->bins[b.level][b.sub], &e->link);
	s->subs[b.level] |= 1u << b.sub;
	s->levels |= (uint64_t)1 << b.level;
}

static void bin_del(struct tes_space *s, struct tes_extent *e)
{
	struct bin b = bin_of(e->size);

	tei_list_del(&e->link);
	if (!tei_list_empty(&s->bins[b.level][b.sub]))
		return;
	s->subs[b.level] &= ~(1u << b.sub);
	if (!s->subs[b.level])
		s->levels &= ~((uint64_t)1 << b.level);
}

static struct tes_extent *extent_of(struct tei_list *link)
{
	return tei_list_entry(link, struct tes_extent, link);
}

/* Finds a hole of at least @size among the first @tries of its bin. */
static struct tes_extent *find_in_own(struct tes_space *s, uint64_t size,
				      unsigned int tries)
{
	struct bin b = bin_of(size);

	tei_list_for_each (link, &s->bins[b.level][b.sub]) {
		if (!tries--)
			break;
		if (extent_of(link)->size >= size)
			return extent_of(link);
	}
	return NULL;
}

/* Finds a hole in the smallest larger bin: any of them fits. */
static struct tes_extent *find_above(struct tes_space *s, uint64_t size)
{
	struct bin b = bin_of(size);
	uint32_t subs = s->subs[b.level] & (~0u << b.sub << 1);
	uint64_t levels;

	if (!subs) {
		levels = s->levels & (~(uint64_t)0 << b.level << 1);
		if (!levels)
			return NULL;
		b.level = (unsigned int)__builtin_ctzll(levels);
		subs = s->subs[b.level];
	}
	b.sub = (unsigned int)__builtin_ctz(subs);
	return extent_of(s->bins[b.level][b.sub].next);
}

static void order_del(struct tes_space *s, struct tes_extent *e)
{
	for (int i = 0; i < TES_SPACE_WALKS; i++)
		if (s->at[i] == &e->order)
			s->at[i] = e->order.next;
	tei_list_del(&e->order);
}

static struct tes_extent *new_node(struct tes_space *s, uint64_t offset,
				   uint64_t size)
{
	struct tes_extent *e = tei_slab_get(s->nodes);

	if (!e)
		return NULL;
	tei_list_init(&e->order);
	tei_list_init(&e->link);
	e->offset = offset;
	e->size = size;
	return e;
}

int tes_space_init(struct tes_space *s, struct tei_slab *nodes, uint64_t size)
{
	struct tes_extent *e;

	assert(size && size % TES_SPACE_UNIT == 0 && size <= TES_SPACE_MAX);
	*s = (struct tes_space){
		.nodes = nodes,
		.size = size,
		.too_large = UINT64_MAX,
		.too_wide = UINT64_MAX,
	};
	tei_list_init(&s->order);
	for (int i = 0; i < TES_SPACE_WALKS; i++)
		s->at[i] = &s->order;
	for (int l = 0; l < TES_SPACE_LEVELS; l++)
		for (int i = 0; i < TES_SPACE_SUBS; i++)
			tei_list_init(&s->bins[l][i]);
	e = new_node(s, 0, size);
	if (!e)
		return -ENOMEM;
	tei_list_add_tail(&s->order, &e->order);
	bin_add(s, e);
	return 0;
}

void tes_space_fini(struct tes_space *s)
{
	struct tei_list *node;

	while ((node = tei_list_pop(&s->order)))
		tei_slab_put(s->nodes,
			     tei_list_entry(node, struct tes_extent, order));
}

/* Cut what @e has beyond @size off into a hole of its own. */
static bool split_extent(struct tes_space *s, struct tes_extent *e,
			 uint64_t size)
{
	struct tes_extent *rest;

	if (e->size == size)
		return true;
	rest = new_node(s, e->offset + size, e->size - size);
	if (!rest)
		return false;
	e->size = size;
	tei_list_insert(&e->order, &rest->order);
	bin_add(s, rest);
	return true;
}

static struct tes_extent *find_hole(struct tes_space *s, uint64_t size)
{
	struct tes_extent *e;

	if (size >= s->too_large)
		return NULL;
	e = find_in_own(s, size, OWN_BIN_TRIES);
	if (!e)
		e = find_above(s, size);
	if (!e)
		e = find_in_own(s, size, LAST_TRIES);
	if (!e)
		s->too_large = size;
	return e;
}

/* Takes the first @size bytes of the hole @e. False: no node. */
static bool take_from(struct tes_space *s, struct tes_extent *e, uint64_t size,
		      void *user)
{
	bin_del(s, e);
	if (!split_extent(s, e, size)) {
		bin_add(s, e);
		return false;
	}
	e->next = NULL;
	e->crc = 0;
	e->replica = 0;
	e->tries = 0;
	e->writer = 0;
	e->space = s;
	e->user = user;
	s->used += size;
	return true;
}

struct tes_extent *tes_space_take(struct tes_space *s, uint64_t size,
				  void *user)
{
	struct tes_extent *e;

	assert(size && size % TES_SPACE_UNIT == 0);
	e = find_hole(s, size);
	return e && take_from(s, e, size, user) ? e : NULL;
}

/* Moves @b to the first bin below it that has a hole; false: none. */
static bool bin_below(const struct tes_space *s, struct bin *b)
{
	uint32_t subs = 0;
	uint64_t levels;

	if (b->level < TES_SPACE_LEVELS)
		subs = s->subs[b->level] & ((1u << b->sub) - 1);
	if (!subs) {
		levels = s->levels & (((uint64_t)1 << b->level) - 1);
		if (!levels)
			return false;
		b->level = 63u - (unsigned int)__builtin_clzll(levels);
		subs = s->subs[b->level];
	}
	b->sub = 31u - (unsigned int)__builtin_clz(subs);
	return true;
}

/* Finds the largest holes that hold @size bytes besides their headers. */
static size_t find_parts(struct tes_space *s, uint64_t size, uint64_t header,
			 uint64_t floor,
			 struct tes_extent *out[TES_SPACE_PARTS])
{
	struct bin b = {TES_SPACE_LEVELS, 0};
	uint64_t found = 0;
	size_t n = 0;

	while (n < TES_SPACE_PARTS && bin_below(s, &b)) {
		tei_list_for_each (link, &s->bins[b.level][b.sub]) {
			struct tes_extent *e = extent_of(link);

			if (e->size < floor || n == TES_SPACE_PARTS)
				return 0;
			out[n++] = e;
			found += e->size - header;
			if (found >= size)
				return n;
		}
	}
	return 0;
}

size_t tes_space_take_parts(struct tes_space *s, uint64_t size, uint64_t header,
			    uint64_t floor, void *user,
			    struct tes_extent *out[TES_SPACE_PARTS])
{
	uint64_t rest = size, last;
	size_t n;

	assert(floor > header);
	if (size >= s->too_wide || s->size - s->used <= size)
		return 0;
	n = find_parts(s, size, header, floor, out);
	if (!n) {
		s->too_wide = size;
		return 0;
	}
	for (size_t i = 0; i + 1 < n; i++)
		rest -= out[i]->size - header;
	last = (header + rest + TES_SPACE_UNIT - 1) / TES_SPACE_UNIT *
	       TES_SPACE_UNIT;
	/* Takes the last first, the only one that can fail. */
	if (!take_from(s, out[n - 1], last, user))
		return 0;
	for (size_t i = 0; i + 1 < n; i++)
		take_from(s, out[i], out[i]->size, user);
	return n;
}

/* Let @e swallow its right neighbour if that is free. */
static void join_right(struct tes_space *s, struct tes_extent *e)
{
	struct tes_extent *right;

	if (e->order.next == &s->order)
		return;
	right = tei_list_entry(e->order.next, struct tes_extent, order);
	if (right->space)
		return;
	bin_del(s, right);
	e->size += right->size;
	order_del(s, right);
	tei_slab_put(s->nodes, right);
}

void tes_space_give(struct tes_space *s, struct tes_extent *e)
{
	struct tes_extent *left;

	assert(e->space == s);
	s->used -= e->size;
	s->too_large = s->too_wide = UINT64_MAX;
	join_right(s, e);
	if (e->order.prev != &s->order) {
		left = tei_list_entry(e->order.prev, struct tes_extent, order);
		if (!left->space) {
			bin_del(s, left);
			left->size += e->size;
			order_del(s, e);
			tei_slab_put(s->nodes, e);
			e = left;
		}
	}
	bin_add(s, e);
}

struct tes_extent *tes_space_first(const struct tes_space *s)
{
	if (tei_list_empty(&s->order))
		return NULL;
	return tei_list_entry(s->order.next, struct tes_extent, order);
}

void tes_space_detach(struct tes_space *s, struct tes_extent *e)
{
	if (e->space)
		s->used -= e->size;
	else
		bin_del(s, e);
	order_del(s, e);
	tei_slab_put(s->nodes, e);
}

void tes_space_lose(struct tes_space *s, struct tes_extent *e)
{
	assert(e->space == s);
	s->used -= e->size;
	order_del(s, e);
	e->space = NULL;
}

/* ---- by address ---- */

static struct tes_extent *extent_in_order(struct tei_list *order)
{
	return tei_list_entry(order, struct tes_extent, order);
}

/* Moves the cursor to the extent that @offset is in. */
static struct tes_extent *seek_extent(struct tes_space *s, uint64_t offset)
{
	struct tei_list *at = s->at[TES_SPACE_RESYNC];

	if (at == &s->order)
		at = s->order.next;
	while (extent_in_order(at)->offset > offset)
		at = at->prev;
	while (extent_in_order(at)->offset + extent_in_order(at)->size <=
	       offset)
		at = at->next;
	s->at[TES_SPACE_RESYNC] = at;
	return extent_in_order(at);
}

struct tes_extent *tes_space_take_at(struct tes_space *s, uint64_t offset,
				     uint64_t size, void *user)
{
	struct tes_extent *e;

	assert(offset % TES_SPACE_UNIT == 0 && size % TES_SPACE_UNIT == 0);
	if (!size || offset >= s->size || size > s->size - offset ||
	    tei_slab_reserve(s->nodes, 2) < 0)
		return NULL;
	e = seek_extent(s, offset);
	if (e->space || e->offset + e->size < offset + size)
		return NULL;
	if (e->offset < offset) {
		bin_del(s, e);
		(void)split_extent(s, e, offset - e->offset); /* reserved */
		bin_add(s, e);
		e = extent_in_order(e->order.next);
	}
	(void)take_from(s, e, size, user);
	s->at[TES_SPACE_RESYNC] = &e->order;
	return e;
}

void tes_space_rewind(struct tes_space *s, enum tes_space_walk walk)
{
	s->at[walk] = s->order.next;
}

struct tes_extent *tes_space_next(struct tes_space *s, enum tes_space_walk walk)
{
	struct tei_list *at = s->at[walk];

	if (at == &s->order)
		return NULL;
	s->at[walk] = at->next;
	return extent_in_order(at);
}
