/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_garbage.c - a master that is fed noise lives, counts, and forgets
 *
 * The seed is printed; TEST_SEED repeats a run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/frame.h"
#include "store/proto/protocol.h"
#include "tests/integration/master/caller.h"
#include "tests/lib/dial.h"
#include "tests/lib/test.h"

#define N_NOISE 400
#define N_CALLS 300
#define N_HTTP  400
#define LONG    20000

static struct master master;
static uint64_t seed;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void noise(uint8_t *to, size_t len)
{
	for (size_t i = 0; i < len; i++)
		to[i] = (uint8_t)draw();
}

static int start(void **state)
{
	const char *given = getenv("TEST_SEED");

	(void)state;
	seed = given ? strtoull(given, NULL, 10) : tei_now_ns();
	seed |= 1;
	print_message("TEST_SEED=%llu\n", (unsigned long long)seed);
	master_start(&master, (const char *const[]){NULL});
	return 0;
}

static int stop(void **state)
{
	(void)state;
	master_stop(&master);
	return 0;
}

/* It still serves, and nobody is left from what was thrown at it. */
static void check_alive(void)
{
	struct caller *c = caller_join(&master, 1, false);
	uint64_t end = tei_now_ms() + SOON_MS;

	assert_int_equal(caller_mount(c, 1, 1 << 20), 0);
	while (master_metric(&master, "te_master_connections") > 1)
		assert_true(tei_now_ms() < end);
	caller_close(c);
}

static uint64_t refused(const char *port)
{
	char prefix[80];

	snprintf(prefix, sizeof(prefix), "te_master_refused_total{port=\"%s\"",
		 port);
	return master_metric_sum(&master, prefix);
}

static void throw_rpc(const void *bytes, size_t len)
{
	char answer[256];

	master_throw(master.rpc, bytes, len, answer, sizeof(answer));
}

static size_t header(uint8_t *to, uint32_t len, uint16_t type, uint64_t id)
{
	struct tei_writer w;

	tei_writer_init(&w, to, TEI_FRAME_HEADER_LEN);
	tei_write_u32(&w, len);
	tei_write_u16(&w, type);
	tei_write_u16(&w, 0);
	tei_write_u64(&w, id);
	return TEI_FRAME_HEADER_LEN;
}

/* A valid hello of client @who as it stands on the wire. */
static size_t hello(uint8_t *to, uint8_t who)
{
	Store__Hello m = STORE__HELLO__INIT;
	uint8_t id[TES_STORE_SECRET_LEN];
	size_t len;

	memset(id, who, sizeof(id));
	m.version = TES_STORE_VERSION;
	m.client_secret.data = id;
	m.client_secret.len = sizeof(id);
	m.engine_secret = m.client_secret;
	m.engine = (char *)(uintptr_t) "127.0.0.1:1";
	len = store__hello__pack(&m, to + TEI_FRAME_HEADER_LEN);
	header(to, (uint32_t)len, STORE__STORE_TYPE__STORE_HELLO, 1);
	return TEI_FRAME_HEADER_LEN + len;
}

static void noise_at_the_rpc_port_is_refused(void **state)
{
	uint64_t before = refused("rpc");
	uint8_t bytes[LONG];

	(void)state;
	for (int i = 0; i < N_NOISE; i++) {
		size_t len = draw() % (i % 10 ? 200 : sizeof(bytes));

		noise(bytes, len);
		throw_rpc(bytes, len);
	}
	assert_true(refused("rpc") > before);
	check_alive();
}

static void lengths_beyond_the_cap_are_refused(void **state)
{
	static const uint32_t lengths[] = {4097, 1u << 20, 1u << 31,
					   UINT32_MAX};
	uint64_t before = refused("rpc");
	uint8_t bytes[TEI_FRAME_HEADER_LEN];
	unsigned int n = 0;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
		for (uint16_t type = 1; type < 80; type++, n++) {
			header(bytes, lengths[i], type, 1);
			throw_rpc(bytes, sizeof(bytes));
		}
	}
	/* Also those that members may send: strangers say hello first. */
	assert_int_equal(refused("rpc"), before + n);
	check_alive();
}

