/* SPDX-License-Identifier: Apache-2.0 */
/* test_reached.c - a GPU's memory that peers reach, by copies of its host */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "tests/unit/te/gpu.h"

#define LEN GPU_LEN

static uint8_t host[LEN];

/* An engine that has memory of a GPU, which peers may reach. */
struct side {
	struct te_engine *engine;
	te_region_id region;
	te_segment_id other; /* the other side */
	CUdeviceptr at;      /* at[LEN] */
	uint8_t *bytes;      /* behind it */
};

struct pair {
	struct side owner, user;
};

static struct side side_open(const char *backends, const char *staging, int gpu)
{
	struct side side = {.engine = gpu_engine(backends, staging),
			    .at = fake_cuda_alloc(&cuda, gpu, LEN)};

	side.bytes = cuda.bytes(side.at);
	side.region =
		rig_region(side.engine, as_pointer(side.at), LEN, RIG_ANY);
	return side;
}

static struct pair pair_open(const char *backends, const char *staging)
{
	struct pair pair = {.owner = side_open(backends, staging, 0),
			    .user = side_open(backends, staging, 1)};

	pair.user.other = rig_segment(pair.user.engine, pair.owner.engine);
	pair.owner.other = rig_segment(pair.owner.engine, pair.user.engine);
	return pair;
}

static void pair_close(struct pair *pair)
{
	te_engine_destroy(pair->user.engine);
	te_engine_destroy(pair->owner.engine);
	fake_cuda_free(&cuda, 1, pair->user.at);
	fake_cuda_free(&cuda, 0, pair->owner.at);
}

/* Moves bytes of the host's memory to or from the owner's. */
static int move(const struct pair *pair, uint32_t op, size_t there, size_t here,
		size_t length)
{
	return rig_move(pair->user.engine, pair->user.other, op,
			as_pointer(pair->owner.at + there), host + here,
			length);
}

/* ---- bytes ---- */

static struct gpu_target owners_gpu(const struct pair *pair)
{
	return (struct gpu_target){pair->user.engine, pair->user.other,
				   pair->owner.at, pair->owner.bytes};
}

static void peers_reach_it_by_tcp(void **state)
{
	static const char *const backends[] = {"tcp", "shm,tcp"};

	(void)state;
	for (size_t i = 0; i < 2 * TEST_COUNT(gpu_places); i++) {
		struct pair pair = pair_open(backends[i % 2], "64m");
		struct gpu_target target = owners_gpu(&pair);

		gpu_go_and_return(&target, host, i / 2);
		assert_int_equal(test_stat(pair.owner.engine,
					   "te_gpu_bytes_total", "staged"),
				 2 * gpu_places[i / 2][2]);
		pair_close(&pair);
	}
}

/* At both ends, by two drivers' threads. */
static void bytes_go_from_gpu_to_gpu(void **state)
{
	struct pair pair = pair_open("tcp", "64m");
	struct gpu_target target = owners_gpu(&pair);

	(void)state;
	gpu_meet_gpu(&target, pair.user.at);
	pair_close(&pair);
}

/* ---- room ---- */

#define MANY 100u
#define MOST ((size_t)900000)

struct many {
	struct te_request requests[MANY];
	struct iovec pieces[MANY];
	struct te_batch *batch;
};

/* From one GPU to the other, of any sizes, most of them small. */
static void submit_many(struct many *many, const struct side *from,
			const struct side *to, uint32_t op)
{
	for (size_t i = 0; i < MANY; i++) {
		size_t length = 1 + (size_t)rand() % MOST;
		size_t at = (size_t)rand() % (LEN - MOST);

		if (rand() % 4)
			length = 1 + length % 30000;
		many->pieces[i] =
			(struct iovec){as_pointer(from->at + at), length};
		many->requests[i] =
			rig_request(from->other, rand() % 8 ? op : 3 - op,
				    as_pointer(to->at + at), &many->pieces[i]);
	}
	assert_int_equal(te_batch_create(from->engine, MANY, &many->batch), 0);
	assert_int_equal(te_batch_submit(many->batch, many->requests, MANY), 0);
}

