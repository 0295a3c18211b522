/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_priority.c - small urgent requests beside bulk ones
 *
 * An urgent request waits for what is on the rails already, and that is kept
 * to some milliseconds; it does not wait for what is queued. Of what waits
 * behind more urgent ones, something moves all the same.
 */
#include <stdio.h>
#include <string.h>

#include "tests/sim/world.h"

#define MS(n)    ((uint64_t)(n)*1000000)
#define PLACE    ((size_t)1 << 20)
#define N_BULK   (WORLD_PLACES - 1)
#define SMALL    4096
#define N_SMALL  40
#define SHORT_MS 5

#define N_CROWD     6000u
#define N_AT_A_TIME 1000u

static const struct world_config config = {
	.rails = "4g:20us:1us,2g:20us:1us", .seed = 1, .place = PLACE};

static struct te_batch *start(struct world *w, uint32_t first, uint32_t n,
			      size_t len, uint32_t priority)
{
	struct te_request requests[WORLD_PLACES];
	struct iovec pieces[WORLD_PLACES];
	struct te_batch *batch;

	for (uint32_t i = 0; i < n; i++) {
		requests[i] =
			world_request(w, TE_WRITE, first + i, &pieces[i], len);
		requests[i].priority = priority;
		w->quiet[first + i] = false;
	}
	assert_int_equal(te_batch_create(w->user, n, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, n), 0);
	return batch;
}

/* The longest of small requests of @priority, ns, while bulk is moved. */
static uint64_t worst_beside_bulk(struct world *w, uint32_t priority)
{
	uint64_t worst = 0, begun, took;
	struct te_batch *bulk, *small;

	bulk = start(w, 0, N_BULK, PLACE, TE_PRIORITY_BULK);
	for (int i = 0; i < N_SMALL; i++) {
		world_pass(w, MS(1));
		begun = world_now(w);
		small = start(w, N_BULK, 1, SMALL, priority);
		assert_int_equal(te_batch_wait(small, UINT32_MAX), 0);
		took = world_now(w) - begun;
		if (took > worst)
			worst = took;
		te_batch_destroy(small);
		if (te_batch_wait(bulk, 0) == 0)
			break;
	}
	assert_int_equal(te_batch_wait(bulk, UINT32_MAX), 0);
	te_batch_destroy(bulk);
	return worst;
}

static void small_urgent_requests_stay_short_beside_bulk(void **state)
{
	struct world w;
	uint64_t worst;

	(void)state;
	world_open(&w, &config);
	worst = worst_beside_bulk(&w, TE_PRIORITY_URGENT);
	printf("worst urgent 4 KiB beside bulk: %.2f ms\n",
	       (double)worst / 1e6);
	assert_in_range(worst, 0, MS(SHORT_MS));
	worst = worst_beside_bulk(&w, TE_PRIORITY_NORMAL);
	printf("worst normal 4 KiB beside bulk: %.2f ms\n",
	       (double)worst / 1e6);
	assert_in_range(worst, 0, MS(2 * SHORT_MS));
	world_close(&w);
}

static void urgent_requests_cost_bulk_little(void **state)
{
	struct world w;
	uint64_t begun, optimum;

	(void)state;
	world_open(&w, &config);
	begun = world_now(&w);
	worst_beside_bulk(&w, TE_PRIORITY_URGENT);
	optimum =
		world_optimum(&config, begun, N_BULK * PLACE + N_SMALL * SMALL);
	assert_true((double)(world_now(&w) - begun) < 1.05 * (double)optimum);
	world_close(&w);
}

/* ---- nobody starves ---- */

static void connect(struct world *w)
{
	struct te_batch *batch = start(w, 0, 1, PLACE, TE_PRIORITY_NORMAL);

	assert_int_equal(te_batch_wait(batch, UINT32_MAX), 0);
	te_batch_destroy(batch);
}

