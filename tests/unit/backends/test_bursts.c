/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bursts.c - frames whose headers go ahead of their payload
 *
 * What goes out is read by a socket of the test's own and taken apart; what
 * comes in is put together by hand, rightly and wrongly.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <te/te.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/raw.h"

static const struct tei_backend_ops *const ops = &tei_backend_tcp;

#define MANY 200

static uint8_t local[MANY * 4096];

/* ---- the rail as target ---- */

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

static void forget(struct known *k)
{
	close(k->fd);
	raw_close_half(k->ep);
}

static struct tcp_frame write_of(uint64_t id, uint64_t offset, uint64_t length,
				 uint8_t flags)
{
	return (struct tcp_frame){
		.op = TCP_WRITE,
		.flags = flags,
		.id = id,
		.key = raw_region,
		.address = (uintptr_t)raw_memory + RAW_OPEN_AT + offset,
		.length = length,
		.epoch = fake_epoch,
	};
}

static void put_head(int fd, const struct tcp_frame *f)
{
	uint8_t bytes[TCP_HEAD_LEN];

	tei_tcp_frame_encode(f, bytes);
	raw_put(fd, bytes, sizeof(bytes));
}

static struct tcp_frame get_head(int fd)
{
	uint8_t bytes[TCP_HEAD_LEN];
	struct tcp_frame f;

	raw_get_all(fd, bytes, sizeof(bytes));
	assert_true(tei_tcp_frame_decode(bytes, &f));
	return f;
}

static void burst_is_applied_and_answered_at_once(void **state)
{
	struct tcp_frame f;
	struct known k;
	uint8_t bytes[300];

	(void)state;
	know(&k);
	for (uint64_t i = 0; i < 3; i++) {
		f = write_of(i + 1, i * 1000, 100,
			     i < 2 ? TCP_LAST | TCP_MORE : TCP_LAST);
		put_head(k.fd, &f);
	}
	memset(bytes, 1, 100);
	memset(bytes + 100, 2, 100);
	memset(bytes + 200, 3, 100);
	raw_put(k.fd, bytes, sizeof(bytes));
	f = get_head(k.fd);
	assert_int_equal(f.op, TCP_ANSWER);
	assert_int_equal(f.id, 1);
	assert_int_equal(f.length, 3);
	assert_int_equal(f.status, TEI_STATUS_OK);
	for (size_t i = 0; i < 3; i++) {
		uint8_t *at = raw_memory + RAW_OPEN_AT + i * 1000;

		assert_memory_equal(at, bytes + i * 100, 100);
		assert_int_equal(at[100], 0x5a);
	}
	forget(&k);
}

static void bad_payload_of_a_burst_is_refused_alone(void **state)
{
	struct tcp_frame f;
	struct known k;
	uint8_t bytes[300];

	(void)state;
	know(&k);
	f = write_of(1, 0, 100, TCP_LAST | TCP_MORE);
	put_head(k.fd, &f);
	f = write_of(2, RAW_OPEN_AT - 50, 100, TCP_LAST | TCP_MORE);
	put_head(k.fd, &f);
	f = write_of(3, 500, 100, TCP_LAST);
	put_head(k.fd, &f);
	memset(bytes, 7, sizeof(bytes));
	raw_put(k.fd, bytes, sizeof(bytes));
	for (uint64_t left = 3; left;) {
		f = get_head(k.fd);
		assert_int_equal(f.op, TCP_ANSWER);
		assert_int_equal(f.length, 1);
		assert_int_equal(f.status,
				 f.id == 2 ? TEI_STATUS_RANGE : TEI_STATUS_OK);
		left--;
	}
	assert_int_equal(raw_memory[RAW_OPEN_AT], 7);
	assert_int_equal(raw_memory[RAW_OPEN_AT + 500], 7);
	assert_int_equal(raw_memory[2 * RAW_OPEN_AT - 50], 0x5a);
	raw_check_fences();
	assert_int_equal(k.link.n_down, 0);
	forget(&k);
}

static void burst_longer_than_allowed_ends_the_endpoint(void **state)
{
	struct known k;

	(void)state;
	know(&k);
	for (uint64_t i = 0; i <= TCP_BURST_MAX; i++) {
		struct tcp_frame f = write_of(i + 1, i, 1, TCP_LAST | TCP_MORE);

		put_head(k.fd, &f);
	}
	assert_true(raw_closed_in_time(k.fd));
	assert_int_equal(k.link.down_err, -EPROTO);
	assert_int_equal(raw_memory[RAW_OPEN_AT], 0x5a);
	forget(&k);
}

