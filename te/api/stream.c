/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - requests in the order of a GPU's stream */
#include "te/api/stream.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/api/api.h"
#include "te/core/engine.h"
#include "te/device/device.h"
#include "te/transfer/peer.h"
#include "te/worker/worker.h"

#define LATE_NS (5000 * TEI_NS_PER_MS) /* after the last deadline */

static struct tei_worker *worker_of(const struct tei_gated *gated)
{
	return tei_batch_home(gated->batch);
}

static struct tei_gated *gated_of(struct te_batch *batch)
{
	return atomic_load_explicit(&batch->gated, memory_order_acquire);
}

/* ---- the end ---- */

static void open_gate(struct tei_gated *gated)
{
	struct tei_gpu_gate *gate = atomic_load(&gated->gate);

	if (!gate)
		return;
	/* First: when the gate is gone the batch may be submitted again. */
	gated->ops->gate_open(gate);
	atomic_store(&gated->gate, NULL);
}

/* Logs the first request that has failed. */
static void log_failure(const struct te_batch *batch)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	for (uint32_t i = 0; i < batch->n_final; i++) {
		const struct tei_request *r = &batch->requests[batch->order[i]];

		if (!r->error || r->error == -ECANCELED)
			continue;
		if (tei_log_allowed(&limit))
			LOG_WARN("engine %s: a stream goes on though request "
				 "%u of %u to %s has failed: %s",
				 batch->engine->name, r->index, batch->n_final,
				 r->peer->name, te_strerror(r->error));
		return;
	}
}

void tei_gated_end(struct te_batch *batch)
{
	struct tei_gated *gated = gated_of(batch);

	if (!gated || !atomic_load(&gated->gate))
		return;
	if (gated->counted)
		tei_due_clear(worker_of(gated), &gated->late);
	gated->counted = false;
	log_failure(batch);
	open_gate(gated);
}

void tei_gated_free(struct te_batch *batch)
{
	tei_free(gated_of(batch));
}

/* ---- the begin ---- */

static void too_late(struct tei_due *due)
{
	struct tei_gated *gated = TEI_CONTAINER(due, struct tei_gated, late);

	gated->counted = false;
	LOG_ERROR(
		"engine %s: a stream goes on though a device has not confirmed "
		"the end of a transfer, which is over: it may still touch "
		"the memory",
		gated->batch->engine->name);
	open_gate(gated);
}

/*
 * Has the gate opened at @at (ns) at the latest, whatever the requests do. 0,
 * -ENOMEM.
 */
static int set_limit(struct tei_gated *gated, uint64_t at)
{
	int rc;

	if (gated->counted && gated->limit <= at)
		return 0;
	gated->limit = at;
	gated->late.fn = too_late;
	rc = tei_due_set(worker_of(gated), &gated->late, at);
	gated->counted = !rc;
	return rc;
}

/* Has requests end as they begin: there is no memory for the limit. */
static void refuse_for_memory(struct tei_request *first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		first[i].error = -EIO;
		first[i].provider_code = ENOMEM;
	}
}

/* Begins the requests, with deadlines that count from now. */
static void begin(struct tei_gated *gated)
{
	struct te_batch *batch = gated->batch;
	struct tei_request *first = &batch->requests[gated->first];
	uint64_t now = worker_of(gated)->now, last = 0;
	uint64_t held = now > gated->since ? now - gated->since : 0;
	uint32_t i, n = first->n_following + 1;

	gated->held = false;
	for (i = 0; i < n; i++) {
		first[i].deadline += held;
		if (first[i].deadline > last)
			last = first[i].deadline;
	}
	/* First: from then on they may be at other workers. */
	if (set_limit(gated, last + LATE_NS))
		refuse_for_memory(first, n);
	tei_request_submitted(&first->call);
}

/* The stream has got there: in the round that serves its call. Token. */
static void serve(struct tei_call *call)
{
	struct tei_gated *gated = TEI_CONTAINER(call, struct tei_gated, call);

	if (gated->held)
		begin(gated);
	/* The batch may be freed from now on. */
	atomic_store_explicit(&gated->posted, false, memory_order_release);
}

/* The stream has got there: on a thread of the driver. */
static void reached(void *arg)
{
	struct tei_gated *gated = arg;

	atomic_store(&gated->posted, true);
	tei_worker_post(worker_of(gated), &gated->call);
}

void tei_gated_cancel(struct te_batch *batch)
{
	struct tei_gated *gated = gated_of(batch);
	struct tei_request *first;

	if (!tei_is_gated(batch))
		return;
	if (!gated->held) {
		/* No memory: the limit of the begin holds. */
		(void)set_limit(gated, worker_of(gated)->now + LATE_NS);
		return;
	}
	first = &batch->requests[gated->first];
	for (uint32_t i = 0; i <= first->n_following; i++)
		atomic_store(&first[i].canceled, true);
	begin(gated);
}

