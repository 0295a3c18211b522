/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.c - the fake driver's memory in several processes
 *
 * As with old drivers a process opens an allocation once, and never its own.
 * Freeing what another one has open ends the test.
 */
#include <string.h>
#include <unistd.h>

#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/fake_cuda/private.h"

/* NOLINTBEGIN(readability-identifier-naming) */
#define EXPORT FAKE_CUDA_EXPORT

#define OPEN_MAX_ 64

static struct {
	CUdeviceptr at; /* 0: not in use */
	struct fake_cuda_shared shared;
} opened[OPEN_MAX_];

EXPORT int cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr at)
{
	int error = fake_cuda_enter("cuIpcGetMemHandle");
	struct fake_cuda_shared shared;

	if (error)
		return error;
	if (!fake_cuda_context())
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (!fake_cuda_share(at, &shared))
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	memset(out, 0, sizeof(*out));
	memcpy(out, &shared, sizeof(shared));
	return fake_cuda_leave(0);
}

static int open_handle(const struct fake_cuda_shared *shared, CUdeviceptr *out)
{
	int place = -1;

	if (!fake_cuda_context() || shared->pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	for (int i = 0; i < OPEN_MAX_; i++) {
		if (!opened[i].at)
			place = i;
		else if (opened[i].shared.pid == shared->pid &&
			 opened[i].shared.fd == shared->fd)
			return CUDA_ERROR_ALREADY_MAPPED;
	}
	fake_cuda_need(place >= 0);
	*out = fake_cuda_import(shared);
	if (!*out)
		return CUDA_ERROR_INVALID_HANDLE;
	opened[place].at = *out;
	opened[place].shared = *shared;
	return 0;
}

EXPORT int cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle,
				 unsigned int flags)
{
	int error = fake_cuda_enter("cuIpcOpenMemHandle");
	struct fake_cuda_shared shared;

	if (error)
		return error;
	if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	memcpy(&shared, &handle, sizeof(shared));
	return fake_cuda_leave(open_handle(&shared, out));
}

EXPORT int cuIpcCloseMemHandle(CUdeviceptr at)
{
	int error = fake_cuda_enter("cuIpcCloseMemHandle");

	if (error)
		return error;
	if (!fake_cuda_drop_import(at))
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < OPEN_MAX_; i++)
		if (opened[i].at == at)
			opened[i].at = 0;
	return fake_cuda_leave(0);
}

EXPORT int fake_cuda_n_opened(void)
{
	int n = 0;

	fake_cuda_lock();
	for (int i = 0; i < OPEN_MAX_; i++)
		n += opened[i].at != 0;
	return fake_cuda_leave(n);
}
/* NOLINTEND(readability-identifier-naming) */
