/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trouble.c - processes of a pool that are killed, stopped, restarted
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define KIB 1024u
#define MIB (1024u * KIB)

/* For what takes long because it must fail: of a call, of a replica. */
#define CALL_MS    3000
#define REPLICA_MS 1000

static const char *const hasty[] = {"--put_start_discard_timeout_sec", "2s",
				    "--default_kv_lease_ttl", "100ms", NULL};

/* ---- owners ---- */

struct wanted {
	struct te_store *client;
	const char *key;
	int64_t size;
};

static bool get_is(void *arg)
{
	const struct wanted *wanted = arg;
	uint8_t room[64];

	return pool_get(wanted->client, wanted->key, room, sizeof(room)) ==
	       wanted->size;
}

static void put_many(struct te_store *client, const char *name, int n)
{
	uint8_t bytes[64];
	char key[64];
	int i;

	for (i = 0; i < n; i++) {
		(void)snprintf(key, sizeof(key), "%s/%d", name, i);
		pool_fill(bytes, sizeof(bytes), (uint64_t)i);
		assert_int_equal(pool_put(client, key, bytes, sizeof(bytes)),
				 0);
	}
}

/* How many of them are there; each of those must be right. */
static int count_right(struct te_store *client, const char *name, int n)
{
	uint8_t bytes[64];
	int i, n_there = 0;
	char key[64];

	for (i = 0; i < n; i++) {
		int64_t size;

		(void)snprintf(key, sizeof(key), "%s/%d", name, i);
		size = pool_get(client, key, bytes, sizeof(bytes));
		assert_true(size == -704 || size == sizeof(bytes));
		if (size < 0)
			continue;
		assert_true(pool_is_filled(bytes, sizeof(bytes), (uint64_t)i));
		n_there++;
	}
	return n_there;
}

static void a_killed_owner_takes_only_its_own_objects(void **state)
{
	struct test_process *owners[2];
	struct te_store *client;
	struct pool pool;
	int n_there;

	(void)state;
	pool_start(&pool, NULL);
	owners[0] = pool_owner(&pool, "4 MB");
	owners[1] = pool_owner(&pool, "4 MB");
	client = pool_client(&pool, 0);
	put_many(client, "k", 64);
	assert_int_equal(count_right(client, "k", 64), 64);
	test_process_signal(owners[0], SIGKILL);
	assert_true(test_process_wait(owners[0], POOL_START_MS) == -SIGKILL);
	/* From the first one on: a miss or right, never an error. */
	n_there = count_right(client, "k", 64);
	assert_true(n_there < 64);
	pool_await_capacity(client, 4 * MIB);
	put_many(client, "after", 64);
	assert_int_equal(count_right(client, "after", 64), 64);
	te_store_close(client);
	test_process_end(owners[0]);
	test_process_end(owners[1]);
	pool_stop(&pool);
}

static void a_stopped_owner_costs_a_get_its_deadline(void **state)
{
	struct test_process *owner;
	struct te_store *client;
	struct pool pool;
	uint8_t room[8];

	(void)state;
	pool_start(&pool, pool_patient);
	owner = pool_owner(&pool, "4 MB");
	client = pool_hasty_client(&pool, 0, POOL_START_MS, REPLICA_MS);
	assert_int_equal(pool_put(client, "a", "x", 1), 0);
	assert_true(test_wait_until(get_is, &(struct wanted){client, "a", 1},
				    POOL_START_MS));
	test_process_signal(owner, SIGSTOP);
	assert_int_equal(pool_get(client, "a", room, 8), -800);
	test_process_signal(owner, SIGCONT);
	assert_true(test_wait_until(get_is, &(struct wanted){client, "a", 1},
				    POOL_START_MS));
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
}

/* ---- writers ---- */

static struct test_process *start_writer(const struct pool *pool,
					 const char *key, const char *size)
{
	const char *const args[] = {pool->address, key, size, NULL};
	struct test_process *writer = test_process_start("store_writer", args);

	assert_non_null(test_process_line(writer, "started", POOL_START_MS));
	return writer;
}

struct put_wanted {
	struct te_store *client;
	const char *key;
	size_t size;
};

/* 0 also while another builds it, so look whether it is there afterwards. */
static bool put_and_there(void *arg)
{
	const struct put_wanted *wanted = arg;
	uint8_t *bytes = malloc(wanted->size);
	bool there;

	assert_non_null(bytes);
	pool_fill(bytes, wanted->size, 5);
	there = pool_put(wanted->client, wanted->key, bytes, wanted->size) == 0;
	memset(bytes, 0, wanted->size);
	there = there && pool_get(wanted->client, wanted->key, bytes,
				  wanted->size) == (int64_t)wanted->size;
	there = there && pool_is_filled(bytes, wanted->size, 5);
	free(bytes);
	return there;
}

