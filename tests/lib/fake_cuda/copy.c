/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - the fake driver's streams, events and copies
 *
 * A thread does what streams have in turn, each after a delay, so that whoever
 * does not wait for an event sees old bytes. Tests may hold it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/fake_cuda/private.h"

/* NOLINTBEGIN(readability-identifier-naming) */
#define EXPORT FAKE_CUDA_EXPORT

#define TASKS_MAX   4096
#define STREAMS_MAX 64

/* A copy, or the end of those before it. */
struct task {
	CUevent event; /* NULL: a copy */
	void *to, *from;
	uint64_t gpu[2]; /* addresses of GPUs' parts; 0: there is none */
	size_t length;
};

struct CUstream_st {
	bool there;
	CUcontext context;
	uint32_t first, n;
	struct task tasks[TASKS_MAX];
};

struct CUevent_st {
	uint32_t n_due; /* records that have not been reached */
};

static struct CUstream_st streams[STREAMS_MAX];
static int n_events;

static pthread_t thread;
static bool running, held;
static unsigned int delay_us;
static uint64_t n_copies;

static void do_task(struct CUstream_st *stream)
{
	struct task task = stream->tasks[stream->first];
	struct timespec delay = {.tv_sec = delay_us / 1000000,
				 .tv_nsec = delay_us % 1000000 * 1000L};

	(void)fake_cuda_leave(0);
	if (!task.event && (delay.tv_sec || delay.tv_nsec))
		(void)nanosleep(&delay, NULL);
	if (!task.event)
		memcpy(task.to, task.from, task.length);
	fake_cuda_lock();
	if (task.event)
		task.event->n_due--;
	else
		n_copies++;
	stream->first = (stream->first + 1) % TASKS_MAX;
	stream->n--;
	fake_cuda_changed();
}

static struct CUstream_st *busy_stream(void)
{
	static uint32_t turn;

	for (uint32_t i = 0; i < STREAMS_MAX; i++) {
		struct CUstream_st *stream = &streams[turn++ % STREAMS_MAX];

		if (stream->there && stream->n)
			return stream;
	}
	return NULL;
}

static void *work(void *arg)
{
	(void)arg;
	fake_cuda_lock();
	for (;;) {
		struct CUstream_st *stream = held ? NULL : busy_stream();

		if (stream)
			do_task(stream);
		else
			fake_cuda_await_change();
	}
	return NULL;
}

static int add_task(CUstream stream, const struct task *task)
{
	fake_cuda_need(stream->there && stream->n < TASKS_MAX);
	stream->tasks[(stream->first + stream->n) % TASKS_MAX] = *task;
	stream->n++;
	fake_cuda_changed();
	return 0;
}

/* ---- streams ---- */

EXPORT int cuStreamCreate(CUstream *out, unsigned int flags)
{
	int error = fake_cuda_enter("cuStreamCreate");
	struct CUstream_st *stream = NULL;

	if (error)
		return error;
	if (!fake_cuda_context() || flags != CU_STREAM_NON_BLOCKING)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	for (int i = 0; i < STREAMS_MAX && !stream; i++)
		if (!streams[i].there)
			stream = &streams[i];
	fake_cuda_need(stream);
	stream->there = true;
	stream->context = fake_cuda_context();
	stream->first = stream->n = 0;
	if (!running)
		fake_cuda_need(!pthread_create(&thread, NULL, work, NULL));
	running = true;
	*out = stream;
	return fake_cuda_leave(0);
}

EXPORT int cuStreamSynchronize(CUstream stream)
{
	int error = fake_cuda_enter("cuStreamSynchronize");

	if (error)
		return error;
	while (stream && stream->n)
		fake_cuda_await_change();
	return fake_cuda_leave(0);
}

EXPORT int cuStreamDestroy_v2(CUstream stream)
{
	int error = fake_cuda_enter("cuStreamDestroy");

	if (error)
		return error;
	fake_cuda_need(stream->there && !stream->n);
	stream->there = false;
	return fake_cuda_leave(0);
}

/* ---- events ---- */

