/* SPDX-License-Identifier: Apache-2.0 */
/* test_hash.c - the hash table against a plain array */
#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/hash.h"
#include "tests/lib/test.h"

#define N 20000

struct item {
	struct tei_hash_node node;
	uint64_t key;
	bool in;
	unsigned int n_walked;
};

static uint64_t rand_state;

/* xorshift: the same numbers everywhere. */
static uint64_t next_rand(void)
{
	rand_state ^= rand_state << 13;
	rand_state ^= rand_state >> 7;
	rand_state ^= rand_state << 17;
	return rand_state;
}

/* Few different hashes: one in eight keys shares one with another. */
static uint64_t hash_of(uint64_t key)
{
	uint64_t x = key - key % 8 / 7;

	x *= 0x9e3779b97f4a7c15ull;
	return x ^ x >> 29;
}

static bool has(const struct tei_hash *h, const struct item *item)
{
	struct tei_hash_node *n = tei_hash_first(h, hash_of(item->key));

	/* What is not likely is not there. */
	assert_true(!n || tei_hash_likely(h, hash_of(item->key)));
	for (; n; n = tei_hash_next(h, n))
		if (((struct item *)(void *)n)->key == item->key)
			return n == &item->node;
	return false;
}

static void toggle(struct tei_hash *h, struct item *item)
{
	assert_int_equal(has(h, item), item->in);
	if (item->in)
		tei_hash_remove(h, &item->node);
	else
		tei_hash_insert(h, &item->node, hash_of(item->key));
	item->in = !item->in;
}

static struct item *new_items(void)
{
	struct item *items = calloc(N, sizeof(*items));

	assert_non_null(items);
	for (uint64_t i = 0; i < N; i++)
		items[i].key = i;
	return items;
}

static void count_visit(struct tei_hash_node *node, void *arg)
{
	(void)arg;
	((struct item *)(void *)node)->n_walked++;
}

static void check_all(struct tei_hash *h, struct item *items)
{
	size_t n = 0, cursor = 0;

	while (tei_hash_walk(h, &cursor, 7, count_visit, NULL))
		;
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(items[i].n_walked, items[i].in);
		assert_int_equal(has(h, &items[i]), items[i].in);
		items[i].n_walked = 0;
		n += items[i].in;
	}
	assert_int_equal(h->n_nodes, n);
	assert_true(h->n_buckets >= 8 && h->n_buckets <= n + 8);
}

static void table_agrees_with_a_plain_array(void **state)
{
	struct item *items = new_items();
	struct tei_hash h;

	(void)state;
	rand_state = 88172645463325252ull;
	assert_int_equal(tei_hash_init(&h), 0);
	for (int round = 0; round < 6; round++) {
		for (size_t i = 0; i < N; i++)
			toggle(&h, &items[next_rand() % N]);
		check_all(&h, items);
	}
	for (size_t i = 0; i < N; i++)
		if (!items[i].in)
			toggle(&h, &items[i]);
	check_all(&h, items);
	tei_hash_fini(&h);
	free(items);
}

static void empty_table_gives_its_memory_back(void **state)
{
	struct item *items = new_items();
	struct tei_hash h;
	size_t least;

	(void)state;
	assert_int_equal(tei_hash_init(&h), 0);
	least = tei_hash_bytes(&h);
	for (size_t i = 0; i < N; i++)
		toggle(&h, &items[i]);
	assert_true(tei_hash_bytes(&h) >= N * sizeof(void *) / 2);
	for (size_t i = 0; i < N; i++)
		toggle(&h, &items[i]);
	assert_int_equal(tei_hash_bytes(&h), least);
	assert_int_equal(h.n_buckets, 8);
	tei_hash_fini(&h);
	free(items);
}

static void remove_it(struct tei_hash_node *node, void *arg)
{
	tei_hash_remove(arg, node);
	((struct item *)(void *)node)->in = false;
}

static void walk_may_remove_what_it_visits(void **state)
{
	struct item *items = new_items();
	struct tei_hash h;

	(void)state;
	for (size_t n = 1; n <= N; n += 1 + n / 3) {
		size_t cursor = 0;

		assert_int_equal(tei_hash_init(&h), 0);
		for (size_t i = 0; i < n; i++)
			toggle(&h, &items[i]);
		while (tei_hash_walk(&h, &cursor, 3, remove_it, &h))
			;
		assert_int_equal(h.n_nodes, 0);
		assert_int_equal(h.n_buckets, 8);
		tei_hash_fini(&h);
	}
	free(items);
}

