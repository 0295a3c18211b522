/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_failover.c - rails that go, rails that come, and peers that are dead
 *
 * The gap is the longest time in which nothing landed while there was work.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "te/core/engine.h"
#include "te/transfer/link.h"
#include "tests/sim/backend/sim.h"
#include "tests/sim/world.h"

#define MS(n) ((uint64_t)(n)*1000000)
#define PLACE ((size_t)1 << 20)

struct stream {
	struct te_batch *batch;
	struct te_request requests[WORLD_PLACES];
	struct iovec pieces[WORLD_PLACES];
};

/* The first @n places, in requests of 1 MiB. */
static void start_as(struct world *w, struct stream *s, uint32_t op, uint32_t n,
		     uint32_t timeout_ms, uint32_t flags)
{
	for (uint32_t i = 0; i < n; i++) {
		s->requests[i] =
			world_request(w, op, i, &s->pieces[i], w->place);
		s->requests[i].timeout_ms = timeout_ms;
		s->requests[i].flags = flags;
		world_fill(s->pieces[i].iov_base, w->place, i, 1);
		w->quiet[i] = false;
	}
	assert_int_equal(te_batch_create(w->user, n, &s->batch), 0);
	assert_int_equal(te_batch_submit(s->batch, s->requests, n), 0);
}

static void start(struct world *w, struct stream *s, uint32_t op, uint32_t n,
		  uint32_t timeout_ms)
{
	start_as(w, s, op, n, timeout_ms, 0);
}

/* Of those that ended: how many with @error. */
static uint32_t count(const struct stream *s, uint32_t n, int error)
{
	struct te_completion c;
	uint32_t found = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!te_batch_result(s->batch, i, &c))
			found += c.error == error;
	}
	return found;
}

static void all_went_well(struct world *w, struct stream *s)
{
	assert_int_equal(te_batch_wait(s->batch, UINT32_MAX), 0);
	assert_int_equal(count(s, WORLD_PLACES, 0), WORLD_PLACES);
	for (uint32_t i = 0; i < WORLD_PLACES; i++)
		assert_true(world_is(w->memory + i * w->place, w->place, i, 1));
	te_batch_destroy(s->batch);
}

/* Bytes that have landed by @rail since the engines were there. */
static uint64_t landed(struct world *w, uint32_t rail)
{
	struct tei_rail *r = world_rail(w, rail);

	return atomic_load(&r->sent_bytes);
}

/* ---- rails ---- */

static void link_event_costs_a_short_gap(void **state)
{
	const struct world_config config = {.rails = "4g:20us:1us,4g:20us:1us",
					    .schedule = "20ms:0:down,60ms:0:up",
					    .seed = 1,
					    .place = PLACE};
	struct stream s;
	struct world w;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct world_config c = config;

		c.seed = 100 + (uint64_t)i;
		world_open(&w, &c);
		start(&w, &s, TE_WRITE, WORLD_PLACES, 0);
		all_went_well(&w, &s);
		assert_in_range(w.longest_gap, 0, MS(20) - 1);
		/* 10 MB of it before it went down. */
		assert_true(landed(&w, 0) > landed(&w, 1) / 4);
		world_close(&w);
	}
}

static void rail_is_in_use_again_soon_after_it_is_up(void **state)
{
	const struct world_config config = {.rails = "1g:20us:1us,1g:20us:1us",
					    .schedule =
						    "20ms:0:down,100ms:0:up",
					    .seed = 1,
					    .place = PLACE};
	uint64_t before;
	struct stream s;
	struct world w;

	(void)state;
	world_open(&w, &config);
	start(&w, &s, TE_WRITE, WORLD_PLACES, 0);
	world_pass(&w, MS(100) - world_now(&w));
	before = landed(&w, 0);
	world_pass(&w, MS(10));
	assert_true(landed(&w, 0) > before + (PLACE >> 2));
	all_went_well(&w, &s);
	world_close(&w);
}

