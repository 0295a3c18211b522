/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trouble.c - peers of tcp that stop, starve, dawdle or leave half-way
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <te/te.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/raw.h"

static const struct tei_backend_ops *const ops = &tei_backend_tcp;

#define BIG      ((size_t)8 << 20)
#define QUIET_MS 300 /* of a peer that is slow; it stands for longer times */

static uint8_t local[BIG];

static bool in_time(const unsigned int *n)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (!*n && tei_now_ms() < end)
		raw_turn();
	return *n;
}

/* ---- a lane that ends anywhere ---- */

static struct tcp_frame frame(uint8_t op, uint8_t flags, uint64_t id,
			      uint64_t length)
{
	return (struct tcp_frame){
		.op = op,
		.flags = flags,
		.id = id,
		.key = raw_region,
		.address = (uintptr_t)raw_memory + RAW_OPEN_AT,
		.length = length,
		.epoch = fake_epoch,
	};
}

static void initiator_may_leave_at_any_byte(void **state)
{
	uint8_t bytes[3 * TCP_HEAD_LEN + 200] = {0};
	struct tcp_frame f[3] = {
		frame(TCP_READ, 0, 1, 500),
		frame(TCP_WRITE, TCP_LAST | TCP_MORE, 2, 100),
		frame(TCP_WRITE, TCP_LAST, 3, 100),
	};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		tei_tcp_frame_encode(&f[i], bytes + i * TCP_HEAD_LEN);
	for (size_t len = 0; len <= sizeof(bytes); len += 3) {
		struct tcp_address a;
		struct fake_link link;
		struct tei_endpoint *ep = raw_open_half(&link, true, &a);
		int fd = raw_dial_known(&a);

		raw_put(fd, bytes, len);
		shutdown(fd, SHUT_WR);
		assert_true(in_time(&link.n_down));
		assert_int_equal(link.down_err, -ECONNRESET);
		assert_int_equal(fake_pins(), 0);
		close(fd);
		raw_close_half(ep);
	}
	raw_check_fences();
	raw_serves_honest_peers();
}

struct met { /* a target of the test's own */
	struct fake_pair p;
	struct fake_link link;
	int fd;
	struct fake_slice *s;
	struct iovec iov;
};

/* An initiator posts one slice of @len bytes to it. */
static void meet(struct met *m, int listener, uint16_t port, uint32_t op,
		 size_t len)
{
	struct tcp_address a;

	m->p = (struct fake_pair){.ops = ops};
	m->p.initiator = raw_open_half(&m->link, false, &a);
	m->fd = raw_meet(m->p.initiator, listener, port);
	raw_welcome(m->fd, TEI_STATUS_OK);
	assert_true(in_time(&m->link.n_up));
	m->iov = (struct iovec){local, len};
	m->s = fake_slice_create(&m->p, op, raw_region, 4096, &m->iov, 1);
	assert_int_equal(ops->post(m->p.initiator, &m->s->slice, 1), 1);
}

static void part(struct met *m)
{
	close(m->fd);
	raw_close_half(m->p.initiator);
	assert_int_equal(m->s->n_done, 1);
	fake_slice_destroy(m->s);
}

static void target_may_leave_at_any_byte(void **state)
{
	uint8_t bytes[TCP_HEAD_LEN + 200] = {0};
	struct tcp_frame f = frame(TCP_DATA, TCP_LAST, 1, 200);
	uint16_t port;
	int listener = raw_listen_here(&port);

	(void)state;
	tei_tcp_frame_encode(&f, bytes);
	for (size_t len = 0; len < sizeof(bytes); len += 3) {
		struct met m;

		meet(&m, listener, port, TEI_READ, 200);
		raw_put(m.fd, bytes, len);
		shutdown(m.fd, SHUT_WR);
		assert_true(in_time(&m.link.n_down));
		assert_int_equal(m.s->n_done, 0);
		part(&m);
		assert_true(m.link.down_err == -ECONNRESET);
	}
	close(listener);
}

/* ---- slow is not dead ---- */

