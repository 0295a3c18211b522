/* SPDX-License-Identifier: Apache-2.0 */
/* test_world.c - the simulation itself: its clock, its lines, its weather */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/backend/sim.h"
#include "tests/sim/world.h"

#define US(n) ((uint64_t)(n)*1000)
#define MS(n) ((uint64_t)(n)*1000000)

/* Move the first @len bytes of place @i; how long it took, ns. */
static uint64_t move(struct world *w, uint32_t op, uint32_t i, size_t len,
		     int expected)
{
	struct te_completion c;
	struct te_batch *batch;
	struct te_request r;
	struct iovec piece;
	uint64_t begun = world_now(w);

	r = world_request(w, op, i, &piece, len);
	assert_int_equal(te_batch_create(w->user, 1, &batch), 0);
	assert_int_equal(te_batch_submit(batch, &r, 1), 0);
	assert_int_equal(te_batch_wait(batch, UINT32_MAX), 0);
	assert_int_equal(te_batch_poll(batch, &c, 1), 1);
	assert_int_equal(c.error, expected);
	te_batch_destroy(batch);
	return world_now(w) - begun;
}

/* 1 Gbit/s moves 125 bytes a microsecond. */
static void slice_takes_cost_length_and_two_latencies(void **state)
{
	const struct world_config config = {
		.rails = "1g:30us:5us", .seed = 1, .place = 125000};
	struct world w;

	(void)state;
	world_open(&w, &config);
	move(&w, TE_WRITE, 0, 1, 0); /* connects */
	assert_int_equal(move(&w, TE_WRITE, 0, 12500, 0), US(100 + 5 + 60));
	assert_int_equal(move(&w, TE_READ, 0, 12500, 0), US(100 + 5 + 60));
	world_close(&w);
}

static void bytes_are_really_moved(void **state)
{
	const struct world_config config = {
		.rails = "10g:1us,5g:2us", .seed = 1, .place = 1 << 20};
	struct world w;

	(void)state;
	world_open(&w, &config);
	world_fill(w.local, w.place, 7, 1);
	move(&w, TE_WRITE, 0, w.place, 0);
	assert_true(world_is(w.memory, w.place, 7, 1));
	memset(w.local, 0, w.place);
	move(&w, TE_READ, 0, w.place, 0);
	assert_true(world_is(w.local, w.place, 7, 1));
	world_close(&w);
}

static void slow_rail_is_slow_from_then_on(void **state)
{
	const struct world_config config = {.rails = "1g",
					    .schedule = "10ms:0:slow=0.1",
					    .seed = 1,
					    .place = 125000};
	struct world w;
	uint64_t at;

	(void)state;
	world_open(&w, &config);
	move(&w, TE_WRITE, 0, 1, 0);
	at = world_now(&w);
	world_pass(&w, US(9900) - at);
	/* 100 us at full speed, the other 100 us' worth at a tenth. */
	assert_in_range(move(&w, TE_WRITE, 0, 25000, 0), US(1100),
			US(1100) + 2);
	world_close(&w);
}

static void idle_engines_let_hours_pass_at_once(void **state)
{
	const struct world_config config = {
		.rails = "1g:1us", .seed = 1, .place = 4096};
	struct world w;

	(void)state;
	world_open(&w, &config);
	world_pass(&w, 3600 * TEI_NS_PER_S);
	assert_true(world_now(&w) >= 3600 * TEI_NS_PER_S);
	move(&w, TE_WRITE, 0, 4096, 0);
	world_close(&w);
}

static void nothing_moves_in_silence_until_the_deadline(void **state)
{
	const struct world_config config = {.rails = "1g:1us",
					    .schedule = "1ms:0:silent",
					    .seed = 1,
					    .place = 125000};
	struct world w;

	(void)state;
	world_open(&w, &config);
	world_pass(&w, MS(2));
	assert_int_equal(move(&w, TE_WRITE, 0, 1000, -ETIMEDOUT),
			 30 * TEI_NS_PER_S);
	assert_int_equal(w.n_applied, 0);
	world_close(&w);
}

/* ---- the same seed, the same run ---- */

