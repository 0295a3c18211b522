/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.c - a load of one kind of call, over keys that no thread shares
 *
 * Puts are of fresh keys into a pool that is full, so they evict. Gets and
 * existence checks walk over a set of keys larger than any cache. Each client
 * is a thread, or several, with a store of its own.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "perf/lib/cluster.h"
#include "perf/lib/interrupt.h"
#include "perf/lib/percentiles.h"
#include "perf/lib/reference.h"
#include "perf/lib/report.h"
#include "perf/store-perf/client.h"
#include "perf/store-perf/intervals.h"
#include "perf/store-perf/options.h"
#include "perf/store-perf/results.h"
#include "perf/store-perf/walk.h"

#define PROGRAM  "store-perf"
#define STREAM_S 1.0 /* of a reference stream, or the duration if shorter */
#define LOOK_MS  20  /* between two looks at a warm-up */
#define WATCH_MS 100 /* at threads that run */
/* A warm-up fills a pool up to here, in percent. The master evicts from 90 on,
 * by default. */
#define POOL_PERCENT 88

/* Number of a key that no worker comes to. */
#define FIRST_PUT (1ull << 62)

struct worker {
	struct run *run;
	struct client client;
	pthread_t thread;
	enum client_op op;
	uint64_t warm; /* keys to put before the clock starts */
	uint64_t start_ns, end_ns;
	uint64_t behind; /* calls that were due before the end, never begun */
	bool failed;     /* a whole batch did */
};

struct run {
	const struct options *o;
	enum client_op op;
	struct tei_cluster cluster; /* all zero with --master */
	const char *master;
	struct worker *worker; /* worker[n_workers] */
	unsigned int n_workers;
	/* A warm-up counts keys here for its bar, and threads count themselves
	 * when they have ended. Nothing else is published by them. */
	_Atomic uint64_t n_put;
	_Atomic unsigned int n_ended;
	const _Atomic bool *ended; /* interrupted; NULL before a clock runs */
	struct intervals intervals;
	struct pace pace;
	struct tei_percentiles percentiles;
	struct tei_reference_run reference;
	struct results results;
};

static _Atomic bool interrupted;

/* ---- threads ---- */

/*
 * Put the keys to begin with. Gets and checks need all of them; a pool that is
 * to be full needs some.
 */
static void *warm_up(void *arg)
{
	struct worker *w = arg;
	struct client *c = &w->client;
	uint64_t before;
	bool good = true;

	while (good && c->next_put < w->warm) {
		before = c->next_put;
		good = client_put_some(c, w->warm - before);
		atomic_fetch_add_explicit(&w->run->n_put, c->next_put - before,
					  memory_order_relaxed);
	}
	w->failed = w->op == CLIENT_PUT ? !good && !c->n_done : c->n_failed > 0;
	atomic_fetch_add_explicit(&w->run->n_ended, 1, memory_order_relaxed);
	return NULL;
}

static bool is_ended(const struct run *run)
{
	return run->ended &&
	       atomic_load_explicit(run->ended, memory_order_relaxed);
}

static bool await_call(struct worker *w)
{
	return tei_schedule_await(&w->client.schedule, w->end_ns,
				  w->run->ended);
}

static void call_once(struct worker *w)
{
	struct client *c = &w->client;
	uint64_t before = c->n_done, keys;

	w->failed = !client_batch(c, w->op);
	if (!w->run->intervals.interval_ns)
		return;
	keys = c->n_done - before;
	pace_note(&w->run->pace, tei_now_ns(), keys,
		  w->op == CLIENT_EXIST ? 0 : keys * c->value_size);
}

/* A load with a rate lasts to its end, though no call may be due by then. */
static void end_thread(struct worker *w)
{
	uint64_t now = tei_now_ns();
	bool early = is_ended(w->run);

	w->behind = tei_schedule_behind(&w->client.schedule,
					now < w->end_ns ? now : w->end_ns - 1);
	if (early || now > w->end_ns || !w->run->o->rate)
		w->end_ns = now;
	atomic_fetch_add_explicit(&w->run->n_ended, 1, memory_order_relaxed);
}