/* Everything of @want bytes and their headers is read; in small bits. */
static void read_slowly(struct met *m, size_t want, size_t bit)
{
	size_t frames = (want + TCP_FRAME_MAX - 1) / TCP_FRAME_MAX;
	static uint8_t bytes[65536];

	want += frames * TCP_HEAD_LEN;
	while (want) {
		size_t n = want < bit ? want : bit;

		raw_get_all(m->fd, bytes, n);
		want -= n;
	}
}

static void answer(struct met *m)
{
	struct tcp_frame f = {.op = TCP_ANSWER, .id = 1, .length = 1};
	uint8_t bytes[TCP_HEAD_LEN];

	tei_tcp_frame_encode(&f, bytes);
	raw_put(m->fd, bytes, sizeof(bytes));
	assert_true(in_time(&m->s->n_done));
	assert_int_equal(m->s->err, 0);
	assert_int_equal(m->link.n_down, 0);
}

static void reader_of_a_kilobyte_at_a_time_gets_it_all(void **state)
{
	uint16_t port;
	int listener = raw_listen_here(&port), room = 4096;
	struct met m;

	(void)state;
	assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &room,
				    sizeof(room)),
			 0);
	meet(&m, listener, port, TEI_WRITE, 1 << 20);
	read_slowly(&m, 1 << 20, 1024);
	answer(&m);
	part(&m);
	close(listener);
}

/* The peer reads nothing for a while: the kernel's buffers fill up. */
static void starve(void)
{
	uint64_t end = tei_now_ms() + QUIET_MS;

	while (tei_now_ms() < end)
		raw_turn();
}

static void zero_window_is_no_failure(void **state)
{
	uint16_t port;
	int listener = raw_listen_here(&port);
	struct met m;

	(void)state;
	meet(&m, listener, port, TEI_WRITE, BIG);
	starve();
	assert_int_equal(m.link.n_down, 0);
	assert_int_equal(m.s->n_done, 0);
	read_slowly(&m, BIG, 65536);
	answer(&m);
	part(&m);
	close(listener);
}

static void every_byte_of_a_read_is_a_sign_of_life(void **state)
{
	struct tcp_frame f = frame(TCP_DATA, TCP_LAST, 1, 200);
	uint8_t bytes[TCP_HEAD_LEN + 200] = {0};
	uint16_t port;
	int listener = raw_listen_here(&port);
	struct met m;

	(void)state;
	tei_tcp_frame_encode(&f, bytes);
	meet(&m, listener, port, TEI_READ, 200);
	raw_put(m.fd, bytes, TCP_HEAD_LEN);
	for (size_t i = TCP_HEAD_LEN; i < sizeof(bytes); i++) {
		assert_int_equal(m.s->n_done, 0);
		m.link.n_moved = 0;
		raw_put(m.fd, bytes + i, 1);
		assert_true(in_time(&m.link.n_moved));
	}
	assert_true(in_time(&m.s->n_done));
	assert_int_equal(m.s->err, 0);
	part(&m);
	close(listener);
}

/* No option of the socket ends it earlier than a request's deadline would. */
static void kernel_gives_a_peer_up_only_after_minutes(void **state)
{
	const struct tcp_lane *lane;
	unsigned int patience;
	socklen_t len = sizeof(patience);
	uint16_t port;
	int listener = raw_listen_here(&port);
	struct met m;

	(void)state;
	meet(&m, listener, port, TEI_WRITE, 8);
	lane = tcp_endpoint(m.p.initiator)->lanes[0];
	assert_int_equal(getsockopt(lane->fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
				    &patience, &len),
			 0);
	assert_true(patience >= 5 * 60 * 1000);
	part(&m);
	close(listener);
}

/* ---- cancelled half-way ---- */

