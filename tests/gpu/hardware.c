/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hardware.c - what te-perf does not measure of a GPU; tests/gpu/run starts it
 *
 * hardware BYTES: memory of each kind is moved by engines and compared, bad
 * pointers are refused, contexts are counted, and the driver's own copies are
 * measured. It needs the driver alone: TE_CUDA_LIBRARY, else libcuda.so.1. A line
 * for each finding: verdict, name, figure and what is to be said, with tabs between.
 * Verdicts: ok, wrong, none (this host has no such thing), fact. Exit code 77: there
 * is no GPU.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <te/te.h>

#include "base/clock.h"
#include "te/device/cuda.h"

#define WAIT_MS 60000
#define ANY     (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)
#define BLOCK   ((size_t)16384)
#define BLOCKS  128u
#define CHUNK   ((size_t)2 << 20) /* all are multiples of it */
#define GPUS    64                /* more are not counted */

/* CUmemAllocationProp, CUmemAccessDesc: memory of a device, to read and write */
struct place {
	int type, id;
};
struct chunk_kind {
	int type, handle_types;
	struct place place;
	void *security;
	unsigned char flags[8];
};
struct chunk_access {
	struct place place;
	int flags;
};
#define PINNED     1
#define ON_DEVICE  1
#define READ_WRITE 3

static struct {
	int (*init)(unsigned int flags);
	int (*error_name)(int error, const char **out);
	int (*version)(int *out);
	int (*count)(int *out);
	int (*get)(CUdevice *out, int number);
	int (*name)(char *out, int len, CUdevice device);
	int (*state)(CUdevice device, unsigned int *flags, int *active);
	int (*retain)(CUcontext *out, CUdevice device);
	int (*release)(CUdevice device);
	int (*push)(CUcontext context);
	int (*pop)(CUcontext *out);
	int (*alloc)(CUdeviceptr *out, size_t size);
	int (*free)(CUdeviceptr at);
	int (*alloc_host)(void **out, size_t size, unsigned int flags);
	int (*free_host)(void *at);
	int (*stream)(CUstream *out, unsigned int flags);
	int (*stream_destroy)(CUstream stream);
	int (*await)(CUstream stream);
	int (*out)(void *to, CUdeviceptr from, size_t length, CUstream stream);
	int (*in)(CUdeviceptr to, const void *from, size_t length,
		  CUstream stream);
	/* These may be missing, and are NULL then. */
	int (*within)(CUdeviceptr to, CUdeviceptr from, size_t length,
		      CUstream stream);
	int (*pool_alloc)(CUdeviceptr *out, size_t size, CUstream stream);
	int (*pool_free)(CUdeviceptr at, CUstream stream);
	int (*granularity)(size_t *out, const struct chunk_kind *kind,
			   int option);
	int (*reserve)(CUdeviceptr *out, size_t size, size_t alignment,
		       CUdeviceptr wanted, unsigned long long flags);
	int (*unreserve)(CUdeviceptr at, size_t size);
	int (*create)(CUmemGenericAllocationHandle *out, size_t size,
		      const struct chunk_kind *kind, unsigned long long flags);
	int (*drop)(CUmemGenericAllocationHandle handle);
	int (*map)(CUdeviceptr at, size_t size, size_t offset,
		   CUmemGenericAllocationHandle handle,
		   unsigned long long flags);
	int (*unmap)(CUdeviceptr at, size_t size);
	int (*set_access)(CUdeviceptr at, size_t size,
			  const struct chunk_access *access, size_t n);
	int (*export)(void *handle, CUdeviceptr at, size_t length, int type,
		      unsigned long long flags);
} cu;

#define ROW(member_, name_)                        \
	{                                          \
		(void **)&cu.member_, name_, false \
	}
#define ROW_IF_ANY(member_, name_)                \
	{                                         \
		(void **)&cu.member_, name_, true \
	}

