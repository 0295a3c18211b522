/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_trouble.c - errors of every kind, cancelled, dropped, forged */
#include <errno.h>
#include <string.h>

#include <te/te.h>

#include "base/chance.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/verbs_rig.h"

#define RW     (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)
#define SLICES 48
#define LENGTH 1024

static int set_up(void **state)
{
	(void)state;
	tei_log_set_level(TEI_LOG_ERROR);
	return verbs_rig_open(NULL, RW);
}

static int tear_down(void **state)
{
	(void)state;
	verbs_rig_close();
	return 0;
}

static void post_many(struct fake_slice **s, uint32_t op)
{
	struct tei_slice *slices[SLICES];

	for (size_t i = 0; i < SLICES; i++) {
		s[i] = verbs_rig_slice(op, i * LENGTH, LENGTH);
		slices[i] = s[i]->slice;
	}
	assert_int_equal(
		tei_backend_verbs.post(rig.pair.initiator, slices, SLICES),
		SLICES);
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
		post_many(s, n % 2 ? TEI_READ : TEI_WRITE);
		verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
		assert_int_equal(rig.pair.initiator_link.down_err,
				 cause->endpoint);
		for (size_t i = 0; i < SLICES; i++)
			told += s[i]->n_done && s[i]->err;
		/* Only what a slice itself did wrong is told at once. */
		assert_int_equal(told, cause->fault == VERBS_FAULT_REQUEST);
		tei_backend_verbs.flush(rig.pair.initiator, -ECONNRESET);
		/* Nineteen of both lanes together, or a few more of the other. */
		assert_in_range(count_good(s), 19, SLICES - 1);
		verbs_rig_rejoin();
	}
}

static void partly_posted_chain_ends_each_slice_once(void **state)
{
	(void)state;
	for (unsigned int n = 0; n < SLICES; n += 5) {
		struct fake_slice *s[SLICES];

		fake_verbs_take(n);
		post_many(s, TEI_WRITE);
		fake_verbs_take(UINT32_MAX);
		verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
		assert_int_equal(rig.pair.initiator_link.down_err, -EIO);
		tei_backend_verbs.flush(rig.pair.initiator, -ECONNRESET);
		assert_true(count_good(s) <= n);
		verbs_rig_rejoin();
	}
}

static void silent_device_is_ended_by_destroying_its_pairs(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	fake_verbs_hang(0, true);
	post_many(s, TEI_READ);
	fake_progress(&rig.pair);
	tei_backend_verbs.flush(rig.pair.initiator, -ETIMEDOUT);
	for (size_t i = 0; i < SLICES; i++)
		assert_int_equal(s[i]->err, -ETIMEDOUT);
	assert_int_equal(count_good(s), 0);
	fake_verbs_hang(0, false);
	verbs_rig_rejoin();
}

static void cancelled_slice_is_quiet_at_once(void **state)
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
	post_many(s, TEI_READ);
	tei_backend_verbs.cancel(rig.pair.initiator, s[7]->slice);
	assert_int_equal(s[7]->n_done, 1);
	assert_int_equal(s[7]->err, -ECANCELED);
	fake_verbs_hang(0, false);
	verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
	tei_backend_verbs.flush(rig.pair.initiator, -ECANCELED);
	assert_int_equal(count_good(s), 0);
	verbs_rig_rejoin();
}

static void waiting_slice_is_cancelled_without_breaking_anything(void **state)
{
	static const char *const shallow[] = {"verbs.depth=4", "verbs.lanes=1",
					      NULL};
	struct fake_slice *s[SLICES];

	(void)state;
	verbs_rig_close();
	assert_int_equal(verbs_rig_open(shallow, RW), 0);
	fake_verbs_hang(0, true);
	post_many(s, TEI_WRITE);
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
	post_many(s, TEI_WRITE);
	assert_int_equal(tei_backend_verbs.drop(rig.pair.target), -EINPROGRESS);
	verbs_rig_wait(&rig.pair.target_link.n_down, 1);
	assert_int_equal(rig.pair.target_link.down_err, -ESTALE);
	fake_verbs_hang(0, false); /* what is under way meets nobody */
	verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
	assert_int_equal(rig.pair.initiator_link.down_err, -ETIMEDOUT);
	tei_backend_verbs.flush(rig.pair.initiator, -ESTALE);
	assert_int_equal(count_good(s), 0);
	for (size_t i = 0; i < SLICES * LENGTH; i++)
		assert_int_equal(rig.far[i], 0);
	verbs_rig_rejoin();
}

