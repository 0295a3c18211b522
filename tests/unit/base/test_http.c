/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_http.c - the HTTP server as its peers see it
 *
 * The server lives on a loop's thread; the tests talk to it over sockets.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "base/clock.h"
#include "base/http.h"
#include "base/loop.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

#define SOON_S   60
#define BODY_MAX 100000
#define ROOM     (4u << 20)
#define PIECES   100
#define PIECE    20000

static struct tei_loop *loop;
static struct tei_http *http;
static uint64_t refused[TEI_HTTP_REFUSALS];
static uint16_t port;
static char *answer; /* ROOM + 1 bytes */
static atomic_uint n_done, n_pieces;

/* ---- what the server serves ---- */

/* Parameters and body as they came: name=value lines, then the body. */
static int echo(const struct tei_http_request *r, struct tei_http_reply *reply,
		void *arg)
{
	assert_ptr_equal(arg, refused);
	for (size_t i = 0; i < r->n_params; i++) {
		evbuffer_add(reply->body, r->params[i].name,
			     r->params[i].name_len);
		evbuffer_add(reply->body, "=", 1);
		evbuffer_add(reply->body, r->params[i].value, r->params[i].len);
		evbuffer_add(reply->body, "\n", 1);
	}
	evbuffer_add(reply->body, r->body, r->len);
	return 200;
}

static int query(const struct tei_http_request *r, struct tei_http_reply *reply,
		 void *arg)
{
	size_t len;
	const char *value = tei_http_query(r, "key", &len);

	(void)arg;
	reply->type = "application/json";
	if (!value)
		return 404;
	evbuffer_add_printf(reply->body, "%zu:", len);
	evbuffer_add(reply->body, value, len);
	return 200;
}

/* Every second piece is empty, as if there was nothing to say in it, or yet. */
static int next_piece(struct evbuffer *out, void *state)
{
	unsigned int *i = state;
	char piece[PIECE];

	atomic_fetch_add(&n_pieces, 1);
	if ((*i)++ % 2 == 0)
		return *i % 4 == 1 ? 1 : TEI_HTTP_NOT_YET;
	memset(piece, 'a' + (int)(*i / 2 % 26), sizeof(piece));
	evbuffer_add(out, piece, sizeof(piece));
	return *i < 2 * PIECES;
}

static int broken_piece(struct evbuffer *out, void *state)
{
	(void)state;
	evbuffer_add(out, "lost", 4);
	return -EIO;
}

static void pieces_done(void *state)
{
	free(state);
	atomic_fetch_add(&n_done, 1);
}

static int pieces(const struct tei_http_request *r,
		  struct tei_http_reply *reply, void *arg)
{
	size_t len;

	(void)arg;
	evbuffer_add_printf(reply->body, "first\n");
	reply->more =
		tei_http_query(r, "broken", &len) ? broken_piece : next_piece;
	reply->done = pieces_done;
	reply->state = calloc(1, sizeof(unsigned int));
	assert_non_null(reply->state);
	return 200;
}

static const struct tei_http_route routes[] = {
	{TEI_HTTP_GET, "/echo", echo},   {TEI_HTTP_PUT, "/echo", echo},
	{TEI_HTTP_POST, "/echo", echo},  {TEI_HTTP_DELETE, "/echo", echo},
	{TEI_HTTP_GET, "/query", query}, {TEI_HTTP_GET, "/pieces", pieces},
};

static const struct tei_http_config config = {
	.what = "test port",
	.host = "127.0.0.1",
	.routes = routes,
	.n_routes = TEST_COUNT(routes),
	.arg = refused,
	.body_max = BODY_MAX,
	.refused = refused,
};

static void start_on_loop(void *arg)
{
	*(int *)arg = tei_http_start(loop, &config, &port, &http);
}

static void stop_on_loop(void *arg)
{
	(void)arg;
	tei_http_stop(http);
	http = NULL;
}

static int start(void **state)
{
	int rc = -1;

	(void)state;
	answer = malloc(ROOM + 1);
	if (!answer || tei_loop_create("http", &loop))
		return -1;
	tei_loop_do(loop, start_on_loop, &rc);
	return rc;
}

