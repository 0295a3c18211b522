/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store.c - the C interface of Mooncake's store does what it says
 *
 * As its users call it; a client of te/store.h sees what became of it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compat/store_c.h"
#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define SEGMENT  (16u << 20)
#define N        64
#define LEN      10000
#define PATIENCE "100s" /* of a crowded machine */

static struct pool pool;

struct one {
	mooncake_store_t store;
	unsigned char *from, *to; /* of N values of LEN bytes */
};

static mooncake_store_t joined(void)
{
	mooncake_store_t store = mooncake_store_create();

	assert_non_null(store);
	assert_int_equal(mooncake_store_setup(store, "127.0.0.1",
					      "P2PHANDSHAKE", SEGMENT, 0, "tcp",
					      "", pool.address),
			 0);
	return store;
}

static int set_up(void **state)
{
	static const char *const patient[] = {
		"--client_ttl", "100s", "--default_kv_lease_ttl", "100s", NULL};
	struct one *one = calloc(1, sizeof(*one));

	assert_non_null(one);
	(void)setenv("MC_RPC_TIMEOUT_MS", PATIENCE, 1);
	(void)setenv("MC_RPC_CONNECT_TIMEOUT_MS", PATIENCE, 1);
	(void)setenv("TE_REPLICA_TIMEOUT", PATIENCE, 1);
	pool_start(&pool, patient);
	one->store = joined();
	one->from = malloc((size_t)2 * N * LEN);
	assert_non_null(one->from);
	one->to = one->from + (size_t)N * LEN;
	for (size_t i = 0; i < (size_t)N * LEN; i++)
		one->from[i] = (unsigned char)(i * 31 + i / 251);
	*state = one;
	return 0;
}

static int tear_down(void **state)
{
	struct one *one = *state;

	mooncake_store_destroy(one->store);
	free(one->from);
	free(one);
	pool_stop(&pool);
	return 0;
}

static void a_value_is_put_read_and_removed(void **state)
{
	struct one *one = *state;
	mooncake_store_t s = one->store;

	assert_int_equal(mooncake_store_is_exist(s, "key"), 0);
	assert_int_equal(mooncake_store_get_into(s, "key", one->to, LEN), -704);
	assert_int_equal(mooncake_store_get_size(s, "key"), -704);
	assert_int_equal(mooncake_store_put(s, "key", one->from, LEN, NULL), 0);
	assert_int_equal(mooncake_store_is_exist(s, "key"), 1);
	assert_int_equal(mooncake_store_get_size(s, "key"), LEN);
	assert_int_equal(mooncake_store_get_into(s, "key", one->to, LEN + 1),
			 LEN);
	assert_memory_equal(one->from, one->to, LEN);
	assert_int_equal(mooncake_store_get_into(s, "key", one->to, LEN - 1),
			 -600);
	/* What is there stays as it is. */
	assert_int_equal(mooncake_store_put(s, "key", "other", 5, NULL), 0);
	assert_int_equal(mooncake_store_get_size(s, "key"), LEN);
	assert_int_equal(mooncake_store_remove(s, "key", 0), -706);
	assert_int_equal(mooncake_store_remove(s, "key", 1), 0);
	assert_int_equal(mooncake_store_remove(s, "key", 1), -704);
}

