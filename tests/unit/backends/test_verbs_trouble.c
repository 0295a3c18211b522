/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_trouble.c - errors of every kind, cancelled and dropped slices */
#include <errno.h>
#include <string.h>

#include "base/chance.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/verbs_rig.h"

#define SLICES 48
#define LENGTH 1024

static const char *const shallow[] = {"verbs.depth=4", "verbs.lanes=1", NULL};

static int set_up(void **state)
{
	tei_log_set_level(TEI_LOG_ERROR);
	return verbs_rig_set_up(state);
}

/* How many ended well; each has ended exactly once. */
static unsigned int count_good(struct fake_slice **s)
{
	unsigned int good = 0;

	for (size_t i = 0; i < SLICES; i++) {
		assert_int_equal(s[i]->n_done, 1);
		good += !s[i]->err;
		fake_slice_destroy(s[i]);
	}
	return good;
}

static void every_error_ends_each_slice_once(void **state)
{
	(void)state;
	for (int n = IBV_WC_SUCCESS + 1; n <= IBV_WC_TM_ERR; n++) {
		enum ibv_wc_status status = (enum ibv_wc_status)n;
		const struct verbs_cause *cause = tei_verbs_cause(status);
		struct fake_slice *s[SLICES];
		unsigned int told = 0;

		fake_verbs_spoil(20, status);
		verbs_rig_post(s, SLICES, n % 2 ? TEI_READ : TEI_WRITE, LENGTH);
		verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
		assert_int_equal(rig.pair.initiator_link.down_err,
				 cause->endpoint);
		for (size_t i = 0; i < SLICES; i++)
			told += s[i]->n_done && s[i]->err;
		/* Only what a slice itself did wrong is told at once. */
		assert_int_equal(told, cause->fault == VERBS_FAULT_REQUEST);
		fake_flush(rig.pair.initiator, -ECONNRESET);
		/* Nineteen of both lanes together, or a few more of the other. */
		assert_in_range(count_good(s), 19, SLICES - 1);
		verbs_rig_rejoin();
	}
}

/* More pieces than the lane takes at once: the rest is queued. */
static struct fake_slice *post_large(uint32_t op)
{
	static struct iovec iov[64];
	struct fake_slice *s;

	for (size_t i = 0; i < TEST_COUNT(iov); i++)
		iov[i] = (struct iovec){rig.near + i * LENGTH, LENGTH / 2};
	s = verbs_rig_pieces(op, 0, iov, TEST_COUNT(iov));
	assert_int_equal(fake_post(&rig.pair, s), 0);
	return s;
}

/* Work requests under way come back before the flush, or, not @all, in it. */
static void spoil_large(uint32_t op, enum ibv_wc_status status, bool all)
{
	const struct verbs_cause *cause = tei_verbs_cause(status);
	bool told = cause->fault == VERBS_FAULT_REQUEST;
	struct fake_slice *s;

	fake_verbs_spoil(2, status);
	s = post_large(op);
	while (!rig.pair.initiator_link.n_down)
		assert_true(tei_backend_verbs.progress(rig.pair.a.rail, 1) >=
			    0);
	for (int i = 0; i < 8 && all; i++)
		fake_progress(&rig.pair);
	assert_int_equal(s->n_done, 0);
	fake_flush(rig.pair.initiator, -ENETRESET);
	assert_int_equal(s->n_done, 1);
	assert_int_equal(s->err, told ? cause->slice : -ENETRESET);
	fake_slice_destroy(s);
	verbs_rig_rejoin();
}

static void slice_posted_in_part_ends_with_what_it_did_wrong(void **state)
{
	static const enum ibv_wc_status statuses[] = {
		IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_LEN_ERR,
		IBV_WC_RETRY_EXC_ERR};

	(void)state;
	verbs_rig_reopen(shallow);
	for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
		for (int all = 0; all < 2; all++) {
			spoil_large(TEI_WRITE, statuses[i], all);
			spoil_large(TEI_READ, statuses[i], all);
		}
	}
}