static const struct {
	void **at;
	const char *name;
	bool optional;
} rows[] = {
	ROW(init, "cuInit"),
	ROW(error_name, "cuGetErrorName"),
	ROW_IF_ANY(version, "cuDriverGetVersion"),
	ROW(count, "cuDeviceGetCount"),
	ROW(get, "cuDeviceGet"),
	ROW(name, "cuDeviceGetName"),
	ROW(state, "cuDevicePrimaryCtxGetState"),
	ROW(retain, "cuDevicePrimaryCtxRetain"),
	ROW(release, "cuDevicePrimaryCtxRelease_v2"),
	ROW(push, "cuCtxPushCurrent_v2"),
	ROW(pop, "cuCtxPopCurrent_v2"),
	ROW(alloc, "cuMemAlloc_v2"),
	ROW(free, "cuMemFree_v2"),
	ROW(alloc_host, "cuMemHostAlloc"),
	ROW(free_host, "cuMemFreeHost"),
	ROW(stream, "cuStreamCreate"),
	ROW(stream_destroy, "cuStreamDestroy_v2"),
	ROW(await, "cuStreamSynchronize"),
	ROW(out, "cuMemcpyDtoHAsync_v2"),
	ROW(in, "cuMemcpyHtoDAsync_v2"),
	ROW_IF_ANY(within, "cuMemcpyDtoDAsync_v2"),
	ROW_IF_ANY(pool_alloc, "cuMemAllocAsync"),
	ROW_IF_ANY(pool_free, "cuMemFreeAsync"),
	ROW_IF_ANY(granularity, "cuMemGetAllocationGranularity"),
	ROW_IF_ANY(reserve, "cuMemAddressReserve"),
	ROW_IF_ANY(unreserve, "cuMemAddressFree"),
	ROW_IF_ANY(create, "cuMemCreate"),
	ROW_IF_ANY(drop, "cuMemRelease"),
	ROW_IF_ANY(map, "cuMemMap"),
	ROW_IF_ANY(unmap, "cuMemUnmap"),
	ROW_IF_ANY(set_access, "cuMemSetAccess"),
	ROW_IF_ANY(export, "cuMemGetHandleForAddressRange"),
};

static int n_wrong;
static size_t size;     /* bytes of each test */
static CUstream stream; /* of cuda:0 */
static uint8_t *pinned; /* pinned[size] of the host, of the driver */
static uint8_t *there;  /* there[size] of the host, which the owner lends */
static struct te_engine *owner, *user;
static te_segment_id segment; /* the owner's, for the user */

/* ---- what is reported ---- */

__attribute__((format(printf, 4, 5))) static void say(const char *verdict,
						      const char *name,
						      double figure,
						      const char *format, ...)
{
	va_list args;

	printf("%s\t%s\t%.3f\t", verdict, name, figure);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	n_wrong += !strcmp(verdict, "wrong");
}

static const char *name_of(int error)
{
	const char *name = NULL;

	if (cu.error_name(error, &name) || !name)
		name = "an error without a name";
	return name;
}

/* Ends the program: what everything else needs has failed. */
static void need(int error, const char *what)
{
	if (!error)
		return;
	say("wrong", what, 0, "%s (%d)",
	    error > 0 ? name_of(error) : strerror(-error), error);
	exit(1);
}

static void judge(bool good, const char *name, const char *what)
{
	say(good ? "ok" : "wrong", name, 0, "%s", what);
}

/* ---- the driver ---- */

static bool load(void)
{
	const char *file = getenv("TE_CUDA_LIBRARY");
	void *library = dlopen(file && *file ? file : "libcuda.so.1",
			       RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		printf("no driver of a GPU: %s\n", dlerror());
		return false;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		void *symbol = dlsym(library, rows[i].name);

		if (!symbol && !rows[i].optional) {
			printf("the driver has no %s()\n", rows[i].name);
			return false;
		}
		memcpy(rows[i].at, &symbol, sizeof(symbol));
	}
	return true;
}

static int count_gpus(void)
{
	int n = 0;

	need(cu.count(&n), "cuDeviceGetCount");
	return n < GPUS ? n : GPUS;
}

/* How many GPUs have a primary context in this process. */
static int count_contexts(void)
{
	int n = 0, active;
	unsigned int flags;
	CUdevice device;

	for (int i = 0; i < count_gpus(); i++) {
		need(cu.get(&device, i), "cuDeviceGet");
		need(cu.state(device, &flags, &active), "primary context");
		n += active;
	}
	return n;
}

static void name_gpus(void)
{
	CUdevice device;
	int version = 0;
	char name[128];

	for (int i = 0; i < count_gpus(); i++) {
		need(cu.get(&device, i), "cuDeviceGet");
		need(cu.name(name, sizeof(name), device), "cuDeviceGetName");
		say("fact", "gpu", i, "%s", name);
	}
	if (cu.version && !cu.version(&version))
		say("fact", "driver", 0, "CUDA %d.%d", version / 1000,
		    version % 1000 / 10);
}

/* ---- bytes ---- */

