/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer.c - the contract of te/backend.h, for each linked-in backend
 *
 * Every test runs with loop, with tcp as it is by default, and with tcp on
 * three lanes with tiny frames, chunks and buffers, where every header and
 * payload is cut somewhere; both of tcp also with a GPU's memory at the target.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <te/te.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "tests/unit/backends/fake_core.h"

extern const struct tei_backend_ops tei_backend_loop;
extern const struct tei_backend_ops tei_backend_tcp;

#define REGION_LEN ((size_t)3 << 20)
#define ANY        (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

static const struct tei_backend_ops *ops;
static const char *const *settings;
static const char *const tiny[] = {
	"tcp.lanes=3",     "tcp.frame=4096",  "tcp.send_chunk=5000",
	"tcp.sndbuf=8192", "tcp.rcvbuf=8192", NULL,
};

static uint8_t remote[REGION_LEN], local[REGION_LEN], expected[REGION_LEN];

/* By words: byte by byte it took most of the time under TSan. */
static void fill(uint8_t *bytes, size_t len, unsigned int seed)
{
	uint64_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < len; i += sizeof(x)) {
		size_t n = len - i < sizeof(x) ? len - i : sizeof(x);

		x = x * 6364136223846793005u + 1442695040888963407u;
		memcpy(bytes + i, &x, n);
	}
}

static uint64_t at(size_t offset)
{
	return (uintptr_t)remote + offset;
}

/* Post, wait, check that it ended exactly once; its error. */
static int run(struct fake_pair *p, struct fake_slice *s)
{
	assert_int_equal(fake_post(p, s), 0);
	assert_true(fake_wait(p, &s->n_done, 1));
	fake_progress(p);
	assert_int_equal(s->n_done, 1);
	if (!s->err)
		assert_true(s->bytes == s->slice->length);
	return s->err;
}

static int run_new(struct fake_pair *p, uint32_t op, uint64_t region,
		   uint64_t address, void *bytes, size_t len)
{
	struct iovec iov = {bytes, len};
	struct fake_slice *s;
	int err;

	s = fake_slice_create(p, op, region, address, &iov, 1);
	err = run(p, s);
	fake_slice_destroy(s);
	return err;
}

static void bytes_of_every_size_arrive(void **state)
{
	static const size_t sizes[] = {
		1,       4095,          4096,    4097,      16383,
		65535,   65536,         262143,  262144,    262145,
		1 << 20, (1 << 20) + 1, 2 << 20, REGION_LEN};
	struct fake_pair p;
	uint64_t id = fake_region_add(remote, REGION_LEN, ANY);

	(void)state;
	assert_int_equal(fake_pair_open(&p, ops, settings), 0);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = sizes[i], off = REGION_LEN - n;

		memset(remote, 0, REGION_LEN);
		fill(local, n, i);
		assert_int_equal(run_new(&p, TEI_WRITE, id, at(off), local, n),
				 0);
		assert_memory_equal(remote + off, local, n);
		memset(expected, 0, REGION_LEN);
		assert_memory_equal(remote, expected, off);
		memset(local, 0, n);
		assert_int_equal(run_new(&p, TEI_READ, id, at(off), local, n),
				 0);
		assert_memory_equal(remote + off, local, n);
	}
	assert_int_equal(fake_pins(), 0);
	fake_pair_close(&p);
	fake_region_remove(id);
}

static void cut_in_pieces(struct iovec *iov, uint32_t n, size_t len)
{
	uint8_t *p = local;

	for (uint32_t i = 0; i < n; i++) {
		size_t part =
			i + 1 == n ? len : (size_t)rand() % (len / n * 2 + 1);

		if (i % 7 == 3)
			part = 0;
		if (part > len)
			part = len;
		iov[i] = (struct iovec){p, i + 1 == n ? len : part};
		p += iov[i].iov_len;
		len -= iov[i].iov_len;
	}
}

