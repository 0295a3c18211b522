/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mistakes.c - arguments at and beyond the limits: the documented code,
 * and a pool that is as it was
 */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define KIB 1024u
#define MIB (1024u * KIB)

struct world {
	struct pool pool;
	struct te_store *client;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	pool_start(&w->pool, pool_patient);
	w->client = pool_client(&w->pool, 4 * MIB);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	te_store_close(w->client);
	pool_stop(&w->pool);
	free(w);
	return 0;
}

static uint64_t n_objects(const struct world *w)
{
	struct te_store_pool figures;

	assert_int_equal(te_store_pool(w->client, &figures), 0);
	return figures.objects;
}

/* What each call says to @key, which is not there; nothing changes. */
static void ask_all(const struct world *w, struct te_store_key key, int put,
		    int other, int exist)
{
	struct iovec piece = {(void *)(uintptr_t) "x", 1};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	struct te_store_buffer *buffer;
	uint64_t before = n_objects(w);
	uint8_t room[8];
	struct te_store_range range = {.addr = room, .length = 1};
	struct te_store_replica replica;
	size_t n_replicas = 1;
	int64_t size;
	int result;

	(void)te_store_exist(w->client, &key, 1, &result);
	assert_int_equal(result, exist);
	(void)te_store_size(w->client, &key, 1, &size);
	assert_int_equal(size, other);
	(void)te_store_get_buffers(w->client, &key, 1, &buffer, &size);
	assert_int_equal(size, other);
	assert_null(buffer);
	(void)te_store_get_ranges(w->client, &key, 1, &range, 1, &size);
	assert_int_equal(size, other);
	(void)te_store_get_open(w->client, &key, 1, &result);
	assert_int_equal(result, other);
	assert_int_equal(te_store_get_close(w->client, &key, 1), 0);
	(void)te_store_replicas(w->client, &key, 1, &result, &replica,
				&n_replicas);
	assert_int_equal(result, other);
	assert_int_equal(n_replicas, 0);
	(void)te_store_remove(w->client, &key, 1, 1, &result);
	assert_int_equal(result, other);
	(void)te_store_replica_clear(w->client, &key, 1, NULL, &result);
	assert_int_equal(result, other);
	(void)te_store_put(w->client, &key, &value, 1, NULL, &result);
	assert_int_equal(result, put);
	piece.iov_base = room;
	(void)te_store_get(w->client, &key, &value, 1, &size);
	assert_int_equal(size, put ? other : 1);
	if (put) {
		piece.iov_base = (void *)(uintptr_t) "x";
		(void)te_store_upsert(w->client, &key, &value, 1, NULL,
				      &result);
		assert_int_equal(result, put);
	} else {
		(void)te_store_remove(w->client, &key, 1, 1, &result);
		assert_int_equal(result, 0);
	}
	assert_int_equal(n_objects(w), before);
}

static void keys_that_are_none_are_refused(void **state)
{
	uint8_t *long_key = calloc(1, MIB);
	struct world *w = *state;

	assert_non_null(long_key);
	ask_all(w, (struct te_store_key){.bytes = "a", .len = 0}, -600, -600,
		-600);
	ask_all(w, (struct te_store_key){.bytes = NULL, .len = 1}, -600, -600,
		-600);
	ask_all(w, (struct te_store_key){.bytes = long_key, .len = MIB}, -600,
		-600, -600);
	ask_all(w, (struct te_store_key){.bytes = long_key, .len = 1025}, -600,
		-600, -600);
	ask_all(w, (struct te_store_key){.bytes = "a", .len = 1, .reserved = 1},
		-600, -600, -600);
	free(long_key);
}

static void any_bytes_make_a_key(void **state)
{
	static const uint8_t zeros[1024];
	struct world *w = *state;

	ask_all(w, (struct te_store_key){.bytes = "\0", .len = 1}, 0, -704, 0);
	ask_all(w, (struct te_store_key){.bytes = "a\0b", .len = 3}, 0, -704,
		0);
	ask_all(w, (struct te_store_key){.bytes = "\xff\xc0\x80", .len = 3}, 0,
		-704, 0);
	ask_all(w, (struct te_store_key){.bytes = zeros, .len = 1024}, 0, -704,
		0);
}

static void a_nul_in_a_key_counts(void **state)
{
	const struct te_store_key keys[2] = {
		{.bytes = "a\0b", .len = 3},
		{.bytes = "a\0c", .len = 3},
	};
	struct iovec pieces[2] = {{(void *)(uintptr_t) "b", 1},
				  {(void *)(uintptr_t) "cc", 2}};
	const struct te_store_value values[2] = {
		{.pieces = &pieces[0], .n_pieces = 1},
		{.pieces = &pieces[1], .n_pieces = 1},
	};
	struct world *w = *state;
	int64_t sizes[2];
	int results[2];

	assert_int_equal(
		te_store_put(w->client, keys, values, 2, NULL, results), 0);
	assert_int_equal(te_store_size(w->client, keys, 2, sizes), 0);
	assert_int_equal(sizes[0], 1);
	assert_int_equal(sizes[1], 2);
	assert_int_equal(te_store_remove(w->client, keys, 2, 1, results), 0);
}