EXPORT int cuEventCreate(CUevent *out, unsigned int flags)
{
	int error = fake_cuda_enter("cuEventCreate");

	if (error)
		return error;
	if (!fake_cuda_context() || flags != CU_EVENT_DISABLE_TIMING)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	*out = calloc(1, sizeof(**out));
	fake_cuda_need(*out);
	n_events++;
	return fake_cuda_leave(0);
}

EXPORT int cuEventDestroy_v2(CUevent event)
{
	int error = fake_cuda_enter("cuEventDestroy");

	if (error)
		return error;
	fake_cuda_need(!event->n_due);
	free(event);
	n_events--;
	return fake_cuda_leave(0);
}

EXPORT int cuEventRecord(CUevent event, CUstream stream)
{
	int error = fake_cuda_enter("cuEventRecord");
	struct task task = {.event = event};

	if (error)
		return error;
	if (fake_cuda_context() != stream->context)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	event->n_due++;
	return fake_cuda_leave(add_task(stream, &task));
}

EXPORT int cuEventQuery(CUevent event)
{
	int error = fake_cuda_enter("cuEventQuery");

	if (error)
		return error;
	return fake_cuda_leave(event->n_due ? CUDA_ERROR_NOT_READY : 0);
}

/* ---- copies ---- */

/* @out: from the GPU. */
static int copy(const char *function, CUdeviceptr at, void *host, size_t length,
		CUstream stream, bool out)
{
	int error = fake_cuda_enter(function);
	struct task task = {.gpu = {at}, .length = length};
	void *bytes;

	if (error)
		return error;
	bytes = fake_cuda_whole(at, length);
	if (!bytes || !length)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (fake_cuda_context() != stream->context)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	task.to = out ? host : bytes;
	task.from = out ? bytes : host;
	return fake_cuda_leave(add_task(stream, &task));
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t length,
				CUstream stream)
{
	return copy("cuMemcpyDtoHAsync", from, to, length, stream, true);
}

EXPORT int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t length,
				CUstream stream)
{
	return copy("cuMemcpyHtoDAsync", to, (void *)(uintptr_t)from, length,
		    stream, false);
}

EXPORT int cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t length,
			 CUstream stream)
{
	int error = fake_cuda_enter("cuMemcpyAsync");
	struct task task = {.gpu = {to, from}, .length = length};

	if (error)
		return error;
	task.to = fake_cuda_whole(to, length);
	task.from = fake_cuda_whole(from, length);
	if (!task.to || !task.from || !length)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (fake_cuda_context() != stream->context)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	return fake_cuda_leave(add_task(stream, &task));
}

/* ---- what tests ask ---- */

static bool touches(const struct task *task, uint64_t at, uint64_t length)
{
	return !task->event &&
	       (task->gpu[0] - at < length || task->gpu[1] - at < length);
}

void fake_cuda_need_quiet(uint64_t at, uint64_t length)
{
	for (int i = 0; i < STREAMS_MAX; i++) {
		const struct CUstream_st *stream = &streams[i];

		for (uint32_t k = 0; stream->there && k < stream->n; k++) {
			const struct task *task =
				&stream->tasks[(stream->first + k) % TASKS_MAX];

			fake_cuda_need(!touches(task, at, length));
		}
	}
}

void fake_cuda_copies_reset(void)
{
	fake_cuda_need(!n_events);
	for (int i = 0; i < STREAMS_MAX; i++)
		fake_cuda_need(!streams[i].there);
	held = false;
	delay_us = 0;
	n_copies = 0;
}

EXPORT void fake_cuda_delay(unsigned int us)
{
	fake_cuda_lock();
	delay_us = us;
	(void)fake_cuda_leave(0);
}

EXPORT void fake_cuda_hold(bool hold)
{
	fake_cuda_lock();
	held = hold;
	fake_cuda_changed();
	(void)fake_cuda_leave(0);
}

EXPORT uint64_t fake_cuda_n_copies(void)
{
	uint64_t n;

	fake_cuda_lock();
	n = n_copies;
	(void)fake_cuda_leave(0);
	return n;
}
/* NOLINTEND(readability-identifier-naming) */
