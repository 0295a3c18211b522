/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_parts.c - values that are put in parts, by several threads, to several
 * owners of which one dies
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define MIB     1048576u
#define N_PARTS 16u
#define PART    (MIB / N_PARTS)

struct world {
	struct pool pool;
	struct test_process *owners[2];
	struct te_store *client;
	uint8_t *bytes, *room; /* [MIB] */
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->bytes = malloc(MIB);
	w->room = malloc(MIB);
	assert_non_null(w->bytes);
	assert_non_null(w->room);
	pool_fill(w->bytes, MIB, 1);
	pool_start(&w->pool, pool_patient);
	w->owners[0] = pool_owner(&w->pool, "8 MB");
	w->owners[1] = pool_owner(&w->pool, "8 MB");
	w->client = pool_client(&w->pool, 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	te_store_close(w->client);
	test_process_end(w->owners[0]);
	test_process_end(w->owners[1]);
	pool_stop(&w->pool);
	free(w->bytes);
	free(w->room);
	free(w);
	return 0;
}

static int begin(const struct world *w, const char *name)
{
	const struct te_store_replicate how = pool_several(2);
	const struct te_store_key key = pool_key(name);
	uint64_t size = MIB;
	int result = 1;

	(void)te_store_put_open(w->client, &key, &size, 1, &how, &result);
	return result;
}

static int64_t put_part(const struct world *w, const char *name, uint32_t i)
{
	const struct te_store_key key = pool_key(name);
	const struct te_store_range range = {.offset = (uint64_t)i * PART,
					     .addr = w->bytes + i * PART,
					     .length = PART};
	int64_t result = 0;

	(void)te_store_put_ranges(w->client, &key, 1, &range, 1, &result);
	return result;
}

static int commit(const struct world *w, const char *name)
{
	const struct te_store_key key = pool_key(name);
	int result = 1;

	(void)te_store_put_commit(w->client, &key, 1, &result);
	return result;
}

static void is_there(struct world *w, const char *name)
{
	memset(w->room, 0, MIB);
	assert_int_equal(pool_get(w->client, name, w->room, MIB), MIB);
	assert_memory_equal(w->room, w->bytes, MIB);
}

static void parts_go_to_all_replicas(void **state)
{
	struct te_store_replica at[POOL_REPLICAS];
	struct world *w = *state;
	uint32_t i;

	assert_int_equal(begin(w, "a"), 0);
	for (i = 0; i < N_PARTS; i++)
		assert_int_equal(put_part(w, "a", i), PART);
	assert_int_equal(commit(w, "a"), 0);
	assert_int_equal(pool_replicas(w->client, "a", at), 2);
	/* Equal ones take turns, so both are read. */
	is_there(w, "a");
	is_there(w, "a");
	is_there(w, "a");
}

struct writer {
	const struct world *w;
	uint32_t n;
	int n_failed;
};

static void *write_some(void *arg)
{
	struct writer *writer = arg;
	uint32_t i;

	for (i = writer->n; i < N_PARTS; i += 4)
		writer->n_failed += put_part(writer->w, "b", i) != PART;
	return NULL;
}

static void threads_write_parts_of_one_value(void **state)
{
	struct world *w = *state;
	struct writer writers[4];
	pthread_t threads[4];
	uint32_t i;

	assert_int_equal(begin(w, "b"), 0);
	for (i = 0; i < 4; i++) {
		writers[i] = (struct writer){.w = w, .n = i};
		assert_int_equal(pthread_create(&threads[i], NULL, write_some,
						&writers[i]),
				 0);
	}
	for (i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(writers[i].n_failed, 0);
	}
	assert_int_equal(commit(w, "b"), 0);
	is_there(w, "b");
}

static void an_owner_that_dies_costs_only_its_replica(void **state)
{
	struct te_store_replica at[POOL_REPLICAS];
	struct world *w = *state;
	uint32_t i;

	assert_int_equal(begin(w, "c"), 0);
	for (i = 0; i < N_PARTS; i++) {
		if (i == N_PARTS / 2)
			test_process_signal(w->owners[0], SIGKILL);
		assert_int_equal(put_part(w, "c", i), PART);
	}
	assert_int_equal(commit(w, "c"), 0);
	/* 2 until the master has noticed. */
	assert_in_range(pool_replicas(w->client, "c", at), 1, 2);
	is_there(w, "c");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_go_to_all_replicas),
		cmocka_unit_test(threads_write_parts_of_one_value),
		/* The last: it takes an owner away. */
		cmocka_unit_test(an_owner_that_dies_costs_only_its_replica),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
