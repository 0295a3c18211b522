/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.c - role "worker" of a mixed load: clients, their threads, their
 * calls
 *
 * A mixer is one thread of it. Threads: one per mixer at a time.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <te/store.h>

#include "base/chance.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "perf/lib/cluster.h"
#include "perf/lib/pattern.h"
#include "perf/lib/process.h"
#include "perf/lib/schedule.h"
#include "perf/store-perf/buffer.h"
#include "perf/store-perf/mix.h"

#define MIX_KEY_LEN 64

/*
 * Values of a process are parts of one buffer, registered with each store: that
 * of key k is from a place that k alone determines.
 */

struct mixer {
	struct mix_share *share;
	const struct buffer *source;
	struct te_store *store;  /* may be shared with other mixers */
	struct mix_tally *tally; /* in share */
	uint64_t index;          /* among all workers */
	uint64_t chance;         /* state of its random numbers */
	uint64_t n_fresh;        /* puts of fresh keys so far */
	pthread_t thread;
	struct tei_schedule schedule;
	uint64_t begin_ns; /* from which the latency of a call counts */
	bool counts;       /* the warm-up is over */
	/* Room for one call of plan->batch keys. */
	struct buffer memory; /* to get into, registered */
	uint64_t *number;
	char (*key_text)[MIX_KEY_LEN];
	struct te_store_key *keys;
	struct iovec *pieces;
	struct te_store_value *values;
	int *codes;
	int64_t *sizes;
};

#define FRESH       (1ull << 63) /* numbers of keys that are only put */
#define FRESH_BITS  40           /* of them for each worker */
#define PLACE_BYTES 64           /* values begin at multiples of it */
#define PAUSE_MAX   6            /* waits for room double up to 64 ms */

/* ---- keys and values ---- */

static const char *value_bytes(const struct mixer *m, uint64_t number,
			       uint64_t size)
{
	uint64_t places = (m->source->len - size) / PLACE_BYTES + 1;

	return m->source->at +
	       tei_chance_mix(number + 1) % places * PLACE_BYTES;
}

static void make_key(struct mixer *m, uint64_t i, uint64_t number)
{
	int len = snprintf(m->key_text[i], MIX_KEY_LEN,
			   "store-perf/%016" PRIx64 "/%016" PRIx64,
			   m->share->plan.run, number);

	m->number[i] = number;
	m->keys[i] = (struct te_store_key){.bytes = m->key_text[i],
					   .len = (uint32_t)len};
}

static void give_value(struct mixer *m, uint64_t i)
{
	uint64_t size = mix_value_size(&m->share->plan, m->number[i]);
	const char *bytes = value_bytes(m, m->number[i], size);

	m->pieces[i] = (struct iovec){(char *)(uintptr_t)bytes, size};
}

static void take_value(struct mixer *m, uint64_t i)
{
	const struct mix_plan *plan = &m->share->plan;

	m->pieces[i] = (struct iovec){m->memory.at + i * mix_stride(plan),
				      plan->max_size};
}

static void draw_keys(struct mixer *m, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		make_key(m, i,
			 tei_popularity_draw(&m->share->plan.popularity,
					     &m->chance));
}

static void fresh_keys(struct mixer *m, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		make_key(m, i, FRESH | m->index << FRESH_BITS | m->n_fresh++);
}

static uint64_t wrong_bytes(const struct mixer *m, uint64_t i)
{
	uint64_t size = mix_value_size(&m->share->plan, m->number[i]);
	const char *want = value_bytes(m, m->number[i], size);
	const char *got = m->pieces[i].iov_base;
	uint64_t wrong = 0;

	if ((uint64_t)m->sizes[i] != size)
		return size;
	if (!memcmp(got, want, size))
		return 0;
	for (uint64_t k = 0; k < size; k++)
		wrong += got[k] != want[k];
	return wrong;
}

/* ---- counting ---- */

