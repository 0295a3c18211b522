/* SPDX-License-Identifier: Apache-2.0 */
/* test_breaker.c - pauses of what has failed */
#include "te/worker/breaker.h"

#include <stdlib.h>

#include "base/clock.h"
#include "tests/lib/test.h"

#define MS TEI_NS_PER_MS

static const struct tei_breaker_limits limits = {5 * MS, 1000 * MS, 5000 * MS};

static void closed_lets_all_pass(void **state)
{
	struct tei_breaker b = {0};

	(void)state;
	assert_true(tei_breaker_lets(&b, 0));
	assert_false(tei_breaker_good(&b));
	assert_int_equal(b.state, TEI_BREAKER_CLOSED);
}

static void failure_pauses_and_then_lets_one_try(void **state)
{
	struct tei_breaker b = {0};
	uint64_t now = 77 * MS;

	(void)state;
	tei_breaker_fail(&b, now, 12345, &limits);
	assert_false(tei_breaker_lets(&b, now));
	assert_in_range(b.until - now, limits.pause_min * 3 / 4,
			limits.pause_min * 5 / 4);
	assert_false(tei_breaker_lets(&b, b.until - 1));
	assert_true(tei_breaker_lets(&b, b.until));
	assert_int_equal(b.state, TEI_BREAKER_HALF);
	assert_true(tei_breaker_good(&b));
	assert_int_equal(b.state, TEI_BREAKER_CLOSED);
}

static void pauses_double_up_to_a_limit(void **state)
{
	struct tei_breaker b = {0};
	uint64_t now = 0, last = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		/* The middle of what chance may make of it. */
		tei_breaker_fail(&b, now, 1ull << 62, &limits);
		assert_true(b.until - now <= limits.pause_max * 5 / 4);
		if (i < 7)
			assert_true(b.until - now > last);
		last = b.until - now;
		now = b.until;
		assert_true(tei_breaker_lets(&b, now));
	}
	assert_true(last >= limits.pause_max * 3 / 4);
}

static void pauses_of_two_differ_by_chance(void **state)
{
	struct tei_breaker a = {0}, b = {0};
	unsigned int differ = 0;

	(void)state;
	srand(3);
	for (int i = 0; i < 20; i++) {
		tei_breaker_fail(&a, 0, (uint64_t)rand(), &limits);
		tei_breaker_fail(&b, 0, (uint64_t)rand(), &limits);
		differ += a.until != b.until;
	}
	assert_true(differ > 10);
}

/* What works for a moment between failures is paused longer each time. */
static void success_does_not_wipe_the_memory(void **state)
{
	struct tei_breaker b = {0};
	uint64_t now = 0;

	(void)state;
	for (int i = 0; i < 6; i++) {
		tei_breaker_fail(&b, now, 0, &limits);
		now = b.until;
		assert_true(tei_breaker_lets(&b, now));
		assert_true(tei_breaker_good(&b));
	}
	tei_breaker_fail(&b, now, 0, &limits);
	assert_true(b.until - now > 50 * limits.pause_min / 2);
}

static void memory_fades_with_time(void **state)
{
	struct tei_breaker b = {0};
	uint64_t now = 0;

	(void)state;
	for (int i = 0; i < 10; i++)
		tei_breaker_fail(&b, now, 0, &limits);
	now = 20 * limits.half_life;
	tei_breaker_fail(&b, now, 0, &limits);
	assert_true(b.until - now <= limits.pause_min * 5 / 4);
}

static void hold_pauses_without_a_trace(void **state)
{
	struct tei_breaker b = {0};

	(void)state;
	for (int i = 0; i < 10; i++)
		tei_breaker_hold(&b, 0, 0, &limits);
	assert_false(tei_breaker_lets(&b, 0));
	assert_true(b.until <= limits.pause_min * 5 / 4);
	/* The verdict counts once and may lengthen the pause, not shorten. */
	tei_breaker_hold(&b, 0, limits.pause_min / 2, &limits);
	tei_breaker_fail(&b, 0, 0, &limits);
	assert_true(b.until >= limits.pause_min * 5 / 4);
}

static void reset_forgets_everything(void **state)
{
	struct tei_breaker b = {0};

	(void)state;
	for (int i = 0; i < 10; i++)
		tei_breaker_fail(&b, 0, 0, &limits);
	tei_breaker_reset(&b);
	assert_true(tei_breaker_lets(&b, 0));
	tei_breaker_fail(&b, 0, 0, &limits);
	assert_true(b.until <= limits.pause_min * 5 / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closed_lets_all_pass),
		cmocka_unit_test(failure_pauses_and_then_lets_one_try),
		cmocka_unit_test(pauses_double_up_to_a_limit),
		cmocka_unit_test(pauses_of_two_differ_by_chance),
		cmocka_unit_test(success_does_not_wipe_the_memory),
		cmocka_unit_test(memory_fades_with_time),
		cmocka_unit_test(hold_pauses_without_a_trace),
		cmocka_unit_test(reset_forgets_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
