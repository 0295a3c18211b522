/* SPDX-License-Identifier: Apache-2.0 */
/* test_intervals.c - points of a load tell rates and gaps of their interval */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "perf/store-perf/intervals.h"

#define MS TEI_NS_PER_MS
#define T0 (5000 * MS)

static struct pace pace;
static struct intervals intervals;

static void begin(void)
{
	intervals = (struct intervals){.interval_ns = 100 * MS, .keep = true};
	pace_begin(&pace, T0);
	intervals_begin(&intervals, &pace, T0);
}

static void a_point_has_what_ended_in_its_interval(void **state)
{
	(void)state;
	begin();
	pace_note(&pace, T0 + 10 * MS, 4, 4000);
	pace_note(&pace, T0 + 90 * MS, 6, 6000);
	intervals_look(&intervals, T0 + 99 * MS, 1000);
	assert_int_equal(intervals.n, 0);
	intervals_look(&intervals, T0 + 100 * MS, 1000);
	assert_int_equal(intervals.n, 1);
	assert_float_equal(intervals.points[0].end_s, 0.1, 1e-9);
	assert_float_equal(intervals.points[0].keys_per_s, 100, 1e-6);
	assert_float_equal(intervals.points[0].gb_per_s, 1e-4, 1e-9);
	assert_float_equal(intervals.points[0].gap_ms, 80, 1e-6);
	pace_note(&pace, T0 + 110 * MS, 1, 1000);
	intervals_end(&intervals, T0 + 150 * MS);
	assert_int_equal(intervals.n, 2);
	assert_float_equal(intervals.points[1].keys_per_s, 20, 1e-6);
	assert_float_equal(intervals.points[1].gap_ms, 40, 1e-6);
	intervals_fini(&intervals);
}

/* Calls of which no key went well do not end a gap. */
static void a_gap_that_is_still_open_is_told(void **state)
{
	(void)state;
	begin();
	pace_note(&pace, T0 + 20 * MS, 1, 1);
	pace_note(&pace, T0 + 50 * MS, 0, 0);
	intervals_look(&intervals, T0 + 100 * MS, 1000);
	assert_float_equal(intervals.points[0].gap_ms, 80, 1e-6);
	intervals_look(&intervals, T0 + 200 * MS, 1000);
	assert_float_equal(intervals.points[1].gap_ms, 180, 1e-6);
	assert_float_equal(intervals.points[1].keys_per_s, 0, 1e-9);
	intervals_fini(&intervals);
}

static void looks_are_as_far_apart_as_the_next_point_is(void **state)
{
	(void)state;
	begin();
	assert_int_equal(intervals_look(&intervals, T0 - MS, 20), 20);
	assert_int_equal(intervals_look(&intervals, T0, 20), 20);
	assert_int_equal(intervals_look(&intervals, T0 + 95 * MS, 20), 6);
	intervals.interval_ns = 0;
	assert_int_equal(intervals_look(&intervals, T0 + 900 * MS, 20), 20);
	intervals_end(&intervals, T0 + 900 * MS);
	assert_int_equal(intervals.n, 0);
}

static void the_rest_is_left_out_where_it_is_too_short_to_tell(void **state)
{
	(void)state;
	begin();
	intervals_look(&intervals, T0 + 100 * MS, 1000);
	intervals_end(&intervals, T0 + 101 * MS);
	assert_int_equal(intervals.n, 1);
	intervals_fini(&intervals);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_point_has_what_ended_in_its_interval),
		cmocka_unit_test(a_gap_that_is_still_open_is_told),
		cmocka_unit_test(looks_are_as_far_apart_as_the_next_point_is),
		cmocka_unit_test(
			the_rest_is_left_out_where_it_is_too_short_to_tell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
