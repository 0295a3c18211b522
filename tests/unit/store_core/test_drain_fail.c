/* SPDX-License-Identifier: Apache-2.0 */
/* test_drain_fail.c - segments are emptied: what does not go as it should */
#include "tests/unit/store_core/drains.h"

static void a_copy_is_tried_three_times_more(void **state)
{
	struct work w = {.refuse = -800};
	uint8_t id[TES_CORE_ID_LEN];
	struct tes_core_drain d;
	struct rig r;

	(void)state;
	drains_init(&r, 2, id);
	work_pass(&r, &w, "123", 5000);
	assert_int_equal(w.done, 4);
	d = drains_query(&r, id);
	assert_int_equal(d.state, TES_DRAIN_FAILED);
	assert_int_equal(d.code, -800);
	assert_string_not_equal(d.message, "");
	assert_int_equal(d.failed, 1);
	assert_int_equal(d.left, 1);
	assert_int_equal(drains_status(&r, "a"), TES_CORE_SEGMENT_OK);
	assert_int_equal(tasks_at(&r, "k"), A);
	assert_int_equal(rig_figures(&r).drains_failed_total, 1);

	/* Another job starts anew. */
	drains_begin(&r, "a", id);
	drains_finish(&r, "123", 1000, id);
	rig_fini(&r);
}

static void a_job_without_room_fails(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct tes_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	tasks_owner(&r, 2, 4096);
	drains_fill(&r, 2, 5);
	drains_begin(&r, "a", id);
	drains_work(&r, "123", 5000);
	d = drains_query(&r, id);
	assert_int_equal(d.state, TES_DRAIN_FAILED);
	assert_int_equal(d.code, -200);
	assert_int_equal(d.moved, 3);
	assert_int_equal(d.failed, 2);
	assert_int_equal(drains_status(&r, "a"), TES_CORE_SEGMENT_OK);
	rig_fini(&r);
}

static void room_that_comes_is_used(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	drains_init(&r, 1, id);
	drains_work(&r, "12", 1000);
	assert_int_equal(drains_query(&r, id).state, TES_DRAIN_RUNNING);
	tasks_owner(&r, 2, SEGMENT);
	drains_finish(&r, "123", 1000, id);
	rig_fini(&r);
}

/* Where @o would copy to is unmounted; which of two owners is left. */
static unsigned int unmount_target(struct rig *r, const struct order *o)
{
	unsigned int to = (unsigned int)(o->address[0] >> 32);

	assert_int_equal(rig_unmount(r, to, (char)('m' + to - 1)), 0);
	return (B | C) & ~(1u << (to - 1));
}

static void a_target_that_goes_is_replaced(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	unsigned int left;
	struct order o;
	struct rig r;

	(void)state;
	drains_init(&r, 3, id);
	rig_tick(&r);
	o = tasks_order(&r);
	assert_true(o.there);
	left = unmount_target(&r, &o);
	tasks_done(&r, &o); /* it noticed nothing */
	drains_finish(&r, "1234", 1000, id);
	assert_int_equal(tasks_at(&r, "k"), left);
	rig_fini(&r);
}

static void a_silent_target_is_replaced(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;
	char alive[] = "1..4";

	(void)state;
	drains_init(&r, 3, id);
	rig_tick(&r);
	o = tasks_order(&r);
	rig_plain(&r, TES_EVENT_LEAVE, (tes_session_id)(o.address[0] >> 32));
	tasks_answer(&r, &o, -800, true, 0);
	alive[1] = alive[2] = o.address[0] >> 32 == 2 ? '3' : '2';
	drains_finish(&r, alive, 1000, id);
	rig_fini(&r);
}

/* Its copy was made, but the source is still kept for a reader. */
static void a_copy_that_goes_is_made_again(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TES_CORE_ID_LEN];
	unsigned int left;
	struct order o;
	struct rig r;

	(void)state;
	drains_init(&r, 3, id);
	rig_tick(&r);
	o = tasks_order(&r);
	assert_int_equal(rig_lookup(&r, 4, "k").status, 0);
	tasks_done(&r, &o);
	left = unmount_target(&r, &o);
	/* After its lease it goes to the third. */
	work_pass(&r, &w, "1234", 7000);
	assert_int_equal(drains_query(&r, id).state, TES_DRAIN_SUCCEEDED);
	assert_int_equal(tasks_at(&r, "k"), left);
	rig_fini(&r);
}

static void a_segment_that_goes_fails_its_job(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct work w = {.n_orders = 0};
	struct tes_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k1", "a");
	tasks_put(&r, 4, "k2", "b");
	assert_int_equal(drains_create(&r, "ab", "", 1, id), 0);
	rig_tick(&r);
	work_take(&r, &w);
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	work_do(&r, &w); /* the executor noticed nothing */
	work_pass(&r, &w, "1234", 2000);
	d = drains_query(&r, id);
	assert_int_equal(d.state, TES_DRAIN_FAILED);
	assert_int_equal(d.code, -101);
	assert_int_equal(d.active, 0);
	/* The other one was emptied all the same. */
	assert_int_equal(tasks_at(&r, "k1") & C, C);
	assert_int_equal(tasks_at(&r, "k2"), C);
	assert_int_equal(drains_status(&r, "b"), TES_CORE_SEGMENT_OK);
	rig_fini(&r);
}

static void an_owner_that_expires_fails_its_job(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	drains_init(&r, 2, id);
	rig_tick(&r);
	rig_pass(&r, 9000, "23"); /* silent, not gone */
	assert_int_equal(drains_query(&r, id).state, TES_DRAIN_RUNNING);
	rig_pass(&r, 3000, "23");
	assert_int_equal(drains_query(&r, id).state, TES_DRAIN_FAILED);
	assert_int_equal(drains_query(&r, id).code, -101);
	assert_int_equal(rig_figures(&r).drains_active, 0);
	assert_int_equal(rig_figures(&r).tasks_pending, 0);
	assert_int_equal(rig_figures(&r).tasks_processing, 0);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_is_tried_three_times_more),
		cmocka_unit_test(a_job_without_room_fails),
		cmocka_unit_test(room_that_comes_is_used),
		cmocka_unit_test(a_target_that_goes_is_replaced),
		cmocka_unit_test(a_silent_target_is_replaced),
		cmocka_unit_test(a_copy_that_goes_is_made_again),
		cmocka_unit_test(a_segment_that_goes_fails_its_job),
		cmocka_unit_test(an_owner_that_expires_fails_its_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