static int stop(void **state)
{
	(void)state;
	if (http)
		tei_loop_do(loop, stop_on_loop, NULL);
	tei_loop_stop(loop);
	tei_loop_destroy(loop);
	free(answer);
	return 0;
}

static void read_count(void *arg)
{
	unsigned int *why = arg;

	*why = (unsigned int)refused[*why];
}

static unsigned int count(unsigned int why)
{
	tei_loop_do(loop, read_count, &why);
	return why;
}

/* ---- the peer ---- */

static int dial(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct timeval limit = {.tv_sec = SOON_S};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	to.sin_port = htons(port);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return fd;
}

static void say(int fd, const void *bytes, size_t len)
{
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
}

/* All until the server closes, with a 0 behind it. */
static size_t hear(int fd)
{
	size_t n = 0;

	for (;;) {
		ssize_t got = recv(fd, answer + n, ROOM - n, 0);

		assert_true(got >= 0);
		if (got == 0)
			break;
		n += (size_t)got;
	}
	answer[n] = '\0';
	close(fd);
	return n;
}

/* The answer to @text, its status and where its body begins. */
static int ask(const char *text, const char **body)
{
	int fd = dial(), status;

	say(fd, text, strlen(text));
	hear(fd);
	assert_int_equal(sscanf(answer, "HTTP/1.1 %d ", &status), 1);
	*body = strstr(answer, "\r\n\r\n");
	assert_non_null(*body);
	*body += 4;
	return status;
}

static int status_of(const char *text)
{
	const char *body;

	return ask(text, &body);
}

/* ---- tests ---- */

static void each_method_finds_its_route(void **state)
{
	static const char *const methods[] = {"GET", "PUT", "POST", "DELETE"};
	const char *body;
	char text[100];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(methods); i++) {
		snprintf(text, sizeof(text), "%s /echo?m=%s HTTP/1.1\r\n\r\n",
			 methods[i], methods[i]);
		assert_int_equal(ask(text, &body), 200);
		assert_int_equal(strncmp(body, "m=", 2), 0);
		assert_non_null(strstr(body, methods[i]));
	}
}

static void head_is_get_without_the_body(void **state)
{
	const char *body;

	(void)state;
	assert_int_equal(ask("HEAD /echo?a=b HTTP/1.1\r\n\r\n", &body), 200);
	assert_string_equal(body, "");
	assert_non_null(strstr(answer, "Content-Length: 4\r\n"));
}

static void an_unknown_path_is_told_what_there_is(void **state)
{
	const char *body;

	(void)state;
	assert_int_equal(ask("GET / HTTP/1.1\r\n\r\n", &body), 404);
	assert_non_null(strstr(body, "/echo, /query, /pieces\n"));
	assert_int_equal(status_of("BREW / HTTP/1.1\r\n\r\n"), 404);
	assert_int_equal(status_of("GET /ECHO HTTP/1.1\r\n\r\n"), 404);
}

static void a_wrong_method_is_told_the_right_ones(void **state)
{
	unsigned int before = count(TEI_HTTP_METHOD);
	const char *body;

	(void)state;
	assert_int_equal(ask("BREW /echo HTTP/1.1\r\n\r\n", &body), 405);
	assert_non_null(
		strstr(answer, "Allow: GET, HEAD, PUT, POST, DELETE\r\n"));
	assert_int_equal(ask("PUT /query HTTP/1.1\r\n\r\n", &body), 405);
	assert_non_null(strstr(answer, "Allow: GET, HEAD\r\n"));
	assert_int_equal(count(TEI_HTTP_METHOD), before + 2);
}

static void parameters_are_decoded(void **state)
{
	static const char text[] =
		"GET /echo?a=1&b=%41%2b+%26&&c&=d&e=2&%66=3 HTTP/1.1\r\n\r\n";
	const char *body;

	(void)state;
	assert_int_equal(ask(text, &body), 200);
	assert_string_equal(body, "a=1\nb=A+ &\nc=\n=d\ne=2\nf=3\n");
}

