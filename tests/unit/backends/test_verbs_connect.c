/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_verbs_connect.c - what two halves agree on, and what queue pairs are told
 *
 * The rails are on two devices of the fake provider, which may differ.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/lib/netns.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/verbs_rig.h"

#define NEAR   0 /* device of the initiator's rail */
#define FAR    1
#define SLICES 64
#define LENGTH 1024

static const struct verbs_bundle *bundle_of(const struct tei_endpoint *ep)
{
	return verbs_endpoint(ep)->bundle;
}

static struct ibv_qp_attr pair_of(const struct tei_endpoint *ep, uint32_t lane)
{
	return fake_verbs_pair(bundle_of(ep)->lanes[lane].qp);
}

/* What is carried by the connection, both ways. */
static void carry_all(void)
{
	struct fake_slice *s[SLICES];

	for (uint32_t op = TEI_READ; op <= TEI_WRITE; op++) {
		verbs_rig_fill(rig.near, SLICES * LENGTH, op);
		verbs_rig_fill(rig.far, SLICES * LENGTH, 10 + op);
		verbs_rig_post(s, SLICES, op, LENGTH);
		verbs_rig_await(s, SLICES);
		assert_memory_equal(rig.near, rig.far, SLICES * LENGTH);
	}
}

static int set_up(void **state)
{
	(void)state;
	tei_log_set_level(TEI_LOG_ERROR);
	fake_verbs_start(2);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	verbs_rig_close();
	return 0;
}

/* ---- agreed ---- */

static void unlike_sides_take_the_smaller_of_all(void **state)
{
	static const char *const more[] = {"verbs.lanes=8", "verbs.depth=64",
					   "verbs.reads=100", NULL};
	static const char *const less[] = {"verbs.lanes=3", "verbs.depth=16",
					   NULL};

	(void)state;
	fake_verbs_port(NEAR, 1)->active_mtu = IBV_MTU_4096;
	fake_verbs_port(FAR, 1)->active_mtu = IBV_MTU_512;
	fake_verbs_device(NEAR)->max_qp_init_rd_atom = 12;
	fake_verbs_device(FAR)->max_qp_rd_atom = 5;
	assert_int_equal(verbs_rig_open_two("fake0/1", more, "fake1/1", less),
			 0);
	assert_int_equal(bundle_of(rig.pair.initiator)->n_used, 3);
	assert_int_equal(bundle_of(rig.pair.initiator)->depth, 16);
	for (uint32_t i = 0; i < 3; i++) {
		struct ibv_qp_attr mine = pair_of(rig.pair.initiator, i);
		struct ibv_qp_attr theirs = pair_of(rig.pair.target, i);

		assert_int_equal(mine.qp_state, IBV_QPS_RTS);
		assert_int_equal(theirs.qp_state, IBV_QPS_RTR);
		assert_int_equal(mine.path_mtu, IBV_MTU_512);
		assert_int_equal(theirs.path_mtu, IBV_MTU_512);
		assert_int_equal(mine.max_rd_atomic, 5);
		assert_int_equal(theirs.max_dest_rd_atomic, 5);
	}
	for (uint32_t i = 3; i < 8; i++) /* made, and of no use */
		assert_int_equal(pair_of(rig.pair.initiator, i).qp_state,
				 IBV_QPS_RESET);
	carry_all();
	assert_int_equal(fake_verbs_counts().most_reads, 2 * 5);
}

static void eight_lanes_carry_all_of_them(void **state)
{
	static const char *const eight[] = {"verbs.lanes=8", NULL};

	(void)state;
	assert_int_equal(verbs_rig_open_two("fake0/1", eight, "fake1/1", eight),
			 0);
	carry_all();
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(bundle_of(rig.pair.initiator)->lanes[i].tail,
				 2 * SLICES / 8);
}

static void expect_mtu(enum ibv_mtu mtu)
{
	assert_int_equal(pair_of(rig.pair.initiator, 0).path_mtu, mtu);
	assert_int_equal(pair_of(rig.pair.target, 0).path_mtu, mtu);
	carry_all();
}

