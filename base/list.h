/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.h - intrusive doubly linked list
 *
 * The head is a node; an empty list is a head that points to itself. A node
 * that is in no list points to itself too, so del() twice is harmless.
 *
 * Threads: none of its own; guard the list as you guard what it holds.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct tei_list {
	struct tei_list *next, *prev;
};

#define TEI_CONTAINER(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void tei_list_init(struct tei_list *node)
{
	node->next = node->prev = node;
}

static inline bool tei_list_empty(const struct tei_list *head)
{
	return head->next == head;
}

/* @node goes between @prev and @prev's next. */
static inline void tei_list_insert(struct tei_list *prev, struct tei_list *node)
{
	node->prev = prev;
	node->next = prev->next;
	prev->next->prev = node;
	prev->next = node;
}

static inline void tei_list_add_tail(struct tei_list *head,
				     struct tei_list *node)
{
	tei_list_insert(head->prev, node);
}

static inline void tei_list_add_head(struct tei_list *head,
				     struct tei_list *node)
{
	tei_list_insert(head, node);
}

static inline void tei_list_del(struct tei_list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	tei_list_init(node);
}

/* The first node, taken out; NULL when empty. */
static inline struct tei_list *tei_list_pop(struct tei_list *head)
{
	struct tei_list *node = head->next;

	if (node == head)
		return NULL;
	tei_list_del(node);
	return node;
}

/* Move all nodes of @from to the end of @to. */
static inline void tei_list_splice_tail(struct tei_list *to,
					struct tei_list *from)
{
	if (tei_list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	tei_list_init(from);
}

#define tei_list_entry(node, type, member) TEI_CONTAINER(node, type, member)

#define tei_list_for_each(pos, head)                             \
	for (struct tei_list *pos = (head)->next; pos != (head); \
	     pos = pos->next)

/* Walks like the above; the body may take @pos out of the list. */
#define tei_list_for_each_safe(pos, tmp, head)                      \
	for (struct tei_list *pos = (head)->next, *tmp = pos->next; \
	     pos != (head); pos = tmp, tmp = pos->next)

#endif
