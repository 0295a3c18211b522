/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_plan.c - who takes how much of a request
 *
 * The rails of race() move their slices one after another at their rate, and
 * report each a delay later; what the planner knows of them is what a meter
 * has seen, as in the engine. The optimum is what all rails could move
 * together if they ended at the same instant.
 */
#include "te/transfer/plan.h"

#include <stdlib.h>
#include <string.h>

#include "te/transfer/health.h"
#include "tests/lib/test.h"

#define KIB(n)    ((uint64_t)(n) << 10)
#define MIB(n)    ((uint64_t)(n) << 20)
#define GUESS     1000000000ull
#define RAILS_MAX 8
#define DEPTH     256

static const struct tei_plan_limits limits = {KIB(64), KIB(1024)};

/* Looks at the rails of @may first, which a test may have changed. */
static int next_of(struct tei_plan *plan, uint64_t may, uint64_t rest,
		   uint64_t *length)
{
	for (uint64_t left = may; left; left &= left - 1)
		tei_plan_look(plan, __builtin_ctzll(left));
	return tei_plan_next(plan, may, rest, length);
}

/* ---- rails that move ---- */

struct slice {
	uint64_t length, posted, done;
	bool alone;
};

struct rail {
	uint64_t rate, delay; /* the truth */
	uint64_t free_at, moved, done_at;
	struct slice slices[DEPTH];
	unsigned int first, n;
	struct tei_meter meter;
};

struct race {
	struct rail rails[RAILS_MAX];
	struct tei_plan plan;
	unsigned int n;
	uint64_t now, ended;
};

static void know(struct race *race)
{
	uint64_t best = 0, least = UINT64_MAX;

	for (unsigned int i = 0; i < race->n; i++) {
		const struct tei_meter *m = &race->rails[i].meter;

		best = m->rate > best ? m->rate : best;
		least = m->delay < least ? m->delay : least;
	}
	for (unsigned int i = 0; i < race->n; i++) {
		struct tei_plan_rail *p = &race->plan.rails[i];
		struct rail *r = &race->rails[i];

		p->rate = tei_meter_rate(&r->meter, race->now,
					 best ? best : GUESS);
		p->delay = tei_meter_delay(&r->meter, race->now, least);
		tei_meter_settle(&r->meter);
		p->full = r->n == DEPTH;
		p->idle = race->now - r->done_at;
		tei_plan_size(p, r->meter.rate, &limits);
	}
}

static void post(struct race *race, int i, uint64_t length)
{
	struct rail *r = &race->rails[i];
	struct slice *s = &r->slices[(r->first + r->n) % DEPTH];

	if (r->free_at < race->now)
		r->free_at = race->now;
	r->free_at += (uint64_t)((double)length / (double)r->rate * 1e9) + 1;
	*s = (struct slice){length, race->now, r->free_at + r->delay, !r->n};
	if (!r->n)
		r->done_at = race->now;
	if (!r->n)
		tei_meter_start(&r->meter);
	r->n++;
	r->moved += length;
	race->plan.rails[i].in_flight += length;
}

static void fill(struct race *race, uint64_t size, uint64_t *rest)
{
	uint64_t all = (1ull << race->n) - 1, length;
	int i;

	know(race);
	while (race->plan.waiting) {
		if (!*rest)
			*rest = size < race->plan.waiting ? size
							  : race->plan.waiting;
		i = next_of(&race->plan, all, *rest, &length);
		if (i < 0)
			return;
		assert_in_range(length, 1, *rest);
		post(race, i, length);
		*rest -= length;
		race->plan.waiting -= length;
		know(race);
	}
}

