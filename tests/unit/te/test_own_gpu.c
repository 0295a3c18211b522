/* SPDX-License-Identifier: Apache-2.0 */
/* test_own_gpu.c - requests of an engine to a GPU's memory of its own */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/unit/te/gpu.h"

#define LEN GPU_LEN

static uint8_t host[LEN];

/* An engine with memory of two GPUs. */
struct own {
	struct te_engine *engine;
	te_segment_id self;
	te_region_id region; /* of the first */
	CUdeviceptr at[2];   /* at[LEN] each */
	uint8_t *bytes[2];   /* behind them */
};

static struct own own_open(const char *backends, const char *staging)
{
	struct own own = {.engine = gpu_engine(backends, staging)};

	own.self = rig_segment(own.engine, own.engine);
	for (int i = 0; i < 2; i++) {
		own.at[i] = fake_cuda_alloc(&cuda, i, LEN);
		own.bytes[i] = cuda.bytes(own.at[i]);
	}
	own.region =
		rig_region(own.engine, as_pointer(own.at[0]), LEN, RIG_ANY);
	(void)rig_region(own.engine, as_pointer(own.at[1]), LEN, RIG_ANY);
	return own;
}

static void own_close(struct own *own)
{
	te_engine_destroy(own->engine);
	for (int i = 0; i < 2; i++)
		fake_cuda_free(&cuda, i, own->at[i]);
}

static int move(const struct own *own, uint32_t op, size_t there, size_t here,
		size_t length)
{
	return rig_move(own->engine, own->self, op,
			as_pointer(own->at[0] + there), host + here, length);
}

static struct gpu_target first_gpu(const struct own *own)
{
	return (struct gpu_target){own->engine, own->self, own->at[0],
				   own->bytes[0]};
}

static void bytes_go_in_and_out(void **state)
{
	static const char *const backends[] = {"loop", "loop,tcp,shm"};

	(void)state;
	for (size_t i = 0; i < 2 * TEST_COUNT(gpu_places); i++) {
		struct own own = own_open(backends[i % 2], "64m");
		struct gpu_target target = first_gpu(&own);
		uint64_t both = 2 * gpu_places[i / 2][2];

		gpu_go_and_return(&target, host, i / 2);
		assert_int_equal(
			test_stat(own.engine, "te_gpu_bytes_total", "staged"),
			both);
		assert_int_equal(test_stat(own.engine,
					   "te_rail_sent_bytes_total",
					   "loop/0"),
				 both);
		own_close(&own);
	}
}

static void bytes_go_from_gpu_to_gpu(void **state)
{
	struct own own = own_open("loop", "1m");
	struct gpu_target target = first_gpu(&own);

	(void)state;
	gpu_meet_gpu(&target, own.at[1]);
	own_close(&own);
}

/* Pieces of both kinds of memory, more requests than there is room for. */
static void many_share_little_room(void **state)
{
	enum { MANY = 60 };
	static struct te_request requests[MANY];
	static struct iovec pieces[MANY][2];
	const size_t each = LEN / MANY / 2;
	struct own own = own_open("loop", "1m");
	struct te_batch *batch;
	struct te_completion c;

	(void)state;
	rig_fill(host, LEN);
	rig_fill(own.bytes[1], LEN);
	for (size_t i = 0; i < MANY; i++) {
		size_t at = 2 * i * each;

		pieces[i][0] = (struct iovec){host + at, each};
		pieces[i][1] =
			(struct iovec){as_pointer(own.at[1] + at + each), each};
		requests[i] =
			rig_request(own.self, TE_WRITE,
				    as_pointer(own.at[0] + at), pieces[i]);
		requests[i].n_pieces = 2;
	}
	assert_int_equal(te_batch_create(own.engine, MANY, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, MANY), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(te_batch_result(batch, i, &c), 0);
		assert_int_equal(c.error, 0);
	}
	assert_memory_equal(own.bytes[0], host, 2 * each * MANY);
	te_batch_destroy(batch);
	own_close(&own);
}

static struct te_batch *submit_held(const struct own *own, uint32_t op,
				    struct iovec *piece)
{
	struct te_request request =
		rig_request(own->self, op, as_pointer(own->at[0]), piece);

	*piece = (struct iovec){host, LEN};
	cuda.hold(true);
	return rig_submit(own->engine, &request);
}

static void a_cancelled_one_ends_without_its_copy(void **state)
{
	static const uint32_t ops[] = {TE_WRITE, TE_READ};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct own own = own_open("loop", "1m");
		struct iovec piece;
		struct te_batch *batch = submit_held(&own, ops[i], &piece);

		assert_int_equal(te_batch_wait(batch, 20), -ETIMEDOUT);
		assert_int_equal(te_request_cancel(batch, 0), 0);
		assert_int_equal(rig_end(batch).error, -ECANCELED);
		cuda.hold(false);
		assert_int_equal(move(&own, TE_WRITE, 0, 0, LEN), 0);
		own_close(&own);
	}
}

/* The fake asserts that memory is freed without a copy of it under way. */
static void a_region_goes_after_its_copies(void **state)
{
	struct own own = own_open("loop", "1m");
	struct iovec piece;
	struct te_batch *batch = submit_held(&own, TE_WRITE, &piece);

	(void)state;
	assert_int_equal(te_batch_wait(batch, 20), -ETIMEDOUT);
	assert_int_equal(te_region_remove_within(own.engine, own.region, 20),
			 -ETIMEDOUT);
	cuda.hold(false);
	assert_int_equal(te_region_remove(own.engine, own.region), 0);
	assert_int_equal(rig_end(batch).error, -EFAULT);
	own_close(&own);
}

