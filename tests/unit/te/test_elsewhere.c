/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_elsewhere.c - requests that go from one worker to another
 *
 * Of two workers the first has rails "fake/a" and "spare/c", the second one
 * "fake/b".
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/from.h"
#include "tests/unit/te/pair.h"

#define PART ((size_t)64 << 10)
#define LEN  (4 * PART)
#define A    (1u << 0) /* of a set of devices */
#define B    (1u << 1)
#define C    (1u << 2)

/* Nothing of what is waited for comes by a time-out. */
static const char *const patient[] = {"workers",
				      "2",
				      "connect_timeout",
				      "10m",
				      "reroute_after",
				      "10m",
				      "suspect_after",
				      "10m",
				      "window",
				      "64k",
				      "slice_max",
				      "64k",
				      "pause_min",
				      "1h",
				      "pause_max",
				      "1h",
				      NULL};

static int set_up(void **state)
{
	(void)state;
	pair_memory(LEN);
	atomic_store(&fake.lone, C);
	pair_engines(patient, patient, LEN);
	assert_int_equal(user->n_workers, 2);
	rig_fill(local, LEN);
	return 0;
}

/* Has both workers open their links. */
static void warm_up(void)
{
	uint32_t n_up;

	assert_int_equal(te_segment_warm_up(user, segment, RIG_WAIT_MS, &n_up),
			 0);
	assert_int_equal(n_up, 2);
}

static struct iovec pieces[FROM_MAX];

/* Fills requests[n], one for each part of the memory. */
static void describe(struct te_request *requests, uint32_t n, uint32_t op,
		     uint32_t flags)
{
	for (uint32_t i = 0; i < n; i++) {
		pieces[i] = (struct iovec){local + i * PART, PART};
		requests[i] =
			rig_request(segment, op, memory + i * PART, &pieces[i]);
		requests[i].flags = flags;
	}
}

static struct te_completion end_of(struct te_batch *batch, uint32_t index)
{
	struct te_completion c;

	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_result(batch, index, &c), 0);
	return c;
}

static bool one_is_posted(void *arg)
{
	(void)arg;
	return atomic_load(&user->worker[0].stats.slices) == 1;
}

static bool second_is_posted(void *arg)
{
	(void)arg;
	return atomic_load(&user->worker[1].stats.slices) > 0;
}

static bool second_has_ended(void *batch)
{
	struct te_completion c;

	return !te_batch_result(batch, 1, &c);
}

/* ---- that had begun ---- */

/* The first is in limbo until the owner confirms; the second was never out. */
static void request_leaves_a_cohort_of_which_some_is_out(void **state)
{
	struct te_request requests[3];
	struct te_batch *batch;

	(void)state;
	warm_up();
	describe(requests, 3, TE_WRITE, 0);
	atomic_store(&fake.hold_drop, true);
	atomic_store(&fake.break_rail, 0);
	atomic_store(&fake.break_after, 0);
	batch = submit_from(user, 0, requests, 3);
	assert_true(test_wait_until(second_has_ended, batch, RIG_WAIT_MS));
	assert_int_equal(te_batch_wait(batch, 0), -ETIMEDOUT);
	atomic_store(&fake.hold_drop, false);
	fake_wake();
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(end_of(batch, i).error, 0);
	assert_memory_equal(memory, local, 3 * PART);
	te_batch_destroy(batch);
}

