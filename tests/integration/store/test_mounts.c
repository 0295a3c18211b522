/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mounts.c - segments that are lent and taken back while the pool runs
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define MIB 1048576u

static int set_up(void **state)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	assert_non_null(pool);
	pool_start(pool, pool_patient);
	*state = pool;
	return 0;
}

static int tear_down(void **state)
{
	pool_stop(*state);
	free(*state);
	return 0;
}

static void segments_come_and_go(void **state)
{
	uint8_t first[TE_STORE_SEGMENT_ID_LEN], second[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store = pool_client(*state, 0);
	uint8_t bytes[5000], room[5000];

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(pool_put(store, "a", bytes, sizeof(bytes)), -200);
	assert_int_equal(te_store_mount(store, MIB, first), 0);
	assert_int_equal(pool_capacity(store), MIB);
	assert_int_equal(pool_put(store, "a", bytes, sizeof(bytes)), 0);
	assert_int_equal(te_store_mount(store, 2 * MIB, second), 0);
	assert_int_equal(pool_capacity(store), 3 * MIB);
	assert_int_equal(pool_get(store, "a", room, sizeof(room)), 5000);
	assert_memory_equal(room, bytes, sizeof(room));
	/* What lies in the one that goes is gone, and only that. */
	assert_int_equal(te_store_unmount(store, first, 0), 0);
	pool_await_capacity(store, 2 * MIB);
	assert_int_equal(pool_get(store, "a", room, sizeof(room)), -704);
	assert_int_equal(pool_put(store, "b", bytes, sizeof(bytes)), 0);
	assert_int_equal(pool_get(store, "b", room, sizeof(room)), 5000);
	assert_int_equal(te_store_unmount(store, first, 0), -101);
	assert_int_equal(te_store_unmount(store, second, 0), 0);
	pool_await_capacity(store, 0);
	assert_int_equal(te_store_health(store), 0);
	te_store_close(store);
}

static void mistakes_mount_nothing(void **state)
{
	struct te_store *store = pool_client(*state, 0);
	uint8_t id[TE_STORE_SEGMENT_ID_LEN] = {1};

	assert_int_equal(te_store_mount(store, 0, id), -600);
	assert_int_equal(te_store_mount(store, 100, id), -600);
	assert_int_equal(te_store_mount(store, UINT64_MAX, id), -600);
	assert_int_equal(te_store_mount(NULL, MIB, id), -600);
	assert_int_equal(te_store_mount(store, MIB, NULL), -600);
	assert_int_equal(te_store_unmount(store, id, 0), -101);
	assert_int_equal(te_store_unmount(store, id, 1), -101);
	assert_int_equal(te_store_unmount(store, id, UINT64_MAX), -600);
	assert_int_equal(te_store_unmount(store, NULL, 0), -600);
	assert_int_equal(pool_capacity(store), 0);
	te_store_close(store);
}

/* ---- files ---- */

static void make_file(char *path, size_t room, const char *dir, size_t bytes)
{
	int fd;

	(void)snprintf(path, room, "%s/segment", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(close(fd), 0);
}

static void part_of_a_file_can_be_lent(void **state)
{
	struct te_store *store = pool_client(*state, 0);
	uint8_t one[TE_STORE_SEGMENT_ID_LEN], two[TE_STORE_SEGMENT_ID_LEN];
	uint8_t bytes[5000], room[5000];
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];

	test_tmpdir_create(dir);
	make_file(path, sizeof(path), dir, 3 * MIB);
	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(te_store_mount_shared(store, path, MIB, MIB, one), 0);
	assert_int_equal(pool_capacity(store), MIB);
	assert_int_equal(pool_put(store, "f", bytes, sizeof(bytes)), 0);
	assert_int_equal(pool_get(store, "f", room, sizeof(room)), 5000);
	assert_memory_equal(room, bytes, sizeof(room));
	/* Not twice, nor a part of it; its neighbour may be lent. */
	assert_int_equal(te_store_mount_shared(store, path, MIB, MIB, two),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 0, 2 * MIB, two),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 0, MIB, two), 0);
	assert_int_equal(pool_capacity(store), 2 * MIB);
	assert_int_equal(te_store_unmount(store, one, 0), 0);
	pool_await_capacity(store, MIB);
	assert_int_equal(te_store_mount_shared(store, path, MIB, MIB, one), 0);
	te_store_close(store);
	test_tmpdir_remove(dir);
}

static void files_that_do_not_fit_are_refused(void **state)
{
	struct te_store *store = pool_client(*state, 0);
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];

	test_tmpdir_create(dir);
	make_file(path, sizeof(path), dir, MIB);
	assert_int_equal(te_store_mount_shared(store, path, 0, 2 * MIB, id),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 4096, MIB, id),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 2 * MIB, MIB, id),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 100, 4096, id),
			 -600);
	assert_int_equal(te_store_mount_shared(store, path, 0, 5000, id), -600);
	assert_int_equal(
		te_store_mount_shared(store, path, UINT64_MAX - 4095, 4096, id),
		-600);
	assert_int_equal(te_store_mount_shared(store, dir, 0, 4096, id), -600);
	assert_int_equal(
		te_store_mount_shared(store, "/nonexistent", 0, 4096, id),
		-600);
	assert_int_equal(te_store_mount_shared(store, NULL, 0, 4096, id), -600);
	assert_int_equal(pool_capacity(store), 0);
	te_store_close(store);
	test_tmpdir_remove(dir);
}

