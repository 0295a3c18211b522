/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_random_bury.c - random schedules of owners that bury what is removed and
 * replaced, against the model
 *
 * Prints the seed of a failure; TE_TEST_SEED=<seed> runs only that one.
 */
#include "tests/unit/store_core/model/model.h"

static const struct emphasis on_burials = {
	.buries = true,
	.n_seeds = 150,
	.starts = 24,
	.ends = 28,
	.removes = 5,
	.answers = 8,
};

static void random_schedules_agree_with_the_model(void **state)
{
	(void)state;
	model_schedules(&on_burials);
}

static void the_same_events_give_the_same_actions(void **state)
{
	(void)state;
	model_is_deterministic(&on_burials);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_schedules_agree_with_the_model),
		cmocka_unit_test(the_same_events_give_the_same_actions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
