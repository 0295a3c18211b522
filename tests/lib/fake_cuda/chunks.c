/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunks.c - the fake driver's virtual memory: created, then mapped to addresses
 *
 * Memory is a file, which counts until its last handle is released and its last
 * mapping has ended. Exporting gives a descriptor of that file; who imports it
 * has a lock of it, so that its owner cannot free what another process has.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/fake_cuda/private.h"

/* NOLINTBEGIN(readability-identifier-naming) */
#define EXPORT FAKE_CUDA_EXPORT

#define UNIT             ((size_t)2 << 20)
#define HANDLES_MAX      256
#define FIRST_HANDLE     100000u
#define OPERATING_SYSTEM 304 /* CUDA_ERROR_OPERATING_SYSTEM */
#define FILE_NAME        "fake-gpu-chunk-"

static struct handle {
	size_t length; /* 0: not in use */
	int device, types, fd;
	unsigned int n_refs, n_maps;
	bool imported;
} handles[HANDLES_MAX];
/* Addresses that are reserved. */
static struct range {
	uint64_t at;
	size_t length; /* 0: not in use */
	char *bytes;   /* bytes[length], of what is mapped there */
} ranges[HANDLES_MAX];
/* Chunks that are mapped to some of them. */
static struct map {
	uint64_t at;
	size_t length; /* 0: not in use */
	struct handle *handle;
} maps[HANDLES_MAX];
static bool hidden; /* chunks of map_chunks() cannot be exported */

static struct handle *handle_of(CUmemGenericAllocationHandle number)
{
	struct handle *handle;

	if (number < FIRST_HANDLE || number >= FIRST_HANDLE + HANDLES_MAX)
		return NULL;
	handle = &handles[number - FIRST_HANDLE];
	return handle->n_refs ? handle : NULL;
}

static CUmemGenericAllocationHandle number_of(const struct handle *handle)
{
	return FIRST_HANDLE + (unsigned int)(handle - handles);
}

static struct handle *handle_new(void)
{
	int i = 0;

	while (i < HANDLES_MAX && handles[i].length)
		i++;
	fake_cuda_need(i < HANDLES_MAX);
	return &handles[i];
}

static struct handle *create(size_t length, int device, int types)
{
	struct handle *handle = handle_new();
	char name[32];
	int fd;

	(void)snprintf(name, sizeof(name), FILE_NAME "%d", device);
	fd = memfd_create(name, MFD_CLOEXEC);
	fake_cuda_need(fd >= 0 && !ftruncate(fd, (off_t)length));
	*handle = (struct handle){.length = length,
				  .device = device,
				  .types = types,
				  .fd = fd,
				  .n_refs = 1};
	return handle;
}

/* A chunk that is mapped in the range; NULL: none is. */
static struct map *map_in(uint64_t at, size_t length)
{
	for (int i = 0; i < HANDLES_MAX; i++)
		if (maps[i].length && maps[i].at - at < length)
			return &maps[i];
	return NULL;
}

/* The chunk that has the byte; NULL: none does. */
static const struct map *map_at(uint64_t at)
{
	for (int i = 0; i < HANDLES_MAX; i++)
		if (maps[i].length && at >= maps[i].at &&
		    at - maps[i].at < maps[i].length)
			return &maps[i];
	return NULL;
}

/* Frees what nothing names any more. */
static void settle(struct handle *handle)
{
	if (handle->n_refs || handle->n_maps)
		return;
	fake_cuda_need(handle->imported ||
		       fake_cuda_lock_file(handle->fd, F_WRLCK));
	(void)close(handle->fd);
	handle->length = 0;
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

	if (error)
		return error;
	if (!is_of_a_gpu(what) || !length || length % UNIT || flags)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*out = number_of(create(length, fake_cuda_device_of(what->location.id),
				what->handle_types));
	return fake_cuda_leave(0);
}

EXPORT int cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out,
				       void *at)
{
	int error = fake_cuda_enter("cuMemRetainAllocationHandle");
	const struct map *map;

	if (error)
		return error;
	map = map_at((uintptr_t)at);
	if (!map)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	map->handle->n_refs++;
	*out = number_of(map->handle);
	return fake_cuda_leave(0);
}

EXPORT int cuMemRelease(CUmemGenericAllocationHandle number)
{
	int error = fake_cuda_enter("cuMemRelease");
	struct handle *handle;

	if (error)
		return error;
	handle = handle_of(number);
	if (!handle)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	handle->n_refs--;
	settle(handle);
	return fake_cuda_leave(0);
}

EXPORT int
cuMemGetAllocationPropertiesFromHandle(struct cuda_allocation *out,
				       CUmemGenericAllocationHandle number)
{
	int error = fake_cuda_enter("cuMemGetAllocationPropertiesFromHandle");
	const struct handle *handle;

	if (error)
		return error;
	handle = handle_of(number);
	if (!handle)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*out = (struct cuda_allocation){
		.type = 1,
		.handle_types = handle->types,
		.location = {1, fake_cuda_counted_as(handle->device)}};
	return fake_cuda_leave(0);
}

/* Opens the file anew: locks belong to who has opened it. */
static int open_again(int fd)
{
	char path[40];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

EXPORT int cuMemExportToShareableHandle(void *out,
					CUmemGenericAllocationHandle number,
					int type, unsigned long long flags)
{
	int error = fake_cuda_enter("cuMemExportToShareableHandle"), fd;
	const struct handle *handle;

	if (error)
		return error;
	handle = handle_of(number);
	if (!handle || type != 1 || !(handle->types & type) || flags)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	fd = open_again(handle->fd);
	if (fd < 0)
		return fake_cuda_leave(OPERATING_SYSTEM);
	memcpy(out, &fd, sizeof(fd));
	return fake_cuda_leave(0);
}

/* The device that the file of a chunk is of; -1: it is of none. */
static int device_of_file(int fd)
{
	static const char start[] = "/memfd:" FILE_NAME;
	char path[40], name[64] = "";

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) < 0 ||
	    strncmp(name, start, sizeof(start) - 1))
		return -1;
	return name[sizeof(start) - 1] - '0';
}