static void forged_key_reaches_nothing(void **state)
{
	struct fake_slice *s = verbs_rig_slice(TEI_WRITE, 0, 100);

	(void)state;
	memset(rig.near, 1, 100);
	s->key[VERBS_KEY_LEN + 1] ^= 1;
	assert_int_equal(fake_post(&rig.pair, s), 0);
	verbs_rig_wait(&s->n_done, 1);
	assert_int_equal(s->err, -EACCES);
	assert_int_equal(s->slice->provider_code, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(rig.far[0], 0);
	verbs_rig_wait(&rig.pair.target_link.n_down, 1);
	assert_int_equal(rig.pair.b.rail->refused_slices, 1);
	/* The way and the peer are as good as before: opened again at once. */
	verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
	assert_int_equal(rig.pair.initiator_link.down_err, -ESTALE);
	fake_slice_destroy(s);
	verbs_rig_rejoin();
}

static void key_of_another_range_is_refused_at_home(void **state)
{
	struct fake_slice *s = verbs_rig_slice(TEI_READ, 0, 100);

	(void)state;
	s->slice->remote = (uintptr_t)rig.far + RIG_LEN;
	assert_int_equal(fake_post(&rig.pair, s), 0);
	verbs_rig_wait(&s->n_done, 1);
	assert_int_equal(s->err, -EFAULT);
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
	fake_slice_destroy(s);
	/* It begins inside, and would end behind. */
	s = verbs_rig_slice(TEI_READ, 0, 100);
	s->slice->remote = (uintptr_t)rig.far + RIG_LEN - 50;
	assert_int_equal(fake_post(&rig.pair, s), 0);
	verbs_rig_wait(&s->n_done, 1);
	assert_int_equal(s->err, -EFAULT);
	fake_slice_destroy(s);
}

static void access_is_what_the_owner_gave(void **state)
{
	struct fake_slice *s;

	(void)state;
	verbs_rig_close();
	assert_int_equal(verbs_rig_open(NULL, TE_ACCESS_REMOTE_READ), 0);
	memset(rig.near, 1, 100);
	s = verbs_rig_slice(TEI_WRITE, 0, 100);
	assert_int_equal(fake_post(&rig.pair, s), 0);
	verbs_rig_wait(&s->n_done, 1);
	assert_int_equal(s->err, -EACCES);
	assert_int_equal(rig.far[0], 0);
	fake_slice_destroy(s);
	verbs_rig_rejoin();
	s = verbs_rig_slice(TEI_READ, 0, 100);
	assert_int_equal(fake_post(&rig.pair, s), 0);
	verbs_rig_wait(&s->n_done, 1);
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
}

/* ---- the handshake ---- */

static void nonsense_of_a_peer_is_refused(void **state)
{
	struct tei_link link;
	struct tei_endpoint *ep;
	uint8_t mine[TEI_BLOB_MAX], bad[TEI_BLOB_MAX];
	size_t len = sizeof(mine);

	(void)state;
	ep = fake_endpoint(&rig.pair.a, &link, false, 1);
	assert_int_equal(tei_backend_verbs.endpoint_open(ep, mine, &len), 0);
	for (size_t i = 0; i < len; i++) {
		if (i >= 10 && i < 26)
			continue; /* any bytes are some GID */
		memcpy(bad, mine, len);
		bad[i] = 0xff;
		if (i == 27 || i == 28 || i == 29 || i > 30)
			continue; /* any number is some queue pair's */
		assert_int_equal(
			tei_backend_verbs.endpoint_connect(ep, bad, len),
			-EPROTO);
	}
	assert_int_equal(tei_backend_verbs.endpoint_connect(ep, mine, len - 1),
			 -EPROTO);
	assert_int_equal(tei_backend_verbs.endpoint_connect(ep, NULL, 0),
			 -EPROTO);
	assert_true(rig.pair.a.rail->bad_frames > 8);
	tei_backend_verbs.flush(ep, -EPROTO);
	tei_backend_verbs.endpoint_close(ep);
	tei_free(ep);
}

static void failed_handshake_leaves_nothing_behind(void **state)
{
	unsigned int nth = 0;
	bool struck;

	(void)state;
	fake_pair_disconnect(&rig.pair);
	do {
		int rc;

		nth++;
		fake_verbs_fail(nth, nth % 2 ? EINVAL : ETIMEDOUT);
		rc = fake_pair_connect(&rig.pair);
		struck = fake_verbs_struck();
		fake_verbs_fail(0, 0);
		if (!rc)
			fake_pair_disconnect(&rig.pair);
	} while (struck && nth < 200);
	assert_false(struck);
	assert_true(nth > 10);
	assert_int_equal(fake_pair_connect(&rig.pair), 0);
}

static void thousand_connections_leave_no_queue_pair(void **state)
{
	unsigned int before = fake_verbs_counts().pairs;

	(void)state;
	for (int i = 0; i < TEST_TIMES(1000); i++)
		verbs_rig_rejoin();
	/* What has ended lately is the clerk's still: it is soon gone. */
	for (uint64_t t = tei_now_ms(); fake_verbs_counts().pairs > before &&
					tei_now_ms() < t + FAKE_LIMIT_MS;)
		fake_progress(&rig.pair);
	assert_int_equal(fake_verbs_counts().pairs, before);
}

/* ---- events ---- */

static void lost_link_and_fatal_errors_are_told(void **state)
{
	unsigned int downs = fake_n_downs;
	int rc = 0;

	(void)state;
	fake_verbs_link(0, 1, false);
	verbs_rig_wait(&fake_n_downs, downs + 2); /* both rails */
	fake_verbs_link(0, 1, true);
	for (uint64_t t = tei_now_ms();
	     !(verbs_rail(rig.pair.a.rail)->link_up &&
	       verbs_rail(rig.pair.b.rail)->link_up) &&
	     tei_now_ms() < t + FAKE_LIMIT_MS;)
		fake_progress(&rig.pair);
	assert_true(verbs_rail(rig.pair.a.rail)->link_up);
	fake_verbs_set_gid(0, 1, 1, "10.9.1.77", IBV_GID_TYPE_ROCE_V2);
	fake_verbs_tell(0, IBV_EVENT_GID_CHANGE, 1);
	verbs_rig_wait(&fake_n_downs, downs + 4); /* another address */
	fake_verbs_tell(0, IBV_EVENT_GID_CHANGE, 2);
	fake_verbs_tell(0, IBV_EVENT_SM_CHANGE, 1);
	fake_verbs_tell(0, IBV_EVENT_DEVICE_FATAL, 1);
	for (int i = 0; i < 1000 && !rc; i++)
		rc = tei_backend_verbs.progress(rig.pair.a.rail, 64);
	assert_int_equal(rc, -EIO);
	rc = 0;
	for (int i = 0; i < 1000 && !rc; i++)
		rc = tei_backend_verbs.progress(rig.pair.b.rail, 64);
	assert_int_equal(rc, -EIO);
	assert_int_equal(fake_n_downs, downs + 4);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_error_ends_each_slice_once),
		TEST(partly_posted_chain_ends_each_slice_once),
		TEST(silent_device_is_ended_by_destroying_its_pairs),
		TEST(cancelled_slice_is_quiet_at_once),
		TEST(waiting_slice_is_cancelled_without_breaking_anything),
		TEST(dropped_endpoint_is_confirmed_when_nothing_can_land),
		TEST(forged_key_reaches_nothing),
		TEST(key_of_another_range_is_refused_at_home),
		TEST(access_is_what_the_owner_gave),
		TEST(nonsense_of_a_peer_is_refused),
		TEST(failed_handshake_leaves_nothing_behind),
		TEST(thousand_connections_leave_no_queue_pair),
		TEST(lost_link_and_fatal_errors_are_told),
		TEST(a_million_slices_with_faults_end_once_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
