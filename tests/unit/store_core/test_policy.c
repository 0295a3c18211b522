/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_policy.c - which object is worth least, by rules and by hit ratios
 *
 * Hit ratios are of bytes, beside those of an exact LRU with as much room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/chance.h"
#include "base/mem.h"
#include "store/core/policy.h"
#include "tests/bench/policy/simulate.h"

#define BLOCK 65536u

/* ---- rules ---- */

struct rig {
	struct tes_policy p;
	struct tes_policy_node node[64];
};

static uint64_t hash(size_t i)
{
	return tei_chance_mix(i + 1);
}

static void setup(struct rig *r, uint64_t blocks)
{
	tes_policy_init(&r->p);
	tes_policy_set_capacity(&r->p, blocks * BLOCK);
}

static void add(struct rig *r, size_t i)
{
	tes_policy_add(&r->p, &r->node[i], BLOCK, hash(i));
}

static size_t victim(struct rig *r)
{
	return (size_t)(tes_policy_victim(&r->p) - r->node);
}

static void an_empty_policy_has_no_victim(void **state)
{
	struct rig r;

	(void)state;
	setup(&r, 0);
	assert_true(tes_policy_empty(&r.p));
	assert_null(tes_policy_victim(&r.p));
	assert_int_equal(tes_policy_bytes(&r.p), 0);
	tes_policy_fini(&r.p);
}

static void the_oldest_of_those_used_as_often_goes_first(void **state)
{
	struct rig r;

	(void)state;
	setup(&r, 64);
	for (size_t i = 0; i < 4; i++)
		add(&r, i);
	assert_int_equal(victim(&r), 0);
	for (size_t i = 0; i < 4; i++)
		tes_policy_touch(&r.p, &r.node[3 - i]);
	assert_int_equal(victim(&r), 3);
	tes_policy_fini(&r.p);
}

static void what_was_used_twice_outlives_what_was_used_once(void **state)
{
	struct rig r;

	(void)state;
	setup(&r, 64);
	for (size_t i = 0; i < 4; i++)
		add(&r, i);
	tes_policy_touch(&r.p, &r.node[0]);
	assert_int_equal(victim(&r), 1);
	tes_policy_fini(&r.p);
}

static void what_is_held_is_no_victim_until_it_is_released(void **state)
{
	struct rig r;

	(void)state;
	setup(&r, 64);
	add(&r, 0);
	add(&r, 1);
	tes_policy_hold(&r.p, &r.node[0]);
	tes_policy_hold(&r.p, &r.node[0]);
	assert_int_equal(victim(&r), 1);
	tes_policy_touch(&r.p, &r.node[0]);
	assert_int_equal(victim(&r), 1);
	tes_policy_hold(&r.p, &r.node[1]);
	assert_null(tes_policy_victim(&r.p));
	tes_policy_release(&r.p, &r.node[0]);
	assert_int_equal(victim(&r), 0);
	tes_policy_fini(&r.p);
}

static void what_was_held_for_long_comes_back_as_old_as_it_is(void **state)
{
	struct rig r;

	(void)state;
	setup(&r, 16);
	add(&r, 0);
	tes_policy_hold(&r.p, &r.node[0]);
	for (size_t i = 1; i < 16; i++)
		add(&r, i);
	assert_int_equal(victim(&r), 1);
	tes_policy_release(&r.p, &r.node[0]);
	assert_int_equal(victim(&r), 0);
	tes_policy_fini(&r.p);
}

static void what_comes_back_from_among_the_ghosts_was_used_twice(void **state)
{
	struct rig r;

	(void)state;
	setup(&r, 64);
	for (size_t i = 0; i < 4; i++)
		add(&r, i);
	tes_policy_evicted(&r.p, &r.node[0], hash(0));
	tes_policy_removed(&r.p, &r.node[1]);
	assert_int_equal(r.p.n, 2);
	add(&r, 0);
	add(&r, 1);
	assert_int_equal(r.node[0].touches, 2);
	assert_int_equal(r.node[1].touches, 1); /* nobody asked for it again */
	tes_policy_fini(&r.p);
}

static void objects_larger_than_all_there_is_do_no_harm(void **state)
{
	struct rig r;

	(void)state;
	setup(&r, 0);
	add(&r, 0);
	tes_policy_add(&r.p, &r.node[1], UINT64_MAX / 2, hash(1));
	tes_policy_touch(&r.p, &r.node[1]);
	assert_int_equal(victim(&r), 0);
	tes_policy_evicted(&r.p, &r.node[1], hash(1));
	tes_policy_removed(&r.p, &r.node[0]);
	assert_true(tes_policy_empty(&r.p));
	tes_policy_fini(&r.p);
}

/* ---- hit ratios ---- */

static uint64_t no_clock(void)
{
	return 0;
}

