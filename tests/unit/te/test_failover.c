/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_failover.c - two engines over a backend that fails as told
 *
 * What must hold in every case: the bytes are right or the request has failed,
 * it ends, and nothing touches memory after the end that was not announced.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "tests/unit/te/one.h"

static bool has_suspected(void *arg)
{
	(void)arg;
	return test_stat(user, "te_peer_suspects_total", NULL) > 0;
}

static bool has_asked_for_a_drop(void *arg)
{
	(void)arg;
	return test_stat(user, "te_endpoint_drops_asked_total", NULL) > 0;
}

/* ---- it goes on ---- */

/* A request is one worker's, and so are the rails that carry it. */
static int set_up_one_worker(void **state)
{
	static const char *const one[] = {"connect_timeout",
					  "300ms",
					  "suspect_after",
					  "100ms",
					  "workers",
					  "1",
					  NULL};

	(void)state;
	(void)pair_open(one, LEN);
	rig_fill(local, LEN);
	return 0;
}

static void two_rails_carry_one_request(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0);
	assert_memory_equal(memory, local, LEN);
	assert_true(atomic_load(&fake.done[0]) > 0);
	assert_true(atomic_load(&fake.done[1]) > 0);
}

static void write_that_broke_is_done_again_after_the_drop(void **state)
{
	struct te_completion c;

	(void)state;
	for (int after = 0; after < 9; after++) {
		memset(memory, 0, LEN);
		atomic_store(&fake.break_after, after);
		c = run(TE_WRITE, LEN, 0, 0);
		assert_int_equal(c.error, 0);
		assert_int_equal(c.bytes, LEN);
		assert_int_equal(c.flags, TE_REMOTE_QUIET);
		/* The ghost came before the second attempt, not after. */
		assert_memory_equal(memory, local, LEN);
	}
	assert_true(atomic_load(&fake.ghosts) > 0);
	assert_true(test_stat(user, "te_slice_retries_total", NULL) > 0);
	assert_true(test_stat(owner, "te_endpoint_drops_served_total", NULL) >
		    0);
}

static void read_that_broke_is_done_again(void **state)
{
	struct te_completion c;

	(void)state;
	memset(memory, 0x5a, LEN);
	for (int after = 0; after < 9; after++) {
		memset(local, 0, LEN);
		atomic_store(&fake.break_after, after);
		c = run(TE_READ, LEN, 0, 0);
		assert_int_equal(c.error, 0);
		assert_memory_equal(memory, local, LEN);
	}
	assert_int_equal(atomic_load(&fake.ghosts), 0);
}

static void checksum_survives_retries(void **state)
{
	struct iovec piece = {local, LEN};
	struct te_request r = rig_request(segment, TE_WRITE, memory, &piece);
	struct te_completion c;

	(void)state;
	r.flags = TE_CRC;
	r.crc_from = 12345;
	r.crc_len = LEN - 54321;
	for (int after = 0; after < 9; after += 2) {
		atomic_store(&fake.break_after, after);
		c = rig_run(user, &r);
		assert_int_equal(c.error, 0);
		assert_int_equal(c.crc,
				 te_crc32c(0, local + 12345, LEN - 54321));
	}
}

static void one_rail_may_break_again_and_again(void **state)
{
	(void)state;
	atomic_store(&fake.break_rail, 0);
	for (int i = 0; i < 10; i++) {
		atomic_store(&fake.break_after, 0);
		assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0);
	}
	assert_memory_equal(memory, local, LEN);
}

static void failed_posts_are_posted_elsewhere(void **state)
{
	(void)state;
	atomic_store(&fake.fail_posts, 5);
	assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0);
	assert_memory_equal(memory, local, LEN);
	assert_int_equal(atomic_load(&fake.fail_posts), 0);
}

static void refused_endpoints_are_asked_for_again(void **state)
{
	(void)state;
	atomic_store(&fake.refuse_connects, 6);
	assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0);
	assert_memory_equal(memory, local, LEN);
}

static void busy_owner_is_asked_again(void **state)
{
	(void)state;
	atomic_store(&fake.busy, 20);
	assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0);
	assert_memory_equal(memory, local, LEN);
	assert_int_equal(atomic_load(&fake.busy), 0);
}

/*
 * Who drove while it waited for its own batch leaves work behind, and nobody
 * waits for that: the engine must go on by itself.
 */
static void what_a_waiter_leaves_behind_is_carried_on(void **state)
{
	static const char *const narrow[] = {"window", "64k", NULL};
	struct te_engine *other = rig_engine(narrow);
	te_segment_id id = rig_segment(other, owner);
	struct iovec piece = {local, 64 << 10};
	struct te_request r[2] = {
		rig_request(id, TE_WRITE, memory, &piece),
		rig_request(id, TE_WRITE, memory, &piece),
	};
	struct te_batch *first, *second;
	struct pollfd p = {.events = POLLIN};

	(void)state;
	for (int i = 0; i < 50; i++) {
		assert_int_equal(te_batch_create(other, 2, &first), 0);
		assert_int_equal(te_batch_create(other, 1, &second), 0);
		p.fd = te_batch_eventfd(second);
		atomic_store(&fake.stall, i > 0); /* first: just connect */
		assert_int_equal(te_batch_submit(first, r, 2), 0);
		assert_int_equal(te_batch_submit(second, r, 1), 0);
		atomic_store(&fake.stall, false);
		assert_int_equal(te_batch_wait(first, RIG_WAIT_MS), 0);
		assert_int_equal(poll(&p, 1, RIG_WAIT_MS), 1);
		te_batch_destroy(first);
		te_batch_destroy(second);
	}
	te_engine_destroy(other);
}

/* ---- it ends ---- */

