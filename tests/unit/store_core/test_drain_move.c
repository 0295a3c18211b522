/* SPDX-License-Identifier: Apache-2.0 */
/* test_drain_move.c - segments are emptied: what goes when, and where to */
#include "tests/unit/store_core/drains.h"

static void what_is_leased_waits_for_the_lease(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	assert_int_equal(rig_lookup(&r, 3, "k").status, 0);
	drains_begin(&r, "a", id);
	drains_work(&r, "123", 4000);
	assert_int_equal(drains_query(&r, id).state, TES_DRAIN_RUNNING);
	assert_int_equal(drains_query(&r, id).blocked, 1);
	assert_int_equal(drains_query(&r, id).left, 1);
	assert_int_equal(tasks_at(&r, "k"), A);
	drains_finish(&r, "123", 2000, id);
	assert_int_equal(drains_query(&r, id).blocked, 0);
	assert_int_equal(tasks_at(&r, "k"), B);
	rig_fini(&r);
}

/* Read again before every lease is over. */
static void what_is_read_all_the_time_is_moved_last(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TES_CORE_ID_LEN];
	unsigned int s = 0;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "hot", "a");
	tasks_put(&r, 3, "cold", "a");
	drains_begin(&r, "a", id);
	for (; s < 30 && drains_query(&r, id).state < TES_DRAIN_SUCCEEDED;
	     s++) {
		assert_int_equal(rig_lookup(&r, 3, "hot").status, 0);
		work_pass(&r, &w, "123", 1000);
		if (s < 4) {
			assert_int_equal(tasks_at(&r, "hot"), A);
			assert_int_equal(tasks_at(&r, "cold"), B);
		}
	}
	/* A lease's time without anything else, one more for its readers. */
	assert_in_range(s, 10, 13);
	assert_int_equal(drains_query(&r, id).state, TES_DRAIN_SUCCEEDED);
	assert_int_equal(tasks_at(&r, "hot"), B);
	rig_fini(&r);
}

static void readers_that_are_waited_for_hold_up_nothing(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k1", "a");
	tasks_put(&r, 3, "k2", "a");
	assert_int_equal(drains_create(&r, "a", "", 1, id), 0);
	rig_tick(&r);
	o = tasks_order(&r);
	assert_int_equal(rig_lookup(&r, 3, "k1").status, 0);
	tasks_done(&r, &o); /* its reader keeps it */
	work_take(&r, &w);
	work_do(&r, &w);
	assert_int_equal(tasks_at(&r, "k1"), A | B);
	assert_int_equal(tasks_at(&r, "k2"), B);
	assert_int_equal(drains_query(&r, id).active, 1);
	work_pass(&r, &w, "123", 6000);
	assert_int_equal(drains_query(&r, id).state, TES_DRAIN_SUCCEEDED);
	assert_int_equal(drains_query(&r, id).moved, 2);
	rig_fini(&r);
}

static void what_is_pinned_hard_stays_until_it_is_removed(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct grant g;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	g = drains_start(&r, 3, "k", true);
	assert_int_equal(rig_end(&r, 3, "k", g.generation), 0);
	drains_begin(&r, "a", id);
	drains_work(&r, "123", 20000);
	assert_int_equal(drains_query(&r, id).blocked, 1);
	assert_int_equal(drains_query(&r, id).failed, 0);
	assert_int_equal(rig_remove(&r, 3, "k", true), 0);
	drains_finish(&r, "123", 1000, id);
	assert_int_equal(drains_query(&r, id).moved, 0);
	rig_fini(&r);
}

static void what_is_unfinished_is_moved_when_it_is_there(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct grant g;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	g = drains_start(&r, 3, "k", false);
	drains_begin(&r, "a", id);
	drains_work(&r, "123", 1000);
	assert_int_equal(drains_query(&r, id).blocked, 1);
	assert_int_equal(rig_end(&r, 3, "k", g.generation), 0);
	drains_finish(&r, "123", 1000, id);
	assert_int_equal(tasks_at(&r, "k"), B);
	rig_fini(&r);
}

static void what_others_copy_waits_for_them(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k", "a");
	assert_int_equal(tasks_copy(&r, 4, "k", "b", NULL), 0);
	work_take(&r, &w);
	drains_begin(&r, "a", id);
	rig_pass(&r, 1000, "1234");
	assert_int_equal(drains_query(&r, id).blocked, 1);
	work_do(&r, &w);
	drains_finish(&r, "1234", 1000, id);
	assert_int_equal(tasks_at(&r, "k"), B | C);
	rig_fini(&r);
}

static void the_least_used_gets_it(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 4);
	tasks_put(&r, 5, "k", "a");
	tasks_put(&r, 5, "x", "b");
	tasks_put(&r, 5, "y", "d");
	drains_begin(&r, "a", id);
	rig_tick(&r);
	drains_work(&r, "12345", 100);
	assert_int_equal(tasks_at(&r, "k"), C);
	rig_fini(&r);
}

static void only_targets_get_anything(void **state)
{
	static const char *const keys[] = {"1", "2", "3", "4", "5", "6"};
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 4);
	for (size_t i = 0; i < 6; i++)
		tasks_put(&r, 5, keys[i], i % 2 ? "a" : "b");
	assert_int_equal(drains_create(&r, "ab", "d", 0, id), 0);
	drains_finish(&r, "12345", 1000, id);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(tasks_at(&r, keys[i]), D);
	assert_int_equal(drains_status(&r, "b"), TES_CORE_SEGMENT_DRAINED);
	rig_fini(&r);
}

static void replicas_stay_on_distinct_machines(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_lend(&r, 2, 4, SEGMENT); /* a second one of b's, and empty */
	tasks_put(&r, 4, "k", "ab");
	tasks_put(&r, 4, "x", "c");
	drains_begin(&r, "a", id);
	drains_finish(&r, "1234", 1000, id);
	assert_int_equal(tasks_at(&r, "k"), B | C);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_leased_waits_for_the_lease),
		cmocka_unit_test(what_is_read_all_the_time_is_moved_last),
		cmocka_unit_test(readers_that_are_waited_for_hold_up_nothing),
		cmocka_unit_test(what_is_pinned_hard_stays_until_it_is_removed),
		cmocka_unit_test(what_is_unfinished_is_moved_when_it_is_there),
		cmocka_unit_test(what_others_copy_waits_for_them),
		cmocka_unit_test(the_least_used_gets_it),
		cmocka_unit_test(only_targets_get_anything),
		cmocka_unit_test(replicas_stay_on_distinct_machines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
