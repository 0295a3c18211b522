/* SPDX-License-Identifier: Apache-2.0 */
/* test_ofi_bounce.c - local memory that nobody registered */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/chance.h"
#include "base/log.h"
#include "tests/unit/backends/ofi_rig.h"

#define SLICES 48
#define LENGTH 16384u
#define BLOCKS 4u

static const char *const few_blocks[] = {"ofi.bounce=262144", NULL};

static uint8_t elsewhere[RIG_LEN + 2];

/* Shapes that take any memory have no blocks, and nothing to be tested here. */
static bool has_blocks(void)
{
	return fake_ofi_info(0)->domain_attr->mr_mode & FI_MR_LOCAL;
}

static uint32_t n_free(void)
{
	return ofi_rail(rig.pair.a.rail)->regions.bounce.n_free;
}

static void fill(uint8_t *at, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)tei_chance(&seed);
}

static int set_up(void **state)
{
	(void)state;
	tei_log_set_level(TEI_LOG_ERROR);
	ofi_rig_start();
	return ofi_rig_open(few_blocks);
}

static int tear_down(void **state)
{
	if (has_blocks() &&
	    ofi_rail(rig.pair.a.rail)->regions.bounce.n != n_free())
		return -1;
	return ofi_rig_tear_down(state);
}

/* One piece at @local, against the far memory from @at on. */
static struct fake_slice *slice_at(uint32_t op, size_t at, uint8_t *local,
				   size_t length)
{
	struct fake_slice *s = ofi_rig_slice(op, at, length);

	s->piece.iov_base = local;
	return s;
}

