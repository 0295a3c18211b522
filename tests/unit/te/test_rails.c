/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rails.c - which rail carries what, and who goes first
 *
 * Rails "fake/a" and "fake/b" are preferred to "spare/c". Whatever happens to
 * them, every byte arrives once the test lets one of them work.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/fake.h"
#include "tests/unit/te/rig.h"

#define LEN    ((size_t)4 << 20)
#define PART   ((size_t)64 << 10)
#define OWNERS 3

static struct te_engine *owners[OWNERS], *user;
static te_segment_id segments[OWNERS];
static uint8_t *memory, *local;

static int set_up_with(const char *const settings[])
{
	fake_reset();
	memory = calloc(1, LEN);
	local = malloc(LEN);
	assert_true(memory && local);
	rig_fill(local, LEN);
	user = rig_engine(settings);
	for (int i = 0; i < OWNERS; i++) {
		owners[i] = rig_engine(settings);
		rig_region(owners[i], memory, LEN, RIG_ANY);
		segments[i] = rig_segment(user, owners[i]);
	}
	return 0;
}

static int set_up(void **state)
{
	static const char *const quick[] = {"connect_timeout",
					    "300ms",
					    "reroute_after",
					    "50ms",
					    "suspect_after",
					    "100ms",
					    NULL};

	(void)state;
	return set_up_with(quick);
}

static int set_up_patient(void **state)
{
	static const char *const patient[] = {"connect_timeout", "1h",
					      "reroute_after", "50ms", NULL};

	(void)state;
	return set_up_with(patient);
}

/* One slice in flight on each rail, and none is given up. */
static int set_up_narrow(void **state)
{
	static const char *const narrow[] = {"window",
					     "64k",
					     "slice_max",
					     "64k",
					     "connect_timeout",
					     "1h",
					     "reroute_after",
					     "1h",
					     NULL};

	(void)state;
	return set_up_with(narrow);
}

/* As quick, and each of the preferred rails is another worker's. */
static int set_up_two_workers(void **state)
{
	static const char *const two[] = {"connect_timeout",
					  "300ms",
					  "reroute_after",
					  "50ms",
					  "suspect_after",
					  "100ms",
					  "workers",
					  "2",
					  NULL};

	(void)state;
	return set_up_with(two);
}

/* As narrow, where all rails are one worker's, and so carry each request. */
static int set_up_one_worker(void **state)
{
	static const char *const one[] = {"window",
					  "64k",
					  "slice_max",
					  "64k",
					  "connect_timeout",
					  "1h",
					  "reroute_after",
					  "1h",
					  "workers",
					  "1",
					  NULL};

	(void)state;
	return set_up_with(one);
}

static int tear_down(void **state)
{
	(void)state;
	fake_reset();
	te_engine_destroy(user);
	for (int i = 0; i < OWNERS; i++)
		te_engine_destroy(owners[i]);
	free(memory);
	free(local);
	return 0;
}

static int move(int owner)
{
	return rig_move(user, segments[owner], TE_WRITE, memory, local, LEN);
}

static uint32_t state_of(uint32_t rail)
{
	struct te_rail_info rails[3];
	size_t n = TEST_COUNT(rails);

	assert_int_equal(te_engine_rails(user, rails, &n), 0);
	assert_int_equal(n, 3);
	return rails[rail].state;
}

/* ---- which ---- */

