/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - the fake driver's devices, contexts and memory */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/fake_cuda/private.h"

/* NOLINTBEGIN(readability-identifier-naming) */
#define EXPORT FAKE_CUDA_EXPORT

#define HUGE        ((size_t)2 << 20)
#define PIECES_MAX  256
#define STACK_MAX   8
#define POOL_HANDLE ((void *)(uintptr_t)0x9001)

/* What one call has allocated, or one chunk of a mapping. */
struct piece {
	uint64_t at, length; /* length 0: not in use */
	unsigned int type;   /* CU_MEMORYTYPE_* */
	int device;          /* of those that are there, not as counted */
	bool managed, chunked, pooled;
	char *bytes;       /* NULL: at the address itself */
	int fd;            /* of the bytes; where there are any */
	bool ordered;      /* SYNC_MEMOPS */
	bool closed;       /* no GPU may access it yet */
	uint64_t reserved; /* bytes of addresses; 0: with the first chunk */
	bool imported;
};

static struct piece pieces[PIECES_MAX];
static struct CUctx_st contexts[FAKE_CUDA_GPUS];
static int visible[FAKE_CUDA_GPUS], n_visible; /* as counted */
static bool started, ended;
static int inits, flushes;

static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;

static const char *const bus_ids[FAKE_CUDA_GPUS] = {
	"0000:1A:00.0", "0000:1B:00.0", "0000:3D:00.0", "0000:3E:00.0"};

/* ---- what is common to calls ---- */

/* Tells whether a call fails because of the context that it is made in. */
static bool is_broken(const char *function)
{
	return depth && stack[depth - 1]->broken &&
	       strncmp(function, "cuCtx", strlen("cuCtx")) != 0 &&
	       strncmp(function, "cuDevice", strlen("cuDevice")) != 0;
}

int fake_cuda_enter(const char *function)
{
	int error;

	fake_cuda_need(!fake_cuda_in_function());
	fake_cuda_lock();
	error = ended ? CUDA_ERROR_DEINITIALIZED : fake_cuda_fault_of(function);
	if (!error && !started)
		error = CUDA_ERROR_NOT_INITIALIZED;
	if (!error && is_broken(function))
		error = CUDA_ERROR_ILLEGAL_ADDRESS;
	if (error)
		(void)fake_cuda_leave(0);
	return error;
}

static struct piece *piece_at(uint64_t at)
{
	for (int i = 0; i < PIECES_MAX; i++)
		if (pieces[i].length && at >= pieces[i].at &&
		    at - pieces[i].at < pieces[i].length)
			return &pieces[i];
	return NULL;
}

CUcontext fake_cuda_context(void)
{
	return depth ? stack[depth - 1] : NULL;
}

void *fake_cuda_whole(CUdeviceptr at, size_t length)
{
	const struct piece *piece = piece_at(at);
	char *bytes = piece && !piece->closed && piece->bytes
			      ? piece->bytes + (at - piece->at)
			      : NULL;

	/* Of chunks side by side the bytes are so, too. */
	while (bytes && length > piece->at + piece->length - at) {
		length -= piece->at + piece->length - at;
		at = piece->at + piece->length;
		piece = piece->chunked ? piece_at(at) : NULL;
		if (!piece || !piece->chunked || piece->closed)
			bytes = NULL;
	}
	return bytes;
}

bool fake_cuda_is_pinned(CUdeviceptr at)
{
	const struct piece *piece = piece_at(at);

	return piece && piece->type == CU_MEMORYTYPE_HOST;
}

static struct piece *piece_new(void)
{
	for (int i = 0; i < PIECES_MAX; i++)
		if (!pieces[i].length)
			return &pieces[i];
	return NULL;
}

static int counted_as(int device)
{
	for (int i = 0; i < n_visible; i++)
		if (visible[i] == device)
			return i;
	return -1;
}

/* ---- devices ---- */

/* CUDA_VISIBLE_DEVICES: numbers, in the order in which they are counted. */
static void read_visible(void)
{
	const char *text = getenv("CUDA_VISIBLE_DEVICES");
	char *end;

	n_visible = 0;
	if (!text) {
		for (int i = 0; i < FAKE_CUDA_GPUS; i++)
			visible[n_visible++] = i;
		return;
	}
	while (n_visible < FAKE_CUDA_GPUS) {
		long number = strtol(text, &end, 10);

		if (end == text || number < 0 || number >= FAKE_CUDA_GPUS)
			return;
		visible[n_visible++] = (int)number;
		text = *end == ',' ? end + 1 : end;
	}
}

