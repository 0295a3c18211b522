/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cut_off.c - owners that are silent in the middle of a get: stopped, or
 * behind a network that swallows everything
 *
 * In a network namespace of our own, over tcp. What may be read is patient, far
 * beyond what any test waits for: what has another replica must not wait so long,
 * and what has none must. How long things took is printed, for people.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/lib/netns.h"
#include "tests/lib/stat.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define N_BOTH  8 /* values that both owners have */
#define N_KEYS  (N_BOTH + 1)
#define SIZE    5000
#define READ_MS (3 * POOL_START_MS)

struct rig {
	struct pool pool;
	struct test_process *first, *second;
	struct te_store *client;
	char first_name[TE_NAME_LEN_MAX + 1];
	uint8_t rooms[N_KEYS][SIZE];
	int64_t results[N_KEYS];
	atomic_bool over; /* released by get_all(), acquired by others */
	uint64_t ms;      /* that it took */
};

/* ---- the owner, and what befalls it ---- */

/* All that comes from or goes to its address; the master it reaches by another. */
static bool cut_off(struct rig *r)
{
	(void)r;
	return !test_netns_run(0,
			       "tc qdisc add dev lo clsact && "
			       "tc filter add dev lo ingress prio 1 "
			       "protocol all bpf da bytecode "
			       "'6,32 0 0 30,21 2 0 %u,32 0 0 26,21 0 1 %u,"
			       "6 0 0 2,6 0 0 4294967295'",
			       0x7f000002u, 0x7f000002u);
}

static void join_again(struct rig *r)
{
	(void)r;
	(void)test_netns_run(0, "tc qdisc del dev lo clsact 2>&-");
}

static bool stop(struct rig *r)
{
	test_process_signal(r->first, SIGSTOP);
	return true;
}

static void go_on(struct rig *r)
{
	test_process_signal(r->first, SIGCONT);
}

struct trouble {
	bool (*begin)(struct rig *r); /* false: not here */
	void (*end)(struct rig *r);
};

static const struct trouble cutting = {cut_off, join_again};
static const struct trouble stopping = {stop, go_on};

/* ---- the pool ---- */

static struct te_store *join(const struct pool *pool)
{
	struct te_config *engine;
	struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = READ_MS,
		.replica_timeout_ms = READ_MS,
		.setup_timeout_ms = POOL_START_MS,
		.master = pool->address,
		.host = "127.0.0.3", /* or one owner were the nearer one */
	};
	struct te_store *store = NULL;

	assert_int_equal(te_config_create(&engine), 0);
	assert_int_equal(
		te_config_set(engine, "suspect_after", "500ms", NULL, 0), 0);
	config.engine_config = engine;
	assert_int_equal(te_store_setup(&config, &store), 0);
	te_config_destroy(engine);
	return store;
}

static void name_value(size_t i, char name[32])
{
	(void)snprintf(name, 32, i < N_BOTH ? "both/%zu" : "single", i);
}

/* The last one with the first owner alone; others may have seemed silent. */
static bool put_one(struct rig *r, size_t i)
{
	struct te_store_replicate how = pool_several(i < N_BOTH ? 2 : 1);
	struct te_store_replica at[POOL_REPLICAS];
	const char *preferred = r->first_name;
	struct te_store_key key;
	uint8_t bytes[SIZE];
	char name[32];
	int code;

	name_value(i, name);
	key = pool_key(name);
	how.preferred_segments = &preferred;
	how.n_preferred_segments = 1;
	pool_fill(bytes, SIZE, i);
	assert_int_equal(pool_put_as(r->client, name, bytes, SIZE, &how), 0);
	if (pool_replicas(r->client, name, at) == (int)how.replica_num &&
	    (i < N_BOTH || !strcmp(at[0].segment, r->first_name)))
		return true;
	(void)te_store_remove(r->client, &key, 1, 1, &code);
	return false;
}

static bool put_all(void *arg)
{
	for (size_t i = 0; i < N_KEYS; i++)
		if (!put_one(arg, i))
			return false;
	return true;
}

/* Its segment has its engine's name; it is the only owner yet. */
static void learn_name(struct rig *r)
{
	struct te_store_replica at[POOL_REPLICAS];

	assert_int_equal(pool_put(r->client, "name", "x", 1), 0);
	assert_int_equal(pool_replicas(r->client, "name", at), 1);
	(void)snprintf(r->first_name, sizeof(r->first_name), "%s",
		       at[0].segment);
}

