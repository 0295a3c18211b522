/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ghosts.c - what is remembered of evicted keys
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/chance.h"
#include "base/fault.h"
#include "store/core/policy.h"

#define MANY 200000u

static uint64_t hash(size_t i)
{
	return tei_chance_mix(i + 1);
}

static void put_many(struct tes_ghosts *g, size_t n, size_t limit)
{
	for (size_t i = 0; i < n; i++)
		tes_ghosts_put(g, hash(i), (uint16_t)7, (uint8_t)(1 + i % 8), 9,
			       limit);
}

static void what_was_put_is_taken_once(void **state)
{
	struct tes_ghosts g;
	uint16_t tick = 0;
	uint8_t touches = 0;

	(void)state;
	tes_ghosts_init(&g);
	assert_false(tes_ghosts_take(&g, hash(1), 9, &tick, &touches));
	tes_ghosts_put(&g, hash(1), 7, 3, 9, 100);
	assert_false(tes_ghosts_take(&g, hash(2), 9, &tick, &touches));
	assert_true(tes_ghosts_take(&g, hash(1), 9, &tick, &touches));
	assert_int_equal(tick, 7);
	assert_int_equal(touches, 3);
	assert_false(tes_ghosts_take(&g, hash(1), 9, &tick, &touches));
	tes_ghosts_fini(&g);
}

static void most_of_many_are_kept_at_under_30_bytes_each(void **state)
{
	struct tes_ghosts g;
	size_t found = 0;
	uint16_t tick;
	uint8_t touches;

	(void)state;
	tes_ghosts_init(&g);
	put_many(&g, MANY, MANY);
	print_message("%zu of %u, %zu bytes\n", g.n, MANY,
		      tes_ghosts_bytes(&g));
	assert_true(g.n > MANY / 100 * 75 && g.n <= MANY);
	assert_true(tes_ghosts_bytes(&g) / g.n < 30);
	for (size_t i = 0; i < MANY; i++)
		found += tes_ghosts_take(&g, hash(i), 9, &tick, &touches) &&
			 touches == 1 + i % 8;
	/* A few pairs of keys have the same 32 bits. */
	assert_true(found > MANY / 100 * 75);
	assert_true(g.n < MANY / 1000);
	tes_ghosts_fini(&g);
}

static void a_limit_bounds_the_memory(void **state)
{
	struct tes_ghosts g;
	size_t bytes;

	(void)state;
	tes_ghosts_init(&g);
	put_many(&g, MANY / 10, MANY / 20);
	bytes = tes_ghosts_bytes(&g);
	put_many(&g, MANY, MANY / 20);
	assert_int_equal(tes_ghosts_bytes(&g), bytes);
	assert_true(g.n <= MANY / 10);
	tes_ghosts_fini(&g);
}

static void old_ones_are_none_and_are_swept(void **state)
{
	struct tes_ghosts g;
	uint16_t tick, now = 65535;
	uint8_t touches;

	(void)state;
	tes_ghosts_init(&g);
	tes_ghosts_put(&g, hash(0), now, 1, now, MANY);
	now = (uint16_t)(now + TES_GHOSTS_AGES - 1);
	assert_true(tes_ghosts_take(&g, hash(0), now, &tick, &touches));
	for (size_t i = 0; i < 1000; i++)
		tes_ghosts_put(&g, hash(i), 10, 1, 10, MANY);
	now = 10 + TES_GHOSTS_AGES;
	assert_false(tes_ghosts_take(&g, hash(0), now, &tick, &touches));
	for (size_t i = 0; i < 1000; i++)
		tes_ghosts_put(&g, hash(1000 + i % 10), now, 1, now, MANY);
	assert_true(g.n <= 1000);
	for (size_t i = 0; i < 1000; i++)
		assert_false(
			tes_ghosts_take(&g, hash(i), now, &tick, &touches));
	tes_ghosts_fini(&g);
}

static void without_memory_ghosts_are_lost_and_nothing_else(void **state)
{
	struct tes_ghosts g;
	uint16_t tick;
	uint8_t touches;

	(void)state;
	for (unsigned int nth = 1; nth < 4; nth++) {
		tes_ghosts_init(&g);
		tei_fault_arm(TEI_FAULT_ALLOC, nth);
		put_many(&g, 20000, 20000);
		assert_true(tei_fault_struck(TEI_FAULT_ALLOC));
		tei_fault_disarm_all();
		put_many(&g, 20000, 20000);
		assert_true(
			tes_ghosts_take(&g, hash(19999), 9, &tick, &touches));
		tes_ghosts_fini(&g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_is_taken_once),
		cmocka_unit_test(most_of_many_are_kept_at_under_30_bytes_each),
		cmocka_unit_test(a_limit_bounds_the_memory),
		cmocka_unit_test(old_ones_are_none_and_are_swept),
		cmocka_unit_test(
			without_memory_ghosts_are_lost_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
