/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - the fake driver's streams, events, copies and memory operations
 *
 * A thread does what streams have in turn, each copy after a delay, so that
 * whoever does not wait for an event sees old bytes. Tests may hold copies. A stream
 * that waits for a word stands still until it is there; others go on.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/fake_cuda/private.h"

/* NOLINTBEGIN(readability-identifier-naming) */
#define EXPORT FAKE_CUDA_EXPORT

#define TASKS_MAX   4096
#define STREAMS_MAX 64

#define WAIT_STEP_US 50 /* between two looks at a word */

enum what {
	COPY,
	EVENT, /* the end of copies before it */
	FUNCTION,
	WAIT,
	WRITE,
};

struct task {
	enum what what;
	CUevent event;
	void *to, *from;
	/* Addresses of GPUs' parts, or of the word; 0: there is none. */
	uint64_t gpu[2];
	size_t length;
	void (*fn)(void *arg);
	void *arg;
	uint64_t value;
};

struct CUstream_st {
	bool there;
	int capture; /* CU_STREAM_CAPTURE_STATUS_* */
	CUcontext context;
	uint32_t first, n;
	struct task tasks[TASKS_MAX];
};

struct CUevent_st {
	uint32_t n_due;    /* records that have not been reached */
	CUcontext context; /* that it was made in */
	CUevent next;      /* of events */
};

static struct CUstream_st streams[STREAMS_MAX];
static struct CUstream_st defaults[FAKE_CUDA_GPUS];
static _Thread_local bool in_function; /* of the host, called by a stream */
static CUevent events;                 /* all that there are */

static pthread_t thread;
static bool running, held;
static unsigned int delay_us;
static uint64_t n_copies;
static int n_batches;
static uint64_t n_questions;

static _Atomic uint64_t *word_of(const struct task *task)
{
	return (_Atomic uint64_t *)(uintptr_t)task->gpu[0];
}

/* Without the lock. @us: before a copy. */
static void perform(const struct task *task, unsigned int us)
{
	struct timespec delay = {.tv_sec = us / 1000000,
				 .tv_nsec = us % 1000000 * 1000L};

	if (task->what == COPY) {
		if (delay.tv_sec || delay.tv_nsec)
			(void)nanosleep(&delay, NULL);
		memcpy(task->to, task->from, task->length);
	} else if (task->what == FUNCTION) {
		in_function = true;
		task->fn(task->arg);
		in_function = false;
	} else if (task->what == WRITE) {
		atomic_store(word_of(task), task->value);
	}
}

static void do_task(struct CUstream_st *stream)
{
	struct task task = stream->tasks[stream->first];
	unsigned int us = delay_us;

	if (!stream->context->broken) {
		(void)fake_cuda_leave(0);
		perform(&task, us);
		fake_cuda_lock();
	}
	if (task.what == EVENT)
		task.event->n_due--;
	else if (task.what == COPY)
		n_copies++;
	stream->first = (stream->first + 1) % TASKS_MAX;
	stream->n--;
	fake_cuda_changed();
}

bool fake_cuda_in_function(void)
{
	return in_function;
}

/* Tells whether the stream's first task can be done; *@waits: for a word. */
static bool is_ready(const struct CUstream_st *stream, bool *waits)
{
	const struct task *task = &stream->tasks[stream->first];

	if (!stream->there || !stream->n || fake_cuda_has_ended())
		return false;
	if (stream->context->broken)
		return true;
	if (held && task->what == COPY)
		return false;
	if (task->what != WAIT ||
	    (int64_t)(atomic_load(word_of(task)) - task->value) >= 0)
		return true;
	*waits = true;
	return false;
}

static struct CUstream_st *busy_stream(bool *waits)
{
	static uint32_t turn;

	*waits = false;
	for (uint32_t i = 0; i < STREAMS_MAX + FAKE_CUDA_GPUS; i++) {
		uint32_t at = turn++ % (STREAMS_MAX + FAKE_CUDA_GPUS);
		struct CUstream_st *stream =
			at < STREAMS_MAX ? &streams[at]
					 : &defaults[at - STREAMS_MAX];

		if (is_ready(stream, waits))
			return stream;
	}
	return NULL;
}