static void rails_are_listed(void **state)
{
	struct te_rail_info rails[3];
	size_t n = 0;

	(void)state;
	assert_int_equal(te_engine_rails(user, NULL, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(te_engine_rails(user, NULL, &n), -EINVAL);
	assert_int_equal(te_engine_rails(user, NULL, NULL), -EINVAL);
	assert_int_equal(te_engine_rails(user, rails, &n), 0);
	assert_string_equal(rails[0].name, "fake/a");
	assert_string_equal(rails[2].name, "spare/c");
	assert_string_equal(rails[2].backend, "spare");
	assert_int_equal(rails[0].state, TE_RAIL_UP);
}

static void a_backend_without_a_rail_is_none_that_it_has(void **state)
{
	(void)state;
	assert_true(te_engine_has_backend(user, "fake"));
	assert_true(te_engine_has_backend(user, "spare"));
	assert_false(te_engine_has_backend(user, "shm"));
	assert_false(te_engine_has_backend(user, ""));
	assert_false(te_engine_has_backend(user, NULL));
}

static void states_have_names(void **state)
{
	(void)state;
	assert_string_equal(te_rail_state_name(TE_RAIL_UP), "up");
	assert_string_equal(te_rail_state_name(TE_RAIL_DOWN), "down");
	assert_string_equal(te_rail_state_name(TE_RAIL_PAUSED), "paused");
	assert_string_equal(te_rail_state_name(UINT32_MAX), "unknown");
}

static bool both_preferred_carry(void *arg)
{
	(void)arg;
	assert_int_equal(move(0), 0);
	return atomic_load(&fake.done[0]) > 0 && atomic_load(&fake.done[1]) > 0;
}

static void less_preferred_backend_is_not_even_connected(void **state)
{
	(void)state;
	assert_true(test_wait_until(both_preferred_carry, NULL, RIG_WAIT_MS));
	assert_int_equal(atomic_load(&fake.done[2]), 0);
	assert_int_equal(test_stat(user, "te_endpoints_up_total", NULL), 2);
}

static bool preferred_carries_again(void *arg)
{
	unsigned int before = atomic_load(&fake.done[0]);

	(void)arg;
	assert_int_equal(move(0), 0);
	return atomic_load(&fake.done[0]) > before;
}

static void
less_preferred_backend_helps_out_until_the_other_is_back(void **state)
{
	unsigned int before;

	(void)state;
	assert_int_equal(move(0), 0);
	atomic_store(&fake.dead, 3);
	memset(memory, 0, LEN);
	assert_int_equal(move(0), 0);
	assert_memory_equal(memory, local, LEN);
	assert_true(atomic_load(&fake.done[2]) > 0);
	atomic_store(&fake.dead, 0);
	assert_true(
		test_wait_until(preferred_carries_again, NULL, RIG_WAIT_MS));
	assert_true(test_stat(user, "te_rail_returns_total", NULL) > 0);
	before = atomic_load(&fake.done[2]);
	assert_int_equal(move(0), 0);
	assert_int_equal(atomic_load(&fake.done[2]), before);
}

static void
connect_that_hangs_does_not_hold_up_what_others_can_carry(void **state)
{
	(void)state;
	atomic_store(&fake.hang, 3);
	assert_int_equal(move(0), 0);
	assert_memory_equal(memory, local, LEN);
	assert_true(atomic_load(&fake.done[2]) > 0);
}

/* ---- silent ---- */

static void silent_rail_gives_way_to_another(void **state)
{
	(void)state;
	assert_int_equal(move(0), 0);
	memset(memory, 0, LEN);
	atomic_store(&fake.quiet, 1);
	assert_int_equal(move(0), 0);
	assert_memory_equal(memory, local, LEN);
	assert_true(test_stat(user, "te_endpoints_given_up_total", "silent") >
		    0);
	assert_true(test_stat(user, "te_rail_pauses_total", "pair") > 0);
}

static void only_rail_is_not_given_up_for_its_silence(void **state)
{
	struct iovec piece = {local, LEN};
	struct te_request r =
		rig_request(segments[0], TE_WRITE, memory, &piece);
	uint64_t begun;

	(void)state;
	atomic_store(&fake.dead, 6);
	assert_int_equal(move(0), 0);
	atomic_store(&fake.quiet, 1);
	r.timeout_ms = 2000;
	begun = tei_now_ms();
	assert_int_equal(rig_run(user, &r).error, -ETIMEDOUT);
	/* Suspected meanwhile, and not ended for that. */
	assert_true(tei_now_ms() - begun >= 2000);
	assert_int_equal(
		test_stat(user, "te_endpoints_given_up_total", "silent"), 0);
	assert_true(test_stat(user, "te_peer_suspects_total", NULL) > 0);
}

static bool has_suspected(void *arg)
{
	(void)arg;
	return test_stat(user, "te_peer_suspects_total", NULL) > 0;
}

/* All of it is posted where nothing moves, so nothing waits for the other. */
static void rail_that_heals_takes_over_from_a_silent_one(void **state)
{
	struct iovec piece = {local, PART};
	struct te_request r =
		rig_request(segments[0], TE_WRITE, memory, &piece);
	struct te_batch *batch;
	struct te_completion c;

	(void)state;
	atomic_store(&fake.dead, 6);
	assert_int_equal(move(0), 0);
	memset(memory, 0, PART);
	atomic_store(&fake.quiet, 1);
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_true(test_wait_until(has_suspected, NULL, RIG_WAIT_MS));
	atomic_store(&fake.dead, 4);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, &c, 1), 1);
	assert_int_equal(c.error, 0);
	assert_memory_equal(memory, local, PART);
	te_batch_destroy(batch);
}

static bool has_started(void *arg)
{
	(void)arg;
	return test_stat(user, "te_endpoints_up_total", NULL) > 0;
}

static bool has_started_again(void *arg)
{
	(void)arg;
	return test_stat(user, "te_endpoints_up_total", NULL) > 1;
}

