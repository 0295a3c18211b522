/* SPDX-License-Identifier: Apache-2.0 */
/* test_meter.c - what is learnt of a rail's rate and delay */
#include "te/transfer/health.h"

#include "base/clock.h"
#include "tests/lib/test.h"

#define MS  TEI_NS_PER_MS
#define LEN ((uint64_t)1 << 20)

/* @n slices of LEN, each done @gap after the one before. */
static uint64_t move(struct tei_meter *m, uint64_t now, int n, uint64_t gap)
{
	tei_meter_start(m);
	for (int i = 1; i <= n; i++) {
		now += gap;
		tei_meter_done(m, now, LEN, i < n);
	}
	return now;
}

static void nothing_is_known_at_first(void **state)
{
	struct tei_meter m = {0};

	(void)state;
	assert_int_equal(tei_meter_rate(&m, 5 * TEI_NS_PER_S, 0), 0);
	assert_int_equal(tei_meter_rate(&m, 5 * TEI_NS_PER_S, 17), 17);
}

static void rate_is_bytes_over_busy_time(void **state)
{
	struct tei_meter m = {0};
	uint64_t now = 3 * TEI_NS_PER_S;

	(void)state;
	for (int i = 0; i < 5; i++) /* idle in between */
		now = move(&m, now, 10, MS) + 100 * MS;
	assert_in_range(tei_meter_rate(&m, now, 0), LEN * 990, LEN * 1010);
}

static void rate_follows_within_some_milliseconds(void **state)
{
	struct tei_meter m = {0};
	uint64_t now = move(&m, 0, 20, MS);

	(void)state;
	now = move(&m, now, 6, 5 * MS); /* a fifth of it */
	assert_true(tei_meter_rate(&m, now, 0) < LEN * 230);
	now = move(&m, now, 40, MS / 2);
	assert_true(tei_meter_rate(&m, now, 0) > LEN * 1800);
}

static void few_bytes_say_nothing_of_the_rate(void **state)
{
	struct tei_meter m = {0};
	uint64_t now = move(&m, 0, 20, MS), rate = m.rate;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		tei_meter_start(&m);
		now += MS / 10;
		tei_meter_done(&m, now, 8, false);
	}
	assert_int_equal(m.rate, rate);
}

static void delay_is_what_is_left_beside_the_bytes(void **state)
{
	struct tei_meter m = {0};
	uint64_t now = move(&m, 0, 20, MS);

	(void)state;
	for (int i = 0; i < 100; i++) {
		tei_meter_start(&m);
		now += MS + MS / 4;
		tei_meter_lone(&m, now, now - MS - MS / 4, LEN);
		tei_meter_done(&m, now, LEN, false);
	}
	assert_in_range(m.delay, MS / 5, MS / 3);
	/* And is no part of the rate. */
	assert_in_range(m.rate, LEN * 900, LEN * 1100);
}

static void disuse_brings_the_rate_back_to_what_others_do(void **state)
{
	struct tei_meter m = {0};
	uint64_t now = move(&m, 0, 20, MS), prior = 4 * m.rate;
	uint64_t last = m.rate;

	(void)state;
	assert_int_equal(tei_meter_rate(&m, now + MS, prior), m.rate);
	for (int s = 1; s < 10; s++) {
		uint64_t rate = tei_meter_rate(
			&m, now + (unsigned int)s * TEI_NS_PER_S, prior);

		assert_true(rate >= last && rate <= prior);
		last = rate;
	}
	assert_int_equal(last, prior);
}

static void disuse_brings_the_delay_down_to_that_of_others(void **state)
{
	struct tei_meter m = {.delay = 100 * MS, .used_at = TEI_NS_PER_S};
	uint64_t now = m.used_at, last = m.delay, delay;

	(void)state;
	assert_int_equal(tei_meter_delay(&m, now + MS, MS), m.delay);
	for (int s = 1; s < 10; s++) {
		now += TEI_NS_PER_S;
		delay = tei_meter_delay(&m, now, MS);
		assert_true(delay <= last && delay >= MS);
		assert_int_equal(tei_meter_delay(&m, now, 200 * MS), m.delay);
		last = delay;
	}
	assert_int_equal(last, MS);
}

