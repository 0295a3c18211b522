/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_merge.c - adjacent requests share a slice, and nothing else
 *
 * One submission of N requests of LEN bytes, side by side at the owner.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/fake.h"
#include "tests/unit/te/rig.h"

#define N      16
#define LEN    ((size_t)4096)
#define STRIDE (LEN * 2) /* between local pieces */

static struct te_engine *owner, *user;
static te_segment_id segment;
static te_region_id region;
static uint8_t *memory, *local;
static struct te_batch *batch;

/* What a test changes before it submits. */
static struct te_request requests[N];
static struct iovec pieces[N];

static void describe(uint32_t op, size_t stride)
{
	for (size_t i = 0; i < N; i++) {
		pieces[i] = (struct iovec){local + i * stride, LEN};
		requests[i] =
			rig_request(segment, op, memory + i * LEN, &pieces[i]);
		requests[i].user = i;
	}
}

static void open_all(const char *reroute_after)
{
	const char *const quick[] = {"connect_timeout",
				     "300ms",
				     "suspect_after",
				     "100ms",
				     "reroute_after",
				     reroute_after,
				     NULL};

	fake_reset();
	memory = calloc(N, LEN);
	local = malloc(N * STRIDE);
	assert_true(memory && local);
	for (size_t i = 0; i < N * STRIDE; i++)
		local[i] = (uint8_t)(i * 2654435761u >> 13);
	owner = rig_engine(quick);
	user = rig_engine(quick);
	region = rig_region(owner, memory, N * LEN, RIG_ANY);
	segment = rig_segment(user, owner);
	assert_int_equal(te_batch_create(user, N, &batch), 0);
	describe(TE_WRITE, STRIDE);
	/* So that links are up, and one slice can be told from many. */
	assert_int_equal(rig_move(user, segment, TE_READ, memory, local, 1), 0);
}

static int set_up(void **state)
{
	(void)state;
	open_all("10s");
	return 0;
}

static int set_up_impatient(void **state)
{
	(void)state;
	open_all("300ms");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake_reset();
	te_batch_destroy(batch);
	te_engine_destroy(user);
	te_engine_destroy(owner);
	free(memory);
	free(local);
	return 0;
}

static uint64_t n_merged(void)
{
	return test_stat(user, "te_requests_merged_total", NULL);
}

static uint64_t n_slices(void)
{
	return test_stat(user, "te_slices_total", NULL);
}

static int error_of(uint32_t index)
{
	struct te_completion c;

	assert_int_equal(te_batch_result(batch, index, &c), 0);
	if (!c.error)
		assert_int_equal(c.bytes, LEN);
	return c.error;
}

static void submit(void)
{
	assert_int_equal(te_batch_submit(batch, requests, N), 0);
}

static void submit_and_wait(void)
{
	submit();
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
}

static void all_are_right_but(int index, size_t stride)
{
	for (size_t i = 0; i < N; i++) {
		if ((int)i == index)
			continue;
		assert_int_equal(error_of((uint32_t)i), 0);
		assert_memory_equal(memory + i * LEN, local + i * stride, LEN);
	}
}

/* ---- merged or not ---- */

static void adjacent_requests_share_slices(void **state)
{
	uint64_t before = n_slices();

	(void)state;
	submit_and_wait();
	all_are_right_but(-1, STRIDE);
	assert_int_equal(n_merged(), N);
	assert_true(n_slices() - before <= 2);
	for (size_t i = 0; i < N; i++) {
		struct te_completion c;

		assert_int_equal(te_batch_poll(batch, &c, 1), 1);
		assert_int_equal(c.user, c.index);
		assert_string_not_equal(te_rail_name(user, c.rail), "");
	}
}

static void reads_into_adjacent_memory_are_right(void **state)
{
	(void)state;
	for (size_t i = 0; i < N * LEN; i++)
		memory[i] = (uint8_t)(i >> 3);
	describe(TE_READ, LEN);
	submit_and_wait();
	all_are_right_but(-1, LEN);
	assert_int_equal(n_merged(), N);
}

