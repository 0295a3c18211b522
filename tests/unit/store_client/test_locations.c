/* SPDX-License-Identifier: Apache-2.0 */
/* test_locations.c - what a client remembers of where objects lay */
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "store/client/locations.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

#define N_MAX 8
#define EPOCH 9

/* An owner that nobody opens: only its references are looked at. */
struct table {
	struct tes_owners owners;
	struct tes_owner owner;
	struct tes_locations l;
};

static void table_init(struct table *t, uint32_t n_max)
{
	memset(t, 0, sizeof(*t));
	tes_owners_init(&t->owners, NULL);
	tei_list_init(&t->owner.link);
	t->owner.refs = 1;
	assert_int_equal(tes_locations_init(&t->l, &t->owners, n_max), 0);
}

static void table_fini(struct table *t)
{
	tes_locations_fini(&t->l);
	assert_int_equal(t->owner.refs, 1);
	tes_owners_fini(&t->owners);
}

static void add(struct table *t, const char *key, uint64_t digest,
		uint64_t generation, uint64_t expires_ns)
{
	const struct tes_location_extent extents[2] = {
		{.address = generation * 100, .length = 6, .crc = 1},
		{.address = generation * 200, .length = 4, .crc = 2},
	};
	const struct tes_location from = {
		.owner = &t->owner,
		.generation = generation,
		.gen_epoch = EPOCH,
		.size = 10,
		.n_extents = 2,
		.expires_ns = expires_ns,
	};

	tes_locations_add(&t->l, key, strlen(key), digest, &from, extents);
}

/* Its generation; 0: not there. */
static uint64_t look(struct table *t, const char *key, uint64_t digest,
		     uint64_t now_ns)
{
	struct tes_location *e =
		tes_locations_get(&t->l, key, strlen(key), digest, now_ns);
	uint64_t generation = e ? e->generation : 0;

	if (e) {
		assert_ptr_equal(e->owner, &t->owner);
		assert_int_equal(e->n_extents, 2);
		assert_int_equal(e->extents[0].address, generation * 100);
		assert_int_equal(e->extents[1].length, 4);
		assert_int_equal(e->extents[1].crc, 2);
	}
	tes_location_put(&t->l, e);
	return generation;
}

static void a_key_is_found_until_its_lease_is_over(void **state)
{
	struct table t;

	(void)state;
	table_init(&t, N_MAX);
	add(&t, "a", 1, 7, 100);
	assert_int_equal(look(&t, "a", 1, 99), 7);
	assert_int_equal(look(&t, "a", 2, 99), 0); /* another master's */
	assert_int_equal(look(&t, "b", 1, 99), 0); /* the same digest */
	assert_int_equal(look(&t, "a", 1, 100), 0);
	assert_int_equal(look(&t, "a", 1, 99), 0); /* forgotten */
	table_fini(&t);
}

static void the_newest_of_a_key_counts(void **state)
{
	struct table t;

	(void)state;
	table_init(&t, N_MAX);
	add(&t, "a", 1, 7, 100);
	add(&t, "a", 1, 8, 100);
	assert_int_equal(look(&t, "a", 1, 1), 8);
	assert_int_equal(t.l.n, 1);
	tes_locations_drop(&t.l, "a", 1, 1, 7);
	assert_int_equal(look(&t, "a", 1, 1), 8);
	tes_locations_drop(&t.l, "a", 1, 1, 8);
	assert_int_equal(look(&t, "a", 1, 1), 0);
	add(&t, "a", 1, 9, 100);
	tes_locations_drop(&t.l, "a", 1, 1, 0);
	assert_int_equal(look(&t, "a", 1, 1), 0);
	table_fini(&t);
}

static void the_used_stay_when_there_is_no_room(void **state)
{
	char key[2] = "a";
	struct table t;
	uint64_t i;

	(void)state;
	table_init(&t, N_MAX);
	for (i = 0; i < N_MAX; i++, key[0]++)
		add(&t, key, i, i + 1, 100);
	assert_int_equal(look(&t, "c", 2, 1), 3);
	for (i = N_MAX; i < 2 * N_MAX - 1; i++, key[0]++)
		add(&t, key, i, i + 1, 100);
	assert_int_equal(t.l.n, N_MAX);
	assert_int_equal(look(&t, "c", 2, 1), 3);
	assert_int_equal(look(&t, "a", 0, 1), 0);
	assert_int_equal(look(&t, "h", 7, 1), 0);
	table_fini(&t);
}

