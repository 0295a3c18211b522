/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_drain.c - owners that leave have what they hold moved to others, while
 * everybody goes on
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/integration/store/load.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define END_MS 60000

static struct pool pool;

static int set_up(void **state)
{
	(void)state;
	pool_start(&pool, pool_patient);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pool_stop(&pool);
	return 0;
}

/* ---- owners ---- */

static struct test_process *owner_start(const char *timeout)
{
	const char *args[] = {"--port",
			      "0",
			      "--metadata_server",
			      "P2PHANDSHAKE",
			      "--master_server_address",
			      pool.address,
			      "--global_segment_size",
			      "64MB",
			      "--drain_timeout",
			      timeout,
			      "--call_timeout", /* of a crowded machine */
			      "20s",
			      NULL};
	struct test_process *p = test_process_start("mooncake_client", args);

	assert_non_null(test_process_line(p, " serves ", POOL_START_MS));
	return p;
}

static void owner_ends(struct test_process *p)
{
	assert_int_equal(test_process_wait(p, END_MS), 0);
	test_process_end(p);
}

/* ---- what is proved ---- */

static void what_an_owner_holds_survives_its_end(void **state)
{
	struct te_store *store = pool_client(&pool, 0);
	struct test_process *first = owner_start("600"), *others[2];
	struct load load;

	(void)state;
	for (unsigned int k = 0; k < LOAD_KEYS + 20; k++)
		load_put(store, k);
	others[0] = owner_start("10");
	others[1] = owner_start("10");
	load_start(&load, &pool);
	test_process_signal(first, SIGTERM);
	for (unsigned int k = LOAD_KEYS; k < LOAD_KEYS + 20; k++)
		load_remove(store, k);
	assert_non_null(test_process_line(first, " 0 left", END_MS));
	owner_ends(first);
	load_stop(&load);
	print_message("missed while it moved: %u\n", atomic_load(&load.missed));
	for (unsigned int k = 0; k < LOAD_KEYS; k++)
		assert_int_equal(load_get(store, k), LOAD_LEN);
	for (unsigned int k = LOAD_KEYS; k < LOAD_KEYS + 20; k++)
		assert_int_equal(load_get(store, k), -704);
	assert_non_null(
		test_process_line(pool.master, "replicas moved", END_MS));
	te_store_close(store);
	test_process_end(others[0]);
	test_process_end(others[1]);
}

static void the_last_owner_leaves_at_once(void **state)
{
	struct te_store *store = pool_client(&pool, 0);
	struct test_process *owner = owner_start("600");

	(void)state;
	load_put(store, 1);
	load_put(store, 2);
	test_process_signal(owner, SIGTERM);
	assert_non_null(
		test_process_line(owner, "0 of 2 values moved", END_MS));
	owner_ends(owner);
	te_store_close(store);
}

/* While it is open the key is unfinished, and cannot be moved. */
static void put_open(struct te_store *store, const char *name)
{
	struct te_store_key key = pool_key(name);
	uint64_t size = LOAD_LEN;
	int rc;

	assert_int_equal(te_store_put_open(store, &key, &size, 1, NULL, &rc),
			 0);
	assert_int_equal(rc, 0);
}

static void told_twice_it_ends_at_once(void **state)
{
	struct te_store *store = pool_client(&pool, 0);
	struct test_process *first = owner_start("600"), *other;

	(void)state;
	put_open(store, "open");
	other = owner_start("600");
	test_process_signal(first, SIGTERM);
	assert_non_null(test_process_line(first, "for at most 600", END_MS));
	assert_int_equal(test_process_wait(first, 1), TEST_STILL_RUNNING);
	test_process_signal(first, SIGTERM);
	assert_non_null(test_process_line(first, "told to end twice", END_MS));
	owner_ends(first);
	te_store_close(store);
	test_process_end(other);
}

/* Enough for the one that can be moved, on any machine. */
static void its_time_is_bounded(void **state)
{
	struct te_store *store = pool_client(&pool, 0);
	struct test_process *first = owner_start("10"), *other;

	(void)state;
	put_open(store, "open");
	load_put(store, 1);
	other = owner_start("10");
	test_process_signal(first, SIGTERM);
	assert_non_null(test_process_line(
		first, "1 of 2 values moved to others, 1 left", END_MS));
	owner_ends(first);
	assert_int_equal(load_get(store, 1), LOAD_LEN);
	te_store_close(store);
	test_process_end(other);
}

struct lies {
	struct te_store *store;
	char at[TE_NAME_LEN_MAX + 1];
	unsigned int k;
};

