/* SPDX-License-Identifier: Apache-2.0 */
/* test_match.c - patterns of keys, good, bad and evil */
#include <errno.h>
#include <string.h>

#include "store/server/match.h"
#include "tests/lib/test.h"

static bool matches(const char *pattern, const char *key, size_t len)
{
	char why[TES_SERVER_MATCH_WHY_LEN];
	struct tes_server_match *m;
	unsigned int cost = 0;
	bool yes;

	assert_int_equal(tes_server_match_create(pattern, &m, why), 0);
	yes = tes_server_match(key, len, m, &cost);
	assert_false(tes_server_match_failed(m));
	tes_server_match_destroy(m);
	return yes;
}

static void patterns_are_looked_for_anywhere(void **state)
{
	static const struct {
		const char *pattern, *key;
		bool yes;
	} cases[] = {
		{"b", "abc", true},
		{"^b", "abc", false},
		{"^a.*c$", "abc", true},
		{"b$", "abc", false},
		{"x*", "abc", true}, /* matches nothing, everywhere */
		{"^$", "abc", false},
		{"a|z", "xyz", true},
		{"[0-9]+_(tp|pp)$", "key_12_tp", true},
		{"c$", "abc\n", false},
		{"\\u0062", "abc", true},
		{"[]", "abc", false},
		{"(?<=a)b", "abc", true},
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++)
		assert_int_equal(matches(cases[i].pattern, cases[i].key,
					 strlen(cases[i].key)),
				 cases[i].yes);
}

static void keys_are_bytes(void **state)
{
	(void)state;
	assert_true(matches("^a.b$", "a\0b", 3));
	assert_true(matches("\\x00", "a\0b", 3));
	assert_true(matches("^..$", "\xff\xfe", 2));
}

static void bad_patterns_are_named(void **state)
{
	static const char *const bad[] = {
		"(",  "[a", "*",        "a{2,1}",
		"\\", ")",  "(?(1)a|b", "((((a{1000}){1000}){1000}){1000})",
	};
	char why[TES_SERVER_MATCH_WHY_LEN];
	struct tes_server_match *m;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		why[0] = '\0';
		assert_int_equal(tes_server_match_create(bad[i], &m, why),
				 -EINVAL);
		assert_memory_equal(why, "pattern, at ", 12);
	}
}

static void an_evil_pattern_ends_early_and_matches_nothing(void **state)
{
	char key[1024], why[TES_SERVER_MATCH_WHY_LEN];
	struct tes_server_match *m;
	unsigned int cost = 0;

	(void)state;
	memset(key, 'a', sizeof(key));
	assert_int_equal(tes_server_match_create("(a+)+b|^a", &m, why), 0);
	assert_true(tes_server_match("ab", 2, m, &cost));
	assert_false(tes_server_match(key, sizeof(key), m, &cost));
	assert_true(tes_server_match_failed(m));
	assert_false(tes_server_match("ab", 2, m, &cost));
	tes_server_match_destroy(m);
	tes_server_match_destroy(NULL);
}

static bool fails(const char *pattern)
{
	char key[1024], why[TES_SERVER_MATCH_WHY_LEN];
	struct tes_server_match *m;
	unsigned int cost = 0;
	bool failed;

	memset(key, 'a', sizeof(key));
	assert_int_equal(tes_server_match_create(pattern, &m, why), 0);
	assert_false(tes_server_match(key, sizeof(key), m, &cost));
	failed = tes_server_match_failed(m);
	tes_server_match_destroy(m);
	return failed;
}

/* Each ends well before the limit of one place, at each of 1024 places. */
static void what_a_whole_key_takes_is_bounded(void **state)
{
	(void)state;
	assert_true(fails("(a?){14}[bc]"));
	assert_true(fails("(a|a){12}[bc]"));
	assert_true(fails("[^b]*[^c]*[bc]"));
	assert_true(fails("(a*).*?\\1[bc]"));
	assert_false(fails("^[a-z]+_[0-9]+$"));
	assert_false(fails("a{20}_(tp|pp)"));
	assert_false(fails("[b-z]+"));
}

static void a_match_that_is_stopped_matches_nothing(void **state)
{
	char why[TES_SERVER_MATCH_WHY_LEN];
	struct tes_server_match *m;
	unsigned int cost = 0;

	(void)state;
	assert_int_equal(tes_server_match_create("a", &m, why), 0);
	assert_true(tes_server_match("a", 1, m, &cost));
	tes_server_match_stop(m);
	assert_false(tes_server_match("a", 1, m, &cost));
	assert_true(tes_server_match_failed(m));
	tes_server_match_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_are_looked_for_anywhere),
		cmocka_unit_test(keys_are_bytes),
		cmocka_unit_test(bad_patterns_are_named),
		cmocka_unit_test(
			an_evil_pattern_ends_early_and_matches_nothing),
		cmocka_unit_test(what_a_whole_key_takes_is_bounded),
		cmocka_unit_test(a_match_that_is_stopped_matches_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
