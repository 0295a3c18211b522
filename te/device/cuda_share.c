/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_share.c - memory of NVIDIA's GPUs that several processes open */
#include "te/device/cuda.h"

#include <errno.h>
#include <fcntl.h>
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

/* ---- allocations, by their names ---- */

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

/* ---- chunks, by descriptors ---- */

#define POSIX_FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static int refuse_old(char *why)
{
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
		       "the driver is too old to share memory of cuMemMap()");
	return -EOPNOTSUPP;
}

static bool can_share(const struct cuda_functions *call)
{
	return call->mem_retain_allocation_handle && call->mem_release &&
	       call->mem_get_allocation_properties && call->mem_export;
}

static bool can_attach(const struct cuda_functions *call)
{
	return call->mem_address_reserve && call->mem_address_free &&
	       call->mem_import && call->mem_get_allocation_properties &&
	       call->mem_map && call->mem_unmap && call->mem_set_access &&
	       call->mem_release && call->device_can_access_peer;
}

static int share_handle(const struct tei_runtime *cuda,
			CUmemGenericAllocationHandle handle, int *fd, char *why)
{
	struct cuda_allocation what;
	int error = cuda->call.mem_get_allocation_properties(&what, handle);

	if (error)
		return refuse(cuda, "cuMemGetAllocationPropertiesFromHandle",
			      error, why);
	if (what.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !(what.handle_types & POSIX_FD)) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "it was not created to be exported by "
			       "descriptors (requestedHandleTypes)");
		return -EOPNOTSUPP;
	}
	if (!fd)
		return 0;
	error = cuda->call.mem_export(fd, handle, POSIX_FD, 0);
	if (error)
		return refuse(cuda, "cuMemExportToShareableHandle", error, why);
	(void)fcntl(*fd, F_SETFD, FD_CLOEXEC);
	return 0;
}

int tei_cuda_share_chunk(struct tei_runtime *cuda,
			 const struct tei_memory_facts *facts, int *fd,
			 char *why)
{
	CUmemGenericAllocationHandle handle;
	int error, mode, rc;

	if (!can_share(&cuda->call))
		return refuse_old(why);
	mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	error = cuda->call.mem_retain_allocation_handle(
		&handle, (void *)(uintptr_t)facts->base);
	if (error) {
		rc = refuse(cuda, "cuMemRetainAllocationHandle", error, why);
	} else {
		rc = share_handle(cuda, handle, fd, why);
		(void)cuda->call.mem_release(handle);
	}
	(void)tei_cuda_relax(cuda, mode);
	return rc;
}

int tei_cuda_reserve(struct tei_gpu_copier *copier, uint64_t length,
		     uint64_t *addr, char *why)
{
	struct tei_runtime *cuda = copier->cuda;
	int error, mode;

	if (!can_attach(&cuda->call))
		return refuse_old(why);
	mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	error = cuda->call.mem_address_reserve(addr, (size_t)length, 0, 0, 0);
	(void)tei_cuda_relax(cuda, mode);
	return error ? refuse(cuda, "cuMemAddressReserve", error, why) : 0;
}

/* Tells whether the current context's GPU gets to memory of another one. */
static int reaches(const struct tei_runtime *cuda, CUdevice owner)
{
	CUdevice own;
	int does = 1, error = 0;

	if (!cuda->call.ctx_get_device)
		return 0;
	error = cuda->call.ctx_get_device(&own);
	if (!error && own != owner)
		error = cuda->call.device_can_access_peer(&does, own, owner);
	return error || does ? error : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

/* Maps memory of a handle in the copier's context, which is current. */
static int map_imported(struct tei_runtime *cuda,
			CUmemGenericAllocationHandle handle, CUdeviceptr at,
			size_t length, char *why)
{
	struct cuda_allocation what;
	int error = cuda->call.mem_get_allocation_properties(&what, handle);

	if (error)
		return refuse(cuda, "cuMemGetAllocationPropertiesFromHandle",
			      error, why);
	error = reaches(cuda, what.location.id);
	if (error)
		return refuse(cuda, "cuDeviceCanAccessPeer", error, why);
	error = cuda->call.mem_map(at, length, 0, handle, 0);
	if (error)
		return refuse(cuda, "cuMemMap", error, why);
	error = tei_cuda_open_to_all(cuda, what.location.id, at, length);
	if (!error)
		return 0;
	(void)cuda->call.mem_unmap(at, length);
	return refuse(cuda, "cuMemSetAccess", error, why);
}

int tei_cuda_attach_chunk(struct tei_gpu_copier *copier, uint64_t addr,
			  uint64_t length, int fd, char *why)
{
	struct tei_runtime *cuda = copier->cuda;
	CUmemGenericAllocationHandle handle;
	struct cuda_visit visit;
	int error, rc = -EIO;

	if (tei_cuda_begin_visit(copier, &visit, why)) {
		error = cuda->call.mem_import(&handle, (void *)(intptr_t)fd,
					      POSIX_FD);
		if (error) {
			rc = refuse(cuda, "cuMemImportFromShareableHandle",
				    error, why);
		} else {
			rc = map_imported(cuda, handle, addr, (size_t)length,
					  why);
			(void)cuda->call.mem_release(handle);
		}
	}
	tei_cuda_end_visit(copier, &visit);
	return rc;
}

void tei_cuda_unreserve(struct tei_gpu_copier *copier, uint64_t addr,
			uint64_t mapped, uint64_t length)
{
	const struct cuda_functions *call = &copier->cuda->call;
	int mode = tei_cuda_relax(copier->cuda, CU_STREAM_CAPTURE_MODE_RELAXED);

	/* Addresses are the process's: the end of a context frees none. */
	if (mapped)
		(void)call->mem_unmap(addr, (size_t)mapped);
	(void)call->mem_address_free(addr, (size_t)length);
	(void)tei_cuda_relax(copier->cuda, mode);
}