static void silent_rail_is_given_up_within_two_seconds(void **state)
{
	struct world_config config = {.rails = "4g:20us:1us,2g:20us:1us",
				      .schedule = "20ms:0:silent",
				      .place = PLACE};
	struct stream s;
	struct world w;

	(void)state;
	for (config.seed = 1; config.seed <= 3; config.seed++) {
		world_open(&w, &config);
		start(&w, &s, TE_WRITE, WORLD_PLACES, 10000);
		all_went_well(&w, &s);
		assert_in_range(world_now(&w), MS(20), MS(2020));
		world_close(&w);
	}
}

static void rail_that_was_silent_is_used_again(void **state)
{
	const struct world_config config = {.rails = "4g:20us:1us,2g:20us:1us",
					    .schedule = "20ms:0:silent,3s:0:up",
					    .seed = 1,
					    .place = PLACE};
	uint64_t before;
	struct stream s;
	struct world w;

	(void)state;
	world_open(&w, &config);
	start(&w, &s, TE_WRITE, WORLD_PLACES, 10000);
	all_went_well(&w, &s);
	world_pass(&w, MS(3000) - world_now(&w));
	before = landed(&w, 0);
	/* Somebody has to want it. */
	while (world_now(&w) < MS(5000) &&
	       landed(&w, 0) <= before + 64 * PLACE) {
		start(&w, &s, TE_WRITE, WORLD_PLACES, 10000);
		all_went_well(&w, &s);
	}
	assert_true(landed(&w, 0) > before + 64 * PLACE);
	world_close(&w);
}

static void slowest_link_alone_is_not_taken_for_dead(void **state)
{
	const struct world_config config = {
		.rails = "10m:10ms:1us", .seed = 1, .place = PLACE};
	struct stream s;
	struct world w;

	(void)state;
	world_open(&w, &config);
	start(&w, &s, TE_WRITE, 1, 10000); /* 840 ms at 10 Mbit/s */
	assert_int_equal(te_batch_wait(s.batch, UINT32_MAX), 0);
	assert_int_equal(count(&s, 1, 0), 1);
	assert_int_equal(w.n_haunted, 0);
	te_batch_destroy(s.batch);
	world_close(&w);
}

static void silence_of_all_rails_is_sat_out(void **state)
{
	const struct world_config config = {
		.rails = "4g:20us:1us,2g:20us:1us",
		.schedule = "20ms:0:silent,20ms:1:silent,6s:0:up,6s:1:up",
		.seed = 1,
		.place = PLACE};
	struct stream s;
	struct world w;

	(void)state;
	world_open(&w, &config);
	start(&w, &s, TE_WRITE, WORLD_PLACES, 20000);
	all_went_well(&w, &s);
	assert_in_range(world_now(&w), MS(6000), MS(8000));
	world_close(&w);
}

/* ---- dead peers ---- */

static const struct world_config dead = {
	.rails = "1g:20us:1us,1g:20us:1us",
	.schedule = "5ms:0:silent,5ms:1:silent,30s:0:up,30s:1:up",
	.seed = 1,
	.place = PLACE};

static void deadline_ends_requests_to_a_dead_peer(void **state)
{
	struct stream s;
	struct world w;
	uint64_t begun;

	(void)state;
	world_open(&w, &dead);
	begun = world_now(&w);
	start(&w, &s, TE_WRITE, WORLD_PLACES, 1000);
	assert_int_equal(te_batch_wait(s.batch, UINT32_MAX), 0);
	assert_int_equal(world_now(&w) - begun, MS(1000));
	assert_int_equal(count(&s, WORLD_PLACES, 0) +
				 count(&s, WORLD_PLACES, -ETIMEDOUT),
			 WORLD_PLACES);
	te_batch_destroy(s.batch);
	world_close(&w);
}

/* The rails come back, and what was on its way lands. */
static void expect_quiet(struct world *w)
{
	memset(w->local, 0xee, WORLD_PLACES * w->place);
	world_pass(w, MS(40000));
	if (w->local[0] != 0xee ||
	    memcmp(w->local, w->local + 1, WORLD_PLACES * w->place - 1))
		fail_msg("memory is touched after the end");
}