static void *work(void *arg)
{
	(void)arg;
	fake_cuda_lock();
	for (;;) {
		bool waits;
		struct CUstream_st *stream = busy_stream(&waits);

		if (stream)
			do_task(stream);
		else if (waits) /* who sets a word tells nobody */
			fake_cuda_rest(WAIT_STEP_US);
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

static void run(void)
{
	if (!running)
		fake_cuda_need(!pthread_create(&thread, NULL, work, NULL));
	running = true;
}

/*
 * The stream that a caller means. Numbers to 2 are the default one of the
 * current context. NULL: there is none.
 */
static CUstream named(CUstream stream)
{
	CUcontext context = fake_cuda_context();

	if ((uintptr_t)stream > CU_STREAM_PER_THREAD) {
		for (int i = 0; i < STREAMS_MAX; i++)
			if (stream == &streams[i] && stream->there)
				return stream;
		return NULL;
	}
	if (!context)
		return NULL;
	stream = &defaults[context->device];
	stream->there = true;
	stream->context = context;
	run();
	return stream;
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
	stream->capture = 0;
	stream->context = fake_cuda_context();
	stream->first = stream->n = 0;
	run();
	*out = stream;
	return fake_cuda_leave(0);
}

EXPORT int cuStreamSynchronize(CUstream stream)
{
	int error = fake_cuda_enter("cuStreamSynchronize");

	if (error)
		return error;
	stream = named(stream);
	if (!stream)
		return fake_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	while (stream->n && !fake_cuda_has_ended())
		fake_cuda_await_change();
	return fake_cuda_leave(stream->n ? CUDA_ERROR_DEINITIALIZED : 0);
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
	(*out)->context = fake_cuda_context();
	(*out)->next = events;
	events = *out;
	return fake_cuda_leave(0);
}

static void free_event(CUevent event)
{
	CUevent *at = &events;

	fake_cuda_need(!event->n_due);
	while (*at != event)
		at = &(*at)->next;
	*at = event->next;
	free(event);
}

EXPORT int cuEventDestroy_v2(CUevent event)
{
	int error = fake_cuda_enter("cuEventDestroy");

	if (error)
		return error;
	free_event(event);
	return fake_cuda_leave(0);
}

EXPORT int cuEventRecord(CUevent event, CUstream stream)
{
	int error = fake_cuda_enter("cuEventRecord");
	struct task task = {.what = EVENT, .event = event};

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
	n_questions++;
	return fake_cuda_leave(event->n_due ? CUDA_ERROR_NOT_READY : 0);
}

/* ---- functions of the host, and words ---- */

EXPORT int cuStreamGetCtx(CUstream stream, CUcontext *out)
{
	int error = fake_cuda_enter("cuStreamGetCtx");

	if (error)
		return error;
	stream = named(stream);
	if (!stream)
		return fake_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	*out = stream->context;
	return fake_cuda_leave(0);
}

EXPORT int cuStreamIsCapturing(CUstream stream, int *status)
{
	int error = fake_cuda_enter("cuStreamIsCapturing");

	if (error)
		return error;
	stream = named(stream);
	if (!stream)
		return fake_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	*status = stream->capture;
	return fake_cuda_leave(0);
}

/* What is common to tasks without a copy, in the stream's context. */
static int put(const char *function, CUstream stream, const struct task *task)
{
	int error = fake_cuda_enter(function);

	if (error)
		return error;
	stream = named(stream);
	if (!stream)
		return fake_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	if (fake_cuda_context() != stream->context)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	if ((task->what == WAIT || task->what == WRITE) &&
	    (task->gpu[0] % 8 || !fake_cuda_is_pinned(task->gpu[0])))
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	return fake_cuda_leave(add_task(stream, task));
}

EXPORT int cuLaunchHostFunc(CUstream stream, void (*fn)(void *arg), void *arg)
{
	struct task task = {.what = FUNCTION, .fn = fn, .arg = arg};

	return put("cuLaunchHostFunc", stream, &task);
}

EXPORT int cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr at,
				  uint64_t value, unsigned int flags)
{
	struct task task = {.what = WAIT, .gpu = {at}, .value = value};

	if (flags & ~CU_STREAM_WAIT_VALUE_FLUSH)
		return CUDA_ERROR_INVALID_VALUE;
	return put("cuStreamWaitValue64", stream, &task);
}

EXPORT int cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr at,
				   uint64_t value, unsigned int flags)
{
	struct task task = {.what = WRITE, .gpu = {at}, .value = value};

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	return put("cuStreamWriteValue64", stream, &task);
}

