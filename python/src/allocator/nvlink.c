/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvlink.c - nvlink_allocator.so: an allocator that torch is given by its file
 *
 * torch finds the functions by their names (mooncake/allocator.py), which are
 * Mooncake's. Streams are the driver's.
 */
#include <stdint.h>
#include <sys/types.h>

#include <te/gpu.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *mc_nvlink_malloc(ssize_t size, int device, void *stream);
EXPORT void mc_nvlink_free(void *ptr, ssize_t size, int device, void *stream);
EXPORT int mc_nvlink_probe(int device);

/*
 * Memory that can be exported to other processes and to NICs. NULL: there is
 * none, and a line of the log says why.
 */
void *mc_nvlink_malloc(ssize_t size, int device, void *stream)
{
	uint64_t at;

	(void)stream;
	if (size <= 0 || te_gpu_alloc(device, (uint64_t)size, &at))
		return NULL;
	return (void *)(uintptr_t)at;
}

/* The stream is the one that the memory was allocated for. */
void mc_nvlink_free(void *ptr, ssize_t size, int device, void *stream)
{
	(void)size;
	(void)device;
	te_gpu_free((uintptr_t)ptr, stream);
}

/* Returns what te_gpu_can_alloc() does. */
int mc_nvlink_probe(int device)
{
	return te_gpu_can_alloc(device);
}
