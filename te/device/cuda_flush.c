/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_flush.c - writes of NICs to NVIDIA's GPUs, made visible to their work */
#include "te/device/cuda.h"

bool tei_cuda_needs_flush(const struct cuda_functions *call, CUdevice device)
{
	int order = 0;

	if (call->device_get_attribute &&
	    call->device_get_attribute(
		    &order, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
		    device))
		order = 0;
	return order < CU_GPU_DIRECT_RDMA_WRITES_OWNER;
}

void tei_cuda_flush(const struct tei_runtime *cuda, CUcontext context)
{
	const struct cuda_functions *call = &cuda->call;
	int mode = tei_cuda_relax(cuda, CU_STREAM_CAPTURE_MODE_RELAXED);
	CUcontext popped;

	if (!call->ctx_push(context)) {
		(void)call->flush_writes(CU_FLUSH_WRITES_TARGET_CURRENT_CTX,
					 CU_FLUSH_WRITES_TO_OWNER);
		(void)call->ctx_pop(&popped);
	}
	(void)tei_cuda_relax(cuda, mode);
}

bool tei_cuda_copier_needs_flush(const struct tei_gpu_copier *copier)
{
	return copier->flushes;
}

void tei_cuda_copier_flush(const struct tei_gpu_copier *copier)
{
	tei_cuda_flush(copier->cuda, copier->context);
}
