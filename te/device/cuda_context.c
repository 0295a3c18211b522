/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_context.c - contexts of NVIDIA's GPUs for calls of the driver, errors */
#include "te/device/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"

void tei_cuda_put(struct tei_runtime *cuda)
{
	if (atomic_fetch_sub(&cuda->refs, 1) > 1)
		return;
	dlclose(cuda->library);
	tei_mutex_fini(&cuda->mu);
	tei_free(cuda);
}

int tei_cuda_fail(const struct tei_runtime *cuda, const char *function,
		  int error, char *why)
{
	const char *name = NULL;

	if (error == CUDA_ERROR_DEINITIALIZED)
		name = "the driver has ended, as at the exit of a process";
	else if (cuda->call.get_error_name(error, &name) || !name)
		name = "unknown error";
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "%s: %s (%d)", function, name,
		       error);
	return -EIO;
}

int tei_cuda_relax(const struct tei_runtime *cuda, int mode)
{
	if (cuda->call.thread_exchange_capture_mode)
		(void)cuda->call.thread_exchange_capture_mode(&mode);
	return mode;
}

int tei_cuda_retain_primary(struct tei_runtime *cuda, int gpu, CUcontext *out)
{
	unsigned int flags;
	CUdevice device;
	int active = 0, error = cuda->call.device_get(&device, gpu);

	if (!error)
		error = cuda->call.primary_ctx_get_state(device, &flags,
							 &active);
	if (error || !active)
		return error;
	return cuda->call.primary_ctx_retain(out, device);
}

int tei_cuda_enter(struct tei_runtime *cuda, uintptr_t context, int gpu,
		   struct cuda_entered *entered)
{
	CUcontext found = (CUcontext)context;
	int error = 0;

	*entered = (struct cuda_entered){.retained = -1};
	if (!found && gpu >= 0) {
		error = tei_cuda_retain_primary(cuda, gpu, &found);
		if (found)
			entered->retained = gpu;
	}
	if (!error && found) {
		error = cuda->call.ctx_push(found);
		entered->pushed = !error;
	}
	return error;
}

void tei_cuda_leave(struct tei_runtime *cuda,
		    const struct cuda_entered *entered)
{
	CUcontext context;
	CUdevice device;

	if (entered->pushed)
		(void)cuda->call.ctx_pop(&context);
	if (entered->retained >= 0 &&
	    !cuda->call.device_get(&device, entered->retained))
		(void)cuda->call.primary_ctx_release(device);
}

int tei_cuda_keep(struct tei_runtime *cuda, uintptr_t context, int gpu,
		  struct cuda_entered *entered)
{
	CUcontext primary = NULL;
	int error = 0;

	if (entered->retained < 0)
		error = tei_cuda_retain_primary(cuda, gpu, &primary);
	if (!primary)
		return error;
	entered->retained = gpu;
	if ((uintptr_t)primary != context) {
		const struct cuda_entered other = {.retained = gpu};

		tei_cuda_leave(cuda, &other);
		entered->retained = -1;
	}
	return error;
}
