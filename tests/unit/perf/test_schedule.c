/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_schedule.c - calls of a rate are due when they should be
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "perf/lib/schedule.h"

#define START 7000000000ull

static void calls_are_spread_evenly_from_the_start_on(void **state)
{
	struct tei_schedule s;

	(void)state;
	tei_schedule_init(&s, 1000, 0, 1, START);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(tei_schedule_take(&s, START),
				 START + i * TEI_NS_PER_MS);
}

static void threads_share_the_rate_and_take_turns(void **state)
{
	struct tei_schedule a, b;

	(void)state;
	tei_schedule_init(&a, 1000, 0, 2, START);
	tei_schedule_init(&b, 1000, 1, 2, START);
	for (uint64_t i = 0; i < 6; i += 2) {
		assert_int_equal(tei_schedule_take(&a, 0),
				 START + i * TEI_NS_PER_MS);
		assert_int_equal(tei_schedule_take(&b, 0),
				 START + (i + 1) * TEI_NS_PER_MS);
	}
}

/* A third of a second is no whole number of ns, and a day has 259,200 of it. */
static void a_day_of_calls_does_not_drift(void **state)
{
	struct tei_schedule s;

	(void)state;
	tei_schedule_init(&s, 3, 0, 1, START);
	s.next = 3ull * 86400;
	assert_int_equal(tei_schedule_due(&s), START + 86400 * TEI_NS_PER_S);
	tei_schedule_init(&s, TEI_SCHEDULE_RATE_MAX, 0, 1, START);
	s.next = TEI_SCHEDULE_RATE_MAX * 86400 + 1;
	assert_int_equal(tei_schedule_due(&s),
			 START + 86400 * TEI_NS_PER_S + 1);
}

/* The second call took three intervals: what it held up was due meanwhile. */
static void latency_counts_from_when_a_delayed_call_was_due(void **state)
{
	struct tei_schedule s;

	(void)state;
	tei_schedule_init(&s, 1000, 0, 1, 0);
	assert_int_equal(tei_schedule_take(&s, 0), 0);
	assert_int_equal(tei_schedule_take(&s, 1000000), 1000000);
	assert_int_equal(tei_schedule_take(&s, 4000000), 2000000);
	assert_int_equal(tei_schedule_take(&s, 4000100), 3000000);
}

static void calls_that_are_due_and_not_begun_are_counted(void **state)
{
	struct tei_schedule a, b;

	(void)state;
	tei_schedule_init(&a, 1000, 0, 2, START);
	tei_schedule_init(&b, 1000, 1, 2, START);
	assert_int_equal(tei_schedule_behind(&a, START - 1), 0);
	assert_int_equal(tei_schedule_behind(&a, START), 1);
	assert_int_equal(tei_schedule_behind(&b, START), 0);
	assert_int_equal(tei_schedule_behind(&b, START + TEI_NS_PER_MS), 1);
	assert_int_equal(tei_schedule_behind(&a, START + 2 * TEI_NS_PER_MS), 2);
	tei_schedule_take(&a, START);
	assert_int_equal(tei_schedule_behind(&a, START + 2 * TEI_NS_PER_MS), 1);
	assert_int_equal(tei_schedule_behind(&a, START + 10 * TEI_NS_PER_S),
			 5000);
	tei_schedule_init(&a, 3, 0, 1, 0);
	assert_int_equal(tei_schedule_behind(&a, 333333332), 1);
	assert_int_equal(tei_schedule_behind(&a, 333333333), 2);
}

static void a_call_that_is_overdue_begins_at_once(void **state)
{
	struct tei_schedule s;

	(void)state;
	tei_schedule_init(&s, 1, 0, 1, tei_now_ns());
	assert_true(tei_schedule_await(&s, UINT64_MAX, NULL));
	assert_false(s.precise); /* has not slept */
}

static void a_call_that_is_not_due_is_waited_for(void **state)
{
	struct tei_schedule s;

	(void)state;
	tei_schedule_init(&s, 1000, 5, 6, tei_now_ns());
	assert_true(tei_schedule_await(&s, UINT64_MAX, NULL));
	assert_true(tei_now_ns() >= tei_schedule_due(&s));
}

static void a_call_due_after_the_end_does_not_begin(void **state)
{
	struct tei_schedule s;
	uint64_t now = tei_now_ns();

	(void)state;
	tei_schedule_init(&s, 1, 0, 1, now + 3600 * TEI_NS_PER_S);
	assert_false(tei_schedule_await(&s, now + TEI_NS_PER_S, NULL));
	assert_false(tei_schedule_await(&s, s.start_ns, NULL));
}

/* Else a load that is too much for a pool would last far beyond its time. */
static void what_is_behind_at_the_end_does_not_begin(void **state)
{
	struct tei_schedule s;
	uint64_t now = tei_now_ns();

	(void)state;
	tei_schedule_init(&s, 1000, 0, 1, now - TEI_NS_PER_S);
	assert_true(tei_schedule_await(&s, UINT64_MAX, NULL));
	assert_false(tei_schedule_await(&s, now, NULL));
	assert_int_equal(tei_schedule_behind(&s, now - 1), 1000);
}

static void a_load_that_is_ended_waits_no_longer(void **state)
{
	_Atomic bool ended = true;
	struct tei_schedule s;

	(void)state;
	tei_schedule_init(&s, 1, 0, 1, tei_now_ns() + 3600 * TEI_NS_PER_S);
	assert_false(tei_schedule_await(&s, UINT64_MAX, &ended));
	tei_schedule_init(&s, 0, 0, 1, 0);
	assert_false(tei_schedule_await(&s, UINT64_MAX, &ended));
}

static void without_a_rate_calls_begin_when_the_last_has_ended(void **state)
{
	struct tei_schedule s;

	(void)state;
	tei_schedule_init(&s, 0, 0, 1, START);
	assert_int_equal(tei_schedule_take(&s, 5), 5);
	assert_int_equal(tei_schedule_take(&s, 7), 7);
	assert_int_equal(tei_schedule_due(&s), 0);
	assert_int_equal(tei_schedule_behind(&s, UINT64_MAX), 0);
	assert_true(tei_schedule_await(&s, UINT64_MAX, NULL));
	assert_false(tei_schedule_await(&s, tei_now_ns(), NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_spread_evenly_from_the_start_on),
		cmocka_unit_test(threads_share_the_rate_and_take_turns),
		cmocka_unit_test(a_day_of_calls_does_not_drift),
		cmocka_unit_test(
			latency_counts_from_when_a_delayed_call_was_due),
		cmocka_unit_test(calls_that_are_due_and_not_begun_are_counted),
		cmocka_unit_test(a_call_that_is_overdue_begins_at_once),
		cmocka_unit_test(a_call_that_is_not_due_is_waited_for),
		cmocka_unit_test(a_call_due_after_the_end_does_not_begin),
		cmocka_unit_test(what_is_behind_at_the_end_does_not_begin),
		cmocka_unit_test(a_load_that_is_ended_waits_no_longer),
		cmocka_unit_test(
			without_a_rate_calls_begin_when_the_last_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
