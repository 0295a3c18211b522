/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_space.c - the allocator of one segment
 *
 * The random test prints its seed; TE_TEST_SEED=<seed> runs only that one.
 */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "store/core/space.h"

#define UNIT ((uint64_t)TES_SPACE_UNIT)

struct rig {
	struct tei_slab nodes;
	struct tes_space space;
};

static void rig_init(struct rig *r, uint64_t size)
{
	tei_slab_init(&r->nodes, sizeof(struct tes_extent), 64);
	assert_int_equal(tes_space_init(&r->space, &r->nodes, size), 0);
}

static void rig_fini(struct rig *r)
{
	tes_space_fini(&r->space);
	assert_int_equal(r->nodes.n_used, 0);
	tei_slab_fini(&r->nodes);
}

static void a_whole_space_can_be_taken_and_given_back(void **state)
{
	struct tes_extent *e;
	struct rig r;

	(void)state;
	rig_init(&r, 1u << 20);
	for (int i = 0; i < 3; i++) {
		e = tes_space_take(&r.space, 1u << 20, &r);
		assert_non_null(e);
		assert_int_equal(e->offset, 0);
		assert_int_equal(r.space.used, 1u << 20);
		assert_null(tes_space_take(&r.space, UNIT, &r));
		tes_space_give(&r.space, e);
		assert_int_equal(r.space.used, 0);
	}
	rig_fini(&r);
}

static void equal_sizes_fill_a_space_to_the_last_byte(void **state)
{
	struct tes_extent *e[256];
	struct rig r;

	(void)state;
	rig_init(&r, 256 * 4160);
	for (int i = 0; i < 256; i++)
		assert_non_null(e[i] = tes_space_take(&r.space, 4160, &r));
	assert_null(tes_space_take(&r.space, UNIT, &r));
	for (int i = 0; i < 256; i += 2)
		tes_space_give(&r.space, e[i]);
	for (int i = 0; i < 256; i += 2)
		assert_non_null(tes_space_take(&r.space, 4160, &r));
	assert_int_equal(r.space.used, r.space.size);
	rig_fini(&r);
}

static void neighbours_are_joined_in_every_order(void **state)
{
	static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					 {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	struct tes_extent *e[3];
	struct rig r;

	(void)state;
	rig_init(&r, 3 * UNIT);
	for (int o = 0; o < 6; o++) {
		for (int i = 0; i < 3; i++)
			e[i] = tes_space_take(&r.space, UNIT, &r);
		for (int i = 0; i < 3; i++)
			tes_space_give(&r.space, e[orders[o][i]]);
		assert_int_equal(r.nodes.n_used, 1);
	}
	rig_fini(&r);
}

static void a_hole_of_the_same_bin_is_found_behind_smaller_ones(void **state)
{
	/* 257 and 260 units share a bin; the larger lies deepest in it. */
	struct tes_extent *small[20], *large, *wall;
	struct rig r;

	(void)state;
	rig_init(&r, (260 + 20 * 258 + 1) * UNIT);
	large = tes_space_take(&r.space, 260 * UNIT, &r);
	wall = tes_space_take(&r.space, UNIT, &r);
	for (int i = 0; i < 20; i++) {
		small[i] = tes_space_take(&r.space, 257 * UNIT, &r);
		assert_non_null(tes_space_take(&r.space, UNIT, &r));
	}
	tes_space_give(&r.space, large);
	for (int i = 0; i < 20; i++)
		tes_space_give(&r.space, small[i]);
	large = tes_space_take(&r.space, 259 * UNIT, &r);
	assert_non_null(large);
	assert_int_equal(large->offset, 0);
	assert_int_equal(wall->offset, 260 * UNIT);
	rig_fini(&r);
}

static void the_largest_space_works(void **state)
{
	struct tes_extent *e;
	struct rig r;

	(void)state;
	rig_init(&r, TES_SPACE_MAX);
	e = tes_space_take(&r.space, TES_SPACE_MAX - UNIT, &r);
	assert_non_null(e);
	assert_non_null(tes_space_take(&r.space, UNIT, &r));
	assert_null(tes_space_take(&r.space, UNIT, &r));
	rig_fini(&r);
}

static void a_take_without_memory_changes_nothing(void **state)
{
	struct tes_extent *e[63];
	struct rig r;

	(void)state;
	rig_init(&r, 1u << 20);
	for (int i = 0; i < 63; i++)
		e[i] = tes_space_take(&r.space, UNIT, &r);
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_null(tes_space_take(&r.space, UNIT, &r));
	assert_true(tei_fault_struck(TEI_FAULT_ALLOC));
	tei_fault_disarm_all();
	assert_int_equal(r.space.used, 63 * UNIT);
	for (int i = 0; i < 63; i++)
		tes_space_give(&r.space, e[i]);
	assert_non_null(tes_space_take(&r.space, 1u << 20, &r));
	rig_fini(&r);
}

/* Random takes and gives against a map of units. */

#define MAP_UNITS 2048
#define LIVE_MAX  512

struct model {
	struct rig rig;
	uint64_t random;
	uint8_t taken[MAP_UNITS];
	struct tes_extent *live[LIVE_MAX];
	size_t n_live;
};

static unsigned int roll(struct model *m, unsigned int n)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(m->random >> 33) % n;
}

