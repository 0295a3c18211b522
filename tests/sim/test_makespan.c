/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_makespan.c - how long many bytes take over unequal rails
 *
 * Compared with the best that could be (the sum of the rates at each moment,
 * and two latencies) and with other ways to plan. Rates are in gigabits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/schedulers.h"
#include "tests/sim/world.h"

#define MS(n)    ((uint64_t)(n)*1000000)
#define PLACE    ((size_t)1 << 20)
#define LEN      (WORLD_PLACES * PLACE)
#define START_AT MS(500) /* of what is measured; before, rails get known */

/*
 * Under ThreadSanitizer ours alone, for how others plan is arithmetic, and the
 * other ways to move for every third shape only.
 */
#if defined(__SANITIZE_THREAD__)
#define N_MEASURED 1
#define STRIDE     3
#else
#define N_MEASURED N_SCHEDULERS
#define STRIDE     1
#endif

struct shape {
	const char *name, *rails, *schedule;
	double most; /* of the optimum */
	double cold; /* the same for rails never used before */
	double lose; /* to another scheduler, by its makespan */
};

/*
 * Two of these last so short that a slice of a slow rail counts: it goes out
 * before there is anything to tell that it will be the last one to end.
 */

static const struct shape shapes[] = {
	{"one rail of 10", "10g:10us:1us", NULL, 1.05, 1.05, 1.03},
	{"2 rails, 4 and 2", "4g:20us:1us,2g:20us:1us", NULL, 1.05, 1.05, 1.03},
	{"2 rails, 10 and 1", "10g:20us:1us,1g:20us:1us", NULL, 1.05, 1.05,
	 1.03},
	{"8 equal rails of 10",
	 "10g:10us:1us,10g:10us:1us,10g:10us:1us,10g:10us:1us,"
	 "10g:10us:1us,10g:10us:1us,10g:10us:1us,10g:10us:1us",
	 NULL, 1.05, 1.05, 1.03},
	{"8 unequal rails, 40 to 1",
	 "40g:5us:1us,25g:5us:1us,25g:50us:1us,10g:10us:1us,"
	 "10g:100us:1us,4g:20us:2us,2g:20us:2us,1g:20us:5us",
	 NULL, 1.05, 1.15, 1.03},
	{"8 unequal rails, 5 to 1/8",
	 "5g:5us:1us,3125m:5us:1us,3125m:50us:1us,1250m:10us:1us,"
	 "1250m:100us:1us,500m:20us:2us,250m:20us:2us,125m:20us:5us",
	 NULL, 1.05, 1.05, 1.03},
	{"2 of 10, one slows to 1", "10g:10us:1us,10g:10us:1us",
	 "515ms:1:slow=0.1", 1.05, 1.05, 1.03},
	{"4 of 2, one slows to 1/5",
	 "2g:10us:1us,2g:10us:1us,2g:10us:1us,2g:10us:1us", "535ms:2:slow=0.1",
	 1.05, 1.05, 1.03},
	{"4 of 10, one slows to 1",
	 "10g:10us:1us,10g:10us:1us,10g:10us:1us,10g:10us:1us",
	 "507ms:2:slow=0.1", 1.05, 1.25, 1.03},
	{"2 of 4, one flaps", "4g:10us:1us,4g:10us:1us", "505ms:1:flap=10ms",
	 1.4, 1.4, 1.1},
	{"2 of 4, one goes down", "4g:10us:1us,4g:10us:1us", "530ms:1:down",
	 1.05, 1.05, 1.03},
	{"2 of 4, one comes up", "4g:10us:1us,4g:10us:1us",
	 "400ms:1:down,530ms:1:up", 1.05, 1.05, 1.03},
};

static struct world_config config_of(const struct shape *shape)
{
	return (struct world_config){
		.rails = shape->rails,
		.schedule = shape->schedule,
		.seed = 1,
		.place = PLACE,
	};
}

