/* SPDX-License-Identifier: Apache-2.0 */
/* raw.c - bare sockets that speak to a rail of tcp */
#include "tests/unit/backends/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <te/te.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/lib/test.h"

static const struct tei_backend_ops *const ops = &tei_backend_tcp;

uint8_t raw_memory[3 * RAW_OPEN_AT];
struct fake_rail raw_rail;
uint64_t raw_region;
const char *const *raw_settings;

int raw_set_up(void **state)
{
	(void)state;
	memset(raw_memory, 0x5a, sizeof(raw_memory));
	raw_region = fake_region_add(
		raw_memory + RAW_OPEN_AT, RAW_OPEN_AT,
		(TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE));
	return fake_rail_open(&raw_rail, ops, raw_settings);
}

int raw_tear_down(void **state)
{
	(void)state;
	fake_rail_close(&raw_rail);
	fake_region_remove(raw_region);
	return fake_pins() ? -1 : 0;
}

void raw_check_fences(void)
{
	for (size_t i = 0; i < RAW_OPEN_AT; i++) {
		assert_int_equal(raw_memory[i], 0x5a);
		assert_int_equal(raw_memory[2 * RAW_OPEN_AT + i], 0x5a);
	}
}

void raw_turn(void)
{
	assert_true(fake_turn(raw_rail.rail) >= 0);
}

/* ---- a socket of the test's own ---- */

int raw_dial(uint16_t port)
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
void raw_put(int fd, const void *bytes, size_t len)
{
	(void)!send(fd, bytes, len, MSG_NOSIGNAL);
}

/* The rail has closed its end; what it said before is thrown away. */
bool raw_closed_in_time(int fd)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	uint8_t bytes[4096];

	while (tei_now_ms() < end) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (!n || (n < 0 && errno != EAGAIN))
			return true;
		raw_turn();
	}
	return false;
}

void raw_get_all(int fd, uint8_t *bytes, size_t len)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (len && tei_now_ms() < end) {
		ssize_t n = recv(fd, bytes, len, 0);

		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		}
		raw_turn();
	}
	assert_int_equal(len, 0);
}

void raw_fill_random(uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(rand() >> 7);
}

/* ---- an endpoint of the rail and the address it gave ---- */

struct tei_endpoint *raw_open_half(struct fake_link *link, bool target,
				   struct tcp_address *a)
{
	struct tei_endpoint *ep =
		fake_endpoint(&raw_rail, link, target, fake_epoch);
	uint8_t bytes[TEI_BLOB_MAX];
	size_t len = sizeof(bytes);

	assert_non_null(ep);
	assert_int_equal(ops->endpoint_open(ep, bytes, &len), 0);
	assert_int_equal(len, TCP_ADDRESS_LEN);
	assert_true(tei_tcp_address_decode(bytes, a));
	return ep;
}

void raw_close_half(struct tei_endpoint *ep)
{
	ops->flush(ep, -ECANCELED);
	ops->endpoint_close(ep);
	tei_free(ep);
}

void raw_put_hello(int fd, const struct tcp_address *a, uint8_t lane,
		   uint8_t lanes)
{
	struct tcp_hello h = {.op = TCP_HELLO, .lane = lane, .lanes = lanes};
	uint8_t bytes[TCP_HEAD_LEN];

	memcpy(h.token, a->token, TCP_TOKEN_LEN);
	tei_tcp_hello_encode(&h, bytes);
	raw_put(fd, bytes, sizeof(bytes));
}

/* An initiator that the rail believes in. */
int raw_dial_known(const struct tcp_address *a)
{
	uint8_t bytes[TCP_HEAD_LEN];
	struct tcp_hello h = {0};
	int fd = raw_dial(a->port);

	raw_put_hello(fd, a, 0, 1);
	raw_get_all(fd, bytes, sizeof(bytes));
	assert_true(tei_tcp_hello_decode(bytes, &h));
	assert_int_equal(h.op, TCP_WELCOME);
	assert_int_equal(h.status, TEI_STATUS_OK);
	return fd;
}

uint16_t raw_port_of_rail(void)
{
	return tcp_rail(raw_rail.rail)->port;
}

void raw_serves_honest_peers(void)
{
	struct tcp_frame f = {.op = TCP_READ,
			      .id = 1,
			      .key = raw_region,
			      .address = (uintptr_t)raw_memory + RAW_OPEN_AT,
			      .length = 100,
			      .epoch = fake_epoch};
	uint8_t bytes[TCP_HEAD_LEN + 100];
	struct tcp_address a;
	struct fake_link link;
	struct tei_endpoint *ep = raw_open_half(&link, true, &a);
	int fd = raw_dial_known(&a);

	tei_tcp_frame_encode(&f, bytes);
	raw_put(fd, bytes, TCP_HEAD_LEN);
	raw_get_all(fd, bytes, sizeof(bytes));
	assert_memory_equal(bytes + TCP_HEAD_LEN, raw_memory + RAW_OPEN_AT,
			    100);
	close(fd);
	raw_close_half(ep);
}

/* ---- a listener of the test's own ---- */

int raw_listen_here(uint16_t *port)
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
int raw_meet(struct tei_endpoint *ep, int listener, uint16_t port)
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
	raw_get_all(fd, bytes, sizeof(bytes));
	return fd;
}

void raw_welcome(int fd, uint8_t status)
{
	struct tcp_hello h = {.op = TCP_WELCOME, .lanes = 1, .status = status};
	uint8_t bytes[TCP_HEAD_LEN];

	tei_tcp_hello_encode(&h, bytes);
	raw_put(fd, bytes, sizeof(bytes));
}
