/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c - intrusive binary heap of points in time */
#include "base/heap.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>

#include "base/mem.h"

void tei_heap_init(struct tei_heap *h)
{
	h->node = NULL;
	h->n = h->room = 0;
}

void tei_heap_fini(struct tei_heap *h)
{
	tei_free(h->node);
	tei_heap_init(h);
}

int tei_heap_reserve(struct tei_heap *h, size_t n)
{
	struct tei_heap_node **node;
	size_t room = h->room ? h->room : 8;

	if (n <= h->room)
		return 0;
	if (n > SIZE_MAX / sizeof(struct tei_heap_node *) / 2)
		return -ENOMEM;
	while (room < n)
		room *= 2;
	node = tei_realloc(h->node, room * sizeof(struct tei_heap_node *));
	if (!node)
		return -ENOMEM;
	h->node = node;
	h->room = room;
	return 0;
}

static void set_node(struct tei_heap *h, size_t i, struct tei_heap_node *node)
{
	h->node[i] = node;
	node->place = i + 1;
}

/* Put @node at @i or above, moving later parents down. */
static void sift_up(struct tei_heap *h, size_t i, struct tei_heap_node *node)
{
	while (i > 0) {
		size_t parent = (i - 1) / 2;

		if (h->node[parent]->at <= node->at)
			break;
		set_node(h, i, h->node[parent]);
		i = parent;
	}
	set_node(h, i, node);
}

/* Put @node at @i or below, moving earlier children up. */
static void sift_down(struct tei_heap *h, size_t i, struct tei_heap_node *node)
{
	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= h->n)
			break;
		if (child + 1 < h->n &&
		    h->node[child + 1]->at < h->node[child]->at)
			child++;
		if (h->node[child]->at >= node->at)
			break;
		set_node(h, i, h->node[child]);
		i = child;
	}
	set_node(h, i, node);
}

int tei_heap_add(struct tei_heap *h, struct tei_heap_node *node, uint64_t at)
{
	int rc;

	assert(!tei_heap_has(node));
	rc = tei_heap_reserve(h, h->n + 1);
	if (rc)
		return rc;
	node->at = at;
	sift_up(h, h->n++, node);
	return 0;
}

void tei_heap_remove(struct tei_heap *h, struct tei_heap_node *node)
{
	struct tei_heap_node *last;
	size_t i;

	if (!tei_heap_has(node))
		return;
	i = node->place - 1;
	assert(i < h->n && h->node[i] == node);
	node->place = 0;
	last = h->node[--h->n];
	if (last == node)
		return;
	if (i > 0 && h->node[(i - 1) / 2]->at > last->at)
		sift_up(h, i, last);
	else
		sift_down(h, i, last);
}

struct tei_heap_node *tei_heap_top(const struct tei_heap *h)
{
	return h->n ? h->node[0] : NULL;
}
