/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_share.c - memory of NVIDIA's GPUs that several processes open */
#include "te/device/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(CUipcMemHandle) == TEI_SHARED_LEN, "a name is a handle");

static int refuse(const struct tei_runtime *cuda, const char *function,
		  int error, char *why)
{
	(void)tei_cuda_fail(cuda, function, error, why);
	switch (error) {
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_HANDLE:
	case CUDA_ERROR_INVALID_CONTEXT: /* it is this process's own */
	case CUDA_ERROR_INVALID_DEVICE:  /* which this process does not see */
	case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
	case CUDA_ERROR_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

int tei_cuda_share(struct tei_runtime *cuda,
		   const struct tei_memory_facts *facts,
		   uint8_t name[TEI_SHARED_LEN], char *why)
{
	struct cuda_entered entered;
	CUipcMemHandle handle;
	int error;

	if (facts->kind != TEI_MEMORY_DEVICE || facts->chunked ||
	    facts->pooled) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "it is not of cuMemAlloc()");
		return -EOPNOTSUPP;
	}
	error = tei_cuda_enter(cuda, facts->context, facts->gpu, &entered);
	if (!error)
		error = cuda->call.ipc_get_mem_handle(&handle, facts->base);
	tei_cuda_leave(cuda, &entered);
	if (error)
		return refuse(cuda, "cuIpcGetMemHandle", error, why);
	memcpy(name, &handle, TEI_SHARED_LEN);
	return 0;
}

int tei_cuda_attach(struct tei_gpu_copier *copier,
		    const uint8_t name[TEI_SHARED_LEN], uint64_t *addr,
		    char *why)
{
	struct tei_runtime *cuda = copier->cuda;
	struct cuda_visit visit;
	CUipcMemHandle handle;
	int error = 0, rc = -EIO;

	memcpy(&handle, name, TEI_SHARED_LEN);
	if (tei_cuda_begin_visit(copier, &visit, why)) {
		error = cuda->call.ipc_open_mem_handle(
			addr, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
		rc = error ? refuse(cuda, "cuIpcOpenMemHandle", error, why) : 0;
	}
	tei_cuda_end_visit(copier, &visit);
	return rc;
}

void tei_cuda_detach(struct tei_gpu_copier *copier, uint64_t addr)
{
	char why[TEI_RUNTIME_WHY_LEN];
	struct cuda_visit visit;

	/* A context that was destroyed has closed it. */
	if (tei_cuda_begin_visit(copier, &visit, why))
		(void)copier->cuda->call.ipc_close_mem_handle(addr);
	tei_cuda_end_visit(copier, &visit);
}
