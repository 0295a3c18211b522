/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - memory for GPUs, in processes with or without an engine
 *
 * The functions use the driver that the process has loaded, or the file that
 * the environment names (TE_CUDA_LIBRARY). None leaves another context current
 * in a thread. Threads: any. The functions are part of libte. In a forked child
 * of a process that has called one they return -ESTALE: GPUs' drivers do not
 * survive a fork.
 */
#ifndef TE_GPU_H
#define TE_GPU_H

#include <stddef.h>
#include <stdint.h>

#include <te/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * te_gpu_pin - lock memory of the host for copies of GPUs
 * @addr:   of a mapping, whose pages are committed by the call
 * @length: bytes, from 1
 *
 * Copies between such memory and any GPU of the process go by DMA, without a
 * copy of the driver's. Needs a GPU that the process uses already: no driver is
 * loaded, and no context made. Undo it by te_gpu_unpin() before the memory is
 * unmapped; te_memory_free() does so by itself.
 *
 * Blocks: for the driver, about as long as touching all pages takes. Returns 0,
 * or one line of the log says why not and:
 *   -EINVAL  @addr is NULL, or @length 0
 *   -ENODEV  the process uses no GPU now
 *   -ENOMEM  that many bytes cannot be locked
 *   -EIO     the driver refuses, for example since it is pinned already
 *   -ESTALE  in a forked child
 */
TE_API int te_gpu_pin(void *addr, uint64_t length);
/*
 * Unpins memory that te_gpu_pin() has pinned at @addr; other memory is left
 * alone. Blocks: for the driver. Does nothing in a forked child; a driver that
 * has ended, as at the exit of a process, has unpinned everything.
 */
TE_API void te_gpu_unpin(void *addr);

struct te_gpu_copy {
	uint64_t gpu;     /* address of a GPU's memory */
	const void *host; /* pinned or not */
	uint64_t length;  /* bytes, from 1 */
};

/**
 * te_gpu_copy_in - copy from the host into memory of GPUs, and wait
 * @copies: copies[n], which may be of several GPUs
 *
 * Waits for no other work of the process, so kernels that use the memory must
 * have ended. After the return it may be used by work that is launched then.
 *
 * Blocks: for the copies. Returns 0, or one line of the log says why and:
 *   -EINVAL  an address is 0, or a length
 *   -EFAULT  a range is not all memory of a GPU
 *   -ENODEV  the process has loaded no driver
 *   -EIO     the driver fails; some bytes may have been copied
 *   -ENOMEM, -ESTALE (in a forked child)
 */
TE_API int te_gpu_copy_in(const struct te_gpu_copy *copies, size_t n);

/**
 * te_gpu_alloc - allocate memory of a GPU that others can be given
 * @gpu:    number as the process counts them
 * @length: bytes, from 1; rounded up to the GPU's unit, 2 MiB mostly
 * @out:    address, which the processor must not touch; not zeroed
 *
 * Such memory can be exported to other processes by descriptors, and to NICs
 * where the GPU lets them access it; all GPUs that can reach it may access it.
 * Loads and starts the driver. The GPU's primary context is made for the call
 * if nobody uses it.
 *
 * Blocks: for the driver. Returns 0, or one line of the log says why and:
 *   -EINVAL      @length is 0, or @out NULL
 *   -ENODEV      no driver, or the process sees no such GPU
 *   -EOPNOTSUPP  the driver or the GPU has no such memory
 *   -ENOMEM      the GPU has no room
 *   -EIO         the driver fails
 *   -ESTALE      in a forked child
 */
TE_API int te_gpu_alloc(int gpu, uint64_t length, uint64_t *out);
/**
 * te_gpu_free - free memory of te_gpu_alloc()
 * @addr:   as it was returned; any other is left alone
 * @stream: the driver's (CUstream) whose work may use it; NULL: its default one
 *
 * Regions of engines must have been removed. Waits for the stream. Memory that
 * the driver does not give back, as at the exit of a process, is the driver's;
 * other failures have a line in the log. Does nothing in a forked child.
 */
TE_API void te_gpu_free(uint64_t addr, void *stream);
/*
 * Tells whether te_gpu_alloc() can be expected to work for a GPU: 0, or its
 * error, without a line.
 */
TE_API int te_gpu_can_alloc(int gpu);

#ifdef __cplusplus
}
#endif

#endif
