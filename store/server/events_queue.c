/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events_queue.c - events that wait to be published
 *
 * A record is its head and then the bytes of key, group and tenant.
 */
#include "store/server/events_queue.h"

#include <string.h>

#include "base/mem.h"

#define CHUNK_BYTES 32768u

struct tes_events_chunk {
	struct tes_events_chunk *next;
	uint64_t first; /* number of the event at `from` */
	size_t n;
	size_t from, to, room; /* of bytes */
	unsigned char bytes[];
};

struct head {
	uint32_t key_len, group_len, tenant_len;
	uint32_t news;
};

void tes_events_queue_init(struct tes_events_queue *q, uint64_t capacity)
{
	*q = (struct tes_events_queue){.capacity = capacity};
}

void tes_events_chunk_free(struct tes_events_chunk *chunk)
{
	tei_free(chunk);
}

void tes_events_queue_fini(struct tes_events_queue *q)
{
	struct tes_events_chunk *chunk;

	while ((chunk = tes_events_queue_take(q)))
		tes_events_chunk_free(chunk);
}

struct tes_events_chunk *tes_events_queue_take(struct tes_events_queue *q)
{
	struct tes_events_chunk *chunk = q->head;

	if (!chunk)
		return NULL;
	q->head = chunk->next;
	if (!q->head)
		q->tail = NULL;
	q->n -= chunk->n;
	return chunk;
}

bool tes_events_chunk_next(struct tes_events_chunk *chunk,
			   struct tes_events_record *out)
{
	struct tes_core_item *item = &out->item;
	const unsigned char *at;
	struct head head;

	if (!chunk->n)
		return false;
	at = chunk->bytes + chunk->from;
	memcpy(&head, at, sizeof(head));
	at += sizeof(head);
	item->key = (struct tes_core_key){at, head.key_len};
	at += head.key_len;
	item->group = (struct tes_core_key){at, head.group_len};
	at += head.group_len;
	item->tenant = (struct tes_core_key){at, head.tenant_len};
	out->news = head.news;
	out->number = chunk->first++;
	chunk->n--;
	chunk->from = (size_t)(at - chunk->bytes) + head.tenant_len;
	return true;
}

static void drop_oldest(struct tes_events_queue *q)
{
	struct tes_events_record record;

	tes_events_chunk_next(q->head, &record);
	q->n--;
	if (!q->head->n)
		tes_events_chunk_free(tes_events_queue_take(q));
}

/* The chunk to which @size bytes can be added; NULL: no memory. */
static struct tes_events_chunk *tail_for(struct tes_events_queue *q,
					 size_t size)
{
	struct tes_events_chunk *chunk = q->tail;
	size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;

	if (chunk && chunk->room - chunk->to >= size)
		return chunk;
	chunk = tei_malloc(sizeof(*chunk) + room);
	if (!chunk)
		return NULL;
	*chunk = (struct tes_events_chunk){.first = q->next, .room = room};
	if (q->tail)
		q->tail->next = chunk;
	else
		q->head = chunk;
	q->tail = chunk;
	return chunk;
}

static void append(struct tes_events_chunk *chunk, const void *bytes,
		   size_t len)
{
	if (len)
		memcpy(chunk->bytes + chunk->to, bytes, len);
	chunk->to += len;
}

unsigned int tes_events_queue_add(struct tes_events_queue *q,
				  enum tes_core_news news,
				  const struct tes_core_item *item)
{
	const struct head head = {
		.key_len = (uint32_t)item->key.len,
		.group_len = (uint32_t)item->group.len,
		.tenant_len = (uint32_t)item->tenant.len,
		.news = news,
	};
	struct tes_events_chunk *chunk;
	unsigned int dropped = 0;

	if (q->capacity && q->n >= q->capacity) {
		drop_oldest(q);
		dropped = 1;
	}
	chunk = tail_for(q, sizeof(head) + item->key.len + item->group.len +
				    item->tenant.len);
	q->next++;
	if (!chunk)
		return dropped + 1;
	append(chunk, &head, sizeof(head));
	append(chunk, item->key.bytes, item->key.len);
	append(chunk, item->group.bytes, item->group.len);
	append(chunk, item->tenant.bytes, item->tenant.len);
	chunk->n++;
	q->n++;
	return dropped;
}