/* The process exits: from now on nothing works, and no copy ends. */
static void end_driver(void)
{
	fake_cuda_lock();
	ended = true;
	fake_cuda_changed();
	(void)fake_cuda_leave(0);
}

bool fake_cuda_has_ended(void)
{
	return ended;
}

EXPORT int cuInit(unsigned int flags)
{
	static bool ends;
	int error;

	fake_cuda_lock();
	if (!ends)
		fake_cuda_need(!atexit(end_driver));
	ends = true;
	inits++;
	error = flags ? CUDA_ERROR_INVALID_VALUE : fake_cuda_fault_of("cuInit");
	if (ended)
		error = CUDA_ERROR_DEINITIALIZED;
	if (!error && !started)
		read_visible();
	if (!error && !n_visible)
		error = CUDA_ERROR_NO_DEVICE;
	started = started || !error;
	return fake_cuda_leave(error);
}

EXPORT int cuGetErrorName(int error, const char **out)
{
	static const struct {
		int error;
		const char *name;
	} names[] = {
		{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
		{CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
	};

	*out = NULL;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].error == error)
			*out = names[i].name;
	return *out ? 0 : CUDA_ERROR_INVALID_VALUE;
}

EXPORT int cuDriverGetVersion(int *out)
{
	*out = 12040;
	return 0;
}

EXPORT int cuDeviceGetCount(int *out)
{
	int error = fake_cuda_enter("cuDeviceGetCount");

	if (error)
		return error;
	*out = n_visible;
	return fake_cuda_leave(0);
}

EXPORT int cuDeviceGet(CUdevice *out, int ordinal)
{
	int error = fake_cuda_enter("cuDeviceGet");

	if (error)
		return error;
	if (ordinal < 0 || ordinal >= n_visible)
		return fake_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	*out = ordinal;
	return fake_cuda_leave(0);
}

EXPORT int cuDeviceGetName(char *out, int len, CUdevice device)
{
	int error = fake_cuda_enter("cuDeviceGetName");

	if (error)
		return error;
	snprintf(out, (size_t)len, "Fake GPU %d", visible[device]);
	return fake_cuda_leave(0);
}

EXPORT int cuDeviceGetPCIBusId(char *out, int len, CUdevice device)
{
	int error = fake_cuda_enter("cuDeviceGetPCIBusId");

	if (error)
		return error;
	snprintf(out, (size_t)len, "%s", bus_ids[visible[device]]);
	return fake_cuda_leave(0);
}

/* Fails: the call by its name, or one attribute, whose value is then 0. */
EXPORT int cuDeviceGetAttribute(int *out, int attribute, CUdevice device)
{
	int error = fake_cuda_enter("cuDeviceGetAttribute");

	if (error)
		return error;
	if (device < 0 || device >= n_visible)
		return fake_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	*out = attribute == CUDA_HAS_CHUNKS ||
	       attribute == CUDA_GIVES_CHUNKS_TO_NICS;
	if (attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)
		*out = !fake_cuda_fault_of("CAN_USE_64_BIT_STREAM_MEM_OPS");
	else if (attribute ==
		 CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)
		*out = fake_cuda_fault_of("GPU_DIRECT_RDMA_WRITES_ORDERING")
			       ? 0
			       : CU_GPU_DIRECT_RDMA_WRITES_OWNER;
	return fake_cuda_leave(0);
}

EXPORT int cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	int error = fake_cuda_enter("cuFlushGPUDirectRDMAWrites");

	if (error)
		return error;
	if (target || scope != CU_FLUSH_WRITES_TO_OWNER || !depth)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	flushes++;
	return fake_cuda_leave(0);
}

/* ---- contexts ---- */

EXPORT int cuCtxGetCurrent(CUcontext *out)
{
	int error = fake_cuda_enter("cuCtxGetCurrent");

	if (error)
		return error;
	*out = fake_cuda_context();
	return fake_cuda_leave(0);
}

EXPORT int cuCtxGetDevice(CUdevice *out)
{
	int error = fake_cuda_enter("cuCtxGetDevice");

	if (error)
		return error;
	if (!depth)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	*out = counted_as(stack[depth - 1]->device);
	return fake_cuda_leave(0);
}

EXPORT int cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
	int error = fake_cuda_enter("cuDevicePrimaryCtxRetain");

	if (error)
		return error;
	if (device < 0 || device >= n_visible)
		return fake_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	*out = &contexts[visible[device]];
	(*out)->device = visible[device];
	(*out)->n_uses++;
	return fake_cuda_leave(0);
}

