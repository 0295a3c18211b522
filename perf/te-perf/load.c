/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c - threads that submit batches for a while, and what came of it
 *
 * A thread has one batch in flight: submit, wait for all of it, look at every
 * result, start over. Latency is therefore that of the batch's last request;
 * with a batch of 1 it is that of the request.
 */
#include "perf/te-perf/load.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "perf/lib/pattern.h"

#define PRIME_LEN     (16u << 20) /* of one write */
#define CHECK_SAMPLES 64
#define CHECK_LEN     (64u << 10) /* bytes compared of one request */

struct worker {
	const struct load *load;
	pthread_t thread;
	struct te_batch *batch;
	struct te_request *requests; /* requests[load->batch] */
	struct iovec *pieces;        /* pieces[load->batch] */
	uint64_t base, span;         /* its part of the working set */
	uint64_t at;                 /* of the next request, in the span */
	uint64_t end_ns;             /* stop after the batch that is then on */
	uint64_t n_done, last_ns;
	int error;
	struct tei_histogram latency;
};

/* From one request to the next: whole words, as patterns want it. */
static uint64_t stride_of(const struct load *l)
{
	return (l->size + 7) & ~7ull;
}

static void prepare(struct worker *w)
{
	const struct load *l = w->load;
	uint64_t offset, stride = stride_of(l);

	for (uint32_t i = 0; i < l->batch; i++) {
		offset = w->base + w->at;
		w->pieces[i] = (struct iovec){l->local + offset, l->size};
		w->requests[i] = (struct te_request){
			.op = l->op,
			.segment = l->segment,
			.remote = l->remote + offset,
			.pieces = &w->pieces[i],
			.n_pieces = 1,
		};
		w->at += stride;
		if (w->at + stride > w->span)
			w->at = 0;
	}
}

/* Wait for all of a batch, and whether all of it succeeded. */
static int finish(struct te_batch *batch, uint32_t n)
{
	struct te_completion done;
	int rc = te_batch_wait(batch, UINT32_MAX);

	for (uint32_t i = 0; !rc && i < n; i++) {
		rc = te_batch_result(batch, i, &done);
		if (!rc)
			rc = done.error;
	}
	return rc ? rc : te_batch_reset(batch);
}

static int one_batch(struct worker *w)
{
	const struct load *l = w->load;
	uint64_t start;
	int rc;

	prepare(w);
	start = tei_now_ns();
	rc = te_batch_submit(w->batch, w->requests, l->batch);
	if (!rc)
		rc = finish(w->batch, l->batch);
	if (rc)
		return rc;
	w->last_ns = tei_now_ns();
	w->n_done += l->batch;
	tei_histogram_add(&w->latency, w->last_ns - start);
	return 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	w->last_ns = tei_now_ns();
	while (!w->error && w->last_ns < w->end_ns)
		w->error = one_batch(w);
	return NULL;
}

static void worker_fini(struct worker *w)
{
	te_batch_destroy(w->batch);
	tei_free(w->requests);
	tei_free(w->pieces);
}

static int worker_init(struct worker *w, const struct load *l, uint32_t index)
{
	uint64_t stride = stride_of(l);
	int rc;

	w->load = l;
	w->span = l->working_set / l->n_threads / stride * stride;
	w->base = w->span * index;
	w->requests = tei_calloc(l->batch, sizeof(*w->requests));
	w->pieces = tei_calloc(l->batch, sizeof(*w->pieces));
	rc = w->requests && w->pieces
		     ? te_batch_create(l->engine, l->batch, &w->batch)
		     : -ENOMEM;
	if (rc)
		worker_fini(w);
	return rc;
}

static int start_and_join(struct worker *w, uint32_t n, uint64_t duration_ms)
{
	uint64_t end = tei_now_ns() + duration_ms * TEI_NS_PER_MS;
	uint32_t started = 0;
	int rc = 0;

	while (!rc && started < n) {
		w[started].end_ns = end;
		rc = tei_thread_start(&w[started].thread, "load", work,
				      &w[started]);
		started += !rc;
	}
	for (uint32_t i = 0; i < started; i++) {
		pthread_join(w[i].thread, NULL);
		if (!rc)
			rc = w[i].error;
	}
	return rc;
}