static void count_call(struct mixer *m, enum mix_op op, uint64_t n,
		       uint64_t start)
{
	struct mix_figures *f = &m->tally->op[op];

	if (!m->counts)
		return;
	f->calls++;
	f->keys += n;
	tei_histogram_add(&f->latency, tei_now_ns() - start);
}

static void count_key(struct mixer *m, enum mix_op op, int code, uint64_t bytes)
{
	struct mix_figures *f = &m->tally->op[op];

	if (!m->counts)
		return;
	if (code >= 0) {
		f->good++;
		f->bytes += bytes;
		return;
	}
	if (code == TE_STORE_OBJECT_NOT_FOUND)
		f->missed++;
	else
		f->failed++;
	mix_count_code(f, code, 1);
}

/* ---- operations ---- */

/* Keep of the first @n keys those without room, and wait a little. */
static uint64_t without_room(struct mixer *m, uint64_t n, uint64_t try)
{
	uint64_t left = 0;

	for (uint64_t i = 0; i < n; i++)
		if (m->codes[i] == TE_STORE_NO_AVAILABLE_HANDLE)
			make_key(m, left++, m->number[i]);
	if (left)
		poll(NULL, 0, 1 << (try < PAUSE_MAX ? try : PAUSE_MAX));
	return left;
}

static int store_values(struct mixer *m, enum mix_op op, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		give_value(m, i);
	if (op == MIX_UPSERT)
		return te_store_upsert(m->store, m->keys, m->values, n, NULL,
				       m->codes);
	return te_store_put(m->store, m->keys, m->values, n, NULL, m->codes);
}

/*
 * Put the keys that are made, and again, as often as the plan says, what found
 * no room. The latency counts from @start.
 */
static void put_one(struct mixer *m, enum mix_op op, uint64_t n, uint64_t start)
{
	uint64_t try, left = n;
	int code;

	for (try = 0;; try++) {
		code = store_values(m, op, left);
		if (code == TE_STORE_INVALID_PARAMS)
			for (uint64_t i = 0; i < left; i++)
				m->codes[i] = code;
		for (uint64_t i = 0; i < left; i++)
			if (m->codes[i] != TE_STORE_NO_AVAILABLE_HANDLE ||
			    try == m->share->plan.retries)
				count_key(m, op, m->codes[i],
					  m->pieces[i].iov_len);
		if (try == m->share->plan.retries)
			break;
		left = without_room(m, left, try);
		if (!left)
			break;
		if (m->counts)
			m->tally->retried += left;
	}
	count_call(m, op, n, start);
}

static void get_one(struct mixer *m, uint64_t n)
{
	uint64_t left = 0;
	int code;

	for (uint64_t i = 0; i < n; i++)
		take_value(m, i);
	code = te_store_get(m->store, m->keys, m->values, n, m->sizes);
	count_call(m, MIX_GET, n, m->begin_ns);
	for (uint64_t i = 0; i < n; i++) {
		if (code < 0)
			m->sizes[i] = code;
		count_key(m, MIX_GET, m->sizes[i] < 0 ? (int)m->sizes[i] : 0,
			  (uint64_t)m->sizes[i]);
		if (m->sizes[i] >= 0 && m->share->plan.verify)
			m->tally->wrong_bytes += wrong_bytes(m, i);
	}
	if (!m->share->plan.fill)
		return;
	for (uint64_t i = 0; i < n; i++)
		if (m->sizes[i] == TE_STORE_OBJECT_NOT_FOUND)
			make_key(m, left++, m->number[i]);
	if (left)
		put_one(m, MIX_FILL, left, tei_now_ns());
}

static void check_keys(struct mixer *m, uint64_t n)
{
	int code = te_store_exist(m->store, m->keys, n, m->codes);

	count_call(m, MIX_EXIST, n, m->begin_ns);
	for (uint64_t i = 0; i < n; i++) {
		if (code == TE_STORE_INVALID_PARAMS)
			m->codes[i] = code;
		else if (!m->codes[i])
			m->codes[i] = TE_STORE_OBJECT_NOT_FOUND;
		count_key(m, MIX_EXIST, m->codes[i], 0);
	}
}