/* What is under way may land until it returns, and says so. */
static void a_revocation_waits_for_copies(void **state)
{
	struct own own = own_open("loop,tcp", "1m");
	struct iovec piece;
	struct te_completion c;
	struct te_batch *batch;

	(void)state;
	memset(host, 7, LEN);
	batch = submit_held(&own, TE_WRITE, &piece);
	assert_int_equal(te_batch_wait(batch, 20), -ETIMEDOUT);
	assert_int_equal(te_peer_revoke(own.engine, NULL, 20), -ETIMEDOUT);
	assert_int_equal(te_peer_revoke_wait(own.engine, NULL, 20), -ETIMEDOUT);
	assert_true(te_batch_result(batch, 0, &c) == -EAGAIN ||
		    !(c.flags & TE_REMOTE_QUIET));
	cuda.hold(false);
	assert_int_equal(te_peer_revoke_wait(own.engine, NULL, RIG_WAIT_MS), 0);
	memset(own.bytes[0], 0, LEN);
	c = rig_end(batch);
	assert_int_equal(c.error, -ESTALE);
	for (size_t i = 0; i < LEN; i++)
		assert_int_equal(own.bytes[0][i], 0);
	assert_int_equal(move(&own, TE_WRITE, 0, 0, LEN), 0);
	own_close(&own);
}

/* Copies of some of them are held, and there is no room for the others. */
static void an_engine_may_end_while_requests_await_room(void **state)
{
	enum { MANY = 8 };
	static struct te_request requests[MANY];
	struct own own = own_open("loop,tcp", "1m");
	struct iovec piece = {host, LEN};
	struct te_batch *batch;

	(void)state;
	for (size_t i = 0; i < MANY; i++)
		requests[i] = rig_request(own.self, i % 2 ? TE_READ : TE_WRITE,
					  as_pointer(own.at[0]), &piece);
	assert_int_equal(te_batch_create(own.engine, MANY, &batch), 0);
	cuda.hold(true);
	assert_int_equal(te_batch_submit(batch, requests, MANY), 0);
	assert_int_equal(te_batch_wait(batch, 20), -ETIMEDOUT);
	assert_int_equal(te_peer_revoke(own.engine, NULL, 20), -ETIMEDOUT);
	cuda.hold(false);
	own_close(&own);
}

static void an_engine_may_end_while_copies_are_under_way(void **state)
{
	static const uint32_t ops[] = {TE_WRITE, TE_READ};

	(void)state;
	for (size_t i = 0; i < 20; i++) {
		struct own own = own_open("loop,tcp", "1m");
		struct iovec piece = {host, LEN};
		struct te_request request = rig_request(
			own.self, ops[i % 2], as_pointer(own.at[0]), &piece);

		cuda.delay(100);
		(void)rig_submit(own.engine, &request);
		own_close(&own);
		cuda.delay(0);
	}
}

static void what_the_driver_refuses_is_an_error(void **state)
{
	struct own own = own_open("loop", "1m");

	(void)state;
	cuda.fail_call("cuMemcpyHtoDAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(move(&own, TE_WRITE, 0, 0, LEN), -EIO);
	cuda.fail_call("cuMemcpyHtoDAsync", 0);
	cuda.fail_call("cuMemcpyDtoHAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(move(&own, TE_READ, 0, 0, LEN), -EIO);
	cuda.fail_call("cuMemcpyDtoHAsync", 0);
	assert_int_equal(move(&own, TE_READ, 0, 0, LEN), 0);
	own_close(&own);
}

/* The caller has unmapped its own memory: an error, not a signal. */
static void local_memory_that_is_gone_is_an_error(void **state)
{
	static const uint32_t ops[] = {TE_WRITE, TE_READ};
	struct own own = own_open("loop", "1m");
	void *gone = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(gone != MAP_FAILED);
	munmap(gone, LEN);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(rig_move(own.engine, own.self, ops[i],
					  as_pointer(own.at[0]), gone, LEN),
				 -EFAULT);
	own_close(&own);
}

static void without_memory_a_request_fails_and_the_next_does_not(void **state)
{
	struct own own = own_open("loop", "1m");
	struct iovec piece = {host, LEN};
	struct te_request request =
		rig_request(own.self, 0, as_pointer(own.at[0]), &piece);

	(void)state;
	assert_int_equal(move(&own, TE_WRITE, 0, 0, LEN), 0);
	for (unsigned int nth = 1; nth < 30; nth++) {
		int rc;

		request.op = nth % 2 ? TE_WRITE : TE_READ;
		rc = gpu_run_without(own.engine, &request, nth);
		assert_true(!rc || rc == -ENOMEM);
		assert_int_equal(move(&own, TE_WRITE, 0, 0, LEN), 0);
	}
	own_close(&own);
}

#define T(test) cmocka_unit_test_setup_teardown(test, gpu_set_up, gpu_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(bytes_go_in_and_out),
		T(bytes_go_from_gpu_to_gpu),
		T(many_share_little_room),
		T(a_cancelled_one_ends_without_its_copy),
		T(a_region_goes_after_its_copies),
		T(a_revocation_waits_for_copies),
		T(an_engine_may_end_while_requests_await_room),
		T(an_engine_may_end_while_copies_are_under_way),
		T(what_the_driver_refuses_is_an_error),
		T(local_memory_that_is_gone_is_an_error),
		T(without_memory_a_request_fails_and_the_next_does_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
