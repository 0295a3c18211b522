/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_bounce.c - local memory that nobody registered */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/chance.h"
#include "base/log.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/verbs_rig.h"

#define SLICES 48
#define LENGTH 16384u
#define BLOCKS 4u

static const char *const few_blocks[] = {"verbs.bounce=262144", NULL};

static uint8_t elsewhere[RIG_LEN + 2];

static int set_up(void **state)
{
	(void)state;
	tei_log_set_level(TEI_LOG_ERROR);
	return verbs_rig_open(few_blocks, RIG_RW);
}

static uint32_t n_free(void)
{
	return verbs_rail(rig.pair.a.rail)->bounce.n_free;
}

static int tear_down(void **state)
{
	(void)state;
	if (verbs_rail(rig.pair.a.rail)->bounce.n != n_free())
		return -1;
	verbs_rig_close();
	return 0;
}

/* One piece at @local, against the far memory from @at on. */
static struct fake_slice *slice_at(uint32_t op, size_t at, uint8_t *local,
				   size_t length)
{
	struct fake_slice *s = verbs_rig_slice(op, at, length);

	s->piece.iov_base = local;
	return s;
}

static void any_memory_is_carried_both_ways(void **state)
{
	static const size_t sizes[] = {1,     64,    65,     4097,
				       65535, 65536, 200001, RIG_LEN};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
			size_t n = sizes[i];
			struct fake_slice *s =
				slice_at(op, 0, elsewhere + 1, n);

			verbs_rig_fill(elsewhere, sizeof(elsewhere), i + op);
			verbs_rig_fill(rig.far, RIG_LEN, 100 + i + op);
			elsewhere[0] = elsewhere[n + 1] = 0x5a;
			s->slice->crc = 7;
			s->slice->crc_len = n;
			verbs_rig_carry(s);
			assert_int_equal(s->err, 0);
			assert_memory_equal(elsewhere + 1, rig.far, n);
			assert_int_equal(elsewhere[0], 0x5a);
			assert_int_equal(elsewhere[n + 1], 0x5a);
			assert_int_equal(s->slice->crc,
					 tei_crc32c_raw(7, rig.far, n));
			fake_slice_destroy(s);
		}
	}
}

#define PIECES 41

/* Registered ones and others by turns, some of no bytes. */
static size_t lay_out(struct iovec *iov)
{
	size_t at = 0, all = 0;

	for (size_t i = 0; i < PIECES; i++) {
		uint8_t *base = i % 2 ? elsewhere : rig.near;

		iov[i] = (struct iovec){base + at, i * 977 % 7000};
		all += iov[i].iov_len;
		at += 7000;
	}
	return all;
}

static void registered_pieces_and_others_go_together(void **state)
{
	struct iovec iov[PIECES];
	size_t skip = 500, all = lay_out(iov) + 100;

	(void)state;
	iov[0].iov_len = skip + 100;
	for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
		struct fake_slice *s = verbs_rig_pieces(op, 3, iov, PIECES);
		const uint8_t *far = rig.far + 3;

		s->slice->skip = skip;
		s->slice->length = all;
		verbs_rig_fill(rig.near, RIG_LEN, op);
		verbs_rig_fill(elsewhere, RIG_LEN, 10 + op);
		verbs_rig_fill(rig.far, RIG_LEN, 20 + op);
		verbs_rig_carry(s);
		assert_int_equal(s->err, 0);
		for (size_t i = 0; i < PIECES; i++) {
			size_t out = i ? 0 : skip;
			size_t n = iov[i].iov_len - out;

			assert_memory_equal((uint8_t *)iov[i].iov_base + out,
					    far, n);
			far += n;
		}
		fake_slice_destroy(s);
	}
}

static void small_writes_go_inline_and_need_no_block(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	fake_verbs_hang(0, true);
	for (size_t i = 0; i < SLICES; i++) {
		s[i] = slice_at(TEI_WRITE, i * 64, elsewhere + i * 64, 64);
		assert_int_equal(fake_post(&rig.pair, s[i]), 0);
	}
	assert_int_equal(n_free(), BLOCKS);
	fake_verbs_hang(0, false);
	verbs_rig_await(s, SLICES);
	assert_int_equal(fake_verbs_counts().inlined, SLICES);
	assert_memory_equal(rig.far, elsewhere, SLICES * 64);
}

static void post_elsewhere(struct fake_slice **s, uint32_t op)
{
	for (size_t i = 0; i < SLICES; i++) {
		s[i] = slice_at(op, i * LENGTH, elsewhere + i * LENGTH, LENGTH);
		assert_int_equal(tei_backend_verbs.post(rig.pair.initiator,
							&s[i]->slice, 1),
				 1);
	}
}

