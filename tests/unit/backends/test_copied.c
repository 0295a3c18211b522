/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_copied.c - tcp where the target's memory is a GPU's, which is copied
 *
 * The copies of the fake core end in turns, so that a test sees them under way.
 */
#include <errno.h>
#include <string.h>

#include <te/te.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/fake_core.h"

extern const struct tei_backend_ops tei_backend_tcp;

#define LEN  ((size_t)1 << 20)
#define ANY  (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)
#define MANY 24u
#define ROOM ((uint64_t)16 << 20)

static uint8_t remote[LEN], local[LEN];
static struct fake_pair pair;
static uint64_t region;

static int set_up(void **state)
{
	(void)state;
	fake_copies = 1;
	fake_copy_room = ROOM;
	fake_copy_fails = false;
	region = fake_region_add(remote, LEN, ANY);
	for (size_t i = 0; i < LEN; i++) {
		local[i] = (uint8_t)(i * 7 + i / 255);
		remote[i] = (uint8_t)(i * 11 + i / 253);
	}
	assert_int_equal(fake_pair_open(&pair, &tei_backend_tcp, NULL), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake_pair_close(&pair);
	fake_region_remove(region);
	assert_int_equal(fake_copies_begun(), 0);
	assert_int_equal(fake_pins(), 0);
	fake_copies = 0;
	return 0;
}

/* A slice of @len bytes at @at here and there. */
static struct fake_slice *post(uint32_t op, size_t at, size_t len,
			       struct iovec *iov)
{
	struct fake_slice *s;

	*iov = (struct iovec){local + at, len};
	s = fake_slice_create(&pair, op, region, (uintptr_t)remote + at, iov,
			      1);
	assert_int_equal(fake_post(&pair, s), 0);
	return s;
}

static int move(uint32_t op, size_t at, size_t len)
{
	struct iovec iov;
	struct fake_slice *s = post(op, at, len, &iov);
	int err;

	assert_true(fake_wait(&pair, &s->n_done, 1));
	assert_int_equal(s->n_done, 1);
	err = s->err;
	fake_slice_destroy(s);
	return err;
}

/* The core does what a target had no room for again. */
static int move_at_last(uint32_t op, size_t at, size_t len)
{
	int err;

	do
		err = move(op, at, len);
	while (err == -EAGAIN);
	return err;
}

static void little_room_is_enough(void **state)
{
	static const size_t sizes[] = {1, 100, 4096, 70000, 262144};
	static const uint64_t rooms[] = {16384, 65536, 262144};
	static uint8_t before[LEN];

	(void)state;
	memcpy(before, remote, LEN);
	for (size_t i = 0; i < 3 * TEST_COUNT(sizes); i++) {
		size_t n = sizes[i / 3];

		fake_copy_room = rooms[i % 3];
		assert_int_equal(move_at_last(TEI_READ, 0, 2 * n), 0);
		assert_memory_equal(local, before, 2 * n);
		memset(local, (int)i + 1, LEN);
		assert_int_equal(move_at_last(TEI_WRITE, LEN / 2, 2 * n), 0);
		assert_memory_equal(remote + LEN / 2, local + LEN / 2, 2 * n);
		assert_int_equal(fake_copy_room, rooms[i % 3]);
	}
}

/* Others have all room for a while: nothing is lost, and none is refused. */
static void no_room_is_waited_for(void **state)
{
	struct iovec iov[2];
	struct fake_slice *s[2];

	(void)state;
	fake_copy_room = 0;
	s[0] = post(TEI_READ, 0, 65536, &iov[0]);
	s[1] = post(TEI_WRITE, 262144, 700000, &iov[1]);
	for (uint64_t end = tei_now_ms() + 20; tei_now_ms() < end;)
		fake_progress(&pair);
	assert_int_equal(s[0]->n_done, 0);
	fake_copy_room = ROOM;
	for (int i = 0; i < 2; i++) {
		assert_true(fake_wait(&pair, &s[i]->n_done, 1));
		assert_true(!s[i]->err || (i && s[i]->err == -EAGAIN));
		fake_slice_destroy(s[i]);
	}
	assert_memory_equal(local, remote, 65536);
}

static void a_copy_that_fails_ends_its_request_alone(void **state)
{
	struct fake_slice *s[MANY];
	struct iovec iov[MANY];
	unsigned int n_failed = 0;

	(void)state;
	for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
		for (unsigned int i = 0; i < MANY; i++)
			s[i] = post(op, i * 20000u, 20000, &iov[i]);
		fake_copy_fails = true;
		for (unsigned int i = 0; i < MANY; i++) {
			assert_true(fake_wait(&pair, &s[i]->n_done, 1));
			assert_true(!s[i]->err || s[i]->err == -EIO);
			n_failed += s[i]->err != 0;
			fake_slice_destroy(s[i]);
		}
	}
	assert_int_equal(n_failed, 2);
	assert_int_equal(pair.initiator_link.n_down, 0);
}

