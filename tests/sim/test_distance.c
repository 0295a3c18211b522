/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_distance.c - which rails carry what, by where the memory lies
 *
 * Both machines have two NUMA nodes with two NICs each: rails 0 and 1 are near
 * node 0, rails 2 and 3 near node 1. Some have four each: rails 0 to 3, and 4
 * to 7. The first half of the places lies in one region, the second in another.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "te/core/engine.h"
#include "te/region/region.h"
#include "te/transfer/peer.h"
#include "tests/lib/faults.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"
#include "tests/sim/backend/sim.h"
#include "tests/sim/world.h"

#define MS(n)   ((uint64_t)(n)*1000000)
#define PLACE   ((size_t)1 << 20)
#define HALF    (WORLD_PLACES / 2)
#define N_RAILS 4
#define EQUAL   "4g:20us:1us,4g:20us:1us,4g:20us:1us,4g:20us:1us"

static const char picture[] =
	"{\"nics\": [{\"name\": \"0\", \"numa_node\": 0},"
	" {\"name\": \"1\", \"numa_node\": 0},"
	" {\"name\": \"2\", \"numa_node\": 1},"
	" {\"name\": \"3\", \"numa_node\": 1}],"
	" \"mems\": [{\"name\": \"cpu:0\", \"numa_node\": 0},"
	" {\"name\": \"cpu:1\", \"numa_node\": 1},"
	" {\"name\": \"cuda:0\", \"numa_node\": 1}],"
	" \"nodes\": [{\"node\": 0, \"package\": 0},"
	" {\"node\": 1, \"package\": 1}]}";

static const char picture_of_eight[] =
	"{\"nics\": [{\"name\": \"0\", \"numa_node\": 0},"
	" {\"name\": \"1\", \"numa_node\": 0},"
	" {\"name\": \"2\", \"numa_node\": 0},"
	" {\"name\": \"3\", \"numa_node\": 0},"
	" {\"name\": \"4\", \"numa_node\": 1},"
	" {\"name\": \"5\", \"numa_node\": 1},"
	" {\"name\": \"6\", \"numa_node\": 1},"
	" {\"name\": \"7\", \"numa_node\": 1}],"
	" \"mems\": [{\"name\": \"cpu:0\", \"numa_node\": 0},"
	" {\"name\": \"cpu:1\", \"numa_node\": 1}],"
	" \"nodes\": [{\"node\": 0, \"package\": 0},"
	" {\"node\": 1, \"package\": 1}]}";

static char folder[TEST_PATH_MAX];
static char four[TEST_PATH_MAX + 16], eight[TEST_PATH_MAX + 16];
static const char *file = four; /* of the machine that is opened */

/* Where the two halves of both memories lie; NULL: not registered. */
struct places {
	const char *local[2], *remote[2];
};

static void add(struct te_engine *engine, uint8_t *addr, const char *location,
		uint32_t access)
{
	struct te_region region = {
		.addr = addr,
		.length = HALF * PLACE,
		.access = access,
		.location = location,
	};
	te_region_id id;

	assert_int_equal(te_region_add(engine, &region, &id), 0);
}

static void open_with(struct world *w, const char *backends, const char *rails,
		      const char *schedule, const struct places *places)
{
	const char *const settings[] = {"topology", file, "backends", backends,
					NULL};
	const struct world_config config = {.rails = rails,
					    .schedule = schedule,
					    .seed = 1,
					    .place = PLACE,
					    .settings = settings};

	world_open(w, &config);
	assert_int_equal(te_region_remove(w->owner, w->region), 0);
	for (int i = 0; i < 2; i++) {
		size_t at = (size_t)i * HALF * PLACE;

		add(w->owner, w->memory + at, places->remote[i],
		    TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE);
		if (places->local[i])
			add(w->user, w->local + at, places->local[i], 0);
	}
	world_pass(w, MS(1)); /* the user hears of them */
}

static void open_at(struct world *w, const char *rails, const char *schedule,
		    const struct places *places)
{
	open_with(w, "sim", rails, schedule, places);
}

struct stream {
	struct te_batch *batch;
	struct te_request requests[WORLD_PLACES];
	struct iovec pieces[WORLD_PLACES];
	uint32_t from, n;
};

