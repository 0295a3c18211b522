/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.c - NVIDIA's driver, as a runtime of GPUs
 *
 * Its library is loaded already in most processes that use this one, and on
 * hosts without a GPU it is not missed: all is found by name at run time.
 */
#include "te/device/cuda.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "te/core/config.h"
#include "te/device/runtime.h"

/* ---- loading ---- */

/* The usual name, and where Windows has it for its Linux guests. */
static const char *const libraries[] = {"libcuda.so.1",
					"/usr/lib/wsl/lib/libcuda.so.1"};

/* Signatures are asked for as these versions of CUDA have them. */
#define CUDA_12_0 12000
#define CUDA_12_8 12080

typedef int get_proc_address_fn(const char *symbol, void **out, int version,
				uint64_t flags, int *status);

#define AT(member_) offsetof(struct cuda_functions, member_)

static const struct row {
	size_t at;
	const char *name; /* as cuGetProcAddress() takes it */
	bool optional;
	const char *symbol; /* of CUDA 12's in the library; NULL: the name */
} rows[] = {
	{AT(init), "cuInit", false, NULL},
	{AT(get_error_name), "cuGetErrorName", false, NULL},
	{AT(device_get), "cuDeviceGet", false, NULL},
	{AT(device_get_count), "cuDeviceGetCount", false, NULL},
	{AT(device_get_name), "cuDeviceGetName", false, NULL},
	{AT(device_get_pci_bus_id), "cuDeviceGetPCIBusId", false, NULL},
	{AT(pointer_get_attributes), "cuPointerGetAttributes", false, NULL},
	{AT(mem_retain_allocation_handle), "cuMemRetainAllocationHandle", true,
	 NULL},
	{AT(mem_release), "cuMemRelease", true, NULL},
	{AT(ctx_push), "cuCtxPushCurrent", false, "cuCtxPushCurrent_v2"},
	{AT(ctx_pop), "cuCtxPopCurrent", false, "cuCtxPopCurrent_v2"},
	{AT(primary_ctx_get_state), "cuDevicePrimaryCtxGetState", false, NULL},
	{AT(primary_ctx_retain), "cuDevicePrimaryCtxRetain", false, NULL},
	{AT(primary_ctx_release), "cuDevicePrimaryCtxRelease", false,
	 "cuDevicePrimaryCtxRelease_v2"},
	{AT(pointer_set_attribute), "cuPointerSetAttribute", false, NULL},
	{AT(ctx_get_flags), "cuCtxGetFlags", true, NULL},
	{AT(ctx_set_flags), "cuCtxSetFlags", true, NULL},
	{AT(mem_get_handle_for_address_range), "cuMemGetHandleForAddressRange",
	 true, NULL},
	{AT(mem_alloc), "cuMemAlloc", false, "cuMemAlloc_v2"},
	{AT(mem_free), "cuMemFree", false, "cuMemFree_v2"},
	{AT(device_can_access_peer), "cuDeviceCanAccessPeer", true, NULL},
	{AT(mem_get_allocation_granularity), "cuMemGetAllocationGranularity",
	 true, NULL},
	{AT(mem_create), "cuMemCreate", true, NULL},
	{AT(mem_address_reserve), "cuMemAddressReserve", true, NULL},
	{AT(mem_address_free), "cuMemAddressFree", true, NULL},
	{AT(mem_map), "cuMemMap", true, NULL},
	{AT(mem_unmap), "cuMemUnmap", true, NULL},
	{AT(mem_set_access), "cuMemSetAccess", true, NULL},
	{AT(mem_host_register), "cuMemHostRegister", false,
	 "cuMemHostRegister_v2"},
	{AT(mem_host_unregister), "cuMemHostUnregister", false, NULL},
	{AT(mem_host_alloc), "cuMemHostAlloc", false, NULL},
	{AT(mem_free_host), "cuMemFreeHost", false, NULL},
	{AT(stream_create), "cuStreamCreate", false, NULL},
	{AT(stream_destroy), "cuStreamDestroy", false, "cuStreamDestroy_v2"},
	{AT(stream_synchronize), "cuStreamSynchronize", false, NULL},
	{AT(event_create), "cuEventCreate", false, NULL},
	{AT(event_destroy), "cuEventDestroy", false, "cuEventDestroy_v2"},
	{AT(event_record), "cuEventRecord", false, NULL},
	{AT(event_query), "cuEventQuery", false, NULL},
	{AT(thread_exchange_capture_mode), "cuThreadExchangeStreamCaptureMode",
	 true, NULL},
	{AT(memcpy_out), "cuMemcpyDtoHAsync", false, "cuMemcpyDtoHAsync_v2"},
	{AT(memcpy_in), "cuMemcpyHtoDAsync", false, "cuMemcpyHtoDAsync_v2"},
	{AT(memcpy_any), "cuMemcpyAsync", false, NULL},
	{AT(ipc_get_mem_handle), "cuIpcGetMemHandle", false, NULL},
	{AT(ipc_open_mem_handle), "cuIpcOpenMemHandle", false,
	 "cuIpcOpenMemHandle_v2"},
	{AT(ipc_close_mem_handle), "cuIpcCloseMemHandle", false, NULL},
	{AT(mem_get_allocation_properties),
	 "cuMemGetAllocationPropertiesFromHandle", true, NULL},
	{AT(mem_export), "cuMemExportToShareableHandle", true, NULL},
	{AT(mem_import), "cuMemImportFromShareableHandle", true, NULL},
	{AT(device_get_attribute), "cuDeviceGetAttribute", true, NULL},
	{AT(ctx_get_current), "cuCtxGetCurrent", true, NULL},
	{AT(ctx_get_device), "cuCtxGetDevice", true, NULL},
	{AT(mem_host_get_device_pointer), "cuMemHostGetDevicePointer", true,
	 "cuMemHostGetDevicePointer_v2"},
	{AT(stream_get_ctx), "cuStreamGetCtx", true, NULL},
	{AT(stream_is_capturing), "cuStreamIsCapturing", true, NULL},
	{AT(launch_host_func), "cuLaunchHostFunc", true, NULL},
	{AT(stream_wait_value), "cuStreamWaitValue64", true,
	 "cuStreamWaitValue64_v2"},
	{AT(stream_write_value), "cuStreamWriteValue64", true,
	 "cuStreamWriteValue64_v2"},
	{AT(flush_writes), "cuFlushGPUDirectRDMAWrites", true, NULL},
};

