/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_flush.c - links whose device is slow to let go of memory
 *
 * While a flush is held slices of the link are at the backend: what they belong to
 * does not end, and all else goes on.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/lib/wait.h"

#define LEN ((size_t)8 << 20)
#include "tests/unit/te/pair.h"

static int set_up(void **state)
{
	(void)state;
	(void)pair_open(NULL, LEN);
	rig_fill(local, LEN);
	return 0;
}

static struct te_batch *start(uint32_t op)
{
	struct iovec piece = {local, LEN};
	struct te_request r = rig_request(segment, op, memory, &piece);
	struct te_batch *batch;

	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	return batch;
}

static bool is_flushing(void *arg)
{
	(void)arg;
	return atomic_load(&fake.flushing) > 0;
}

static void await_flush(void)
{
	assert_true(test_wait_until(is_flushing, NULL, RIG_WAIT_MS));
}

static void release(void)
{
	atomic_store(&fake.hold_flush, false);
	fake_wake();
}

static bool has_ended(struct te_batch *batch)
{
	struct te_completion c;

	return te_batch_result(batch, 0, &c) != -EAGAIN;
}

/* One of its links has broken, and its flush is held. */
static struct te_batch *start_held(uint32_t op)
{
	struct te_batch *batch;

	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
	atomic_store(&fake.hold_flush, true);
	atomic_store(&fake.break_after, 1);
	batch = start(op);
	await_flush();
	return batch;
}

static void other_requests_go_on_meanwhile(void **state)
{
	struct te_engine *second = rig_engine(NULL);
	uint8_t *theirs = calloc(1, LEN), *mine = malloc(LEN);
	struct te_batch *batch;
	te_segment_id id;

	(void)state;
	assert_true(theirs && mine);
	memset(mine, 0x5a, LEN);
	(void)rig_region(second, theirs, LEN, RIG_ANY);
	id = rig_segment(user, second);
	batch = start_held(TE_WRITE);
	assert_int_equal(rig_move(user, id, TE_WRITE, theirs, mine, LEN), 0);
	assert_memory_equal(theirs, mine, LEN);
	/* Also of the same peer, by a new link. */
	assert_int_equal(rig_move(user, segment, TE_READ, memory, mine, LEN),
			 0);
	assert_true(is_flushing(NULL));
	assert_false(has_ended(batch));
	release();
	assert_int_equal(rig_end(batch).error, 0);
	assert_memory_equal(memory, local, LEN);
	te_engine_destroy(second);
	free(theirs);
	free(mine);
}

static void reads_are_done_again_only_then(void **state)
{
	struct te_batch *batch;

	(void)state;
	batch = start_held(TE_READ);
	assert_false(has_ended(batch));
	release();
	assert_int_equal(rig_end(batch).error, 0);
}

static void cancelled_request_ends_once_it_is_quiet(void **state)
{
	struct te_completion c;
	struct te_batch *batch;

	(void)state;
	batch = start_held(TE_WRITE);
	assert_int_equal(te_request_cancel(batch, 0), 0);
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	release();
	c = rig_end(batch);
	assert_int_equal(c.error, -ECANCELED);
	assert_int_equal(c.flags, 0); /* something may still land */
}

static void fail_fast_ends_with_the_flush(void **state)
{
	struct iovec piece = {local, 4096};
	struct te_request r = rig_request(segment, TE_WRITE, memory, &piece);
	struct te_completion c;
	struct te_batch *batch;

	(void)state;
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
	atomic_store(&fake.hold_flush, true);
	atomic_store(&fake.break_after, 0);
	r.flags = TE_FAIL_FAST;
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	await_flush();
	assert_false(has_ended(batch));
	release();
	c = rig_end(batch);
	assert_int_equal(c.error, -ECONNRESET);
	assert_int_equal(c.flags, 0);
}

/* What came by a link of a target may land until it is flushed. */
static void revocation_waits_for_the_target(void **state)
{
	uint8_t who[TE_INCARNATION_LEN];

	(void)state;
	te_engine_incarnation(user, who);
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
	atomic_store(&fake.hold_flush, true);
	assert_int_equal(te_peer_revoke(owner, who, 30), -ETIMEDOUT);
	assert_true(is_flushing(NULL));
	release();
	assert_int_equal(te_peer_revoke_wait(owner, who, RIG_WAIT_MS), 0);
}

static void link_to_ourselves_is_flushed_on_both_sides(void **state)
{
	te_segment_id self = rig_segment(owner, owner);
	struct iovec piece = {local, LEN};
	struct te_request r = rig_request(self, TE_WRITE, memory, &piece);
	struct te_batch *batch;

	(void)state;
	assert_int_equal(rig_move(owner, self, TE_WRITE, memory, local, LEN),
			 0);
	memset(memory, 0, LEN);
	atomic_store(&fake.hold_flush, true);
	atomic_store(&fake.break_after, 1);
	assert_int_equal(te_batch_create(owner, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	await_flush();
	assert_false(has_ended(batch));
	release();
	assert_int_equal(rig_end(batch).error, 0);
	assert_memory_equal(memory, local, LEN);
}

/* ---- the end ---- */

static void device_that_is_gone_is_still_flushed(void **state)
{
	struct te_batch *batch;

	(void)state;
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
	atomic_store(&fake.hold_flush, true);
	atomic_store(&fake.stall, true);
	batch = start(TE_WRITE);
	atomic_store(&fake.gone, 1);
	fake_wake();
	await_flush();
	atomic_store(&fake.stall, false);
	release();
	assert_int_equal(rig_end(batch).error, 0);
	assert_memory_equal(memory, local, LEN);
}

static atomic_bool destroyed;

static void *destroy(void *arg)
{
	te_engine_destroy(arg);
	atomic_store(&destroyed, true);
	return NULL;
}

static void engine_ends_when_its_devices_have_let_go(void **state)
{
	struct te_engine *third = rig_engine(NULL);
	te_segment_id id = rig_segment(third, owner);
	pthread_t thread;

	(void)state;
	assert_int_equal(rig_move(third, id, TE_WRITE, memory, local, LEN), 0);
	atomic_store(&fake.hold_flush, true);
	assert_int_equal(pthread_create(&thread, NULL, destroy, third), 0);
	await_flush();
	assert_false(atomic_load(&destroyed));
	release();
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(atomic_load(&destroyed));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(other_requests_go_on_meanwhile),
		TEST(reads_are_done_again_only_then),
		TEST(cancelled_request_ends_once_it_is_quiet),
		TEST(fail_fast_ends_with_the_flush),
		TEST(revocation_waits_for_the_target),
		TEST(link_to_ourselves_is_flushed_on_both_sides),
		TEST(device_that_is_gone_is_still_flushed),
		TEST(engine_ends_when_its_devices_have_let_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
