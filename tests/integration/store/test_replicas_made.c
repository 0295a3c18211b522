/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_replicas_made.c - replicas that the master has made by itself: instead of
 * those that were lost, and of what is read much
 *
 * Owners are processes; that a replica is one is seen when the others die.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define N_OWNERS 3
#define N_KEYS   20
#define LEN      100000u

struct rig {
	struct master master;
	struct pool pool; /* of the master's address */
	struct test_process *owners[N_OWNERS];
	struct te_store *client;
};

static uint8_t bytes[LEN], room[LEN];

static void rig_start(struct rig *r, size_t n_owners, const char *flag)
{
	*r = (struct rig){.client = NULL};
	master_start(&r->master,
		     (const char *const[]){"--client_ttl=20s", flag, NULL});
	(void)snprintf(r->pool.address, sizeof(r->pool.address), "127.0.0.1:%u",
		       r->master.rpc);
	for (size_t i = 0; i < n_owners; i++)
		r->owners[i] = pool_owner(&r->pool, "16 MB");
	r->client = pool_client(&r->pool, 0);
	pool_await_capacity(r->client, n_owners * (16u << 20));
}

static void rig_stop(struct rig *r)
{
	te_store_close(r->client);
	for (size_t i = 0; i < N_OWNERS; i++)
		test_process_end(r->owners[i]);
	master_stop(&r->master);
}

static uint64_t metric(const struct rig *r, const char *name)
{
	return master_metric(&r->master, name);
}

/* ---- lost ones ---- */

static const char *name_of(unsigned int i)
{
	static char name[16];

	(void)snprintf(name, sizeof(name), "k/%u", i);
	return name;
}

static bool all_have_two(void *arg)
{
	struct te_store_replica at[POOL_REPLICAS];
	const struct rig *r = arg;

	for (unsigned int i = 0; i < N_KEYS; i++)
		if (pool_replicas(r->client, name_of(i), at) != 2)
			return false;
	return true;
}

static bool all_are_right(void *arg)
{
	const struct rig *r = arg;

	for (unsigned int i = 0; i < N_KEYS; i++) {
		if (pool_get(r->client, name_of(i), room, LEN) != LEN)
			return false;
		assert_true(pool_is_filled(room, LEN, i));
	}
	return true;
}

static bool some_were_lost(void *arg)
{
	return metric(arg, "te_master_lost_replicas_total") > 0;
}

static void a_lost_replica_is_made_again_in_time(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, N_OWNERS, NULL);
	for (unsigned int i = 0; i < N_KEYS; i++) {
		pool_fill(bytes, LEN, i);
		pool_put_twice(r.client, name_of(i), bytes, LEN);
	}
	test_process_signal(r.owners[0], SIGKILL);
	assert_true(test_wait_until(some_were_lost, &r, POOL_START_MS));
	assert_true(test_wait_until(all_have_two, &r, POOL_START_MS));
	assert_true(metric(&r, "te_master_remade_replicas_total") > 0);
	test_process_signal(r.owners[1], SIGKILL);
	assert_true(test_wait_until(all_are_right, &r, POOL_START_MS));
	rig_stop(&r);
}

/* ---- what is read much ---- */

static int replicas_after_a_read(const struct rig *r)
{
	struct te_store_replica at[POOL_REPLICAS];

	if (pool_get(r->client, "much", room, LEN) != LEN)
		return 0;
	assert_true(pool_is_filled(room, LEN, 1));
	return pool_replicas(r->client, "much", at);
}

static bool has_two(void *arg)
{
	return replicas_after_a_read(arg) == 2;
}

/* While its owner seems to be silent there is none. */
static bool is_counted(void *arg)
{
	assert_true(replicas_after_a_read(arg) <= 1);
	return metric(arg, "te_master_heat_proposed_total") > 0;
}

static void put_once(struct rig *r)
{
	pool_fill(bytes, LEN, 1);
	assert_int_equal(pool_put(r->client, "much", bytes, LEN), 0);
}

static void what_is_read_much_gets_a_replica(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, 2, "--dynamic_replication_mode=enforce");
	put_once(&r);
	assert_true(test_wait_until(has_two, &r, POOL_START_MS));
	assert_true(metric(&r, "te_master_heat_made_total") > 0);
	rig_stop(&r);
}

static void observed_it_is_counted_and_no_more(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, 2, "--dynamic_replication_mode=observe");
	put_once(&r);
	assert_true(test_wait_until(is_counted, &r, POOL_START_MS));
	for (int i = 0; i < 100; i++)
		assert_true(replicas_after_a_read(&r) <= 1);
	assert_int_equal(metric(&r, "te_master_heat_made_total"), 0);
	rig_stop(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_replica_is_made_again_in_time),
		cmocka_unit_test(what_is_read_much_gets_a_replica),
		cmocka_unit_test(observed_it_is_counted_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