/* A busy machine may start a thread when the time is over: one call is made. */
static bool await_first(struct worker *w)
{
	struct tei_schedule *s = &w->client.schedule;

	return tei_schedule_due(s) < w->end_ns &&
	       tei_schedule_await(s, UINT64_MAX, w->run->ended);
}

static void *run_thread(void *arg)
{
	struct worker *w = arg;
	bool goes_on = await_first(w);

	while (goes_on) {
		call_once(w);
		goes_on = !w->failed && await_call(w);
	}
	end_thread(w);
	return NULL;
}

/* Takes points until all @n threads have ended, if there are to be any. */
static void watch_intervals(struct run *run, unsigned int n)
{
	int wait_ms;

	if (!run->intervals.interval_ns)
		return;
	while (atomic_load_explicit(&run->n_ended, memory_order_relaxed) < n) {
		wait_ms =
			intervals_look(&run->intervals, tei_now_ns(), WATCH_MS);
		poll(NULL, 0, wait_ms);
	}
}

static uint64_t last_end_ns(const struct run *run)
{
	uint64_t last = 0;

	for (unsigned int i = 0; i < run->n_workers; i++)
		if (run->worker[i].end_ns > last)
			last = run->worker[i].end_ns;
	return last;
}

/*
 * Shows on a terminal how far the warm-up is, until all @n threads have ended.
 */
static void show_warm_up(struct run *run, unsigned int n)
{
	struct tei_progress bar;
	uint64_t total = 0;

	for (unsigned int i = 0; i < n; i++)
		total += run->worker[i].warm;
	tei_progress_begin(&bar, "preparing");
	while (bar.shown &&
	       atomic_load_explicit(&run->n_ended, memory_order_relaxed) < n) {
		tei_progress_show(
			&bar,
			atomic_load_explicit(&run->n_put, memory_order_relaxed),
			total);
		poll(NULL, 0, LOOK_MS);
	}
	tei_progress_end(&bar);
}

static int fail_client(const struct client *c)
{
	fprintf(stderr,
		PROGRAM ": %" PRIu64 " keys of a client failed, the last: %s\n",
		c->n_failed, te_store_strerror(c->last_code));
	return -EIO;
}

/* Run @fn in a thread for each worker. -errno; -EIO when one has failed. */
static int on_all(struct run *run, void *(*fn)(void *))
{
	unsigned int n = 0;
	int rc = 0;

	while (!rc && n < run->n_workers) {
		rc = tei_thread_start(&run->worker[n].thread, "client", fn,
				      &run->worker[n]);
		n += !rc;
	}
	if (rc)
		fprintf(stderr, PROGRAM ": thread %u of %u: %s\n", n + 1,
			run->n_workers, strerror(-rc));
	if (fn == warm_up)
		show_warm_up(run, n);
	else
		watch_intervals(run, n);
	for (unsigned int i = 0; i < n; i++) {
		pthread_join(run->worker[i].thread, NULL);
		if (!rc)
			rc = run->worker[i].failed
				     ? fail_client(&run->worker[i].client)
				     : 0;
	}
	return rc;
}

/* ---- one row ---- */

/* Keys to put first: all of the set, or as many as the pool has room for. */
static uint64_t warm_keys(const struct run *run, const struct client *c)
{
	struct te_store_pool pool;
	uint64_t most = 2 * c->n_slots, fit;

	if (run->op != CLIENT_PUT)
		return c->n_slots;
	if (te_store_pool(c->store, &pool))
		return 0;
	fit = pool.capacity_bytes / tei_pool_extent_bytes(c->value_size) /
	      run->n_workers;
	return fit < most ? fit : most;
}

static int ask_pool(const struct run *run, struct te_store_pool *out)
{
	int code = te_store_pool(run->worker[0].client.store, out);

	if (code)
		fprintf(stderr, PROGRAM ": figures of the pool: %s\n",
			te_store_strerror(code));
	return code ? -EIO : 0;
}

/*
 * Says what the keys of a row take in the pool. -ENOSPC, said: they are to be
 * found there afterwards, and the pool would evict some of them.
 */
