/* SPDX-License-Identifier: Apache-2.0 */
/* test_spin.c - how long to stay awake */
#include "base/spin.h"
#include "tests/lib/test.h"

#define MAX (50 * TEI_NS_PER_US)

static void what_comes_soon_is_waited_for_awake(void **state)
{
	struct tei_spin spin = {.max = MAX};

	(void)state;
	tei_spin_learn(&spin, 3 * TEI_NS_PER_US);
	assert_int_equal(spin.now, MAX);
	tei_spin_learn(&spin, MAX + TEI_WAKING_UP - 1);
	assert_int_equal(spin.now, MAX);
}

static void after_long_waits_nobody_spins(void **state)
{
	struct tei_spin spin = {.now = MAX, .max = MAX};

	(void)state;
	tei_spin_learn(&spin, TEI_NS_PER_S);
	assert_int_equal(spin.now, MAX / 2);
	for (int i = 0; i < 10; i++)
		tei_spin_learn(&spin, TEI_NS_PER_S);
	assert_int_equal(spin.now, 0);
}

static void nobody_spins_where_others_need_the_core(void **state)
{
	uint64_t now = tei_now_ns();
	struct tei_contention contention = {.until = now + TEI_NS_PER_S};

	(void)state;
	assert_false(tei_contention_yield(&contention, &now));
	now = contention.until;
	assert_true(tei_contention_yield(&contention, &now));
}

static void two_long_yields_in_a_row_are_contention(void **state)
{
	struct tei_contention contention = {0};

	(void)state;
	tei_contention_learn(&contention, 0, 20 * TEI_NS_PER_US, 0);
	tei_contention_learn(&contention, 20 * TEI_NS_PER_US,
			     21 * TEI_NS_PER_US, 0);
	tei_contention_learn(&contention, 21 * TEI_NS_PER_US,
			     41 * TEI_NS_PER_US, 0);
	assert_false(tei_contention_lasts(&contention, 41 * TEI_NS_PER_US));
	tei_contention_learn(&contention, 41 * TEI_NS_PER_US,
			     61 * TEI_NS_PER_US, 0);
	assert_true(tei_contention_lasts(&contention, 61 * TEI_NS_PER_US));
	assert_false(tei_contention_lasts(&contention, 2 * TEI_NS_PER_MS));
}

/* However long yields take, little of the time goes on them. */
static void a_time_slice_given_away_is_made_good(void **state)
{
	struct tei_contention contention = {0};
	uint64_t now = 0, yielding = 0;

	(void)state;
	while (now < 10 * TEI_NS_PER_S) {
		uint64_t took = 3 * TEI_NS_PER_MS;

		if (tei_contention_lasts(&contention, now)) {
			now += 100 * TEI_NS_PER_US; /* asleep */
			continue;
		}
		tei_contention_learn(&contention, now, now + took, 0);
		now += took;
		yielding += took;
	}
	assert_true(yielding < now / 20);
	tei_contention_learn(&contention, now, now + 600 * TEI_NS_PER_S, 0);
	assert_false(
		tei_contention_lasts(&contention, now + 602 * TEI_NS_PER_S));
}

/* Each trial of a host that stays busy costs a time slice. */
static void short_yields_between_do_not_end_contention(void **state)
{
	struct tei_contention contention = {0};
	uint64_t now = 0, yielding = 0;

	(void)state;
	for (int i = 0; now < 20 * TEI_NS_PER_S; i++) {
		uint64_t took = i % 2 ? TEI_NS_PER_US : 4 * TEI_NS_PER_MS;

		if (tei_contention_lasts(&contention, now))
			now = contention.until; /* asleep */
		tei_contention_learn(&contention, now, now + took, 0);
		now += took;
		yielding += took;
	}
	assert_true(yielding < now / 100);
}

static void a_disturbance_now_and_then_is_no_contention(void **state)
{
	struct tei_contention contention = {0};
	uint64_t now = 0, asleep = 0, took = 4 * TEI_NS_PER_MS;

	(void)state;
	for (int i = 0; i < 100; i++) {
		tei_contention_learn(&contention, now, now + took, 0);
		asleep += contention.until - now;
		now = contention.until + TEI_NS_PER_S;
	}
	assert_true(asleep < now / 5);
}

#define SLOW (60 * TEI_NS_PER_US) /* to be woken */

/* Where being woken takes long, more is waited for awake, up to four wake-ups. */
static void slow_wake_ups_are_avoided(void **state)
{
	struct tei_spin wakes = {.max = MAX, .wakes = true};
	struct tei_spin fixed = {.max = MAX}, none = {.wakes = true};

	(void)state;
	tei_spin_learn_by(&wakes, TEI_SPIN_WAKES * SLOW + SLOW - 1, SLOW);
	assert_int_equal(wakes.now, TEI_SPIN_WAKES * SLOW);
	tei_spin_learn_by(&wakes, TEI_SPIN_WAKES * SLOW + SLOW, SLOW);
	assert_int_equal(wakes.now, TEI_SPIN_WAKES * SLOW / 2);
	tei_spin_learn_by(&wakes, 0, MAX / TEI_SPIN_WAKES - 1);
	assert_int_equal(wakes.now, MAX);
	tei_spin_learn_by(&fixed, MAX + SLOW - 1, SLOW);
	assert_int_equal(fixed.now, MAX);
	tei_spin_learn_by(&none, 0, SLOW);
	assert_int_equal(none.now, 0);
}

static void yields_are_long_where_wake_ups_are_not_longer(void **state)
{
	struct tei_contention contention = {0};

	(void)state;
	for (int i = 0; i < 4; i++)
		tei_contention_learn(&contention, 0, SLOW / 3 - 1, SLOW);
	assert_false(tei_contention_lasts(&contention, SLOW));
	for (int i = 0; i < 2; i++)
		tei_contention_learn(&contention, 0, SLOW / 3, SLOW);
	assert_true(tei_contention_lasts(&contention, SLOW));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_comes_soon_is_waited_for_awake),
		cmocka_unit_test(after_long_waits_nobody_spins),
		cmocka_unit_test(nobody_spins_where_others_need_the_core),
		cmocka_unit_test(two_long_yields_in_a_row_are_contention),
		cmocka_unit_test(a_time_slice_given_away_is_made_good),
		cmocka_unit_test(short_yields_between_do_not_end_contention),
		cmocka_unit_test(a_disturbance_now_and_then_is_no_contention),
		cmocka_unit_test(slow_wake_ups_are_avoided),
		cmocka_unit_test(yields_are_long_where_wake_ups_are_not_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
