/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpsc.h - intrusive lock-free queue, many producers, one consumer
 *
 * Producers push with one compare-and-swap; the consumer takes everything
 * that is there in one exchange and sees it in push order. The node is owned
 * by the queue from push until take.
 *
 * Threads: push from any thread; take from one thread at a time.
 */
#ifndef BASE_MPSC_H
#define BASE_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct tei_mpsc_node {
	struct tei_mpsc_node *next;
};

struct tei_mpsc {
	_Atomic(struct tei_mpsc_node *) newest;
};

static inline void tei_mpsc_init(struct tei_mpsc *q)
{
	atomic_init(&q->newest, NULL);
}

/*
 * Returns true when the queue was empty: the consumer may be asleep and must
 * be woken. Release: pairs with the acquire in take_all().
 */
static inline bool tei_mpsc_push(struct tei_mpsc *q, struct tei_mpsc_node *node)
{
	struct tei_mpsc_node *old;

	old = atomic_load_explicit(&q->newest, memory_order_relaxed);
	do {
		node->next = old;
	} while (!atomic_compare_exchange_weak_explicit(&q->newest, &old, node,
							memory_order_release,
							memory_order_relaxed));
	return !old;
}

/* Everything pushed so far, oldest first, linked by next; NULL when empty. */
static inline struct tei_mpsc_node *tei_mpsc_take_all(struct tei_mpsc *q)
{
	struct tei_mpsc_node *node, *next, *oldest = NULL;

	node = atomic_exchange_explicit(&q->newest, NULL, memory_order_acquire);
	for (; node; node = next) {
		next = node->next;
		node->next = oldest;
		oldest = node;
	}
	return oldest;
}

static inline bool tei_mpsc_empty(struct tei_mpsc *q)
{
	return !atomic_load_explicit(&q->newest, memory_order_acquire);
}

#endif