static void partly_posted_chain_ends_each_slice_once(void **state)
{
	(void)state;
	for (unsigned int n = 0; n < SLICES; n += 5) {
		struct fake_slice *s[SLICES];

		fake_verbs_take(n);
		verbs_rig_post(s, SLICES, TEI_WRITE, LENGTH);
		fake_verbs_take(UINT32_MAX);
		verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
		assert_int_equal(rig.pair.initiator_link.down_err, -EIO);
		fake_flush(rig.pair.initiator, -ECONNRESET);
		assert_true(count_good(s) <= n);
		verbs_rig_rejoin();
	}
}

static void silent_device_is_ended_by_destroying_its_pairs(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	fake_verbs_hang(0, true);
	verbs_rig_post(s, SLICES, TEI_READ, LENGTH);
	fake_progress(&rig.pair);
	fake_flush(rig.pair.initiator, -ETIMEDOUT);
	for (size_t i = 0; i < SLICES; i++)
		assert_int_equal(s[i]->err, -ETIMEDOUT);
	assert_int_equal(count_good(s), 0);
	fake_verbs_hang(0, false);
	verbs_rig_rejoin();
}

static void cancelled_slice_ends_once_it_is_quiet(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	/* It is done meanwhile: nothing is broken for its sake. */
	s[0] = verbs_rig_slice(TEI_READ, 0, LENGTH);
	assert_int_equal(fake_post(&rig.pair, s[0]), 0);
	tei_backend_verbs.cancel(rig.pair.initiator, s[0]->slice);
	assert_int_equal(s[0]->n_done, 1);
	assert_int_equal(s[0]->err, 0);
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
	fake_slice_destroy(s[0]);

	fake_verbs_hang(0, true);
	verbs_rig_post(s, SLICES, TEI_READ, LENGTH);
	tei_backend_verbs.cancel(rig.pair.initiator, s[7]->slice);
	assert_int_equal(s[7]->n_done, 0);
	verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
	assert_int_equal(rig.pair.initiator_link.down_err, -ECANCELED);
	fake_flush(rig.pair.initiator, -ECONNRESET);
	fake_verbs_hang(0, false);
	for (size_t i = 0; i < SLICES; i++)
		assert_int_equal(s[i]->err, i == 7 ? -ECANCELED : -ECONNRESET);
	assert_int_equal(count_good(s), 0);
	verbs_rig_rejoin();
}

static void waiting_slice_is_cancelled_without_breaking_anything(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	verbs_rig_reopen(shallow);
	fake_verbs_hang(0, true);
	verbs_rig_post(s, SLICES, TEI_WRITE, LENGTH);
	tei_backend_verbs.cancel(rig.pair.initiator, s[40]->slice);
	assert_int_equal(s[40]->err, -ECANCELED);
	fake_verbs_hang(0, false);
	for (size_t i = 0; i < SLICES; i++)
		verbs_rig_wait(&s[i]->n_done, 1);
	assert_int_equal(count_good(s), SLICES - 1);
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
}

/* ---- the target ---- */

static void dropped_endpoint_is_confirmed_when_nothing_can_land(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	fake_verbs_hang(0, true);
	memset(rig.near, 1, SLICES * LENGTH);
	verbs_rig_post(s, SLICES, TEI_WRITE, LENGTH);
	assert_int_equal(tei_backend_verbs.drop(rig.pair.target), -EINPROGRESS);
	verbs_rig_wait(&rig.pair.target_link.n_down, 1);
	assert_int_equal(rig.pair.target_link.down_err, -ESTALE);
	fake_verbs_hang(0, false); /* what is under way meets nobody */
	verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
	assert_int_equal(rig.pair.initiator_link.down_err, -ETIMEDOUT);
	fake_flush(rig.pair.initiator, -ESTALE);
	assert_int_equal(count_good(s), 0);
	for (size_t i = 0; i < SLICES * LENGTH; i++)
		assert_int_equal(rig.far[i], 0);
	verbs_rig_rejoin();
}

/* ---- a million ---- */

#define MILLION   1000000u
#define IN_FLIGHT 512u
#define SMALL     64u