EXPORT int cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags,
				      int *active)
{
	int error = fake_cuda_enter("cuDevicePrimaryCtxGetState");

	if (error)
		return error;
	if (device < 0 || device >= n_visible)
		return fake_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	*flags = contexts[visible[device]].flags;
	*active = contexts[visible[device]].n_uses > 0;
	return fake_cuda_leave(0);
}

EXPORT int cuCtxGetFlags(unsigned int *out)
{
	int error = fake_cuda_enter("cuCtxGetFlags");

	if (error)
		return error;
	if (!depth)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	*out = stack[depth - 1]->flags;
	return fake_cuda_leave(0);
}

EXPORT int cuCtxSetFlags(unsigned int flags)
{
	int error = fake_cuda_enter("cuCtxSetFlags");

	if (error)
		return error;
	if (!depth)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	stack[depth - 1]->flags = flags;
	return fake_cuda_leave(0);
}

static void release(struct piece *piece);

/* Frees what could not be freed in a context that is broken. */
static void end_context(CUcontext context)
{
	fake_cuda_copies_drop(context);
	for (int i = 0; i < PIECES_MAX; i++)
		if (pieces[i].length && pieces[i].reserved &&
		    pieces[i].type == CU_MEMORYTYPE_HOST &&
		    pieces[i].device == context->device)
			release(&pieces[i]);
	context->broken = false;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	int error = fake_cuda_enter("cuDevicePrimaryCtxRelease");
	CUcontext context;

	if (error)
		return error;
	if (device < 0 || device >= n_visible ||
	    !contexts[visible[device]].n_uses)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	context = &contexts[visible[device]];
	if (!--context->n_uses && context->broken)
		end_context(context);
	return fake_cuda_leave(0);
}

EXPORT int cuCtxPushCurrent_v2(CUcontext context)
{
	int error = fake_cuda_enter("cuCtxPushCurrent");

	if (error)
		return error;
	if (!context || !context->n_uses || depth == STACK_MAX)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	stack[depth++] = context;
	return fake_cuda_leave(0);
}

EXPORT int cuCtxPopCurrent_v2(CUcontext *out)
{
	int error = fake_cuda_enter("cuCtxPopCurrent");

	if (error)
		return error;
	if (!depth)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	*out = stack[--depth];
	return fake_cuda_leave(0);
}

/* ---- memory ---- */