/* Throws a hello and more: what comes behind it is a member's. */
static void throw_as_member(const uint8_t *bytes, size_t len)
{
	uint8_t answer[512];
	Store__HelloReply *reply;
	struct tei_frame f;
	size_t n = master_throw(master.rpc, bytes, len, (char *)answer,
				sizeof(answer));

	assert_true(n >= TEI_FRAME_HEADER_LEN);
	tei_frame_decode_header(answer, &f);
	assert_int_equal(f.type, STORE__STORE_TYPE__STORE_HELLO);
	assert_true(f.len <= n - TEI_FRAME_HEADER_LEN);
	reply = store__hello_reply__unpack(NULL, f.len,
					   answer + TEI_FRAME_HEADER_LEN);
	assert_non_null(reply);
	assert_int_equal(reply->status, 0);
	store__hello_reply__free_unpacked(reply, NULL);
}

/* Those of the answers are longer; what has begun to come takes memory. */
static void requests_have_caps_of_their_own(void **state)
{
	static const struct {
		uint16_t type;
		uint32_t most;
	} caps[] = {
		{STORE__STORE_TYPE__STORE_HEARTBEAT, 1u << 10},
		{STORE__STORE_TYPE__STORE_MOUNT, 4u << 10},
		{STORE__STORE_TYPE__STORE_UNMOUNT, 4u << 10},
		{STORE__STORE_TYPE__STORE_PUT_START, 6u << 20},
		{STORE__STORE_TYPE__STORE_PUT_END, 5u << 20},
		{STORE__STORE_TYPE__STORE_LOOKUP, 5u << 20},
		{STORE__STORE_TYPE__STORE_RELEASE, 5u << 20},
		{STORE__STORE_TYPE__STORE_EXIST, 5u << 20},
		{STORE__STORE_TYPE__STORE_SIZE, 5u << 20},
		{STORE__STORE_TYPE__STORE_REMOVE, 5u << 20},
		{STORE__STORE_TYPE__STORE_POOL, 1u << 10},
		{STORE__STORE_TYPE__STORE_FENCED, 1u << 10},
		{STORE__STORE_TYPE__STORE_REMOVE_ALL, 4u << 10},
		{STORE__STORE_TYPE__STORE_REPLICA_CLEAR, 5u << 20},
		{STORE__STORE_TYPE__STORE_BURIED, 1u << 10},
		{STORE__STORE_TYPE__STORE_OFFER, 5u << 20},
		{STORE__STORE_TYPE__STORE_TASK_DONE, 1u << 10},
		{STORE__STORE_TYPE__STORE_TASK_CREATE, 16u << 10},
		{STORE__STORE_TYPE__STORE_TASK_QUERY, 1u << 10},
		{STORE__STORE_TYPE__STORE_REPORT, 1u << 10},
		{STORE__STORE_TYPE__STORE_PROBED, 1u << 10},
		{STORE__STORE_TYPE__STORE_DRAIN, 1u << 10},
	};
	uint8_t bytes[512];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(caps); i++) {
		uint64_t before = refused("rpc");
		size_t at = hello(bytes, 2);

		at += header(bytes + at, caps[i].most, caps[i].type, 2);
		throw_as_member(bytes, at);
		assert_int_equal(refused("rpc"), before);
		at = hello(bytes, 2);
		at += header(bytes + at, caps[i].most + 1, caps[i].type, 2);
		throw_as_member(bytes, at);
		assert_int_equal(refused("rpc"), before + 1);
	}
	check_alive();
}

static void a_hello_cut_anywhere_is_no_hello(void **state)
{
	uint8_t bytes[256];
	uint64_t before = refused("rpc");
	size_t len = hello(bytes, 2);

	(void)state;
	for (size_t cut = 0; cut < len; cut++) {
		throw_rpc(bytes, cut);
		/* The same as a whole frame with a body cut off. */
		if (cut >= TEI_FRAME_HEADER_LEN) {
			header(bytes, (uint32_t)(cut - TEI_FRAME_HEADER_LEN),
			       STORE__STORE_TYPE__STORE_HELLO, 1);
			throw_rpc(bytes, cut);
			hello(bytes, 2);
		}
	}
	assert_true(refused("rpc") >= before + len - TEI_FRAME_HEADER_LEN);
	throw_as_member(bytes, len);
	check_alive();
}

