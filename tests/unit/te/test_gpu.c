/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpu.c - pinned memory and copies of a process, without an engine */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <te/gpu.h>

#include "base/log.h"
#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/unit/te/rig.h"

#define LEN ((size_t)1 << 20)

static struct fake_cuda cuda;
static char lines[4096];
static uint8_t pattern[LEN];

static void keep(int level, const char *line, void *arg)
{
	size_t used = strlen(lines);

	(void)arg;
	if (level <= TEI_LOG_WARN)
		(void)snprintf(lines + used, sizeof(lines) - used, "%s\n",
			       line);
}

static int set_up(void **state)
{
	(void)state;
	fake_cuda_open(&cuda);
	setenv("TE_CUDA_LIBRARY", cuda.file, 1);
	lines[0] = '\0';
	tei_log_set_sink(keep, NULL);
	rig_fill(pattern, LEN);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tei_log_set_sink(NULL, NULL);
	cuda.reset();
	return 0;
}

static void *map(void)
{
	void *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static void use_gpu(void)
{
	CUcontext context;

	assert_int_equal(cuda.init(0), 0);
	assert_int_equal(cuda.primary_ctx_retain(&context, 2), 0);
}

static void leave_gpu(void)
{
	assert_int_equal(cuda.primary_ctx_release(2), 0);
}

/* No driver is started, and no context is made. */
static void nothing_is_pinned_where_no_gpu_is_used(void **state)
{
	void *at = map();

	(void)state;
	assert_int_equal(te_gpu_pin(at, LEN), -ENODEV);
	assert_non_null(strstr(lines, "are not pinned: this process uses no "
				      "GPU"));
	assert_int_equal(cuda.n_inits(), 0);
	assert_int_equal(cuda.init(0), 0);
	assert_int_equal(te_gpu_pin(at, LEN), -ENODEV);
	assert_int_equal(cuda.n_contexts(), 0);
	te_gpu_unpin(at);
	munmap(at, LEN);
}

static void memory_is_pinned_until_it_is_unpinned(void **state)
{
	void *one = map(), *other = map();

	(void)state;
	use_gpu();
	assert_int_equal(te_gpu_pin(one, LEN), 0);
	assert_int_equal(te_gpu_pin(other, LEN / 2), 0);
	assert_int_equal(cuda.pinned(), LEN + LEN / 2);
	te_gpu_unpin((char *)one + 1);
	te_gpu_unpin(one);
	te_gpu_unpin(one);
	assert_int_equal(cuda.pinned(), LEN / 2);
	te_gpu_unpin(other);
	assert_int_equal(cuda.pinned(), 0);
	assert_int_equal(te_gpu_pin(NULL, LEN), -EINVAL);
	assert_int_equal(te_gpu_pin(one, 0), -EINVAL);
	munmap(one, LEN);
	munmap(other, LEN);
	leave_gpu();
	assert_string_equal(lines, "");
}

static void memory_of_an_engine_is_unpinned_when_it_is_freed(void **state)
{
	struct te_engine *engine = rig_engine(NULL);
	void *freed, *left;

	(void)state;
	use_gpu();
	assert_int_equal(te_memory_alloc(engine, LEN, &freed), 0);
	assert_int_equal(te_memory_alloc(engine, LEN, &left), 0);
	assert_int_equal(te_gpu_pin(freed, LEN), 0);
	assert_int_equal(te_gpu_pin(left, LEN), 0);
	te_memory_free(engine, freed);
	assert_int_equal(cuda.pinned(), LEN);
	te_engine_destroy(engine);
	assert_int_equal(cuda.pinned(), 0);
	leave_gpu();
}

static void refusals_of_the_driver_have_words(void **state)
{
	void *at = map();

	(void)state;
	use_gpu();
	cuda.fail_call("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(te_gpu_pin(at, LEN), -ENOMEM);
	cuda.fail_call("cuMemHostRegister", CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(te_gpu_pin(at, LEN), -EIO);
	assert_non_null(strstr(lines, "cuMemHostRegister: there are no"));
	assert_non_null(strstr(lines, "(801)"));
	cuda.fail_call("cuMemHostRegister", 0);
	assert_int_equal(te_gpu_pin(at, LEN), 0);
	/* As at the exit of a process, whose driver ends first. */
	cuda.fail_call("cuDeviceGet", CUDA_ERROR_DEINITIALIZED);
	te_gpu_unpin(at);
	cuda.fail_call("cuDeviceGet", 0);
	assert_int_equal(cuda.pinned(), LEN);
	assert_int_equal(cuda.mem_free((uintptr_t)at), 0);
	munmap(at, LEN);
	leave_gpu();
}

static void child_of_a_fork_leaves_all_alone(void **state)
{
	void *at = map();
	int status;
	pid_t child;

	(void)state;
	use_gpu();
	assert_int_equal(te_gpu_pin(at, LEN), 0);
	child = fork();
	if (!child) {
		const struct te_gpu_copy copy = {1, at, 1};

		te_gpu_unpin(at);
		_exit(cuda.pinned() == LEN && te_gpu_pin(at, LEN) == -ESTALE &&
				      te_gpu_copy_in(&copy, 1) == -ESTALE
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	te_gpu_unpin(at);
	munmap(at, LEN);
	leave_gpu();
}

/* ---- copies ---- */

#define PIECES 150u

static void bytes_are_copied_to_several_gpus(void **state)
{
	struct te_gpu_copy copies[PIECES];
	CUdeviceptr at[2];

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	for (int i = 0; i < 2; i++)
		at[i] = fake_cuda_alloc(&cuda, i, LEN);
	for (size_t i = 0; i < PIECES; i++)
		copies[i] = (struct te_gpu_copy){
			.gpu = at[i / 80] + i * 1000,
			.host = pattern + i * 1000,
			.length = 1000,
		};
	assert_int_equal(te_gpu_copy_in(copies, PIECES), 0);
	for (size_t i = 0; i < PIECES; i++)
		assert_memory_equal(cuda.bytes(copies[i].gpu), copies[i].host,
				    1000);
	assert_int_equal(cuda.n_copies(), PIECES);
	assert_int_equal(te_gpu_copy_in(NULL, 0), 0);
	for (int i = 0; i < 2; i++)
		fake_cuda_free(&cuda, i, at[i]);
	assert_string_equal(lines, "");
}

static int copy_to(uint64_t gpu, uint64_t length)
{
	const struct te_gpu_copy copy = {gpu, pattern, length};

	return te_gpu_copy_in(&copy, 1);
}

static void what_cannot_be_copied_has_words(void **state)
{
	CUdeviceptr at;

	(void)state;
	assert_int_equal(cuda.init(0), 0);
	at = fake_cuda_alloc(&cuda, 1, LEN);
	assert_int_equal(copy_to(at, 0), -EINVAL);
	assert_int_equal(copy_to(0, 1), -EINVAL);
	assert_int_equal(copy_to(at, UINT64_MAX), -EINVAL);
	assert_int_equal(copy_to((uintptr_t)pattern, 8), -EFAULT);
	assert_int_equal(copy_to(at + 1, LEN), -EFAULT);
	assert_non_null(strstr(lines, "1 bytes behind what was allocated"));
	cuda.fail_call("cuMemcpyHtoDAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(copy_to(at, LEN), -EIO);
	cuda.fail_call("cuMemcpyHtoDAsync", 0);
	assert_non_null(strstr(lines, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
	cuda.fail_call("cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(copy_to(at, LEN), -EIO);
	cuda.fail_call("cuStreamCreate", 0);
	assert_int_equal(copy_to(at, LEN), 0);
	fake_cuda_free(&cuda, 1, at);
	assert_int_equal(copy_to(at, 8), -EFAULT);
}

/* ---- memory that others can be given ---- */

#define UNIT ((uint64_t)2 << 20)

static void chunks_of_a_gpu_are_registered_and_written_to(void **state)
{
	const char *const by_tcp[] = {"backends", "loop,tcp", NULL};
	struct te_engine *user = rig_engine(by_tcp),
			 *owner = rig_engine(by_tcp);
	struct iovec piece = {pattern, LEN};
	struct te_request request;
	uint64_t at = 0;
	te_region_id id;

	(void)state;
	assert_int_equal(te_gpu_can_alloc(2), 0);
	assert_int_equal(te_gpu_alloc(2, UNIT + 1, &at), 0);
	assert_int_equal(cuda.n_contexts(), 0);
	/* Copies are made in a context that is in use. */
	use_gpu();
	id = rig_region(owner, (void *)(uintptr_t)at, 2 * UNIT, RIG_ANY);
	rig_region(user, pattern, LEN, 0);
	request = rig_request(rig_segment(user, owner), TE_WRITE,
			      (void *)(uintptr_t)(at + UNIT), &piece);
	assert_int_equal(rig_run(user, &request).error, 0);
	assert_memory_equal(cuda.bytes(at + UNIT), pattern, LEN);
	assert_int_equal(te_region_remove(owner, id), 0);
	te_gpu_free(at + 1, NULL);
	te_gpu_free(at, NULL);
	te_gpu_free(at, NULL);
	te_gpu_free(0, NULL);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	leave_gpu();
	assert_string_equal(lines, "");
}

/* Each call of the driver in turn; what was done before is undone. */
static void chunks_that_cannot_be_have_words(void **state)
{
	static const char *const calls[] = {
		"cuMemGetAllocationGranularity", "cuMemAddressReserve",
		"cuMemMap", "cuMemSetAccess", "cuDevicePrimaryCtxRetain"};
	uint64_t at;

	(void)state;
	assert_int_equal(te_gpu_alloc(4, UNIT, &at), -ENODEV);
	assert_non_null(strstr(lines, "no 2097152 bytes of GPU 4: this process "
				      "sees no cuda:4"));
	assert_int_equal(te_gpu_can_alloc(4), -ENODEV);
	assert_int_equal(te_gpu_alloc(-1, UNIT, &at), -ENODEV);
	assert_int_equal(te_gpu_alloc(0, 0, &at), -EINVAL);
	assert_int_equal(te_gpu_alloc(0, UNIT, NULL), -EINVAL);
	assert_int_equal(te_gpu_alloc(0, UINT64_MAX, &at), -ENOMEM);
	cuda.fail_call("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(te_gpu_alloc(0, UNIT, &at), -ENOMEM);
	assert_non_null(strstr(lines, "cuda:0 has no 2097152 bytes left"));
	cuda.fail_call("cuMemCreate", 0);
	for (size_t i = 0; i < TEST_COUNT(calls); i++) {
		cuda.fail_call(calls[i], CUDA_ERROR_NOT_SUPPORTED);
		assert_int_equal(te_gpu_alloc(0, UNIT, &at), -EIO);
		cuda.fail_call(calls[i], 0);
	}
	cuda.fail_call("cuDeviceGetAttribute", CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(te_gpu_alloc(0, UNIT, &at), -EOPNOTSUPP);
	assert_int_equal(te_gpu_can_alloc(0), -EOPNOTSUPP);
	cuda.fail_call("cuDeviceGetAttribute", 0);
	cuda.fail_call("cuInit", CUDA_ERROR_NO_DEVICE);
	assert_int_equal(te_gpu_alloc(0, UNIT, &at), -ENODEV);
	cuda.fail_call("cuInit", 0);
	assert_int_equal(te_gpu_alloc(0, UNIT, &at), 0);
	te_gpu_free(at, NULL);
	assert_int_equal(cuda.n_contexts(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_pinned_where_no_gpu_is_used),
		TEST(memory_is_pinned_until_it_is_unpinned),
		TEST(memory_of_an_engine_is_unpinned_when_it_is_freed),
		TEST(refusals_of_the_driver_have_words),
		TEST(child_of_a_fork_leaves_all_alone),
		TEST(bytes_are_copied_to_several_gpus),
		TEST(what_cannot_be_copied_has_words),
		TEST(chunks_of_a_gpu_are_registered_and_written_to),
		TEST(chunks_that_cannot_be_have_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
