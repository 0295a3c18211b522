/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_te_perf_modes.c - two hosts, faults, idle peers, bursts of connects
 */
#include <stdlib.h>
#include <string.h>

#include "perf/lib/backends.h"
#include "tests/integration/perf/tool.h"
#include "tests/lib/process.h"
#include "tests/lib/test.h"

#define READY_MS 60000
#define LIMIT_MS 60000

/* ---- a target that listens ---- */

static void initiators_are_served_one_after_another(void **state)
{
	const char *const listen[] = {"--listen=127.0.0.1:0",
				      "--working-set=4m", NULL};
	char flag[64];
	struct test_process *p = tool_listener(listen, flag);
	const char *const args[] = {flag,
				    "--size=4k",
				    "--op=both",
				    "--duration=50ms",
				    "--working-set=2m",
				    "--verify=100",
				    "--reference",
				    "--json",
				    NULL};
	json_t *report;

	(void)state;
	for (int i = 0; i < 2; i++) {
		report = tool_json("te-perf", args);
		assert_int_equal(integer(report, "wrong_bytes"), 0);
		assert_true(number(row_of(report, 0), "gb_per_s") > 0);
		assert_true(number(json_object_get(row_of(report, 0), "bound"),
				   "gb_per_s") > 0);
		assert_true(number(row_of(report, 0), "cpu_s_per_gb") > 0);
		json_decref(report);
	}
	assert_non_null(test_process_line(p, "session ended", READY_MS));
	tool_interrupt(p);
}

/* Hours before its time, and its bytes are compared all the same. */
static void what_came_of_an_interrupted_row_is_told(void **state)
{
	const char *const args[] = {"--size=4k",       "--duration=3600s",
				    "--interval=20ms", "--working-set=1m",
				    "--verify=100",    NULL};
	char *text = tool_interrupted("te-perf", args, " requests/s ");

	(void)state;
	test_contains(text, "4 KiB");
	free(text);
}

static void a_target_lends_no_more_than_it_was_told(void **state)
{
	const char *const listen[] = {"--listen=127.0.0.1:0",
				      "--working-set=1m", NULL};
	char flag[64], *text;
	struct test_process *p = tool_listener(listen, flag);
	const char *const args[] = {flag, "--size=4k", "--working-set=2m",
				    NULL};

	(void)state;
	text = tool_output("te-perf", args, 1);
	assert_non_null(strstr(text, "start it with more"));
	free(text);
	tool_interrupt(p);
}

static void an_interrupted_listener_takes_its_session_along(void **state)
{
	const char *const listen[] = {"--listen=127.0.0.1:0",
				      "--working-set=2m", NULL};
	char flag[64];
	struct test_process *p = tool_listener(listen, flag);
	const char *const args[] = {flag,
				    "--size=4k",
				    "--working-set=1m",
				    "--duration=60",
				    "--timeout=500ms",
				    NULL};
	struct test_process *initiator = test_process_start("te-perf", args);

	(void)state;
	assert_non_null(test_process_line(p, "session with", READY_MS));
	tool_interrupt(p);
	assert_int_equal(test_process_wait(initiator, LIMIT_MS), 1);
	test_process_end(initiator);
}

static void nobody_there_is_said(void **state)
{
	const char *const args[] = {"--connect=127.0.0.1:1", NULL};
	char *text = tool_output("te-perf", args, 1);

	(void)state;
	assert_non_null(strstr(text, "127.0.0.1:1"));
	free(text);
}

/* ---- faults ---- */

static void assert_fault(const char *fault, const char *op)
{
	const char *const args[] = {fault,
				    op,
				    "--size=64k",
				    "--duration=400ms",
				    "--timeout=300ms",
				    "--working-set=8m",
				    "--json",
				    NULL};
	json_t *report = tool_json("te-perf", args);
	const json_t *row = row_of(report, 0), *bystander;

	bystander = json_object_get(row, "bystander");
	assert_true(integer(row, "failed") > 0);
	assert_true(json_is_number(json_object_get(row, "late_ms")));
	assert_true(json_is_true(json_object_get(row, "fault_quiet")));
	assert_true(integer(bystander, "requests") > 0);
	assert_int_equal(integer(bystander, "errors"), 0);
	json_decref(report);
}

