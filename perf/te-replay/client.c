/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - one client process of a replay
 *
 * A request reads its blocks as an inference engine does: ask how long a
 * prefix of them the pool has, get that prefix, compute the rest (here: make
 * its bytes from the ids) and put it. A block that was evicted between the
 * question and the get ends the prefix there.
 */
#include "perf/te-replay/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <te/store.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "perf/lib/cluster.h"
#include "perf/lib/pattern.h"
#include "perf/lib/process.h"
#include "perf/te-replay/share.h"

#define KEY_LEN   64
#define BATCH_MAX 512u /* blocks of one get or put */

struct client {
	struct share *share;
	struct tally *tally; /* in share */
	struct te_store *store;
	uint64_t tenant;
	uint64_t batch;                /* blocks of one get or put */
	char *buffer;                  /* batch * block_bytes, registered */
	struct iovec *pieces;          /* pieces[batch], into buffer */
	struct te_store_value *values; /* values[batch], of pieces */
	int64_t *sizes;                /* sizes[batch]: results of a get */
	char (*key_text)[KEY_LEN];     /* [max_blocks] of a request */
	struct te_store_key *keys;     /* keys[max_blocks] */
	int *codes;                    /* codes[max_blocks] */
};

static void note_error(struct client *c, int code)
{
	c->tally->errors++;
	c->tally->last_error = code;
}

/* ---- one request ---- */

static void make_keys(struct client *c, const uint64_t *ids, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		int len = snprintf(c->key_text[i], KEY_LEN,
				   "llama-3.1-8b@t%" PRIu64 "@%" PRIu64
				   "@%016" PRIx64,
				   c->tenant, c->share->block_bytes, ids[i]);

		c->keys[i] = (struct te_store_key){.bytes = c->key_text[i],
						   .len = (uint32_t)len};
	}
}

/* Returns how many of the first blocks are there. */
static uint64_t look_up(struct client *c, uint64_t n)
{
	uint64_t at, some, prefix = 0;
	int code;

	for (at = 0; at < n && prefix == at; at += some) {
		some = n - at < TE_STORE_BATCH_MAX ? n - at
						   : TE_STORE_BATCH_MAX;
		code = te_store_exist(c->store, c->keys + at, some,
				      c->codes + at);
		if (code) {
			note_error(c, code);
			return prefix;
		}
		while (prefix < at + some && c->codes[prefix] == 1)
			prefix++;
	}
	return prefix;
}

/* Tells whether block i of the batch has come, and compare it. */
static bool accept_block(struct client *c, uint64_t i, uint64_t id)
{
	uint64_t block = c->share->block_bytes;

	if (c->sizes[i] == TE_STORE_OBJECT_NOT_FOUND) {
		c->tally->lost++;
		return false;
	}
	if (c->sizes[i] < 0) {
		note_error(c, (int)c->sizes[i]);
		return false;
	}
	if ((uint64_t)c->sizes[i] != block)
		c->tally->wrong_bytes += block;
	else if (c->share->value_check)
		c->tally->wrong_bytes += tei_pattern_wrong(
			c->buffer + i * block, block,
			tei_trace_tenant_id(id, c->tenant), 0);
	return true;
}

/* Get the first n blocks; returns how many of them came without a gap. */
static uint64_t get_prefix(struct client *c, const uint64_t *ids, uint64_t n,
			   uint64_t *spent_ns)
{
	uint64_t at = 0, some, i, start;
	int code;

	while (at < n) {
		some = n - at < c->batch ? n - at : c->batch;
		start = tei_now_ns();
		code = te_store_get(c->store, c->keys + at, c->values, some,
				    c->sizes);
		*spent_ns += tei_now_ns() - start;
		if (code < 0) {
			note_error(c, code);
			return at;
		}
		for (i = 0; i < some; i++)
			if (!accept_block(c, i, ids[at + i]))
				return at + i;
		at += some;
	}
	return at;
}

static void count_put(struct client *c, const int *codes, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (codes[i] == TE_STORE_OK) {
			c->tally->put++;
			continue;
		}
		c->tally->put_failed++;
		if (codes[i] == TE_STORE_NO_AVAILABLE_HANDLE)
			c->tally->no_room++;
		else
			note_error(c, codes[i]);
	}
}

/* Put blocks @at .. @n - 1 of the request. */
static void put_rest(struct client *c, const uint64_t *ids, uint64_t at,
		     uint64_t n, uint64_t *spent_ns)
{
	uint64_t block = c->share->block_bytes, some, start;
	int code;

	for (; at < n; at += some) {
		some = n - at < c->batch ? n - at : c->batch;
		for (uint64_t i = 0; i < some; i++)
			tei_pattern_fill(
				c->buffer + i * block, block,
				tei_trace_tenant_id(ids[at + i], c->tenant), 0);
		start = tei_now_ns();
		memset(c->codes, 0, some * sizeof(*c->codes));
		code = te_store_put(c->store, c->keys + at, c->values, some,
				    NULL, c->codes);
		*spent_ns += tei_now_ns() - start;
		if (code == TE_STORE_INVALID_PARAMS)
			note_error(c, code);
		else
			count_put(c, c->codes, some);
	}
}