/* It stops in the middle of a frame: no memory of the stage waits for it. */
static void a_peer_that_stops_writing_holds_nothing(void **state)
{
	struct iovec iov;
	struct fake_slice *s = post(TEI_WRITE, 0, LEN, &iov);

	(void)state;
	assert_int_equal(fake_turn(pair.a.rail) < 0, 0);
	for (uint64_t end = tei_now_ms() + 20;
	     tei_now_ms() < end || fake_copies_begun();)
		(void)fake_turn(pair.b.rail);
	assert_int_equal(s->n_done, 0);
	assert_true(fake_copy_room == ROOM);
	assert_int_equal(fake_pins(), 0);
	assert_true(fake_wait(&pair, &s->n_done, 1));
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
	assert_memory_equal(remote, local, LEN);
}

static void a_peer_that_stops_reading_holds_little(void **state)
{
	struct fake_slice *s[MANY];
	struct iovec iov[MANY];

	(void)state;
	for (unsigned int i = 0; i < MANY; i++)
		s[i] = post(TEI_READ, 0, LEN, &iov[i]);
	for (uint64_t end = tei_now_ms() + 20;
	     tei_now_ms() < end || fake_copies_begun();)
		(void)fake_turn(pair.b.rail);
	/* Of each lane half a megabyte and a frame at most. */
	assert_true(fake_copy_room >= ROOM - 16 * (768u << 10));
	assert_int_equal(fake_pins(), 0);
	for (unsigned int i = 0; i < MANY; i++) {
		assert_true(fake_wait(&pair, &s[i]->n_done, 1));
		assert_int_equal(s[i]->err, 0);
		fake_slice_destroy(s[i]);
	}
	assert_true(fake_copy_room == ROOM);
}

/* The region is touched until then, whatever becomes of the connection. */
static void the_end_of_a_connection_waits_for_its_copies(void **state)
{
	for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
		struct iovec iov;
		struct fake_slice *s = post(op, 0, LEN, &iov);
		unsigned int turns = 0;

		(void)state;
		while (!fake_copies_begun()) {
			(void)tei_backend_tcp.progress(pair.a.rail, 64);
			(void)tei_backend_tcp.progress(pair.b.rail, 64);
		}
		assert_int_equal(tei_backend_tcp.flush(pair.target, -EIO),
				 -EINPROGRESS);
		for (; !pair.target_link.n_flushed; turns++) {
			assert_true(fake_copies_begun());
			(void)fake_turn(pair.b.rail);
		}
		assert_true(turns);
		assert_int_equal(fake_copies_begun(), 0);
		assert_int_equal(fake_pins(), 0);
		tei_backend_tcp.endpoint_close(pair.target);
		tei_free(pair.target);
		pair.target = NULL;
		assert_true(fake_wait(&pair, &pair.initiator_link.n_down, 1));
		fake_pair_disconnect(&pair);
		assert_int_equal(s->n_done, 1);
		fake_slice_destroy(s);
		assert_true(fake_copy_room == ROOM);
		assert_int_equal(fake_pair_connect(&pair), 0);
	}
}

/* A cancelled WRITE may land until the target has answered its end. */
static void cancelled_writes_are_copied_or_dropped(void **state)
{
	struct fake_slice *s[MANY];
	struct iovec iov[MANY];

	(void)state;
	for (unsigned int i = 0; i < MANY; i++) {
		s[i] = post(TEI_WRITE, 0, LEN, &iov[i]);
		for (unsigned int k = 0; k < i; k++)
			fake_progress(&pair);
		if (!s[i]->n_done)
			tei_backend_tcp.cancel(pair.initiator, s[i]->slice);
		assert_int_equal(s[i]->n_done, 1);
		fake_slice_destroy(s[i]);
	}
	assert_int_equal(move(TEI_WRITE, 0, LEN), 0);
	assert_int_equal(move(TEI_READ, 0, LEN), 0);
	assert_int_equal(pair.initiator_link.n_down, 0);
	while (fake_copies_begun())
		fake_progress(&pair);
	assert_true(fake_copy_room == ROOM);
}

#define TEST(test_) cmocka_unit_test_setup_teardown(test_, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(little_room_is_enough),
		TEST(no_room_is_waited_for),
		TEST(a_copy_that_fails_ends_its_request_alone),
		TEST(a_peer_that_stops_writing_holds_nothing),
		TEST(a_peer_that_stops_reading_holds_little),
		TEST(the_end_of_a_connection_waits_for_its_copies),
		TEST(cancelled_writes_are_copied_or_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
