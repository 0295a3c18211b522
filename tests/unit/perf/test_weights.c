/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_weights.c - names with their shares, as the command line gives them
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "perf/lib/weights.h"

static void names_have_the_weight_behind_the_colon(void **state)
{
	struct tei_weights w;

	(void)state;
	assert_int_equal(tei_weights_parse("get:80,put:15,exist", &w), 0);
	assert_int_equal(w.n, 3);
	assert_int_equal(w.total, 96);
	assert_string_equal(w.each[0].name, "get");
	assert_int_equal(w.each[0].weight, 80);
	assert_string_equal(w.each[1].name, "put");
	assert_int_equal(w.each[1].weight, 15);
	assert_string_equal(w.each[2].name, "exist");
	assert_int_equal(w.each[2].weight, 1);
}

static void each_is_picked_in_proportion(void **state)
{
	struct tei_weights w;
	uint32_t seen[3] = {0};

	(void)state;
	assert_int_equal(tei_weights_parse("a:5,b:0,c:3", &w), 0);
	for (uint64_t i = 0; i < 800; i++)
		seen[tei_weights_pick(&w, i)]++;
	assert_int_equal(seen[0], 500);
	assert_int_equal(seen[1], 0);
	assert_int_equal(seen[2], 300);
}

static void what_is_no_list_is_refused(void **state)
{
	static const char *const bad[] = {"",
					  ",",
					  "a,",
					  ",a",
					  "a:",
					  "a:x",
					  "a:-1",
					  ":3",
					  "a:1:2",
					  "a:1,a:2",
					  "a:0",
					  "a:0,b:0",
					  "a:1 ",
					  "a:1e3",
					  "a:99999999",
					  "a:1.5",
					  "a:2000000",
					  "a_name_that_is_too_long:1",
					  "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"};
	struct tei_weights w;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(tei_weights_parse(bad[i], &w), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_have_the_weight_behind_the_colon),
		cmocka_unit_test(each_is_picked_in_proportion),
		cmocka_unit_test(what_is_no_list_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