static void run_again(void)
{
	assert_int_equal(te_batch_reset(batch), 0);
	submit_and_wait();
	all_are_right_but(-1, STRIDE);
}

static void requests_that_differ_stay_apart(void **state)
{
	struct iovec two[2] = {{local, LEN / 2}, {local + LEN / 2, LEN / 2}};

	(void)state;
	for (size_t i = 0; i < N; i += 2)
		requests[i].flags = TE_FAIL_FAST;
	run_again();
	for (size_t i = 0; i < N; i++) {
		requests[i].flags = TE_CRC;
		requests[i].crc_len = LEN;
	}
	run_again();
	describe(TE_WRITE, STRIDE);
	for (size_t i = 0; i < N; i += 2)
		requests[i].timeout_ms = 20000;
	run_again();
	describe(TE_WRITE, STRIDE);
	for (size_t i = 0; i < N; i += 2)
		requests[i].priority = TE_PRIORITY_BULK;
	run_again();
	assert_int_equal(n_merged(), 0);
	describe(TE_WRITE, STRIDE);
	requests[0].pieces = two;
	requests[0].n_pieces = 2;
	run_again();
	assert_int_equal(n_merged(), N - 1);
}

static void distant_requests_stay_apart(void **state)
{
	(void)state;
	for (size_t i = 0; i < N; i++)
		requests[i].remote =
			(uintptr_t)memory + (N - 1 - i) * (uint64_t)LEN;
	submit_and_wait();
	assert_int_equal(n_merged(), 0);
	for (size_t i = 0; i < N; i++)
		assert_memory_equal(memory + (N - 1 - i) * LEN,
				    local + i * STRIDE, LEN);
}

/* ---- one of them ---- */

static bool is_final(void *arg)
{
	struct te_completion c;

	return !te_batch_result(batch, *(const uint32_t *)arg, &c);
}

static bool has_merged_all(void *arg)
{
	return n_merged() >= *(const uint64_t *)arg;
}

static void submit_stalled(void)
{
	uint64_t all = n_merged() + N;

	atomic_store(&fake.stall, true);
	submit();
	assert_true(test_wait_until(has_merged_all, &all, RIG_WAIT_MS));
}

static void cancel_one(uint32_t op)
{
	uint32_t index = 5;

	describe(op, STRIDE);
	for (size_t i = 0; i < N * LEN; i++)
		memory[i] = (uint8_t)(i >> 3);
	submit_stalled();
	assert_int_equal(te_request_cancel(batch, index), 0);
	/* Nothing moves, and it ends all the same. */
	assert_true(test_wait_until(is_final, &index, RIG_WAIT_MS));
	assert_int_equal(error_of(index), -ECANCELED);
	assert_int_equal(te_batch_wait(batch, 0), -ETIMEDOUT);
	atomic_store(&fake.stall, false);
	fake_wake();
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	all_are_right_but((int)index, STRIDE);
}

static void cancelled_write_leaves_the_others_whole(void **state)
{
	(void)state;
	cancel_one(TE_WRITE);
}

static void cancelled_read_leaves_the_others_whole(void **state)
{
	(void)state;
	cancel_one(TE_READ);
}

static bool is_flushing(void *arg)
{
	(void)arg;
	return atomic_load(&fake.flushing) > 0;
}

/*
 * Cancels a second request while the endpoint that the first one cost is being
 * flushed: nothing of the link may be looked at once it is freed.
 */