/* Addresses that begin at a huge page; without access. NULL: none. */
static char *reserve(size_t length)
{
	char *at = mmap(NULL, length + HUGE, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t head;

	if (at == MAP_FAILED)
		return NULL;
	head = -(uintptr_t)at & (HUGE - 1);
	if (head)
		munmap(at, head);
	munmap(at + head + length, HUGE - head);
	return at + head;
}

static size_t whole_pages(size_t length)
{
	return (length + 4095) & ~(size_t)4095;
}

static void *map_host(size_t length)
{
	void *at = mmap(NULL, length, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* A file that a NIC can have, too. NULL: none. */
static void *map_bytes(size_t length, int *fd)
{
	void *at;

	*fd = memfd_create("fake-gpu", MFD_CLOEXEC);
	fake_cuda_need(*fd >= 0 && !ftruncate(*fd, (off_t)length));
	at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return at == MAP_FAILED ? NULL : at;
}

/*
 * Whoever has imported the bytes has a lock of their file, as long as its
 * process lives.
 */
bool fake_cuda_lock_file(int fd, short type)
{
	struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};

	return !fcntl(fd, F_OFD_SETLK, &range);
}

/* The device that the environment says is full, for drivers of other programs. */
static bool is_full(int device)
{
	const char *full = getenv("FAKE_CUDA_FULL");

	return full && atoi(full) == device;
}

/* Memory of a device, its bytes elsewhere. With the lock. */
static int alloc_device(int device, size_t size, CUdeviceptr *out,
			struct piece **made)
{
	struct piece *piece = piece_new();
	size_t length = whole_pages(size);
	char *at;

	if (!size)
		return CUDA_ERROR_INVALID_VALUE;
	at = piece && !is_full(device) ? reserve(length) : NULL;
	if (!at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*piece = (struct piece){.at = (uintptr_t)at,
				.length = size,
				.type = CU_MEMORYTYPE_DEVICE,
				.device = device,
				.reserved = length};
	piece->bytes = map_bytes(length, &piece->fd);
	if (!piece->bytes) {
		munmap(at, length);
		piece->length = 0;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = piece->at;
	*made = piece;
	return 0;
}

EXPORT int cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
	int error = fake_cuda_enter("cuMemAlloc");
	struct piece *piece;

	if (error)
		return error;
	if (!depth)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	return fake_cuda_leave(
		alloc_device(stack[depth - 1]->device, size, out, &piece));
}

/* The driver keeps addresses of a GPU for itself: nobody else gets them. */
static void release(struct piece *piece)
{
	fake_cuda_need_quiet(piece->at, piece->length);
	if (piece->bytes) {
		/* Other processes must have closed it before it is freed. */
		fake_cuda_need(piece->imported || piece->chunked ||
			       fake_cuda_lock_file(piece->fd, F_WRLCK));
		if (piece->chunked) /* its place is kept for another one */
			(void)mmap(piece->bytes, piece->length, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
				   0);
		else
			munmap(piece->bytes, whole_pages(piece->length));
		(void)close(piece->fd);
	} else if (piece->reserved) {
		munmap((void *)(uintptr_t)piece->at, piece->reserved);
	}
	piece->length = 0;
}

bool fake_cuda_share(CUdeviceptr at, struct fake_cuda_shared *out)
{
	const struct piece *piece = piece_at(at);

	if (!piece || piece->at != at || !piece->bytes || piece->chunked ||
	    piece->pooled || piece->imported)
		return false;
	*out = (struct fake_cuda_shared){.pid = getpid(),
					 .fd = piece->fd,
					 .device = piece->device,
					 .length = piece->length};
	return true;
}

CUdeviceptr fake_cuda_import(const struct fake_cuda_shared *shared)
{
	size_t length = whole_pages(shared->length);
	struct piece *piece = piece_new();
	char path[64], *at = reserve(length);

	fake_cuda_need(piece && at);
	*piece = (struct piece){.at = (uintptr_t)at,
				.length = shared->length,
				.type = CU_MEMORYTYPE_DEVICE,
				.device = shared->device,
				.imported = true,
				.reserved = length};
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", shared->pid, shared->fd);
	piece->fd = open(path, O_RDWR | O_CLOEXEC);
	if (piece->fd >= 0)
		piece->bytes = mmap(NULL, length, PROT_READ | PROT_WRITE,
				    MAP_SHARED, piece->fd, 0);
	if (piece->fd < 0 || piece->bytes == MAP_FAILED) {
		munmap(at, length);
		piece->length = 0;
		return 0;
	}
	fake_cuda_need(fake_cuda_lock_file(piece->fd, F_RDLCK));
	return piece->at;
}

bool fake_cuda_drop_import(CUdeviceptr at)
{
	struct piece *piece = piece_at(at);

	if (!piece || piece->at != at || !piece->imported)
		return false;
	release(piece);
	return true;
}

EXPORT int cuMemFree_v2(CUdeviceptr at)
{
	int error = fake_cuda_enter("cuMemFree");
	struct piece *piece;

	if (error)
		return error;
	piece = piece_at(at);
	if (!piece || piece->at != at || piece->chunked || piece->imported)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	release(piece);
	return fake_cuda_leave(0);
}

/* Memory of the host that the driver knows. With the lock. */
static int alloc_host(size_t size, const struct piece *like, void **out)
{
	struct piece *piece = piece_new();
	void *at = piece && size ? map_host(whole_pages(size)) : NULL;

	if (!at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*piece = *like;
	piece->at = (uintptr_t)at;
	piece->length = size;
	piece->reserved = whole_pages(size);
	*out = at;
	return 0;
}

EXPORT int cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned int flags)
{
	struct piece like = {.type = CU_MEMORYTYPE_DEVICE, .managed = true};
	int error = fake_cuda_enter("cuMemAllocManaged");
	void *at;

	(void)flags;
	if (error)
		return error;
	if (!depth)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	like.device = stack[depth - 1]->device;
	error = alloc_host(size, &like, &at);
	if (!error)
		*out = (uintptr_t)at;
	return fake_cuda_leave(error);
}

EXPORT int cuMemHostAlloc(void **out, size_t size, unsigned int flags)
{
	struct piece like = {.type = CU_MEMORYTYPE_HOST};
	int error = fake_cuda_enter("cuMemHostAlloc");

	(void)flags;
	if (error)
		return error;
	if (depth)
		like.device = stack[depth - 1]->device;
	return fake_cuda_leave(alloc_host(size, &like, out));
}

EXPORT int cuMemFreeHost(void *at)
{
	return cuMemFree_v2((uintptr_t)at);
}

EXPORT int cuMemHostRegister_v2(void *at, size_t size, unsigned int flags)
{
	int error = fake_cuda_enter("cuMemHostRegister");
	struct piece *piece;

	(void)flags;
	if (error)
		return error;
	if (!depth)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	piece = piece_new();
	fake_cuda_need(piece && size);
	*piece = (struct piece){.at = (uintptr_t)at,
				.length = size,
				.device = stack[depth - 1]->device,
				.type = CU_MEMORYTYPE_HOST};
	return fake_cuda_leave(0);
}

EXPORT int cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *at,
					unsigned int flags)
{
	int error = fake_cuda_enter("cuMemHostGetDevicePointer");

	if (error)
		return error;
	if (flags || !fake_cuda_is_pinned((uintptr_t)at))
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*out = (uintptr_t)at;
	return fake_cuda_leave(0);
}

/*
 * In the context where it was registered: no driver promises more. The memory
 * must be mapped still.
 */
EXPORT int cuMemHostUnregister(void *at)
{
	int error = fake_cuda_enter("cuMemHostUnregister");
	const struct piece *piece;

	if (error)
		return error;
	piece = piece_at((uintptr_t)at);
	if (!piece || !depth || stack[depth - 1]->device != piece->device)
		error = CUDA_ERROR_INVALID_CONTEXT;
	else
		(void)*(volatile char *)at;
	(void)fake_cuda_leave(0);
	return error ? error : cuMemFree_v2((uintptr_t)at);
}

/* With the lock. */
static int alloc_pooled(int device, CUdeviceptr *out, size_t size)
{
	struct piece *piece;
	int error = alloc_device(device, size, out, &piece);

	if (!error)
		piece->pooled = true;
	return error;
}

/* At once, though a stream may have it later. */
EXPORT int cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream stream)
{
	int error = fake_cuda_enter("cuMemAllocAsync");

	(void)stream;
	if (error)
		return error;
	if (!depth)
		return fake_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	return fake_cuda_leave(
		alloc_pooled(stack[depth - 1]->device, out, size));
}

EXPORT int cuMemFreeAsync(CUdeviceptr at, CUstream stream)
{
	(void)stream;
	return cuMemFree_v2(at);
}

EXPORT int fake_cuda_pool_alloc(int device, CUdeviceptr *out, size_t size)
{
	int error = fake_cuda_enter("cuMemAllocAsync");

	return error ? error
		     : fake_cuda_leave(
			       alloc_pooled(visible[device], out, size));
}

char *fake_cuda_reserve(size_t length)
{
	return reserve(length);
}

int fake_cuda_device_of(int ordinal)
{
	return ordinal >= 0 && ordinal < n_visible ? visible[ordinal] : -1;
}

int fake_cuda_counted_as(int device)
{
	return counted_as(device);
}

bool fake_cuda_piece_map(uint64_t at, size_t length, int device, int fd,
			 char *bytes)
{
	struct piece *piece = piece_new();
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	fake_cuda_need(piece && !piece_at(at));
	if (own < 0)
		return false;
	*piece = (struct piece){.at = at,
				.length = length,
				.type = CU_MEMORYTYPE_DEVICE,
				.device = device,
				.chunked = true,
				.closed = true,
				.fd = own};
	piece->bytes = mmap(bytes, length, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_FIXED, own, 0);
	fake_cuda_need(piece->bytes == bytes);
	return true;
}

bool fake_cuda_piece_open(uint64_t at, size_t length)
{
	struct piece *piece = piece_at(at);

	if (!piece || piece->at != at || piece->length != length)
		return false;
	piece->closed = false;
	return true;
}

bool fake_cuda_piece_unmap(uint64_t at, size_t length)
{
	struct piece *piece = piece_at(at);

	if (!piece || piece->at != at || piece->length != length ||
	    !piece->chunked)
		return false;
	release(piece);
	return true;
}

/* One attribute of memory that is there, @piece, or is not: zero. */
static int attribute(const struct piece *piece, int which, void *out)
{
	switch (which) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)out = piece && !piece->chunked && !piece->pooled
					    ? &contexts[piece->device]
					    : NULL;
		return 0;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)out = piece ? piece->type : 0;
		return 0;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned int *)out = piece && piece->managed;
		return 0;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)out = piece ? counted_as(piece->device) : -2;
		return 0;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)out = piece ? piece->at : 0;
		return 0;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)out = piece ? piece->length : 0;
		return 0;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(void **)out = piece && piece->pooled ? POOL_HANDLE : NULL;
		return fake_cuda_fault_of(
			"CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE");
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