int load_run(const struct load *l, struct load_result *out)
{
	struct worker *w = tei_calloc(l->n_threads, sizeof(*w));
	uint64_t start, last = 0;
	uint32_t n = 0;
	int rc = w ? 0 : -ENOMEM;

	memset(out, 0, sizeof(*out));
	while (!rc && n < l->n_threads) {
		rc = worker_init(&w[n], l, n);
		n += !rc;
	}
	start = tei_now_ns();
	if (!rc)
		rc = start_and_join(w, n, l->duration_ms);
	for (uint32_t i = 0; i < n; i++) {
		out->requests += w[i].n_done;
		if (!i)
			out->first_requests = w[i].n_done;
		if (w[i].last_ns > last)
			last = w[i].last_ns;
		tei_histogram_merge(&out->latency, &w[i].latency);
		worker_fini(&w[i]);
	}
	out->elapsed_ns = last - start;
	tei_free(w);
	return rc;
}

/* ---- before and after ---- */

/* Where sample @i begins: spread over what the first thread has moved. */
static uint64_t sample_offset(const struct load *l,
			      const struct load_result *result, unsigned int i)
{
	uint64_t slots = l->working_set / l->n_threads / stride_of(l);

	if (result->first_requests < slots)
		slots = result->first_requests;
	return (slots * i / CHECK_SAMPLES) * stride_of(l);
}

/* Move one contiguous piece and wait for it. */
static int move(const struct load *l, struct te_batch *batch, uint32_t op,
		uint64_t offset, void *local, uint64_t len)
{
	struct iovec piece = {local, len};
	struct te_request r = {
		.op = op,
		.segment = l->segment,
		.remote = l->remote + offset,
		.pieces = &piece,
		.n_pieces = 1,
	};
	int rc = te_batch_submit(batch, &r, 1);

	return rc ? rc : finish(batch, 1);
}

int load_prime(const struct load *l)
{
	uint64_t at, len;
	struct te_batch *batch;
	int rc = te_batch_create(l->engine, 1, &batch);

	if (rc)
		return rc;
	for (at = 0; !rc && at < l->working_set; at += len) {
		len = l->working_set - at;
		if (len > PRIME_LEN)
			len = PRIME_LEN;
		rc = move(l, batch, TE_WRITE, at, l->local + at, len);
	}
	te_batch_destroy(batch);
	return rc;
}

static int check_sample(const struct load *l, struct te_batch *batch,
			uint64_t offset, char *scratch, uint64_t seed,
			uint64_t *wrong)
{
	uint64_t len = l->size < CHECK_LEN ? l->size : CHECK_LEN;
	const char *bytes = l->local + offset;
	int rc = 0;

	if (l->op == TE_WRITE) {
		memset(scratch, 0, CHECK_LEN);
		rc = move(l, batch, TE_READ, offset, scratch, len);
		bytes = scratch;
	}
	if (!rc)
		*wrong += tei_pattern_wrong(bytes, len, seed, offset);
	return rc;
}

int load_check(const struct load *l, const struct load_result *result,
	       uint64_t seed, uint64_t *out_wrong)
{
	char *scratch = tei_malloc(CHECK_LEN);
	struct te_batch *batch;
	uint64_t wrong = 0;
	int rc;

	if (!scratch)
		return -ENOMEM;
	rc = te_batch_create(l->engine, 1, &batch);
	if (rc)
		goto free_scratch;
	for (unsigned int i = 0; !rc && i < CHECK_SAMPLES; i++)
		rc = check_sample(l, batch, sample_offset(l, result, i),
				  scratch, seed, &wrong);
	if (!rc)
		*out_wrong = wrong;
	te_batch_destroy(batch);
free_scratch:
	tei_free(scratch);
	return rc;
}
