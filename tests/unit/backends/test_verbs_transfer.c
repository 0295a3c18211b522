/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_transfer.c - bytes through queue pairs, and how they are posted */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/backends/verbs_rig.h"

#define SLICES 64

static void bytes_of_every_size_arrive_both_ways(void **state)
{
	static const size_t sizes[] = {1,    63,   64,     65,     4095,
				       4096, 4097, 100000, RIG_LEN};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
			struct fake_slice *s = verbs_rig_slice(op, 0, sizes[i]);

			verbs_rig_fill(rig.near, RIG_LEN, 2 * i + op);
			verbs_rig_fill(rig.far, RIG_LEN, 1000 + 2 * i + op);
			verbs_rig_carry(s);
			assert_int_equal(s->err, 0);
			assert_int_equal(s->bytes, sizes[i]);
			assert_memory_equal(rig.near, rig.far, sizes[i]);
			if (sizes[i] < RIG_LEN)
				assert_memory_not_equal(rig.near + sizes[i],
							rig.far + sizes[i], 8);
			fake_slice_destroy(s);
		}
	}
	assert_int_equal(rig.pair.a.rail->sent_bytes,
			 rig.pair.a.rail->received_bytes);
}

static void the_way_of_an_endpoint_is_told_in_words(void **state)
{
	const struct verbs_port *port =
		&verbs_rail(rig.pair.initiator->rail)->port;
	char gid[VERBS_GID_TEXT_LEN], text[TE_LINK_WAY_LEN], want[256];

	(void)state;
	tei_verbs_gid_text(&port->gid.gid, gid);
	(void)snprintf(want, sizeof(want),
		       "GID %u %s to %s, MTU %u (%u here, %u there), %u queue "
		       "pairs",
		       port->gid.index, gid, gid, port->offer.mtu,
		       port->offer.mtu, port->offer.mtu, port->offer.lanes);
	tei_backend_verbs.endpoint_way(rig.pair.initiator, text, sizeof(text));
	assert_string_equal(text, want);
}

static void many_pieces_go_with_few_requests(void **state)
{
	struct iovec iov[101];
	struct fake_slice *s;
	uint64_t before = fake_verbs_counts().requests;
	size_t at = 0;

	(void)state;
	verbs_rig_fill(rig.near, RIG_LEN, 1);
	for (size_t i = 0; i < TEST_COUNT(iov); i++) {
		iov[i] = (struct iovec){rig.near + at, i * 7 % 100};
		at += 100; /* gaps, and pieces of no bytes */
	}
	s = verbs_rig_pieces(TEI_WRITE, 0, iov, TEST_COUNT(iov));
	s->slice->skip = 0;
	verbs_rig_carry(s);
	assert_int_equal(s->err, 0);
	for (size_t i = 0, far = 0; i < TEST_COUNT(iov); i++) {
		assert_memory_equal(rig.far + far, iov[i].iov_base,
				    iov[i].iov_len);
		far += iov[i].iov_len;
	}
	assert_true(fake_verbs_counts().requests - before <= 26);
	fake_slice_destroy(s);
}

static void skipped_bytes_are_left_out_and_summed_right(void **state)
{
	struct iovec iov[2] = {{rig.near, 100}, {rig.near + 500, 100}};
	struct fake_slice *s = verbs_rig_pieces(TEI_WRITE, 10, iov, 2);

	(void)state;
	verbs_rig_fill(rig.near, 1000, 3);
	s->slice->skip = 30;
	s->slice->length = 150;
	s->slice->crc = 0xffffffff;
	s->slice->crc_from = 20;
	s->slice->crc_len = 120;
	verbs_rig_carry(s);
	assert_memory_equal(rig.far + 10, rig.near + 30, 70);
	assert_memory_equal(rig.far + 80, rig.near + 500, 80);
	assert_int_equal(s->slice->crc,
			 tei_crc32c_raw(0xffffffff, rig.far + 30, 120));
	fake_slice_destroy(s);
}

static void chunks_of_both_sides_are_respected(void **state)
{
	static const char *const small[] = {"verbs.chunk=65536", NULL};
	struct fake_slice *s;

	(void)state;
	verbs_rig_reopen(small);
	verbs_rig_fill(rig.near, RIG_LEN, 4);
	s = verbs_rig_pieces(TEI_WRITE, 1000, NULL, 0);
	s->piece = (struct iovec){rig.near + 5000, RIG_LEN - 10000};
	s->slice->iov = &s->piece;
	s->slice->n_iov = 1;
	s->slice->length = RIG_LEN - 10000;
	verbs_rig_carry(s);
	assert_int_equal(s->err, 0);
	assert_memory_equal(rig.far + 1000, rig.near + 5000, RIG_LEN - 10000);
	fake_slice_destroy(s);
}

/* ---- how it is posted ---- */

static void batch_costs_a_doorbell_a_lane_and_few_signals(void **state)
{
	struct fake_verbs_counts before = fake_verbs_counts(), after;
	struct fake_slice *s[SLICES];

	(void)state;
	verbs_rig_post(s, SLICES, TEI_WRITE, 1024);
	after = fake_verbs_counts();
	assert_true(after.doorbells - before.doorbells <= 2);
	verbs_rig_await(s, SLICES);
	after = fake_verbs_counts();
	assert_int_equal(after.requests - before.requests, SLICES);
	assert_true(after.signalled - before.signalled <= 2 + SLICES / 16);
}

