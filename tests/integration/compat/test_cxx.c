/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cxx.c - programs written for Mooncake's C++ client run on ours
 *
 * CONSUMER is one, as a compiler made it of real_client.h (consumer.cpp).
 */
#include <stdlib.h>

#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define END_MS 200000

static struct test_process *consumer(const struct pool *pool, const char *role,
				     const char *name)
{
	const char *const args[] = {role, pool->address, name, NULL};

	return test_process_start(CONSUMER, args);
}

static void ends_well(struct test_process *p)
{
	int rc = test_process_wait(p, END_MS);

	if (rc)
		print_message("%s\n", test_process_output(p));
	assert_int_equal(rc, 0);
	test_process_end(p);
}

static void two_at_once_and_a_third_reads_what_they_left(void **state)
{
	struct test_process *owner, *first, *second;
	struct pool pool;

	(void)state;
	pool_start(&pool, pool_patient);
	owner = pool_owner(&pool, "128 MB");
	first = consumer(&pool, "work", "first");
	second = consumer(&pool, "work", "second");
	ends_well(first);
	ends_well(second);
	ends_well(consumer(&pool, "read", "first"));
	ends_well(consumer(&pool, "read", "second"));
	test_process_end(owner);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_at_once_and_a_third_reads_what_they_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