static const struct row rows_12_8[] = {
	{AT(memcpy_batch), "cuMemcpyBatchAsync", true, NULL},
};

/*
 * Loads one file. It is not unloaded: the driver's threads would be left
 * without their code.
 */
static void *load_library(const char *file, bool load, char *why)
{
	int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
	void *library = dlopen(file, flags | (load ? 0 : RTLD_NOLOAD));
	const char *error = library ? NULL : dlerror();

	if (!library)
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "%s",
			       error ? error
				     : "nothing in this process uses it");
	return library;
}

static void *find_library(const char *file, bool load, char *why)
{
	char again[TEI_RUNTIME_WHY_LEN];
	void *library;

	if (file)
		return load_library(file, load, why);
	library = load_library(libraries[0], load, why);
	return library ? library : load_library(libraries[1], load, again);
}

static int find_rows(struct tei_runtime *cuda, const struct row *list, size_t n,
		     int version, char *why)
{
	void *symbol = dlsym(cuda->library, "cuGetProcAddress_v2");
	get_proc_address_fn *ask;
	int status = 0;

	memcpy(&ask, &symbol, sizeof(ask));
	for (const struct row *row = list; row < list + n; row++) {
		void *found = NULL;

		if (!ask || ask(row->name, &found, version, 0, &status))
			found = NULL;
		if (!found)
			found = dlsym(cuda->library,
				      row->symbol ? row->symbol : row->name);
		if (!found && !row->optional) {
			(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
				       "the driver is too old: it has no %s()",
				       row->name);
			return -ENOSYS;
		}
		memcpy((char *)&cuda->call + row->at, &found, sizeof(found));
	}
	return 0;
}

static int find_functions(struct tei_runtime *cuda, char *why)
{
	int rc = find_rows(cuda, rows, sizeof(rows) / sizeof(rows[0]),
			   CUDA_12_0, why);

	return rc ? rc
		  : find_rows(cuda, rows_12_8,
			      sizeof(rows_12_8) / sizeof(rows_12_8[0]),
			      CUDA_12_8, why);
}

static int cuda_open(const char *library, bool load, struct tei_runtime **out,
		     char why[TEI_RUNTIME_WHY_LEN])
{
	struct tei_runtime *cuda = tei_calloc(1, sizeof(*cuda));
	int rc;

	if (!cuda) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN, "out of memory");
		return -ENOMEM;
	}
	cuda->library = find_library(library, load, why);
	rc = cuda->library ? find_functions(cuda, why) : -ENOENT;
	if (rc) {
		if (cuda->library)
			dlclose(cuda->library);
		tei_free(cuda);
		return rc;
	}
	atomic_init(&cuda->refs, 1);
	tei_mutex_init(&cuda->mu);
	tei_list_init(&cuda->pages);
	*out = cuda;
	return 0;
}