static void sizes_that_are_none_are_refused(void **state)
{
	static const uint64_t sizes[] = {0, (1ull << 40) + 1, 1ull << 63,
					 UINT64_MAX};
	const struct te_store_key key = pool_key("size");
	struct world *w = *state;
	uint64_t before = n_objects(w);
	size_t i;
	int result;

	for (i = 0; i < TEST_COUNT(sizes); i++) {
		const struct iovec piece = {&result, (size_t)sizes[i]};
		const struct te_store_value value = {.pieces = &piece,
						     .n_pieces = 1};

		assert_int_equal(
			te_store_put(w->client, &key, &value, 1, NULL, &result),
			-600);
		assert_int_equal(result, -600);
		assert_int_equal(te_store_upsert(w->client, &key, &value, 1,
						 NULL, &result),
				 -600);
	}
	assert_int_equal(n_objects(w), before);
}

#define N_MANY 1000000u

static void a_million_keys_are_only_many(void **state)
{
	struct te_store_key *keys = calloc(N_MANY, sizeof(*keys));
	uint32_t *names = calloc(N_MANY, sizeof(*names));
	int *results = calloc(N_MANY, sizeof(*results));
	struct world *w = *state;
	uint32_t i, n_there = 0;

	assert_non_null(keys);
	assert_non_null(names);
	assert_non_null(results);
	for (i = 0; i < N_MANY; i++) {
		names[i] = i;
		keys[i] = (struct te_store_key){.bytes = &names[i],
						.len = sizeof(names[i])};
	}
	for (i = 1; i < N_MANY; i += 300000) {
		const struct iovec piece = {(void *)(uintptr_t) "x", 1};
		const struct te_store_value value = {.pieces = &piece,
						     .n_pieces = 1};

		assert_int_equal(te_store_put(w->client, &keys[i], &value, 1,
					      NULL, results),
				 0);
	}
	assert_int_equal(te_store_exist(w->client, keys, N_MANY, results), 0);
	for (i = 0; i < N_MANY; i++)
		n_there += results[i] == 1;
	assert_int_equal(n_there, 4);
	assert_int_equal(te_store_remove(w->client, keys, N_MANY, 1, results),
			 -704);
	assert_int_equal(results[1], 0);
	assert_int_equal(n_objects(w), 0);
	free(keys);
	free(names);
	free(results);
}

/* Another one puts it in parts: who puts it too is done at once. */
static void what_another_builds_is_left_alone(void **state)
{
	struct world *w = *state;
	struct te_store *other = pool_client(&w->pool, 0);
	const struct te_store_key key = pool_key("built");
	const struct te_store_range all = {.addr = (char[]){"theirs"},
					   .length = 6};
	const uint64_t size = 6;
	struct te_store_pool before, after;
	uint8_t room[8];
	int64_t written;
	int code = 1;

	assert_int_equal(te_store_put_open(other, &key, &size, 1, NULL, &code),
			 0);
	assert_int_equal(te_store_pool(w->client, &before), 0);
	assert_int_equal(pool_put(w->client, "built", "ours", 4), 0);
	assert_int_equal(
		te_store_put_open(w->client, &key, &size, 1, NULL, &code),
		-705);
	assert_int_equal(te_store_remove(w->client, &key, 1, 1, &code), -703);
	assert_int_equal(te_store_pool(w->client, &after), 0);
	assert_int_equal(after.used_bytes, before.used_bytes);
	assert_int_equal(after.objects, before.objects);
	assert_int_equal(pool_get(w->client, "built", room, 8), -704);
	assert_int_equal(te_store_put_ranges(other, &key, 1, &all, 1, &written),
			 1);
	assert_int_equal(te_store_put_commit(other, &key, 1, &code), 0);
	assert_int_equal(pool_get(w->client, "built", room, 8), 6);
	assert_memory_equal(room, "theirs", 6);
	assert_int_equal(te_store_remove(w->client, &key, 1, 1, &code), 0);
	te_store_close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_that_are_none_are_refused),
		cmocka_unit_test(any_bytes_make_a_key),
		cmocka_unit_test(a_nul_in_a_key_counts),
		cmocka_unit_test(sizes_that_are_none_are_refused),
		cmocka_unit_test(a_million_keys_are_only_many),
		cmocka_unit_test(what_another_builds_is_left_alone),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
