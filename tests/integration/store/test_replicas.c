/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_replicas.c - several replicas, several extents, and owners that go
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define KIB      1024u
#define MIB      (1024u * KIB)
#define N_OWNERS 3

struct world {
	struct pool pool;
	struct test_process *owners[N_OWNERS];
	struct te_store *client;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	int i;

	assert_non_null(w);
	pool_start(&w->pool, pool_patient);
	for (i = 0; i < N_OWNERS; i++)
		w->owners[i] = pool_owner(&w->pool, "16 MB");
	w->client = pool_client(&w->pool, 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;
	int i;

	te_store_close(w->client);
	for (i = 0; i < N_OWNERS; i++)
		test_process_end(w->owners[i]);
	pool_stop(&w->pool);
	free(w);
	return 0;
}

/* ---- where they lie ---- */

static void replicas_lie_with_different_owners(void **state)
{
	const struct te_store_replicate how = pool_several(3);
	struct te_store_replica at[POOL_REPLICAS];
	struct world *w = *state;
	uint8_t bytes[5000], room[5000];

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(
		pool_put_as(w->client, "a", bytes, sizeof(bytes), &how), 0);
	assert_int_equal(pool_replicas(w->client, "a", at), 3);
	assert_string_not_equal(at[0].segment, at[1].segment);
	assert_string_not_equal(at[0].segment, at[2].segment);
	assert_string_not_equal(at[1].segment, at[2].segment);
	assert_int_equal(at[2].size, 5000);
	assert_int_equal(at[2].status, TE_STORE_REPLICA_COMPLETE);
	assert_int_equal(at[2].n_extents, 1);
	assert_int_equal(pool_get(w->client, "a", room, sizeof(room)), 5000);
	assert_memory_equal(room, bytes, sizeof(room));
	assert_int_equal(pool_replicas(w->client, "missing", at), -704);
}

static void no_more_than_there_are_owners(void **state)
{
	const struct te_store_replicate how = pool_several(32);
	struct te_store_replica at[POOL_REPLICAS];
	struct world *w = *state;

	assert_int_equal(pool_put_as(w->client, "b", "x", 1, &how), 0);
	assert_int_equal(pool_replicas(w->client, "b", at), N_OWNERS);
}

static void preferred_segments_are_tried_first(void **state)
{
	struct te_store_replicate how = pool_several(3);
	struct te_store_replica at[POOL_REPLICAS], there[POOL_REPLICAS];
	struct world *w = *state;
	const char *preferred[1];
	char name[32];
	int i, k;

	assert_int_equal(pool_put_as(w->client, "c", "x", 1, &how), 0);
	assert_int_equal(pool_replicas(w->client, "c", at), 3);
	how.replica_num = 1;
	how.preferred_segments = preferred;
	how.n_preferred_segments = 1;
	for (i = 0; i < N_OWNERS; i++) {
		preferred[0] = at[i].segment;
		for (k = 0; k < 5; k++) {
			(void)snprintf(name, sizeof(name), "c/%d/%d", i, k);
			assert_int_equal(
				pool_put_as(w->client, name, "x", 1, &how), 0);
			assert_int_equal(pool_replicas(w->client, name, there),
					 1);
			assert_string_equal(there[0].segment, at[i].segment);
		}
	}
}

static void wrong_configs_store_nothing(void **state)
{
	const char *bad_name[] = {"two words"};
	const char *groups[] = {"g", "h"};
	struct world *w = *state;
	struct te_store_replicate bad[12];
	uint8_t room[8];
	size_t i;

	for (i = 0; i < TEST_COUNT(bad); i++)
		bad[i] = pool_several(1);
	bad[0].size = 0;
	bad[1].replica_num = 0;
	bad[2].replica_num = 33;
	bad[3].replica_num = 1u << 31;
	bad[4].soft_pin_action = 3;
	bad[5].soft_pin_action = TE_STORE_SOFT_PIN_ENABLE;
	bad[5].soft_pin_ttl_ms = 86400001;
	bad[6].flags = 4;
	bad[7].reserved[3] = 1;
	bad[8].preferred_segments = bad_name;
	bad[8].n_preferred_segments = 1;
	bad[9].n_preferred_segments = 1;
	bad[10].group_ids = groups; /* for a call of one key */
	bad[10].n_group_ids = 2;
	bad[11].data_type = 10;
	for (i = 0; i < TEST_COUNT(bad); i++) {
		const struct te_store_key key = pool_key("d");
		const struct iovec piece = {"x", 1};
		const struct te_store_value value = {.pieces = &piece,
						     .n_pieces = 1};
		int result = 7;

		assert_int_equal(te_store_put(w->client, &key, &value, 1,
					      &bad[i], &result),
				 -600);
		assert_int_equal(te_store_upsert(w->client, &key, &value, 1,
						 &bad[i], &result),
				 -600);
		assert_int_equal(result, 7);
	}
	assert_int_equal(pool_get(w->client, "d", room, sizeof(room)), -704);
}

/* ---- several extents ---- */

/* Fill a pool of one owner with pinned objects; every other one goes. */
static void make_holes(struct te_store *store, size_t size)
{
	struct te_store_replicate how = pool_several(1);
	uint8_t *bytes = calloc(1, size);
	char name[32];
	int n = 0, i, result;

	assert_non_null(bytes);
	how.flags = TE_STORE_HARD_PIN;
	do {
		(void)snprintf(name, sizeof(name), "pinned/%d", n++);
		result = pool_put_as(store, name, bytes, size, &how);
	} while (!result);
	assert_int_equal(result, -200);
	for (i = 0; i < n - 1; i += 2) {
		struct te_store_key key;

		(void)snprintf(name, sizeof(name), "pinned/%d", i);
		key = pool_key(name);
		assert_int_equal(te_store_remove(store, &key, 1, 1, &result),
				 0);
	}
	free(bytes);
}

static void
a_value_lies_in_several_holes_when_none_is_large_enough(void **state)
{
	const struct te_store_key key = pool_key("large");
	struct te_store_replica at[POOL_REPLICAS];
	struct test_process *owner;
	struct te_store_range range;
	struct te_store *client;
	struct pool pool;
	uint8_t *bytes = malloc(MIB), *room = malloc(MIB);
	int64_t result;

	(void)state;
	assert_non_null(bytes);
	assert_non_null(room);
	pool_start(&pool, pool_patient);
	owner = pool_owner(&pool, "8 MB");
	client = pool_client(&pool, 0);
	make_holes(client, 256 * KIB - 64);
	pool_fill(bytes, MIB, 5);
	assert_int_equal(pool_put(client, "large", bytes, MIB), 0);
	assert_int_equal(pool_replicas(client, "large", at), 1);
	assert_true(at[0].n_extents > 1);
	assert_int_equal(pool_get(client, "large", room, MIB), MIB);
	assert_memory_equal(room, bytes, MIB);
	/* Over all borders, and a little at one end. */
	memset(room, 0, MIB);
	range = (struct te_store_range){
		.offset = 1, .addr = room, .length = MIB - 2};
	assert_int_equal(
		te_store_get_ranges(client, &key, 1, &range, 1, &result), 1);
	assert_int_equal(result, MIB - 2);
	assert_memory_equal(room, bytes + 1, MIB - 2);
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
	free(bytes);
	free(room);
}

/* How many values of 1 MiB, never evicted, fit a segment of @room bytes. */
static int count_fit(uint64_t room_bytes)
{
	struct te_store_replicate how = pool_several(1);
	uint8_t *bytes = calloc(1, MIB);
	struct te_store *store;
	struct pool pool;
	char name[32];
	int n = 0;

	assert_non_null(bytes);
	how.flags = TE_STORE_HARD_PIN;
	pool_start(&pool, pool_patient);
	store = pool_client(&pool, room_bytes);
	do
		(void)snprintf(name, sizeof(name), "pinned/%d", n);
	while (!pool_put_as(store, name, bytes, MIB, &how) && ++n);
	te_store_close(store);
	pool_stop(&pool);
	free(bytes);
	return n;
}

/* As docs/compatibility.md says. */
static void a_value_takes_64_bytes_beside_its_own(void **state)
{
	(void)state;
	assert_int_equal(count_fit(16 * MIB), 15);
	assert_int_equal(count_fit(16 * (MIB + 64)), 16);
}

/* ---- owners that go ---- */

#define N_KEYS 60

static void put_replicated(struct te_store *store)
{
	uint8_t bytes[5000];
	char name[32];
	uint64_t i;

	for (i = 0; i < N_KEYS; i++) {
		(void)snprintf(name, sizeof(name), "k/%d", (int)i);
		pool_fill(bytes, sizeof(bytes), i);
		pool_put_twice(store, name, bytes, sizeof(bytes));
	}
}

/* How many come back in one call; every one of them right. */
static int count_there(struct te_store *store)
{
	static uint8_t rooms[N_KEYS][5000];
	static char names[N_KEYS][32];
	struct te_store_key keys[N_KEYS];
	struct te_store_value values[N_KEYS];
	struct iovec pieces[N_KEYS];
	int64_t results[N_KEYS];
	uint64_t i;
	int n;

	memset(rooms, 0, sizeof(rooms));
	for (i = 0; i < N_KEYS; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "k/%d", (int)i);
		keys[i] = pool_key(names[i]);
		pieces[i] = (struct iovec){rooms[i], sizeof(rooms[i])};
		values[i] = (struct te_store_value){.pieces = &pieces[i],
						    .n_pieces = 1};
	}
	n = te_store_get(store, keys, values, N_KEYS, results);
	for (i = 0; i < N_KEYS; i++)
		assert_true(results[i] < 0 ||
			    pool_is_filled(rooms[i], sizeof(rooms[i]), i));
	return n;
}

