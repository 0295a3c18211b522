/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_traffic.c - puts and gets through a real pool, every byte compared
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define KIB 1024u
#define MIB (1024u * KIB)

struct world {
	struct pool pool;
	struct test_process *owners[2];
	struct te_store *client;
};

#define NOBODYS "nobody-has-this" /* a key */

/* Of lines that were logged: warnings and errors, and what names that key. */
static atomic_uint n_warned, n_named;

static void on_line(int level, const char *line, void *arg)
{
	(void)arg;
	n_warned += level <= 1;
	n_named += strstr(line, NOBODYS) != NULL;
	if (level <= 1)
		(void)fprintf(stderr, "%s\n", line);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	te_log_set(on_line, NULL);
	te_log_set_level(2);
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
	free(w);
	return 0;
}

/* ---- a batch ---- */

#define N_KEYS 300

struct batch {
	char names[N_KEYS][32];
	struct te_store_key keys[N_KEYS];
	struct te_store_value values[N_KEYS];
	struct iovec pieces[N_KEYS][3];
	size_t size;
	uint8_t *bytes; /* bytes[N_KEYS * size] */
};

/* Values in three pieces, the middle one odd. */
static void batch_init(struct batch *b, const char *name, size_t size)
{
	size_t i;

	b->size = size;
	b->bytes = malloc(N_KEYS * size);
	assert_non_null(b->bytes);
	for (i = 0; i < N_KEYS; i++) {
		uint8_t *at = b->bytes + i * size;

		(void)snprintf(b->names[i], sizeof(b->names[i]), "%s/%zu", name,
			       i);
		b->keys[i] = (struct te_store_key){
			.bytes = b->names[i],
			.len = (uint32_t)strlen(b->names[i])};
		b->pieces[i][0] = (struct iovec){at, size / 2};
		b->pieces[i][1] = (struct iovec){at + size / 2, 17};
		b->pieces[i][2] = (struct iovec){at + size / 2 + 17,
						 size - size / 2 - 17};
		b->values[i] = (struct te_store_value){.pieces = b->pieces[i],
						       .n_pieces = 3};
	}
}

static void batch_fill(struct batch *b)
{
	size_t i;

	for (i = 0; i < N_KEYS; i++)
		pool_fill(b->bytes + i * b->size, b->size, i);
}

static void round_trip(struct world *w, struct batch *b)
{
	static int results[N_KEYS];
	static int64_t sizes[N_KEYS];
	size_t i;

	batch_fill(b);
	assert_int_equal(te_store_put(w->client, b->keys, b->values, N_KEYS,
				      NULL, results),
			 0);
	assert_int_equal(te_store_exist(w->client, b->keys, N_KEYS, results),
			 0);
	for (i = 0; i < N_KEYS; i++)
		assert_int_equal(results[i], 1);
	assert_int_equal(te_store_size(w->client, b->keys, N_KEYS, sizes), 0);
	memset(b->bytes, 0, N_KEYS * b->size);
	assert_int_equal(
		te_store_get(w->client, b->keys, b->values, N_KEYS, sizes),
		N_KEYS);
	for (i = 0; i < N_KEYS; i++) {
		assert_int_equal(sizes[i], b->size);
		assert_true(pool_is_filled(b->bytes + i * b->size, b->size, i));
	}
	assert_int_equal(
		te_store_remove(w->client, b->keys, N_KEYS, 1, results), 0);
	assert_int_equal(te_store_exist(w->client, b->keys, N_KEYS, results),
			 0);
	for (i = 0; i < N_KEYS; i++)
		assert_int_equal(results[i], 0);
}

static void batches_come_back_as_they_were(void **state)
{
	struct batch *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	batch_init(b, "plain", 4 * KIB);
	round_trip(*state, b);
	free(b->bytes);
	free(b);
}

static void registered_memory_is_as_good(void **state)
{
	struct world *w = *state;
	struct batch *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	batch_init(b, "registered", 16 * KIB);
	assert_int_equal(
		te_store_register(w->client, b->bytes, N_KEYS * b->size), 0);
	assert_int_equal(te_store_register(w->client, b->bytes, b->size), -600);
	round_trip(w, b);
	assert_int_equal(te_store_unregister(w->client, b->bytes), 0);
	assert_int_equal(te_store_unregister(w->client, b->bytes), -600);
	free(b->bytes);
	free(b);
}

