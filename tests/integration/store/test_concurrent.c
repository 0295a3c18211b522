/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_concurrent.c - many clients and threads at once, also while processes die
 *
 * A key's bytes follow from the key, so every get can be compared: whatever
 * happens to whom, a get is a miss, an error, or right.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/client/client.h"
#include "store/proto/store.pb-c.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define KIB      1024u
#define MIB      (1024u * KIB)
#define VALUE    (16u * KIB)
#define N_KEYS   100u
#define STEP_MS  1000  /* of a call to the master, of a replica */
#define SLACK_MS 10000 /* for machines that have other things to do */

static void name_key(char key[32], uint64_t id)
{
	(void)snprintf(key, 32, "crowd/%d", (int)id);
}

/* ---- everybody puts and gets everything ---- */

struct worker {
	struct te_store *client;
	unsigned int n, n_rounds;
	const atomic_bool *stop;  /* else: n_rounds */
	atomic_uint n_put, n_got; /* since it began */
	unsigned int n_wrong, n_odd;
	uint64_t longest_get_ms;
};

/* What may be said while masters and owners come and go. */
static bool is_clear(int64_t code)
{
	return code == -200 || code == -704 || code == -800 || code == -900 ||
	       code == -901;
}

static void turn(struct worker *w, uint64_t id)
{
	uint8_t bytes[VALUE];
	uint64_t from, took_ms;
	char key[32];
	int64_t size;
	int code;

	name_key(key, id);
	pool_fill(bytes, sizeof(bytes), id);
	code = pool_put(w->client, key, bytes, sizeof(bytes));
	w->n_put += code == 0;
	w->n_odd += code && !is_clear(code);
	memset(bytes, 0, sizeof(bytes));
	from = tei_now_ns();
	size = pool_get(w->client, key, bytes, sizeof(bytes));
	took_ms = (tei_now_ns() - from) / TEI_NS_PER_MS;
	if (took_ms > w->longest_get_ms)
		w->longest_get_ms = took_ms;
	w->n_got += size == VALUE;
	w->n_odd += size != VALUE && !is_clear(size);
	w->n_wrong += size > 0 && !pool_is_filled(bytes, sizeof(bytes), id);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned int i;

	for (i = 0; w->stop ? !atomic_load(w->stop) : i < w->n_rounds; i++)
		turn(w, (i + w->n * 31) % N_KEYS);
	return NULL;
}

static void start_work(struct worker *w, pthread_t *threads, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]),
				 0);
}

static void end_work(struct worker *w, pthread_t *threads, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (i = 0; i < n; i++) {
		assert_int_equal(w[i].n_wrong, 0);
		assert_int_equal(w[i].n_odd, 0);
		assert_true(w[i].n_got > 0);
	}
}

static void check_all_there(struct te_store *client)
{
	uint8_t bytes[VALUE];
	char key[32];
	uint64_t id;

	for (id = 0; id < N_KEYS; id++) {
		name_key(key, id);
		assert_int_equal(pool_get(client, key, bytes, sizeof(bytes)),
				 VALUE);
		assert_true(pool_is_filled(bytes, sizeof(bytes), id));
	}
}

static void sixty_four_threads_share_a_client(void **state)
{
	static struct worker workers[64];
	pthread_t threads[64];
	struct test_process *owner;
	struct te_store *client;
	struct pool pool;
	size_t i;

	(void)state;
	pool_start(&pool, pool_patient);
	owner = pool_owner(&pool, "8 MB");
	client = pool_client(&pool, 0);
	for (i = 0; i < 64; i++)
		workers[i] = (struct worker){.client = client,
					     .n = (unsigned int)i,
					     .n_rounds = N_KEYS};
	start_work(workers, threads, 64);
	end_work(workers, threads, 64);
	check_all_there(client);
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
}

