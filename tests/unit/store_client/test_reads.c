/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_reads.c - ranges, memory of the client's, and remembered locations,
 * against a real master and a bendable engine
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/proto/extent.h"
#include "tests/lib/test.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"

#define MIB (1u << 20)

struct two {
	struct pool pool;
	struct te_store *owner, *client;
};

static struct te_store *mindful_client(const struct pool *pool)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = 30000,
		.replica_timeout_ms = 30000,
		.setup_timeout_ms = POOL_START_MS,
		.master = pool->address,
		.local_buffer_bytes = MIB,
		.location_cache_entries = 16,
	};
	struct te_store *store = NULL;

	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

/* Leases outlast every test. */
static const char *const lasting[] = {"--client_ttl", "100s",
				      "--default_kv_lease_ttl", "600s", NULL};

static int set_up(void **state)
{
	struct two *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	pool_start(&t->pool, lasting);
	t->owner = pool_client(&t->pool, 4 * MIB);
	t->client = mindful_client(&t->pool);
	*state = t;
	return 0;
}

static int tear_down(void **state)
{
	struct two *t = *state;

	fake_te_set_hook(NULL, NULL);
	te_store_close(t->client);
	te_store_close(t->owner);
	if (t->pool.master)
		pool_stop(&t->pool);
	free(t);
	return 0;
}

static struct te_store_stats stats_of(struct te_store *store)
{
	struct te_store_stats stats;

	te_store_stats(store, &stats);
	return stats;
}

/* ---- ranges ---- */

static struct te_store_range range(uint32_t key, uint64_t offset, void *addr,
				   uint64_t length)
{
	return (struct te_store_range){
		.key = key, .offset = offset, .addr = addr, .length = length};
}

static void ranges_come_in_any_order(void **state)
{
	struct two *t = *state;
	const struct te_store_key keys[2] = {
		{.bytes = "a", .len = 1},
		{.bytes = "b", .len = 1},
	};
	uint8_t a[1000], b[500], room[1000];
	struct te_store_range ranges[4];
	int64_t results[4];

	pool_fill(a, sizeof(a), 1);
	pool_fill(b, sizeof(b), 2);
	assert_int_equal(pool_put(t->client, "a", a, sizeof(a)), 0);
	assert_int_equal(pool_put(t->client, "b", b, sizeof(b)), 0);
	ranges[0] = range(1, 499, room, 1);
	ranges[1] = range(0, 10, room + 100, 200);
	ranges[2] = range(1, 0, room + 300, 300);
	ranges[3] = range(0, 0, room + 600, 5);
	assert_int_equal(
		te_store_get_ranges(t->client, keys, 2, ranges, 4, results), 4);
	assert_int_equal(results[0], 1);
	assert_int_equal(results[1], 200);
	assert_int_equal(room[0], b[499]);
	assert_memory_equal(room + 100, a + 10, 200);
	assert_memory_equal(room + 300, b, 300);
	assert_memory_equal(room + 600, a, 5);
}

static void a_range_outside_fails_alone(void **state)
{
	struct two *t = *state;
	const struct te_store_key keys[3] = {
		{.bytes = "i", .len = 1},
		{.bytes = "a", .len = 0},
		{.bytes = "missing", .len = 7},
	};
	uint8_t a[100], room[100];
	struct te_store_range ranges[9];
	int64_t results[9];

	pool_fill(a, sizeof(a), 1);
	assert_int_equal(pool_put(t->client, "i", a, sizeof(a)), 0);
	ranges[0] = range(0, 99, room, 2);
	ranges[1] = range(0, 100, room, 1);
	ranges[2] = range(0, UINT64_MAX, room, 2);
	ranges[3] = range(0, 0, room, UINT64_MAX);
	ranges[4] = range(0, 101, room, 0);
	ranges[5] = range(3, 0, room, 1);
	ranges[6] = range(1, 0, room, 1);
	ranges[7] = range(2, 0, room, 1);
	ranges[8] = range(0, 99, room, 1);
	assert_int_equal(
		te_store_get_ranges(t->client, keys, 3, ranges, 9, results), 1);
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(results[i], -600);
	assert_int_equal(results[7], -704);
	assert_int_equal(results[8], 1);
	assert_int_equal(room[0], a[99]);
}

