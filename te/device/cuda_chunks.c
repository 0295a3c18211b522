/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_chunks.c - memory of NVIDIA's GPUs that can be given to others
 *
 * The driver's calls for virtual memory: memory is created, and mapped to
 * addresses that were reserved. Such memory can be exported to processes by
 * descriptors, and to NICs. The mapping keeps it.
 */
#include "te/device/cuda.h"

#include <errno.h>
#include <stdio.h>

_Static_assert(sizeof(struct cuda_allocation) == 32, "the driver's");
_Static_assert(sizeof(struct cuda_access) == 12, "the driver's");

#define DEVICE     CU_MEM_LOCATION_TYPE_DEVICE
#define PINNED     1 /* CU_MEM_ALLOCATION_TYPE_PINNED */
#define POSIX_FD   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define READ_WRITE 3 /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
#define MINIMUM    0 /* CU_MEM_ALLOC_GRANULARITY_MINIMUM */
#define GPUS_MAX   64

static bool has_calls(const struct tei_runtime *cuda)
{
	const struct cuda_functions *call = &cuda->call;

	return call->device_get_attribute && call->device_can_access_peer &&
	       call->mem_get_allocation_granularity && call->mem_create &&
	       call->mem_address_reserve && call->mem_address_free &&
	       call->mem_map && call->mem_unmap && call->mem_set_access &&
	       call->mem_release;
}

static bool has(struct tei_runtime *cuda, int attribute, CUdevice device)
{
	int value = 0;

	return !cuda->call.device_get_attribute(&value, attribute, device) &&
	       value;
}

int tei_cuda_open_to_all(struct tei_runtime *cuda, CUdevice device,
			 CUdeviceptr at, size_t length)
{
	struct cuda_access who[GPUS_MAX] = {
		{.location = {DEVICE, device}, .flags = READ_WRITE}};
	int n_gpus = 0, reaches;
	size_t n = 1;

	(void)cuda->call.device_get_count(&n_gpus);
	for (int i = 0; i < n_gpus && n < GPUS_MAX; i++) {
		CUdevice peer;

		reaches = 0;
		if (cuda->call.device_get(&peer, i) || peer == device ||
		    cuda->call.device_can_access_peer(&reaches, peer, device) ||
		    !reaches)
			continue;
		who[n++] = (struct cuda_access){.location = {DEVICE, peer},
						.flags = READ_WRITE};
	}
	return cuda->call.mem_set_access(at, length, who, n);
}

/* Maps memory that was created to addresses of its own. */
static int map_handle(struct tei_runtime *cuda, CUdevice device,
		      CUmemGenericAllocationHandle handle, size_t length,
		      CUdeviceptr *out)
{
	CUdeviceptr at = 0;
	int error = cuda->call.mem_address_reserve(&at, length, 0, 0, 0);

	if (error)
		return error;
	error = cuda->call.mem_map(at, length, 0, handle, 0);
	if (error)
		goto free_addresses;
	error = tei_cuda_open_to_all(cuda, device, at, length);
	if (error)
		goto unmap;
	*out = at;
	return 0;

unmap:
	(void)cuda->call.mem_unmap(at, length);
free_addresses:
	(void)cuda->call.mem_address_free(at, length);
	return error;
}

/* In a context. 0 or the driver's error. */
static int map_chunk(struct tei_runtime *cuda, CUdevice device,
		     uint64_t *length, uint64_t *addr)
{
	const struct cuda_allocation what = {
		.type = PINNED,
		.handle_types = POSIX_FD,
		.location = {DEVICE, device},
		.gpudirect = has(cuda, CUDA_GIVES_CHUNKS_TO_NICS, device),
	};
	CUmemGenericAllocationHandle handle;
	size_t unit = 0;
	int error = cuda->call.mem_get_allocation_granularity(&unit, &what,
							      MINIMUM);

	if (error || !unit)
		return error ? error : CUDA_ERROR_NOT_SUPPORTED;
	if (*length > UINT64_MAX - unit)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*length = (*length + unit - 1) / unit * unit;
	error = cuda->call.mem_create(&handle, (size_t)*length, &what, 0);
	if (error)
		return error;
	error = map_handle(cuda, device, handle, (size_t)*length, addr);
	(void)cuda->call.mem_release(handle);
	return error;
}

/* Makes the GPU's primary context current. 0 or the driver's error. */
static int enter_primary(struct tei_runtime *cuda, CUdevice device)
{
	CUcontext context;
	int error = cuda->call.primary_ctx_retain(&context, device);

	if (error)
		return error;
	error = cuda->call.ctx_push(context);
	if (error)
		(void)cuda->call.primary_ctx_release(device);
	return error;
}

static void leave_primary(struct tei_runtime *cuda, CUdevice device)
{
	CUcontext context;

	(void)cuda->call.ctx_pop(&context);
	(void)cuda->call.primary_ctx_release(device);
}

/* -ENODEV, -EOPNOTSUPP: no such GPU, or none with such memory. */
static int find_device(struct tei_runtime *cuda, int number, CUdevice *out,
		       char *why)
{
	int error = cuda->call.device_get(out, number);

	if (error == CUDA_ERROR_INVALID_DEVICE ||
	    error == CUDA_ERROR_INVALID_VALUE) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "this process sees no cuda:%d", number);
		return -ENODEV;
	}
	if (error)
		return tei_cuda_fail(cuda, "cuDeviceGet", error, why);
	if (has_calls(cuda) && has(cuda, CUDA_HAS_CHUNKS, *out))
		return 0;
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
		       "cuda:%d or its driver has no cuMemCreate()", number);
	return -EOPNOTSUPP;
}

int tei_cuda_can_map(struct tei_runtime *cuda, int number, char *why)
{
	CUdevice device;

	return find_device(cuda, number, &device, why);
}

int tei_cuda_map(struct tei_runtime *cuda, int number, uint64_t *length,
		 uint64_t *addr, char *why)
{
	uint64_t asked = *length;
	CUdevice device;
	int error, mode, rc = find_device(cuda, number, &device, why);

	if (rc)
		return rc;
	mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	error = enter_primary(cuda, device);
	if (!error) {
		error = map_chunk(cuda, device, length, addr);
		leave_primary(cuda, device);
	}
	(void)tei_cuda_relax(cuda, mode);
	if (!error)
		return 0;
	*length = asked;
	rc = tei_cuda_fail(cuda, "cuMemCreate", error, why);
	if (error != CUDA_ERROR_OUT_OF_MEMORY)
		return rc;
	(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
		       "cuda:%d has no %llu bytes left", number,
		       (unsigned long long)asked);
	return -ENOMEM;
}

int tei_cuda_unmap(struct tei_runtime *cuda, int number, uint64_t addr,
		   uint64_t length, uintptr_t stream, char *why)
{
	CUdevice device;
	int mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	int error = cuda->call.device_get(&device, number);

	if (!error)
		error = enter_primary(cuda, device);
	if (!error) {
		/* What failed there does not use the memory any more. */
		(void)cuda->call.stream_synchronize((CUstream)stream);
		error = cuda->call.mem_unmap(addr, (size_t)length);
		if (!error)
			error = cuda->call.mem_address_free(addr,
							    (size_t)length);
		leave_primary(cuda, device);
	}
	(void)tei_cuda_relax(cuda, mode);
	/* A driver that has ended has freed it. */
	if (!error || error == CUDA_ERROR_DEINITIALIZED)
		return 0;
	return tei_cuda_fail(cuda, "cuMemUnmap", error, why);
}