static void clients_may_put_the_same_keys_at_once(void **state)
{
	struct worker workers[2] = {0};
	struct te_store *clients[2];
	struct test_process *owner;
	pthread_t threads[2];
	struct pool pool;
	size_t i;

	(void)state;
	pool_start(&pool, pool_patient);
	owner = pool_owner(&pool, "8 MB");
	for (i = 0; i < 2; i++) {
		clients[i] = pool_client(&pool, 0);
		/* Both over the same keys in the same order. */
		workers[i] = (struct worker){.client = clients[i],
					     .n_rounds = N_KEYS};
	}
	start_work(workers, threads, 2);
	end_work(workers, threads, 2);
	for (i = 0; i < 2; i++) {
		assert_int_equal(workers[i].n_put, N_KEYS);
		check_all_there(clients[i]);
		te_store_close(clients[i]);
	}
	test_process_end(owner);
	pool_stop(&pool);
}

/* ---- while masters and owners die ---- */

#define N_WORKERS 4

struct load {
	struct worker workers[N_WORKERS];
	pthread_t threads[N_WORKERS];
	struct te_store *clients[2]; /* that give up soon */
	atomic_bool stop;
	unsigned int seen[N_WORKERS];
};

static void load_start(struct load *l, const struct pool *pool)
{
	size_t i;

	memset(l, 0, sizeof(*l));
	for (i = 0; i < 2; i++)
		l->clients[i] = pool_hasty_client(pool, 0, STEP_MS, STEP_MS);
	for (i = 0; i < N_WORKERS; i++)
		l->workers[i] = (struct worker){.client = l->clients[i % 2],
						.n = (unsigned int)i,
						.stop = &l->stop};
	start_work(l->workers, l->threads, N_WORKERS);
}

static void load_stop(struct load *l)
{
	size_t i;

	atomic_store(&l->stop, true);
	end_work(l->workers, l->threads, N_WORKERS);
	for (i = 0; i < N_WORKERS; i++)
		assert_true(l->workers[i].longest_get_ms <=
			    2 * STEP_MS + SLACK_MS);
	te_store_close(l->clients[0]);
	te_store_close(l->clients[1]);
}

static bool all_went_on(void *arg)
{
	struct load *l = arg;
	size_t i;

	for (i = 0; i < N_WORKERS; i++)
		if (atomic_load(&l->workers[i].n_got) < l->seen[i] + 50)
			return false;
	return true;
}

/* Until every worker has got 50 more values. */
static void load_goes_on(struct load *l)
{
	size_t i;

	for (i = 0; i < N_WORKERS; i++)
		l->seen[i] = atomic_load(&l->workers[i].n_got);
	assert_true(test_wait_until(all_went_on, l, POOL_START_MS));
}

static void masters_die_under_load_and_no_byte_is_wrong(void **state)
{
	static const char *const hasty[] = {"--put_start_discard_timeout_sec",
					    "2s", NULL};
	struct test_process *owners[2];
	static struct load load;
	struct pool pool;
	int i;

	(void)state;
	pool_start(&pool, hasty);
	/* Less than all keys: space is used again and again. */
	owners[0] = pool_owner(&pool, "512 KB");
	owners[1] = pool_owner(&pool, "512 KB");
	load_start(&load, &pool);
	for (i = 0; i < 3; i++) {
		load_goes_on(&load);
		pool_kill(&pool);
		pool_restart(&pool, hasty);
	}
	load_goes_on(&load);
	pool_await_capacity(load.clients[0], MIB);
	load_stop(&load);
	test_process_end(owners[0]);
	test_process_end(owners[1]);
	pool_stop(&pool);
}

static void owners_die_under_load_and_no_byte_is_wrong(void **state)
{
	struct test_process *stays, *dies;
	static struct load load;
	struct pool pool;
	int i;

	(void)state;
	pool_start(&pool, NULL);
	stays = pool_owner(&pool, "512 KB");
	dies = pool_owner(&pool, "512 KB");
	load_start(&load, &pool);
	for (i = 0; i < 3; i++) {
		load_goes_on(&load);
		test_process_signal(dies, SIGKILL);
		test_process_end(dies);
		dies = pool_owner(&pool, "512 KB");
	}
	load_goes_on(&load);
	pool_await_capacity(load.clients[0], MIB);
	load_stop(&load);
	test_process_end(dies);
	test_process_end(stays);
	pool_stop(&pool);
}

/*
 * How many of the keys are no misses. A killed process keeps its connections
 * until its memory is gone, and the master has to see that they ended: for so
 * long its objects are those of an owner that does not answer.
 */
