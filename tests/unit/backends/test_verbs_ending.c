/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_ending.c - queue pairs that a device is slow to destroy */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/verbs_rig.h"

#define SLICES 24
#define LENGTH 4096
#define BLOCKS 16u

/* Memory that is not registered: each slice has a block of the rail's. */
static uint8_t elsewhere[SLICES * LENGTH];

static struct fake_pair other; /* a second endpoint on the same rails */

static int set_up(void **state)
{
	static const char *const blocks[] = {"verbs.bounce=1048576", NULL};

	(void)state;
	tei_log_set_level(TEI_LOG_ERROR);
	memset(elsewhere, 0x11, sizeof(elsewhere));
	return verbs_rig_open(blocks, RIG_RW);
}

static uint32_t n_free(void)
{
	return verbs_rail(rig.pair.a.rail)->bounce.n_free;
}

static void open_other(void)
{
	other = rig.pair;
	assert_int_equal(fake_pair_connect(&other), 0);
	verbs_rig_wait(&other.target_link.n_up, 1);
}

/* Slices of which no work request ever comes back. */
static void post_silent(struct fake_slice **s, size_t n)
{
	memset(rig.far, 0x22, RIG_LEN);
	fake_verbs_hang_pairs(0);
	for (size_t i = 0; i < n; i++) {
		s[i] = verbs_rig_slice(TEI_READ, i * LENGTH, LENGTH);
		s[i]->piece.iov_base = elsewhere + i * LENGTH;
		assert_int_equal(fake_post(&rig.pair, s[i]), 0);
	}
}

static void expect_done(struct fake_slice **s, size_t n, unsigned int times)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(s[i]->n_done, times);
}

static void carry_by(struct fake_pair *pair)
{
	struct fake_slice *s = verbs_rig_slice(TEI_WRITE, 0, LENGTH);

	memset(rig.near, 0x33, LENGTH);
	s->slice->ep = pair->initiator;
	assert_int_equal(fake_post(pair, s), 0);
	verbs_rig_wait(&s->n_done, 1);
	assert_int_equal(s->err, 0);
	assert_memory_equal(rig.near, rig.far, LENGTH);
	fake_slice_destroy(s);
}

/* The blocks of post_silent() are still the device's; others are carried. */
static void expect_kept(struct fake_slice **s)
{
	open_other();
	for (int i = 0; i < 100; i++)
		carry_by(&other);
	expect_done(s, BLOCKS, 0);
	assert_int_equal(n_free(), 0);
}

static void expect_given_back(struct fake_slice **s)
{
	verbs_rig_wait(&rig.pair.initiator_link.n_flushed, 1);
	expect_done(s, BLOCKS, 1);
	assert_int_equal(n_free(), BLOCKS);
	for (size_t i = 0; i < BLOCKS; i++) {
		assert_int_equal(s[i]->err, -EIO);
		fake_slice_destroy(s[i]);
	}
}

static void await_held(unsigned int n)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (fake_verbs_counts().held != n && tei_now_ms() < end)
		fake_progress(&rig.pair);
	assert_int_equal(fake_verbs_counts().held, n);
}

static void await_refused(unsigned int n)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;

	while (fake_verbs_counts().refused < n && tei_now_ms() < end)
		fake_progress(&rig.pair);
	assert_true(fake_verbs_counts().refused >= n);
}

/* ---- it takes long ---- */

static void slow_destroy_holds_up_nobody_else(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	post_silent(s, BLOCKS);
	fake_verbs_hold_destroys(true);
	assert_int_equal(tei_backend_verbs.flush(rig.pair.initiator, -EIO),
			 -EINPROGRESS);
	await_held(1);
	expect_kept(s);
	assert_int_equal(rig.pair.initiator_link.n_flushed, 0);

	fake_verbs_hold_destroys(false);
	expect_given_back(s);
	for (size_t i = 0; i < sizeof(elsewhere); i++)
		assert_int_equal(elsewhere[i], 0x11);
	fake_pair_disconnect(&other);
	verbs_rig_rejoin();
}

