/* SPDX-License-Identifier: Apache-2.0 */
/* test_heap.c - the heap of points in time */
#include <errno.h>

#include "base/heap.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

#define N 2000

static struct tei_heap_node nodes[N];

static void fill(struct tei_heap *h)
{
	uint32_t x = 12345;

	tei_heap_init(h);
	for (size_t i = 0; i < N; i++) {
		x = x * 1664525u + 1013904223u;
		nodes[i].place = 0;
		assert_int_equal(tei_heap_add(h, &nodes[i], x % 500), 0);
	}
}

/* Takes all from the top; returns how many came, in order. */
static size_t take_in_order(struct tei_heap *h)
{
	struct tei_heap_node *top;
	uint64_t last = 0;
	size_t n = 0;

	for (; (top = tei_heap_top(h)); n++) {
		assert_true(top->at >= last);
		last = top->at;
		tei_heap_remove(h, top);
		assert_false(tei_heap_has(top));
	}
	return n;
}

static void nodes_come_out_by_time(void **state)
{
	struct tei_heap h;

	(void)state;
	fill(&h);
	assert_int_equal(take_in_order(&h), N);
	tei_heap_fini(&h);
}

static void any_node_can_be_removed(void **state)
{
	struct tei_heap h;

	(void)state;
	fill(&h);
	for (size_t i = 0; i < N; i += 3) {
		tei_heap_remove(&h, &nodes[i]);
		tei_heap_remove(&h, &nodes[i]); /* in no heap: no-op */
		assert_false(tei_heap_has(&nodes[i]));
		assert_true(tei_heap_has(&nodes[i + 1 < N ? i + 1 : i - 1]));
	}
	assert_int_equal(take_in_order(&h), N - (N + 2) / 3);
	tei_heap_fini(&h);
}

static void adds_after_a_reserve_need_no_memory(void **state)
{
	struct tei_heap_node one = {0};
	struct tei_heap h;

	(void)state;
	tei_heap_init(&h);
	assert_int_equal(tei_heap_reserve(&h, N), 0);
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	for (size_t i = 0; i < N; i++) {
		nodes[i].place = 0;
		assert_int_equal(tei_heap_add(&h, &nodes[i], i), 0);
	}
	assert_int_equal(tei_heap_reserve(&h, SIZE_MAX), -ENOMEM);
	tei_fault_disarm_all();
	tei_heap_fini(&h);

	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_int_equal(tei_heap_add(&h, &one, 1), -ENOMEM);
	assert_false(tei_heap_has(&one));
	assert_null(tei_heap_top(&h));
	tei_fault_disarm_all();
	tei_heap_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_come_out_by_time),
		cmocka_unit_test(any_node_can_be_removed),
		cmocka_unit_test(adds_after_a_reserve_need_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
