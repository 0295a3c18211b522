/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_survivor.c - one owner of two dies or stands still: who reads what both
 * have pays for that a few times, not with every read
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/libfabric.h"
#include "tests/lib/stat.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define N_KEYS  60u
#define N_READS TEST_TIMES(1000u)
#define SIZE    5000u
/* Reads that meet the dead owner: some are under way, some try it again. */
#define FEW 32u
/* What the live owner may take, and who meets the stopped one waits for. */
#define REPLICA_MS 5000

struct rig {
	struct pool pool;
	struct test_process *owners[2];
	struct te_store *client;
};

static void name_value(unsigned int i, char name[32])
{
	(void)snprintf(name, 32, "both/%u", i % N_KEYS);
}

/* An owner may have seemed silent at first. */
static bool lies_with_both(void *arg)
{
	const struct te_store_replicate how = pool_several(2);
	struct te_store_replica at[POOL_REPLICAS];
	uint8_t bytes[SIZE];
	struct rig *r = arg;
	char name[32];

	for (unsigned int i = 0; i < N_KEYS; i++) {
		struct te_store_key key;
		int code;

		name_value(i, name);
		key = pool_key(name);
		pool_fill(bytes, SIZE, i);
		assert_int_equal(
			pool_put_as(r->client, name, bytes, SIZE, &how), 0);
		if (pool_replicas(r->client, name, at) == 2)
			continue;
		(void)te_store_remove(r->client, &key, 1, 1, &code);
		return false;
	}
	return true;
}

static void rig_start(struct rig *r, const char *backends)
{
	setenv("TE_BACKENDS", backends, 1);
	pool_start(&r->pool, pool_patient);
	for (int i = 0; i < 2; i++)
		r->owners[i] = pool_owner(&r->pool, "8 MB");
	r->client = pool_hasty_client(&r->pool, 0, 30000, REPLICA_MS);
	assert_true(test_wait_until(lies_with_both, r, POOL_START_MS));
}

static void rig_stop(struct rig *r)
{
	te_store_close(r->client);
	for (int i = 0; i < 2; i++)
		test_process_end(r->owners[i]);
	pool_stop(&r->pool);
	unsetenv("TE_BACKENDS");
}

/* Requests that failed, and connections that did. */
static uint64_t n_failed(struct te_store *client)
{
	struct te_engine *engine = te_store_engine(client);

	return test_stat(engine, "te_requests_failed_total", NULL) +
	       test_stat(engine, "te_control_failed_total", NULL);
}

/* Every value is right, every time. Returns reads a second, for people. */
static double read_all(struct rig *r)
{
	uint64_t begun = tei_now_ns();
	uint8_t room[SIZE];
	char name[32];

	for (unsigned int i = 0; i < N_READS; i++) {
		name_value(i, name);
		assert_int_equal(pool_get(r->client, name, room, SIZE), SIZE);
		assert_true(pool_is_filled(room, SIZE, i % N_KEYS));
	}
	return N_READS * 1e9 / (double)(tei_now_ns() - begun);
}

static void lose_one(const char *backends, int signal)
{
	double before, first, later;
	uint64_t failed;
	struct rig r;

	rig_start(&r, backends);
	before = read_all(&r);
	failed = n_failed(r.client);
	test_process_signal(r.owners[0], signal);
	first = read_all(&r);
	later = read_all(&r);
	failed = n_failed(r.client) - failed;
	print_message("reads a second: %.0f with both, then %.0f and %.0f; "
		      "%llu of %u failed at the one that is lost\n",
		      before, first, later, (unsigned long long)failed,
		      2 * N_READS);
	assert_true(failed <= FEW);
	if (signal == SIGSTOP)
		test_process_signal(r.owners[0], SIGCONT);
	rig_stop(&r);
}

static void a_killed_owner_is_met_few_times(void **state)
{
	(void)state;
	lose_one("loop,shm", SIGKILL);
}

static void a_killed_owner_is_met_few_times_over_tcp(void **state)
{
	(void)state;
	lose_one("loop,tcp", SIGKILL);
}

static void a_stopped_owner_is_met_few_times_over_tcp(void **state)
{
	(void)state;
	lose_one("loop,tcp", SIGSTOP);
}

static void lose_one_over_libfabric(const char *provider, int signal)
{
	if (!test_libfabric_has(provider))
		skip();
	test_libfabric_set(provider);
	lose_one("loop,ofi", signal);
	test_libfabric_unset();
}

static void a_killed_owner_is_met_few_times_over_libfabric(void **state)
{
	(void)state;
	lose_one_over_libfabric("tcp", SIGKILL);
}

static void a_stopped_owner_is_met_few_times_over_libfabric(void **state)
{
	(void)state;
	lose_one_over_libfabric("tcp", SIGSTOP);
}

static void a_killed_owner_is_met_few_times_without_connections(void **state)
{
	(void)state;
	lose_one_over_libfabric("net", SIGKILL);
}

static void a_stopped_owner_is_met_few_times_without_connections(void **state)
{
	(void)state;
	lose_one_over_libfabric("net", SIGSTOP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_owner_is_met_few_times),
		cmocka_unit_test(a_killed_owner_is_met_few_times_over_tcp),
		cmocka_unit_test(a_stopped_owner_is_met_few_times_over_tcp),
		cmocka_unit_test(
			a_killed_owner_is_met_few_times_over_libfabric),
		cmocka_unit_test(
			a_stopped_owner_is_met_few_times_over_libfabric),
		cmocka_unit_test(
			a_killed_owner_is_met_few_times_without_connections),
		cmocka_unit_test(
			a_stopped_owner_is_met_few_times_without_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
