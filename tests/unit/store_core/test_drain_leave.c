/* SPDX-License-Identifier: Apache-2.0 */
/* test_drain_leave.c - segments are emptied: owners that leave */
#include "store/core/drain.h"
#include "tests/unit/store_core/drains.h"

/* The answer, which comes with a step while owners work; NULL: none by @ms. */
static const struct tes_core_drain *answer(struct rig *r, const char *alive,
					   uint64_t ms,
					   struct tes_core_drain *out)
{
	struct work w = {.n_orders = 0};

	*out = (struct tes_core_drain){.n_segments = 0};
	r->n_late = 0;
	for (uint64_t end = r->now + ms; r->now < end;) {
		work_take(r, &w);
		for (size_t i = 0; i < r->out.n; i++) {
			const struct tes_action *a = &r->out.at[i];

			if (a->type != TES_ACTION_REPLY ||
			    a->u.reply.of != TES_EVENT_DRAIN_LEAVE)
				continue;
			assert_int_equal(a->u.reply.code, 0);
			*out = *a->u.reply.drain;
			return out;
		}
		if (!work_step(r, &w) && *alive)
			work_tick(r, &w, alive);
	}
	return NULL;
}

static void all_its_segments_are_emptied(void **state)
{
	struct tes_core_drain d;
	struct grant g;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_lend(&r, 1, 4, SEGMENT);
	g = drains_start(&r, 4, "hard", true);
	assert_int_equal(rig_end(&r, 4, "hard", g.generation), 0);
	tasks_put(&r, 4, "leased", "a");
	tasks_put(&r, 4, "k", "e");
	assert_int_equal(rig_lookup(&r, 4, "leased").status, 0);

	assert_int_equal(drains_leave(&r, 1, 0, 3000), 0);
	assert_int_equal(drains_status(&r, "a"),
			 TES_CORE_SEGMENT_GRACEFULLY_UNMOUNTING);
	assert_non_null(answer(&r, "1234", 3000, &d));
	assert_int_equal(d.state, TES_DRAIN_SUCCEEDED);
	assert_int_equal(d.total, 3);
	assert_int_equal(d.moved, 3);
	assert_int_equal(d.left, 0);
	assert_int_equal(rig_unmount(&r, 1, 'm'), 0);
	assert_int_equal(rig_unmount(&r, 1, 'q'), 0);
	rig_pass(&r, 300, "1234");
	/* Each once: nothing was lost that would have to be made again. */
	assert_int_equal(rig_figures(&r).lost_replicas_total, 0);
	assert_int_equal(rig_figures(&r).dropped_objects_total, 0);
	assert_true(tasks_at(&r, "hard") == B || tasks_at(&r, "hard") == C);
	assert_true(tasks_at(&r, "leased") == B || tasks_at(&r, "leased") == C);
	assert_true(tasks_at(&r, "k") == B || tasks_at(&r, "k") == C);
	rig_fini(&r);
}

static void one_of_its_segments_goes_to_the_other(void **state)
{
	struct tes_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	tasks_lend(&r, 1, 1, SEGMENT);
	tasks_put(&r, 2, "k", "a");
	assert_int_equal(drains_leave(&r, 1, 'm', 3000), 0);
	assert_non_null(answer(&r, "12", 3000, &d));
	assert_int_equal(d.moved, 1);
	assert_int_equal(tasks_at(&r, "k"), B);
	assert_int_equal(drains_status(&r, "b"), TES_CORE_SEGMENT_OK);
	rig_fini(&r);
}

static void without_others_it_leaves_at_once(void **state)
{
	struct tes_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	tasks_put(&r, 2, "k1", "a");
	tasks_put(&r, 2, "k2", "a");
	assert_int_equal(drains_leave(&r, 1, 0, 60000), 0);
	rig_tick(&r);
	assert_non_null(answer(&r, "", 1, &d));
	assert_int_equal(d.state, TES_DRAIN_FAILED);
	assert_int_equal(d.code, -200);
	assert_int_equal(d.left, 2);
	rig_fini(&r);
}

static void without_room_it_leaves_at_once(void **state)
{
	struct tes_core_drain d;
	struct rig r;
	uint64_t begun;

	(void)state;
	tasks_init(&r, NULL, 1);
	tasks_owner(&r, 2, 4096);
	drains_fill(&r, 2, 6);
	begun = r.now;
	assert_int_equal(drains_leave(&r, 1, 0, 60000), 0);
	assert_non_null(answer(&r, "123", 60000, &d));
	assert_int_equal(d.state, TES_DRAIN_FAILED);
	assert_int_equal(d.code, -200);
	assert_int_equal(d.moved, 3);
	assert_int_equal(d.left, 3);
	assert_in_range(r.now - begun, 0, 500);
	rig_fini(&r);
}

static void it_does_not_wait_longer_than_it_wants(void **state)
{
	struct tes_core_drain d;
	struct order o[4];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	drains_fill(&r, 3, 7);
	assert_int_equal(drains_leave(&r, 1, 0, 1000), 0);
	rig_tick(&r);
	assert_int_equal(tasks_orders(&r, o, 4), 4);
	tasks_done(&r, &o[0]);
	r.now += 999;
	rig_plain(&r, TES_EVENT_HEARTBEAT, 1);
	rig_tick(&r);
	assert_null(rig_find(&r, TES_ACTION_REPLY));
	r.now += 1;
	rig_tick(&r);
	assert_non_null(answer(&r, "", 1, &d));
	assert_int_equal(d.state, TES_DRAIN_FAILED);
	assert_int_equal(d.code, -901);
	assert_int_equal(d.moved, 1);
	assert_int_equal(d.left, 6);
	assert_int_equal(rig_figures(&r).tasks_pending, 0);
	tasks_done(&r, &o[1]); /* too late to be counted, but it is moved */
	assert_int_equal(rig_figures(&r).drains_active, 0);
	rig_fini(&r);
}