static void slices_that_come_back_do_not_wait_for_the_destroy(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	fake_verbs_hang(0, true);
	verbs_rig_post(s, SLICES, TEI_WRITE, LENGTH);
	fake_verbs_hold_destroys(true);
	assert_int_equal(tei_backend_verbs.flush(rig.pair.initiator, -EIO),
			 -EINPROGRESS);
	await_held(1);
	expect_done(s, SLICES, 0);
	fake_verbs_hang(0, false); /* it was stopped before */
	verbs_rig_wait(&rig.pair.initiator_link.n_flushed, 1);
	assert_int_equal(fake_verbs_counts().held, 1);
	expect_done(s, SLICES, 1);
	for (size_t i = 0; i < SLICES; i++) {
		assert_int_equal(s[i]->err, -EIO);
		fake_slice_destroy(s[i]);
	}
	fake_verbs_hold_destroys(false);
	verbs_rig_rejoin();
}

static void idle_endpoint_is_flushed_at_once(void **state)
{
	(void)state;
	fake_verbs_hold_destroys(true);
	assert_int_equal(tei_backend_verbs.flush(rig.pair.initiator, -EIO), 0);
	tei_backend_verbs.endpoint_close(rig.pair.initiator);
	tei_free(rig.pair.initiator);
	rig.pair.initiator = NULL;
	await_held(1);
	fake_verbs_hold_destroys(false);
	verbs_rig_rejoin();
}

/* What is under way towards it may land until then. */
static void target_is_flushed_when_it_is_destroyed(void **state)
{
	(void)state;
	fake_verbs_hold_destroys(true);
	assert_int_equal(tei_backend_verbs.flush(rig.pair.target, -EIO),
			 -EINPROGRESS);
	await_held(1);
	open_other();
	carry_by(&other);
	assert_int_equal(rig.pair.target_link.n_flushed, 0);
	fake_verbs_hold_destroys(false);
	verbs_rig_wait(&rig.pair.target_link.n_flushed, 1);
	fake_pair_disconnect(&other);
	verbs_rig_rejoin();
}

/* As many as leave one thread for others. */
static void destroys_that_hang_hold_up_no_other_endpoint(void **state)
{
	enum { HUNG = VERBS_ENDERS - 1 };
	struct fake_pair hung[HUNG];

	(void)state;
	for (unsigned int i = 0; i < HUNG; i++) {
		hung[i] = rig.pair;
		assert_int_equal(fake_pair_connect(&hung[i]), 0);
		verbs_rig_wait(&hung[i].target_link.n_up, 1);
	}
	fake_verbs_hold_pairs();
	for (unsigned int i = 0; i < HUNG; i++)
		assert_int_equal(tei_backend_verbs.flush(hung[i].target, -EIO),
				 -EINPROGRESS);
	await_held(HUNG);
	open_other();
	carry_by(&other);
	assert_int_equal(tei_backend_verbs.drop(other.target), -EINPROGRESS);
	verbs_rig_wait(&other.target_link.n_down, 1);
	for (unsigned int i = 0; i < HUNG; i++)
		assert_int_equal(hung[i].target_link.n_flushed, 0);
	fake_verbs_hold_destroys(false);
	fake_pair_disconnect(&other);
	for (unsigned int i = 0; i < HUNG; i++) {
		verbs_rig_wait(&hung[i].target_link.n_flushed, 1);
		fake_pair_disconnect(&hung[i]);
	}
}

static void drop_that_is_under_way_ends_with_the_flush(void **state)
{
	(void)state;
	fake_verbs_hold_destroys(true);
	assert_int_equal(tei_backend_verbs.drop(rig.pair.target), -EINPROGRESS);
	await_held(1);
	assert_int_equal(tei_backend_verbs.flush(rig.pair.target, -EIO),
			 -EINPROGRESS);
	fake_verbs_hold_destroys(false);
	verbs_rig_wait(&rig.pair.target_link.n_flushed, 1);
	assert_int_equal(rig.pair.target_link.n_down, 0);
	verbs_rig_rejoin();
}

/* ---- it is refused ---- */

static void await_stuck(uint64_t n)
{
	uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	_Atomic uint64_t *stuck = &rig.pair.a.rail->stuck_endpoints;

	while (*stuck != n && tei_now_ms() < end)
		fake_progress(&rig.pair);
	assert_true(*stuck == n);
}

static void what_a_device_keeps_is_not_given_back(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	post_silent(s, BLOCKS);
	fake_verbs_refuse_destroys(EBUSY);
	assert_int_equal(tei_backend_verbs.flush(rig.pair.initiator, -EIO),
			 -EINPROGRESS);
	await_stuck(1);
	expect_kept(s);

	fake_verbs_refuse_destroys(0);
	expect_given_back(s);
	await_stuck(0);
	fake_pair_disconnect(&other);
	verbs_rig_rejoin();
}

