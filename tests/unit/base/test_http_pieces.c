/* SPDX-License-Identifier: Apache-2.0 */
/* test_http_pieces.c - answers of the HTTP server that come in pieces */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/base/http_site.h"

/* @text without its chunk headers; returns the length. */
static size_t unchunk(char *text)
{
	char *to = text, *at = text;

	for (;;) {
		size_t n = strtoul(at, &at, 16);

		assert_memory_equal(at, "\r\n", 2);
		if (!n)
			break;
		memmove(to, at + 2, n);
		to += n;
		at += 2 + n;
		assert_memory_equal(at, "\r\n", 2);
	}
	assert_string_equal(at, "\r\n\r\n");
	*to = '\0';
	return (size_t)(to - text);
}

static void check_pieces(const char *body, size_t len)
{
	assert_int_equal(len, 6 + SITE_PIECES * SITE_PIECE);
	assert_memory_equal(body, "first\n", 6);
	for (size_t i = 0; i < SITE_PIECES; i++)
		assert_int_equal(body[6 + i * SITE_PIECE + SITE_PIECE / 2],
				 'a' + (int)((i + 1) % 26));
}

static void an_answer_in_pieces_arrives_whole(void **state)
{
	unsigned int done = site_n_done();
	const char *body;

	(void)state;
	assert_int_equal(site_ask("GET /pieces HTTP/1.1\r\n\r\n", &body), 200);
	check_pieces(body, unchunk(site_answer + (body - site_answer)));
	assert_int_equal(site_ask("GET /pieces HTTP/1.0\r\n\r\n", &body), 200);
	assert_null(strstr(site_answer, "chunked"));
	check_pieces(body, strlen(body));
	assert_int_equal(site_ask("HEAD /pieces HTTP/1.1\r\n\r\n", &body), 200);
	assert_string_equal(body, "");
	assert_int_equal(site_n_done(), done + 3);
}

static void who_closes_his_half_gets_all_pieces(void **state)
{
	static const char text[] = "GET /pieces HTTP/1.1\r\n\r\n";
	int fd = site_dial();
	char *body;

	(void)state;
	site_say(fd, text, sizeof(text) - 1);
	shutdown(fd, SHUT_WR);
	site_hear(fd);
	body = strstr(site_answer, "\r\n\r\n") + 4;
	check_pieces(body, unchunk(body));
}

static void a_broken_answer_shows_that_it_is(void **state)
{
	const char *body;

	(void)state;
	assert_int_equal(site_ask("GET /pieces?broken HTTP/1.1\r\n\r\n", &body),
			 200);
	assert_null(strstr(body, "\r\n0\r\n"));
}

static void a_peer_that_goes_ends_its_answer(void **state)
{
	static const char text[] = "GET /pieces HTTP/1.1\r\n\r\n";
	struct linger reset = {.l_onoff = 1};
	unsigned int done = site_n_done();
	int fd = site_dial();

	(void)state;
	site_say(fd, text, sizeof(text) - 1);
	assert_int_equal(recv(fd, site_answer, 1, 0), 1);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
	site_await_done(done + 1);
}

static void stopping_ends_answers_that_go_on(void **state)
{
	static const char text[] = "GET /pieces HTTP/1.1\r\n\r\n";
	unsigned int done = site_n_done();
	int fd = site_dial();

	(void)state;
	site_say(fd, text, sizeof(text) - 1);
	assert_int_equal(recv(fd, site_answer, 1, 0), 1);
	site_stop();
	site_await_done(done + 1);
	close(fd);
	site_start();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_in_pieces_arrives_whole),
		cmocka_unit_test(who_closes_his_half_gets_all_pieces),
		cmocka_unit_test(a_broken_answer_shows_that_it_is),
		cmocka_unit_test(a_peer_that_goes_ends_its_answer),
		cmocka_unit_test(stopping_ends_answers_that_go_on),
	};

	return cmocka_run_group_tests(tests, site_set_up, site_tear_down);
}
