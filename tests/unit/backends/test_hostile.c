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
#include <unistd.h>

#include <cmocka.h>
#include <te/te.h>

#include "backends/tcp/tcp.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tests/unit/backends/fake_core.h"

extern const struct tei_backend_ops tei_backend_tcp;

static const struct tei_backend_ops *const ops = &tei_backend_tcp;

#define ANY     (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)
#define OPEN_AT 65536 /* where the region begins in memory[] */

static uint8_t memory[3 * OPEN_AT];
static struct fake_rail rail;
static uint64_t region;

static int set_up(void **state)
{
	(void)state;
	memset(memory, 0x5a, sizeof(memory));
	region = fake_region_add(memory + OPEN_AT, OPEN_AT, ANY);
	return fake_rail_open(&rail, ops, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	fake_rail_close(&rail);
	fake_region_remove(region);
	return fake_pins() ? -1 : 0;
}

static void check_fences(void)
{
	for (size_t i = 0; i < OPEN_AT; i++) {
		assert_int_equal(memory[i], 0x5a);
		assert_int_equal(memory[2 * OPEN_AT + i], 0x5a);
	}
}

static void turn(void)
{
	assert_true(ops->progress(rail.rail, 64) >= 0);
}

/* ---- a socket of the test's own ---- */

static int dial(uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

/* What the other side no longer takes is not missed. */
static void put(int fd, const void *bytes, size_t len)
{
	(void)!send(fd, bytes, len, MSG_NOSIGNAL);
}

/* The rail has closed its end; what it said before is thrown away. */
static bool closed_in_time(int fd)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	uint8_t bytes[4096];

	while (tei_now_ms() < end) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (!n || (n < 0 && errno != EAGAIN))
			return true;
		turn();
	}
	return false;
}

static void get_all(int fd, uint8_t *bytes, size_t len)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (len && tei_now_ms() < end) {
		ssize_t n = recv(fd, bytes, len, 0);

		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		}
		turn();
	}
	assert_int_equal(len, 0);
}

static void fill_random(uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(rand() >> 7);
}

/* ---- an endpoint of the rail and the address it gave ---- */

static struct tei_endpoint *open_half(struct tei_link *link, bool target,
				      struct tcp_address *a)
{
	struct tei_endpoint *ep =
		fake_endpoint(&rail, link, target, fake_epoch);
	uint8_t bytes[TEI_BLOB_MAX];
	size_t len = sizeof(bytes);

	assert_non_null(ep);
	assert_int_equal(ops->endpoint_open(ep, bytes, &len), 0);
	assert_int_equal(len, TCP_ADDRESS_LEN);
	assert_true(tei_tcp_address_decode(bytes, a));
	return ep;
}

static void close_half(struct tei_endpoint *ep)
{
	ops->flush(ep, -ECANCELED);
	ops->endpoint_close(ep);
	tei_free(ep);
}

static void put_hello(int fd, const struct tcp_address *a, uint8_t lane,
		      uint8_t lanes)
{
	struct tcp_hello h = {.op = TCP_HELLO, .lane = lane, .lanes = lanes};
	uint8_t bytes[TCP_HEAD_LEN];

	memcpy(h.token, a->token, TCP_TOKEN_LEN);
	tei_tcp_hello_encode(&h, bytes);
	put(fd, bytes, sizeof(bytes));
}

/* An initiator that the rail believes in. */
static int dial_known(const struct tcp_address *a)
{
	uint8_t bytes[TCP_HEAD_LEN];
	struct tcp_hello h;
	int fd = dial(a->port);

	put_hello(fd, a, 0, 1);
	get_all(fd, bytes, sizeof(bytes));
	assert_true(tei_tcp_hello_decode(bytes, &h));
	assert_int_equal(h.op, TCP_WELCOME);
	assert_int_equal(h.status, TEI_STATUS_OK);
	return fd;
}

static uint16_t port_of_rail(void)
{
	return tcp_rail(rail.rail)->port;
}