static void cuda_close(struct tei_runtime *cuda)
{
	tei_cuda_gates_close(cuda);
	tei_cuda_put(cuda);
}

/* ---- asking ---- */

static int cuda_start(struct tei_runtime *cuda, char why[TEI_RUNTIME_WHY_LEN])
{
	int error = cuda->call.init(0), n = 0;

	if (!error)
		error = cuda->call.device_get_count(&n);
	if (error == CUDA_ERROR_NO_DEVICE || (!error && !n)) {
		(void)snprintf(why, TEI_RUNTIME_WHY_LEN,
			       "there is no GPU that this process may use");
		return -ENODEV;
	}
	return error ? tei_cuda_fail(cuda, "cuInit", error, why) : 0;
}

/* What is asked of an address at once. */
struct answer {
	unsigned int type, managed;
	int ordinal;
	CUdeviceptr base;
	size_t length;
	CUcontext context;
};

static int ask(struct tei_runtime *cuda, uint64_t addr, struct answer *out)
{
	int attributes[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_CONTEXT,
	};
	void *values[] = {&out->type, &out->managed, &out->ordinal,
			  &out->base, &out->length,  &out->context};

	*out = (struct answer){.ordinal = -1};
	return cuda->call.pointer_get_attributes(sizeof(attributes) /
							 sizeof(attributes[0]),
						 attributes, values, addr);
}

static enum tei_memory_kind kind_of(const struct answer *answer)
{
	if (answer->managed)
		return TEI_MEMORY_MANAGED;
	switch (answer->type) {
	case CU_MEMORYTYPE_HOST:
		return TEI_MEMORY_PINNED;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_ARRAY:
	case CU_MEMORYTYPE_UNIFIED:
		return TEI_MEMORY_DEVICE;
	default:
		return TEI_MEMORY_HOST;
	}
}

/* False also of drivers before 11.3, which have no pools and do not know it. */
static bool is_pooled(struct tei_runtime *cuda, uint64_t addr)
{
	int attribute = CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
	void *pool = NULL, *value = &pool;

	return !cuda->call.pointer_get_attributes(1, &attribute, &value,
						  addr) &&
	       pool;
}

/* Memory of cuMemMap() has a handle, other memory none. */
static bool is_chunked(struct tei_runtime *cuda, uint64_t addr)
{
	CUmemGenericAllocationHandle handle;

	if (!cuda->call.mem_retain_allocation_handle ||
	    !cuda->call.mem_release ||
	    cuda->call.mem_retain_allocation_handle(&handle,
						    (void *)(uintptr_t)addr))
		return false;
	(void)cuda->call.mem_release(handle);
	return true;
}

static int cuda_look(struct tei_runtime *cuda, uint64_t addr,
		     struct tei_memory_facts *out,
		     char why[TEI_RUNTIME_WHY_LEN])
{
	struct answer answer;
	int error = ask(cuda, addr, &answer);

	*out = (struct tei_memory_facts){.kind = TEI_MEMORY_HOST, .gpu = -1};
	/* Of memory that it does not know some drivers say that it is wrong. */
	if (error == CUDA_ERROR_NOT_INITIALIZED ||
	    error == CUDA_ERROR_INVALID_VALUE)
		return 0;
	if (error)
		return tei_cuda_fail(cuda, "cuPointerGetAttributes", error,
				     why);
	out->kind = kind_of(&answer);
	if (out->kind == TEI_MEMORY_HOST)
		return 0;
	out->base = answer.base;
	out->length = answer.length;
	if (out->kind != TEI_MEMORY_PINNED)
		out->gpu = answer.ordinal;
	if (out->kind != TEI_MEMORY_DEVICE)
		return 0;
	out->context = (uintptr_t)answer.context;
	out->pooled = is_pooled(cuda, addr);
	out->chunked = !out->pooled && is_chunked(cuda, addr);
	return 0;
}

