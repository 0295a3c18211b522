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
#include "te/transfer/peer.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/from.h"
#include "tests/unit/te/pair.h"

#define PART ((size_t)64 << 10)
#define LEN  (4 * PART) /* of the region; as much follows it */
#define A    (1u << 0)  /* of a set of devices */
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
	pair_memory(2 * LEN);
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

#define N_MAX 65528u /* as many as a batch holds, but for some */

static struct iovec pieces[N_MAX];

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

/* Only one worker's rail reaches the memory: the other one's is no help. */
static void
request_in_haste_ends_where_the_other_link_does_not_lead(void **state)
{
	struct iovec piece = {local, PART};
	struct te_request request;
	struct te_batch *batch;
	struct te_completion c;

	(void)state;
	warm_up();
	atomic_store(&fake.only_a_at, (uintptr_t)memory + LEN);
	rig_region(owner, memory + LEN, PART, RIG_ANY);
	request = rig_request(segment, TE_READ, memory + LEN, &piece);
	request.flags = TE_FAIL_FAST;
	request.timeout_ms = RIG_WAIT_MS;
	atomic_store(&fake.dead, A);
	batch = submit_from(user, 0, &request, 1);
	c = end_of(batch, 0);
	assert_true(c.error == -ECONNRESET || c.error == -ECONNREFUSED);
	te_batch_destroy(batch);
}

/* Of a worker whose round began later than this one's. */
static void sign_of_life_from_a_later_round_is_no_silence(void **state)
{
	static const char *const quick[] = {
		"workers", "2", "reroute_after", "10m", "suspect_after",
		"50ms",    NULL};
	struct te_request request;
	struct te_batch *batch;

	(void)state;
	pair_memory(2 * LEN);
	pair_engines(quick, quick, LEN);
	describe(&request, 1, TE_READ, TE_FAIL_SILENT);
	request.timeout_ms = 1000;
	atomic_store(&fake.stall, true);
	batch = submit_from(user, 0, &request, 1);
	atomic_store(&batch->requests[0].to->works[1].moved_at,
		     tei_now_ns() + RIG_WAIT_MS * TEI_NS_PER_S);
	assert_int_equal(end_of(batch, 0).error, -ETIMEDOUT);
	te_batch_destroy(batch);
}

/* ---- however many ---- */

/* Of memory that the one worker reaches, and that the other does, by turns. */
static void
requests_to_two_workers_by_turns_are_as_many_as_one_likes(void **state)
{
	static struct te_request requests[N_MAX];
	struct te_batch *batch;

	(void)state;
	atomic_store(&fake.only_a_at, (uintptr_t)memory + LEN);
	rig_region(owner, memory + LEN, PART, RIG_ANY);
	warm_up();
	for (uint32_t i = 0; i < N_MAX; i++) {
		pieces[i] = (struct iovec){local, 8};
		requests[i] = rig_request(segment, TE_READ,
					  memory + i % 2 * LEN, &pieces[i]);
		requests[i].timeout_ms = RIG_WAIT_MS;
	}
	batch = submit_from(user, 1, requests, N_MAX);
	for (uint32_t i = 0; i < N_MAX; i++)
		assert_int_equal(end_of(batch, i).error, 0);
	te_batch_destroy(batch);
}

static void requests_to_an_unmet_peer_are_as_many_as_one_likes(void **state)
{
	static struct te_request requests[N_MAX];
	struct te_batch *batch;
	te_segment_id id;

	(void)state;
	assert_int_equal(te_segment_expect(user, "127.0.0.1:1", &id), 0);
	for (uint32_t i = 0; i < N_MAX; i++) {
		pieces[i] = (struct iovec){local, 8};
		requests[i] = rig_request(id, TE_READ, memory, &pieces[i]);
		requests[i].timeout_ms = RIG_WAIT_MS;
	}
	batch = submit_from(user, 1, requests, N_MAX);
	assert_int_equal(te_batch_cancel(batch), 0);
	for (uint32_t i = 0; i < N_MAX; i++)
		assert_int_equal(end_of(batch, i).error, -ECANCELED);
	te_batch_destroy(batch);
}

/* ---- what other workers see of a rail ---- */

static const char *const soon[] = {"workers",
				   "2",
				   "connect_timeout",
				   "10m",
				   "reroute_after",
				   "50ms",
				   "suspect_after",
				   "10m",
				   NULL};

