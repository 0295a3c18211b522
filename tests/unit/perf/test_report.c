/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_report.c - lists of sizes are read whole or refused
 */
#include <errno.h>

#include "perf/lib/report.h"
#include "tests/lib/test.h"

static uint64_t sizes[TEI_SIZES_MAX];

static int parse(const char *text)
{
	return tei_sizes_parse("test", "size", text, 1 << 30, sizes);
}

static void a_list_is_read_in_order(void **state)
{
	(void)state;
	assert_int_equal(parse("1m"), 1);
	assert_int_equal(sizes[0], 1 << 20);
	assert_int_equal(parse("4k,100,1g"), 3);
	assert_int_equal(sizes[0], 4096);
	assert_int_equal(sizes[1], 100);
	assert_int_equal(sizes[2], 1 << 30);
	assert_int_equal(parse("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"), 16);
}

static void a_range_doubles_up_to_its_end(void **state)
{
	(void)state;
	assert_int_equal(parse("4k..64k"), 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(sizes[i], 4096 << i);
	assert_int_equal(parse("8,1k..3k,7"), 4);
	assert_int_equal(sizes[1], 1024);
	assert_int_equal(sizes[2], 2048);
	assert_int_equal(sizes[3], 7);
	assert_int_equal(parse("5..5"), 1);
	assert_int_equal(parse("1..1g"), 31);
}

static void what_is_no_list_of_sizes_is_refused(void **state)
{
	static const char *const bad[] = {
		"",      ",",          "4k,",
		",4k",   "4k,,8k",     "0",
		"-1",    "two",        "2g",
		"4k;8k", "1..1g,1..2", "8k..4k",
		"4k..",  "..4k",       "4k..8k..16k",
		"0..4",  "1m..2g",     "10000000000000000000000000000000000000",
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++)
		assert_int_equal(parse(bad[i]), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_is_read_in_order),
		cmocka_unit_test(a_range_doubles_up_to_its_end),
		cmocka_unit_test(what_is_no_list_of_sizes_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
