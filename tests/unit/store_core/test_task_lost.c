/* SPDX-License-Identifier: Apache-2.0 */
/* test_task_lost.c - tasks whose executor, target or object goes meanwhile */
#include "tests/unit/store_core/tasks.h"

static void an_executor_that_goes_is_replaced(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	const struct tes_action *fence;
	struct order o, again;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k", "ab");
	assert_int_equal(tasks_copy(&r, 4, "k", "c", id), 0);
	o = tasks_order(&r);
	assert_true(o.there);
	rig_plain(&r, TES_EVENT_LEAVE, o.executor);
	/* What it may have written to is fenced, another one begins anew. */
	rig_pass(&r, 2900, "34");
	assert_int_equal(tasks_query(&r, 4, id).state, TES_TASK_PROCESSING);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 3 - o.executor);
	again = (struct order){.there = false};
	fence = NULL;
	for (int i = 0; i < 10 && !again.there; i++) {
		r.now += 100;
		rig_plain(&r, TES_EVENT_HEARTBEAT, 3 - o.executor);
		rig_tick(&r);
		if (!fence)
			fence = rig_find(&r, TES_ACTION_FENCE);
		if (fence && fence->session != 3)
			fence = NULL;
		again = tasks_order(&r);
	}
	assert_true(again.there);
	assert_int_equal(again.executor, 3 - o.executor);
	assert_int_not_equal(again.address[0], o.address[0]);
	assert_true(rig_figures(&r).fencing > 0);
	tasks_answer(&r, &again, 0, false, 0);
	assert_int_equal(tasks_query(&r, 4, id).state, TES_TASK_SUCCESS);
	assert_int_equal(tasks_at(&r, "k") & C, C);
	rig_fini(&r);
}

static void an_executor_that_comes_back_is_told_again(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o, again;
	struct rig r;

	(void)state;
	o = tasks_begin(&r, NULL, id);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	rig_name = "a";
	assert_int_equal(rig_join(&r, 9, 'a', 'A'), 0);
	rig_name = NULL;
	assert_false(tasks_order(&r).there);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 9);
	again = tasks_order(&r);
	assert_true(again.there);
	assert_int_equal(again.executor, 9);
	assert_memory_equal(again.id, o.id, sizeof(o.id));
	assert_int_equal(again.address[0], o.address[0]);
	tasks_done(&r, &again);
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_SUCCESS);
	tasks_done(&r, &again); /* it cannot know that we heard it */
	assert_int_equal(rig_figures(&r).tasks_late_total, 1);
	assert_int_equal(tasks_at(&r, "k"), A | B);
	rig_fini(&r);
}

static void an_owner_that_was_restarted_has_no_task_any_more(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	o = tasks_begin(&r, NULL, id);
	assert_int_equal(rig_join(&r, 9, 'a', 'X'), 0);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 9);
	rig_tick(&r);
	rig_tick(&r);
	/* Its memory was all there was of the object. */
	tasks_failed(&r, 3, id, -704);
	o.executor = 9;
	tasks_done(&r, &o);
	assert_int_equal(rig_figures(&r).tasks_late_total, 1);
	assert_int_equal(rig_figures(&r).fencing, 1);
	rig_fini(&r);
}

static void a_target_that_goes_ends_the_task(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	o = tasks_begin(&r, NULL, id);
	assert_int_equal(rig_unmount(&r, 2, 'n'), 0);
	tasks_done(&r, &o);
	tasks_failed(&r, 3, id, -101);
	rig_tick(&r);
	assert_int_equal(tasks_at(&r, "k"), A);
	assert_int_equal(rig_figures(&r).dropped_objects_total, 0);
	rig_fini(&r);
}

static void a_target_that_went_before_the_answer_ends_it_too(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	o = tasks_begin(&r, NULL, id);
	assert_int_equal(rig_unmount(&r, 2, 'n'), 0);
	rig_tick(&r);
	tasks_failed(&r, 3, id, -101);
	tasks_done(&r, &o);
	assert_int_equal(rig_figures(&r).tasks_late_total, 1);
	assert_int_equal(tasks_at(&r, "k"), A);
	rig_fini(&r);
}

