/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_popularity.c - what is drawn, how often, and the same again
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "perf/lib/popularity.h"

#define DRAWS 400000u

static uint32_t seen[1000];

static void draw_many(uint64_t n, double theta)
{
	struct tei_popularity p;
	uint64_t state = 7, i;

	memset(seen, 0, sizeof(seen));
	tei_popularity_init(&p, n, theta);
	for (uint32_t k = 0; k < DRAWS; k++) {
		i = tei_popularity_draw(&p, &state);
		assert_true(i < n);
		seen[i]++;
	}
}

/* As often as it is due, within five standard deviations. */
static void assert_share(uint64_t i, double share)
{
	double want = share * DRAWS, off = fabs((double)seen[i] - want);

	assert_true(off <= 5 * sqrt(want) + 1);
}

static double weight(uint64_t i, double theta)
{
	return pow((double)i + 1, -theta);
}

static void assert_zipf(uint64_t n, double theta)
{
	double sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += weight(i, theta);
	draw_many(n, theta);
	for (uint64_t i = 0; i < n; i++)
		assert_share(i, weight(i, theta) / sum);
}

static void uniform_gives_each_its_share(void **state)
{
	(void)state;
	draw_many(1000, 0);
	for (uint64_t i = 0; i < 1000; i++)
		assert_share(i, 0.001);
}

static void zipf_gives_each_its_share(void **state)
{
	(void)state;
	assert_zipf(1000, 0.99);
	assert_zipf(1000, 1);
	assert_zipf(100, 0.5);
	assert_zipf(50, 2);
}

static void one_thing_is_always_drawn(void **state)
{
	(void)state;
	draw_many(1, 0);
	draw_many(1, 0.99);
	assert_int_equal(seen[0], DRAWS);
}

static void very_many_things_stay_inside(void **state)
{
	struct tei_popularity p;
	uint64_t chance = 1, n = 1ull << 48, most = 0, i;

	(void)state;
	tei_popularity_init(&p, n, 0.99);
	for (uint32_t k = 0; k < 100000; k++) {
		i = tei_popularity_draw(&p, &chance);
		assert_true(i < n);
		if (i > most)
			most = i;
	}
	assert_true(most > n / 4);
}

static void the_same_seed_draws_the_same(void **state)
{
	struct tei_popularity p;
	uint64_t a = 5, b = 5;

	(void)state;
	tei_popularity_init(&p, 1 << 20, 0.8);
	for (uint32_t k = 0; k < 1000; k++)
		assert_int_equal(tei_popularity_draw(&p, &a),
				 tei_popularity_draw(&p, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uniform_gives_each_its_share),
		cmocka_unit_test(zipf_gives_each_its_share),
		cmocka_unit_test(one_thing_is_always_drawn),
		cmocka_unit_test(very_many_things_stay_inside),
		cmocka_unit_test(the_same_seed_draws_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