static void a_target_that_is_killed_costs_only_its_requests(void **state)
{
	(void)state;
	assert_fault("--fault=kill", "--op=write");
	assert_fault("--fault=kill", "--op=read");
}

static void a_target_that_stops_costs_only_its_requests(void **state)
{
	(void)state;
	assert_fault("--fault=stop", "--op=write");
	assert_fault("--fault=stop", "--op=read");
}

/* ---- peers ---- */

static void idle_peers_are_weighed(void **state)
{
	static const char *const figures[] = {"target_cpu_share",
					      "initiator_cpu_share",
					      "target_bytes_per_peer", NULL};
	const char *const args[] = {"--idle", "--peers=8", "--duration=100ms",
				    "--json", NULL};
	json_t *report = tool_json("te-perf", args);

	(void)state;
	assert_numbers(report, figures);
	assert_int_equal(integer(report, "peers"), 8);
	assert_int_equal(integer(report, "failed"), 0);
	json_decref(report);
}

static void a_burst_of_connects_is_served(void **state)
{
	const char *const args[] = {"--connects=30", "--json", NULL};
	json_t *report = tool_json("te-perf", args);

	(void)state;
	assert_int_equal(integer(report, "connects"), 30);
	assert_int_equal(integer(report, "failed"), 0);
	assert_true(number(report, "all_served_ms") > 0);
	json_decref(report);
}

/* ---- costs ---- */

static const char *const registration[] = {"register_p50_us", "register_p99_us",
					   "unregister_p50_us", "gb_per_s",
					   NULL};
static const char *const first[] = {"create_p50_us", "connect_p50_us",
				    "first_p50_us",  "second_p50_us",
				    "cold_p99_us",   NULL};

static void assert_costs(const char *flag, const char *more,
			 const char *const figures[])
{
	const char *const args[] = {flag,
				    more,
				    "--size=4k,64k",
				    "--duration=30ms",
				    "--working-set=1m",
				    "--json",
				    NULL};
	json_t *report = tool_json("te-perf", args);
	const json_t *rows = json_object_get(report, "rows");

	assert_int_equal(json_array_size(rows), 2);
	for (size_t i = 0; i < 2; i++) {
		assert_numbers(json_array_get(rows, i), figures);
		assert_true(integer(json_array_get(rows, i), "n") > 0);
	}
	json_decref(report);
}

static void what_registration_costs_is_measured(void **state)
{
	(void)state;
	assert_costs("--registration", "--backend=shm", registration);
	assert_costs("--registration", "--backend=loop", registration);
	assert_costs("--registration", "--foreign", registration);
}

static void what_the_first_request_costs_is_measured(void **state)
{
	const char *const listen[] = {"--listen=127.0.0.1:0",
				      "--working-set=2m", NULL};
	char flag[64];
	struct test_process *p = tool_listener(listen, flag);

	(void)state;
	assert_costs("--first-request", "--backend=tcp", first);
	assert_costs("--first-request", "--backend=auto", first);
	assert_costs("--first-request", flag, first);
	tool_interrupt(p);
}

static void costs_have_the_same_names_in_csv(void **state)
{
	static const char *const kinds[][2] = {
		{"--registration",
		 "backend,size,n,register_p50_us,register_p99_us,"
		 "unregister_p50_us,unregister_p99_us,gb_per_s\r\ntcp,4096,"},
		{"--first-request",
		 "backend,size,n,create_p50_us,create_p99_us,connect_p50_us,"
		 "connect_p99_us,first_p50_us,first_p99_us,second_p50_us,"
		 "second_p99_us,cold_p50_us,cold_p99_us\r\ntcp,4096,"},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		const char *const args[] = {
			kinds[i][0],        "--csv",
			"--size=4k",        "--duration=20ms",
			"--working-set=1m", NULL};
		char *text = tool_output("te-perf", args, 0);

		assert_ptr_equal(strstr(text, kinds[i][1]), text);
		free(text);
	}
}

