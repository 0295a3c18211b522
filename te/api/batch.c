/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - making, waiting for and taking the results of batches */
#include "te/api/batch.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/api/engine.h"
#include "te/transfer/pieces.h"

#define CAPACITY_MAX 65536u

static void cancel_came(struct tei_call *call);

static struct te_batch *make(struct te_engine *engine, uint32_t capacity)
{
	struct te_batch *batch = tei_calloc(1, sizeof(*batch));

	if (!batch)
		return NULL;
	batch->requests = tei_calloc(capacity, sizeof(*batch->requests));
	batch->cohorts = tei_calloc(capacity, sizeof(*batch->cohorts));
	batch->merged = tei_calloc(capacity, sizeof(*batch->merged));
	batch->order = tei_calloc(capacity, sizeof(*batch->order));
	if (!batch->requests || !batch->cohorts || !batch->merged ||
	    !batch->order) {
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
	batch = make(engine, capacity);
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
	tei_pieces_free(&batch->chunks);
	tei_sleeper_fini(&batch->sleeper);
	tei_free(batch->order);
	tei_free(batch->merged);
	tei_free(batch->cohorts);
	tei_free(batch->requests);
	tei_free(batch);
}

/* ---- the driver's side ---- */

void tei_batch_ended(struct te_batch *batch, struct tei_request *r)
{
	batch->order[batch->n_final++] = r->index;
	if (tei_list_empty(&batch->dirty))
		tei_list_add_tail(&batch->engine->worker.dirty, &batch->dirty);
}

static void ring(int event)
{
	uint64_t one = 1;
	ssize_t n = write(event, &one, sizeof(one));

	(void)n; /* full: it is readable */
}

/* After n_done is stored the batch may be freed but for `touching`. */
static void publish(struct te_batch *batch)
{
	bool polled = !batch->fn;
	int event;

	atomic_store_explicit(&batch->touching, true, memory_order_relaxed);
	if (!polled)
		tei_batch_call_back(batch);
	atomic_store(&batch->n_done, batch->n_final);
	if (batch->n_final ==
	    atomic_load_explicit(&batch->n_submitted, memory_order_relaxed))
		tei_sleeper_rouse(&batch->engine->worker, &batch->sleeper);
	event = atomic_load(&batch->event);
	if (event >= 0 && polled)
		ring(event);
	atomic_store_explicit(&batch->touching, false, memory_order_release);
}

bool tei_batch_publish_dirty(struct tei_worker *w, bool with_callbacks)
{
	bool any = false;

	tei_list_for_each_safe (node, tmp, &w->dirty) {
		struct te_batch *batch =
			tei_list_entry(node, struct te_batch, dirty);

		if (batch->fn && !with_callbacks)
			continue;
		tei_list_del(node);
		publish(batch);
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

	return n_done ==
	       atomic_load_explicit(&batch->n_submitted, memory_order_relaxed);
}

int te_batch_wait(struct te_batch *batch, uint32_t timeout_ms)
{
	struct te_engine *engine = batch->engine;
	uint64_t until = UINT64_MAX;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (all_done(batch))
		return 0;
	if (tei_in_callback())
		return -EDEADLK;
	if (!timeout_ms) {
		tei_worker_poke(&engine->worker);
		return all_done(batch) ? 0 : -ETIMEDOUT;
	}
	if (timeout_ms != UINT32_MAX)
		until = tei_now_ns() + timeout_ms * TEI_NS_PER_MS;
	atomic_store_explicit(&batch->waited, true, memory_order_relaxed);
	while (!tei_worker_drive(&engine->worker, all_done, batch, until) &&
	       tei_sleeper_sleep(&engine->worker, &batch->sleeper, all_done,
				 batch, until))
		;
	return all_done(batch) ? 0 : -ETIMEDOUT;
}

void tei_batch_completion(struct tei_request *r, struct te_completion *out)
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

/* The event stays readable as long as something is left to take. */
static void calm_event(struct te_batch *batch)
{
	int event = atomic_load(&batch->event);
	uint64_t count;
	ssize_t n;

	if (event < 0)
		return;
	n = read(event, &count, sizeof(count));
	(void)n;
	if (atomic_load(&batch->n_done) != batch->n_taken)
		ring(event);
}

static int take(struct te_batch *batch, struct te_completion *out, int max)
{
	uint32_t n_done = atomic_load(&batch->n_done);
	int n = 0;

	if (batch->fn)
		return 0;
	while (n < max && batch->n_taken < n_done)
		tei_batch_completion(
			&batch->requests[batch->order[batch->n_taken++]],
			&out[n++]);
	if (n)
		calm_event(batch);
	return n;
}

int te_batch_poll(struct te_batch *batch, struct te_completion *out, int max)
{
	int n;

	if (!tei_engine_alive(batch->engine) || max <= 0)
		return 0;
	n = take(batch, out, max);
	if (n || all_done(batch))
		return n;
	tei_worker_poke(&batch->engine->worker);
	return take(batch, out, max);
}

int te_batch_result(struct te_batch *batch, uint32_t index,
		    struct te_completion *out)
{
	struct tei_request *r;

	if (!tei_engine_alive(batch->engine))
		return -ESTALE;
	if (index >=
	    atomic_load_explicit(&batch->n_submitted, memory_order_acquire))
		return -EINVAL;
	r = &batch->requests[index];
	if (!atomic_load_explicit(&r->final, memory_order_acquire))
		return -EAGAIN;
	tei_batch_completion(r, out);
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
		ring(event);
	return event;
}

/* ---- cancelling, reset, the end ---- */

/* One that has not begun yet looks at `canceled` when it does. */
static void abort_begun(struct tei_request *r)
{
	if (r->begun)
		tei_request_abort(r, -ECANCELED);
}

static void abort_all(struct te_batch *batch)
{
	uint32_t i, n = atomic_load_explicit(&batch->n_submitted,
					     memory_order_acquire);

	for (i = 0; i < n; i++)
		abort_begun(&batch->requests[i]);
}

/* Requests submitted before the cancellation have begun by now. Token. */
static void cancel_came(struct tei_call *call)
{
	struct te_batch *batch = TEI_CONTAINER(call, struct te_batch, cancel);
	struct tei_mpsc_node *node, *next;

	/* Whoever cancels from now on posts again. */
	atomic_store(&batch->cancel_running, true);
	atomic_store(&batch->cancel_posted, false);
	if (atomic_exchange(&batch->cancel_all, false))
		abort_all(batch);
	for (node = tei_mpsc_take_all(&batch->cancels); node; node = next) {
		next = node->next;
		abort_begun(
			TEI_CONTAINER(node, struct tei_request, cancel_node));
	}
	atomic_store_explicit(&batch->cancel_running, false,
			      memory_order_release);
}

void tei_batch_post_cancel_all(struct te_batch *batch)
{
	atomic_store(&batch->cancel_all, true);
	if (!atomic_exchange(&batch->cancel_posted, true))
		tei_worker_post(&batch->engine->worker, &batch->cancel);
}

static void post_cancel(struct te_batch *batch)
{
	if (!atomic_exchange(&batch->cancel_posted, true))
		tei_worker_submit(&batch->engine->worker, &batch->cancel,
				  false);
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

	if (!tei_engine_alive(batch->engine))
		return -ESTALE;
	if (index >=
	    atomic_load_explicit(&batch->n_submitted, memory_order_acquire))
		return -EINVAL;
	r = &batch->requests[index];
	if (atomic_load_explicit(&r->final, memory_order_acquire))
		return 0;
	if (atomic_exchange(&r->canceled, true))
		return 0;
	tei_mpsc_push(&batch->cancels, &r->cancel_node);
	post_cancel(batch);
	return 0;
}

/* A few instructions of the driver, or a cancellation just being served. */
static void await_untouched(struct te_batch *batch)
{
	while (atomic_load(&batch->cancel_posted) ||
	       atomic_load_explicit(&batch->cancel_running,
				    memory_order_acquire) ||
	       atomic_load_explicit(&batch->touching, memory_order_acquire)) {
		tei_worker_poke(&batch->engine->worker);
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
	atomic_store(&batch->cancel_all, false);
	batch->n_taken = 0;
	batch->n_called = 0;
	batch->n_final = 0;
	batch->well_peer = NULL;
	atomic_store(&batch->n_done, 0);
	atomic_store_explicit(&batch->n_submitted, 0, memory_order_release);
	calm_event(batch);
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
