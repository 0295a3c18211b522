/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_put_pipelines.c - one pipeline or two: the faster way is found, whatever the first
 * rounds and single ones have cost, and found again when it changes
 */
#include "store/client/put_pipelines.h"
#include "tests/lib/test.h"

#define KEYS   128u
#define KIB    1024u
#define ROUNDS 1000u

/* Of a round in one pipeline and in two, as if it had been so. */
struct costs {
	uint64_t one, two, bytes;
};

static bool run_round(struct tes_put_pipelines *pipelines,
		      const struct costs *costs, uint64_t more)
{
	bool two = tes_put_pipelines_two(pipelines);

	tes_put_pipelines_learn(pipelines, two, KEYS, costs->bytes,
				(two ? costs->two : costs->one) + more);
	return two;
}

/* How many of ROUNDS rounds went in two pipelines. */
static unsigned int run(struct tes_put_pipelines *pipelines,
			const struct costs *costs)
{
	unsigned int n_two = 0;

	for (unsigned int i = 0; i < ROUNDS; i++)
		n_two += run_round(pipelines, costs, 0);
	return n_two;
}

static const struct costs two_faster = {370000, 310000, KEYS * 4 * KIB};
static const struct costs one_faster = {270000, 290000, KEYS * 4 * KIB};

static void the_faster_way_is_found(void **state)
{
	struct tes_put_pipelines pipelines = {0};

	(void)state;
	assert_true(run(&pipelines, &two_faster) > ROUNDS * 9 / 10);
	pipelines = (struct tes_put_pipelines){0};
	assert_true(run(&pipelines, &one_faster) < ROUNDS / 10);
}

static void a_change_is_noticed(void **state)
{
	struct tes_put_pipelines pipelines = {0};

	(void)state;
	run(&pipelines, &two_faster);
	run(&pipelines, &one_faster);
	assert_true(run(&pipelines, &one_faster) < ROUNDS / 10);
	run(&pipelines, &two_faster);
	assert_true(run(&pipelines, &two_faster) > ROUNDS * 9 / 10);
}

/* Memory is touched for the first time: each round is faster than the last one. */
static void slow_first_rounds_do_not_decide(void **state)
{
	struct tes_put_pipelines pipelines = {0};
	uint64_t more = 100000000;

	(void)state;
	for (unsigned int i = 0; i < 64; i++, more /= 2)
		run_round(&pipelines, &two_faster, more);
	assert_true(run(&pipelines, &two_faster) > ROUNDS * 9 / 10);
}

/* Each seventh round is held up for a thousand times as long. */
static void a_round_held_up_weighs_as_any(void **state)
{
	struct tes_put_pipelines pipelines = {0};
	unsigned int n_two = 0, i;

	(void)state;
	run(&pipelines, &two_faster);
	for (i = 0; i < ROUNDS; i++)
		n_two += run_round(&pipelines, &two_faster,
				   i % 7 ? 0 : 1000 * two_faster.one);
	assert_true(n_two > ROUNDS * 8 / 10);
}

/* Of large values each key takes longer, whichever way it goes. */
static void sizes_are_not_compared(void **state)
{
	static const struct costs large = {4000000, 3800000, KEYS * 64 * KIB};
	struct tes_put_pipelines pipelines = {0};

	(void)state;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		tes_put_pipelines_learn(&pipelines, true, KEYS, large.bytes,
					large.two);
		tes_put_pipelines_learn(&pipelines, false, KEYS,
					two_faster.bytes, two_faster.one);
	}
	assert_int_equal(atomic_load(&pipelines.votes), 0);
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
