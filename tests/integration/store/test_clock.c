/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_clock.c - a master whose wall clock is stepped, under load: no lease, no
 * put under way and no member is over sooner or later for that
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/lib/wall.h"
#include "tests/store/pool.h"

#define MIB      ((uint64_t)1 << 20)
#define DAY_S    86400LL
#define N_LEASED 20u
#define N_CALLS  500u /* of the load, between two steps */
#define SIZE     4096u

static const long long steps[] = {DAY_S,        400 * DAY_S, -800 * DAY_S,
				  -400 * DAY_S, 3600,        0};

static const char *const long_leases[] = {"--default_kv_lease_ttl",
					  "300s",
					  "--client_ttl",
					  "100s",
					  "--put_start_discard_timeout_sec",
					  "300s",
					  NULL};
static const char *const short_leases[] = {"--default_kv_lease_ttl", "200ms",
					   "--client_ttl", "100s", NULL};

struct rig {
	struct test_wall wall;
	struct pool pool;
	struct te_store *owner, *client;
	pthread_t load;
	atomic_bool stop;
	atomic_uint n_calls, n_wrong;
};

static void rig_start(struct rig *r, const char *const *args)
{
	memset(r, 0, sizeof(*r));
	test_wall_init(&r->wall);
	test_wall_enter(&r->wall);
	pool_start(&r->pool, args);
	test_wall_leave();
	r->owner = pool_client(&r->pool, 16 * MIB);
	r->client = pool_client(&r->pool, 0);
}

static void rig_stop(struct rig *r)
{
	te_store_close(r->client);
	te_store_close(r->owner);
	pool_stop(&r->pool);
	test_wall_fini(&r->wall);
}

/* ---- load ---- */

static void *run_load(void *arg)
{
	struct rig *r = arg;
	uint8_t bytes[SIZE], room[SIZE];
	char name[32];

	for (unsigned int i = 0; !atomic_load(&r->stop); i++) {
		(void)snprintf(name, sizeof(name), "load/%u", i % 100);
		pool_fill(bytes, SIZE, i % 100);
		if (pool_put(r->client, name, bytes, SIZE) ||
		    pool_get(r->client, name, room, SIZE) != SIZE ||
		    memcmp(room, bytes, SIZE) != 0)
			atomic_fetch_add(&r->n_wrong, 1);
		atomic_fetch_add(&r->n_calls, 1);
	}
	return NULL;
}

static void start_load(struct rig *r)
{
	assert_int_equal(pthread_create(&r->load, NULL, run_load, r), 0);
}

static void stop_load(struct rig *r)
{
	atomic_store(&r->stop, true);
	assert_int_equal(pthread_join(r->load, NULL), 0);
	assert_int_equal(atomic_load(&r->n_wrong), 0);
}

struct goal {
	struct rig *rig;
	unsigned int n_calls;
};

static bool has_gone_on(void *arg)
{
	const struct goal *goal = arg;

	return atomic_load(&goal->rig->n_calls) >= goal->n_calls;
}

/*
 * The master has served the load since, by the monotonic clock. It asks the other
 * for what it logs, not for each call: a jump may look like a pause of its own,
 * and leases go on then.
 */
static void step(struct rig *r, long long shift_s)
{
	struct test_wall_page *page = r->wall.page;
	unsigned long long monotonic = atomic_load(&page->n_monotonic);
	unsigned long long wall = atomic_load(&page->n_wall);
	struct goal goal;

	atomic_store(&page->shift_s, shift_s);
	goal = (struct goal){r, atomic_load(&r->n_calls) + N_CALLS};
	assert_true(test_wait_until(has_gone_on, &goal, POOL_START_MS));
	assert_true(atomic_load(&page->n_monotonic) > monotonic + N_CALLS);
	assert_true(atomic_load(&page->n_wall) < wall + N_CALLS);
}

/* ---- leases ---- */

