/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_large.c - what lies, or reaches, beyond 4 GiB of a segment or of a value
 *
 * Segments are sparse: only what is written takes memory. TE_TEST_LARGE=1 also
 * moves a value of more than 4 GiB, which the owner's memory must hold.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

#define PATIENCE_MS 300000u /* a value of gigabytes takes long */

/* One after the other from just below 4 GiB on: one lies across it. */
#define N_VALUES 10u
#define VALUE    (300 * KIB + 7)
#define BELOW    (4 * GIB - MIB)

struct rig {
	struct pool pool;
	struct te_store *owner, *client;
};

static void rig_start(struct rig *r, const char *backends, uint64_t bytes)
{
	if (backends)
		setenv("TE_BACKENDS", backends, 1);
	else
		unsetenv("TE_BACKENDS");
	pool_start(&r->pool, pool_patient);
	r->owner = pool_client(&r->pool, bytes);
	r->client = pool_hasty_client(&r->pool, 0, PATIENCE_MS, PATIENCE_MS);
}

static void rig_stop(struct rig *r)
{
	te_store_close(r->client);
	te_store_close(r->owner);
	pool_stop(&r->pool);
	unsetenv("TE_BACKENDS");
}

/* ---- beyond 4 GiB of a segment ---- */

static uint64_t address_of(struct te_store *store, const char *name)
{
	struct te_store_replica replica[POOL_REPLICAS];

	assert_int_equal(pool_replicas(store, name, replica), 1);
	return replica[0].address;
}

static void name_value(unsigned int i, char name[32])
{
	(void)snprintf(name, 32, "high/%u", i);
}

static void put_values(struct te_store *client)
{
	static uint8_t bytes[VALUE];
	char name[32];

	for (unsigned int i = 0; i < N_VALUES; i++) {
		name_value(i, name);
		pool_fill(bytes, VALUE, i);
		assert_int_equal(pool_put(client, name, bytes, VALUE), 0);
	}
}

/* Returns how many lie wholly at or beyond @limit. */
static unsigned int check_values(struct te_store *client, uint64_t limit)
{
	static uint8_t room[VALUE];
	unsigned int n = 0;
	char name[32];

	for (unsigned int i = 0; i < N_VALUES; i++) {
		name_value(i, name);
		memset(room, 0, VALUE);
		assert_int_equal(pool_get(client, name, room, VALUE), VALUE);
		assert_true(pool_is_filled(room, VALUE, i));
		n += address_of(client, name) >= limit;
	}
	return n;
}

static void remove_values(struct te_store *client)
{
	struct te_store_key key;
	uint8_t room[8];
	char name[32];
	int code;

	for (unsigned int i = 0; i < N_VALUES; i++) {
		name_value(i, name);
		key = pool_key(name);
		(void)te_store_remove(client, &key, 1, 1, &code);
		assert_int_equal(code, 0);
		assert_int_equal(pool_get(client, name, room, 8), -704);
	}
}

static bool all_are_back(void *arg)
{
	struct te_store_key keys[N_VALUES];
	char names[N_VALUES][32];
	int results[N_VALUES];

	for (unsigned int i = 0; i < N_VALUES; i++) {
		name_value(i, names[i]);
		keys[i] = pool_key(names[i]);
	}
	if (te_store_exist(arg, keys, N_VALUES, results))
		return false;
	for (unsigned int i = 0; i < N_VALUES; i++)
		if (results[i] != 1)
			return false;
	return true;
}

static void beyond_4_gib(const char *backends)
{
	const struct te_store_key draft = pool_key("draft");
	const uint64_t size = BELOW;
	struct rig r;
	uint64_t limit;
	int code = 1;

	rig_start(&r, backends, 8 * GIB + 4 * KIB);
	assert_int_equal(pool_put(r.client, "low", "low", 3), 0);
	limit = address_of(r.client, "low") + 4 * GIB;
	/* Takes the place, and is never written. */
	assert_int_equal(
		te_store_put_open(r.client, &draft, &size, 1, NULL, &code), 0);
	put_values(r.client);
	assert_in_range(check_values(r.client, limit), 1, N_VALUES - 1);
	assert_int_equal(te_store_put_abort(r.client, &draft, 1, &code), 0);
	/* The owner's directory brings them to another master. */
	pool_kill(&r.pool);
	pool_restart(&r.pool, pool_patient);
	assert_true(test_wait_until(all_are_back, r.client, POOL_START_MS));
	assert_in_range(check_values(r.client, limit), 1, N_VALUES - 1);
	remove_values(r.client);
	rig_stop(&r);
}

