/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_spread.c - regions that rails have in part
 *
 * Of the pieces of a region, rails "fake/a" and "fake/b" have every other one
 * each. Every byte arrives by a rail that has it, or by "spare/c", which has
 * all, or the request fails.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/wait.h"
#include "tests/unit/te/fake.h"
#include "tests/unit/te/rig.h"

#define LEN    ((size_t)2 << 20)
#define PIECE  ((size_t)100 << 10) /* no multiple of a slice, nor LEN of it */
#define PIECES 37                  /* local ones of a request */

static struct te_engine *owner, *user;
static te_segment_id segment;
static uint8_t *memory, *local;

static int set_up_with(const char *const settings[])
{
	fake_reset();
	memory = calloc(1, LEN);
	local = malloc(LEN);
	assert_true(memory && local);
	rig_fill(local, LEN);
	user = rig_engine(settings);
	owner = rig_engine(settings);
	atomic_store(&fake.piece, PIECE);
	/* By the preferred rails, or not at all. */
	atomic_store(&fake.not_c_at, (uintptr_t)memory);
	return 0;
}

static int set_up(void **state)
{
	static const char *const quick[] = {"reroute_after", "50ms",
					    "slice_max", "64k", NULL};

	(void)state;
	return set_up_with(quick);
}

static int set_up_two_workers(void **state)
{
	static const char *const two[] = {
		"reroute_after", "50ms", "slice_max", "64k",
		"workers",       "2",    NULL};

	(void)state;
	return set_up_with(two);
}

static int tear_down(void **state)
{
	(void)state;
	fake_reset();
	te_engine_destroy(user);
	te_engine_destroy(owner);
	free(memory);
	free(local);
	return 0;
}

static void share_memory(void)
{
	rig_region(owner, memory, LEN, RIG_ANY);
	segment = rig_segment(user, owner);
}

static int move(uint32_t op, size_t from, size_t length)
{
	return rig_move(user, segment, op, memory + from, local + from, length);
}

static void arrives(void)
{
	memset(memory, 0, LEN);
	assert_int_equal(move(TE_WRITE, 0, LEN), 0);
	assert_memory_equal(memory, local, LEN);
	assert_int_equal(atomic_load(&fake.astray), 0);
}

static void each_byte_goes_by_a_rail_that_has_it(void **state)
{
	(void)state;
	share_memory();
	arrives();
	assert_true(atomic_load(&fake.done[0]) > 0);
	assert_true(atomic_load(&fake.done[1]) > 0);
	assert_int_equal(atomic_load(&fake.done[2]), 0);
	memset(local, 0, LEN);
	assert_int_equal(move(TE_READ, 0, LEN), 0);
	assert_memory_equal(memory, local, LEN);
	assert_int_equal(atomic_load(&fake.astray), 0);
}

static void ranges_of_any_place_and_length_arrive(void **state)
{
	static const size_t froms[] = {0, 1, PIECE - 1, PIECE, PIECE + 1};
	static const size_t lengths[] = {1, 2, PIECE - 1, PIECE, 3 * PIECE};

	(void)state;
	share_memory();
	for (size_t i = 0; i < TEST_COUNT(froms); i++) {
		for (size_t k = 0; k < TEST_COUNT(lengths); k++) {
			memset(memory, 0, LEN);
			assert_int_equal(move(TE_WRITE, froms[i], lengths[k]),
					 0);
			assert_memory_equal(memory + froms[i], local + froms[i],
					    lengths[k]);
			assert_true(!froms[i] || !memory[froms[i] - 1]);
			assert_int_equal(memory[froms[i] + lengths[k]], 0);
		}
	}
	assert_int_equal(atomic_load(&fake.astray), 0);
}

/* Requests of which each could share a slice with the next. */
static void small_requests_side_by_side_are_not_merged_across(void **state)
{
	enum { N = 64, SMALL = 4096 };
	struct iovec pieces[N];
	struct te_request requests[N];
	struct te_batch *batch;
	struct te_completion c;

	(void)state;
	share_memory();
	for (size_t i = 0; i < N; i++) {
		pieces[i] = (struct iovec){local + i * SMALL, SMALL};
		requests[i] = rig_request(segment, TE_WRITE, memory + i * SMALL,
					  &pieces[i]);
	}
	assert_int_equal(te_batch_create(user, N, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, N), 0);
	assert_int_equal(te_batch_wait(batch, RIG_WAIT_MS), 0);
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(te_batch_poll(batch, &c, 1), 1);
		assert_int_equal(c.error, 0);
	}
	te_batch_destroy(batch);
	assert_memory_equal(memory, local, (size_t)N * SMALL);
	assert_int_equal(atomic_load(&fake.astray), 0);
}

/* Also where an endpoint breaks in between. */
static void checksum_is_of_all_pieces(void **state)
{
	struct iovec piece = {local, LEN};
	struct te_request r;
	struct te_completion c;

	(void)state;
	share_memory();
	r = rig_request(segment, TE_WRITE, memory, &piece);
	r.flags = TE_CRC;
	r.crc_from = 12345;
	r.crc_len = LEN - 54321;
	for (int after = -1; after < 8; after += 3) {
		atomic_store(&fake.break_after, after);
		c = rig_run(user, &r);
		assert_int_equal(c.error, 0);
		assert_int_equal(c.bytes, LEN);
		assert_int_equal(c.crc,
				 te_crc32c(0, local + 12345, LEN - 54321));
	}
	assert_memory_equal(memory, local, LEN);
}