EXPORT int cuPointerGetAttributes(unsigned int n, int *attributes, void **data,
				  CUdeviceptr ptr)
{
	int error = fake_cuda_enter("cuPointerGetAttributes");

	if (error)
		return error;
	for (unsigned int i = 0; i < n && !error; i++)
		error = attribute(piece_at(ptr), attributes[i], data[i]);
	return fake_cuda_leave(error);
}

EXPORT int cuPointerSetAttribute(const void *value, int which, CUdeviceptr at)
{
	int error = fake_cuda_enter("cuPointerSetAttribute");
	struct piece *piece;

	if (error)
		return error;
	piece = piece_at(at);
	if (!piece || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
	    piece->chunked || piece->pooled || !depth)
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	piece->ordered = *(const unsigned int *)value;
	return fake_cuda_leave(0);
}

/* ---- dma-bufs ---- */

/*
 * The place of the descriptor says where the range begins in its file. Several
 * chunks are refused, as some drivers do.
 */
EXPORT int cuMemGetHandleForAddressRange(void *handle, CUdeviceptr at,
					 size_t length, int type,
					 unsigned long long flags)
{
	int error = fake_cuda_enter("cuMemGetHandleForAddressRange");
	struct piece *piece;
	char path[64];
	int fd;

	if (error)
		return error;
	piece = piece_at(at);
	if (!piece || !piece->bytes || flags || at % 4096 || length % 4096 ||
	    type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
	    at + length > piece->at + whole_pages(piece->length))
		return fake_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", piece->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	fake_cuda_need(fd >= 0 &&
		       lseek(fd, (off_t)(at - piece->at), SEEK_SET) >= 0);
	*(int *)handle = fd;
	return fake_cuda_leave(0);
}

