/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_homes.c - batches whose worker is not the one that serves the peer
 *
 * Of two workers the first has rail "fake/a", the second "fake/b". A second
 * thread that submits has the second one for its batches; with "b" matching no
 * rail of a peer, what moves bytes goes to the first from there.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "te/core/engine.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/from.h"
#include "tests/unit/te/pair.h"

#define LEN   4096
#define B     (1u << 1) /* of a set of devices */
#define N_MAX 8

static const char *const two[] = {"workers", "2", NULL};

static struct te_batch *submit_to_second(const struct te_request *requests,
					 uint32_t n)
{
	assert_int_equal(user->n_workers, 2);
	return submit_from(user, 1, requests, n);
}

static int result(struct te_batch *batch, uint32_t index)
{
	struct te_completion c;

	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_result(batch, index, &c), 0);
	return c.error;
}

static int set_up(void **state)
{
	(void)state;
	pair_memory(LEN);
	atomic_store(&fake.lone, B);
	user = rig_engine(two);
	return 0;
}

/* ---- notifications ---- */

static bool first_has_ended(void *batch)
{
	struct te_completion c;

	return !te_batch_result(batch, 0, &c);
}

/*
 * The write goes to the worker of rail "a" once the peer is met, where it
 * fails; its notification, which stays, must not be sent.
 */
static void
notification_of_an_unmet_peer_follows_the_writes_elsewhere(void **state)
{
	struct iovec piece = {local, LEN};
	struct te_request requests[2];
	struct te_batch *batch;
	te_segment_id id;
	char name[64];

	(void)state;
	owner = rig_engine(two);
	snprintf(name, sizeof(name), "%s", te_engine_name(owner));
	te_engine_destroy(owner);
	assert_int_equal(te_segment_expect(user, name, &id), 0);
	requests[0] = rig_request(id, TE_WRITE, memory, &piece);
	requests[1] = rig_request(id, TE_NOTIFY, NULL, &piece);
	atomic_store(&fake.refuse_at, (uintptr_t)memory);
	batch = submit_to_second(requests, 2);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	owner = rig_engine_named(name);
	rig_region(owner, memory, LEN, RIG_ANY);
	assert_int_equal(result(batch, 0), -EFAULT);
	assert_int_equal(result(batch, 1), -ECANCELED);
	te_batch_destroy(batch);
}

/* That it belongs to no life of the peer makes no difference. */
static void failed_write_of_an_unmet_peer(const char *const settings[])
{
	struct iovec piece = {local, LEN};
	struct te_request requests[2];
	struct te_batch *batch;
	te_segment_id id;
	char name[64];

	te_engine_destroy(user);
	user = rig_engine(settings);
	owner = rig_engine(NULL);
	snprintf(name, sizeof(name), "%s", te_engine_name(owner));
	te_engine_destroy(owner);
	owner = NULL;
	assert_int_equal(te_segment_expect(user, name, &id), 0);
	requests[0] = rig_request(id, TE_WRITE, memory, &piece);
	requests[0].timeout_ms = 50;
	requests[1] = rig_request(id, TE_NOTIFY, NULL, &piece);
	assert_int_equal(te_batch_create(user, 2, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, 2), 0);
	assert_true(test_wait_until(first_has_ended, batch, RIG_WAIT_MS));
	owner = rig_engine_named(name);
	assert_int_equal(result(batch, 0), -ETIMEDOUT);
	assert_int_equal(result(batch, 1), -ECANCELED);
	te_batch_destroy(batch);
}

static void notification_follows_a_write_that_failed_unmet(void **state)
{
	(void)state;
	failed_write_of_an_unmet_peer(two);
}

static void the_same_with_one_worker(void **state)
{
	static const char *const one[] = {"workers", "1", NULL};

	(void)state;
	failed_write_of_an_unmet_peer(one);
}

/* ---- memory that one worker reaches only ---- */

static int set_up_pair(void **state)
{
	(void)state;
	pair_memory(2 * LEN);
	owner = rig_engine(two);
	user = rig_engine(two);
	rig_region(owner, memory, LEN, RIG_ANY);
	atomic_store(&fake.only_a_at, (uintptr_t)memory + LEN);
	rig_region(owner, memory + LEN, LEN, RIG_ANY);
	segment = rig_segment(user, owner);
	return 0;
}