static void fail_fast_ends_at_the_first_break(void **state)
{
	struct te_completion c;

	(void)state;
	assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0); /* both are up */
	atomic_store(&fake.break_after, 3);
	c = run(TE_WRITE, LEN, 0, TE_FAIL_FAST);
	assert_int_equal(c.error, -ECONNRESET);
	assert_int_equal(c.flags, 0); /* something may still land */
	assert_int_equal(run(TE_WRITE, LEN, 0, TE_FAIL_FAST).error, 0);
}

/* A queue pair does not tell that the process behind its other end is gone. */
static void
fail_fast_does_not_wait_for_endpoints_of_a_dead_process(void **state)
{
	struct te_batch *batch;

	(void)state;
	atomic_store(&fake.stall, true);
	batch = start_as(TE_READ, LEN, 0, TE_FAIL_FAST);
	assert_true(test_wait_until(is_posted, NULL, RIG_WAIT_MS));
	te_engine_destroy(owner);
	owner = NULL;
	assert_int_equal(rig_end(batch).error, -ECONNREFUSED);
}

static void stalled_request_ends_at_its_deadline(void **state)
{
	struct te_completion c;

	(void)state;
	assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0); /* links are up */
	memset(memory, 0, LEN);
	atomic_store(&fake.stall, true);
	c = run(TE_WRITE, LEN, 1000, 0); /* long since on its way */
	assert_int_equal(c.error, -ETIMEDOUT);
	assert_int_equal(c.flags, 0);
	c = run(TE_READ, LEN, 50, 0);
	assert_int_equal(c.error, -ETIMEDOUT);
	assert_int_equal(c.flags, TE_REMOTE_QUIET);
	atomic_store(&fake.stall, false);
	assert_int_equal(run(TE_WRITE, LEN, 0, 0).error, 0);
	assert_memory_equal(memory, local, LEN);
}

static void stalled_request_can_be_cancelled(void **state)
{
	struct te_batch *batch;
	struct te_completion c;

	(void)state;
	atomic_store(&fake.stall, true);
	batch = start(TE_READ, LEN, 0);
	assert_int_equal(te_batch_wait(batch, 5), -ETIMEDOUT);
	assert_int_equal(te_batch_result(batch, 0, &c), -EAGAIN);
	assert_int_equal(te_request_cancel(batch, 1), -EINVAL);
	assert_int_equal(te_request_cancel(batch, 0), 0);
	c = rig_end(batch);
	assert_int_equal(c.error, -ECANCELED);
	/* Nothing touches the local memory any more, whatever comes. */
	memset(local, 0x33, LEN);
	memset(memory, 0x44, LEN);
	atomic_store(&fake.stall, false);
	fake_wake();
	assert_int_equal(run(TE_WRITE, 1, 0, 0).error, 0);
	assert_int_equal(local[LEN - 1], 0x33);
}

static void silent_peer_is_suspected(void **state)
{
	struct te_batch *batch;

	(void)state;
	atomic_store(&fake.stall, true);
	batch = start(TE_WRITE, LEN, 0);
	assert_true(test_wait_until(has_suspected, NULL, RIG_WAIT_MS));
	atomic_store(&fake.stall, false);
	fake_wake();
	assert_int_equal(rig_end(batch).error, 0);
	assert_memory_equal(memory, local, LEN);
}

static void write_waits_for_a_late_drop(void **state)
{
	struct te_batch *batch;

	(void)state;
	atomic_store(&fake.hold_drop, true);
	atomic_store(&fake.break_after, 1);
	batch = start(TE_WRITE, LEN, 0);
	assert_true(test_wait_until(has_asked_for_a_drop, NULL, RIG_WAIT_MS));
	assert_int_equal(te_batch_wait(batch, 50), -ETIMEDOUT);
	atomic_store(&fake.hold_drop, false);
	fake_wake();
	assert_int_equal(rig_end(batch).error, 0);
	assert_memory_equal(memory, local, LEN);
}

static void write_whose_drop_never_comes_ends_loud(void **state)
{
	struct te_completion c;

	(void)state;
	atomic_store(&fake.hold_drop, true);
	atomic_store(&fake.break_after, 1);
	c = run(TE_WRITE, LEN, 1000, 0);
	assert_int_equal(c.error, -ETIMEDOUT);
	assert_int_equal(c.flags, 0);
}

static void engine_with_stalled_requests_is_destroyed(void **state)
{
	(void)state;
	atomic_store(&fake.stall, true);
	for (int i = 0; i < 3; i++)
		assert_int_equal(te_batch_wait(start(TE_WRITE, LEN, 0), 2),
				 -ETIMEDOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_rails_carry_one_request,
						set_up_one_worker, pair_close),
		WITH_ENGINES(write_that_broke_is_done_again_after_the_drop),
		WITH_ENGINES(read_that_broke_is_done_again),
		WITH_ENGINES(checksum_survives_retries),
		WITH_ENGINES(one_rail_may_break_again_and_again),
		WITH_ENGINES(failed_posts_are_posted_elsewhere),
		WITH_ENGINES(refused_endpoints_are_asked_for_again),
		WITH_ENGINES(busy_owner_is_asked_again),
		WITH_ENGINES(what_a_waiter_leaves_behind_is_carried_on),
		WITH_ENGINES(fail_fast_ends_at_the_first_break),
		WITH_ENGINES(
			fail_fast_does_not_wait_for_endpoints_of_a_dead_process),
		WITH_ENGINES(stalled_request_ends_at_its_deadline),
		WITH_ENGINES(stalled_request_can_be_cancelled),
		WITH_ENGINES(silent_peer_is_suspected),
		WITH_ENGINES(write_waits_for_a_late_drop),
		WITH_ENGINES(write_whose_drop_never_comes_ends_loud),
		WITH_ENGINES(engine_with_stalled_requests_is_destroyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