static void a_value_may_hold_any_byte(void **state)
{
	const char *body;

	(void)state;
	assert_int_equal(
		ask("GET /query?key=%00a%00%ff%0A HTTP/1.1\r\n\r\n", &body),
		200);
	assert_memory_equal(body, "5:\0a\0\xff\n", 7);
	assert_int_equal(ask("GET /query?kei=1 HTTP/1.1\r\n\r\n", &body), 404);
	assert_int_equal(ask("GET /query?key HTTP/1.1\r\n\r\n", &body), 200);
	assert_string_equal(body, "0:");
}

static void bad_escapes_are_refused(void **state)
{
	static const char *const bad[] = {"%",   "%4", "a%",     "%g1",
					  "%1g", "%%", "key=%1", "%=1"};
	unsigned int before = count(TEI_HTTP_MALFORMED);
	char text[100];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		snprintf(text, sizeof(text), "GET /echo?%s HTTP/1.1\r\n\r\n",
			 bad[i]);
		assert_int_equal(status_of(text), 400);
	}
	assert_int_equal(count(TEI_HTTP_MALFORMED), before + TEST_COUNT(bad));
}

static void refusals_say_what_is_wrong(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{"GET /echo?%4 HTTP/1.1\r\n\r\n",
		 "\r\n\r\na parameter has % without two digits\n"},
		{"GET /echo HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
		 "\r\n\r\nno body expected\n"},
		{"PUT /echo HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n",
		 "\r\n\r\na body has at most 100000 bytes\n"},
		{"PUT /echo HTTP/1.1\r\nContent-Length: x\r\n\r\n",
		 "\r\n\r\nContent-Length should be one number\n"},
		{"PUT /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "\r\n\r\na body needs a Content-Length\n"},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		assert_true(status_of(cases[i].text) >= 400);
		assert_non_null(strstr(answer, cases[i].words));
	}
}

static void too_many_parameters_are_refused(void **state)
{
	char text[200];
	size_t at = (size_t)snprintf(text, sizeof(text), "GET /echo?");

	(void)state;
	for (int i = 0; i < TEI_HTTP_PARAMS_MAX + 1; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "a%d=1&",
				       i);
	(void)snprintf(text + at, sizeof(text) - at, " HTTP/1.1\r\n\r\n");
	assert_int_equal(status_of(text), 400);
}

static void a_parameter_may_be_there_once(void **state)
{
	(void)state;
	assert_int_equal(status_of("GET /query?key=a&kez=b HTTP/1.1\r\n\r\n"),
			 200);
	assert_int_equal(status_of("GET /query?key=a&key=a HTTP/1.1\r\n\r\n"),
			 400);
	assert_int_equal(status_of("GET /query?key=a&k%65y HTTP/1.1\r\n\r\n"),
			 400);
}

/* 128 of them are all that there is room for. */
static void who_says_nothing_keeps_nobody_out(void **state)
{
	unsigned int before = count(TEI_HTTP_CROWD);
	int silent[128];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(silent); i++) {
		silent[i] = dial();
		if (i % 2)
			say(silent[i], "GET /echo", 9);
	}
	for (int i = 0; i < 8; i++)
		assert_int_equal(status_of("GET /query?key=a HTTP/1.1\r\n\r\n"),
				 200);
	assert_true(count(TEI_HTTP_CROWD) > before);
	for (size_t i = 0; i < TEST_COUNT(silent); i++)
		close(silent[i]);
}

static void put_body(size_t len, const char *more_fields)
{
	char *text = malloc(len + 200);
	int fd = dial(), n;

	assert_non_null(text);
	n = snprintf(text, 200,
		     "PUT /echo HTTP/1.1\r\nContent-Length: %zu\r\n%s\r\n", len,
		     more_fields);
	for (size_t i = 0; i < len; i++)
		text[(size_t)n + i] = (char)(i * 31 >> 3);
	say(fd, text, (size_t)n + len);
	n = (int)hear(fd);
	assert_non_null(strstr(answer, " 200 OK"));
	for (size_t i = 0; i < len; i++)
		assert_int_equal(answer[(size_t)n - len + i],
				 (char)(i * 31 >> 3));
	free(text);
}