/* The rail has seen the port's MTU. */
static void await_mtu(struct tei_rail *rail, uint32_t mtu)
{
	for (uint64_t end = tei_now_ms() + FAKE_LIMIT_MS;
	     verbs_rail(rail)->port.offer.mtu != mtu && tei_now_ms() < end;)
		fake_progress(&rig.pair);
	assert_int_equal(verbs_rail(rail)->port.offer.mtu, mtu);
}

/* No event says that it has changed. */
static void pair_takes_the_smaller_mtu_as_it_is_when_it_is_made(void **state)
{
	static const enum ibv_mtu near[] = {IBV_MTU_4096, IBV_MTU_512,
					    IBV_MTU_2048, IBV_MTU_4096};
	static const enum ibv_mtu far[] = {IBV_MTU_1024, IBV_MTU_2048,
					   IBV_MTU_256, IBV_MTU_4096};

	(void)state;
	fake_verbs_set_mtu(NEAR, 1, IBV_MTU_4096);
	fake_verbs_set_mtu(FAR, 1, IBV_MTU_4096);
	assert_int_equal(verbs_rig_open_two("fake0/1", NULL, "fake1/1", NULL),
			 0);
	expect_mtu(IBV_MTU_4096);
	for (size_t i = 0; i < TEST_COUNT(near); i++) {
		fake_verbs_set_mtu(NEAR, 1, near[i]);
		fake_verbs_set_mtu(FAR, 1, far[i]);
		verbs_rig_rejoin();
		expect_mtu(near[i] < far[i] ? near[i] : far[i]);
	}
}

/* One half has told its MTU, and has a larger one when the answer comes. */
static void mtu_that_grows_between_two_halves_is_not_theirs(void **state)
{
	const struct tei_backend_ops *ops = &tei_backend_verbs;
	uint8_t near[TEI_BLOB_MAX], far[TEI_BLOB_MAX];
	size_t near_len = sizeof(near), far_len = sizeof(far);
	struct fake_pair *p = &rig.pair;

	(void)state;
	fake_verbs_set_mtu(NEAR, 1, IBV_MTU_512);
	fake_verbs_set_mtu(FAR, 1, IBV_MTU_4096);
	assert_int_equal(verbs_rig_open_two("fake0/1", NULL, "fake1/1", NULL),
			 0);
	fake_pair_disconnect(p);
	p->initiator = fake_endpoint(&p->a, &p->initiator_link, false, 1);
	p->target = fake_endpoint(&p->b, &p->target_link, true, 1);
	assert_int_equal(ops->endpoint_open(p->initiator, near, &near_len), 0);
	assert_int_equal(ops->endpoint_open(p->target, far, &far_len), 0);
	fake_verbs_set_mtu(NEAR, 1, IBV_MTU_2048);
	fake_verbs_tell(NEAR, IBV_EVENT_PORT_ACTIVE, 1);
	await_mtu(p->a.rail, 2048);
	assert_int_equal(ops->endpoint_connect(p->target, near, near_len),
			 -EINPROGRESS);
	verbs_rig_wait(&p->target_link.n_up, 1);
	assert_int_equal(ops->endpoint_connect(p->initiator, far, far_len),
			 -EINPROGRESS);
	verbs_rig_wait(&p->initiator_link.n_up, 1);
	expect_mtu(IBV_MTU_512);
}

/* Packets of the old size would be lost; those of a larger one are not sent. */
static void smaller_mtu_breaks_all_pairs_and_a_larger_one_none(void **state)
{
	unsigned int downs = fake_n_downs;

	(void)state;
	fake_verbs_set_mtu(NEAR, 1, IBV_MTU_1024);
	fake_verbs_set_mtu(FAR, 1, IBV_MTU_4096);
	assert_int_equal(verbs_rig_open_two("fake0/1", NULL, "fake1/1", NULL),
			 0);
	fake_verbs_set_mtu(NEAR, 1, IBV_MTU_4096);
	fake_verbs_tell(NEAR, IBV_EVENT_PORT_ACTIVE, 1);
	await_mtu(rig.pair.a.rail, 4096);
	expect_mtu(IBV_MTU_1024);
	assert_int_equal(fake_n_downs, downs);
	fake_verbs_set_mtu(NEAR, 1, IBV_MTU_512);
	fake_verbs_tell(NEAR, IBV_EVENT_PORT_ACTIVE, 1);
	verbs_rig_wait(&fake_n_downs, downs + 1);
	assert_true(verbs_rail(rig.pair.a.rail)->link_up);
	verbs_rig_rejoin();
	expect_mtu(IBV_MTU_512);
	/* No event, and another pair is made: that one finds out for all. */
	fake_verbs_set_mtu(NEAR, 1, IBV_MTU_256);
	verbs_rig_rejoin();
	verbs_rig_wait(&fake_n_downs, downs + 2);
	assert_true(verbs_rail(rig.pair.a.rail)->link_up);
}

