/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hot.c - bytes that are kept because they are read often: which come in,
 * which stay, and that none is read when its object is another one by now
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/client/hot.h"
#include "store/client/sketch.h"
#include "store/proto/extent.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"

#define MIB (1u << 20)
#define LEN 1000u

/* ---- counting ---- */

static uint64_t digest_of(uint64_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ull;
}

static void counts_are_never_too_low(void **state)
{
	struct tes_sketch sketch;

	(void)state;
	assert_int_equal(tes_sketch_init(&sketch, 0), 0);
	for (unsigned int round = 0; round < 5; round++)
		for (uint64_t i = 0; i < 1000; i++)
			tes_sketch_add(&sketch, digest_of(i));
	for (uint64_t i = 0; i < 1000; i++)
		assert_true(tes_sketch_count(&sketch, digest_of(i)) >= 5);
	tes_sketch_fini(&sketch);
}

static void counts_fade(void **state)
{
	struct tes_sketch sketch;
	uint64_t i;

	(void)state;
	assert_int_equal(tes_sketch_init(&sketch, 0), 0);
	for (i = 0; i < 300; i++)
		tes_sketch_add(&sketch, digest_of(0));
	assert_int_equal(tes_sketch_count(&sketch, digest_of(0)), 255);
	for (i = 0; i < 40ull * TES_SKETCH_WIDTH_MIN; i++)
		tes_sketch_add(&sketch, digest_of(1));
	assert_true(tes_sketch_count(&sketch, digest_of(0)) < 64);
	tes_sketch_fini(&sketch);
}

/* ---- keeping ---- */

static struct tes_hot_name name_of(const char *key, uint64_t generation)
{
	uint64_t digest = 0;

	for (const char *p = key; *p; p++)
		digest = digest_of(digest + (uint8_t)*p);
	return (struct tes_hot_name){.key = key,
				     .key_len = strlen(key),
				     .digest = digest,
				     .gen_epoch = 1,
				     .generation = generation};
}

static bool offer(struct tes_hot *hot, const char *key, uint64_t generation,
		  uint64_t size)
{
	struct tes_hot_name name = name_of(key, generation);
	struct tes_hot_value *value = tes_hot_begin(hot, &name, size);

	if (!value)
		return false;
	memset(value->bytes, key[0], (size_t)size);
	tes_hot_add(hot, value, name.digest);
	return true;
}

static void ask(struct tes_hot *hot, const char *key, int times)
{
	struct tes_hot_name name = name_of(key, 1);

	while (times-- > 0)
		tes_hot_note(hot, name.digest);
}

static bool has(struct tes_hot *hot, const char *key, uint64_t generation)
{
	struct tes_hot_name name = name_of(key, generation);
	struct tes_hot_value *value = tes_hot_get(hot, &name);

	tes_hot_put(hot, value);
	return value != NULL;
}

static void what_is_asked_for_once_stays_out(void **state)
{
	struct tes_hot hot;

	(void)state;
	assert_int_equal(tes_hot_init(&hot, 10 * LEN, 5 * LEN, 3), 0);
	ask(&hot, "a", 2);
	assert_false(offer(&hot, "a", 1, LEN));
	ask(&hot, "a", 1);
	assert_false(offer(&hot, "a", 1, 5 * LEN + 1)); /* too large */
	assert_true(offer(&hot, "a", 1, LEN));
	assert_true(has(&hot, "a", 1));
	tes_hot_fini(&hot);
}

static void only_the_generation_that_is_asked_for_is_found(void **state)
{
	struct tes_hot hot;

	(void)state;
	assert_int_equal(tes_hot_init(&hot, 10 * LEN, 0, 0), 0);
	ask(&hot, "a", 2);
	assert_true(offer(&hot, "a", 1, LEN));
	assert_false(has(&hot, "a", 2));
	assert_false(has(&hot, "a", 1)); /* it is of no use to anybody */
	assert_true(offer(&hot, "a", 2, LEN));
	assert_true(offer(&hot, "a", 3, LEN));
	assert_true(has(&hot, "a", 3));
	tes_hot_fini(&hot);
}

