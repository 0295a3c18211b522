/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - what is used of NVIDIA's driver API, declared anew
 *
 * Numbers and signatures are those of cuda.h of CUDA 12, which no distribution
 * that we build on has; the library is found at run time (cuda.c).
 */
#ifndef TE_DEVICE_CUDA_H
#define TE_DEVICE_CUDA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/thread.h"
#include "te/device/runtime.h"

extern const struct tei_runtime_ops tei_cuda_ops;

typedef uint64_t CUdeviceptr;
typedef uint64_t CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef int CUdevice;

/* CUresult */
enum cuda_result {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_ALREADY_MAPPED = 208,
	CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, /* first of its kind, */
	CUDA_ERROR_CAPTURED_EVENT = 907,             /* and last */
};

/* CUpointer_attribute; the type of each value behind it */
enum cuda_pointer_attribute {
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,           /* CUcontext; NULL: none */
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,       /* unsigned int */
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,       /* unsigned int; set it */
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,        /* unsigned int */
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,    /* int */
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11, /* CUdeviceptr */
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,       /* size_t */
	CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,   /* void *; NULL: none */
};

/* CUmemorytype; 0: memory that the driver does not know */
enum cuda_memory_type {
	CU_MEMORYTYPE_HOST = 1,
	CU_MEMORYTYPE_DEVICE = 2,
	CU_MEMORYTYPE_ARRAY = 3,
	CU_MEMORYTYPE_UNIFIED = 4,
};

/* CUdevice_attribute, some of whose names are longer; an int each */
enum cuda_device_attribute {
	CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES = 98,
	CUDA_HAS_CHUNKS = 102,           /* VIRTUAL_MEMORY_MANAGEMENT_SUPP.. */
	CUDA_GIVES_CHUNKS_TO_NICS = 110, /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_.. */
	/* Scope in which NICs' writes are ordered, CU_GPU_DIRECT_* below. */
	CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING = 118,
	CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
};

#define CU_MEM_LOCATION_TYPE_DEVICE              1
#define CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR 1 /* of several bits */

/* CUmemLocation, CUmemAllocationProp, CUmemAccessDesc */
struct cuda_location {
	int type; /* CU_MEM_LOCATION_TYPE_* */
	int id;
};

struct cuda_allocation {
	int type;         /* 1: pinned */
	int handle_types; /* CU_MEM_HANDLE_TYPE_* */
	struct cuda_location location;
	void *win32;
	unsigned char compression, gpudirect;
	unsigned short usage;
	unsigned char reserved[4];
};

struct cuda_access {
	struct cuda_location location;
	int flags; /* 3: to be read and written */
};

/* CUmemcpyAttributes */
struct cuda_batch_attributes {
	int order;                     /* of reading: CU_MEMCPY_SRC_* */
	struct cuda_location from, to; /* of managed memory */
	unsigned int flags;
};

#define CU_MEMCPY_SRC_ACCESS_ORDER_STREAM 1

#define CU_CTX_SYNC_MEMOPS            0x80u
#define CU_STREAM_NON_BLOCKING        1u
#define CU_EVENT_DISABLE_TIMING       2u
#define CU_MEMHOSTALLOC_PORTABLE      1u
#define CU_MEMHOSTREGISTER_PORTABLE   1u
#define CU_MEMHOSTREGISTER_DEVICEMAP  2u
#define CU_STREAM_LEGACY              1u /* numbers of streams */
#define CU_STREAM_PER_THREAD          2u
#define CU_STREAM_WAIT_VALUE_GEQ      0u
#define CU_STREAM_WAIT_VALUE_FLUSH    (1u << 30)
#define CU_STREAM_WRITE_VALUE_DEFAULT 0u
#define CU_STREAM_CAPTURE_STATUS_NONE 0
/* Orders of NICs' writes: for the GPU that they go to; a flush for it. */
#define CU_GPU_DIRECT_RDMA_WRITES_OWNER     100
#define CU_FLUSH_WRITES_TARGET_CURRENT_CTX  0
#define CU_FLUSH_WRITES_TO_OWNER            100
#define CU_STREAM_CAPTURE_MODE_RELAXED      2
#define CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD 1
#define CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS  1u

