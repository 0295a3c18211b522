/* SPDX-License-Identifier: Apache-2.0 */
/* test_staging.c - a GPU's memory that is copied by way of the host */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "te/core/engine.h"
#include "te/worker/worker.h"
#include "tests/lib/self.h"
#include "tests/unit/te/staging.h"

/* ---- bytes ---- */

/* Reads are from memory that nobody writes, as TSan does not see sockets. */
static void move_all(const struct pair *pair)
{
	static uint8_t source[LEN];

	rig_fill(source, LEN);
	rig_region(pair->owner, source, LEN, TE_ACCESS_REMOTE_READ);
	for (size_t i = 0; i < TEST_COUNT(gpu_places); i++) {
		size_t there = gpu_places[i][0], here = gpu_places[i][1],
		       length = gpu_places[i][2];

		rig_fill(pair->bytes, LEN);
		memset(host, 0, LEN);
		assert_int_equal(move(pair, TE_WRITE, there, here, length), 0);
		assert_memory_equal(host + there, pair->bytes + here, length);
		memset(pair->bytes, 0, LEN);
		assert_int_equal(rig_move(pair->user, pair->segment, TE_READ,
					  source + there,
					  as_pointer(pair->at + here), length),
				 0);
		assert_memory_equal(pair->bytes + here, source + there, length);
	}
}

static void memory_of_a_gpu_goes_by_every_backend(void **state)
{
	static const char *const backends[] = {"tcp", "shm", "shm,tcp"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(backends); i++) {
		struct pair pair = pair_open(backends[i], "64m");

		move_all(&pair);
		assert_true(test_stat(pair.user, "te_gpu_bytes_total",
				      "staged") >= 2 * LEN);
		assert_int_equal(
			test_stat(pair.user, "te_gpu_bytes_total", "direct"),
			0);
		pair_close(&pair);
	}
}

/* To memory of this very engine. */
static void memory_of_a_gpu_goes_to_the_engine_itself(void **state)
{
	struct te_engine *engine = gpu_engine("loop", "1m");
	CUdeviceptr at = fake_cuda_alloc(&cuda, 0, LEN);
	uint8_t *bytes = cuda.bytes(at);

	(void)state;
	rig_region(engine, as_pointer(at), LEN, TE_ACCESS_LOCAL);
	rig_region(engine, host, LEN, RIG_ANY);
	rig_fill(bytes, LEN);
	assert_int_equal(rig_move(engine, rig_segment(engine, engine), TE_WRITE,
				  host, as_pointer(at), LEN),
			 0);
	assert_memory_equal(host, bytes, LEN);
	te_engine_destroy(engine);
	fake_cuda_free(&cuda, 0, at);
}

/* What a copy takes is waited for, there and back. */
static void slow_copies_are_waited_for(void **state)
{
	struct pair pair = pair_open("tcp", "64m");

	(void)state;
	cuda.delay(2000);
	rig_fill(pair.bytes, LEN);
	memset(host, 0, LEN);
	assert_int_equal(move(&pair, TE_WRITE, 0, 0, LEN), 0);
	assert_memory_equal(host, pair.bytes, LEN);
	memset(pair.bytes, 0, LEN);
	assert_int_equal(move(&pair, TE_READ, 0, 0, LEN), 0);
	assert_memory_equal(pair.bytes, host, LEN);
	pair_close(&pair);
}

