/* SPDX-License-Identifier: Apache-2.0 */
/* test_bounce.c - blocks that stand in for memory which is not registered */
#include <errno.h>
#include <sys/mman.h>

#include "base/bounce.h"
#include "base/fault.h"
#include "tests/lib/test.h"

#define BLOCKS 3

static void blocks_are_taken_and_given_back(void **state)
{
	struct tei_bounce bounce;
	uint8_t *blocks[BLOCKS];

	(void)state;
	assert_int_equal(tei_bounce_init(&bounce, BLOCKS * TEI_BOUNCE_LEN +
							  TEI_BOUNCE_LEN - 1),
			 0);
	assert_int_equal(bounce.n, BLOCKS);
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = tei_bounce_take(&bounce);
		assert_non_null(blocks[i]);
		memset(blocks[i], i, TEI_BOUNCE_LEN);
	}
	assert_null(tei_bounce_take(&bounce));
	for (int i = 0; i < BLOCKS; i++) {
		assert_int_equal(blocks[i][0], i);
		assert_int_equal(blocks[i][TEI_BOUNCE_LEN - 1], i);
		tei_bounce_give(&bounce, blocks[i]);
	}
	assert_int_equal(bounce.n_free, BLOCKS);
	tei_bounce_fini(&bounce);
}

static void there_may_be_no_blocks(void **state)
{
	struct tei_bounce bounce;

	(void)state;
	assert_int_equal(tei_bounce_init(&bounce, TEI_BOUNCE_LEN - 1), 0);
	assert_int_equal(bounce.n, 0);
	assert_null(tei_bounce_take(&bounce));
	tei_bounce_fini(&bounce);
	for (unsigned int i = 1; i <= 2; i++) {
		tei_fault_arm(TEI_FAULT_ALLOC, i);
		assert_int_equal(tei_bounce_init(&bounce, TEI_BOUNCE_LEN),
				 -ENOMEM);
		assert_int_equal(bounce.n, 0);
		assert_null(tei_bounce_take(&bounce));
		tei_fault_disarm_all();
	}
}

static void pieces_go_through_a_block_both_ways(void **state)
{
	uint8_t from[64], to[64] = {0}, block[64];
	struct iovec out[] = {{from, 10}, {NULL, 0}, {from + 10, 20}};
	struct iovec in[] = {{to + 40, 5}, {to, 1}, {NULL, 0}, {to + 1, 30}};

	(void)state;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i + 1);
	tei_bounce_fill(block, out, 3, 25);
	assert_memory_equal(block, from + 3, 25);
	assert_int_equal(tei_bounce_empty(block, in, 2, 25), 0);
	assert_memory_equal(to + 42, from + 3, 3);
	assert_memory_equal(to, from + 6, 22);
	assert_int_equal(to[22] | to[41] | to[45], 0);
}

static void block_is_not_copied_to_what_cannot_be_written(void **state)
{
	uint8_t block[16] = {0}, to[8];
	void *at =
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov[] = {{to, 8}, {at, 8}};

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(tei_bounce_empty(block, iov, 0, 16), -EFAULT);
	munmap(at, 4096);
	assert_int_equal(tei_bounce_empty(block, iov, 0, 16), -EFAULT);
	assert_int_equal(tei_bounce_empty(block, iov, 0, 8), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_taken_and_given_back),
		cmocka_unit_test(there_may_be_no_blocks),
		cmocka_unit_test(pieces_go_through_a_block_both_ways),
		cmocka_unit_test(block_is_not_copied_to_what_cannot_be_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
