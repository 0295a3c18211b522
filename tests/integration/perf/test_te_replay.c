/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_te_replay.c - a trace goes through a real pool and comes out right
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/perf/tool.h"
#include "tests/lib/process.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

static const char *const fields[] = {"requests",
				     "blocks",
				     "hit_ratio",
				     "token_hit_ratio",
				     "no_room",
				     "put_retries",
				     "lru_hit_ratio",
				     "ideal_hit_ratio",
				     "wrong_bytes",
				     "put_gb_per_s",
				     "get_gb_per_s",
				     "get_p50_us",
				     "get_p99_us",
				     "master_bytes_per_object",
				     "evicted_objects",
				     "request_p99_us",
				     NULL};

static void a_pool_that_is_too_small_evicts_and_stays_right(void **state)
{
	const char *const args[] = {"--limit=200",     "--block-bytes=4k",
				    "--pool-bytes=4m", "--owners=2",
				    "--clients=2",     "--idle=0",
				    "--json",          NULL};
	json_t *o = tool_json("te-replay", args);

	(void)state;
	assert_numbers(o, fields);
	assert_int_equal(integer(o, "requests"), 200);
	assert_int_equal(integer(o, "wrong_bytes"), 0);
	assert_int_equal(integer(o, "errors"), 0);
	assert_true(integer(o, "evicted_objects") > 0);
	assert_true(number(o, "hit_ratio") > 0);
	assert_true(number(o, "hit_ratio") <= number(o, "ideal_hit_ratio"));
	json_decref(o);
}

static void a_pool_with_room_for_all_is_ideal_for_one_client(void **state)
{
	const char *const args[] = {"--limit=100",      "--block-bytes=1k",
				    "--pool-bytes=64m", "--owners=1",
				    "--clients=1",      "--idle=0",
				    "--json",           NULL};
	json_t *o = tool_json("te-replay", args);

	(void)state;
	assert_int_equal(integer(o, "wrong_bytes"), 0);
	assert_int_equal(integer(o, "evicted_objects"), 0);
	assert_float_equal((float)number(o, "hit_ratio"),
			   (float)number(o, "ideal_hit_ratio"), 1e-6f);
	assert_float_equal((float)number(o, "lru_hit_ratio"),
			   (float)number(o, "ideal_hit_ratio"), 1e-6f);
	json_decref(o);
}

static void calls_go_to_csv_and_latencies_to_a_file(void **state)
{
	struct tool_file file;
	const char *const args[] = {
		"--limit=50", "--block-bytes=1k", "--pool-bytes=64m",
		"--owners=1", "--idle=0",         "--rate=1000x",
		"--csv",      file.flag,          NULL};
	char *out, *text;
	const char *rows;

	(void)state;
	tool_file_init(&file, "--histogram");
	out = tool_output("te-replay", args, 0);
	rows = strstr(out, "call,calls,p50_us,p99_us,p999_us,gb,gb_per_s,"
			   "hit_ratio\r\nlookup,50,");
	assert_non_null(rows);
	assert_non_null(strstr(rows, "\r\nget,"));
	assert_non_null(strstr(rows, "\r\nput,"));
	assert_non_null(strstr(rows, "\r\nrequest,50,"));
	free(out);
	text = tool_file_take(&file);
	assert_non_null(strstr(text, "# lookup of a request\n"));
	assert_non_null(strstr(text, "# request\n"));
	free(text);
}

static void tenants_share_nothing_and_each_client_is_told_of(void **state)
{
	const char *const args[] = {
		"--limit=200", "--block-bytes=1k", "--pool-bytes=64m",
		"--owners=1",  "--clients=4",      "--tenants=2",
		"--idle=0",    "--json",           NULL};
	json_t *o = tool_json("te-replay", args);
	const json_t *each = json_object_get(o, "clients");
	json_int_t requests = 0;

	(void)state;
	assert_int_equal(integer(o, "wrong_bytes"), 0);
	assert_int_equal(integer(o, "errors"), 0);
	assert_int_equal(json_array_size(each), 4);
	for (size_t i = 0; i < 4; i++) {
		const json_t *client = json_array_get(each, i);

		assert_int_equal(integer(client, "tenant"), i % 2);
		assert_int_equal(integer(client, "wrong_bytes"), 0);
		assert_true(number(client, "hit_ratio") <= 1);
		requests += integer(client, "requests");
	}
	assert_int_equal(requests, 200);
	/* Two clients of one tenant may both put what neither has found. */
	assert_true(number(o, "hit_ratio") <=
		    number(o, "ideal_hit_ratio") + 1e-9);
	json_decref(o);
}