static void fill(uint8_t *bytes, unsigned int seed)
{
	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		uint64_t word = (i + seed) * 0x9e3779b97f4a7c15;

		memcpy(bytes + i, &word, sizeof(word));
	}
}

enum way { OUT, IN, WITHIN };

static int copy_once(enum way way, CUdeviceptr at, size_t offset, size_t length)
{
	if (way == OUT)
		return cu.out(pinned + offset, at + offset, length, stream);
	if (way == IN)
		return cu.in(at + offset, pinned + offset, length, stream);
	return cu.within(at + size / 2, at, length, stream);
}

/* All of the GPU's memory, none of whose copies crosses the end of a chunk. */
static void copy_all(enum way way, CUdeviceptr at)
{
	size_t length;

	for (size_t offset = 0; offset < size; offset += length) {
		length = CHUNK - (at + offset) % CHUNK;
		if (length > size - offset)
			length = size - offset;
		need(copy_once(way, at, offset, length), "a copy");
	}
	need(cu.await(stream), "a copy");
}

static void put(CUdeviceptr at)
{
	copy_all(IN, at);
}

static void get(CUdeviceptr at)
{
	memset(pinned, 0, size);
	copy_all(OUT, at);
}

/* ---- engines ---- */

static struct te_engine *engine_new(void)
{
	struct te_config *config;
	struct te_engine *engine;

	need(te_config_create(&config), "te_config_create");
	need(te_config_set(config, "backends", "tcp,loop", NULL, 0),
	     "backends");
	need(te_engine_create(config, "127.0.0.1", &engine),
	     "te_engine_create");
	te_config_destroy(config);
	return engine;
}

static int add(struct te_engine *engine, void *at, size_t length,
	       uint32_t access, te_region_id *id)
{
	struct te_region region = {
		.addr = at, .length = length, .access = access};

	return te_region_add(engine, &region, id);
}

static te_segment_id open_to(struct te_engine *from, struct te_engine *to)
{
	te_segment_id id;

	need(te_segment_open(from, te_engine_name(to), WAIT_MS, &id),
	     "te_segment_open");
	return id;
}

static int move(struct te_engine *engine, te_segment_id to, uint32_t op,
		void *remote, void *local)
{
	struct iovec piece = {local, size};
	struct te_request request = {.op = op,
				     .segment = to,
				     .remote = (uintptr_t)remote,
				     .pieces = &piece,
				     .n_pieces = 1};
	struct te_completion done = {.error = -EIO};
	struct te_batch *batch;

	need(te_batch_create(engine, 1, &batch), "te_batch_create");
	need(te_batch_submit(batch, &request, 1), "te_batch_submit");
	need(te_batch_wait(batch, WAIT_MS), "te_batch_wait");
	need(te_batch_result(batch, 0, &done), "te_batch_result");
	te_batch_destroy(batch);
	return done.error;
}

static void *pointer(CUdeviceptr at)
{
	return (void *)(uintptr_t)at;
}

/* Out of the user's GPU and into it; every byte is compared. */
static bool goes_from_user(CUdeviceptr at)
{
	te_region_id id;
	bool good;

	need(add(user, pointer(at), size, TE_ACCESS_LOCAL, &id),
	     "region of a GPU");
	fill(pinned, 1);
	put(at);
	memset(there, 0, size);
	good = !move(user, segment, TE_WRITE, there, pointer(at)) &&
	       !memcmp(there, pinned, size);
	fill(there, 2);
	good = good && !move(user, segment, TE_READ, there, pointer(at));
	get(at);
	good = good && !memcmp(there, pinned, size);
	need(te_region_remove(user, id), "te_region_remove");
	return good;
}

/* The same, with the GPU's memory at the owner. */
static bool goes_to_owner(CUdeviceptr at)
{
	uint8_t *here = malloc(size);
	te_region_id id;
	bool good;

	need(here ? 0 : -ENOMEM, "memory of the host");
	need(add(owner, pointer(at), size, ANY, &id), "region of a GPU");
	fill(here, 3);
	good = !move(user, segment, TE_WRITE, pointer(at), here);
	get(at);
	good = good && !memcmp(here, pinned, size);
	fill(pinned, 4);
	put(at);
	good = good && !move(user, segment, TE_READ, pointer(at), here) &&
	       !memcmp(here, pinned, size);
	need(te_region_remove(owner, id), "te_region_remove");
	free(here);
	return good;
}

static void check_memory(const char *kind, CUdeviceptr at)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "%s, local memory", kind);
	judge(goes_from_user(at), name, "out and in by tcp, all compared");
	(void)snprintf(name, sizeof(name), "%s, remote memory", kind);
	judge(goes_to_owner(at), name, "in and out by tcp, all compared");
}