static unsigned int count_good(struct many *many)
{
	static struct te_completion ends[MANY];
	unsigned int n_good = 0;

	assert_int_equal(te_batch_wait(many->batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(many->batch, ends, MANY), MANY);
	for (size_t i = 0; i < MANY; i++)
		n_good += !ends[i].error;
	te_batch_destroy(many->batch);
	return n_good;
}

/*
 * Each has room for some of it, in pieces that are free here and there, and
 * each waits for the other's.
 */
static void two_that_fill_each_other_come_to_an_end(void **state)
{
	static struct many a, b;

	(void)state;
	srand(19);
	for (unsigned int i = 0; i < 8; i++) {
		uint32_t op = i & 1 ? TE_READ : TE_WRITE;
		struct pair pair = pair_open("tcp", i & 2 ? "2m" : "1m");

		submit_many(&a, &pair.user, &pair.owner, op);
		submit_many(&b, &pair.owner, &pair.user, op);
		assert_int_equal(count_good(&a), MANY);
		assert_int_equal(count_good(&b), MANY);
		pair_close(&pair);
	}
}

/* ---- ends ---- */

/* A submitted request, whose copy at the owner does not end. */
static struct te_batch *begin(const struct pair *pair, uint32_t op)
{
	static struct iovec piece = {host, LEN};
	struct te_request request = rig_request(
		pair->user.other, op, as_pointer(pair->owner.at), &piece);
	struct te_batch *batch;

	assert_int_equal(move(pair, op, 0, 0, 8), 0);
	cuda.hold(true);
	batch = rig_submit(pair->user.engine, &request);
	assert_int_equal(te_batch_wait(batch, 100), -ETIMEDOUT);
	return batch;
}

/* Nothing lands after te_peer_revoke() has returned 0. */
static void a_revocation_waits_for_copies(void **state)
{
	static uint8_t before[LEN];

	(void)state;
	for (uint32_t op = TE_READ; op <= TE_WRITE; op++) {
		struct pair pair = pair_open("tcp", "64m");
		struct te_batch *batch = begin(&pair, op);

		assert_int_equal(te_peer_revoke(pair.owner.engine, NULL, 100),
				 -ETIMEDOUT);
		cuda.hold(false);
		assert_int_equal(te_peer_revoke_wait(pair.owner.engine, NULL,
						     RIG_WAIT_MS),
				 0);
		memcpy(before, pair.owner.bytes, LEN);
		assert_int_equal(rig_end(batch).error, -ESTALE);
		assert_memory_equal(before, pair.owner.bytes, LEN);
		assert_int_equal(move(&pair, op, 0, 0, LEN), 0);
		pair_close(&pair);
	}
}

static void a_region_goes_after_its_copies(void **state)
{
	(void)state;
	for (uint32_t op = TE_READ; op <= TE_WRITE; op++) {
		struct pair pair = pair_open("tcp", "64m");
		struct te_batch *batch = begin(&pair, op);
		int rc;

		assert_int_equal(te_region_remove_within(pair.owner.engine,
							 pair.owner.region,
							 100),
				 -ETIMEDOUT);
		cuda.hold(false);
		assert_int_equal(
			te_region_remove(pair.owner.engine, pair.owner.region),
			0);
		rc = rig_end(batch).error;
		assert_true(!rc || rc == -EFAULT);
		assert_int_equal(move(&pair, op, 0, 0, 8), -EFAULT);
		pair_close(&pair);
	}
}

/* Whoever goes first. */
static void engines_may_end_while_copies_are_under_way(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct pair pair = pair_open("tcp", "1m");
		struct te_batch *batch =
			begin(&pair, i & 1 ? TE_READ : TE_WRITE);

		cuda.hold(false);
		cuda.delay(300);
		if (i & 2) {
			te_engine_destroy(pair.owner.engine);
			te_batch_cancel(batch);
			assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
			te_batch_destroy(batch);
			pair.owner.engine = gpu_engine("tcp", "1m");
		} else {
			te_engine_destroy(pair.user.engine);
			pair.user.engine = gpu_engine("tcp", "1m");
		}
		cuda.delay(0);
		pair_close(&pair);
	}
}

static void a_broken_connection_is_made_again(void **state)
{
	(void)state;
	for (uint32_t op = TE_READ; op <= TE_WRITE; op++) {
		for (unsigned int nth = 1; nth < 12; nth++) {
			struct pair pair = pair_open("tcp", "64m");

			rig_fill(host, LEN);
			assert_int_equal(move(&pair, op, 0, 0, 8), 0);
			tei_fault_arm(TEI_FAULT_IO, nth);
			assert_int_equal(move(&pair, op, 0, 0, LEN), 0);
			tei_fault_disarm_all();
			assert_memory_equal(host, pair.owner.bytes, LEN);
			pair_close(&pair);
		}
	}
}

