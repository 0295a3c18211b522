/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpu_engines.c - engines with a GPU's memory, which come and go */
#include "tests/lib/self.h"
#include "tests/unit/te/gpu.h"

#define MANY    1000
#define AT_ONCE 4
#define LEN     ((size_t)64 << 10)

static uint8_t host[LEN];

/* An engine that has moved bytes of both kinds of memory of a GPU. */
static struct te_engine *used_engine(CUdeviceptr at)
{
	struct te_engine *engine = gpu_engine("loop,tcp", "1m");
	te_segment_id self = rig_segment(engine, engine);
	void *own;

	(void)rig_region(engine, as_pointer(at), LEN, RIG_ANY);
	assert_int_equal(te_memory_alloc_at(engine, LEN, "cuda:3", &own), 0);
	(void)rig_region(engine, own, LEN, RIG_ANY);
	assert_int_equal(
		rig_move(engine, self, TE_WRITE, as_pointer(at), host, LEN), 0);
	assert_int_equal(rig_move(engine, self, TE_READ, own, host, LEN), 0);
	return engine;
}

/* The tear-down asserts that no memory, stream and event is left. */
static void a_thousand_leave_nothing(void **state)
{
	CUdeviceptr at = fake_cuda_alloc(&cuda, 0, LEN);
	struct te_engine *engines[AT_ONCE];
	unsigned int fds, threads;

	(void)state;
	te_engine_destroy(used_engine(at)); /* libraries open what they keep */
	fds = test_fds_open();
	threads = test_threads();
	for (unsigned int i = 0; i < MANY / AT_ONCE; i++) {
		for (unsigned int k = 0; k < AT_ONCE; k++)
			engines[k] = used_engine(at);
		for (unsigned int k = 0; k < AT_ONCE; k++)
			te_engine_destroy(engines[(k + i) % AT_ONCE]);
		assert_int_equal(cuda.n_contexts(), 1);
	}
	assert_int_equal(test_fds_open(), fds);
	assert_int_equal(test_threads(), threads);
	fake_cuda_free(&cuda, 0, at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_thousand_leave_nothing,
						gpu_set_up, gpu_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
