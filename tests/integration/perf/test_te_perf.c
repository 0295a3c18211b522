/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_te_perf.c - te-perf measures, checks bytes and reports
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "perf/lib/room.h"
#include "tests/integration/perf/tool.h"
#include "tests/lib/test.h"

static const char *const columns[] = {
	"size",   "batch",  "threads", "gb_per_s",     "ops_per_s",
	"p50_us", "p99_us", "p999_us", "cpu_s_per_gb", NULL};

static void assert_row(const json_t *report, size_t i, const char *backend,
		       const char *op, json_int_t size)
{
	const json_t *row = row_of(report, i);

	assert_numbers(row, columns);
	assert_string_equal(text_of(row, "backend"), backend);
	assert_string_equal(text_of(row, "op"), op);
	assert_int_equal(integer(row, "size"), size);
	assert_true(number(row, "ops_per_s") > 0);
	assert_int_equal(integer(row, "wrong_bytes"), 0);
}

static const char *const points[] = {"end_s", "gb_per_s", "ops_per_s", "gap_ms",
				     NULL};

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
	assert_null(json_object_get(report, "congestion"));
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

/* Each way; every byte is compared, those of a second pass too. */
static void any_order_and_address_has_right_bytes(void **state)
{
	static const char *const backends[] = {"--backend=tcp",
					       "--backend=shm"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(backends); i++) {
		const char *const args[] = {
			backends[i],   "--op=mixed",       "--size=1,100,5000",
			"--batch=3",   "--threads=2",      "--random",
			"--unaligned", "--verify=100",     "--duration=50ms",
			"--json",      "--working-set=1m", NULL};
		json_t *report = tool_json("te-perf", args);
		const json_t *row = row_of(report, 0);

		assert_true(integer(row, "checked_bytes") > 0);
		assert_int_equal(integer(report, "wrong_bytes"), 0);
		assert_true(json_is_true(json_object_get(report, "random")));
		json_decref(report);
	}
}

static void assert_sane(double v)
{
	assert_true(v > 0 && v < 1e12);
}

static void tcp_is_held_against_raw_sockets(void **state)
{
	static const char *const figures[] = {
		"stream_gb_per_s",      "stream_cpu_s_per_gb",
		"exchange_gb_per_s",    "exchange_p50_us",
		"pingpong_spinning_us", "pingpong_blocking_us",
		"of_pingpong_spinning", NULL};
	const char *const args[] = {
		"--size=64",        "--batch=1",  "--duration=100ms",
		"--working-set=4m", "--rounds=2", "--reference",
		"--op=read",        "--json",     NULL};
	json_t *report = tool_json("te-perf", args);
	const json_t *row = row_of(report, 0), *reference, *bound;

	(void)state;
	reference = json_object_get(row, "reference");
	assert_numbers(reference, figures);
	for (size_t i = 0; figures[i]; i++)
		assert_sane(number(reference, figures[i]));
	bound = json_object_get(row, "bound");
	assert_string_equal(text_of(bound, "kind"), "stream");
	assert_sane(number(bound, "gb_per_s"));
	assert_sane(number(bound, "share"));
	bound = json_object_get(row, "raw");
	assert_string_equal(text_of(bound, "kind"), "exchange");
	assert_int_equal(integer(row, "rounds"), 2);
	assert_non_null(json_object_get(report, "congestion"));
	json_decref(report);
}

static void memory_is_held_against_copies(void **state)
{
	const char *const args[] = {
		"--backend=loop",   "--size=64k",  "--duration=50ms", "--hot",
		"--working-set=4m", "--reference", "--json",          NULL};
	json_t *report = tool_json("te-perf", args);
	const json_t *row = row_of(report, 0), *reference;

	(void)state;
	reference = json_object_get(row, "reference");
	assert_sane(number(reference, "memcpy_gb_per_s"));
	assert_sane(number(reference, "best_copy_gb_per_s"));
	assert_true(
		json_is_null(json_object_get(reference, "stream_gb_per_s")));
	assert_string_equal(text_of(json_object_get(row, "bound"), "kind"),
			    "copy");
	json_decref(report);
}

static size_t n_choices(const json_t *report)
{
	return json_array_size(json_object_get(report, "choices"));
}

/* Each moves all bytes between two processes, and is not measured then. */
static void each_kernel_of_copies_can_be_named(void **state)
{
	char list[] = TEI_COPY_KERNELS, *rest = list, *name, engine[64];
	const char *const args[] = {"--backend=shm",
				    "--op=both",
				    "--size=1000,300k",
				    "--batch=8",
				    "--duration=20ms",
				    "--working-set=8m",
				    "--verify=100",
				    "--json",
				    engine,
				    NULL};

	(void)state;
	while ((name = strsep(&rest, "|"))) {
		json_t *report;

		if (!tei_copier_find(name))
			continue;
		(void)snprintf(engine, sizeof(engine),
			       "--engine=copy_kernel=%s", name);
		report = tool_json("te-perf", args);
		for (size_t i = 0; i < 4; i++)
			assert_row(report, i, "shm", i % 2 ? "read" : "write",
				   i < 2 ? 1000 : 300 << 10);
		assert_int_equal(n_choices(report), 0);
		json_decref(report);
	}
}

