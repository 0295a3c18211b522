/* SPDX-License-Identifier: Apache-2.0 */
/* private.h - what the files of the fake driver share */
#ifndef FAKE_CUDA_PRIVATE_H
#define FAKE_CUDA_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "te/device/cuda.h"

/* Functions have the names that callers of the driver look for. */
#define FAKE_CUDA_EXPORT __attribute__((visibility("default")))

struct CUctx_st {
	int device, n_uses;
	unsigned int flags;
	bool broken; /* all that is done in it fails */
};

/* Ends a test that uses the fake wrongly, or leaves something. */
void fake_cuda_need(bool condition);

/* Takes the lock; not 0: the call ends with that, and has not got it. */
int fake_cuda_enter(const char *function);
int fake_cuda_leave(int error);
/* Takes the lock whatever the call. */
void fake_cuda_lock(void);
/* With the lock, which others get meanwhile: until somebody says so. */
void fake_cuda_await_change(void);
void fake_cuda_changed(void);
/* The same, for so long at most. */
void fake_cuda_rest(unsigned int us);

/* With the lock. The process exits, and the driver has ended before. */
bool fake_cuda_has_ended(void);
/* With the lock. The thread's current context; NULL: none. */
CUcontext fake_cuda_context(void);
/* The bytes of a GPU's memory; NULL: not all of it is there. */
void *fake_cuda_whole(CUdeviceptr at, size_t length);
/* What an allocation of a device is to other processes. */
struct fake_cuda_shared {
	int pid, fd; /* whose file has the bytes */
	int device;  /* of those that are there */
	size_t length;
};
/* False: at @at no allocation of a device begins. It counts as shared now. */
bool fake_cuda_share(CUdeviceptr at, struct fake_cuda_shared *out);
/* Gives the bytes an address in this process. 0: they are gone. */
CUdeviceptr fake_cuda_import(const struct fake_cuda_shared *shared);
/* False: nothing that was imported begins there. */
bool fake_cuda_drop_import(CUdeviceptr at);
/* driver.c, with the lock: memory that is mapped to addresses by itself. */
char *fake_cuda_reserve(size_t length);
int fake_cuda_device_of(int ordinal); /* -1: there is none */
int fake_cuda_counted_as(int device); /* -1: the process sees it not */
/* @bytes: where they are to be. False: there is no descriptor left. */
bool fake_cuda_piece_map(uint64_t at, size_t length, int device, int fd,
			 char *bytes);
bool fake_cuda_piece_open(uint64_t at, size_t length);
bool fake_cuda_piece_unmap(uint64_t at, size_t length);
/*
 * The same: of a file that other processes may have, while they have it. False:
 * somebody has a lock that excludes it.
 */
bool fake_cuda_lock_file(int fd, short type);
/* chunks.c, with the lock: asserts that nothing is left. */
void fake_cuda_chunks_reset(void);

/* Tells whether the address is of the host's memory that the driver knows. */
bool fake_cuda_is_pinned(CUdeviceptr at);
/* An error that calls of that name are to end with; 0. */
int fake_cuda_fault_of(const char *function);
/* With the lock: forgets all of them. */
void fake_cuda_faults_reset(void);

/*
 * copy.c: tells whether this thread is in a function that a stream has called,
 * which may call nothing of the driver.
 */
bool fake_cuda_in_function(void);
/* With the lock: asserts that no copy under way touches the memory. */
void fake_cuda_need_quiet(uint64_t at, uint64_t length);
/* With the lock: ends streams and events of a context, which is broken. */
void fake_cuda_copies_drop(CUcontext context);
/* The same: asserts that no stream and no event is left. */
void fake_cuda_copies_reset(void);

#endif
