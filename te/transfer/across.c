/* SPDX-License-Identifier: Apache-2.0 */
/*
 * across.c - copies from memory of a GPU to memory of a GPU, of two processes
 *
 * A window keeps the stage, and so the context, of the region that it was
 * opened for, until the last region of that stage is removed. Copies of a burst
 * are begun in that context, also to and from memory of others: the driver
 * finds their ways.
 */
#include <assert.h>
#include <errno.h>
#include <sched.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/core/engine.h"
#include "te/device/attach.h"
#include "te/region/region.h"
#include "te/transfer/staging.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

struct tei_gpu_window {
	struct tei_list link; /* transfer.windows */
	struct te_engine *engine;
	struct tei_stage *stage;       /* held; NULL: it is closed */
	struct tei_attached *attached; /* by its name; NULL: it has none */
	uint64_t addr;                 /* of its first byte, here */
	uint64_t mapped, length;       /* of chunks; length 0: it has none */
};

struct tei_gpu_burst {
	struct te_engine *engine;
	struct tei_stage *stage; /* held while there are copies; else NULL */
	struct tei_stage_job job;
	struct tei_copy copies[TEI_STAGE_COPIES_MAX];
	void (*done)(void *arg, int err);
	void *arg;
};

static int not_reached(const struct tei_gpu_window *window, int rc,
		       const char *why)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (rc != -ENOMEM && tei_log_allowed(&limit))
		LOG_WARN("engine %s: memory of a GPU of another process is not "
			 "reached from %s:%d: %s; the host copies",
			 window->engine->name, window->stage->ops->name,
			 window->stage->gpu, why);
	return rc == -ENOMEM ? rc : -EOPNOTSUPP;
}

static int attach(struct tei_gpu_window *window, const uint8_t *name)
{
	char why[TEI_RUNTIME_WHY_LEN];
	int rc = tei_attach(window->stage, name, &window->attached,
			    &window->addr, why);

	return rc ? not_reached(window, rc, why) : 0;
}

static int reserve(struct tei_gpu_window *window, uint64_t length)
{
	const struct tei_stage *stage = window->stage;
	char why[TEI_RUNTIME_WHY_LEN];
	int rc = stage->ops->reserve(stage->copier, length, &window->addr, why);

	if (rc)
		return not_reached(window, rc, why);
	window->length = length;
	return 0;
}

/* Makes one with the stage of @local, in no list yet. */
static int make_window(struct te_engine *engine, const void *local,
		       struct tei_gpu_window **out)
{
	struct tei_gpu_window *window = tei_calloc(1, sizeof(*window));
	uint64_t one = 1;

	if (!window)
		return -ENOMEM;
	tei_list_init(&window->link);
	window->engine = engine;
	window->stage = tei_region_stage(engine, (uintptr_t)local, &one);
	if (!window->stage) {
		tei_free(window);
		return -EOPNOTSUPP;
	}
	*out = window;
	return 0;
}

/* Has the window known, if @rc is 0, or frees it. */
static int end_open(struct tei_gpu_window *window, int rc,
		    struct tei_gpu_window **out)
{
	struct te_engine *engine = window->engine;

	if (rc) {
		tei_stage_put(engine, window->stage);
		tei_free(window);
		return rc;
	}
	tei_list_add_tail(&engine->transfer->windows, &window->link);
	atomic_fetch_add(&engine->transfer->n_windows, 1);
	*out = window;
	return 0;
}

int tei_gpu_window_open(struct tei_engine_core *core, const void *local,
			const uint8_t *name, uint64_t base,
			struct tei_gpu_window **out)
{
	struct tei_gpu_window *window;
	int rc = make_window(core->engine, local, &window);

	if (rc)
		return rc;
	window->addr = base;
	return end_open(window, name ? attach(window, name) : 0, out);
}

int tei_gpu_window_reserve(struct tei_engine_core *core, const void *local,
			   uint64_t length, struct tei_gpu_window **out)
{
	struct tei_gpu_window *window;
	int rc = make_window(core->engine, local, &window);

	return rc ? rc : end_open(window, reserve(window, length), out);
}

int tei_gpu_window_add(struct tei_gpu_window *window, uint64_t length, int fd)
{
	const struct tei_stage *stage = window->stage;
	char why[TEI_RUNTIME_WHY_LEN];
	int rc;

	if (!stage)
		return -ENXIO;
	assert(length <= window->length - window->mapped);
	rc = stage->ops->attach_chunk(
		stage->copier, window->addr + window->mapped, length, fd, why);
	if (rc)
		return not_reached(window, rc, why);
	window->mapped += length;
	return 0;
}

/* Gives back what was reserved, with the chunks in it. */
static void unreserve(struct tei_gpu_window *window)
{
	window->stage->ops->unreserve(window->stage->copier, window->addr,
				      window->mapped, window->length);
	window->length = window->mapped = 0;
}