static double percent(const struct tei_workload *w, enum tei_sim_kind kind,
		      uint64_t blocks, struct tei_sim_result *r)
{
	uint64_t capacity = (uint64_t)(tei_workload_mean(w) * (double)blocks);

	assert_int_equal(tei_simulate(w, kind, capacity, no_clock, r), 0);
	return 100.0 * (double)r->hit_bytes / (double)r->bytes;
}

/* By how many points of hits the policy is above LRU. */
static double gain(const struct tei_workload *w, uint64_t blocks)
{
	struct tei_sim_result lru, own;
	double base = percent(w, TEI_SIM_LRU, blocks, &lru);
	double with = percent(w, TEI_SIM_POLICY, blocks, &own);

	print_message("%zu blocks: %.2f %%, LRU %.2f %%\n", (size_t)blocks,
		      with, base);
	assert_int_equal(own.bytes, lru.bytes);
	return with - base;
}

static void load_excerpt(struct tei_workload *w)
{
	char error[TEI_TRACE_ERROR_LEN];
	struct tei_trace t;

	assert_int_equal(tei_trace_load(TE_TRACES "/conversation_2000.jsonl", 0,
					&t, error),
			 0);
	assert_int_equal(tei_workload_of_trace(&t, BLOCK, w), 0);
	tei_trace_free(&t);
}

static void make(struct tei_workload *w, const char *kind)
{
	assert_int_equal(tei_workload_make(kind, 200000, 20000, BLOCK, w), 0);
}

static void more_of_a_trace_is_hit_than_by_lru(void **state)
{
	struct tei_workload w;

	(void)state;
	load_excerpt(&w);
	assert_true(gain(&w, 1000) > 0.8);
	assert_true(gain(&w, 2000) > 1.5);
	assert_true(gain(&w, 5000) > 0.5);
	assert_true(gain(&w, 10000) > 0);
	assert_true(gain(&w, 30000) > -0.1);
	tei_workload_mix_sizes(&w, BLOCK);
	assert_true(gain(&w, 2000) > 1);
	assert_true(gain(&w, 5000) > 0);
	tei_workload_free(&w);
}

static void popular_keys_are_kept_better_than_by_lru(void **state)
{
	struct tei_workload w;

	(void)state;
	make(&w, "zipf");
	assert_true(gain(&w, 1000) > 4);
	assert_true(gain(&w, 10000) > 0.5);
	tei_workload_mix_sizes(&w, BLOCK);
	assert_true(gain(&w, 1000) > 4);
	tei_workload_free(&w);
}

static void a_scan_does_not_wash_the_pool_out(void **state)
{
	struct tei_workload w;

	(void)state;
	make(&w, "scan");
	assert_true(gain(&w, 1000) > 1);
	assert_true(gain(&w, 5000) > 1);
	tei_workload_free(&w);
}

static void part_of_a_loop_too_large_for_lru_is_hit(void **state)
{
	struct tei_workload w;

	(void)state;
	make(&w, "loop");
	assert_true(gain(&w, 15000) > 1);
	tei_workload_free(&w);
}

static void when_other_keys_become_popular_they_are_kept(void **state)
{
	struct tei_workload w;

	(void)state;
	make(&w, "shift");
	assert_true(gain(&w, 1000) > 1);
	assert_true(gain(&w, 5000) > -0.5);
	assert_true(gain(&w, 10000) > -0.5);
	tei_workload_free(&w);
}

static void ghosts_are_bounded(void **state)
{
	struct tei_sim_result r;
	struct tei_workload w;

	(void)state;
	load_excerpt(&w);
	percent(&w, TEI_SIM_POLICY, 5000, &r);
	assert_true(r.ghosts > 5000 && r.ghosts < 5 * 5000);
	assert_true(r.ghost_bytes / r.ghosts < 30);
	tei_workload_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_policy_has_no_victim),
		cmocka_unit_test(the_oldest_of_those_used_as_often_goes_first),
		cmocka_unit_test(
			what_was_used_twice_outlives_what_was_used_once),
		cmocka_unit_test(
			what_is_held_is_no_victim_until_it_is_released),
		cmocka_unit_test(
			what_was_held_for_long_comes_back_as_old_as_it_is),
		cmocka_unit_test(
			what_comes_back_from_among_the_ghosts_was_used_twice),
		cmocka_unit_test(objects_larger_than_all_there_is_do_no_harm),
		cmocka_unit_test(more_of_a_trace_is_hit_than_by_lru),
		cmocka_unit_test(popular_keys_are_kept_better_than_by_lru),
		cmocka_unit_test(a_scan_does_not_wash_the_pool_out),
		cmocka_unit_test(part_of_a_loop_too_large_for_lru_is_hit),
		cmocka_unit_test(when_other_keys_become_popular_they_are_kept),
		cmocka_unit_test(ghosts_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