static void the_rare_do_not_push_out_the_frequent(void **state)
{
	static const char *const often[] = {"a", "b", "c"};
	struct tes_hot hot;

	(void)state;
	assert_int_equal(tes_hot_init(&hot, 4 * LEN, 0, 2), 0);
	for (size_t i = 0; i < TEST_COUNT(often); i++) {
		ask(&hot, often[i], 5);
		assert_true(offer(&hot, often[i], 1, LEN));
	}
	ask(&hot, "rare", 2);
	assert_false(offer(&hot, "rare", 1, LEN));
	for (size_t i = 0; i < TEST_COUNT(often); i++)
		assert_true(has(&hot, often[i], 1));
	assert_true(has(&hot, "a", 1));
	/* As often as those: the least recently used one goes. */
	ask(&hot, "rare", 3);
	assert_true(offer(&hot, "rare", 1, LEN));
	assert_true(has(&hot, "a", 1));
	assert_false(has(&hot, "b", 1));
	tes_hot_fini(&hot);
}

static void memory_is_bounded_whoever_reads(void **state)
{
	struct tes_hot_name name = name_of("a", 1);
	struct tes_hot_value *read;
	struct tes_hot hot;
	char key[2] = "b";

	(void)state;
	assert_int_equal(tes_hot_init(&hot, 3 * LEN, 0, 1), 0);
	ask(&hot, "a", 1);
	assert_true(offer(&hot, "a", 1, 2 * LEN));
	read = tes_hot_get(&hot, &name);
	assert_non_null(read);
	ask(&hot, "b", 9);
	/* It has to go, but somebody reads it yet. */
	assert_false(offer(&hot, "b", 1, 2 * LEN));
	assert_int_equal(read->bytes[2 * LEN - 1], 'a');
	tes_hot_put(&hot, read);
	for (; key[0] <= 'z'; key[0]++) {
		ask(&hot, key, 9);
		(void)offer(&hot, key, 1, LEN / 2 + (uint64_t)key[0]);
		assert_true(hot.bytes <= 3 * LEN);
	}
	tes_hot_clear(&hot);
	assert_int_equal(hot.bytes, 0);
	tes_hot_fini(&hot);
}

static void without_memory_nothing_is_kept(void **state)
{
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};

	(void)state;
	while (test_faults_next(&f)) {
		struct tes_hot hot;
		bool kept;

		if (tes_hot_init(&hot, 10 * LEN, 0, 1))
			continue;
		ask(&hot, "a", 1);
		kept = offer(&hot, "a", 1, LEN);
		assert_int_equal(has(&hot, "a", 1), kept);
		tes_hot_clear(&hot);
		assert_int_equal(hot.bytes, 0);
		tes_hot_fini(&hot);
	}
}

/* ---- reading ---- */

struct three {
	struct pool pool;
	struct te_store *owner;
	/* Who asks the master each time, and who remembers locations. */
	struct te_store *clients[2];
};

static struct te_store *hot_client(const struct pool *pool, uint32_t locations)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = 30000,
		.replica_timeout_ms = 30000,
		.setup_timeout_ms = POOL_START_MS,
		.master = pool->address,
		.location_cache_entries = locations,
		.hot_cache_bytes = MIB,
	};
	struct te_store *store = NULL;

	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

/* Leases outlast every test. */
static const char *const lasting[] = {"--client_ttl", "100s",
				      "--default_kv_lease_ttl", "600s", NULL};

static int set_up(void **state)
{
	struct three *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	pool_start(&t->pool, lasting);
	t->owner = pool_client(&t->pool, 4 * MIB);
	t->clients[0] = hot_client(&t->pool, 0);
	t->clients[1] = hot_client(&t->pool, 64);
	*state = t;
	return 0;
}

