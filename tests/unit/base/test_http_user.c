/* SPDX-License-Identifier: Apache-2.0 */
/* test_http_user.c - every user of this host reads, members alone change things */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/lib/test.h"
#include "tests/lib/user.h"
#include "tests/unit/base/http_site.h"

#define GET    "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define DELETE "DELETE /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define PUT                                         \
	"PUT /echo HTTP/1.1\r\nHost: localhost\r\n" \
	"Content-Length: 3\r\n\r\nabc"
#define POST                                         \
	"POST /echo HTTP/1.1\r\nHost: localhost\r\n" \
	"Content-Length: 3\r\n\r\nabc"

/* Kept in the processes that log, which are forked. */
static void keep_quiet(int level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

/* Tells whether a process of @uid is answered @status and, in it, @words. */
static bool is_answered(uid_t uid, const char *request, int status,
			const char *words)
{
	const char *body;
	int code;
	pid_t pid = test_fork_as(uid);

	assert_true(pid >= 0);
	if (!pid)
		_exit(site_ask(request, &body) != status ||
		      (words && !strstr(body, words)));
	assert_int_equal(waitpid(pid, &code, 0), pid);
	return WIFEXITED(code) && !WEXITSTATUS(code);
}

static void another_user_changes_nothing(void **state)
{
	static const char *const changes[] = {PUT, POST, DELETE};

	(void)state;
	if (geteuid())
		skip(); /* only root can be somebody else */
	tei_log_set_sink(keep_quiet, NULL);
	site_start_as(false, NULL);
	assert_true(is_answered(TEST_USER_A, GET, 200, NULL));
	for (unsigned int i = 0; i < TEST_COUNT(changes); i++) {
		assert_true(is_answered(TEST_USER_A, changes[i], 403,
					"this is user 64998"));
		assert_int_equal(site_count(TEI_HTTP_FORBIDDEN), i + 1);
		assert_true(is_answered(0, changes[i], 200, NULL));
	}
	tei_log_set_sink(NULL, NULL);
}

static void the_settings_let_another_user(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	tei_log_set_sink(keep_quiet, NULL);
	site_start_for("64998");
	assert_true(is_answered(TEST_USER_A, PUT, 200, "abc"));
	assert_true(is_answered(TEST_USER_B, PUT, 403, "allow_uids"));
	site_start_for(NULL);
	assert_true(is_answered(TEST_USER_A, PUT, 403, "allow_uids"));
	site_start_as(true, NULL);
	assert_true(is_answered(TEST_USER_B, PUT, 200, "abc"));
	tei_log_set_sink(NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_user_changes_nothing),
		cmocka_unit_test(the_settings_let_another_user),
	};

	return cmocka_run_group_tests(tests, site_set_up, site_tear_down);
}