static void what_a_reader_holds_outlives_the_table(void **state)
{
	struct tes_location *held;
	struct table t;

	(void)state;
	table_init(&t, N_MAX);
	add(&t, "a", 1, 7, 100);
	held = tes_locations_get(&t.l, "a", 1, 1, 1);
	assert_non_null(held);
	tes_locations_clear(&t.l);
	assert_int_equal(look(&t, "a", 1, 1), 0);
	assert_int_equal(held->generation, 7);
	assert_memory_equal(held->key, "a", 1);
	assert_int_equal(t.owner.refs, 2);
	tes_location_put(&t.l, held);
	table_fini(&t);
}

static void its_memory_is_counted(void **state)
{
	uint64_t before, one;
	struct table t;

	(void)state;
	table_init(&t, N_MAX);
	before = tes_locations_bytes(&t.l);
	add(&t, "key", 1, 7, 100);
	one = tes_locations_bytes(&t.l) - before;
	assert_true(one >= sizeof(struct tes_location) + 3);
	add(&t, "key", 1, 8, 100);
	assert_int_equal(tes_locations_bytes(&t.l), before + one);
	tes_locations_drop(&t.l, "key", 3, 1, 0);
	assert_int_equal(tes_locations_bytes(&t.l), before);
	table_fini(&t);
}

static void switched_off_it_keeps_nothing(void **state)
{
	struct table t;

	(void)state;
	table_init(&t, 0);
	add(&t, "a", 1, 7, 100);
	assert_int_equal(look(&t, "a", 1, 1), 0);
	assert_int_equal(tes_locations_bytes(&t.l), 0);
	tes_locations_drop(&t.l, "a", 1, 1, 0);
	tes_locations_clear(&t.l);
	table_fini(&t);
}

static void pin(struct table *t, const char *key, uint64_t digest,
		uint64_t generation, uint64_t expires_ns)
{
	const struct tes_location_extent extents[2] = {
		{.address = generation * 100, .length = 6, .crc = 1},
		{.address = generation * 200, .length = 4, .crc = 2},
	};
	const struct tes_location from = {
		.owner = &t->owner,
		.generation = generation,
		.gen_epoch = EPOCH,
		.size = 10,
		.n_extents = 2,
		.expires_ns = expires_ns,
	};

	assert_int_equal(tes_locations_pin(&t->l, key, strlen(key), digest,
					   &from, extents),
			 0);
}

/* The generation whose lease is nobody's any more; 0: none. */
static uint64_t unpin(struct table *t, const char *key, uint64_t digest,
		      uint64_t now_ns)
{
	uint64_t epoch = 1;
	uint64_t generation = tes_locations_unpin(&t->l, key, strlen(key),
						  digest, now_ns, &epoch);

	assert_int_equal(epoch, generation ? EPOCH : 0);
	return generation;
}

static void pinned_ones_are_on_top_and_stay(void **state)
{
	char key[2] = "b";
	struct table t;
	uint64_t i;

	(void)state;
	table_init(&t, N_MAX);
	pin(&t, "a", 0, 1, 100);
	for (i = 1; i < 4 * N_MAX; i++, key[0]++)
		add(&t, key, i, i + 1, 100);
	assert_int_equal(t.l.n, N_MAX);
	assert_int_equal(look(&t, "a", 0, 1), 1);
	/* Dropped it waits for what is learned next. */
	tes_locations_drop(&t.l, "a", 1, 0, 1);
	assert_int_equal(look(&t, "a", 0, 1), 0);
	add(&t, "a", 0, 5, 100);
	assert_int_equal(look(&t, "a", 0, 1), 5);
	assert_int_equal(t.l.n, N_MAX);
	pin(&t, "a", 0, 6, 100);
	assert_int_equal(unpin(&t, "a", 0, 1), 0);
	assert_int_equal(look(&t, "a", 0, 1), 6);
	assert_int_equal(unpin(&t, "a", 0, 1), 6);
	assert_int_equal(look(&t, "a", 0, 1), 0);
	assert_int_equal(unpin(&t, "a", 0, 1), 0);
	pin(&t, "a", 0, 7, 100);
	assert_int_equal(unpin(&t, "a", 0, 100), 0);
	pin(&t, "a", 0, 7, 100); /* and with another master it is gone */
	tes_locations_clear(&t.l);
	assert_int_equal(look(&t, "a", 0, 1), 0);
	table_fini(&t);
}

static void pinned_ones_are_kept_where_nothing_else_is(void **state)
{
	struct table t;

	(void)state;
	table_init(&t, 0);
	pin(&t, "a", 0, 1, 100);
	add(&t, "b", 1, 2, 100);
	assert_int_equal(look(&t, "a", 0, 1), 1);
	assert_int_equal(look(&t, "b", 1, 1), 0);
	assert_int_equal(unpin(&t, "a", 0, 1), 1);
	assert_int_equal(tes_locations_bytes(&t.l), 0);
	pin(&t, "c", 2, 3, 100);
	table_fini(&t);
}