static void pieces_and_checksums_fit_together(void **state)
{
	static const uint32_t counts[] = {1, 2, 3, 17, 300, 1024};
	static const size_t sizes[] = {5000, 70000, 600000};
	struct iovec iov[1024];
	struct fake_pair p;
	uint64_t id = fake_region_add(remote, REGION_LEN, ANY);

	(void)state;
	srand(7);
	assert_int_equal(fake_pair_open(&p, ops, settings), 0);
	for (unsigned int i = 0; i < 36; i++) {
		uint32_t n = counts[i % 6];
		size_t len = sizes[i / 2 % 3], from, crc_len;
		uint32_t op = i & 1 ? TEI_READ : TEI_WRITE;
		struct fake_slice *s;

		fill(remote, len, i);
		fill(local, len, i + 99);
		memcpy(expected, op == TEI_READ ? remote : local, len);
		cut_in_pieces(iov, n, len);
		s = fake_slice_create(&p, op, id, at(0), iov, n);
		s->slice->skip = iov[0].iov_len / 3;
		s->slice->length -= s->slice->skip;
		from = (size_t)rand() % s->slice->length;
		crc_len = (size_t)rand() % (s->slice->length - from + 1);
		s->slice->crc = 0x1234567;
		s->slice->crc_from = from;
		s->slice->crc_len = crc_len;
		assert_int_equal(run(&p, s), 0);
		len = s->slice->length;
		if (op == TEI_READ)
			assert_memory_equal(local + s->slice->skip, expected,
					    len);
		else
			assert_memory_equal(remote, expected + s->slice->skip,
					    len);
		assert_int_equal(
			s->slice->crc,
			tei_crc32c_raw(0x1234567, remote + from, crc_len));
		fake_slice_destroy(s);
	}
	fake_pair_close(&p);
	fake_region_remove(id);
}

static void refused_slices_change_nothing(void **state)
{
	const size_t n = 300000;
	uint64_t id = fake_region_add(remote, n, ANY);
	uint64_t read_only = fake_region_add(remote, n, TE_ACCESS_REMOTE_READ);
	uint64_t write_only =
		fake_region_add(remote, n, TE_ACCESS_REMOTE_WRITE);
	struct fake_pair p;

	(void)state;
	fill(remote, REGION_LEN, 1);
	memcpy(expected, remote, REGION_LEN);
	memset(local, 0x55, REGION_LEN);
	assert_int_equal(fake_pair_open(&p, ops, settings), 0);
	assert_int_equal(run_new(&p, TEI_WRITE, read_only, at(0), local, n),
			 -EACCES);
	assert_int_equal(run_new(&p, TEI_READ, write_only, at(0), local, n),
			 -EACCES);
	assert_int_equal(run_new(&p, TEI_WRITE, id, at(n), local, n), -EFAULT);
	assert_int_equal(run_new(&p, TEI_READ, id, at(0) - 1, local, n),
			 -EFAULT);
	assert_int_equal(run_new(&p, TEI_READ, id, at(1), local, n), -EFAULT);
	assert_int_equal(run_new(&p, TEI_WRITE, id + 40, at(0), local, n),
			 -EFAULT);
	assert_int_equal(
		run_new(&p, TEI_READ, id ^ 1ull << 63, at(0), local, n),
		-EFAULT);
	assert_int_equal(run_new(&p, TEI_READ, id, UINT64_MAX - 5, local, n),
			 -EFAULT);
	assert_int_equal(run_new(&p, TEI_WRITE, id, UINT64_MAX - 5, local, n),
			 -EFAULT);
	assert_memory_equal(remote, expected, REGION_LEN);
	assert_int_equal(local[0], 0x55);
	assert_true(p.a.rail->refused_slices + p.b.rail->refused_slices >= 9);
	assert_int_equal(run_new(&p, TEI_READ, id, at(0), local, n), 0);
	assert_memory_equal(local, expected, n);
	fake_pair_close(&p);
	fake_region_remove(id);
	fake_region_remove(read_only);
	fake_region_remove(write_only);
}

static void key_of_wrong_length_is_refused(void **state)
{
	uint64_t id = fake_region_add(remote, REGION_LEN, ANY);
	struct iovec iov = {local, 100};
	struct fake_slice *s;
	struct fake_pair p;

	(void)state;
	assert_int_equal(fake_pair_open(&p, ops, settings), 0);
	for (uint32_t len = 0; len <= 40; len += 20) {
		s = fake_slice_create(&p, TEI_WRITE, id, at(0), &iov, 1);
		s->slice->key_len = len;
		assert_int_equal(run(&p, s), -EFAULT);
		fake_slice_destroy(s);
	}
	fake_pair_close(&p);
	fake_region_remove(id);
}

