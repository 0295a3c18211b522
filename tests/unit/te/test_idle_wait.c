/* SPDX-License-Identifier: Apache-2.0 */
/* test_idle_wait.c - when waiters ask the worker's thread to wait idle */
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "te/core/engine.h"
#include "te/worker/worker.h"
#include "tests/unit/te/rig.h"

#define N        64 /* many times what it takes to be asked */
#define PAUSE_MS 2  /* ten times what waits that follow closely are apart */

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

static void write_word(void)
{
	struct iovec piece = {&local, sizeof(local)};
	struct te_request r = rig_request(segment, TE_WRITE, &memory, &piece);

	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	te_batch_reset(batch);
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

static void waits_that_follow_closely_ask_for_a_nap(void **state)
{
	uint64_t until = tei_now_ns() + RIG_WAIT_MS * TEI_NS_PER_MS;

	(void)state;
	do {
		assert_true(tei_now_ns() < until);
		write_word();
	} while (!is_asked());
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(waits_far_apart_let_the_thread_sleep),
		TEST(waits_that_follow_closely_ask_for_a_nap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