static int set_up(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	pool_start(&r->pool, pool_patient);
	r->first = pool_owner_at(&r->pool, "127.0.0.2", "4 MB");
	r->client = join(&r->pool);
	learn_name(r);
	r->second = pool_owner(&r->pool, "4 MB");
	assert_true(test_wait_until(put_all, r, POOL_START_MS));
	*state = r;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *r = *state;

	join_again(r);
	te_store_close(r->client);
	test_process_end(r->first);
	test_process_end(r->second);
	pool_stop(&r->pool);
	free(r);
	return 0;
}

/* ---- getting ---- */

/* The first @n values, in one call; what came is right. Returns how many came. */
static int get(struct rig *r, size_t n)
{
	struct te_store_key keys[N_KEYS];
	struct te_store_value values[N_KEYS];
	struct iovec pieces[N_KEYS];
	char names[N_KEYS][32];
	uint64_t from = tei_now_ns();
	int n_got;

	for (size_t i = 0; i < n; i++) {
		name_value(i, names[i]);
		keys[i] = pool_key(names[i]);
		pieces[i] = (struct iovec){r->rooms[i], SIZE};
		values[i] = (struct te_store_value){.pieces = &pieces[i],
						    .n_pieces = 1};
		memset(r->rooms[i], 0, SIZE);
	}
	n_got = te_store_get(r->client, keys, values, n, r->results);
	r->ms = (tei_now_ns() - from) / TEI_NS_PER_MS;
	for (size_t i = 0; i < n; i++)
		assert_true(r->results[i] < 0 ||
			    pool_is_filled(r->rooms[i], SIZE, i));
	return n_got;
}

static uint64_t n_failed(struct rig *r, const char *why)
{
	return test_stat(te_store_engine(r->client), "te_requests_failed_total",
			 why);
}

static bool all_are_got(void *arg)
{
	return get(arg, N_KEYS) == N_KEYS;
}

static void read_elsewhere(struct rig *r, const struct trouble *t)
{
	uint64_t late;

	assert_true(test_wait_until(all_are_got, r, POOL_START_MS));
	late = n_failed(r, "timeout");
	if (!t->begin(r))
		skip();
	assert_int_equal(get(r, N_BOTH), N_BOTH);
	print_message("got after %llu ms\n", (unsigned long long)r->ms);
	assert_int_equal(n_failed(r, "timeout"), late);
}

static void what_another_has_is_read_there_when_one_is_cut_off(void **state)
{
	read_elsewhere(*state, &cutting);
	assert_true(n_failed(*state, "silent") > 0);
}

static void what_another_has_is_read_there_when_one_is_stopped(void **state)
{
	read_elsewhere(*state, &stopping);
}

static void *get_all(void *arg)
{
	struct rig *r = arg;

	(void)get(r, N_KEYS);
	atomic_store_explicit(&r->over, true, memory_order_release);
	return NULL;
}

static bool has_left_it(void *arg)
{
	return n_failed(arg, "silent") > 0 ||
	       atomic_load_explicit(&((struct rig *)arg)->over,
				    memory_order_acquire);
}

/* It comes back while the one that nobody else has is still asked for. */
static void wait_for_it(struct rig *r, const struct trouble *t)
{
	pthread_t thread;

	assert_true(test_wait_until(all_are_got, r, POOL_START_MS));
	if (!t->begin(r))
		skip();
	assert_int_equal(pthread_create(&thread, NULL, get_all, r), 0);
	assert_true(test_wait_until(has_left_it, r, READ_MS));
	t->end(r);
	assert_int_equal(pthread_join(thread, NULL), 0);
	print_message("got after %llu ms\n", (unsigned long long)r->ms);
	for (size_t i = 0; i < N_BOTH; i++)
		assert_int_equal(r->results[i], SIZE);
}

static void what_no_other_has_is_waited_for_when_it_is_cut_off(void **state)
{
	struct rig *r = *state;

	wait_for_it(r, &cutting);
	assert_true(n_failed(r, "silent") > 0);
	assert_int_equal(r->results[N_BOTH], SIZE);
}

/* Unless the master had missed three heartbeats before it was asked. */
static void what_no_other_has_is_waited_for_when_it_is_stopped(void **state)
{
	struct rig *r = *state;

	wait_for_it(r, &stopping);
	assert_int_equal(r->results[N_BOTH],
			 n_failed(r, "silent") > 0 ? SIZE
						   : TE_STORE_OBJECT_NOT_FOUND);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_another_has_is_read_there_when_one_is_cut_off),
		T(what_another_has_is_read_there_when_one_is_stopped),
		T(what_no_other_has_is_waited_for_when_it_is_cut_off),
		T(what_no_other_has_is_waited_for_when_it_is_stopped),
	};
	const char *why;

	if (test_netns_enter(&why)) {
		printf("skipped: %s\n", why);
		return 77;
	}
	setenv("TE_BACKENDS", "loop,tcp", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
