/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.c - events on their way from the master's loop to subscribers
 *
 * The publisher sleeps until there is an event, and then a moment longer, so
 * that it is woken once for many.
 */
#include "store/server/events.h"

#include <endian.h>
#include <errno.h>
#include <msgpack/pack.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/thread.h"
#include "store/server/events_pack.h"
#include "store/server/events_queue.h"
#include "store/server/events_zmq.h"

/*
 * Events that wait to be published.
 *
 * A record is its head and then the bytes of key, group and tenant.
 */

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

/* A message of events as MessagePack. */

/* Pairs of an event that differ, and all with those that are the same. */
#define PAIRS_OWN     5u
#define PAIRS_LEGACY  2u
#define PAIRS_SAME    9u
#define PAIRS_STORED  2u
#define STORED_LEGACY 1u

static int add_bytes(void *arg, const char *bytes, size_t len)
{
	struct tes_events_bytes *to = arg;
	size_t room = to->room ? to->room : 256;
	char *grown;

	if (to->room - to->len < len) {
		while (room - to->len < len)
			room *= 2;
		grown = tei_realloc(to->at, room);
		if (!grown)
			return -1;
		to->at = grown;
		to->room = room;
	}
	memcpy(to->at + to->len, bytes, len);
	to->len += len;
	return 0;
}

/* The packer's functions return 0 or what add_bytes() did: failures add up. */
static int text(msgpack_packer *pk, const void *bytes, size_t len)
{
	int rc = msgpack_pack_str(pk, len);

	return rc || !len ? rc : msgpack_pack_str_body(pk, bytes, len);
}

static int name(msgpack_packer *pk, const char *s)
{
	return text(pk, s, strlen(s));
}

static int nil(msgpack_packer *pk, const char *key)
{
	return name(pk, key) | msgpack_pack_nil(pk);
}

static int pair(msgpack_packer *pk, const char *key, const char *value)
{
	return name(pk, key) | name(pk, value);
}

static size_t n_pairs(const struct tes_events_packer *p, bool stored)
{
	size_t n = PAIRS_OWN + PAIRS_SAME + p->object_key;

	if (p->legacy)
		n += PAIRS_LEGACY + (stored ? STORED_LEGACY : 0);
	return n + (stored ? PAIRS_STORED : 0);
}

/* The head of the map, and what all events that are (not) @stored share. A
 * pool knows of no model, and each of its keys stands for itself. */
static int same_pairs(const struct tes_events_packer *p, msgpack_packer *pk,
		      const char *backend_id, bool stored)
{
	int rc = msgpack_pack_map(pk, n_pairs(p, stored));

	rc |= pair(pk, "event_type", stored ? "stored" : "removed");
	rc |= nil(pk, "model_name");
	rc |= nil(pk, "block_size");
	rc |= nil(pk, "additional_salt");
	rc |= nil(pk, "lora_name");
	rc |= nil(pk, "dp_rank");
	rc |= pair(pk, "backend_id", backend_id);
	rc |= pair(pk, "medium", "cpu");
	rc |= name(pk, "base_block_idx");
	rc |= stored ? msgpack_pack_uint8(pk, 0) : msgpack_pack_nil(pk);
	if (p->legacy)
		rc |= pair(pk, "type", stored ? "BlockStored" : "BlockRemoved");
	if (!stored)
		return rc;
	rc |= nil(pk, "parent_hash");
	rc |= nil(pk, "token_ids");
	if (p->legacy)
		rc |= nil(pk, "parent_block_hash");
	return rc;
}

int tes_events_packer_init(struct tes_events_packer *p, const char *backend_id,
			   bool legacy, bool object_key)
{
	*p = (struct tes_events_packer){
		.legacy = legacy,
		.object_key = object_key,
	};
	for (int news = 0; news < 2; news++) {
		msgpack_packer pk;

		msgpack_packer_init(&pk, &p->same[news], add_bytes);
		if (same_pairs(p, &pk, backend_id, news == TES_CORE_STORED)) {
			tes_events_packer_fini(p);
			return -ENOMEM;
		}
	}
	return 0;
}

void tes_events_packer_fini(struct tes_events_packer *p)
{
	tei_free(p->same[0].at);
	tei_free(p->same[1].at);
	tei_free(p->message.at);
	*p = (struct tes_events_packer){0};
}

/* ---- the number of a block ---- */

/* All of @key is a number of 64 bits: 1234 or 0x4d2. */
static bool parse(const struct tes_core_key *key, uint64_t *out)
{
	const char *at = key->bytes;
	size_t len = key->len;
	uint64_t value = 0;
	int base = 10;

	if (len > 2 && at[0] == '0' && (at[1] | 0x20) == 'x') {
		base = 16;
		at += 2;
		len -= 2;
	}
	for (size_t i = 0; i < len; i++) {
		int d = tei_hex_digit(at[i]);

		if (d < 0 || d >= base ||
		    __builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)d, &value))
			return false;
	}
	*out = value;
	return len > 0;
}

bool tes_events_tells(const struct tes_events_packer *p,
		      const struct tes_events_record *record, uint64_t *hash,
		      bool *unparsed)
{
	*unparsed = !parse(&record->item.key, hash);
	return p->object_key || !*unparsed;
}