static void find(struct lies *l)
{
	struct te_store_replica r[POOL_REPLICAS];
	char name[LOAD_ROOM];

	if (pool_replicas(l->store, load_name(l->k, name), r) > 0)
		(void)snprintf(l->at, sizeof(l->at), "%s", r[0].segment);
}

static bool has_moved(void *arg)
{
	struct lies *before = arg, now = *before;

	find(&now);
	return strcmp(now.at, before->at) != 0;
}

static void a_target_may_die_meanwhile(void **state)
{
	struct te_store *store = pool_client(&pool, 0);
	struct test_process *first = owner_start("600"), *others[2];
	struct lies some = {.store = store, .k = LOAD_KEYS / 4};
	unsigned int lost = 0;
	struct load load;

	(void)state;
	for (unsigned int k = 0; k < LOAD_KEYS; k++)
		load_put(store, k);
	find(&some);
	others[0] = owner_start("10");
	others[1] = owner_start("10");
	load_start(&load, &pool);
	test_process_signal(first, SIGTERM);
	assert_true(test_wait_until(has_moved, &some, END_MS));
	test_process_signal(others[0], SIGKILL);
	test_process_end(others[0]);
	assert_non_null(test_process_line(first, " 0 left", END_MS));
	owner_ends(first);
	load_stop(&load);
	/* Only what had been moved to the one that died is lost with it. */
	for (unsigned int k = 0; k < LOAD_KEYS; k++)
		lost += load_get(store, k) != LOAD_LEN;
	print_message("lost with the target: %u\n", lost);
	assert_true(lost < LOAD_KEYS);
	te_store_close(store);
	test_process_end(others[1]);
}

static void a_client_drains_one_of_its_segments(void **state)
{
	struct te_store *store = pool_client(&pool, 0);
	struct te_store_drained d;
	uint8_t first[TE_STORE_SEGMENT_ID_LEN], id[TE_STORE_SEGMENT_ID_LEN];

	(void)state;
	assert_int_equal(te_store_drain(store, NULL, 1000, &d), -101);
	assert_int_equal(te_store_mount(store, 8u << 20, first), 0);
	load_put(store, 1);
	load_put(store, 2);
	assert_int_equal(te_store_drain(store, first, 600001, &d), -600);
	assert_int_equal(te_store_drain(store, first, 60000, &d), -200);
	assert_int_equal(d.left, 2);
	assert_int_equal(te_store_mount(store, 8u << 20, id), 0);
	assert_int_equal(te_store_drain(store, first, 60000, &d), 0);
	assert_int_equal(d.total, 2);
	assert_int_equal(d.moved, 2);
	assert_int_equal(d.moved_bytes, 2 * LOAD_LEN);
	assert_int_equal(d.left, 0);
	assert_int_equal(te_store_unmount(store, first, 0), 0);
	assert_int_equal(load_get(store, 1), LOAD_LEN);
	assert_int_equal(load_get(store, 2), LOAD_LEN);
	assert_int_equal(te_store_drain(store, first, 1000, &d), -101);
	te_store_close(store);
}

static void a_close_drains_when_it_is_to(void **state)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = END_MS,
		.setup_timeout_ms = END_MS,
		.master = pool.address,
		.segment_bytes = 64u << 20,
		.drain_timeout_ms = END_MS,
	};
	struct te_store *store = pool_client(&pool, 0), *leaving;
	struct test_process *other;

	(void)state;
	assert_int_equal(te_store_setup(&config, &leaving), 0);
	load_put(store, 1);
	other = owner_start("10");
	te_store_close(leaving);
	assert_int_equal(load_get(store, 1), LOAD_LEN);
	te_store_close(store);
	test_process_end(other);
}

static void a_dead_master_is_not_waited_for(void **state)
{
	struct te_store *store = pool_client(&pool, 0);
	struct test_process *owner = owner_start("600"), *other;
	struct te_store_drained d;

	(void)state;
	put_open(store, "open");
	other = owner_start("600");
	test_process_signal(owner, SIGTERM);
	assert_non_null(test_process_line(owner, "for at most", END_MS));
	pool_kill(&pool);
	owner_ends(owner);
	assert_int_equal(te_store_drain(store, NULL, 600000, &d), -900);
	test_process_signal(other, SIGTERM);
	owner_ends(other);
	te_store_close(store);
	pool_restart(&pool, pool_patient);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_an_owner_holds_survives_its_end),
		TEST(the_last_owner_leaves_at_once),
		TEST(told_twice_it_ends_at_once),
		TEST(its_time_is_bounded),
		TEST(a_target_may_die_meanwhile),
		TEST(a_client_drains_one_of_its_segments),
		TEST(a_close_drains_when_it_is_to),
		TEST(a_dead_master_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
