/* SPDX-License-Identifier: Apache-2.0 */
/* test_copying.c - how copies of a GPU's memory are begun and waited for */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "te/core/engine.h"
#include "te/worker/worker.h"
#include "tests/unit/te/staging.h"

#define N_SMALL 64u

/* Pieces of 4 KiB, each a page away from the next. */
static struct te_request small_pieces(const struct pair *pair, uint32_t op,
				      struct iovec pieces[N_SMALL])
{
	struct te_request request =
		rig_request(pair->segment, op, host, pieces);

	for (size_t i = 0; i < N_SMALL; i++)
		pieces[i] =
			(struct iovec){as_pointer(pair->at + i * 8192), 4096};
	request.n_pieces = N_SMALL;
	return request;
}

/* Reads are from other memory than writes are to, as in move_all(). */
static void check_small(const struct pair *pair, uint32_t op)
{
	static uint8_t source[LEN];
	uint8_t *there = op == TE_READ ? source : host;
	struct iovec pieces[N_SMALL];
	struct te_request request = small_pieces(pair, op, pieces);

	request.remote = (uintptr_t)there;
	rig_fill(there, LEN);
	if (op == TE_READ)
		rig_region(pair->owner, source, LEN, TE_ACCESS_REMOTE_READ);
	rig_fill(pair->bytes, LEN);
	memset(op == TE_WRITE ? host : pair->bytes, 0, LEN);
	assert_int_equal(rig_run(pair->user, &request).error, 0);
	for (size_t i = 0; i < N_SMALL; i++)
		assert_memory_equal(there + i * 4096, pair->bytes + i * 8192,
				    4096);
}

static void small_copies_are_begun_by_one_call(void **state)
{
	struct pair pair = pair_open("tcp", "1m");

	(void)state;
	check_small(&pair, TE_WRITE);
	assert_int_equal(cuda.n_batches(), 1);
	check_small(&pair, TE_READ);
	assert_int_equal(cuda.n_batches(), 2);
	assert_int_equal(cuda.n_copies(), 2 * N_SMALL);
	pair_close(&pair);
}

/* As drivers before 12.8 do, and some for some memory. */
static void a_driver_may_take_copies_one_by_one(void **state)
{
	static const int errors[] = {CUDA_ERROR_NOT_SUPPORTED,
				     CUDA_ERROR_INVALID_VALUE};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(errors); i++) {
		struct pair pair = pair_open("tcp", "1m");

		cuda.fail_call("cuMemcpyBatchAsync", errors[i]);
		check_small(&pair, TE_WRITE);
		check_small(&pair, TE_READ);
		cuda.fail_call("cuMemcpyBatchAsync", 0);
		check_small(&pair, TE_WRITE); /* it is not asked again */
		assert_int_equal(cuda.n_batches(), 0);
		pair_close(&pair);
	}
}

/* The core is left to others: the process's own kernels are launched by one. */
static void who_waits_for_a_copy_sleeps(void **state)
{
	const char *const settings[] = {
		"backends",      "tcp",         "cuda_library",
		cuda.file,       "gpu_staging", "1m",
		"worker_thread", "false",       NULL};
	struct pair pair = pair_of("tcp", rig_engine(settings));
	struct iovec piece = {as_pointer(pair.at), 4096};
	struct te_request request =
		rig_request(pair.segment, TE_WRITE, host, &piece);
	struct te_batch *batch;
	uint64_t from, looks;

	(void)state;
	cuda.hold(true);
	batch = rig_submit(pair.user, &request);
	from = tei_now_ns();
	do { /* on a busy machine the copy begins late */
		assert_int_equal(te_batch_wait(batch, 100), -ETIMEDOUT);
	} while (!cuda.n_questions());
	/* Awake at first, then a look each 20 us at most. */
	looks = (tei_now_ns() - from) / (20 * TEI_NS_PER_US) + 2000;
	assert_true(cuda.n_questions() <= looks);
	cuda.hold(false);
	assert_int_equal(rig_end(batch).error, 0);
	pair_close(&pair);
}

static void *destroy(void *engine)
{
	te_engine_destroy(engine);
	return NULL;
}

/* An end that a copy holds up for long leaves the core to others, too. */
static void who_ends_an_engine_sleeps(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	struct iovec piece = {as_pointer(pair.at), 4096};
	struct te_request request =
		rig_request(pair.segment, TE_WRITE, host, &piece);
	uint64_t from, before;
	pthread_t thread;

	(void)state;
	assert_int_equal(move(&pair, TE_WRITE, 0, 0, 8), 0);
	cuda.hold(true);
	from = tei_now_ns();
	before = cuda.n_questions();
	(void)rig_submit(pair.user, &request); /* ended with the engine */
	while (cuda.n_questions() == before)
		(void)sched_yield();
	assert_int_equal(pthread_create(&thread, NULL, destroy, pair.user), 0);
	/* Longer than cancelled requests are waited for. */
	assert_int_equal(poll(NULL, 0, 1500), 0);
	assert_in_range(cuda.n_questions() - before, 1,
			(tei_now_ns() - from) / (20 * TEI_NS_PER_US) + 4000);
	cuda.hold(false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pair.user = gpu_engine("tcp", "1m");
	pair_close(&pair);
}

static void await_holder(const struct te_engine *engine, uint32_t holder,
			 bool asleep)
{
	const struct tei_worker *w = engine->worker;
	uint64_t until = tei_now_ns() + 10000 * TEI_NS_PER_MS;

	while ((atomic_load(&w->token) != holder ||
		(asleep && !atomic_load(&w->idle))) &&
	       tei_now_ns() < until)
		(void)sched_yield();
	assert_int_equal(atomic_load(&w->token), holder);
}

static void *wait_long(void *batch)
{
	return te_batch_wait(batch, RIG_WAIT_MS) ? batch : NULL;
}

/* It spins no longer than it takes to wake up the thread. */
static void a_waiter_takes_over_from_a_thread_that_copies(void **state)
{
	struct pair pair = pair_open("tcp", "1m");
	struct iovec piece = {as_pointer(pair.at), 4096};
	struct te_request request =
		rig_request(pair.segment, TE_WRITE, host, &piece);

	(void)state;
	for (int i = 0; i < 50; i++) {
		struct te_batch *batch;
		pthread_t thread;
		void *failed;

		cuda.hold(true);
		batch = rig_submit(pair.user, &request);
		await_holder(pair.user, TEI_SOON, true);
		assert_int_equal(
			pthread_create(&thread, NULL, wait_long, batch), 0);
		await_holder(pair.user, TEI_WAITER, false);
		cuda.hold(false);
		assert_int_equal(pthread_join(thread, &failed), 0);
		assert_null(failed);
		assert_int_equal(rig_end(batch).error, 0);
	}
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name_) \
	cmocka_unit_test_setup_teardown(name_, gpu_set_up, gpu_tear_down)
		TEST(small_copies_are_begun_by_one_call),
		TEST(a_driver_may_take_copies_one_by_one),
		TEST(who_waits_for_a_copy_sleeps),
		TEST(who_ends_an_engine_sleeps),
		TEST(a_waiter_takes_over_from_a_thread_that_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
