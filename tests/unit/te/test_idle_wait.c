/* SPDX-License-Identifier: Apache-2.0 */
/* test_idle_wait.c - when waiters ask the worker's thread to wait idle */
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "te/core/engine.h"
#include "te/worker/worker.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define N        64 /* many times what it takes to be asked */
#define LOOKS    4  /* more than it takes to take over */
#define LONG_MS  100
#define PAUSE_MS 2   /* more than waits that follow closely are ever apart */
#define SHORT_US 400 /* twice what they are apart at most, after a short wait */

static const char *const settings[] = {"backends", "tcp", NULL};
static uint64_t memory, local = 1;
static struct te_engine *owner, *user;
static te_segment_id segment;
static struct te_batch *batch;

static int set_up(void **state)
{
	(void)state;
	owner = rig_engine(settings);
	user = rig_engine(settings);
	rig_region(owner, &memory, sizeof(memory), RIG_ANY);
	segment = rig_segment(user, owner);
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	te_batch_destroy(batch);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	return 0;
}

static void write_word_by(struct te_batch *with)
{
	struct iovec piece = {&local, sizeof(local)};
	struct te_request r = rig_request(segment, TE_WRITE, &memory, &piece);

	assert_int_equal(te_batch_submit(with, &r, 1), 0);
	assert_int_equal(te_batch_wait(with, RIG_WAIT_MS), 0);
	te_batch_reset(with);
}

static void write_word(void)
{
	write_word_by(batch);
}

static bool is_asked(void)
{
	return atomic_load(&user->worker->idle_wait_asked) ||
	       atomic_load(&user->worker->idle_waiting);
}

static void waits_far_apart_let_the_thread_sleep(void **state)
{
	(void)state;
	for (int i = 0; i < N; i++) {
		write_word();
		assert_false(is_asked());
		assert_int_equal(poll(NULL, 0, PAUSE_MS), 0);
	}
}

/* As after a wait that was far longer than the pauses are. */
static void pretend_long_wait(void)
{
	user->worker->driven_ns = TEI_NS_PER_S;
}

/* As if what was done before had been done so much earlier. */
static void pretend_pause(void)
{
	user->worker->let_go_at -= SHORT_US * TEI_NS_PER_US;
	user->worker->submitted_at -= SHORT_US * TEI_NS_PER_US;
}

static bool is_second_time(void *arg)
{
	int *n = arg;

	return (*n)++ > 0;
}

/* What is in flight during such a pause is the thread's. */
static void pauses_after_submits_let_the_thread_work(void **state)
{
	struct iovec piece = {&local, sizeof(local)};
	struct te_request r = rig_request(segment, TE_WRITE, &memory, &piece);

	(void)state;
	for (int i = 0; i < N; i++) {
		int n = 0;

		assert_int_equal(te_batch_submit(batch, &r, 1), 0);
		pretend_pause();
		pretend_long_wait(); /* and it is done already: drive all the same */
		(void)tei_worker_drive(user->worker, is_second_time, &n, 0);
		assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
		te_batch_reset(batch);
		assert_false(is_asked());
	}
}

/* The thread may have the token, and drive, for a moment. */
static bool has_looked(void *arg)
{
	(void)arg;
	tei_worker_poke(user->worker);
	return !user->worker->driven_ns;
}

static void looks_with_pauses_let_the_thread_work(void **state)
{
	(void)state;
	write_word();
	pretend_long_wait();
	for (int i = 0; i < N; i++) {
		pretend_pause();
		assert_true(test_wait_until(has_looked, NULL, RIG_WAIT_MS));
		assert_false(is_asked());
	}
}

static uint32_t look_ms(void)
{
	return atomic_load(&user->worker->idle_wait_ms);
}

static bool says_how_long(void *arg)
{
	(void)arg;
	tei_worker_poke(user->worker);
	return look_ms() > 0;
}