/* ---- kinds of memory ---- */

static void check_plain(const char *kind)
{
	CUdeviceptr at;

	need(cu.alloc(&at, size), "cuMemAlloc");
	check_memory(kind, at);
	need(cu.free(at), "cuMemFree");
}

static void check_pool(void)
{
	CUdeviceptr at;
	int error = CUDA_ERROR_NOT_FOUND;

	if (cu.pool_alloc && cu.pool_free)
		error = cu.pool_alloc(&at, size, stream);
	if (!error)
		error = cu.await(stream);
	if (error) {
		say("none", "cuMemAllocAsync", 0, "%s", name_of(error));
		return;
	}
	check_memory("cuMemAllocAsync", at);
	need(cu.pool_free(at, stream), "cuMemFreeAsync");
	need(cu.await(stream), "cuMemFreeAsync");
}

/* Two chunks side by side, as of expandable segments. 0 or the error. */
static int map_two(CUdeviceptr at, size_t half, const struct chunk_kind *kind)
{
	struct chunk_access access = {kind->place, READ_WRITE};
	CUmemGenericAllocationHandle handle;
	int error = 0;

	for (size_t i = 0; !error && i < 2; i++) {
		error = cu.create(&handle, half, kind, 0);
		if (error)
			break;
		error = cu.map(at + i * half, half, 0, handle, 0);
		(void)cu.drop(handle);
	}
	return error ? error : cu.set_access(at, 2 * half, &access, 1);
}

static void check_chunks(void)
{
	struct chunk_kind kind = {.type = PINNED, .place = {ON_DEVICE, 0}};
	size_t step = 1, half;
	CUdeviceptr at;
	int error = CUDA_ERROR_NOT_FOUND;

	if (cu.granularity && cu.reserve && cu.create && cu.map &&
	    cu.set_access && cu.unmap && cu.unreserve && cu.drop)
		error = cu.granularity(&step, &kind, 0);
	half = (size / 2 + step - 1) / step * step;
	if (!error)
		error = cu.reserve(&at, 2 * half, 0, 0, 0);
	if (!error)
		error = map_two(at, half, &kind);
	if (error) {
		say("none", "cuMemMap", 0, "%s", name_of(error));
		return;
	}
	check_memory("cuMemMap, two chunks", at + half - size / 2);
	need(cu.unmap(at, 2 * half), "cuMemUnmap");
	need(cu.unreserve(at, 2 * half), "cuMemAddressFree");
}

/* To the next GPU and back, by one engine. */
static void check_two_gpus(CUdeviceptr first)
{
	te_segment_id self = open_to(user, user);
	te_region_id one, two;
	void *second;
	bool good;

	if (count_gpus() < 2) {
		say("none", "from GPU to GPU", 0, "there is one GPU");
		return;
	}
	need(te_memory_alloc_at(user, size, "cuda:1", &second), "cuda:1");
	need(add(user, pointer(first), size, ANY, &one), "cuda:0");
	need(add(user, second, size, ANY, &two), "cuda:1");
	fill(pinned, 5);
	put(first);
	good = !move(user, self, TE_WRITE, second, pointer(first));
	fill(pinned, 6);
	put(first);
	good = good && !move(user, self, TE_READ, second, pointer(first));
	get(first);
	fill(there, 5);
	judge(good && !memcmp(there, pinned, size), "from GPU to GPU",
	      "cuda:0 to cuda:1 and back by loop, all compared");
	need(te_region_remove(user, one), "te_region_remove");
	need(te_region_remove(user, two), "te_region_remove");
	te_memory_free(user, second);
	te_segment_close(user, self);
}

/* ---- what a driver may have ---- */

