/* SPDX-License-Identifier: Apache-2.0 */
/* test_drain.c - segments are emptied: jobs */
#include <te/te.h>

#include "tests/unit/store_core/drains.h"

static void all_that_is_there_is_moved(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TEI_CORE_ID_LEN];
	struct tei_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k1", "a");
	tasks_put(&r, 4, "k2", "a");
	tasks_put(&r, 4, "k3", "ab");
	tasks_put(&r, 4, "other", "b");
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_CREATED);
	assert_int_equal(drains_status(&r, "a"), TEI_CORE_SEGMENT_DRAINING);
	rig_tick(&r);
	work_take(&r, &w);
	d = drains_query(&r, id);
	assert_int_equal(d.state, TEI_DRAIN_RUNNING);
	assert_int_equal(d.total, 3);
	assert_int_equal(d.active, 3);
	assert_int_equal(d.n_segments, 1);
	assert_true(d.segments && !strcmp(d.segments[0], "a"));
	work_do(&r, &w);
	drains_work(&r, "1234", 300);
	d = drains_query(&r, id);
	assert_int_equal(d.state, TEI_DRAIN_SUCCEEDED);
	assert_int_equal(d.code, 0);
	assert_int_equal(d.moved, 3);
	assert_int_equal(d.moved_bytes, 3000);
	assert_int_equal(d.active + d.failed + d.blocked + d.left, 0);
	assert_int_equal(drains_status(&r, "a"), TEI_CORE_SEGMENT_DRAINED);
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
	uint8_t id[TEI_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	rig_tick(&r);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	assert_int_equal(drains_status(&r, "a"), TEI_CORE_SEGMENT_DRAINED);
	assert_false(tei_core_busy(r.core));
	rig_fini(&r);
}

static void what_is_drained_gets_nothing_new(void **state)
{
	uint8_t id[TEI_CORE_ID_LEN];
	struct grant g;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
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
	const char *many[TEI_CORE_DRAIN_MAX + 1];
	struct tei_event ev = {.type = TEI_EVENT_DRAIN_CREATE};
	struct rig r;

	(void)state;
	for (size_t i = 0; i <= TEI_CORE_DRAIN_MAX; i++)
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
	ev.u.drain_create.n_segments = TEI_CORE_DRAIN_MAX + 1;
	assert_int_equal(rig_step(&r, &ev)->u.reply.code, -600);
	assert_int_equal(rig_unmount_later(&r, 2, 'n', 5000), 0);
	assert_int_equal(drains_create(&r, "b", "", 0, NULL), -1010);
	assert_int_equal(drains_create(&r, "a", "b", 0, NULL), -1010);
	assert_int_equal(drains_create(&r, "ab", "", 0, NULL), -1010);
	assert_int_equal(drains_status(&r, "a"), TEI_CORE_SEGMENT_OK);
	rig_plain(&r, TEI_EVENT_LEAVE, 3);
	assert_int_equal(drains_create(&r, "c", "", 0, NULL), -1010);
	assert_int_equal(drains_create(&r, "a", "", 0, NULL), 0);
	assert_int_equal(drains_create(&r, "a", "", 0, NULL), -1010);
	assert_int_equal(rig_figures(&r).drains_active, 1);
	rig_fini(&r);
}