/* One of the local pieces is empty; none begins where a part of a rail does. */
static void cut(struct iovec pieces[PIECES])
{
	size_t at = 0;

	for (size_t i = 0; i < PIECES; i++) {
		size_t n = LEN / PIECES - 3 + i;

		if (i == PIECES / 2)
			n = 0;
		if (i == PIECES - 1)
			n = LEN - at;
		pieces[i] = (struct iovec){local + at, n};
		at += n;
	}
}

static void move_pieces(const struct iovec *pieces, uint32_t op)
{
	struct te_request r = rig_request(segment, op, memory, pieces);
	struct te_completion c;

	r.n_pieces = PIECES;
	r.flags = TE_CRC;
	r.crc_len = LEN;
	rig_fill(op == TE_WRITE ? local : memory, LEN);
	memset(op == TE_WRITE ? memory : local, 0, LEN);
	c = rig_run(user, &r);
	assert_int_equal(c.error, 0);
	assert_int_equal(c.bytes, LEN);
	assert_int_equal(c.crc, te_crc32c(0, local, LEN));
	assert_memory_equal(memory, local, LEN);
}

static void requests_of_several_local_pieces_arrive(void **state)
{
	struct iovec pieces[PIECES];

	(void)state;
	share_memory();
	cut(pieces);
	for (int after = -1; after < 12; after += 3) {
		atomic_store(&fake.break_after, after);
		move_pieces(pieces, TE_WRITE);
		atomic_store(&fake.break_after, after);
		move_pieces(pieces, TE_READ);
	}
	assert_int_equal(atomic_load(&fake.astray), 0);
}

static void endpoint_that_breaks_is_no_loss(void **state)
{
	(void)state;
	share_memory();
	for (int rail = 0; rail < 2; rail++) {
		atomic_store(&fake.break_rail, rail);
		atomic_store(&fake.break_after, 3);
		arrives();
	}
	assert_true(test_stat(user, "te_endpoints_down_total", NULL) >= 2);
}

static void pieces_of_a_dead_rail_go_by_another_backend(void **state)
{
	(void)state;
	atomic_store(&fake.not_c_at, 0);
	atomic_store(&fake.dead, 2);
	share_memory();
	arrives();
	assert_true(atomic_load(&fake.done[0]) > 0);
	assert_true(atomic_load(&fake.done[2]) > 0);
}

static void rail_that_refuses_its_pieces_is_done_without(void **state)
{
	(void)state;
	atomic_store(&fake.not_c_at, 0);
	atomic_store(&fake.unable, 2);
	share_memory();
	arrives();
	assert_true(atomic_load(&fake.done[2]) > 0);
}

static void request_fails_whose_bytes_no_rail_has(void **state)
{
	(void)state;
	share_memory();
	atomic_store(&fake.unable, 2);
	assert_int_equal(move(TE_WRITE, 0, LEN), -EIO);
	assert_int_equal(move(TE_WRITE, 0, PIECE), 0);
	assert_memory_equal(memory, local, PIECE);
}

/* Our rail "b" reaches none of the peer's, so nobody has its pieces for us. */
static void request_fails_where_the_peer_has_more_rails(void **state)
{
	(void)state;
	atomic_store(&fake.lone, 2);
	share_memory();
	assert_int_equal(move(TE_WRITE, 0, PIECE), 0);
	assert_memory_equal(memory, local, PIECE);
	assert_int_equal(move(TE_WRITE, 0, PIECE + 1), -EIO);
	assert_int_equal(memory[PIECE], 0);
}

/* What "b" would have to copy first, as it is not registered with it. */
static void rail_that_has_the_local_memory_is_preferred(void **state)
{
	(void)state;
	rig_region(user, local, LEN, 0);
	atomic_store(&fake.piece, 0);
	share_memory();
	for (size_t from = 0; from + 2 * PIECE <= LEN; from += 2 * PIECE)
		assert_int_equal(move(TE_WRITE, from, PIECE), 0);
	assert_true(atomic_load(&fake.done[0]) > 0);
	assert_int_equal(atomic_load(&fake.done[1]), 0);
}

/* "b" is not asked, so nobody has its pieces. */
static void region_with_a_gap_is_refused(void **state)
{
	struct te_region region = {
		.addr = memory, .length = LEN, .access = RIG_ANY};
	te_region_id id;

	(void)state;
	atomic_store(&fake.only_a_at, (uintptr_t)memory);
	assert_int_equal(te_region_add(owner, &region, &id), -ENOBUFS);
	atomic_store(&fake.only_a_at, 0);
	assert_int_equal(te_region_add(owner, &region, &id), 0);
}

#define WITH(set_up, test) \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define EITHER(test) WITH(set_up, test), WITH(set_up_two_workers, test)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EITHER(each_byte_goes_by_a_rail_that_has_it),
		EITHER(ranges_of_any_place_and_length_arrive),
		EITHER(small_requests_side_by_side_are_not_merged_across),
		EITHER(checksum_is_of_all_pieces),
		EITHER(requests_of_several_local_pieces_arrive),
		EITHER(endpoint_that_breaks_is_no_loss),
		EITHER(pieces_of_a_dead_rail_go_by_another_backend),
		EITHER(rail_that_refuses_its_pieces_is_done_without),
		EITHER(request_fails_whose_bytes_no_rail_has),
		EITHER(request_fails_where_the_peer_has_more_rails),
		EITHER(rail_that_has_the_local_memory_is_preferred),
		EITHER(region_with_a_gap_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
