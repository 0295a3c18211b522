/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_peers.c - what peers forge, how they come and go, lost links */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/verbs_rig.h"

static int set_up(void **state)
{
	tei_log_set_level(TEI_LOG_ERROR);
	return verbs_rig_set_up(state);
}

static void forged_key_reaches_nothing(void **state)
{
	struct fake_slice *s = verbs_rig_slice(TEI_WRITE, 0, 100);

	(void)state;
	memset(rig.near, 1, 100);
	s->key[VERBS_KEY_LEN + 1] ^= 1;
	verbs_rig_carry(s);
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
	verbs_rig_carry(s);
	assert_int_equal(s->err, -EFAULT);
	assert_int_equal(rig.pair.initiator_link.n_down, 0);
	fake_slice_destroy(s);
	/* It begins inside, and would end behind. */
	s = verbs_rig_slice(TEI_READ, 0, 100);
	s->slice->remote = (uintptr_t)rig.far + RIG_LEN - 50;
	verbs_rig_carry(s);
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
	verbs_rig_carry(s);
	assert_int_equal(s->err, -EACCES);
	assert_int_equal(rig.far[0], 0);
	fake_slice_destroy(s);
	verbs_rig_rejoin();
	s = verbs_rig_slice(TEI_READ, 0, 100);
	verbs_rig_carry(s);
	assert_int_equal(s->err, 0);
	fake_slice_destroy(s);
}

/* ---- the handshake ---- */

static void nonsense_of_a_peer_is_refused(void **state)
{
	struct fake_link link;
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
	fake_flush(ep, -EPROTO);
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
	/* Bundles that ended lately are still with a background thread. */
	for (uint64_t t = tei_now_ms(); fake_verbs_counts().pairs > before &&
					tei_now_ms() < t + FAKE_LIMIT_MS;)
		fake_progress(&rig.pair);
	assert_int_equal(fake_verbs_counts().pairs, before);
}

/* Nobody takes back what the threads have destroyed in between. */
static void room_of_an_ended_endpoint_is_the_next_one_s_at_once(void **state)
{
	static const char *const one[] = {"verbs.completions=32",
					  "verbs.lanes=2", "verbs.depth=16",
					  NULL};
	struct fake_slice *s[40];

	(void)state;
	verbs_rig_reopen(one);
	for (int i = 0; i < 20; i++) {
		verbs_rig_rejoin();
		verbs_rig_post(s, TEST_COUNT(s), TEI_WRITE, 1024);
		verbs_rig_await(s, TEST_COUNT(s));
	}
}

static void queue_pairs_without_inline_data_are_used_without(void **state)
{
	struct fake_slice *s;

	(void)state;
	verbs_rig_close();
	fake_verbs_start(1);
	fake_verbs_no_inline(true);
	assert_int_equal(
		verbs_rig_open_on(&fake_verbs, "fake0/1", NULL, RIG_RW), 0);
	/* The port's look forgets what was learnt; the queue pairs do not. */
	fake_verbs_tell(0, IBV_EVENT_PKEY_CHANGE, 1);
	for (int i = 0; i < 200; i++)
		fake_progress(&rig.pair);
	s = verbs_rig_slice(TEI_WRITE, 0, 8);
	verbs_rig_carry(s);
	assert_int_equal(s->err, 0);
	assert_int_equal(fake_verbs_counts().inlined, 0);
	fake_slice_destroy(s);
}