static void nothing_is_applied_after_the_epoch_ends(void **state)
{
	uint64_t id = fake_region_add(remote, REGION_LEN, ANY);
	struct fake_pair p;

	(void)state;
	fill(remote, REGION_LEN, 1);
	memcpy(expected, remote, REGION_LEN);
	assert_int_equal(fake_pair_open(&p, ops, settings), 0);
	fake_epoch++;
	assert_int_equal(run_new(&p, TEI_WRITE, id, at(0), local, 9000),
			 -ESTALE);
	assert_int_equal(run_new(&p, TEI_READ, id, at(0), local, 9000),
			 -ESTALE);
	assert_memory_equal(remote, expected, REGION_LEN);
	fake_pair_close(&p);
	fake_region_remove(id);
}

#define MANY 120

/* Slices of mixed sizes, each with memory of its own on both sides. */
static void create_many(struct fake_pair *p, uint64_t id,
			struct fake_slice *s[MANY], struct iovec iov[MANY])
{
	for (unsigned int i = 0; i < MANY; i++) {
		size_t room = REGION_LEN / MANY;
		size_t len = i % 3 ? room : 1 + i * 37;

		iov[i] = (struct iovec){local + i * room, len};
		s[i] = fake_slice_create(p, i & 1 ? TEI_READ : TEI_WRITE, id,
					 at(i * room), &iov[i], 1);
	}
}

/* A slice's bytes are where they should be. */
static void check_moved(const struct fake_slice *s, const uint8_t *local0)
{
	const struct iovec *iov = s->slice->iov;
	size_t off = (size_t)((uint8_t *)iov->iov_base - local);

	if (s->slice->op == TEI_READ)
		assert_memory_equal(iov->iov_base, expected + off,
				    iov->iov_len);
	else
		assert_memory_equal(remote + off, local0 + off, iov->iov_len);
}

static void cancel(struct fake_pair *p, struct fake_slice *s)
{
	if (s->n_done)
		return;
	p->ops->cancel(p->initiator, s->slice);
	/* Quiet: others may use its memory now. */
	assert_int_equal(s->n_done, 1);
}

static void cancelled_slices_end_once_and_harm_no_other(void **state)
{
	uint64_t id = fake_region_add(remote, REGION_LEN, ANY);
	static uint8_t local0[REGION_LEN];
	struct fake_slice *s[MANY];
	struct iovec iov[MANY];
	struct fake_pair p;

	(void)state;
	srand(11);
	assert_int_equal(fake_pair_open(&p, ops, settings), 0);
	for (unsigned int round = 0; round < 25; round++) {
		unsigned int n = 0;

		fill(remote, REGION_LEN, round);
		fill(local, REGION_LEN, round + 1000);
		memcpy(expected, remote, REGION_LEN);
		memcpy(local0, local, REGION_LEN);
		create_many(&p, id, s, iov);
		for (unsigned int i = 0; i < MANY; i++) {
			assert_int_equal(fake_post(&p, s[i]), 0);
			if (rand() % 3 == 0)
				fake_progress(&p);
			if (rand() % 4 == 0)
				cancel(&p, s[(unsigned int)rand() % (i + 1)]);
		}
		for (unsigned int i = 0; i < MANY; i++) {
			assert_true(fake_wait(&p, &s[i]->n_done, 1));
			assert_int_equal(s[i]->n_done, 1);
			if (s[i]->err)
				assert_int_equal(s[i]->err, -ECANCELED);
			else
				check_moved(s[i], local0);
			n += !s[i]->err;
			fake_slice_destroy(s[i]);
		}
		/* Writes that were cancelled may land until here. */
		while (fake_copies_begun())
			fake_progress(&p);
		assert_true(n > 0);
	}
	assert_int_equal(p.initiator_link.n_down, 0);
	assert_int_equal(p.target_link.n_down, 0);
	assert_int_equal(run_new(&p, TEI_READ, id, at(0), local, 5000), 0);
	fake_pair_close(&p);
	fake_region_remove(id);
}