static void batches_have_a_result_for_each_key(void **state)
{
	struct one *one = *state;
	const char *keys[N];
	char names[N][24];
	void *from[N], *to[N];
	int64_t got[N];
	size_t sizes[N];
	int results[N];

	for (int i = 0; i < N; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "batch-%d", i);
		keys[i] = names[i];
		from[i] = one->from + (size_t)i * LEN;
		to[i] = one->to + (size_t)i * LEN;
		sizes[i] = LEN;
	}
	sizes[3] = 0; /* refused, and no other */
	assert_int_equal(mooncake_store_batch_put_from(one->store, keys, from,
						       sizes, N, NULL, results),
			 0);
	for (int i = 0; i < N; i++)
		assert_int_equal(results[i], i == 3 ? -600 : 0);
	sizes[3] = LEN;
	assert_int_equal(
		mooncake_store_batch_is_exist(one->store, keys, N, results), 0);
	for (int i = 0; i < N; i++)
		assert_int_equal(results[i], i != 3);
	memset(one->to, 0, (size_t)N * LEN);
	assert_int_equal(mooncake_store_batch_get_into(one->store, keys, to,
						       sizes, N, got),
			 0);
	for (int i = 0; i < N; i++) {
		assert_int_equal(got[i], i == 3 ? -704 : LEN);
		if (i != 3)
			assert_memory_equal(to[i], from[i], LEN);
	}
	assert_int_equal(
		mooncake_store_remove_by_regex(one->store, "^batch-1", 1), 11);
	assert_int_equal(mooncake_store_remove_all(one->store, 1), N - 12);
}

static void empty_batches_are_fine(void **state)
{
	struct one *one = *state;
	int result = 7;

	assert_int_equal(mooncake_store_batch_put_from(one->store, NULL, NULL,
						       NULL, 0, NULL, NULL),
			 0);
	assert_int_equal(mooncake_store_batch_get_into(one->store, NULL, NULL,
						       NULL, 0, NULL),
			 0);
	assert_int_equal(
		mooncake_store_batch_is_exist(one->store, NULL, 0, &result), 0);
	assert_int_equal(result, 7);
}

static void keys_may_have_any_bytes_and_values_pieces(void **state)
{
	struct one *one = *state;
	const struct mooncake_key keys[2] = {{"a\0b", 3}, {"a\0c", 3}};
	/* One of them is empty: what is there is not looked at. */
	void *const from[4] = {one->from, NULL, one->from + 100,
			       one->from + 1000};
	void *const to[4] = {one->to, (void *)1, one->to + 100, one->to + 1000};
	const size_t sizes[4] = {100, 0, 900, 7}, per_key[2] = {3, 1};
	const struct mooncake_pieces values = {from, sizes, per_key};
	const struct mooncake_pieces room = {to, sizes, per_key};
	const char *groups[2] = {"g", NULL};
	const struct mooncake_put_options options = {
		.size = sizeof(options),
		.config = {.with_soft_pin = 1},
		.data_type = 1,
		.group_ids = groups,
		.group_ids_count = 2,
	};
	int64_t got[2];
	int results[2];

	assert_int_equal(mooncake_store_put_keys(one->store, keys, &values, 2,
						 &options, results),
			 0);
	assert_int_equal(results[0] | results[1], 0);
	assert_int_equal(mooncake_store_is_exist(one->store, "a"), 0);
	assert_int_equal(mooncake_store_size_keys(one->store, keys, 2, got), 0);
	assert_int_equal(got[0], 1000);
	memset(one->to, 0, LEN);
	assert_int_equal(
		mooncake_store_get_keys(one->store, keys, &room, 2, got), 0);
	assert_int_equal(got[0], 1000);
	assert_int_equal(got[1], 7);
	assert_memory_equal(one->to, one->from, 1007);
	assert_int_equal(
		mooncake_store_remove_keys(one->store, keys, 2, 1, results), 0);
	assert_int_equal(
		mooncake_store_exist_keys(one->store, keys, 2, results), 0);
	assert_int_equal(results[0] | results[1], 0);
}

static void how_values_are_kept_is_passed_on(void **state)
{
	struct one *one = *state;
	mooncake_store_t other = joined();
	struct te_store *client = pool_client(&pool, 0);
	struct te_store_replica replicas[POOL_REPLICAS];
	char name[300];
	const char *preferred[] = {name};
	mooncake_replicate_config_t config = {
		.preferred_segments = preferred,
		.preferred_segments_count = 1,
	};

	assert_int_equal(mooncake_store_get_hostname(other, name, sizeof(name)),
			 0);
	assert_int_equal(mooncake_store_put_from(one->store, "there", one->from,
						 LEN, &config),
			 0);
	assert_int_equal(pool_replicas(client, "there", replicas), 1);
	assert_string_equal(replicas[0].segment, name);
	config.replica_num = 33;
	assert_int_equal(mooncake_store_put_from(one->store, "many", one->from,
						 LEN, &config),
			 -600);
	te_store_close(client);
	mooncake_store_destroy(other);
}