static int check_pool(const struct run *run, uint64_t value_size,
		      uint64_t n_keys)
{
	uint64_t bytes = n_keys * tei_pool_extent_bytes(value_size);
	char count[32], size[24], takes[24], has[24];
	struct te_store_pool pool;
	int rc = ask_pool(run, &pool);

	if (rc)
		return rc;
	tei_text_count(n_keys, count);
	tei_text_bytes(value_size, size);
	tei_text_bytes(bytes, takes);
	tei_text_bytes(pool.capacity_bytes, has);
	if (run->op == CLIENT_PUT ||
	    bytes <= pool.capacity_bytes / 100 * POOL_PERCENT) {
		fprintf(stderr,
			PROGRAM ": puts %s keys of %s first, which take %s of "
				"the pool's %s\n",
			count, size, takes, has);
		return 0;
	}
	fprintf(stderr,
		PROGRAM ": %s keys of %s take %s of the pool's %s, which is "
			"full at %d %%: give a larger --pool-bytes or fewer "
			"--keys\n",
		count, size, takes, has, POOL_PERCENT);
	return -ENOSPC;
}

static void begin_row(struct run *run, uint64_t value_size, uint64_t n_slots,
		      uint64_t seed)
{
	char prefix[48];

	atomic_store_explicit(&run->n_put, 0, memory_order_relaxed);
	atomic_store_explicit(&run->n_ended, 0, memory_order_relaxed);
	for (unsigned int i = 0; i < run->n_workers; i++) {
		struct worker *w = &run->worker[i];

		snprintf(prefix, sizeof(prefix),
			 PROGRAM "/%x/%" PRIx64 "/%zu/%u", (unsigned)getpid(),
			 tei_wall_us(), run->results.n_rows, i);
		client_begin(&w->client, prefix, value_size, n_slots);
		client_fill(&w->client, seed);
		w->run = run;
		w->op = run->op;
		w->warm = warm_keys(run, &w->client);
	}
}

static uint64_t cpu_ns(const struct run *run)
{
	uint64_t sum = tei_process_own_cpu_ns() +
		       tei_process_cpu_ns(&run->cluster.master);

	for (unsigned int i = 0; i < run->cluster.n_owners; i++)
		sum += tei_process_cpu_ns(&run->cluster.owner[i]);
	return sum;
}

static void begin_clock(struct run *run)
{
	const struct options *o = run->o;
	uint64_t start;

	tei_interrupt_catch(&interrupted);
	run->ended = &interrupted;
	atomic_store_explicit(&run->n_ended, 0, memory_order_relaxed);
	for (unsigned int i = 0; i < run->n_workers; i++) {
		struct client *c = &run->worker[i].client;

		client_reset(c);
		if (run->op == CLIENT_GET) /* so that only gets make it right */
			memset(c->memory, 0, c->memory_len);
	}
	start = tei_now_ns();
	for (unsigned int i = 0; i < run->n_workers; i++) {
		struct worker *w = &run->worker[i];

		w->start_ns = start;
		w->end_ns = o->duration ? start + o->duration * TEI_NS_PER_MS
					: UINT64_MAX;
		tei_schedule_init(&w->client.schedule, o->rate, i,
				  run->n_workers, start);
	}
	pace_begin(&run->pace, start);
	intervals_begin(&run->intervals, &run->pace, start);
}

static void sum_row(const struct run *run, struct row *row,
		    struct tei_histogram *latency, uint64_t cpu)
{
	uint64_t done = 0, first = UINT64_MAX;
	double ns, bytes;

	for (unsigned int i = 0; i < run->n_workers; i++) {
		const struct worker *w = &run->worker[i];

		done += w->client.n_done;
		row->missed += w->client.n_missed;
		row->failed += w->client.n_failed;
		row->behind += w->behind;
		tei_histogram_merge(latency, &w->client.latency);
		if (w->start_ns < first)
			first = w->start_ns;
	}
	ns = (double)(last_end_ns(run) - first);
	bytes = run->op == CLIENT_EXIST
			? 0
			: (double)done * (double)row->value_size;
	row->keys_per_s = (double)done / ns * 1e9;
	row->calls_per_s = (double)latency->n / ns * 1e9;
	row->gb_per_s = bytes / ns;
	/* CPU time of processes that others have started is unknown. */
	row->cpu_s_per_gb =
		bytes > 0 && !run->o->master ? (double)cpu / bytes : NAN;
	row->p50_us = tei_histogram_us(latency, 0.5);
	row->p99_us = tei_histogram_us(latency, 0.99);
	row->p999_us = tei_histogram_us(latency, 0.999);
}