/* Only the initiator's rail runs, as when the other process is stopped. */
static void cancel_needs_nothing_from_the_peer(void **state)
{
	uint64_t id = fake_region_add(remote, REGION_LEN, ANY);
	struct fake_slice *s[MANY];
	struct iovec iov[MANY];
	unsigned int n = 0;
	struct fake_pair p;

	(void)state;
	assert_int_equal(fake_pair_open(&p, ops, settings), 0);
	create_many(&p, id, s, iov);
	for (unsigned int i = 0; i < MANY; i++) {
		if (p.ops->post(p.initiator, &s[i]->slice, 1) == 1)
			n = i + 1;
		else
			break;
		if (!(p.ops->caps & TEI_CAP_SELF))
			p.ops->progress(p.a.rail, 64);
	}
	assert_true(n > 0);
	for (unsigned int i = 0; i < n; i++) {
		unsigned int k = (i * 7 + 3) % n;

		if (!s[k]->n_done)
			p.ops->cancel(p.initiator, s[k]->slice);
	}
	for (unsigned int i = 0; i < n; i++) {
		if (!s[i]->n_done)
			p.ops->cancel(p.initiator, s[i]->slice);
		assert_int_equal(s[i]->n_done, 1);
		assert_int_equal(s[i]->err, -ECANCELED);
	}
	fill(local, 5000, 4);
	assert_int_equal(run_new(&p, TEI_WRITE, id, at(0), local, 5000), 0);
	assert_memory_equal(remote, local, 5000);
	assert_int_equal(p.initiator_link.n_down, 0);
	for (unsigned int i = 0; i < MANY; i++)
		fake_slice_destroy(s[i]);
	fake_pair_close(&p);
	fake_region_remove(id);
}

static void memory_of_a_cancelled_read_is_left_alone(void **state)
{
	uint64_t id = fake_region_add(remote, REGION_LEN, ANY);
	struct iovec iov = {local, 2 << 20};
	struct fake_slice *s;
	struct fake_pair p;

	(void)state;
	memset(remote, 0xaa, REGION_LEN);
	assert_int_equal(fake_pair_open(&p, ops, settings), 0);
	for (int steps = 0; steps < 8; steps++) {
		s = fake_slice_create(&p, TEI_READ, id, at(0), &iov, 1);
		assert_int_equal(fake_post(&p, s), 0);
		for (int i = 0; i < steps; i++)
			fake_progress(&p);
		if (!s->n_done)
			p.ops->cancel(p.initiator, s->slice);
		assert_int_equal(s->n_done, 1);
		fake_slice_destroy(s);
		memset(local, 0x11, iov.iov_len);
		memset(expected, 0x11, iov.iov_len);
		for (int i = 0; i < 200; i++)
			fake_progress(&p);
		assert_memory_equal(local, expected, iov.iov_len);
	}
	assert_int_equal(p.initiator_link.n_down, 0);
	fake_pair_close(&p);
	fake_region_remove(id);
}

static void flush_hands_every_slice_back_at_once(void **state)
{
	uint64_t id = fake_region_add(remote, REGION_LEN, ANY);
	struct fake_slice *s[MANY];
	struct iovec iov[MANY];
	struct fake_pair p;

	(void)state;
	for (int steps = 0; steps < 6; steps++) {
		assert_int_equal(fake_pair_open(&p, ops, settings), 0);
		create_many(&p, id, s, iov);
		for (unsigned int i = 0; i < MANY; i++)
			assert_int_equal(fake_post(&p, s[i]), 0);
		for (int i = 0; i < steps; i++)
			fake_progress(&p);
		p.ops->flush(p.initiator, -ETIMEDOUT);
		for (unsigned int i = 0; i < MANY; i++) {
			assert_int_equal(s[i]->n_done, 1);
			assert_true(!s[i]->err || s[i]->err == -ETIMEDOUT);
		}
		assert_true(p.ops->post(p.initiator, &s[0]->slice, 1) < 0);
		for (int i = 0; i < 20; i++)
			fake_progress(&p);
		for (unsigned int i = 0; i < MANY; i++) {
			assert_int_equal(s[i]->n_done, 1);
			fake_slice_destroy(s[i]);
		}
		assert_int_equal(p.initiator_link.n_down, 0);
		fake_pair_close(&p);
	}
	fake_region_remove(id);
}

