/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_expiry.c - an owner of many objects dies, and others ask meanwhile
 *
 * TEST_OBJECTS says how many (10000 by itself). How long their calls took, with
 * it alive and while its objects are dropped, is printed, for people.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define BATCH     1000
#define VALUE_MAX 1024 /* of a value; the least is 64 */
#define N_TIMES   (1u << 20)

static uint64_t n_objects(void)
{
	const char *text = getenv("TEST_OBJECTS");

	return text ? strtoull(text, NULL, 10) : 10000;
}

/* ---- objects ---- */

static void put_batch(struct te_store *client, uint64_t from)
{
	static char names[BATCH][24];
	static const uint8_t bytes[VALUE_MAX];
	static struct te_store_key keys[BATCH];
	static struct te_store_value values[BATCH];
	static struct iovec pieces[BATCH];
	int results[BATCH];

	for (uint64_t i = 0; i < BATCH; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "k/%" PRIu64,
			       from + i);
		keys[i] = pool_key(names[i]);
		pieces[i] = (struct iovec){(void *)(uintptr_t)bytes,
					   64 + i % 16 * 64};
		values[i] = (struct te_store_value){.pieces = &pieces[i],
						    .n_pieces = 1};
	}
	assert_int_equal(
		te_store_put(client, keys, values, BATCH, NULL, results), 0);
}

static bool nothing_left(void *arg)
{
	struct te_store_pool figures;

	return te_store_pool(arg, &figures) == 0 && figures.objects == 0;
}

/* ---- who asks ---- */

struct asking {
	pthread_t thread;
	struct te_store *store;
	atomic_bool over;
	uint32_t *us; /* us[N_TIMES], the last ones */
	uint64_t n;
};

static void *ask(void *arg)
{
	struct asking *a = arg;
	struct te_store_key key = pool_key("another");
	int result;

	while (!atomic_load(&a->over)) {
		uint64_t from = tei_now_ns();

		if (te_store_exist(a->store, &key, 1, &result) || result)
			abort();
		a->us[a->n++ % N_TIMES] =
			(uint32_t)((tei_now_ns() - from) / TEI_NS_PER_US);
	}
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void ask_while(struct te_store *store, const char *what,
		      bool (*cond)(void *), void *arg)
{
	struct asking a = {.store = store,
			   .us = calloc(N_TIMES, sizeof(uint32_t))};
	uint64_t n;

	assert_non_null(a.us);
	assert_int_equal(pthread_create(&a.thread, NULL, ask, &a), 0);
	assert_true(test_wait_until(cond, arg, POOL_START_MS));
	atomic_store(&a.over, true);
	assert_int_equal(pthread_join(a.thread, NULL), 0);
	n = a.n < N_TIMES ? a.n : N_TIMES;
	qsort(a.us, n, sizeof(a.us[0]), by_value);
	if (n)
		print_message("%s: %llu calls, p50 %u us, p99 %u us, p99.9 %u "
			      "us, worst %u us\n",
			      what, (unsigned long long)a.n, a.us[n / 2],
			      a.us[n * 99 / 100], a.us[n * 999 / 1000],
			      a.us[n - 1]);
	free(a.us);
}

static bool is_over(void *until_ns)
{
	return tei_now_ns() >= *(const uint64_t *)until_ns;
}

static void a_large_owners_death_drops_all_it_had(void **state)
{
	static const char *const args[] = {"--default_kv_lease_ttl", "1s",
					   "--eviction_high_watermark_ratio",
					   "1", NULL};
	uint64_t n = n_objects(), until;
	struct te_store *client, *asker;
	struct test_process *owner;
	struct te_store_pool figures;
	struct pool pool;
	char bytes[32];

	(void)state;
	pool_start(&pool, args);
	(void)snprintf(bytes, sizeof(bytes), "%" PRIu64, (n + BATCH) * 896);
	owner = pool_owner(&pool, bytes);
	client = pool_client(&pool, 0);
	asker = pool_client(&pool, 0);
	for (uint64_t i = 0; i < n; i += BATCH)
		put_batch(client, i);
	assert_int_equal(te_store_pool(client, &figures), 0);
	assert_true(figures.objects >= n);
	until = tei_now_ns() + TEI_NS_PER_S;
	ask_while(asker, "alive", is_over, &until);
	test_process_signal(owner, SIGKILL);
	ask_while(asker, "dying", nothing_left, client);
	te_store_close(asker);
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_large_owners_death_drops_all_it_had),
	};

	setenv("TE_BACKENDS", "loop,tcp", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
