/* SPDX-License-Identifier: Apache-2.0 */
/* transfer_engine_bench_run.c - threads that move blocks for a while */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cmd/transfer_engine_bench.h"

struct run;

struct worker {
	struct run *run; /* not owned */
	pthread_t thread;
	struct te_batch *batch;
	struct te_request *requests; /* requests[bench->batch] */
	struct iovec *pieces;        /* pieces[bench->batch] */
	uint64_t n_batches, last_ns;
	uint32_t rail;
	int error;
};

struct run {
	const struct bench *bench; /* not owned */
	uint64_t end_ns;
	/* One has failed: the others end. Relaxed: a hint. */
	atomic_bool is_over;
	struct worker *workers; /* workers[n] */
	uint32_t n;
};

/* 0 when every request went well. */
static int results(struct worker *w)
{
	struct te_completion done = {.rail = UINT32_MAX};
	int rc;

	for (uint32_t i = 0; i < w->run->bench->batch; i++) {
		rc = te_batch_result(w->batch, i, &done);
		if (rc || done.error)
			return rc ? rc : done.error;
	}
	w->rail = done.rail;
	return 0;
}

static int one_batch(struct worker *w)
{
	int rc = te_batch_submit(w->batch, w->requests, w->run->bench->batch);

	if (!rc)
		rc = te_batch_wait(w->batch, UINT32_MAX);
	if (!rc)
		rc = results(w);
	return rc ? rc : te_batch_reset(w->batch);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct run *run = w->run;

	do {
		w->error = one_batch(w);
		w->n_batches += !w->error;
		w->last_ns = tei_now_ns();
	} while (!w->error && w->last_ns < run->end_ns &&
		 !atomic_load_explicit(&run->is_over, memory_order_relaxed));
	if (w->error)
		atomic_store_explicit(&run->is_over, true,
				      memory_order_relaxed);
	return NULL;
}

static void worker_fini(struct worker *w)
{
	te_batch_destroy(w->batch);
	tei_free(w->pieces);
	tei_free(w->requests);
}

static int worker_init(struct worker *w, struct run *run, uint32_t index)
{
	const struct bench *b = run->bench;

	w->run = run;
	w->rail = UINT32_MAX;
	w->requests = tei_calloc(b->batch, sizeof(*w->requests));
	w->pieces = tei_calloc(b->batch, sizeof(*w->pieces));
	for (uint32_t i = 0; w->requests && w->pieces && i < b->batch; i++) {
		uint64_t at = ((uint64_t)index * b->batch + i) * b->block;

		w->pieces[i] = (struct iovec){b->local + at, b->block};
		w->requests[i] = (struct te_request){
			.op = b->op,
			.segment = b->segment,
			.remote = b->remote + at,
			.pieces = &w->pieces[i],
			.n_pieces = 1,
		};
	}
	if (!w->requests || !w->pieces)
		return -ENOMEM;
	return te_batch_create(b->engine, b->batch, &w->batch);
}

/* Waits for those that were started, also after an error. */
static int start_and_join(struct run *run)
{
	uint32_t started = 0;
	int rc = 0;

	while (!rc && started < run->n) {
		rc = tei_thread_start(&run->workers[started].thread, "bench",
				      work, &run->workers[started]);
		started += !rc;
	}
	if (rc)
		atomic_store_explicit(&run->is_over, true,
				      memory_order_relaxed);
	for (uint32_t i = 0; i < started; i++) {
		(void)pthread_join(run->workers[i].thread, NULL);
		if (!rc)
			rc = run->workers[i].error;
	}
	return rc;
}

static void sum_up(const struct run *run, uint64_t start_ns,
		   struct bench_result *out)
{
	uint64_t last_ns = start_ns;

	*out = (struct bench_result){.rail = UINT32_MAX};
	for (uint32_t i = 0; i < run->n; i++) {
		const struct worker *w = &run->workers[i];

		out->n_batches += w->n_batches;
		if (w->last_ns > last_ns)
			last_ns = w->last_ns;
		if (w->rail != UINT32_MAX)
			out->rail = w->rail;
	}
	out->elapsed_ns = last_ns - start_ns;
}

int bench_run(const struct bench *bench, struct bench_result *out)
{
	struct run run = {.bench = bench};
	uint64_t start_ns;
	int rc = 0;

	run.workers = tei_calloc(bench->n_threads, sizeof(*run.workers));
	if (!run.workers)
		return -ENOMEM;
	while (!rc && run.n < bench->n_threads) {
		rc = worker_init(&run.workers[run.n], &run, run.n);
		run.n++;
	}
	start_ns = tei_now_ns();
	run.end_ns = start_ns + bench->duration_ms * TEI_NS_PER_MS;
	if (!rc)
		rc = start_and_join(&run);
	if (!rc)
		sum_up(&run, start_ns, out);
	for (uint32_t i = 0; i < run.n; i++)
		worker_fini(&run.workers[i]);
	tei_free(run.workers);
	return rc;
}
