/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hostile.c - what strangers and bad peers send to the tcp data port
 *
 * Sockets of the test's own speak to a rail: as strangers, as an initiator
 * that knows a token, and as a target that an initiator has connected to.
 * Whatever they send, only memory that was opened for it changes, no pin
 * stays, and the next honest peer is served.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <te/te.h>

#include "backends/tcp/tcp.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tests/lib/dial.h"
#include "tests/lib/user.h"
#include "tests/unit/backends/raw.h"

static const struct tei_backend_ops *const ops = &tei_backend_tcp;

static void await_down(const struct fake_link *link)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (!link->n_down && tei_now_ms() < end)
		raw_turn();
	assert_int_equal(link->n_down, 1);
}

/* ---- strangers ---- */

static void strangers_that_say_no_hello_are_closed_and_counted(void **state)
{
	uint8_t bytes[300];

	(void)state;
	srand(1);
	for (int i = 0; i < 200; i++) {
		size_t len = TCP_HEAD_LEN + (size_t)rand() % 200;
		uint64_t before = raw_rail.rail->bad_frames;
		int fd = raw_dial(raw_port_of_rail());

		raw_fill_random(bytes, len);
		raw_put(fd, bytes, len);
		assert_true(raw_closed_in_time(fd));
		close(fd);
		assert_int_equal(raw_rail.rail->bad_frames, before + 1);
	}
	raw_serves_honest_peers();
}

static void hello_cut_at_any_byte_is_counted(void **state)
{
	struct tcp_address a;
	struct fake_link link;
	struct tei_endpoint *ep = raw_open_half(&link, true, &a);
	struct tcp_hello h = {.op = TCP_HELLO, .lanes = 1};
	uint8_t bytes[TCP_HEAD_LEN];

	(void)state;
	memcpy(h.token, a.token, TCP_TOKEN_LEN);
	tei_tcp_hello_encode(&h, bytes);
	for (size_t len = 1; len < TCP_HEAD_LEN; len++) {
		uint64_t before = raw_rail.rail->bad_frames;
		int fd = raw_dial(a.port);

		raw_put(fd, bytes, len);
		shutdown(fd, SHUT_WR);
		assert_true(raw_closed_in_time(fd));
		close(fd);
		assert_int_equal(raw_rail.rail->bad_frames, before + 1);
	}
	assert_int_equal(link.n_down, 0);
	close(raw_dial_known(&a));
	raw_close_half(ep);
}

static void every_byte_of_a_hello_but_the_reserved_matters(void **state)
{
	struct tcp_address a;
	struct fake_link link;
	struct tei_endpoint *ep = raw_open_half(&link, true, &a);
	struct tcp_hello h = {.op = TCP_HELLO, .lanes = 1};
	uint8_t bytes[TCP_HEAD_LEN];

	(void)state;
	memcpy(h.token, a.token, TCP_TOKEN_LEN);
	for (size_t i = 0; i < 32; i++) {
		int fd;

		if (i == 7 || (i > 8 && i < 16))
			continue; /* status and reserved */
		tei_tcp_hello_encode(&h, bytes);
		bytes[i] ^= 0x81;
		fd = raw_dial(a.port);
		raw_put(fd, bytes, sizeof(bytes));
		assert_true(raw_closed_in_time(fd));
		close(fd);
	}
	assert_int_equal(link.n_down, 0);
	close(raw_dial_known(&a));
	raw_close_half(ep);
}

static void lane_is_taken_once(void **state)
{
	struct tcp_address a;
	struct fake_link link;
	struct tei_endpoint *ep = raw_open_half(&link, true, &a);
	int first = raw_dial_known(&a), second = raw_dial(a.port);

	(void)state;
	raw_put_hello(second, &a, 0, 1);
	assert_true(raw_closed_in_time(second));
	assert_int_equal(link.n_down, 0);
	close(first);
	close(second);
	raw_close_half(ep);
}

static void token_of_a_dropped_endpoint_is_worth_nothing(void **state)
{
	struct tcp_address a;
	struct fake_link link;
	struct tei_endpoint *ep = raw_open_half(&link, true, &a);
	int fd = raw_dial(a.port);

	(void)state;
	assert_int_equal(ops->drop(ep), 0);
	raw_put_hello(fd, &a, 0, 1);
	assert_true(raw_closed_in_time(fd));
	close(fd);
	raw_close_half(ep);
}