/* Pieces of two GPUs and of the host, also not registered, in one request. */
static void one_request_takes_memory_of_all_kinds(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	CUdeviceptr other = fake_cuda_alloc(&cuda, 3, LEN);
	static uint8_t plain[100000];
	struct iovec pieces[] = {{as_pointer(pair.at + 5), 300000},
				 {plain, sizeof(plain)},
				 {as_pointer(other), 700000},
				 {as_pointer(pair.at + 400000), 9}};
	size_t sum = 300000 + sizeof(plain) + 700000 + 9;
	struct te_request request =
		rig_request(pair.segment, TE_WRITE, host, pieces);

	(void)state;
	rig_region(pair.user, as_pointer(other), LEN, TE_ACCESS_LOCAL);
	request.n_pieces = TEST_COUNT(pieces);
	rig_fill(pair.bytes, LEN);
	rig_fill(cuda.bytes(other), LEN);
	memset(plain, 7, sizeof(plain));
	assert_int_equal(rig_run(pair.user, &request).error, 0);
	assert_memory_equal(host, pair.bytes + 5, 300000);
	assert_memory_equal(host + 300000, plain, sizeof(plain));
	assert_memory_equal(host + 400000, cuda.bytes(other), 700000);
	assert_memory_equal(host + 1100000, pair.bytes + 400000, 9);
	rig_fill(host, sum);
	request.op = TE_READ;
	assert_int_equal(rig_run(pair.user, &request).error, 0);
	assert_memory_equal(pair.bytes + 5, host, 300000);
	assert_memory_equal(plain, host + 300000, sizeof(plain));
	assert_memory_equal(cuda.bytes(other), host + 400000, 700000);
	assert_memory_equal(pair.bytes + 400000, host + 1100000, 9);
	pair_close(&pair);
	fake_cuda_free(&cuda, 3, other);
}

static void checksums_are_of_what_was_copied(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	struct iovec piece = {as_pointer(pair.at), LEN};
	struct te_request request =
		rig_request(pair.segment, TE_WRITE, host, &piece);
	struct te_completion out, in;

	(void)state;
	rig_fill(pair.bytes, LEN);
	request.flags |= TE_CRC;
	request.crc_from = 11;
	request.crc_len = LEN - 100;
	out = rig_run(pair.user, &request);
	assert_int_equal(out.error, 0);
	request.op = TE_READ;
	in = rig_run(pair.user, &request);
	assert_int_equal(in.error, 0);
	assert_true(out.crc && out.crc == in.crc);
	pair_close(&pair);
}

/* ---- room ---- */

#define MANY 200u
#define EACH ((size_t)15000)

static struct te_batch *submit_many(const struct pair *pair, uint32_t op)
{
	static struct te_request requests[MANY];
	static struct iovec pieces[MANY];
	struct te_batch *batch;

	for (size_t i = 0; i < MANY; i++) {
		pieces[i] =
			(struct iovec){as_pointer(pair->at + i * EACH), EACH};
		requests[i] = rig_request(pair->segment, op, host + i * EACH,
					  &pieces[i]);
	}
	assert_int_equal(te_batch_create(pair->user, MANY, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, MANY), 0);
	return batch;
}

static unsigned int count_good(struct te_batch *batch)
{
	static struct te_completion ends[MANY];
	unsigned int n_good = 0;

	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, ends, MANY), MANY);
	for (size_t i = 0; i < MANY; i++)
		n_good += !ends[i].error;
	te_batch_destroy(batch);
	return n_good;
}

/* They are three times as much as there is room for at a time. */
static void who_finds_no_room_waits_for_it(void **state)
{
	struct pair pair = pair_open("tcp", "1m");

	(void)state;
	rig_fill(pair.bytes, LEN);
	memset(host, 0, LEN);
	assert_int_equal(count_good(submit_many(&pair, TE_WRITE)), MANY);
	assert_memory_equal(host, pair.bytes, MANY * EACH);
	memset(pair.bytes, 0, LEN);
	assert_int_equal(count_good(submit_many(&pair, TE_READ)), MANY);
	assert_memory_equal(host, pair.bytes, MANY * EACH);
	pair_close(&pair);
}

/* A peer that waits for room is served when another's requests have ended. */
static void peers_share_the_room(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	struct te_engine *second = gpu_engine("tcp", "1m");
	static uint8_t other[MANY * EACH];
	struct te_batch *batch;

	(void)state;
	rig_region(second, other, sizeof(other), RIG_ANY);
	rig_fill(pair.bytes, LEN);
	batch = submit_many(&pair, TE_WRITE);
	assert_int_equal(rig_move(pair.user, rig_segment(pair.user, second),
				  TE_WRITE, other, as_pointer(pair.at),
				  sizeof(other)),
			 0);
	assert_memory_equal(other, pair.bytes, sizeof(other));
	assert_int_equal(count_good(batch), MANY);
	te_engine_destroy(second);
	pair_close(&pair);
}

