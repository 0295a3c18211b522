/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_copy.c - copies between the host and NVIDIA's GPUs */
#include "te/device/cuda.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/mem.h"

static bool is_recording(int error)
{
	return error >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
	       error <= CUDA_ERROR_CAPTURED_EVENT;
}

/* Makes the streams and marks of all ways. 0 or an error. */
static int make_ways(struct tei_gpu_copier *copier)
{
	const struct cuda_functions *call = &copier->cuda->call;
	int error = 0;

	for (int way = 0; way < TEI_COPY_WAYS && !error; way++) {
		error = call->stream_create(&copier->streams[way],
					    CU_STREAM_NON_BLOCKING);
		for (unsigned int i = 0; i < TEI_COPY_MARKS && !error; i++)
			error = call->event_create(&copier->marks[way][i],
						   CU_EVENT_DISABLE_TIMING);
	}
	return error;
}

/* Frees what make_ways() has made. A driver that fails has freed it itself. */
static void free_ways(struct tei_gpu_copier *copier)
{
	const struct cuda_functions *call = &copier->cuda->call;

	for (int way = 0; way < TEI_COPY_WAYS; way++) {
		if (!copier->streams[way])
			continue;
		(void)call->stream_synchronize(copier->streams[way]);
		for (unsigned int i = 0; i < TEI_COPY_MARKS; i++)
			if (copier->marks[way][i])
				(void)call->event_destroy(
					copier->marks[way][i]);
		(void)call->stream_destroy(copier->streams[way]);
	}
}

/* Allocates all in the context, which is current. 0 or an error. */
static int make(struct tei_gpu_copier *copier, uint64_t length)
{
	const struct cuda_functions *call = &copier->cuda->call;
	int error = call->mem_host_alloc(&copier->memory, length,
					 CU_MEMHOSTALLOC_PORTABLE);

	if (!error)
		error = make_ways(copier);
	if (!error)
		return 0;
	free_ways(copier);
	if (copier->memory)
		(void)call->mem_free_host(copier->memory);
	return error;
}

static int refuse(const struct tei_runtime *cuda, int error, uint64_t length,
		  char *why)
{
	if (error != CUDA_ERROR_OUT_OF_MEMORY)
		return tei_cuda_fail(cuda, "copies by the host", error, why);
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
		       "there are no %llu bytes of memory to be pinned for "
		       "copies (setting gpu_staging)",
		       (unsigned long long)length);
	return -ENOMEM;
}

/* Fills the copier, of the context that is to be current. 0 or an error. */
static int fill(struct tei_gpu_copier *copier,
		const struct tei_memory_facts *facts, uint64_t length)
{
	struct tei_runtime *cuda = copier->cuda;
	CUcontext popped;
	int error = tei_cuda_enter(cuda, facts->context, facts->gpu,
				   &copier->entered);

	if (error || !copier->entered.pushed)
		return error;
	error = tei_cuda_keep(cuda, facts->context, facts->gpu,
			      &copier->entered);
	if (!error)
		error = make(copier, length);
	if (error)
		return error;
	/* The primary context stays in use, but is nobody's current one. */
	(void)cuda->call.ctx_pop(&popped);
	copier->context = popped;
	copier->flushes = cuda->call.flush_writes &&
			  tei_cuda_needs_flush(&cuda->call, facts->gpu);
	copier->entered.pushed = false;
	return 0;
}

int tei_cuda_copier_open(struct tei_runtime *cuda,
			 const struct tei_memory_facts *facts, uint64_t length,
			 struct tei_gpu_copier **out, void **memory, char *why)
{
	struct tei_gpu_copier *copier = tei_calloc(1, sizeof(*copier));
	int mode, error;

	if (!copier) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "out of memory");
		return -ENOMEM;
	}
	copier->cuda = cuda;
	mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	error = fill(copier, facts, length);
	if (!copier->context)
		tei_cuda_leave(cuda, &copier->entered);
	(void)tei_cuda_relax(cuda, mode);
	if (copier->context) {
		*out = copier;
		*memory = copier->memory;
		return 0;
	}
	tei_free(copier);
	if (error)
		return refuse(cuda, error, length, why);
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
		       "nobody uses cuda:%d now, and this library does not "
		       "begin to",
		       facts->gpu);
	return -EOPNOTSUPP;
}

bool tei_cuda_begin_visit(struct tei_gpu_copier *copier,
			  struct cuda_visit *visit, char *why)
{
	struct tei_runtime *cuda = copier->cuda;
	int error;

	visit->mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	error = cuda->call.ctx_push(copier->context);
	visit->entered = !error;
	if (error)
		(void)tei_cuda_fail(cuda, "cuCtxPushCurrent", error, why);
	return visit->entered;
}

void tei_cuda_end_visit(struct tei_gpu_copier *copier,
			const struct cuda_visit *visit)
{
	CUcontext popped;

	if (visit->entered)
		(void)copier->cuda->call.ctx_pop(&popped);
	(void)tei_cuda_relax(copier->cuda, visit->mode);
}