static int prepare_row(struct run *run, const struct row *row, uint64_t seed)
{
	uint64_t n_keys = 0;
	int rc;

	begin_row(run, row->value_size, run->o->slots[run->results.n_rows],
		  seed);
	for (unsigned int i = 0; i < run->n_workers; i++)
		n_keys += run->worker[i].warm;
	rc = check_pool(run, row->value_size, n_keys);
	return rc ? rc : on_all(run, warm_up);
}

static struct client_place place_of(const struct run *run)
{
	const struct options *o = run->o;

	return (struct client_place){
		.master = run->master,
		.host = o->host,
		.backends = o->backends,
		.node = o->node,
		.unaligned = o->unaligned,
	};
}

/*
 * Measures what a client costs that was not there before: for puts its keys are
 * new, else they are those of the first worker.
 */
static int measure_first(struct run *run, struct row *row, uint64_t seed)
{
	const struct client_place place = place_of(run);
	struct client *c = tei_calloc(1, sizeof(*c));
	const struct client *other = &run->worker[0].client;
	int rc;

	if (!c)
		return -ENOMEM;
	rc = client_open(c, &place, run->o->memory_each, other->batch, NULL);
	if (rc)
		goto free_client;
	client_begin(c, other->prefix, row->value_size, other->n_slots);
	if (run->op == CLIENT_PUT)
		c->next_put = FIRST_PUT;
	client_fill(c, seed);
	if (!client_batch(c, run->op))
		rc = fail_client(c);
	row->join_ms = (double)c->join_ns / 1e6;
	row->register_ms = (double)c->register_ns / 1e6;
	row->first_us = (double)c->latency.max / 1e3;
	client_close(c);
free_client:
	tei_free(c);
	return rc;
}

/* Tells whether a row measures anything. -ENODATA, said: nothing was there. */
static int check_row(const struct run *run, const struct row *row)
{
	char count[32];

	if (row->keys_per_s > 0 || !row->missed)
		return 0;
	fprintf(stderr,
		PROGRAM ": %s: none of %s keys was there: others have removed "
			"or displaced them; give a pool of its own, or more "
			"--pool-bytes\n",
		run->o->op, tei_text_count(row->missed, count));
	return -ENODATA;
}

static int measure_row(struct run *run, struct row *row,
		       struct tei_histogram *latency)
{
	uint64_t seed = run->results.n_rows + 1, cpu;
	int rc = prepare_row(run, row, seed);

	if (!rc && run->o->first_call)
		rc = measure_first(run, row, seed);
	if (rc)
		return rc;
	begin_clock(run);
	cpu = cpu_ns(run);
	rc = on_all(run, run_thread);
	if (rc)
		return rc;
	sum_row(run, row, latency, cpu_ns(run) - cpu);
	intervals_end(&run->intervals, last_end_ns(run));
	if (run->intervals.keep)
		row->series = intervals_json(&run->intervals);
	rc = check_row(run, row);
	if (rc)
		return rc;
	for (unsigned int i = 0; i < run->n_workers; i++) {
		struct client *c = &run->worker[i].client;

		row->wrong_bytes += client_check(c, run->op, seed);
		if (run->op != CLIENT_PUT)
			client_remove_all(c);
	}
	return 0;
}

static void add_percentiles(struct run *run, const struct row *row,
			    const struct tei_histogram *latency)
{
	const struct options *o = run->o;
	char title[160];

	snprintf(title, sizeof(title),
		 "%s, value_size %" PRIu64 ", batch %" PRIu64
		 ", clients %" PRIu64 ", threads %" PRIu64 ", rate %" PRIu64,
		 o->op, row->value_size, o->batch, o->clients, o->threads,
		 o->rate);
	tei_percentiles_add(&run->percentiles, title, latency);
}

