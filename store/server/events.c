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
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/server/events_pack.h"
#include "store/server/events_queue.h"
#include "store/server/events_zmq.h"

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

/* The next events of @chunk that tell something; false: there are no more. Only
 * before the first one of a chunk some can be missing. */
static bool gather(struct tes_events *e, struct tes_events_chunk *chunk,
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

static void publish(struct tes_events *e, struct tes_events_chunk *chunk)
{
	struct batch b;
	bool more;

	do {
		int rc = 0;

		more = gather(e, chunk, &b);
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

/* Until there is something, and a moment more. NULL: the end. */
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

static void *run(void *arg)
{
	struct tes_events *e = arg;
	struct tes_events_chunk *chunk;

	while ((chunk = next_chunk(e)))
		publish(e, chunk);
	return NULL;
}

/* ---- life ---- */

static bool wanted(const struct tes_server_settings *set)
{
	return set->enable_kv_events && *set->kv_events_backend_id &&
	       *set->kv_events_bind_endpoint;
}

static int start(struct tes_events *e, const struct tes_server_settings *set,
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
	rc = tei_thread_start(&e->thread, "te-events", run, e);
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
	rc = start(e, set, error);
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