/* The table says why it shows no choice. */
static void a_choice_that_was_not_made_is_told_of(void **state)
{
	static const struct {
		const char *engine, *says;
	} cases[] = {
		{"--engine=copy_kernel=memcpy", "that copy_kernel names"},
		{"--engine=copy_kernel=auto", "no kernel chosen yet"},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		const char *const args[] = {"--backend=shm",    "--size=64",
					    "--duration=20ms",  cases[i].engine,
					    "--working-set=1m", NULL};
		char *text = tool_output("te-perf", args, 0);

		test_contains(text, cases[i].says);
		free(text);
	}
}

/* The engine's own choice, and that of the reference. */
static void choices_of_copies_are_shown(void **state)
{
	const char *args[] = {"--backend=shm",
			      "--size=1m",
			      "--duration=300ms",
			      "--working-set=64m",
			      "--reference",
			      "--json",
			      NULL};
	const json_t *choice;
	json_t *report = NULL;

	(void)state;
	/*
	 * A host that is busy all the time leaves no clean sample, nor does
	 * memory that is touched for the first time, for long under TSan.
	 */
	for (int i = 0; i < 10 && (!report || !n_choices(report)); i++) {
		json_decref(report);
		report = tool_json("te-perf", args);
		args[2] = "--duration=2s";
	}
	assert_true(n_choices(report) > 0);
	assert_true(json_is_real(json_object_get(report, "wakeup_us")));
	choice = json_array_get(json_object_get(report, "choices"), 0);
	assert_int_equal(strncmp(text_of(choice, "copies"), "te_copy_", 8), 0);
	assert_non_null(tei_copier_find(text_of(choice, "kernel")));
	assert_sane(number(choice, "gb_per_s"));
	assert_non_null(tei_copier_find(
		text_of(json_object_get(row_of(report, 0), "reference"),
			"best_copy_kernel")));
	json_decref(report);
}

static void lists_make_a_row_each(void **state)
{
	static const struct {
		json_int_t size, batch, threads;
	} want[] = {{64, 1, 1},  {64, 1, 2},  {64, 4, 1},  {64, 4, 2},
		    {128, 1, 1}, {128, 1, 2}, {128, 4, 1}, {128, 4, 2}};
	const char *const args[] = {"--backend=loop",   "--size=64..128",
				    "--batch=1,4",      "--threads=1,2",
				    "--duration=5ms",   "--json",
				    "--working-set=1m", NULL};
	json_t *report = tool_json("te-perf", args);
	const json_t *rows = json_object_get(report, "rows"), *row;

	(void)state;
	assert_int_equal(json_array_size(rows), TEST_COUNT(want));
	for (size_t i = 0; i < TEST_COUNT(want); i++) {
		row = json_array_get(rows, i);
		assert_int_equal(integer(row, "size"), want[i].size);
		assert_int_equal(integer(row, "batch"), want[i].batch);
		assert_int_equal(integer(row, "threads"), want[i].threads);
	}
	json_decref(report);
}

static void mixed_requests_are_all_compared(void **state)
{
	const char *const args[] = {
		"--op=mixed",       "--read-share=30", "--size=1000",
		"--batch=10",       "--threads=2",     "--duration=50ms",
		"--working-set=1m", "--verify=100",    "--priority-probe",
		"--json",           "--foreign",       NULL};
	json_t *report = tool_json("te-perf", args);
	const json_t *row = row_of(report, 0);

	(void)state;
	assert_string_equal(text_of(row, "op"), "mixed");
	assert_true(integer(row, "checked_bytes") >= 2 * 10 * 1000);
	assert_int_equal(integer(row, "wrong_bytes"), 0);
	assert_sane(number(row, "probe_p50_us"));
	json_decref(report);
}

static void assert_spoiled(const char *op)
{
	const char *const args[] = {
		op,        "--size=4k", "--duration=20ms", "--working-set=1m",
		"--spoil", NULL};
	char *text = tool_output("te-perf", args, 1);

	assert_non_null(strstr(text, "te-perf: 1 wrong bytes"));
	free(text);
}

static void one_wrong_byte_is_found(void **state)
{
	(void)state;
	assert_spoiled("--op=write");
	assert_spoiled("--op=read");
}

