/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - what is used of NVIDIA's driver API, declared anew
 *
 * Numbers and signatures are those of cuda.h of CUDA 12, which no distribution
 * that we build on has; the library is found at run time (cuda.c).
 */
#ifndef TE_DEVICE_CUDA_H
#define TE_DEVICE_CUDA_H

#include <stddef.h>
#include <stdint.h>

extern const struct tei_runtime_ops tei_cuda_ops;

typedef uint64_t CUdeviceptr;
typedef uint64_t CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
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
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_NOT_SUPPORTED = 801,
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

#define CU_CTX_SYNC_MEMOPS                  0x80u
#define CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD 1

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
};

#endif