/*
 * An owner that is alive may seem not to be where many processes share few
 * CPUs; one that is not comes back by no number of tries.
 */
static bool they_are_there(void *arg)
{
	return count_there(arg) == N_KEYS;
}

static void all_are_there(struct te_store *store)
{
	assert_true(test_wait_until(they_are_there, store, POOL_START_MS));
}

/* Two owners, replicas with both; @client has read them and knows both. */
static void start_two(struct pool *pool, struct test_process *owners[2],
		      struct te_store **client)
{
	pool_start(pool, pool_patient);
	owners[0] = pool_owner(pool, "8 MB");
	owners[1] = pool_owner(pool, "8 MB");
	*client = pool_hasty_client(pool, 0, 30000, 1000);
	put_replicated(*client);
	all_are_there(*client);
}

static void kill_one(void)
{
	struct test_process *owners[2];
	struct te_store *client, *late;
	struct pool pool;

	start_two(&pool, owners, &client);
	test_process_signal(owners[0], SIGKILL);
	all_are_there(client);
	late = pool_hasty_client(&pool, 0, 30000, 1000);
	all_are_there(late);
	te_store_close(late);
	te_store_close(client);
	test_process_end(owners[0]);
	test_process_end(owners[1]);
	pool_stop(&pool);
}

static void stop_one(void)
{
	struct test_process *owners[2];
	struct te_store *client, *late;
	struct pool pool;

	start_two(&pool, owners, &client);
	test_process_signal(owners[1], SIGSTOP);
	all_are_there(client);
	late = pool_hasty_client(&pool, 0, 30000, 1000);
	all_are_there(late);
	test_process_signal(owners[1], SIGCONT);
	all_are_there(client);
	te_store_close(late);
	te_store_close(client);
	test_process_end(owners[0]);
	test_process_end(owners[1]);
	pool_stop(&pool);
}