/* ---- messages ---- */

/* Decoders refuse whole messages for a string that is not UTF-8. */
static int bytes_or_text(msgpack_packer *pk, const struct tes_core_key *key)
{
	if (tei_utf8_is_text(key->bytes, key->len))
		return text(pk, key->bytes, key->len);
	return msgpack_pack_bin(pk, key->len) |
	       msgpack_pack_bin_body(pk, key->bytes, key->len);
}

static int hashes(msgpack_packer *pk, const char *key, bool there,
		  uint64_t hash, bool is_signed)
{
	int rc = name(pk, key) | msgpack_pack_array(pk, there);

	if (!there)
		return rc;
	return rc | (is_signed ? msgpack_pack_int64(pk, (int64_t)hash)
			       : msgpack_pack_uint64(pk, hash));
}

static int pack_one(const struct tes_events_packer *p, msgpack_packer *pk,
		    const struct tes_events_record *r, uint64_t timestamp_ms,
		    uint64_t event_id)
{
	const struct tes_events_bytes *same = &p->same[r->news];
	const struct tes_core_item *item = &r->item;
	uint64_t hash = 0;
	bool is_hash = parse(&item->key, &hash);
	int rc = add_bytes(pk->data, same->at, same->len);

	rc |= name(pk, "event_id") | msgpack_pack_uint64(pk, event_id);
	rc |= name(pk, "timestamp") | msgpack_pack_uint64(pk, timestamp_ms);
	rc |= name(pk, "tenant_id");
	rc |= bytes_or_text(pk, &item->tenant);
	rc |= name(pk, "group_id");
	rc |= item->group.len ? bytes_or_text(pk, &item->group)
			      : msgpack_pack_nil(pk);
	rc |= hashes(pk, "seq_hashes", is_hash, hash, false);
	if (p->legacy)
		rc |= hashes(pk, "block_hashes", is_hash, hash, true);
	if (p->object_key) {
		rc |= name(pk, "object_key");
		rc |= bytes_or_text(pk, &item->key);
	}
	return rc;
}

int tes_events_pack(struct tes_events_packer *p, uint64_t timestamp_ms,
		    const struct tes_events_record *records, size_t n,
		    uint64_t event_id)
{
	msgpack_packer pk;
	int rc;

	p->message.len = 0;
	msgpack_packer_init(&pk, &p->message, add_bytes);
	rc = msgpack_pack_array(&pk, 3);
	rc |= msgpack_pack_uint64(&pk, timestamp_ms);
	rc |= msgpack_pack_array(&pk, n);
	for (size_t i = 0; i < n; i++)
		rc |= pack_one(p, &pk, &records[i], timestamp_ms, event_id + i);
	rc |= msgpack_pack_uint8(&pk, 0);
	return rc ? -ENOMEM : 0;
}

#define BATCH_MAX   64 /* events of a message */
#define GATHER_MS   2
#define WAITING_MAX 4096 /* messages, of each subscriber */

struct tes_events {
	struct tei_mutex mu; /* 54: queue, stopping, asleep, figures */
	struct tei_cond cond;
	struct tes_events_queue queue;
	bool stopping;
	bool asleep; /* the publisher; who adds wakes it */
	struct tes_events_figures figures;

	pthread_t thread;
	/* The publisher's: */
	struct tes_events_socket *socket;
	struct tes_events_packer packer;
	uint64_t expected; /* number of the next event, unless some went */
	uint64_t missing;  /* events, since the last message */
	uint64_t sequence, event_id; /* last ones */
};

/* ---- the loop's side ---- */

void tes_events_note(enum tes_core_news news, const struct tes_core_item *item,
		     void *events)
{
	struct tes_events *e = events;

	tei_mutex_lock(&e->mu);
	e->figures.dropped += tes_events_queue_add(&e->queue, news, item);
	if (e->asleep) {
		e->asleep = false;
		tei_cond_signal(&e->cond);
	}
	tei_mutex_unlock(&e->mu);
}

void tes_events_figures(struct tes_events *e, struct tes_events_figures *out)
{
	*out = (struct tes_events_figures){.enabled = e};
	if (!e)
		return;
	tei_mutex_lock(&e->mu);
	*out = e->figures;
	out->enabled = true;
	out->queued = e->queue.n;
	tei_mutex_unlock(&e->mu);
}

const char *tes_events_endpoint(const struct tes_events *e)
{
	return e ? tes_events_socket_endpoint(e->socket) : NULL;
}

/* ---- the publisher ---- */

struct batch {
	struct tes_events_record records[BATCH_MAX];
	size_t n;
	uint64_t unparsed;
};

/*
 * Takes the next events of @chunk that are to be published; false: there are no
 * more. Events can be missing only before the first one of a chunk.
 */
static bool gather_events(struct tes_events *e, struct tes_events_chunk *chunk,
			  struct batch *b)
{
	struct tes_events_record *r = b->records;
	bool more = false, unparsed;
	uint64_t hash;

