/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_memory.c - memory of NVIDIA's GPUs, and the host's locked for them */
#include "te/device/cuda.h"

#include <errno.h>
#include <stdio.h>

/* Allocates in the current context. 0 or the driver's error. */
static int alloc_in(struct tei_runtime *cuda, CUcontext context,
		    uint64_t length, uint64_t *addr)
{
	CUcontext popped;
	int error = cuda->call.ctx_push(context);

	if (error)
		return error;
	error = cuda->call.mem_alloc(addr, (size_t)length);
	(void)cuda->call.ctx_pop(&popped);
	return error;
}

static int refuse(const struct tei_runtime *cuda, const char *function,
		  int error, uint64_t length, char *why)
{
	if (error != CUDA_ERROR_OUT_OF_MEMORY)
		return tei_cuda_fail(cuda, function, error, why);
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "%s: there are no %llu bytes",
		       function, (unsigned long long)length);
	return -ENOMEM;
}

int tei_cuda_alloc(struct tei_runtime *cuda, int number, uint64_t length,
		   uint64_t *addr, char *why)
{
	CUcontext context;
	CUdevice device;
	int mode, error = cuda->call.device_get(&device, number);

	if (error == CUDA_ERROR_INVALID_DEVICE ||
	    error == CUDA_ERROR_INVALID_VALUE) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "this process sees no cuda:%d", number);
		return -ENODEV;
	}
	mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	if (!error)
		error = cuda->call.primary_ctx_retain(&context, device);
	if (!error) {
		error = alloc_in(cuda, context, length, addr);
		if (error)
			(void)cuda->call.primary_ctx_release(device);
	}
	(void)tei_cuda_relax(cuda, mode);
	return error ? refuse(cuda, "memory of a GPU", error, length, why) : 0;
}

void tei_cuda_free(struct tei_runtime *cuda, int number, uint64_t addr)
{
	struct cuda_entered entered;
	CUdevice device;
	int mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);

	/* Who has reset the GPU meanwhile has taken the memory along. */
	if (!tei_cuda_enter(cuda, 0, number, &entered) && entered.pushed)
		(void)cuda->call.mem_free(addr);
	tei_cuda_leave(cuda, &entered);
	if (!cuda->call.device_get(&device, number))
		(void)cuda->call.primary_ctx_release(device);
	(void)tei_cuda_relax(cuda, mode);
}

/*
 * Makes current the primary context of any GPU that is in use: memory that is
 * locked in one is locked for all. Returns its number; -1: none is, or the
 * driver fails.
 */
static int enter_any(struct tei_runtime *cuda, struct cuda_entered *entered)
{
	int n = 0;

	*entered = (struct cuda_entered){.retained = -1};
	if (cuda->call.device_get_count(&n))
		return -1;
	for (int i = 0; i < n; i++) {
		if (tei_cuda_enter(cuda, 0, i, entered))
			return -1;
		if (entered->pushed)
			return i;
	}
	return -1;
}

int tei_cuda_pin(struct tei_runtime *cuda, void *addr, uint64_t length,
		 int *number, char *why)
{
	struct cuda_entered entered;
	int mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	int error = 0;

	*number = enter_any(cuda, &entered);
	if (*number >= 0)
		error = cuda->call.mem_host_register(
			addr, (size_t)length, CU_MEMHOSTREGISTER_PORTABLE);
	tei_cuda_leave(cuda, &entered);
	(void)tei_cuda_relax(cuda, mode);
	if (error)
		return refuse(cuda, "cuMemHostRegister", error, length, why);
	if (*number >= 0)
		return 0;
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "no GPU is in use");
	return -ENODEV;
}

void tei_cuda_unpin(struct tei_runtime *cuda, int number, void *addr)
{
	struct cuda_entered entered;
	int mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);

	/* A context that has ended has unlocked it. */
	if (!tei_cuda_enter(cuda, 0, number, &entered) && entered.pushed)
		(void)cuda->call.mem_host_unregister(addr);
	tei_cuda_leave(cuda, &entered);
	(void)tei_cuda_relax(cuda, mode);
}

/* ---- copies into a GPU's memory ---- */

/* In the current context. 0 or the driver's error. */
static int fill_all(struct tei_runtime *cuda, const struct tei_copy *copies,
		    uint32_t n)
{
	CUstream stream;
	int error = cuda->call.stream_create(&stream, CU_STREAM_NON_BLOCKING);
	int ended;

	if (error)
		return error;
	for (uint32_t i = 0; i < n && !error; i++)
		error = cuda->call.memcpy_in(copies[i].gpu, copies[i].host,
					     (size_t)copies[i].length, stream);
	ended = cuda->call.stream_synchronize(stream);
	(void)cuda->call.stream_destroy(stream);
	return error ? error : ended;
}

int tei_cuda_fill(struct tei_runtime *cuda,
		  const struct tei_memory_facts *facts,
		  const struct tei_copy *copies, uint32_t n, char *why)
{
	struct cuda_entered entered;
	int mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	int error = tei_cuda_enter(cuda, facts->context, facts->gpu, &entered);
	bool pushed = entered.pushed;

	if (!error && pushed)
		error = fill_all(cuda, copies, n);
	tei_cuda_leave(cuda, &entered);
	(void)tei_cuda_relax(cuda, mode);
	if (error)
		return tei_cuda_fail(cuda, "cuMemcpyHtoDAsync", error, why);
	if (pushed)
		return 0;
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "nobody uses cuda:%d",
		       facts->gpu);
	return -EOPNOTSUPP;
}