static void extend(struct table *t, const char *key, uint64_t digest,
		   uint64_t now_ns, uint64_t expires_ns)
{
	struct tes_location *e =
		tes_locations_get(&t->l, key, strlen(key), digest, now_ns);

	assert_non_null(e);
	tes_locations_extend(&t->l, e, expires_ns);
	tes_location_put(&t->l, e);
}

/* Keys of one letter that are due, as a string. */
static const char *due(struct table *t, uint64_t now_ns, uint64_t before_ns,
		       size_t max)
{
	static char names[8];
	struct te_store_key keys[7];
	struct tei_arena arena;
	size_t n;

	assert_true(max <= TEST_COUNT(keys));
	memset(names, 0, sizeof(names));
	tei_arena_init(&arena, 4096);
	n = tes_locations_due(&t->l, now_ns, before_ns, &arena, keys, max);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(keys[i].len, 1);
		names[i] = *(const char *)keys[i].bytes;
	}
	tei_arena_fini(&arena);
	return names;
}

static void pinned_ones_are_due_before_they_end(void **state)
{
	struct table t;

	(void)state;
	table_init(&t, N_MAX);
	add(&t, "z", 9, 9, 50); /* not pinned, so nobody renews it */
	assert_false(tes_locations_pinned(&t.l));
	pin(&t, "a", 1, 1, 100);
	pin(&t, "b", 2, 2, 200);
	pin(&t, "c", 3, 3, 300);
	assert_true(tes_locations_pinned(&t.l));
	assert_string_equal(due(&t, 10, 100, 7), "");
	assert_string_equal(due(&t, 10, 250, 7), "ab");
	assert_string_equal(due(&t, 10, 250, 1), "a");
	extend(&t, "a", 1, 10, 400);
	assert_string_equal(due(&t, 10, 350, 7), "bc");
	assert_string_equal(due(&t, 10, 450, 7), "bca");
	/* What is over is looked up by who reads it; what went is nobody's. */
	assert_string_equal(due(&t, 200, 450, 7), "ca");
	assert_int_equal(look(&t, "b", 2, 10), 0);
	tes_locations_drop(&t.l, "c", 1, 3, 3);
	assert_string_equal(due(&t, 10, 450, 7), "a");
	pin(&t, "b", 2, 4, 500);
	assert_string_equal(due(&t, 10, 600, 7), "ab");
	assert_int_equal(unpin(&t, "a", 1, 10), 1);
	assert_string_equal(due(&t, 10, 600, 7), "b");
	assert_int_equal(unpin(&t, "b", 2, 10), 0);
	assert_int_equal(unpin(&t, "b", 2, 10), 4);
	assert_int_equal(unpin(&t, "c", 3, 10), 0);
	assert_false(tes_locations_pinned(&t.l));
	table_fini(&t);
}

static void without_memory_it_forgets(void **state)
{
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	struct table t;

	(void)state;
	table_init(&t, N_MAX);
	for (; test_faults_next(&f);)
		add(&t, "a", 1, 7, 100);
	assert_int_equal(look(&t, "a", 1, 1), 7);
	table_fini(&t);
}

static void *churn(void *arg)
{
	struct table *t = arg;
	uint64_t i;

	for (i = 0; i < 20000; i++) {
		char key[2] = {(char)('a' + i * 7 % 20), 0};
		uint64_t digest = i * 7 % 20;

		if (i % 3 == 0)
			add(t, key, digest, i + 1, 100);
		else if (i % 3 == 1)
			(void)look(t, key, digest, 1);
		else
			tes_locations_drop(&t->l, key, 1, digest, i / 2);
	}
	return NULL;
}

static void threads_share_it(void **state)
{
	pthread_t threads[4];
	struct table t;
	size_t i;

	(void)state;
	table_init(&t, N_MAX);
	for (i = 0; i < TEST_COUNT(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, &t),
				 0);
	for (i = 0; i < TEST_COUNT(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	table_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_found_until_its_lease_is_over),
		cmocka_unit_test(the_newest_of_a_key_counts),
		cmocka_unit_test(the_used_stay_when_there_is_no_room),
		cmocka_unit_test(what_a_reader_holds_outlives_the_table),
		cmocka_unit_test(its_memory_is_counted),
		cmocka_unit_test(switched_off_it_keeps_nothing),
		cmocka_unit_test(pinned_ones_are_on_top_and_stay),
		cmocka_unit_test(pinned_ones_are_kept_where_nothing_else_is),
		cmocka_unit_test(pinned_ones_are_due_before_they_end),
		cmocka_unit_test(without_memory_it_forgets),
		cmocka_unit_test(threads_share_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
