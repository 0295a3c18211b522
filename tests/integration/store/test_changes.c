/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_changes.c - values that are replaced, objects and replicas taken out
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define LONG 300u

struct world {
	struct pool pool;
	struct test_process *owner;
	struct te_store *client;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	pool_start(&w->pool, pool_patient);
	w->owner = pool_owner(&w->pool, "4 MB");
	w->client = pool_client(&w->pool, 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	te_store_close(w->client);
	test_process_end(w->owner);
	pool_stop(&w->pool);
	free(w);
	return 0;
}

/* ---- upsert ---- */

static int upsert(struct te_store *store, const char *name, const void *bytes,
		  size_t len)
{
	const struct te_store_key key = pool_key(name);
	const struct iovec piece = {(void *)(uintptr_t)bytes, len};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	int result = 1;

	(void)te_store_upsert(store, &key, &value, 1, NULL, &result);
	return result;
}

static void an_upsert_takes_the_place_of_what_is_there(void **state)
{
	const struct world *w = *state;
	uint8_t room[16];

	assert_int_equal(upsert(w->client, "u", "first", 5), 0);
	assert_int_equal(pool_get(w->client, "u", room, sizeof(room)), 5);
	assert_int_equal(upsert(w->client, "u", "other", 5), 0);
	assert_int_equal(pool_get(w->client, "u", room, sizeof(room)), 5);
	assert_memory_equal(room, "other", 5);
	assert_int_equal(upsert(w->client, "u", "longer!", 7), 0);
	assert_int_equal(pool_get(w->client, "u", room, sizeof(room)), 7);
	assert_memory_equal(room, "longer!", 7);
	assert_int_equal(pool_put(w->client, "u", "no", 2), 0);
	assert_int_equal(pool_get(w->client, "u", room, sizeof(room)), 7);
}

static void a_key_twice_in_an_upsert_counts_once(void **state)
{
	const struct te_store_key keys[2] = {pool_key("v"), pool_key("v")};
	const struct iovec pieces[2] = {{"one", 3}, {"two!", 4}};
	const struct te_store_value values[2] = {
		{.pieces = &pieces[0], .n_pieces = 1},
		{.pieces = &pieces[1], .n_pieces = 1},
	};
	const struct world *w = *state;
	uint8_t room[16];
	int results[2];

	assert_int_equal(pool_put(w->client, "v", "old", 3), 0);
	assert_int_equal(
		te_store_upsert(w->client, keys, values, 2, NULL, results), 0);
	assert_int_equal(pool_get(w->client, "v", room, sizeof(room)), 3);
	assert_memory_equal(room, "one", 3);
}

/* More keys than the client puts at one go; the two are far apart. */
static void a_key_twice_in_a_long_put_counts_once(void **state)
{
	struct te_store_value values[LONG];
	struct te_store_key keys[LONG];
	const struct world *w = *state;
	struct iovec pieces[LONG];
	char names[LONG][8];
	uint8_t room[16];
	int results[LONG];

	for (size_t i = 0; i < LONG; i++) {
		/* The last one is the first once more. */
		(void)snprintf(names[i], sizeof(names[i]), "l%zu",
			       i % (LONG - 1));
		keys[i] = pool_key(names[i]);
		pieces[i] = (struct iovec){i ? "other" : "first", 5};
		values[i] = (struct te_store_value){.pieces = &pieces[i],
						    .n_pieces = 1};
		results[i] = 1;
	}
	assert_int_equal(
		te_store_put(w->client, keys, values, LONG, NULL, results), 0);
	for (size_t i = 0; i < LONG; i++) {
		assert_int_equal(results[i], 0);
		assert_int_equal(
			pool_get(w->client, names[i], room, sizeof(room)), 5);
		assert_memory_equal(room, i % (LONG - 1) ? "other" : "first",
				    5);
	}
}

/* ---- taking out ---- */

static int exists(struct te_store *store, const char *name)
{
	const struct te_store_key key = pool_key(name);
	int result;

	(void)te_store_exist(store, &key, 1, &result);
	return result;
}

static void all_or_what_matches_is_removed(void **state)
{
	struct te_store *client;
	struct test_process *owner;
	/* Leases outlast the test. */
	const char *const lasting[] = {"--client_ttl", "100s",
				       "--default_kv_lease_ttl", "600s", NULL};
	struct pool pool;
	uint64_t removed = 7;
	uint8_t room[8];

	(void)state;
	pool_start(&pool, lasting);
	owner = pool_owner(&pool, "4 MB");
	client = pool_client(&pool, 0);
	assert_int_equal(pool_put(client, "model/1", "x", 1), 0);
	assert_int_equal(pool_put(client, "model/22", "x", 1), 0);
	assert_int_equal(pool_put(client, "other", "x", 1), 0);
	assert_int_equal(
		te_store_remove_matching(client, "^model/[0-9]$", 1, &removed),
		0);
	assert_int_equal(removed, 1);
	assert_int_equal(pool_get(client, "model/1", room, 8), -704);
	assert_int_equal(pool_get(client, "model/22", room, 8), 1);
	assert_int_equal(te_store_remove_matching(client, "(", 1, &removed),
			 -600);
	assert_int_equal(te_store_remove_matching(client, NULL, 1, &removed),
			 -600);
	assert_int_equal(te_store_remove_matching(client, "2", 1, NULL), 0);
	/* What was just read is leased, and stays unless forced. */
	assert_int_equal(pool_get(client, "other", room, 8), 1);
	assert_int_equal(pool_put(client, "unread", "x", 1), 0);
	assert_int_equal(te_store_remove_all(client, 0, &removed), 0);
	assert_int_equal(removed, 1);
	assert_int_equal(exists(client, "other"), 1);
	assert_int_equal(te_store_remove_all(client, 1, &removed), 0);
	assert_int_equal(removed, 1);
	assert_int_equal(exists(client, "other"), 0);
	assert_int_equal(te_store_remove_all(NULL, 1, &removed), -600);
	te_store_close(client);
	test_process_end(owner);
	pool_stop(&pool);
}

static void replicas_can_be_given_up_one_by_one(void **state)
{
	const struct te_store_replicate how = pool_several(2);
	const struct te_store_key keys[3] = {pool_key("w"), pool_key("missing"),
					     pool_key("")};
	struct te_store_replica at[POOL_REPLICAS], left[POOL_REPLICAS];
	struct test_process *owners[2];
	struct te_store *client;
	struct pool pool;
	/* Asking where something lies takes a lease. */
	const char *const hasty[] = {"--client_ttl", "100s",
				     "--default_kv_lease_ttl", "1ms", NULL};
	int results[3];

	(void)state;
	pool_start(&pool, hasty);
	owners[0] = pool_owner(&pool, "4 MB");
	owners[1] = pool_owner(&pool, "4 MB");
	client = pool_client(&pool, 0);
	assert_int_equal(pool_put_as(client, "w", "x", 1, &how), 0);
	assert_int_equal(pool_replicas(client, "w", at), 2);
	while (te_store_replica_clear(client, keys, 1, at[0].segment,
				      results) == -706)
		; /* the lease of a moment ago */
	assert_int_equal(results[0], 0);
	assert_int_equal(pool_replicas(client, "w", left), 1);
	while (te_store_replica_clear(client, keys, 1, "nobody", results) ==
	       -706)
		;
	assert_int_equal(results[0], -710);
	assert_int_equal(te_store_replica_clear(client, keys, 3, NULL, results),
			 -704);
	assert_int_equal(results[0], 0);
	assert_int_equal(results[1], -704);
	assert_int_equal(results[2], -600);
	assert_int_equal(exists(client, "w"), 0);
	te_store_close(client);
	test_process_end(owners[0]);
	test_process_end(owners[1]);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_upsert_takes_the_place_of_what_is_there),
		cmocka_unit_test(a_key_twice_in_an_upsert_counts_once),
		cmocka_unit_test(a_key_twice_in_a_long_put_counts_once),
		cmocka_unit_test(all_or_what_matches_is_removed),
		cmocka_unit_test(replicas_can_be_given_up_one_by_one),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