static void bodies_up_to_the_cap_arrive_whole(void **state)
{
	(void)state;
	put_body(0, "");
	put_body(1, "");
	put_body(20000, "X: y\r\n");
	put_body(BODY_MAX, "");
	/* Nobody who has sent the body already waits to be asked for it. */
	put_body(BODY_MAX, "Expect: 100-continue\r\n");
}

static void a_body_that_comes_byte_by_byte_is_waited_for(void **state)
{
	static const char text[] =
		"POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
	int fd = dial();

	(void)state;
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		say(fd, text + i, 1);
	hear(fd);
	assert_non_null(strstr(answer, "\r\n\r\nhello"));
}

static void who_waits_to_be_asked_for_his_body_is_asked(void **state)
{
	static const char head[] = "PUT /echo HTTP/1.1\r\nContent-Length: 5\r\n"
				   "Expect: 100-continue\r\n\r\n";
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	int fd = dial();

	(void)state;
	say(fd, head, sizeof(head) - 1);
	assert_int_equal(recv(fd, answer, sizeof(go_on) - 1, MSG_WAITALL),
			 sizeof(go_on) - 1);
	assert_memory_equal(answer, go_on, sizeof(go_on) - 1);
	say(fd, "hello", 5);
	hear(fd);
	assert_non_null(strstr(answer, "200 OK"));
	assert_non_null(strstr(answer, "\r\n\r\nhello"));
}

static void a_body_beyond_the_cap_is_refused_unread(void **state)
{
	static const char *const lengths[] = {"100001", "1073741824",
					      "18446744073709551616"};
	unsigned int before = count(TEI_HTTP_TOO_LONG);
	char text[200];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
		snprintf(text, sizeof(text),
			 "PUT /echo HTTP/1.1\r\nContent-Length: %s\r\n"
			 "Expect: 100-continue\r\n\r\n",
			 lengths[i]);
		assert_int_equal(status_of(text), 413);
	}
	assert_int_equal(count(TEI_HTTP_TOO_LONG),
			 before + TEST_COUNT(lengths));
}

static void a_body_of_unknown_length_is_refused(void **state)
{
	(void)state;
	assert_int_equal(status_of("PUT /echo HTTP/1.1\r\n"
				   "Transfer-Encoding: chunked\r\n\r\n"
				   "5\r\nhello\r\n0\r\n\r\n"),
			 411);
}

static void half_a_body_changes_nothing(void **state)
{
	static const char text[] =
		"PUT /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf";
	unsigned int before = count(TEI_HTTP_MALFORMED);
	int fd = dial();

	(void)state;
	say(fd, text, sizeof(text) - 1);
	shutdown(fd, SHUT_WR);
	assert_int_equal(hear(fd), 0);
	assert_int_equal(count(TEI_HTTP_MALFORMED), before + 1);
}

static void a_page_of_another_site_may_only_look(void **state)
{
	(void)state;
	assert_int_equal(status_of("POST /echo HTTP/1.1\r\n"
				   "Origin: http://elsewhere\r\n\r\n"),
			 403);
	assert_int_equal(status_of("GET /echo HTTP/1.1\r\n"
				   "Origin: http://elsewhere\r\n\r\n"),
			 200);
}

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
	assert_int_equal(len, 6 + PIECES * PIECE);
	assert_memory_equal(body, "first\n", 6);
	for (size_t i = 0; i < PIECES; i++)
		assert_int_equal(body[6 + i * PIECE + PIECE / 2],
				 'a' + (int)((i + 1) % 26));
}

static void an_answer_in_pieces_arrives_whole(void **state)
{
	unsigned int done = atomic_load(&n_done);
	const char *body;

	(void)state;
	assert_int_equal(ask("GET /pieces HTTP/1.1\r\n\r\n", &body), 200);
	check_pieces(body, unchunk(answer + (body - answer)));
	assert_int_equal(ask("GET /pieces HTTP/1.0\r\n\r\n", &body), 200);
	assert_null(strstr(answer, "chunked"));
	check_pieces(body, strlen(body));
	assert_int_equal(ask("HEAD /pieces HTTP/1.1\r\n\r\n", &body), 200);
	assert_string_equal(body, "");
	assert_int_equal(atomic_load(&n_done), done + 3);
}

