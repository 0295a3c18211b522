/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - batches: made, waited for, their results taken */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <te/te.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/api/api.h"
#include "te/api/stream.h"
#include "te/control/peer.h"
#include "te/core/engine.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/worker/worker.h"

#define CAPACITY_MAX 65536u

static void cancel_came(struct tei_call *call);

static void sweep_came(struct tei_call *call);

static struct te_batch *make_batch(struct te_engine *engine, uint32_t capacity)
{
	struct te_batch *batch = tei_calloc(1, sizeof(*batch));

	if (!batch)
		return NULL;
	batch->requests = tei_calloc(capacity, sizeof(*batch->requests));
	batch->cohorts = tei_calloc(capacity, sizeof(*batch->cohorts));
	batch->merged = tei_calloc(capacity, sizeof(*batch->merged));
	batch->order = tei_calloc(capacity, sizeof(*batch->order));
	batch->sweeps = tei_calloc(engine->n_workers, sizeof(*batch->sweeps));
	if (!batch->requests || !batch->cohorts || !batch->merged ||
	    !batch->order || !batch->sweeps) {
		tei_free(batch->sweeps);
		tei_free(batch->requests);
		tei_free(batch->cohorts);
		tei_free(batch->merged);
		tei_free(batch->order);
		tei_free(batch);
		return NULL;
	}
	batch->engine = engine;
	batch->capacity = capacity;
	batch->cancel.fn = cancel_came;
	atomic_init(&batch->home, tei_own_worker(engine));
	for (uint32_t i = 0; i < engine->n_workers; i++) {
		batch->sweeps[i].batch = batch;
		batch->sweeps[i].worker = i;
		batch->sweeps[i].call.fn = sweep_came;
	}
	tei_mpsc_init(&batch->cancels);
	atomic_init(&batch->event, -1);
	tei_list_init(&batch->chunks);
	tei_list_init(&batch->dirty);
	tei_list_init(&batch->notifies);
	tei_sleeper_init(&batch->sleeper);
	return batch;
}

int te_batch_create(struct te_engine *engine, uint32_t capacity,
		    struct te_batch **out)
{
	struct te_batch *batch;
	bool closing;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!capacity || capacity > CAPACITY_MAX || !out)
		return -EINVAL;
	batch = make_batch(engine, capacity);
	if (!batch)
		return -ENOMEM;
	tei_mutex_lock(&engine->mu);
	closing = engine->closing;
	if (!closing)
		tei_list_add_tail(&engine->batches, &batch->link);
	tei_mutex_unlock(&engine->mu);
	if (closing) {
		tei_batch_free(batch);
		return -ECANCELED;
	}
	*out = batch;
	return 0;
}

void tei_batch_free(struct te_batch *batch)
{
	int event = atomic_load(&batch->event);

	if (event >= 0)
		close(event);
	tei_gated_free(batch);
	tei_pieces_free(&batch->chunks);
	tei_sleeper_fini(&batch->sleeper);
	tei_free(batch->sweeps);
	tei_free(batch->order);
	tei_free(batch->merged);
	tei_free(batch->cohorts);
	tei_free(batch->requests);
	tei_free(batch);
}

/* ---- the driver's side ---- */

static void completion_of(struct tei_request *r, struct te_completion *out)
{
	bool quiet = !r->error || r->op == TE_READ || !r->loud;

	*out = (struct te_completion){
		.user = r->user,
		.bytes = r->bytes,
		.index = r->index,
		.error = r->error,
		.provider_code = r->error ? r->provider_code : 0,
		.retries = r->retries,
		.flags = quiet ? TE_REMOTE_QUIET : 0,
		.crc = r->error ? 0 : r->crc,
		.rail = r->rail,
	};
}

/*
 * The driver calls back at the end of its round and before it publishes n_done:
 * who waits for that counter has all calls behind it. What a callback submits
 * or cancels is queued, since the token is held, and served in the next round.
 */
static void call_all(struct te_batch *batch)
{
	struct te_completion completion;

	tei_calling_back = true;
	while (batch->n_called < batch->n_final) {
		uint32_t index = batch->order[batch->n_called++];

		completion_of(&batch->requests[index], &completion);
		batch->fn(batch, &completion, batch->fn_arg);
	}
	tei_calling_back = false;
}

