/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_perf_mix.c - mixed loads of store-perf: what they report
 */
#include <stdlib.h>
#include <string.h>

#include "tests/integration/perf/tool.h"
#include "tests/lib/process.h"
#include "tests/lib/test.h"

#define LIMIT_MS 120000

static const char *const figures[] = {"calls",  "keys",       "good",  "missed",
				      "failed", "hit_ratio",  "bytes", "p50_us",
				      "p99_us", "keys_per_s", NULL};

static const json_t *operation(const json_t *report, const char *name)
{
	const json_t *op =
		json_object_get(json_object_get(report, "operations"), name);

	assert_non_null(op);
	assert_numbers(op, figures);
	assert_int_equal(integer(op, "keys"), integer(op, "good") +
						      integer(op, "missed") +
						      integer(op, "failed"));
	return op;
}

static void every_kind_of_call_is_counted_and_no_byte_is_wrong(void **state)
{
	const char *const args[] = {
		"--mix=get:50,put:20,exist:20,upsert:5,remove:5",
		"--value-size=1k:70,16k:30",
		"--batch=4",
		"--unaligned",
		"--processes=2",
		"--threads=2",
		"--count=2000",
		"--duration=60",
		"--pool-bytes=4m",
		"--working-set=1m",
		"--json",
		NULL};
	static const char *const names[] = {"get", "put", "exist", "upsert",
					    "remove"};
	json_t *report = tool_json("store-perf", args);
	json_int_t calls = 0;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		const json_t *op = operation(report, names[i]);

		calls += integer(op, "calls");
		assert_true(integer(op, "good") > 0);
	}
	assert_int_equal(calls, 2000);
	assert_int_equal(integer(report, "wrong_bytes"), 0);
	assert_true(integer(json_object_get(report, "pool"),
			    "evicted_objects") > 0);
	assert_numbers(report, (const char *const[]){"retried", "put_retries",
						     "seconds", NULL});
	json_decref(report);
}

static void misses_and_their_code_are_told(void **state)
{
	const char *const args[] = {"--mix=get:1",
				    "--popularity=uniform",
				    "--prefill=0",
				    "--fill=0",
				    "--keys=1000",
				    "--count=50",
				    "--duration=60",
				    "--value-size=1k",
				    "--pool-bytes=4m",
				    "--working-set=1m",
				    "--batch=4",
				    "--json",
				    NULL};
	json_t *report = tool_json("store-perf", args);
	const json_t *get = operation(report, "get");

	(void)state;
	assert_int_equal(integer(get, "missed"), 200);
	assert_int_equal(integer(json_object_get(get, "codes"), "-704"), 200);
	json_decref(report);
}

/* A value larger than the pool is the surest way to find no room. */
static void what_finds_no_room_is_told_and_tried_again(void **state)
{
	const char *const args[] = {
		"--mix=put:1,exist:1", "--value-size=8m", "--keys=4",
		"--prefill=0",         "--retries=1",     "--count=4",
		"--duration=60",       "--pool-bytes=4m", "--working-set=1m",
		"--batch=1",           "--json",          NULL};
	json_t *report = tool_json("store-perf", args);
	const json_t *put = operation(report, "put");

	(void)state;
	assert_true(integer(put, "failed") > 0);
	assert_int_equal(integer(json_object_get(put, "codes"), "-200"),
			 integer(put, "failed"));
	assert_int_equal(integer(report, "retried"), integer(put, "failed"));
	json_decref(report);
}

static void people_get_a_table(void **state)
{
	const char *const args[] = {"--mix=get:3,put:1",
				    "--count=50",
				    "--duration=60",
				    "--value-size=4k",
				    "--pool-bytes=4m",
				    "--working-set=1m",
				    NULL};
	char *text = tool_output("store-perf", args, 0);

	(void)state;
	assert_non_null(strstr(text, "operation"));
	assert_non_null(strstr(text, "evicted"));
	assert_non_null(strstr(text, "wrong bytes: 0"));
	free(text);
}

/* ---- machines, rates, and loads without an end ---- */

static void csv_has_a_line_each_kind_of_call(void **state)
{
	const char *const args[] = {
		"--mix=get:3,put:1", "--count=50",      "--duration=60",
		"--value-size=4k",   "--pool-bytes=4m", "--working-set=1m",
		"--fill=0",          "--csv",           NULL};
	char *text = tool_output("store-perf", args, 0);
	const char *head = strstr(text, "op,calls,keys,good,missed,failed,");

	(void)state;
	assert_non_null(head);
	assert_non_null(strstr(head, "\r\nget,"));
	assert_non_null(strstr(head, "\r\nput,"));
	assert_null(strstr(head, "evicted"));
	free(text);
}

