/* SPDX-License-Identifier: Apache-2.0 */
/* test_task_end.c - tasks that do not go as they should */
#include "tests/unit/store_core/tasks.h"

static void a_copy_that_does_not_agree_does_not_count(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	uint64_t used;
	struct rig r;

	(void)state;
	o = tasks_begin(&r, NULL, id);
	used = rig_figures(&r).used_bytes;
	tasks_answer(&r, &o, 0, false, 1);
	assert_null(rig_find(&r, TES_ACTION_FENCE)); /* all of it is there */
	tasks_failed(&r, 3, id, -801);
	assert_int_equal(tasks_at(&r, "k"), A);
	assert_true(rig_figures(&r).used_bytes < used);
	assert_int_equal(rig_remove(&r, 3, "k", false), 0);
	rig_fini(&r);
}

static void a_failed_copy_that_is_not_quiet_is_fenced(void **state)
{
	const struct tes_action *fence;
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	uint64_t used;
	struct rig r;

	(void)state;
	o = tasks_begin(&r, NULL, id);
	used = rig_figures(&r).used_bytes;
	tasks_answer(&r, &o, -800, false, 0);
	fence = rig_find(&r, TES_ACTION_FENCE);
	assert_non_null(fence);
	assert_int_equal(fence->session, 2);
	assert_int_equal(fence->u.fence.writer[0], 'A');
	assert_int_equal(rig_figures(&r).used_bytes, used);
	rig_fenced(&r, 2, 1, true);
	assert_true(rig_figures(&r).used_bytes < used);
	tasks_failed(&r, 3, id, -800);
	rig_fini(&r);
}

static void a_failed_copy_that_is_quiet_is_free_at_once(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	o = tasks_begin(&r, NULL, id);
	tasks_answer(&r, &o, -800, true, 0);
	assert_null(rig_find(&r, TES_ACTION_FENCE));
	tasks_failed(&r, 3, id, -800);
	assert_int_equal(rig_figures(&r).fencing, 0);
	rig_fini(&r);
}

static void what_is_removed_before_has_no_copy(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	rig_executes = false;
	tasks_owner(&r, 3, SEGMENT); /* "d" executes nothing */
	tasks_put(&r, 3, "k", "d");
	assert_int_equal(tasks_copy(&r, 3, "k", "b", id), 0);
	assert_false(tasks_order(&r).there);
	assert_int_equal(rig_remove(&r, 3, "k", false), 0);
	rig_tick(&r);
	tasks_failed(&r, 3, id, -704);
	rig_fini(&r);
}

static void a_full_target_is_tried_again_for_a_while(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	tasks_owner(&r, 2, 4096);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 3);
	tasks_put(&r, 2, "k", "a");
	tasks_put(&r, 2, "x", "c");
	tasks_put(&r, 2, "y", "c");
	tasks_put(&r, 2, "z", "c");
	assert_int_equal(tasks_copy(&r, 2, "k", "c", id), 0);
	assert_int_equal(tasks_query(&r, 2, id).state, TES_TASK_PENDING);
	r.now += 40;
	rig_tick(&r);
	assert_int_equal(tasks_query(&r, 2, id).state, TES_TASK_PENDING);
	rig_pass(&r, 1000, "123");
	tasks_failed(&r, 2, id, -200);

	/* And begins when there is room. */
	assert_int_equal(tasks_copy(&r, 2, "k", "c", id), 0);
	assert_int_equal(rig_remove(&r, 2, "x", true), 0);
	r.now += 60;
	rig_tick(&r);
	assert_true(tasks_order(&r).there);
	rig_fini(&r);
}

static void who_waits_too_long_is_given_up(void **state)
{
	struct tes_core_config c = tasks_config();
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	c.task_pending_ms = 1000;
	tasks_init(&r, &c, 2);
	rig_executes = false;
	tasks_owner(&r, 3, SEGMENT);
	tasks_put(&r, 3, "k", "d");
	assert_int_equal(tasks_copy(&r, 3, "k", "b", id), 0);
	rig_pass(&r, 900, "1234");
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_PENDING);
	rig_pass(&r, 200, "1234");
	tasks_failed(&r, 3, id, -901);
	assert_int_equal(tasks_copy(&r, 3, "k", "b", id), 0);
	rig_fini(&r);
}

static void who_works_too_long_is_given_up(void **state)
{
	struct tes_core_config c = tasks_config();
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	c.task_processing_ms = 1000;
	o = tasks_begin(&r, &c, id);
	rig_pass(&r, 1000, "123");
	assert_non_null(rig_find(&r, TES_ACTION_FENCE));
	tasks_failed(&r, 3, id, -901);
	tasks_done(&r, &o);
	assert_int_equal(rig_figures(&r).tasks_late_total, 1);
	assert_int_equal(tasks_at(&r, "k"), A);
	rig_fini(&r);
}