/* Drops the target. Returns 1 if copies were under way, which have ended. */
static unsigned int drop(struct fake_pair *p)
{
	unsigned int under_way = fake_copies_begun();
	int rc = p->ops->drop(p->target);

	assert_int_equal(rc, under_way ? -EINPROGRESS : 0);
	if (!under_way)
		return 0;
	assert_int_equal(p->target_link.n_down, 0);
	while (!p->target_link.n_down) {
		assert_true(fake_copies_begun());
		(void)fake_turn(p->b.rail);
	}
	assert_int_equal(fake_copies_begun(), 0);
	assert_int_equal(p->target_link.down_err, -ESTALE);
	return 1;
}

static void dropped_target_applies_nothing_and_the_peer_hears(void **state)
{
	uint64_t id = fake_region_add(remote, REGION_LEN, ANY);
	struct iovec iov = {local, 2 << 20};
	struct fake_slice *s;
	unsigned int under_way;
	struct fake_pair p;

	(void)state;
	for (int steps = 0; steps < 6; steps++) {
		memset(local, 0x77, REGION_LEN);
		memset(remote, 0, REGION_LEN);
		assert_int_equal(fake_pair_open(&p, ops, settings), 0);
		s = fake_slice_create(&p, TEI_WRITE, id, at(0), &iov, 1);
		assert_int_equal(fake_post(&p, s), 0);
		for (int i = 0; i < steps; i++)
			fake_progress(&p);
		under_way = drop(&p);
		memcpy(expected, remote, REGION_LEN);
		assert_true(fake_wait(&p, &p.initiator_link.n_down, 1));
		assert_memory_equal(remote, expected, REGION_LEN);
		assert_int_equal(p.target_link.n_down, under_way);
		assert_int_equal(p.initiator_link.down_err, -ECONNRESET);
		fake_pair_disconnect(&p);
		assert_int_equal(s->n_done, 1);
		fake_slice_destroy(s);
		fake_pair_close(&p);
	}
	fake_region_remove(id);
}

static uint64_t victim;
static unsigned int victim_at;

/* Once told so: end every connection that came with the fork; stay. */
static _Noreturn void hold_sockets(const int told[2], const int tell[2])
{
	struct sockaddr_storage peer;
	socklen_t len;
	char byte;

	close(told[1]); /* so that this process ends with its parent */
	if (read(told[0], &byte, 1) != 1)
		_exit(1);
	for (int fd = 3; fd < 1024; fd++) {
		len = sizeof(peer);
		if (!getpeername(fd, (struct sockaddr *)&peer, &len))
			(void)shutdown(fd, SHUT_RDWR);
	}
	if (write(tell[1], "", 1) != 1 || read(told[0], &byte, 1) != 1)
		_exit(1);
	_exit(0);
}

