/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_directory_odd.c - directories that answer anything but what they should
 *
 * A server of the test's own sends the same bytes to everybody, whole or one by
 * one, and reads what it is sent without understanding it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "te/core/config.h"
#include "te/core/engine.h"
#include "te/directory/directory.h"
#include "tests/unit/te/rig.h"

#define TIMEOUT_MS 50
#define DRIP_MS    10

struct server {
	pthread_t thread;
	int fd;
	uint16_t port;
	const char *bytes;
	size_t len, padding; /* so many 'x' behind */
	bool drips, stays;   /* one byte at a time; does not close */
	atomic_bool over;
};

static bool wait_readable(struct server *s, int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) > 0 && !atomic_load(&s->over);
}

static void drip(struct server *s, int fd)
{
	char sink[4096];

	for (size_t i = 0; !atomic_load(&s->over); i++) {
		char byte = i < s->len ? s->bytes[i] : 'x';

		if (send(fd, &byte, 1, MSG_NOSIGNAL) < 0)
			return;
		if (wait_readable(s, fd, DRIP_MS) &&
		    recv(fd, sink, sizeof(sink), 0) <= 0)
			return;
	}
}

static void pour(struct server *s, int fd)
{
	char block[4096];
	size_t i;

	memset(block, 'x', sizeof(block));
	if (send(fd, s->bytes, s->len, MSG_NOSIGNAL) < 0)
		return;
	for (i = 0; i < s->padding; i += sizeof(block)) {
		if (send(fd, block, sizeof(block), MSG_NOSIGNAL) < 0)
			return;
	}
}

/* One connection after the other; each request gets the same answer. */
static void serve(struct server *s, int fd)
{
	char sink[65536];

	do {
		while (!wait_readable(s, fd, 5) && !atomic_load(&s->over))
			;
		if (atomic_load(&s->over) ||
		    recv(fd, sink, sizeof(sink), 0) <= 0)
			return;
		if (s->drips)
			drip(s, fd);
		else
			pour(s, fd);
	} while (s->stays);
	shutdown(fd, SHUT_WR);
	while (wait_readable(s, fd, 1000) &&
	       recv(fd, sink, sizeof(sink), 0) > 0)
		;
}

static void *run(void *arg)
{
	struct server *s = arg;

	while (!atomic_load(&s->over)) {
		int fd = wait_readable(s, s->fd, 5) ? accept(s->fd, NULL, NULL)
						    : -1;

		if (fd >= 0) {
			serve(s, fd);
			close(fd);
		}
	}
	return NULL;
}

static void server_start(struct server *s)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);

	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(s->fd, 64), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &len), 0);
	s->port = ntohs(at.sin_port);
	atomic_init(&s->over, false);
	assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

static void server_stop(struct server *s)
{
	atomic_store(&s->over, true);
	pthread_join(s->thread, NULL);
	close(s->fd);
}

static const char *kind; /* "http", ... */

static void url_of(const struct server *s, char out[64])
{
	snprintf(out, 64, "%s://127.0.0.1:%u", kind, s->port);
}

/* ---- each call of each kind ends with an error, in time ---- */

static void expect_error(struct tei_dir_link *link, int rc, const char *what)
{
	if (rc >= 0)
		fail_msg("%s of %s succeeds", what, kind);
	if (rc != -ENOENT && rc != -EEXIST && !*link->error)
		fail_msg("%s of %s: %d without words", what, kind, rc);
	tei_dir_link_close(link);
	tei_dir_link_begin(link);
}

