/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_link.c - masters that go and come back
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"

#define MIB        (1u << 20)
#define GIVE_UP_MS 1000 /* a call that must fail */

/* ---- a real master that dies ---- */

static bool healthy(void *arg)
{
	return te_store_health(arg) == 0;
}

static bool unhealthy(void *arg)
{
	return te_store_health(arg) != 0;
}

static void clients_mount_again_at_a_new_master(void **state)
{
	struct te_store *owner, *client, *hasty;
	struct pool pool;
	uint8_t room[8];

	(void)state;
	pool_start(&pool, NULL);
	owner = pool_client(&pool, 4 * MIB);
	client = pool_client(&pool, 0);
	hasty = pool_hasty_client(&pool, 0, GIVE_UP_MS, GIVE_UP_MS);
	assert_int_equal(pool_put(client, "a", "x", 1), 0);
	pool_kill(&pool);
	assert_true(test_wait_until(unhealthy, client, POOL_START_MS));
	assert_true(test_wait_until(unhealthy, owner, POOL_START_MS));
	assert_true(test_wait_until(unhealthy, hasty, POOL_START_MS));
	assert_int_equal(pool_get(hasty, "a", room, 8), -900);
	assert_int_equal(pool_put(hasty, "b", "x", 1), -900);
	te_store_close(hasty);
	pool_restart(&pool, NULL);
	assert_true(test_wait_until(healthy, owner, POOL_START_MS));
	assert_true(test_wait_until(healthy, client, POOL_START_MS));
	assert_int_equal(pool_capacity(client), 4 * MIB);
	/* Before its first mount there, the owner ended all writers' access. */
	assert_int_equal(fake_te_n_revokes(te_store_engine(owner)), 1);
	/* It has offered what it had. */
	assert_int_equal(pool_get(client, "a", room, 8), 1);
	assert_int_equal(room[0], 'x');
	te_store_close(client);
	te_store_close(owner);
	pool_stop(&pool);
}

static bool waits_on(void *arg)
{
	return fake_te_n_revoke_waits(te_store_engine(arg)) > 300;
}

/* Else it would break the connections of all others time and again. */
static void access_is_ended_once_however_long_that_takes(void **state)
{
	struct te_store *owner;
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	owner = pool_client(&pool, 4 * MIB);
	pool_kill(&pool);
	fake_te_hold_revokes(FAKE_TE_LATE);
	pool_restart(&pool, NULL);
	assert_true(test_wait_until(waits_on, owner, POOL_START_MS));
	assert_int_not_equal(te_store_health(owner), 0);
	fake_te_hold_revokes(FAKE_TE_FREE);
	assert_true(test_wait_until(healthy, owner, POOL_START_MS));
	assert_int_equal(fake_te_n_revokes(te_store_engine(owner)), 1);
	te_store_close(owner);
	pool_stop(&pool);
}

static void a_stopped_master_costs_a_call_its_deadline(void **state)
{
	struct te_store *client;
	struct pool pool;
	uint8_t room[8];
	int64_t code;

	(void)state;
	pool_start(&pool, NULL);
	client = pool_hasty_client(&pool, MIB, GIVE_UP_MS, GIVE_UP_MS);
	test_process_signal(pool.master, SIGSTOP);
	code = pool_get(client, "a", room, 8);
	assert_true(code == -900 || code == -901);
	te_store_close(client);
	test_process_signal(pool.master, SIGCONT);
	pool_stop(&pool);
}

static void a_closed_owner_leaves_the_pool(void **state)
{
	struct te_store *owner, *client;
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	client = pool_client(&pool, 0);
	owner = pool_client(&pool, 4 * MIB);
	assert_int_equal(pool_capacity(client), 4 * MIB);
	te_store_close(owner);
	pool_await_capacity(client, 0);
	te_store_close(client);
	pool_stop(&pool);
}

static void end_loudly(const struct te_request *req, struct te_completion *done,
		       void *arg)
{
	int *left = arg;

	if (req->op != TE_WRITE || (*left)-- <= 0)
		return;
	done->error = -ETIMEDOUT;
	done->flags = 0; /* it may still arrive */
}

static bool nothing_used(void *arg)
{
	struct te_store_pool figures;

	return te_store_pool(arg, &figures) == 0 && figures.used_bytes == 0;
}

static bool put_goes_well(void *arg)
{
	return pool_put(arg, "a", "y", 1) == 0;
}

static void a_stalled_put_is_fenced_at_its_owner(void **state)
{
	static const char *const hasty[] = {"--put_start_discard_timeout_sec",
					    "200ms", NULL};
	struct te_store *owner, *client;
	struct pool pool;
	uint8_t room[8];
	int left = 1;

	(void)state;
	pool_start(&pool, hasty);
	owner = pool_client(&pool, 4 * MIB);
	client = pool_client(&pool, 0);
	fake_te_set_hook(end_loudly, &left);
	assert_int_equal(pool_put(client, "a", "x", 1), -800);
	assert_true(test_wait_until(nothing_used, client, POOL_START_MS));
	assert_int_equal(fake_te_n_revokes(te_store_engine(owner)), 1);
	/* Its epoch is over, and it goes on in the next. */
	assert_true(test_wait_until(put_goes_well, client, POOL_START_MS));
	assert_int_equal(pool_get(client, "a", room, 8), 1);
	assert_int_equal(room[0], 'y');
	fake_te_set_hook(NULL, NULL);
	te_store_close(client);
	te_store_close(owner);
	pool_stop(&pool);
}

static void without_a_master_setup_fails_in_time(void **state)
{
	struct te_store_config config = {
		.size = sizeof(config),
		.setup_timeout_ms = 200,
		.master = "127.0.0.1:1",
		.segment_bytes = MIB,
	};
	struct te_store *store = NULL;

	(void)state;
	assert_int_equal(te_store_setup(&config, &store), -900);
	assert_null(store);
}

