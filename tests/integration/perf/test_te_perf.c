/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_te_perf.c - te-perf measures, checks bytes and reports
 */
#include <stdlib.h>
#include <string.h>

#include "tests/integration/perf/tool.h"
#include "tests/lib/test.h"

static const char *const columns[] = {
	"size",   "batch",  "threads", "gb_per_s",     "ops_per_s",
	"p50_us", "p99_us", "p999_us", "cpu_s_per_gb", NULL};

static void assert_row(const json_t *report, size_t i, const char *backend,
		       const char *op, json_int_t size)
{
	const json_t *row = json_array_get(json_object_get(report, "rows"), i);
	const char *is_backend, *is_op;

	assert_numbers(row, columns);
	is_backend = json_string_value(json_object_get(row, "backend"));
	is_op = json_string_value(json_object_get(row, "op"));
	assert_string_equal(is_backend, backend);
	assert_string_equal(is_op, op);
	assert_int_equal(integer(row, "size"), size);
	assert_true(number(row, "ops_per_s") > 0);
	assert_int_equal(integer(row, "wrong_bytes"), 0);
}

static void both_directions_of_tcp_are_measured_with_right_bytes(void **state)
{
	const char *const args[] = {"--op=both",        "--size=4k,100",
				    "--batch=4",        "--threads=2",
				    "--duration=50ms",  "--json",
				    "--working-set=1m", NULL};
	json_t *report = tool_json("te-perf", args);

	(void)state;
	assert_int_equal(json_array_size(json_object_get(report, "rows")), 4);
	assert_row(report, 0, "tcp", "write", 4096);
	assert_row(report, 1, "tcp", "read", 4096);
	assert_row(report, 2, "tcp", "write", 100);
	assert_row(report, 3, "tcp", "read", 100);
	assert_int_equal(integer(report, "wrong_bytes"), 0);
	assert_null(json_object_get(report, "reference"));
	json_decref(report);
}

static void loop_needs_no_second_process(void **state)
{
	const char *const args[] = {"--backend=loop",
				    "--op=both",
				    "--size=64k",
				    "--duration=50ms",
				    "--working-set=16m",
				    "--json",
				    NULL};
	json_t *report = tool_json("te-perf", args);

	(void)state;
	assert_row(report, 0, "loop", "write", 65536);
	assert_row(report, 1, "loop", "read", 65536);
	json_decref(report);
}

static void the_reference_has_four_figures(void **state)
{
	static const char *const figures[] = {"stream_gb_per_s", "pingpong_us",
					      "copy_gb_per_s",
					      "stream_copy_gb_per_s", NULL};
	const char *const args[] = {"--size=64k",       "--duration=50ms",
				    "--working-set=4m", "--reference",
				    "--json",           NULL};
	json_t *report = tool_json("te-perf", args);
	const json_t *reference = json_object_get(report, "reference");

	(void)state;
	assert_numbers(reference, figures);
	for (size_t i = 0; figures[i]; i++)
		assert_true(number(reference, figures[i]) > 0);
	json_decref(report);
}

static void people_get_a_table(void **state)
{
	const char *const args[] = {"--size=64k", "--duration=20ms",
				    "--working-set=4m", NULL};
	char *text = tool_output("te-perf", args, 0);

	(void)state;
	assert_non_null(strstr(text, "GB/s"));
	assert_non_null(strstr(text, "tcp write"));
	assert_non_null(strstr(text, "64 KiB"));
	free(text);
}

static void what_cannot_be_is_refused_in_one_line(void **state)
{
	static const struct {
		const char *arg, *names;
	} bad[] = {
		{"--size=none", "size"},
		{"--size=4k,", "size"},
		{"--size=2g", "size"},
		{"--batch=60000", "working_set"},
		{"--op=sideways", "op"},
		{"--threads=0", "threads"},
		{"--engine=nonsense=1", "nonsense"},
		{"--engine=tcp.lanes", "name=value"},
		{"--no-such-flag", "no-such-flag"},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		const char *const args[] = {bad[i].arg, NULL};
		char *text = tool_output("te-perf", args, 2);

		assert_non_null(strstr(text, bad[i].names));
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			both_directions_of_tcp_are_measured_with_right_bytes),
		cmocka_unit_test(loop_needs_no_second_process),
		cmocka_unit_test(the_reference_has_four_figures),
		cmocka_unit_test(people_get_a_table),
		cmocka_unit_test(what_cannot_be_is_refused_in_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
