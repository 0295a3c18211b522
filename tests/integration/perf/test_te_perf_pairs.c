/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_te_perf_pairs.c - both directions at once, and many hosts at once
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/perf/tool.h"
#include "tests/lib/process.h"
#include "tests/lib/test.h"

#define READY_MS 60000
#define LIMIT_MS 60000
#define N_HOSTS  3

static void assert_row(const json_t *report, size_t i, const char *from,
		       const char *to)
{
	const json_t *row = row_of(report, i);

	assert_string_equal(text_of(row, "from"), from);
	assert_string_equal(text_of(row, "to"), to);
	assert_true(number(row, "ops_per_s") > 0);
	assert_true(number(row, "p99_us") > 0);
	assert_int_equal(integer(row, "failed"), 0);
}

/* The last row of a block is the sum of those before it. */
static void assert_block(const json_t *report, size_t n_pairs)
{
	double sum = 0, all = number(row_of(report, n_pairs), "gb_per_s");

	assert_row(report, n_pairs, "all", "all");
	for (size_t i = 0; i < n_pairs; i++) {
		assert_true(integer(row_of(report, i), "checked_bytes") > 0);
		sum += number(row_of(report, i), "gb_per_s");
	}
	/* Loads of other lengths: the longest one counts. */
	assert_true(all > 0 && all < sum * 1.001);
	assert_true(number(row_of(report, n_pairs), "cpu_s_per_gb") > 0);
	assert_int_equal(integer(report, "wrong_bytes"), 0);
}

/* ---- on this host ---- */

static void both_sides_submit_at_once(void **state)
{
	const char *const args[] = {
		"--bidirectional", "--op=both",        "--size=4k",
		"--duration=50ms", "--working-set=1m", "--verify=100",
		"--rounds=2",      "--json",           NULL};
	json_t *report = tool_json("te-perf", args);

	(void)state;
	assert_int_equal(json_array_size(json_object_get(report, "rows")), 6);
	assert_row(report, 0, "initiator", "target");
	assert_row(report, 1, "target", "initiator");
	assert_block(report, 2);
	assert_row(report, 3, "initiator", "target");
	json_decref(report);
}

static void each_scheme_moves_right_bytes(void **state)
{
	static const struct {
		const char *flag;
		size_t n_pairs;
	} schemes[] = {
		{"--scheme=pairs", 2},
		{"--scheme=manytoone", 3},
		{"--scheme=onetomany", 3},
		{"--scheme=all", 12},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(schemes); i++) {
		const char *const args[] = {schemes[i].flag,
					    "--processes=4",
					    "--op=mixed",
					    "--size=4k",
					    "--batch=4",
					    "--threads=2",
					    "--unaligned",
					    "--random",
					    "--duration=50ms",
					    "--working-set=1m",
					    "--verify=100",
					    "--json",
					    NULL};
		json_t *report = tool_json("te-perf", args);

		assert_block(report, schemes[i].n_pairs);
		json_decref(report);
	}
}

static void a_wrong_byte_of_a_pair_is_told(void **state)
{
	const char *const args[] = {"--scheme=all",
				    "--processes=2",
				    "--size=4k",
				    "--duration=30ms",
				    "--working-set=1m",
				    "--spoil",
				    NULL};
	char *text = tool_output("te-perf", args, 1);

	(void)state;
	assert_non_null(strstr(text, "2 wrong bytes"));
	free(text);
}

/* 64 MiB in a millisecond are more than any host moves over tcp. */
static void how_late_requests_of_pairs_fail_is_told(void **state)
{
	const char *const args[] = {
		"--bidirectional",   "--size=16m",   "--batch=4",
		"--timeout=1ms",     "--keep-going", "--duration=100ms",
		"--working-set=80m", "--json",       NULL};
	json_t *report = tool_json("te-perf", args);

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_true(integer(row_of(report, i), "failed") > 0);
		assert_true(number(row_of(report, i), "late_ms") > 0);
	}
	json_decref(report);
}

static void pairs_without_an_end_stop_when_interrupted(void **state)
{
	const char *const args[] = {"--bidirectional",
				    "--duration=0",
				    "--interval=20ms",
				    "--size=4k",
				    "--working-set=1m",
				    "--backend=shm",
				    NULL};
	char *text = tool_interrupted("te-perf", args, " requests/s");

	(void)state;
	test_contains(text, "initiator");
	test_contains(text, "0 wrong bytes");
	free(text);
}

/* ---- listening ones ---- */

struct listeners {
	struct test_process *process[N_HOSTS];
	char name[N_HOSTS][64]; /* "127.0.0.1:4000" */
	char flag[256];         /* --connect= all of them */
};

static void start_listeners(struct listeners *l)
{
	const char *const args[] = {"--listen=127.0.0.1:0", "--working-set=1m",
				    NULL};
	size_t len = (size_t)snprintf(l->flag, sizeof(l->flag), "--connect");
	char flag[64];

	for (size_t i = 0; i < N_HOSTS; i++) {
		l->process[i] = tool_listener(args, flag);
		snprintf(l->name[i], sizeof(l->name[i]), "%s",
			 strchr(flag, '=') + 1);
		len += (size_t)snprintf(l->flag + len, sizeof(l->flag) - len,
					"%c%s", i ? ',' : '=', l->name[i]);
	}
}

