/* SPDX-License-Identifier: Apache-2.0 */
/* test_hot.c - what is read much gets a further replica, for a time */
#include "store/core/hot.h"
#include "store/core/state.h"
#include "tests/unit/store_core/tasks.h"

static void start(struct rig *r, enum tes_core_hot heat)
{
	struct tes_core_config c = tasks_config();

	c.hot = heat;
	c.hot_window_ms = 10000;
	c.hot_qps = 0.8;
	c.hot_replicas = 2;
	c.lease_ttl_ms = 1000;
	tasks_init(r, &c, 2);
}

static void look_up(struct rig *r, const char *key, unsigned int n)
{
	while (n--)
		assert_int_equal(rig_lookup(r, 3, key).status, 0);
}

/* The order of the task that comes with the next ticks. */
static struct order next_order(struct rig *r)
{
	struct order o = {.there = false};

	for (int i = 0; i < 3 && !o.there; i++) {
		rig_tick(r);
		o = tasks_order(r);
	}
	return o;
}

static void eight_reads_in_ten_seconds_earn_a_replica(void **state)
{
	struct order o;
	struct rig r;

	(void)state;
	start(&r, TES_CORE_HOT_ENFORCE);
	tasks_put(&r, 3, "k", "a");
	look_up(&r, "k", 7);
	assert_false(next_order(&r).there);
	look_up(&r, "k", 1);
	o = next_order(&r);
	assert_true(o.there);
	assert_int_equal(o.executor, 1);
	assert_int_equal(o.address[0] >> 32, 2);
	tasks_done(&r, &o);
	assert_int_equal(tasks_at(&r, "k"), A | B);
	assert_int_equal(rig_figures(&r).hot_proposed_total, 1);
	assert_int_equal(rig_figures(&r).hot_made_total, 1);
	look_up(&r, "k", 100);
	assert_false(next_order(&r).there);
	assert_int_equal(rig_figures(&r).hot_proposed_total, 1);
	rig_fini(&r);
}

static void slower_reads_earn_none(void **state)
{
	struct rig r;

	(void)state;
	start(&r, TES_CORE_HOT_ENFORCE);
	tasks_put(&r, 3, "k", "a");
	for (int i = 0; i < 20; i++) {
		look_up(&r, "k", 1);
		rig_pass(&r, 2000, "123");
	}
	assert_int_equal(rig_figures(&r).hot_proposed_total, 0);
	rig_fini(&r);
}

static void observed_is_only_counted(void **state)
{
	struct rig r;

	(void)state;
	start(&r, TES_CORE_HOT_OBSERVE);
	tasks_put(&r, 3, "k", "a");
	look_up(&r, "k", 50);
	assert_false(next_order(&r).there);
	assert_int_equal(rig_figures(&r).hot_proposed_total, 1);
	/* Again after the cooldown, not before. */
	rig_pass(&r, 10000, "123");
	look_up(&r, "k", 50);
	assert_int_equal(rig_figures(&r).hot_proposed_total, 1);
	rig_pass(&r, 25000, "123");
	look_up(&r, "k", 50);
	assert_int_equal(rig_figures(&r).hot_proposed_total, 2);
	assert_int_equal(rig_figures(&r).hot_made_total, 0);
	rig_fini(&r);
}

static void off_it_costs_nothing(void **state)
{
	struct rig r;

	(void)state;
	start(&r, TES_CORE_HOT_OFF);
	tasks_put(&r, 3, "k", "a");
	look_up(&r, "k", 50);
	assert_false(next_order(&r).there);
	assert_int_equal(rig_figures(&r).hot_proposed_total, 0);
	rig_fini(&r);
}

/* Put so much that 86 % of the pool is in use. */
static void fill(struct rig *r)
{
	char key[16];

	for (unsigned int i = 0;
	     (double)rig_figures(r).used_bytes <= 0.86 * 2 * SEGMENT; i++) {
		snprintf(key, sizeof(key), "fill%u", i);
		assert_int_equal(rig_put(r, 3, key, 4000).status, 0);
	}
}