static void an_empty_range_is_read_where_the_value_has_a_place(void **state)
{
	struct two *t = *state;
	const struct te_store_key keys[2] = {pool_key("empty"),
					     pool_key("missing")};
	const struct te_store_range ranges[5] = {
		range(0, 0, NULL, 0),       range(0, 10, (void *)1, 0),
		range(0, 11, NULL, 0),      range(1, 0, NULL, 0),
		range(0, 0, t, UINT64_MAX),
	};
	int64_t results[5];

	assert_int_equal(pool_put(t->client, "empty", "0123456789", 10), 0);
	assert_int_equal(
		te_store_get_ranges(t->client, keys, 2, ranges, 5, results), 2);
	assert_int_equal(results[0], 0);
	assert_int_equal(results[1], 0);
	assert_int_equal(results[2], -600);
	assert_int_equal(results[3], -704);
	assert_int_equal(results[4], -600);
}

static void wrong_calls_for_ranges_are_refused(void **state)
{
	struct two *t = *state;
	const struct te_store_key key = {.bytes = "a", .len = 1};
	struct te_store_range one = range(0, 0, &one, 1);
	int64_t result = 7;

	assert_int_equal(te_store_get_ranges(NULL, &key, 1, &one, 1, &result),
			 -600);
	assert_int_equal(
		te_store_get_ranges(t->client, NULL, 1, &one, 1, &result),
		-600);
	assert_int_equal(
		te_store_get_ranges(t->client, &key, 1, NULL, 1, &result),
		-600);
	assert_int_equal(te_store_get_ranges(t->client, &key, 1, &one, 1, NULL),
			 -600);
	assert_int_equal(te_store_get_ranges(t->client, &key, 1, &one,
					     TE_STORE_RANGES_MAX + 1, &result),
			 -600);
	assert_int_equal(result, 7);
	assert_int_equal(te_store_get_ranges(t->client, &key, 1, NULL, 0, NULL),
			 0);
	one.reserved = 1;
	assert_int_equal(
		te_store_get_ranges(t->client, &key, 1, &one, 1, &result), 0);
	assert_int_equal(result, -600);
}

/* As if the space got another object between data and header. */
static void spoil_headers(const struct te_request *req,
			  struct te_completion *done, void *arg)
{
	int *left = arg;

	(void)done;
	if (req->op == TE_READ && req->n_pieces == 1 &&
	    req->pieces[0].iov_len == TES_EXTENT_HEADER_LEN && (*left)-- > 0)
		((uint8_t *)(uintptr_t)req->remote)[16] ^= 1;
}

static void a_header_that_changed_makes_ranges_a_miss(void **state)
{
	struct two *t = *state;
	const struct te_store_key key = {.bytes = "c", .len = 1};
	struct te_store_range one;
	uint8_t bytes[100], room[10];
	int64_t result;
	int left = 1;

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(pool_put(t->client, "c", bytes, sizeof(bytes)), 0);
	one = range(0, 20, room, sizeof(room));
	fake_te_set_hook(spoil_headers, &left);
	assert_int_equal(
		te_store_get_ranges(t->client, &key, 1, &one, 1, &result), 0);
	assert_int_equal(result, -704);
	fake_te_set_hook(NULL, NULL);
}

/* ---- memory of the client's ---- */

static void values_come_in_memory_of_the_clients(void **state)
{
	struct two *t = *state;
	const struct te_store_key keys[3] = {
		{.bytes = "d", .len = 1},
		{.bytes = "missing", .len = 7},
		{.bytes = "e", .len = 1},
	};
	struct te_store_buffer *out[3];
	uint8_t small[100], *big = malloc(2 * MIB);
	int64_t results[3];

	assert_non_null(big);
	pool_fill(small, sizeof(small), 1);
	pool_fill(big, 2 * MIB, 2); /* more than the local buffer has */
	assert_int_equal(pool_put(t->client, "d", small, sizeof(small)), 0);
	assert_int_equal(pool_put(t->client, "e", big, 2 * MIB), 0);
	assert_int_equal(te_store_get_buffers(t->client, keys, 3, out, results),
			 2);
	assert_int_equal(results[0], 100);
	assert_int_equal(te_store_buffer_length(out[0]), 100);
	assert_memory_equal(te_store_buffer_data(out[0]), small, 100);
	assert_int_equal(results[1], -704);
	assert_null(out[1]);
	assert_int_equal(results[2], 2 * MIB);
	assert_memory_equal(te_store_buffer_data(out[2]), big, 2 * MIB);
	te_store_buffer_free(out[0]);
	te_store_buffer_free(out[2]);
	assert_int_equal(
		te_store_get_buffers(t->client, keys, 3, NULL, results), -600);
	free(big);
}