static void serves_honest_peers(void)
{
	struct tcp_frame f = {.op = TCP_READ,
			      .id = 1,
			      .key = region,
			      .address = (uintptr_t)memory + OPEN_AT,
			      .length = 100,
			      .epoch = fake_epoch};
	uint8_t bytes[TCP_HEAD_LEN + 100];
	struct tcp_address a;
	struct tei_link link;
	struct tei_endpoint *ep = open_half(&link, true, &a);
	int fd = dial_known(&a);

	tei_tcp_frame_encode(&f, bytes);
	put(fd, bytes, TCP_HEAD_LEN);
	get_all(fd, bytes, sizeof(bytes));
	assert_memory_equal(bytes + TCP_HEAD_LEN, memory + OPEN_AT, 100);
	close(fd);
	close_half(ep);
}

/* ---- strangers ---- */

static void strangers_that_say_no_hello_are_closed_and_counted(void **state)
{
	uint8_t bytes[300];

	(void)state;
	srand(1);
	for (int i = 0; i < 200; i++) {
		size_t len = TCP_HEAD_LEN + (size_t)rand() % 200;
		uint64_t before = rail.rail->bad_frames;
		int fd = dial(port_of_rail());

		fill_random(bytes, len);
		put(fd, bytes, len);
		assert_true(closed_in_time(fd));
		close(fd);
		assert_int_equal(rail.rail->bad_frames, before + 1);
	}
	serves_honest_peers();
}

static void hello_cut_at_any_byte_is_counted(void **state)
{
	struct tcp_address a;
	struct tei_link link;
	struct tei_endpoint *ep = open_half(&link, true, &a);
	struct tcp_hello h = {.op = TCP_HELLO, .lanes = 1};
	uint8_t bytes[TCP_HEAD_LEN];

	(void)state;
	memcpy(h.token, a.token, TCP_TOKEN_LEN);
	tei_tcp_hello_encode(&h, bytes);
	for (size_t len = 1; len < TCP_HEAD_LEN; len++) {
		uint64_t before = rail.rail->bad_frames;
		int fd = dial(a.port);

		put(fd, bytes, len);
		shutdown(fd, SHUT_WR);
		assert_true(closed_in_time(fd));
		close(fd);
		assert_int_equal(rail.rail->bad_frames, before + 1);
	}
	assert_int_equal(link.n_down, 0);
	close(dial_known(&a));
	close_half(ep);
}

static void every_byte_of_a_hello_but_the_reserved_matters(void **state)
{
	struct tcp_address a;
	struct tei_link link;
	struct tei_endpoint *ep = open_half(&link, true, &a);
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
		fd = dial(a.port);
		put(fd, bytes, sizeof(bytes));
		assert_true(closed_in_time(fd));
		close(fd);
	}
	assert_int_equal(link.n_down, 0);
	close(dial_known(&a));
	close_half(ep);
}

static void lane_is_taken_once(void **state)
{
	struct tcp_address a;
	struct tei_link link;
	struct tei_endpoint *ep = open_half(&link, true, &a);
	int first = dial_known(&a), second = dial(a.port);

	(void)state;
	put_hello(second, &a, 0, 1);
	assert_true(closed_in_time(second));
	assert_int_equal(link.n_down, 0);
	close(first);
	close(second);
	close_half(ep);
}

static void token_of_a_dropped_endpoint_is_worth_nothing(void **state)
{
	struct tcp_address a;
	struct tei_link link;
	struct tei_endpoint *ep = open_half(&link, true, &a);
	int fd = dial(a.port);

	(void)state;
	assert_int_equal(ops->drop(ep), 0);
	put_hello(fd, &a, 0, 1);
	assert_true(closed_in_time(fd));
	close(fd);
	close_half(ep);
}

static void silent_strangers_are_closed_in_the_end(void **state)
{
	int fd = dial(port_of_rail());

	(void)state;
	put(fd, "T", 1);
	assert_true(closed_in_time(fd));
	assert_int_equal(rail.rail->bad_frames, 1);
	close(fd);
}