/* Others need the cores, as long as the test takes. Who drives may write it. */
static bool is_contended(void *arg)
{
	(void)arg;
	if (atomic_load(&user->worker->token) == TEI_WAITER)
		user->worker->contention.until = TEI_NEVER;
	return true;
}

/* What is in flight after a pause is the thread's there, too. */
static void a_busy_host_is_looked_at_less_often_but_for_pauses(void **state)
{
	uint64_t until = tei_now_ns() + RIG_WAIT_MS * TEI_NS_PER_MS;
	uint32_t at_rest;

	(void)state;
	assert_true(test_wait_until(says_how_long, NULL, RIG_WAIT_MS));
	at_rest = look_ms();
	do { /* unless the host takes the core between two waits */
		assert_true(tei_now_ns() < until);
		(void)tei_worker_drive(user->worker, is_contended, NULL, 0);
	} while (look_ms() == at_rest);
	assert_true(look_ms() > at_rest);
	do { /* unless the thread has the token */
		assert_true(tei_now_ns() < until);
		pretend_pause();
	} while (!tei_worker_drive(user->worker, is_contended, NULL, 0));
	assert_int_equal(look_ms(), at_rest);
}

static void waits_that_follow_closely_ask_for_a_nap(void **state)
{
	uint64_t until = tei_now_ns() + RIG_WAIT_MS * TEI_NS_PER_MS;

	(void)state;
	do {
		assert_true(tei_now_ns() < until);
		write_word();
	} while (!is_asked());
}

static bool has_given_up_or_looked_again(void *arg)
{
	uint64_t *seen = arg, until = atomic_load(&user->worker->sleep_until);

	if (until != seen[0]) {
		seen[0] = until;
		seen[1]++;
	}
	return !atomic_load(&user->worker->idle_waiting) || seen[1] == LOOKS;
}

/* Called by the waiter that drives: no round ends until this returns. */
static void take_long(struct te_batch *slow, const struct te_completion *c,
		      void *arg)
{
	uint64_t seen[2] = {0};
	bool *kept = arg;

	(void)slow;
	(void)c;
	*kept = atomic_load(&user->worker->idle_waiting) &&
		test_wait_until(has_given_up_or_looked_again, seen, LONG_MS) &&
		atomic_load(&user->worker->idle_waiting);
}

/* It would come back in the middle of the next batch, on another core. */
static void a_waiter_in_a_long_round_is_not_relieved(void **state)
{
	uint64_t until = tei_now_ns() + RIG_WAIT_MS * TEI_NS_PER_MS;
	struct te_batch *slow;
	bool kept = false;

	(void)state;
	assert_int_equal(te_batch_create(user, 1, &slow), 0);
	assert_int_equal(te_batch_on_done(slow, take_long, &kept), 0);
	do { /* not if the host takes the core, or the thread was called */
		assert_true(tei_now_ns() < until);
		if (atomic_load(&user->worker->idle_waiting))
			write_word_by(slow);
		else
			write_word();
	} while (!kept);
	te_batch_destroy(slow);
}

/* Else it would look each millisecond for as long as that one waits. */
static void a_driver_that_sleeps_is_waited_for_asleep(void **state)
{
	uint64_t until = tei_now_ns() + RIG_WAIT_MS * TEI_NS_PER_MS;

	(void)state;
	do {
		assert_true(tei_now_ns() < until);
		while (!atomic_load(&user->worker->idle_waiting)) {
			assert_true(tei_now_ns() < until);
			write_word();
		}
	} while (te_engine_drive(user, LONG_MS) ||
		 atomic_load(&user->worker->idle_waiting));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(waits_far_apart_let_the_thread_sleep),
		TEST(pauses_after_submits_let_the_thread_work),
		TEST(looks_with_pauses_let_the_thread_work),
		TEST(a_busy_host_is_looked_at_less_often_but_for_pauses),
		TEST(waits_that_follow_closely_ask_for_a_nap),
		TEST(a_waiter_in_a_long_round_is_not_relieved),
		TEST(a_driver_that_sleeps_is_waited_for_asleep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