static void silent_strangers_are_closed_in_the_end(void **state)
{
	int fd = raw_dial(raw_port_of_rail());

	(void)state;
	raw_put(fd, "T", 1);
	assert_true(raw_closed_in_time(fd));
	assert_int_equal(raw_rail.rail->bad_frames, 1);
	close(fd);
}

static void crowd_of_strangers_keeps_nobody_out(void **state)
{
	int fds[TCP_OPENING_MAX + 100];
	const size_t n = sizeof(fds) / sizeof(*fds);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		fds[i] = raw_dial(raw_port_of_rail());
		raw_turn();
	}
	raw_serves_honest_peers();
	assert_true(tcp_rail(raw_rail.rail)->n_opening <= TCP_OPENING_MAX);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* From another address of this host. */
static int dial_from(in_addr_t address)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(address)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	at.sin_port = htons(raw_port_of_rail());
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void crowd_of_one_host_gives_way_to_itself(void **state)
{
	struct tcp_config *config = (void *)(uintptr_t)raw_rail.rail->config;
	int other, fds[TCP_OPENING_MAX + 100];
	uint64_t before;
	const size_t n = sizeof(fds) / sizeof(*fds);
	char byte;

	(void)state;
	before = config->connect_timeout;
	config->connect_timeout = 600000; /* nobody goes because of that */
	other = dial_from(INADDR_LOOPBACK + 1);
	raw_turn();
	for (size_t i = 0; i < n; i++) {
		fds[i] = dial_from(INADDR_LOOPBACK + 2);
		raw_turn();
	}
	assert_int_equal(recv(other, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN); /* it is not closed */
	assert_true(tcp_rail(raw_rail.rail)->n_opening <= TCP_OPENING_EACH + 1);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	close(other);
	config->connect_timeout = before;
}

/* ---- a bad initiator ---- */

static uint64_t odd_number(void)
{
	static const uint64_t odd[] = {0,
				       1,
				       63,
				       4096,
				       TCP_FRAME_MAX,
				       TCP_FRAME_MAX + 1,
				       1ull << 31,
				       1ull << 32,
				       TCP_LENGTH_MAX,
				       1ull << 63,
				       UINT64_MAX - 4095,
				       UINT64_MAX};
	int i = rand() % 14;

	return i < 12 ? odd[i] : (uint64_t)rand() << 32 | (uint64_t)rand();
}

/* A frame that would be right, but for some of its fields. */
static void odd_frame(uint8_t op, uint8_t *bytes)
{
	struct tcp_frame f = {.op = op,
			      .flags = (uint8_t)(rand() % 3),
			      .id = 1 + (uint64_t)rand() % 3,
			      .key = raw_region,
			      .address = (uintptr_t)raw_memory + RAW_OPEN_AT +
					 (uint64_t)rand() % RAW_OPEN_AT,
			      .length = 1 + (uint64_t)rand() % 2000,
			      .epoch = fake_epoch};

	switch (rand() % 8) {
	case 0:
		f.length = odd_number();
		break;
	case 1:
		f.address = odd_number();
		break;
	case 2:
		f.key = odd_number();
		break;
	case 3:
		f.epoch = odd_number();
		break;
	case 4:
		f.offset = odd_number();
		break;
	case 5:
		f.id = odd_number();
		break;
	default:
		break;
	}
	tei_tcp_frame_encode(&f, bytes);
	if (rand() % 6 == 0)
		bytes[rand() % TCP_HEAD_LEN] = (uint8_t)rand();
}

static void bad_initiators_reach_only_what_is_open(void **state)
{
	uint8_t bytes[2 * TCP_HEAD_LEN + 3000];

	(void)state;
	srand(2);
	for (int i = 0; i < 600; i++) {
		struct tcp_address a;
		struct fake_link link;
		struct tei_endpoint *ep = raw_open_half(&link, true, &a);
		int fd = raw_dial_known(&a);
		size_t len = sizeof(bytes);

		raw_fill_random(bytes, sizeof(bytes));
		odd_frame((uint8_t)(rand() % 7), bytes);
		if (rand() % 2)
			odd_frame(TCP_WRITE, bytes + TCP_HEAD_LEN);
		if (rand() % 2)
			len = (size_t)rand() % sizeof(bytes);
		raw_put(fd, bytes, len);
		for (int k = 0; k < 6; k++)
			raw_turn();
		assert_int_equal(fake_pins(), 0);
		shutdown(fd, SHUT_RDWR);
		close(fd);
		await_down(&link);
		raw_close_half(ep);
	}
	raw_check_fences();
	raw_serves_honest_peers();
}

static void half_a_frame_pins_nothing(void **state)
{
	struct tcp_frame f = {.op = TCP_WRITE,
			      .flags = TCP_LAST,
			      .id = 1,
			      .key = raw_region,
			      .address = (uintptr_t)raw_memory + RAW_OPEN_AT,
			      .length = 30000,
			      .epoch = fake_epoch};
	uint8_t bytes[TCP_HEAD_LEN + 1000] = {0};
	struct tcp_address a;
	struct fake_link link;
	struct tei_endpoint *ep = raw_open_half(&link, true, &a);
	int fd = raw_dial_known(&a);

	(void)state;
	tei_tcp_frame_encode(&f, bytes);
	raw_put(fd, bytes, sizeof(bytes));
	while (raw_memory[RAW_OPEN_AT + 999] == 0x5a)
		raw_turn();
	assert_int_equal(fake_pins(), 0);
	assert_int_equal(raw_memory[RAW_OPEN_AT + 1000], 0x5a);
	close(fd);
	raw_close_half(ep);
}

static void more_requests_than_the_window_end_the_endpoint(void **state)
{
	struct tcp_frame f = {.op = TCP_READ,
			      .key = raw_region,
			      .address = (uintptr_t)raw_memory + RAW_OPEN_AT,
			      .length = RAW_OPEN_AT,
			      .epoch = fake_epoch};
	uint8_t bytes[TCP_HEAD_LEN];
	struct tcp_address a;
	struct fake_link link;
	struct tei_endpoint *ep = raw_open_half(&link, true, &a);
	int fd = raw_dial_known(&a);

	(void)state;
	/* Nothing of what it asks for is read, so the answers pile up. */
	while (!link.n_down && f.id < 100000) {
		f.id++;
		tei_tcp_frame_encode(&f, bytes);
		raw_put(fd, bytes, sizeof(bytes));
		raw_turn();
	}
	assert_int_equal(link.down_err, -EPROTO);
	assert_int_equal(raw_rail.rail->bad_frames, 1);
	close(fd);
	raw_close_half(ep);
}

/* ---- a bad target ---- */

static void bad_welcomes_bring_the_endpoint_down(void **state)
{
	uint16_t port;
	int listener = raw_listen_here(&port);
	uint8_t bytes[TCP_HEAD_LEN];

	(void)state;
	srand(3);
	for (int i = 0; i < 60; i++) {
		struct tcp_address a;
		struct fake_link link;
		struct tei_endpoint *ep = raw_open_half(&link, false, &a);
		int fd = raw_meet(ep, listener, port);

		raw_fill_random(bytes, sizeof(bytes));
		if (i % 3 == 0)
			raw_welcome(fd, TEI_STATUS_ACCESS);
		else
			raw_put(fd, bytes, i % 3 == 1 ? sizeof(bytes) : 20);
		close(fd);
		await_down(&link);
		assert_int_equal(link.n_up, 0);
		if (i % 3 == 0)
			assert_int_equal(link.down_err, -EACCES);
		raw_close_half(ep);
	}
	close(listener);
}

static void bad_targets_reach_only_what_was_asked_for(void **state)
{
	uint8_t local[3 * 4096], bytes[2 * TCP_HEAD_LEN + 3000];
	struct iovec iov = {local + 4096, 4096};
	uint16_t port;
	int listener = raw_listen_here(&port);

	(void)state;
	srand(4);
	memset(local, 0x5a, sizeof(local));
	for (int i = 0; i < 600; i++) {
		struct fake_pair p = {.ops = ops};
		struct tcp_address a;
		struct fake_link link;
		struct fake_slice *s;
		int fd;

		p.initiator = raw_open_half(&link, false, &a);
		fd = raw_meet(p.initiator, listener, port);
		raw_welcome(fd, TEI_STATUS_OK);
		while (!link.n_up)
			raw_turn();
		s = fake_slice_create(&p, i % 2 ? TEI_READ : TEI_WRITE,
				      raw_region, 0, &iov, 1);
		assert_int_equal(ops->post(p.initiator, &s->slice, 1), 1);
		raw_fill_random(bytes, sizeof(bytes));
		odd_frame(rand() % 2 ? TCP_DATA : TCP_ANSWER, bytes);
		if (rand() % 2)
			odd_frame(TCP_DATA, bytes + TCP_HEAD_LEN);
		raw_put(fd, bytes, (size_t)rand() % sizeof(bytes));
		for (int k = 0; k < 6; k++)
			raw_turn();
		shutdown(fd, SHUT_RDWR);
		close(fd);
		await_down(&link);
		raw_close_half(p.initiator);
		assert_int_equal(s->n_done, 1);
		fake_slice_destroy(s);
	}
	for (size_t i = 0; i < 4096; i++) {
		assert_int_equal(local[i], 0x5a);
		assert_int_equal(local[2 * 4096 + i], 0x5a);
	}
	close(listener);
}

static void bad_addresses_are_refused(void **state)
{
	uint8_t bytes[TEI_BLOB_MAX];
	struct tcp_address a;
	struct fake_link link;
	struct tei_endpoint *ep = raw_open_half(&link, false, &a);

	(void)state;
	srand(5);
	for (size_t len = 0; len < sizeof(bytes); len++) {
		raw_fill_random(bytes, len);
		assert_int_equal(ops->endpoint_connect(ep, bytes, len),
				 -EPROTO);
	}
	raw_close_half(ep);
}

/* Runs as another user: 0 when it is answered that it may not connect. */
static int dial_as_another(uint16_t port)
{
	uint8_t bytes[TCP_HEAD_LEN];
	struct tcp_hello h;
	int fd = test_dial(port);

	if (recv(fd, bytes, sizeof(bytes), MSG_WAITALL) != sizeof(bytes) ||
	    !tei_tcp_hello_decode(bytes, &h))
		return 1;
	return h.op == TCP_WELCOME && h.status == TEI_STATUS_ACCESS ? 0 : 2;
}

static void another_user_opens_no_lane(void **state)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	uint16_t port = raw_port_of_rail();
	int status = 0;
	pid_t pid, ended = 0;

	(void)state;
	if (geteuid())
		skip(); /* only root can be somebody else */
	pid = test_fork_as(TEST_USER_A);
	assert_true(pid >= 0);
	if (!pid)
		_exit(dial_as_another(port));
	while (!ended && tei_now_ms() < end) {
		raw_turn();
		ended = waitpid(pid, &status, WNOHANG);
	}
	assert_int_equal(ended, pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	raw_serves_honest_peers();
}

static void idle_peer_costs_less_than_64_kib(void **state)
{
	(void)state;
	assert_true(sizeof(struct tei_endpoint) + sizeof(struct tcp_endpoint) +
			    sizeof(struct tcp_lane) +
			    sizeof(struct tcp_backlog) <
		    64 << 10);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, raw_set_up, raw_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(strangers_that_say_no_hello_are_closed_and_counted),
		TEST(hello_cut_at_any_byte_is_counted),
		TEST(every_byte_of_a_hello_but_the_reserved_matters),
		TEST(lane_is_taken_once),
		TEST(token_of_a_dropped_endpoint_is_worth_nothing),
		TEST(silent_strangers_are_closed_in_the_end),
		TEST(crowd_of_strangers_keeps_nobody_out),
		TEST(crowd_of_one_host_gives_way_to_itself),
		TEST(bad_initiators_reach_only_what_is_open),
		TEST(half_a_frame_pins_nothing),
		TEST(more_requests_than_the_window_end_the_endpoint),
		TEST(bad_welcomes_bring_the_endpoint_down),
		TEST(bad_targets_reach_only_what_was_asked_for),
		TEST(bad_addresses_are_refused),
		TEST(another_user_opens_no_lane),
		TEST(idle_peer_costs_less_than_64_kib),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
