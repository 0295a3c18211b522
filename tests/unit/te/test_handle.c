/* SPDX-License-Identifier: Apache-2.0 */
/* test_handle.c - ids go stale and never dangle */
#include "te/core/handle.h"

#include "tests/lib/faults.h"
#include "tests/lib/test.h"

static void stale_id_finds_nothing(void **state)
{
	struct tei_handles h;
	uint64_t first, second;
	int a, b;

	(void)state;
	tei_handles_init(&h);
	first = tei_handle_add(&h, &a);
	assert_ptr_equal(tei_handle_get(&h, first), &a);
	assert_ptr_equal(tei_handle_remove(&h, first), &a);
	assert_null(tei_handle_get(&h, first));
	second = tei_handle_add(&h, &b);
	assert_true(first != second);
	assert_null(tei_handle_get(&h, first));
	assert_null(tei_handle_remove(&h, first));
	assert_ptr_equal(tei_handle_get(&h, second), &b);
	tei_handles_fini(&h);
}

static void made_up_ids_find_nothing(void **state)
{
	struct tei_handles h;
	uint64_t id;
	int a;

	(void)state;
	tei_handles_init(&h);
	assert_null(tei_handle_get(&h, 1));
	id = tei_handle_add(&h, &a);
	assert_null(tei_handle_get(&h, 0));
	assert_null(tei_handle_get(&h, id + 1));
	assert_null(tei_handle_get(&h, id + (1ull << 32)));
	assert_null(tei_handle_get(&h, UINT64_MAX));
	tei_handles_fini(&h);
}

static void many_ids_are_all_different(void **state)
{
	static int objects[1000];
	static uint64_t ids[1000];
	struct tei_handles h;

	(void)state;
	tei_handles_init(&h);
	for (int i = 0; i < 1000; i++)
		ids[i] = tei_handle_add(&h, &objects[i]);
	for (int i = 0; i < 1000; i++)
		assert_ptr_equal(tei_handle_get(&h, ids[i]), &objects[i]);
	assert_int_equal(h.n, 1000);
	tei_handles_fini(&h);
}

static void lack_of_memory_gives_no_id(void **state)
{
	(void)state;
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		struct tei_handles h;
		uint64_t id;
		int a;

		tei_handles_init(&h);
		id = tei_handle_add(&h, &a);
		assert_true(!id == tei_fault_struck(TEI_FAULT_ALLOC));
		tei_handles_fini(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stale_id_finds_nothing),
		cmocka_unit_test(made_up_ids_find_nothing),
		cmocka_unit_test(many_ids_are_all_different),
		cmocka_unit_test(lack_of_memory_gives_no_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