static void rails_and_intervals_add_up(void **state)
{
	const char *const args[] = {
		"--size=64k", "--duration=200ms", "--interval=50ms",
		"--verify=0", "--working-set=4m", "--json",
		NULL};
	json_t *report = tool_json("te-perf", args);
	const json_t *row = row_of(report, 0), *rail, *series, *rails;
	double share = 0;
	size_t i;

	(void)state;
	rails = json_object_get(row, "rails");
	json_array_foreach(rails, i, rail)
	{
		assert_non_null(text_of(rail, "name"));
		share += number(rail, "share");
	}
	assert_float_equal(share, 1, 1e-3);
	assert_string_equal(text_of(row, "carrier"), "tcp");
	series = json_object_get(row, "series");
	assert_true(json_array_size(series) >= 1); /* 4, if woken in time */
	assert_true(json_array_size(series) <= 4);
	for (i = 0; i < json_array_size(series); i++)
		assert_numbers(json_array_get(series, i), points);
	assert_sane(number(row, "gap_ms"));
	json_decref(report);
}

static void a_sweep_is_drawn(void **state)
{
	struct tool_file file;
	const char *const args[] = {
		"--size=4k..64k",   "--duration=10ms", "--op=both", file.flag,
		"--working-set=2m", "--reference",     NULL};
	char *text;

	(void)state;
	tool_file_init(&file, "--svg");
	free(tool_output("te-perf", args, 0));
	text = tool_file_take(&file);
	assert_non_null(strstr(text, ">tcp write<"));
	assert_non_null(strstr(text, ">tcp read<"));
	assert_non_null(strstr(text, ">bound: bare stream<"));
	free(text);
}

static void a_picture_that_cannot_be_written_is_an_error(void **state)
{
	const char *const args[] = {"--size=4k", "--duration=10ms",
				    "--working-set=1m",
				    "--svg=/nonexistent/sweep.svg", NULL};
	char *text = tool_output("te-perf", args, 1);

	(void)state;
	assert_non_null(strstr(text, "/nonexistent/sweep.svg"));
	free(text);
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
	static const struct tool_mistake mistakes[] = {
		{"--size=none", "size"},
		{"--size=4k,", "size"},
		{"--size=2g", "size"},
		{"--batch=60000", "working_set"},
		{"--op=sideways", "op"},
		{"--threads=0", "threads"},
		{"--batch=0", "batch"},
		{"--size=4k..1k", "size"},
		{"--size=1..1k,1..1k,1..1k", "size"},
		{"--verify=101", "verify"},
		{"--rounds=0", "rounds"},
		{"--connect=nonsense", "connect"},
		{"--listen=a:b", "listen"},
		{"--fault=flood", "fault"},
		{"--engine=nonsense=1", "nonsense"},
		{"--engine=tcp.lanes", "name=value"},
		{"--engine=backends=nosuch", "there is no \"nosuch\""},
		{"--backend=", "\"\" names no backend; there are auto, "},
		{"--backends=", "\"\" names no backend; there are auto, "},
		{"--backend= ", "empty entry; there are auto, "},
		{"--no-such-flag", "no-such-flag"},
	};

	(void)state;
	tool_refuses("te-perf", mistakes, TEST_COUNT(mistakes));
}

/* Two sets of a TiB each; a host that has so much is not asked. */
static void what_cannot_fit_is_refused(void **state)
{
	static const struct tool_mistake mistakes[] = {
		{"--working-set=1024g", "2 TiB of memory"},
	};

	(void)state;
	if (tei_room_left("").bytes > 1ull << 40)
		skip();
	tool_refuses("te-perf", mistakes, TEST_COUNT(mistakes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_fit_is_refused),
		cmocka_unit_test(
			both_directions_of_tcp_are_measured_with_right_bytes),
		cmocka_unit_test(loop_needs_no_second_process),
		cmocka_unit_test(any_order_and_address_has_right_bytes),
		cmocka_unit_test(tcp_is_held_against_raw_sockets),
		cmocka_unit_test(memory_is_held_against_copies),
		cmocka_unit_test(each_kernel_of_copies_can_be_named),
		cmocka_unit_test(a_choice_that_was_not_made_is_told_of),
		cmocka_unit_test(choices_of_copies_are_shown),
		cmocka_unit_test(lists_make_a_row_each),
		cmocka_unit_test(mixed_requests_are_all_compared),
		cmocka_unit_test(one_wrong_byte_is_found),
		cmocka_unit_test(rails_and_intervals_add_up),
		cmocka_unit_test(a_sweep_is_drawn),
		cmocka_unit_test(a_picture_that_cannot_be_written_is_an_error),
		cmocka_unit_test(people_get_a_table),
		cmocka_unit_test(what_cannot_be_is_refused_in_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
