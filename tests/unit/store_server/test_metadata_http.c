/* SPDX-License-Identifier: Apache-2.0 */
/* test_metadata_http.c - a metadata server as those who speak HTTP see it */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/loop.h"
#include "store/server/metadata_http.h"
#include "tests/lib/test.h"

#define ROOM  65536
#define CROWD 300

static struct tei_loop *loop;
static struct tes_metadata_server *server;
static uint16_t port;
static char answer[ROOM + 1];

static void start(void *arg)
{
	const struct tes_metadata_config config = {
		.host = "127.0.0.1", .limits = {100, 10000, 1 << 20}};

	*(int *)arg = tes_metadata_server_start(loop, &config, &port, &server);
}

static void stop(void *arg)
{
	(void)arg;
	tes_metadata_server_stop(server);
}

static int set_up(void **state)
{
	int rc = -1;

	(void)state;
	assert_int_equal(tei_loop_create("metadata", &loop), 0);
	tei_loop_do(loop, start, &rc);
	return rc;
}

static int tear_down(void **state)
{
	(void)state;
	tei_loop_do(loop, stop, NULL);
	tei_loop_stop(loop);
	tei_loop_destroy(loop);
	return 0;
}

static int connect_to_server(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* Everything until the server closes, into `answer`. */
static void exchange(const char *request)
{
	int fd = connect_to_server();
	size_t len = 0;
	ssize_t n;

	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL),
			 strlen(request));
	while ((n = recv(fd, answer + len, ROOM - len, 0)) > 0)
		len += (size_t)n;
	answer[len] = '\0';
	close(fd);
}

static const char *field = ""; /* one more of each request, with its end */

/* @query: behind "/metadata". */
static void expect(const char *method, const char *query, const char *body,
		   int status, const char *words)
{
	char request[4096];
	const char *found;

	snprintf(request, sizeof(request),
		 "%s /metadata%s HTTP/1.1\r\nHost: localhost\r\n%s"
		 "Content-Length: %zu\r\n\r\n%s",
		 method, query, field, strlen(body), body);
	exchange(request);
	if (atoi(answer + strlen("HTTP/1.1 ")) != status)
		fail_msg("%s %s: %.200s", method, query, answer);
	found = strstr(answer, "\r\n\r\n");
	assert_non_null(found);
	assert_string_equal(found + 4, words);
}

#define KEY "?key=mooncake%2Frpc_meta%2Fa"

static void what_was_put_is_there_until_it_is_deleted(void **state)
{
	(void)state;
	expect("GET", KEY, "", 404, "metadata not found");
	expect("PUT", KEY, "{\"a\":1}", 200, "metadata updated");
	expect("PUT", KEY, "{\"a\":1}", 200, "metadata unchanged");
	expect("GET", KEY, "", 200, "{\"a\":1}");
	expect("GET", "?key=mooncake/rpc_meta/a", "", 200, "{\"a\":1}");
	expect("PUT", KEY, "{\"a\":2}", 200, "metadata updated");
	expect("DELETE", KEY, "", 200, "metadata deleted");
	expect("DELETE", KEY, "", 404, "metadata not found");
}

static void blanks_around_key_are_not_of_it(void **state)
{
	(void)state;
	expect("PUT", "?key=+%09k%20k%0a+", "v", 200, "metadata updated");
	expect("GET", "?key=k%20k", "", 200, "v");
	expect("DELETE", "?key=k%20k%20", "", 200, "metadata deleted");
	expect("GET", "?key=k%20k", "", 404, "metadata not found");
}

static void answers_about_keys_are_json(void **state)
{
	static const char *const requests[] = {
		"GET /metadata?key=",        "GET /metadata?key=none",
		"DELETE /metadata?key=none", "PUT /metadata?key=k",
		"POST /metadata?key=k",      "PATCH /metadata?key=k",
		"GET /metadata?key=%zz"};
	char request[128];

	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		snprintf(request, sizeof(request),
			 "%s HTTP/1.1\r\nHost: localhost\r\n"
			 "Content-Length: 0\r\n\r\n",
			 requests[i]);
		exchange(request);
		if (!strstr(answer, "\r\nContent-Type: application/json\r\n"))
			fail_msg("%s: %.200s", requests[i], answer);
	}
}

static void living_engine_keeps_its_key(void **state)
{
	(void)state;
	expect("PUT", KEY "&incarnation=11&ttl_ms=3600000", "one", 200,
	       "metadata updated");
	expect("PUT", KEY "&incarnation=22&ttl_ms=3600000", "two", 400,
	       "Duplicate rpc_meta key not allowed");
	expect("PUT", KEY, "two", 400, "Duplicate rpc_meta key not allowed");
	expect("PUT", KEY "&incarnation=22&if_incarnation=none", "two", 412,
	       "incarnation does not match");
	expect("DELETE", KEY "&if_incarnation=22", "", 412,
	       "incarnation does not match");
	expect("PUT", KEY "&incarnation=22&if_incarnation=11", "two", 200,
	       "metadata updated");
	expect("GET", KEY, "", 200, "two");
	expect("DELETE", KEY "&if_incarnation=22", "", 200, "metadata deleted");
}