/* Places @from .. @from + @n - 1. */
static void start(struct world *w, struct stream *s, uint32_t op, uint32_t from,
		  uint32_t n)
{
	s->from = from;
	s->n = n;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t place = from + i;

		s->requests[i] =
			world_request(w, op, place, &s->pieces[i], PLACE);
		world_fill(op == TE_WRITE ? s->pieces[i].iov_base
					  : w->memory + place * PLACE,
			   PLACE, place, 1);
	}
	assert_int_equal(te_batch_create(w->user, n, &s->batch), 0);
	assert_int_equal(te_batch_submit(s->batch, s->requests, n), 0);
}

static void finish(struct world *w, struct stream *s)
{
	struct te_completion c;

	assert_int_equal(te_batch_wait(s->batch, UINT32_MAX), 0);
	for (uint32_t i = 0; i < s->n; i++) {
		size_t at = (s->from + i) * PLACE;

		assert_int_equal(te_batch_result(s->batch, i, &c), 0);
		assert_int_equal(c.error, 0);
		assert_true(world_is(w->memory + at, PLACE, s->from + i, 1));
		assert_true(world_is(w->local + at, PLACE, s->from + i, 1));
	}
	te_batch_destroy(s->batch);
}

static void run(struct world *w, uint32_t op, uint32_t from, uint32_t n)
{
	struct stream s;

	start(w, &s, op, from, n);
	finish(w, &s);
}

static uint64_t carried(struct world *w, uint32_t rail)
{
	struct tei_rail *r = world_rail(w, rail);

	return atomic_load(&r->sent_bytes) + atomic_load(&r->received_bytes);
}

static uint64_t by_near(struct world *w)
{
	return carried(w, 0) + carried(w, 1);
}

static uint64_t by_far(struct world *w)
{
	return carried(w, 2) + carried(w, 3);
}

static const struct places straight = {{"cpu:0", "cpu:1"}, {"cpu:0", "cpu:1"}};

static const struct places unknown = {{"unknown:0", NULL},
				      {"unknown:0", "unknown:1"}};

/* ---- who has it ---- */

/*
 * Each allocation of te_region_add() fails in turn, those for rails that are near
 * before those for the others.
 */
static void region_goes_without_a_far_rail_that_cannot_take_it(void **state)
{
	static uint8_t memory[4096];
	const struct te_region region = {.addr = memory,
					 .length = sizeof(memory),
					 .access = TE_ACCESS_REMOTE_READ,
					 .location = "cpu:1"};
	unsigned int n_failed = 0, n_without = 0;
	const struct tei_region *added;
	te_region_id id;
	struct world w;
	int rc;

	(void)state;
	open_at(&w, EQUAL, NULL, &straight);
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		rc = te_region_add(w.owner, &region, &id);
		if (rc) {
			assert_int_equal(rc, -ENOMEM);
			assert_int_equal(n_without, 0);
			n_failed++;
			continue;
		}
		added = tei_handle_get(&w.owner->regions->handles, id);
		assert_true(added->key[2] && added->key[3]);
		n_without += !added->key[0] || !added->key[1];
		assert_int_equal(te_region_remove(w.owner, id), 0);
	}
	assert_true(n_failed >= 2); /* near ones are not done without */
	assert_int_equal(n_without, 2);
	world_close(&w);
}

/* ---- where it goes ---- */

static void each_node_uses_its_own_nics(void **state)
{
	static const uint32_t ops[] = {TE_WRITE, TE_READ};
	struct world w;

	(void)state;
	for (int i = 0; i < 2; i++) {
		open_at(&w, EQUAL, NULL, &straight);
		run(&w, ops[i], 0, WORLD_PLACES);
		assert_int_equal(by_near(&w), HALF * PLACE);
		assert_int_equal(by_far(&w), HALF * PLACE);
		for (uint32_t k = 0; k < N_RAILS; k++)
			assert_true(carried(&w, k) > HALF * PLACE / 4);
		/* 34 ms by all: nobody waits for the others' rails. */
		assert_in_range(world_now(&w), MS(33), MS(38));
		world_close(&w);
	}
}

static struct tei_peer *peer_of(struct world *w)
{
	return TEI_CONTAINER(w->user->peers.next, struct tei_peer, link);
}

