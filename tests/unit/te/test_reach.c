/* SPDX-License-Identifier: Apache-2.0 */
/* test_reach.c - by which rails a region is reached, asked again and again */
#include <stdio.h>

#include "te/region/description.h"
#include "te/transfer/peer.h"
#include "te/transfer/rails.h"
#include "te/worker/worker.h"
#include "tests/lib/test.h"

#define RAILS 2

/* Keys of the tests are one byte: whether it is of memory of a GPU. */
static const uint8_t host = 0, gpu = 1;

static bool is_across(const void *key, size_t len)
{
	return len == 1 && *(const uint8_t *)key == gpu;
}

static const struct tei_backend_ops ops = {.name = "x",
					   .region_is_across = is_across};
static struct tei_worker worker;
static struct tei_rail_box boxes[RAILS], *rails[RAILS];
static struct tei_pair pairs[RAILS];
static struct tei_peer of;
static struct tei_peer_work peer;

/* A description with two regions; keys[region][rail]. */
struct described {
	struct tei_remote remote;
	struct tei_remote_rail rails[RAILS];
	struct tei_remote_region regions[2];
	struct tei_blob keys[2][RAILS];
};

static struct described now, before;

static void describe(struct described *d)
{
	*d = (struct described){.remote = {.n_rails = RAILS,
					   .n_regions = 2,
					   .rails = d->rails,
					   .regions = d->regions}};
	for (size_t i = 0; i < RAILS; i++)
		(void)snprintf(d->rails[i].backend, sizeof(d->rails[i].backend),
			       "x");
	for (size_t i = 0; i < 2; i++)
		d->regions[i].key = d->keys[i];
}

static void give_key(struct described *d, size_t region, size_t rail,
		     const uint8_t *kind)
{
	d->keys[region][rail] = (struct tei_blob){.bytes = kind, .len = 1};
}

/* Both rails of ours match the peer's; nothing has a key. */
static int set_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < RAILS; i++) {
		rails[i] = &boxes[i];
		boxes[i].worker = &worker;
		boxes[i].rail.ops = &ops;
	}
	worker.rails = rails;
	worker.n_rails = RAILS;
	worker.mine = worker.tiers[0] = 3;
	worker.n_tiers = 1;
	describe(&now);
	describe(&before);
	peer = (struct tei_peer_work){.of = &of,
				      .worker = &worker,
				      .name = "peer",
				      .pairs = pairs,
				      .remote = &now.remote};
	(void)tei_pairs_match(&peer);
	return 0;
}

static void expect(const struct described *d, size_t region, uint64_t reach,
		   uint64_t across)
{
	uint64_t got;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(tei_pairs_that_reach(&peer, &d->remote,
						      &d->regions[region],
						      &got),
				 reach);
		assert_int_equal(got, across);
	}
}

static void each_region_is_reached_by_the_rails_that_have_its_key(void **state)
{
	(void)state;
	give_key(&now, 0, 0, &host);
	give_key(&now, 1, 0, &host);
	give_key(&now, 1, 1, &gpu);
	for (int i = 0; i < 2; i++) {
		expect(&now, 0, 1, 0);
		expect(&now, 1, 3, 2);
	}
}

static void earlier_description_answers_for_itself(void **state)
{
	(void)state;
	give_key(&before, 0, 1, &gpu);
	give_key(&now, 0, 0, &host);
	for (int i = 0; i < 2; i++) {
		expect(&before, 0, 2, 2);
		expect(&now, 0, 1, 0);
	}
}

static void pairs_that_change_are_looked_at_anew(void **state)
{
	(void)state;
	give_key(&now, 0, 0, &host);
	give_key(&now, 0, 1, &host);
	expect(&now, 0, 3, 0);
	now.rails[1].backend[0] = 'y'; /* it is not of ours any more */
	assert_true(tei_pairs_match(&peer));
	/* Both of ours go to its first one. */
	expect(&now, 0, 3, 0);
	assert_int_equal(pairs[1].remote_pos, 0);
	now.keys[0][0].bytes = NULL;
	now.rails[0].backend[0] = 'y';
	assert_true(tei_pairs_match(&peer));
	expect(&now, 0, 0, 0);
}

static void rails_of_other_workers_reach_nothing_here(void **state)
{
	(void)state;
	give_key(&now, 0, 0, &host);
	give_key(&now, 0, 1, &host);
	expect(&now, 0, 3, 0);
	worker.mine = 2;
	(void)tei_pairs_match(&peer);
	expect(&now, 0, 2, 0);
	assert_int_equal(peer.elsewhere, 1);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_region_is_reached_by_the_rails_that_have_its_key),
		TEST(earlier_description_answers_for_itself),
		TEST(pairs_that_change_are_looked_at_anew),
		TEST(rails_of_other_workers_reach_nothing_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
