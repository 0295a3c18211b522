/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunks.c - the fake driver's virtual memory: created, then mapped to addresses
 *
 * Memory counts until its handle is released and its mapping has ended.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/fake_cuda/private.h"

/* NOLINTBEGIN(readability-identifier-naming) */
#define EXPORT FAKE_CUDA_EXPORT

#define UNIT         ((size_t)2 << 20)
#define HANDLES_MAX  64
#define FIRST_HANDLE 100000u

static struct handle {
	size_t length; /* 0: not in use */
	int device;
} handles[HANDLES_MAX];
static struct {
	uint64_t at;
	size_t length; /* 0: not in use */
	bool mapped;
} ranges[HANDLES_MAX];

static struct handle *handle_of(CUmemGenericAllocationHandle number)
{
	struct handle *handle;

	if (number < FIRST_HANDLE || number >= FIRST_HANDLE + HANDLES_MAX)
		return NULL;
	handle = &handles[number - FIRST_HANDLE];
	return handle->length ? handle : NULL;
}

static bool is_of_a_gpu(const struct cuda_allocation *what)
{
	return what->type == 1 && what->handle_types == 1 &&
	       what->location.type == 1 && what->gpudirect <= 1 &&
	       fake_cuda_device_of(what->location.id) >= 0;
}

/* Those of one socket reach each other. */
EXPORT int cuDeviceCanAccessPeer(int *out, CUdevice device, CUdevice peer)
{
	int error = fake_cuda_enter("cuDeviceCanAccessPeer");

	if (error)
		return error;
	*out = fake_cuda_device_of(device) / 2 == fake_cuda_device_of(peer) / 2;
	return fake_cuda_leave(0);
}

EXPORT int cuMemGetAllocationGranularity(size_t *out,
					 const struct cuda_allocation *what,
					 int which)
{
	int error = fake_cuda_enter("cuMemGetAllocationGranularity");

	if (error)
		return error;
	*out = UNIT;
	return fake_cuda_leave(
		is_of_a_gpu(what) && !which ? 0 : CUDA_ERROR_INVALID_VALUE);
}

EXPORT int cuMemCreate(CUmemGenericAllocationHandle *out, size_t length,
		       const struct cuda_allocation *what,
		       unsigned long long flags)
{
	int error = fake_cuda_enter("cuMemCreate");
	unsigned int i = 0;

	if (error)
		return error;
	if (!is_of_a_gpu(what) || !length || length % UNIT || flags)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	while (i < HANDLES_MAX && handles[i].length)
		i++;
	fake_cuda_need(i < HANDLES_MAX);
	handles[i] = (struct handle){
		.length = length,
		.device = fake_cuda_device_of(what->location.id)};
	*out = FIRST_HANDLE + i;
	return fake_cuda_leave(0);
}

int fake_cuda_handle_release(CUmemGenericAllocationHandle number)
{
	struct handle *handle = handle_of(number);

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	handle->length = 0;
	return 0;
}

EXPORT int cuMemAddressReserve(CUdeviceptr *out, size_t length,
			       size_t alignment, CUdeviceptr wanted,
			       unsigned long long flags)
{
	int error = fake_cuda_enter("cuMemAddressReserve");
	unsigned int i = 0;

	if (error)
		return error;
	if (!length || length % UNIT || alignment || wanted || flags)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	while (i < HANDLES_MAX && ranges[i].length)
		i++;
	fake_cuda_need(i < HANDLES_MAX);
	*out = (uintptr_t)fake_cuda_reserve(length);
	fake_cuda_need(*out);
	ranges[i].at = *out;
	ranges[i].length = length;
	ranges[i].mapped = false;
	return fake_cuda_leave(0);
}

/* Its place in ranges[]; -1: it is none. With the lock. */
static int range_of(CUdeviceptr at, size_t length)
{
	for (int i = 0; i < HANDLES_MAX; i++)
		if (ranges[i].length && ranges[i].length == length &&
		    ranges[i].at == at)
			return i;
	return -1;
}

/* What is mapped has to be unmapped before. */
EXPORT int cuMemAddressFree(CUdeviceptr at, size_t length)
{
	int error = fake_cuda_enter("cuMemAddressFree"), i;

	if (error)
		return error;
	i = range_of(at, length);
	if (i < 0 || ranges[i].mapped)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	ranges[i].length = 0;
	return fake_cuda_leave(0);
}

EXPORT int cuMemMap(CUdeviceptr at, size_t length, size_t offset,
		    CUmemGenericAllocationHandle number,
		    unsigned long long flags)
{
	int error = fake_cuda_enter("cuMemMap"), i;
	const struct handle *handle;

	if (error)
		return error;
	i = range_of(at, length);
	handle = handle_of(number);
	if (i < 0 || ranges[i].mapped || offset || flags || !handle ||
	    handle->length != length)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	fake_cuda_piece_map(at, length, handle->device);
	ranges[i].mapped = true;
	return fake_cuda_leave(0);
}

EXPORT int cuMemUnmap(CUdeviceptr at, size_t length)
{
	int error = fake_cuda_enter("cuMemUnmap"), i;

	if (error)
		return error;
	i = range_of(at, length);
	if (i < 0 || !fake_cuda_piece_unmap(at, length))
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	ranges[i].mapped = false;
	return fake_cuda_leave(0);
}

EXPORT int cuMemSetAccess(CUdeviceptr at, size_t length,
			  const struct cuda_access *who, size_t n)
{
	int error = fake_cuda_enter("cuMemSetAccess");

	if (error)
		return error;
	for (size_t i = 0; i < n; i++)
		if (who[i].location.type != 1 || who[i].flags != 3 ||
		    fake_cuda_device_of(who[i].location.id) < 0)
			return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	return fake_cuda_leave(n && fake_cuda_piece_open(at, length)
				       ? 0
				       : CUDA_ERROR_INVALID_VALUE);
}

void fake_cuda_chunks_reset(void)
{
	for (int i = 0; i < HANDLES_MAX; i++)
		fake_cuda_need(!handles[i].length && !ranges[i].length);
}
/* NOLINTEND(readability-identifier-naming) */
