/* SPDX-License-Identifier: Apache-2.0 */
/* test_rdma_range.c - chunks of a range, and what peers say of one */
#include "backends/rdma/range.h"
#include "tests/lib/test.h"

static void bytes_need_whole_chunks(void **state)
{
	(void)state;
	assert_int_equal(tei_rdma_chunks(1, 100), 1);
	assert_int_equal(tei_rdma_chunks(100, 100), 1);
	assert_int_equal(tei_rdma_chunks(101, 100), 2);
	assert_true(tei_rdma_chunks(UINT64_MAX, 1) == UINT64_MAX);
	assert_int_equal(tei_rdma_chunks(UINT64_MAX, UINT64_MAX), 1);
	assert_true(tei_rdma_chunks(1, 0) == UINT64_MAX);
}

static void range_has_its_bytes_and_no_others(void **state)
{
	const struct rdma_range low = {.base = 1000, .length = 250};
	const struct rdma_range high = {.base = UINT64_MAX - 9, .length = 10};

	(void)state;
	assert_false(tei_rdma_range_has(&low, 0));
	assert_false(tei_rdma_range_has(&low, 999));
	assert_true(tei_rdma_range_has(&low, 1000));
	assert_true(tei_rdma_range_has(&low, 1249));
	assert_false(tei_rdma_range_has(&low, 1250));
	assert_false(tei_rdma_range_has(&low, UINT64_MAX));
	assert_false(tei_rdma_range_has(&high, 0));
	assert_false(tei_rdma_range_has(&high, UINT64_MAX - 10));
	assert_true(tei_rdma_range_has(&high, UINT64_MAX));
	assert_int_equal(tei_rdma_range_rest(&low, 1000), 250);
	assert_int_equal(tei_rdma_range_rest(&low, 1249), 1);
	assert_int_equal(tei_rdma_range_rest(&high, UINT64_MAX), 1);
}

static void address_is_in_the_chunk_that_has_it(void **state)
{
	const struct rdma_range range = {
		.base = 1000, .length = 250, .chunk = 100, .n = 3};
	uint64_t room;

	(void)state;
	assert_int_equal(tei_rdma_chunk_length(&range, 0), 100);
	assert_int_equal(tei_rdma_chunk_length(&range, 2), 50);
	for (uint64_t addr = 1000; addr < 1250; addr++) {
		uint64_t end = addr < 1100 ? 1100 : addr < 1200 ? 1200 : 1250;

		assert_int_equal(tei_rdma_chunk_at(&range, addr, &room),
				 (addr - 1000) / 100);
		assert_int_equal(room, end - addr);
	}
}

/* The second chunk of two would end behind the last address there is. */
static void chunks_at_the_end_of_memory_do_not_wrap(void **state)
{
	const uint64_t half = (uint64_t)1 << 63;
	const struct rdma_range range = {
		.base = 1, .length = UINT64_MAX, .chunk = half + 1, .n = 2};
	uint64_t room;

	(void)state;
	assert_null(tei_rdma_range_fault(&range));
	assert_int_equal(tei_rdma_chunk_at(&range, half + 1, &room), 0);
	assert_int_equal(room, 1);
	assert_int_equal(tei_rdma_chunk_at(&range, half + 2, &room), 1);
	assert_true(room == half - 2);
	assert_int_equal(tei_rdma_chunk_at(&range, UINT64_MAX, &room), 1);
	assert_int_equal(room, 1);
}

static void ranges_of_nonsense_are_refused(void **state)
{
	const char *bytes = "region of no or too many bytes";
	const char *chunks = "chunks do not cover the region";
	struct rdma_range range = {
		.base = 1000, .length = 250, .chunk = 100, .n = 3};

	(void)state;
	assert_null(tei_rdma_range_fault(&range));
	range.n = 2;
	assert_string_equal(tei_rdma_range_fault(&range), chunks);
	range.n = 4;
	assert_string_equal(tei_rdma_range_fault(&range), chunks);
	range.chunk = 0;
	assert_string_equal(tei_rdma_range_fault(&range), chunks);
	range.n = 0; /* not for peers: nothing is looked up in it */
	assert_null(tei_rdma_range_fault(&range));
	range.length = 0;
	assert_string_equal(tei_rdma_range_fault(&range), bytes);
	range.length = UINT64_MAX - 999; /* up to the last byte there is */
	assert_null(tei_rdma_range_fault(&range));
	range.length++;
	assert_string_equal(tei_rdma_range_fault(&range), bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_need_whole_chunks),
		cmocka_unit_test(range_has_its_bytes_and_no_others),
		cmocka_unit_test(address_is_in_the_chunk_that_has_it),
		cmocka_unit_test(chunks_at_the_end_of_memory_do_not_wrap),
		cmocka_unit_test(ranges_of_nonsense_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