/* ---- masters that are away ---- */

static bool healthy(void *arg)
{
	return te_store_health(arg) == 0;
}

static bool unhealthy(void *arg)
{
	return te_store_health(arg) != 0;
}

static void all_are_mounted_again_at_a_new_master(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store;
	struct pool pool;

	(void)state;
	pool_start(&pool, pool_patient);
	store = pool_client(&pool, MIB);
	assert_int_equal(te_store_mount(store, 2 * MIB, id), 0);
	pool_kill(&pool);
	assert_true(test_wait_until(unhealthy, store, POOL_START_MS));
	pool_restart(&pool, pool_patient);
	assert_true(test_wait_until(healthy, store, POOL_START_MS));
	assert_int_equal(pool_capacity(store), 3 * MIB);
	assert_int_equal(te_store_unmount(store, id, 0), 0);
	pool_await_capacity(store, MIB);
	te_store_close(store);
	pool_stop(&pool);
}

static void what_left_meanwhile_is_unmounted_later(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN], other[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store, *witness;
	struct pool *pool = *state;

	store = pool_hasty_client(pool, MIB, 1000, 1000);
	witness = pool_client(pool, 0);
	while (te_store_mount(store, 2 * MIB, id)) /* it is hasty */
		;
	pool_await_capacity(witness, 3 * MIB);
	test_process_signal(pool->master, SIGSTOP);
	assert_int_equal(te_store_unmount(store, id, 0), 0);
	assert_int_equal(te_store_unmount(store, id, 0), -101);
	assert_int_equal(te_store_mount(store, MIB, other), -900);
	test_process_signal(pool->master, SIGCONT);
	pool_await_capacity(witness, MIB);
	te_store_close(store);
	te_store_close(witness);
}

static void a_segment_is_read_until_its_grace_is_over(void **state)
{
	uint8_t first[TE_STORE_SEGMENT_ID_LEN], second[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store = pool_client(*state, 0);
	uint8_t bytes[5000], room[5000];

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(te_store_mount(store, MIB, first), 0);
	assert_int_equal(pool_put(store, "a", bytes, sizeof(bytes)), 0);
	assert_int_equal(te_store_unmount(store, first, 3600000), 0);
	assert_int_equal(pool_put(store, "b", bytes, sizeof(bytes)), -200);
	assert_int_equal(te_store_mount(store, MIB, second), 0);
	assert_int_equal(pool_put(store, "b", bytes, sizeof(bytes)), 0);
	assert_int_equal(pool_get(store, "a", room, sizeof(room)), 5000);
	assert_memory_equal(room, bytes, sizeof(room));
	assert_int_equal(te_store_unmount(store, first, 3600000), 0);
	/* Shorter than before: it goes without a further word. */
	assert_int_equal(te_store_unmount(store, first, 1), 0);
	pool_await_capacity(store, MIB);
	assert_int_equal(pool_get(store, "a", room, sizeof(room)), -704);
	assert_int_equal(pool_get(store, "b", room, sizeof(room)), 5000);
	assert_int_equal(te_store_unmount(store, second, 3600000), 0);
	assert_int_equal(te_store_unmount(store, second, 0), 0);
	pool_await_capacity(store, 0);
	assert_int_equal(te_store_unmount(store, second, 0), -101);
	te_store_close(store);
}

static void a_new_master_hears_of_a_grace(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store;
	struct pool pool;

	(void)state;
	pool_start(&pool, pool_patient);
	store = pool_client(&pool, 0);
	assert_int_equal(te_store_mount(store, MIB, id), 0);
	assert_int_equal(te_store_unmount(store, id, 3600000), 0);
	pool_kill(&pool);
	assert_true(test_wait_until(unhealthy, store, POOL_START_MS));
	pool_restart(&pool, pool_patient);
	pool_await_capacity(store, MIB);
	assert_true(test_wait_until(healthy, store, POOL_START_MS));
	assert_int_equal(pool_put(store, "a", "a", 1), -200);
	assert_int_equal(te_store_unmount(store, id, 1), 0);
	pool_await_capacity(store, 0);
	te_store_close(store);
	pool_stop(&pool);
}

static void a_store_closes_while_the_master_stands_still(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	struct te_store *store;
	struct pool *pool = *state;

	store = pool_client(pool, MIB);
	assert_int_equal(te_store_mount(store, MIB, id), 0);
	test_process_signal(pool->master, SIGSTOP);
	te_store_close(store);
	test_process_signal(pool->master, SIGCONT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_come_and_go),
		cmocka_unit_test(mistakes_mount_nothing),
		cmocka_unit_test(part_of_a_file_can_be_lent),
		cmocka_unit_test(files_that_do_not_fit_are_refused),
		cmocka_unit_test(all_are_mounted_again_at_a_new_master),
		cmocka_unit_test(what_left_meanwhile_is_unmounted_later),
		cmocka_unit_test(a_segment_is_read_until_its_grace_is_over),
		cmocka_unit_test(a_new_master_hears_of_a_grace),
		cmocka_unit_test(a_store_closes_while_the_master_stands_still),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