static void cancelled_frame_is_finished_as_the_peer_reads(void **state)
{
	uint16_t port;
	int listener = raw_listen_here(&port);
	struct fake_slice *next;
	struct tcp_frame f = {0};
	uint8_t head[TCP_HEAD_LEN];
	struct iovec iov = {local, 8};
	uint64_t payload;
	struct met m;

	(void)state;
	meet(&m, listener, port, TEI_WRITE, BIG);
	starve();
	ops->cancel(m.p.initiator, m.s->slice);
	assert_int_equal(m.s->n_done, 1);
	assert_int_equal(m.s->err, -ECANCELED);
	next = fake_slice_create(&m.p, TEI_WRITE, raw_region, 0, &iov, 1);
	assert_int_equal(ops->post(m.p.initiator, &next->slice, 1), 1);
	do { /* bursts of the first id, its abort, then the second id */
		payload = 0;
		do {
			raw_get_all(m.fd, head, sizeof(head));
			assert_true(tei_tcp_frame_decode(head, &f));
			payload += f.length;
		} while (f.flags & TCP_MORE);
		for (; payload; payload -= f.length < 4096 ? f.length : 4096)
			raw_get_all(m.fd, local + BIG / 2,
				    f.length < 4096 ? f.length : 4096);
	} while (f.id == 1);
	assert_int_equal(f.id, 2);
	assert_int_equal(m.link.n_down, 0);
	part(&m);
	assert_int_equal(next->n_done, 1);
	fake_slice_destroy(next);
	close(listener);
}

static void cancelled_frame_that_nobody_reads_ends_the_endpoint(void **state)
{
	uint16_t port;
	int listener = raw_listen_here(&port);
	struct met m;

	(void)state;
	meet(&m, listener, port, TEI_WRITE, BIG);
	starve();
	ops->cancel(m.p.initiator, m.s->slice);
	assert_int_equal(m.s->n_done, 1);
	assert_true(in_time(&m.link.n_down));
	assert_int_equal(m.link.down_err, -ETIMEDOUT);
	part(&m);
	close(listener);
}

/* ---- a crowd ---- */

struct known { /* an initiator of the test's own, and the rail's half */
	struct tei_endpoint *ep;
	struct fake_link link;
	int fd;
};

static void know(struct known *k)
{
	struct tcp_address a;

	k->ep = raw_open_half(&k->link, true, &a);
	k->fd = raw_dial_known(&a);
}

/* Keep the socket full of WRITEs; what it answers is thrown away. */
static void be_greedy(struct known *k, size_t *at)
{
	static uint8_t bytes[TCP_HEAD_LEN + RAW_OPEN_AT], trash[65536];
	static uint64_t id;
	ssize_t n = 1;

	while (n > 0) {
		struct tcp_frame f =
			frame(TCP_WRITE, TCP_LAST, id + 1, RAW_OPEN_AT);

		if (!*at)
			tei_tcp_frame_encode(&f, bytes);
		n = send(k->fd, bytes + *at, sizeof(bytes) - *at, MSG_NOSIGNAL);
		if (n > 0)
			*at += (size_t)n;
		if (*at == sizeof(bytes)) {
			*at = 0;
			id++;
		}
	}
	while (recv(k->fd, trash, sizeof(trash), 0) > 0)
		;
}

static void greedy_peer_does_not_starve_others(void **state)
{
	struct tcp_frame f = frame(TCP_READ, 0, 0, 8);
	uint8_t bytes[TCP_HEAD_LEN + 8];
	struct known greedy, modest;
	size_t at = 0;

	(void)state;
	know(&greedy);
	know(&modest);
	for (f.id = 1; f.id <= 50; f.id++) {
		ssize_t n = -1;
		int turns = 0;

		tei_tcp_frame_encode(&f, bytes);
		raw_put(modest.fd, bytes, TCP_HEAD_LEN);
		while (n < 0) {
			be_greedy(&greedy, &at);
			raw_turn();
			n = recv(modest.fd, bytes, sizeof(bytes), 0);
			assert_true(turns++ < 32);
		}
		assert_int_equal(n, sizeof(bytes));
	}
	close(greedy.fd);
	close(modest.fd);
	raw_close_half(greedy.ep);
	raw_close_half(modest.ep);
}