void tei_cuda_copier_close(struct tei_gpu_copier *copier)
{
	char why[TEI_RUNTIME_WHY_LEN];
	struct cuda_visit visit;
	int mode;

	/* A context that was destroyed has taken all of it along. */
	if (tei_cuda_begin_visit(copier, &visit, why)) {
		free_ways(copier);
		(void)copier->cuda->call.mem_free_host(copier->memory);
	}
	tei_cuda_end_visit(copier, &visit);
	mode = tei_cuda_relax(copier->cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	tei_cuda_leave(copier->cuda, &copier->entered);
	(void)tei_cuda_relax(copier->cuda, mode);
	tei_free(copier);
}

/* Waits for the copies of all ways; the context is current. 0 or an error. */
static int quiesce(struct tei_gpu_copier *copier)
{
	int error = 0;

	for (int way = 0; way < TEI_COPY_WAYS; way++) {
		int rc = copier->cuda->call.stream_synchronize(
			copier->streams[way]);

		error = error ? error : rc;
	}
	return error;
}

static int begin_one(const struct cuda_functions *call, enum tei_copy_way way,
		     const struct tei_copy *copy, CUstream stream)
{
	switch (way) {
	case TEI_COPY_OUT:
		return call->memcpy_out(copy->host, copy->gpu, copy->length,
					stream);
	case TEI_COPY_IN:
		return call->memcpy_in(copy->gpu, copy->host, copy->length,
				       stream);
	default:
		return call->memcpy_any(copy->gpu, copy->from, copy->length,
					stream);
	}
}

/* Begins up to TEI_COPIES_MAX copies by one call. 0 or an error. */
static int begin_several(const struct cuda_functions *call,
			 enum tei_copy_way way, const struct tei_copy *copies,
			 uint32_t n, CUstream stream)
{
	CUdeviceptr to[TEI_COPIES_MAX], from[TEI_COPIES_MAX];
	size_t lengths[TEI_COPIES_MAX], first = 0, failed;
	struct cuda_batch_attributes attributes = {
		.order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

	for (uint32_t i = 0; i < n; i++) {
		CUdeviceptr gpu = copies[i].gpu;
		CUdeviceptr host = (uintptr_t)copies[i].host;

		to[i] = way == TEI_COPY_OUT ? host : gpu;
		from[i] = way == TEI_COPY_OUT  ? gpu
			  : way == TEI_COPY_IN ? host
					       : copies[i].from;
		lengths[i] = copies[i].length;
	}
	return call->memcpy_batch(to, from, lengths, n, &attributes, &first, 1,
				  &failed, stream);
}

/* As begin() does, by a call a copy. */
static int begin_each(const struct cuda_functions *call, enum tei_copy_way way,
		      const struct tei_copy *copies, uint32_t n,
		      CUstream stream, bool *begun)
{
	for (uint32_t i = 0; i < n; i++) {
		int error = begin_one(call, way, &copies[i], stream);

		if (error)
			return error;
		*begun = true;
	}
	return 0;
}

/*
 * As begin() does. Several copies a call are not tried again once the driver
 * has refused what it takes one by one.
 */
static int begin_all(struct tei_gpu_copier *copier, enum tei_copy_way way,
		     const struct tei_copy *copies, uint32_t n, bool *begun)
{
	const struct cuda_functions *call = &copier->cuda->call;
	CUstream stream = copier->streams[way];
	int several, error;

	if (n == 1 || !call->memcpy_batch || copier->one_by_one)
		return begin_each(call, way, copies, n, stream, begun);
	several = begin_several(call, way, copies, n, stream);
	if (several != CUDA_ERROR_NOT_SUPPORTED &&
	    several != CUDA_ERROR_INVALID_VALUE) {
		*begun = !several;
		return several;
	}
	error = begin_each(call, way, copies, n, stream, begun);
	copier->one_by_one = !error;
	return error;
}

/* Begins all copies in the context, which is current. *@begun: some were. */
static int begin(struct tei_gpu_copier *copier, enum tei_copy_way way,
		 const struct tei_copy *copies, uint32_t n, unsigned int mark,
		 bool *begun)
{
	int error;

	*begun = false;
	error = begin_all(copier, way, copies, n, begun);
	if (error)
		return error;
	return copier->cuda->call.event_record(copier->marks[way][mark],
					       copier->streams[way]);
}

/* What copy() does in the context, which is current. */
static int copy(struct tei_gpu_copier *copier, enum tei_copy_way way,
		const struct tei_copy *copies, uint32_t n, unsigned int mark,
		char *why)
{
	bool begun;
	int error = begin(copier, way, copies, n, mark, &begun);

	if (!error)
		return 0;
	(void)tei_cuda_fail(copier->cuda, "copy by the host", error, why);
	if (is_recording(error) && !begun)
		return -EAGAIN;
	return quiesce(copier) ? -ENOTRECOVERABLE : -EIO;
}

int tei_cuda_copy(struct tei_gpu_copier *copier, enum tei_copy_way way,
		  const struct tei_copy *copies, uint32_t n, unsigned int mark,
		  char *why)
{
	int rc = -ENOTRECOVERABLE;
	struct cuda_visit visit;

	if (tei_cuda_begin_visit(copier, &visit, why))
		rc = copy(copier, way, copies, n, mark, why);
	tei_cuda_end_visit(copier, &visit);
	return rc;
}

/* What is_copied() does in the context, which is current. */
static int is_copied(struct tei_gpu_copier *copier, enum tei_copy_way way,
		     unsigned int mark, char *why)
{
	struct tei_runtime *cuda = copier->cuda;
	int error = cuda->call.event_query(copier->marks[way][mark]);

	if (!error)
		return 1;
	if (error == CUDA_ERROR_NOT_READY || is_recording(error))
		return 0;
	(void)tei_cuda_fail(cuda, "copy by the host", error, why);
	return quiesce(copier) ? -ENOTRECOVERABLE : 1;
}

int tei_cuda_is_copied(struct tei_gpu_copier *copier, enum tei_copy_way way,
		       unsigned int mark, char *why)
{
	int rc = -ENOTRECOVERABLE;
	struct cuda_visit visit;

	if (tei_cuda_begin_visit(copier, &visit, why))
		rc = is_copied(copier, way, mark, why);
	tei_cuda_end_visit(copier, &visit);
	return rc;
}
