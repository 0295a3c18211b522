/* SPDX-License-Identifier: Apache-2.0 */
/* test_process.c - the tests' own helper for child processes */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/lib/process.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

#define SOON_MS 60000

static struct test_process *shell(const char *script)
{
	const char *args[] = {"-c", script, NULL};

	return test_process_start("/bin/sh", args);
}

static void lines_are_found_in_order_and_once(void **state)
{
	struct test_process *p = shell("echo port 1; echo x >&2; echo port 2");

	(void)state;
	assert_string_equal(test_process_line(p, "port", SOON_MS), "port 1");
	assert_string_equal(test_process_line(p, "port", SOON_MS), "port 2");
	assert_null(test_process_line(p, "port", SOON_MS));
	assert_int_equal(test_process_wait(p, SOON_MS), 0);
	assert_string_equal(test_process_output(p), "port 1\nx\nport 2\n");
	test_process_end(p);
}

static void exit_code_and_signal_are_told_apart(void **state)
{
	struct test_process *p = shell("exit 7");

	(void)state;
	assert_int_equal(test_process_wait(p, SOON_MS), 7);
	test_process_end(p);
	p = shell("echo up; while :; do sleep 1; done");
	assert_non_null(test_process_line(p, "up", SOON_MS));
	assert_int_equal(test_process_wait(p, 0), TEST_STILL_RUNNING);
	test_process_signal(p, SIGTERM);
	assert_int_equal(test_process_wait(p, SOON_MS), -SIGTERM);
	test_process_end(p);
}

static void missing_program_exits_127(void **state)
{
	struct test_process *p = test_process_start("no-such-program", NULL);

	(void)state;
	assert_int_equal(test_process_wait(p, SOON_MS), 127);
	test_process_end(p);
}

static void tmpdir_goes_with_all_that_is_in_it(void **state)
{
	char path[TEST_PATH_MAX], sub[TEST_PATH_MAX + 8];
	struct stat st;

	(void)state;
	test_tmpdir_create(path);
	snprintf(sub, sizeof(sub), "%s/sub", path);
	assert_int_equal(mkdir(sub, 0700), 0);
	test_tmpdir_remove(path);
	assert_int_equal(stat(path, &st), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_found_in_order_and_once),
		cmocka_unit_test(exit_code_and_signal_are_told_apart),
		cmocka_unit_test(missing_program_exits_127),
		cmocka_unit_test(tmpdir_goes_with_all_that_is_in_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