static bool nothing_used(void *arg)
{
	struct te_store_pool figures;

	return te_store_pool(arg, &figures) == 0 && figures.used_bytes == 0;
}

static void a_killed_writer_leaves_key_and_space(void **state)
{
	struct test_process *owner, *writer;
	struct te_store *client;
	struct pool pool;

	(void)state;
	pool_start(&pool, hasty);
	owner = pool_owner(&pool, "4 MB");
	client = pool_client(&pool, 0);
	/* More than half of the pool: there is no second place for it. */
	writer = start_writer(&pool, "key", "3000000");
	test_process_signal(writer, SIGKILL);
	test_process_end(writer);
	assert_true(test_wait_until(nothing_used, client, POOL_START_MS));
	assert_true(test_wait_until(
		put_and_there, &(struct put_wanted){client, "key", 3000000},
		POOL_START_MS));
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
}

static bool is_there(struct te_store *client, const char *key)
{
	struct te_store_key k = pool_key(key);
	int found = -1;

	assert_int_equal(te_store_exist(client, &k, 1, &found), 0);
	return found == 1;
}

static bool someone_has_left(void *arg)
{
	return master_metric(arg, "te_master_suspect_clients") > 0;
}

/*
 * While a writer lives its key is left to it, and 0 is no promise that the
 * value is there. It is one as soon as the writer has gone.
 */
static void a_put_of_a_killed_writers_key_stores_it_at_once(void **state)
{
	struct test_process *owner, *writer;
	struct te_store *client;
	struct master master;
	struct pool pool;
	uint8_t bytes[1000];

	(void)state;
	master_start(&master, pool_patient);
	(void)snprintf(pool.address, sizeof(pool.address), "127.0.0.1:%u",
		       master.rpc);
	owner = pool_owner(&pool, "4 MB");
	client = pool_client(&pool, 0);
	writer = start_writer(&pool, "key", "3000");
	pool_fill(bytes, sizeof(bytes), 5);
	assert_int_equal(pool_put(client, "key", bytes, sizeof(bytes)), 0);
	assert_false(is_there(client, "key"));
	test_process_signal(writer, SIGKILL);
	(void)test_process_wait(writer, POOL_START_MS);
	assert_true(test_wait_until(someone_has_left, &master, POOL_START_MS));
	assert_int_equal(pool_put(client, "key", bytes, sizeof(bytes)), 0);
	assert_true(is_there(client, "key"));
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(pool_get(client, "key", bytes, sizeof(bytes)),
			 sizeof(bytes));
	assert_true(pool_is_filled(bytes, sizeof(bytes), 5));
	test_process_end(writer);
	te_store_close(client);
	test_process_end(owner);
	master_stop(&master);
}

/*
 * The master answers a start too late: its caller has given the put up, and
 * nobody will write what the master has begun.
 */
static void a_put_that_was_given_up_can_be_repeated(void **state)
{
	struct te_store *owner, *client;
	uint8_t bytes[1000];
	struct pool pool;

	(void)state;
	pool_start(&pool, pool_patient);
	owner = pool_client(&pool, 4 * MIB);
	client = pool_hasty_client(&pool, 0, 300, 300);
	pool_fill(bytes, sizeof(bytes), 5);
	assert_int_equal(pool_put(client, "first", bytes, sizeof(bytes)), 0);
	test_process_signal(pool.master, SIGSTOP);
	assert_int_equal(pool_put(client, "key", bytes, sizeof(bytes)),
			 TE_STORE_RPC_TIMEOUT);
	test_process_signal(pool.master, SIGCONT);
	while (pool_put(client, "key", bytes, sizeof(bytes)) ==
	       TE_STORE_RPC_TIMEOUT)
		; /* a slow machine; the test has a limit */
	assert_true(is_there(owner, "key"));
	te_store_close(client);
	te_store_close(owner);
	pool_stop(&pool);
}

static void a_stopped_writer_cannot_write_to_others(void **state)
{
	struct test_process *owner, *writer;
	struct te_store *client;
	const char *line;
	struct pool pool;
	uint8_t *bytes = malloc(3000000);

	(void)state;
	assert_non_null(bytes);
	pool_start(&pool, hasty);
	owner = pool_owner(&pool, "4 MB");
	client = pool_client(&pool, 0);
	writer = start_writer(&pool, "late", "3000000");
	test_process_signal(writer, SIGSTOP);
	/* Its space is taken back and goes to another object. */
	assert_true(test_wait_until(
		put_and_there, &(struct put_wanted){client, "other", 3000000},
		POOL_START_MS));
	test_process_signal(writer, SIGUSR1);
	test_process_signal(writer, SIGCONT);
	line = test_process_line(writer, "wrote", POOL_START_MS);
	assert_non_null(line);
	assert_int_equal(atoi(strstr(line, "wrote") + 6), -ESTALE);
	assert_int_equal(pool_get(client, "other", bytes, 3000000), 3000000);
	assert_true(pool_is_filled(bytes, 3000000, 5));
	te_store_close(client);
	test_process_end(writer);
	test_process_end(owner);
	pool_stop(&pool);
	free(bytes);
}