static void crowd_of_strangers_keeps_nobody_out(void **state)
{
	int fds[TCP_YOUNG_MAX + 100];
	const size_t n = sizeof(fds) / sizeof(*fds);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		fds[i] = dial(port_of_rail());
		turn();
	}
	serves_honest_peers();
	assert_true(tcp_rail(rail.rail)->n_young <= TCP_YOUNG_MAX);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
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
			      .key = region,
			      .address = (uintptr_t)memory + OPEN_AT +
					 (uint64_t)rand() % OPEN_AT,
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
		struct tei_link link;
		struct tei_endpoint *ep = open_half(&link, true, &a);
		int fd = dial_known(&a);
		size_t len = sizeof(bytes);

		fill_random(bytes, sizeof(bytes));
		odd_frame((uint8_t)(rand() % 7), bytes);
		if (rand() % 2)
			odd_frame(TCP_WRITE, bytes + TCP_HEAD_LEN);
		if (rand() % 2)
			len = (size_t)rand() % sizeof(bytes);
		put(fd, bytes, len);
		for (int k = 0; k < 6; k++)
			turn();
		assert_int_equal(fake_pins(), 0);
		shutdown(fd, SHUT_RDWR);
		close(fd);
		for (int k = 0; k < 100 && !link.n_down; k++)
			turn();
		assert_int_equal(link.n_down, 1);
		close_half(ep);
	}
	check_fences();
	serves_honest_peers();
}

static void half_a_frame_pins_nothing(void **state)
{
	struct tcp_frame f = {.op = TCP_WRITE,
			      .flags = TCP_LAST,
			      .id = 1,
			      .key = region,
			      .address = (uintptr_t)memory + OPEN_AT,
			      .length = 30000,
			      .epoch = fake_epoch};
	uint8_t bytes[TCP_HEAD_LEN + 1000] = {0};
	struct tcp_address a;
	struct tei_link link;
	struct tei_endpoint *ep = open_half(&link, true, &a);
	int fd = dial_known(&a);

	(void)state;
	tei_tcp_frame_encode(&f, bytes);
	put(fd, bytes, sizeof(bytes));
	while (memory[OPEN_AT + 999] == 0x5a)
		turn();
	assert_int_equal(fake_pins(), 0);
	assert_int_equal(memory[OPEN_AT + 1000], 0x5a);
	close(fd);
	close_half(ep);
}

static void more_requests_than_the_window_end_the_endpoint(void **state)
{
	struct tcp_frame f = {.op = TCP_READ,
			      .key = region,
			      .address = (uintptr_t)memory + OPEN_AT,
			      .length = OPEN_AT,
			      .epoch = fake_epoch};
	uint8_t bytes[TCP_HEAD_LEN];
	struct tcp_address a;
	struct tei_link link;
	struct tei_endpoint *ep = open_half(&link, true, &a);
	int fd = dial_known(&a);

	(void)state;
	/* Nothing of what it asks for is read, so the answers pile up. */
	while (!link.n_down && f.id < 100000) {
		f.id++;
		tei_tcp_frame_encode(&f, bytes);
		put(fd, bytes, sizeof(bytes));
		turn();
	}
	assert_int_equal(link.down_err, -EPROTO);
	assert_int_equal(rail.rail->bad_frames, 1);
	close(fd);
	close_half(ep);
}

/* ---- a bad target ---- */