static void second_cancel_may_meet_the_flush(void **state)
{
	uint64_t until;

	(void)state;
	atomic_store(&fake.hold_flush, true);
	submit_stalled();
	assert_int_equal(te_request_cancel(batch, 5), 0);
	assert_true(test_wait_until(is_flushing, NULL, RIG_WAIT_MS));
	assert_int_equal(te_request_cancel(batch, 6), 0);
	atomic_store(&fake.stall, false);
	atomic_store(&fake.hold_flush, false);
	fake_wake();
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(error_of(i),
				 i == 5 || i == 6 ? -ECANCELED : 0);
	/* Longer than a link waits for the rest of a merged part. */
	until = tei_now_ns() + 100 * TEI_NS_PER_MS;
	while (tei_now_ns() < until)
		assert_int_equal(
			rig_move(user, segment, TE_READ, memory, local, 1), 0);
}

static void cancel_of_all_needs_no_new_endpoint(void **state)
{
	uint64_t before = test_stat(user, "te_endpoints_down_total", NULL);

	(void)state;
	submit_stalled();
	assert_int_equal(te_batch_cancel(batch), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(error_of(i), -ECANCELED);
	assert_int_equal(test_stat(user, "te_endpoints_down_total", NULL),
			 before);
}

/* Where the machine was late to merge them they are given more time. */
static void all_time_out_together(void **state)
{
	uint64_t before = n_merged();

	(void)state;
	atomic_store(&fake.stall, true);
	for (uint32_t ms = 1000; n_merged() - before < N; ms *= 2) {
		before = n_merged();
		for (size_t i = 0; i < N; i++)
			requests[i].timeout_ms = ms;
		assert_int_equal(te_batch_reset(batch), 0);
		submit_and_wait();
		for (uint32_t i = 0; i < N; i++)
			assert_int_equal(error_of(i), -ETIMEDOUT);
	}
}

static void refused_one_fails_alone(void **state)
{
	(void)state;
	atomic_store(&fake.refuse_at, (uintptr_t)memory + 7 * LEN + 3);
	submit_and_wait();
	assert_int_equal(error_of(7), -EFAULT);
	all_are_right_but(7, STRIDE);
}

static void fail_one(uint32_t op)
{
	describe(op, STRIDE);
	for (size_t i = 0; i < N * LEN; i++)
		memory[i] = (uint8_t)(i >> 3);
	atomic_store(&fake.fail_at, (uintptr_t)memory + 7 * LEN + 3);
	submit_and_wait();
	assert_int_equal(n_merged(), N);
	assert_int_equal(error_of(7), -EIO);
	all_are_right_but(7, STRIDE);
}

/* A ghost of all of them is left, that must not land on what comes after. */
static void failed_write_fails_alone(void **state)
{
	(void)state;
	fail_one(TE_WRITE);
}

static void failed_read_fails_alone(void **state)
{
	(void)state;
	fail_one(TE_READ);
}

static void one_beyond_the_region_fails_alone(void **state)
{
	(void)state;
	requests[N - 1].remote += 1;
	submit_and_wait();
	assert_int_equal(error_of(N - 1), -EFAULT);
	all_are_right_but(N - 1, STRIDE);
}

struct calls {
	uint32_t n, next;
	bool in_order;
};

static void count_call(struct te_batch *of, const struct te_completion *done,
		       void *arg)
{
	struct calls *calls = arg;

	assert_ptr_equal(of, batch);
	calls->in_order &= done->index == calls->next;
	calls->next = done->index + 1;
	calls->n++;
}

static void each_has_its_own_callback_in_order(void **state)
{
	struct calls calls = {.in_order = true};

	(void)state;
	assert_int_equal(te_batch_on_done(batch, count_call, &calls), 0);
	submit_and_wait();
	assert_int_equal(calls.n, N);
	assert_true(calls.in_order);
	all_are_right_but(-1, STRIDE);
}

/* ---- trouble on the way ---- */

static void revoked_ones_are_all_stale_and_quiet(void **state)
{
	uint8_t who[TE_INCARNATION_LEN];
	struct te_completion c;

	(void)state;
	te_engine_incarnation(user, who);
	submit_stalled();
	assert_int_equal(te_peer_revoke(owner, who, RIG_WAIT_MS), 0);
	memset(memory, 9, N * LEN);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(te_batch_result(batch, i, &c), 0);
		assert_int_equal(c.error, -ESTALE);
		assert_true(c.flags & TE_REMOTE_QUIET);
	}
	for (size_t i = 0; i < N * LEN; i++)
		assert_int_equal(memory[i], 9);
	atomic_store(&fake.stall, false);
	assert_int_equal(te_batch_reset(batch), 0);
	submit_and_wait();
	all_are_right_but(-1, STRIDE);
}