static void take_away(struct mixer *m, uint64_t n)
{
	int code = te_store_remove(m->store, m->keys, n, 0, m->codes);

	count_call(m, MIX_REMOVE, n, m->begin_ns);
	for (uint64_t i = 0; i < n; i++)
		count_key(m, MIX_REMOVE,
			  code == TE_STORE_INVALID_PARAMS ? code : m->codes[i],
			  0);
}

static void call_once(struct mixer *m)
{
	const struct mix_plan *plan = &m->share->plan;
	enum mix_op op = plan->op_of[tei_weights_pick(
		&plan->ops, tei_chance(&m->chance) >> 8)];
	uint64_t n = plan->batch;

	if (op == MIX_PUT)
		fresh_keys(m, n);
	else
		draw_keys(m, n);
	if (op == MIX_GET)
		get_one(m, n);
	else if (op == MIX_EXIST)
		check_keys(m, n);
	else if (op == MIX_REMOVE)
		take_away(m, n);
	else
		put_one(m, op, n, m->begin_ns);
}

/* Sums up keys that went well so far, and their bytes. */
static uint64_t count_good(const struct mixer *m, uint64_t *out_bytes)
{
	uint64_t good = 0;

	*out_bytes = 0;
	for (unsigned int i = 0; i < MIX_OPS; i++) {
		good += m->tally->op[i].good;
		*out_bytes += m->tally->op[i].bytes;
	}
	return good;
}

static void call_paced(struct mixer *m)
{
	uint64_t bytes_before, bytes, before = count_good(m, &bytes_before);
	uint64_t good;

	call_once(m);
	good = count_good(m, &bytes);
	pace_note(&m->share->pace, tei_now_ns(), good - before,
		  bytes - bytes_before);
}

/* ---- what a thread does ---- */

/* Thread function of a mixer: put its part of the keys. */
static void *mixer_fill(void *mixer)
{
	struct mixer *m = mixer;
	const struct mix_plan *plan = &m->share->plan;
	uint64_t step = mix_workers(plan), number = m->index, n;

	while (number < plan->n_keys) {
		for (n = 0; n < plan->batch && number < plan->n_keys; n++) {
			make_key(m, n, number);
			number += step;
		}
		put_one(m, MIX_FILL, n, tei_now_ns());
		atomic_fetch_add_explicit(&m->share->n_filled, n,
					  memory_order_relaxed);
	}
	return NULL;
}

/* Returns when counting begins. */
static uint64_t counted_from(const struct mixer *m)
{
	return m->share->start_ns + m->share->plan.warm_up_ns;
}

static uint64_t planned_end(const struct mixer *m)
{
	uint64_t duration = m->share->plan.duration_ns;

	return duration ? counted_from(m) + duration : UINT64_MAX;
}

/*
 * Waits until the next call is due and takes it; false: the plan is fulfilled.
 */
static bool begin_call(struct mixer *m)
{
	const struct mix_plan *plan = &m->share->plan;
	uint64_t now;

	if (!tei_schedule_await(&m->schedule, planned_end(m), &m->share->ended))
		return false;
	now = tei_now_ns();
	if (!m->counts && now >= counted_from(m)) {
		m->counts = true;
		m->tally->start_ns = plan->rate ? counted_from(m) : now;
	}
	if (m->counts && plan->count &&
	    atomic_fetch_add_explicit(&m->share->next_call, 1,
				      memory_order_relaxed) >= plan->count)
		return false;
	m->begin_ns = tei_schedule_take(&m->schedule, now);
	return true;
}