static int cuda_gpu(struct tei_runtime *cuda, int number, struct tei_gpu *out,
		    char why[TEI_RUNTIME_WHY_LEN])
{
	CUdevice device;
	int error = cuda->call.device_get(&device, number);

	if (error == CUDA_ERROR_INVALID_DEVICE ||
	    error == CUDA_ERROR_INVALID_VALUE)
		return -ENOENT;
	*out = (struct tei_gpu){.bus_id = ""};
	if (!error)
		error = cuda->call.device_get_pci_bus_id(
			out->bus_id, sizeof(out->bus_id), device);
	if (!error)
		error = cuda->call.device_get_name(out->model,
						   sizeof(out->model), device);
	if (error)
		return tei_cuda_fail(cuda, "cuDeviceGet", error, why);
	for (char *c = out->bus_id; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return 0;
}

/* ---- memory that other devices access ---- */

/* The current context's copies then end before their calls return. */
static int set_context_flag(struct tei_runtime *cuda)
{
	unsigned int flags;
	int error;

	if (!cuda->call.ctx_get_flags || !cuda->call.ctx_set_flags)
		return CUDA_ERROR_NOT_SUPPORTED;
	error = cuda->call.ctx_get_flags(&flags);
	if (error)
		return error;
	return cuda->call.ctx_set_flags(flags | CU_CTX_SYNC_MEMOPS);
}

static int cuda_order(struct tei_runtime *cuda,
		      const struct tei_memory_facts *facts,
		      char why[TEI_RUNTIME_WHY_LEN])
{
	unsigned int on = 1;
	struct cuda_entered entered;
	int error = tei_cuda_enter(cuda, facts->context, facts->gpu, &entered);

	if (!error && (facts->chunked || facts->pooled))
		error = set_context_flag(cuda);
	else if (!error)
		error = cuda->call.pointer_set_attribute(
			&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, facts->base);
	tei_cuda_leave(cuda, &entered);
	return error ? tei_cuda_fail(cuda, "SYNC_MEMOPS", error, why) : 0;
}

static int cuda_export(struct tei_runtime *cuda, uint64_t addr, uint64_t length,
		       const struct tei_memory_facts *facts, int *fd,
		       char why[TEI_RUNTIME_WHY_LEN])
{
	struct cuda_entered entered;
	int error;

	if (!cuda->call.mem_get_handle_for_address_range) {
		(void)snprintf(
			why, TEI_RUNTIME_WHY_LEN,
			"no dma-buf: the driver is older than CUDA 11.7");
		return -EOPNOTSUPP;
	}
	error = tei_cuda_enter(cuda, facts->context, facts->gpu, &entered);
	if (!error)
		error = cuda->call.mem_get_handle_for_address_range(
			fd, addr, length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
			0);
	tei_cuda_leave(cuda, &entered);
	if (!error)
		return 0;
	(void)tei_cuda_fail(cuda, "no dma-buf: cuMemGetHandleForAddressRange",
			    error, why);
	return error == CUDA_ERROR_NOT_SUPPORTED ||
			       error == CUDA_ERROR_INVALID_VALUE
		       ? -EOPNOTSUPP
		       : -EIO;
}

/*
 * Tells whether drivers of NICs find a GPU's memory by its address: the module
 * nvidia-peermem does it for them, where the setting does not say otherwise.
 */
static bool cuda_by_address(const struct tei_config *config, const char **how)
{
	const char *text = config->nvidia_peermem;

	*how = "nvidia-peermem is not loaded: modprobe nvidia-peermem, or use "
	       "open kernel modules from 515 on, which export dma-bufs";
	if (text && *text)
		return strcmp(text, "0") != 0 &&
		       strcasecmp(text, "false") != 0 &&
		       strcasecmp(text, "off") != 0;
	return !access("/sys/module/nvidia_peermem", F_OK) ||
	       !access("/sys/module/nv_peer_mem", F_OK); /* its older name */
}

const struct tei_runtime_ops tei_cuda_ops = {
	.name = "cuda",
	.library = offsetof(struct tei_config, cuda_library),
	.open = cuda_open,
	.close = cuda_close,
	.start = cuda_start,
	.look = cuda_look,
	.gpu = cuda_gpu,
	.order = cuda_order,
	.export = cuda_export,
	.by_address = cuda_by_address,
	.alloc = tei_cuda_alloc,
	.free = tei_cuda_free,
	.can_map = tei_cuda_can_map,
	.map = tei_cuda_map,
	.unmap = tei_cuda_unmap,
	.pin = tei_cuda_pin,
	.unpin = tei_cuda_unpin,
	.share = tei_cuda_share,
	.attach = tei_cuda_attach,
	.detach = tei_cuda_detach,
	.share_chunk = tei_cuda_share_chunk,
	.reserve = tei_cuda_reserve,
	.attach_chunk = tei_cuda_attach_chunk,
	.unreserve = tei_cuda_unreserve,
	.fill = tei_cuda_fill,
	.copier_open = tei_cuda_copier_open,
	.copier_close = tei_cuda_copier_close,
	.needs_flush = tei_cuda_copier_needs_flush,
	.flush = tei_cuda_copier_flush,
	.copy = tei_cuda_copy,
	.is_copied = tei_cuda_is_copied,
	.gate_put = tei_cuda_gate_put,
	.gate_arm = tei_cuda_gate_arm,
	.gate_open = tei_cuda_gate_open,
};