static void bad_arguments_are_refused(void **state)
{
	mooncake_store_t s = ((struct one *)*state)->store;
	struct one *one = *state;
	char key[1026];
	int64_t got;
	int result;

	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	assert_int_equal(mooncake_store_put(s, NULL, one->from, 1, NULL), -600);
	assert_int_equal(mooncake_store_put(s, "", one->from, 1, NULL), -600);
	assert_int_equal(mooncake_store_put(s, key, one->from, 1, NULL), -600);
	assert_int_equal(mooncake_store_put(s, "k", one->from, 0, NULL), -600);
	assert_int_equal(mooncake_store_put(s, "k", NULL, 1, NULL), -600);
	assert_int_equal(mooncake_store_put_from(s, "k", one->from, 0, NULL),
			 0);
	assert_int_equal(mooncake_store_is_exist(s, "k"), 0);
	assert_int_equal(mooncake_store_get_into(s, NULL, one->to, 1), -600);
	assert_int_equal(mooncake_store_is_exist(s, NULL), -600);
	assert_int_equal(mooncake_store_remove(s, NULL, 1), -600);
	assert_int_equal(mooncake_store_remove_by_regex(s, NULL, 1), -600);
	assert_int_equal(mooncake_store_remove_by_regex(s, "(", 1), -600);
	assert_int_equal(mooncake_store_batch_is_exist(s, NULL, 1, &result),
			 -600);
	assert_int_equal(result, -600);
	got = 0;
	assert_int_equal(
		mooncake_store_batch_get_into(s, NULL, NULL, NULL, 1, &got),
		-600);
	assert_int_equal(got, -600);
	assert_int_equal(mooncake_store_get_hostname(s, NULL, 0), -600);
	assert_int_equal(mooncake_store_unregister_buffer(s, one->to), -600);
	assert_int_equal(mooncake_store_register_buffer(s, NULL, 0), -600);
}

static void memory_is_registered_once(void **state)
{
	struct one *one = *state;

	assert_int_equal(
		mooncake_store_register_buffer(one->store, one->from, LEN), 0);
	assert_int_equal(
		mooncake_store_register_buffer(one->store, one->from, LEN),
		-600);
	assert_int_equal(
		mooncake_store_unregister_buffer(one->store, one->from), 0);
	assert_int_equal(
		mooncake_store_unregister_buffer(one->store, one->from), -600);
}

/* Calls by whose memory @addr[@len] does not do: all refuse it alone. */
static void refuse_memory(struct one *one, void *addr, size_t len)
{
	mooncake_store_t s = one->store;
	const char *keys[2] = {"bad", "good"};
	void *memory[2] = {addr, one->to};
	const size_t sizes[2] = {len, 8}, per_key[1] = {2};
	const struct mooncake_key key = {"bad", 3};
	const struct mooncake_pieces pieces = {memory, sizes, per_key};
	int64_t got[2];
	int results[2];

	assert_int_equal(mooncake_store_put(s, "bad", addr, len, NULL), -600);
	assert_int_equal(mooncake_store_put_from(s, "bad", addr, len, NULL),
			 -600);
	assert_int_equal(mooncake_store_batch_put_from(s, keys, memory, sizes,
						       2, NULL, results),
			 0);
	assert_int_equal(results[0], -600);
	assert_int_equal(results[1], 0);
	(void)mooncake_store_put_keys(s, &key, &pieces, 1, NULL, results);
	assert_int_equal(results[0], -600);
	assert_int_equal(mooncake_store_is_exist(s, "bad"), 0);
	assert_int_equal(mooncake_store_get_into(s, "good", addr, len), -600);
	keys[0] = keys[1];
	assert_int_equal(
		mooncake_store_batch_get_into(s, keys, memory, sizes, 2, got),
		0);
	assert_int_equal(got[0], -600);
	assert_int_equal(got[1], 8);
	(void)mooncake_store_get_keys(
		s, &(const struct mooncake_key){"good", 4}, &pieces, 1, got);
	assert_int_equal(got[0], -600);
	assert_int_equal(mooncake_store_remove(s, "good", 1), 0);
}