static void without_waiting_setup_joins_when_the_master_comes(void **state)
{
	struct te_store_config config = {
		.size = sizeof(config),
		.setup_timeout_ms = TE_STORE_NO_WAIT,
		.segment_bytes = MIB,
	};
	struct te_store *store;
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	pool_kill(&pool);
	config.master = pool.address;
	assert_int_equal(te_store_setup(&config, &store), 0);
	assert_int_equal(te_store_health(store), -900);
	pool_restart(&pool, NULL);
	assert_true(test_wait_until(healthy, store, POOL_START_MS));
	assert_int_equal(pool_capacity(store), MIB);
	te_store_close(store);
	pool_stop(&pool);
}

static void configurations_out_of_range_are_refused(void **state)
{
	struct te_store_config config = {.size = sizeof(config)};
	struct te_store *store = NULL;

	(void)state;
	config.master = "nowhere";
	assert_int_equal(te_store_setup(&config, &store), -600);
	config.master = "host:99999";
	assert_int_equal(te_store_setup(&config, &store), -600);
	config.master = NULL;
	config.size = 8;
	assert_int_equal(te_store_setup(&config, &store), -600);
	config.size = sizeof(config);
	config.segment_bytes = UINT64_MAX;
	assert_int_equal(te_store_setup(&config, &store), -600);
	assert_int_equal(te_store_setup(NULL, &store), -600);
	assert_null(store);
	te_store_close(NULL);
}

/* ---- memory that runs out ---- */

/* Whatever happens, a result is one. */
static void check_exist(struct te_store *store)
{
	const struct te_store_key keys[] = {{.bytes = "a", .len = 1},
					    {.bytes = "", .len = 0}};
	int results[] = {77, 77};

	(void)te_store_exist(store, keys, 2, results);
	assert_true(results[0] <= 1);
	assert_int_equal(results[1], -600);
}

static void any_failed_allocation_is_an_error_and_no_more(void **state)
{
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	struct te_store *store;
	struct pool pool;
	uint8_t room[8];
	int64_t size;
	int code;

	(void)state;
	pool_start(&pool, NULL);
	while (test_faults_next(&f)) {
		struct te_store_config config = {
			.size = sizeof(config),
			.setup_timeout_ms = POOL_START_MS,
			.master = pool.address,
			.segment_bytes = MIB,
		};

		store = NULL;
		code = te_store_setup(&config, &store);
		if (code)
			continue;
		code = pool_put(store, "a", "x", 1);
		assert_true(code == 0 || code == -1 || code == -900 ||
			    code == -901 || code == -800);
		size = pool_get(store, "a", room, 8);
		assert_true(size == 1 || size < 0);
		check_exist(store);
		te_store_close(store);
	}
	pool_stop(&pool);
}

#define N_KEYS 300 /* so that replies need memory, too */

struct keys {
	struct te_store *store;
	char names[N_KEYS][16];
	struct te_store_key keys[N_KEYS];
	struct te_store_value values[N_KEYS];
	int results[N_KEYS];
};

static void name_keys(struct keys *k, unsigned int round)
{
	static const struct iovec one = {.iov_base = (void *)(uintptr_t) "x",
					 .iov_len = 1};

	for (size_t i = 0; i < N_KEYS; i++) {
		(void)snprintf(k->names[i], 16, "%u/%zu", round, i);
		k->keys[i] = pool_key(k->names[i]);
		k->values[i] =
			(struct te_store_value){.pieces = &one, .n_pieces = 1};
	}
}

static bool are_put(void *arg)
{
	struct keys *k = arg;

	return te_store_put(k->store, k->keys, k->values, N_KEYS, NULL,
			    k->results) == 0;
}

/* Keys that were begun for it are not taken for some that are there. */
static void a_put_that_had_no_memory_can_be_put_again(void **state)
{
	struct keys *k = calloc(1, sizeof(*k));
	struct te_store *owner;
	struct pool pool;
	bool struck = true;

	(void)state;
	assert_non_null(k);
	pool_start(&pool, NULL);
	owner = pool_client(&pool, 16 * MIB);
	for (unsigned int n = 1; struck; n++) {
		k->store = pool_client(&pool, 0);
		name_keys(k, n);
		tei_fault_arm(TEI_FAULT_ALLOC, n);
		(void)are_put(k);
		struck = tei_fault_struck(TEI_FAULT_ALLOC);
		tei_fault_disarm_all();
		/* An owner that was not reached may be left alone a while. */
		assert_true(test_wait_until(are_put, k, POOL_START_MS));
		assert_int_equal(
			te_store_exist(owner, k->keys, N_KEYS, k->results), 0);
		for (size_t i = 0; i < N_KEYS; i++)
			assert_int_equal(k->results[i], 1);
		te_store_close(k->store);
	}
	te_store_close(owner);
	pool_stop(&pool);
	free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clients_mount_again_at_a_new_master),
		cmocka_unit_test(access_is_ended_once_however_long_that_takes),
		cmocka_unit_test(a_stopped_master_costs_a_call_its_deadline),
		cmocka_unit_test(a_closed_owner_leaves_the_pool),
		cmocka_unit_test(a_stalled_put_is_fenced_at_its_owner),
		cmocka_unit_test(without_a_master_setup_fails_in_time),
		cmocka_unit_test(
			without_waiting_setup_joins_when_the_master_comes),
		cmocka_unit_test(configurations_out_of_range_are_refused),
		cmocka_unit_test(any_failed_allocation_is_an_error_and_no_more),
		cmocka_unit_test(a_put_that_had_no_memory_can_be_put_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
