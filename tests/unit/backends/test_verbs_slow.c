/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_verbs_slow.c - engines whose NIC is slow, or refuses, to end queue pairs,
 * or whose peer is slow to acknowledge
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backends/verbs/verbs.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define LEN       ((size_t)1 << 20)
#define N_SPOILED 40 /* work requests, each of which ends its queue pair */

static struct te_engine *owner, *user;
static te_segment_id segment;
static uint8_t *remote, *local;

static struct te_engine *engine_with(void *memory)
{
	static const char *const settings[] = {"backends", "verbs", "pause_max",
					       "20ms", NULL};
	struct te_engine *engine = rig_engine(settings);

	(void)rig_region(engine, memory, LEN, RIG_ANY);
	return engine;
}

static void move(te_segment_id to)
{
	assert_int_equal(rig_move(user, to, TE_WRITE, remote, local, LEN), 0);
}

static int set_up(void **state)
{
	(void)state;
	fake_verbs_start(1);
	tei_verbs_use(&fake_verbs);
	remote = malloc(LEN);
	local = malloc(LEN);
	assert_true(remote && local);
	rig_fill(local, LEN);
	owner = engine_with(remote);
	user = engine_with(local);
	segment = rig_segment(user, owner);
	move(segment);
	return 0;
}

/* What engines have left fake_verbs_stop() finds. */
static int tear_down(void **state)
{
	(void)state;
	te_engine_destroy(user);
	te_engine_destroy(owner);
	tei_verbs_use(NULL);
	fake_verbs_stop();
	free(remote);
	free(local);
	return 0;
}

static bool is_held(void *arg)
{
	(void)arg;
	return fake_verbs_counts().held > 0;
}

/* None of it ever comes back. */
static struct te_batch *start(uint32_t op, uint32_t flags)
{
	struct iovec piece = {local, LEN};
	struct te_request r = rig_request(segment, op, remote, &piece);
	struct te_batch *batch;

	fake_verbs_hang_pairs(0);
	r.flags = flags;
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	return batch;
}

static struct te_batch *start_and_cancel(void)
{
	struct te_batch *batch = start(TE_WRITE, 0);

	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	assert_int_equal(te_request_cancel(batch, 0), 0);
	return batch;
}

/* Once it has let go of them. */
static int end_of(struct te_batch *batch)
{
	struct te_completion c;

	assert_int_equal(te_batch_result(batch, 0, &c), -EAGAIN);
	fake_verbs_hold_destroys(false);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_result(batch, 0, &c), 0);
	te_batch_destroy(batch);
	return c.error;
}

/* Also one that is met only then: its queue pairs are made and connected. */
static void other_peers_do_not_wait_for_a_destroy(void **state)
{
	struct te_engine *second;
	struct te_batch *batch;
	te_segment_id to;

	(void)state;
	fake_verbs_hold_destroys(true);
	batch = start_and_cancel();
	assert_true(test_wait_until(is_held, NULL, RIG_WAIT_MS));
	second = engine_with(remote);
	to = rig_segment(user, second);
	for (int i = 0; i < 4; i++)
		move(to);
	assert_int_equal(end_of(batch), -ECANCELED);
	te_engine_destroy(second);
}

/* Until then its NIC might write what comes late. */
static void read_given_up_as_silent_ends_with_its_queue_pairs(void **state)
{
	struct te_batch *batch;

	(void)state;
	fake_verbs_hold_destroys(true);
	batch = start(TE_READ, TE_FAIL_SILENT);
	assert_true(test_wait_until(is_held, NULL, RIG_WAIT_MS));
	assert_int_equal(end_of(batch), -EHOSTDOWN);
}

static void *destroy(void *arg)
{
	te_engine_destroy(arg);
	return NULL;
}

static void destroyed_engine_has_waited_for_its_device(void **state)
{
	pthread_t thread;

	(void)state;
	fake_verbs_hold_destroys(true);
	assert_int_equal(pthread_create(&thread, NULL, destroy, user), 0);
	assert_true(test_wait_until(is_held, NULL, RIG_WAIT_MS));
	fake_verbs_hold_destroys(false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	user = NULL;
}

static bool is_stuck(void *arg)
{
	(void)arg;
	return test_stat(user, "te_rail_stuck_endpoints", NULL) > 0;
}

/* The process is told, and the rest goes on. */
static void refused_destroy_is_counted_and_ends_with_the_engine(void **state)
{
	struct te_batch *batch;

	(void)state;
	fake_verbs_refuse_destroys(EBUSY);
	batch = start_and_cancel();
	assert_true(test_wait_until(is_stuck, NULL, RIG_WAIT_MS));
	assert_int_equal(te_batch_wait(batch, 10), -ETIMEDOUT);
	te_engine_destroy(user);
	user = NULL;
}

/* ---- peers that acknowledge late ---- */

/*
 * A NIC gives a queue pair up whose peer, or its host, is not run for half a
 * second: that is no reason to fail what its deadline leaves time for.
 */
static void request_outlasts_its_queue_pairs(uint32_t op)
{
	struct iovec piece = {local, LEN};
	struct te_request r = rig_request(segment, op, remote, &piece);
	uint64_t spoiled = fake_verbs_counts().spoiled;
	uint64_t up = test_stat(user, "te_endpoints_up_total", NULL);
	struct te_completion c;

	r.timeout_ms = RIG_WAIT_MS;
	fake_verbs_spoil_next(N_SPOILED, IBV_WC_RETRY_EXC_ERR);
	c = rig_run(user, &r);
	assert_int_equal(c.error, 0);
	assert_int_equal(c.bytes, LEN);
	assert_true(c.retries > 0);
	assert_int_equal(fake_verbs_counts().spoiled - spoiled, N_SPOILED);
	/* Each endpoint has two queue pairs, which may both give up. */
	assert_true(test_stat(user, "te_endpoints_up_total", NULL) - up >=
		    N_SPOILED / 2);
	assert_memory_equal(remote, local, LEN);
}

static void peer_that_acknowledges_late_fails_no_write(void **state)
{
	(void)state;
	memset(remote, 0, LEN);
	request_outlasts_its_queue_pairs(TE_WRITE);
}

static void peer_that_acknowledges_late_fails_no_read(void **state)
{
	(void)state;
	memset(local, 0, LEN);
	request_outlasts_its_queue_pairs(TE_READ);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(other_peers_do_not_wait_for_a_destroy),
		TEST(read_given_up_as_silent_ends_with_its_queue_pairs),
		TEST(destroyed_engine_has_waited_for_its_device),
		TEST(refused_destroy_is_counted_and_ends_with_the_engine),
		TEST(peer_that_acknowledges_late_fails_no_write),
		TEST(peer_that_acknowledges_late_fails_no_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