static void an_unknown_backend_is_refused_with_those_there_are(void **state)
{
	static const char *const modes[] = {
		"--size=4k", "--scheme=all", "--listen=127.0.0.1:0",
		"--registration", "--first-request"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(modes); i++) {
		const char *const args[] = {modes[i], "--backends=tcp,bogus",
					    "--working-set=128m", NULL};
		char *text = tool_output("te-perf", args, 2);

		test_contains(text, "there is no \"bogus\"");
		test_contains(text, "there are auto, loop");
		free(text);
	}
}

static void help_lists_the_backends_there_are(void **state)
{
	static const char *const programs[] = {"te-perf", "store-perf"};
	const char *const unknown[] = {"--backends=bogus", NULL};
	const char *const help[] = {"--help", NULL};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(programs); i++) {
		char *text = tool_output(programs[i], unknown, 2);

		test_contains(text,
			      "there are auto, loop, " TEI_BACKENDS_OF_PEERS
			      "\n");
		free(text);
		text = tool_output(programs[i], help, 0);
		test_contains(text, TEI_BACKENDS_OF_PEERS ", ");
		free(text);
	}
}

static void modes_that_exclude_each_other_are_refused(void **state)
{
	static const struct tool_conflict bad[] = {
		{{"--listen=1", "--connect=a:1"}, "listen"},
		{{"--backend=loop", "--connects=3"}, "backend"},
		{{"--backend=loop", "--connect=a:1"}, "backend"},
		{{"--fault=kill", "--connect=a:1"}, "fault"},
		{{"--fault=kill", "--backend=loop"}, "fault"},
		{{"--registration", "--first-request"}, "registration"},
		{{"--registration", "--duration=0"}, "duration"},
		{{"--registration", "--location=cpu:0,*"}, "location"},
		{{"--registration", "--bidirectional"}, "registration"},
		{{"--first-request", "--backend=loop"}, "backend"},
		{{"--registration", "--svg=x"}, "svg"},
		{{"--idle", "--connects=2"}, "idle"},
		{{"--idle", "--csv"}, "csv"},
		{{"--connects=2", "--csv"}, "csv"},
		{{"--idle", "--histogram=x"}, "histogram"},
		{{"--idle", "--svg=x"}, "svg"},
		{{"--connects=2", "--rate=5"}, "rate"},
		{{"--idle", "--registration"}, "registration"},
	};

	(void)state;
	tool_refuses_together("te-perf", bad, TEST_COUNT(bad));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(initiators_are_served_one_after_another),
		cmocka_unit_test(what_came_of_an_interrupted_row_is_told),
		cmocka_unit_test(a_target_lends_no_more_than_it_was_told),
		cmocka_unit_test(
			an_interrupted_listener_takes_its_session_along),
		cmocka_unit_test(nobody_there_is_said),
		cmocka_unit_test(
			a_target_that_is_killed_costs_only_its_requests),
		cmocka_unit_test(a_target_that_stops_costs_only_its_requests),
		cmocka_unit_test(idle_peers_are_weighed),
		cmocka_unit_test(a_burst_of_connects_is_served),
		cmocka_unit_test(what_registration_costs_is_measured),
		cmocka_unit_test(what_the_first_request_costs_is_measured),
		cmocka_unit_test(costs_have_the_same_names_in_csv),
		cmocka_unit_test(
			an_unknown_backend_is_refused_with_those_there_are),
		cmocka_unit_test(help_lists_the_backends_there_are),
		cmocka_unit_test(modes_that_exclude_each_other_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