static void far_nics_are_not_even_connected(void **state)
{
	struct world w;

	(void)state;
	open_at(&w, EQUAL, NULL, &straight);
	run(&w, TE_WRITE, 0, HALF);
	assert_int_equal(by_near(&w), HALF * PLACE);
	assert_non_null(peer_of(&w)->works[0].pairs[0].link);
	assert_null(peer_of(&w)->works[0].pairs[2].link);
	assert_null(peer_of(&w)->works[0].pairs[3].link);
	run(&w, TE_READ, HALF, 1);
	assert_non_null(peer_of(&w)->works[0].pairs[2].link);
	world_close(&w);
}

static void device_memory_has_its_own_nics(void **state)
{
	static const struct places gpu = {{"cuda:0", "cuda:0"},
					  {"cpu:1", "cpu:1"}};
	struct world w;

	(void)state;
	open_at(&w, EQUAL, NULL, &gpu);
	run(&w, TE_WRITE, 0, WORLD_PLACES);
	assert_int_equal(by_far(&w), WORLD_PLACES * PLACE);
	world_close(&w);
}

/* Each pair of NICs is then near one end of it, and far from the other. */
static void memory_of_different_nodes_uses_all_nics(void **state)
{
	static const struct places crossed = {{"cpu:0", "cpu:1"},
					      {"cpu:1", "cpu:0"}};
	struct world w;

	(void)state;
	open_at(&w, EQUAL, NULL, &crossed);
	run(&w, TE_WRITE, 0, HALF);
	for (uint32_t k = 0; k < N_RAILS; k++)
		assert_true(carried(&w, k) > HALF * PLACE / 8);
	world_close(&w);
}

static void the_end_that_is_known_decides(void **state)
{
	static const struct places far_only = {{NULL, NULL},
					       {"cpu:1", "cpu:1"}};
	static const struct places near_only = {{"cpu:1", "cpu:1"},
						{"unknown:0", "unknown:0"}};
	struct world w;

	(void)state;
	open_at(&w, EQUAL, NULL, &far_only);
	run(&w, TE_WRITE, 0, HALF);
	assert_int_equal(by_far(&w), HALF * PLACE);
	world_close(&w);
	open_at(&w, EQUAL, NULL, &near_only);
	run(&w, TE_READ, 0, HALF);
	assert_int_equal(by_far(&w), HALF * PLACE);
	world_close(&w);
}

static void without_a_place_all_nics_are_used(void **state)
{
	struct world w;

	(void)state;
	open_at(&w, EQUAL, NULL, &unknown);
	run(&w, TE_WRITE, 0, WORLD_PLACES);
	for (uint32_t k = 0; k < N_RAILS; k++)
		assert_true(carried(&w, k) > WORLD_PLACES * PLACE / 8);
	world_close(&w);
}

/* Registered again at the same address, it lies elsewhere. */
static void region_that_moves_is_looked_up_again(void **state)
{
	static const struct places remote_unknown = {
		{NULL, NULL}, {"unknown:0", "unknown:0"}};
	struct te_region region = {.length = HALF * PLACE, .location = "cpu:0"};
	te_region_id id;
	struct world w;

	(void)state;
	open_at(&w, EQUAL, NULL, &remote_unknown);
	region.addr = w.local;
	assert_int_equal(te_region_add(w.user, &region, &id), 0);
	run(&w, TE_WRITE, 0, HALF);
	assert_int_equal(by_near(&w), HALF * PLACE);
	assert_int_equal(te_region_remove(w.user, id), 0);
	region.location = "cpu:1";
	assert_int_equal(te_region_add(w.user, &region, &id), 0);
	run(&w, TE_READ, 0, HALF);
	assert_int_equal(by_near(&w), HALF * PLACE);
	assert_int_equal(by_far(&w), HALF * PLACE);
	world_close(&w);
}

/* ---- when the near ones do not do ---- */

static void far_nics_carry_on_when_the_near_ones_are_gone(void **state)
{
	uint64_t near, far;
	struct stream s;
	struct world w;

	(void)state;
	open_at(&w, EQUAL, "10ms:0:down,10ms:1:down,60ms:0:up,60ms:1:up",
		&straight);
	start(&w, &s, TE_WRITE, 0, HALF);
	finish(&w, &s);
	assert_in_range(world_now(&w), MS(10), MS(60));
	assert_true(by_near(&w) > 0);
	assert_true(by_far(&w) > HALF * PLACE / 4);
	world_pass(&w, MS(70) - world_now(&w));
	near = by_near(&w);
	far = by_far(&w);
	run(&w, TE_WRITE, 0, HALF);
	assert_int_equal(by_near(&w), near + HALF * PLACE);
	assert_int_equal(by_far(&w), far);
	world_close(&w);
}