static void members_that_send_noise_are_refused(void **state)
{
	uint64_t before = refused("rpc");
	uint8_t bytes[1024];

	(void)state;
	for (int i = 0; i < N_CALLS; i++) {
		size_t at = hello(bytes, (uint8_t)(10 + i % 50));
		size_t len = draw() % 300;
		uint16_t type = (uint16_t)(1 + draw() % 16);

		at += header(bytes + at, (uint32_t)len, type, 2);
		noise(bytes + at, len);
		throw_as_member(bytes, at + len);
	}
	assert_true(refused("rpc") > before + N_CALLS / 2);
	check_alive();
}

/* @n lengths of 4 for @bytes bytes of keys: to every request that has keys. */
static void throw_columns(uint16_t type, size_t n, size_t bytes)
{
	struct caller *c = caller_join(&master, 3, false);
	bool quiet = type == STORE__STORE_TYPE__STORE_RELEASE;
	uint32_t lens[] = {4, 4, 4};
	uint8_t keys[16] = "aaaabbbbccccddd";
	Store__Keys m = STORE__KEYS__INIT;

	m.keys.data = keys;
	m.keys.len = bytes;
	m.key_lens = lens;
	m.n_key_lens = n;
	caller_send(c, type, 0, quiet ? 0 : 7, &m);
	assert_true(caller_wait_down(c));
	assert_true(caller_text(c)[0]);
	caller_close(c);
}

static void key_columns_that_do_not_fit_are_refused(void **state)
{
	static const uint16_t types[] = {
		STORE__STORE_TYPE__STORE_PUT_START,
		STORE__STORE_TYPE__STORE_PUT_END,
		STORE__STORE_TYPE__STORE_LOOKUP,
		STORE__STORE_TYPE__STORE_RELEASE,
		STORE__STORE_TYPE__STORE_EXIST,
		STORE__STORE_TYPE__STORE_SIZE,
		STORE__STORE_TYPE__STORE_REMOVE,
	};
	uint64_t before = refused("rpc");

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(types); i++) {
		throw_columns(types[i], 3, 11);
		throw_columns(types[i], 3, 13);
		throw_columns(types[i], 0, 4);
		throw_columns(types[i], 1, 0);
	}
	assert_int_equal(refused("rpc"), before + 4 * TEST_COUNT(types));
	check_alive();
}

static void a_pattern_with_a_0_removes_nothing(void **state)
{
	static const uint8_t body[] = {0x08, 1, 0x12, 2, 0, 'x'};
	uint64_t before = refused("rpc");
	uint8_t bytes[1024];
	size_t at = hello(bytes, 4);

	(void)state;
	at += header(bytes + at, sizeof(body),
		     STORE__STORE_TYPE__STORE_REMOVE_ALL, 2);
	memcpy(bytes + at, body, sizeof(body));
	throw_as_member(bytes, at + sizeof(body));
	assert_int_equal(refused("rpc"), before + 1);
	check_alive();
}

static void throw_http(const void *bytes, size_t len, char *answer, size_t room)
{
	size_t n = master_throw(master.http, bytes, len, answer, room - 1);

	answer[n] = '\0';
}

static void noise_at_the_http_port_is_refused(void **state)
{
	uint64_t before = refused("http");
	char answer[512];
	uint8_t bytes[LONG];

	(void)state;
	for (int i = 0; i < N_HTTP; i++) {
		size_t len = 1 + draw() % (i % 10 ? 200 : sizeof(bytes) - 1);

		noise(bytes, len);
		throw_http(bytes, len, answer, sizeof(answer));
		assert_null(strstr(answer, "200 OK"));
	}
	assert_true(refused("http") >= before + N_HTTP / 2);
	check_alive();
}

static void a_request_cut_anywhere_is_none(void **state)
{
	static const char request[] =
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	char answer[512];

	(void)state;
	for (size_t cut = 0; cut < sizeof(request) - 1; cut++) {
		throw_http(request, cut, answer, sizeof(answer));
		assert_string_equal(answer, "");
	}
	throw_http(request, sizeof(request) - 1, answer, sizeof(answer));
	assert_non_null(strstr(answer, "200 OK"));
}