static void a_client_that_is_killed_ends_it_with_an_error(void **state)
{
	const char *const args[] = {"--rate=0.001x", "--clients=2",
				    "--pool-bytes=4m", "--block-bytes=1k",
				    NULL};
	struct test_process *p = test_process_start("te-replay", args);

	(void)state;
	tool_kill_child(p, "--role=client");
	assert_int_equal(test_process_wait(p, 120000), 1);
	assert_non_null(strstr(test_process_output(p), "client"));
	test_process_end(p);
}

static void more_tenants_than_clients_are_refused(void **state)
{
	const char *const args[] = {"--clients=2", "--tenants=3", NULL};
	char *text = tool_output("te-replay", args, 2);

	(void)state;
	assert_non_null(strstr(text, "tenants"));
	free(text);
}

static void people_get_a_closing_table(void **state)
{
	const char *const args[] = {"--limit=20", "--block-bytes=1k",
				    "--pool-bytes=4m", "--idle=0", NULL};
	char *text = tool_output("te-replay", args, 0);

	(void)state;
	assert_non_null(strstr(text, "hit ratio"));
	assert_non_null(strstr(text, "wrong bytes     0"));
	assert_non_null(strstr(text, "look-up"));
	free(text);
}

static void a_malformed_trace_is_refused_with_its_line(void **state)
{
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16], *text;
	char flag[TEST_PATH_MAX + 32];
	const char *const args[] = {flag, NULL};
	FILE *f;

	(void)state;
	test_tmpdir_create(dir);
	snprintf(path, sizeof(path), "%s/trace", dir);
	snprintf(flag, sizeof(flag), "--trace=%s", path);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, "
	      "\"hash_ids\": [1]}\n{\"timestamp\": 0}\n",
	      f);
	fclose(f);
	text = tool_output("te-replay", args, 2);
	assert_non_null(strstr(text, path));
	assert_non_null(strstr(text, "line 2: "));
	free(text);
	test_tmpdir_remove(dir);
}

static void what_cannot_be_is_refused_in_one_line(void **state)
{
	static const struct tool_mistake mistakes[] = {
		{"--trace=/nonexistent", "/nonexistent"},
		{"--rate=fast", "rate"},
		{"--rate=0x", "rate"},
		{"--clients=0", "clients"},
		{"--tenants=0", "tenants"},
		{"--owners=65", "owners"},
		{"--block-bytes=0", "block"},
		{"--pool-bytes=65536g", "TiB of memory"},
	};

	(void)state;
	tool_refuses("te-replay", mistakes, TEST_COUNT(mistakes));
}

/* And not with the errno that stands for all reasons. "": the default trace. */
static void what_no_client_can_join_with_is_named(void **state)
{
	const char *const args[] = {"--trace=", "--host=", NULL};
	char *text = tool_output("te-replay", args, 1);

	(void)state;
	assert_non_null(strstr(text, "\"\" is no name"));
	assert_null(strstr(text, "Connection refused"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_go_to_csv_and_latencies_to_a_file),
		cmocka_unit_test(
			a_pool_that_is_too_small_evicts_and_stays_right),
		cmocka_unit_test(
			a_pool_with_room_for_all_is_ideal_for_one_client),
		cmocka_unit_test(
			tenants_share_nothing_and_each_client_is_told_of),
		cmocka_unit_test(a_client_that_is_killed_ends_it_with_an_error),
		cmocka_unit_test(more_tenants_than_clients_are_refused),
		cmocka_unit_test(people_get_a_closing_table),
		cmocka_unit_test(a_malformed_trace_is_refused_with_its_line),
		cmocka_unit_test(what_cannot_be_is_refused_in_one_line),
		cmocka_unit_test(what_no_client_can_join_with_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