static void sizes_from_1_byte_to_4_mib_come_back(void **state)
{
	static const size_t sizes[] = {1,         63,      4095,        4097,
				       256 * KIB, MIB + 1, 4 * MIB - 64};
	struct world *w = *state;
	uint8_t *bytes = malloc(4 * MIB);
	char key[32];
	size_t i;

	assert_non_null(bytes);
	for (i = 0; i < TEST_COUNT(sizes); i++) {
		(void)snprintf(key, sizeof(key), "size %zu", sizes[i]);
		pool_fill(bytes, sizes[i], i);
		assert_int_equal(pool_put(w->client, key, bytes, sizes[i]), 0);
		memset(bytes, 0, sizes[i]);
		assert_int_equal(pool_get(w->client, key, bytes, 4 * MIB),
				 sizes[i]);
		assert_true(pool_is_filled(bytes, sizes[i], i));
	}
	free(bytes);
}

static void what_no_segment_can_hold_is_refused(void **state)
{
	struct world *w = *state;
	uint8_t *bytes = calloc(1, 9 * MIB);

	assert_non_null(bytes);
	assert_int_equal(pool_put(w->client, "too big", bytes, 9 * MIB), -200);
	free(bytes);
}

static void a_full_pool_evicts_and_stays_right(void **state)
{
	struct world *w = *state;
	uint8_t *bytes = malloc(64 * KIB);
	struct te_store_pool figures;
	uint64_t i, n_there = 0;
	char key[32];

	assert_non_null(bytes);
	for (i = 0; i < 800; i++) { /* 50 MiB into 16 */
		(void)snprintf(key, sizeof(key), "evict/%llu",
			       (unsigned long long)i);
		pool_fill(bytes, 64 * KIB, i);
		assert_int_equal(pool_put(w->client, key, bytes, 64 * KIB), 0);
	}
	for (i = 0; i < 800; i++) {
		int64_t size;

		(void)snprintf(key, sizeof(key), "evict/%llu",
			       (unsigned long long)i);
		size = pool_get(w->client, key, bytes, 64 * KIB);
		assert_true(size == -704 || size == 64 * KIB);
		if (size < 0)
			continue;
		assert_true(pool_is_filled(bytes, 64 * KIB, i));
		n_there++;
	}
	assert_true(n_there >= 128 && n_there <= 256);
	assert_int_equal(te_store_pool(w->client, &figures), 0);
	assert_true(figures.evicted_objects >= 800 - 256);
	assert_true(figures.used_bytes <= figures.capacity_bytes);
	assert_int_equal(figures.owners, 2);
	free(bytes);
}

/* ---- threads ---- */

#define N_THREADS 6

struct worker {
	struct te_store *client;
	unsigned int n;
	int n_wrong, n_failed, n_hits;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	uint8_t bytes[8 * KIB];
	char key[32];
	unsigned int i;

	/* Everybody goes over the same keys, from another one on. */
	for (i = 0; i < 200; i++) {
		unsigned int id = (i + w->n * 31) % 200;
		int64_t size;

		(void)snprintf(key, sizeof(key), "thread/%u", id);
		pool_fill(bytes, sizeof(bytes), id);
		w->n_failed +=
			pool_put(w->client, key, bytes, sizeof(bytes)) != 0;
		memset(bytes, 0, sizeof(bytes));
		size = pool_get(w->client, key, bytes, sizeof(bytes));
		/* Another thread may still be writing it. */
		w->n_failed += size != -704 && size != sizeof(bytes);
		w->n_hits += size > 0;
		w->n_wrong +=
			size > 0 && !pool_is_filled(bytes, sizeof(bytes), id);
	}
	return NULL;
}

static void threads_share_a_client(void **state)
{
	struct world *w = *state;
	struct worker workers[N_THREADS];
	pthread_t threads[N_THREADS];
	unsigned int i;

	for (i = 0; i < N_THREADS; i++) {
		workers[i] = (struct worker){.client = w->client, .n = i};
		assert_int_equal(
			pthread_create(&threads[i], NULL, work, &workers[i]),
			0);
	}
	for (i = 0; i < N_THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(workers[i].n_wrong, 0);
		assert_int_equal(workers[i].n_failed, 0);
		assert_true(workers[i].n_hits > 0);
	}
}

/* Bytes that the rails of @backend have sent and received. */
static uint64_t moved_by(struct te_store *store, const char *backend)
{
	struct te_rail_info rails[16];
	size_t n = TEST_COUNT(rails);
	uint64_t bytes = 0;

	assert_int_equal(te_engine_rails(te_store_engine(store), rails, &n), 0);
	assert_true(n <= TEST_COUNT(rails));
	for (size_t i = 0; i < n; i++)
		if (!strcmp(rails[i].backend, backend))
			bytes += rails[i].sent_bytes + rails[i].received_bytes;
	return bytes;
}

