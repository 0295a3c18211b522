/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_zerocopy.c - payload that tcp lends to the kernel
 *
 * Over loopback the kernel makes a copy in the end, but not before the peer has
 * room: what is still to be sent lies in our memory. So a peer that reads
 * nothing shows what would go out if that memory were not quiet.
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

#define BIG     ((size_t)8 << 20)
#define LITTLE  ((size_t)64 << 10) /* a frame; packet by packet it takes long */
#define N_MANY  64
#define ROOM    4096 /* of a peer that reads nothing */
#define STUCK   50   /* turns in which nothing goes any more */
#define SECRETS 0xee

static uint8_t local[BIG], remote[BIG];

static const char *const lending[] = {"tcp.zerocopy=64k", "tcp.lanes=1",
				      "tcp.sndbuf=4m", NULL};

static bool in_time(const unsigned int *n)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (!*n && tei_now_ms() < end)
		raw_turn();
	return *n;
}

static const struct tcp_zerocopy *lent_by(const struct tei_endpoint *ep)
{
	return tcp_endpoint(ep)->lanes[0]->zerocopy;
}

/* Unlike secrets. */
static void fill(void)
{
	for (uint64_t i = 0; i < BIG / 8; i++) {
		uint64_t word = (i + 1) * 0x9e3779b97f4a7c15;

		word &= 0x7f7f7f7f7f7f7f7f;
		memcpy(local + 8 * i, &word, 8);
	}
	memset(remote, 0, BIG);
}

/* ---- between two rails ---- */

struct between {
	struct fake_pair p;
	uint64_t region;
};

static void begin(struct between *b)
{
	fill();
	assert_int_equal(fake_pair_open(&b->p, ops, lending), 0);
	b->region = fake_region_add(remote, BIG, TE_ACCESS_REMOTE_WRITE);
	assert_non_null(lent_by(b->p.initiator));
}

static void end(struct between *b)
{
	fake_pair_close(&b->p);
	fake_region_remove(b->region);
}

static void write_whole(struct between *b, size_t at, size_t len)
{
	struct iovec iov = {local + at, len};
	struct fake_slice *s = fake_slice_create(
		&b->p, TEI_WRITE, b->region, (uintptr_t)remote + at, &iov, 1);

	assert_int_equal(fake_post(&b->p, s), 0);
	assert_true(fake_wait(&b->p, &s->n_done, 1));
	assert_int_equal(s->err, 0);
	assert_true(tei_tcp_is_quiet(s->slice));
	fake_slice_destroy(s);
}

/* Has the next bursts of 64 KiB be lent, or copied, as if that were faster. */
static void prefer(const struct tei_endpoint *ep, bool lent)
{
	struct tcp_rail *rail = tcp_endpoint(ep)->lanes[0]->rail;

	rail->lending[1] = (struct tei_faster){0};
	for (int i = 0; i < 8; i++) {
		tei_faster_learn(&rail->lending[1], true, 16, 64 << 10,
				 lent ? 16000 : 32000);
		tei_faster_learn(&rail->lending[1], false, 16, 64 << 10,
				 lent ? 32000 : 16000);
	}
}

static void lent_bytes_arrive(void **state)
{
	const struct tcp_zerocopy *z;
	struct between b;

	(void)state;
	begin(&b);
	z = lent_by(b.p.initiator);
	write_whole(&b, 0, BIG);
	assert_true(z->next > 0);
	assert_int_equal(z->next, z->upto);
	assert_memory_equal(remote, local, BIG);
	assert_int_equal(b.p.initiator_link.n_down, 0);
	end(&b);
}

static void little_is_copied(void **state)
{
	struct between b;

	(void)state;
	begin(&b);
	write_whole(&b, 0, (64 << 10) - 1);
	assert_int_equal(lent_by(b.p.initiator)->next, 0);
	write_whole(&b, 1 << 20, 64 << 10);
	assert_int_equal(lent_by(b.p.initiator)->next, 1);
	assert_memory_equal(remote + (1 << 20), local + (1 << 20), 64 << 10);
	end(&b);
}