static void objects_beyond_4_gib_of_mapped_memory(void **state)
{
	(void)state;
	beyond_4_gib(NULL);
}

static void objects_beyond_4_gib_over_tcp(void **state)
{
	(void)state;
	beyond_4_gib("loop,tcp");
}

/* ---- a value of more than 4 GiB ---- */

/*
 * The same memory again and again, so that a large value takes little of it
 * here. 4 GiB is no multiple of it: bytes that are 4 GiB too early are wrong.
 */
#define RING  (64 * MIB + 4 * KIB)
#define LARGE (4 * GIB + 100 * MIB + 777)

static uint8_t *ring_create(void)
{
	size_t room = (LARGE + RING - 1) / RING * RING;
	uint8_t *at = mmap(NULL, room, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int fd = memfd_create("ring", MFD_CLOEXEC);

	assert_true(at != MAP_FAILED);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, RING), 0);
	for (size_t from = 0; from < room; from += RING)
		assert_true(mmap(at + from, RING, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED, fd, 0) == at + from);
	assert_int_equal(close(fd), 0);
	return at;
}

static void ring_destroy(uint8_t *ring)
{
	assert_int_equal(munmap(ring, (LARGE + RING - 1) / RING * RING), 0);
}

static void check_large(struct te_store *client, const uint8_t *ring)
{
	const struct te_store_key key = pool_key("large");
	uint8_t *room = ring_create(), *parts = malloc(2 * MIB);
	const struct te_store_range ranges[2] = {
		{.offset = 4 * GIB - MIB, .addr = parts, .length = 2 * MIB - 1},
		{.offset = LARGE - 1, .addr = parts + 2 * MIB - 1, .length = 1},
	};
	int64_t results[2], size;

	assert_non_null(parts);
	assert_int_equal(te_store_size(client, &key, 1, &size), 0);
	assert_int_equal(size, LARGE);
	assert_int_equal(pool_get(client, "large", room, LARGE), LARGE);
	assert_memory_equal(room, ring, RING);
	assert_int_equal(
		te_store_get_ranges(client, &key, 1, ranges, 2, results), 2);
	assert_memory_equal(parts, ring + 4 * GIB - MIB, 2 * MIB - 1);
	assert_int_equal(parts[2 * MIB - 1], ring[LARGE - 1]);
	free(parts);
	ring_destroy(room);
}

static void put_in_parts(struct te_store *client, uint8_t *ring)
{
	const struct te_store_key key = pool_key("large");
	const uint64_t size = LARGE, cut = 4 * GIB + 5;
	const struct te_store_range parts[2] = {
		{.offset = cut, .addr = ring + cut, .length = LARGE - cut},
		{.offset = 0, .addr = ring, .length = cut},
	};
	int64_t written[2];
	int code = 1;

	assert_int_equal(te_store_put_open(client, &key, &size, 1, NULL, &code),
			 0);
	assert_int_equal(
		te_store_put_ranges(client, &key, 1, parts, 2, written), 2);
	assert_int_equal(written[1], cut);
	assert_int_equal(te_store_put_commit(client, &key, 1, &code), 0);
}

static void more_than_4_gib(const char *backends)
{
	const struct te_store_key key = pool_key("large");
	uint8_t *ring = ring_create();
	struct rig r;
	int code;

	pool_fill(ring, RING, 1);
	/* So much more that it is not evicted. */
	rig_start(&r, backends, 5 * GIB);
	assert_int_equal(pool_put(r.client, "large", ring, LARGE), 0);
	check_large(r.client, ring);
	assert_int_equal(te_store_remove(r.client, &key, 1, 1, &code), 0);
	put_in_parts(r.client, ring);
	check_large(r.client, ring);
	rig_stop(&r);
	ring_destroy(ring);
}

static void a_value_above_4_gib_comes_back(void **state)
{
	(void)state;
	if (!getenv("TE_TEST_LARGE"))
		skip();
	more_than_4_gib(NULL);
}

static void a_value_above_4_gib_comes_back_over_tcp(void **state)
{
	(void)state;
	if (!getenv("TE_TEST_LARGE"))
		skip();
	more_than_4_gib("loop,tcp");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_beyond_4_gib_of_mapped_memory),
		cmocka_unit_test(objects_beyond_4_gib_over_tcp),
		cmocka_unit_test(a_value_above_4_gib_comes_back),
		cmocka_unit_test(a_value_above_4_gib_comes_back_over_tcp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
