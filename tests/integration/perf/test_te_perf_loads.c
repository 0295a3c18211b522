/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_te_perf_loads.c - rates, loads without an end, CSV and histograms
 */
#include <stdlib.h>
#include <string.h>

#include "tests/integration/perf/tool.h"
#include "tests/lib/test.h"

static size_t count_of(const char *text, const char *part)
{
	size_t n = 0;

	for (text = strstr(text, part); text; text = strstr(text + 1, part))
		n++;
	return n;
}

/* ---- an open loop ---- */

static void no_more_begins_than_the_rate_says(void **state)
{
	const char *const args[] = {
		"--rate=100",   "--size=4k",        "--batch=1",
		"--threads=2",  "--duration=200ms", "--working-set=1m",
		"--verify=100", "--json",           NULL};
	json_t *report = tool_json("te-perf", args);
	double ops = number(row_of(report, 0), "ops_per_s");

	(void)state;
	assert_true(ops > 0 && ops < 100.001);
	assert_int_equal(integer(report, "rate"), 100);
	assert_int_equal(integer(report, "wrong_bytes"), 0);
	json_decref(report);
}

/* A thousand million a second are too many, and are not passed over. */
static void what_the_rate_leaves_behind_is_told(void **state)
{
	const char *const args[] = {"--rate=1000000000",
				    "--size=4k",
				    "--batch=1",
				    "--duration=50ms",
				    "--working-set=1m",
				    "--json",
				    NULL};
	json_t *report = tool_json("te-perf", args);

	(void)state;
	assert_true(integer(row_of(report, 0), "behind") > 0);
	assert_true(number(row_of(report, 0), "p50_us") > 0);
	json_decref(report);
}

/* ---- failures ---- */

/* 64 MiB in a millisecond are more than any host moves over tcp. */
static void batches_with_a_failure_have_no_latency(void **state)
{
	const char *const args[] = {
		"--size=16m",        "--batch=4",        "--timeout=1ms",
		"--keep-going",      "--duration=200ms", "--verify=0",
		"--working-set=80m", "--json",           NULL};
	json_t *report = tool_json("te-perf", args);
	const json_t *row = row_of(report, 0);

	(void)state;
	assert_true(integer(row, "failed") > 0);
	assert_true(json_is_null(json_object_get(row, "p50_us")));
	assert_true(json_is_null(json_object_get(row, "p999_us")));
	assert_true(number(row, "late_ms") > 0);
	json_decref(report);
}

/* ---- messages ---- */

static void messages_are_counted_as_requests(void **state)
{
	static const char *const backends[] = {"--backend=tcp",
					       "--backend=loop"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(backends); i++) {
		const char *const args[] = {
			backends[i],        "--op=notify", "--size=8,64k",
			"--batch=4",        "--threads=2", "--duration=50ms",
			"--working-set=1m", "--json",      NULL};
		json_t *report = tool_json("te-perf", args);

		assert_true(number(row_of(report, 0), "ops_per_s") > 0);
		assert_true(number(row_of(report, 0), "p50_us") > 0);
		assert_int_equal(integer(row_of(report, 0), "failed"), 0);
		json_decref(report);
	}
}

/* ---- without an end ---- */

static void a_load_without_an_end_goes_on_until_interrupted(void **state)
{
	const char *const args[] = {"--duration=0", "--interval=20ms",
				    "--size=4k", "--working-set=1m", NULL};
	char *text = tool_interrupted("te-perf", args, " requests/s ");

	(void)state;
	test_contains(text, "4 KiB");
	test_contains(text, "0 wrong bytes");
	free(text);
}

/* The second row would begin in an hour. */
static void rows_that_were_not_measured_are_not_reported(void **state)
{
	static const char *const kinds[] = {"--op=write", "--bidirectional"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		const char *const args[] = {
			kinds[i],           "--size=4k,8k",
			"--duration=3600",  "--interval=20ms",
			"--working-set=1m", NULL};
		char *text = tool_interrupted("te-perf", args, " requests/s");

		test_contains(text, "4 KiB");
		assert_null(strstr(text, "8 KiB"));
		free(text);
	}
}

/* ---- reports ---- */