/* A load with a rate lasts to its end, though no call may be due by then. */
static void end_mixer(struct mixer *m)
{
	const struct mix_plan *plan = &m->share->plan;
	uint64_t now = tei_now_ns(), end = planned_end(m);
	bool early = plan->count || atomic_load_explicit(&m->share->ended,
							 memory_order_relaxed);

	if (!m->tally->start_ns)
		m->tally->start_ns = counted_from(m);
	m->tally->end_ns = plan->rate && !early && now < end ? end : now;
	if (!plan->count)
		m->tally->behind = tei_schedule_behind(
			&m->schedule, now < end ? now : end - 1);
}

/* The same: call until the plan is fulfilled. */
static void *mixer_run(void *mixer)
{
	struct mixer *m = mixer;
	const struct mix_plan *plan = &m->share->plan;

	tei_schedule_init(&m->schedule, plan->rate, m->index, mix_workers(plan),
			  m->share->start_ns);
	while (begin_call(m))
		if (plan->paced)
			call_paced(m);
		else
			call_once(m);
	end_mixer(m);
	return NULL;
}

/* ---- set-up ---- */

static int make_room(struct mixer *m, uint64_t n)
{
	m->number = tei_calloc(n, sizeof(*m->number));
	m->key_text = tei_calloc(n, sizeof(*m->key_text));
	m->keys = tei_calloc(n, sizeof(*m->keys));
	m->pieces = tei_calloc(n, sizeof(*m->pieces));
	m->values = tei_calloc(n, sizeof(*m->values));
	m->codes = tei_calloc(n, sizeof(*m->codes));
	m->sizes = tei_calloc(n, sizeof(*m->sizes));
	if (!m->number || !m->key_text || !m->keys || !m->pieces ||
	    !m->values || !m->codes || !m->sizes)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		m->values[i] = (struct te_store_value){.pieces = &m->pieces[i],
						       .n_pieces = 1};
	return 0;
}

/* -errno: no memory, or it cannot be registered; mixer_close() all the same. */
static int mixer_open(struct mixer *m, struct mix_share *share,
		      const struct buffer *source, struct te_store *store,
		      uint64_t index)
{
	const struct mix_plan *plan = &share->plan;

	memset(m, 0, sizeof(*m));
	m->share = share;
	m->source = source;
	m->tally = &share->tally[index];
	m->index = index;
	m->chance = tei_chance_mix(plan->seed) + index;
	if (buffer_open(&m->memory,
			(mix_stride(plan) * plan->batch + 4095) & ~4095ull,
			plan->node, plan->unaligned) ||
	    make_room(m, plan->batch))
		return -ENOMEM;
	if (te_store_register(store, m->memory.at, m->memory.len))
		return -ENOMEM;
	m->store = store;
	return 0;
}

/* -errno: no memory, or it cannot be registered; mixer_close() all the same. */
static void mixer_close(struct mixer *m)
{
	if (m->store)
		te_store_unregister(m->store, m->memory.at);
	buffer_close(&m->memory);
	tei_free(m->number);
	tei_free(m->key_text);
	tei_free(m->keys);
	tei_free(m->pieces);
	tei_free(m->values);
	tei_free(m->codes);
	tei_free(m->sizes);
	memset(m, 0, sizeof(*m));
}

struct workers {
	struct mix_share *share;
	struct buffer source;
	struct te_store **store; /* store[n_stores] */
	struct mixer *mixer;     /* mixer[n_mixers] */
	uint64_t n_stores, n_mixers;
};

/* ---- set-up ---- */

static int make_source(struct workers *c)
{
	uint64_t len = c->share->plan.max_size + MIX_SPARE_BYTES;

	int rc = buffer_open(&c->source, len, c->share->plan.node,
			     c->share->plan.unaligned);

	if (!rc)
		tei_pattern_fill(c->source.at, len, c->share->plan.seed, 0);
	return rc;
}