/* ---- ends that come early ---- */

static void await_copies(uint64_t n)
{
	uint64_t until = tei_now_ns() + RIG_WAIT_MS * TEI_NS_PER_MS;

	while (cuda.n_copies() < n && tei_now_ns() < until)
		(void)0;
	assert_true(cuda.n_copies() >= n);
}

/* A copy under way touches the memory: who was told of the end may free it. */
static void a_request_ends_after_its_copy(void **state, uint32_t op,
					  bool cancel)
{
	struct pair pair = pair_open("tcp", "64m");
	struct iovec piece = {as_pointer(pair.at), 4096};
	struct te_request request = rig_request(pair.segment, op, host, &piece);
	struct te_completion end;
	struct te_batch *batch;

	(void)state;
	assert_int_equal(move(&pair, op, 0, 0, 8), 0);
	cuda.hold(true);
	request.timeout_ms = cancel ? 0 : 50;
	assert_int_equal(te_batch_create(pair.user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &request, 1), 0);
	/* Until the copy is begun; a read has come by then. */
	assert_int_equal(te_batch_wait(batch, 100), -ETIMEDOUT);
	if (cancel)
		te_batch_cancel(batch);
	assert_int_equal(te_batch_wait(batch, 100), -ETIMEDOUT);
	assert_int_equal(te_batch_poll(batch, &end, 1), 0);
	cuda.hold(false);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, &end, 1), 1);
	assert_int_equal(end.error, cancel ? -ECANCELED : -ETIMEDOUT);
	te_batch_destroy(batch);
	await_copies(2);
	assert_int_equal(move(&pair, op, 0, 0, LEN), 0);
	pair_close(&pair);
}

static void a_cancel_awaits_the_copy(void **state)
{
	a_request_ends_after_its_copy(state, TE_WRITE, true);
	a_request_ends_after_its_copy(state, TE_READ, true);
}

static void a_deadline_awaits_the_copy(void **state)
{
	a_request_ends_after_its_copy(state, TE_WRITE, false);
	a_request_ends_after_its_copy(state, TE_READ, false);
}

static void a_peer_may_end_while_copies_are_under_way(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	struct te_batch *batch;

	(void)state;
	assert_int_equal(move(&pair, TE_WRITE, 0, 0, 8), 0);
	cuda.hold(true);
	batch = submit_many(&pair, TE_WRITE);
	te_engine_destroy(pair.owner);
	te_batch_cancel(batch);
	cuda.hold(false);
	assert_true(count_good(batch) < MANY);
	pair.owner = gpu_engine("tcp", "1m");
	pair_close(&pair);
}

static void an_engine_may_end_while_copies_are_under_way(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	struct te_batch *batch;

	(void)state;
	assert_int_equal(move(&pair, TE_WRITE, 0, 0, 8), 0);
	cuda.delay(300);
	batch = submit_many(&pair, TE_WRITE);
	te_engine_destroy(pair.user);
	(void)batch; /* ended with it */
	pair.user = gpu_engine("tcp", "1m");
	pair_close(&pair);
}

/* ---- requests beside others ---- */

/* The first part after a connection has failed decides about the rail. */
static void a_broken_connection_is_made_again(void **state)
{
	(void)state;
	for (uint32_t op = TE_READ; op <= TE_WRITE; op++) {
		struct pair pair = pair_open("tcp", "64m");

		assert_int_equal(move(&pair, op, 0, 0, 8), 0);
		tei_fault_arm(TEI_FAULT_IO, 1);
		for (int i = 0; i < 3; i++)
			assert_int_equal(move(&pair, op, 0, 0, LEN), 0);
		tei_fault_disarm_all();
		pair_close(&pair);
	}
}