/* Our half notices nothing, and nothing of what it has been given comes back. */
static void half_that_the_owner_has_lost_is_replaced(void **state)
{
	struct iovec piece = {local, PART};
	struct te_request r =
		rig_request(segments[0], TE_WRITE, memory, &piece);
	struct te_batch *batch;
	struct te_completion c;

	(void)state;
	r.timeout_ms = 10 * RIG_WAIT_MS;
	atomic_store(&fake.dead, 6); /* no other rail */
	atomic_store(&fake.stall, true);
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_true(test_wait_until(has_started, NULL, RIG_WAIT_MS));
	/* The dead rail's may be there still, until its drop is asked for. */
	atomic_store(&fake.lose_rail, 0);
	atomic_store(&fake.lose_targets, 1);
	fake_wake();
	assert_true(test_wait_until(has_started_again, NULL, RIG_WAIT_MS));
	atomic_store(&fake.stall, false);
	fake_wake();
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(te_batch_poll(batch, &c, 1), 1);
	assert_int_equal(c.error, 0);
	assert_memory_equal(memory, local, PART);
	te_batch_destroy(batch);
}

/* ---- whose fault ---- */

static void dead_peer_pauses_nothing(void **state)
{
	struct iovec piece = {local, LEN};
	struct te_request r =
		rig_request(segments[0], TE_WRITE, memory, &piece);
	uint64_t pauses;

	(void)state;
	assert_int_equal(move(0), 0);
	/* One that was slow to connect or to move is not meant. */
	pauses = test_stat(user, "te_rail_pauses_total", NULL);
	te_engine_destroy(owners[0]);
	owners[0] = NULL;
	r.timeout_ms = 200;
	assert_true(rig_run(user, &r).error);
	assert_int_equal(test_stat(user, "te_rail_pauses_total", NULL), pauses);
	assert_int_equal(state_of(0), TE_RAIL_UP);
	assert_int_equal(move(1), 0);
}

static bool is_opening(void *arg)
{
	(void)arg;
	return atomic_load(&fake.opening) > 0;
}

static void *destroy(void *engine)
{
	te_engine_destroy(engine);
	return NULL;
}