typedef struct {
	char reserved[64];
} CUipcMemHandle;

/*
 * Functions of the driver that are called. Of most the library has several, a
 * new one where the signature changed; these are the ones of CUDA 12.
 */
struct cuda_functions {
	int (*init)(unsigned int flags);
	int (*get_error_name)(int error, const char **out);
	int (*device_get)(CUdevice *out, int ordinal);
	int (*device_get_count)(int *out);
	int (*device_get_name)(char *out, int len, CUdevice device);
	int (*device_get_pci_bus_id)(char *out, int len, CUdevice device);
	int (*pointer_get_attributes)(unsigned int n, int *attributes,
				      void **data, CUdeviceptr ptr);
	/* NULL before CUDA 11, whose memory has no chunks. */
	int (*mem_retain_allocation_handle)(CUmemGenericAllocationHandle *out,
					    void *addr);
	int (*mem_release)(CUmemGenericAllocationHandle handle);
	int (*ctx_push)(CUcontext context);
	int (*ctx_pop)(CUcontext *out);
	int (*primary_ctx_get_state)(CUdevice device, unsigned int *flags,
				     int *active);
	int (*primary_ctx_retain)(CUcontext *out, CUdevice device);
	int (*primary_ctx_release)(CUdevice device);
	int (*pointer_set_attribute)(const void *value, int attribute,
				     CUdeviceptr ptr);
	/* NULL before CUDA 12.1. */
	int (*ctx_get_flags)(unsigned int *out);
	int (*ctx_set_flags)(unsigned int flags);
	/* NULL before CUDA 11.7. */
	int (*mem_get_handle_for_address_range)(void *handle, CUdeviceptr at,
						size_t length, int type,
						uint64_t flags);
	int (*mem_alloc)(CUdeviceptr *out, size_t length);
	int (*mem_free)(CUdeviceptr at);
	/* NULL before CUDA 10.2. */
	int (*device_can_access_peer)(int *out, CUdevice device, CUdevice peer);
	int (*mem_get_allocation_granularity)(
		size_t *out, const struct cuda_allocation *what, int which);
	int (*mem_create)(CUmemGenericAllocationHandle *out, size_t length,
			  const struct cuda_allocation *what, uint64_t flags);
	int (*mem_address_reserve)(CUdeviceptr *out, size_t length,
				   size_t alignment, CUdeviceptr wanted,
				   uint64_t flags);
	int (*mem_address_free)(CUdeviceptr at, size_t length);
	int (*mem_map)(CUdeviceptr at, size_t length, size_t offset,
		       CUmemGenericAllocationHandle handle, uint64_t flags);
	int (*mem_unmap)(CUdeviceptr at, size_t length);
	int (*mem_set_access)(CUdeviceptr at, size_t length,
			      const struct cuda_access *who, size_t n);
	int (*mem_host_register)(void *at, size_t length, unsigned int flags);
	int (*mem_host_unregister)(void *at);
	int (*mem_host_alloc)(void **out, size_t length, unsigned int flags);
	int (*mem_free_host)(void *at);
	int (*stream_create)(CUstream *out, unsigned int flags);
	int (*stream_destroy)(CUstream stream);
	int (*stream_synchronize)(CUstream stream);
	int (*event_create)(CUevent *out, unsigned int flags);
	int (*event_destroy)(CUevent event);
	int (*event_record)(CUevent event, CUstream stream);
	int (*event_query)(CUevent event);
	int (*thread_exchange_capture_mode)(int *mode); /* NULL before 10.1 */
	int (*memcpy_out)(void *to, CUdeviceptr from, size_t length,
			  CUstream stream);
	int (*memcpy_in)(CUdeviceptr to, const void *from, size_t length,
			 CUstream stream);
	int (*memcpy_any)(CUdeviceptr to, CUdeviceptr from, size_t length,
			  CUstream stream);
	/*
	 * Copies to[n] from from[n]; attribute k is that of the copies from
	 * first[k] on. NULL before 12.8.
	 */
	int (*memcpy_batch)(CUdeviceptr *to, CUdeviceptr *from, size_t *lengths,
			    size_t n, struct cuda_batch_attributes *attributes,
			    size_t *first, size_t n_attributes, size_t *failed,
			    CUstream stream);
	int (*ipc_get_mem_handle)(CUipcMemHandle *out, CUdeviceptr at);
	int (*ipc_open_mem_handle)(CUdeviceptr *out, CUipcMemHandle handle,
				   unsigned int flags);
	int (*ipc_close_mem_handle)(CUdeviceptr at);
	/* NULL before CUDA 10.2. */
	int (*mem_get_allocation_properties)(
		struct cuda_allocation *out,
		CUmemGenericAllocationHandle handle);
	int (*mem_export)(void *out, CUmemGenericAllocationHandle handle,
			  int type, uint64_t flags);
	int (*mem_import)(CUmemGenericAllocationHandle *out, void *handle,
			  int type);