static void delay_after_disuse_is_what_is_seen_then(void **state)
{
	struct tei_meter m = {0};
	uint64_t now = move(&m, TEI_NS_PER_S, 20, MS);

	(void)state;
	m.delay = 100 * MS;
	now += 2 * TEI_NS_PER_S;
	tei_meter_start(&m);
	tei_meter_lone(&m, now, now - MS - MS / 4, LEN);
	assert_in_range(m.delay, MS / 5, MS / 3);
}

/* The slice found the rail empty, but one that was posted later was faster. */
static void delay_of_an_overtaken_slice_weighs_little(void **state)
{
	struct tei_meter m = {0};
	uint64_t now = move(&m, TEI_NS_PER_S, 20, MS), posted = now;

	(void)state;
	m.delay = MS;
	tei_meter_start(&m);
	tei_meter_done(&m, posted + MS, LEN, true);
	tei_meter_lone(&m, posted + 51 * MS, posted, LEN);
	assert_in_range(m.delay, 6 * MS, 8 * MS);
}

/* One at a time: the way there and back is in every one of them. */
static void lone_slices_give_at_least_a_guess(void **state)
{
	struct tei_meter m = {0};
	uint64_t now = 0;

	(void)state;
	for (int i = 0; i < 10; i++) {
		tei_meter_start(&m);
		now += 2 * MS;
		tei_meter_lone(&m, now, now - 2 * MS, LEN);
		tei_meter_done(&m, now, LEN, false);
	}
	assert_in_range(m.rate, LEN * 490, LEN * 510);
	move(&m, now, 10, MS);
	assert_in_range(m.rate, LEN * 990, LEN * 1010);
}

/* Answers come in clumps; all of one clump was moved before it. */
static void clumps_do_not_deceive(void **state)
{
	struct tei_meter m = {0};
	uint64_t now = 0;

	(void)state;
	tei_meter_start(&m);
	for (int i = 1; i <= 20; i++) {
		now += 4 * MS;
		for (int k = 0; k < 4; k++)
			tei_meter_done(&m, now, LEN, i < 20 || k < 3);
	}
	assert_in_range(m.rate, LEN * 980, LEN * 1020);
}

/* It had 20 ms for them, so a megabyte a millisecond is the least. */
static void clump_of_a_rail_thought_slow_raises_its_rate(void **state)
{
	struct tei_meter m = {0};
	uint64_t now = move(&m, 0, 20, 4 * MS);

	(void)state;
	assert_in_range(m.rate, LEN * 240, LEN * 260);
	tei_meter_start(&m);
	now += 20 * MS;
	tei_meter_lone(&m, now, now - 20 * MS, LEN);
	for (int i = 1; i <= 20; i++)
		tei_meter_done(&m, now, LEN, i < 20);
	assert_in_range(m.rate, LEN * 990, LEN * 1010);
}

static void stall_lowers_the_rate(void **state)
{
	struct tei_meter m = {0};

	(void)state;
	move(&m, 0, 20, MS);
	for (int i = 0; i < 60; i++)
		tei_meter_stalled(&m);
	assert_true(m.rate >= 1 && m.rate < 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_known_at_first),
		cmocka_unit_test(rate_is_bytes_over_busy_time),
		cmocka_unit_test(rate_follows_within_some_milliseconds),
		cmocka_unit_test(few_bytes_say_nothing_of_the_rate),
		cmocka_unit_test(delay_is_what_is_left_beside_the_bytes),
		cmocka_unit_test(disuse_brings_the_rate_back_to_what_others_do),
		cmocka_unit_test(
			disuse_brings_the_delay_down_to_that_of_others),
		cmocka_unit_test(delay_after_disuse_is_what_is_seen_then),
		cmocka_unit_test(delay_of_an_overtaken_slice_weighs_little),
		cmocka_unit_test(lone_slices_give_at_least_a_guess),
		cmocka_unit_test(clumps_do_not_deceive),
		cmocka_unit_test(clump_of_a_rail_thought_slow_raises_its_rate),
		cmocka_unit_test(stall_lowers_the_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