static void a_full_pool_makes_none(void **state)
{
	struct rig r;

	(void)state;
	start(&r, TES_CORE_HOT_ENFORCE);
	tasks_put(&r, 3, "k", "a");
	fill(&r);
	look_up(&r, "k", 8);
	assert_false(next_order(&r).there);
	assert_int_equal(rig_figures(&r).hot_refused_total, 1);
	rig_fini(&r);
}

static void what_has_cooled_is_given_back_when_space_is_short(void **state)
{
	struct order o;
	struct rig r;

	(void)state;
	start(&r, TES_CORE_HOT_ENFORCE);
	tasks_put(&r, 3, "k", "a");
	look_up(&r, "k", 8);
	o = next_order(&r);
	assert_true(o.there);
	tasks_done(&r, &o);
	rig_pass(&r, 60000, "123");
	assert_int_equal(tasks_at(&r, "k"), A | B); /* there is room */
	fill(&r);
	look_up(&r, "k", 8); /* warm, though others need room */
	rig_pass(&r, 5000, "123");
	assert_int_equal(tasks_at(&r, "k"), A | B);
	for (int i = 0; i < 300 && tasks_at(&r, "k") != A; i++) {
		rig_pass(&r, 100, "123");
		rig_bury(&r);
	}
	assert_int_equal(tasks_at(&r, "k"), A);
	assert_int_equal(rig_figures(&r).hot_given_back_total, 1);
	/* It is not made again at once. */
	look_up(&r, "k", 8);
	assert_int_equal(rig_figures(&r).hot_proposed_total, 1);
	rig_fini(&r);
}

static void an_object_that_goes_is_forgotten(void **state)
{
	struct order o;
	struct rig r;

	(void)state;
	start(&r, TES_CORE_HOT_ENFORCE);
	tasks_put(&r, 3, "k", "a");
	tasks_put(&r, 3, "l", "a");
	look_up(&r, "k", 8);
	o = next_order(&r);
	assert_true(o.there);
	tasks_done(&r, &o);
	assert_int_equal(rig_remove(&r, 3, "k", true), 0);
	look_up(&r, "l", 8); /* proposed, and gone before the tick */
	assert_int_equal(rig_remove(&r, 3, "l", true), 0);
	assert_false(next_order(&r).there);
	/* In a pool that never fills, too: the list of them is bounded. */
	assert_int_equal(r.core->hot.n_made, 0);
	fill(&r);
	rig_pass(&r, 60000, "123");
	assert_int_equal(rig_figures(&r).hot_given_back_total, 0);
	rig_fini(&r);
}

/* Many that are read once do not push out what is read often. */
static void the_hot_ones_are_seen_among_many(void **state)
{
	struct rig r;
	char key[16];

	(void)state;
	start(&r, TES_CORE_HOT_OBSERVE);
	tasks_put(&r, 3, "k", "a");
	for (unsigned int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "once%u", i);
		assert_int_equal(rig_put(&r, 3, key, 100).status, 0);
	}
	for (unsigned int i = 0; i < 8; i++) {
		look_up(&r, "k", 1);
		for (unsigned int j = 0; j < 5; j++) {
			snprintf(key, sizeof(key), "once%u", (i * 5 + j) % 20);
			look_up(&r, key, 1);
		}
	}
	assert_int_equal(rig_figures(&r).hot_proposed_total, 1);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_reads_in_ten_seconds_earn_a_replica),
		cmocka_unit_test(slower_reads_earn_none),
		cmocka_unit_test(observed_is_only_counted),
		cmocka_unit_test(off_it_costs_nothing),
		cmocka_unit_test(a_full_pool_makes_none),
		cmocka_unit_test(
			what_has_cooled_is_given_back_when_space_is_short),
		cmocka_unit_test(an_object_that_goes_is_forgotten),
		cmocka_unit_test(the_hot_ones_are_seen_among_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
