/* SPDX-License-Identifier: Apache-2.0 */
/* test_upsert.c - values that take the place of others, at their end */
#include "tests/unit/store_core/rig.h"

static struct grant upsert(struct rig *r, tes_session_id s, const char *key,
			   uint64_t size)
{
	return rig_start_as(r, s, key, size, NULL, NULL, true);
}

static void an_upsert_of_nothing_is_a_put(void **state)
{
	struct grant g;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	g = upsert(&r, 2, "a", 100);
	assert_int_equal(g.status, 0);
	assert_int_equal(rig_lookup(&r, 2, "a").status, -703);
	assert_int_equal(rig_end(&r, 2, "a", g.generation), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, g.generation);
	rig_fini(&r);
}

static void the_old_value_is_read_until_the_end(void **state)
{
	struct grant old, new;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	old = rig_put(&r, 2, "a", 100);
	new = upsert(&r, 1, "a", 5000);
	assert_int_equal(new.status, 0);
	assert_true(new.address != old.address);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, old.generation);
	assert_int_equal(rig_exist(&r, 2, "a"), 1);
	/* A put finds it there, too. */
	assert_int_equal(rig_start(&r, 2, "a", 100).status, -705);
	assert_int_equal(rig_end(&r, 1, "a", new.generation), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, new.generation);
	assert_int_equal(rig_lookup(&r, 2, "a").size, 5000);
	assert_int_equal(rig_figures(&r).objects, 1);
	assert_int_equal(rig_figures(&r).used_bytes, 5120);
	/* Told again, since the answer may have been lost. */
	assert_int_equal(rig_end(&r, 1, "a", new.generation), 0);
	rig_fini(&r);
}

static void a_revoke_leaves_the_old_value(void **state)
{
	struct grant old, new;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	old = rig_put(&r, 2, "a", 100);
	new = upsert(&r, 2, "a", 5000);
	assert_int_equal(rig_end_as(&r, 2, "a", new.generation, EPOCH, 0), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, old.generation);
	assert_int_equal(rig_figures(&r).used_bytes, 192);
	assert_int_equal(rig_figures(&r).building, 0);
	/* And it can be upserted once more. */
	new = upsert(&r, 2, "a", 300);
	assert_int_equal(rig_end(&r, 2, "a", new.generation), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").size, 300);
	rig_fini(&r);
}

static void an_upsert_preempts_what_is_unfinished(void **state)
{
	struct grant put, first, second;
	const struct tes_action *fence;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	assert_int_equal(rig_join(&r, 3, 'x', 'X'), 0);
	put = rig_start(&r, 2, "a", 100);
	first = upsert(&r, 3, "a", 100);
	assert_int_equal(first.status, 0);
	fence = rig_find(&r, TES_ACTION_FENCE);
	assert_non_null(fence);
	assert_int_equal(fence->u.fence.writer[0], 'W');
	assert_int_equal(rig_end(&r, 2, "a", put.generation), -601);
	assert_int_equal(rig_end(&r, 3, "a", first.generation), 0);
	second = upsert(&r, 2, "a", 200);
	first = upsert(&r, 3, "a", 300);
	assert_non_null(rig_find(&r, TES_ACTION_FENCE));
	assert_int_equal(rig_end(&r, 2, "a", second.generation), -700);
	assert_int_equal(rig_end(&r, 3, "a", first.generation), 0);
	assert_int_equal(rig_lookup(&r, 1, "a").size, 300);
	rig_fini(&r);
}

static void a_successor_stands_alone_when_the_old_value_goes(void **state)
{
	struct grant new;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_put(&r, 2, "a", 100);
	new = upsert(&r, 2, "a", 200);
	assert_int_equal(rig_remove(&r, 1, "a", false), 0);
	assert_int_equal(rig_lookup(&r, 1, "a").status, -703);
	assert_int_equal(rig_start(&r, 1, "a", 100).status, -705);
	assert_int_equal(rig_end(&r, 2, "a", new.generation), 0);
	assert_int_equal(rig_lookup(&r, 1, "a").size, 200);
	rig_fini(&r);
}

static void a_dead_writers_successor_leaves_the_old_value(void **state)
{
	struct grant old;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	old = rig_put(&r, 2, "a", 100);
	upsert(&r, 2, "a", 200);
	rig_plain(&r, TES_EVENT_LEAVE, 2);
	rig_pass(&r, rig_config.suspect_ms + 200, "1");
	assert_int_equal(rig_figures(&r).building, 0);
	assert_int_equal(rig_figures(&r).fencing, 1);
	assert_int_equal(rig_lookup(&r, 1, "a").generation, old.generation);
	rig_fini(&r);
}

static void room_for_a_successor_costs_others_first(void **state)
{
	struct grant old, new;
	char key[16];
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	old = rig_put(&r, 2, "a", 4096 - 64);
	for (int i = 0; i < 15; i++) {
		snprintf(key, sizeof(key), "%d", i);
		assert_int_equal(rig_put(&r, 2, key, 4096 - 64).status, 0);
	}
	/* The whole segment but the old value's own extent. */
	new = upsert(&r, 2, "a", 0xf000 - 64);
	assert_int_equal(new.status, 0);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, old.generation);
	assert_int_equal(rig_figures(&r).objects, 1);
	assert_int_equal(rig_end_as(&r, 2, "a", new.generation, EPOCH, 0), 0);
	/* And all of it cannot be had while the old value is there. */
	assert_int_equal(upsert(&r, 2, "a", 0x10000 - 64).status, -200);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, old.generation);
	rig_fini(&r);
}