static void an_object_that_goes_meanwhile_takes_its_copy_along(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_begin(&r, NULL, id);
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	rig_tick(&r);
	/* The executor lives, and may still write. */
	assert_non_null(rig_find(&r, TES_ACTION_FENCE));
	tasks_failed(&r, 3, id, -704);
	assert_int_equal(tasks_at(&r, "k"), 0);
	rig_fini(&r);
}

static void a_put_does_not_wait_for_a_task_of_silent_owners(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct grant g;
	struct rig r;

	(void)state;
	tasks_begin(&r, NULL, id);
	rig_pass(&r, 3100, "23");
	g = rig_start(&r, 3, "k", 100);
	assert_int_equal(g.status, 0);
	assert_non_null(rig_find(&r, TES_ACTION_FENCE));
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_PENDING);
	assert_int_equal(rig_end(&r, 3, "k", g.generation), 0);
	assert_int_equal(tasks_at(&r, "k"), B);
	rig_fini(&r);
}

static void upsert_on(struct rig *r, tes_session_id s, const char *key,
		      const char *name)
{
	const struct tes_core_replicate how = {
		.replica_num = 1, .preferred = &name, .n_preferred = 1};
	struct grant g = rig_start_as(r, s, key, 1000, &how, NULL, true);

	assert_int_equal(g.status, 0);
	assert_int_equal(rig_end(r, s, key, g.generation), 0);
}

/* The value that was there had lost a replica, the new one has not. */
static void what_takes_its_place_has_lost_nothing(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	rig_executes = false; /* nobody can copy what "c" and "d" have */
	tasks_owner(&r, 2, SEGMENT);
	tasks_owner(&r, 3, SEGMENT);
	tasks_put(&r, 2, "k", "cd");
	assert_int_equal(tasks_copy(&r, 2, "k", "a", id), 0);
	assert_int_equal(rig_unmount(&r, 4, 'p'), 0);
	rig_tick(&r);
	assert_int_equal(rig_figures(&r).lost_replicas_total, 1);
	upsert_on(&r, 2, "k", "a");
	rig_pass(&r, 300, "1234");
	assert_int_equal(tasks_query(&r, 2, id).state, TES_TASK_SUCCESS);
	assert_int_equal(rig_figures(&r).tasks_pending, 0);
	assert_int_equal(rig_figures(&r).tasks_processing, 0);
	assert_int_equal(tasks_at(&r, "k"), A);
	rig_fini(&r);
}

static void what_takes_its_place_is_copied_to_all(void **state)
{
	static const char *const targets[] = {"b", "c"};
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k", "a");
	rig_plain(&r, TES_EVENT_LEAVE, 3);
	assert_int_equal(tasks_create(&r, 4, "k", NULL, targets, 2, id), 0);
	o = tasks_order(&r);
	tasks_done(&r, &o);
	assert_false(tasks_order(&r).there);
	upsert_on(&r, 4, "k", "a");
	assert_int_equal(rig_join(&r, 3, 'c', 'C'), -600);
	assert_int_equal(rig_join(&r, 8, 'c', 'C'), 0);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 8);
	for (int i = 0; i < 2; i++) {
		rig_tick(&r);
		if (!i || !o.there)
			o = tasks_order(&r);
		assert_true(o.there);
		tasks_done(&r, &o);
		o = tasks_order(&r);
	}
	assert_int_equal(tasks_query(&r, 4, id).state, TES_TASK_SUCCESS);
	assert_int_equal(tasks_at(&r, "k"), A | B | C);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_executor_that_goes_is_replaced),
		cmocka_unit_test(an_executor_that_comes_back_is_told_again),
		cmocka_unit_test(
			an_owner_that_was_restarted_has_no_task_any_more),
		cmocka_unit_test(a_target_that_goes_ends_the_task),
		cmocka_unit_test(
			a_target_that_went_before_the_answer_ends_it_too),
		cmocka_unit_test(
			an_object_that_goes_meanwhile_takes_its_copy_along),
		cmocka_unit_test(
			a_put_does_not_wait_for_a_task_of_silent_owners),
		cmocka_unit_test(what_takes_its_place_has_lost_nothing),
		cmocka_unit_test(what_takes_its_place_is_copied_to_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
