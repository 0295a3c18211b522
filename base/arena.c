/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.c - memory for one message
 *
 * A list of blocks, each a header and bytes. Small pieces are cut from the
 * newest block; a piece that would waste most of a block gets one of its own,
 * put behind the newest so that this one goes on to be cut.
 */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"

#define ALIGN     16
#define FIRST_LEN 4096
#define KEEP_LEN  65536 /* largest block for pieces, and largest kept */

struct tei_arena_block {
	_Alignas(ALIGN) struct tei_arena_block *next;
	size_t len; /* bytes that follow */
	_Alignas(ALIGN) unsigned char bytes[];
};

static void *pb_alloc(void *arena, size_t size)
{
	return tei_arena_alloc(arena, size);
}

static void pb_free(void *arena, void *p)
{
	(void)arena;
	(void)p;
}

void tei_arena_init(struct tei_arena *a, size_t cap)
{
	memset(a, 0, sizeof(*a));
	a->pb.alloc = pb_alloc;
	a->pb.free = pb_free;
	a->pb.allocator_data = a;
	a->cap = cap;
}

static void free_blocks(struct tei_arena_block *b)
{
	struct tei_arena_block *next;

	for (; b; b = next) {
		next = b->next;
		tei_free(b);
	}
}

void tei_arena_fini(struct tei_arena *a)
{
	free_blocks(a->blocks);
	a->blocks = NULL;
	a->used = a->room = a->total = 0;
}

void tei_arena_move(struct tei_arena *to, struct tei_arena *from)
{
	*to = *from;
	to->pb.allocator_data = to;
	tei_arena_init(from, to->cap);
}

void tei_arena_reset(struct tei_arena *a)
{
	struct tei_arena_block *keep = NULL, **link = &a->blocks, **best;

	best = NULL;
	for (; *link; link = &(*link)->next)
		if ((*link)->len + sizeof(struct tei_arena_block) <= KEEP_LEN &&
		    (!best || (*link)->len > (*best)->len))
			best = link;
	if (best) {
		keep = *best;
		*best = keep->next;
	}
	free_blocks(a->blocks);
	if (keep)
		keep->next = NULL;
	a->blocks = keep;
	a->used = 0;
	a->room = keep ? keep->len : 0;
	a->total = keep ? keep->len + sizeof(*keep) : 0;
}

static struct tei_arena_block *take_block(struct tei_arena *a, size_t len)
{
	struct tei_arena_block *b;

	b = tei_malloc(sizeof(*b) + len);
	if (!b)
		return NULL;
	b->len = len;
	a->total += sizeof(*b) + len;
	return b;
}

static void *own_block(struct tei_arena *a, size_t size)
{
	struct tei_arena_block *newest = a->blocks, *b = take_block(a, size);

	if (!b)
		return NULL;
	b->next = newest->next;
	newest->next = b;
	return b->bytes;
}

/* A new newest block: twice the last, as far as the cap lets it. */
static int next_block(struct tei_arena *a, size_t size)
{
	size_t left = a->cap - a->total - sizeof(struct tei_arena_block);
	size_t len = FIRST_LEN - sizeof(struct tei_arena_block);
	struct tei_arena_block *b;

	if (a->blocks)
		len = 2 * a->room + sizeof(struct tei_arena_block);
	if (len > KEEP_LEN - sizeof(struct tei_arena_block))
		len = KEEP_LEN - sizeof(struct tei_arena_block);
	if (len > left)
		len = left / ALIGN * ALIGN;
	if (len < size)
		len = size;
	b = take_block(a, len);
	if (!b)
		return -1;
	b->next = a->blocks;
	a->blocks = b;
	a->used = 0;
	a->room = len;
	return 0;
}

void *tei_arena_alloc(struct tei_arena *a, size_t size)
{
	struct tei_arena_block *newest = a->blocks;
	void *p;

	if (size > a->cap)
		return NULL;
	size = size ? (size + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
	if (!newest || size > a->room - a->used) {
		if (a->cap - a->total < sizeof(struct tei_arena_block) ||
		    size > a->cap - a->total - sizeof(struct tei_arena_block))
			return NULL;
		if (newest && size > KEEP_LEN / 4)
			return own_block(a, size);
		if (next_block(a, size))
			return NULL;
		newest = a->blocks;
	}
	p = newest->bytes + a->used;
	a->used += size;
	return p;
}

void *tei_arena_calloc(struct tei_arena *a, size_t n, size_t size)
{
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	p = tei_arena_alloc(a, bytes);
	if (p)
		memset(p, 0, bytes);
	return p;
}