static unsigned int count_others(struct te_store *client)
{
	uint8_t bytes[VALUE];
	unsigned int n = 0;
	char key[32];
	uint64_t id;

	for (id = 0; id < N_KEYS; id++) {
		int64_t size;

		name_key(key, id);
		size = pool_get(client, key, bytes, sizeof(bytes));
		if (size != -704 && size != -800)
			assert_int_equal(size, VALUE);
		n += size != -704;
	}
	return n;
}

static bool only_misses(void *arg)
{
	return count_others(arg) == 0;
}

static void objects_of_a_killed_owner_are_soon_misses(void **state)
{
	struct test_process *owner;
	struct te_store *client;
	struct worker w;
	struct pool pool;

	(void)state;
	pool_start(&pool, NULL);
	owner = pool_owner(&pool, "8 MB");
	client = pool_client(&pool, 0);
	w = (struct worker){.client = client, .n_rounds = N_KEYS};
	(void)work(&w);
	check_all_there(client);
	test_process_signal(owner, SIGKILL);
	assert_true(test_wait_until(only_misses, client, SLACK_MS));
	pool_await_capacity(client, 0);
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
}

/* ---- a pool that is really full ---- */

/* Look up as a get does, and keep the lease. */
static void lease(struct te_store *client, uint64_t id)
{
	Store__Lookup msg = STORE__LOOKUP__INIT;
	Store__LookupReply *found;
	struct tes_reply reply;
	struct tei_arena arena;
	uint32_t len;
	char key[32];

	name_key(key, id);
	len = (uint32_t)strlen(key);
	msg.n_key_lens = 1;
	msg.key_lens = &len;
	msg.keys.data = (uint8_t *)key;
	msg.keys.len = len;
	tei_arena_init(&arena, MIB);
	assert_int_equal(tes_store_call(client, STORE__STORE_TYPE__STORE_LOOKUP,
					&msg.base, &arena,
					tes_call_deadline(client), &reply),
			 0);
	found = store__lookup_reply__unpack(&arena.pb, reply.len, reply.body);
	assert_non_null(found);
	assert_int_equal(found->status[0], 0);
	tei_arena_fini(&arena);
}

static void a_pool_is_full_only_when_nothing_can_go(void **state)
{
	static const char *const long_leases[] = {
		"--default_kv_lease_ttl", "60s", "--client_ttl", "100s", NULL};
	struct te_store_pool before, after;
	uint8_t bytes[VALUE];
	struct test_process *owner;
	struct te_store *client;
	struct pool pool;
	char key[32];
	uint64_t id;

	(void)state;
	pool_start(&pool, long_leases);
	owner = pool_owner(&pool, "256 KB");
	client = pool_client(&pool, 0);
	for (id = 0; id < 8; id++) {
		name_key(key, id);
		pool_fill(bytes, sizeof(bytes), id);
		assert_int_equal(pool_put(client, key, bytes, sizeof(bytes)),
				 0);
		lease(client, id);
	}
	assert_int_equal(te_store_pool(client, &before), 0);
	/* More than is left; smaller than the segment. */
	{
		uint8_t *big = calloc(1, 200 * KIB);

		assert_non_null(big);
		assert_int_equal(pool_put(client, "big", big, 200 * KIB), -200);
		free(big);
	}
	assert_int_equal(te_store_pool(client, &after), 0);
	assert_int_equal(after.used_bytes, before.used_bytes);
	assert_int_equal(after.evicted_objects, before.evicted_objects);
	for (id = 0; id < 8; id++) {
		name_key(key, id);
		assert_int_equal(pool_get(client, key, bytes, sizeof(bytes)),
				 VALUE);
		assert_true(pool_is_filled(bytes, sizeof(bytes), id));
	}
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sixty_four_threads_share_a_client),
		cmocka_unit_test(clients_may_put_the_same_keys_at_once),
		cmocka_unit_test(masters_die_under_load_and_no_byte_is_wrong),
		cmocka_unit_test(owners_die_under_load_and_no_byte_is_wrong),
		cmocka_unit_test(objects_of_a_killed_owner_are_soon_misses),
		cmocka_unit_test(a_pool_is_full_only_when_nothing_can_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
