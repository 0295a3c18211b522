/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap.h - intrusive binary heap of points in time: the earliest is on top
 *
 * Each node knows its place, so removing any node costs O(log n). Used for
 * deadlines and timers.
 *
 * Threads: none of its own.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tei_heap_node {
	uint64_t at;  /* unit is the user's */
	size_t place; /* 1-based index in the heap; 0: in no heap */
};

struct tei_heap {
	struct tei_heap_node **node; /* node[n], node[0] on top */
	size_t n, room;
};

void tei_heap_init(struct tei_heap *h);
void tei_heap_fini(struct tei_heap *h);
/* Room for @n nodes in total, so that the next adds cannot fail. -ENOMEM. */
int tei_heap_reserve(struct tei_heap *h, size_t n);
/* @node must be in no heap. -ENOMEM (never after a reserve()). */
int tei_heap_add(struct tei_heap *h, struct tei_heap_node *node, uint64_t at);
/* No-op for a node that is in no heap. */
void tei_heap_remove(struct tei_heap *h, struct tei_heap_node *node);
/* The earliest node, still in the heap; NULL when empty. */
struct tei_heap_node *tei_heap_top(const struct tei_heap *h);

static inline bool tei_heap_has(const struct tei_heap_node *node)
{
	return node->place != 0;
}

#endif