static void who_is_on_the_same_host_needs_no_network(void **state)
{
	struct world *w = *state;
	struct te_store *client = pool_client(&w->pool, 0);
	uint8_t bytes[5000], room[5000];

	pool_fill(bytes, sizeof(bytes), 8);
	assert_int_equal(pool_put(client, "near", bytes, sizeof(bytes)), 0);
	assert_int_equal(pool_get(client, "near", room, sizeof(room)), 5000);
	assert_true(moved_by(client, "shm") >= 10000);
	assert_int_equal(moved_by(client, "tcp"), 0);
	te_store_close(client);
}

static void a_client_reads_and_writes_its_own_segment(void **state)
{
	struct te_store *both;
	struct pool pool;
	uint8_t bytes[5000], room[5000];

	(void)state;
	pool_start(&pool, pool_patient);
	both = pool_client(&pool, MIB);
	pool_fill(bytes, sizeof(bytes), 9);
	assert_int_equal(pool_put(both, "own", bytes, sizeof(bytes)), 0);
	assert_int_equal(pool_get(both, "own", room, sizeof(room)), 5000);
	assert_memory_equal(bytes, room, sizeof(room));
	assert_true(moved_by(both, "loop") >= 10000);
	assert_int_equal(moved_by(both, "shm") + moved_by(both, "tcp"), 0);
	te_store_close(both);
	pool_stop(&pool);
}

static void two_clients_of_one_process_share_an_engine(void **state)
{
	struct world *w = *state;
	const struct te_store_config config = {
		.size = sizeof(config),
		.master = w->pool.address,
		.engine = te_store_engine(w->client),
	};
	struct te_store *second;
	uint8_t room[8];

	assert_int_equal(te_store_setup(&config, &second), 0);
	assert_int_equal(pool_put(second, "shared", "x", 1), 0);
	assert_int_equal(pool_get(w->client, "shared", room, 8), 1);
	te_store_close(second);
	assert_int_equal(pool_get(w->client, "shared", room, 8), 1);
}

/* ---- misses ---- */

static void miss_by_every_call(struct te_store *store)
{
	const struct te_store_key key = pool_key(NOBODYS);
	struct te_store_replica at[POOL_REPLICAS];
	uint8_t room[8];
	const struct te_store_range range = {.addr = room, .length = 1};
	struct te_store_buffer *buffer;
	int64_t size;
	int code;

	assert_int_equal(pool_get(store, NOBODYS, room, sizeof(room)), -704);
	(void)te_store_get_buffers(store, &key, 1, &buffer, &size);
	assert_int_equal(size, -704);
	(void)te_store_get_ranges(store, &key, 1, &range, 1, &size);
	assert_int_equal(size, -704);
	(void)te_store_get_open(store, &key, 1, &code);
	assert_int_equal(code, -704);
	(void)te_store_size(store, &key, 1, &size);
	assert_int_equal(size, -704);
	(void)te_store_exist(store, &key, 1, &code);
	assert_int_equal(code, 0);
	(void)te_store_remove(store, &key, 1, 0, &code);
	assert_int_equal(code, -704);
	assert_int_equal(pool_replicas(store, NOBODYS, at), -704);
}

static void a_miss_is_no_line_in_a_log(void **state)
{
	struct world *w = *state;
	unsigned int before = n_warned;

	miss_by_every_call(w->client);
	assert_int_equal(n_warned, before);
	assert_int_equal(n_named, 0);
	assert_null(strstr(test_process_output(w->pool.master), NOBODYS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_come_back_as_they_were),
		cmocka_unit_test(registered_memory_is_as_good),
		cmocka_unit_test(sizes_from_1_byte_to_4_mib_come_back),
		cmocka_unit_test(what_no_segment_can_hold_is_refused),
		cmocka_unit_test(a_full_pool_evicts_and_stays_right),
		cmocka_unit_test(threads_share_a_client),
		cmocka_unit_test(who_is_on_the_same_host_needs_no_network),
		cmocka_unit_test(a_client_reads_and_writes_its_own_segment),
		cmocka_unit_test(two_clients_of_one_process_share_an_engine),
		cmocka_unit_test(a_miss_is_no_line_in_a_log),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