static void who_closes_his_half_gets_all_pieces(void **state)
{
	static const char text[] = "GET /pieces HTTP/1.1\r\n\r\n";
	int fd = dial();
	char *body;

	(void)state;
	say(fd, text, sizeof(text) - 1);
	shutdown(fd, SHUT_WR);
	hear(fd);
	body = strstr(answer, "\r\n\r\n") + 4;
	check_pieces(body, unchunk(body));
}

static void a_broken_answer_shows_that_it_is(void **state)
{
	const char *body;

	(void)state;
	assert_int_equal(ask("GET /pieces?broken HTTP/1.1\r\n\r\n", &body),
			 200);
	assert_null(strstr(body, "\r\n0\r\n"));
}

static void wait_for_done(unsigned int n)
{
	uint64_t end = tei_now_ms() + SOON_S * 1000;

	while (atomic_load(&n_done) < n)
		assert_true(tei_now_ms() < end);
}

/* And who reads nothing has few pieces made for him. */
static void a_peer_that_goes_ends_its_answer(void **state)
{
	static const char text[] = "GET /pieces HTTP/1.1\r\n\r\n";
	struct linger reset = {.l_onoff = 1};
	unsigned int done = atomic_load(&n_done);
	int fd = dial();

	(void)state;
	say(fd, text, sizeof(text) - 1);
	assert_int_equal(recv(fd, answer, 1, 0), 1);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
	wait_for_done(done + 1);
}

static void stopping_ends_answers_that_go_on(void **state)
{
	static const char text[] = "GET /pieces HTTP/1.1\r\n\r\n";
	unsigned int done = atomic_load(&n_done);
	int fd = dial(), rc = -1;

	(void)state;
	say(fd, text, sizeof(text) - 1);
	assert_int_equal(recv(fd, answer, 1, 0), 1);
	tei_loop_do(loop, stop_on_loop, NULL);
	wait_for_done(done + 1);
	close(fd);
	tei_loop_do(loop, start_on_loop, &rc);
	assert_int_equal(rc, 0);
}

static void a_request_out_of_memory_harms_no_other(void **state)
{
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};

	(void)state;
	while (test_faults_next(&f)) {
		int fd = dial();

		/* Refused or not: it ends, and the next one is served. */
		(void)send(fd, "GET /echo?a=b HTTP/1.1\r\n\r\n", 26,
			   MSG_NOSIGNAL);
		while (recv(fd, answer, ROOM, 0) > 0)
			;
		close(fd);
	}
	assert_int_equal(status_of("GET /echo HTTP/1.1\r\n\r\n"), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_method_finds_its_route),
		cmocka_unit_test(head_is_get_without_the_body),
		cmocka_unit_test(an_unknown_path_is_told_what_there_is),
		cmocka_unit_test(a_wrong_method_is_told_the_right_ones),
		cmocka_unit_test(parameters_are_decoded),
		cmocka_unit_test(a_value_may_hold_any_byte),
		cmocka_unit_test(bad_escapes_are_refused),
		cmocka_unit_test(refusals_say_what_is_wrong),
		cmocka_unit_test(too_many_parameters_are_refused),
		cmocka_unit_test(a_parameter_may_be_there_once),
		cmocka_unit_test(who_says_nothing_keeps_nobody_out),
		cmocka_unit_test(bodies_up_to_the_cap_arrive_whole),
		cmocka_unit_test(a_body_that_comes_byte_by_byte_is_waited_for),
		cmocka_unit_test(who_waits_to_be_asked_for_his_body_is_asked),
		cmocka_unit_test(a_body_beyond_the_cap_is_refused_unread),
		cmocka_unit_test(a_body_of_unknown_length_is_refused),
		cmocka_unit_test(half_a_body_changes_nothing),
		cmocka_unit_test(a_page_of_another_site_may_only_look),
		cmocka_unit_test(an_answer_in_pieces_arrives_whole),
		cmocka_unit_test(who_closes_his_half_gets_all_pieces),
		cmocka_unit_test(a_broken_answer_shows_that_it_is),
		cmocka_unit_test(a_peer_that_goes_ends_its_answer),
		cmocka_unit_test(stopping_ends_answers_that_go_on),
		cmocka_unit_test(a_request_out_of_memory_harms_no_other),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