static void drop_is_not_confirmed_before_it_is_destroyed(void **state)
{
	(void)state;
	fake_verbs_refuse_destroys(EIO);
	assert_int_equal(tei_backend_verbs.drop(rig.pair.target), -EINPROGRESS);
	await_refused(4);
	assert_int_equal(rig.pair.target_link.n_down, 0);
	fake_verbs_refuse_destroys(0);
	verbs_rig_wait(&rig.pair.target_link.n_down, 1);
	assert_int_equal(rig.pair.target_link.down_err, -ESTALE);
	verbs_rig_rejoin();
}

/* Others end more often than refused ones are tried again. */
static void what_was_refused_is_tried_again_though_others_end(void **state)
{
	uint64_t until = tei_now_ms() + FAKE_LIMIT_MS;

	(void)state;
	fake_verbs_refuse_destroys(EBUSY);
	assert_int_equal(tei_backend_verbs.drop(rig.pair.target), -EINPROGRESS);
	await_refused(2);
	fake_verbs_refuse_destroys(0);
	while (!rig.pair.target_link.n_down && tei_now_ms() < until) {
		open_other();
		fake_pair_disconnect(&other);
	}
	assert_int_equal(rig.pair.target_link.n_down, 1);
	verbs_rig_rejoin();
}

/* Nothing else would end it then; the kernel takes what is left. */
static void rail_that_closes_does_not_wait_for_it(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	post_silent(s, BLOCKS);
	fake_verbs_refuse_destroys(EBUSY);
	rig.pair.a.rail->closing = rig.pair.b.rail->closing = true;
	fake_flush(rig.pair.initiator, -ECANCELED);
	expect_done(s, BLOCKS, 1);
	for (size_t i = 0; i < BLOCKS; i++) {
		assert_int_equal(s[i]->err, -ECANCELED);
		fake_slice_destroy(s[i]);
	}
}

/* More than one round takes, so the rest comes while it is given up. */
static void rail_that_closes_gives_up_what_drains_just_then(void **state)
{
	enum { MANY = 2 * VERBS_POLL_MAX };
	struct fake_slice *s[MANY];

	(void)state;
	fake_verbs_hang(0, true);
	for (size_t i = 0; i < MANY; i++) {
		s[i] = verbs_rig_slice(TEI_READ, i * 8, 8);
		assert_int_equal(fake_post(&rig.pair, s[i]), 0);
	}
	fake_verbs_refuse_destroys(EBUSY);
	assert_int_equal(tei_backend_verbs.flush(rig.pair.initiator, -EIO),
			 -EINPROGRESS);
	await_refused(2);
	rig.pair.a.rail->closing = rig.pair.b.rail->closing = true;
	fake_verbs_hang(0, false);
	rig.pair.a.rail->woken = true;
	verbs_rig_wait(&rig.pair.initiator_link.n_flushed, 1);
	expect_done(s, MANY, 1);
	assert_int_equal(rig.pair.initiator_link.n_flushed, 1);
	for (size_t i = 0; i < MANY; i++)
		fake_slice_destroy(s[i]);
}

static void device_that_was_taken_out_keeps_nothing(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	post_silent(s, BLOCKS);
	fake_verbs_refuse_destroys(EIO);
	fake_verbs_tell(0, IBV_EVENT_DEVICE_FATAL, 0);
	fake_flush(rig.pair.initiator, -EIO);
	expect_done(s, BLOCKS, 1);
	for (size_t i = 0; i < BLOCKS; i++)
		fake_slice_destroy(s[i]);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, set_up, verbs_rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(slow_destroy_holds_up_nobody_else),
		TEST(slices_that_come_back_do_not_wait_for_the_destroy),
		TEST(idle_endpoint_is_flushed_at_once),
		TEST(target_is_flushed_when_it_is_destroyed),
		TEST(destroys_that_hang_hold_up_no_other_endpoint),
		TEST(drop_that_is_under_way_ends_with_the_flush),
		TEST(what_a_device_keeps_is_not_given_back),
		TEST(drop_is_not_confirmed_before_it_is_destroyed),
		TEST(what_was_refused_is_tried_again_though_others_end),
		TEST(rail_that_closes_does_not_wait_for_it),
		TEST(rail_that_closes_gives_up_what_drains_just_then),
		TEST(device_that_was_taken_out_keeps_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
