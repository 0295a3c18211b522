/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_process.c - children start, talk, fail and stop within their time
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "perf/lib/process.h"

#define LIMIT_MS 60000

static int start_shell(struct tei_process *p, char *script, bool server)
{
	char sh[] = "/bin/sh", c[] = "-c";
	char *argv[] = {sh, c, script, NULL};

	return server ? tei_process_start_server(p, "shell", argv)
		      : tei_process_start_helper(p, "shell", argv, -1);
}

static void a_helper_answers_line_by_line(void **state)
{
	char script[] = "while read a; do echo \"<$a>\"; echo; done; exit 3";
	char line[TEI_PROCESS_LINE];
	struct tei_process p;

	(void)state;
	assert_int_equal(start_shell(&p, script, false), 0);
	assert_int_equal(tei_process_say(&p, "one"), 0);
	assert_int_equal(tei_process_say(&p, "two"), 0);
	assert_int_equal(tei_process_hear(&p, line, LIMIT_MS), 0);
	assert_string_equal(line, "<one>");
	assert_int_equal(tei_process_hear(&p, line, LIMIT_MS), 0);
	assert_string_equal(line, "");
	assert_int_equal(tei_process_hear(&p, line, LIMIT_MS), 0);
	assert_string_equal(line, "<two>");
	assert_true(tei_process_alive(&p));
	assert_int_equal(tei_process_stop(&p, LIMIT_MS), 3);
	assert_int_equal(p.pid, 0);
}

/* What a terminal sends goes to the group of the benchmark. */
static void a_server_is_in_a_group_of_its_own(void **state)
{
	char script[] = "echo ready; exec sleep 600", line[TEI_PROCESS_LINE];
	struct tei_process p;

	(void)state;
	assert_int_equal(start_shell(&p, script, true), 0);
	assert_int_equal(tei_process_await_log(&p, "ready", line, sizeof(line),
					       LIMIT_MS),
			 0);
	assert_int_equal(getpgid(p.pid), p.pid);
	tei_process_stop(&p, LIMIT_MS);
}

static void a_helper_that_is_silent_or_gone_is_noticed(void **state)
{
	char silent[] = "read a; exit 0", gone[] = "exit 0";
	char line[TEI_PROCESS_LINE];
	struct tei_process p;

	(void)state;
	assert_int_equal(start_shell(&p, silent, false), 0);
	assert_int_equal(tei_process_hear(&p, line, 1), -ETIMEDOUT);
	tei_process_stop(&p, LIMIT_MS);
	assert_int_equal(start_shell(&p, gone, false), 0);
	assert_int_equal(tei_process_hear(&p, line, LIMIT_MS), -EPIPE);
	assert_int_equal(tei_process_stop(&p, LIMIT_MS), 0);
}

static void a_server_is_ready_when_its_line_is_complete(void **state)
{
	char script[] = "echo starting; printf 'on port '; echo 4711; "
			"trap 'exit 5' TERM; while :; do sleep 0.1; done";
	struct tei_process p;
	char rest[32];

	(void)state;
	assert_int_equal(start_shell(&p, script, true), 0);
	assert_int_equal(tei_process_await_log(&p, "on port ", rest,
					       sizeof(rest), LIMIT_MS),
			 0);
	assert_string_equal(rest, "4711");
	assert_true(tei_process_rss(&p) > 0);
	assert_int_equal(tei_process_stop(&p, LIMIT_MS), 5);
}

static void a_server_that_dies_early_is_noticed(void **state)
{
	char script[] = "echo no such file; exit 1";
	struct tei_process p;
	char rest[32];

	(void)state;
	assert_int_equal(start_shell(&p, script, true), 0);
	assert_int_equal(tei_process_await_log(&p, "on port ", rest,
					       sizeof(rest), LIMIT_MS),
			 -ECHILD);
	assert_int_equal(tei_process_stop(&p, LIMIT_MS), 1);
}

static void a_server_that_ignores_sigterm_is_killed(void **state)
{
	char script[] = "trap '' TERM; echo deaf; "
			"while :; do sleep 0.1; done";
	struct tei_process p;
	char rest[32];

	(void)state;
	assert_int_equal(start_shell(&p, script, true), 0);
	assert_int_equal(
		tei_process_await_log(&p, "deaf", rest, sizeof(rest), LIMIT_MS),
		0);
	assert_int_equal(tei_process_stop(&p, 10), 128 + SIGKILL);
}

static void a_program_that_is_not_there_is_an_error(void **state)
{
	char none[] = "/nonexistent/program";
	char *argv[] = {none, NULL};
	struct tei_process p;

	(void)state;
	assert_int_equal(tei_process_start_server(&p, "none", argv), -ENOENT);
	assert_int_equal(tei_process_start_helper(&p, "none", argv, -1),
			 -ENOENT);
	assert_int_equal(tei_process_stop(&p, 1), 0);
}

static void paths_are_found_beside_the_program(void **state)
{
	char self[PATH_MAX], other[PATH_MAX];
	const char *slash;

	(void)state;
	assert_int_equal(tei_process_path(NULL, self), 0);
	assert_int_equal(tei_process_path("other", other), 0);
	slash = strrchr(self, '/');
	assert_memory_equal(self, other, (size_t)(slash - self) + 1);
	assert_string_equal(strrchr(other, '/'), "/other");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_helper_answers_line_by_line),
		cmocka_unit_test(a_server_is_in_a_group_of_its_own),
		cmocka_unit_test(a_helper_that_is_silent_or_gone_is_noticed),
		cmocka_unit_test(a_server_is_ready_when_its_line_is_complete),
		cmocka_unit_test(a_server_that_dies_early_is_noticed),
		cmocka_unit_test(a_server_that_ignores_sigterm_is_killed),
		cmocka_unit_test(a_program_that_is_not_there_is_an_error),
		cmocka_unit_test(paths_are_found_beside_the_program),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