/* Processes that are started from here on, and we, have only this backend. */
static void only_over(const char *backend)
{
	assert_int_equal(setenv("TE_BACKENDS", backend, 1), 0);
}

static int over_all(void **state)
{
	(void)state;
	return unsetenv("TE_BACKENDS");
}

static void a_killed_owner_costs_no_object(void **state)
{
	(void)state;
	kill_one();
}

static void a_killed_owner_costs_no_object_over_tcp(void **state)
{
	(void)state;
	only_over("tcp");
	kill_one();
}

static void a_stopped_owner_costs_no_object(void **state)
{
	(void)state;
	stop_one();
}

static void a_stopped_owner_costs_no_object_over_tcp(void **state)
{
	(void)state;
	only_over("tcp");
	stop_one();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replicas_lie_with_different_owners),
		cmocka_unit_test(no_more_than_there_are_owners),
		cmocka_unit_test(preferred_segments_are_tried_first),
		cmocka_unit_test(wrong_configs_store_nothing),
		cmocka_unit_test(
			a_value_lies_in_several_holes_when_none_is_large_enough),
		cmocka_unit_test(a_value_takes_64_bytes_beside_its_own),
		cmocka_unit_test(a_killed_owner_costs_no_object),
		cmocka_unit_test(a_stopped_owner_costs_no_object),
		cmocka_unit_test_teardown(
			a_killed_owner_costs_no_object_over_tcp, over_all),
		cmocka_unit_test_teardown(
			a_stopped_owner_costs_no_object_over_tcp, over_all),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