static void kernel_that_copies_all_the_same_gets_no_more(void **state)
{
	uint32_t n_lent;
	struct between b;

	(void)state;
	begin(&b);
	for (size_t i = 0; i < N_MANY; i++) {
		prefer(b.p.initiator, true);
		write_whole(&b, i * 64 << 10, 64 << 10);
	}
	n_lent = lent_by(b.p.initiator)->next;
	assert_true(n_lent > 0 && n_lent < N_MANY);
	assert_memory_equal(remote, local, (size_t)N_MANY * 64 << 10);
	end(&b);
}

/* Each size has a choice of its own. */
static void what_takes_less_time_is_done(void **state)
{
	struct between b;

	(void)state;
	begin(&b);
	prefer(b.p.initiator, false);
	write_whole(&b, 0, 64 << 10);
	assert_int_equal(lent_by(b.p.initiator)->next, 0);
	write_whole(&b, 0, 128 << 10);
	assert_int_equal(lent_by(b.p.initiator)->next, 1);
	prefer(b.p.initiator, true);
	write_whole(&b, 0, 64 << 10);
	assert_int_equal(lent_by(b.p.initiator)->next, 2);
	end(&b);
}

static void both_ways_take_turns_at_first(void **state)
{
	const struct tcp_zerocopy *z;
	struct between b;

	(void)state;
	begin(&b);
	z = lent_by(b.p.initiator);
	for (size_t i = 0; i < 8; i++)
		write_whole(&b, i * 64 << 10, 64 << 10);
	assert_true(z->next > 0 && z->next < 8);
	assert_memory_equal(remote, local, (size_t)8 * 64 << 10);
	end(&b);
}

/* ---- to a peer that reads nothing at first ---- */

struct met {
	struct fake_pair p;
	struct fake_link link;
	int listener, fd;
	struct fake_slice *s;
	struct iovec iov;
	uint32_t n_lent;
};

/* Until the kernel takes no more. */
static void starve(struct met *m)
{
	const struct tcp_slice *s = tcp_slice(m->s->slice);
	uint64_t at = 0;

	for (int still = 0; still < STUCK; still++) {
		raw_turn();
		if (s->passed.at != at)
			still = 0;
		at = s->passed.at;
	}
}

static void meet(struct met *m, size_t len)
{
	struct tcp_address a;
	uint16_t port;
	int room = ROOM;

	fill();
	m->p = (struct fake_pair){.ops = ops};
	m->listener = raw_listen_here(&port);
	assert_int_equal(setsockopt(m->listener, SOL_SOCKET, SO_RCVBUF, &room,
				    sizeof(room)),
			 0);
	m->p.initiator = raw_open_half(&m->link, false, &a);
	m->fd = raw_meet(m->p.initiator, m->listener, port);
	raw_welcome(m->fd, TEI_STATUS_OK);
	assert_true(in_time(&m->link.n_up));
	m->iov = (struct iovec){local, len};
	m->s = fake_slice_create(&m->p, TEI_WRITE, raw_region, 4096, &m->iov,
				 1);
	assert_int_equal(ops->post(m->p.initiator, &m->s->slice, 1), 1);
	starve(m);
	assert_false(tei_tcp_is_quiet(m->s->slice));
}

static void part(struct met *m)
{
	close(m->fd);
	raw_close_half(m->p.initiator);
	assert_int_equal(m->s->n_done, 1);
	fake_slice_destroy(m->s);
	close(m->listener);
}

/* Whatever comes until the end; nothing of it is from after the slice's. */
static void reads_no_secrets(struct met *m)
{
	uint64_t limit = tei_now_ms() + FAKE_LIMIT_MS;
	static uint8_t bytes[65536];
	ssize_t n;

	do {
		n = recv(m->fd, bytes, sizeof(bytes), 0);
		if (n > 0)
			assert_null(memchr(bytes, SECRETS, (size_t)n));
		if (n < 0 && errno != EAGAIN)
			return;
		raw_turn();
	} while (n && tei_now_ms() < limit);
	assert_int_equal(n, 0);
}