static void nobody_knows_other_jobs(void **state)
{
	uint8_t id[TEI_CORE_ID_LEN], other[TEI_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
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
	static const char *const keys[] = {"1", "2", "3", "4", "5", "6", "7"};
	uint8_t id[TEI_CORE_ID_LEN];
	struct order o[8];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	for (size_t i = 0; i < 7; i++)
		tasks_put(&r, 3, keys[i], "a");
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

/* ---- what is not moved yet ---- */

static void what_is_leased_waits_for_the_lease(void **state)
{
	uint8_t id[TEI_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	assert_int_equal(rig_lookup(&r, 3, "k").status, 0);
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	drains_work(&r, "123", 4000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_RUNNING);
	assert_int_equal(drains_query(&r, id).blocked, 1);
	assert_int_equal(drains_query(&r, id).left, 1);
	assert_int_equal(tasks_at(&r, "k"), A);
	drains_work(&r, "123", 2000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	assert_int_equal(drains_query(&r, id).blocked, 0);
	assert_int_equal(tasks_at(&r, "k"), B);
	rig_fini(&r);
}

/* Read again before every lease is over. */
static void what_is_read_all_the_time_is_moved_last(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TEI_CORE_ID_LEN];
	unsigned int s = 0;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "hot", "a");
	tasks_put(&r, 3, "cold", "a");
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	for (; s < 30 && drains_query(&r, id).state < TEI_DRAIN_SUCCEEDED;
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
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	assert_int_equal(tasks_at(&r, "hot"), B);
	rig_fini(&r);
}

static void readers_that_are_waited_for_hold_up_nothing(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TEI_CORE_ID_LEN];
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
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	assert_int_equal(drains_query(&r, id).moved, 2);
	rig_fini(&r);
}

static void what_is_pinned_hard_stays_until_it_is_removed(void **state)
{
	const char *name = "a";
	const struct tei_core_replicate how = {.replica_num = 1,
					       .hard_pin = true,
					       .preferred = &name,
					       .n_preferred = 1};
	uint8_t id[TEI_CORE_ID_LEN];
	struct grant g;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	g = rig_start_as(&r, 3, "k", 1000, &how, NULL, false);
	assert_int_equal(rig_end(&r, 3, "k", g.generation), 0);
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	drains_work(&r, "123", 20000);
	assert_int_equal(drains_query(&r, id).blocked, 1);
	assert_int_equal(drains_query(&r, id).failed, 0);
	assert_int_equal(rig_remove(&r, 3, "k", true), 0);
	drains_work(&r, "123", 1000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	assert_int_equal(drains_query(&r, id).moved, 0);
	rig_fini(&r);
}

static void what_is_unfinished_is_moved_when_it_is_there(void **state)
{
	const char *name = "a";
	const struct tei_core_replicate how = {
		.replica_num = 1, .preferred = &name, .n_preferred = 1};
	uint8_t id[TEI_CORE_ID_LEN];
	struct grant g;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	g = rig_start_as(&r, 3, "k", 1000, &how, NULL, false);
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	drains_work(&r, "123", 1000);
	assert_int_equal(drains_query(&r, id).blocked, 1);
	assert_int_equal(rig_end(&r, 3, "k", g.generation), 0);
	drains_work(&r, "123", 1000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	assert_int_equal(tasks_at(&r, "k"), B);
	rig_fini(&r);
}

static void what_others_copy_waits_for_them(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TEI_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k", "a");
	assert_int_equal(tasks_copy(&r, 4, "k", "b", NULL), 0);
	work_take(&r, &w);
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	rig_pass(&r, 1000, "1234");
	assert_int_equal(drains_query(&r, id).blocked, 1);
	work_do(&r, &w);
	drains_work(&r, "1234", 1000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	assert_int_equal(tasks_at(&r, "k"), B | C);
	rig_fini(&r);
}

/* ---- where to ---- */

static void the_least_used_gets_it(void **state)
{
	uint8_t id[TEI_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 4);
	tasks_put(&r, 5, "k", "a");
	tasks_put(&r, 5, "x", "b");
	tasks_put(&r, 5, "y", "d");
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	rig_tick(&r);
	drains_work(&r, "12345", 100);
	assert_int_equal(tasks_at(&r, "k"), C);
	rig_fini(&r);
}

static void only_targets_get_anything(void **state)
{
	static const char *const keys[] = {"1", "2", "3", "4", "5", "6"};
	uint8_t id[TEI_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 4);
	for (size_t i = 0; i < 6; i++)
		tasks_put(&r, 5, keys[i], i % 2 ? "a" : "b");
	assert_int_equal(drains_create(&r, "ab", "d", 0, id), 0);
	drains_work(&r, "12345", 1000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(tasks_at(&r, keys[i]), D);
	assert_int_equal(drains_status(&r, "b"), TEI_CORE_SEGMENT_DRAINED);
	rig_fini(&r);
}

static void replicas_stay_on_distinct_machines(void **state)
{
	uint8_t id[TEI_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	rig_name = "e"; /* a second segment of b's owner, which is empty */
	assert_int_equal(rig_mount(&r, 2, 'x', base_of(4), SEGMENT), 0);
	rig_name = NULL;
	tasks_put(&r, 4, "k", "ab");
	tasks_put(&r, 4, "x", "c");
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	drains_work(&r, "1234", 1000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	assert_int_equal(tasks_at(&r, "k"), B | C);
	rig_fini(&r);
}

/* ---- what fails ---- */

static void a_copy_is_tried_three_times_more(void **state)
{
	struct work w = {.refuse = -800};
	uint8_t id[TEI_CORE_ID_LEN];
	struct tei_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	work_pass(&r, &w, "123", 5000);
	assert_int_equal(w.done, 4);
	d = drains_query(&r, id);
	assert_int_equal(d.state, TEI_DRAIN_FAILED);
	assert_int_equal(d.code, -800);
	assert_string_not_equal(d.message, "");
	assert_int_equal(d.failed, 1);
	assert_int_equal(d.left, 1);
	assert_int_equal(drains_status(&r, "a"), TEI_CORE_SEGMENT_OK);
	assert_int_equal(tasks_at(&r, "k"), A);
	assert_int_equal(rig_figures(&r).drains_failed_total, 1);

	/* Another job starts anew. */
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	drains_work(&r, "123", 1000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	rig_fini(&r);
}

static void a_job_without_room_fails(void **state)
{
	uint8_t id[TEI_CORE_ID_LEN];
	struct tei_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	tasks_owner(&r, 2, 4096);
	tasks_put(&r, 2, "1", "a");
	tasks_put(&r, 2, "2", "a");
	tasks_put(&r, 2, "3", "a");
	tasks_put(&r, 2, "4", "a");
	tasks_put(&r, 2, "5", "a");
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	drains_work(&r, "123", 5000);
	d = drains_query(&r, id);
	assert_int_equal(d.state, TEI_DRAIN_FAILED);
	assert_int_equal(d.code, -200);
	assert_int_equal(d.moved, 3);
	assert_int_equal(d.failed, 2);
	assert_int_equal(drains_status(&r, "a"), TEI_CORE_SEGMENT_OK);
	rig_fini(&r);
}

static void room_that_comes_is_used(void **state)
{
	uint8_t id[TEI_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	tasks_put(&r, 2, "k", "a");
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	drains_work(&r, "12", 1000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_RUNNING);
	tasks_owner(&r, 2, SEGMENT);
	drains_work(&r, "123", 1000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	rig_fini(&r);
}

static void a_target_that_goes_is_replaced(void **state)
{
	uint8_t id[TEI_CORE_ID_LEN];
	unsigned int to;
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k", "a");
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	rig_tick(&r);
	o = tasks_order(&r);
	assert_true(o.there);
	to = (unsigned int)(o.address[0] >> 32);
	assert_int_equal(rig_unmount(&r, to, (char)('m' + to - 1)), 0);
	tasks_done(&r, &o); /* it noticed nothing */
	drains_work(&r, "1234", 1000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	assert_int_equal(tasks_at(&r, "k"), (B | C) & ~(1u << (to - 1)));
	rig_fini(&r);
}

static void a_silent_target_is_replaced(void **state)
{
	uint8_t id[TEI_CORE_ID_LEN];
	struct order o;
	struct rig r;
	char alive[] = "1..4";

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k", "a");
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	rig_tick(&r);
	o = tasks_order(&r);
	rig_plain(&r, TEI_EVENT_LEAVE, (tei_session_id)(o.address[0] >> 32));
	tasks_answer(&r, &o, -800, true, 0);
	alive[1] = alive[2] = o.address[0] >> 32 == 2 ? '3' : '2';
	drains_work(&r, alive, 1000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	rig_fini(&r);
}

/* Its copy was made, but the source is still kept for a reader. */
static void a_copy_that_goes_is_made_again(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TEI_CORE_ID_LEN];
	unsigned int to;
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k", "a");
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	rig_tick(&r);
	o = tasks_order(&r);
	assert_int_equal(rig_lookup(&r, 4, "k").status, 0);
	tasks_done(&r, &o);
	to = (unsigned int)(o.address[0] >> 32);
	assert_int_equal(rig_unmount(&r, to, (char)('m' + to - 1)), 0);
	/* After its lease it goes to the third. */
	work_pass(&r, &w, "1234", 7000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	assert_int_equal(tasks_at(&r, "k"), (B | C) & ~(1u << (to - 1)));
	rig_fini(&r);
}

static void a_segment_that_goes_fails_its_job(void **state)
{
	uint8_t id[TEI_CORE_ID_LEN];
	struct work w = {.n_orders = 0};
	struct tei_core_drain d;
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
	assert_int_equal(d.state, TEI_DRAIN_FAILED);
	assert_int_equal(d.code, -101);
	assert_int_equal(d.active, 0);
	/* The other one was emptied all the same. */
	assert_int_equal(tasks_at(&r, "k1") & C, C);
	assert_int_equal(tasks_at(&r, "k2"), C);
	assert_int_equal(drains_status(&r, "b"), TEI_CORE_SEGMENT_OK);
	rig_fini(&r);
}

static void an_owner_that_expires_fails_its_job(void **state)
{
	uint8_t id[TEI_CORE_ID_LEN];
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	rig_tick(&r);
	rig_pass(&r, 9000, "23"); /* silent, not gone */
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_RUNNING);
	rig_pass(&r, 3000, "23");
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_FAILED);
	assert_int_equal(drains_query(&r, id).code, -101);
	assert_int_equal(rig_figures(&r).drains_active, 0);
	assert_int_equal(rig_figures(&r).tasks_pending, 0);
	assert_int_equal(rig_figures(&r).tasks_processing, 0);
	rig_fini(&r);
}

/* ---- cancel ---- */

static void a_cancel_begins_nothing_more(void **state)
{
	struct work w = {.n_orders = 0};
	uint8_t id[TEI_CORE_ID_LEN];
	struct tei_core_drain d;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	for (int k = '1'; k < '9'; k++)
		tasks_put(&r, 3, (char[]){(char)k, 0}, "a");
	/* One owner works at four: the others wait. */
	assert_int_equal(drains_create(&r, "a", "", 6, id), 0);
	rig_tick(&r);
	work_take(&r, &w);
	assert_int_equal(w.n_orders, 4);
	assert_int_equal(rig_figures(&r).tasks_pending, 2);
	assert_int_equal(drains_cancel(&r, id), 0);
	assert_int_equal(rig_figures(&r).tasks_pending, 0);
	d = drains_query(&r, id);
	assert_int_equal(d.state, TEI_DRAIN_CANCELED);
	assert_int_equal(d.active, 4);
	assert_int_equal(drains_status(&r, "a"), TEI_CORE_SEGMENT_OK);
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

/* ---- bounds ---- */

static void the_last_jobs_are_remembered(void **state)
{
	uint8_t first[TEI_CORE_ID_LEN], id[TEI_CORE_ID_LEN];
	uint64_t bytes = 0;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 1);
	assert_int_equal(drains_create(&r, "a", "", 0, first), 0);
	assert_int_equal(drains_cancel(&r, first), 0);
	for (unsigned int i = 1; i < 600; i++) {
		if (i == 256) {
			assert_int_equal(drains_query(&r, first).code, 0);
			bytes = rig_figures(&r).metadata_bytes;
		}
		assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
		assert_int_equal(drains_cancel(&r, id), 0);
	}
	assert_int_equal(drains_query(&r, first).code, -1402);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_CANCELED);
	assert_int_equal(rig_figures(&r).metadata_bytes, bytes);
	rig_fini(&r);
}

static void a_job_without_memory_changes_nothing(void **state)
{
	struct tei_event ev = {.type = TEI_EVENT_DRAIN_CREATE};
	const char *a = "a";
	uint8_t id[TEI_CORE_ID_LEN];
	struct tei_arena small;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "a");
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_int_equal(drains_create(&r, "a", "", 0, NULL), -1);
	assert_true(tei_fault_struck(TEI_FAULT_ALLOC));
	tei_fault_disarm_all();
	assert_int_equal(drains_status(&r, "a"), TEI_CORE_SEGMENT_OK);

	tei_arena_init(&small, 1); /* no room for the reply */
	r.out = (struct tei_actions){.arena = &small};
	ev.u.drain_create.segments = &a;
	ev.u.drain_create.n_segments = 1;
	assert_int_equal(tei_core_step(r.core, &ev, r.now, &r.out), -ENOMEM);
	tei_arena_fini(&small);
	assert_int_equal(drains_status(&r, "a"), TEI_CORE_SEGMENT_OK);
	assert_int_equal(rig_figures(&r).drains_active, 0);

	/* The task of a walk finds none: the replica is tried again. */
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	rig_tick(&r);
	assert_true(tei_fault_struck(TEI_FAULT_ALLOC));
	tei_fault_disarm_all();
	assert_int_equal(drains_query(&r, id).active, 0);
	drains_work(&r, "123", 1000);
	assert_int_equal(drains_query(&r, id).state, TEI_DRAIN_SUCCEEDED);
	rig_fini(&r);
}

static void a_walk_is_made_in_steps(void **state)
{
	struct tei_core_config c = tasks_config();
	uint8_t id[TEI_CORE_ID_LEN];
	struct tei_core_drain d;
	unsigned int ticks = 0;
	struct rig r;

	(void)state;
	c.step_objects = 8;
	tasks_init(&r, &c, 2);
	for (unsigned int i = 0; i < 40; i++) {
		char key[8];

		snprintf(key, sizeof(key), "k%u", i);
		tasks_put(&r, 3, key, "a");
	}
	assert_int_equal(drains_create(&r, "a", "", 0, id), 0);
	do {
		assert_true(tei_core_busy(r.core));
		rig_tick(&r);
		ticks++;
		d = drains_query(&r, id);
	} while (d.state == TEI_DRAIN_CREATED || d.state == TEI_DRAIN_PLANNING);
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
		cmocka_unit_test(what_is_leased_waits_for_the_lease),
		cmocka_unit_test(what_is_read_all_the_time_is_moved_last),
		cmocka_unit_test(readers_that_are_waited_for_hold_up_nothing),
		cmocka_unit_test(what_is_pinned_hard_stays_until_it_is_removed),
		cmocka_unit_test(what_is_unfinished_is_moved_when_it_is_there),
		cmocka_unit_test(what_others_copy_waits_for_them),
		cmocka_unit_test(the_least_used_gets_it),
		cmocka_unit_test(only_targets_get_anything),
		cmocka_unit_test(replicas_stay_on_distinct_machines),
		cmocka_unit_test(a_copy_is_tried_three_times_more),
		cmocka_unit_test(a_job_without_room_fails),
		cmocka_unit_test(room_that_comes_is_used),
		cmocka_unit_test(a_target_that_goes_is_replaced),
		cmocka_unit_test(a_silent_target_is_replaced),
		cmocka_unit_test(a_copy_that_goes_is_made_again),
		cmocka_unit_test(a_segment_that_goes_fails_its_job),
		cmocka_unit_test(an_owner_that_expires_fails_its_job),
		cmocka_unit_test(a_cancel_begins_nothing_more),
		cmocka_unit_test(the_last_jobs_are_remembered),
		cmocka_unit_test(a_job_without_memory_changes_nothing),
		cmocka_unit_test(a_walk_is_made_in_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
