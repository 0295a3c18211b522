/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_te_perf_gpu.c - te-perf with memory of a place: of GPUs, of NUMA nodes
 *
 * The driver is one in memory: a processor that touches a GPU's gets a signal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/perf/tool.h"
#include "tests/lib/fake_cuda/fake_cuda.h"
#include "tests/lib/test.h"

static char driver[512]; /* the setting */

static int set_up(void **state)
{
	struct fake_cuda cuda;

	(void)state;
	fake_cuda_open(&cuda);
	assert_true(snprintf(driver, sizeof(driver), "--engine=cuda_library=%s",
			     cuda.file) < (int)sizeof(driver));
	return 0;
}

/* The row names the value of a flag, all of it. */
static void assert_named(const json_t *row, const char *name, const char *flag)
{
	assert_string_equal(json_string_value(json_object_get(row, name)),
			    strchr(flag, '=') + 1);
}

/* Measures requests of both directions, all of whose bytes are compared. */
static void measure(const char *backend, const char *ours, const char *theirs,
		    const char *carrier)
{
	char by[64];
	const char *const args[] = {by,
				    ours,
				    theirs,
				    "--op=mixed",
				    driver,
				    "--json",
				    "--size=100k",
				    "--batch=4",
				    "--duration=50ms",
				    "--working-set=4m",
				    "--verify=100",
				    NULL};
	const json_t *row;
	json_t *report;

	(void)snprintf(by, sizeof(by), "--backend=%s", backend);
	report = tool_json("te-perf", args);
	row = json_array_get(json_object_get(report, "rows"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "carrier")),
			    carrier);
	assert_true(integer(row, "checked_bytes") >= 4 * 102400);
	assert_int_equal(integer(row, "wrong_bytes"), 0);
	assert_named(row, "location", ours);
	assert_named(row, "remote_location", theirs);
	json_decref(report);
}

static void bytes_of_gpus_are_right(void **state)
{
	static const char *const ours[] = {"--location=cuda:0", "--location=*",
					   "--location=cpu:0"};
	static const char *const theirs[] = {"--remote-location=cuda:2",
					     "--remote-location=cpu:0"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(ours); i++)
		for (size_t k = 0; k < TEST_COUNT(theirs); k++)
			measure("tcp", ours[i], theirs[k], "tcp");
	measure("loop", ours[0], theirs[0], "loop");
	measure("shm", ours[0], theirs[1], "shm");
	measure("auto", ours[0], theirs[0], "shm");
}

static void bytes_of_several_locations_are_right(void **state)
{
	static const char *const ours[] = {"--location=cuda:0,cuda:1",
					   "--location=*,cuda:3,cpu:0",
					   "--location=cpu:0"};
	static const char *const theirs[] = {
		"--remote-location=cuda:2,cuda:3",
		"--remote-location=cpu:0,cuda:1,cuda:0,cuda:2,*"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(ours); i++)
		for (size_t k = 0; k < TEST_COUNT(theirs); k++)
			measure("tcp", ours[i], theirs[k], "tcp");
	measure("loop", ours[0], theirs[1], "loop");
	measure("shm", ours[1], "--remote-location=*,cpu:0", "shm");
	measure("auto", ours[0], theirs[0], "shm");
	measure("auto", ours[2], theirs[0], "tcp");
}

static void several_threads_share_several_locations(void **state)
{
	static const char *const modes[] = {"--hot=false", "--hot=true"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(modes); i++) {
		const char *const args[] = {
			"--location=cuda:3,*",
			"--remote-location=cuda:2,cuda:1,cpu:0",
			modes[i],
			driver,
			"--op=both",
			"--threads=1,3",
			"--size=5,8k",
			"--batch=1",
			"--duration=30ms",
			"--working-set=1m",
			"--priority-probe",
			"--verify=100",
			NULL};
		char *text = tool_output("te-perf", args, 0);

		assert_non_null(strstr(text, "memory of cuda:3,*, the target's "
					     "of cuda:2,cuda:1,cpu:0\n"));
		assert_non_null(strstr(text, "compared, 0 wrong bytes"));
		free(text);
	}
}

static void one_wrong_byte_is_found(void **state)
{
	static const char *const ops[] = {"--op=write", "--op=read"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(ops); i++) {
		const char *const args[] = {ops[i],
					    "--size=4k",
					    "--duration=20ms",
					    "--spoil",
					    driver,
					    "--working-set=1m",
					    "--location=cuda:1",
					    NULL};
		char *text = tool_output("te-perf", args, 1);

		assert_non_null(strstr(text, "te-perf: 1 wrong bytes"));
		free(text);
	}
}

static void a_listener_puts_its_memory_where_it_is_asked_to(void **state)
{
	const char *const listener[] = {"--listen=127.0.0.1:0",
					"--working-set=4m", driver, NULL};
	char flag[64];
	struct test_process *p = tool_listener(listener, flag);
	const char *const args[] = {flag,
				    "--size=4k",
				    "--remote-location=cuda:3,cuda:0",
				    "--op=both",
				    "--working-set=4m",
				    "--duration=50ms",
				    "--json",
				    NULL};
	const char *const nowhere[] = {flag, "--size=4k",
				       "--remote-location=cuda:0,cuda:7",
				       "--working-set=4m", NULL};
	json_t *report = tool_json("te-perf", args);
	char *text;

	(void)state;
	assert_int_equal(integer(report, "wrong_bytes"), 0);
	json_decref(report);
	text = tool_output("te-perf", nowhere, 1);
	assert_non_null(strstr(text, "the target says: error memory: "
				     "location cuda:7: "));
	free(text);
	tool_interrupt(p);
}

static void a_gpu_that_is_not_there_is_said(void **state)
{
	const char *const args[] = {"--location=cuda:9", driver, "--size=4k",
				    "--working-set=1m", NULL};
	char *text = tool_output("te-perf", args, 1);

	(void)state;
	assert_non_null(strstr(text, "this process sees no cuda:9"));
	free(text);
}

static void what_cannot_be_is_refused_in_one_line(void **state)
{
	static const struct tool_mistake mistakes[] = {
		{"--location=", "location: \"\": a name is missing"},
		{"--location=cuda:0,", "location"},
		{"--location=cuda:0,disk:0", "location"},
		{"--remote-location=a b", "remote_location"},
		{"--remote-location=cuda:1,cpu:0,cuda:1",
		 "remote_location: \"cuda:1,cpu:0,cuda:1\": a name is there "
		 "twice"},
	};
	const char *const args[] = {"--location=cuda:0,cuda:1,cuda:2",
				    "--size=400k", "--batch=1",
				    "--working-set=1m", NULL};
	char *text;

	(void)state;
	tool_refuses("te-perf", mistakes, TEST_COUNT(mistakes));
	text = tool_output("te-perf", args, 2);
	assert_non_null(strstr(text, "working_set: "));
	assert_non_null(strstr(text, "or fewer locations"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_of_gpus_are_right),
		cmocka_unit_test(bytes_of_several_locations_are_right),
		cmocka_unit_test(several_threads_share_several_locations),
		cmocka_unit_test(one_wrong_byte_is_found),
		cmocka_unit_test(
			a_listener_puts_its_memory_where_it_is_asked_to),
		cmocka_unit_test(a_gpu_that_is_not_there_is_said),
		cmocka_unit_test(what_cannot_be_is_refused_in_one_line),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