/* ---- remembered locations ---- */

static void a_warm_get_asks_nobody_but_the_owner(void **state)
{
	struct two *t = *state;
	struct te_store_stats before, after;
	uint8_t bytes[100], room[100];

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(pool_put(t->client, "f", bytes, sizeof(bytes)), 0);
	before = stats_of(t->client);
	assert_int_equal(pool_get(t->client, "f", room, sizeof(room)), 100);
	after = stats_of(t->client);
	assert_int_equal(after.location_misses, before.location_misses + 1);
	assert_int_equal(after.location_hits, before.location_hits);
	assert_true(after.location_bytes > before.location_bytes);
	memset(room, 0, sizeof(room));
	assert_int_equal(pool_get(t->client, "f", room, sizeof(room)), 100);
	assert_memory_equal(room, bytes, sizeof(room));
	after = stats_of(t->client);
	assert_int_equal(after.location_misses, before.location_misses + 1);
	assert_int_equal(after.location_hits, before.location_hits + 1);
}

/* Another object's header, and put right again by the second read. */
static void spoil_twice(const struct te_request *req,
			struct te_completion *done, void *arg)
{
	int *left = arg;

	(void)done;
	if (req->op == TE_READ && (*left)-- > 0)
		((uint8_t *)(uintptr_t)req->remote)[16] ^= 1;
}

static void what_is_not_there_any_more_is_looked_up(void **state)
{
	struct two *t = *state;
	struct te_store_stats before, after;
	uint8_t room[100];
	int left = 2;

	assert_int_equal(pool_put(t->client, "g", "here", 4), 0);
	assert_int_equal(pool_get(t->client, "g", room, sizeof(room)), 4);
	before = stats_of(t->client);
	fake_te_set_hook(spoil_twice, &left);
	assert_int_equal(pool_get(t->client, "g", room, sizeof(room)), 4);
	fake_te_set_hook(NULL, NULL);
	assert_memory_equal(room, "here", 4);
	assert_int_equal(left, 0);
	after = stats_of(t->client);
	assert_int_equal(after.location_stale, before.location_stale + 1);
	/* And remembered anew. */
	assert_int_equal(pool_get(t->client, "g", room, sizeof(room)), 4);
	after = stats_of(t->client);
	assert_int_equal(after.location_hits, before.location_hits + 1);
}

static void what_one_removed_oneself_is_a_miss(void **state)
{
	struct two *t = *state;
	const struct te_store_key key = {.bytes = "h", .len = 1};
	uint8_t room[100];
	int result;

	assert_int_equal(pool_put(t->client, "h", "x", 1), 0);
	assert_int_equal(pool_get(t->client, "h", room, sizeof(room)), 1);
	assert_int_equal(te_store_remove(t->client, &key, 1, 1, &result), 0);
	assert_int_equal(pool_get(t->client, "h", room, sizeof(room)), -704);
}

/* ---- look-ups that are kept ---- */

static void open_keys_are_read_without_the_master(void **state)
{
	struct two *t = *state;
	const struct te_store_key keys[2] = {
		{.bytes = "o", .len = 1},
		{.bytes = "missing", .len = 7},
	};
	struct te_store *plain = pool_client(&t->pool, 0);
	struct te_store_range one;
	uint8_t bytes[100], room[100];
	struct te_store_stats stats;
	int64_t result;
	int results[2];

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(pool_put(plain, "o", bytes, sizeof(bytes)), 0);
	assert_int_equal(te_store_get_open(plain, keys, 2, results), -704);
	assert_int_equal(results[0], 0);
	assert_int_equal(results[1], -704);
	assert_int_equal(pool_get(plain, "o", room, sizeof(room)), 100);
	assert_memory_equal(room, bytes, sizeof(room));
	one = range(0, 20, room, 10);
	assert_int_equal(te_store_get_ranges(plain, keys, 1, &one, 1, &result),
			 1);
	assert_memory_equal(room, bytes + 20, 10);
	assert_int_equal(stats_of(plain).location_hits, 2);
	/* Opened twice, so once is not enough; others are nobody's. */
	assert_int_equal(te_store_get_open(plain, keys, 1, results), 0);
	assert_int_equal(te_store_get_close(plain, keys, 2), 0);
	assert_int_equal(pool_get(plain, "o", room, sizeof(room)), 100);
	assert_int_equal(stats_of(plain).location_hits, 3);
	assert_int_equal(te_store_get_close(plain, keys, 2), 0);
	assert_int_equal(pool_get(plain, "o", room, sizeof(room)), 100);
	stats = stats_of(plain);
	assert_int_equal(stats.location_hits, 3);
	assert_int_equal(stats.location_bytes, 0);
	te_store_close(plain);
}