	/* NULL in drivers that are too old for gates. */
	int (*device_get_attribute)(int *out, int attribute, CUdevice device);
	int (*ctx_get_current)(CUcontext *out);
	int (*ctx_get_device)(CUdevice *out);
	int (*mem_host_get_device_pointer)(CUdeviceptr *out, void *at,
					   unsigned int flags);
	int (*stream_get_ctx)(CUstream stream, CUcontext *out);
	int (*stream_is_capturing)(CUstream stream, int *status);
	int (*launch_host_func)(CUstream stream, void (*fn)(void *arg),
				void *arg);
	int (*stream_wait_value)(CUstream stream, CUdeviceptr at,
				 uint64_t value, unsigned int flags);
	int (*stream_write_value)(CUstream stream, CUdeviceptr at,
				  uint64_t value, unsigned int flags);
	int (*flush_writes)(int target, int scope); /* NULL before 11.3 */
};

/* ---- cuda_context.c ---- */

struct tei_runtime {
	void *library;
	struct cuda_functions call;
	_Atomic uint32_t refs;
	struct tei_mutex mu;   /* lock 21 */
	struct tei_list pages; /* of gates; guarded by mu */
};

/* Drops a reference; the last one frees. */
void tei_cuda_put(struct tei_runtime *cuda);

/* Says in @why which call has failed how. Returns -EIO. */
int tei_cuda_fail(const struct tei_runtime *cuda, const char *function,
		  int error, char *why);

/* A context that was made current, and how to undo that. */
struct cuda_entered {
	bool pushed;
	int retained; /* number of the GPU whose primary one; -1: none */
};

/*
 * Retains the primary context of a GPU, if somebody uses it; else *@out stays.
 * Returns 0 or the driver's error.
 */
int tei_cuda_retain_primary(struct tei_runtime *cuda, int gpu, CUcontext *out);
/*
 * Makes current @context, or if it is 0 the primary one of the GPU, if somebody
 * uses that: none is made. Returns 0 or the driver's error; tei_cuda_leave() it
 * in any case.
 */
int tei_cuda_enter(struct tei_runtime *cuda, uintptr_t context, int gpu,
		   struct cuda_entered *entered);
void tei_cuda_leave(struct tei_runtime *cuda,
		    const struct cuda_entered *entered);
/*
 * Keeps a context that was entered in use until it is left, if it is the
 * primary one of the GPU; the owner of another one must not destroy it before.
 * Returns 0 or the driver's error.
 */
int tei_cuda_keep(struct tei_runtime *cuda, uintptr_t context, int gpu,
		  struct cuda_entered *entered);

/*
 * Has this thread's calls neither fail because another one records a graph, nor
 * spoil that. Returns what to give back.
 */
int tei_cuda_relax(const struct tei_runtime *cuda, int mode);

/* ---- cuda_memory.c ---- */

int tei_cuda_fill(struct tei_runtime *cuda,
		  const struct tei_memory_facts *facts,
		  const struct tei_copy *copies, uint32_t n, char *why);
int tei_cuda_alloc(struct tei_runtime *cuda, int number, uint64_t length,
		   uint64_t *addr, char *why);
void tei_cuda_free(struct tei_runtime *cuda, int number, uint64_t addr);
int tei_cuda_pin(struct tei_runtime *cuda, void *addr, uint64_t length,
		 int *number, char *why);
void tei_cuda_unpin(struct tei_runtime *cuda, int number, void *addr);

/* ---- cuda_chunks.c ---- */