static void slices_wait_for_blocks_in_turn(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
		verbs_rig_fill(elsewhere, RIG_LEN, op);
		fake_verbs_hang(0, true);
		post_elsewhere(s, op);
		assert_int_equal(n_free(), 0);
		fake_verbs_hang(0, false);
		verbs_rig_await(s, SLICES);
		assert_memory_equal(rig.far, elsewhere, SLICES * LENGTH);
		assert_int_equal(n_free(), BLOCKS);
	}
}

static void endpoints_share_the_blocks(void **state)
{
	struct fake_slice *mine[SLICES], *theirs[SLICES];
	struct tei_endpoint *first = rig.pair.initiator;
	struct fake_pair other = rig.pair;
	struct pollfd fd = {.fd = tei_backend_verbs.wait_fd(rig.pair.a.rail),
			    .events = POLLIN};

	(void)state;
	assert_int_equal(fake_pair_connect(&other), 0);
	verbs_rig_wait(&other.target_link.n_up, 1);
	fake_verbs_hang(0, true);
	post_elsewhere(mine, TEI_WRITE); /* has them all */
	rig.pair.initiator = other.initiator;
	post_elsewhere(theirs, TEI_WRITE);
	rig.pair.initiator = first;
	for (int i = 0; i < 200; i++)
		fake_progress(&rig.pair);
	assert_int_equal(poll(&fd, 1, 0), 0);
	/* They come free behind a round's posting: it is woken for the other. */
	fake_flush(first, -ECANCELED);
	assert_int_equal(poll(&fd, 1, 0), 1);
	for (size_t i = 0; i < SLICES; i++) {
		assert_int_equal(mine[i]->err, -ECANCELED);
		fake_slice_destroy(mine[i]);
	}
	fake_verbs_hang(0, false);
	verbs_rig_await(theirs, SLICES);
	fake_pair_disconnect(&other);
	verbs_rig_rejoin();
}

static void region_that_goes_away_meanwhile_is_copied(void **state)
{
	static const char *const shallow[] = {
		"verbs.bounce=262144", "verbs.lanes=1", "verbs.depth=4", NULL};
	struct fake_slice *s[SLICES];

	(void)state;
	verbs_rig_reopen(shallow);
	verbs_rig_fill(rig.near, RIG_LEN, 5);
	fake_verbs_hang(0, true);
	verbs_rig_post(s, SLICES, TEI_WRITE, LENGTH);
	assert_int_equal(n_free(), BLOCKS);
	assert_int_equal(tei_backend_verbs.region_hide(rig.pair.a.rail, 1),
			 -EBUSY);
	fake_verbs_hang(0, false);
	verbs_rig_await(s, SLICES);
	assert_memory_equal(rig.near, rig.far, SLICES * LENGTH);
	assert_int_equal(tei_backend_verbs.region_hide(rig.pair.a.rail, 1), 0);
}

/* ---- quiet ---- */

static void memory_of_ended_reads_is_left_alone(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	memset(elsewhere, 0x11, sizeof(elsewhere));
	memset(rig.far, 0x22, RIG_LEN);
	fake_verbs_hang(0, true);
	post_elsewhere(s, TEI_READ);
	tei_backend_verbs.cancel(rig.pair.initiator, s[1]->slice);
	fake_flush(rig.pair.initiator, -ECONNRESET);
	assert_int_equal(s[1]->err, -ECANCELED);
	assert_int_equal(n_free(), BLOCKS);
	fake_verbs_hang(0, false);
	for (int i = 0; i < 200; i++)
		fake_progress(&rig.pair);
	for (size_t i = 0; i < SLICES; i++) {
		assert_int_equal(s[i]->n_done, 1);
		assert_int_not_equal(s[i]->err, 0);
		fake_slice_destroy(s[i]);
	}
	for (size_t i = 0; i < SLICES * LENGTH; i++)
		assert_int_equal(elsewhere[i], 0x11);
	verbs_rig_rejoin();
}

static void chain_that_is_not_taken_gives_its_blocks_back(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	for (unsigned int n = 0; n < BLOCKS; n++) {
		fake_verbs_take(n);
		s[0] = slice_at(TEI_READ, 0, elsewhere, RIG_LEN);
		assert_int_equal(fake_post(&rig.pair, s[0]), 0);
		fake_verbs_take(UINT32_MAX);
		verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
		fake_flush(rig.pair.initiator, -ECONNRESET);
		assert_int_equal(s[0]->n_done, 1);
		assert_int_equal(n_free(), BLOCKS);
		fake_slice_destroy(s[0]);
		verbs_rig_rejoin();
	}
}

/* ---- seeded faults ---- */

#define ROUNDS   4000u
#define AT_ONCE  16u
#define PER_SLOT (RIG_LEN / AT_ONCE)

struct transient { /* a slice, and memory that is gone as soon as it has ended */
	struct fake_slice *s;
	uint8_t *memory;
	uint64_t seed;
};