/* Calls of one engine never overlap, whichever workers make them. */
static void call_back(struct te_batch *batch)
{
	struct te_engine *engine = batch->engine;

	if (engine->n_workers == 1) { /* its token sees to that */
		call_all(batch);
		return;
	}
	tei_mutex_lock(&engine->calling);
	call_all(batch);
	tei_mutex_unlock(&engine->calling);
}

/*
 * Publishes the end. After n_done is stored the batch may be freed but for
 * `touching`.
 */
static void publish_batch(struct te_batch *batch)
{
	bool polled = !batch->fn;
	int event;

	atomic_store_explicit(&batch->touching, true, memory_order_relaxed);
	if (!polled)
		call_back(batch);
	if (batch->n_final ==
	    atomic_load_explicit(&batch->n_submitted, memory_order_relaxed))
		tei_gated_end(batch);
	atomic_store(&batch->n_done, batch->n_final);
	if (batch->n_final ==
	    atomic_load_explicit(&batch->n_submitted, memory_order_relaxed))
		tei_sleeper_signal(tei_batch_home(batch), &batch->sleeper);
	event = atomic_load(&batch->event);
	if (event >= 0 && polled)
		tei_event_signal(event);
	atomic_store_explicit(&batch->touching, false, memory_order_release);
}

/* Hands requests that have ended here to the workers of their batches. */
static bool hand_back(struct tei_worker *w)
{
	struct tei_list *node;
	bool any = false;

	while ((node = tei_list_pop(&w->ended))) {
		struct tei_request *r =
			tei_list_entry(node, struct tei_request, queue);

		r->call.fn = tei_request_ended;
		tei_worker_post(tei_batch_home(r->batch), &r->call);
		any = true;
	}
	return any;
}

bool tei_batch_publish_dirty(struct tei_worker *w, bool with_callbacks)
{
	bool any = hand_back(w);

	tei_list_for_each_safe (node, tmp, &w->dirty) {
		struct te_batch *batch =
			tei_list_entry(node, struct te_batch, dirty);

		if (batch->fn && !with_callbacks)
			continue;
		tei_list_del(node);
		publish_batch(batch);
		any = true;
	}
	return any;
}

/* ---- waiting ---- */

static bool all_done(void *arg)
{
	struct te_batch *batch = arg;
	/* First: a callback may submit before its own request counts. */
	uint32_t n_done = atomic_load(&batch->n_done);

	/* Acquire: who cancels may be another thread than who submits. */
	return n_done ==
	       atomic_load_explicit(&batch->n_submitted, memory_order_acquire);
}

int te_batch_wait(struct te_batch *batch, uint32_t timeout_ms)
{
	struct te_engine *engine = batch->engine;
	struct tei_worker *w = tei_batch_home(batch);
	uint64_t until = UINT64_MAX;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (all_done(batch))
		return 0;
	if (tei_in_callback())
		return -EDEADLK;
	if (!timeout_ms) {
		tei_worker_poke(w);
		return all_done(batch) ? 0 : -ETIMEDOUT;
	}
	if (timeout_ms != UINT32_MAX)
		until = tei_now_ns() + timeout_ms * TEI_NS_PER_MS;
	atomic_store_explicit(&batch->waited, true, memory_order_relaxed);
	while (!tei_worker_drive(w, all_done, batch, until) &&
	       tei_sleeper_sleep(w, &batch->sleeper, all_done, batch, until))
		;
	return all_done(batch) ? 0 : -ETIMEDOUT;
}

/* The event stays readable as long as something is left to take. */
static void clear_event(struct te_batch *batch)
{
	int event = atomic_load(&batch->event);

	if (event < 0)
		return;
	tei_event_clear(event);
	if (atomic_load(&batch->n_done) != batch->n_taken)
		tei_event_signal(event);
}

static int take_completions(struct te_batch *batch, struct te_completion *out,
			    int max)
{
	uint32_t n_done = atomic_load(&batch->n_done);
	int n = 0;

	if (batch->fn)
		return 0;
	while (n < max && batch->n_taken < n_done)
		completion_of(&batch->requests[batch->order[batch->n_taken++]],
			      &out[n++]);
	if (n)
		clear_event(batch);
	return n;
}

int te_batch_poll(struct te_batch *batch, struct te_completion *out, int max)
{
	int n;

	if (!tei_engine_alive(batch->engine) || max <= 0)
		return 0;
	n = take_completions(batch, out, max);
	if (n || all_done(batch))
		return n;
	tei_worker_poke(tei_batch_home(batch));
	return take_completions(batch, out, max);
}