static void memory_that_does_not_do_is_refused(void **state)
{
	struct one *one = *state;

	refuse_memory(one, (void *)8, 8);
	assert_int_equal(
		mooncake_store_register_buffer(one->store, one->from, 32), 0);
	refuse_memory(one, one->from + 31, 4);
	refuse_memory(one, one->from, 33);
	assert_int_equal(
		mooncake_store_unregister_buffer(one->store, one->from), 0);
}

/* Of a store that nobody may use any more, or not yet. */
static void refused(mooncake_store_t s)
{
	const size_t size = 1;
	const char *key = "key";
	int64_t got = 0;
	int result = 0;
	char room[1] = {0};
	void *buffer = room;

	assert_int_equal(mooncake_store_put(s, key, room, 1, NULL), -600);
	assert_int_equal(mooncake_store_get_into(s, key, room, 1), -600);
	assert_int_equal(mooncake_store_is_exist(s, key), -600);
	assert_int_equal(mooncake_store_get_size(s, key), -600);
	assert_int_equal(mooncake_store_remove(s, key, 0), -600);
	assert_int_equal(mooncake_store_remove_all(s, 0), -600);
	assert_int_equal(mooncake_store_remove_by_regex(s, "x", 0), -600);
	assert_int_equal(mooncake_store_register_buffer(s, room, 1), -600);
	assert_int_equal(mooncake_store_unregister_buffer(s, room), -600);
	assert_int_equal(mooncake_store_get_hostname(s, room, 1), -600);
	assert_int_equal(mooncake_store_batch_put_from(s, &key, &buffer, &size,
						       1, NULL, &result),
			 -600);
	assert_int_equal(result, -600);
	assert_int_equal(
		mooncake_store_batch_get_into(s, &key, &buffer, &size, 1, &got),
		-600);
	assert_int_equal(got, -600);
}

static void stores_that_are_not_there_are_refused(void **state)
{
	mooncake_store_t s = mooncake_store_create(), other;

	(void)state;
	refused(s);
	assert_int_equal(mooncake_store_health_check(s), 1);
	mooncake_store_destroy(s);
	other = mooncake_store_create(); /* perhaps in its place */
	refused(s);
	assert_int_equal(mooncake_store_health_check(s), -600);
	assert_int_equal(mooncake_store_close(s), -600);
	mooncake_store_destroy(s);
	refused(NULL);
	refused((mooncake_store_t)(uintptr_t)0xdeadbeef);
	mooncake_store_destroy(NULL);
	mooncake_store_destroy(other);
}

/* What a fork child may do with its parent's store: 0. */
static int try_as_child(mooncake_store_t s)
{
	char room[1] = {0};

	(void)alarm(60); /* it would hang for ever */
	if (mooncake_store_put(s, "child", room, 1, NULL) != -600 ||
	    mooncake_store_get_into(s, "child", room, 1) != -600 ||
	    mooncake_store_health_check(s) != -600 ||
	    mooncake_store_close(s) != -600)
		return 1;
	mooncake_store_destroy(s);
	return 0;
}

static void a_fork_child_has_no_store(void **state)
{
	struct one *one = *state;
	int status = -1;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child)
		_exit(try_as_child(one->store));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(mooncake_store_health_check(one->store), 0);
	assert_int_equal(mooncake_store_is_exist(one->store, "child"), 0);
}