/* Move all places, in requests of @len; how long it took, ns. */
static uint64_t move_all(struct world *w, uint32_t op)
{
	struct te_request requests[WORLD_PLACES];
	struct iovec pieces[WORLD_PLACES];
	struct te_completion c[WORLD_PLACES];
	uint64_t begun = world_now(w);
	struct te_batch *batch;

	for (uint32_t i = 0; i < WORLD_PLACES; i++)
		requests[i] = world_request(w, op, i, &pieces[i], PLACE);
	assert_int_equal(te_batch_create(w->user, WORLD_PLACES, &batch), 0);
	assert_int_equal(te_batch_submit(batch, requests, WORLD_PLACES), 0);
	assert_int_equal(te_batch_wait(batch, UINT32_MAX), 0);
	begun = world_now(w) - begun;
	assert_int_equal(te_batch_poll(batch, c, WORLD_PLACES), WORLD_PLACES);
	for (uint32_t i = 0; i < WORLD_PLACES; i++)
		assert_int_equal(c[i].error, 0);
	te_batch_destroy(batch);
	return begun;
}

/* By @scheduler, as a share of the optimum; @cold: rails never used before. */
static double measure(const struct shape *shape, enum scheduler scheduler,
		      uint32_t op, bool cold)
{
	struct world_config config = config_of(shape);
	uint64_t begun, took;
	struct world w;

	scheduler_use(scheduler);
	world_open(&w, &config);
	if (!cold)
		move_all(&w, op);
	world_pass(&w, START_AT - world_now(&w));
	begun = world_now(&w);
	took = move_all(&w, op);
	world_close(&w);
	return (double)took / (double)world_optimum(&config, begun, LEN);
}

/* SIM_SHAPE=4: only that one, and only ours, to look at its trace. */
static void look_at_one(void **state)
{
	const char *which = getenv("SIM_SHAPE");

	(void)state;
	if (which)
		printf("%.3f\n", measure(&shapes[atoi(which)], SCHEDULER_OURS,
					 TE_WRITE, getenv("SIM_COLD")));
}

static double measured[TEST_COUNT(shapes)][N_SCHEDULERS];

static void print_table(void)
{
	printf("%-26s %10s %8s %12s %8s\n", "64 x 1 MiB, write", "optimum",
	       "ours", "round-robin", "ewma");
	for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
		struct world_config config = config_of(&shapes[i]);

		printf("%-26s %7.2f ms %8.3f %12.3f %8.3f\n", shapes[i].name,
		       (double)world_optimum(&config, START_AT, LEN) / 1e6,
		       measured[i][SCHEDULER_OURS],
		       measured[i][SCHEDULER_ROUND_ROBIN],
		       measured[i][SCHEDULER_EWMA]);
	}
}

static void makespan_is_near_the_optimum_on_unequal_rails(void **state)
{
	(void)state;
	for (size_t i = 0; i < TEST_COUNT(shapes); i++)
		for (int k = 0; k < N_MEASURED; k++)
			measured[i][k] = measure(&shapes[i], (enum scheduler)k,
						 TE_WRITE, false);
	print_table();
	for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
		if (measured[i][SCHEDULER_OURS] > shapes[i].most)
			fail_msg("%s: %.3f of the optimum", shapes[i].name,
				 measured[i][SCHEDULER_OURS]);
	}
}

static void no_other_scheduler_is_better(void **state)
{
	(void)state;
	for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
		for (int k = 0; k < N_MEASURED; k++) {
			if (measured[i][SCHEDULER_OURS] >
			    shapes[i].lose * measured[i][k])
				fail_msg("%s: %s is better", shapes[i].name,
					 scheduler_name((enum scheduler)k));
		}
	}
}

static void reads_are_as_near(void **state)
{
	(void)state;
	for (size_t i = 0; i < TEST_COUNT(shapes); i += STRIDE) {
		double got =
			measure(&shapes[i], SCHEDULER_OURS, TE_READ, false);

		if (got > shapes[i].most)
			fail_msg("%s: %.3f of the optimum", shapes[i].name,
				 got);
	}
}

static void rails_never_used_before_cost_little(void **state)
{
	(void)state;
	for (size_t i = 0; i < TEST_COUNT(shapes); i += STRIDE) {
		double got =
			measure(&shapes[i], SCHEDULER_OURS, TE_WRITE, true);

		printf("%-26s cold %8.3f\n", shapes[i].name, got);
		if (got > shapes[i].cold)
			fail_msg("%s: %.3f of the optimum", shapes[i].name,
				 got);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(look_at_one),
		cmocka_unit_test(makespan_is_near_the_optimum_on_unequal_rails),
		cmocka_unit_test(no_other_scheduler_is_better),
		cmocka_unit_test(reads_are_as_near),
		cmocka_unit_test(rails_never_used_before_cost_little),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
