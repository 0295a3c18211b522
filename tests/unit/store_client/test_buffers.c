/* SPDX-License-Identifier: Apache-2.0 */
/* test_buffers.c - the client's own memory for values */
#include <string.h>

#include <te/store.h>

#include "store/client/buffers.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

#define PAGE  4096u
#define ARENA (8 * PAGE)

struct arena {
	struct te_engine *engine;
	struct tes_buffers b;
};

static void arena_init(struct arena *a, uint64_t bytes)
{
	assert_int_equal(te_engine_create(NULL, NULL, &a->engine), 0);
	assert_int_equal(tes_buffers_init(&a->b, a->engine, bytes), 0);
}

static void arena_fini(struct arena *a)
{
	tes_buffers_fini(&a->b);
	te_engine_destroy(a->engine);
}

static bool inside(const struct arena *a, const struct te_store_buffer *buffer)
{
	const uint8_t *data = te_store_buffer_data(buffer), *from = a->b.memory;

	return from && data >= from && data < from + ARENA;
}

static void buffers_do_not_overlap_and_join_again(void **state)
{
	struct te_store_buffer *buffers[8];
	struct arena a;
	uint8_t i;

	(void)state;
	arena_init(&a, ARENA);
	for (i = 0; i < 8; i++) {
		buffers[i] = tes_buffer_create(&a.b, PAGE);
		assert_non_null(buffers[i]);
		assert_true(inside(&a, buffers[i]));
		memset(te_store_buffer_data(buffers[i]), i, PAGE);
	}
	for (i = 0; i < 8; i++) {
		const uint8_t *data = te_store_buffer_data(buffers[i]);

		assert_int_equal(data[0], i);
		assert_int_equal(data[PAGE - 1], i);
	}
	for (i = 0; i < 8; i++) /* from both ends and the middle */
		te_store_buffer_free(buffers[i * 3 % 8]);
	buffers[0] = tes_buffer_create(&a.b, ARENA);
	assert_true(inside(&a, buffers[0]));
	te_store_buffer_free(buffers[0]);
	arena_fini(&a);
}

static void what_does_not_fit_is_plain_memory(void **state)
{
	struct te_store_buffer *all, *more, *big;
	struct arena a;

	(void)state;
	arena_init(&a, ARENA);
	big = tes_buffer_create(&a.b, ARENA + 1);
	assert_non_null(big);
	assert_false(inside(&a, big));
	memset(te_store_buffer_data(big), 1, ARENA + 1);
	all = tes_buffer_create(&a.b, ARENA - 1);
	assert_true(inside(&a, all));
	assert_int_equal(te_store_buffer_length(all), ARENA - 1);
	more = tes_buffer_create(&a.b, 1);
	assert_non_null(more);
	assert_false(inside(&a, more));
	te_store_buffer_free(all);
	te_store_buffer_free(more);
	te_store_buffer_free(big);
	te_store_buffer_free(NULL);
	arena_fini(&a);
}

static void without_an_arena_all_is_plain_memory(void **state)
{
	struct te_store_buffer *buffer;
	struct arena a;

	(void)state;
	arena_init(&a, 0);
	buffer = tes_buffer_create(&a.b, 100);
	assert_non_null(buffer);
	assert_false(inside(&a, buffer));
	te_store_buffer_free(buffer);
	arena_fini(&a);
}

static void any_order_leaves_the_arena_whole(void **state)
{
	struct te_store_buffer *held[6] = {NULL}, *all;
	struct arena a;
	uint32_t i, rnd = 1;

	(void)state;
	arena_init(&a, ARENA);
	for (i = 0; i < 5000; i++) {
		rnd = rnd * 1664525 + 1013904223;
		te_store_buffer_free(held[rnd >> 8 & 3]);
		held[rnd >> 8 & 3] =
			tes_buffer_create(&a.b, 1 + (rnd >> 12) % (3 * PAGE));
		assert_non_null(held[rnd >> 8 & 3]);
	}
	for (i = 0; i < 6; i++)
		te_store_buffer_free(held[i]);
	all = tes_buffer_create(&a.b, ARENA);
	assert_true(inside(&a, all));
	te_store_buffer_free(all);
	arena_fini(&a);
}

static void one_failure_costs_no_buffer(void **state)
{
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	struct te_store_buffer *buffer = NULL;
	struct arena a;

	(void)state;
	arena_init(&a, ARENA);
	for (; test_faults_next(&f);) {
		te_store_buffer_free(buffer);
		buffer = tes_buffer_create(&a.b, PAGE);
		assert_non_null(buffer);
	}
	assert_true(inside(&a, buffer));
	te_store_buffer_free(buffer);
	arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffers_do_not_overlap_and_join_again),
		cmocka_unit_test(what_does_not_fit_is_plain_memory),
		cmocka_unit_test(without_an_arena_all_is_plain_memory),
		cmocka_unit_test(any_order_leaves_the_arena_whole),
		cmocka_unit_test(one_failure_costs_no_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