static void csv_has_a_line_a_row(void **state)
{
	const char *const args[] = {"--csv",
				    "--op=both",
				    "--size=4k,8k",
				    "--duration=30ms",
				    "--interval=10ms",
				    "--working-set=1m",
				    NULL};
	char *text = tool_output("te-perf", args, 0);

	(void)state;
	assert_ptr_equal(strstr(text, "backend,carrier,"), text);
	assert_int_equal(count_of(text, "\r\n"), 5);
	assert_int_equal(count_of(text, "\n"), 5);
	assert_int_equal(count_of(text, "tcp,tcp,,,write,4096,16,1,1,0,"), 1);
	assert_int_equal(count_of(text, "tcp,tcp,,,read,8192,16,1,1,0,"), 1);
	free(text);
}

static void each_row_has_a_histogram_in_the_file(void **state)
{
	struct tool_file file;
	const char *const args[] = {
		file.flag,    "--op=both",       "--size=4k",
		"--rounds=2", "--duration=30ms", "--working-set=1m",
		NULL};

	char *text;

	(void)state;
	tool_file_init(&file, "--histogram");
	free(tool_output("te-perf", args, 0));
	text = tool_file_take(&file);
	assert_non_null(strstr(text, "# tcp write, size 4096, batch 16, "
				     "threads 1\n"));
	assert_non_null(strstr(text, "# tcp read, size 4096"));
	assert_int_equal(count_of(text, "Total count"), 2);
	free(text);
}

/* As without the flags. */
static void empty_names_of_files_are_none(void **state)
{
	const char *const args[] = {
		"--histogram=",     "--svg=",          "--size=4k",
		"--working-set=1m", "--duration=10ms", NULL};
	const char *const cost[] = {"--histogram=",    "--registration",
				    "--size=4k",       "--working-set=1m",
				    "--duration=10ms", NULL};

	(void)state;
	free(tool_output("te-perf", args, 0));
	free(tool_output("te-perf", cost, 0));
}

/* The file is written at the end, so that this is known only then. */
static void why_a_histogram_is_not_written_is_told(void **state)
{
	const char *const args[] = {"--histogram=/dev/full", "--size=4k",
				    "--working-set=1m", "--duration=10ms",
				    NULL};
	char *text = tool_output("te-perf", args, 1);

	(void)state;
	test_contains(text, "histogram: /dev/full: No space left on device");
	free(text);
}

static void what_does_not_fit_together_is_refused(void **state)
{
	static const struct tool_conflict bad[] = {
		{{"--csv", "--json"}, "csv"},
		{{"--rate=10", "--pause=1ms"}, "rate"},
		{{"--duration=0", "--size=4k,8k"}, "duration"},
		{{"--duration=0", "--op=both"}, "duration"},
		{{"--op=notify", "--size=128k"}, "size"},
		{{"--op=notify", "--bidirectional"}, "size"},
		{{"--duration=0", "--rounds=2"}, "duration"},
		{{"--duration=0", "--reference"}, "duration"},
		{{"--duration=0", "--idle"}, "duration"},
		{{"--duration=0", "--fault=kill"}, "duration"},
		{{"--histogram=/nonexistent/x", "--size=4k"}, "/nonexistent/x"},
		{{"--rate=1000000001", "--size=4k"}, "rate"},
	};

	(void)state;
	tool_refuses_together("te-perf", bad, TEST_COUNT(bad));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_more_begins_than_the_rate_says),
		cmocka_unit_test(what_the_rate_leaves_behind_is_told),
		cmocka_unit_test(batches_with_a_failure_have_no_latency),
		cmocka_unit_test(messages_are_counted_as_requests),
		cmocka_unit_test(
			a_load_without_an_end_goes_on_until_interrupted),
		cmocka_unit_test(rows_that_were_not_measured_are_not_reported),
		cmocka_unit_test(csv_has_a_line_a_row),
		cmocka_unit_test(each_row_has_a_histogram_in_the_file),
		cmocka_unit_test(empty_names_of_files_are_none),
		cmocka_unit_test(why_a_histogram_is_not_written_is_told),
		cmocka_unit_test(what_does_not_fit_together_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
