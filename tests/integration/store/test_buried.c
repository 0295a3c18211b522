/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_buried.c - what was removed or replaced is not read again by who knows
 * where it lay
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define MIB    ((uint64_t)1 << 20)
#define HEADER 64
#define TIMES  20

#define PATIENCE_MS 30000u

struct rig {
	struct pool pool;
	struct te_store *owner, *reader, *other;
};

/* One that remembers where objects lay. */
static struct te_store *mindful_client(const struct pool *pool)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = PATIENCE_MS,
		.replica_timeout_ms = PATIENCE_MS,
		.setup_timeout_ms = POOL_START_MS,
		.location_cache_entries = 100,
		.master = pool->address,
	};
	struct te_store *store = NULL;

	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

/* The owner's memory is ours: it can be looked at. */
static void rig_start(struct rig *r)
{
	pool_start(&r->pool, pool_patient);
	r->owner = pool_client(&r->pool, 4 * MIB);
	r->reader = mindful_client(&r->pool);
	r->other = pool_client(&r->pool, 0);
}

static void rig_stop(struct rig *r)
{
	te_store_close(r->reader);
	te_store_close(r->other);
	te_store_close(r->owner);
	pool_stop(&r->pool);
}

/* Where the header of "a" is, while it is there. */
static const uint8_t *header_of_a(struct rig *r)
{
	struct te_store_replica replica[POOL_REPLICAS];

	assert_int_equal(pool_replicas(r->reader, "a", replica), 1);
	return (const uint8_t *)(uintptr_t)replica[0].address - HEADER;
}

/* Read by the kernel: it is the owner's threads that write there. */
static bool is_void(const uint8_t *header)
{
	static const uint8_t zeros[HEADER];
	uint8_t bytes[HEADER];
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, bytes, HEADER, (off_t)(uintptr_t)header),
			 HEADER);
	assert_int_equal(close(fd), 0);
	return memcmp(bytes, zeros, HEADER) == 0;
}

static void a_removed_value_is_void_before_that_is_answered(void **state)
{
	struct te_store_key key = {.bytes = "a", .len = 1};
	uint8_t room[8];
	struct rig r;
	int result;

	(void)state;
	rig_start(&r);
	for (int i = 0; i < TIMES; i++) {
		const uint8_t *header;

		assert_int_equal(pool_put(r.other, "a", "old", 3), 0);
		assert_int_equal(pool_get(r.reader, "a", room, 8), 3);
		header = header_of_a(&r);
		assert_false(is_void(header));
		assert_int_equal(te_store_remove(r.other, &key, 1, 1, &result),
				 0);
		assert_int_equal(result, 0);
		assert_true(is_void(header));
		/* The reader may still think to know where it lies. */
		assert_int_equal(pool_get(r.reader, "a", room, 8), -704);
	}
	rig_stop(&r);
}

static void a_replaced_value_is_void_before_that_is_answered(void **state)
{
	const struct te_store_key key = {.bytes = "a", .len = 1};
	uint8_t room[8], value[4] = "new";
	const struct iovec piece = {value, 4};
	const struct te_store_value v = {.pieces = &piece, .n_pieces = 1};
	struct rig r;
	int result;

	(void)state;
	rig_start(&r);
	assert_int_equal(pool_put(r.other, "a", "old", 3), 0);
	assert_int_equal(pool_get(r.reader, "a", room, 8), 3);
	for (uint8_t i = 0; i < TIMES; i++) {
		const uint8_t *header = header_of_a(&r);

		value[3] = i;
		assert_int_equal(
			te_store_upsert(r.other, &key, &v, 1, NULL, &result),
			0);
		assert_true(is_void(header));
		assert_int_equal(pool_get(r.reader, "a", room, 8), 4);
		assert_memory_equal(room, value, 4);
	}
	rig_stop(&r);
}

static void nothing_removed_comes_back_with_a_new_master(void **state)
{
	uint8_t room[8];
	struct rig r;

	(void)state;
	rig_start(&r);
	assert_int_equal(pool_put(r.other, "a", "x", 1), 0);
	assert_int_equal(pool_put(r.other, "b", "y", 1), 0);
	assert_int_equal(te_store_remove_matching(r.other, "^a$", 1, NULL), 0);
	pool_kill(&r.pool);
	pool_restart(&r.pool, pool_patient);
	pool_await_capacity(r.reader, 4 * MIB);
	while (pool_get(r.reader, "b", room, 8) != 1)
		assert_int_equal(pool_get(r.reader, "a", room, 8), -704);
	assert_int_equal(room[0], 'y');
	assert_int_equal(pool_get(r.reader, "a", room, 8), -704);
	rig_stop(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_removed_value_is_void_before_that_is_answered),
		cmocka_unit_test(
			a_replaced_value_is_void_before_that_is_answered),
		cmocka_unit_test(nothing_removed_comes_back_with_a_new_master),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