static void expect_errors(const struct server *s)
{
	char url[64], key[] = "k", value[TEI_ENTRY_MAX];
	struct tei_config config = {
		.metadata_server = url,
		.module_path = getenv("TE_BACKEND_PATH"),
		.metadata_ttl = 1000,
		.metadata_timeout = TIMEOUT_MS,
	};
	struct tei_directory *dir;
	struct tei_dir_link link;

	url_of(s, url);
	assert_int_equal(tei_directory_open(&config, &dir), 0);
	assert_non_null(dir);
	tei_dir_link_init(&link, dir);
	tei_dir_link_begin(&link);
	expect_error(&link, dir->ops->get(&link, key, value), "get");
	expect_error(&link, dir->ops->put(&link, key, "v", NULL), "put");
	expect_error(&link, dir->ops->put(&link, key, "v", "w"), "replace");
	expect_error(&link, dir->ops->refresh(&link, key, "v"), "refresh");
	if (strcmp(kind, "http") != 0 || s->drips)
		expect_error(&link, dir->ops->remove(&link, key, "v"),
			     "remove");
	tei_dir_link_close(&link);
	tei_directory_put(dir);
}

/* An engine with that directory does all that it can without one. */
static void expect_engine_works(const struct server *s)
{
	char url[64];
	const char *const settings[] = {"metadata_server",
					url,
					"metadata_timeout",
					"50ms",
					"metadata_ttl",
					"100ms",
					NULL};
	struct te_engine *a, *b;
	te_segment_id id;

	url_of(s, url);
	a = rig_engine(settings);
	b = rig_engine(NULL);
	assert_int_equal(
		te_segment_open(a, te_engine_name(b), RIG_WAIT_MS, &id), 0);
	assert_int_equal(te_segment_open(a, "nobody", 50, &id), -ETIMEDOUT);
	te_engine_destroy(a);
	te_engine_destroy(b);
}

static void try(struct server *s)
{
	server_start(s);
	expect_errors(s);
	if (s->stays || s->drips || s->padding) /* the worse ones */
		expect_engine_works(s);
	server_stop(s);
}

static void try_words(const char *words)
{
	struct server whole = {.bytes = words, .len = strlen(words)};
	struct server open = {
		.bytes = words, .len = strlen(words), .stays = true};

	try(&whole);
	try(&open);
}

#define HTTP(status, body) "HTTP/1.1 " status "\r\n" body
#define LEN(n)             "Content-Length: " n "\r\n\r\n"

static void web_servers_that_are_no_directory(void **state)
{
	static const char *const kinds[] = {"http", "etcd"};
	static const char *const answers[] = {
		HTTP("500 Internal Server Error", LEN("0")),
		HTTP("302 Found", "Location: http://127.0.0.1:1/\r\n" LEN("0")),
		HTTP("204 No Content", "\r\n"),
		HTTP("200 OK", LEN("100") "half an answer"),
		HTTP("200 OK", "Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
		HTTP("200 OK", LEN("99999999999999")),
		"HTTP/1.1 200",
		"+PONG\r\n",
		"\0\0\0\0",
		"",
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		kind = kinds[i];
		for (size_t j = 0; j < TEST_COUNT(answers); j++)
			try_words(answers[j]);
	}
}

static void answers_that_are_not_of_etcd(void **state)
{
	static const char *const answers[] = {
		HTTP("200 OK", LEN("22") "<html>It works!</html>"),
		HTTP("200 OK", LEN("2") "[]"),
		HTTP("200 OK", LEN("2") "{}"),
		HTTP("200 OK", LEN("24") "{\"header\":1,\"kvs\":\"four\"}"),
		HTTP("200 OK", LEN("27") "{\"header\":{},\"kvs\":[{},{}]}"),
		HTTP("200 OK", LEN("41") "{\"header\":{},\"kvs\":[{\"value\":"
					 "\"!!!???\"}]}\n"),
		HTTP("200 OK", LEN("28") "{\"succeeded\":5,\"ID\":[\"x\"]}\n"),
		HTTP("404 Not Found", LEN("15") "{\"error\":\"none\"}"),
	};

	(void)state;
	kind = "etcd";
	for (size_t i = 0; i < TEST_COUNT(answers); i++)
		try_words(answers[i]);
}

static void answers_that_are_not_of_redis(void **state)
{
	static const char *const answers[] = {
		"-ERR unknown command\r\n",
		"-NOAUTH Authentication required.\r\n",
		"*1000000000\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n",
		"$536870911\r\n",
		"$-5\r\n",
		":not a number\r\n",
		"$5\r\nab",
		"HTTP/1.1 400\r\n",
		"\r\n\r\n",
		"*2147483647\r\n",
	};

	(void)state;
	kind = "redis";
	for (size_t i = 0; i < TEST_COUNT(answers); i++)
		try_words(answers[i]);
}

static void answers_without_end_are_cut(void **state)
{
	static const char *const kinds[] = {"http", "etcd", "redis"};
	static const char *const starts[] = {HTTP("200 OK", LEN("1000000000")),
					     HTTP("200 OK", LEN("1000000000")),
					     "$500000000\r\n"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		struct server s = {.bytes = starts[i],
				   .len = strlen(starts[i]),
				   .padding = 1 << 20};

		kind = kinds[i];
		try(&s);
	}
}

static void answers_that_drip_end_in_time(void **state)
{
	static const char *const kinds[] = {"http", "etcd", "redis"};
	static const char *const starts[] = {
		"HTTP/1.1 200 OK\r\nX: ", HTTP("200 OK", LEN("4000")),
		"$4000\r\n"};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		struct server s = {.bytes = starts[i],
				   .len = strlen(starts[i]),
				   .drips = true};

		kind = kinds[i];
		try(&s);
	}
}