/* The first half stays; of the others some come and some go at every slice. */
static void a_walk_sees_all_that_stays_whatever_comes_and_goes(void **state)
{
	struct item *items = new_items();
	struct tei_hash h;

	(void)state;
	rand_state = 88172645463325252ull;
	assert_int_equal(tei_hash_init(&h), 0);
	for (size_t i = 0; i < N / 8; i++)
		toggle(&h, &items[i]);
	for (int round = 0; round < 20; round++) {
		size_t cursor = 0, n = 0;
		bool more = true;

		while (more) {
			more = tei_hash_walk(&h, &cursor, 1 + next_rand() % 9,
					     count_visit, NULL);
			for (n = next_rand() % 200; n; n--)
				toggle(&h, &items[N / 8 +
						  next_rand() % (N - N / 8)]);
		}
		/* And from time to time nearly all of them. */
		for (size_t i = N / 8; round % 3 && i < N; i++)
			if (items[i].in == (round % 3 == 1))
				toggle(&h, &items[i]);
		for (size_t i = 0; i < N / 8; i++)
			assert_true(items[i].n_walked > 0);
		for (size_t i = 0; i < N; i++)
			items[i].n_walked = 0;
	}
	tei_hash_fini(&h);
	free(items);
}

/* All nodes in one bucket, whose partner is gone when they are. */
static void a_visit_may_shrink_the_table_below_its_own_bucket(void **state)
{
	struct item *items = new_items();
	size_t cursor = 0;
	struct tei_hash h;

	(void)state;
	assert_int_equal(tei_hash_init(&h), 0);
	for (size_t i = 0; i < 1600; i++) {
		items[i].in = true;
		tei_hash_insert(&h, &items[i].node, 260 + 512 * i);
	}
	assert_int_equal(h.n_buckets, 400);
	while (tei_hash_walk(&h, &cursor, 1, remove_it, &h))
		;
	assert_int_equal(h.n_nodes, 0);
	tei_hash_fini(&h);
	free(items);
}

/* Their bits in the buckets tell all but the few with equal hashes apart. */
static void what_is_not_there_is_mostly_not_likely(void **state)
{
	struct item *items = new_items();
	struct tei_hash h;
	size_t n = 0;

	(void)state;
	assert_int_equal(tei_hash_init(&h), 0);
	for (size_t i = 0; i < N; i++)
		toggle(&h, &items[i]);
	for (uint64_t key = 2 * N; key < 3 * N; key++)
		n += tei_hash_likely(&h, hash_of(key)) != NULL;
	assert_true(n < N / 5);
	tei_hash_fini(&h);
	free(items);
}

static void insert_works_without_memory_to_grow(void **state)
{
	struct item *items = new_items();
	struct tei_hash h;

	(void)state;
	assert_int_equal(tei_hash_init(&h), 0);
	for (size_t i = 0; i < 300; i++) {
		tei_fault_arm(TEI_FAULT_ALLOC, 1);
		toggle(&h, &items[i]);
	}
	tei_fault_disarm_all();
	assert_int_equal(h.n_buckets, 8);
	for (size_t i = 300; i < N; i++)
		toggle(&h, &items[i]);
	check_all(&h, items);
	tei_hash_fini(&h);
	tei_fault_arm(TEI_FAULT_ALLOC, 1);
	assert_int_equal(tei_hash_init(&h), -ENOMEM);
	tei_fault_disarm_all();
	free(items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_agrees_with_a_plain_array),
		cmocka_unit_test(empty_table_gives_its_memory_back),
		cmocka_unit_test(walk_may_remove_what_it_visits),
		cmocka_unit_test(
			a_visit_may_shrink_the_table_below_its_own_bucket),
		cmocka_unit_test(
			a_walk_sees_all_that_stays_whatever_comes_and_goes),
		cmocka_unit_test(what_is_not_there_is_mostly_not_likely),
		cmocka_unit_test(insert_works_without_memory_to_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