/* It dies while it is asked for the other halves of endpoints. */
static void peer_that_dies_before_it_connects_pauses_nothing(void **state)
{
	struct iovec piece = {local, LEN};
	struct te_request r =
		rig_request(segments[0], TE_WRITE, memory, &piece);
	struct te_engine *dying = owners[0];
	struct te_batch *batch;
	pthread_t thread;

	(void)state;
	r.flags = TE_FAIL_FAST;
	atomic_store(&fake.hold_open, true);
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_true(test_wait_until(is_opening, NULL, RIG_WAIT_MS));
	owners[0] = NULL;
	assert_int_equal(pthread_create(&thread, NULL, destroy, dying), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	te_batch_destroy(batch);
	assert_int_equal(test_stat(user, "te_rail_pauses_total", NULL), 0);
	atomic_store(&fake.hold_open, false);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void rail_that_fails_with_one_peer_serves_the_others(void **state)
{
	(void)state;
	assert_int_equal(move(1), 0);
	atomic_store(&fake.break_rail, 0);
	for (int i = 0; i < 6; i++) {
		atomic_store(&fake.break_after, 0);
		assert_int_equal(move(0), 0);
	}
	assert_int_equal(test_stat(user, "te_rail_pauses_total", "device"), 0);
	assert_int_equal(state_of(0), TE_RAIL_UP);
}

static bool is_paused(void *arg)
{
	(void)arg;
	for (int i = 0; i < OWNERS; i++)
		assert_int_equal(move(i), 0);
	return state_of(0) == TE_RAIL_PAUSED;
}

static bool is_up(void *arg)
{
	(void)arg;
	for (int i = 0; i < OWNERS; i++)
		assert_int_equal(move(i), 0);
	return state_of(0) == TE_RAIL_UP;
}

static void
rail_that_fails_with_all_peers_is_paused_and_comes_back(void **state)
{
	(void)state;
	atomic_store(&fake.dead, 1);
	assert_true(test_wait_until(is_paused, NULL, RIG_WAIT_MS));
	assert_true(test_stat(user, "te_rail_pauses_total", "device") > 0);
	assert_int_equal(state_of(1), TE_RAIL_UP);
	atomic_store(&fake.dead, 0);
	assert_true(test_wait_until(is_up, NULL, RIG_WAIT_MS));
}

static bool has_often_failed(void *arg)
{
	(void)arg;
	for (int i = 0; i < OWNERS; i++)
		assert_int_equal(move(i), 0);
	return test_stat(user, "te_rail_pauses_total", "pair") >= 3 * OWNERS;
}

/* All of them: one after the other, and none by our device. */
static void what_peers_themselves_failed_at_pauses_no_device(void **state)
{
	(void)state;
	atomic_store(&fake.dead_err, -EREMOTEIO);
	atomic_store(&fake.dead, 1);
	assert_true(test_wait_until(has_often_failed, NULL, RIG_WAIT_MS));
	assert_int_equal(test_stat(user, "te_rail_pauses_total", "device"), 0);
	assert_int_equal(state_of(0), TE_RAIL_UP);
}

/* ---- who goes first ---- */

#define MANY 200

/* What had been moved by the end of the last request of the batch. */
static void note_end(struct te_batch *batch, const struct te_completion *c,
		     void *arg)
{
	_Atomic unsigned int *moved = arg;

	(void)batch;
	(void)c;
	atomic_store(moved,
		     atomic_load(&fake.done[0]) + atomic_load(&fake.done[1]));
}

static struct te_batch *start(int owner, uint32_t n, uint32_t priority,
			      _Atomic unsigned int *moved)
{
	struct iovec piece = {local, PART};
	struct te_request r =
		rig_request(segments[owner], TE_WRITE, memory, &piece);
	struct te_batch *batch;

	r.priority = priority;
	assert_int_equal(te_batch_create(user, n, &batch), 0);
	assert_int_equal(te_batch_on_done(batch, note_end, (void *)moved), 0);
	while (n--)
		assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	return batch;
}

static void end(struct te_batch *batch)
{
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	te_batch_destroy(batch);
}

static void go(void)
{
	atomic_store(&fake.done[0], 0);
	atomic_store(&fake.done[1], 0);
	atomic_store(&fake.stall, false);
	fake_wake();
}

static void urgent_request_overtakes_bulk(void **state)
{
	_Atomic unsigned int last = 0, moved = 0;
	struct te_batch *bulk, *urgent;

	(void)state;
	assert_int_equal(move(0), 0);
	atomic_store(&fake.stall, true);
	bulk = start(0, MANY, TE_PRIORITY_BULK, &last);
	urgent = start(0, 1, TE_PRIORITY_URGENT, &moved);
	go();
	end(urgent);
	end(bulk);
	assert_in_range(atomic_load(&moved), 1, 16);
	assert_int_equal(atomic_load(&last), MANY + 1);
}

static void bulk_is_not_starved(void **state)
{
	_Atomic unsigned int last = 0, moved = 0;
	struct te_batch *bulk, *urgent;

	(void)state;
	assert_int_equal(move(0), 0);
	atomic_store(&fake.stall, true);
	urgent = start(0, MANY, TE_PRIORITY_URGENT, &last);
	bulk = start(0, 1, TE_PRIORITY_BULK, &moved);
	go();
	end(urgent);
	end(bulk);
	assert_in_range(atomic_load(&moved), 1, 32);
}

static void greedy_peer_does_not_hold_up_another(void **state)
{
	_Atomic unsigned int last = 0, moved = 0;
	struct te_batch *greedy, *modest;

	(void)state;
	assert_int_equal(move(0), 0);
	assert_int_equal(move(1), 0);
	atomic_store(&fake.stall, true);
	greedy = start(0, MANY, TE_PRIORITY_NORMAL, &last);
	modest = start(1, 4, TE_PRIORITY_NORMAL, &moved);
	go();
	end(modest);
	end(greedy);
	assert_in_range(atomic_load(&moved), 4, 40);
}

#define WITH(set_up, test) \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(set_up, rails_are_listed),
		WITH(set_up, a_backend_without_a_rail_is_none_that_it_has),
		cmocka_unit_test(states_have_names),
		WITH(set_up_one_worker,
		     less_preferred_backend_is_not_even_connected),
		WITH(set_up_patient,
		     connect_that_hangs_does_not_hold_up_what_others_can_carry),
		WITH(set_up,
		     less_preferred_backend_helps_out_until_the_other_is_back),
		WITH(set_up, silent_rail_gives_way_to_another),
		WITH(set_up_two_workers, silent_rail_gives_way_to_another),
		WITH(set_up_two_workers,
		     rail_that_heals_takes_over_from_a_silent_one),
		WITH(set_up, only_rail_is_not_given_up_for_its_silence),
		WITH(set_up, rail_that_heals_takes_over_from_a_silent_one),
		WITH(set_up_narrow, half_that_the_owner_has_lost_is_replaced),
		WITH(set_up, dead_peer_pauses_nothing),
		WITH(set_up_patient,
		     peer_that_dies_before_it_connects_pauses_nothing),
		WITH(set_up, rail_that_fails_with_one_peer_serves_the_others),
		WITH(set_up,
		     rail_that_fails_with_all_peers_is_paused_and_comes_back),
		WITH(set_up, what_peers_themselves_failed_at_pauses_no_device),
		WITH(set_up_narrow, urgent_request_overtakes_bulk),
		WITH(set_up_narrow, bulk_is_not_starved),
		WITH(set_up_narrow, greedy_peer_does_not_hold_up_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
