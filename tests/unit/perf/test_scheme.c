/* SPDX-License-Identifier: Apache-2.0 */
/* test_scheme.c - which hosts move bytes to which others */
#include "perf/te-perf/scheme.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

/* "0>1 2>3 " */
static void assert_pairs(const char *word, uint32_t n_hosts, bool both,
			 const char *want, uint32_t shares)
{
	static struct scheme s;
	char text[256];
	size_t len = 0;

	assert_null(scheme_init(&s, word, n_hosts, both));
	for (uint32_t i = 0; i < s.n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%u>%u ", s.pair[i].from, s.pair[i].to);
	assert_string_equal(text, want);
	assert_int_equal(s.shares, shares);
}

static void each_scheme_has_its_pairs(void **state)
{
	(void)state;
	assert_pairs("pairs", 4, false, "0>1 2>3 ", 1);
	assert_pairs("pairwise", 4, true, "0>1 1>0 2>3 3>2 ", 1);
	assert_pairs("manytoone", 4, false, "1>0 2>0 3>0 ", 3);
	assert_pairs("onetomany", 3, false, "0>1 0>2 ", 2);
	assert_pairs("manytoone", 3, true, "0>1 0>2 1>0 2>0 ", 2);
	assert_pairs("all", 3, false, "0>1 0>2 1>0 1>2 2>0 2>1 ", 2);
	assert_pairs("all", 2, true, "0>1 1>0 ", 1);
}

/* So that no two pairs of a host use the same share of its memory. */
static void pairs_of_a_host_are_counted(void **state)
{
	static struct scheme s;

	(void)state;
	assert_null(scheme_init(&s, "all", HOSTS_MAX, true));
	assert_int_equal(s.n, PAIRS_MAX);
	assert_int_equal(s.shares, HOSTS_MAX - 1);
	for (uint32_t i = 0; i < s.n; i++) {
		assert_true(s.pair[i].out < s.shares);
		assert_true(s.pair[i].in < s.shares);
		for (uint32_t k = 0; k < i; k++) {
			assert_false(s.pair[i].from == s.pair[k].from &&
				     s.pair[i].out == s.pair[k].out);
			assert_false(s.pair[i].to == s.pair[k].to &&
				     s.pair[i].in == s.pair[k].in);
		}
	}
}

static void numbers_of_hosts_that_do_not_fit_are_told(void **state)
{
	static struct scheme s;

	(void)state;
	assert_non_null(strstr(scheme_init(&s, "all", 1, false), "two"));
	assert_non_null(strstr(scheme_init(&s, "pairs", 3, false), "even"));
	assert_non_null(
		strstr(scheme_init(&s, "all", HOSTS_MAX + 1, false), "64"));
}

static void a_word_that_is_no_scheme_is_told(void **state)
{
	static const char *const words[] = {"", "none", "pair", "pairing",
					    "alles"};
	static struct scheme s;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(words); i++) {
		const char *wrong = scheme_init(&s, words[i], 4, false);

		assert_non_null(wrong);
		assert_string_equal(wrong, "is no scheme");
		assert_int_equal(s.n, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_scheme_has_its_pairs),
		cmocka_unit_test(pairs_of_a_host_are_counted),
		cmocka_unit_test(numbers_of_hosts_that_do_not_fit_are_told),
		cmocka_unit_test(a_word_that_is_no_scheme_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