/*
 * Lets the GPU whose memory is mapped to the range, and those that can reach
 * it, access it. Returns 0 or the driver's error.
 */
int tei_cuda_open_to_all(struct tei_runtime *cuda, CUdevice device,
			 CUdeviceptr at, size_t length);
int tei_cuda_can_map(struct tei_runtime *cuda, int number, char *why);
int tei_cuda_map(struct tei_runtime *cuda, int number, uint64_t *length,
		 uint64_t *addr, char *why);
int tei_cuda_unmap(struct tei_runtime *cuda, int number, uint64_t addr,
		   uint64_t length, uintptr_t stream, char *why);

/* ---- cuda_share.c ---- */

int tei_cuda_share(struct tei_runtime *cuda,
		   const struct tei_memory_facts *facts,
		   uint8_t name[TEI_SHARED_LEN], char *why);
int tei_cuda_attach(struct tei_gpu_copier *copier,
		    const uint8_t name[TEI_SHARED_LEN], uint64_t *addr,
		    char *why);
void tei_cuda_detach(struct tei_gpu_copier *copier, uint64_t addr);
int tei_cuda_share_chunk(struct tei_runtime *cuda,
			 const struct tei_memory_facts *facts, int *fd,
			 char *why);
int tei_cuda_reserve(struct tei_gpu_copier *copier, uint64_t length,
		     uint64_t *addr, char *why);
int tei_cuda_attach_chunk(struct tei_gpu_copier *copier, uint64_t addr,
			  uint64_t length, int fd, char *why);
void tei_cuda_unreserve(struct tei_gpu_copier *copier, uint64_t addr,
			uint64_t mapped, uint64_t length);

/* ---- cuda_copy.c ---- */

struct tei_gpu_copier {
	struct tei_runtime *cuda;
	struct cuda_entered entered; /* of open, until close; not pushed */
	CUcontext context;
	void *memory;
	bool flushes;    /* see cuda_flush.c */
	bool one_by_one; /* the driver does not take several copies a call */
	CUstream streams[TEI_COPY_WAYS];
	CUevent marks[TEI_COPY_WAYS][TEI_COPY_MARKS];
};

/* Calls in the copier's context, which others may have destroyed. */
struct cuda_visit {
	int mode;
	bool entered;
};

/*
 * Makes the copier's context current; tei_cuda_end_visit() in any case. False:
 * it is gone; @why.
 */
bool tei_cuda_begin_visit(struct tei_gpu_copier *copier,
			  struct cuda_visit *visit, char *why);
void tei_cuda_end_visit(struct tei_gpu_copier *copier,
			const struct cuda_visit *visit);

int tei_cuda_copier_open(struct tei_runtime *cuda,
			 const struct tei_memory_facts *facts, uint64_t length,
			 struct tei_gpu_copier **out, void **memory, char *why);
void tei_cuda_copier_close(struct tei_gpu_copier *copier);
int tei_cuda_copy(struct tei_gpu_copier *copier, enum tei_copy_way way,
		  const struct tei_copy *copies, uint32_t n, unsigned int mark,
		  char *why);
int tei_cuda_is_copied(struct tei_gpu_copier *copier, enum tei_copy_way way,
		       unsigned int mark, char *why);

/* ---- cuda_flush.c ---- */

/*
 * Tells whether NICs' writes become visible to the device's work that runs only
 * by a flush of them.
 */
bool tei_cuda_needs_flush(const struct cuda_functions *call, CUdevice device);
/* Flushes NICs' writes to the context's device. */
void tei_cuda_flush(const struct tei_runtime *cuda, CUcontext context);
bool tei_cuda_copier_needs_flush(const struct tei_gpu_copier *copier);
void tei_cuda_copier_flush(const struct tei_gpu_copier *copier);

/* ---- cuda_gate.c ---- */

int tei_cuda_gate_put(struct tei_runtime *cuda,
		      const struct tei_gate_place *place,
		      struct tei_gpu_gate **out, char *why);
void tei_cuda_gate_arm(struct tei_gpu_gate *gate);
void tei_cuda_gate_open(struct tei_gpu_gate *gate);
/* Frees what streams have passed, and leaves the rest to the next sweep. */
void tei_cuda_gates_close(struct tei_runtime *cuda);

#endif
