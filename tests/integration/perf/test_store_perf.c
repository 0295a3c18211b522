/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_perf.c - store-perf measures a pool of its own and reports
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/perf/tool.h"
#include "tests/lib/test.h"

static const char *const columns[] = {"value_size", "batch",      "clients",
				      "gb_per_s",   "keys_per_s", "p50_us",
				      "p99_us",     NULL};

static void assert_op(const char *op)
{
	char flag[32];
	const char *const args[] = {flag,
				    "--value-size=4k,64k",
				    "--batch=8",
				    "--clients=2",
				    "--duration=50ms",
				    "--working-set=4m",
				    "--json",
				    NULL};
	json_t *report;
	const json_t *rows, *row;
	const char *is_op;

	snprintf(flag, sizeof(flag), "--op=%s", op);
	report = tool_json("store-perf", args);
	rows = json_object_get(report, "rows");
	assert_int_equal(json_array_size(rows), 2);
	for (size_t i = 0; i < 2; i++) {
		row = json_array_get(rows, i);
		assert_numbers(row, columns);
		is_op = json_string_value(json_object_get(row, "op"));
		assert_string_equal(is_op, op);
		assert_int_equal(integer(row, "value_size"), i ? 65536 : 4096);
		assert_true(number(row, "keys_per_s") > 0);
		assert_int_equal(integer(row, "failed"), 0);
		assert_int_equal(integer(row, "wrong_bytes"), 0);
	}
	json_decref(report);
}

static void puts_go_on_when_the_pool_is_full(void **state)
{
	(void)state;
	assert_op("put");
}

static void gets_bring_the_right_bytes(void **state)
{
	(void)state;
	assert_op("get");
}

static void existence_is_measured_in_keys(void **state)
{
	(void)state;
	assert_op("exist");
}

static void without_a_master_it_says_so(void **state)
{
	const char *const args[] = {"--master=127.0.0.1:1", "--working-set=1m",
				    "--value-size=4k", NULL};
	char *text = tool_output("store-perf", args, 1);

	(void)state;
	assert_non_null(strstr(text, "127.0.0.1:1"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(puts_go_on_when_the_pool_is_full),
		cmocka_unit_test(gets_bring_the_right_bytes),
		cmocka_unit_test(existence_is_measured_in_keys),
		cmocka_unit_test(without_a_master_it_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
