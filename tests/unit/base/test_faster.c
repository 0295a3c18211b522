/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_faster.c - the faster of two ways is found, whatever the first rounds and
 * single ones have cost, and found again when it changes
 */
#include "base/faster.h"
#include "tests/lib/test.h"

#define ITEMS  128u
#define KIB    1024u
#define ROUNDS 1000u

/* Of a round that goes the first way, and the second. */
struct costs {
	uint64_t first, second, bytes;
};

static bool run_round(struct tei_faster *faster, const struct costs *costs,
		      uint64_t more)
{
	bool second = tei_faster_second(faster);

	tei_faster_learn(faster, second, ITEMS, costs->bytes,
			 (second ? costs->second : costs->first) + more);
	return second;
}

/* How many of ROUNDS rounds went the second way. */
static unsigned int run(struct tei_faster *faster, const struct costs *costs)
{
	unsigned int n_second = 0;

	for (unsigned int i = 0; i < ROUNDS; i++)
		n_second += run_round(faster, costs, 0);
	return n_second;
}

static const struct costs second_faster = {370000, 310000, ITEMS * 4 * KIB};
static const struct costs first_faster = {270000, 290000, ITEMS * 4 * KIB};

static void the_faster_way_is_found(void **state)
{
	struct tei_faster faster = {0};

	(void)state;
	assert_true(run(&faster, &second_faster) > ROUNDS * 9 / 10);
	faster = (struct tei_faster){0};
	assert_true(run(&faster, &first_faster) < ROUNDS / 10);
}

static void a_change_is_noticed(void **state)
{
	struct tei_faster faster = {0};

	(void)state;
	run(&faster, &second_faster);
	run(&faster, &first_faster);
	assert_true(run(&faster, &first_faster) < ROUNDS / 10);
	run(&faster, &second_faster);
	assert_true(run(&faster, &second_faster) > ROUNDS * 9 / 10);
}

/* Memory is touched for the first time: each round is faster than the last one. */
static void slow_first_rounds_do_not_decide(void **state)
{
	struct tei_faster faster = {0};
	uint64_t more = 100000000;

	(void)state;
	for (unsigned int i = 0; i < 64; i++, more /= 2)
		run_round(&faster, &second_faster, more);
	assert_true(run(&faster, &second_faster) > ROUNDS * 9 / 10);
}

/* Each seventh round is held up for a thousand times as long. */
static void a_round_held_up_weighs_as_any(void **state)
{
	struct tei_faster faster = {0};
	unsigned int n_second = 0, i;

	(void)state;
	run(&faster, &second_faster);
	for (i = 0; i < ROUNDS; i++)
		n_second += run_round(&faster, &second_faster,
				      i % 7 ? 0 : 1000 * second_faster.first);
	assert_true(n_second > ROUNDS * 8 / 10);
}

/* Of large items each takes longer, whichever way it goes. */
static void sizes_are_not_compared(void **state)
{
	static const struct costs large = {4000000, 3800000, ITEMS * 64 * KIB};
	struct tei_faster faster = {0};

	(void)state;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		tei_faster_learn(&faster, true, ITEMS, large.bytes,
				 large.second);
		tei_faster_learn(&faster, false, ITEMS, second_faster.bytes,
				 second_faster.first);
	}
	assert_int_equal(atomic_load(&faster.votes), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_faster_way_is_found),
		cmocka_unit_test(a_change_is_noticed),
		cmocka_unit_test(slow_first_rounds_do_not_decide),
		cmocka_unit_test(a_round_held_up_weighs_as_any),
		cmocka_unit_test(sizes_are_not_compared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
