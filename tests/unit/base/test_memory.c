/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c - allocation, faults, slab and arena */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/slab.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

static void armed_fault_strikes_the_nth_check_once(void **state)
{
	(void)state;
	tei_fault_arm(TEI_FAULT_IO, 3);
	assert_false(tei_fault_check(TEI_FAULT_IO));
	assert_false(tei_fault_check(TEI_FAULT_ALLOC));
	assert_false(tei_fault_check(TEI_FAULT_IO));
	assert_false(tei_fault_struck(TEI_FAULT_IO));
	assert_true(tei_fault_check(TEI_FAULT_IO));
	assert_true(tei_fault_struck(TEI_FAULT_IO));
	assert_false(tei_fault_check(TEI_FAULT_IO));
	tei_fault_disarm_all();
	assert_false(tei_fault_struck(TEI_FAULT_IO));
}

static void every_way_to_allocate_can_fail(void **state)
{
	void *old = tei_malloc(1);

	(void)state;
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_null(tei_malloc(8));
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_null(tei_calloc(1, 8));
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_null(tei_realloc(old, 80));
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_null(tei_strdup("a"));
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_null(tei_aligned_calloc(64, 8));
	tei_fault_disarm_all();
	tei_free(old);
}

static void aligned_memory_is_aligned_and_zero(void **state)
{
	unsigned char *p = tei_aligned_calloc(4096, 5000);

	(void)state;
	assert_non_null(p);
	assert_int_equal((uintptr_t)p % 4096, 0);
	for (size_t i = 0; i < 8192; i++)
		assert_int_equal(p[i], 0);
	tei_free(p);
	assert_null(tei_aligned_calloc(64, SIZE_MAX - 8));
}

static void slab_items_are_zeroed_aligned_and_reused(void **state)
{
	struct tei_slab s;
	char *item[100];

	(void)state;
	tei_slab_init(&s, 24, 8);
	for (int i = 0; i < 100; i++) {
		item[i] = tei_slab_get(&s);
		assert_int_equal((uintptr_t)item[i] % 16, 0);
		for (int j = 0; j < 24; j++)
			assert_int_equal(item[i][j], 0);
		memset(item[i], i, 24);
	}
	for (int i = 0; i < 100; i++)
		assert_int_equal(item[i][23], i);
	assert_int_equal(s.n_used, 100);
	assert_int_equal(s.n_total, 104);
	assert_true(tei_slab_bytes(&s) >= (size_t)104 * 32);
	tei_slab_put(&s, item[50]);
	assert_ptr_equal(tei_slab_get(&s), item[50]);
	tei_slab_fini(&s);
	assert_int_equal(tei_slab_bytes(&s), 0);
}

/* From some MiB on it grows by huge pages. */
static void many_slab_items_do_not_overlap(void **state)
{
	const size_t n = 200000;
	struct tei_slab s;
	size_t **item = tei_calloc(n, sizeof(*item));

	(void)state;
	assert_non_null(item);
	tei_slab_init(&s, 48, 100);
	for (size_t i = 0; i < n; i++) {
		item[i] = tei_slab_get(&s);
		assert_non_null(item[i]);
		for (size_t j = 0; j < 48 / sizeof(size_t); j++) {
			assert_int_equal(item[i][j], 0);
			item[i][j] = i;
		}
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < 48 / sizeof(size_t); j++)
			assert_int_equal(item[i][j], i);
	assert_in_range(tei_slab_bytes(&s), n * 48, n * 48 + 2 * TEI_HUGE_LEN);
	tei_slab_fini(&s);
	tei_free(item);
}

static void reserved_slab_items_need_no_memory(void **state)
{
	struct tei_slab s;

	(void)state;
	tei_slab_init(&s, 100, 10);
	assert_int_equal(tei_slab_reserve(&s, 25), 0);
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	for (int i = 0; i < 30; i++)
		assert_non_null(tei_slab_get(&s));
	assert_null(tei_slab_get(&s));
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_int_equal(tei_slab_reserve(&s, 1), -ENOMEM);
	tei_fault_disarm_all();
	tei_slab_fini(&s);
}

static void arena_pieces_do_not_overlap(void **state)
{
	struct tei_arena a;
	unsigned char *piece[500];

	(void)state;
	tei_arena_init(&a, 1 << 24);
	for (size_t i = 0; i < 500; i++) {
		size_t size = i * i % 30000;

		piece[i] = tei_arena_alloc(&a, size);
		assert_non_null(piece[i]);
		assert_int_equal((uintptr_t)piece[i] % 16, 0);
		memset(piece[i], (int)(i % 251), size);
	}
	for (size_t i = 0; i < 500; i++)
		for (size_t j = 0; j < i * i % 30000; j++)
			assert_int_equal(piece[i][j], i % 251);
	assert_true(a.total <= a.cap);
	tei_arena_fini(&a);
}

static void arena_never_takes_more_than_its_cap(void **state)
{
	struct tei_arena a;
	size_t sum = 0;

	(void)state;
	tei_arena_init(&a, 10000);
	assert_null(tei_arena_alloc(&a, 10001));
	assert_null(tei_arena_alloc(&a, SIZE_MAX));
	assert_null(tei_arena_calloc(&a, SIZE_MAX / 2, 3));
	while (tei_arena_alloc(&a, 100))
		sum += 100;
	assert_true(sum > 8000 && sum <= 10000);
	assert_true(a.total <= 10000);
	tei_arena_reset(&a);
	assert_non_null(tei_arena_alloc(&a, 100));
	tei_arena_fini(&a);
}

static void arena_reset_keeps_one_small_block(void **state)
{
	struct tei_arena a;

	(void)state;
	tei_arena_init(&a, SIZE_MAX);
	assert_non_null(tei_arena_alloc(&a, 1 << 20)); /* too big to keep */
	tei_arena_reset(&a);
	assert_int_equal(a.total, 0);
	for (int i = 0; i < 1000; i++)
		assert_non_null(tei_arena_alloc(&a, 1000));
	tei_arena_reset(&a);
	assert_true(a.total > 0 && a.total <= 65536);
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_non_null(tei_arena_alloc(&a, 30000));
	assert_null(tei_arena_alloc(&a, 60000));
	tei_fault_disarm_all();
	tei_arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(armed_fault_strikes_the_nth_check_once),
		cmocka_unit_test(every_way_to_allocate_can_fail),
		cmocka_unit_test(aligned_memory_is_aligned_and_zero),
		cmocka_unit_test(slab_items_are_zeroed_aligned_and_reused),
		cmocka_unit_test(many_slab_items_do_not_overlap),
		cmocka_unit_test(reserved_slab_items_need_no_memory),
		cmocka_unit_test(arena_pieces_do_not_overlap),
		cmocka_unit_test(arena_never_takes_more_than_its_cap),
		cmocka_unit_test(arena_reset_keeps_one_small_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
