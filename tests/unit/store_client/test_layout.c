/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c - columns of replies: what adds up, and what does not */
#include <errno.h>
#include <string.h>

#include "store/client/layout.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

/*
 * Key 0 has two replicas of 100 bytes, one in two extents; key 1 was refused;
 * key 2 has one of 7 bytes.
 */
struct reply {
	int32_t status[3];
	uint64_t size[3], generation[3];
	uint32_t extents[3];
	uint32_t segment[4], replica[4], crc[4];
	uint64_t address[4], length[4];
	struct tes_columns columns;
};

static void reply_init(struct reply *r)
{
	static const struct reply good = {
		.status = {0, -200, 0},
		.size = {100, 50, 7},
		.generation = {1, 0, 2},
		.extents = {3, 0, 1},
		.segment = {0, 1, 1, 0},
		.replica = {0, 1, 1, 0},
		.crc = {9, 8, 7, 6},
		.address = {1000, 2000, 3000, 4000},
		.length = {100, 60, 40, 7},
	};

	*r = good;
	r->columns = (struct tes_columns){
		.n = 3,
		.status = r->status,
		.n_status = 3,
		.size = r->size,
		.n_size = 3,
		.generation = r->generation,
		.n_generation = 3,
		.extents = r->extents,
		.n_extents = 3,
		.segment = r->segment,
		.n_segment = 4,
		.replica = r->replica,
		.n_replica = 4,
		.crc = r->crc,
		.n_crc = 4,
		.address = r->address,
		.n_address = 4,
		.length = r->length,
		.n_length = 4,
		.n_segments = 2,
	};
}

static int decode(const struct reply *r, struct tes_layout *out)
{
	struct tei_arena arena;
	int rc;

	tei_arena_init(&arena, 1u << 20);
	rc = tes_layouts_decode(&r->columns, &arena, 0, out);
	tei_arena_fini(&arena);
	return rc;
}

static void extents_know_their_place_in_the_value(void **state)
{
	struct tes_layout out[3];
	struct tei_arena arena;
	struct reply r;

	(void)state;
	reply_init(&r);
	tei_arena_init(&arena, 1u << 20);
	assert_int_equal(tes_layouts_decode(&r.columns, &arena, 10, out), 0);
	assert_int_equal(out[0].n_extents, 3);
	assert_int_equal(out[0].n_replicas, 2);
	assert_int_equal(out[0].extents[0].count, 1);
	assert_int_equal(out[0].extents[0].place, 10);
	assert_int_equal(out[0].extents[1].offset, 0);
	assert_int_equal(out[0].extents[1].count, 2);
	assert_int_equal(out[0].extents[1].place, 11);
	assert_int_equal(out[0].extents[2].offset, 60);
	assert_int_equal(out[0].extents[2].index, 1);
	assert_int_equal(out[0].extents[2].count, 2);
	assert_int_equal(out[0].extents[2].crc, 7);
	assert_int_equal(out[1].n_extents, 0);
	assert_int_equal(out[2].extents[0].address, 4000);
	assert_int_equal(out[2].n_replicas, 1);
	tei_arena_fini(&arena);
}

static void without_counts_every_key_has_one_extent(void **state)
{
	struct tes_layout out[3];
	struct tei_arena arena;
	struct reply r;

	(void)state;
	reply_init(&r);
	r.columns.extents = r.columns.replica = NULL;
	r.columns.length = NULL;
	r.columns.n_extents = r.columns.n_replica = r.columns.n_length = 0;
	r.columns.n_segment = r.columns.n_address = r.columns.n_crc = 3;
	tei_arena_init(&arena, 1u << 20);
	assert_int_equal(tes_layouts_decode(&r.columns, &arena, 0, out), 0);
	assert_int_equal(out[0].extents[0].length, 100);
	assert_int_equal(out[0].extents[0].count, 1);
	assert_int_equal(out[1].n_extents, 0);
	assert_int_equal(out[2].extents[0].address, 3000);
	assert_int_equal(out[2].extents[0].length, 7);
	tei_arena_fini(&arena);
}

static void where_all_were_refused_nothing_else_is_looked_at(void **state)
{
	struct tes_layout out[3];
	struct reply r;

	(void)state;
	reply_init(&r);
	memset(&r.columns, 0, sizeof(r.columns));
	r.status[0] = r.status[1] = r.status[2] = -705;
	r.columns.n = r.columns.n_status = 3;
	r.columns.status = r.status;
	assert_int_equal(decode(&r, out), 0);
	assert_int_equal(out[2].n_extents, 0);
	r.columns.n_status = 2;
	assert_int_equal(decode(&r, out), -EBADMSG);
}

