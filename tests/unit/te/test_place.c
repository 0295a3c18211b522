/* SPDX-License-Identifier: Apache-2.0 */
/* test_place.c - memory of a place: of a GPU, of a NUMA node */
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/lib/faults.h"
#include "tests/unit/te/gpu.h"

#define LEN ((size_t)1 << 20)

static struct te_engine *owner, *user;

static int set_up(void **state)
{
	(void)gpu_set_up(state);
	owner = gpu_engine("tcp", "4m");
	user = gpu_engine("tcp", "4m");
	lines[0] = '\0';
	return 0;
}

static int tear_down(void **state)
{
	te_engine_destroy(user);
	te_engine_destroy(owner);
	return gpu_tear_down(state);
}

static void *alloc(const char *location)
{
	void *at;

	assert_int_equal(te_memory_alloc_at(owner, LEN, location, &at), 0);
	return at;
}

static void assert_refused(const char *location, int error, const char *why)
{
	void *at = lines;

	lines[0] = '\0';
	assert_int_equal(te_memory_alloc_at(owner, LEN, location, &at), error);
	assert_ptr_equal(at, lines);
	assert_non_null(strstr(lines, why));
}

static void memory_of_a_gpu_is_reached_by_peers(void **state)
{
	void *at = alloc("cuda:2");
	te_region_id id = rig_region(owner, at, LEN, RIG_ANY);
	te_segment_id segment = rig_segment(user, owner);
	struct te_region_facts facts;
	static uint8_t local[LEN];

	(void)state;
	assert_int_equal(te_region_describe(owner, id, &facts), 0);
	assert_string_equal(facts.location, "cuda:2");
	assert_int_equal(facts.memory, TE_MEMORY_GPU);
	rig_fill(local, LEN);
	assert_int_equal(rig_move(user, segment, TE_WRITE, at, local, LEN), 0);
	assert_memory_equal(cuda.bytes((uintptr_t)at), local, LEN);
	assert_int_equal(te_region_remove(owner, id), 0);
	assert_int_equal(cuda.n_contexts(), 1);
	te_memory_free(owner, at);
	assert_int_equal(cuda.n_contexts(), 0);
	te_memory_free(owner, at); /* nobody's now: left alone */
}

static void a_gpu_that_is_in_use_stays_so(void **state)
{
	CUdeviceptr other = fake_cuda_alloc(&cuda, 1, 4096);

	(void)state;
	te_memory_free(owner, alloc("cuda:1"));
	assert_int_equal(cuda.n_contexts(), 1);
	fake_cuda_free(&cuda, 1, other);
}

static void what_cannot_be_is_refused_with_words(void **state)
{
	(void)state;
	assert_refused("cuda:4", -ENODEV, "this process sees no cuda:4");
	assert_refused("cuda:", -EINVAL, "neither \"cpu:N\" nor of a GPU");
	assert_refused("gpu:0", -EINVAL, "neither");
	assert_refused("cpu:", -EINVAL, "neither");
	assert_refused("cpu:0x", -EINVAL, "neither");
	assert_refused("cpu:-1", -EINVAL, "neither");
	assert_refused("cpu:1023", -ENODEV, "no NUMA node 1023");
	assert_refused("cpu:1024", -EINVAL, "neither");
	assert_int_equal(te_memory_alloc_at(owner, 0, "cuda:0", (void **)&user),
			 -EINVAL);
	assert_int_equal(te_memory_alloc_at(owner, LEN, "cuda:0", NULL),
			 -EINVAL);
}