EXPORT void fake_cuda_capture(CUstream stream, bool on)
{
	fake_cuda_lock();
	stream->capture = on;
	(void)fake_cuda_leave(0);
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
	stream = named(stream);
	if (!stream)
		return fake_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
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
	stream = named(stream);
	if (!stream)
		return fake_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	if (fake_cuda_context() != stream->context)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	return fake_cuda_leave(add_task(stream, &task));
}

/* Makes one copy of a batch a task, or returns why a call for it would fail. */
static int look_at(struct task *task, CUdeviceptr to, CUdeviceptr from,
		   size_t length)
{
	void *gpu_to = fake_cuda_whole(to, length);
	void *gpu_from = fake_cuda_whole(from, length);
	const char *alone = !gpu_to     ? "cuMemcpyDtoHAsync"
			    : !gpu_from ? "cuMemcpyHtoDAsync"
					: "cuMemcpyAsync";

	if (!length || (!gpu_to && !gpu_from))
		return CUDA_ERROR_INVALID_VALUE;
	*task = (struct task){
		.gpu = {to, from},
		.to = gpu_to ? gpu_to : (void *)(uintptr_t)to,
		.from = gpu_from ? gpu_from : (void *)(uintptr_t)from,
		.length = length,
	};
	return fake_cuda_fault_of(alone);
}

/* As the driver has it. NOLINTNEXTLINE(readability-function-size) */
EXPORT int cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from,
			      size_t *lengths, size_t n,
			      struct cuda_batch_attributes *attributes,
			      size_t *first, size_t n_attributes,
			      size_t *failed, CUstream stream)
{
	int error = fake_cuda_enter("cuMemcpyBatchAsync");

	if (error)
		return error;
	*failed = SIZE_MAX;
	if (!n || n_attributes != 1 || first[0] ||
	    attributes[0].order != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
	    attributes[0].flags || (uintptr_t)stream <= CU_STREAM_LEGACY)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	stream = named(stream);
	if (!stream)
		return fake_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	if (fake_cuda_context() != stream->context)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	/* The last first: nobody may rely on an order. */
	for (size_t i = n; i--;) {
		struct task task;

		*failed = i;
		error = look_at(&task, to[i], from[i], lengths[i]);
		if (error)
			return fake_cuda_leave(error);
		(void)add_task(stream, &task);
	}
	n_batches++;
	return fake_cuda_leave(0);
}

/* ---- what tests ask ---- */

static bool touches(const struct task *task, uint64_t at, uint64_t length)
{
	return task->what != EVENT && task->what != FUNCTION &&
	       (task->gpu[0] - at < length || task->gpu[1] - at < length);
}

static void need_quiet(const struct CUstream_st *stream, uint64_t at,
		       uint64_t length)
{
	for (uint32_t k = 0; stream->there && k < stream->n; k++) {
		const struct task *task =
			&stream->tasks[(stream->first + k) % TASKS_MAX];

		fake_cuda_need(!touches(task, at, length));
	}
}

void fake_cuda_need_quiet(uint64_t at, uint64_t length)
{
	for (int i = 0; i < STREAMS_MAX; i++)
		need_quiet(&streams[i], at, length);
	for (int i = 0; i < FAKE_CUDA_GPUS; i++)
		need_quiet(&defaults[i], at, length);
}

void fake_cuda_copies_drop(CUcontext context)
{
	CUevent event, next;

	for (int i = 0; i < STREAMS_MAX; i++) {
		if (!streams[i].there || streams[i].context != context)
			continue;
		while (streams[i].n)
			fake_cuda_await_change();
		streams[i].there = false;
	}
	for (event = events; event; event = next) {
		next = event->next;
		if (event->context == context)
			free_event(event);
	}
}

void fake_cuda_copies_reset(void)
{
	fake_cuda_need(!events);
	for (int i = 0; i < STREAMS_MAX; i++)
		fake_cuda_need(!streams[i].there);
	for (int i = 0; i < FAKE_CUDA_GPUS; i++)
		fake_cuda_need(!defaults[i].n);
	held = false;
	delay_us = 0;
	n_copies = 0;
	n_batches = 0;
	n_questions = 0;
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

EXPORT uint64_t fake_cuda_n_questions(void)
{
	uint64_t n;

	fake_cuda_lock();
	n = n_questions;
	(void)fake_cuda_leave(0);
	return n;
}

EXPORT int fake_cuda_n_batches(void)
{
	int n;

	fake_cuda_lock();
	n = n_batches;
	(void)fake_cuda_leave(0);
	return n;
}
/* NOLINTEND(readability-identifier-naming) */
