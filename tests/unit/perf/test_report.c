/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_report.c - lists of sizes are read whole or refused; progress is shown
 * on a terminal
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/lib/report.h"
#include "tests/lib/test.h"

static uint64_t sizes[TEI_SIZES_MAX];

static int parse(const char *text)
{
	return tei_sizes_parse("test", "size", text, 1 << 30, sizes);
}

static void a_list_is_read_in_order(void **state)
{
	(void)state;
	assert_int_equal(parse("1m"), 1);
	assert_int_equal(sizes[0], 1 << 20);
	assert_int_equal(parse("4k,100,1g"), 3);
	assert_int_equal(sizes[0], 4096);
	assert_int_equal(sizes[1], 100);
	assert_int_equal(sizes[2], 1 << 30);
	assert_int_equal(parse("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"), 16);
}

static void a_range_doubles_up_to_its_end(void **state)
{
	(void)state;
	assert_int_equal(parse("4k..64k"), 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(sizes[i], 4096 << i);
	assert_int_equal(parse("8,1k..3k,7"), 4);
	assert_int_equal(sizes[1], 1024);
	assert_int_equal(sizes[2], 2048);
	assert_int_equal(sizes[3], 7);
	assert_int_equal(parse("5..5"), 1);
	assert_int_equal(parse("1..1g"), 31);
}

static void what_is_no_list_of_sizes_is_refused(void **state)
{
	static const char *const bad[] = {
		"",      ",",          "4k,",
		",4k",   "4k,,8k",     "0",
		"-1",    "two",        "2g",
		"4k;8k", "1..1g,1..2", "8k..4k",
		"4k..",  "..4k",       "4k..8k..16k",
		"0..4",  "1m..2g",     "10000000000000000000000000000000000000",
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++)
		assert_int_equal(parse(bad[i]), -EINVAL);
}

/* What is said on @fd, which takes the place of stderr, of half of a work. */
static void show_half(int fd)
{
	struct tei_progress bar;
	int kept = dup(STDERR_FILENO);

	assert_true(kept >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
	tei_progress_begin(&bar, "preparing");
	tei_progress_show(&bar, 50, 100);
	tei_progress_end(&bar);
	assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
	close(kept);
}

/* Reads until the bar has been drawn. */
static void read_bar(int terminal, char text[256])
{
	struct pollfd there = {.fd = terminal, .events = POLLIN};
	size_t n = 0;
	ssize_t got;

	while (!strstr(text, "s left")) {
		assert_int_equal(poll(&there, 1, 60000), 1);
		got = read(terminal, text + n, 255 - n);
		assert_true(got > 0);
		n += (size_t)got;
		text[n] = 0;
	}
}

static void progress_is_shown_on_a_terminal(void **state)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), fd;
	char text[256] = "";

	(void)state;
	assert_true(terminal >= 0);
	assert_int_equal(grantpt(terminal), 0);
	assert_int_equal(unlockpt(terminal), 0);
	fd = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(fd >= 0);
	setenv("TERM", "dumb", 1);
	show_half(fd);
	assert_int_equal(write(fd, "!", 1), 1);
	setenv("TERM", "xterm", 1);
	show_half(fd);
	read_bar(terminal, text);
	assert_int_equal(text[0], '!'); /* nothing on the dumb one */
	assert_non_null(strstr(text, "preparing [####"));
	assert_non_null(strstr(text, " 50 %"));
	close(fd);
	close(terminal);
}

static void progress_is_shown_nowhere_else(void **state)
{
	char byte;
	int fd[2];

	(void)state;
	setenv("TERM", "xterm", 1);
	assert_int_equal(pipe2(fd, O_CLOEXEC | O_NONBLOCK), 0);
	show_half(fd[1]);
	assert_int_equal(read(fd[0], &byte, 1), -1);
	close(fd[0]);
	close(fd[1]);
}

/* ---- a tool as a whole ---- */

static int print_some(const struct tei_conf *conf)
{
	(void)conf;
	printf("results\n");
	return 0;
}

/* The exit code of a tool that prints to @fd; what it says is in said[256]. */
static int run_tool(int fd, char said[256])
{
	struct tei_conf conf = {NULL, 0, NULL};
	char name[] = "tool", *argv[] = {name, NULL};
	int out[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (dup2(fd, STDOUT_FILENO) < 0 ||
		    dup2(out[1], STDERR_FILENO) < 0)
			_exit(99);
		_exit(tei_tool_main(&conf, 1, argv, "a tool", print_some));
	}
	close(out[1]);
	n = read(out[0], said, 255);
	said[n > 0 ? n : 0] = 0;
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void results_that_nobody_gets_are_an_error(void **state)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC), ends[2];
	char said[256];

	(void)state;
	assert_true(full >= 0);
	assert_int_equal(run_tool(full, said), 1);
	assert_non_null(strstr(said, "cannot write to stdout: No space"));
	close(full);
	/* Who read it has seen enough: no error. */
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	assert_int_equal(run_tool(ends[1], said), 0);
	assert_string_equal(said, "");
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_is_read_in_order),
		cmocka_unit_test(a_range_doubles_up_to_its_end),
		cmocka_unit_test(what_is_no_list_of_sizes_is_refused),
		cmocka_unit_test(progress_is_shown_on_a_terminal),
		cmocka_unit_test(progress_is_shown_nowhere_else),
		cmocka_unit_test(results_that_nobody_gets_are_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