static int remove_leased(struct te_store *client, unsigned int i)
{
	struct te_store_key key;
	char name[32];
	int code;

	(void)snprintf(name, sizeof(name), "leased/%u", i);
	key = pool_key(name);
	(void)te_store_remove(client, &key, 1, 0, &code);
	return code;
}

static void put_leased(struct te_store *client)
{
	uint8_t room[8];
	char name[32];

	for (unsigned int i = 0; i < N_LEASED; i++) {
		(void)snprintf(name, sizeof(name), "leased/%u", i);
		assert_int_equal(pool_put(client, name, "leased", 6), 0);
		assert_int_equal(pool_get(client, name, room, 8), 6);
	}
}

static void check_members(struct rig *r)
{
	struct te_store_pool figures;

	assert_int_equal(te_store_pool(r->client, &figures), 0);
	assert_int_equal(figures.capacity_bytes, 16 * MIB);
	assert_int_equal(figures.owners, 1);
	assert_int_equal(figures.evicted_objects, 0);
}

static void leases_and_puts_outlive_a_clock_that_jumps(void **state)
{
	const struct te_store_key key = pool_key("draft");
	const struct te_store_range all = {.addr = (char[]){"draft"},
					   .length = 5};
	const uint64_t size = 5;
	int64_t written;
	struct rig r;
	int code;

	(void)state;
	rig_start(&r, long_leases);
	put_leased(r.client);
	assert_int_equal(
		te_store_put_open(r.client, &key, &size, 1, NULL, &code), 0);
	start_load(&r);
	for (size_t i = 0; i < TEST_COUNT(steps); i++) {
		step(&r, steps[i]);
		for (unsigned int k = 0; k < N_LEASED; k++)
			assert_int_equal(remove_leased(r.client, k),
					 TE_STORE_OBJECT_HAS_LEASE);
		check_members(&r);
	}
	stop_load(&r);
	assert_int_equal(
		te_store_put_ranges(r.client, &key, 1, &all, 1, &written), 1);
	assert_int_equal(te_store_put_commit(r.client, &key, 1, &code), 0);
	print_message(
		"%zu steps, %u puts and gets, %llu readings of the "
		"monotonic clock, %llu of the other\n",
		TEST_COUNT(steps), atomic_load(&r.n_calls),
		(unsigned long long)atomic_load(&r.wall.page->n_monotonic),
		(unsigned long long)atomic_load(&r.wall.page->n_wall));
	rig_stop(&r);
}

static bool all_removed(void *arg)
{
	for (unsigned int i = 0; i < N_LEASED; i++) {
		int code = remove_leased(arg, i);

		if (code && code != TE_STORE_OBJECT_NOT_FOUND)
			return false;
	}
	return true;
}

static void leases_end_though_the_clock_jumps_back(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, short_leases);
	start_load(&r);
	put_leased(r.client);
	step(&r, -800 * DAY_S);
	assert_true(test_wait_until(all_removed, r.client, POOL_START_MS));
	stop_load(&r);
	rig_stop(&r);
}

/* Else the others would prove nothing. */
static void the_clock_is_moved_for_whom_it_is_meant(void **state)
{
	static const char *const args[] = {"-u", "+year %Y", NULL};
	struct test_process *date;
	struct test_wall wall;

	(void)state;
	test_wall_init(&wall);
	test_wall_enter(&wall);
	atomic_store(&wall.page->shift_s, 36525 * DAY_S); /* a century */
	date = test_process_start("/bin/date", args);
	test_wall_leave();
	assert_non_null(test_process_line(date, "year 21", POOL_START_MS));
	assert_int_equal(test_process_wait(date, POOL_START_MS), 0);
	test_process_end(date);
	assert_true(atomic_load(&wall.page->n_wall) > 0);
	test_wall_fini(&wall);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_clock_is_moved_for_whom_it_is_meant),
		cmocka_unit_test(leases_and_puts_outlive_a_clock_that_jumps),
		cmocka_unit_test(leases_end_though_the_clock_jumps_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