/* The system says that an interface has changed; the device says nothing. */
static void mtu_is_asked_for_when_an_interface_has_changed(void **state)
{
	unsigned int downs = fake_n_downs;
	const char *why;

	(void)state;
	if (test_netns_enter(&why)) {
		print_message("skipped: %s\n", why);
		skip();
	}
	fake_verbs_set_mtu(NEAR, 1, IBV_MTU_4096);
	fake_verbs_set_mtu(FAR, 1, IBV_MTU_4096);
	assert_int_equal(verbs_rig_open_two("fake0/1", NULL, "fake1/1", NULL),
			 0);
	fake_verbs_set_mtu(FAR, 1, IBV_MTU_1024);
	assert_int_equal(test_netns_run(0, "ip link set lo mtu 1500"), 0);
	await_mtu(rig.pair.b.rail, 1024);
	verbs_rig_wait(&fake_n_downs, downs + 1);
	assert_true(verbs_rail(rig.pair.b.rail)->link_up);
	verbs_rig_rejoin();
	expect_mtu(IBV_MTU_1024);
	fake_verbs_set_mtu(FAR, 1, IBV_MTU_2048);
	assert_int_equal(test_netns_run(0, "ip link set lo mtu 3000"), 0);
	await_mtu(rig.pair.b.rail, 2048);
	expect_mtu(IBV_MTU_1024); /* of the pair that is there */
}