/* How many of N_BULK that go first have ended when a later one has. */
static uint32_t ended_before(uint32_t first, uint32_t later)
{
	struct te_batch *greedy, *modest;
	struct te_completion c;
	struct world w;
	uint64_t begun;
	uint32_t ended = 0;

	world_open(&w, &config);
	connect(&w);
	begun = world_now(&w);
	greedy = start(&w, 1, N_BULK, PLACE, first);
	modest = start(&w, 0, 1, PLACE, later);
	assert_int_equal(te_batch_wait(modest, UINT32_MAX), 0);
	for (uint32_t i = 0; i < N_BULK; i++)
		ended += !te_batch_result(greedy, i, &c);
	printf("1 MiB beside those of priority %u after %.1f ms, %u of %u\n",
	       first, (double)(world_now(&w) - begun) / 1e6, ended, N_BULK);
	assert_int_equal(te_batch_wait(greedy, UINT32_MAX), 0);
	te_batch_destroy(modest);
	te_batch_destroy(greedy);
	world_close(&w);
	return ended;
}

/* At least about one slice in 16 is the bulk's. */
static void bulk_is_not_starved(void **state)
{
	(void)state;
	assert_in_range(ended_before(TE_PRIORITY_URGENT, TE_PRIORITY_BULK), 0,
			N_BULK / 2);
	assert_in_range(ended_before(TE_PRIORITY_NORMAL, TE_PRIORITY_BULK), 0,
			N_BULK / 2);
	assert_in_range(ended_before(TE_PRIORITY_URGENT, TE_PRIORITY_NORMAL), 0,
			N_BULK / 2);
}

struct crowd {
	struct world *w;
	uint32_t n, n_ended;
};

static void one_more(struct te_batch *batch, struct crowd *crowd)
{
	size_t skip = crowd->n / N_BULK * SMALL; /* bytes of its own */
	struct iovec piece;
	struct te_request r;

	if (crowd->n == N_CROWD)
		return;
	r = world_request(crowd->w, TE_WRITE, 1 + crowd->n++ % N_BULK, &piece,
			  SMALL);
	r.remote += skip;
	piece.iov_base = (uint8_t *)piece.iov_base + skip;
	r.priority = TE_PRIORITY_URGENT;
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
}

static void one_ended(struct te_batch *batch, const struct te_completion *c,
		      void *arg)
{
	struct crowd *crowd = arg;

	assert_int_equal(c->error, 0);
	crowd->n_ended++;
	one_more(batch, crowd);
}

/* So many at a time that they keep the windows full. */
static void bulk_is_not_starved_by_a_crowd_of_small_ones(void **state)
{
	struct te_batch *crowd_batch, *bulk;
	struct crowd crowd = {0};
	struct world w;

	(void)state;
	world_open(&w, &config);
	connect(&w);
	crowd.w = &w;
	assert_int_equal(te_batch_create(w.user, N_CROWD, &crowd_batch), 0);
	assert_int_equal(te_batch_on_done(crowd_batch, one_ended, &crowd), 0);
	for (uint32_t i = 0; i < N_AT_A_TIME; i++)
		one_more(crowd_batch, &crowd);
	bulk = start(&w, 0, 1, PLACE, TE_PRIORITY_BULK);
	assert_int_equal(te_batch_wait(bulk, UINT32_MAX), 0);
	printf("1 MiB of bulk, %u of %u small urgent ones ended\n",
	       crowd.n_ended, N_CROWD);
	assert_in_range(crowd.n_ended, 0, N_CROWD / 2);
	assert_int_equal(te_batch_wait(crowd_batch, UINT32_MAX), 0);
	te_batch_destroy(bulk);
	te_batch_destroy(crowd_batch);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_urgent_requests_stay_short_beside_bulk),
		cmocka_unit_test(urgent_requests_cost_bulk_little),
		cmocka_unit_test(bulk_is_not_starved),
		cmocka_unit_test(bulk_is_not_starved_by_a_crowd_of_small_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
