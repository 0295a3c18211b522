/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_perf.c - store-perf measures a pool of its own and reports
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/lib/node.h"
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

	snprintf(flag, sizeof(flag), "--op=%s", op);
	report = tool_json("store-perf", args);
	assert_non_null(text_of(json_object_get(report, "machine"), "cpu"));
	rows = json_object_get(report, "rows");
	assert_int_equal(json_array_size(rows), 2);
	for (size_t i = 0; i < 2; i++) {
		row = row_of(report, i);
		assert_numbers(row, columns);
		assert_string_equal(text_of(row, "op"), op);
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

/* Each takes twice its bytes in the pool, which has to be as large. */
static void small_values_are_all_in_the_pool(void **state)
{
	const char *const args[] = {"--op=exist",
				    "--value-size=64",
				    "--batch=512",
				    "--working-set=6m",
				    "--duration=50ms",
				    "--json",
				    NULL};
	json_t *report = tool_json("store-perf", args);
	const json_t *row = row_of(report, 0);

	(void)state;
	assert_true(number(row, "keys_per_s") > 0);
	assert_int_equal(integer(row, "missed"), 0);
	assert_int_equal(integer(row, "failed"), 0);
	json_decref(report);
}

static void what_it_prepares_is_bounded_and_said(void **state)
{
	const char *const args[] = {
		"--op=exist",  "--value-size=1",  "--keys=1000", "--batch=100",
		"--clients=2", "--duration=50ms", NULL};
	char *text = tool_output("store-perf", args, 0);

	(void)state;
	assert_non_null(strstr(text, "puts 1,000 keys of 1 B first"));
	free(text);
}

static void a_pool_that_would_evict_the_set_is_refused(void **state)
{
	const char *const args[] = {"--op=get", "--value-size=64k",
				    "--working-set=4m", "--pool-bytes=2m",
				    NULL};
	char *text = tool_output("store-perf", args, 1);

	(void)state;
	assert_non_null(strstr(text, "store-perf: 63 keys of 64 KiB take"));
	assert_non_null(strstr(text, "larger --pool-bytes"));
	free(text);
}

static void what_cannot_fit_is_refused_in_one_line(void **state)
{
	static const struct tool_mistake mistakes[] = {
		{"--pool-bytes=65536g", "TiB of memory"},
		{"--keys=3", "keys: a batch"},
		{"--value-size=2m..1g", "working_set: a batch"},
		{"--rate=2000000000", "rate"},
		{"--location=cuda:0", "location: \"cuda:0\": should be cpu:N"},
		{"--remote-location=cpu:1023", "there is no such node"},
		{"--histogram=/nowhere/file", "histogram: /nowhere/file"},
	};
	static const struct tool_conflict conflicts[] = {
		{{"--mix=get:1", "--pool-bytes=65536g"}, "TiB of memory"},
		{{"--json", "--csv"}, "csv: not together with json"},
		{{"--duration=0", "--value-size=1k,4k"}, "duration: 0"},
	};

	(void)state;
	tool_refuses_together("store-perf", conflicts, TEST_COUNT(conflicts));
	tool_refuses("store-perf", mistakes, TEST_COUNT(mistakes));
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

/* ---- a client that comes new ---- */

static void what_one_more_client_costs_is_told(void **state)
{
	static const char *const ops[] = {"--op=put", "--op=get", "--op=exist"};
	static const char *const costs[] = {"join_ms", "register_ms",
					    "first_us", NULL};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(ops); i++) {
		const char *const args[] = {ops[i],
					    "--first-call",
					    "--value-size=4k",
					    "--batch=8",
					    "--working-set=1m",
					    "--duration=20ms",
					    "--json",
					    NULL};
		json_t *report = tool_json("store-perf", args);
		const json_t *row = row_of(report, 0);

		assert_numbers(row, costs);
		assert_true(number(row, "first_us") > 0);
		assert_int_equal(integer(report, "wrong_bytes"), 0);
		json_decref(report);
	}
}

/* ---- memory ---- */

static void values_at_odd_addresses_come_back_right(void **state)
{
	static const char *const ops[] = {"--op=put", "--op=get"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(ops); i++) {
		const char *const args[] = {ops[i],
					    "--unaligned",
					    "--value-size=1,4097",
					    "--batch=8",
					    "--working-set=1m",
					    "--duration=20ms",
					    "--json",
					    NULL};
		json_t *report = tool_json("store-perf", args);

		assert_int_equal(integer(report, "wrong_bytes"), 0);
		assert_true(json_is_true(json_object_get(report, "unaligned")));
		json_decref(report);
	}
}

static void memory_is_of_the_node_that_is_asked_for(void **state)
{
	const char *const args[] = {
		"--location=cpu:0", "--remote-location=cpu:0",
		"--value-size=4k",  "--working-set=4m",
		"--duration=20ms",  NULL};
	struct tei_node_policy old;

	(void)state;
	if (tei_node_begin(0, &old))
		skip(); /* a container that forbids policies */
	tei_node_end(&old);
	free(tool_output("store-perf", args, 0));
}

/* ---- ways to report ---- */

static const char *const names =
	"op,value_size,batch,clients,threads,rate,gb_per_s,keys_per_s,"
	"calls_per_s,p50_us,p99_us,p999_us,cpu_s_per_gb,join_ms,register_ms,"
	"first_us,missed,failed,behind,wrong_bytes\r\n";

static void csv_has_a_header_and_a_line_a_row(void **state)
{
	const char *const args[] = {"--value-size=1k,4k",
				    "--working-set=4m",
				    "--duration=20ms",
				    "--interval=10ms",
				    "--csv",
				    NULL};
	char *text = tool_output("store-perf", args, 0);
	const char *head = strstr(text, names), *row;

	(void)state;
	assert_non_null(head);
	row = head + strlen(names);
	assert_memory_equal(row, "put,1024,32,1,1,0,", 18);
	row = strstr(row, "\r\n") + 2;
	assert_memory_equal(row, "put,4096,32,1,1,0,", 18);
	assert_non_null(strstr(row, "\r\n"));
	free(text);
}

static void all_latencies_of_each_row_go_to_a_file(void **state)
{
	struct tool_file file;
	const char *const args[] = {"--value-size=1k,4k", "--working-set=4m",
				    "--duration=20ms", file.flag, NULL};
	char *text;

	(void)state;
	tool_file_init(&file, "--histogram");
	free(tool_output("store-perf", args, 0));
	text = tool_file_take(&file);
	assert_non_null(strstr(text, "# put, value_size 1024, batch 32"));
	assert_non_null(strstr(text, "# put, value_size 4096, batch 32"));
	assert_non_null(strstr(text, " 1.000000000000 "));
	free(text);
}

static void a_histogram_needs_a_path_and_room(void **state)
{
	static const char *const kinds[] = {"--op=put", "--mix=put:1"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		const char *const none[] = {
			kinds[i],     "--histogram=",     "--value-size=4k",
			"--keys=100", "--working-set=4m", "--duration=20ms",
			NULL};
		const char *const full[] = {kinds[i],
					    "--histogram=/dev/full",
					    "--value-size=4k",
					    "--keys=100",
					    "--working-set=4m",
					    "--duration=20ms",
					    NULL};
		char *text;

		free(tool_output("store-perf", none, 0));
		text = tool_output("store-perf", full, 1);
		test_contains(text, "histogram: /dev/full: No space left on");
		free(text);
	}
}

/* ---- open loops, and loads without an end ---- */

static void calls_begin_at_the_rate_that_is_asked_for(void **state)
{
	const char *const args[] = {"--op=exist",       "--rate=1000",
				    "--threads=2",      "--value-size=64",
				    "--batch=4",        "--working-set=1m",
				    "--duration=500ms", "--interval=100ms",
				    "--json",           NULL};
	json_t *report = tool_json("store-perf", args);
	const json_t *row = row_of(report, 0);

	(void)state;
	assert_int_equal(integer(row, "rate"), 1000);
	/* All but those that a busy machine kept from beginning in time. */
	assert_true(number(row, "calls_per_s") > 0);
	assert_true(number(row, "calls_per_s") <= 1000.5);
	assert_true(integer(row, "behind") >= 0);
	assert_true(json_array_size(json_object_get(row, "series")) > 0);
	json_decref(report);
}

static void a_rate_that_is_too_much_is_told(void **state)
{
	const char *const args[] = {"--rate=1000000000", "--value-size=4k",
				    "--working-set=4m", "--duration=50ms",
				    NULL};
	char *text = tool_output("store-perf", args, 0);

	(void)state;
	assert_non_null(strstr(text, "had not begun: the pool does not keep"));
	assert_non_null(strstr(text, "behind"));
	free(text);
}

static void assert_interrupted(const char *const args[], const char *tells)
{
	char *text = tool_interrupted("store-perf", args, " keys/s  gap ");

	test_contains(text, tells);
	free(text);
}

static void what_came_of_an_interrupted_load_is_told(void **state)
{
	const char *const args[] = {"--duration=0", "--interval=20ms",
				    "--value-size=4k", "--working-set=4m",
				    NULL};
	const char *const slow[] = {"--duration=0",     "--interval=20ms",
				    "--value-size=4k",  "--op=get",
				    "--working-set=4m", "--rate=10",
				    "--threads=20",     NULL};

	(void)state;
	assert_interrupted(args, "4 KiB");
	assert_interrupted(slow, "4 KiB");
}

/* Before a pool is started, and by the word of te-perf as well. */
static void backends_that_are_not_there_are_named(void **state)
{
	static const struct tool_mistake mistakes[] = {
		{"--backends=nosuch", "there is no \"nosuch\"; there are auto"},
		{"--backend=tcp,nosuch", "there is no \"nosuch\"; there are"},
		{"--backends=", "\"\" names no backend; there are auto, "},
	};
	const char *const mix[] = {"--mix=get:1", "--backends=nosuch", NULL};
	const char *const all[] = {"--backends=auto", "--working-set=4m",
				   "--value-size=4k", "--duration=20ms", NULL};
	char *text = tool_output("store-perf", mix, 2);

	(void)state;
	assert_non_null(strstr(text, "there is no \"nosuch\"; there are"));
	free(text);
	tool_refuses("store-perf", mistakes, TEST_COUNT(mistakes));
	free(tool_output("store-perf", all, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(puts_go_on_when_the_pool_is_full),
		cmocka_unit_test(gets_bring_the_right_bytes),
		cmocka_unit_test(existence_is_measured_in_keys),
		cmocka_unit_test(small_values_are_all_in_the_pool),
		cmocka_unit_test(what_it_prepares_is_bounded_and_said),
		cmocka_unit_test(a_pool_that_would_evict_the_set_is_refused),
		cmocka_unit_test(what_cannot_fit_is_refused_in_one_line),
		cmocka_unit_test(what_one_more_client_costs_is_told),
		cmocka_unit_test(values_at_odd_addresses_come_back_right),
		cmocka_unit_test(memory_is_of_the_node_that_is_asked_for),
		cmocka_unit_test(csv_has_a_header_and_a_line_a_row),
		cmocka_unit_test(all_latencies_of_each_row_go_to_a_file),
		cmocka_unit_test(a_histogram_needs_a_path_and_room),
		cmocka_unit_test(calls_begin_at_the_rate_that_is_asked_for),
		cmocka_unit_test(a_rate_that_is_too_much_is_told),
		cmocka_unit_test(what_came_of_an_interrupted_load_is_told),
		cmocka_unit_test(backends_that_are_not_there_are_named),
		cmocka_unit_test(without_a_master_it_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