/* A write that waits for its copy has all of the window, and is cancelled. */
static void room_of_a_cancelled_copy_is_used_at_once(void **state)
{
	const char *const settings[] = {"backends", "tcp",          "window",
					"64k",      "cuda_library", cuda.file,
					NULL};
	struct pair pair = pair_open("tcp", "1m");
	static uint8_t plain[4096];
	struct iovec a = {as_pointer(pair.at), LEN}, b = {plain, sizeof(plain)};
	struct te_request staged, other;
	struct te_batch *first, *second;

	(void)state;
	te_engine_destroy(pair.user);
	pair.user = rig_engine(settings);
	rig_region(pair.user, as_pointer(pair.at), LEN, TE_ACCESS_LOCAL);
	pair.segment = rig_segment(pair.user, pair.owner);
	assert_int_equal(move(&pair, TE_WRITE, 0, 0, 8), 0);
	staged = rig_request(pair.segment, TE_WRITE, host, &a);
	other = rig_request(pair.segment, TE_WRITE, host, &b);
	cuda.hold(true);
	first = rig_submit(pair.user, &staged);
	assert_int_equal(te_batch_wait(first, 100), -ETIMEDOUT);
	second = rig_submit(pair.user, &other);
	assert_int_equal(te_batch_wait(second, 100), -ETIMEDOUT);
	te_batch_cancel(first);
	cuda.hold(false);
	assert_int_equal(rig_end(first).error, -ECANCELED);
	assert_int_equal(rig_end(second).error, 0);
	pair_close(&pair);
}

/* What finds no room does not hold up what needs none, and is not silence. */
static void only_who_needs_room_waits_for_it(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	struct te_engine *owner = gpu_engine("tcp", "1m");
	static uint8_t there[LEN], plain[4096];
	struct iovec large = {as_pointer(pair.at), LEN},
		     small = {plain, sizeof(plain)};
	te_segment_id segment = rig_segment(pair.user, owner);
	struct te_request filling, waiting, other;
	struct te_batch *fills, *waits;

	(void)state;
	rig_region(owner, there, sizeof(there), RIG_ANY);
	assert_int_equal(move(&pair, TE_WRITE, 0, 0, 8), 0);
	assert_int_equal(
		rig_move(pair.user, segment, TE_WRITE, there, plain, 8), 0);
	filling = rig_request(pair.segment, TE_WRITE, host, &large);
	waiting = rig_request(segment, TE_WRITE, there, &large);
	waiting.flags = TE_FAIL_SILENT;
	other = rig_request(segment, TE_WRITE, there + 8192, &small);
	cuda.hold(true);
	fills = rig_submit(pair.user, &filling);
	assert_int_equal(te_batch_wait(fills, 100), -ETIMEDOUT);
	waits = rig_submit(pair.user, &waiting);
	assert_int_equal(te_batch_wait(waits, 100), -ETIMEDOUT);
	assert_int_equal(rig_end(rig_submit(pair.user, &other)).error, 0);
	/* Longer than a peer may be silent (suspect_after). */
	assert_int_equal(te_batch_wait(waits, 2500), -ETIMEDOUT);
	cuda.hold(false);
	assert_int_equal(rig_end(fills).error, 0);
	assert_int_equal(rig_end(waits).error, 0);
	te_engine_destroy(owner);
	pair_close(&pair);
}

/* ---- what is wrong ---- */