static void close_window(struct tei_gpu_window *window)
{
	if (window->attached)
		tei_detach(window->stage, window->attached);
	window->attached = NULL;
	if (window->length)
		unreserve(window);
	tei_stage_put(window->engine, window->stage);
	window->stage = NULL;
}

void tei_gpu_window_close(struct tei_gpu_window *window)
{
	close_window(window);
	tei_list_del(&window->link);
	atomic_fetch_sub(&window->engine->transfer->n_windows, 1);
	tei_free(window);
}

/* ---- the end of a stage's last region ---- */

struct leaving {
	struct tei_call call;
	struct te_engine *engine;
	struct tei_stage *stage;
	bool done, busy; /* guarded by regions.mu; busy: copies are under way */
};

static void leave(struct tei_call *call)
{
	struct leaving *l = TEI_CONTAINER(call, struct leaving, call);
	struct tei_regions *r = l->engine->regions;
	bool busy = !tei_stage_is_still(l->stage, TEI_COPY_ACROSS);

	tei_list_for_each (node, &l->engine->transfer->windows) {
		struct tei_gpu_window *window =
			tei_list_entry(node, struct tei_gpu_window, link);

		if (!busy && window->stage == l->stage)
			close_window(window);
	}
	tei_mutex_lock(&r->mu);
	l->busy = busy;
	l->done = true;
	tei_cond_broadcast(&r->unpinned);
	tei_mutex_unlock(&r->mu);
}

/* Waits until leave() has been called. */
static bool has_left(struct leaving *l)
{
	struct tei_regions *r = l->engine->regions;
	bool left;

	l->done = false;
	tei_worker_post(l->engine->worker, &l->call);
	tei_mutex_lock(&r->mu);
	while (!l->done)
		tei_worker_await(l->engine->worker, &r->unpinned, &r->mu,
				 tei_now_ns() + TEI_NS_PER_MS);
	left = !l->busy;
	tei_mutex_unlock(&r->mu);
	return left;
}

void tei_gpu_windows_leave(struct te_engine *engine, struct tei_stage *stage)
{
	struct leaving l = {.call.fn = leave, .engine = engine, .stage = stage};

	if (atomic_load(&engine->transfer->n_windows))
		while (!has_left(&l))
			(void)sched_yield();
}

/* ---- bursts ---- */

struct tei_gpu_burst *tei_gpu_burst_new(struct tei_engine_core *core)
{
	struct tei_gpu_burst *burst = tei_calloc(1, sizeof(*burst));

	if (!burst)
		return NULL;
	burst->engine = core->engine;
	burst->job.way = TEI_COPY_ACROSS;
	burst->job.copies = burst->copies;
	return burst;
}

static void forget(struct tei_gpu_burst *burst)
{
	tei_stage_put(burst->engine, burst->stage);
	burst->stage = NULL;
	burst->job.n = 0;
	burst->job.length = 0;
}

void tei_gpu_burst_free(struct tei_gpu_burst *burst)
{
	if (!burst)
		return;
	forget(burst);
	tei_free(burst);
}

int tei_gpu_burst_add(struct tei_gpu_burst *burst,
		      const struct tei_gpu_window *window, uint64_t offset,
		      void *local, uint64_t *length, bool write)
{
	uint64_t here = (uintptr_t)local, there = window->addr + offset;
	struct tei_stage *stage;

	if (!window->stage)
		return -ENXIO;
	stage = tei_region_stage(burst->engine, here, length);
	if (!stage)
		return -EFAULT;
	tei_stage_put(burst->engine, stage); /* the region keeps it */
	if (burst->job.n == TEI_STAGE_COPIES_MAX ||
	    (burst->stage && burst->stage != window->stage)) {
		*length = 0;
		return 0;
	}
	if (!burst->stage)
		burst->stage = tei_stage_hold(window->stage);
	burst->copies[burst->job.n++] =
		(struct tei_copy){.gpu = write ? there : here,
				  .from = write ? here : there,
				  .length = *length};
	burst->job.length += *length;
	return 0;
}

static void ended(struct tei_stage_job *job, int err)
{
	struct tei_gpu_burst *burst =
		TEI_CONTAINER(job, struct tei_gpu_burst, job);

	burst->engine->worker->n_copying--;
	forget(burst);
	burst->done(burst->arg, err);
}

void tei_gpu_burst_begin(struct tei_gpu_burst *burst,
			 void (*done)(void *arg, int err), void *arg)
{
	assert(burst->job.n);
	burst->done = done;
	burst->arg = arg;
	burst->job.done = ended;
	tei_staging_begin(burst->engine->worker, burst->stage, &burst->job);
}
