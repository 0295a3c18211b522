/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fastest.c - the fastest of several ways is chosen, by clean samples
 * only, and chosen anew when another one has become faster
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/fastest.h"
#include "tests/lib/test.h"

#define WAYS  5u
#define BYTES 65536u
/* Turns in which each way gets all the samples that it needs. */
#define ENOUGH (WAYS * TEI_FASTEST_SAMPLES)

/* ns of a piece by each way. */
struct costs {
	uint64_t ns[WAYS];
};

static const struct costs third_fastest = {{9000, 8000, 6000, 7000, 6500}};
static const struct costs first_fastest = {{5000, 8000, 6000, 7000, 6500}};

static void run_turn(struct tei_fastest *fastest, const struct costs *costs,
		     uint64_t more, bool clean)
{
	int way = tei_fastest_begin(fastest, WAYS);

	assert_in_range(way, 0, WAYS - 1);
	assert_int_equal(
		tei_fastest_end(fastest, (unsigned int)way, WAYS, BYTES,
				costs->ns[way] ? costs->ns[way] + more : 0,
				clean),
		clean && costs->ns[way]);
}

static void run(struct tei_fastest *fastest, const struct costs *costs,
		unsigned int n)
{
	while (n--)
		run_turn(fastest, costs, 0, true);
}

static void the_fastest_way_is_chosen(void **state)
{
	struct tei_fastest fastest = {0};

	(void)state;
	run(&fastest, &third_fastest, ENOUGH - 1);
	assert_int_equal(tei_fastest_chosen(&fastest), 0);
	assert_int_equal(tei_fastest_speed(&fastest), 0);
	run(&fastest, &third_fastest, 1);
	assert_int_equal(tei_fastest_chosen(&fastest), 2);
	/* 65536 bytes in 6000 ns, rounded down to whole ps a byte: 91. */
	assert_int_equal(tei_fastest_speed(&fastest), 1000000000000ull / 91);
	assert_int_equal(tei_fastest_speed_of(&fastest, 0),
			 1000000000000ull / 137);
	fastest = (struct tei_fastest){0};
	run(&fastest, &first_fastest, ENOUGH);
	assert_int_equal(tei_fastest_chosen(&fastest), 0);
	assert_true(tei_fastest_speed(&fastest) > 0);
}

/* Where all are alike the plain way, the first one, goes on. */
static void alike_ways_leave_the_first(void **state)
{
	static const struct costs alike = {{7000, 7000, 7000, 7000, 7000}};
	struct tei_fastest fastest = {0};

	(void)state;
	run(&fastest, &alike, 2 * ENOUGH);
	assert_int_equal(tei_fastest_chosen(&fastest), 0);
}

static void a_change_is_noticed(void **state)
{
	struct tei_fastest fastest = {0};

	(void)state;
	run(&fastest, &third_fastest, ENOUGH);
	run(&fastest, &first_fastest, ENOUGH);
	assert_int_equal(tei_fastest_chosen(&fastest), 0);
	run(&fastest, &third_fastest, ENOUGH);
	assert_int_equal(tei_fastest_chosen(&fastest), 2);
}

/* Samples that would change the choice do not, when they were disturbed. */
static void disturbed_samples_do_not_count(void **state)
{
	struct tei_fastest fastest = {0};

	(void)state;
	for (unsigned int i = 0; i < 10 * ENOUGH; i++)
		run_turn(&fastest, &first_fastest, 0, false);
	assert_int_equal(tei_fastest_speed(&fastest), 0);
	for (unsigned int i = 0; i < 2 * ENOUGH; i++) {
		run_turn(&fastest, &third_fastest, 0, true);
		run_turn(&fastest, &first_fastest, 0, false);
	}
	assert_int_equal(tei_fastest_chosen(&fastest), 2);
	for (unsigned int i = 0; i < 10 * ENOUGH; i++)
		run_turn(&fastest, &first_fastest, 0, false);
	assert_int_equal(tei_fastest_chosen(&fastest), 2);
}

/* A third of the samples are held up without a trace, of any way. */
static void outliers_do_not_decide(void **state)
{
	struct tei_fastest fastest = {0};

	(void)state;
	for (unsigned int i = 0; i < 8 * ENOUGH; i++)
		run_turn(&fastest, &third_fastest, i % 3 ? 0 : 1000000, true);
	assert_int_equal(tei_fastest_chosen(&fastest), 2);
}

static void what_took_no_time_does_not_count(void **state)
{
	static const struct costs none = {{0}};
	struct tei_fastest fastest = {0};

	(void)state;
	run(&fastest, &none, 2 * ENOUGH);
	assert_int_equal(tei_fastest_speed(&fastest), 0);
}

static void one_at_a_time_has_a_turn(void **state)
{
	struct tei_fastest fastest = {0};
	int way = tei_fastest_begin(&fastest, WAYS);

	(void)state;
	assert_int_equal(way, 0);
	assert_int_equal(tei_fastest_begin(&fastest, WAYS), -1);
	tei_fastest_end(&fastest, 0, WAYS, BYTES, 1, true);
	assert_int_equal(tei_fastest_begin(&fastest, WAYS), 1);
}

static struct tei_fastest shared;
static atomic_uint n_inside;

static void *run_shared(void *arg)
{
	unsigned int n_turns = 0;

	while (n_turns < ENOUGH) {
		int way = tei_fastest_begin(&shared, WAYS);

		if (way < 0) {
			assert_true(tei_fastest_chosen(&shared) < WAYS);
			continue;
		}
		assert_int_equal(atomic_fetch_add(&n_inside, 1), 0);
		atomic_fetch_sub(&n_inside, 1);
		tei_fastest_end(&shared, (unsigned int)way, WAYS, BYTES,
				third_fastest.ns[way], true);
		n_turns++;
	}
	return arg;
}

static void threads_share_the_turns(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(threads); i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, run_shared, NULL), 0);
	for (size_t i = 0; i < TEST_COUNT(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(tei_fastest_chosen(&shared), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_fastest_way_is_chosen),
		cmocka_unit_test(alike_ways_leave_the_first),
		cmocka_unit_test(a_change_is_noticed),
		cmocka_unit_test(disturbed_samples_do_not_count),
		cmocka_unit_test(outliers_do_not_decide),
		cmocka_unit_test(what_took_no_time_does_not_count),
		cmocka_unit_test(one_at_a_time_has_a_turn),
		cmocka_unit_test(threads_share_the_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