static int find_submitted(struct te_batch *batch, uint32_t index,
			  struct tei_request **out)
{
	if (!tei_engine_alive(batch->engine))
		return -ESTALE;
	if (index >=
	    atomic_load_explicit(&batch->n_submitted, memory_order_acquire))
		return -EINVAL;
	*out = &batch->requests[index];
	return 0;
}

int te_batch_result(struct te_batch *batch, uint32_t index,
		    struct te_completion *out)
{
	struct tei_request *r;
	int rc = find_submitted(batch, index, &r);

	if (rc)
		return rc;
	if (!atomic_load_explicit(&r->final, memory_order_acquire))
		return -EAGAIN;
	completion_of(r, out);
	return 0;
}

int te_batch_eventfd(struct te_batch *batch)
{
	int event = atomic_load(&batch->event);

	if (!tei_engine_alive(batch->engine))
		return -ESTALE;
	if (event >= 0)
		return event;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (event < 0)
		return -EMFILE;
	atomic_store(&batch->event, event);
	if (atomic_load(&batch->n_done) != batch->n_taken)
		tei_event_signal(event);
	return event;
}

/* ---- cancelling, reset, the end ---- */

/*
 * Tells whether that worker, whose token is held, has the request. A cohort is
 * cut before any of its parts is sent on: where the request's cohort is this
 * worker's, and still is the request's after that was read, so is the request.
 */
static bool is_at(const struct tei_request *r, uint32_t worker)
{
	struct tei_cohort *cohort = tei_cohort_of(r);

	return atomic_load(&cohort->at) == worker && tei_cohort_of(r) == cohort;
}

/*
 * Cancels a request that has begun at that worker; others look whether they are
 * canceled when they begin.
 */
static void abort_begun(struct tei_request *r, uint32_t worker)
{
	if (is_at(r, worker) && r->begun)
		tei_request_abort(r, -ECANCELED);
}

static void abort_all(struct te_batch *batch)
{
	uint32_t i, n = atomic_load_explicit(&batch->n_submitted,
					     memory_order_acquire);

	atomic_store(&batch->n_canceled, n);
	for (i = 0; i < n; i++)
		abort_begun(&batch->requests[i], tei_batch_home(batch)->index);
}

/* Cancels what a worker has of a batch of another one. */
static void sweep_came(struct tei_call *call)
{
	struct tei_sweep *sweep = TEI_CONTAINER(call, struct tei_sweep, call);
	struct te_batch *batch = sweep->batch;
	uint32_t i, n;

	atomic_store(&sweep->running, true);
	atomic_store(&sweep->posted, false);
	n = atomic_load_explicit(&batch->n_submitted, memory_order_acquire);
	for (i = 0; i < n; i++) {
		struct tei_request *r = &batch->requests[i];

		if (atomic_load(&r->canceled) ||
		    i < atomic_load(&batch->n_canceled))
			abort_begun(r, sweep->worker);
	}
	atomic_store_explicit(&sweep->running, false, memory_order_release);
}

static void sweep_others(struct te_batch *batch)
{
	uint64_t left = atomic_load(&batch->used);

	for (; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);

		if (!atomic_exchange(&batch->sweeps[i].posted, true))
			tei_worker_post(&batch->engine->worker[i],
					&batch->sweeps[i].call);
	}
}

static bool is_being_swept(struct te_batch *batch)
{
	uint64_t left = atomic_load(&batch->used);
	bool swept = false;

	for (; left; left &= left - 1) {
		struct tei_sweep *sweep = &batch->sweeps[__builtin_ctzll(left)];

		swept |= atomic_load(&sweep->posted) ||
			 atomic_load(&sweep->running);
	}
	return swept;
}

/* Requests submitted before the cancellation have begun by now. Token. */
static void cancel_came(struct tei_call *call)
{
	struct te_batch *batch = TEI_CONTAINER(call, struct te_batch, cancel);
	struct tei_mpsc_node *node, *next;

	/* A cancel from now on posts again. */
	atomic_store(&batch->cancel_running, true);
	atomic_store(&batch->cancel_posted, false);
	if (atomic_exchange(&batch->cancel_all, false)) {
		tei_gated_cancel(batch);
		abort_all(batch);
	}
	for (node = tei_mpsc_take_all(&batch->cancels); node; node = next) {
		next = node->next;
		abort_begun(
			TEI_CONTAINER(node, struct tei_request, cancel_node),
			tei_batch_home(batch)->index);
	}
	sweep_others(batch);
	atomic_store_explicit(&batch->cancel_running, false,
			      memory_order_release);
}

