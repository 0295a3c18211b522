/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c - who takes how much of a request */
#include "te/plan.h"

#include <stdlib.h>

#include "tests/lib/test.h"

#define KIB(n) ((uint64_t)(n) << 10)

static const struct tei_plan_limits limits = {KIB(64), KIB(1024)};

static void small_request_stays_whole(void **state)
{
	struct tei_plan_rail mine = {0};

	(void)state;
	for (uint64_t n = 1; n <= KIB(1024); n += 4099)
		assert_int_equal(tei_plan_next(n, &mine, NULL, 0, &limits), n);
}

static void one_rail_gets_every_byte_in_slices_without_crumbs(void **state)
{
	struct tei_plan_rail mine = {0};

	(void)state;
	srand(1);
	for (int i = 0; i < 2000; i++) {
		uint64_t rest = 1 + (uint64_t)rand() % KIB(20000), n;
		uint64_t whole = rest;

		for (; rest; rest -= n) {
			n = tei_plan_next(rest, &mine, NULL, 0, &limits);
			assert_true(n >= 1 && n <= rest);
			assert_true(n <= limits.slice_max);
			if (whole > limits.slice_max)
				assert_true(n + 4096 > limits.slice_min);
		}
	}
}

static void small_request_goes_to_the_rail_that_ends_it_first(void **state)
{
	struct tei_plan_rail fast = {KIB(512), 10000000000ull};
	struct tei_plan_rail slow = {0, 1000000};

	(void)state;
	assert_int_equal(tei_plan_next(KIB(8), &fast, &slow, 1, &limits),
			 KIB(8));
	assert_int_equal(tei_plan_next(KIB(8), &slow, &fast, 1, &limits), 0);
}

/* Rails that drain at their rate ask when they are empty, as in the engine. */
static void unequal_rails_share_by_their_rates(void **state)
{
	const uint64_t rates[2] = {3000000000ull, 1000000000ull};
	uint64_t moved[2] = {0}, rest = KIB(400 * 1024);
	double busy_until[2] = {0}, end;

	(void)state;
	while (rest) {
		int me = busy_until[0] <= busy_until[1] ? 0 : 1;
		struct tei_plan_rail mine = {0, rates[me]};
		struct tei_plan_rail other = {0, rates[!me]};
		uint64_t n = tei_plan_next(rest, &mine, &other, 1, &limits);

		if (!n) { /* only the other one is any use now */
			me = !me;
			n = tei_plan_next(rest, &other, &mine, 1, &limits);
			assert_true(n);
		}
		busy_until[me] += (double)n / (double)rates[me];
		moved[me] += n;
		rest -= n;
	}
	end = busy_until[0] > busy_until[1] ? busy_until[0] : busy_until[1];
	/* Within 5 % of what both could do together. */
	assert_true(end < 1.05 * (double)KIB(400 * 1024) / 4e9);
	assert_true(moved[0] > 2 * moved[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_request_stays_whole),
		cmocka_unit_test(
			one_rail_gets_every_byte_in_slices_without_crumbs),
		cmocka_unit_test(
			small_request_goes_to_the_rail_that_ends_it_first),
		cmocka_unit_test(unequal_rails_share_by_their_rates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