static int add_client(struct workers *c, uint64_t client, uint64_t cache)
{
	const struct mix_plan *plan = &c->share->plan;
	struct te_store_config config = {
		.master = plan->master,
		.host = plan->host,
		.location_cache_entries = (uint32_t)cache,
	};
	struct te_store **store = &c->store[c->n_stores];
	int rc = tei_pool_join_as(
		&config, *plan->backends ? plan->backends : NULL, store);

	if (rc)
		return rc;
	c->n_stores++;
	if (te_store_register(*store, c->source.at, c->source.len))
		return -ENOMEM;
	for (uint64_t t = 0; !rc && t < plan->threads; t++)
		rc = mixer_open(&c->mixer[c->n_mixers++], c->share, &c->source,
				*store, client * plan->threads + t);
	return rc;
}

static int workers_init(struct workers *c, const struct options *o)
{
	const struct mix_plan *plan;
	uint64_t n;
	int rc = mix_share_open((int)o->share_fd, &c->share);

	if (rc)
		return rc;
	plan = &c->share->plan;
	if (o->index >= plan->clients)
		return -EINVAL;
	n = (plan->clients - o->index + plan->processes - 1) / plan->processes;
	c->store = tei_calloc(n, sizeof(*c->store));
	c->mixer = tei_calloc(n * plan->threads, sizeof(*c->mixer));
	if (!c->store || !c->mixer)
		return -ENOMEM;
	rc = make_source(c);
	for (uint64_t i = o->index; !rc && i < plan->clients;
	     i += plan->processes)
		rc = add_client(c, i, o->location_cache);
	return rc;
}

static void workers_fini(struct workers *c)
{
	while (c->n_mixers)
		mixer_close(&c->mixer[--c->n_mixers]);
	while (c->n_stores) {
		struct te_store *store = c->store[--c->n_stores];

		te_store_unregister(store, c->source.at);
		te_store_close(store);
	}
	buffer_close(&c->source);
	tei_free(c->mixer);
	tei_free(c->store);
	mix_share_close(c->share);
}

/* ---- work ---- */

/* Run @fn in a thread for each mixer. -errno: some have not been started. */
static int on_all(struct workers *c, void *(*fn)(void *))
{
	uint64_t n = 0;
	int rc = 0;

	while (!rc && n < c->n_mixers) {
		rc = tei_thread_start(&c->mixer[n].thread, "mixer", fn,
				      &c->mixer[n]);
		n += !rc;
	}
	while (n)
		pthread_join(c->mixer[--n].thread, NULL);
	return rc;
}

static void add_stats(struct workers *c)
{
	struct te_store_stats stats;

	for (uint64_t i = 0; i < c->n_stores; i++) {
		te_store_stats(c->store[i], &stats);
		atomic_fetch_add(&c->share->put_retries, stats.put_retries);
		atomic_fetch_add(&c->share->location_hits, stats.location_hits);
		atomic_fetch_add(&c->share->location_misses,
				 stats.location_misses);
	}
}

static int run_all(struct workers *c)
{
	int rc;

	tei_worker_say("ready");
	if (!tei_worker_hear("fill"))
		return 0;
	rc = c->share->plan.prefill ? on_all(c, mixer_fill) : 0;
	if (rc)
		return rc;
	tei_worker_say("filled");
	if (!tei_worker_hear("go"))
		return 0;
	rc = on_all(c, mixer_run);
	if (rc)
		return rc;
	add_stats(c);
	tei_worker_say("done");
	(void)tei_worker_hear("end"); /* or the end of the input */
	return 0;
}

int workers_main(const struct options *o)
{
	struct workers c = {0};
	int rc;

	signal(SIGINT, SIG_IGN); /* of a terminal: the parent ends the load */
	rc = workers_init(&c, o);

	if (!rc)
		rc = run_all(&c);
	if (rc && rc != -ECONNREFUSED) /* that has been said */
		fprintf(stderr, "store-perf: worker %" PRIu64 ": %s\n",
			o->index, strerror(-rc));
	workers_fini(&c);
	return rc ? 1 : 0;
}