static void stop_listeners(struct listeners *l)
{
	for (size_t i = 0; i < N_HOSTS; i++)
		tool_interrupt(l->process[i]);
}

static void hosts_of_a_list_do_their_shares(void **state)
{
	struct listeners l;
	json_t *report;

	(void)state;
	start_listeners(&l);
	for (int i = 0; i < 2; i++) {
		const char *const args[] = {l.flag,
					    "--scheme=manytoone",
					    "--size=4k",
					    "--duration=50ms",
					    "--working-set=1m",
					    "--json",
					    NULL};

		report = tool_json("te-perf", args);
		assert_row(report, 0, l.name[1], l.name[0]);
		assert_row(report, 1, l.name[2], l.name[0]);
		assert_block(report, 2);
		json_decref(report);
	}
	stop_listeners(&l);
}

static void a_listening_target_submits_as_well(void **state)
{
	struct listeners l;
	char flag[128];
	const char *const args[] = {flag,
				    "--bidirectional",
				    "--size=4k",
				    "--duration=50ms",
				    "--working-set=1m",
				    "--json",
				    NULL};
	json_t *report;

	(void)state;
	start_listeners(&l);
	snprintf(flag, sizeof(flag), "--connect=%s", l.name[1]);
	report = tool_json("te-perf", args);
	assert_row(report, 0, "initiator", l.name[1]);
	assert_row(report, 1, l.name[1], "initiator");
	assert_block(report, 2);
	json_decref(report);
	stop_listeners(&l);
}

/* What the others have done until then is told. */
static void a_host_that_is_lost_is_named(void **state)
{
	struct listeners l;
	char words[128];
	struct test_process *p;

	(void)state;
	start_listeners(&l);
	{
		const char *const args[] = {l.flag,
					    "--scheme=manytoone",
					    "--size=4k",
					    "--duration=3600",
					    "--interval=20ms",
					    "--timeout=500ms",
					    "--working-set=1m",
					    NULL};
		p = test_process_start("te-perf", args);
	}
	assert_non_null(test_process_line(p, " requests/s", READY_MS));
	tool_kill_child(l.process[2], "--role=target");
	assert_int_equal(test_process_wait(p, LIMIT_MS), 1);
	snprintf(words, sizeof(words), "host %s: it has ended", l.name[2]);
	test_contains(test_process_output(p), words);
	test_contains(test_process_output(p), "operation");
	test_process_end(p);
	stop_listeners(&l);
}

static void a_host_that_is_not_there_is_named(void **state)
{
	struct listeners l;
	char flag[160];
	const char *const args[] = {flag, "--scheme=all", "--size=4k",
				    "--working-set=1m", NULL};
	char *text;

	(void)state;
	start_listeners(&l);
	snprintf(flag, sizeof(flag), "--connect=%s,127.0.0.1:1", l.name[0]);
	text = tool_output("te-perf", args, 1);
	assert_non_null(strstr(text, "host 127.0.0.1:1: "));
	free(text);
	snprintf(flag, sizeof(flag), "--connect=%s,%s", l.name[0], l.name[1]);
	{
		const char *const more[] = {flag, "--scheme=all", "--size=4k",
					    "--working-set=2m", NULL};

		text = tool_output("te-perf", more, 1);
	}
	assert_non_null(strstr(text, l.name[0]));
	assert_non_null(strstr(text, "start it with more"));
	free(text);
	stop_listeners(&l);
}

static void what_pairs_cannot_do_is_refused(void **state)
{
	static const struct tool_conflict bad[] = {
		{{"--scheme=some", "--size=4k"}, "scheme"},
		{{"--scheme=pairs", "--processes=3"}, "even"},
		{{"--scheme=all", "--processes=65"}, "processes"},
		{{"--scheme=all", "--processes=60"}, "rows are too many"},
		{{"--scheme=all", "--connect=a:1"}, "two hosts"},
		{{"--scheme=all", "--connect=a:1,a:1"}, "each once"},
		{{"--scheme=all", "--connect=a:1,,b:1"}, "each once"},
		{{"--scheme=all", "--connect=a,b:1", "--size=4k"}, "host:port"},
		{{"--bidirectional", "--reference"}, "reference"},
		{{"--bidirectional", "--fault=kill"}, "fault"},
		{{"--bidirectional", "--backend=loop"}, "backend"},
		{{"--bidirectional", "--priority-probe"}, "probe"},
		{{"--bidirectional", "--svg=x"}, "svg"},
		{{"--bidirectional", "--pin"}, "pin"},
		{{"--bidirectional", "--idle"}, "idle"},
		{{"--scheme=manytoone", "--working-set=1m", "--batch=4"},
		 "working_set"},
	};

	(void)state;
	tool_refuses_together("te-perf", bad, TEST_COUNT(bad));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_submit_at_once),
		cmocka_unit_test(each_scheme_moves_right_bytes),
		cmocka_unit_test(a_wrong_byte_of_a_pair_is_told),
		cmocka_unit_test(how_late_requests_of_pairs_fail_is_told),
		cmocka_unit_test(pairs_without_an_end_stop_when_interrupted),
		cmocka_unit_test(hosts_of_a_list_do_their_shares),
		cmocka_unit_test(a_listening_target_submits_as_well),
		cmocka_unit_test(a_host_that_is_lost_is_named),
		cmocka_unit_test(a_host_that_is_not_there_is_named),
		cmocka_unit_test(what_pairs_cannot_do_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