static void answer(struct met *m, uint8_t status)
{
	struct tcp_frame f = {
		.op = TCP_ANSWER, .status = status, .id = 1, .length = 1};
	uint8_t bytes[TCP_HEAD_LEN];

	tei_tcp_frame_encode(&f, bytes);
	raw_put(m->fd, bytes, sizeof(bytes));
}

/* Also with what had left the socket: by its own word. */
static void kernel_is_through(const struct met *m)
{
	const struct tcp_zerocopy *z = lent_by(m->p.initiator);

	assert_true(z->next > 0);
	assert_int_equal(z->next, z->upto);
}

static void cancelled_slice_breaks_the_link_and_is_quiet(void **state)
{
	struct met m;

	(void)state;
	meet(&m, BIG);
	ops->cancel(m.p.initiator, m.s->slice);
	assert_int_equal(m.s->n_done, 1);
	assert_int_equal(m.s->err, -ECANCELED);
	kernel_is_through(&m);
	memset(local, SECRETS, BIG);
	assert_true(in_time(&m.link.n_down));
	reads_no_secrets(&m);
	part(&m);
}

static void flushed_slice_is_quiet(void **state)
{
	struct met m;

	(void)state;
	meet(&m, BIG);
	ops->flush(m.p.initiator, -ECONNRESET);
	assert_int_equal(m.s->n_done, 1);
	assert_int_equal(m.s->err, -ECONNRESET);
	kernel_is_through(&m);
	memset(local, SECRETS, BIG);
	reads_no_secrets(&m);
	part(&m);
}

static void read_all(struct met *m, size_t want)
{
	static uint8_t bytes[4096];

	for (; want; want -= want < sizeof(bytes) ? want : sizeof(bytes))
		raw_get_all(m->fd, bytes,
			    want < sizeof(bytes) ? want : sizeof(bytes));
}

static void deferred_until_the_kernel_is_through(uint8_t status, int err)
{
	struct met m;

	meet(&m, LITTLE); /* all of it is in the kernel's queue by now */
	answer(&m, status);
	for (int i = 0; i < STUCK; i++)
		raw_turn();
	assert_int_equal(m.s->n_done, 0);
	read_all(&m, LITTLE + TCP_HEAD_LEN);
	assert_true(in_time(&m.s->n_done));
	assert_int_equal(m.s->err, err);
	assert_int_equal(m.link.n_down, 0);
	part(&m);
}

static void answered_slice_ends_once_the_kernel_is_through(void **state)
{
	(void)state;
	deferred_until_the_kernel_is_through(TEI_STATUS_OK, 0);
}

static void refused_slice_ends_once_the_kernel_is_through(void **state)
{
	(void)state;
	deferred_until_the_kernel_is_through(TEI_STATUS_RANGE, -EFAULT);
}

static void deferred_slice_ends_as_answered_when_the_link_does(void **state)
{
	struct met m;

	(void)state;
	meet(&m, LITTLE);
	answer(&m, TEI_STATUS_OK);
	for (int i = 0; i < STUCK; i++)
		raw_turn();
	ops->flush(m.p.initiator, -ECONNRESET);
	assert_int_equal(m.s->n_done, 1);
	assert_int_equal(m.s->err, 0);
	memset(local, SECRETS, BIG);
	reads_no_secrets(&m);
	part(&m);
}

static int set_up(void **state)
{
	raw_settings = lending;
	return raw_set_up(state);
}

static int tear_down(void **state)
{
	raw_settings = NULL;
	return raw_tear_down(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lent_bytes_arrive),
		cmocka_unit_test(little_is_copied),
		cmocka_unit_test(what_takes_less_time_is_done),
		cmocka_unit_test(both_ways_take_turns_at_first),
		cmocka_unit_test(kernel_that_copies_all_the_same_gets_no_more),
		TEST(cancelled_slice_breaks_the_link_and_is_quiet),
		TEST(flushed_slice_is_quiet),
		TEST(answered_slice_ends_once_the_kernel_is_through),
		TEST(refused_slice_ends_once_the_kernel_is_through),
		TEST(deferred_slice_ends_as_answered_when_the_link_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