/* A lane that is busy is read without asking what else there is. */
static void who_was_woken_looks_at_everything(void **state)
{
	struct tcp_frame f = frame(TCP_READ, 0, 1, 100);
	const struct tcp_rail *rail = tcp_rail(raw_rail.rail);
	uint8_t bytes[TCP_HEAD_LEN + 100];
	struct known k;
	int stranger;

	(void)state;
	know(&k);
	tei_tcp_frame_encode(&f, bytes);
	raw_put(k.fd, bytes, TCP_HEAD_LEN);
	raw_get_all(k.fd, bytes, sizeof(bytes));
	stranger = raw_dial(raw_port_of_rail());
	assert_int_equal(rail->n_opening, 0);
	raw_rail.rail->woken = true;
	raw_turn();
	assert_int_equal(rail->n_opening, 1);
	close(stranger);
	close(k.fd);
	raw_close_half(k.ep);
}

static bool is_readable(int fd, int within_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, within_ms) == 1;
}

static void read_once(const struct known *k, uint64_t id)
{
	struct tcp_frame f = frame(TCP_READ, 0, id, 100);
	uint8_t bytes[TCP_HEAD_LEN + 100];

	tei_tcp_frame_encode(&f, bytes);
	raw_put(k->fd, bytes, TCP_HEAD_LEN);
	raw_get_all(k->fd, bytes, sizeof(bytes));
}

static void idle_waiter_hears_of_busy_lanes_again(void **state)
{
	const struct tcp_lane *lane;
	int fd = ops->wait_fd(raw_rail.rail);
	struct known k;
	uint64_t id;

	(void)state;
	know(&k);
	lane = tcp_endpoint(k.ep)->lanes[0];
	for (id = 1; id < 500 && (lane->interest & EPOLLIN); id++)
		read_once(&k, id);
	assert_false(lane->interest & EPOLLIN);
	raw_put(k.fd, "T", 1);
	assert_false(is_readable(fd, 0));
	ops->arm(raw_rail.rail);
	assert_true(is_readable(fd, FAKE_LIMIT_MS));
	raw_turn();
	assert_false(is_readable(fd, 0));
	close(k.fd);
	raw_close_half(k.ep);
}

static void without_descriptors_accepting_waits(void **state)
{
	struct rlimit before, tight;
	int fds[4], probe;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		fds[i] = raw_dial(raw_port_of_rail());
	probe = dup(0);
	assert_true(probe >= 0);
	close(probe);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	tight = before;
	tight.rlim_cur = (rlim_t)probe;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	for (int i = 0; i < 50; i++)
		raw_turn();
	assert_int_equal(tcp_rail(raw_rail.rail)->n_opening, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	raw_serves_honest_peers();
	for (size_t i = 0; i < 4; i++)
		close(fds[i]);
}

static int set_up_impatient(void **state)
{
	static const char *const settings[] = {"tcp.stall_timeout=400ms",
					       "tcp.sndbuf=64k", NULL};

	raw_settings = settings;
	return raw_set_up(state);
}

/* Buffers so small that a frame is always half sent. */
static int set_up_narrow(void **state)
{
	static const char *const settings[] = {"tcp.sndbuf=64k", NULL};

	raw_settings = settings;
	return raw_set_up(state);
}

static int tear_down(void **state)
{
	raw_settings = NULL;
	return raw_tear_down(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, raw_set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(initiator_may_leave_at_any_byte),
		TEST(target_may_leave_at_any_byte),
		TEST(reader_of_a_kilobyte_at_a_time_gets_it_all),
		TEST(zero_window_is_no_failure),
		TEST(every_byte_of_a_read_is_a_sign_of_life),
		TEST(kernel_gives_a_peer_up_only_after_minutes),
		cmocka_unit_test_setup_teardown(
			cancelled_frame_is_finished_as_the_peer_reads,
			set_up_narrow, tear_down),
		cmocka_unit_test_setup_teardown(
			cancelled_frame_that_nobody_reads_ends_the_endpoint,
			set_up_impatient, tear_down),
		TEST(greedy_peer_does_not_starve_others),
		TEST(who_was_woken_looks_at_everything),
		TEST(idle_waiter_hears_of_busy_lanes_again),
		TEST(without_descriptors_accepting_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
