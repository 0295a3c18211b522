/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_te_perf_hosts.c - what hosts of a scheme say, right or wrong, and when
 * one is lost
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/integration/perf/fake_host.h"
#include "tests/integration/perf/tool.h"
#include "tests/lib/test.h"

#define HOSTS_MAX 8

struct hosts {
	struct fake_host *host[HOSTS_MAX];
	size_t n;
	char flag[512]; /* --connect= all of them */
};

/* Adds a host; the first answers are those that differ from a good host's. */
static void add_host(struct hosts *h, const struct fake_answer *wrong)
{
	size_t len = strlen(h->flag);

	h->host[h->n] = fake_host_start(wrong);
	(void)snprintf(
		h->flag + len, sizeof(h->flag) - len, "%s%s",
		h->n ? "," : "--connect=", fake_host_name(h->host[h->n]));
	h->n++;
}

static void stop_hosts(struct hosts *h)
{
	while (h->n)
		fake_host_stop(h->host[--h->n]);
}

static json_int_t failed_by(const json_t *row, int error)
{
	const json_t *list = json_object_get(row, "errors"), *kind;

	for (size_t i = 0; i < json_array_size(list); i++) {
		kind = json_array_get(list, i);
		if (integer(kind, "error") == error)
			return integer(kind, "requests");
	}
	return 0;
}

static const struct fake_answer late[] = {
	{"result", "moved none 100 1000000000 5000000 2500000 0 tcp\n"
		   "failed ETIMEDOUT 3\nfailed ESTALE 1\n"
		   "latency 4000 50\nbucket 50 80\nend"},
	{NULL, NULL},
};
static const struct fake_answer early[] = {
	{"result", "moved none 50 1000000000 5000000 -1500000 0 tcp\n"
		   "failed ESTALE 2\nlatency 2000 50\nbucket 50 40\nend"},
	{NULL, NULL},
};

/* The report of three pairs: one with late failures, one with early ones. */
static json_t *report_of_pairs(void)
{
	struct hosts h = {.n = 0};
	const char *const args[] = {h.flag,      "--scheme=pairs",
				    "--size=4k", "--working-set=1m",
				    "--json",    NULL};
	json_t *report;

	add_host(&h, late);
	add_host(&h, NULL);
	add_host(&h, early);
	add_host(&h, NULL);
	add_host(&h, NULL);
	add_host(&h, NULL);
	report = tool_json("te-perf", args);
	stop_hosts(&h);
	return report;
}

/* Errors cross by name, so that they mean the same on every architecture. */
static void failures_of_pairs_are_in_the_row_of_all(void **state)
{
	json_t *report = report_of_pairs();
	const json_t *all = row_of(report, 3);

	(void)state;
	assert_int_equal(integer(row_of(report, 0), "failed"), 4);
	assert_int_equal(integer(row_of(report, 1), "failed"), 2);
	assert_int_equal(integer(row_of(report, 2), "failed"), 0);
	assert_int_equal(integer(all, "failed"), 6);
	assert_int_equal(failed_by(all, -ETIMEDOUT), 3);
	assert_int_equal(failed_by(all, -ESTALE), 3);
	json_decref(report);
}

static void how_late_pairs_were_is_told(void **state)
{
	json_t *report = report_of_pairs();
	const json_t *none = json_object_get(row_of(report, 2), "late_ms");

	(void)state;
	assert_true(number(row_of(report, 0), "late_ms") > 2.4);
	assert_true(number(row_of(report, 1), "late_ms") < -1.4);
	assert_true(json_is_null(none));
	assert_true(number(row_of(report, 3), "late_ms") > 2.4);
	json_decref(report);
}

static void an_answer_that_is_not_understood_is_told(void **state)
{
	static const struct {
		struct fake_answer wrong[2];
		const char *told;
	} cases[] = {
		{{{"pair", "welcome"}}, "welcome"},
		{{{"load", "going"}}, "going"},
		{{{"usage", "usage x"}}, "usage x"},
		{{{"progress", "progress nonsense"}}, "progress nonsense"},
		{{{"result", "moved 5"}}, "moved 5"},
		{{{"result", "moved none 1 1 1 1 0 tcp\nbucket 1"}},
		 "bucket 1"},
		{{{"result", "moved none 1 1 1 1 0 tcp\nbucket 1000000 1"}},
		 "bucket 1000000 1"},
		{{{"result", "moved none 1 1 1 1 0 tcp\nlatency\x1b 1 1"}},
		 "latency? 1 1"},
		{{{"check", "checked none"}}, "checked none"},
	};
	char words[128];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct hosts h = {.n = 0};
		const char *const args[] = {h.flag, "--scheme=pairs",
					    "--size=4k", "--working-set=1m",
					    NULL};
		char *text;

		add_host(&h, cases[i].wrong);
		add_host(&h, NULL);
		text = tool_output("te-perf", args, 1);
		(void)snprintf(words, sizeof(words),
			       "host %s: its answer \"%s\" is not understood",
			       fake_host_name(h.host[0]), cases[i].told);
		test_contains(text, words);
		free(text);
		stop_hosts(&h);
	}
}

/* It waits ten seconds, for all of them together. */
static void a_scheme_ends_soon_after_a_host_is_lost(void **state)
{
	static const struct fake_answer lost[] = {{"progress", ""},
						  {NULL, NULL}};
	static const struct fake_answer silent[] = {
		{"progress", "progress 1 1"}, {"result", NULL}, {NULL, NULL}};
	struct hosts h = {.n = 0};
	const char *const args[] = {h.flag, "--scheme=manytoone", "--size=4k",
				    "--working-set=1m", NULL};
	time_t start = time(NULL);
	char *text;

	(void)state;
	add_host(&h, NULL);
	add_host(&h, lost);
	while (h.n < HOSTS_MAX)
		add_host(&h, silent);
	text = tool_output("te-perf", args, 1);
	assert_true(time(NULL) - start < 50);
	test_contains(text, "it has ended");
	test_contains(text, "operation");
	free(text);
	stop_hosts(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failures_of_pairs_are_in_the_row_of_all),
		cmocka_unit_test(how_late_pairs_were_is_told),
		cmocka_unit_test(an_answer_that_is_not_understood_is_told),
		cmocka_unit_test(a_scheme_ends_soon_after_a_host_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
