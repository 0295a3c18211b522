/* SPDX-License-Identifier: Apache-2.0 */
/* test_http_body.c - bodies of requests to the HTTP server */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/unit/base/http_site.h"

static void put_body(size_t len, const char *more_fields)
{
	char *text = malloc(len + 200);
	int fd = site_dial(), n;

	assert_non_null(text);
	n = snprintf(text, 200,
		     "PUT /echo HTTP/1.1\r\nContent-Length: %zu\r\n%s\r\n", len,
		     more_fields);
	for (size_t i = 0; i < len; i++)
		text[(size_t)n + i] = (char)(i * 31 >> 3);
	site_say(fd, text, (size_t)n + len);
	n = (int)site_hear(fd);
	assert_non_null(strstr(site_answer, " 200 OK"));
	for (size_t i = 0; i < len; i++)
		assert_int_equal(site_answer[(size_t)n - len + i],
				 (char)(i * 31 >> 3));
	free(text);
}

static void bodies_up_to_the_cap_arrive_whole(void **state)
{
	(void)state;
	put_body(0, "");
	put_body(1, "");
	put_body(20000, "X: y\r\n");
	put_body(SITE_BODY_MAX, "");
	/* Nobody who has sent the body already waits to be asked for it. */
	put_body(SITE_BODY_MAX, "Expect: 100-continue\r\n");
}

static void a_body_that_comes_byte_by_byte_is_waited_for(void **state)
{
	static const char text[] =
		"POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
	int fd = site_dial();

	(void)state;
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		site_say(fd, text + i, 1);
	site_hear(fd);
	assert_non_null(strstr(site_answer, "\r\n\r\nhello"));
}

static void who_waits_to_be_asked_for_his_body_is_asked(void **state)
{
	static const char head[] = "PUT /echo HTTP/1.1\r\nContent-Length: 5\r\n"
				   "Expect: 100-continue\r\n\r\n";
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	int fd = site_dial();

	(void)state;
	site_say(fd, head, sizeof(head) - 1);
	assert_int_equal(recv(fd, site_answer, sizeof(go_on) - 1, MSG_WAITALL),
			 sizeof(go_on) - 1);
	assert_memory_equal(site_answer, go_on, sizeof(go_on) - 1);
	site_say(fd, "hello", 5);
	site_hear(fd);
	assert_non_null(strstr(site_answer, "200 OK"));
	assert_non_null(strstr(site_answer, "\r\n\r\nhello"));
}

static void a_body_beyond_the_cap_is_refused_unread(void **state)
{
	static const char *const lengths[] = {"100001", "1073741824",
					      "18446744073709551616"};
	unsigned int before = site_count(TEI_HTTP_TOO_LONG);
	char text[200];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
		snprintf(text, sizeof(text),
			 "PUT /echo HTTP/1.1\r\nContent-Length: %s\r\n"
			 "Expect: 100-continue\r\n\r\n",
			 lengths[i]);
		assert_int_equal(site_status(text), 413);
	}
	assert_int_equal(site_count(TEI_HTTP_TOO_LONG),
			 before + TEST_COUNT(lengths));
}

static void a_body_of_unknown_length_is_refused(void **state)
{
	(void)state;
	assert_int_equal(site_status("PUT /echo HTTP/1.1\r\n"
				     "Transfer-Encoding: chunked\r\n\r\n"
				     "5\r\nhello\r\n0\r\n\r\n"),
			 411);
}

static void half_a_body_changes_nothing(void **state)
{
	static const char text[] =
		"PUT /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf";
	unsigned int before = site_count(TEI_HTTP_MALFORMED);
	int fd = site_dial();

	(void)state;
	site_say(fd, text, sizeof(text) - 1);
	shutdown(fd, SHUT_WR);
	assert_int_equal(site_hear(fd), 0);
	assert_int_equal(site_count(TEI_HTTP_MALFORMED), before + 1);
}

#define ENDLESS 100 /* connections, of which 64 bodies' worth may stay */

static bool enough_have_gone(void *before)
{
	return site_count(TEI_HTTP_FULL) >=
	       *(unsigned int *)before + ENDLESS - 65;
}

static void bodies_that_never_end_make_way(void **state)
{
	unsigned int before = site_count(TEI_HTTP_FULL);
	char *text = calloc(1, 200 + SITE_BODY_MAX), c;
	int fds[ENDLESS], n;

	(void)state;
	assert_non_null(text);
	n = snprintf(text, 200,
		     "PUT /echo HTTP/1.1\r\nContent-Length: %d\r\n\r\n",
		     SITE_BODY_MAX);
	for (int i = 0; i < ENDLESS; i++) {
		fds[i] = site_dial();
		/* Who has gone meanwhile is told by a reset. */
		(void)send(fds[i], text, (size_t)n + SITE_BODY_MAX - 1,
			   MSG_NOSIGNAL);
	}
	assert_true(test_wait_until(enough_have_gone, &before, 60000));
	assert_true(recv(fds[0], &c, 1, 0) <= 0); /* the oldest */
	put_body(SITE_BODY_MAX, "");
	for (int i = 0; i < ENDLESS; i++)
		close(fds[i]);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_up_to_the_cap_arrive_whole),
		cmocka_unit_test(a_body_that_comes_byte_by_byte_is_waited_for),
		cmocka_unit_test(who_waits_to_be_asked_for_his_body_is_asked),
		cmocka_unit_test(a_body_beyond_the_cap_is_refused_unread),
		cmocka_unit_test(a_body_of_unknown_length_is_refused),
		cmocka_unit_test(half_a_body_changes_nothing),
		cmocka_unit_test(bodies_that_never_end_make_way),
	};

	return cmocka_run_group_tests(tests, site_set_up, site_tear_down);
}