static void settings_reach_the_queue_pairs(void **state)
{
	static const char *const settings[] = {
		"verbs.traffic_class=104", "verbs.service_level=3",
		"verbs.pkey_index=7",      "verbs.timeout=17",
		"verbs.retries=4",         "verbs.mtu=512",
		"verbs.gid_index=2",       NULL};
	const struct tei_endpoint *ends[2];

	(void)state;
	fake_verbs_set_gid(NEAR, 1, 2, "10.9.7.1", IBV_GID_TYPE_ROCE_V2);
	fake_verbs_set_gid(FAR, 1, 2, "10.9.7.2", IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(
		verbs_rig_open_two("fake0/1", settings, "fake1/1", settings),
		0);
	ends[0] = rig.pair.initiator;
	ends[1] = rig.pair.target;
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = pair_of(ends[i], 0);

		assert_int_equal(attr.ah_attr.grh.traffic_class, 104);
		assert_int_equal(attr.ah_attr.sl, 3);
		assert_int_equal(attr.ah_attr.grh.sgid_index, 2);
		assert_int_equal(attr.ah_attr.grh.dgid.raw[15], 2 - i);
		assert_int_equal(attr.pkey_index, 7);
		assert_int_equal(attr.path_mtu, IBV_MTU_512);
	}
	assert_int_equal(pair_of(ends[0], 0).timeout, 17);
	assert_int_equal(pair_of(ends[0], 0).retry_cnt, 4);
	/* A target answers, and begins nothing; an initiator serves nothing. */
	assert_int_equal(pair_of(ends[0], 0).qp_access_flags, 0);
	assert_int_equal(pair_of(ends[1], 0).qp_access_flags,
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}

#define NUMBERS 32

static void packet_numbers_are_left_to_chance(void **state)
{
	static const char *const eight[] = {"verbs.lanes=8", NULL};
	uint32_t numbers[NUMBERS];
	size_t n = 0, equal = 0;

	(void)state;
	assert_int_equal(verbs_rig_open_two("fake0/1", eight, "fake1/1", eight),
			 0);
	for (; n < NUMBERS; verbs_rig_rejoin()) {
		for (uint32_t i = 0; i < 8; i++) {
			uint32_t psn = pair_of(rig.pair.initiator, i).sq_psn;

			assert_true(psn <= VERBS_NUMBER_MAX);
			assert_int_equal(pair_of(rig.pair.target, i).rq_psn,
					 psn);
			numbers[n++] = psn;
		}
	}
	for (size_t i = 1; i < NUMBERS; i++)
		equal += numbers[i] == numbers[i - 1] ||
			 numbers[i] == numbers[i - 1] + 1;
	assert_true(equal < 2);
}

/* ---- forged ---- */

/* A second initiator, which is told of a target by @forge. */
static void forged(void (*forge)(struct verbs_address *address))
{
	const struct tei_backend_ops *ops = &tei_backend_verbs;
	uint8_t mine[TEI_BLOB_MAX], theirs[TEI_BLOB_MAX];
	size_t len = sizeof(mine), their_len = sizeof(theirs);
	struct tei_endpoint *old = rig.pair.initiator, *ep, *target;
	struct fake_link link, target_link;
	struct verbs_address address;
	struct fake_slice *s;

	ep = fake_endpoint(&rig.pair.a, &link, false, 1);
	target = fake_endpoint(&rig.pair.b, &target_link, true, 1);
	assert_int_equal(ops->endpoint_open(ep, mine, &len), 0);
	assert_int_equal(ops->endpoint_open(target, theirs, &their_len), 0);
	assert_null(tei_verbs_address_decode(theirs, their_len, &address));
	forge(&address);
	their_len = sizeof(theirs);
	assert_int_equal(tei_verbs_address_encode(&address, theirs, &their_len),
			 0);
	assert_int_equal(ops->endpoint_connect(target, mine, len),
			 -EINPROGRESS);
	verbs_rig_wait(&target_link.n_up, 1);
	assert_int_equal(ops->endpoint_connect(ep, theirs, their_len),
			 -EINPROGRESS);
	verbs_rig_wait(&link.n_up, 1);

	rig.pair.initiator = ep;
	memset(rig.near, 1, LENGTH);
	memset(rig.far, 0, LENGTH);
	s = verbs_rig_slice(TEI_WRITE, 0, LENGTH);
	assert_int_equal(fake_post(&rig.pair, s), 0);
	verbs_rig_wait(&link.n_down, 1);
	assert_int_equal(link.down_err, -ETIMEDOUT);
	fake_flush(ep, -ETIMEDOUT);
	assert_int_equal(s->n_done, 1);
	assert_int_equal(s->err, -ETIMEDOUT);
	assert_int_equal(s->slice->provider_code, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(rig.far[0], 0);
	fake_slice_destroy(s);
	rig.pair.initiator = old;
	fake_flush(target, -ETIMEDOUT);
	ops->endpoint_close(ep);
	ops->endpoint_close(target);
	tei_free(ep);
	tei_free(target);
}

static void another_number(struct verbs_address *address)
{
	for (uint32_t i = 0; i < address->offer.lanes; i++)
		address->lanes[i].number ^= 0x1000;
}

/* One that is in use, by somebody else. */
static void anothers_number(struct verbs_address *address)
{
	for (uint32_t i = 0; i < address->offer.lanes; i++)
		address->lanes[i].number =
			bundle_of(rig.pair.target)->lanes[i].qp->qp_num;
}

static void another_gid(struct verbs_address *address)
{
	address->gid.raw[15] ^= 0x40;
}

static void what_is_nobodys_is_reached_by_nothing(void **state)
{
	(void)state;
	assert_int_equal(verbs_rig_open_two("fake0/1", NULL, "fake1/1", NULL),
			 0);
	forged(another_number);
	forged(anothers_number);
	forged(another_gid);
	carry_all(); /* the others are as they were */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(unlike_sides_take_the_smaller_of_all),
		TEST(eight_lanes_carry_all_of_them),
		TEST(pair_takes_the_smaller_mtu_as_it_is_when_it_is_made),
		TEST(mtu_that_grows_between_two_halves_is_not_theirs),
		TEST(smaller_mtu_breaks_all_pairs_and_a_larger_one_none),
		TEST(mtu_is_asked_for_when_an_interface_has_changed),
		TEST(settings_reach_the_queue_pairs),
		TEST(packet_numbers_are_left_to_chance),
		TEST(what_is_nobodys_is_reached_by_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
