/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_report.c - lists of sizes are read whole or refused; progress is shown
 * on a terminal
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_is_read_in_order),
		cmocka_unit_test(a_range_doubles_up_to_its_end),
		cmocka_unit_test(what_is_no_list_of_sizes_is_refused),
		cmocka_unit_test(progress_is_shown_on_a_terminal),
		cmocka_unit_test(progress_is_shown_nowhere_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
