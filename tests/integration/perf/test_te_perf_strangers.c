/* SPDX-License-Identifier: Apache-2.0 */
/* test_te_perf_strangers.c - what is no initiator at the port of a listener */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/integration/perf/tool.h"
#include "tests/lib/dial.h"
#include "tests/lib/process.h"
#include "tests/lib/test.h"

#define OPEN "open 4096 0\n"

static char flag[64]; /* --connect=127.0.0.1:PORT */
static struct test_process *server;

static int set_up(void **state)
{
	const char *const args[] = {"--listen=127.0.0.1:0", "--working-set=4m",
				    NULL};

	(void)state;
	server = tool_listener(args, flag);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tool_interrupt(server);
	return 0;
}

static int dial(void)
{
	return test_dial((uint16_t)atoi(strrchr(flag, ':') + 1));
}

/* It may have been closed already. */
static void say(int fd, const void *bytes, size_t len)
{
	(void)!send(fd, bytes, len, MSG_NOSIGNAL);
}

static void await_close(int fd)
{
	char bytes[4096];
	ssize_t n;

	do
		n = recv(fd, bytes, sizeof(bytes), 0);
	while (n > 0);
	assert_true(n == 0 || errno == ECONNRESET);
	close(fd);
}

static void initiators_are_served(void)
{
	const char *const args[] = {
		flag,     "--size=4k", "--duration=10ms", "--working-set=1m",
		"--json", NULL};
	json_t *report = tool_json("te-perf", args);

	assert_int_equal(integer(report, "wrong_bytes"), 0);
	json_decref(report);
}

/* Closed although we say that there is more to come. */
static void noise_ends_its_own_session(void **state)
{
	static char bytes[65536];

	(void)state;
	srand(11);
	for (int i = 0; i < 40; i++) {
		size_t len = 1 + (size_t)rand() % (i % 2 ? 100 : sizeof(bytes));
		int fd = dial();

		for (size_t k = 0; k < len; k++)
			bytes[k] = (char)rand();
		bytes[len - 1] = '\n';
		say(fd, bytes, len);
		await_close(fd);
	}
	initiators_are_served();
}

static void numbers_that_cannot_be_are_refused(void **state)
{
	static const char *const lines[] = {
		"open\n",
		"open \n",
		"open x 0\n",
		"open 0 0\n",
		"open 4096\n",
		"open -1 0\n",
		"open 2147483648 0\n",
		"open 9223372036854775808 0\n",
		"open 99999999999999999999999 0\n",
		"reference 0\n",
		"reference -1\n",
		"reference 9223372036854775808\n",
	};
	char answer[512];
	ssize_t n;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(lines); i++) {
		int fd = dial();

		say(fd, lines[i], strlen(lines[i]));
		n = recv(fd, answer, sizeof(answer) - 1, 0);
		assert_true(n > 0);
		answer[n] = 0;
		if (strncmp(answer, "error ", 6))
			fail_msg("%sis answered by %s", lines[i], answer);
		shutdown(fd, SHUT_WR);
		await_close(fd);
	}
	initiators_are_served();
}

static void a_line_cut_anywhere_ends_its_session(void **state)
{
	(void)state;
	for (size_t len = 0; len <= strlen(OPEN); len++) {
		int fd = dial();

		say(fd, OPEN, len);
		shutdown(fd, SHUT_WR);
		await_close(fd);
	}
	initiators_are_served();
}

static void who_says_nothing_is_not_waited_for(void **state)
{
	int silent = dial(), slow = dial(), idle = dial();

	(void)state;
	say(slow, "ope", 3);
	say(idle, "usage\n", 6);
	initiators_are_served();
	await_close(silent);
	await_close(slow);
	await_close(idle);
}

#define WITH_SERVER(test) \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static void no_terminal_obeys_what_a_target_says(void **state)
{
	static const char words[] = "error \x1b[2J\x9b"
				    "2J\xc2\x9b"
				    "31m\n";
	char to[64], line[256];
	const char *const args[] = {to, "--size=4k", "--working-set=1m", NULL};
	struct test_process *p;
	uint16_t port;
	int fd, listener = test_listen(&port);

	(void)state;
	(void)snprintf(to, sizeof(to), "--connect=127.0.0.1:%u", port);
	p = test_process_start("te-perf", args);
	fd = accept(listener, NULL, NULL);
	assert_true(fd >= 0);
	assert_true(recv(fd, line, sizeof(line), 0) > 0);
	say(fd, words, sizeof(words) - 1);
	assert_non_null(test_process_line(p, "error ?[2J?2J??31m", 60000));
	assert_int_equal(test_process_wait(p, 60000), 1);
	test_process_end(p);
	close(fd);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SERVER(noise_ends_its_own_session),
		WITH_SERVER(numbers_that_cannot_be_are_refused),
		WITH_SERVER(a_line_cut_anywhere_ends_its_session),
		WITH_SERVER(who_says_nothing_is_not_waited_for),
		cmocka_unit_test(no_terminal_obeys_what_a_target_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