/* One copy is refused, while one the other way is under way. */
static void a_copy_that_is_refused_ends_its_request_only(void **state)
{
	struct pair pair = pair_open("tcp", "64m");
	struct iovec a = {as_pointer(pair.at), 4096},
		     b = {as_pointer(pair.at + 8192), 4096};
	struct te_request in, out;
	struct te_batch *reads, *writes;

	(void)state;
	assert_int_equal(move(&pair, TE_WRITE, 0, 0, 8), 0);
	in = rig_request(pair.segment, TE_READ, host, &a);
	out = rig_request(pair.segment, TE_WRITE, host + 8192, &b);
	memset(pair.bytes, 0, LEN);
	rig_fill(host, 4096);
	cuda.hold(true);
	reads = rig_submit(pair.user, &in);
	assert_int_equal(te_batch_wait(reads, 50), -ETIMEDOUT);
	cuda.fail_call("cuMemcpyDtoHAsync", CUDA_ERROR_INVALID_VALUE);
	cuda.delay(300000);
	cuda.hold(false);
	writes = rig_submit(pair.user, &out);
	assert_int_equal(rig_end(writes).error, -EIO);
	assert_int_equal(rig_end(reads).error, 0);
	assert_memory_equal(pair.bytes, host, 4096);
	test_contains(lines, "a copy to or from memory of cuda:1 fails");
	cuda.fail_call("cuMemcpyDtoHAsync", 0);
	cuda.delay(0);
	assert_int_equal(move(&pair, TE_WRITE, 0, 0, LEN), 0);
	pair_close(&pair);
}

