/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trace.c - traces are read whole or refused with file, line and reason
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "perf/lib/trace.h"

#define GOOD                                          \
	"{\"timestamp\": 7, \"input_length\": 1024, " \
	"\"output_length\": 3, \"hash_ids\": [0, 46, 9007199254740993]}\n"

static char error[TEI_TRACE_ERROR_LEN];

static int load(const char *text, uint64_t limit, struct tei_trace *out)
{
	char path[] = "/tmp/te-trace-XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	rc = tei_trace_load(path, limit, out, error);
	unlink(path);
	return rc;
}

static void requests_and_their_blocks_are_read_in_order(void **state)
{
	struct tei_trace t;

	(void)state;
	assert_int_equal(load(GOOD "\n" GOOD, 0, &t), 0);
	assert_int_equal(t.n_requests, 2);
	assert_int_equal(t.n_ids, 6);
	assert_int_equal(t.requests[1].timestamp_ms, 7);
	assert_int_equal(t.requests[1].input_tokens, 1024);
	assert_int_equal(t.requests[1].output_tokens, 3);
	assert_int_equal(t.requests[1].first, 3);
	assert_int_equal(t.requests[1].n_blocks, 3);
	assert_int_equal(t.ids[4], 46);
	assert_int_equal(t.ids[5], 9007199254740993);
	tei_trace_free(&t);
}

static void no_more_than_the_limit_is_read(void **state)
{
	struct tei_trace t;

	(void)state;
	assert_int_equal(load(GOOD GOOD "nonsense", 2, &t), 0);
	assert_int_equal(t.n_requests, 2);
	tei_trace_free(&t);
}

static void a_malformed_line_is_named(void **state)
{
	static const char *const bad[] = {
		"nonsense\n",
		"[1]\n",
		"{\"timestamp\": 1\n",
		"{}\n",
		"{\"timestamp\": -1, \"input_length\": 1, \"output_length\": "
		"1, \"hash_ids\": []}\n",
		"{\"timestamp\": 1, \"input_length\": \"1\", "
		"\"output_length\": 1, \"hash_ids\": []}\n",
		"{\"timestamp\": 1, \"input_length\": 1, \"hash_ids\": []}\n",
		"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": "
		"1, \"hash_ids\": 5}\n",
		"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": "
		"1, \"hash_ids\": [1, -2]}\n",
		"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": "
		"1, \"hash_ids\": [1, 2.5]}\n",
		"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": "
		"1, \"hash_ids\": [1, 99999999999999999999]}\n",
	};
	char text[1024];
	struct tei_trace t;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text), "%s%s", GOOD, bad[i]);
		assert_int_equal(load(text, 0, &t), -EINVAL);
		assert_non_null(strstr(error, "trace /tmp/te-trace-"));
		assert_non_null(strstr(error, " line 2: "));
		assert_null(t.requests);
	}
}

static void a_file_without_requests_is_refused(void **state)
{
	struct tei_trace t;

	(void)state;
	assert_int_equal(load("", 0, &t), -EINVAL);
	assert_int_equal(load("\n \n", 0, &t), -EINVAL);
	assert_non_null(strstr(error, "no request"));
}

static void a_missing_file_is_named(void **state)
{
	struct tei_trace t;

	(void)state;
	assert_int_equal(tei_trace_load("/nonexistent/t", 0, &t, error),
			 -ENOENT);
	assert_non_null(strstr(error, "/nonexistent/t"));
}

static void the_last_block_of_a_request_may_be_partial(void **state)
{
	const struct tei_trace_request r = {.input_tokens = 1100,
					    .n_blocks = 3};

	(void)state;
	assert_int_equal(tei_trace_tokens(&r, 0), 0);
	assert_int_equal(tei_trace_tokens(&r, 2), 1024);
	assert_int_equal(tei_trace_tokens(&r, 3), 1100);
}

static void tenants_have_blocks_of_their_own(void **state)
{
	uint64_t ids[] = {1, 2, 1, 2, 1};
	struct tei_trace_request requests[] = {
		{.first = 0, .n_blocks = 2},
		{.first = 2, .n_blocks = 2},
		{.first = 4, .n_blocks = 1},
	};
	const struct tei_trace t = {
		.n_requests = 3, .n_ids = 5, .requests = requests, .ids = ids};
	uint64_t *dealt = tei_trace_deal(&t, 2);

	(void)state;
	assert_non_null(dealt);
	assert_int_equal(dealt[0], 1);
	assert_int_not_equal(dealt[2], 1);
	assert_int_not_equal(dealt[3], 2);
	assert_int_not_equal(dealt[2], dealt[3]);
	assert_int_equal(dealt[4], 1);
	tei_free(dealt);
}

static void blocks_that_come_again_are_counted_once(void **state)
{
	uint64_t ids[] = {7, UINT64_MAX, 1, 7, 1};
	const struct tei_trace t = {.n_ids = 5, .ids = ids};
	size_t n = 9;
	uint64_t *distinct = tei_trace_distinct(&t, &n);

	(void)state;
	assert_non_null(distinct);
	assert_int_equal(n, 3);
	assert_int_equal(tei_trace_rank(distinct, n, 1), 0);
	assert_int_equal(tei_trace_rank(distinct, n, 7), 1);
	assert_int_equal(tei_trace_rank(distinct, n, UINT64_MAX), 2);
	tei_free(distinct);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_block_of_a_request_may_be_partial),
		cmocka_unit_test(tenants_have_blocks_of_their_own),
		cmocka_unit_test(blocks_that_come_again_are_counted_once),
		cmocka_unit_test(requests_and_their_blocks_are_read_in_order),
		cmocka_unit_test(no_more_than_the_limit_is_read),
		cmocka_unit_test(a_malformed_line_is_named),
		cmocka_unit_test(a_file_without_requests_is_refused),
		cmocka_unit_test(a_missing_file_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
