/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cuda.h - a driver of NVIDIA's GPUs in memory, a library as the real one
 *
 * Tests load it (fake_cuda_open()) and give its file to engines as cuda_library.
 * A GPU's memory is a range of addresses without access, so that a processor that
 * touches it gets a signal; its bytes lie elsewhere. Devices are counted as
 * CUDA_VISIBLE_DEVICES says when the driver starts; the one whose number
 * FAKE_CUDA_FULL has gives no memory. What a driver refuses this one
 * refuses, too: calls before cuInit(), numbers without a device, a second free.
 * Copies are made by a thread; memory that one is under way of must not be freed,
 * nor words that a stream is to wait for or to write. A function of the host that
 * calls the driver ends the test. At the exit of the process it ends as a handler of
 * atexit() that cuInit() has left.
 *
 * Threads: any; one lock guards all of it.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "te/device/cuda.h"

#define FAKE_CUDA_GPUS 4 /* "0000:1a:00.0", 1b, 3d, 3e: two a socket */

/* Functions of the real driver that tests call, and what only the fake has. */
struct fake_cuda {
	void *library;
	const char *file;

	int (*init)(unsigned int flags);
	int (*mem_alloc)(CUdeviceptr *out, size_t size);
	int (*mem_free)(CUdeviceptr at);
	int (*mem_alloc_managed)(CUdeviceptr *out, size_t size,
				 unsigned int flags);
	int (*mem_host_alloc)(void **out, size_t size, unsigned int flags);
	int (*mem_free_host)(void *at);
	int (*mem_host_register)(void *at, size_t size, unsigned int flags);
	int (*mem_host_unregister)(void *at);
	int (*primary_ctx_retain)(CUcontext *out, CUdevice device);
	int (*primary_ctx_release)(CUdevice device);
	int (*ctx_push)(CUcontext context);
	int (*ctx_pop)(CUcontext *out);
	int (*stream_create)(CUstream *out, unsigned int flags);
	int (*stream_destroy)(CUstream stream);
	int (*stream_synchronize)(CUstream stream);
	int (*memcpy_out)(void *to, CUdeviceptr from, size_t length,
			  CUstream stream);
	int (*memcpy_in)(CUdeviceptr to, const void *from, size_t length,
			 CUstream stream);
	int (*launch_host_func)(CUstream stream, void (*fn)(void *arg),
				void *arg);
	int (*stream_wait_value)(CUstream stream, CUdeviceptr at,
				 uint64_t value, unsigned int flags);

	/*
	 * Maps @n chunks of @size bytes each side by side on the device, as
	 * cuMemMap() does; or frees them.
	 */
	int (*map_chunks)(int device, size_t size, unsigned int n,
			  CUdeviceptr *out);
	int (*unmap_chunks)(CUdeviceptr at);
	/* Chunks that are mapped from now on cannot be exported, or can. */
	void (*hide_chunks)(bool hide);
	/* Memory as of cuMemAllocAsync(). */
	int (*pool_alloc)(int device, CUdeviceptr *out, size_t size);
	/* The bytes behind an address of a GPU; NULL: nothing is there. */
	void *(*bytes)(CUdeviceptr at);
	/* Whether synchronous copies of the memory are that for NICs, too. */
	int (*is_ordered)(CUdeviceptr at);
	/* Bytes of the host that were registered, and are so now. */
	uint64_t (*pinned)(void);
	/*
	 * The call of that name, or the question for the attribute, fails with
	 * @error from now on; 0: works.
	 */
	void (*fail_call)(const char *function, int error);
	/* The same after @n calls that work. */
	void (*fail_after)(const char *function, unsigned int n, int error);
	/*
	 * The GPU's context fails for good, as after an illegal address: nothing
	 * that its streams have is done any more, and calls in it end with 700.
	 * The end of its last use frees what is left in it. @device: of those
	 * that there are.
	 */
	void (*break_context)(int device);
	/* Each copy takes so long before its bytes move, in microseconds. */
	void (*delay)(unsigned int us);
	/* Copies stand still until they are let go. */
	void (*hold)(bool hold);
	uint64_t (*n_copies)(void); /* that have ended since the last reset */
	int (*n_batches)(void);     /* calls for several copies, likewise */
	/* Questions for events, likewise. */
	uint64_t (*n_questions)(void);
	int (*n_opened)(void);   /* allocations of other processes */
	int (*n_imported)(void); /* chunks of other processes */
	/*
	 * Undoes cuInit(), and asserts that no memory, stream or event is left.
	 */
	void (*reset)(void);
	int (*n_inits)(void);    /* calls of cuInit() since the last reset */
	int (*n_contexts)(void); /* that there are */
	int (*n_flushes)(void);  /* of NICs' writes, since the last reset */
	/* The stream is recorded into a graph, or no more. */
	void (*capture)(CUstream stream, bool on);
};

/* Loads the library; asserts that it is there. It stays loaded. */
void fake_cuda_open(struct fake_cuda *fake);
/*
 * Allocates as a process does that uses the GPU, and keeps its context until the
 * memory is freed. Both assert that it works.
 */
CUdeviceptr fake_cuda_alloc(const struct fake_cuda *fake, int gpu, size_t size);
void fake_cuda_free(const struct fake_cuda *fake, int gpu, CUdeviceptr at);

#endif
