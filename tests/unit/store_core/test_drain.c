/* SPDX-License-Identifier: Apache-2.0 */
/* test_drain.c - segments are emptied: jobs */
#include "tests/unit/store_core/drains.h"

static void all_that_is_there_is_moved(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TES_CORE_ID_LEN];
	struct tes_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k1", "a");
	tasks_put(&r, 4, "k2", "a");
	tasks_put(&r, 4, "k3", "ab");
	tasks_put(&r, 4, "other", "b");
	drains_begin(&r, "a", id);
	assert_int_equal(drains_query(&r, id).state, TES_DRAIN_CREATED);
	assert_int_equal(drains_status(&r, "a"), TES_CORE_SEGMENT_DRAINING);
	rig_tick(&r);
	work_take(&r, &w);
	d = drains_query(&r, id);
	assert_int_equal(d.state, TES_DRAIN_RUNNING);
	assert_int_equal(d.total, 3);
	assert_int_equal(d.active, 3);
	assert_int_equal(d.n_segments, 1);
	assert_true(d.segments && !strcmp(d.segments[0], "a"));
	work_do(&r, &w);
	drains_work(&r, "1234", 300);
	d = drains_query(&r, id);
	assert_int_equal(d.state, TES_DRAIN_SUCCEEDED);
	assert_int_equal(d.code, 0);
	assert_int_equal(d.moved, 3);
	assert_int_equal(d.moved_bytes, 3000);
	assert_int_equal(d.active + d.failed + d.blocked + d.left, 0);
	assert_int_equal(drains_status(&r, "a"), TES_CORE_SEGMENT_DRAINED);
	assert_int_equal(tasks_at(&r, "k1") & A, 0);
	assert_int_equal(tasks_at(&r, "k2") & A, 0);
	assert_int_equal(tasks_at(&r, "k3"), B | C);
	assert_int_equal(tasks_at(&r, "other"), B);
	assert_int_equal(rig_figures(&r).drains_succeeded_total, 1);
	assert_int_equal(rig_figures(&r).drained_objects_total, 3);
	assert_int_equal(rig_figures(&r).drained_bytes_total, 3000);
	rig_fini(&r);
}

static void an_empty_segment_is_drained_at_once(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	drains_begin(&r, "a", id);
	rig_tick(&r);
	assert_int_equal(drains_query(&r, id).state, TES_DRAIN_SUCCEEDED);
	assert_int_equal(drains_status(&r, "a"), TES_CORE_SEGMENT_DRAINED);
	assert_false(tes_core_busy(r.core));
	rig_fini(&r);
}

static void what_is_drained_gets_nothing_new(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct grant g;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	drains_begin(&r, "a", id);
	for (unsigned int i = 0; i < 20; i++) {
		char key[] = {(char)('A' + i), 0};

		if (i == 10)
			rig_tick(&r); /* DRAINED from now on */
		g = rig_put(&r, 3, key, 1000);
		assert_int_equal(g.status, 0);
		assert_int_equal(g.address >> 32, 2);
	}
	rig_fini(&r);
}

static void bad_jobs_are_refused(void **state)
{
	const char *many[TES_CORE_DRAIN_MAX + 1];
	struct tes_event ev = {.type = TES_EVENT_DRAIN_CREATE};
	struct rig r;

	(void)state;
	for (size_t i = 0; i <= TES_CORE_DRAIN_MAX; i++)
		many[i] = "a";
	tasks_init(&r, NULL, 3);
	assert_int_equal(drains_create(&r, "", "", 0, NULL), -600);
	assert_int_equal(drains_create(&r, "aa", "", 0, NULL), -600);
	assert_int_equal(drains_create(&r, "a", "a", 0, NULL), -600);
	assert_int_equal(drains_create(&r, "a", "bb", 0, NULL), -600);
	assert_int_equal(drains_create(&r, "a", "", 1025, NULL), -600);
	assert_int_equal(drains_create(&r, "e", "", 0, NULL), -101);
	assert_int_equal(drains_create(&r, "a", "e", 0, NULL), -101);
	ev.u.drain_create.segments = many;
	ev.u.drain_create.n_segments = TES_CORE_DRAIN_MAX + 1;
	assert_int_equal(rig_step(&r, &ev)->u.reply.code, -600);
	assert_int_equal(rig_unmount_later(&r, 2, 'n', 5000), 0);
	assert_int_equal(drains_create(&r, "b", "", 0, NULL), -1010);
	assert_int_equal(drains_create(&r, "a", "b", 0, NULL), -1010);
	assert_int_equal(drains_create(&r, "ab", "", 0, NULL), -1010);
	assert_int_equal(drains_status(&r, "a"), TES_CORE_SEGMENT_OK);
	rig_plain(&r, TES_EVENT_LEAVE, 3);
	assert_int_equal(drains_create(&r, "c", "", 0, NULL), -1010);
	assert_int_equal(drains_create(&r, "a", "", 0, NULL), 0);
	assert_int_equal(drains_create(&r, "a", "", 0, NULL), -1010);
	assert_int_equal(rig_figures(&r).drains_active, 1);
	rig_fini(&r);
}