static void anything_else_inside_a_burst_ends_the_endpoint(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct tcp_frame f;
		struct known k;

		know(&k);
		f = write_of(1, 0, 100, TCP_LAST | TCP_MORE);
		put_head(k.fd, &f);
		f = i ? write_of(1, 0, 0, TCP_ABORT)
		      : write_of(2, 0, 100, TCP_LAST);
		if (!i) {
			f.op = TCP_READ;
			f.flags = 0;
		}
		put_head(k.fd, &f);
		assert_true(raw_closed_in_time(k.fd));
		assert_int_equal(k.link.down_err, -EPROTO);
		forget(&k);
	}
}

/* ---- the rail as initiator ---- */

struct met { /* a target of the test's own */
	struct fake_pair p;
	struct fake_link link;
	int listener, fd;
};

static void meet(struct met *m)
{
	struct tcp_address a;
	uint16_t port;

	m->p = (struct fake_pair){.ops = ops};
	m->listener = raw_listen_here(&port);
	m->p.initiator = raw_open_half(&m->link, false, &a);
	m->fd = raw_meet(m->p.initiator, m->listener, port);
	raw_welcome(m->fd, TEI_STATUS_OK);
	while (!m->link.n_up)
		raw_turn();
}

static void part(struct met *m)
{
	close(m->fd);
	close(m->listener);
	raw_close_half(m->p.initiator);
}

static struct fake_slice *new_slice(struct met *m, uint32_t op,
				    struct iovec *iov, uint32_t priority)
{
	struct fake_slice *s =
		fake_slice_create(&m->p, op, raw_region, 4096, iov, 1);

	s->slice->priority = priority;
	return s;
}

static void small_writes_go_out_as_one_burst(void **state)
{
	struct tei_slice *slices[MANY];
	struct fake_slice *s[MANY];
	struct iovec iov = {local, 8};
	uint8_t bytes[TCP_BURST_MAX * 8];
	struct tcp_frame f;
	struct met m;

	(void)state;
	meet(&m);
	for (size_t i = 0; i < TCP_BURST_MAX; i++) {
		s[i] = new_slice(&m, TEI_WRITE, &iov, 0);
		slices[i] = s[i]->slice;
	}
	assert_int_equal(ops->post(m.p.initiator, slices, TCP_BURST_MAX),
			 TCP_BURST_MAX);
	for (size_t i = 0; i < TCP_BURST_MAX; i++) {
		f = get_head(m.fd);
		assert_int_equal(f.id, i + 1);
		assert_int_equal(f.flags, i + 1 < TCP_BURST_MAX
						  ? TCP_LAST | TCP_MORE
						  : TCP_LAST);
	}
	raw_get_all(m.fd, bytes, sizeof(bytes));
	f = (struct tcp_frame){
		.op = TCP_ANSWER, .id = 1, .length = TCP_BURST_MAX};
	put_head(m.fd, &f);
	while (!s[TCP_BURST_MAX - 1]->n_done)
		raw_turn();
	for (size_t i = 0; i < TCP_BURST_MAX; i++) {
		assert_int_equal(s[i]->n_done, 1);
		assert_int_equal(s[i]->err, 0);
		fake_slice_destroy(s[i]);
	}
	part(&m);
}

/* More than the kernel's buffers take, so that most of it waits. */
static void urgent_writes_overtake_what_waits(void **state)
{
	static uint8_t big[4 << 20];
	struct iovec bulk = {big, sizeof(big)}, little = {local, 8};
	struct fake_slice *first, *waits, *urgent;
	uint64_t passed = 0;
	struct tcp_frame f;
	struct met m;

	(void)state;
	meet(&m);
	first = new_slice(&m, TEI_WRITE, &bulk, TE_PRIORITY_BULK);
	waits = new_slice(&m, TEI_WRITE, &bulk, TE_PRIORITY_BULK);
	urgent = new_slice(&m, TEI_WRITE, &little, TE_PRIORITY_URGENT);
	assert_int_equal(ops->post(m.p.initiator, &first->slice, 1), 1);
	assert_int_equal(ops->post(m.p.initiator, &waits->slice, 1), 1);
	assert_int_equal(ops->post(m.p.initiator, &urgent->slice, 1), 1);
	do {
		bool more = true;
		uint64_t payload = 0;

		while (more) {
			f = get_head(m.fd);
			payload += f.length;
			more = f.flags & TCP_MORE;
			if (f.length == 8)
				break;
		}
		if (f.length == 8)
			break;
		passed += payload;
		for (; payload; payload -= 4096)
			raw_get_all(m.fd, local, 4096);
	} while (passed < 2 * sizeof(big));
	assert_int_equal(f.length, 8);
	assert_true(passed <= sizeof(big));
	ops->flush(m.p.initiator, -ECANCELED);
	fake_slice_destroy(first);
	fake_slice_destroy(waits);
	fake_slice_destroy(urgent);
	part(&m);
}