static void cancel_needs_no_peer(void **state)
{
	static const uint32_t ops[] = {TE_WRITE, TE_READ};
	struct stream s;
	struct world w;
	uint64_t begun;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(ops); i++) {
		world_open(&w, &dead);
		start(&w, &s, ops[i], WORLD_PLACES, 0);
		world_pass(&w, MS(50));
		begun = world_now(&w);
		assert_int_equal(te_batch_cancel(s.batch), 0);
		assert_int_equal(te_batch_wait(s.batch, UINT32_MAX), 0);
		assert_int_equal(world_now(&w), begun);
		assert_int_equal(count(&s, WORLD_PLACES, 0) +
					 count(&s, WORLD_PLACES, -ECANCELED),
				 WORLD_PLACES);
		expect_quiet(&w);
		te_batch_destroy(s.batch);
		world_close(&w);
	}
}

static void batch_in_flight_to_a_dead_peer_is_destroyed_at_once(void **state)
{
	struct stream s;
	struct world w;
	uint64_t begun;

	(void)state;
	world_open(&w, &dead);
	start(&w, &s, TE_WRITE, WORLD_PLACES, 0);
	world_pass(&w, MS(50));
	begun = world_now(&w);
	te_batch_destroy(s.batch);
	assert_int_equal(world_now(&w), begun);
	world_close(&w);
}

static void
engine_with_a_dead_peer_is_destroyed_within_two_seconds(void **state)
{
	struct stream s;
	struct world w;
	uint64_t begun;

	(void)state;
	world_open(&w, &dead);
	start(&w, &s, TE_WRITE, WORLD_PLACES, 0);
	world_pass(&w, MS(50));
	begun = world_now(&w);
	world_close(&w);
	assert_true(world_now(&w) - begun < MS(2000));
}

/* ---- who can go elsewhere ---- */

static void what_can_go_elsewhere_leaves_a_dead_peer(void **state)
{
	static const uint32_t ops[] = {TE_WRITE, TE_READ};
	struct stream s;
	struct world w;
	uint64_t begun;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(ops); i++) {
		world_open(&w, &dead);
		begun = world_now(&w);
		start_as(&w, &s, ops[i], WORLD_PLACES, 20000, TE_FAIL_SILENT);
		assert_int_equal(te_batch_wait(s.batch, UINT32_MAX), 0);
		assert_in_range(world_now(&w) - begun, MS(2000), MS(2050));
		assert_true(count(&s, WORLD_PLACES, -EHOSTDOWN) > 0);
		assert_int_equal(count(&s, WORLD_PLACES, 0) +
					 count(&s, WORLD_PLACES, -EHOSTDOWN),
				 WORLD_PLACES);
		expect_quiet(&w);
		te_batch_destroy(s.batch);
		world_close(&w);
	}
}

static void its_deadline_may_come_before(void **state)
{
	struct stream s;
	struct world w;
	uint64_t begun;

	(void)state;
	world_open(&w, &dead);
	begun = world_now(&w);
	start_as(&w, &s, TE_READ, WORLD_PLACES, 1000, TE_FAIL_SILENT);
	assert_int_equal(te_batch_wait(s.batch, UINT32_MAX), 0);
	assert_int_equal(world_now(&w) - begun, MS(1000));
	assert_int_equal(count(&s, WORLD_PLACES, -EHOSTDOWN), 0);
	te_batch_destroy(s.batch);
	world_close(&w);
}

static void others_of_its_batch_stay(void **state)
{
	struct te_request r[2];
	struct te_completion c;
	struct te_batch *batch;
	struct iovec piece[2];
	struct world w;

	(void)state;
	world_open(&w, &dead);
	world_pass(&w, MS(10));
	for (uint32_t i = 0; i < 2; i++) {
		r[i] = world_request(&w, TE_READ, i, &piece[i], w.place);
		r[i].timeout_ms = 5000;
	}
	r[0].flags = TE_FAIL_SILENT;
	assert_int_equal(te_batch_create(w.user, 2, &batch), 0);
	assert_int_equal(te_batch_submit(batch, r, 2), 0);
	world_pass(&w, MS(3000));
	assert_int_equal(te_batch_result(batch, 0, &c), 0);
	assert_int_equal(c.error, -EHOSTDOWN);
	assert_int_equal(te_batch_result(batch, 1, &c), -EAGAIN);
	assert_int_equal(te_batch_wait(batch, UINT32_MAX), 0);
	assert_int_equal(te_batch_result(batch, 1, &c), 0);
	assert_int_equal(c.error, -ETIMEDOUT);
	te_batch_destroy(batch);
	world_close(&w);
}