/* Somebody knew of a later life of the master: its number grows. */
static void grow_older(struct rig *r, tes_session_id s)
{
	uint8_t id[TES_CORE_ID_LEN] = {9};
	struct tes_event ev = {.type = TES_EVENT_JOIN, .session = s};

	ev.u.join.client_id = ev.u.join.incarnation = id;
	ev.u.join.engine = "k:1";
	ev.u.join.epoch = EPOCH + 100;
	ev.u.join.believed = true;
	assert_int_equal(rig_step(r, &ev)->u.reply.code, 0);
	assert_true(tes_core_epoch(r->core) > EPOCH + 100);
}

static void
a_task_goes_on_when_the_masters_life_has_another_number(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	o = tasks_begin(&r, NULL, id);
	grow_older(&r, 9);
	tasks_done(&r, &o);
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_SUCCESS);
	assert_int_equal(tasks_at(&r, "k"), A | B);
	assert_int_equal(rig_remove(&r, 3, "k", false), 0);
	rig_fini(&r);
}

/* What a task can come across, ending well. */
static void use_tasks(struct rig *r)
{
	struct tes_event ev = {.type = TES_EVENT_TASK_CREATE, .session = 4};
	struct tes_event done = {.type = TES_EVENT_TASK_DONE};
	const char *targets[] = {"b", "c"}, *b = "b";
	struct tes_core_key k = rig_key("k"), gone = rig_key("gone");
	uint32_t crc;
	struct order o;

	ev.n = 1;
	ev.keys = &k;
	ev.u.task_create.targets = targets;
	ev.u.task_create.n_targets = 2;
	if (rig_try(r, &ev))
		return;
	for (int i = 0; i < 3; i++) {
		o = tasks_order(r);
		if (o.there) {
			crc = (uint32_t)o.generation * 3;
			done.session = o.executor;
			done.u.task_done.id = o.id;
			done.u.task_done.crcs = &crc;
			done.u.task_done.n_crcs = 1;
			done.u.task_done.status = i ? 0 : -800;
			assert_int_equal(rig_try(r, &done), 0);
		}
		rig_tick(r);
	}
	ev.keys = &gone;
	ev.u.task_create.move = true;
	ev.u.task_create.source = "a";
	ev.u.task_create.targets = &b;
	ev.u.task_create.n_targets = 1;
	if (rig_try(r, &ev))
		return;
	assert_int_equal(rig_unmount(r, 1, 'm'), 0);
	rig_tick(r);
	rig_tick(r);
}

static void no_allocation_that_fails_leaves_a_task_behind(void **state)
{
	struct tes_core_figures f;
	unsigned int n = 0;
	bool struck;

	(void)state;
	do {
		struct rig r;

		tasks_init(&r, NULL, 3);
		tasks_put(&r, 4, "k", "ab");
		tasks_put(&r, 4, "gone", "a");
		assert_non_null(tei_arena_alloc(&r.arena, 60000));
		tei_arena_reset(&r.arena);
		tei_fault_arm(TEI_FAULT_ALLOC, ++n);
		use_tasks(&r);
		struck = tei_fault_struck(TEI_FAULT_ALLOC);
		tei_fault_disarm_all();
		rig_pass(&r, 1000, "1234");
		/* What is left are its last order, and fences. */
		for (int i = 0; i < 8; i++) {
			f = rig_figures(&r);
			if (!f.tasks_processing && !f.tasks_pending)
				break;
			rig_plain(&r, TES_EVENT_LEAVE, 1);
			rig_plain(&r, TES_EVENT_LEAVE, 2);
			rig_pass(&r, 4000, "34");
		}
		f = rig_figures(&r);
		assert_int_equal(f.tasks_processing, 0);
		assert_int_equal(f.tasks_pending, 0);
		assert_int_equal(f.building, 0);
		rig_fini(&r);
	} while (struck);
	assert_true(n > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_that_does_not_agree_does_not_count),
		cmocka_unit_test(a_failed_copy_that_is_not_quiet_is_fenced),
		cmocka_unit_test(a_failed_copy_that_is_quiet_is_free_at_once),
		cmocka_unit_test(what_is_removed_before_has_no_copy),
		cmocka_unit_test(a_full_target_is_tried_again_for_a_while),
		cmocka_unit_test(who_waits_too_long_is_given_up),
		cmocka_unit_test(who_works_too_long_is_given_up),
		cmocka_unit_test(
			a_task_goes_on_when_the_masters_life_has_another_number),
		cmocka_unit_test(no_allocation_that_fails_leaves_a_task_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