static int add_row(struct run *run, uint64_t value_size)
{
	struct tei_histogram *latency = tei_calloc(1, sizeof(*latency));
	struct row *row = &run->results.row[run->results.n_rows];
	int rc;

	if (!latency)
		return -ENOMEM;
	*row = (struct row){.value_size = value_size,
			    .join_ms = NAN,
			    .register_ms = NAN,
			    .first_us = NAN};
	rc = measure_row(run, row, latency);
	if (!rc) {
		add_percentiles(run, row, latency);
		results_warn_behind(row->behind, run->n_workers, run->o->rate);
	}
	tei_free(latency);
	if (rc)
		return rc;
	run->results.n_rows++;
	return run->o->reference ? tei_reference_round(&run->reference) : 0;
}

static int add_rows(struct run *run)
{
	int rc = 0;

	if (run->o->reference)
		rc = tei_reference_round(&run->reference);
	for (int i = 0; !rc && i < run->o->n_sizes && !is_ended(run); i++)
		rc = add_row(run, run->o->sizes[i]);
	return rc;
}

/* ---- set-up ---- */

static int open_reference(struct run *run)
{
	double seconds = (double)run->o->duration / 1e3;

	run->reference.process = TEI_PROCESS_NONE;
	if (!run->o->reference)
		return 0;
	if (seconds <= 0 || seconds > STREAM_S)
		seconds = STREAM_S;
	return tei_reference_open(&run->reference, run->o->working_set, seconds,
				  run->o->pin);
}

static int open_pool(struct run *run)
{
	const struct options *o = run->o;
	int rc;

	run->master = o->master;
	if (o->master)
		return 0;
	rc = tei_cluster_start(&run->cluster, (unsigned int)o->owners,
			       o->own_pool, o->remote_node);
	run->master = run->cluster.name;
	return rc;
}

static int open_clients(struct run *run)
{
	const struct options *o = run->o;
	uint64_t n = o->clients * o->threads;
	const struct client_place place = place_of(run);
	int rc = 0;

	run->worker = tei_calloc(n, sizeof(*run->worker));
	if (!run->worker)
		return -ENOMEM;
	while (!rc && run->n_workers < n) {
		size_t first = run->n_workers - run->n_workers % o->threads;

		rc = client_open(&run->worker[run->n_workers].client, &place,
				 o->memory_each, (uint32_t)o->batch,
				 first == run->n_workers
					 ? NULL
					 : &run->worker[first].client);
		run->n_workers += !rc;
	}
	if (!rc)
		rc = tei_cluster_await(&run->cluster,
				       run->worker[0].client.store);
	return rc;
}

static int close_all(struct run *run)
{
	int rc;

	while (run->n_workers)
		client_close(&run->worker[--run->n_workers].client);
	tei_free(run->worker);
	rc = tei_cluster_stop(&run->cluster);
	tei_reference_close(&run->reference);
	return rc;
}

static int measure_all(struct run *run)
{
	int rc = open_reference(run);

	if (run->o->pin)
		tei_process_pin(1);
	if (!rc)
		rc = open_pool(run);
	if (run->o->pin)
		tei_process_pin(0);
	if (!rc)
		rc = open_clients(run);
	if (!rc)
		rc = add_rows(run);
	run->results.reference = tei_reference_median(&run->reference);
	if (close_all(run))
		rc = -EIO;
	return rc;
}

static enum client_op op_of(const char *name)
{
	if (!strcmp(name, "get"))
		return CLIENT_GET;
	return strcmp(name, "put") ? CLIENT_EXIST : CLIENT_PUT;
}

static void run_init(struct run *run, const struct options *o)
{
	run->o = o;
	run->op = op_of(o->op);
	run->intervals.interval_ns = o->interval * TEI_NS_PER_MS;
	run->intervals.print = !o->json && !o->csv;
	run->intervals.keep = o->json && o->interval;
}

int walk_run(const struct options *o)
{
	struct run *run =
		tei_aligned_calloc(_Alignof(struct run), sizeof(*run));
	int rc;

	if (!run)
		return 1;
	run_init(run, o);
	if (tei_percentiles_open(&run->percentiles, PROGRAM, o->histogram)) {
		tei_free(run);
		return 2;
	}
	rc = measure_all(run);
	if (!rc)
		rc = results_report(&run->results, o);
	if (tei_percentiles_close(&run->percentiles))
		rc = -EIO;
	results_fini(&run->results);
	intervals_fini(&run->intervals);
	tei_free(run);
	return rc ? 1 : 0;
}
