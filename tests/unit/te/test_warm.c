/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_warm.c - te_segment_warm_up(): which endpoints are opened, and when not
 *
 * Rails "fake/a" and "fake/b" are preferred to "spare/c".
 */
#include <errno.h>
#include <stdio.h>

#include "base/fault.h"
#include "tests/unit/te/pair.h"

#define LEN ((size_t)1 << 20)

/* No time-out ends a step here: what fails, fails by itself. */
static const char *const patient[] = {"connect_timeout", "1h", NULL};

static int set_up(void **state)
{
	(void)state;
	return pair_open(patient, LEN);
}

/* Each of the preferred rails is another worker's. */
static int set_up_two_workers(void **state)
{
	static const char *const two[] = {"connect_timeout", "1h", "workers",
					  "2", NULL};

	(void)state;
	return pair_open(two, LEN);
}

static int warm_up(uint32_t *n)
{
	*n = ~0u;
	return te_segment_warm_up(user, segment, RIG_WAIT_MS, n);
}

static uint64_t n_opened(void)
{
	return test_stat(user, "te_endpoints_up_total", NULL);
}

static void requests_find_every_endpoint_open(void **state)
{
	uint32_t n;

	(void)state;
	assert_int_equal(warm_up(&n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(n_opened(), 2);
	assert_int_equal(warm_up(&n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(te_segment_warm_up(user, segment, RIG_WAIT_MS, NULL),
			 0);
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
	assert_int_equal(n_opened(), 2);
}

static void segment_without_regions_is_warmed_up(void **state)
{
	struct te_engine *bare = rig_engine(patient);
	uint32_t n = 0;

	(void)state;
	assert_int_equal(te_segment_warm_up(user, rig_segment(user, bare),
					    RIG_WAIT_MS, &n),
			 0);
	assert_int_equal(n, 2);
	te_engine_destroy(bare);
}

static void segment_of_many_regions_is_warmed_up(void **state)
{
	static uint8_t bytes[3000 * 16];
	struct te_engine *rich = rig_engine(patient);
	uint32_t n = 0;

	(void)state;
	for (size_t i = 0; i < 3000; i++)
		rig_region(rich, bytes + i * 16, 8, RIG_ANY);
	assert_int_equal(te_segment_warm_up(user, rig_segment(user, rich),
					    RIG_WAIT_MS, &n),
			 0);
	assert_int_equal(n, 2);
	te_engine_destroy(rich);
}

static void rail_that_fails_is_not_waited_for(void **state)
{
	uint32_t n;

	(void)state;
	atomic_store(&fake.dead, 1u);
	assert_int_equal(warm_up(&n), 0);
	assert_int_equal(n, 1);
}

static void next_backend_is_warmed_up_where_the_best_fails(void **state)
{
	uint32_t n;

	(void)state;
	atomic_store(&fake.dead, 3u);
	assert_int_equal(warm_up(&n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
	assert_true(atomic_load(&fake.done[2]) > 0);
}

static void nothing_works_and_that_is_an_answer(void **state)
{
	uint32_t n;

	(void)state;
	atomic_store(&fake.dead, 7u);
	assert_int_equal(warm_up(&n), 0);
	assert_int_equal(n, 0);
	atomic_store(&fake.dead, 0);
	assert_int_equal(rig_move(user, segment, TE_WRITE, memory, local, LEN),
			 0);
}

static void engine_warms_itself_up(void **state)
{
	uint32_t n = 0;

	(void)state;
	rig_region(user, local, LEN, RIG_ANY);
	assert_int_equal(te_segment_warm_up(user, rig_segment(user, user),
					    RIG_WAIT_MS, &n),
			 0);
	assert_true(n > 0);
}

static void application_that_drives_warms_up(void **state)
{
	static const char *const driven[] = {"worker_thread", "false", NULL};
	uint32_t n;

	(void)state;
	pair_end_engines();
	pair_engines(patient, driven, LEN);
	assert_int_equal(warm_up(&n), 0);
	assert_int_equal(n, 2);
}

static void segment_that_is_not_there_is_refused(void **state)
{
	uint32_t n = 7;

	(void)state;
	assert_int_equal(te_segment_warm_up(user, 0, 0, &n), -ENOENT);
	assert_int_equal(n, 0);
	assert_int_equal(te_segment_warm_up(user, segment + 1, 0, NULL),
			 -ENOENT);
}

static void dead_peer_is_waited_for_until_the_deadline(void **state)
{
	uint32_t n;

	(void)state;
	te_engine_destroy(owner);
	owner = NULL;
	assert_int_equal(te_segment_warm_up(user, segment, 100, &n),
			 -ETIMEDOUT);
	assert_int_equal(n, 0);
}

static void restarted_peer_is_stale(void **state)
{
	struct te_config *config;
	char name[64];
	int rc = 0;

	(void)state;
	snprintf(name, sizeof(name), "%s", te_engine_name(owner));
	te_engine_destroy(owner);
	assert_int_equal(te_config_create(&config), 0);
	assert_int_equal(te_engine_create(config, name, &owner), 0);
	te_config_destroy(config);
	/* Before its connection is lost the old one seems to be there. */
	while (rc != -ESTALE)
		rc = te_segment_warm_up(user, segment, RIG_WAIT_MS, NULL);
}

static void on_done(struct te_batch *batch, const struct te_completion *c,
		    void *arg)
{
	(void)batch;
	(void)c;
	*(int *)arg = te_segment_warm_up(user, segment, 0, NULL);
}

static void callback_may_not_warm_up(void **state)
{
	struct iovec piece = {local, 8};
	struct te_request r = rig_request(segment, TE_WRITE, memory, &piece);
	struct te_batch *batch;
	int rc = 0;

	(void)state;
	assert_int_equal(te_batch_create(user, 1, &batch), 0);
	assert_int_equal(te_batch_on_done(batch, on_done, &rc), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	assert_int_equal(rc, -EDEADLK);
	te_batch_destroy(batch);
}

/* Whatever fails, it ends, and the next one does its work. */
static void lack_of_memory_is_survived(void **state)
{
	bool struck = true;
	uint32_t n;

	(void)state;
	for (unsigned int nth = 1; struck; nth++) {
		int rc;

		pair_end_engines();
		pair_engines(patient, patient, LEN);
		tei_fault_arm(TEI_FAULT_ALLOC, nth);
		rc = warm_up(&n);
		struck = tei_fault_struck(TEI_FAULT_ALLOC);
		tei_fault_disarm_all();
		assert_true(!rc || rc == -ENOMEM);
		assert_true(n <= 3);
		assert_int_equal(warm_up(&n), 0);
		assert_int_equal(
			rig_move(user, segment, TE_WRITE, memory, local, LEN),
			0);
	}
}

#define WITH_ENGINES(test) \
	cmocka_unit_test_setup_teardown(test, set_up, pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINES(requests_find_every_endpoint_open),
		WITH_ENGINES(segment_without_regions_is_warmed_up),
		WITH_ENGINES(segment_of_many_regions_is_warmed_up),
		WITH_ENGINES(rail_that_fails_is_not_waited_for),
		WITH_ENGINES(next_backend_is_warmed_up_where_the_best_fails),
		cmocka_unit_test_setup_teardown(
			rail_that_fails_is_not_waited_for, set_up_two_workers,
			pair_close),
		cmocka_unit_test_setup_teardown(
			next_backend_is_warmed_up_where_the_best_fails,
			set_up_two_workers, pair_close),
		WITH_ENGINES(nothing_works_and_that_is_an_answer),
		WITH_ENGINES(engine_warms_itself_up),
		WITH_ENGINES(application_that_drives_warms_up),
		WITH_ENGINES(segment_that_is_not_there_is_refused),
		WITH_ENGINES(dead_peer_is_waited_for_until_the_deadline),
		WITH_ENGINES(restarted_peer_is_stale),
		WITH_ENGINES(callback_may_not_warm_up),
		WITH_ENGINES(lack_of_memory_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