struct crowd {
	struct fake_slice *s[IN_FLIGHT];
	uint64_t want[IN_FLIGHT]; /* what its bytes begin with */
	uint64_t chance, n_ended, n_good, n_failed, n_breaks;
};

static void look_at(struct crowd *c, uint32_t i)
{
	struct fake_slice *s = c->s[i];
	uint64_t got;

	assert_int_equal(s->n_done, 1);
	c->n_ended++;
	if (s->err) {
		c->n_failed++;
		return;
	}
	c->n_good++;
	memcpy(&got,
	       s->slice->op == TEI_WRITE ? rig.far + i * SMALL
					 : rig.near + i * SMALL,
	       sizeof(got));
	assert_true(got == c->want[i]);
}

static void renew(struct crowd *c, uint32_t i)
{
	struct fake_slice *s = c->s[i];
	struct tei_slice *slice = s->slice;

	c->want[i] = tei_chance(&c->chance);
	slice->op = c->want[i] % 2 ? TEI_READ : TEI_WRITE;
	memcpy(slice->op == TEI_WRITE ? rig.near + i * SMALL
				      : rig.far + i * SMALL,
	       &c->want[i], sizeof(c->want[i]));
	slice->ep = rig.pair.initiator;
	s->n_done = 0;
	s->err = 1;
}

/* What the core does with an endpoint that is down. */
static void mend(struct crowd *c)
{
	if (!rig.pair.initiator_link.n_down && !rig.pair.target_link.n_down)
		return;
	c->n_breaks++;
	verbs_rig_rejoin();
}

static void post_all(struct crowd *c)
{
	struct tei_slice *slices[IN_FLIGHT];
	uint32_t n = 0, at = 0;

	for (uint32_t i = 0; i < IN_FLIGHT; i++) {
		renew(c, i);
		slices[n++] = c->s[i]->slice;
	}
	while (at < n) {
		int rc;

		slices[at]->ep = rig.pair.initiator;
		rc = tei_backend_verbs.post(rig.pair.initiator, slices + at,
					    (int)(n - at));
		if (rc > 0)
			at += (uint32_t)rc;
		else
			fake_progress(&rig.pair);
		mend(c);
		for (uint32_t i = at; i < n; i++)
			slices[i]->ep = rig.pair.initiator;
	}
}

static void a_million_slices_with_faults_end_once_each(void **state)
{
	struct crowd c = {.chance = 42};
	uint64_t begin;

	(void)state;
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		c.s[i] = verbs_rig_slice(TEI_WRITE, i * SMALL, SMALL);
	fake_verbs_spoil_some(7, 1000);
	begin = tei_now_ms();
	while (c.n_ended < TEST_TIMES(MILLION)) {
		post_all(&c);
		for (uint32_t i = 0; i < IN_FLIGHT; i++) {
			while (!c.s[i]->n_done) {
				fake_progress(&rig.pair);
				mend(&c);
			}
		}
		for (uint32_t i = 0; i < IN_FLIGHT; i++)
			look_at(&c, i);
	}
	fake_verbs_spoil_some(0, 0);
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		fake_slice_destroy(c.s[i]);
	assert_int_equal(c.n_good + c.n_failed, c.n_ended);
	assert_true(c.n_breaks > TEST_TIMES(400));
	assert_true(c.n_failed > c.n_breaks / 2);
	print_message(
		"%llu slices: %llu good, %llu failed, %llu endpoints "
		"broken, %llu ms\n",
		(unsigned long long)c.n_ended, (unsigned long long)c.n_good,
		(unsigned long long)c.n_failed, (unsigned long long)c.n_breaks,
		(unsigned long long)(tei_now_ms() - begin));
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, set_up, verbs_rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_error_ends_each_slice_once),
		TEST(slice_posted_in_part_ends_with_what_it_did_wrong),
		TEST(partly_posted_chain_ends_each_slice_once),
		TEST(silent_device_is_ended_by_destroying_its_pairs),
		TEST(cancelled_slice_ends_once_it_is_quiet),
		TEST(waiting_slice_is_cancelled_without_breaking_anything),
		TEST(dropped_endpoint_is_confirmed_when_nothing_can_land),
		TEST(a_million_slices_with_faults_end_once_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