/* Those of the middle, and what is left of the cohort, are canceled as well. */
static void what_has_left_in_parts_is_canceled(void **state)
{
	struct te_request requests[4];
	struct te_batch *batch;

	(void)state;
	warm_up();
	describe(requests, 4, TE_WRITE, 0);
	atomic_store(&fake.quiet, B);
	atomic_store(&fake.hold_drop, true);
	atomic_store(&fake.break_rail, 0);
	atomic_store(&fake.break_after, 0);
	batch = submit_from(user, 0, requests, 4);
	assert_true(test_wait_until(second_is_posted, NULL, RIG_WAIT_MS));
	assert_int_equal(te_request_cancel(batch, 2), 0);
	assert_int_equal(te_batch_cancel(batch), 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(end_of(batch, i).error, -ECANCELED);
	te_batch_destroy(batch);
}

/* Its time counts from its begin, wherever it has been. */
static void cohort_that_moves_has_begun_before(void **state)
{
	const struct tei_cohort *cohort;
	struct te_request request;
	struct te_batch *batch;
	uint64_t before_it_moved;

	(void)state;
	warm_up();
	describe(&request, 1, TE_READ, TE_FAIL_SILENT);
	atomic_store(&fake.quiet, A);
	batch = submit_from(user, 0, &request, 1);
	assert_true(test_wait_until(one_is_posted, NULL, RIG_WAIT_MS));
	before_it_moved = tei_now_ns();
	atomic_store(&fake.down_rail, 0);
	fake_wake();
	assert_int_equal(end_of(batch, 0).error, 0);
	assert_int_equal(atomic_load(&fake.done[1]), 1);
	cohort = tei_cohort_of(&batch->requests[0]);
	assert_true(cohort->begun_at <= before_it_moved);
	te_batch_destroy(batch);
}

/* A write of which something may still land does not go elsewhere first. */
static void request_in_haste_ends_though_another_worker_has_a_link(void **state)
{
	struct te_request request;
	struct te_batch *batch;

	(void)state;
	warm_up();
	describe(&request, 1, TE_WRITE, TE_FAIL_FAST);
	atomic_store(&fake.hold_drop, true);
	atomic_store(&fake.break_rail, 0);
	atomic_store(&fake.break_after, 0);
	batch = submit_from(user, 0, &request, 1);
	assert_int_equal(end_of(batch, 0).error, -ECONNRESET);
	te_batch_destroy(batch);
}

/* ---- what other workers see of a rail ---- */

static void connect_that_hangs_is_not_waited_for(void **state)
{
	static const char *const soon[] = {"workers",
					   "2",
					   "connect_timeout",
					   "10m",
					   "reroute_after",
					   "50ms",
					   "suspect_after",
					   "10m",
					   NULL};
	struct te_request request;
	struct te_batch *batch;

	(void)state;
	pair_memory(LEN);
	atomic_store(&fake.lone, A);
	atomic_store(&fake.hang, B);
	pair_engines(soon, soon, LEN);
	describe(&request, 1, TE_WRITE, 0);
	batch = submit_from(user, 1, &request, 1);
	assert_int_equal(end_of(batch, 0).error, 0);
	assert_true(atomic_load(&fake.done[2]) > 0);
	te_batch_destroy(batch);
}

#define PEERS_MAX 16u

static bool is_paused(void)
{
	return test_stat(user, "te_rail_pauses_total", "device") > 0;
}

/* Some peers blame the device of "a"; the one after them has not tried it. */
static void rail_that_is_paused_is_left_to_no_peer(void **state)
{
	static const char *const paused[] = {
		"workers", "2", "pause_min", "1h", "pause_max", "1h", NULL};
	struct te_engine *owners[PEERS_MAX];
	struct te_request request;
	struct te_batch *batch;
	uint32_t n = 0;
	bool was_paused;

	(void)state;
	pair_memory(LEN);
	atomic_store(&fake.lone, C);
	atomic_store(&fake.dead, A);
	pair_engines(NULL, paused, LEN);
	do {
		was_paused = is_paused();
		owners[n] = rig_engine(NULL);
		rig_region(owners[n], memory, LEN, RIG_ANY);
		segment = rig_segment(user, owners[n++]);
		describe(&request, 1, TE_WRITE, 0);
		batch = submit_from(user, 0, &request, 1);
		assert_int_equal(end_of(batch, 0).error, 0);
		te_batch_destroy(batch);
	} while (!was_paused && n < PEERS_MAX);
	assert_true(was_paused);
	te_engine_destroy(user);
	user = NULL;
	while (n--)
		te_engine_destroy(owners[n]);
}

/* The peer is slow, whichever rail it is asked by. */
static void links_of_a_slow_peer_are_not_broken_again_and_again(void **state)
{
	static const char *const quick[] = {
		"workers", "2", "reroute_after", "20ms", "suspect_after",
		"10m",     NULL};
	struct te_request request;
	struct te_batch *batch;

	(void)state;
	pair_memory(LEN);
	atomic_store(&fake.lone, C);
	pair_engines(quick, quick, LEN);
	warm_up();
	describe(&request, 1, TE_READ, 0);
	request.timeout_ms = 2000;
	atomic_store(&fake.stall, true);
	batch = submit_from(user, 0, &request, 1);
	assert_int_equal(end_of(batch, 0).error, -ETIMEDOUT);
	assert_in_range(
		test_stat(user, "te_endpoints_given_up_total", "silent"), 1, 2);
	te_batch_destroy(batch);
}

#define WITH_PAIR(test) \
	cmocka_unit_test_setup_teardown(test, set_up, pair_close)
#define ALONE(test) cmocka_unit_test_setup_teardown(test, NULL, pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_PAIR(request_leaves_a_cohort_of_which_some_is_out),
		WITH_PAIR(what_has_left_in_parts_is_canceled),
		WITH_PAIR(cohort_that_moves_has_begun_before),
		WITH_PAIR(
			request_in_haste_ends_though_another_worker_has_a_link),
		ALONE(connect_that_hangs_is_not_waited_for),
		ALONE(rail_that_is_paused_is_left_to_no_peer),
		ALONE(links_of_a_slow_peer_are_not_broken_again_and_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