static int tear_down(void **state)
{
	struct three *t = *state;

	fake_te_set_hook(NULL, NULL);
	te_store_close(t->clients[0]);
	te_store_close(t->clients[1]);
	te_store_close(t->owner);
	pool_stop(&t->pool);
	free(t);
	return 0;
}

static uint64_t hits_of(struct te_store *store)
{
	struct te_store_stats stats;

	te_store_stats(store, &stats);
	return stats.hot_hits;
}

static uint64_t added_to(struct te_store *store)
{
	struct te_store_stats stats;

	te_store_stats(store, &stats);
	return stats.hot_added;
}

static void count_bytes(const struct te_request *req,
			struct te_completion *done, void *arg)
{
	uint64_t *bytes = arg;

	(void)done;
	for (uint32_t i = 0; req->op == TE_READ && i < req->n_pieces; i++)
		*bytes += req->pieces[i].iov_len;
}

static void put_filled(struct te_store *store, const char *key, uint64_t id)
{
	uint8_t bytes[LEN];

	pool_fill(bytes, sizeof(bytes), id);
	assert_int_equal(pool_put(store, key, bytes, sizeof(bytes)), 0);
}

static void read_filled(struct te_store *store, const char *key, uint64_t id)
{
	uint8_t room[LEN];

	memset(room, 0, sizeof(room));
	assert_int_equal(pool_get(store, key, room, sizeof(room)), LEN);
	assert_true(pool_is_filled(room, sizeof(room), id));
}

static void what_is_read_often_comes_from_here(void **state)
{
	struct three *t = *state;
	uint64_t bytes = 0;

	put_filled(t->owner, "often", 1);
	for (size_t i = 0; i < TEST_COUNT(t->clients); i++) {
		struct te_store *store = t->clients[i];

		read_filled(store, "often", 1);
		assert_int_equal(added_to(store), 0);
		read_filled(store, "often", 1);
		assert_int_equal(added_to(store), 1);
		assert_int_equal(hits_of(store), 0);
		fake_te_set_hook(count_bytes, &bytes);
		bytes = 0;
		read_filled(store, "often", 1);
		read_filled(store, "often", 1);
		fake_te_set_hook(NULL, NULL);
		assert_int_equal(hits_of(store), 2);
		/* Where locations are remembered, a header proves it. */
		assert_int_equal(bytes, i ? 2 * TES_EXTENT_HEADER_LEN : 0);
	}
}

static void what_others_replaced_or_removed_is_never_read_again(void **state)
{
	struct three *t = *state;
	struct te_store_key key = pool_key("gone");
	uint8_t bytes[LEN], room[LEN];
	struct iovec piece = {bytes, sizeof(bytes)};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	int result;

	put_filled(t->owner, "gone", 2);
	for (uint64_t id = 2; id < 12; id++) {
		for (size_t i = 0; i < TEST_COUNT(t->clients); i++)
			for (int k = 0; k < 3; k++)
				read_filled(t->clients[i], "gone", id);
		pool_fill(bytes, sizeof(bytes), id + 1);
		assert_int_equal(te_store_upsert(t->owner, &key, &value, 1,
						 NULL, &result),
				 0);
	}
	for (size_t i = 0; i < TEST_COUNT(t->clients); i++) {
		assert_true(hits_of(t->clients[i]) > 0);
		for (int k = 0; k < 3; k++)
			read_filled(t->clients[i], "gone", 12);
	}
	assert_int_equal(te_store_remove(t->owner, &key, 1, 1, &result), 0);
	for (size_t i = 0; i < TEST_COUNT(t->clients); i++)
		assert_int_equal(
			pool_get(t->clients[i], "gone", room, sizeof(room)),
			TE_STORE_OBJECT_NOT_FOUND);
}