/* Those of a preferred backend that does not reach the peer. */
static void rails_of_no_use_to_a_peer_change_nothing(void **state)
{
	struct world w;

	(void)state;
	open_with(&w, "loop,sim", EQUAL, "10ms:0:down,10ms:1:down", &straight);
	assert_int_equal(w.user->worker->n_rails, 1 + N_RAILS);
	run(&w, TE_WRITE, 0, HALF);
	assert_int_equal(carried(&w, 0), 0);
	for (uint32_t k = 0; k <= N_RAILS; k++) {
		bool is_far = k > N_RAILS / 2;

		assert_int_equal(!!peer_of(&w)->works[0].pairs[k].link, is_far);
		assert_true(!is_far || carried(&w, k) > HALF * PLACE / 8);
	}
	world_close(&w);
}

static void one_near_nic_that_is_left_carries_alone(void **state)
{
	struct world w;

	(void)state;
	open_at(&w, EQUAL, "5ms:0:down", &straight);
	world_pass(&w, MS(6) - world_now(&w));
	run(&w, TE_WRITE, 0, HALF);
	assert_int_equal(carried(&w, 1), HALF * PLACE);
	world_close(&w);
}

static void far_nics_help_near_ones_that_became_slow(void **state)
{
	struct world w;

	(void)state;
	open_at(&w, EQUAL, "10ms:0:slow=0.05,10ms:1:slow=0.05", &straight);
	run(&w, TE_WRITE, 0, HALF);
	assert_true(by_far(&w) > HALF * PLACE / 4);
	/* Alone, the near ones would take 600 ms. */
	assert_in_range(world_now(&w), 0, MS(200));
	world_close(&w);
}

static void far_nics_that_are_much_faster_help(void **state)
{
	struct world w;

	(void)state;
	open_at(&w, "1g:20us:1us,1g:20us:1us,20g:20us:1us,20g:20us:1us", NULL,
		&straight);
	run(&w, TE_WRITE, 0, HALF);
	assert_true(by_far(&w) > by_near(&w));
	assert_true(by_near(&w) > 0);
	world_close(&w);
}

static void twice_as_fast_is_not_enough_to_go_far(void **state)
{
	struct world w;

	(void)state;
	open_at(&w, "2g:20us:1us,2g:20us:1us,4g:20us:1us,4g:20us:1us", NULL,
		&straight);
	run(&w, TE_WRITE, 0, HALF);
	run(&w, TE_READ, 0, HALF);
	assert_int_equal(by_far(&w), 0);
	world_close(&w);
}

/* ---- eight rails ---- */

#define N_EIGHT 8
#define SAME    EQUAL "," EQUAL
/* Rail 2 has half of the rate of the others. */
#define UNEQUAL "4g:20us:1us,4g:20us:1us,2g:20us:1us,4g:20us:1us," EQUAL

static void open_eight(struct world *w, const char *rails,
		       const struct places *places)
{
	file = eight;
	open_at(w, rails, NULL, places);
	file = four;
}

/* Rail @k carried @share of all places, give or take a sixth of that. */
static void assert_share(struct world *w, uint32_t k, double share)
{
	double times = (double)carried(w, k) /
		       (share * (double)(WORLD_PLACES * PLACE));

	if (times < 1 - 1.0 / 6 || times > 1 + 1.0 / 6)
		fail_msg("rail %u carried %.2f times its share", k, times);
}

static void each_of_eight_carries_its_share_of_its_node(void **state)
{
	struct world w;

	(void)state;
	open_eight(&w, SAME, &straight);
	run(&w, TE_WRITE, 0, HALF);
	for (uint32_t k = 0; k < N_EIGHT; k++) {
		if (k < N_EIGHT / 2)
			assert_share(&w, k, 0.5 / 4);
		else
			assert_int_equal(carried(&w, k), 0);
	}
	run(&w, TE_READ, HALF, HALF);
	for (uint32_t k = 0; k < N_EIGHT; k++)
		assert_share(&w, k, 1.0 / N_EIGHT);
	world_close(&w);
}

