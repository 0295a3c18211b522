/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - loading the fake driver into a test */
#include <dlfcn.h>
#include <string.h>

#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/test.h"

#define AT(member_) offsetof(struct fake_cuda, member_)

void fake_cuda_open(struct fake_cuda *fake)
{
	static const struct {
		size_t at;
		const char *name;
	} rows[] = {
		{AT(init), "cuInit"},
		{AT(mem_alloc), "cuMemAlloc_v2"},
		{AT(mem_free), "cuMemFree_v2"},
		{AT(mem_alloc_managed), "cuMemAllocManaged"},
		{AT(mem_host_alloc), "cuMemHostAlloc"},
		{AT(mem_free_host), "cuMemFreeHost"},
		{AT(mem_host_register), "cuMemHostRegister_v2"},
		{AT(mem_host_unregister), "cuMemHostUnregister"},
		{AT(primary_ctx_retain), "cuDevicePrimaryCtxRetain"},
		{AT(primary_ctx_release), "cuDevicePrimaryCtxRelease_v2"},
		{AT(ctx_push), "cuCtxPushCurrent_v2"},
		{AT(ctx_pop), "cuCtxPopCurrent_v2"},
		{AT(stream_create), "cuStreamCreate"},
		{AT(stream_destroy), "cuStreamDestroy_v2"},
		{AT(stream_synchronize), "cuStreamSynchronize"},
		{AT(memcpy_out), "cuMemcpyDtoHAsync_v2"},
		{AT(memcpy_in), "cuMemcpyHtoDAsync_v2"},
		{AT(launch_host_func), "cuLaunchHostFunc"},
		{AT(stream_wait_value), "cuStreamWaitValue64_v2"},
		{AT(map_chunks), "fake_cuda_map_chunks"},
		{AT(unmap_chunks), "fake_cuda_unmap_chunks"},
		{AT(hide_chunks), "fake_cuda_hide_chunks"},
		{AT(pool_alloc), "fake_cuda_pool_alloc"},
		{AT(bytes), "fake_cuda_bytes"},
		{AT(pinned), "fake_cuda_pinned"},
		{AT(is_ordered), "fake_cuda_is_ordered"},
		{AT(fail_call), "fake_cuda_fail"},
		{AT(fail_after), "fake_cuda_fail_after"},
		{AT(break_context), "fake_cuda_break_context"},
		{AT(delay), "fake_cuda_delay"},
		{AT(hold), "fake_cuda_hold"},
		{AT(n_copies), "fake_cuda_n_copies"},
		{AT(n_batches), "fake_cuda_n_batches"},
		{AT(n_questions), "fake_cuda_n_questions"},
		{AT(n_opened), "fake_cuda_n_opened"},
		{AT(n_imported), "fake_cuda_n_imported"},
		{AT(reset), "fake_cuda_reset"},
		{AT(n_inits), "fake_cuda_n_inits"},
		{AT(n_contexts), "fake_cuda_n_contexts"},
		{AT(n_flushes), "fake_cuda_n_flushes"},
		{AT(capture), "fake_cuda_capture"},
	};

	fake->file = FAKE_CUDA_FILE;
	fake->library = dlopen(fake->file, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(fake->library);
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		void *symbol = dlsym(fake->library, rows[i].name);

		assert_non_null(symbol);
		memcpy((char *)fake + rows[i].at, &symbol, sizeof(symbol));
	}
}

CUdeviceptr fake_cuda_alloc(const struct fake_cuda *fake, int gpu, size_t size)
{
	CUcontext context;
	CUdeviceptr at;

	assert_int_equal(fake->primary_ctx_retain(&context, gpu), 0);
	assert_int_equal(fake->ctx_push(context), 0);
	assert_int_equal(fake->mem_alloc(&at, size), 0);
	assert_int_equal(fake->ctx_pop(&context), 0);
	return at;
}

void fake_cuda_free(const struct fake_cuda *fake, int gpu, CUdeviceptr at)
{
	assert_int_equal(fake->mem_free(at), 0);
	assert_int_equal(fake->primary_ctx_release(gpu), 0);
}
