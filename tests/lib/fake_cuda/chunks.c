/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunks.c - the fake driver's virtual memory: created, then mapped to addresses
 *
 * Memory counts until its handle is released and its mapping has ended.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

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
/* Addresses that are reserved, and chunks that are mapped to some of them. */
static struct range {
	uint64_t at;
	size_t length; /* 0: not in use */
} ranges[HANDLES_MAX], maps[HANDLES_MAX];

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
	return what->type == 1 && what->handle_types <= 1 &&
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

/* Where the caller wants it, if nothing is there; else anywhere. */
static char *reserve_at(uint64_t wanted, size_t length)
{
	void *at = MAP_FAILED;

	if (wanted && !(wanted % UNIT))
		at = mmap((void *)(uintptr_t)wanted, length, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				  MAP_FIXED_NOREPLACE,
			  -1, 0);
	return at == MAP_FAILED ? fake_cuda_reserve(length) : at;
}

static void add(struct range *list, uint64_t at, size_t length)
{
	int i = 0;

	while (i < HANDLES_MAX && list[i].length)
		i++;
	fake_cuda_need(i < HANDLES_MAX);
	list[i] = (struct range){at, length};
}

EXPORT int cuMemAddressReserve(CUdeviceptr *out, size_t length,
			       size_t alignment, CUdeviceptr wanted,
			       unsigned long long flags)
{
	int error = fake_cuda_enter("cuMemAddressReserve");

	if (error)
		return error;
	if (!length || length % UNIT || alignment > UNIT || flags)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*out = (uintptr_t)reserve_at(wanted, length);
	fake_cuda_need(*out);
	add(ranges, *out, length);
	return fake_cuda_leave(0);
}

/* The one that has all of the addresses; NULL: none does. With the lock. */
static struct range *range_with(uint64_t at, size_t length)
{
	for (int i = 0; i < HANDLES_MAX; i++)
		if (ranges[i].length && at >= ranges[i].at &&
		    at - ranges[i].at < ranges[i].length &&
		    length <= ranges[i].at + ranges[i].length - at)
			return &ranges[i];
	return NULL;
}

/* The first chunk that is mapped in the range; NULL: none is. */
static struct range *map_in(uint64_t at, size_t length)
{
	for (int i = 0; i < HANDLES_MAX; i++)
		if (maps[i].length && maps[i].at - at < length)
			return &maps[i];
	return NULL;
}

/* What is mapped has to be unmapped before. */
EXPORT int cuMemAddressFree(CUdeviceptr at, size_t length)
{
	int error = fake_cuda_enter("cuMemAddressFree");
	struct range *range;

	if (error)
		return error;
	range = range_with(at, length);
	if (!range || range->length != length || map_in(at, length))
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	range->length = 0;
	return fake_cuda_leave(0);
}

EXPORT int cuMemMap(CUdeviceptr at, size_t length, size_t offset,
		    CUmemGenericAllocationHandle number,
		    unsigned long long flags)
{
	int error = fake_cuda_enter("cuMemMap");
	const struct handle *handle;

	if (error)
		return error;
	handle = handle_of(number);
	if (!range_with(at, length) || map_in(at, length) || offset || flags ||
	    !handle || handle->length != length)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	fake_cuda_piece_map(at, length, handle->device);
	add(maps, at, length);
	return fake_cuda_leave(0);
}

EXPORT int cuMemUnmap(CUdeviceptr at, size_t length)
{
	int error = fake_cuda_enter("cuMemUnmap");
	struct range *map;

	if (error)
		return error;
	if (!map_in(at, length))
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	while ((map = map_in(at, length))) {
		fake_cuda_need(fake_cuda_piece_unmap(map->at, map->length));
		map->length = 0;
	}
	return fake_cuda_leave(0);
}

static bool may_access(const struct cuda_access *who)
{
	return who->location.type == 1 && who->flags == 3 &&
	       fake_cuda_device_of(who->location.id) >= 0;
}

EXPORT int cuMemSetAccess(CUdeviceptr at, size_t length,
			  const struct cuda_access *who, size_t n)
{
	int error = fake_cuda_enter("cuMemSetAccess");

	if (error)
		return error;
	for (size_t i = 0; i < n; i++)
		if (!may_access(&who[i]))
			return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (!n || !map_in(at, length))
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < HANDLES_MAX; i++)
		if (maps[i].length && maps[i].at - at < length)
			(void)fake_cuda_piece_open(maps[i].at, maps[i].length);
	return fake_cuda_leave(0);
}

void fake_cuda_chunks_reset(void)
{
	for (int i = 0; i < HANDLES_MAX; i++)
		fake_cuda_need(!handles[i].length && !ranges[i].length);
}
/* NOLINTEND(readability-identifier-naming) */