static void any_memory_is_carried_both_ways(void **state)
{
	static const size_t sizes[] = {1, 4097, 65535, 65536, 200001, RIG_LEN};

	(void)state;
	for (size_t i = 0; i < 2 * TEST_COUNT(sizes); i++) {
		uint32_t op = i % 2 ? TEI_READ : TEI_WRITE;
		size_t n = sizes[i / 2];
		struct fake_slice *s = slice_at(op, 0, elsewhere + 1, n);

		fill(elsewhere, sizeof(elsewhere), i);
		fill(rig.far, RIG_LEN, 100 + i);
		elsewhere[0] = elsewhere[n + 1] = 0x5a;
		s->slice->crc = 7;
		s->slice->crc_len = n;
		ofi_rig_carry(s);
		assert_int_equal(s->err, 0);
		assert_memory_equal(elsewhere + 1, rig.far, n);
		assert_int_equal(elsewhere[0], 0x5a);
		assert_int_equal(elsewhere[n + 1], 0x5a);
		assert_int_equal(s->slice->crc, tei_crc32c_raw(7, rig.far, n));
		fake_slice_destroy(s);
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
		struct fake_slice *s = ofi_rig_pieces(op, 3, iov, PIECES);
		const uint8_t *far = rig.far + 3;

		s->slice->skip = skip;
		s->slice->length = all;
		fill(rig.near, RIG_LEN, op);
		fill(elsewhere, RIG_LEN, 10 + op);
		fill(rig.far, RIG_LEN, 20 + op);
		ofi_rig_carry(s);
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

static void post_elsewhere(struct tei_endpoint *ep, struct fake_slice **s,
			   uint32_t op)
{
	for (size_t i = 0; i < SLICES; i++) {
		s[i] = slice_at(op, i * LENGTH, elsewhere + i * LENGTH, LENGTH);
		s[i]->slice->ep = ep;
		assert_int_equal(tei_backend_ofi.post(ep, &s[i]->slice, 1), 1);
	}
}

static void await_all(struct fake_slice **s)
{
	for (size_t i = 0; i < SLICES; i++)
		ofi_rig_wait(&s[i]->n_done, 1);
	assert_int_equal(ofi_rig_count_good(s, SLICES), SLICES);
}

static void slices_wait_for_blocks_in_turn(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
		fill(elsewhere, RIG_LEN, op);
		fake_ofi_hang(0, true);
		post_elsewhere(rig.pair.initiator, s, op);
		assert_true(!has_blocks() || n_free() == 0);
		fake_ofi_hang(0, false);
		await_all(s);
		assert_memory_equal(rig.far, elsewhere, SLICES * LENGTH);
	}
}

/* They come free outside of progress(): it is called for who waits. */
static void endpoints_share_the_blocks(void **state)
{
	struct fake_slice *mine[SLICES], *theirs[SLICES];
	struct tei_endpoint *first = rig.pair.initiator;
	struct fake_pair other = rig.pair;
	struct pollfd fd = {.fd = tei_backend_ofi.wait_fd(rig.pair.a.rail),
			    .events = POLLIN};

	(void)state;
	if (!has_blocks() || !rig.connected)
		return; /* or flush() waits for the device */
	assert_int_equal(fake_pair_connect(&other), 0);
	while (!other.target_link.n_up && rig.connected)
		fake_progress(&rig.pair);
	fake_ofi_hang(0, true);
	post_elsewhere(first, mine, TEI_WRITE); /* has them all */
	post_elsewhere(other.initiator, theirs, TEI_WRITE);
	for (int i = 0; i < 200; i++)
		fake_progress(&rig.pair);
	fake_flush(first, -ECANCELED);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_int_equal(ofi_rig_count_good(mine, SLICES), 0);
	fake_ofi_hang(0, false);
	await_all(theirs);
	fake_pair_disconnect(&other);
	ofi_rig_rejoin();
}

static void memory_of_ended_reads_is_left_alone(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	memset(elsewhere, 0x11, sizeof(elsewhere));
	memset(rig.far, 0x22, RIG_LEN);
	fake_ofi_hang(0, true);
	post_elsewhere(rig.pair.initiator, s, TEI_READ);
	tei_backend_ofi.cancel(rig.pair.initiator, s[1]->slice);
	ofi_rig_flush(-ECONNRESET);
	assert_int_equal(s[1]->err, -ECANCELED);
	fake_ofi_hang(0, false);
	for (int i = 0; i < 200; i++)
		fake_progress(&rig.pair);
	assert_int_equal(ofi_rig_count_good(s, SLICES), 0);
	for (size_t i = 0; i < SLICES * LENGTH; i++)
		assert_int_equal(elsewhere[i], 0x11);
	ofi_rig_rejoin();
}

/* Memory that goes as soon as its slice has ended, with operations that fail.*/
static void faults_leave_right_bytes_and_all_blocks(void **state)
{
	const struct fake_ofi_chances some = {
		.seed = 5, .spoil = 30000, .busy = 20000};
	unsigned int n_good = 0, rounds = TEST_TIMES(100);
	uint64_t chance = 11;

	(void)state;
	fake_ofi_set_chances(&some);
	for (unsigned int i = 0; i < rounds; i++) {
		struct fake_slice *s[8];
		uint8_t *memory[8];

		for (size_t k = 0; k < TEST_COUNT(s); k++) {
			size_t n = 1 + tei_chance(&chance) % (RIG_LEN / 8);
			uint32_t op = i % 2 ? TEI_READ : TEI_WRITE;
			size_t at = k * RIG_LEN / 8;

			memory[k] = malloc(n);
			assert_non_null(memory[k]);
			fill(op == TEI_READ ? rig.far + at : memory[k], n, i);
			s[k] = slice_at(op, at, memory[k], n);
			if (fake_post(&rig.pair, s[k])) {
				s[k]->n_done = 1; /* was not taken */
				s[k]->err = -EIO;
			}
		}
		(void)ofi_rig_settle(s, TEST_COUNT(s));
		for (size_t k = 0; k < TEST_COUNT(s); k++) {
			if (!s[k]->err)
				assert_memory_equal(memory[k],
						    rig.far + k * RIG_LEN / 8,
						    s[k]->slice->length);
			free(memory[k]);
		}
		n_good += ofi_rig_count_good(s, TEST_COUNT(s));
	}
	fake_ofi_set_chances(NULL);
	assert_in_range(n_good, rounds, 8 * rounds - 1);
}

/* ---- none to be had ---- */

static void assert_left_to_others(void)
{
	struct iovec iov[2] = {{rig.near, 10}, {elsewhere, 100}};
	struct fake_slice *s = ofi_rig_pieces(TEI_WRITE, 0, iov, 2);

	memset(rig.near, 7, 10);
	memset(rig.far, 0, 10);
	ofi_rig_carry(s);
	assert_int_equal(s->err, has_blocks() ? -EOPNOTSUPP : 0);
	assert_int_equal(rig.far[0], has_blocks() ? 0 : 7);
	fake_slice_destroy(s);
	s = ofi_rig_slice(TEI_WRITE, 0, 1000);
	ofi_rig_carry(s);
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
}

static void without_blocks_it_is_left_to_others(void **state)
{
	static const char *const none[] = {"ofi.bounce=0", NULL};

	(void)state;
	ofi_rig_reopen(none);
	assert_left_to_others();
}

static void blocks_that_cannot_be_registered_are_done_without(void **state)
{
	(void)state;
	ofi_rig_close();
	/* The rail has tried two first, to see what becomes of keys. */
	fake_ofi_fail(FAKE_OFI_REGATTR, 3, FI_ENOMEM);
	if (!has_blocks())
		fake_ofi_fail(FAKE_OFI_ANY, 0, 0);
	assert_int_equal(ofi_rig_open(few_blocks), 0);
	assert_left_to_others();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(any_memory_is_carried_both_ways),
		TEST(registered_pieces_and_others_go_together),
		TEST(slices_wait_for_blocks_in_turn),
		TEST(endpoints_share_the_blocks),
		TEST(memory_of_ended_reads_is_left_alone),
		TEST(faults_leave_right_bytes_and_all_blocks),
		TEST(without_blocks_it_is_left_to_others),
		TEST(blocks_that_cannot_be_registered_are_done_without),
	};

	return ofi_rig_run("bounce", tests, TEST_COUNT(tests));
}