static void ranges_and_buffers_come_from_here_too(void **state)
{
	struct three *t = *state;
	struct te_store_key key = pool_key("parts");
	uint8_t whole[LEN], part[300];
	struct te_store_range range = {.offset = 500, .length = 300};
	struct te_store_buffer *buffer;
	int64_t result;

	pool_fill(whole, sizeof(whole), 3);
	put_filled(t->owner, "parts", 3);
	for (size_t i = 0; i < TEST_COUNT(t->clients); i++) {
		struct te_store *store = t->clients[i];
		uint64_t before;

		read_filled(store, "parts", 3);
		read_filled(store, "parts", 3);
		before = hits_of(store);
		range.addr = memset(part, 0, sizeof(part));
		assert_int_equal(
			te_store_get_ranges(store, &key, 1, &range, 1, &result),
			1);
		assert_memory_equal(part, whole + 500, sizeof(part));
		assert_int_equal(
			te_store_get_buffers(store, &key, 1, &buffer, &result),
			1);
		assert_int_equal(result, LEN);
		assert_memory_equal(te_store_buffer_data(buffer), whole, LEN);
		te_store_buffer_free(buffer);
		assert_int_equal(hits_of(store), before + 2);
		/* No room for it: nothing is written. */
		assert_int_equal(pool_get(store, "parts", part, sizeof(part)),
				 TE_STORE_INVALID_PARAMS);
	}
}

static void what_changed_in_the_readers_memory_is_not_kept(void **state)
{
	struct three *t = *state;
	struct te_store *store = t->clients[0];
	struct te_store_key key = pool_key("twice");
	uint64_t before = added_to(store);
	uint8_t room[LEN / 2];
	/* The second half is written over the first. */
	struct iovec pieces[2] = {{room, sizeof(room)}, {room, sizeof(room)}};
	const struct te_store_value value = {.pieces = pieces, .n_pieces = 2};
	int64_t result;

	put_filled(t->owner, "twice", 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(te_store_get(store, &key, &value, 1, &result),
				 1);
		assert_int_equal(result, LEN);
	}
	assert_int_equal(added_to(store), before);
	read_filled(store, "twice", 4);
	assert_int_equal(added_to(store), before + 1);
	read_filled(store, "twice", 4);
}

static void what_one_has_oneself_is_not_kept(void **state)
{
	struct three *t = *state;
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = 30000,
		.replica_timeout_ms = 30000,
		.setup_timeout_ms = POOL_START_MS,
		.master = t->pool.address,
		.hot_cache_bytes = MIB,
		.segment_bytes = MIB,
	};
	struct te_store_replicate how = pool_several(1);
	struct te_store *store = NULL;
	const char *preferred[1];
	struct te_store_stats stats;
	uint8_t bytes[LEN];

	assert_int_equal(te_store_setup(&config, &store), 0);
	preferred[0] = te_store_hostname(store);
	how.preferred_segments = preferred;
	how.n_preferred_segments = 1;
	pool_fill(bytes, sizeof(bytes), 5);
	assert_int_equal(pool_put_as(store, "own", bytes, LEN, &how), 0);
	for (int i = 0; i < 5; i++)
		read_filled(store, "own", 5);
	te_store_stats(store, &stats);
	assert_int_equal(stats.hot_added, 0);
	assert_int_equal(stats.hot_misses, 0);
	te_store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_never_too_low),
		cmocka_unit_test(counts_fade),
		cmocka_unit_test(what_is_asked_for_once_stays_out),
		cmocka_unit_test(
			only_the_generation_that_is_asked_for_is_found),
		cmocka_unit_test(the_rare_do_not_push_out_the_frequent),
		cmocka_unit_test(memory_is_bounded_whoever_reads),
		cmocka_unit_test(without_memory_nothing_is_kept),
		cmocka_unit_test(what_is_read_often_comes_from_here),
		cmocka_unit_test(
			what_others_replaced_or_removed_is_never_read_again),
		cmocka_unit_test(ranges_and_buffers_come_from_here_too),
		cmocka_unit_test(
			what_changed_in_the_readers_memory_is_not_kept),
		cmocka_unit_test(what_one_has_oneself_is_not_kept),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