static void mark(struct model *m, const struct tes_extent *e, uint8_t to)
{
	for (uint64_t u = e->offset / UNIT; u < (e->offset + e->size) / UNIT;
	     u++) {
		assert_int_not_equal(m->taken[u], to);
		m->taken[u] = to;
	}
}

static bool map_has_hole(const struct model *m, uint64_t units)
{
	uint64_t run = 0;

	for (int u = 0; u < MAP_UNITS; u++) {
		run = m->taken[u] ? 0 : run + 1;
		if (run >= units)
			return true;
	}
	return false;
}

static void check_tiling(const struct model *m)
{
	const struct tes_extent *before = NULL;
	uint64_t at = 0, used = 0;

	tei_list_for_each (pos, &m->rig.space.order) {
		struct tes_extent *e =
			tei_list_entry(pos, struct tes_extent, order);

		assert_int_equal(e->offset, at);
		assert_false(before && !before->space && !e->space);
		at += e->size;
		used += e->space ? e->size : 0;
		before = e;
	}
	assert_int_equal(at, MAP_UNITS * UNIT);
	assert_int_equal(used, m->rig.space.used);
}

static void take_some(struct model *m)
{
	uint64_t units = 1 + roll(m, roll(m, 4) ? 20 : 200);
	struct tes_extent *e;

	if (m->n_live == LIVE_MAX)
		return;
	e = tes_space_take(&m->rig.space, units * UNIT, m);
	assert_int_equal(e != NULL, map_has_hole(m, units));
	if (!e)
		return;
	assert_int_equal(e->size, units * UNIT);
	mark(m, e, 1);
	m->live[m->n_live++] = e;
}

static void give_some(struct model *m)
{
	size_t i;

	if (!m->n_live)
		return;
	i = roll(m, (unsigned int)m->n_live);
	mark(m, m->live[i], 0);
	tes_space_give(&m->rig.space, m->live[i]);
	m->live[i] = m->live[--m->n_live];
}

static void run_seed(uint64_t seed)
{
	struct model *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->random = seed;
	rig_init(&m->rig, MAP_UNITS * UNIT);
	for (int i = 0; i < 2000; i++) {
		if (roll(m, 100) < 52)
			take_some(m);
		else
			give_some(m);
		if (i % 50 == 0)
			check_tiling(m);
	}
	while (m->n_live)
		give_some(m);
	assert_int_equal(m->rig.nodes.n_used, 1);
	rig_fini(&m->rig);
	free(m);
}

static void random_use_agrees_with_a_map_of_units(void **state)
{
	const char *one = getenv("TE_TEST_SEED");
	uint64_t first = one ? strtoull(one, NULL, 10) : 1;

	(void)state;
	for (uint64_t seed = first; seed < (one ? first + 1 : 201); seed++) {
		print_message("seed %llu\r", (unsigned long long)seed);
		run_seed(seed);
	}
}

