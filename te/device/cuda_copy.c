/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_copy.c - copies between the host and NVIDIA's GPUs */
#include "te/device/cuda.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"

#define WAYS 2

struct tei_gpu_copier {
	struct tei_runtime *cuda;
	struct cuda_entered entered; /* while it is open, but for the stack */
	CUcontext context;
	void *memory;
	CUstream streams[WAYS];
	CUevent marks[WAYS][TEI_COPY_MARKS];
};

/* Makes the streams and marks of both ways. 0 or an error. */
static int make_ways(struct tei_gpu_copier *copier)
{
	const struct cuda_functions *call = &copier->cuda->call;
	int error = 0;

	for (int way = 0; way < WAYS && !error; way++) {
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

	for (int way = 0; way < WAYS; way++) {
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

int tei_cuda_copier_open(struct tei_runtime *cuda,
			 const struct tei_memory_facts *facts, uint64_t length,
			 struct tei_gpu_copier **out, void **memory, char *why)
{
	struct tei_gpu_copier *copier = tei_calloc(1, sizeof(*copier));
	CUcontext popped;
	int error;

	if (!copier) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "out of memory");
		return -ENOMEM;
	}
	copier->cuda = cuda;
	error = tei_cuda_enter(cuda, facts->context, facts->gpu,
			       &copier->entered);
	if (!error && !copier->entered.pushed) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "nobody uses cuda:%d now, and this library does "
			       "not begin to",
			       facts->gpu);
		tei_free(copier);
		return -EOPNOTSUPP;
	}
	if (!error)
		error = make(copier, length);
	if (error) {
		tei_cuda_leave(cuda, &copier->entered);
		tei_free(copier);
		return refuse(cuda, error, length, why);
	}
	/* The primary context stays in use, but is nobody's current one. */
	(void)cuda->call.ctx_pop(&popped);
	copier->context = popped;
	copier->entered.pushed = false;
	*out = copier;
	*memory = copier->memory;
	return 0;
}

void tei_cuda_copier_close(struct tei_gpu_copier *copier)
{
	struct tei_runtime *cuda = copier->cuda;

	copier->entered.pushed = !cuda->call.ctx_push(copier->context);
	free_ways(copier);
	(void)cuda->call.mem_free_host(copier->memory);
	tei_cuda_leave(cuda, &copier->entered);
	tei_free(copier);
}

/* Begins all copies in the context, which is current. 0 or an error. */
static int begin(struct tei_gpu_copier *copier, enum tei_copy_way way,
		 const struct tei_copy *copies, uint32_t n, unsigned int mark)
{
	const struct cuda_functions *call = &copier->cuda->call;
	CUstream stream = copier->streams[way];
	int error = 0;

	for (uint32_t i = 0; i < n && !error; i++)
		error = way == TEI_COPY_OUT
				? call->memcpy_out(copies[i].host,
						   copies[i].gpu,
						   copies[i].length, stream)
				: call->memcpy_in(copies[i].gpu, copies[i].host,
						  copies[i].length, stream);
	return error ? error
		     : call->event_record(copier->marks[way][mark], stream);
}

int tei_cuda_copy(struct tei_gpu_copier *copier, enum tei_copy_way way,
		  const struct tei_copy *copies, uint32_t n, unsigned int mark,
		  char *why)
{
	struct tei_runtime *cuda = copier->cuda;
	CUcontext popped;
	int error = cuda->call.ctx_push(copier->context);

	if (error)
		return tei_cuda_fail(cuda, "cuCtxPushCurrent", error, why);
	error = begin(copier, way, copies, n, mark);
	if (error) /* what has begun ends first */
		(void)cuda->call.stream_synchronize(copier->streams[way]);
	(void)cuda->call.ctx_pop(&popped);
	return error ? tei_cuda_fail(cuda, "copy by the host", error, why) : 0;
}

int tei_cuda_is_copied(struct tei_gpu_copier *copier, enum tei_copy_way way,
		       unsigned int mark, char *why)
{
	struct tei_runtime *cuda = copier->cuda;
	CUcontext popped;
	int error = cuda->call.ctx_push(copier->context);

	if (!error) {
		error = cuda->call.event_query(copier->marks[way][mark]);
		(void)cuda->call.ctx_pop(&popped);
	}
	if (error == CUDA_ERROR_NOT_READY)
		return 0;
	return error ? tei_cuda_fail(cuda, "copy by the host", error, why) : 1;
}
