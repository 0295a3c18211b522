/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - whose turn it is */
#include "te/transfer/queue.h"

#include <te/te.h>

void tei_queue_init(struct tei_queue *q)
{
	uint32_t i;

	for (i = 0; i < TEI_QUEUE_CLASSES; i++) {
		tei_list_init(&q->classes[i]);
		q->passed[i] = 0;
	}
}

uint32_t tei_queue_class(uint32_t priority)
{
	switch (priority) {
	case TE_PRIORITY_URGENT:
		return TEI_QUEUE_URGENT;
	case TE_PRIORITY_BULK:
		return TEI_QUEUE_BULK;
	default:
		return TEI_QUEUE_NORMAL;
	}
}

int tei_queue_turn(const struct tei_queue *q, uint32_t not )
{
	int first = -1;
	uint32_t i;

	for (i = 0; i < TEI_QUEUE_CLASSES; i++) {
		if ((not >> i & 1) || tei_list_empty(&q->classes[i]))
			continue;
		if (tei_queue_is_overdue(q, i))
			return (int)i;
		if (first < 0)
			first = (int)i;
	}
	return first;
}

void tei_queue_served(struct tei_queue *q, uint32_t class)
{
	uint32_t i;

	q->passed[class] = 0;
	for (i = class + 1; i < TEI_QUEUE_CLASSES; i++) {
		if (!tei_list_empty(&q->classes[i]))
			q->passed[i]++;
	}
}
