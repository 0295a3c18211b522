/* SPDX-License-Identifier: Apache-2.0 */
/* test_timer.c - progress() of a rail is called when its timer is over */
#include <errno.h>
#include <pthread.h>

#include "tests/lib/wait.h"
#include "tests/unit/te/pair.h"

#define LEN      4096
#define TIMER_MS 5
#define TIMES    20u

static int set_up(void **state)
{
	(void)state;
	return pair_open(NULL, LEN);
}

static bool ran_many_times(void *arg)
{
	_Atomic unsigned int *timed_out = arg;

	return atomic_load(timed_out) >= TIMES;
}

static void await_timers(_Atomic unsigned int *timed_out)
{
	atomic_store(timed_out, 0);
	assert_true(test_wait_until(ran_many_times, timed_out, RIG_WAIT_MS));
}

static void sleeping_worker_is_woken(void **state)
{
	(void)state;
	atomic_store(&fake.timer_ms, TIMER_MS);
	fake_wake();
	await_timers(&fake.timed_out);
}

/* The worker's thread leaves driving to the waiter, which sleeps, too. */
static void sleeping_waiter_is_woken(void **state)
{
	struct iovec piece = {local, LEN};
	struct te_request r = rig_request(segment, TE_WRITE, memory, &piece);
	struct te_batch *batch;

	(void)state;
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	atomic_store(&fake.stall, true);
	atomic_store(&fake.timer_ms, TIMER_MS);
	fake_wake();
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_int_equal(te_batch_wait(batch, 20 * TIMER_MS), -ETIMEDOUT);
	await_timers(&fake.timed_out);
	atomic_store(&fake.stall, false);
	fake_wake();
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	te_batch_destroy(batch);
}

static void *destroy(void *arg)
{
	te_engine_destroy(arg);
	return NULL;
}

static void timer_runs_while_the_engine_waits_for_a_device(void **state)
{
	struct te_engine *third = rig_engine(NULL);
	te_segment_id id = rig_segment(third, owner);
	pthread_t thread;

	(void)state;
	assert_int_equal(rig_move(third, id, TE_WRITE, memory, local, LEN), 0);
	atomic_store(&fake.hold_flush, true);
	atomic_store(&fake.timer_ms, TIMER_MS);
	fake_wake();
	assert_int_equal(pthread_create(&thread, NULL, destroy, third), 0);
	await_timers(&fake.timed_out_closing);
	atomic_store(&fake.hold_flush, false);
	fake_wake();
	assert_int_equal(pthread_join(thread, NULL), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sleeping_worker_is_woken),
		TEST(sleeping_waiter_is_woken),
		TEST(timer_runs_while_the_engine_waits_for_a_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
