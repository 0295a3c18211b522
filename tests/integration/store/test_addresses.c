/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_addresses.c - memory of the caller's that cannot be used: the same
 * answer of every call, whatever the way that bytes take
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/integration/store/daemon.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/store/named.h"
#include "tests/store/pool.h"

#define MIB 1048576u

/* By @backends (NULL: as they choose themselves) from another process. */
static void check_by(const char *backends)
{
	struct test_process *owner;
	struct te_store *client;
	struct pool pool;

	if (backends)
		setenv("TE_BACKENDS", backends, 1);
	pool_start(&pool, pool_patient);
	owner = pool_owner(&pool, "16 MB");
	client = pool_client(&pool, 0);
	named_check_all(client);
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
	unsetenv("TE_BACKENDS");
}

static void over_tcp(void **state)
{
	(void)state;
	check_by("loop,tcp");
}

static void over_shared_memory(void **state)
{
	(void)state;
	check_by(NULL);
}

static void over_shared_memory_by_process_copy(void **state)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
	struct te_store *owner, *client;
	struct pool pool;
	int fd;

	(void)state;
	test_tmpdir_create(dir);
	(void)snprintf(path, sizeof(path), "%s/segment", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 16 * MIB), 0);
	(void)close(fd);
	setenv("TE_BACKENDS", "shm", 1);
	pool_start(&pool, pool_patient);
	owner = pool_client(&pool, 0);
	assert_int_equal(te_store_mount_shared(owner, path, 0, 16 * MIB, id),
			 0);
	client = pool_client(&pool, 0);
	named_check_all(client);
	te_store_close(client);
	te_store_close(owner);
	pool_stop(&pool);
	unsetenv("TE_BACKENDS");
	test_tmpdir_remove(dir);
}

static void within_an_owner(void **state)
{
	struct te_store *owner;
	struct pool pool;

	(void)state;
	pool_start(&pool, pool_patient);
	owner = pool_client(&pool, 16 * MIB);
	named_check_all(owner);
	te_store_close(owner);
	pool_stop(&pool);
}

/* ---- through a daemon ---- */

static void check_pool_memory(struct te_store *dummy)
{
	uint8_t *shared = te_store_pool_alloc(dummy, DAEMON_POOL);

	assert_non_null(shared);
	named_take(dummy, NAMED_ALL, shared, NAMED_PAGE);
	named_take(dummy, NAMED_ALL, shared + DAEMON_POOL - 8, 8);
	/* What is copied on its way lies behind it. */
	named_refuse(dummy, NAMED_ALL, shared + DAEMON_POOL - 8, 9);
	named_refuse(dummy, NAMED_ALL, shared + DAEMON_POOL, 8);
	assert_int_equal(te_store_register(dummy, shared, 32), 0);
	named_refuse(dummy, NAMED_ALL, shared + 31, 4);
	named_take(dummy, NAMED_ALL, shared + 28, 4);
	assert_int_equal(te_store_registered_bytes(dummy, shared + 30), 2);
	assert_int_equal(te_store_unregister(dummy, shared), 0);
	assert_int_equal(te_store_registered_bytes(dummy, shared + 32),
			 DAEMON_POOL - 32);
	assert_int_equal(te_store_pool_free(dummy, shared), 0);
	shared = te_store_pool_alloc(dummy, 100);
	assert_int_equal(te_store_registered_bytes(dummy, shared + 99), 1);
	assert_int_equal(te_store_registered_bytes(dummy, shared + 100), 0);
	assert_int_equal(te_store_pool_free(dummy, shared), 0);
	assert_int_equal(te_store_registered_bytes(dummy, shared), 0);
}

static void through_a_daemon(void **state)
{
	struct daemon d = {.http = 0};
	struct te_store *dummy;

	(void)state;
	daemon_start(&d);
	dummy = daemon_dummy(&d, DAEMON_END_MS);
	named_check_all(dummy);
	check_pool_memory(dummy);
	te_store_close(dummy);
	daemon_stop(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_tcp),
		cmocka_unit_test(over_shared_memory),
		cmocka_unit_test(over_shared_memory_by_process_copy),
		cmocka_unit_test(within_an_owner),
		cmocka_unit_test(through_a_daemon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