static void an_erdma_device_carries_what_others_do(void **state)
{
	static const uint32_t ops[] = {TEI_WRITE, TEI_READ};
	struct fake_slice *s;

	(void)state;
	verbs_rig_close();
	fake_verbs_start(1);
	fake_verbs_make_erdma(0, true);
	assert_int_equal(
		verbs_rig_open_on(&fake_verbs, "erdma_0/1", NULL, RIG_RW), 0);
	for (size_t i = 0; i < TEST_COUNT(ops); i++) {
		const struct iovec pieces[] = {{rig.near, 8},
					       {rig.near + 100, 5000},
					       {rig.near + 9000, 3}};

		verbs_rig_fill(i ? rig.far : rig.near, 10000, i + 1);
		s = verbs_rig_pieces(ops[i], 64, pieces, TEST_COUNT(pieces));
		verbs_rig_carry(s);
		assert_int_equal(s->err, 0);
		assert_memory_equal(rig.far + 64, rig.near, 8);
		assert_memory_equal(rig.far + 72, rig.near + 100, 5000);
		assert_memory_equal(rig.far + 5072, rig.near + 9000, 3);
		fake_slice_destroy(s);
	}
	assert_int_equal(fake_verbs_counts().inlined, 0);
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

/* A new LID is a new address. */
static void another_lid_is_another_address(void **state)
{
	unsigned int downs = fake_n_downs;

	(void)state;
	fake_verbs_tell(0, IBV_EVENT_LID_CHANGE, 1); /* to what it was */
	for (int i = 0; i < 200; i++)
		fake_progress(&rig.pair);
	assert_int_equal(fake_n_downs, downs);
	fake_verbs_port(0, 1)->lid = 7;
	fake_verbs_tell(0, IBV_EVENT_LID_CHANGE, 1);
	verbs_rig_wait(&fake_n_downs, downs + 2); /* both rails */
	assert_true(verbs_rail(rig.pair.a.rail)->link_up);
}

#define SLICES 32

/* Each has ended once, with an error. */
static void await_failures(struct fake_slice **s)
{
	for (size_t i = 0; i < SLICES; i++) {
		assert_int_equal(s[i]->n_done, 1);
		assert_int_equal(s[i]->err, -EIO);
		fake_slice_destroy(s[i]);
	}
}

static void failed_completion_queue_ends_the_rail(void **state)
{
	struct fake_slice *s[SLICES];
	int rc = 0;

	(void)state;
	fake_verbs_hang(0, true);
	verbs_rig_post(s, SLICES, TEI_WRITE, 1024);
	fake_verbs_tell(0, IBV_EVENT_CQ_ERR, 0);
	for (int i = 0; i < 1000 && !rc; i++)
		rc = tei_backend_verbs.progress(rig.pair.a.rail, 64);
	assert_int_equal(rc, -EIO);
	/* What the core does then. */
	fake_flush(rig.pair.initiator, -EIO);
	await_failures(s);
}

static void queue_pair_that_the_device_finds_broken_is_told(void **state)
{
	struct fake_slice *s[SLICES];

	(void)state;
	fake_verbs_hang(0, true);
	verbs_rig_post(s, SLICES, TEI_READ, 1024);
	fake_verbs_break_pair(
		verbs_endpoint(rig.pair.initiator)->bundle->lanes[1].qp);
	verbs_rig_wait(&rig.pair.initiator_link.n_down, 1);
	assert_int_equal(rig.pair.initiator_link.down_err, -EIO);
	fake_flush(rig.pair.initiator, -EIO);
	await_failures(s);
	fake_verbs_hang(0, false);
	fake_verbs_break_pair(
		verbs_endpoint(rig.pair.target)->bundle->lanes[0].qp);
	verbs_rig_wait(&rig.pair.target_link.n_down, 1);
	assert_int_equal(rig.pair.target_link.down_err, -EIO);
	verbs_rig_rejoin();
	s[0] = verbs_rig_slice(TEI_WRITE, 0, 100);
	verbs_rig_carry(s[0]);
	assert_int_equal(s[0]->err, 0);
	fake_slice_destroy(s[0]);
}

/* What the far rail says of itself, as far as the near one reaches it. */
static int rank_of_far(void)
{
	const struct tei_address anywhere = {.len = 0};
	const struct tei_backend_ops *ops = &tei_backend_verbs;
	uint8_t blob[TEI_BLOB_MAX];
	size_t len = sizeof(blob);

	assert_int_equal(ops->rail_describe(rig.pair.b.rail, blob, &len), 0);
	return ops->rail_match(rig.pair.a.rail, &anywhere, blob, len);
}

static void new_address_is_what_peers_are_told(void **state)
{
	struct tei_address address;

	(void)state;
	fake_renewed = (struct tei_device){0};
	assert_true(rank_of_far() > 0);
	fake_verbs_set_gid(0, 1, 1, "fd00::77", IBV_GID_TYPE_ROCE_V2);
	fake_verbs_tell(0, IBV_EVENT_GID_CHANGE, 1);
	verbs_rig_wait(&fake_n_downs, fake_n_downs + 2); /* both rails */
	assert_true(rank_of_far() > 0);
	assert_int_equal(tei_resolve_numeric("fd00::77", 0, &address), 0);
	assert_true(tei_address_same_host(&fake_renewed.address, &address));
	assert_string_equal(fake_renewed.name, "fake0/1");
}

/* It says nothing of itself, takes memory, and opens no endpoint. */
static void rail_without_a_link_waits_for_one(void **state)
{
	const struct tei_backend_ops *ops = &tei_backend_verbs;
	uint8_t blob[TEI_BLOB_MAX];
	size_t len = sizeof(blob);
	struct tei_endpoint *ep;
	struct fake_link link;
	struct fake_rail r;

	(void)state;
	fake_verbs_link(0, 1, false);
	assert_int_equal(fake_rail_open(&r, ops, NULL), 0);
	assert_true(r.rail->down);
	assert_int_equal(ops->rail_describe(r.rail, blob, &len), 0);
	assert_int_equal(len, 0);
	assert_int_equal(ops->rail_match(r.rail, NULL, blob, 0), 0);
	ep = fake_endpoint(&r, &link, false, 1);
	assert_non_null(ep);
	len = sizeof(blob);
	assert_int_equal(ops->endpoint_open(ep, blob, &len), -ENETDOWN);
	tei_free(ep);
	fake_renewed = (struct tei_device){0};
	fake_verbs_link(0, 1, true);
	for (uint64_t t = tei_now_ms();
	     !verbs_rail(r.rail)->link_up && tei_now_ms() < t + FAKE_LIMIT_MS;)
		ops->progress(r.rail, 1);
	assert_true(fake_renewed.address.len > 0);
	len = sizeof(blob);
	assert_int_equal(ops->rail_describe(r.rail, blob, &len), 0);
	assert_true(ops->rail_match(r.rail, NULL, blob, len) > 0);
	assert_int_equal(atomic_load(&r.rail->bad_frames), 0);
	fake_rail_close(&r);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, set_up, verbs_rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(forged_key_reaches_nothing),
		TEST(key_of_another_range_is_refused_at_home),
		TEST(access_is_what_the_owner_gave),
		TEST(nonsense_of_a_peer_is_refused),
		TEST(failed_handshake_leaves_nothing_behind),
		TEST(thousand_connections_leave_no_queue_pair),
		TEST(room_of_an_ended_endpoint_is_the_next_one_s_at_once),
		TEST(queue_pairs_without_inline_data_are_used_without),
		TEST(an_erdma_device_carries_what_others_do),
		TEST(lost_link_and_fatal_errors_are_told),
		TEST(another_lid_is_another_address),
		TEST(failed_completion_queue_ends_the_rail),
		TEST(queue_pair_that_the_device_finds_broken_is_told),
		TEST(new_address_is_what_peers_are_told),
		TEST(rail_without_a_link_waits_for_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