static void a_store_is_set_up_again_after_closing(void **state)
{
	const char *const keys[] = {"local_hostname", "metadata_server",
				    "master_server_address",
				    "global_segment_size"};
	const char *const values[] = {"127.0.0.1", "P2PHANDSHAKE", pool.address,
				      "0"};
	mooncake_store_t s = joined();

	(void)state;
	assert_int_equal(mooncake_store_health_check(s), 0);
	assert_int_equal(mooncake_store_setup_pairs(s, keys, values, 4), -600);
	assert_int_equal(mooncake_store_close(s), 0);
	assert_int_equal(mooncake_store_close(s), 0);
	refused(s);
	assert_int_equal(mooncake_store_setup_pairs(s, keys, values, 4), 0);
	assert_int_equal(mooncake_store_is_exist(s, "key"), 0);
	mooncake_store_destroy(s);
}

static void a_setup_that_fails_leaves_a_store_that_can_be_set_up(void **state)
{
	mooncake_store_t s = mooncake_store_create();

	(void)state;
	assert_int_equal(mooncake_store_setup(s, NULL, NULL, 0, 0, NULL, NULL,
					      pool.address),
			 -600);
	assert_int_equal(mooncake_store_setup(s, "127.0.0.1", NULL, 1, 0, NULL,
					      NULL, pool.address),
			 -600);
	assert_int_equal(mooncake_store_setup(s, "127.0.0.1", NULL, 0, 0,
					      "rdma", "mlx5_77", pool.address),
			 -600);
	(void)setenv("MC_RPC_CONNECT_TIMEOUT_MS", "100", 1);
	assert_int_equal(mooncake_store_setup(s, "127.0.0.1", NULL, 0, 0, "tcp",
					      NULL, "127.0.0.1:1"),
			 -900);
	(void)setenv("MC_RPC_CONNECT_TIMEOUT_MS", PATIENCE, 1);
	assert_int_equal(mooncake_store_setup_pairs(s, NULL, NULL, 1), -600);
	refused(s);
	assert_int_equal(mooncake_store_setup(s, "127.0.0.1", NULL, 0, 0, NULL,
					      NULL, pool.address),
			 0);
	mooncake_store_destroy(s);
}

struct caller {
	mooncake_store_t store;
	pthread_barrier_t *begin;
};

/* Until the store is gone; then only ever refused. */
static void *call_on(void *arg)
{
	struct caller *c = arg;
	char room[64];

	(void)pthread_barrier_wait(c->begin);
	while (mooncake_store_put(c->store, "crowd", "x", 1, NULL) != -600)
		(void)mooncake_store_get_into(c->store, "crowd", room,
					      sizeof(room));
	return NULL;
}

static void a_store_is_destroyed_under_its_callers(void **state)
{
	pthread_barrier_t begin;
	pthread_t threads[8];
	struct caller caller = {.begin = &begin};

	(void)state;
	(void)pthread_barrier_init(&begin, NULL, 9);
	caller.store = joined();
	for (int i = 0; i < 8; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, call_on, &caller), 0);
	(void)pthread_barrier_wait(&begin);
	mooncake_store_destroy(caller.store);
	for (int i = 0; i < 8; i++)
		(void)pthread_join(threads[i], NULL);
	(void)pthread_barrier_destroy(&begin);
	refused(caller.store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_is_put_read_and_removed),
		cmocka_unit_test(batches_have_a_result_for_each_key),
		cmocka_unit_test(empty_batches_are_fine),
		cmocka_unit_test(keys_may_have_any_bytes_and_values_pieces),
		cmocka_unit_test(how_values_are_kept_is_passed_on),
		cmocka_unit_test(bad_arguments_are_refused),
		cmocka_unit_test(memory_is_registered_once),
		cmocka_unit_test(memory_that_does_not_do_is_refused),
		cmocka_unit_test(stores_that_are_not_there_are_refused),
		cmocka_unit_test(a_fork_child_has_no_store),
		cmocka_unit_test(a_store_is_set_up_again_after_closing),
		cmocka_unit_test(
			a_setup_that_fails_leaves_a_store_that_can_be_set_up),
		cmocka_unit_test(a_store_is_destroyed_under_its_callers),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