void tei_batch_post_cancel_all(struct te_batch *batch)
{
	atomic_store(&batch->cancel_all, true);
	if (!atomic_exchange(&batch->cancel_posted, true))
		tei_worker_post(tei_batch_home(batch), &batch->cancel);
}

static void post_cancel(struct te_batch *batch)
{
	if (!atomic_exchange(&batch->cancel_posted, true))
		tei_worker_submit(tei_batch_home(batch), &batch->cancel, false);
}

int te_batch_cancel(struct te_batch *batch)
{
	if (!tei_engine_alive(batch->engine))
		return -ESTALE;
	if (all_done(batch))
		return 0;
	atomic_store(&batch->cancel_all, true);
	post_cancel(batch);
	return 0;
}

int te_request_cancel(struct te_batch *batch, uint32_t index)
{
	struct tei_request *r;
	int rc = find_submitted(batch, index, &r);

	if (rc)
		return rc;
	if (atomic_load_explicit(&r->final, memory_order_acquire))
		return 0;
	if (atomic_exchange(&r->canceled, true))
		return 0;
	tei_mpsc_push(&batch->cancels, &r->cancel_node);
	post_cancel(batch);
	return 0;
}

/*
 * Waits until no driver is about to look at the batch any more: for the end of
 * a round, with its callbacks, where another worker serves a cancellation. What
 * says so is looked at in the order in which the cancellation passes from one
 * to the next: each is set before the one before it is cleared.
 */
static void await_untouched(struct te_batch *batch)
{
	while (tei_gated_is_called(batch) ||
	       atomic_load(&batch->cancel_posted) ||
	       atomic_load(&batch->cancel_running) || is_being_swept(batch) ||
	       atomic_load_explicit(&batch->touching, memory_order_acquire)) {
		tei_worker_poke(tei_batch_home(batch));
		sched_yield();
	}
}

int te_batch_reset(struct te_batch *batch)
{
	if (!tei_engine_alive(batch->engine))
		return -ESTALE;
	if (!all_done(batch))
		return -EBUSY;
	if (tei_in_callback())
		return -EDEADLK;
	await_untouched(batch);
	tei_pieces_reset(&batch->chunks);
	/*
	 * Nothing is in flight: no other thread reads these fields before the
	 * next submission, which publishes them with release.
	 */
	atomic_store_explicit(&batch->cancel_all, false, memory_order_relaxed);
	atomic_store_explicit(&batch->n_canceled, 0, memory_order_relaxed);
	atomic_store_explicit(&batch->used, 0, memory_order_relaxed);
	batch->n_taken = 0;
	batch->n_called = 0;
	batch->n_final = 0;
	batch->well_peer = NULL;
	atomic_store_explicit(&batch->n_done, 0, memory_order_relaxed);
	atomic_store_explicit(&batch->n_submitted, 0, memory_order_release);
	clear_event(batch);
	return 0;
}

void te_batch_destroy(struct te_batch *batch)
{
	struct te_engine *engine;

	if (!batch || !tei_engine_alive(batch->engine))
		return;
	engine = batch->engine;
	if (tei_in_callback()) {
		LOG_ERROR("batch: destroyed by its callback: not done");
		return;
	}
	atomic_store_explicit(&batch->closing, true, memory_order_relaxed);
	te_batch_cancel(batch);
	while (te_batch_wait(batch, UINT32_MAX))
		;
	await_untouched(batch);
	tei_mutex_lock(&engine->mu);
	tei_list_del(&batch->link);
	tei_mutex_unlock(&engine->mu);
	tei_batch_free(batch);
}

/* ---- te_batch_on_done() ---- */

int te_batch_on_done(struct te_batch *batch, te_done_fn *fn, void *arg)
{
	uint32_t n_done;

	if (!tei_engine_alive(batch->engine))
		return -ESTALE;
	n_done = atomic_load(&batch->n_done);
	if (n_done !=
	    atomic_load_explicit(&batch->n_submitted, memory_order_relaxed))
		return -EBUSY;
	batch->fn = fn;
	batch->fn_arg = arg;
	batch->n_taken = n_done;
	batch->n_called = n_done;
	return 0;
}