static void open_keys_are_not_evicted(void **state)
{
	struct two *t = *state;
	const struct te_store_key key = {.bytes = "p", .len = 1};
	uint8_t *bytes = calloc(1, 64u << 10), room[100];
	char name[32];
	int result, i;

	assert_non_null(bytes);
	assert_int_equal(pool_put(t->client, "p", "x", 1), 0);
	assert_int_equal(te_store_get_open(t->client, &key, 1, &result), 0);
	/* More than the pool has, three times. */
	for (i = 0; i < 200; i++) {
		(void)snprintf(name, sizeof(name), "fill/%d", i);
		assert_int_equal(pool_put(t->client, name, bytes, 64u << 10),
				 0);
	}
	assert_int_equal(pool_get(t->owner, "p", room, sizeof(room)), 1);
	assert_int_equal(pool_get(t->client, "p", room, sizeof(room)), 1);
	assert_int_equal(te_store_get_close(t->client, &key, 1), 0);
	free(bytes);
}

static void an_open_key_that_moved_is_looked_up_and_kept(void **state)
{
	struct two *t = *state;
	const struct te_store_key key = {.bytes = "q", .len = 1};
	struct te_store_stats before;
	uint8_t room[100];
	int left = 2, result;

	assert_int_equal(pool_put(t->client, "q", "here", 4), 0);
	assert_int_equal(te_store_get_open(t->client, &key, 1, &result), 0);
	fake_te_set_hook(spoil_twice, &left);
	assert_int_equal(pool_get(t->client, "q", room, sizeof(room)), 4);
	fake_te_set_hook(NULL, NULL);
	before = stats_of(t->client);
	assert_int_equal(pool_get(t->client, "q", room, sizeof(room)), 4);
	assert_int_equal(stats_of(t->client).location_hits,
			 before.location_hits + 1);
	assert_int_equal(te_store_get_close(t->client, &key, 1), 0);
}

static void a_warm_get_needs_no_master(void **state)
{
	struct two *t = *state;
	uint8_t bytes[100], room[100];

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(pool_put(t->client, "z", bytes, sizeof(bytes)), 0);
	assert_int_equal(pool_get(t->client, "z", room, sizeof(room)), 100);
	pool_kill(&t->pool);
	memset(room, 0, sizeof(room));
	assert_int_equal(pool_get(t->client, "z", room, sizeof(room)), 100);
	assert_memory_equal(room, bytes, sizeof(room));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_come_in_any_order),
		cmocka_unit_test(a_range_outside_fails_alone),
		cmocka_unit_test(
			an_empty_range_is_read_where_the_value_has_a_place),
		cmocka_unit_test(wrong_calls_for_ranges_are_refused),
		cmocka_unit_test(a_header_that_changed_makes_ranges_a_miss),
		cmocka_unit_test(values_come_in_memory_of_the_clients),
		cmocka_unit_test(a_warm_get_asks_nobody_but_the_owner),
		cmocka_unit_test(what_is_not_there_any_more_is_looked_up),
		cmocka_unit_test(what_one_removed_oneself_is_a_miss),
		cmocka_unit_test(open_keys_are_read_without_the_master),
		cmocka_unit_test(open_keys_are_not_evicted),
		cmocka_unit_test(an_open_key_that_moved_is_looked_up_and_kept),
		cmocka_unit_test(a_warm_get_needs_no_master), /* the last */
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