static void a_driver_that_fails_leaves_nothing(void **state)
{
	(void)state;
	cuda.fail_call("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY);
	assert_refused("cuda:0", -ENOMEM,
		       "memory of a GPU: there are no 1048576");
	cuda.fail_call("cuMemAlloc", CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_refused("cuda:0", -EIO, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
	cuda.fail_call("cuMemAlloc", 0);
	cuda.fail_call("cuDevicePrimaryCtxRetain", CUDA_ERROR_OUT_OF_MEMORY);
	assert_refused("cuda:0", -ENOMEM, "there are no");
	cuda.fail_call("cuDevicePrimaryCtxRetain", 0);
	cuda.fail_call("cuInit", CUDA_ERROR_NO_DEVICE);
	assert_refused("cuda:0", -ENODEV, "no GPU that this process may use");
	assert_int_equal(cuda.n_contexts(), 0);
}

static void without_a_driver_there_is_no_gpu(void **state)
{
	static const char *const settings[] = {"cuda_library", "/no/such.so",
					       NULL};
	struct te_engine *without = rig_engine(settings);
	void *at;

	(void)state;
	for (int i = 0; i < 2; i++) {
		lines[0] = '\0';
		assert_int_equal(
			te_memory_alloc_at(without, LEN, "cuda:0", &at),
			-ENODEV);
		assert_true(strstr(lines, i ? "is not here" : "/no/such.so"));
	}
	assert_int_equal(te_memory_alloc_at(without, LEN, "cpu:0", &at), 0);
	memset(at, 1, LEN);
	te_engine_destroy(without);
}

static void memory_of_a_node_prefers_it(void **state)
{
	unsigned long nodes[1024 / (8 * sizeof(unsigned long))] = {0};
	uint8_t *at = alloc("cpu:0");
	int policy = -1;

	(void)state;
	for (size_t i = 0; i < LEN; i += 4096)
		assert_int_equal(at[i], 0);
	/* Not every container may ask or say so. */
	if (syscall(SYS_get_mempolicy, &policy, nodes, 1024, at, MPOL_F_ADDR) ||
	    strstr(lines, "mbind"))
		skip();
	assert_int_equal(policy, MPOL_PREFERRED);
	assert_int_equal(nodes[0], 1);
	te_memory_free(owner, at);
}

/* The driver has it as long as it is there; the tear-down finds what is left. */
static void the_hosts_is_locked_where_a_gpu_is_in_use(void **state)
{
	CUdeviceptr used;
	void *at;

	(void)state;
	cuda.fail_call("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY);
	te_memory_free(owner, alloc("cpu:0"));
	used = fake_cuda_alloc(&cuda, 3, 4096);
	assert_refused("cpu:0", -ENOMEM, "cuMemHostRegister: there are no");
	cuda.fail_call("cuMemHostRegister", 0);
	at = alloc("cpu:0");
	memset(at, 1, LEN);
	assert_non_null(cuda.bytes((uintptr_t)at));
	te_memory_free(owner, at);
	assert_null(cuda.bytes((uintptr_t)at));
	fake_cuda_free(&cuda, 3, used);
}

/* A driver that has no GPU for us does not matter to the host's memory. */
static void the_hosts_does_not_need_a_gpu(void **state)
{
	(void)state;
	cuda.fail_call("cuDeviceGetCount", CUDA_ERROR_NO_DEVICE);
	te_memory_free(owner, alloc("cpu:0"));
	cuda.fail_call("cuDeviceGetCount", 0);
}

/* It is unlocked by the GPU that has locked it, though others are in use. */
static void another_gpu_may_come_into_use(void **state)
{
	CUdeviceptr second = fake_cuda_alloc(&cuda, 1, 4096), first;
	void *at = alloc("cpu:0");

	(void)state;
	first = fake_cuda_alloc(&cuda, 0, 4096);
	te_memory_free(owner, at);
	assert_null(cuda.bytes((uintptr_t)at));
	fake_cuda_free(&cuda, 0, first);
	fake_cuda_free(&cuda, 1, second);
}

static void an_engine_frees_what_is_left(void **state)
{
	CUdeviceptr used = fake_cuda_alloc(&cuda, 0, 4096);

	(void)state;
	alloc("cuda:0");
	alloc("cuda:1");
	alloc("cpu:0");
	te_engine_destroy(owner);
	owner = gpu_engine("tcp", "4m");
	assert_int_equal(cuda.n_contexts(), 1);
	fake_cuda_free(&cuda, 0, used);
}

static void no_location_is_as_te_memory_alloc(void **state)
{
	static const char *const any[] = {NULL, "", "*"};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		void *at = alloc(any[i]);

		memset(at, 1, LEN);
		te_memory_free(owner, at);
	}
}

static void without_memory_nothing_is_left(void **state)
{
	static const char *const locations[] = {"cuda:0", "cpu:0"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct test_faults f = {.kind = TEI_FAULT_ALLOC};

		while (test_faults_next(&f)) {
			void *at;
			int rc = te_memory_alloc_at(owner, LEN, locations[i],
						    &at);

			if (!rc)
				te_memory_free(owner, at);
			else
				assert_int_equal(rc, -ENOMEM);
		}
	}
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(memory_of_a_gpu_is_reached_by_peers),
		T(a_gpu_that_is_in_use_stays_so),
		T(what_cannot_be_is_refused_with_words),
		T(a_driver_that_fails_leaves_nothing),
		T(without_a_driver_there_is_no_gpu),
		T(memory_of_a_node_prefers_it),
		T(the_hosts_is_locked_where_a_gpu_is_in_use),
		T(the_hosts_does_not_need_a_gpu),
		T(another_gpu_may_come_into_use),
		T(an_engine_frees_what_is_left),
		T(no_location_is_as_te_memory_alloc),
		T(without_memory_nothing_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