/* ---- what tests ask ---- */

EXPORT int fake_cuda_is_ordered(CUdeviceptr at)
{
	const struct piece *piece;

	fake_cuda_lock();
	piece = piece_at(at);
	return fake_cuda_leave(
		piece && (piece->ordered ||
			  contexts[piece->device].flags & CU_CTX_SYNC_MEMOPS));
}

EXPORT void *fake_cuda_bytes(CUdeviceptr at)
{
	struct piece *piece;
	char *bytes = NULL;

	fake_cuda_lock();
	piece = piece_at(at);
	if (piece)
		bytes = (piece->bytes ? piece->bytes
				      : (char *)(uintptr_t)piece->at) +
			(at - piece->at);
	(void)fake_cuda_leave(0);
	return bytes;
}

/* Memory that was registered has no addresses of ours. */
EXPORT uint64_t fake_cuda_pinned(void)
{
	uint64_t sum = 0;

	fake_cuda_lock();
	for (int i = 0; i < PIECES_MAX; i++)
		if (pieces[i].type == CU_MEMORYTYPE_HOST && !pieces[i].reserved)
			sum += pieces[i].length;
	(void)fake_cuda_leave(0);
	return sum;
}

EXPORT void fake_cuda_break_context(int device)
{
	fake_cuda_lock();
	fake_cuda_need(contexts[device].n_uses);
	contexts[device].broken = true;
	fake_cuda_changed();
	(void)fake_cuda_leave(0);
}

EXPORT void fake_cuda_reset(void)
{
	fake_cuda_lock();
	for (int i = 0; i < PIECES_MAX; i++)
		fake_cuda_need(!pieces[i].length);
	for (int i = 0; i < FAKE_CUDA_GPUS; i++) {
		fake_cuda_need(!contexts[i].n_uses);
		contexts[i].flags = 0;
	}
	fake_cuda_copies_reset();
	fake_cuda_chunks_reset();
	fake_cuda_faults_reset();
	started = false;
	n_visible = inits = flushes = 0;
	(void)fake_cuda_leave(0);
}

EXPORT int fake_cuda_n_inits(void)
{
	fake_cuda_lock();
	return fake_cuda_leave(inits);
}

EXPORT int fake_cuda_n_flushes(void)
{
	fake_cuda_lock();
	return fake_cuda_leave(flushes);
}

EXPORT int fake_cuda_n_contexts(void)
{
	int n = 0;

	fake_cuda_lock();
	for (int i = 0; i < FAKE_CUDA_GPUS; i++)
		n += contexts[i].n_uses > 0;
	return fake_cuda_leave(n);
}
/* NOLINTEND(readability-identifier-naming) */
