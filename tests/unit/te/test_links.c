/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_links.c - te_segment_links(): how each rail stands with a peer
 *
 * Rails "fake/a" and "fake/b" are preferred to "spare/c".
 */
#include <errno.h>

#include "tests/lib/wait.h"
#include "tests/unit/te/pair.h"

#define LEN   ((size_t)1 << 16)
#define RAILS 3

static void open_engines(const char *const of_owner[])
{
	/* A dead rail refuses at once; one that is slow is none. */
	static const char *const patient[] = {"connect_timeout", "1h", NULL};

	pair_engines(of_owner, patient, LEN);
}

static int set_up(void **state)
{
	(void)state;
	pair_memory(LEN);
	return 0;
}

static struct te_link_info link_of(uint32_t rail)
{
	struct te_link_info links[RAILS];
	size_t n = TEST_COUNT(links);

	assert_int_equal(te_segment_links(user, segment, links, &n), 0);
	assert_int_equal(n, RAILS);
	assert_int_equal(links[rail].rail, rail);
	return links[rail];
}

static void only_the_preferred_backend_is_opened(void **state)
{
	(void)state;
	open_engines(NULL);
	assert_int_equal(link_of(0).state, TE_LINK_NONE);
	assert_int_equal(te_segment_warm_up(user, segment, RIG_WAIT_MS, NULL),
			 0);
	assert_int_equal(link_of(0).state, TE_LINK_UP);
	assert_int_equal(link_of(1).state, TE_LINK_UP);
	assert_int_equal(link_of(2).state, TE_LINK_NONE);
	assert_int_equal(link_of(0).error, 0);
	assert_string_equal(link_of(0).way, "way of a");
	assert_string_equal(link_of(2).way, "");
}

static void what_the_peer_does_not_have_is_absent(void **state)
{
	static const char *const spare[] = {"backends", "spare", NULL};

	(void)state;
	open_engines(spare);
	assert_int_equal(link_of(0).state, TE_LINK_ABSENT);
	assert_int_equal(link_of(1).state, TE_LINK_ABSENT);
	assert_int_equal(link_of(2).state, TE_LINK_NONE);
}

static bool has_failed(void *arg)
{
	(void)arg;
	return link_of(0).state == TE_LINK_PAUSED;
}

static void what_fails_is_paused_and_says_how(void **state)
{
	(void)state;
	open_engines(NULL);
	fake.dead = 1;
	assert_int_equal(te_segment_warm_up(user, segment, RIG_WAIT_MS, NULL),
			 0);
	assert_true(test_wait_until(has_failed, NULL, RIG_WAIT_MS));
	assert_int_equal(link_of(0).error, -ECONNREFUSED);
	assert_int_equal(link_of(1).state, TE_LINK_UP);
}

static void calls_that_make_no_sense_are_refused(void **state)
{
	struct te_link_info one;
	size_t n = 0;

	(void)state;
	open_engines(NULL);
	assert_int_equal(te_segment_links(user, segment, NULL, &n), 0);
	assert_int_equal(n, RAILS);
	assert_int_equal(te_segment_links(user, segment, NULL, &n), -EINVAL);
	assert_int_equal(te_segment_links(user, segment, NULL, NULL), -EINVAL);
	n = 1;
	assert_int_equal(te_segment_links(user, segment + 1, &one, &n),
			 -ENOENT);
	assert_int_equal(te_segment_links(user, segment, &one, &n), 0);
	assert_int_equal(n, RAILS);
}

static void states_have_names(void **state)
{
	(void)state;
	assert_string_equal(te_link_state_name(TE_LINK_NONE), "none");
	assert_string_equal(te_link_state_name(TE_LINK_APART), "apart");
	assert_string_equal(te_link_state_name(99), "unknown");
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(only_the_preferred_backend_is_opened),
		TEST(what_the_peer_does_not_have_is_absent),
		TEST(what_fails_is_paused_and_says_how),
		TEST(calls_that_make_no_sense_are_refused),
		cmocka_unit_test(states_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