EXPORT int cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out,
					  void *os_handle, int type)
{
	int error = fake_cuda_enter("cuMemImportFromShareableHandle");
	int fd = (int)(intptr_t)os_handle, device, own;
	struct handle *handle;
	struct stat st;

	if (error)
		return error;
	device = device_of_file(fd);
	if (type != 1 || device < 0 || fstat(fd, &st))
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (fake_cuda_counted_as(device) < 0)
		return fake_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	own = open_again(fd);
	if (own < 0)
		return fake_cuda_leave(OPERATING_SYSTEM);
	fake_cuda_need(fake_cuda_lock_file(own, F_RDLCK));
	handle = handle_new();
	*handle = (struct handle){.length = (size_t)st.st_size,
				  .device = device,
				  .types = 1,
				  .fd = own,
				  .n_refs = 1,
				  .imported = true};
	*out = number_of(handle);
	return fake_cuda_leave(0);
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

static void add_range(uint64_t at, size_t length)
{
	int i = 0;

	while (i < HANDLES_MAX && ranges[i].length)
		i++;
	fake_cuda_need(i < HANDLES_MAX);
	ranges[i] = (struct range){
		at, length,
		mmap(NULL, length, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)};
	fake_cuda_need(ranges[i].bytes != MAP_FAILED);
}

static void end_range(struct range *range)
{
	munmap(range->bytes, range->length);
	range->length = 0;
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

static bool add_map(uint64_t at, struct handle *handle)
{
	const struct range *range = range_with(at, handle->length);
	int i = 0;

	while (i < HANDLES_MAX && maps[i].length)
		i++;
	fake_cuda_need(range && i < HANDLES_MAX);
	if (!fake_cuda_piece_map(at, handle->length, handle->device, handle->fd,
				 range->bytes + (at - range->at)))
		return false;
	maps[i] = (struct map){at, handle->length, handle};
	handle->n_maps++;
	return true;
}

static void end_map(struct map *map)
{
	fake_cuda_need(fake_cuda_piece_unmap(map->at, map->length));
	map->length = 0;
	map->handle->n_maps--;
	settle(map->handle);
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
	add_range(*out, length);
	return fake_cuda_leave(0);
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
	end_range(range);
	return fake_cuda_leave(0);
}

EXPORT int cuMemMap(CUdeviceptr at, size_t length, size_t offset,
		    CUmemGenericAllocationHandle number,
		    unsigned long long flags)
{
	int error = fake_cuda_enter("cuMemMap");
	struct handle *handle;

	if (error)
		return error;
	handle = handle_of(number);
	if (!range_with(at, length) || map_in(at, length) || offset || flags ||
	    !handle || handle->length != length)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	return fake_cuda_leave(add_map(at, handle) ? 0 : OPERATING_SYSTEM);
}

EXPORT int cuMemUnmap(CUdeviceptr at, size_t length)
{
	int error = fake_cuda_enter("cuMemUnmap");
	size_t sum = 0;
	struct map *map;

	if (error)
		return error;
	for (int i = 0; i < HANDLES_MAX; i++)
		if (maps[i].length && maps[i].at - at < length)
			sum += maps[i].length;
	if (!length || sum != length) /* whole chunks, side by side */
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	while ((map = map_in(at, length)))
		end_map(map);
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

/* ---- for tests ---- */

EXPORT int fake_cuda_map_chunks(int device, size_t size, unsigned int n,
				CUdeviceptr *out)
{
	int error = fake_cuda_enter("cuMemMap");
	uint64_t at;

	if (error)
		return error;
	at = (uintptr_t)fake_cuda_reserve(size * n);
	fake_cuda_need(at);
	add_range(at, size * n);
	for (unsigned int i = 0; i < n; i++) {
		struct handle *handle =
			create(size, fake_cuda_device_of(device), !hidden);

		fake_cuda_need(add_map(at + i * size, handle));
		(void)fake_cuda_piece_open(at + i * size, size);
		handle->n_refs--; /* the mapping keeps it */
	}
	*out = at;
	return fake_cuda_leave(0);
}

EXPORT int fake_cuda_unmap_chunks(CUdeviceptr at)
{
	int error = fake_cuda_enter("cuMemUnmap");
	struct range *range;
	struct map *map;

	if (error)
		return error;
	range = range_with(at, 1);
	if (!range || range->at != at)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	while ((map = map_in(at, range->length)))
		end_map(map);
	end_range(range);
	return fake_cuda_leave(0);
}

EXPORT void fake_cuda_hide_chunks(bool hide)
{
	fake_cuda_lock();
	hidden = hide;
	(void)fake_cuda_leave(0);
}

EXPORT int fake_cuda_n_imported(void)
{
	int n = 0;

	fake_cuda_lock();
	for (int i = 0; i < HANDLES_MAX; i++)
		n += handles[i].length && handles[i].imported;
	return fake_cuda_leave(n);
}

void fake_cuda_chunks_reset(void)
{
	hidden = false;
	for (int i = 0; i < HANDLES_MAX; i++)
		fake_cuda_need(!handles[i].length && !ranges[i].length &&
			       !maps[i].length);
}
/* NOLINTEND(readability-identifier-naming) */