static void closed_lane_is_silent_while_a_child_has_its_socket(void **state)
{
	int told[2], tell[2], status;
	struct fake_pair p;
	char byte = 0;
	pid_t child;

	(void)state;
	assert_int_equal(fake_pair_open(&p, ops, settings), 0);
	assert_int_equal(pipe(told), 0);
	assert_int_equal(pipe(tell), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		hold_sockets(told, tell);
	fake_pair_disconnect(&p);
	assert_int_equal(write(told[1], &byte, 1), 1);
	assert_int_equal(read(tell[0], &byte, 1), 1);
	for (int i = 0; i < 10; i++)
		fake_progress(&p);
	assert_int_equal(write(told[1], &byte, 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (int i = 0; i < 2; i++) {
		close(told[i]);
		close(tell[i]);
	}
	fake_pair_close(&p);
}

static void remove_victim(unsigned int n)
{
	if (n == victim_at)
		fake_region_remove(victim);
}

/* The pin that finds it still holds; the next one does not. */
static void region_may_go_in_the_middle(void **state)
{
	struct fake_pair p;
	uint64_t end;
	int err;

	(void)state;
	for (unsigned int i = 0; i < 20; i++) {
		uint32_t op = i & 1 ? TEI_READ : TEI_WRITE;
		struct iovec iov = {local, 2 << 20};
		struct fake_slice *s;

		victim = fake_region_add(remote, REGION_LEN, ANY);
		assert_int_equal(fake_pair_open(&p, ops, settings), 0);
		victim_at = fake_n_pins + i / 2;
		fake_on_pin = remove_victim;
		s = fake_slice_create(&p, op, victim, at(0), &iov, 1);
		assert_int_equal(fake_post(&p, s), 0);
		end = tei_now_ms() + FAKE_LIMIT_MS;
		while (!s->n_done && !p.initiator_link.n_down &&
		       tei_now_ms() < end)
			fake_progress(&p);
		fake_on_pin = NULL;
		/* A read may be cut off where its frame cannot be finished. */
		assert_true(s->n_done || p.initiator_link.n_down);
		err = s->n_done ? s->err : -EFAULT;
		assert_true(err == -EFAULT || !err);
		assert_int_equal(fake_pins(), 0);
		fake_pair_close(&p);
		fake_slice_destroy(s);
		fake_region_remove(victim);
	}
}

static void any_failure_while_opening_leaves_nothing_behind(void **state)
{
	static const enum tei_fault kinds[] = {TEI_FAULT_ALLOC,
					       TEI_FAULT_SOCKET, TEI_FAULT_IO};
	struct fake_pair p;

	(void)state;
	for (unsigned int k = 0; k < 3; k++) {
		bool struck = true;

		for (unsigned int n = 1; struck; n++) {
			int rc;

			tei_fault_arm(kinds[k], n);
			rc = fake_pair_open(&p, ops, settings);
			struck = tei_fault_struck(kinds[k]);
			tei_fault_disarm_all();
			if (!struck)
				assert_int_equal(rc, 0);
			if (!rc)
				fake_pair_close(&p);
			assert_true(n < 500);
		}
	}
}

static void any_failure_under_way_ends_every_slice_once(void **state)
{
	static const enum tei_fault kinds[] = {TEI_FAULT_ALLOC, TEI_FAULT_IO};
	uint64_t id = fake_region_add(remote, REGION_LEN, ANY);
	struct fake_slice *s[MANY];
	struct iovec iov[MANY];
	struct fake_pair p;

	(void)state;
	for (unsigned int i = 0; i < 40; i++) {
		unsigned int n_posted = 0;

		assert_int_equal(fake_pair_open(&p, ops, settings), 0);
		create_many(&p, id, s, iov);
		tei_fault_arm(kinds[i % 2], 1 + i / 2 * 3);
		while (n_posted < MANY && !p.initiator_link.n_down &&
		       !fake_post(&p, s[n_posted])) {
			if (n_posted % 5 == 4 && !s[n_posted - 3]->n_done)
				p.ops->cancel(p.initiator,
					      s[n_posted - 3]->slice);
			n_posted++;
		}
		for (unsigned int k = 0; k < 100; k++)
			fake_progress(&p);
		tei_fault_disarm_all();
		fake_pair_close(&p);
		for (unsigned int k = 0; k < MANY; k++) {
			assert_int_equal(s[k]->n_done, k < n_posted);
			fake_slice_destroy(s[k]);
		}
		assert_int_equal(fake_pins(), 0);
	}
	fake_region_remove(id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_of_every_size_arrive),
		cmocka_unit_test(pieces_and_checksums_fit_together),
		cmocka_unit_test(refused_slices_change_nothing),
		cmocka_unit_test(key_of_wrong_length_is_refused),
		cmocka_unit_test(nothing_is_applied_after_the_epoch_ends),
		cmocka_unit_test(cancelled_slices_end_once_and_harm_no_other),
		cmocka_unit_test(cancel_needs_nothing_from_the_peer),
		cmocka_unit_test(memory_of_a_cancelled_read_is_left_alone),
		cmocka_unit_test(flush_hands_every_slice_back_at_once),
		cmocka_unit_test(
			dropped_target_applies_nothing_and_the_peer_hears),
		cmocka_unit_test(
			closed_lane_is_silent_while_a_child_has_its_socket),
		cmocka_unit_test(region_may_go_in_the_middle),
		cmocka_unit_test(
			any_failure_while_opening_leaves_nothing_behind),
		cmocka_unit_test(any_failure_under_way_ends_every_slice_once),
	};
	int failed;

	ops = &tei_backend_loop;
	failed = cmocka_run_group_tests_name("loop", tests, NULL, NULL);
	ops = &tei_backend_tcp;
	failed += cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
	settings = tiny;
	failed += cmocka_run_group_tests_name("tcp tiny", tests, NULL, NULL);
	fake_copies = 3;
	failed += cmocka_run_group_tests_name("tcp tiny, copied", tests, NULL,
					      NULL);
	settings = NULL;
	failed += cmocka_run_group_tests_name("tcp, copied", tests, NULL, NULL);
	return failed;
}