static void groups_are_for_life(void **state)
{
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	rig_end(&r, 2, "a",
		rig_start_as(&r, 2, "a", 100, NULL, "g", false).generation);
	assert_int_equal(rig_start_as(&r, 2, "a", 100, NULL, "h", true).status,
			 -600);
	assert_int_equal(rig_start_as(&r, 2, "a", 100, NULL, "g", true).status,
			 0);
	assert_int_equal(rig_start_as(&r, 2, "a", 100, NULL, NULL, true).status,
			 0);
	rig_put(&r, 2, "b", 100);
	assert_int_equal(rig_start_as(&r, 2, "b", 100, NULL, "g", true).status,
			 -600);
	rig_fini(&r);
}

/* Its owner (1) is silent; a second one (3) has room. */
static void fall_silent(struct rig *r)
{
	assert_int_equal(rig_join(r, 3, 'x', 'X'), 0);
	assert_int_equal(rig_mount(r, 3, 'n', 0x10000, 0x1000), 0);
	rig_pass(r, rig_config.suspect_ms + 100, "23");
	assert_int_equal(rig_figures(r).suspects, 1);
}

static void a_refused_put_leaves_what_a_silent_owner_has(void **state)
{
	struct grant old;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	old = rig_put(&r, 2, "a", 100);
	fall_silent(&r);
	assert_int_equal(rig_start(&r, 2, "a", 0x2000).status, -200);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 1);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, old.generation);
	rig_fini(&r);
}

static void a_put_takes_the_place_of_what_a_silent_owner_has(void **state)
{
	struct grant old, new;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	old = rig_put(&r, 2, "a", 100);
	fall_silent(&r);
	new = rig_start(&r, 2, "a", 200);
	assert_int_equal(new.status, 0);
	/* Another put meets the one under way. */
	assert_int_equal(rig_start(&r, 3, "a", 300).status, -705);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 1);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, old.generation);
	assert_int_equal(rig_end(&r, 2, "a", new.generation), 0);
	assert_int_equal(rig_lookup(&r, 2, "a").size, 200);
	assert_int_equal(rig_figures(&r).objects, 1);
	rig_fini(&r);
}

static void a_revoked_put_leaves_what_a_silent_owner_has(void **state)
{
	struct grant old, new;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	old = rig_put(&r, 2, "a", 100);
	fall_silent(&r);
	new = rig_start(&r, 2, "a", 200);
	assert_int_equal(new.status, 0);
	assert_int_equal(rig_end_as(&r, 2, "a", new.generation, EPOCH, 0), 0);
	rig_plain(&r, TES_EVENT_HEARTBEAT, 1);
	assert_int_equal(rig_lookup(&r, 2, "a").generation, old.generation);
	rig_fini(&r);
}

static void a_refused_upsert_leaves_the_put_under_way(void **state)
{
	struct grant put, first;
	struct rig r;

	(void)state;
	rig_init(&r, NULL);
	rig_pair(&r);
	put = rig_start(&r, 2, "a", 0x8000);
	assert_int_equal(upsert(&r, 1, "a", 0x9000).status, -200);
	assert_null(rig_find(&r, TES_ACTION_FENCE));
	assert_int_equal(rig_end(&r, 2, "a", put.generation), 0);
	/* And the upsert under way. */
	first = upsert(&r, 2, "a", 0x1000);
	assert_int_equal(upsert(&r, 1, "a", 0x9000).status, -200);
	assert_int_equal(rig_end(&r, 2, "a", first.generation), 0);
	assert_int_equal(rig_lookup(&r, 1, "a").size, 0x1000);
	assert_int_equal(rig_figures(&r).discarded_puts_total, 0);
	rig_fini(&r);
}

static void an_upsert_without_memory_leaves_the_put_under_way(void **state)
{
	unsigned int n = 0;
	struct grant put;
	bool struck;
	struct rig r;
	int status;

	(void)state;
	do {
		rig_init(&r, NULL);
		rig_pair(&r);
		put = rig_start(&r, 2, "a", 100);
		tei_fault_arm(TEI_FAULT_ALLOC, ++n);
		status = upsert(&r, 1, "a", 100).status;
		struck = tei_fault_struck(TEI_FAULT_ALLOC);
		tei_fault_disarm_all();
		assert_int_equal(rig_end(&r, 2, "a", put.generation),
				 status ? 0 : -601);
		rig_fini(&r);
	} while (struck);
	assert_true(n > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_upsert_of_nothing_is_a_put),
		cmocka_unit_test(the_old_value_is_read_until_the_end),
		cmocka_unit_test(a_revoke_leaves_the_old_value),
		cmocka_unit_test(an_upsert_preempts_what_is_unfinished),
		cmocka_unit_test(
			a_successor_stands_alone_when_the_old_value_goes),
		cmocka_unit_test(a_dead_writers_successor_leaves_the_old_value),
		cmocka_unit_test(room_for_a_successor_costs_others_first),
		cmocka_unit_test(groups_are_for_life),
		cmocka_unit_test(a_refused_put_leaves_what_a_silent_owner_has),
		cmocka_unit_test(
			a_put_takes_the_place_of_what_a_silent_owner_has),
		cmocka_unit_test(a_revoked_put_leaves_what_a_silent_owner_has),
		cmocka_unit_test(a_refused_upsert_leaves_the_put_under_way),
		cmocka_unit_test(
			an_upsert_without_memory_leaves_the_put_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