#define AUTHORIZATION "Authorization: Bearer "
#define MINE          AUTHORIZATION "0123456789abcdef\r\n"
#define HIS           "authorization: bearer   0123456789abcdeg\r\n"
#define LIVES         "&incarnation=11&ttl_ms=3600000"
#define WITH_11       "&if_incarnation=11"

static void only_who_shows_its_token_changes_an_entry(void **state)
{
	static const char no[] = "token does not match";

	(void)state;
	field = MINE;
	expect("PUT", KEY LIVES "&if_incarnation=none", "one", 200,
	       "metadata updated");
	for (int i = 0; i < 2; i++) {
		field = i ? HIS : "";
		expect("GET", KEY, "", 200, "one");
		expect("PUT", KEY LIVES WITH_11, "one", 412, no);
		expect("PUT", KEY "&ttl_ms=1&incarnation=22" WITH_11, "two",
		       412, no);
		expect("DELETE", KEY WITH_11, "", 412, no);
		expect("DELETE", KEY, "", 412, no);
	}
	field = MINE;
	expect("PUT", KEY LIVES WITH_11, "one", 200, "metadata unchanged");
	expect("DELETE", KEY WITH_11, "", 200, "metadata deleted");
	field = "";
	/* Other programs' entries are theirs to change. */
	expect("PUT", KEY, "foreign", 200, "metadata updated");
	expect("PUT", KEY, "foreign again", 200, "metadata updated");
	expect("DELETE", KEY, "", 200, "metadata deleted");
}

static void tokens_have_bounds(void **state)
{
	static const char bad[] = "a token should have 16 .. 128 bytes";
	char line[256];

	(void)state;
	field = AUTHORIZATION "0123456789abcde\r\n";
	expect("PUT", KEY LIVES, "v", 400, bad);
	expect("DELETE", KEY, "", 400, bad);
	field = AUTHORIZATION "\r\n";
	expect("PUT", KEY LIVES, "v", 200, "metadata updated");
	expect("DELETE", KEY, "", 200, "metadata deleted");
	field = MINE;
	expect("PUT", KEY "&incarnation=11", "v", 400, "a token needs ttl_ms");
	/* One PUT keeps a foreign client from its key for an hour at most. */
	expect("PUT", KEY "&incarnation=11&ttl_ms=3600001", "v", 400,
	       "ttl_ms should be 0 .. 3600000");
	snprintf(line, sizeof(line), AUTHORIZATION "%0129d\r\n", 0);
	field = line;
	expect("PUT", KEY LIVES, "v", 400, "the token is too long\n");
	field = MINE MINE;
	expect("PUT", KEY LIVES, "v", 400, "Authorization is there twice\n");
	/* What is of another scheme is not for us. */
	field = "Authorization: Basic eDp5\r\n";
	expect("PUT", KEY, "v", 200, "metadata updated");
	field = "";
	expect("PUT", KEY, "w", 200, "metadata updated");
}

static void malformed_requests_are_refused_in_words(void **state)
{
	(void)state;
	expect("GET", "", "", 400, "metadata key is required");
	expect("GET", "?key=", "", 400, "metadata key is required");
	expect("GET", "?key=%20+%09", "", 400, "metadata key is required");
	expect("PUT", "?key=%20", "x", 400, "metadata key is required");
	expect("PUT", "", "x", 400, "metadata key is required");
	expect("DELETE", "?k=1", "", 400, "metadata key is required");
	expect("PUT", "?key=a&ttl_ms=x", "x", 400,
	       "ttl_ms should be 0 .. 3600000");
	expect("PUT", "?key=a&ttl_ms=3600001", "x", 400,
	       "ttl_ms should be 0 .. 3600000");
	expect("GET", "?key=a", "", 404, "metadata not found");
	expect("POST", "?key=a", "x", 405, "Method Not Allowed\n");
}

static void value_that_is_too_long_is_not_read(void **state)
{
	(void)state;
	exchange("PUT /metadata?key=a HTTP/1.1\r\nHost: localhost\r\n"
		 "Content-Length: 1073741824\r\n\r\n");
	assert_non_null(strstr(answer, " 413 "));
}

