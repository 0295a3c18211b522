/* SPDX-License-Identifier: Apache-2.0 */
/* test_median.c - the median of a few samples */
#include "base/median.h"

#include "tests/lib/test.h"

static void the_middle_one_is_returned(void **state)
{
	static const uint32_t odd[] = {7, UINT32_MAX, 0, 5, 6};
	static const uint32_t even[] = {4, 1, 3, 2};
	static const uint32_t one[] = {9};

	(void)state;
	assert_int_equal(tei_median_of(odd, TEST_COUNT(odd)), 6);
	assert_int_equal(tei_median_of(even, TEST_COUNT(even)), 3);
	assert_int_equal(tei_median_of(one, TEST_COUNT(one)), 9);
}

static void samples_stay_as_they_are(void **state)
{
	uint32_t values[TEI_MEDIAN_MOST];

	(void)state;
	for (uint32_t i = 0; i < TEI_MEDIAN_MOST; i++)
		values[i] = TEI_MEDIAN_MOST - i;
	assert_int_equal(tei_median_of(values, TEI_MEDIAN_MOST),
			 TEI_MEDIAN_MOST / 2 + 1);
	for (uint32_t i = 0; i < TEI_MEDIAN_MOST; i++)
		assert_int_equal(values[i], TEI_MEDIAN_MOST - i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_middle_one_is_returned),
		cmocka_unit_test(samples_stay_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