static void columns_of_other_lengths_are_refused(void **state)
{
	struct tes_layout out[3];
	struct reply r;
	size_t *const lengths[] = {
		&r.columns.n_size,    &r.columns.n_generation,
		&r.columns.n_extents, &r.columns.n_segment,
		&r.columns.n_replica, &r.columns.n_crc,
		&r.columns.n_address, &r.columns.n_length,
	};
	size_t i;

	(void)state;
	for (i = 0; i < TEST_COUNT(lengths); i++) {
		reply_init(&r);
		--*lengths[i];
		assert_int_equal(decode(&r, out), -EBADMSG);
	}
}

static void what_makes_no_whole_replicas_is_refused(void **state)
{
	struct reply r;
	/* What is changed, and to what. */
	const struct {
		uint64_t *u64;
		uint32_t *u32;
		uint64_t to;
	} cases[] = {
		{&r.length[0], NULL, 99}, {&r.length[0], NULL, 101},
		{&r.length[1], NULL, 0},  {&r.length[1], NULL, UINT64_MAX},
		{&r.length[2], NULL, 39}, {&r.length[2], NULL, 41},
		{&r.length[3], NULL, 8},  {NULL, &r.replica[0], 1},
		{NULL, &r.replica[1], 2}, {NULL, &r.replica[2], 0},
		{NULL, &r.replica[2], 2}, {NULL, &r.replica[3], 1},
		{NULL, &r.segment[3], 2}, {NULL, &r.extents[0], 2},
		{NULL, &r.extents[0], 4}, {NULL, &r.extents[2], 0},
		{NULL, &r.extents[1], 1}, {NULL, &r.extents[0], UINT32_MAX},
		{&r.size[0], NULL, 0},    {&r.size[2], NULL, 6},
	};
	struct tes_layout out[3];
	size_t i;

	(void)state;
	for (i = 0; i < TEST_COUNT(cases); i++) {
		reply_init(&r);
		if (cases[i].u64)
			*cases[i].u64 = cases[i].to;
		else
			*cases[i].u32 = (uint32_t)cases[i].to;
		assert_int_equal(decode(&r, out), -EBADMSG);
	}
}

static void more_replicas_than_bits_are_refused(void **state)
{
	enum { N = 33 };
	static const int32_t status[1];
	static const uint64_t size[1] = {5}, generation[1] = {1};
	static uint64_t address[N], length[N];
	static uint32_t segment[N], replica[N];
	uint32_t extents[1] = {N}, i;
	struct tes_columns c = {
		.n = 1,
		.status = status,
		.n_status = 1,
		.size = size,
		.n_size = 1,
		.generation = generation,
		.n_generation = 1,
		.extents = extents,
		.n_extents = 1,
		.segment = segment,
		.replica = replica,
		.address = address,
		.length = length,
		.n_segment = N,
		.n_replica = N,
		.n_address = N,
		.n_length = N,
		.n_segments = 1,
	};
	struct tes_layout out;
	struct tei_arena arena;

	(void)state;
	tei_arena_init(&arena, 1u << 20);
	for (i = 0; i < N; i++) {
		length[i] = 5;
		replica[i] = i;
	}
	assert_int_equal(tes_layouts_decode(&c, &arena, 0, &out), -EBADMSG);
	extents[0] = N - 1;
	c.n_segment = c.n_replica = c.n_address = c.n_length = N - 1;
	assert_int_equal(tes_layouts_decode(&c, &arena, 0, &out), 0);
	assert_int_equal(out.n_replicas, 32);
	tei_arena_fini(&arena);
}

static void without_memory_it_says_so(void **state)
{
	struct tes_layout out[3];
	struct reply r;

	(void)state;
	reply_init(&r);
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_int_equal(decode(&r, out), -ENOMEM);
	test_faults_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(extents_know_their_place_in_the_value),
		cmocka_unit_test(without_counts_every_key_has_one_extent),
		cmocka_unit_test(
			where_all_were_refused_nothing_else_is_looked_at),
		cmocka_unit_test(columns_of_other_lengths_are_refused),
		cmocka_unit_test(what_makes_no_whole_replicas_is_refused),
		cmocka_unit_test(more_replicas_than_bits_are_refused),
		cmocka_unit_test(without_memory_it_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