static void value_of_unknown_length_is_refused(void **state)
{
	(void)state;
	expect("PUT", KEY, "v", 200, "metadata updated");
	exchange("PUT /metadata" KEY " HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_non_null(strstr(answer, " 411 "));
	expect("GET", KEY, "", 200, "v");
	expect("DELETE", KEY, "", 200, "metadata deleted");
}

static void incarnation_none_and_a_0_is_not_none(void **state)
{
	(void)state;
	expect("PUT", KEY "&if_incarnation=none%00", "v", 412,
	       "incarnation does not match");
	expect("GET", KEY, "", 404, "metadata not found");
}

/* As engines that start together, each about to say something. */
static void crowd_does_not_shut_others_out(void **state)
{
	int fd[CROWD];

	(void)state;
	for (int i = 0; i < CROWD; i++)
		fd[i] = connect_to_server();
	expect("PUT", KEY, "v", 200, "metadata updated");
	for (int i = 0; i < CROWD; i++)
		close(fd[i]);
	expect("GET", KEY, "", 200, "v");
}

static void health_is_ok(void **state)
{
	(void)state;
	exchange("GET /health HTTP/1.0\r\n\r\n");
	assert_non_null(strstr(answer, " 200 "));
	assert_non_null(strstr(answer, "\r\n\r\nOK"));
}

static void figures_count_what_was_asked(void **state)
{
	(void)state;
	expect("PUT", KEY, "v", 200, "metadata updated");
	expect("PUT", KEY, "v", 200, "metadata unchanged");
	expect("GET", KEY, "", 200, "v");
	expect("GET", "?key=b", "", 404, "metadata not found");
	expect("PUT", "", "v", 400, "metadata key is required");
	exchange("GET /metrics HTTP/1.0\r\n\r\n");
	assert_non_null(strstr(answer, "\nte_metadata_entries 1\n"));
	assert_non_null(strstr(answer, "# HELP te_metadata_entries "));
	assert_non_null(strstr(answer, "{result=\"updated\"} 1\n"));
	assert_non_null(strstr(answer, "{result=\"unchanged\"} 1\n"));
	assert_non_null(strstr(answer, "{result=\"found\"} 1\n"));
	assert_non_null(strstr(answer, "{result=\"not_found\"} 1\n"));
	assert_non_null(strstr(answer, "{result=\"refused\"} 1\n"));
	assert_non_null(strstr(answer, "{result=\"deleted\"} 0\n"));
}

static void forget(void *arg)
{
	static const uint8_t incarnation[16] = {0xab, 1};

	tes_metadata_server_forget(server, arg, incarnation);
}

static void what_a_dead_engine_has_written_is_forgotten(void **state)
{
	char name[] = "10.0.0.1:5";

	(void)state;
	expect("PUT",
	       "?key=mooncake/rpc_meta/10.0.0.1:5"
	       "&incarnation=ab010000000000000000000000000000",
	       "r", 200, "metadata updated");
	expect("PUT", "?key=mooncake/ram/10.0.0.1:5", "d", 200,
	       "metadata updated");
	expect("PUT", "?key=mooncake/ram/10.0.0.1:55", "d", 200,
	       "metadata updated");
	tei_loop_do(loop, forget, name);
	expect("GET", "?key=mooncake/rpc_meta/10.0.0.1:5", "", 404,
	       "metadata not found");
	expect("GET", "?key=mooncake/ram/10.0.0.1:5", "", 404,
	       "metadata not found");
	expect("GET", "?key=mooncake/ram/10.0.0.1:55", "", 200, "d");
	expect("PUT",
	       "?key=mooncake/rpc_meta/10.0.0.1:5"
	       "&incarnation=cc010000000000000000000000000000",
	       "successor", 200, "metadata updated");
	tei_loop_do(loop, forget, name);
	expect("GET", "?key=mooncake/rpc_meta/10.0.0.1:5", "", 200,
	       "successor");
	expect("DELETE", "?key=mooncake/rpc_meta/10.0.0.1:5", "", 200,
	       "metadata deleted");
	/* The name and the incarnation of a session prove nothing. */
	field = MINE;
	expect("PUT",
	       "?key=mooncake/rpc_meta/10.0.0.1:5&ttl_ms=3600000"
	       "&incarnation=ab010000000000000000000000000000",
	       "secured", 200, "metadata updated");
	field = "";
	tei_loop_do(loop, forget, name);
	expect("GET", "?key=mooncake/rpc_meta/10.0.0.1:5", "", 200, "secured");
}

#define WITH_ONE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ONE(what_was_put_is_there_until_it_is_deleted),
		WITH_ONE(blanks_around_key_are_not_of_it),
		WITH_ONE(answers_about_keys_are_json),
		WITH_ONE(living_engine_keeps_its_key),
		WITH_ONE(only_who_shows_its_token_changes_an_entry),
		WITH_ONE(tokens_have_bounds),
		WITH_ONE(malformed_requests_are_refused_in_words),
		WITH_ONE(value_that_is_too_long_is_not_read),
		WITH_ONE(value_of_unknown_length_is_refused),
		WITH_ONE(incarnation_none_and_a_0_is_not_none),
		WITH_ONE(crowd_does_not_shut_others_out),
		WITH_ONE(health_is_ok),
		WITH_ONE(figures_count_what_was_asked),
		WITH_ONE(what_a_dead_engine_has_written_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