static void puts_go_on_while_writers_are_fenced(void **state)
{
	struct test_process *owner, *writers[3];
	struct te_store *client;
	struct pool pool;
	char key[32];
	size_t i;

	(void)state;
	pool_start(&pool, hasty);
	owner = pool_owner(&pool, "4 MB");
	client = pool_client(&pool, 0);
	for (i = 0; i < TEST_COUNT(writers); i++) {
		(void)snprintf(key, sizeof(key), "stalls/%zu", i);
		writers[i] = start_writer(&pool, key, "100000");
		put_many(client, key, 8);
	}
	/* Their puts are discarded one by one, each by a fence. */
	for (i = 0; i < TEST_COUNT(writers); i++) {
		(void)snprintf(key, sizeof(key), "stalls/%zu", i);
		assert_true(test_wait_until(
			put_and_there, &(struct put_wanted){client, key, 1000},
			POOL_START_MS));
		assert_int_equal(count_right(client, key, 8), 8);
		test_process_end(writers[i]);
	}
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
}

/* ---- masters ---- */

static bool has_a(void *client)
{
	uint8_t room[8];

	return pool_get(client, "a", room, sizeof(room)) == 1;
}

static void a_killed_master_is_an_error_until_it_is_back(void **state)
{
	struct test_process *owner;
	struct te_store *client, *hurried;
	struct pool pool;
	uint8_t room[8];

	(void)state;
	pool_start(&pool, NULL);
	owner = pool_owner(&pool, "4 MB");
	client = pool_client(&pool, 0);
	hurried = pool_hasty_client(&pool, 0, CALL_MS, REPLICA_MS);
	assert_int_equal(pool_put(client, "a", "x", 1), 0);
	pool_kill(&pool);
	assert_int_equal(pool_get(hurried, "a", room, 8), -900);
	assert_int_equal(pool_put(hurried, "b", "x", 1), -900);
	te_store_close(hurried);
	pool_restart(&pool, NULL);
	pool_await_capacity(client, 4 * MIB);
	/* The owner offers what it has. */
	assert_true(test_wait_until(has_a, client, POOL_START_MS));
	assert_int_equal(pool_get(client, "a", room, 8), 1);
	assert_int_equal(room[0], 'x');
	assert_int_equal(pool_put(client, "b", "y", 1), 0);
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
}

static void masters_may_come_and_go(void **state)
{
	struct test_process *owner;
	struct te_store *client;
	struct pool pool;
	uint8_t room[8];
	int i;

	(void)state;
	pool_start(&pool, NULL);
	owner = pool_owner(&pool, "4 MB");
	client = pool_client(&pool, MIB);
	for (i = 0; i < 4; i++) {
		pool_await_capacity(client, 5 * MIB);
		assert_int_equal(pool_put(client, "a", "x", 1), 0);
		assert_int_equal(pool_get(client, "a", room, 8), 1);
		pool_kill(&pool);
		pool_restart(&pool, NULL);
	}
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
}

static int run_by_tcp(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_owner_takes_only_its_own_objects),
		cmocka_unit_test(a_stopped_owner_costs_a_get_its_deadline),
		cmocka_unit_test(a_killed_writer_leaves_key_and_space),
		cmocka_unit_test(
			a_put_of_a_killed_writers_key_stores_it_at_once),
		cmocka_unit_test(a_put_that_was_given_up_can_be_repeated),
		cmocka_unit_test(a_stopped_writer_cannot_write_to_others),
		cmocka_unit_test(puts_go_on_while_writers_are_fenced),
		cmocka_unit_test(a_killed_master_is_an_error_until_it_is_back),
		cmocka_unit_test(masters_may_come_and_go),
	};

	setenv("TE_BACKENDS", "loop,tcp", 1);
	return cmocka_run_group_tests_name("by tcp", tests, NULL, NULL);
}

static int run_by_shm(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_owner_takes_only_its_own_objects),
		cmocka_unit_test(a_killed_writer_leaves_key_and_space),
		cmocka_unit_test(a_stopped_writer_cannot_write_to_others),
		cmocka_unit_test(puts_go_on_while_writers_are_fenced),
		cmocka_unit_test(masters_may_come_and_go),
	};

	unsetenv("TE_BACKENDS"); /* it is chosen by itself */
	return cmocka_run_group_tests_name("by shm", tests, NULL, NULL);
}

int main(void)
{
	int failed = run_by_tcp();

	return failed + run_by_shm();
}