static void connect_that_hangs_is_not_waited_for(void **state)
{
	struct te_request request;
	struct te_batch *batch;

	(void)state;
	pair_memory(2 * LEN);
	atomic_store(&fake.lone, A);
	atomic_store(&fake.hang, B);
	pair_engines(soon, soon, LEN);
	describe(&request, 1, TE_WRITE, 0);
	batch = submit_from(user, 1, &request, 1);
	assert_int_equal(end_of(batch, 0).error, 0);
	assert_true(atomic_load(&fake.done[2]) > 0);
	te_batch_destroy(batch);
}

/* A worker has another link up, which does not reach the memory. */
static void request_leaves_though_a_link_that_is_no_help_is_up(void **state)
{
	static const char *const two[] = {
		"workers", "2", "reroute_after", "10m", "suspect_after",
		"10m",     NULL};
	struct te_request request;
	struct te_batch *batch;

	(void)state;
	pair_memory(2 * LEN);
	atomic_store(&fake.dead, A | B);
	pair_engines(two, two, LEN);
	atomic_store(&fake.not_c_at, (uintptr_t)memory + LEN);
	rig_region(owner, memory + LEN, PART, RIG_ANY);
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
	assert_true(atomic_load(&fake.done[2]) > 0);
	atomic_store(&fake.dead, 0);
	pieces[0] = (struct iovec){local, PART};
	request = rig_request(segment, TE_READ, memory + LEN, &pieces[0]);
	request.timeout_ms = 10 * RIG_WAIT_MS;
	while (!atomic_load(&fake.done[0])) {
		batch = submit_from(user, 0, &request, 1);
		assert_int_equal(end_of(batch, 0).error, 0);
		te_batch_destroy(batch);
	}
	atomic_store(&fake.quiet, A);
	batch = submit_from(user, 0, &request, 1);
	assert_int_equal(te_batch_wait(batch, 20), -ETIMEDOUT);
	atomic_store(&fake.down_rail, 0);
	fake_wake();
	assert_int_equal(end_of(batch, 0).error, 0);
	te_batch_destroy(batch);
}

/* The rail that is down has less to offer than the one whose pause will end. */
static void request_goes_to_a_rail_whose_pause_will_end(void **state)
{
	static const char *const paused[] = {"workers",
					     "2",
					     "pause_min",
					     "1s",
					     "reroute_after",
					     "10m",
					     "suspect_after",
					     "10m",
					     NULL};
	struct te_batch *first, *second;
	struct te_request request;

	(void)state;
	pair_memory(2 * LEN);
	atomic_store(&fake.lone, C);
	pair_engines(paused, paused, LEN);
	warm_up();
	describe(&request, 1, TE_READ, 0);
	request.timeout_ms = 10 * RIG_WAIT_MS;
	atomic_store(&fake.quiet, A);
	first = submit_from(user, 0, &request, 1);
	atomic_store(&fake.dead, B);
	second = submit_from(user, 1, &request, 1);
	assert_int_equal(te_batch_wait(second, 5), -ETIMEDOUT);
	atomic_store(&fake.down_rail, 0);
	fake_wake();
	assert_int_equal(te_batch_wait(first, 5), -ETIMEDOUT);
	atomic_store(&fake.dead, 0);
	assert_int_equal(end_of(first, 0).error, 0);
	assert_int_equal(end_of(second, 0).error, 0);
	te_batch_destroy(first);
	te_batch_destroy(second);
}

/* What the one device cannot do the other one may. */
static void rails_of_other_workers_are_tried_where_ours_are_unable(void **state)
{
	struct te_request request;
	struct te_batch *batch;

	(void)state;
	warm_up();
	describe(&request, 1, TE_WRITE, 0);
	atomic_store(&fake.unable, A);
	batch = submit_from(user, 0, &request, 1);
	assert_int_equal(end_of(batch, 0).error, 0);
	assert_memory_equal(memory, local, PART);
	te_batch_destroy(batch);
	atomic_store(&fake.unable, A | B);
	batch = submit_from(user, 0, &request, 1);
	assert_int_equal(end_of(batch, 0).error, -EIO);
	te_batch_destroy(batch);
}

static bool all_are_overdue(void *arg)
{
	const struct tei_peer *peer = arg;
	bool all = true;

	for (uint32_t i = 0; i < 3; i++)
		all &= atomic_load(&peer->held_until[i]) == UINT64_MAX;
	return all;
}