static void begin(struct transient *g, size_t slot, uint64_t *chance)
{
	size_t n = 1 + tei_chance(chance) % (PER_SLOT - 1);
	uint32_t op = tei_chance(chance) % 2 ? TEI_READ : TEI_WRITE;
	size_t at = slot * PER_SLOT;

	g->memory = malloc(n);
	assert_non_null(g->memory);
	g->seed = tei_chance(chance);
	verbs_rig_fill(op == TEI_READ ? rig.far + at : g->memory, n, g->seed);
	g->s = slice_at(op, at, g->memory, n);
}

/* True: it ended well, with the right bytes. */
static bool end(struct transient *g, size_t slot)
{
	size_t n = g->s->slice->length;
	bool good = !g->s->err;

	assert_int_equal(g->s->n_done, 1);
	if (good)
		assert_memory_equal(g->memory, rig.far + slot * PER_SLOT, n);
	free(g->memory);
	fake_slice_destroy(g->s);
	g->s = NULL;
	return good;
}

static unsigned int mend(void)
{
	if (!rig.pair.initiator_link.n_down && !rig.pair.target_link.n_down)
		return 0;
	verbs_rig_rejoin();
	return 1;
}

/* An endpoint that is broken takes none until it is made anew. How often. */
static unsigned int post(struct fake_slice *s)
{
	unsigned int n_breaks = mend();

	for (;;) {
		s->slice->ep = rig.pair.initiator;
		if (!fake_post(&rig.pair, s))
			return n_breaks;
		fake_progress(&rig.pair);
		n_breaks += mend();
	}
}

static void faults_leave_right_bytes_and_all_blocks(void **state)
{
	unsigned int n_good = 0, n_bad = 0, n_breaks = 0;
	struct transient transients[AT_ONCE];
	uint64_t chance = 11;

	(void)state;
	fake_verbs_spoil_some(3, 30000);
	for (unsigned int i = 0; i < TEST_TIMES(ROUNDS); i += AT_ONCE) {
		for (size_t k = 0; k < AT_ONCE; k++) {
			begin(&transients[k], k, &chance);
			n_breaks += post(transients[k].s);
			if (tei_chance(&chance) % 50 == 0)
				tei_backend_verbs.cancel(
					rig.pair.initiator,
					transients[k].s->slice);
		}
		for (size_t k = 0; k < AT_ONCE; k++) {
			while (!transients[k].s->n_done) {
				fake_progress(&rig.pair);
				n_breaks += mend();
			}
			if (end(&transients[k], k))
				n_good++;
			else
				n_bad++;
		}
		assert_int_equal(n_free(), BLOCKS);
	}
	fake_verbs_spoil_some(0, 0);
	assert_true(n_breaks > TEST_TIMES(20));
	assert_true(n_bad >= n_breaks && n_good > n_bad);
	print_message("%u good, %u failed, %u endpoints broken\n", n_good,
		      n_bad, n_breaks);
}

/* ---- none to be had ---- */

static void assert_left_to_others(void)
{
	struct iovec iov[2] = {{rig.near, 10}, {elsewhere, 100}};
	struct fake_slice *s = verbs_rig_pieces(TEI_WRITE, 0, iov, 2);

	memset(rig.near, 7, 10);
	verbs_rig_carry(s);
	assert_int_equal(s->err, -EOPNOTSUPP);
	assert_int_equal(rig.far[0], 0); /* nothing was touched */
	fake_slice_destroy(s);
	s = verbs_rig_slice(TEI_WRITE, 0, 1000);
	verbs_rig_carry(s);
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
}

static void without_blocks_it_is_left_to_others(void **state)
{
	static const char *const none[] = {"verbs.bounce=0", NULL};

	(void)state;
	verbs_rig_reopen(none);
	assert_left_to_others();
}

static void blocks_that_cannot_be_registered_are_done_without(void **state)
{
	(void)state;
	verbs_rig_close();
	fake_verbs_start(1);
	fake_verbs_device(0)->max_mr_size = 65536;
	assert_int_equal(
		verbs_rig_open_on(&fake_verbs, "fake0/1", few_blocks, RIG_RW),
		0);
	assert_left_to_others();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(any_memory_is_carried_both_ways),
		TEST(registered_pieces_and_others_go_together),
		TEST(small_writes_go_inline_and_need_no_block),
		TEST(slices_wait_for_blocks_in_turn),
		TEST(endpoints_share_the_blocks),
		TEST(region_that_goes_away_meanwhile_is_copied),
		TEST(memory_of_ended_reads_is_left_alone),
		TEST(chain_that_is_not_taken_gives_its_blocks_back),
		TEST(faults_leave_right_bytes_and_all_blocks),
		TEST(without_blocks_it_is_left_to_others),
		TEST(blocks_that_cannot_be_registered_are_done_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