/* While another thread records a graph the driver refuses some calls. */
static void a_graph_that_is_recorded_is_waited_for(void **state)
{
	static const char *const calls[] = {"cuEventQuery",
					    "cuMemcpyHtoDAsync"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(calls); i++) {
		struct pair pair = pair_open("tcp", "64m");
		struct iovec a = {as_pointer(pair.at), 4096};
		struct te_request in =
			rig_request(pair.segment, TE_READ, host, &a);
		struct te_batch *batch;

		assert_int_equal(move(&pair, TE_WRITE, 0, 0, 8), 0);
		cuda.fail_call(calls[i], CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		batch = rig_submit(pair.user, &in);
		assert_int_equal(te_batch_wait(batch, 200), -ETIMEDOUT);
		cuda.fail_call(calls[i], 0);
		assert_int_equal(rig_end(batch).error, 0);
		pair_close(&pair);
	}
}

/* With all backends that touch memory themselves. */
static void a_region_that_is_gone_is_an_error(void **state)
{
	static const char *const backends[] = {"tcp", "shm"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(backends); i++) {
		struct pair pair = pair_open(backends[i], "1m");
		CUdeviceptr other = fake_cuda_alloc(&cuda, 1, LEN);

		assert_true(rig_move(pair.user, pair.segment, TE_WRITE, host,
				     as_pointer(other), 4096) < 0);
		assert_int_equal(te_region_remove(pair.user, pair.region), 0);
		assert_true(move(&pair, TE_WRITE, 0, 0, 4096) < 0);
		assert_true(move(&pair, TE_READ, 0, 0, 4096) < 0);
		fake_cuda_free(&cuda, 1, other);
		pair_close(&pair);
	}
}

/* The context dies: all fails from then on, also waiting for the rest. */
static void a_driver_that_fails_ends_requests(void **state)
{
	static const char *const calls[] = {"cuMemcpyDtoHAsync",
					    "cuEventRecord", "cuEventQuery"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(calls); i++) {
		struct pair pair = pair_open("tcp", "1m");

		cuda.fail_call(calls[i], CUDA_ERROR_ILLEGAL_ADDRESS);
		cuda.fail_call("cuStreamSynchronize",
			       CUDA_ERROR_ILLEGAL_ADDRESS);
		assert_int_equal(move(&pair, TE_WRITE, 0, 0, LEN), -EIO);
		test_contains(lines, "copies to and from cuda:1 fail: copy by "
				     "the host: CUDA_ERROR_ILLEGAL_ADDRESS");
		cuda.fail_call(calls[i], 0);
		cuda.fail_call("cuStreamSynchronize", 0);
		/* It is not tried again, but of regions that come later. */
		assert_int_equal(move(&pair, TE_WRITE, 0, 0, 8), -EIO);
		assert_int_equal(te_region_remove(pair.user, pair.region), 0);
		rig_region(pair.user, as_pointer(pair.at), LEN,
			   TE_ACCESS_LOCAL);
		assert_int_equal(move(&pair, TE_WRITE, 0, 0, 8), 0);
		assert_int_equal(rig_move(pair.user, pair.segment, TE_READ,
					  host, (uint8_t[8]){0}, 8),
				 0);
		pair_close(&pair);
	}
}

static int add(struct te_engine *engine, CUdeviceptr at, uint32_t access)
{
	struct te_region region = {
		.addr = as_pointer(at), .length = LEN, .access = access};
	te_region_id id;

	return te_region_add(engine, &region, &id);
}

/* The context of one GPU dies while copies of it are under way. */
static void a_gpu_that_fails_disturbs_no_other(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	CUdeviceptr other = fake_cuda_alloc(&cuda, 2, LEN);
	static uint8_t ours[LEN];
	struct te_batch *batch;

	(void)state;
	rig_region(pair.user, as_pointer(other), LEN, TE_ACCESS_LOCAL);
	cuda.hold(true);
	batch = submit_many(&pair, TE_WRITE);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	cuda.break_context(1);
	cuda.hold(false);
	assert_int_equal(count_good(batch), 0);
	test_contains(lines, "copies to and from cuda:1 fail: copy by the "
			     "host: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
	assert_int_equal(move(&pair, TE_READ, 0, 0, 8), -EIO);
	rig_fill(cuda.bytes(other), LEN);
	assert_int_equal(rig_move(pair.user, pair.segment, TE_WRITE, host,
				  as_pointer(other), LEN),
			 0);
	assert_memory_equal(host, cuda.bytes(other), LEN);
	assert_int_equal(
		rig_move(pair.user, pair.segment, TE_READ, host, ours, LEN), 0);
	assert_memory_equal(host, ours, LEN);
	/* Nor does it work again before the process has ended the context. */
	assert_int_equal(te_region_remove(pair.user, pair.region), 0);
	lines[0] = '\0';
	assert_int_equal(add(pair.user, pair.at, TE_ACCESS_LOCAL), -EIO);
	test_contains(lines, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
	pair_close(&pair);
	fake_cuda_free(&cuda, 2, other);
}

static void a_region_tells_what_it_is(void **state)
{
	struct te_engine *engine = gpu_engine("tcp", "1m");
	CUdeviceptr at = fake_cuda_alloc(&cuda, 2, LEN);
	struct te_region_facts facts;
	te_region_id id;

	(void)state;
	id = rig_region(engine, as_pointer(at), LEN, TE_ACCESS_LOCAL);
	assert_int_equal(te_region_describe(engine, id, &facts), 0);
	assert_int_equal(facts.memory, TE_MEMORY_GPU);
	assert_string_equal(facts.location, "cuda:2");
	assert_int_equal(te_region_remove(engine, id), 0);
	assert_int_equal(te_region_describe(engine, id, &facts), -ENOENT);
	assert_int_equal(te_region_describe(engine, id, NULL), -EINVAL);
	id = rig_region(engine, host, LEN, RIG_ANY);
	assert_int_equal(te_region_describe(engine, id, &facts), 0);
	assert_int_equal(facts.memory, TE_MEMORY_HOST);
	te_engine_destroy(engine);
	fake_cuda_free(&cuda, 2, at);
}

static void who_has_no_memory_to_pin_says_so(void **state)
{
	struct te_engine *engine = gpu_engine("tcp", "1m");
	CUdeviceptr at = fake_cuda_alloc(&cuda, 0, LEN);

	(void)state;
	cuda.fail_call("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(add(engine, at, TE_ACCESS_LOCAL), -ENOMEM);
	test_contains(lines, "1048576 bytes of memory to be pinned for copies "
			     "(setting gpu_staging)");
	cuda.fail_call("cuMemHostAlloc", 0);
	assert_int_equal(add(engine, at, TE_ACCESS_LOCAL), 0);
	te_engine_destroy(engine);
	fake_cuda_free(&cuda, 0, at);
}

/* Chunks have no context of their own, and none is made for them. */
static void no_context_is_made_for_copies(void **state)
{
	struct te_engine *engine = gpu_engine("tcp", "1m");
	CUcontext context;
	CUdeviceptr at;

	(void)state;
	assert_int_equal(cuda.map_chunks(2, LEN, 1, &at), 0);
	assert_int_equal(add(engine, at, TE_ACCESS_LOCAL), -EOPNOTSUPP);
	test_contains(lines, "nobody uses cuda:2");
	assert_int_equal(cuda.n_contexts(), 0);
	assert_int_equal(cuda.primary_ctx_retain(&context, 2), 0);
	assert_int_equal(add(engine, at, TE_ACCESS_LOCAL), 0);
	te_engine_destroy(engine);
	assert_int_equal(cuda.primary_ctx_release(2), 0);
	assert_int_equal(cuda.unmap_chunks(at), 0);
}

static void what_cannot_be_allocated_is_an_error(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	CUdeviceptr at = fake_cuda_alloc(&cuda, 0, LEN);
	struct iovec piece = {as_pointer(pair.at), LEN};
	struct te_request request;
	unsigned int nth = 0;
	int rc;

	(void)state;
	do {
		struct te_region region = {.addr = as_pointer(at),
					   .length = LEN};
		te_region_id id;

		tei_fault_arm(TEI_FAULT_ALLOC, ++nth);
		rc = te_region_add(pair.user, &region, &id);
		tei_fault_disarm_all();
		assert_true(!rc || rc == -ENOMEM);
		if (!rc)
			assert_int_equal(te_region_remove(pair.user, id), 0);
	} while (rc);
	request = rig_request(pair.segment, 0, host, &piece);
	for (nth = 1; nth < 20; nth++) {
		request.op = nth % 2 ? TE_READ : TE_WRITE;
		(void)gpu_run_without(pair.user, &request, nth);
		assert_int_equal(move(&pair, request.op, 0, 0, LEN), 0);
	}
	pair_close(&pair);
	fake_cuda_free(&cuda, 0, at);
}

/* Moves memory that no processor gets at. */
static void move_unreached(const struct pair *pair, uint32_t op, void *at,
			   size_t length)
{
	struct iovec piece = {at, length};
	struct te_request request = rig_request(
		pair->segment, op, op == TE_NOTIFY ? NULL : host, &piece);
	struct te_completion done;

	lines[0] = '\0';
	done = rig_run(pair->user, &request);
	assert_int_equal(done.error, -EFAULT);
	assert_int_equal(done.retries, 0);
	assert_true(done.flags & TE_REMOTE_QUIET);
}

/* The argument and the cause of what was refused last. */
static void expect_told(const char *use)
{
	if (!strstr(lines, "pieces[0]") || !strstr(lines, use) ||
	    !strstr(lines, "nor a region of a GPU's: register that"))
		fail_msg("\"%s\" does not tell what is wrong", lines);
}

/*
 * Of a GPU, but not registered: one error, and no signal. These tests come first:
 * of such lines few are logged.
 */
static void memory_that_is_no_region_is_refused(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	CUdeviceptr other = fake_cuda_alloc(&cuda, 1, LEN);

	(void)state;
	move_unreached(&pair, TE_WRITE, as_pointer(other), LEN);
	expect_told("may read");
	move_unreached(&pair, TE_READ, as_pointer(other), LEN);
	expect_told("may write");
	move_unreached(&pair, TE_NOTIFY, as_pointer(other), 8);
	expect_told("may read");
	move_unreached(&pair, TE_WRITE, as_pointer(other + 5), 1);
	assert_int_equal(move(&pair, TE_WRITE, 0, 0, LEN), 0);
	assert_int_equal(move(&pair, TE_READ, 0, 0, LEN), 0);
	pair_close(&pair);
	fake_cuda_free(&cuda, 1, other);
}

/* The kernel lists it as readable: the link is not made again and again. */
static void memory_that_only_looks_readable_is_refused(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	void *at = test_page_out_of_reach();

	(void)state;
	if (at) {
		move_unreached(&pair, TE_WRITE, at, 64);
		expect_told("may read");
	}
	assert_int_equal(move(&pair, TE_WRITE, 0, 0, LEN), 0);
	pair_close(&pair);
	if (!at)
		skip();
}

/* As peers of this host reach it, by the processor's own copies. */
static void memory_that_is_no_region_is_refused_beside_an_arena(void **state)
{
	static const uint32_t ops[] = {TE_WRITE, TE_READ};
	struct pair pair = pair_open("shm,tcp", "1m");
	CUdeviceptr other = fake_cuda_alloc(&cuda, 1, LEN);
	void *arena;

	(void)state;
	assert_int_equal(te_memory_alloc(pair.owner, LEN, &arena), 0);
	rig_region(pair.owner, arena, LEN, RIG_ANY);
	for (size_t i = 0; i < TEST_COUNT(ops); i++) {
		struct iovec piece = {as_pointer(other), LEN};
		struct te_request request =
			rig_request(pair.segment, ops[i], arena, &piece);

		assert_int_equal(rig_run(pair.user, &request).error, -EFAULT);
	}
	pair_close(&pair);
	fake_cuda_free(&cuda, 1, other);
}

static void memory_that_is_no_region_is_refused_between_processes(void **state)
{
	static const uint32_t ops[] = {TE_WRITE, TE_READ};
	struct pair pair = pair_open("shm,tcp", "1m");
	CUdeviceptr other = fake_cuda_alloc(&cuda, 1, LEN);

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(ops); i++) {
		move_unreached(&pair, ops[i], as_pointer(other), LEN);
		assert_int_equal(move(&pair, ops[i], 0, 0, LEN), 0);
	}
	pair_close(&pair);
	fake_cuda_free(&cuda, 1, other);
}

static void engines_come_and_go(void **state)
{
	unsigned int n_files = test_fds_open();
	CUdeviceptr at = fake_cuda_alloc(&cuda, 0, LEN);

	(void)state;
	for (int i = 0; i < 100; i++) {
		struct te_engine *engine = gpu_engine("tcp", "1m");

		assert_int_equal(add(engine, at, TE_ACCESS_LOCAL), 0);
		te_engine_destroy(engine);
	}
	assert_int_equal(test_fds_open(), n_files + 1); /* the memory's */
	fake_cuda_free(&cuda, 0, at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name_) \
	cmocka_unit_test_setup_teardown(name_, gpu_set_up, gpu_tear_down)
		TEST(memory_that_is_no_region_is_refused),
		TEST(memory_that_only_looks_readable_is_refused),
		TEST(memory_that_is_no_region_is_refused_between_processes),
		TEST(memory_that_is_no_region_is_refused_beside_an_arena),
		TEST(memory_of_a_gpu_goes_by_every_backend),
		TEST(memory_of_a_gpu_goes_to_the_engine_itself),
		TEST(slow_copies_are_waited_for),
		TEST(one_request_takes_memory_of_all_kinds),
		TEST(checksums_are_of_what_was_copied),
		TEST(who_finds_no_room_waits_for_it),
		TEST(peers_share_the_room),
		TEST(a_cancel_awaits_the_copy),
		TEST(a_deadline_awaits_the_copy),
		TEST(a_peer_may_end_while_copies_are_under_way),
		TEST(an_engine_may_end_while_copies_are_under_way),
		TEST(a_broken_connection_is_made_again),
		TEST(room_of_a_cancelled_copy_is_used_at_once),
		TEST(only_who_needs_room_waits_for_it),
		TEST(a_copy_that_is_refused_ends_its_request_only),
		TEST(a_graph_that_is_recorded_is_waited_for),
		TEST(a_region_that_is_gone_is_an_error),
		TEST(a_driver_that_fails_ends_requests),
		TEST(a_gpu_that_fails_disturbs_no_other),
		TEST(a_region_tells_what_it_is),
		TEST(who_has_no_memory_to_pin_says_so),
		TEST(no_context_is_made_for_copies),
		TEST(what_cannot_be_allocated_is_an_error),
		TEST(engines_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