static bool step(struct race *race)
{
	struct rail *next = NULL;
	struct slice *s;
	uint64_t *in_flight;

	for (unsigned int i = 0; i < race->n; i++) {
		struct rail *r = &race->rails[i];

		if (r->n && (!next || r->slices[r->first].done <
					      next->slices[next->first].done))
			next = r;
	}
	if (!next)
		return false;
	s = &next->slices[next->first];
	in_flight = &race->plan.rails[next - race->rails].in_flight;
	race->now = race->ended = next->done_at = s->done;
	*in_flight -= s->length;
	next->first = (next->first + 1) % DEPTH;
	next->n--;
	if (s->alone)
		tei_meter_lone(&next->meter, race->now, s->posted, s->length);
	tei_meter_done(&next->meter, race->now, s->length, *in_flight > 0);
	return true;
}

/* Nanoseconds that @total bytes take in requests of @size. */
static uint64_t run(struct race *race, uint64_t total, uint64_t size)
{
	uint64_t began = race->now, rest = 0;

	race->plan.limits = limits;
	race->plan.waiting = total;
	for (unsigned int i = 0; i < race->n; i++)
		race->rails[i].moved = 0;
	do
		fill(race, size, &rest);
	while (step(race));
	assert_int_equal(race->plan.waiting, 0);
	return race->ended - began;
}

/* The time in which all of it could have been moved. */
static double optimum(const struct race *race, uint64_t total)
{
	double rate = 0, delay = 1e18;

	for (unsigned int i = 0; i < race->n; i++) {
		rate += (double)race->rails[i].rate;
		if ((double)race->rails[i].delay < delay)
			delay = (double)race->rails[i].delay;
	}
	return (double)total / rate * 1e9 + delay;
}

static uint64_t between(uint64_t low, uint64_t high)
{
	return low + (uint64_t)rand() % (high - low + 1);
}

/* ---- one rail ---- */

static struct tei_plan plan_of(size_t n, const uint64_t *rates)
{
	struct tei_plan plan = {.limits = limits};

	for (size_t i = 0; i < n; i++) {
		plan.rails[i].rate = rates[i];
		plan.rails[i].slice = limits.slice_max;
		plan.rails[i].window = MIB(16);
	}
	return plan;
}

static void small_request_stays_whole(void **state)
{
	struct tei_plan plan = plan_of(1, (uint64_t[]){GUESS});
	uint64_t length;

	(void)state;
	for (uint64_t n = 1; n <= KIB(1024); n += 4099) {
		plan.waiting = n;
		assert_int_equal(next_of(&plan, 1, n, &length), 0);
		assert_int_equal(length, n);
	}
}

static void one_rail_gets_every_byte_in_slices_without_crumbs(void **state)
{
	struct tei_plan plan = plan_of(1, (uint64_t[]){GUESS});

	(void)state;
	srand(1);
	for (int i = 0; i < 2000; i++) {
		uint64_t rest = 1 + (uint64_t)rand() % KIB(20000), n;
		uint64_t whole = rest;

		for (; rest; rest -= n) {
			plan.waiting = rest;
			assert_int_equal(next_of(&plan, 1, rest, &n), 0);
			assert_true(n >= 1 && n <= rest);
			assert_true(n <= limits.slice_max);
			if (whole > limits.slice_max)
				assert_true(n + 4096 > limits.slice_min);
		}
	}
}

static void full_window_takes_nothing(void **state)
{
	struct tei_plan plan = plan_of(1, (uint64_t[]){GUESS});
	uint64_t length;

	(void)state;
	plan.waiting = MIB(1);
	plan.rails[0].in_flight = MIB(16);
	assert_int_equal(next_of(&plan, 1, MIB(1), &length), -1);
	plan.rails[0].in_flight = 0;
	plan.rails[0].full = true;
	assert_int_equal(next_of(&plan, 1, MIB(1), &length), -1);
}

/* ---- several ---- */

static void small_request_goes_to_the_rail_that_ends_it_first(void **state)
{
	struct tei_plan plan = plan_of(2, (uint64_t[]){10 * GUESS, 1000000});
	uint64_t length;

	(void)state;
	plan.waiting = KIB(8);
	plan.rails[0].in_flight = KIB(512);
	assert_int_equal(next_of(&plan, 3, KIB(8), &length), 0);
	assert_int_equal(length, KIB(8));
	/* Nor to the slow one when the other has no room just now. */
	plan.rails[0].full = true;
	assert_int_equal(next_of(&plan, 3, KIB(8), &length), -1);
	/* Of equals the one with the shorter way. */
	plan = plan_of(2, (uint64_t[]){GUESS, GUESS});
	plan.rails[0].delay = 100000;
	assert_int_equal(next_of(&plan, 3, KIB(8), &length), 1);
}