	b->n = 0;
	b->unparsed = 0;
	while (b->n < BATCH_MAX && (more = tes_events_chunk_next(chunk, r))) {
		e->missing += r->number - e->expected;
		e->expected = r->number + 1;
		if (tes_events_tells(&e->packer, r, &hash, &unparsed)) {
			b->n++;
			r++;
		}
		b->unparsed += unparsed;
	}
	return more;
}

static int send_batch(struct tes_events *e, const struct batch *b)
{
	uint64_t number;
	struct tes_events_part parts[3] = {
		{"", 0}, {&number, sizeof(number)}, {NULL, 0}};
	int rc;

	e->sequence += 1 + e->missing;
	e->event_id += e->missing;
	e->missing = 0;
	rc = tes_events_pack(&e->packer, tei_wall_us() / 1000, b->records, b->n,
			     e->event_id + 1);
	e->event_id += b->n;
	number = htobe64(e->sequence);
	parts[2].bytes = e->packer.message.at;
	parts[2].len = e->packer.message.len;
	return rc ? rc : tes_events_socket_send(e->socket, parts, 3);
}

static void publish_chunk(struct tes_events *e, struct tes_events_chunk *chunk)
{
	struct batch b;
	bool more;

	do {
		int rc = 0;

		more = gather_events(e, chunk, &b);
		if (b.n)
			rc = send_batch(e, &b);
		tei_mutex_lock(&e->mu);
		e->figures.unparsed += b.unparsed;
		e->figures.sequence = e->sequence;
		if (rc)
			e->figures.dropped += b.n;
		else
			e->figures.events += b.n;
		e->figures.batches += b.n && !rc;
		tei_mutex_unlock(&e->mu);
	} while (more);
	tes_events_chunk_free(chunk);
}

/* Waits until there is something, and a moment more. NULL: the end. */
static struct tes_events_chunk *next_chunk(struct tes_events *e)
{
	struct tes_events_chunk *chunk;
	bool slept = false;

	tei_mutex_lock(&e->mu);
	while (!e->queue.n && !e->stopping) {
		e->asleep = slept = true;
		tei_cond_wait(&e->cond, &e->mu, UINT64_MAX);
	}
	e->asleep = false;
	if (slept && !e->stopping)
		tei_cond_wait(&e->cond, &e->mu,
			      tei_now_ns() + GATHER_MS * TEI_NS_PER_MS);
	chunk = tes_events_queue_take(&e->queue);
	tei_mutex_unlock(&e->mu);
	return chunk;
}

static void *publish_events(void *arg)
{
	struct tes_events *e = arg;
	struct tes_events_chunk *chunk;

	while ((chunk = next_chunk(e)))
		publish_chunk(e, chunk);
	return NULL;
}

/* ---- life ---- */

static bool wanted(const struct tes_server_settings *set)
{
	return set->enable_kv_events && *set->kv_events_backend_id &&
	       *set->kv_events_bind_endpoint;
}

static int start_events(struct tes_events *e,
			const struct tes_server_settings *set,
			char error[TEI_CONF_ERROR_LEN])
{
	const char *endpoint = set->kv_events_bind_endpoint;
	char why[TES_EVENTS_WHY_LEN];
	int rc;

	rc = tes_events_packer_init(&e->packer, set->kv_events_backend_id,
				    set->kv_events_emit_legacy_compat,
				    set->kv_events_emit_object_key);
	if (rc)
		return rc;
	rc = tes_events_socket_open(endpoint, WAITING_MAX, set->insecure,
				    &e->socket, why);
	if (rc) {
		(void)snprintf(error, TEI_CONF_ERROR_LEN,
			       "kv_events_bind_endpoint %.60s: %.80s", endpoint,
			       why);
		goto fini_packer;
	}
	rc = tei_thread_start(&e->thread, "te-events", publish_events, e);
	if (rc)
		goto close_socket;
	return 0;

close_socket:
	tes_events_socket_close(e->socket);
fini_packer:
	tes_events_packer_fini(&e->packer);
	return rc;
}

static void destroy(struct tes_events *e)
{
	tes_events_queue_fini(&e->queue);
	tei_cond_fini(&e->cond);
	tei_mutex_fini(&e->mu);
	tei_free(e);
}

int tes_events_start(const struct tes_server_settings *set,
		     struct tes_events **out, char error[TEI_CONF_ERROR_LEN])
{
	struct tes_events *e;
	int rc;

	*out = NULL;
	if (!wanted(set))
		return 0;
	e = tei_calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	tei_mutex_init(&e->mu);
	tei_cond_init(&e->cond);
	tes_events_queue_init(&e->queue, set->kv_events_queue_capacity);
	rc = start_events(e, set, error);
	if (rc)
		destroy(e);
	else
		*out = e;
	return rc;
}

void tes_events_stop(struct tes_events *e)
{
	if (!e)
		return;
	tei_mutex_lock(&e->mu);
	e->stopping = true;
	tei_cond_signal(&e->cond);
	tei_mutex_unlock(&e->mu);
	pthread_join(e->thread, NULL);
	tes_events_socket_close(e->socket);
	tes_events_packer_fini(&e->packer);
	destroy(e);
}