/* It comes up when the request is at the other worker, and nothing is live. */
static void link_that_comes_up_late_elsewhere_is_used(void **state)
{
	struct te_request request;
	struct te_batch *batch;

	(void)state;
	for (int round = 0; round < 4; round++) {
		pair_memory(2 * LEN);
		pair_engines(soon, soon, LEN);
		atomic_store(&fake.hang, A | B);
		atomic_store(&fake.hold_open, true);
		describe(&request, 1, TE_WRITE, 0);
		request.timeout_ms = 10 * RIG_WAIT_MS;
		batch = submit_from(user, 0, &request, 1);
		assert_true(test_wait_until(
			all_are_overdue, batch->requests[0].to, RIG_WAIT_MS));
		atomic_store(&fake.hold_open, false);
		assert_int_equal(end_of(batch, 0).error, 0);
		te_batch_destroy(batch);
		if (round < 3)
			pair_close(NULL);
	}
}

/* Merged into one part, which comes back. */
static void small_requests_are_tried_by_others_as_well(void **state)
{
	struct te_request requests[8];
	struct te_batch *batch;
	const size_t len = 4096;

	(void)state;
	warm_up();
	for (uint32_t i = 0; i < 8; i++) {
		pieces[i] = (struct iovec){local + i * len, len};
		requests[i] = rig_request(segment, TE_WRITE, memory + i * len,
					  &pieces[i]);
	}
	atomic_store(&fake.unable, A);
	batch = submit_from(user, 0, requests, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(end_of(batch, i).error, 0);
	assert_true(atomic_load(&user->worker[0].stats.merged) > 0);
	assert_memory_equal(memory, local, 8 * len);
	te_batch_destroy(batch);
}

#define N_STAYING 20u /* more than are looked at for one slice */

static bool last_has_ended(void *batch)
{
	return !te_batch_result(batch, N_STAYING, &(struct te_completion){0});
}

/* Only their worker's rail, which is lost, reaches the memory of the others. */
static void request_leaves_from_behind_others_that_stay(void **state)
{
	struct te_request requests[N_STAYING + 1];
	struct te_batch *batch;

	(void)state;
	atomic_store(&fake.only_a_at, (uintptr_t)memory + LEN);
	rig_region(owner, memory + LEN, PART, RIG_ANY);
	warm_up();
	for (uint32_t i = 0; i <= N_STAYING; i++) {
		pieces[i] = (struct iovec){local, PART};
		requests[i] = rig_request(segment, TE_READ,
					  i < N_STAYING ? memory + LEN : memory,
					  &pieces[i]);
		requests[i].timeout_ms = 10 * RIG_WAIT_MS;
	}
	atomic_store(&fake.quiet, A);
	batch = submit_from(user, 0, requests, N_STAYING + 1);
	assert_true(test_wait_until(one_is_posted, NULL, RIG_WAIT_MS));
	atomic_store(&fake.down_rail, 0);
	fake_wake();
	assert_true(test_wait_until(last_has_ended, batch, RIG_WAIT_MS));
	assert_int_equal(te_batch_cancel(batch), 0);
	assert_int_equal(end_of(batch, 0).error, -ECANCELED);
	assert_int_equal(end_of(batch, N_STAYING).error, 0);
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
	pair_memory(2 * LEN);
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
	pair_memory(2 * LEN);
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
		WITH_PAIR(
			request_in_haste_ends_where_the_other_link_does_not_lead),
		ALONE(sign_of_life_from_a_later_round_is_no_silence),
		WITH_PAIR(
			requests_to_two_workers_by_turns_are_as_many_as_one_likes),
		WITH_PAIR(requests_to_an_unmet_peer_are_as_many_as_one_likes),
		ALONE(connect_that_hangs_is_not_waited_for),
		ALONE(request_leaves_though_a_link_that_is_no_help_is_up),
		ALONE(request_goes_to_a_rail_whose_pause_will_end),
		ALONE(link_that_comes_up_late_elsewhere_is_used),
		WITH_PAIR(
			rails_of_other_workers_are_tried_where_ours_are_unable),
		WITH_PAIR(small_requests_are_tried_by_others_as_well),
		WITH_PAIR(request_leaves_from_behind_others_that_stay),
		ALONE(rail_that_is_paused_is_left_to_no_peer),
		ALONE(links_of_a_slow_peer_are_not_broken_again_and_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
