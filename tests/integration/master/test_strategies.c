/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_strategies.c - where a master puts what, as its flag says
 *
 * Callers do not say on which machine they are: each is on one of its own.
 */
#include <stdio.h>

#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"

#define N_KEYS 300
#define SMALL  (64u << 10) /* room for all of them */
#define LARGE  (1u << 20)

struct pair {
	struct master master;
	struct caller *small, *large;
};

static void pair_start(struct pair *p, const char *flag)
{
	master_start(&p->master, (const char *const[]){flag, NULL});
	p->small = caller_join(&p->master, 1, false);
	assert_int_equal(caller_mount(p->small, 1, SMALL), 0);
	p->large = caller_join(&p->master, 2, false);
	assert_int_equal(caller_mount(p->large, 2, LARGE), 0);
}

static void pair_stop(struct pair *p)
{
	caller_close(p->large);
	caller_close(p->small);
	master_stop(&p->master);
}

/* @writer puts many; returns the share of their bytes that the small one got. */
static double share_of_small(struct pair *p, struct caller *writer)
{
	uint64_t small, large;
	char key[16];

	for (int i = 0; i < N_KEYS; i++) {
		(void)snprintf(key, sizeof(key), "k/%d", i);
		caller_put(writer, key);
	}
	small = master_metric(&p->master,
			      "segment_allocated_bytes{segment=\"owner-1\"}");
	large = master_metric(&p->master,
			      "segment_allocated_bytes{segment=\"owner-2\"}");
	assert_true(small + large > N_KEYS * 100);
	return (double)small / (double)(small + large);
}

static void by_chance_each_segment_gets_as_much(void **state)
{
	struct pair p;
	double share;

	(void)state;
	pair_start(&p, "--allocation_strategy=random");
	share = share_of_small(&p, p.large);
	assert_true(share > 0.25 && share < 0.75);
	pair_stop(&p);
}

static void by_free_ratio_the_larger_one_gets_more(void **state)
{
	struct pair p;

	(void)state;
	pair_start(&p, "--allocation_strategy=free_ratio_first");
	/* A seventeenth would be even. */
	assert_true(share_of_small(&p, p.small) < 0.25);
	pair_stop(&p);
}

static void local_first_is_the_writers_own(void **state)
{
	struct pair p;

	(void)state;
	pair_start(&p, "--allocation_strategy=local_first");
	assert_true(share_of_small(&p, p.small) == 1);
	pair_stop(&p);
	pair_start(&p, "--allocation_strategy=local_first");
	assert_true(share_of_small(&p, p.large) == 0);
	pair_stop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_chance_each_segment_gets_as_much),
		cmocka_unit_test(by_free_ratio_the_larger_one_gets_more),
		cmocka_unit_test(local_first_is_the_writers_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