/* Random frees until a take fails: how full is the space then? */
static void churn_of_mixed_sizes_wastes_less_than_a_twentieth(void **state)
{
	static struct tes_extent *live[1 << 16];
	struct model m = {.random = 7};
	double worst = 1, full;
	size_t n = 0, i;

	(void)state;
	rig_init(&m.rig, 64u << 20);
	for (int round = 0; round < 200000; round++) {
		uint64_t size = (1 + roll(&m, 256)) * UNIT;
		struct tes_extent *e = tes_space_take(&m.rig.space, size, &m);

		if (e) {
			live[n++] = e;
			continue;
		}
		full = (double)m.rig.space.used / (double)m.rig.space.size;
		if (full < worst)
			worst = full;
		assert(n > 0); /* for the analyzer; n takes came first */
		i = roll(&m, (unsigned int)n);
		tes_space_give(&m.rig.space, live[i]);
		live[i] = live[--n];
	}
	print_message("fullness when a take fails: %.3f at worst\n", worst);
	assert_true(worst > 0.95);
	rig_fini(&m.rig);
}

/* Every second of @n pieces of @size bytes is free. */
static void make_holes(struct rig *r, int n, uint64_t size)
{
	struct tes_extent *e[64];

	assert_true(n <= 64);
	rig_init(r, (uint64_t)n * size);
	for (int i = 0; i < n; i++)
		assert_non_null(e[i] = tes_space_take(&r->space, size, r));
	for (int i = 0; i < n; i += 2)
		tes_space_give(&r->space, e[i]);
}

static void parts_are_the_largest_holes_and_full_but_for_the_last(void **state)
{
	struct tes_extent *parts[TES_SPACE_PARTS];
	uint64_t used;
	struct rig r;

	(void)state;
	make_holes(&r, 8, 100 * UNIT);
	used = r.space.used;
	assert_int_equal(
		tes_space_take_parts(&r.space, 250 * UNIT, 64, 128, &r, parts),
		3);
	assert_int_equal(parts[0]->size, 100 * UNIT);
	assert_int_equal(parts[1]->size, 100 * UNIT);
	assert_int_equal(parts[2]->size, 53 * UNIT);
	assert_int_equal(r.space.used, used + 253 * UNIT);
	for (int i = 0; i < 3; i++)
		tes_space_give(&r.space, parts[i]);
	assert_int_equal(r.space.used, used);
	rig_fini(&r);
}

static void parts_are_neither_too_small_nor_too_many(void **state)
{
	struct tes_extent *parts[TES_SPACE_PARTS];
	struct rig r;

	(void)state;
	make_holes(&r, 64, 100 * UNIT);
	/* Holes below the floor. */
	assert_int_equal(tes_space_take_parts(&r.space, 250 * UNIT, 64,
					      101 * UNIT, &r, parts),
			 0);
	/* More than 16 would be needed. */
	assert_int_equal(tes_space_take_parts(&r.space, 16 * 99 * UNIT + 1, 64,
					      128, &r, parts),
			 0);
	tes_space_give(&r.space, tes_space_take(&r.space, UNIT, &r));
	assert_int_equal(tes_space_take_parts(&r.space, 16 * 99 * UNIT, 64, 128,
					      &r, parts),
			 16);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_space_can_be_taken_and_given_back),
		cmocka_unit_test(equal_sizes_fill_a_space_to_the_last_byte),
		cmocka_unit_test(neighbours_are_joined_in_every_order),
		cmocka_unit_test(
			a_hole_of_the_same_bin_is_found_behind_smaller_ones),
		cmocka_unit_test(the_largest_space_works),
		cmocka_unit_test(a_take_without_memory_changes_nothing),
		cmocka_unit_test(
			parts_are_the_largest_holes_and_full_but_for_the_last),
		cmocka_unit_test(parts_are_neither_too_small_nor_too_many),
		cmocka_unit_test(random_use_agrees_with_a_map_of_units),
		cmocka_unit_test(
			churn_of_mixed_sizes_wastes_less_than_a_twentieth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
