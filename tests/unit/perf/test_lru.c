/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lru.c - the LRU that hit ratios are compared with
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "perf/lib/trace.h"

static uint64_t hits(uint64_t *ids, size_t n, uint64_t capacity)
{
	struct tei_trace t = {.ids = ids, .n_ids = n};
	uint64_t out;

	assert_int_equal(tei_lru_hits(&t, capacity, &out), 0);
	return out;
}

static void without_a_limit_only_first_reads_miss(void **state)
{
	uint64_t ids[] = {5, 7, 5, 1ull << 62, 7, 5};

	(void)state;
	assert_int_equal(hits(ids, 6, TEI_LRU_UNLIMITED), 3);
	assert_int_equal(hits(ids, 6, 3), 3);
}

static void the_least_recently_read_block_leaves_first(void **state)
{
	/* 1 is read again before 3 comes, so 2 goes: 1 hits, 2 misses. */
	uint64_t ids[] = {1, 2, 1, 3, 1, 2};

	(void)state;
	assert_int_equal(hits(ids, 6, 2), 2);
}

static void a_loop_longer_than_the_cache_never_hits(void **state)
{
	uint64_t ids[] = {1, 2, 3, 1, 2, 3, 1, 2, 3};

	(void)state;
	assert_int_equal(hits(ids, 9, 2), 0);
	assert_int_equal(hits(ids, 9, 3), 6);
}

static void a_cache_without_room_never_hits(void **state)
{
	uint64_t ids[] = {1, 1, 1};

	(void)state;
	assert_int_equal(hits(ids, 3, 0), 0);
	assert_int_equal(hits(ids, 3, 1), 2);
	assert_int_equal(hits(ids, 0, 1), 0);
}

/* The figures of perf/traces/README.md, found by another program. */
static void the_excerpt_has_its_published_figures(void **state)
{
	char error[TEI_TRACE_ERROR_LEN];
	struct tei_trace t;
	uint64_t all, some;

	(void)state;
	assert_int_equal(tei_trace_load(TE_TRACES "/conversation_2000.jsonl", 0,
					&t, error),
			 0);
	assert_int_equal(t.n_requests, 2000);
	assert_int_equal(t.n_ids, 54559);
	assert_int_equal(tei_lru_hits(&t, TEI_LRU_UNLIMITED, &all), 0);
	assert_int_equal(tei_lru_hits(&t, 10000, &some), 0);
	assert_int_equal(all, 54559 - 38788);
	assert_float_equal((float)some / 54559, 0.20911f, 0.0001f);
	tei_trace_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_limit_only_first_reads_miss),
		cmocka_unit_test(the_least_recently_read_block_leaves_first),
		cmocka_unit_test(a_loop_longer_than_the_cache_never_hits),
		cmocka_unit_test(a_cache_without_room_never_hits),
		cmocka_unit_test(the_excerpt_has_its_published_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