static void small_writes_go_inline(void **state)
{
	uint64_t before = fake_verbs_counts().inlined;
	struct fake_slice *s[SLICES];

	(void)state;
	verbs_rig_post(s, SLICES, TEI_WRITE, 64);
	verbs_rig_await(s, SLICES);
	assert_int_equal(fake_verbs_counts().inlined - before, SLICES);
	verbs_rig_post(s, SLICES, TEI_WRITE, 65);
	verbs_rig_await(s, SLICES);
	verbs_rig_post(s, SLICES, TEI_READ, 64);
	verbs_rig_await(s, SLICES);
	assert_int_equal(fake_verbs_counts().inlined - before, SLICES);
}

static void reads_in_flight_are_bounded(void **state)
{
	static const char *const few[] = {"verbs.reads=3", NULL};
	struct fake_slice *s[SLICES];

	(void)state;
	verbs_rig_reopen(few);
	verbs_rig_post(s, SLICES, TEI_READ, 1024);
	verbs_rig_await(s, SLICES);
	assert_int_equal(fake_verbs_counts().most_reads, 6);
}

static void shallow_queues_take_what_they_can_and_go_on(void **state)
{
	static const char *const shallow[] = {"verbs.depth=4", "verbs.lanes=1",
					      NULL};
	struct fake_slice *s[SLICES];

	(void)state;
	verbs_rig_reopen(shallow);
	verbs_rig_fill(rig.near, RIG_LEN, 6);
	verbs_rig_post(s, SLICES, TEI_WRITE, 1024);
	verbs_rig_await(s, SLICES);
	assert_memory_equal(rig.near, rig.far, SLICES * 1024);
}

/* Each waits for completions, not for the other one. */
static void endpoints_without_room_let_the_rail_go_on(void **state)
{
	static const char *const shallow[] = {"verbs.depth=4", "verbs.lanes=1",
					      NULL};
	struct fake_slice *mine[SLICES], *theirs[SLICES];
	struct tei_endpoint *first;
	struct fake_pair other;

	(void)state;
	verbs_rig_reopen(shallow);
	first = rig.pair.initiator;
	other = rig.pair;
	assert_int_equal(fake_pair_connect(&other), 0);
	verbs_rig_wait(&other.target_link.n_up, 1);
	verbs_rig_fill(rig.near, RIG_LEN, 7);
	fake_verbs_hang(0, true);
	verbs_rig_post(mine, SLICES, TEI_WRITE, 1024);
	rig.pair.initiator = other.initiator;
	verbs_rig_post(theirs, SLICES, TEI_WRITE, 1024);
	rig.pair.initiator = first;
	fake_progress(&rig.pair);
	fake_verbs_hang(0, false);
	verbs_rig_await(mine, SLICES);
	verbs_rig_await(theirs, SLICES);
	fake_pair_disconnect(&other);
}

static void idle_rail_is_woken_by_its_descriptor(void **state)
{
	struct tei_rail *rail = rig.pair.a.rail;
	struct pollfd fd = {.fd = tei_backend_verbs.wait_fd(rail),
			    .events = POLLIN};
	struct fake_slice *s = verbs_rig_slice(TEI_WRITE, 0, 4096);

	(void)state;
	for (int i = 0; i < 200; i++) /* takes back what threads hold, too */
		fake_progress(&rig.pair);
	tei_backend_verbs.arm(rail);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(fake_post(&rig.pair, s), 0);
	assert_int_equal(poll(&fd, 1, 0), 1); /* armed: done at once */
	rail->woken = true;
	verbs_rig_wait(&s->n_done, 1);
	fake_slice_destroy(s);

	/* And what was done before it dozed is not forgotten. */
	s = verbs_rig_slice(TEI_WRITE, 0, 4096);
	for (int i = 0; i < 200; i++)
		fake_progress(&rig.pair);
	assert_int_equal(fake_post(&rig.pair, s), 0);
	tei_backend_verbs.arm(rail);
	assert_int_equal(poll(&fd, 1, 0), 1);
	rail->woken = true;
	assert_true(tei_backend_verbs.progress(rail, 64) > 0);
	assert_int_equal(s->n_done, 1);
	fake_slice_destroy(s);
}

#define TEST(name)                                              \
	cmocka_unit_test_setup_teardown(name, verbs_rig_set_up, \
					verbs_rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bytes_of_every_size_arrive_both_ways),
		TEST(the_way_of_an_endpoint_is_told_in_words),
		TEST(many_pieces_go_with_few_requests),
		TEST(skipped_bytes_are_left_out_and_summed_right),
		TEST(chunks_of_both_sides_are_respected),
		TEST(batch_costs_a_doorbell_a_lane_and_few_signals),
		TEST(small_writes_go_inline),
		TEST(reads_in_flight_are_bounded),
		TEST(shallow_queues_take_what_they_can_and_go_on),
		TEST(endpoints_without_room_let_the_rail_go_on),
		TEST(idle_rail_is_woken_by_its_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