static void shorter_silence_is_sat_out(void **state)
{
	const struct world_config config = {
		.rails = "4g:20us:1us,2g:20us:1us",
		.schedule = "20ms:0:silent,20ms:1:silent,1900ms:0:up,"
			    "1900ms:1:up",
		.seed = 1,
		.place = PLACE};
	struct stream s;
	struct world w;

	(void)state;
	world_open(&w, &config);
	start_as(&w, &s, TE_WRITE, WORLD_PLACES, 20000, TE_FAIL_SILENT);
	all_went_well(&w, &s);
	world_close(&w);
}

/* The last of them begins 50 s after it was submitted. */
static void what_waits_behind_others_of_a_slow_peer_stays(void **state)
{
	const struct world_config config = {
		.rails = "10m:10ms:1us", .seed = 1, .place = PLACE};
	struct stream s;
	struct world w;

	(void)state;
	world_open(&w, &config);
	start_as(&w, &s, TE_WRITE, WORLD_PLACES, 90000, TE_FAIL_SILENT);
	all_went_well(&w, &s);
	world_close(&w);
}

static struct tei_endpoint *only_endpoint(struct world *w)
{
	const struct tei_list *links = &w->user->worker->rails[0]->links;

	assert_ptr_equal(links->next, links->prev);
	return &tei_list_entry(links->next, struct tei_link, of_rail)->ep;
}

/* As a backend says it of a slice that is long on its way. */
static void parts_of_a_slice_are_a_sign_of_life(void **state)
{
	const struct world_config config = {.rails = "1g:20us:1us",
					    .schedule = "5ms:0:silent,90s:0:up",
					    .seed = 1,
					    .place = PLACE};
	struct stream s;
	struct world w;

	(void)state;
	world_open(&w, &config);
	start_as(&w, &s, TE_READ, 1, 60000, TE_FAIL_SILENT);
	for (int i = 0; i < 10; i++) {
		world_pass(&w, MS(1500));
		assert_int_equal(te_batch_wait(s.batch, 0), -ETIMEDOUT);
		tei_endpoint_moved(only_endpoint(&w));
	}
	assert_int_equal(te_batch_wait(s.batch, UINT32_MAX), 0);
	assert_int_equal(count(&s, 1, -EHOSTDOWN), 1);
	assert_in_range(world_now(&w), MS(17000), MS(17100));
	te_batch_destroy(s.batch);
	world_close(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_event_costs_a_short_gap),
		cmocka_unit_test(rail_is_in_use_again_soon_after_it_is_up),
		cmocka_unit_test(silent_rail_is_given_up_within_two_seconds),
		cmocka_unit_test(rail_that_was_silent_is_used_again),
		cmocka_unit_test(slowest_link_alone_is_not_taken_for_dead),
		cmocka_unit_test(silence_of_all_rails_is_sat_out),
		cmocka_unit_test(deadline_ends_requests_to_a_dead_peer),
		cmocka_unit_test(cancel_needs_no_peer),
		cmocka_unit_test(
			batch_in_flight_to_a_dead_peer_is_destroyed_at_once),
		cmocka_unit_test(
			engine_with_a_dead_peer_is_destroyed_within_two_seconds),
		cmocka_unit_test(what_can_go_elsewhere_leaves_a_dead_peer),
		cmocka_unit_test(its_deadline_may_come_before),
		cmocka_unit_test(others_of_its_batch_stay),
		cmocka_unit_test(shorter_silence_is_sat_out),
		cmocka_unit_test(what_waits_behind_others_of_a_slow_peer_stays),
		cmocka_unit_test(parts_of_a_slice_are_a_sign_of_life),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