/* Those to the second region have no rail where their submission begins. */
static void requests_go_where_their_memory_is_reached(void **state)
{
	struct te_request requests[4];
	struct te_batch *batch;
	struct iovec pieces[4];

	(void)state;
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
	rig_fill(local, (size_t)2 * LEN);
	for (uint32_t i = 0; i < 4; i++) {
		size_t at = (i % 2) * LEN + i / 2 * (LEN / 2);

		pieces[i] = (struct iovec){local + at, LEN / 2};
		requests[i] =
			rig_request(segment, TE_WRITE, memory + at, &pieces[i]);
	}
	batch = submit_to_second(requests, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(result(batch, i), 0);
	assert_memory_equal(memory, local, (size_t)2 * LEN);
	te_batch_destroy(batch);
}

/* ---- callbacks ---- */

#define N_BATCHES 2
#define N_ROUNDS  200

static _Atomic int n_inside, n_overlaps, n_calls;

static void count_inside(struct te_batch *batch, const struct te_completion *c,
			 void *arg)
{
	(void)batch;
	(void)arg;
	assert_int_equal(c->error, 0);
	if (atomic_fetch_add(&n_inside, 1))
		atomic_fetch_add(&n_overlaps, 1);
	for (int i = 0; i < 20; i++)
		sched_yield();
	atomic_fetch_sub(&n_inside, 1);
	atomic_fetch_add(&n_calls, 1);
}

static void *write_with_callbacks(void *arg)
{
	struct iovec piece = {local, LEN};
	struct te_request request =
		rig_request(segment, TE_READ, memory, &piece);
	struct te_batch *batch;

	piece.iov_base = local + (arg ? LEN : 0);
	assert_int_equal(te_batch_create(user, N_MAX, &batch), 0);
	assert_int_equal(te_batch_on_done(batch, count_inside, NULL), 0);
	for (int i = 0; i < N_ROUNDS; i++) {
		assert_int_equal(te_batch_submit(batch, &request, 1), 0);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		assert_int_equal(te_batch_reset(batch), 0);
	}
	te_batch_destroy(batch);
	return NULL;
}

/* Threads that follow each other have batches of different workers. */
static void callbacks_of_two_workers_do_not_overlap(void **state)
{
	pthread_t threads[N_BATCHES];

	(void)state;
	atomic_store(&n_calls, 0);
	for (uintptr_t i = 0; i < N_BATCHES; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						write_with_callbacks,
						(void *)i),
				 0);
	for (int i = 0; i < N_BATCHES; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&n_calls), N_BATCHES * N_ROUNDS);
	assert_int_equal(atomic_load(&n_overlaps), 0);
}

static _Atomic bool has_submitted;
static struct te_batch *of_second;

/* Also polls, which must not call another one's callback inside this one. */
static void submit_to_the_other(struct te_batch *batch,
				const struct te_completion *c, void *arg)
{
	(void)batch;
	assert_int_equal(c->error, 0);
	if (atomic_exchange(&has_submitted, true))
		return;
	assert_int_equal(te_batch_submit(of_second, arg, 1), 0);
	assert_int_equal(
		te_batch_poll(of_second, &(struct te_completion){0}, 1), 0);
}

static void callback_submits_to_a_batch_of_another_worker(void **state)
{
	struct iovec piece = {local, LEN};
	struct te_request request =
		rig_request(segment, TE_WRITE, memory, &piece);
	struct te_batch *batch;

	(void)state;
	of_second = submit_to_second(&request, 1);
	assert_int_equal(te_batch_wait(of_second, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_on_done(of_second, count_inside, NULL), 0);
	assert_int_equal(te_batch_create(user, N_MAX, &batch), 0);
	assert_int_equal(te_batch_on_done(batch, submit_to_the_other, &request),
			 0);
	assert_int_equal(te_batch_submit(batch, &request, 1), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_wait(of_second, RIG_WAIT_MS), 0);
	te_batch_destroy(batch);
	te_batch_destroy(of_second);
}

#define PAIR(test) \
	cmocka_unit_test_setup_teardown(test, set_up_pair, pair_close)
#define ALONE(test) cmocka_unit_test_setup_teardown(test, set_up, pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR(requests_go_where_their_memory_is_reached),
		PAIR(callbacks_of_two_workers_do_not_overlap),
		PAIR(callback_submits_to_a_batch_of_another_worker),
		ALONE(notification_of_an_unmet_peer_follows_the_writes_elsewhere),
		ALONE(notification_follows_a_write_that_failed_unmet),
		ALONE(the_same_with_one_worker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