static void each_of_eight_carries_its_share_without_a_place(void **state)
{
	struct world w;

	(void)state;
	open_eight(&w, SAME, &unknown);
	run(&w, TE_WRITE, 0, WORLD_PLACES);
	for (uint32_t k = 0; k < N_EIGHT; k++)
		assert_share(&w, k, 1.0 / N_EIGHT);
	world_close(&w);
}

static void slow_one_of_eight_carries_half_a_share(void **state)
{
	struct world w;

	(void)state;
	open_eight(&w, UNEQUAL, &unknown);
	run(&w, TE_WRITE, 0, WORLD_PLACES);
	for (uint32_t k = 0; k < N_EIGHT; k++)
		assert_share(&w, k, k == 2 ? 0.5 / 7.5 : 1 / 7.5);
	world_close(&w);
}

static void slow_one_of_four_of_a_node_carries_half_a_share(void **state)
{
	struct world w;

	(void)state;
	open_eight(&w, UNEQUAL, &straight);
	run(&w, TE_WRITE, 0, WORLD_PLACES);
	for (uint32_t k = 0; k < N_EIGHT; k++) {
		if (k < N_EIGHT / 2)
			assert_share(&w, k, k == 2 ? 0.25 / 3.5 : 0.5 / 3.5);
		else
			assert_share(&w, k, 1.0 / N_EIGHT);
	}
	world_close(&w);
}

/* A batch every tenth of a second, from the time @begin to @end, ns. */
static void run_now_and_then(struct world *w, uint64_t begin, uint64_t end)
{
	for (uint64_t at = begin; at < end; at += MS(100)) {
		if (at > world_now(w))
			world_pass(w, at - world_now(w));
		run(w, TE_WRITE, 0, 1);
	}
}

/*
 * Batches are so short that without rail 1 each ends before the delay that it
 * once had. So only disuse tells that it is as good as the others again.
 */
static void rail_that_was_late_once_is_used_again(void **state)
{
	uint64_t before;
	struct world w;

	(void)state;
	open_at(&w, EQUAL, "1s:1:silent,1008ms:1:up", &unknown);
	run_now_and_then(&w, MS(100), MS(900));
	run_now_and_then(&w, MS(1001), MS(1200));
	run_now_and_then(&w, MS(2000), MS(3000));
	before = carried(&w, 1);
	run_now_and_then(&w, MS(9000), MS(11000));
	assert_true(carried(&w, 1) - before > 20 * PLACE / N_RAILS / 2);
	world_close(&w);
}

/* ---- the machine ---- */

static int set_up(void **state)
{
	(void)state;
	test_tmpdir_create(folder);
	test_tree_write(folder, "four.json", picture);
	test_tree_write(folder, "eight.json", picture_of_eight);
	snprintf(four, sizeof(four), "%s/four.json", folder);
	snprintf(eight, sizeof(eight), "%s/eight.json", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	test_tmpdir_remove(folder);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			region_goes_without_a_far_rail_that_cannot_take_it),
		cmocka_unit_test(each_node_uses_its_own_nics),
		cmocka_unit_test(far_nics_are_not_even_connected),
		cmocka_unit_test(device_memory_has_its_own_nics),
		cmocka_unit_test(memory_of_different_nodes_uses_all_nics),
		cmocka_unit_test(the_end_that_is_known_decides),
		cmocka_unit_test(without_a_place_all_nics_are_used),
		cmocka_unit_test(region_that_moves_is_looked_up_again),
		cmocka_unit_test(far_nics_carry_on_when_the_near_ones_are_gone),
		cmocka_unit_test(rails_of_no_use_to_a_peer_change_nothing),
		cmocka_unit_test(one_near_nic_that_is_left_carries_alone),
		cmocka_unit_test(far_nics_help_near_ones_that_became_slow),
		cmocka_unit_test(far_nics_that_are_much_faster_help),
		cmocka_unit_test(twice_as_fast_is_not_enough_to_go_far),
		cmocka_unit_test(rail_that_was_late_once_is_used_again),
		cmocka_unit_test(each_of_eight_carries_its_share_of_its_node),
		cmocka_unit_test(
			each_of_eight_carries_its_share_without_a_place),
		cmocka_unit_test(slow_one_of_eight_carries_half_a_share),
		cmocka_unit_test(
			slow_one_of_four_of_a_node_carries_half_a_share),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