static void nobody_knows_other_jobs(void **state)
{
	uint8_t id[TES_CORE_ID_LEN], other[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	drains_begin(&r, "a", id);
	memcpy(other, id, sizeof(other));
	other[15]++;
	assert_int_equal(drains_query(&r, other).code, -1402);
	assert_int_equal(drains_cancel(&r, other), -1402);
	other[15]--;
	other[0] ^= 1; /* of another life of the master */
	assert_int_equal(drains_query(&r, other).code, -1402);
	assert_int_equal(drains_query(&r, NULL).code, -1402);
	rig_fini(&r);
}

static void no_more_at_a_time_than_it_may(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o[8];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	drains_fill(&r, 3, 7);
	assert_int_equal(drains_create(&r, "a", "", 2, id), 0);
	rig_tick(&r);
	assert_int_equal(tasks_orders(&r, o, 8), 2);
	for (uint64_t moved = 1; moved < 6; moved++) {
		tasks_done(&r, &o[0]);
		o[0] = o[1];
		o[1] = tasks_order(&r); /* went out with that very answer */
		assert_true(o[1].there);
		assert_int_equal(drains_query(&r, id).moved, moved);
		assert_int_equal(drains_query(&r, id).active, 2);
	}
	rig_fini(&r);
}

static void a_cancel_begins_nothing_more(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TES_CORE_ID_LEN];
	struct tes_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	drains_fill(&r, 3, 8);
	/* One owner works at four: the others wait. */
	assert_int_equal(drains_create(&r, "a", "", 6, id), 0);
	rig_tick(&r);
	work_take(&r, &w);
	assert_int_equal(w.n_orders, 4);
	assert_int_equal(rig_figures(&r).tasks_pending, 2);
	assert_int_equal(drains_cancel(&r, id), 0);
	assert_int_equal(rig_figures(&r).tasks_pending, 0);
	d = drains_query(&r, id);
	assert_int_equal(d.state, TES_DRAIN_CANCELED);
	assert_int_equal(d.active, 4);
	assert_int_equal(drains_status(&r, "a"), TES_CORE_SEGMENT_OK);
	assert_int_equal(drains_cancel(&r, id), -1010);

	work_do(&r, &w); /* what is under way is finished */
	work_pass(&r, &w, "123", 1000);
	assert_int_equal(w.done, 4);
	d = drains_query(&r, id);
	assert_int_equal(d.active, 0);
	assert_int_equal(d.moved, 4);
	assert_int_equal(d.left, 4);
	assert_int_equal(rig_figures(&r).drains_canceled_total, 1);
	rig_fini(&r);
}

static void the_last_jobs_are_remembered(void **state)
{
	uint8_t first[TES_CORE_ID_LEN], id[TES_CORE_ID_LEN];
	uint64_t bytes = 0;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	drains_begin(&r, "a", first);
	assert_int_equal(drains_cancel(&r, first), 0);
	for (unsigned int i = 1; i < 600; i++) {
		if (i == 256) {
			assert_int_equal(drains_query(&r, first).code, 0);
			bytes = rig_figures(&r).metadata_bytes;
		}
		drains_begin(&r, "a", id);
		assert_int_equal(drains_cancel(&r, id), 0);
	}
	assert_int_equal(drains_query(&r, first).code, -1402);
	assert_int_equal(drains_query(&r, id).state, TES_DRAIN_CANCELED);
	assert_int_equal(rig_figures(&r).metadata_bytes, bytes);
	rig_fini(&r);
}

static void a_job_without_memory_changes_nothing(void **state)
{
	struct tes_event ev = {.type = TES_EVENT_DRAIN_CREATE};
	const char *a = "a";
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_int_equal(drains_create(&r, "a", "", 0, NULL), -1);
	assert_true(tei_fault_struck(TEI_FAULT_ALLOC));
	tei_fault_disarm_all();
	assert_int_equal(drains_status(&r, "a"), TES_CORE_SEGMENT_OK);
	ev.u.drain_create.segments = &a;
	ev.u.drain_create.n_segments = 1;
	drains_unanswered(&r, &ev);

	/* The task of a walk finds none: the replica is tried again. */
	drains_begin(&r, "a", id);
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	rig_tick(&r);
	assert_true(tei_fault_struck(TEI_FAULT_ALLOC));
	tei_fault_disarm_all();
	assert_int_equal(drains_query(&r, id).active, 0);
	drains_finish(&r, "123", 1000, id);
	rig_fini(&r);
}

static void a_walk_is_made_in_steps(void **state)
{
	struct tes_core_config c = tasks_config();
	uint8_t id[TES_CORE_ID_LEN];
	struct tes_core_drain d;
	unsigned int ticks = 0;
	struct rig r;

	(void)state;
	c.step_objects = 8;
	tasks_init(&r, &c, 2);
	drains_fill(&r, 3, 40);
	drains_begin(&r, "a", id);
	do {
		assert_true(tes_core_busy(r.core));
		rig_tick(&r);
		ticks++;
		d = drains_query(&r, id);
	} while (d.state == TES_DRAIN_CREATED || d.state == TES_DRAIN_PLANNING);
	assert_int_equal(d.total, 40);
	assert_in_range(ticks, 5, 10);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_is_there_is_moved),
		cmocka_unit_test(an_empty_segment_is_drained_at_once),
		cmocka_unit_test(what_is_drained_gets_nothing_new),
		cmocka_unit_test(bad_jobs_are_refused),
		cmocka_unit_test(nobody_knows_other_jobs),
		cmocka_unit_test(no_more_at_a_time_than_it_may),
		cmocka_unit_test(a_cancel_begins_nothing_more),
		cmocka_unit_test(the_last_jobs_are_remembered),
		cmocka_unit_test(a_job_without_memory_changes_nothing),
		cmocka_unit_test(a_walk_is_made_in_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
