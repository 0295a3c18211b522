/* SPDX-License-Identifier: Apache-2.0 */
/* test_shuffle.c - each number once, and not in order */
#include "perf/lib/shuffle.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tests/lib/test.h"

static uint64_t count_found(uint64_t n)
{
	bool *seen = calloc(n, sizeof(*seen));
	uint64_t found = 0, at;

	assert_non_null(seen);
	for (uint64_t i = 0; i < n; i++) {
		at = tei_shuffle(n, i);
		assert_true(at < n);
		found += !seen[at];
		seen[at] = true;
	}
	free(seen);
	return found;
}

static void each_number_is_there_once(void **state)
{
	(void)state;
	for (uint64_t n = 1; n < 600; n++)
		assert_int_equal(count_found(n), n);
	assert_int_equal(count_found(65536), 65536);
	assert_int_equal(count_found(65537), 65537);
}

/* As two numbers of chance: the next one is rarely near. */
static void neighbours_are_far_from_each_other(void **state)
{
	const uint64_t n = 100000;
	uint64_t near = 0;

	(void)state;
	for (uint64_t i = 1; i < n; i++) {
		uint64_t a = tei_shuffle(n, i - 1), b = tei_shuffle(n, i);

		near += (a > b ? a - b : b - a) < n / 100;
	}
	assert_true(near < n / 20);
}

static void numbers_of_many_bits_are_below_n(void **state)
{
	const uint64_t n = (1ull << 62) - 5;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		assert_true(tei_shuffle(n, n - 1 - i) < n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_number_is_there_once),
		cmocka_unit_test(neighbours_are_far_from_each_other),
		cmocka_unit_test(numbers_of_many_bits_are_below_n),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