static void bad_requests_get_their_number(void **state)
{
	static const struct {
		const char *request, *status;
	} cases[] = {
		{"POST /metrics HTTP/1.1\r\n\r\n", " 405 "},
		{"BREW /metrics HTTP/1.1\r\n\r\n", " 405 "},
		{"DELETE / HTTP/1.1\r\n\r\n", " 404 "},
		{"GET /%6detrics HTTP/1.1\r\n\r\n", " 404 "},
		{"GET /metrics?a=%zz HTTP/1.1\r\n\r\n", " 400 "},
		{"GET /metrics?%4 HTTP/1.1\r\n\r\n", " 400 "},
		{"GET /metrics\r\n\r\n", " 400 "}, /* HTTP/0.9 */
		{"GET /metrics HTTP/2.0\r\n\r\n", " 400 "},
		{"GET metrics HTTP/1.1\r\n\r\n", " 400 "},
		{"GET /a\x01 HTTP/1.1\r\n\r\n", " 400 "},
		{"GET  /metrics HTTP/1.1\r\n\r\n", " 400 "},
		{"get /metrics HTTP/1.1\r\n\r\n", " 400 "},
		{"GET / HTTP/1.1\r\nno colon\r\n\r\n", " 400 "},
		{"GET / HTTP/1.1\r\n: empty\r\n\r\n", " 400 "},
		{"GET / HTTP/1.1\r\nA: b\r\n folded: c\r\n\r\n", " 400 "},
		{"GET /health HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
		 " 400 "},
		{"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
		 " 411 "},
		{"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", " 400 "},
		{"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", " 400 "},
		{"GET / HTTP/1.1\r\nContent-Length:\r\n\r\n", " 400 "},
		{"GET / HTTP/1.1\r\nContent-Length: 0\r\n"
		 "Content-Length: 0\r\n\r\n",
		 " 400 "},
		{"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n"
		 "\r\n",
		 " 413 "},
		{"GET / HTTP/1.1\r\nContent-Length : 0\r\n\r\n", " 400 "},
		{"GET / HTTP/1.1\r\nExpect: a miracle\r\n\r\n", " 417 "},
		{"\r\n\r\n", " 400 "},
		{"\x16\x03\x01\x02", " 400 "}, /* TLS */
	};
	char answer[512];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		throw_http(cases[i].request, strlen(cases[i].request), answer,
			   sizeof(answer));
		if (!strstr(answer, cases[i].status))
			print_error("case %zu: %s\n", i, answer);
		assert_non_null(strstr(answer, cases[i].status));
	}
}

static void long_requests_are_too_long(void **state)
{
	static const char line[] = "GET / HTTP/1.1\r\n";
	char *bytes = malloc(100000), answer[512], path[1000];

	(void)state;
	assert_non_null(bytes);
	memset(bytes, 'a', 100000);
	memcpy(bytes, line, sizeof(line) - 1);
	throw_http(bytes, 100000, answer, sizeof(answer));
	assert_non_null(strstr(answer, " 431 "));

	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	snprintf(bytes, 100000, "GET /%s HTTP/1.1\r\n\r\n", path);
	throw_http(bytes, strlen(bytes), answer, sizeof(answer));
	assert_non_null(strstr(answer, " 414 "));
	free(bytes);
}

static void one_more_than_the_places_is_turned_away(void **state)
{
	static const char request[] = "GET /health HTTP/1.0\r\n\r\n";
	uint64_t before = refused("http"), end = tei_now_ms() + SOON_MS;
	char answer[512] = "";
	int fds[140];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(fds); i++)
		fds[i] = test_dial(master.http);
	assert_int_equal(recv(fds[TEST_COUNT(fds) - 1], answer, 1, 0), 0);
	for (size_t i = 0; i < TEST_COUNT(fds); i++)
		close(fds[i]);
	while (!strstr(answer, "200 OK")) { /* there is room again */
		assert_true(tei_now_ms() < end);
		throw_http(request, sizeof(request) - 1, answer,
			   sizeof(answer));
	}
	assert_true(refused("http") > before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(noise_at_the_rpc_port_is_refused),
		cmocka_unit_test(lengths_beyond_the_cap_are_refused),
		cmocka_unit_test(requests_have_caps_of_their_own),
		cmocka_unit_test(a_hello_cut_anywhere_is_no_hello),
		cmocka_unit_test(members_that_send_noise_are_refused),
		cmocka_unit_test(key_columns_that_do_not_fit_are_refused),
		cmocka_unit_test(a_pattern_with_a_0_removes_nothing),
		cmocka_unit_test(noise_at_the_http_port_is_refused),
		cmocka_unit_test(a_request_cut_anywhere_is_none),
		cmocka_unit_test(bad_requests_get_their_number),
		cmocka_unit_test(long_requests_are_too_long),
		cmocka_unit_test(one_more_than_the_places_is_turned_away),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