static void silent_rail_gives_them_to_another(void **state)
{
	struct te_completion c;

	(void)state;
	atomic_store(&fake.quiet, 1);
	submit_and_wait();
	all_are_right_but(-1, STRIDE);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(te_batch_result(batch, i, &c), 0);
		assert_string_not_equal(te_rail_name(user, c.rail), "fake/a");
	}
}

static void owner_without_room_is_asked_again(void **state)
{
	(void)state;
	atomic_store(&fake.busy, 5);
	submit_and_wait();
	all_are_right_but(-1, STRIDE);
}

static void broken_endpoint_costs_no_byte(void **state)
{
	(void)state;
	for (int round = 0; round < 12; round++) {
		memset(memory, 0, N * LEN);
		describe(round % 3 == 2 ? TE_READ : TE_WRITE, STRIDE);
		atomic_store(&fake.break_after, round % 4);
		assert_int_equal(te_batch_reset(batch), 0);
		submit_and_wait();
		all_are_right_but(-1, STRIDE);
	}
	assert_true(test_stat(user, "te_slice_retries_total", NULL) > 0);
}

static bool has_asked_for_a_drop(void *arg)
{
	(void)arg;
	return test_stat(user, "te_endpoint_drops_asked_total", NULL) > 0;
}

/* Cancelled while its write waits for the confirmation of a drop. */
static void one_may_be_cancelled_in_limbo(void **state)
{
	struct te_completion c;
	uint32_t index = 3;

	(void)state;
	atomic_store(&fake.hold_drop, true);
	atomic_store(&fake.break_after, 0);
	submit();
	assert_true(test_wait_until(has_asked_for_a_drop, NULL, RIG_WAIT_MS));
	assert_int_equal(te_request_cancel(batch, index), 0);
	assert_true(test_wait_until(is_final, &index, RIG_WAIT_MS));
	assert_int_equal(te_batch_result(batch, index, &c), 0);
	assert_int_equal(c.error, -ECANCELED);
	assert_int_equal(c.flags & TE_REMOTE_QUIET, 0);
	atomic_store(&fake.hold_drop, false);
	fake_wake();
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	all_are_right_but((int)index, STRIDE);
}

#define WITH_ENGINES(test) \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINES(adjacent_requests_share_slices),
		WITH_ENGINES(reads_into_adjacent_memory_are_right),
		WITH_ENGINES(requests_that_differ_stay_apart),
		WITH_ENGINES(distant_requests_stay_apart),
		WITH_ENGINES(cancelled_write_leaves_the_others_whole),
		WITH_ENGINES(cancelled_read_leaves_the_others_whole),
		WITH_ENGINES(second_cancel_may_meet_the_flush),
		WITH_ENGINES(cancel_of_all_needs_no_new_endpoint),
		WITH_ENGINES(all_time_out_together),
		WITH_ENGINES(refused_one_fails_alone),
		WITH_ENGINES(failed_write_fails_alone),
		WITH_ENGINES(failed_read_fails_alone),
		WITH_ENGINES(one_beyond_the_region_fails_alone),
		WITH_ENGINES(each_has_its_own_callback_in_order),
		WITH_ENGINES(revoked_ones_are_all_stale_and_quiet),
		cmocka_unit_test_setup_teardown(
			silent_rail_gives_them_to_another, set_up_impatient,
			tear_down),
		WITH_ENGINES(owner_without_room_is_asked_again),
		WITH_ENGINES(broken_endpoint_costs_no_byte),
		WITH_ENGINES(one_may_be_cancelled_in_limbo),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
