/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pattern.c - wrong bytes are found and counted, wherever they are
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "perf/lib/pattern.h"

#define LEN 133

static void what_was_filled_is_right(void **state)
{
	char bytes[LEN];

	(void)state;
	for (uint64_t len = 0; len <= LEN; len++) {
		tei_pattern_fill(bytes, len, 42, 64);
		assert_int_equal(tei_pattern_wrong(bytes, len, 42, 64), 0);
	}
}

static void each_flipped_byte_is_counted(void **state)
{
	char bytes[LEN];

	(void)state;
	for (uint64_t i = 0; i < LEN; i++) {
		tei_pattern_fill(bytes, LEN, 42, 0);
		bytes[i] ^= 1;
		assert_int_equal(tei_pattern_wrong(bytes, LEN, 42, 0), 1);
		bytes[0] ^= 4;
		assert_int_equal(tei_pattern_wrong(bytes, LEN, 42, 0),
				 i ? 2 : 1);
	}
}

static void other_seeds_and_offsets_look_different(void **state)
{
	char bytes[LEN];

	(void)state;
	tei_pattern_fill(bytes, LEN, 42, 0);
	assert_true(tei_pattern_wrong(bytes, LEN, 43, 0) > LEN / 2);
	assert_true(tei_pattern_wrong(bytes, LEN, 42, 8) > LEN / 2);
	memset(bytes, 0, LEN);
	assert_true(tei_pattern_wrong(bytes, LEN, 42, 0) > LEN / 2);
}

static void a_part_can_be_checked_alone(void **state)
{
	char bytes[LEN];

	(void)state;
	tei_pattern_fill(bytes, LEN, 7, 0);
	assert_int_equal(tei_pattern_wrong(bytes + 40, 50, 7, 40), 0);
}

static void a_part_may_begin_inside_a_word(void **state)
{
	char bytes[LEN];

	(void)state;
	tei_pattern_fill(bytes, LEN, 7, 0);
	for (uint64_t at = 0; at < 24; at++) {
		for (uint64_t len = 0; len < 24; len++)
			assert_int_equal(
				tei_pattern_wrong(bytes + at, len, 7, at), 0);
		bytes[at] ^= 1;
		assert_int_equal(tei_pattern_wrong(bytes + at, 24, 7, at), 1);
		bytes[at] ^= 1;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_filled_is_right),
		cmocka_unit_test(each_flipped_byte_is_counted),
		cmocka_unit_test(other_seeds_and_offsets_look_different),
		cmocka_unit_test(a_part_can_be_checked_alone),
		cmocka_unit_test(a_part_may_begin_inside_a_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