static void replay_request(struct client *c, const struct tei_trace_request *r)
{
	const uint64_t *ids = share_ids(c->share, r);
	struct tally *t = c->tally;
	uint64_t n = r->n_blocks, start, spent, prefix, got;

	make_keys(c, ids, n);
	start = tei_now_ns();
	prefix = look_up(c, n);
	spent = tei_now_ns() - start;
	t->lookup_ns += spent;
	tei_histogram_add(&t->lookup, spent);
	spent = 0;
	got = get_prefix(c, ids, prefix, &spent);
	t->get_ns += spent;
	if (prefix)
		tei_histogram_add(&t->get, spent);
	spent = 0;
	put_rest(c, ids, got, n, &spent);
	t->put_ns += spent;
	if (got < n)
		tei_histogram_add(&t->put_time, spent);
	t->requests++;
	t->blocks += n;
	t->got += got;
	t->tokens += tei_trace_tokens(r, n);
	t->got_tokens += tei_trace_tokens(r, got);
}

/* ---- all of them ---- */

/*
 * Waits until a request is to begin. Returns when that is: without a rate now,
 * and before now where the clients are late.
 */
static uint64_t await_time(const struct share *s,
			   const struct tei_trace_request *r)
{
	uint64_t at;
	struct timespec ts;

	if (s->rate <= 0)
		return tei_now_ns();
	at = s->start_ns + (uint64_t)((double)r->timestamp_ms * 1e6 / s->rate);
	ts.tv_sec = (time_t)(at / TEI_NS_PER_S);
	ts.tv_nsec = (long)(at % TEI_NS_PER_S);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) ==
	       EINTR)
		;
	return at;
}

static void sample_pool(struct client *c)
{
	struct te_store_pool pool;

	if (te_store_pool(c->store, &pool) ||
	    pool.evicted_objects <= c->share->evicted_before)
		return;
	c->tally->n_samples++;
	c->tally->sampled_used += pool.used_bytes;
}

static void note_stats(struct client *c)
{
	struct te_store_stats stats;

	te_store_stats(c->store, &stats);
	c->tally->put_retries = stats.put_retries;
}

static void replay_requests(struct client *c)
{
	struct share *s = c->share;
	uint64_t i, due;

	c->tally->start_ns = tei_now_ns();
	for (;;) {
		i = atomic_fetch_add_explicit(&s->next[c->tenant], 1,
					      memory_order_relaxed) *
			    s->n_tenants +
		    c->tenant;
		if (i >= s->n_requests)
			break;
		due = await_time(s, share_request(s, i));
		replay_request(c, share_request(s, i));
		tei_histogram_add(&c->tally->request, tei_now_ns() - due);
		atomic_fetch_add_explicit(&s->done, 1, memory_order_relaxed);
		if (i % s->sample_every == 0)
			sample_pool(c);
	}
	c->tally->end_ns = tei_now_ns();
	note_stats(c);
}

/* ---- set-up ---- */

static void client_fini(struct client *c)
{
	if (c->store) {
		if (c->buffer)
			te_store_unregister(c->store, c->buffer);
		te_store_close(c->store);
	}
	tei_free(c->buffer);
	tei_free(c->pieces);
	tei_free(c->values);
	tei_free(c->sizes);
	tei_free(c->key_text);
	tei_free(c->keys);
	tei_free(c->codes);
	share_close(c->share);
}

static int allocate_memory(struct client *c)
{
	uint64_t block = c->share->block_bytes, n = c->share->max_blocks + 1;

	c->batch = CLIENT_BUFFER_BYTES / block;
	if (c->batch > BATCH_MAX)
		c->batch = BATCH_MAX;
	if (!c->batch)
		c->batch = 1;
	c->buffer = tei_aligned_calloc(4096, c->batch * block);
	c->pieces = tei_calloc(c->batch, sizeof(*c->pieces));
	c->values = tei_calloc(c->batch, sizeof(*c->values));
	c->sizes = tei_calloc(c->batch, sizeof(*c->sizes));
	c->key_text = tei_calloc(n, sizeof(*c->key_text));
	c->keys = tei_calloc(n, sizeof(*c->keys));
	c->codes = tei_calloc(n, sizeof(*c->codes));
	if (!c->buffer || !c->pieces || !c->values || !c->sizes ||
	    !c->key_text || !c->keys || !c->codes)
		return -ENOMEM;
	for (uint64_t i = 0; i < c->batch; i++) {
		c->pieces[i] = (struct iovec){c->buffer + i * block, block};
		c->values[i] = (struct te_store_value){.pieces = &c->pieces[i],
						       .n_pieces = 1};
	}
	return 0;
}

static int client_init(struct client *c, const struct options *o)
{
	struct share *s;
	int rc;

	memset(c, 0, sizeof(*c));
	if (o->index >= CLIENTS_MAX)
		return -EINVAL;
	rc = share_open((int)o->share_fd, &c->share);
	if (rc)
		return rc;
	s = c->share;
	c->tally = &s->tally[o->index];
	c->tenant = o->index % s->n_tenants;
	rc = allocate_memory(c);
	if (!rc)
		rc = tei_pool_join(s->master, s->host, NULL, &c->store);
	if (!rc &&
	    te_store_register(c->store, c->buffer, c->batch * s->block_bytes))
		rc = -ENOMEM;
	return rc;
}

int client_main(const struct options *o)
{
	struct client c;
	int rc = client_init(&c, o);

	if (rc == -ECONNREFUSED) {
		; /* why the pool could not be joined has been said */
	} else if (rc) {
		fprintf(stderr, "te-replay: client %" PRIu64 ": %s\n", o->index,
			strerror(-rc));
	} else {
		tei_worker_say("ready");
		if (tei_worker_hear("go")) {
			replay_requests(&c);
			tei_worker_say("done");
			/* Or the end of the input. */
			(void)tei_worker_hear("end");
		}
	}
	client_fini(&c);
	return rc ? 1 : 0;
}