static int listen_here(uint16_t *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

/* The rail's initiator connects to this socket; what it says is dropped. */
static int meet(struct tei_endpoint *ep, int listener, uint16_t port)
{
	struct tcp_address a = {.port = port, .lanes = 1};
	uint8_t bytes[TCP_HEAD_LEN];
	int fd;

	tei_tcp_address_encode(&a, bytes);
	assert_int_equal(ops->endpoint_connect(ep, bytes, TCP_ADDRESS_LEN),
			 -EINPROGRESS);
	fd = accept(listener, NULL, NULL);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	get_all(fd, bytes, sizeof(bytes));
	return fd;
}

static void welcome(int fd, uint8_t status)
{
	struct tcp_hello h = {.op = TCP_WELCOME, .lanes = 1, .status = status};
	uint8_t bytes[TCP_HEAD_LEN];

	tei_tcp_hello_encode(&h, bytes);
	put(fd, bytes, sizeof(bytes));
}

static void bad_welcomes_bring_the_endpoint_down(void **state)
{
	uint16_t port;
	int listener = listen_here(&port);
	uint8_t bytes[TCP_HEAD_LEN];

	(void)state;
	srand(3);
	for (int i = 0; i < 60; i++) {
		struct tcp_address a;
		struct tei_link link;
		struct tei_endpoint *ep = open_half(&link, false, &a);
		int fd = meet(ep, listener, port);

		fill_random(bytes, sizeof(bytes));
		if (i % 3 == 0)
			welcome(fd, TEI_STATUS_ACCESS);
		else
			put(fd, bytes, i % 3 == 1 ? sizeof(bytes) : 20);
		close(fd);
		for (int k = 0; k < 1000 && !link.n_down; k++)
			turn();
		assert_int_equal(link.n_down, 1);
		assert_int_equal(link.n_up, 0);
		if (i % 3 == 0)
			assert_int_equal(link.down_err, -EACCES);
		close_half(ep);
	}
	close(listener);
}

static void bad_targets_reach_only_what_was_asked_for(void **state)
{
	uint8_t local[3 * 4096], bytes[2 * TCP_HEAD_LEN + 3000];
	struct iovec iov = {local + 4096, 4096};
	uint16_t port;
	int listener = listen_here(&port);

	(void)state;
	srand(4);
	memset(local, 0x5a, sizeof(local));
	for (int i = 0; i < 600; i++) {
		struct fake_pair p = {.ops = ops};
		struct tcp_address a;
		struct tei_link link;
		struct fake_slice *s;
		int fd;

		p.initiator = open_half(&link, false, &a);
		fd = meet(p.initiator, listener, port);
		welcome(fd, TEI_STATUS_OK);
		while (!link.n_up)
			turn();
		s = fake_slice_create(&p, i % 2 ? TEI_READ : TEI_WRITE, region,
				      0, &iov, 1);
		assert_int_equal(ops->post(p.initiator, &s->slice, 1), 1);
		fill_random(bytes, sizeof(bytes));
		odd_frame(rand() % 2 ? TCP_DATA : TCP_ANSWER, bytes);
		if (rand() % 2)
			odd_frame(TCP_DATA, bytes + TCP_HEAD_LEN);
		put(fd, bytes, (size_t)rand() % sizeof(bytes));
		for (int k = 0; k < 6; k++)
			turn();
		shutdown(fd, SHUT_RDWR);
		close(fd);
		for (int k = 0; k < 100 && !link.n_down; k++)
			turn();
		assert_int_equal(link.n_down, 1);
		close_half(p.initiator);
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
	struct tei_link link;
	struct tei_endpoint *ep = open_half(&link, false, &a);

	(void)state;
	srand(5);
	for (size_t len = 0; len < sizeof(bytes); len++) {
		fill_random(bytes, len);
		assert_int_equal(ops->endpoint_connect(ep, bytes, len),
				 -EPROTO);
	}
	close_half(ep);
}

static void idle_peer_costs_less_than_64_kib(void **state)
{
	(void)state;
	assert_true(sizeof(struct tei_endpoint) + sizeof(struct tcp_endpoint) +
			    sizeof(struct tcp_lane) + sizeof(struct tcp_debts) <
		    64 << 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

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
		TEST(bad_initiators_reach_only_what_is_open),
		TEST(half_a_frame_pins_nothing),
		TEST(more_requests_than_the_window_end_the_endpoint),
		TEST(bad_welcomes_bring_the_endpoint_down),
		TEST(bad_targets_reach_only_what_was_asked_for),
		TEST(bad_addresses_are_refused),
		TEST(idle_peer_costs_less_than_64_kib),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
