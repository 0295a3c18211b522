/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_histogram.c - percentiles are right to 1/64
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "perf/lib/histogram.h"

static struct tei_histogram h, other;

static void assert_near(uint64_t got, uint64_t want)
{
	assert_true(got >= want);
	assert_true(got - want <= want / 64 + 1);
}

static void an_empty_histogram_has_quantiles_of_zero(void **state)
{
	(void)state;
	memset(&h, 0, sizeof(h));
	assert_int_equal(tei_histogram_quantile(&h, 0.5), 0);
	assert_int_equal(tei_histogram_quantile(&h, 1), 0);
}

static void small_values_are_exact(void **state)
{
	(void)state;
	memset(&h, 0, sizeof(h));
	for (uint64_t v = 1; v <= 63; v++)
		tei_histogram_add(&h, v);
	assert_int_equal(tei_histogram_quantile(&h, 0), 1);
	assert_int_equal(tei_histogram_quantile(&h, 32.0 / 63), 32);
	assert_int_equal(tei_histogram_quantile(&h, 1), 63);
}

static void quantiles_of_an_even_spread_are_within_a_sixty_fourth(void **state)
{
	(void)state;
	memset(&h, 0, sizeof(h));
	for (uint64_t v = 1; v <= 1000000; v++)
		tei_histogram_add(&h, v);
	assert_near(tei_histogram_quantile(&h, 0.5), 500000);
	assert_near(tei_histogram_quantile(&h, 0.99), 990000);
	assert_near(tei_histogram_quantile(&h, 0.999), 999000);
	assert_int_equal(tei_histogram_quantile(&h, 1), 1000000);
	assert_int_equal(h.sum, 500000500000);
}

static void one_slow_value_shows_in_the_last_quantile_only(void **state)
{
	(void)state;
	memset(&h, 0, sizeof(h));
	for (int i = 0; i < 999; i++)
		tei_histogram_add(&h, 100);
	tei_histogram_add(&h, 7777777);
	assert_near(tei_histogram_quantile(&h, 0.999), 100);
	assert_int_equal(tei_histogram_quantile(&h, 1), 7777777);
}

static void every_power_of_two_and_its_neighbours_have_a_bucket(void **state)
{
	(void)state;
	for (unsigned int e = 0; e < 64; e++) {
		for (uint64_t v = (1ull << e) - 1; v <= (1ull << e) + 1; v++) {
			memset(&h, 0, sizeof(h));
			tei_histogram_add(&h, v);
			assert_int_equal(tei_histogram_quantile(&h, 0.5), v);
		}
	}
	tei_histogram_add(&h, UINT64_MAX);
	assert_int_equal(tei_histogram_quantile(&h, 1), UINT64_MAX);
}

static void a_merge_is_as_if_all_values_had_gone_into_one(void **state)
{
	(void)state;
	memset(&h, 0, sizeof(h));
	memset(&other, 0, sizeof(other));
	for (uint64_t v = 1; v <= 50; v++) {
		tei_histogram_add(&h, v);
		tei_histogram_add(&other, v + 50);
	}
	tei_histogram_merge(&h, &other);
	assert_int_equal(h.n, 100);
	assert_int_equal(h.max, 100);
	assert_int_equal(tei_histogram_quantile(&h, 0.51), 51);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_histogram_has_quantiles_of_zero),
		cmocka_unit_test(small_values_are_exact),
		cmocka_unit_test(
			quantiles_of_an_even_spread_are_within_a_sixty_fourth),
		cmocka_unit_test(
			one_slow_value_shows_in_the_last_quantile_only),
		cmocka_unit_test(
			every_power_of_two_and_its_neighbours_have_a_bucket),
		cmocka_unit_test(a_merge_is_as_if_all_values_had_gone_into_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