static void wrong_ones_are_refused(void **state)
{
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	assert_int_equal(drains_leave(&r, 9, 0, 1000), -103);
	assert_int_equal(drains_leave(&r, 3, 0, 1000), -101);
	assert_int_equal(drains_leave(&r, 1, 'z', 1000), -101);
	assert_int_equal(drains_leave(&r, 1, 'n', 1000), -101);
	assert_int_equal(drains_status(&r, "a"), TES_CORE_SEGMENT_OK);
	assert_int_equal(drains_leave(&r, 1, 0, 1000), 0);
	assert_int_equal(drains_leave(&r, 1, 0, 1000), -1010);
	assert_int_equal(drains_leave(&r, 1, 'm', 1000), -1010);
	rig_fini(&r);
}

static void it_takes_its_segment_over_from_a_job(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct tes_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k1", "a");
	tasks_put(&r, 4, "k2", "b");
	assert_int_equal(rig_lookup(&r, 4, "k1").status, 0); /* blocked */
	drains_begin(&r, "ab", id);
	drains_work(&r, "1234", 300);
	assert_int_equal(tasks_at(&r, "k1"), A);
	assert_int_equal(drains_leave(&r, 1, 0, 3000), 0);
	assert_non_null(answer(&r, "1234", 3000, &d));
	assert_int_equal(d.state, TES_DRAIN_SUCCEEDED);
	assert_int_equal(tasks_at(&r, "k1"), C);
	drains_work(&r, "1234", 1000);
	assert_int_equal(drains_query(&r, id).state, TES_DRAIN_FAILED);
	assert_int_equal(drains_query(&r, id).code, -101);
	assert_int_equal(drains_status(&r, "b"), TES_CORE_SEGMENT_OK);
	rig_fini(&r);
}

static void an_owner_that_dies_is_answered(void **state)
{
	struct tes_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	assert_int_equal(drains_leave(&r, 1, 0, 60000), 0);
	rig_tick(&r);
	rig_plain(&r, TES_EVENT_LEAVE, 1);
	assert_non_null(answer(&r, "23", 60000, &d));
	assert_int_equal(d.state, TES_DRAIN_FAILED);
	assert_int_equal(d.code, -101);
	assert_int_equal(rig_figures(&r).drains_active, 0);
	rig_fini(&r);
}

static void a_leave_without_memory_changes_nothing(void **state)
{
	struct tes_event ev = {.type = TES_EVENT_DRAIN_LEAVE, .session = 1};
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_int_equal(drains_leave(&r, 1, 0, 1000), -1);
	assert_true(tei_fault_struck(TEI_FAULT_ALLOC));
	tei_fault_disarm_all();
	drains_unanswered(&r, &ev);
	rig_fini(&r);
}

/* Lends @n segments of 1 KiB that are never offered whole, so no drain of one
 * ends before its time; then leaves with each. Returns how many it may. */
static unsigned int leave_with(struct rig *r, tes_session_id s, unsigned int n)
{
	unsigned int i;

	for (i = 1; i <= n; i++)
		assert_int_equal(rig_mount_as(r, s, (char)i,
					      s * 0x1000000 + i * 0x10000, 1024,
					      true),
				 0);
	for (i = 0; i < n; i++)
		if (drains_leave(r, s, (char)(i + 1), UINT64_MAX))
			break;
	return i;
}

static void one_client_does_not_take_all_that_there_are(void **state)
{
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	assert_int_equal(leave_with(&r, 3, 40), TES_DRAINS_EACH);
	assert_int_equal(drains_leave(&r, 3, 17, 1000), -1401);
	assert_int_equal(drains_leave(&r, 3, 1, 1000), -1010);
	rig_fini(&r);
}

static void clients_that_take_all_keep_nobody_out(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	for (tes_session_id s = 10; s < 10 + TES_DRAINS_MAX / 8; s++) {
		assert_int_equal(rig_join(&r, s, (char)s, (char)s), 0);
		rig_name = rig_usual_name(s);
		assert_true(leave_with(&r, s, 20) > 0);
	}
	rig_name = NULL;
	tasks_lend(&r, 1, 4, SEGMENT);
	drains_begin(&r, "b", id);
	assert_int_equal(drains_leave(&r, 1, 'm', 1000), 0);
	assert_int_equal(drains_leave(&r, 1, 'q', 1000), -1401);
	rig_fini(&r);
}

static void nobody_is_waited_for_without_end(void **state)
{
	struct tes_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	assert_int_equal(leave_with(&r, 2, 1), 1);
	assert_null(answer(&r, "12", TES_DRAIN_LEAVE_MAX_MS - 1000, &d));
	assert_non_null(answer(&r, "12", 2000, &d));
	assert_int_equal(d.state, TES_DRAIN_FAILED);
	assert_int_equal(d.code, -901);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_its_segments_are_emptied),
		cmocka_unit_test(one_of_its_segments_goes_to_the_other),
		cmocka_unit_test(without_others_it_leaves_at_once),
		cmocka_unit_test(without_room_it_leaves_at_once),
		cmocka_unit_test(it_does_not_wait_longer_than_it_wants),
		cmocka_unit_test(wrong_ones_are_refused),
		cmocka_unit_test(it_takes_its_segment_over_from_a_job),
		cmocka_unit_test(an_owner_that_dies_is_answered),
		cmocka_unit_test(a_leave_without_memory_changes_nothing),
		cmocka_unit_test(one_client_does_not_take_all_that_there_are),
		cmocka_unit_test(clients_that_take_all_keep_nobody_out),
		cmocka_unit_test(nobody_is_waited_for_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