static void many_small_requests_use_all_rails(void **state)
{
	struct tei_plan plan = plan_of(2, (uint64_t[]){GUESS, GUESS});
	unsigned int taken[2] = {0};
	uint64_t length;

	(void)state;
	plan.waiting = 128 * KIB(4);
	for (int i = 0; i < 128; i++) {
		int rail = next_of(&plan, 3, KIB(4), &length);

		assert_in_range(rail, 0, 1);
		assert_int_equal(length, KIB(4));
		plan.rails[rail].in_flight += length;
		plan.waiting -= length;
		taken[rail]++;
	}
	assert_int_equal(taken[0], 64);
	assert_int_equal(taken[1], 64);
}

/* What is kept between slices is what all rails looked at anew would give. */
static void looking_at_what_has_changed_is_enough(void **state)
{
	static struct tei_plan kept, anew;
	uint64_t length, expected;
	int rail;

	(void)state;
	srand(11);
	tei_plan_begin(&kept, &limits);
	for (int i = 0; i < RAILS_MAX; i++) {
		kept.rails[i].rate = between(GUESS / 8, 5 * GUESS);
		kept.rails[i].delay = between(0, 300000);
		tei_plan_size(&kept.rails[i], kept.rails[i].rate, &limits);
		tei_plan_look(&kept, i);
	}
	for (int n = 0; n < 20000; n++) {
		uint64_t may = between(1, (1u << RAILS_MAX) - 1);
		uint64_t rest = between(1, n % 2 ? KIB(100) : MIB(16));

		kept.waiting = rest + between(0, MIB(4));
		anew = kept;
		anew.summed = 0;
		rail = tei_plan_next(&kept, may, rest, &length);
		assert_int_equal(next_of(&anew, may, rest, &expected), rail);
		if (rail < 0)
			rail = (int)between(0, RAILS_MAX - 1);
		else
			assert_int_equal(length, expected);
		kept.rails[rail].in_flight =
			n % 3 ? kept.rails[rail].in_flight + KIB(64) : 0;
		tei_plan_look(&kept, rail);
	}
}

static void only_rails_that_may_carry_it_are_chosen(void **state)
{
	struct tei_plan plan =
		plan_of(3, (uint64_t[]){10 * GUESS, GUESS, GUESS / 10});
	uint64_t length;

	(void)state;
	plan.waiting = MIB(8);
	for (int i = 0; i < 16; i++)
		assert_in_range(next_of(&plan, 6, MIB(8), &length), 1, 2);
	assert_int_equal(next_of(&plan, 4, MIB(8), &length), 2);
}

static void known_rails_end_within_5_percent_of_the_optimum(void **state)
{
	(void)state;
	srand(7);
	for (int i = 0; i < 300; i++) {
		struct race race = {.n = (unsigned int)between(2, RAILS_MAX)};
		uint64_t total = MIB(between(64, 512));
		double took;

		for (unsigned int k = 0; k < race.n; k++) {
			race.rails[k].rate = between(GUESS / 8, 5 * GUESS);
			race.rails[k].delay = between(0, 300000);
		}
		run(&race, MIB(256), MIB(16)); /* to learn */
		took = (double)run(&race, total, MIB(between(1, 64)));
		if (took > 1.05 * optimum(&race, total))
			fail_msg("run %d: %.3f of the optimum", i,
				 took / optimum(&race, total));
	}
}

