/* SPDX-License-Identifier: Apache-2.0 */
/* test_errors.c - errors cross the border between hosts by their names */
#include "perf/te-perf/errors.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/test.h"

static void errors_come_back_as_they_were_sent(void **state)
{
	static const int errors[] = {0,       -EIO,        -ETIMEDOUT,
				     -ESTALE, -ECONNRESET, -ECANCELED};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(errors); i++)
		assert_int_equal(error_named(error_name(errors[i])), errors[i]);
	assert_string_equal(error_name(-ETIMEDOUT), "ETIMEDOUT");
	assert_string_equal(error_name(0), "none");
}

static void an_error_without_a_name_is_eio(void **state)
{
	(void)state;
	assert_string_equal(error_name(-100000), "EIO");
	assert_int_equal(error_named("EUNHEARDOF"), -EIO);
	assert_int_equal(error_named(""), -EIO);
	assert_int_equal(error_named("-110"), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_come_back_as_they_were_sent),
		cmocka_unit_test(an_error_without_a_name_is_eio),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
