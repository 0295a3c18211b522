/* SPDX-License-Identifier: Apache-2.0 */
/* test_repair.c - replicas that were lost are made again */
#include "tests/unit/store_core/tasks.h"

/* Executors do what ticks and their own answers bring, until nothing is left;
 * how many copies they made. */
static unsigned int work(struct rig *r)
{
	struct order todo[64];
	size_t n_todo = 0;
	unsigned int n = 0;

	for (int idle = 0; idle < 4; idle++) {
		rig_tick(r);
		n_todo += tasks_orders(r, todo + n_todo, 64 - n_todo);
		while (n_todo) {
			struct order o = todo[--n_todo];

			idle = 0;
			n++;
			tasks_done(r, &o);
			n_todo += tasks_orders(r, todo + n_todo, 64 - n_todo);
		}
	}
	return n;
}

static void a_lost_replica_is_made_again_elsewhere(void **state)
{
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k", "ab");
	tasks_put(&r, 4, "alone", "c");
	assert_int_equal(rig_unmount(&r, 2, 'n'), 0);
	rig_tick(&r);
	o = tasks_order(&r);
	assert_true(o.there);
	assert_int_equal(o.executor, 1);
	assert_int_equal(o.address[0] >> 32, 3);
	tasks_done(&r, &o);
	assert_int_equal(tasks_at(&r, "k"), A | C);
	assert_int_equal(tasks_at(&r, "alone"), C);
	assert_int_equal(rig_figures(&r).lost_replicas_total, 1);
	assert_int_equal(rig_figures(&r).replicas_remade_total, 1);
	assert_int_equal(work(&r), 0);
	rig_fini(&r);
}

static void two_that_are_lost_at_once_are_both_made_again(void **state)
{
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 5);
	tasks_put(&r, 6, "k", "abc");
	assert_int_equal(rig_unmount(&r, 2, 'n'), 0);
	assert_int_equal(rig_unmount(&r, 3, 'o'), 0);
	assert_int_equal(work(&r), 2);
	assert_int_equal(tasks_at(&r, "k"), A | D | E);
	assert_int_equal(rig_figures(&r).lost_replicas_total, 2);
	assert_int_equal(rig_figures(&r).replicas_remade_total, 2);
	rig_fini(&r);
}

static void who_has_no_other_place_is_given_up(void **state)
{
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "ab");
	assert_int_equal(rig_unmount(&r, 2, 'n'), 0);
	rig_pass(&r, 2000, "123");
	assert_int_equal(tasks_at(&r, "k"), A);
	assert_int_equal(rig_figures(&r).replicas_given_up_total, 1);
	assert_int_equal(rig_figures(&r).tasks_pending, 0);
	rig_fini(&r);
}

static void what_was_put_with_fewer_is_as_it_is(void **state)
{
	struct tes_core_replicate how = {.replica_num = 3};
	struct grant g;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	g = rig_start_as(&r, 3, "k", 1000, &how, NULL, false);
	assert_int_equal(rig_end_all(&r, 3, "k", g.generation, 2, 3), 0);
	tasks_owner(&r, 3, SEGMENT);
	assert_int_equal(work(&r), 0);
	assert_int_equal(tasks_at(&r, "k"), A | B);
	rig_fini(&r);
}

static void an_attempt_that_fails_is_made_again(void **state)
{
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 3);
	tasks_put(&r, 4, "k", "ab");
	assert_int_equal(rig_unmount(&r, 2, 'n'), 0);
	rig_tick(&r);
	o = tasks_order(&r);
	tasks_answer(&r, &o, -800, true, 0);
	assert_int_equal(rig_figures(&r).tasks_pending, 1);
	r.now += 60;
	assert_int_equal(work(&r), 1);
	assert_int_equal(tasks_at(&r, "k"), A | C);
	rig_fini(&r);
}

static void users_come_before_repairs(void **state)
{
	uint8_t id[TES_CORE_ID_LEN];
	struct order o;
	struct rig r;

	(void)state;
	tasks_init(&r, NULL, 2);
	tasks_put(&r, 3, "k", "ab");
	assert_int_equal(rig_unmount(&r, 2, 'n'), 0);
	rig_tick(&r);
	assert_int_equal(rig_figures(&r).tasks_pending, 1);
	tasks_owner(&r, 3, SEGMENT);
	/* The repair yields to the copy of a user, and follows it. */
	assert_int_equal(tasks_copy(&r, 3, "k", "d", id), 0);
	o = tasks_order(&r);
	assert_true(o.there);
	tasks_done(&r, &o);
	assert_int_equal(tasks_query(&r, 3, id).state, TES_TASK_SUCCESS);
	assert_int_equal(rig_figures(&r).tasks_pending, 1);
	rig_fini(&r);
}

static void more_than_the_queue_holds_are_found_later(void **state)
{
	struct tes_core_config c = tasks_config();
	const unsigned int n = 2000;
	struct rig r;
	char key[16];

	(void)state;
	c.tasks_pending_max = 10000;
	rig_buries = rig_executes = true;
	rig_init(&r, &c);
	for (unsigned int i = 0; i < 3; i++)
		tasks_owner(&r, i, (uint64_t)n * 2048);
	assert_int_equal(rig_join(&r, 4, 'w', 'W'), 0);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 4);
	for (unsigned int i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		tasks_put(&r, 4, key, "ab");
	}
	assert_int_equal(rig_unmount(&r, 2, 'n'), 0);
	assert_int_equal(work(&r), n);
	assert_int_equal(rig_figures(&r).replicas_remade_total, n);
	for (unsigned int i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(tasks_at(&r, key), A | C);
	}
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_replica_is_made_again_elsewhere),
		cmocka_unit_test(two_that_are_lost_at_once_are_both_made_again),
		cmocka_unit_test(who_has_no_other_place_is_given_up),
		cmocka_unit_test(what_was_put_with_fewer_is_as_it_is),
		cmocka_unit_test(an_attempt_that_fails_is_made_again),
		cmocka_unit_test(users_come_before_repairs),
		cmocka_unit_test(more_than_the_queue_holds_are_found_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