static void unknown_rails_end_within_5_percent_of_the_optimum(void **state)
{
	(void)state;
	srand(11);
	for (int i = 0; i < 300; i++) {
		struct race race = {.n = (unsigned int)between(2, 4)};
		uint64_t total = MIB(between(64, 256));
		double took;

		for (unsigned int k = 0; k < race.n; k++)
			race.rails[k].rate = between(GUESS / 8, 5 * GUESS);
		took = (double)run(&race, total, MIB(16));
		if (took > 1.05 * optimum(&race, total))
			fail_msg("run %d: %.3f of the optimum", i,
				 took / optimum(&race, total));
	}
}

static void rail_that_gets_slower_does_not_hold_up_the_end(void **state)
{
	struct race race = {.n = 2};
	double took;

	(void)state;
	race.rails[0].rate = race.rails[1].rate = GUESS;
	run(&race, MIB(64), MIB(16));
	race.rails[1].rate = GUESS / 20;
	took = (double)run(&race, MIB(256), MIB(16));
	assert_true(took < 1.10 * optimum(&race, MIB(256)));
	assert_true(race.rails[1].moved < MIB(16));
}

/* Long ways need more in flight; what is measured through a small window too. */
static void window_grows_until_a_long_way_is_full(void **state)
{
	struct race race = {.n = 2};
	double took;

	(void)state;
	race.rails[0].rate = race.rails[1].rate = 4 * GUESS;
	race.rails[0].delay = race.rails[1].delay = 2000000;
	run(&race, MIB(512), MIB(64));
	took = (double)run(&race, MIB(512), MIB(64));
	assert_true(took < 1.10 * optimum(&race, MIB(512)));
}

static void slow_rail_has_little_in_flight(void **state)
{
	struct tei_plan_rail slow = {.delay = 100000};

	(void)state;
	/* A millisecond of it, or two of the smallest slices. */
	tei_plan_size(&slow, GUESS / 20, &limits);
	assert_int_equal(slow.window, 2 * KIB(64));
	tei_plan_size(&slow, GUESS / 2, &limits);
	assert_in_range(slow.window, GUESS / 2020, GUESS / 2000);
	tei_plan_size(&slow, 0, &limits);
	assert_int_equal(slow.window, 2 * KIB(64));
}

static void small_ones_that_go_together_are_shared_among_rails(void **state)
{
	static struct tei_plan plan;
	uint64_t many, few;

	(void)state;
	plan = (struct tei_plan){.limits = limits};
	for (int i = 0; i < 2; i++) {
		plan.rails[i].rate = GUESS;
		tei_plan_size(&plan.rails[i], GUESS, &limits);
	}
	plan.waiting = KIB(400);
	for (int i = 0; i < 2; i++)
		tei_plan_look(&plan, i);
	many = tei_plan_part(&plan, 3, 0);
	assert_true(many >= KIB(64) && many <= KIB(200));
	plan.waiting = KIB(100);
	few = tei_plan_part(&plan, 3, 0);
	assert_int_equal(few, KIB(100));
	plan.rails[1].slice = KIB(1024);
	assert_int_equal(tei_plan_part(&plan, 2, 1), KIB(1024));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_request_stays_whole),
		cmocka_unit_test(
			one_rail_gets_every_byte_in_slices_without_crumbs),
		cmocka_unit_test(full_window_takes_nothing),
		cmocka_unit_test(
			small_request_goes_to_the_rail_that_ends_it_first),
		cmocka_unit_test(many_small_requests_use_all_rails),
		cmocka_unit_test(looking_at_what_has_changed_is_enough),
		cmocka_unit_test(only_rails_that_may_carry_it_are_chosen),
		cmocka_unit_test(
			known_rails_end_within_5_percent_of_the_optimum),
		cmocka_unit_test(
			unknown_rails_end_within_5_percent_of_the_optimum),
		cmocka_unit_test(
			rail_that_gets_slower_does_not_hold_up_the_end),
		cmocka_unit_test(window_grows_until_a_long_way_is_full),
		cmocka_unit_test(slow_rail_has_little_in_flight),
		cmocka_unit_test(
			small_ones_that_go_together_are_shared_among_rails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