static void stormy_run(uint64_t seed, uint64_t *digest, uint64_t *n_records)
{
	const struct world_config config = {
		.rails = "4g:20us:1us,2g:50us,8g:5us:2us",
		.schedule = "300us:0:error=0.05,500us:1:flap=700us,"
			    "800us:2:slow=0.2,1ms:2:refuse=0.1,3ms:2:up,"
			    "3ms:0:up",
		.seed = seed,
		.place = 1 << 16};
	struct te_request requests[WORLD_PLACES];
	struct iovec pieces[WORLD_PLACES];
	struct te_batch *batch;
	struct world w;

	world_open(&w, &config);
	for (uint32_t i = 0; i < WORLD_PLACES; i++)
		requests[i] = world_request(
			&w, world_random(&w, 2) ? TE_WRITE : TE_READ, i,
			&pieces[i], 1 + world_random(&w, w.place));
	assert_int_equal(te_batch_create(w.user, WORLD_PLACES, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, WORLD_PLACES), 0);
	assert_int_equal(te_batch_wait(batch, UINT32_MAX), 0);
	te_batch_destroy(batch);
	world_pass(&w, MS(20));
	*digest = w.digest;
	*n_records = w.n_records;
	world_close(&w);
}

static void same_seed_gives_the_same_trace(void **state)
{
	uint64_t digest[2], n[2];

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		stormy_run(seed, &digest[0], &n[0]);
		stormy_run(seed, &digest[1], &n[1]);
		assert_int_equal(n[0], n[1]);
		assert_int_equal(digest[0], digest[1]);
	}
}

static void another_seed_gives_another_trace(void **state)
{
	uint64_t digest[2], n;

	(void)state;
	stormy_run(1, &digest[0], &n);
	stormy_run(2, &digest[1], &n);
	assert_int_not_equal(digest[0], digest[1]);
}

/* ---- settings ---- */

static void optimum_adds_up_what_rails_can_carry(void **state)
{
	struct world_config c = {.rails = "8g:10us,8g:20us"};

	(void)state;
	assert_int_equal(world_optimum(&c, 0, 2000000), MS(1) + US(20));
	c.schedule = "500us:1:slow=0.5";
	/* 1 MB in the first half millisecond, then 1.5 bytes a nanosecond. */
	assert_int_equal(world_optimum(&c, 0, 2500000), US(1500 + 20));
	c.schedule = "500us:1:down,700us:1:up";
	assert_int_equal(world_optimum(&c, 600000, 1000000), US(550 + 20));
}

static void malformed_settings_open_no_engine(void **state)
{
	static const char *const rails[] = {
		"",     "g",
		"4x",   "4g:",
		"4g:1", "4g:1us:1us:1us",
		"4g,",  "0",
		"-1g",  "1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g,1g"};
	static const char *const schedules[] = {
		"1ms",          "1ms:0",          "1ms:0:",     "1:0:up",
		"1ms:2:up",     "1ms:0:up=1",     "1ms:0:slow", "1ms:0:slow=x",
		"1ms:0:flap=1", "1ms:0:flap=0ms", "1ms:0:away", "1ms:0:up,"};
	struct sim_spec specs[SIM_RAILS_MAX];
	struct sim_config c = {0};

	(void)state;
	world_be_silent();
	for (size_t i = 0; i < TEST_COUNT(rails); i++) {
		c.rails = (char *)(uintptr_t)rails[i];
		assert_int_equal(tei_sim_parse(&c, specs), -EINVAL);
	}
	c.rails = (char *)(uintptr_t) "1g,2g";
	for (size_t i = 0; i < TEST_COUNT(schedules); i++) {
		c.schedule = (char *)(uintptr_t)schedules[i];
		assert_int_equal(tei_sim_parse(&c, specs), -EINVAL);
	}
	c.schedule = (char *)(uintptr_t) "2ms:0:up,1.5us:0:slow=.25,1ms:1:down";
	assert_int_equal(tei_sim_parse(&c, specs), 2);
	assert_int_equal(specs[0].n_events, 2);
	assert_int_equal(specs[0].events[0].at, 1500);
	assert_int_equal(specs[1].events[0].what, SIM_DOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slice_takes_cost_length_and_two_latencies),
		cmocka_unit_test(bytes_are_really_moved),
		cmocka_unit_test(slow_rail_is_slow_from_then_on),
		cmocka_unit_test(idle_engines_let_hours_pass_at_once),
		cmocka_unit_test(nothing_moves_in_silence_until_the_deadline),
		cmocka_unit_test(same_seed_gives_the_same_trace),
		cmocka_unit_test(another_seed_gives_another_trace),
		cmocka_unit_test(optimum_adds_up_what_rails_can_carry),
		cmocka_unit_test(malformed_settings_open_no_engine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