static void check_export(CUdeviceptr at)
{
	size_t length = size / 65536 * 65536;
	int fd = -1, error = CUDA_ERROR_NOT_FOUND;

	if (cu.export)
		error = cu.export(&fd, at, length,
				  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	if (error) {
		say("none", "dma-buf", 0, "%s", name_of(error));
		return;
	}
	judge(fd >= 0 && !close(fd), "dma-buf", "the driver gives an fd");
}

/* ---- bad pointers ---- */

static void check_bad_pointers(void)
{
	te_region_id id;
	CUdeviceptr at;
	int error;

	need(cu.alloc(&at, size), "cuMemAlloc");
	error = add(user, pointer(at), size + ((size_t)1 << 30),
		    TE_ACCESS_LOCAL, &id);
	say(error == -EFAULT ? "ok" : "wrong", "a range past the end", 0,
	    "te_region_add: %s", strerror(-error));
	need(add(user, pointer(at), size, TE_ACCESS_LOCAL, &id), "region");
	need(cu.free(at), "cuMemFree");
	error = move(user, segment, TE_WRITE, there, pointer(at));
	say(error == -EIO ? "ok" : "wrong", "freed while registered", 0,
	    "a write from it: %s", strerror(-error));
	need(te_region_remove(user, id), "te_region_remove");
	error = add(user, pointer(at), size, TE_ACCESS_LOCAL, &id);
	say(error == -EFAULT ? "ok" : "wrong", "a freed pointer", 0,
	    "te_region_add: %s", strerror(-error));
	check_plain("after bad pointers, cuMemAlloc");
}

/* ---- the driver's own rates ---- */

/* GB/s of copies of @length, each awaited, for a tenth of a second or more. */
static double rate(enum way way, CUdeviceptr at, size_t length)
{
	uint64_t begin = tei_now_ns(), end = begin, n = 0;

	do {
		size_t offset = way == WITHIN ? 0 : n * length % size;

		if (offset + length > size)
			offset = 0;
		need(copy_once(way, at, offset, length), "a copy");
		need(cu.await(stream), "a copy");
		end = tei_now_ns();
		n++;
	} while (end - begin < TEI_NS_PER_S / 10);
	return (double)n * (double)length / (double)(end - begin);
}

static void measure(CUdeviceptr at)
{
	say("fact", "copy out", rate(OUT, at, size), "pinned, all at once");
	say("fact", "copy in", rate(IN, at, size), "pinned, all at once");
	say("fact", "blocks out", rate(OUT, at, BLOCK),
	    "pinned, %zu bytes a call", BLOCK);
	say("fact", "blocks in", rate(IN, at, BLOCK),
	    "pinned, %zu bytes a call", BLOCK);
	if (cu.within)
		say("fact", "copy within", rate(WITHIN, at, size / 2),
		    "of one GPU");
}

/* ---- all of it ---- */

static void open_all(void)
{
	te_region_id id;
	void *memory;

	need(cu.stream(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	need(cu.alloc_host(&memory, size, CU_MEMHOSTALLOC_PORTABLE),
	     "cuMemHostAlloc");
	pinned = memory;
	there = malloc(size);
	need(there ? 0 : -ENOMEM, "memory of the host");
	owner = engine_new();
	user = engine_new();
	need(add(owner, there, size, ANY, &id), "region of the host");
	segment = open_to(user, owner);
}

static void close_all(void)
{
	te_engine_destroy(user);
	te_engine_destroy(owner);
	free(there);
	need(cu.free_host(pinned), "cuMemFreeHost");
	need(cu.stream_destroy(stream), "cuStreamDestroy");
}

static void check_all(int before)
{
	CUdeviceptr at;

	open_all();
	check_plain("cuMemAlloc");
	judge(count_contexts() == before + 1, "contexts in use",
	      "that of the GPU that is used, and no other");
	check_chunks();
	check_pool();
	need(cu.alloc(&at, size), "cuMemAlloc");
	check_export(at);
	check_two_gpus(at);
	measure(at);
	need(cu.free(at), "cuMemFree");
	check_bad_pointers();
	close_all();
	judge(count_contexts() == before + 1, "contexts left by engines",
	      "none but the caller's");
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdevice device;
	int error, before;

	size = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
	if (size < BLOCK * BLOCKS || size % BLOCK) {
		fprintf(stderr,
			"usage: hardware BYTES (%zu or more, a multiple "
			"of %zu)\n",
			BLOCK * BLOCKS, BLOCK);
		return 2;
	}
	if (!load())
		return 77;
	error = cu.init(0);
	if (error || !count_gpus()) {
		printf("no GPU: cuInit: %s\n", error ? name_of(error) : "none");
		return 77;
	}
	name_gpus();
	before = count_contexts();
	need(cu.get(&device, 0), "cuDeviceGet");
	need(cu.retain(&context, device), "cuDevicePrimaryCtxRetain");
	need(cu.push(context), "cuCtxPushCurrent");
	check_all(before);
	need(cu.pop(&context), "cuCtxPopCurrent");
	need(cu.release(device), "cuDevicePrimaryCtxRelease");
	judge(count_contexts() == before, "contexts at the end",
	      "as many as at the begin");
	return n_wrong ? 1 : 0;
}