/* One copy, or all of the context. */
static void what_the_driver_refuses_is_an_error(void **state)
{
	static const char *const calls[] = {"", "cuMemcpyDtoHAsync",
					    "cuMemcpyHtoDAsync"};

	(void)state;
	for (uint32_t op = TE_READ; op <= TE_WRITE; op++) {
		struct pair pair = pair_open("tcp", "64m");

		cuda.fail_call(calls[op], CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(move(&pair, op, 0, 0, LEN), -EIO);
		test_contains(lines,
			      "a copy to or from memory of cuda:0 fails");
		cuda.fail_call(calls[op], 0);
		assert_int_equal(move(&pair, op, 0, 0, LEN), 0);
		cuda.fail_call(calls[op], CUDA_ERROR_ILLEGAL_ADDRESS);
		cuda.fail_call("cuStreamSynchronize",
			       CUDA_ERROR_ILLEGAL_ADDRESS);
		assert_int_equal(move(&pair, op, 0, 0, LEN), -EIO);
		cuda.fail_call(calls[op], 0);
		cuda.fail_call("cuStreamSynchronize", 0);
		assert_int_equal(move(&pair, op, 0, 0, LEN), -EIO);
		pair_close(&pair);
	}
}

static void what_cannot_be_allocated_is_tried_again(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	struct iovec piece = {host, 200000};
	struct te_request request = rig_request(
		pair.user.other, 0, as_pointer(pair.owner.at), &piece);

	(void)state;
	for (unsigned int nth = 1; nth < 40; nth++) {
		request.op = nth % 2 ? TE_READ : TE_WRITE;
		(void)gpu_run_without(pair.user.engine, &request, nth);
		rig_fill(host, LEN);
		assert_int_equal(move(&pair, request.op, 0, 0, LEN), 0);
		assert_memory_equal(host, pair.owner.bytes, LEN);
	}
	pair_close(&pair);
}

/* ---- bad input ---- */

static void rights_hold(void **state)
{
	struct te_engine *owner = gpu_engine("tcp", "1m");
	struct te_engine *user = gpu_engine("tcp", "1m");
	CUdeviceptr at = fake_cuda_alloc(&cuda, 2, LEN);
	te_segment_id segment = rig_segment(user, owner);
	void *there = as_pointer(at);

	(void)state;
	rig_region(owner, there, LEN, TE_ACCESS_REMOTE_READ);
	assert_int_equal(rig_move(user, segment, TE_READ, there, host, LEN), 0);
	assert_int_equal(rig_move(user, segment, TE_WRITE, there, host, 8),
			 -EACCES);
	assert_int_equal(rig_move(user, segment, TE_READ,
				  as_pointer(at + LEN - 4), host, 8),
			 -EFAULT);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	fake_cuda_free(&cuda, 2, at);
}

/* No other backend has it copied. */
static void without_tcp_it_is_refused(void **state)
{
	static const char *const backends[] = {"shm", "loop,shm"};
	CUdeviceptr at = fake_cuda_alloc(&cuda, 0, LEN);
	struct te_region region = {
		.addr = as_pointer(at), .length = LEN, .access = RIG_ANY};
	te_region_id id;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(backends); i++) {
		struct te_engine *engine = gpu_engine(backends[i], "1m");

		assert_int_equal(te_region_add(engine, &region, &id),
				 -EOPNOTSUPP);
		test_contains(lines, "no backend that is open reaches it");
		te_engine_destroy(engine);
	}
	fake_cuda_free(&cuda, 0, at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name_) \
	cmocka_unit_test_setup_teardown(name_, gpu_set_up, gpu_tear_down)
		TEST(peers_reach_it_by_tcp),
		TEST(bytes_go_from_gpu_to_gpu),
		TEST(two_that_fill_each_other_come_to_an_end),
		TEST(a_revocation_waits_for_copies),
		TEST(a_region_goes_after_its_copies),
		TEST(engines_may_end_while_copies_are_under_way),
		TEST(a_broken_connection_is_made_again),
		TEST(what_the_driver_refuses_is_an_error),
		TEST(what_cannot_be_allocated_is_tried_again),
		TEST(rights_hold),
		TEST(without_tcp_it_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