static void answers_about_more_than_was_asked_end_the_endpoint(void **state)
{
	struct iovec iov = {local, 8};
	uint8_t bytes[TCP_HEAD_LEN + 8];
	struct tcp_frame f = {.op = TCP_ANSWER, .id = 1, .length = 2};
	struct fake_slice *s;
	struct met m;

	(void)state;
	meet(&m);
	s = new_slice(&m, TEI_WRITE, &iov, 0);
	assert_int_equal(ops->post(m.p.initiator, &s->slice, 1), 1);
	raw_get_all(m.fd, bytes, sizeof(bytes));
	put_head(m.fd, &f);
	while (!m.link.n_down)
		raw_turn();
	assert_int_equal(m.link.down_err, -EPROTO);
	assert_int_equal(s->n_done, 1);
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
	part(&m);
}

/* It says that 1 MiB is written before most of it has left. */
static void answer_before_the_end_is_not_believed(void **state)
{
	static uint8_t big[8 << 20];
	struct iovec iov = {big, sizeof(big)};
	struct tcp_frame f = {.op = TCP_ANSWER, .id = 1, .length = 1};
	struct fake_slice *s;
	struct met m;

	(void)state;
	meet(&m);
	s = new_slice(&m, TEI_WRITE, &iov, 0);
	assert_int_equal(ops->post(m.p.initiator, &s->slice, 1), 1);
	put_head(m.fd, &f);
	while (!m.link.n_down)
		raw_turn();
	assert_int_equal(m.link.down_err, -EPROTO);
	assert_int_equal(s->n_done, 0);
	part(&m);
	assert_int_equal(s->n_done, 1);
	assert_true(s->err < 0);
	fake_slice_destroy(s);
}

static void data_of_many_reads_may_come_as_one_burst(void **state)
{
	struct fake_slice *s[3];
	struct iovec iov[3];
	struct tcp_frame f;
	struct met m;

	(void)state;
	meet(&m);
	for (size_t i = 0; i < 3; i++) {
		iov[i] = (struct iovec){local + i * 1000, 100};
		s[i] = new_slice(&m, TEI_READ, &iov[i], 0);
		assert_int_equal(ops->post(m.p.initiator, &s[i]->slice, 1), 1);
		f = get_head(m.fd);
		assert_int_equal(f.op, TCP_READ);
		assert_int_equal(f.id, i + 1);
	}
	memset(local, 0x11, sizeof(local));
	for (uint64_t i = 0; i < 3; i++) {
		f = (struct tcp_frame){.op = TCP_DATA,
				       .id = 3 - i,
				       .length = 100,
				       .flags = TCP_LAST};
		if (i < 2)
			f.flags |= TCP_MORE;
		put_head(m.fd, &f);
	}
	for (uint8_t i = 0; i < 3; i++) {
		uint8_t bytes[100];

		memset(bytes, 3 - i, sizeof(bytes));
		raw_put(m.fd, bytes, sizeof(bytes));
	}
	for (size_t i = 0; i < 3; i++) {
		while (!s[i]->n_done)
			raw_turn();
		assert_int_equal(s[i]->err, 0);
		assert_int_equal(local[i * 1000], i + 1);
		assert_int_equal(local[i * 1000 + 99], i + 1);
		assert_int_equal(local[i * 1000 + 100], 0x11);
		fake_slice_destroy(s[i]);
	}
	part(&m);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, raw_set_up, raw_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(burst_is_applied_and_answered_at_once),
		TEST(bad_payload_of_a_burst_is_refused_alone),
		TEST(burst_longer_than_allowed_ends_the_endpoint),
		TEST(anything_else_inside_a_burst_ends_the_endpoint),
		TEST(small_writes_go_out_as_one_burst),
		TEST(urgent_writes_overtake_what_waits),
		TEST(answers_about_more_than_was_asked_end_the_endpoint),
		TEST(answer_before_the_end_is_not_believed),
		TEST(data_of_many_reads_may_come_as_one_burst),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