/* As where this process did not run for that long. */
static void get_late(const char *of)
{
	char url[64], value[TEI_ENTRY_MAX];
	struct tei_config config = {
		.metadata_server = url,
		.module_path = getenv("TE_BACKEND_PATH"),
		.metadata_ttl = 1000,
		.metadata_timeout = 1,
	};
	struct tei_directory *dir;
	struct tei_dir_link link;

	kind = of;
	(void)snprintf(url, sizeof(url), "%s://127.0.0.1:1", kind);
	assert_int_equal(tei_directory_open(&config, &dir), 0);
	tei_dir_link_init(&link, dir);
	tei_dir_link_begin(&link);
	while (tei_dir_link_left(&link, 1))
		;
	expect_error(&link, dir->ops->get(&link, "k", value), "get");
	tei_dir_link_close(&link);
	tei_directory_put(dir);
}

static void calls_for_which_no_time_is_left_say_so(void **state)
{
	(void)state;
	get_late("http");
	get_late("etcd");
	get_late("redis");
}

/* Its calls would take ten minutes; nobody waits for them. */
static void silent_directory_holds_up_nobody(void **state)
{
	static const char *const kinds[] = {"http", "etcd", "redis"};
	uint64_t begun;
	char url[64];
	const char *const settings[] = {"metadata_server", url,
					"metadata_timeout", "600s", NULL};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		struct server s = {.bytes = "", .stays = true};
		struct te_engine *a, *b;
		te_segment_id id;

		kind = kinds[i];
		server_start(&s);
		url_of(&s, url);
		begun = tei_now_ms();
		a = rig_engine(settings);
		b = rig_engine(NULL);
		assert_int_equal(te_segment_open(a, "nobody", 50, &id),
				 -ETIMEDOUT);
		assert_int_equal(
			te_segment_open(a, te_engine_name(b), RIG_WAIT_MS, &id),
			0);
		te_engine_destroy(a);
		te_engine_destroy(b);
		assert_true(tei_now_ms() - begun < 300000);
		server_stop(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(web_servers_that_are_no_directory),
		cmocka_unit_test(answers_that_are_not_of_etcd),
		cmocka_unit_test(answers_that_are_not_of_redis),
		cmocka_unit_test(answers_without_end_are_cut),
		cmocka_unit_test(answers_that_drip_end_in_time),
		cmocka_unit_test(calls_for_which_no_time_is_left_say_so),
		cmocka_unit_test(silent_directory_holds_up_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