static void calls_of_a_mix_begin_at_the_rate_that_is_asked_for(void **state)
{
	const char *const args[] = {"--mix=get:1,exist:1",
				    "--rate=500",
				    "--processes=2",
				    "--threads=2",
				    "--duration=1",
				    "--interval=100ms",
				    "--value-size=1k",
				    "--batch=2",
				    "--working-set=1m",
				    "--fill=0",
				    "--json",
				    NULL};
	json_t *report = tool_json("store-perf", args);
	json_int_t calls = integer(operation(report, "get"), "calls") +
			   integer(operation(report, "exist"), "calls");

	(void)state;
	/* All but those that a busy machine kept from beginning in time. */
	assert_true(calls > 0 && calls <= 500);
	assert_true(integer(report, "behind") <= 500 - calls);
	assert_int_equal(integer(json_object_get(report, "plan"), "rate"), 500);
	assert_true(json_array_size(json_object_get(report, "series")) > 0);
	json_decref(report);
}

static void an_interrupt_ends_the_load_of_all_processes(void **state)
{
	const char *const args[] = {"--mix=get:1",     "--processes=2",
				    "--duration=0",    "--interval=20ms",
				    "--value-size=4k", "--working-set=1m",
				    "--rate=100",      NULL};
	char *text = tool_interrupted("store-perf", args, " keys/s  gap ");

	(void)state;
	test_contains(text, "wrong bytes: 0");
	free(text);
}

static void latencies_of_each_kind_of_call_go_to_a_file(void **state)
{
	struct tool_file file;
	const char *const args[] = {"--mix=exist:1",
				    "--count=20",
				    "--duration=60",
				    "--value-size=1k",
				    "--working-set=1m",
				    file.flag,
				    NULL};
	char *text;

	(void)state;
	tool_file_init(&file, "--histogram");
	free(tool_output("store-perf", args, 0));
	text = tool_file_take(&file);
	assert_non_null(strstr(text, "# exist of exist:1, value_size 1k"));
	assert_non_null(strstr(text, "Total count    =           20]"));
	free(text);
}

/* ---- a worker that dies ---- */

static void a_worker_that_is_killed_ends_it_with_an_error(void **state)
{
	const char *const args[] = {"--mix=get:1",      "--processes=2",
				    "--duration=600",   "--value-size=4k",
				    "--working-set=1m", NULL};
	struct test_process *p = test_process_start("store-perf", args);

	(void)state;
	tool_kill_child(p, "--role=worker");
	assert_int_equal(test_process_wait(p, LIMIT_MS), 1);
	assert_non_null(strstr(test_process_output(p), "ended early"));
	test_process_end(p);
}

static void what_cannot_be_is_refused_in_one_line(void **state)
{
	static const struct tool_mistake mistakes[] = {
		{"--mix=get:80,steal:20", "steal"},
		{"--mix=get:x", "mix"},
		{"--mix=", "mix"},
		{"--theta=0", "theta"},
		{"--popularity=some", "popularity"},
		{"--processes=0", "processes"},
		{"--keys=x", "keys"},
		{"--retries=-1", "retries"},
	};

	(void)state;
	tool_refuses("store-perf", mistakes, TEST_COUNT(mistakes));
}

static void sizes_of_a_mix_are_refused_by_name(void **state)
{
	const char *const args[] = {"--mix=get:1", "--value-size=4k..1m", NULL};
	char *text = tool_output("store-perf", args, 2);

	(void)state;
	assert_non_null(strstr(text, "value_size"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			every_kind_of_call_is_counted_and_no_byte_is_wrong),
		cmocka_unit_test(misses_and_their_code_are_told),
		cmocka_unit_test(what_finds_no_room_is_told_and_tried_again),
		cmocka_unit_test(people_get_a_table),
		cmocka_unit_test(csv_has_a_line_each_kind_of_call),
		cmocka_unit_test(
			calls_of_a_mix_begin_at_the_rate_that_is_asked_for),
		cmocka_unit_test(an_interrupt_ends_the_load_of_all_processes),
		cmocka_unit_test(latencies_of_each_kind_of_call_go_to_a_file),
		cmocka_unit_test(a_worker_that_is_killed_ends_it_with_an_error),
		cmocka_unit_test(what_cannot_be_is_refused_in_one_line),
		cmocka_unit_test(sizes_of_a_mix_are_refused_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