/* ---- submitting ---- */

/* Waits for the call of a stream whose requests were cancelled before it. */
static void await_call(struct te_batch *batch)
{
	while (tei_gated_is_called(batch)) {
		tei_worker_poke(tei_batch_home(batch));
		sched_yield();
	}
}

static int prepare(struct te_batch *batch)
{
	struct tei_gated *gated = gated_of(batch);

	await_call(batch);
	if (gated)
		return 0;
	gated = tei_calloc(1, sizeof(*gated));
	if (!gated)
		return -ENOMEM;
	gated->batch = batch;
	gated->call.fn = serve;
	atomic_store_explicit(&batch->gated, gated, memory_order_release);
	return 0;
}

/* Puts the gate before what tei_batch_take() has taken, and submits that. */
static int submit_gated(struct te_batch *batch, const struct te_request *reqs,
			size_t n, const struct tei_gpu_named *gpu,
			uint64_t stream, char *why)
{
	struct tei_gated *gated = gated_of(batch);
	struct tei_gate_place place = {
		.stream = stream, .reached = reached, .arg = gated};
	struct tei_gpu_gate *gate;
	uint32_t first;
	int rc;

	gated->since = tei_now_ns();
	rc = tei_batch_take(batch, reqs, n, &first);
	if (rc)
		return rc;
	place.addr = (uintptr_t)reqs[0].pieces[0].iov_base;
	rc = gpu->ops->gate_put(gpu->runtime, &place, &gate, why);
	if (rc)
		return rc;
	gated->ops = gpu->ops;
	gated->first = first;
	gated->held = true;
	atomic_store(&gated->gate, gate);
	atomic_store_explicit(&batch->n_submitted, first + (uint32_t)n,
			      memory_order_release);
	gpu->ops->gate_arm(gate);
	return 0;
}

static int refuse(char *why, int rc, const char *text)
{
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "%s",
		       text ? text : te_strerror(rc));
	return rc;
}

/* Checks what needs no driver. 0, -errno; @why. */
static int check_batch(struct te_batch *batch, const struct te_request *reqs,
		       size_t n, char *why)
{
	if (!reqs || !n)
		return refuse(why, -EINVAL, "reqs, n: there is no request");
	if (tei_in_callback())
		return refuse(why, -EDEADLK, NULL);
	if (!batch->engine->config.worker_thread || tei_clock_simulated())
		return refuse(why, -EOPNOTSUPP,
			      "the setting worker_thread is off: who waits for "
			      "a stream cannot drive");
	if (atomic_load(&batch->n_done) != atomic_load(&batch->n_submitted))
		return refuse(why, -EBUSY,
			      "batch: requests of it are in flight");
	return 0;
}

static int submit_on_stream(struct te_batch *batch,
			    const struct te_request *reqs, size_t n,
			    const char *kind, uint64_t stream, char *why)
{
	struct tei_gpu_named gpu;
	int rc = check_batch(batch, reqs, n, why);

	if (!rc)
		rc = tei_runtime_find(batch->engine, kind, &gpu, why);
	if (rc)
		return rc;
	rc = prepare(batch);
	if (rc)
		return refuse(why, rc, NULL);
	*why = '\0';
	rc = submit_gated(batch, reqs, n, &gpu, stream, why);
	return rc && !*why ? refuse(why, rc, NULL) : rc;
}

int te_batch_submit_on_stream(struct te_batch *batch,
			      const struct te_request *reqs, size_t n,
			      const char *kind, uint64_t stream, char *why,
			      size_t why_len)
{
	char text[TEI_RUNTIME_WHY_LEN];
	int rc;

	if (!tei_engine_alive(batch->engine))
		rc = refuse(text, -ESTALE, NULL);
	else
		rc = submit_on_stream(batch, reqs, n, kind, stream, text);
	if (rc && why && why_len)
		(void)snprintf(why, why_len, "%s", text);
	return rc;
}

int te_gpu_probe(const struct te_config *config, const char *kind, char *why,
		 size_t why_len)
{
	char text[TEI_RUNTIME_WHY_LEN] = "";
	struct tei_config settings;
	int rc = tei_config_make(config, NULL, &settings);

	if (!rc) {
		rc = tei_runtime_probe(&settings, kind, text);
		tei_config_fini(&settings);
	}
	if (rc && why && why_len)
		(void)snprintf(why, why_len, "%s",
			       *text ? text : te_strerror(rc));
	return rc;
}
