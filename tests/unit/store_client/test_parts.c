/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_parts.c - values that are put in parts, against a real master and a
 * bendable engine
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/proto/extent.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"
#include "tests/unit/store_client/two.h"

/* ---- one key ---- */

static int begin(struct te_store *store, const char *name, uint64_t size)
{
	const struct te_store_key key = pool_key(name);
	int result = 1;

	(void)te_store_put_open(store, &key, &size, 1, NULL, &result);
	return result;
}

static int64_t put_part(struct te_store *store, const char *name,
			uint64_t offset, const void *bytes, uint64_t length)
{
	const struct te_store_key key = pool_key(name);
	const struct te_store_range range = {.offset = offset,
					     .addr = (void *)(uintptr_t)bytes,
					     .length = length};
	int64_t result = 0;

	(void)te_store_put_ranges(store, &key, 1, &range, 1, &result);
	return result;
}

static int commit(struct te_store *store, const char *name)
{
	const struct te_store_key key = pool_key(name);
	int result = 1;

	(void)te_store_put_commit(store, &key, 1, &result);
	return result;
}

static int give_up(struct te_store *store, const char *name)
{
	const struct te_store_key key = pool_key(name);
	int result = 1;

	(void)te_store_put_abort(store, &key, 1, &result);
	return result;
}

/* ---- what goes well ---- */

static void parts_in_any_order_make_a_value(void **state)
{
	struct two *t = *state;
	uint8_t bytes[1000], room[1000];

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(begin(t->client, "a", 1000), 0);
	assert_int_equal(put_part(t->client, "a", 700, bytes + 700, 300), 300);
	assert_int_equal(put_part(t->client, "a", 0, bytes, 500), 500);
	assert_int_equal(pool_get(t->client, "a", room, 1000), -704);
	assert_int_equal(put_part(t->client, "a", 400, bytes + 400, 350), 350);
	assert_int_equal(commit(t->client, "a"), 0);
	assert_int_equal(pool_get(t->client, "a", room, 1000), 1000);
	assert_memory_equal(room, bytes, 1000);
	assert_int_equal(pool_get(t->owner, "a", room, 1000), 1000);
}

static void what_has_holes_is_not_committed(void **state)
{
	struct two *t = *state;
	uint8_t bytes[100], room[100];

	pool_fill(bytes, sizeof(bytes), 2);
	assert_int_equal(begin(t->client, "b", 100), 0);
	assert_int_equal(commit(t->client, "b"), -700);
	assert_int_equal(put_part(t->client, "b", 0, bytes, 50), 50);
	assert_int_equal(put_part(t->client, "b", 51, bytes + 51, 49), 49);
	assert_int_equal(commit(t->client, "b"), -700);
	assert_int_equal(pool_get(t->client, "b", room, 100), -704);
	assert_int_equal(put_part(t->client, "b", 50, bytes + 50, 1), 1);
	assert_int_equal(commit(t->client, "b"), 0);
	assert_int_equal(pool_get(t->client, "b", room, 100), 100);
	assert_memory_equal(room, bytes, 100);
}

static void single_bytes_in_a_wild_order_are_a_value(void **state)
{
	struct two *t = *state;
	uint8_t bytes[257], room[257];
	unsigned int i;

	pool_fill(bytes, sizeof(bytes), 3);
	assert_int_equal(begin(t->client, "c", 257), 0);
	for (i = 0; i < 257; i++) {
		unsigned int at = i * 101 % 257;

		assert_int_equal(commit(t->client, "c"), -700);
		assert_int_equal(put_part(t->client, "c", at, &bytes[at], 1),
				 1);
	}
	assert_int_equal(commit(t->client, "c"), 0);
	assert_int_equal(pool_get(t->client, "c", room, 257), 257);
	assert_memory_equal(room, bytes, 257);
}

static void empty_parts_are_written_anywhere_in_the_value(void **state)
{
	struct two *t = *state;
	const struct te_store_key keys[2] = {pool_key("empty"), pool_key("o")};
	const uint64_t size = 4;
	const struct te_store_range ranges[5] = {
		{.offset = 2, .addr = NULL},
		{.offset = 4, .addr = (void *)1},
		{.offset = 5, .addr = NULL},
		{.key = 1},
		{.addr = (char[]){"1234"}, .length = 4},
	};
	int64_t written[5];
	uint8_t room[8];
	int result;

	assert_int_equal(
		te_store_put_open(t->client, keys, &size, 1, NULL, &result), 0);
	assert_int_equal(
		te_store_put_ranges(t->client, keys, 2, ranges, 4, written), 2);
	assert_int_equal(written[0], 0);
	assert_int_equal(written[1], 0);
	assert_int_equal(written[2], -600);
	assert_int_equal(written[3], -704);
	assert_int_equal(te_store_put_commit(t->client, keys, 1, &result),
			 -700);
	assert_int_equal(
		te_store_put_ranges(t->client, keys, 2, ranges, 5, written), 3);
	assert_int_equal(te_store_put_commit(t->client, keys, 1, &result), 0);
	assert_int_equal(pool_get(t->client, "empty", room, 8), 4);
	assert_memory_equal(room, "1234", 4);
}

static void several_keys_go_in_one_call(void **state)
{
	struct two *t = *state;
	const struct te_store_key keys[3] = {pool_key("d"), pool_key("e"),
					     pool_key("d")};
	const uint64_t sizes[3] = {4, 6, 4};
	const struct te_store_range ranges[4] = {
		{.key = 1, .offset = 3, .addr = (char[]){"def"}, .length = 3},
		{.key = 0, .offset = 0, .addr = (char[]){"1234"}, .length = 4},
		{.key = 1, .offset = 0, .addr = (char[]){"abc"}, .length = 3},
		{.key = 1, .offset = 4, .addr = (char[]){"abc"}, .length = 3},
	};
	int64_t written[4];
	int results[3];
	uint8_t room[8];

	assert_int_equal(
		te_store_put_open(t->client, keys, sizes, 3, NULL, results),
		-705);
	assert_int_equal(results[0], 0);
	assert_int_equal(results[1], 0);
	assert_int_equal(results[2], -705);
	assert_int_equal(
		te_store_put_ranges(t->client, keys, 2, ranges, 4, written), 3);
	assert_int_equal(written[0], 3);
	assert_int_equal(written[1], 4);
	assert_int_equal(written[3], -600);
	assert_int_equal(te_store_put_commit(t->client, keys, 2, results), 0);
	assert_int_equal(pool_get(t->client, "d", room, 8), 4);
	assert_memory_equal(room, "1234", 4);
	assert_int_equal(pool_get(t->client, "e", room, 8), 6);
	assert_memory_equal(room, "abcdef", 6);
}

static void what_is_given_up_leaves_nothing(void **state)
{
	struct two *t = *state;
	uint8_t room[8];

	assert_int_equal(begin(t->client, "f", 4), 0);
	assert_int_equal(put_part(t->client, "f", 0, "half", 4), 4);
	assert_int_equal(give_up(t->client, "f"), 0);
	assert_int_equal(pool_get(t->client, "f", room, 8), -704);
	assert_int_equal(pool_put(t->client, "f", "whole", 5), 0);
	assert_int_equal(pool_get(t->client, "f", room, 8), 5);
}

/* ---- what does not ---- */

static void mistakes_have_their_codes(void **state)
{
	struct two *t = *state;
	const struct te_store_key key = pool_key("g");
	const struct te_store_range range = {.addr = (char[]){"x"},
					     .length = 1};
	uint64_t size = 1;
	int64_t written;
	int result;

	assert_int_equal(put_part(t->client, "g", 0, "x", 1), -704);
	assert_int_equal(commit(t->client, "g"), -704);
	assert_int_equal(give_up(t->client, "g"), -704);
	assert_int_equal(begin(t->client, "g", 0), -600);
	assert_int_equal(begin(t->client, "g", 1ull << 63), -600);
	assert_int_equal(begin(t->client, "", 1), -600);
	assert_int_equal(commit(t->client, ""), -600);
	assert_int_equal(put_part(t->client, "", 0, "x", 1), -600);
	assert_int_equal(begin(t->client, "g", 2), 0);
	assert_int_equal(begin(t->client, "g", 2), -705);
	assert_int_equal(put_part(t->client, "g", 2, "x", 1), -600);
	assert_int_equal(put_part(t->client, "g", UINT64_MAX, "x", 2), -600);
	assert_int_equal(put_part(t->client, "g", 0, "x", 0), 0);
	assert_int_equal(put_part(t->client, "g", 0, NULL, 1), -600);
	assert_int_equal(put_part(t->client, "g", 0, "xy", 2), 2);
	assert_int_equal(commit(t->client, "g"), 0);
	assert_int_equal(commit(t->client, "g"), -704);
	assert_int_equal(begin(t->client, "g", 2), -705);
	assert_int_equal(
		te_store_put_open(t->client, &key, NULL, 1, NULL, &result),
		-600);
	assert_int_equal(te_store_put_open(NULL, &key, &size, 1, NULL, &result),
			 -600);
	assert_int_equal(te_store_put_ranges(t->client, &key, 1, &range,
					     TE_STORE_RANGES_MAX + 1, &written),
			 -600);
	assert_int_equal(te_store_put_commit(t->client, &key, 1, NULL), -600);
	assert_int_equal(te_store_put_abort(t->client, NULL, 1, &result), -600);
}

/* Data fails, headers do not. */
static void fail_data(const struct te_request *req, struct te_completion *done,
		      void *arg)
{
	(void)arg;
	if (req->op == TE_WRITE &&
	    req->pieces[0].iov_len != TES_EXTENT_HEADER_LEN)
		done->error = -EIO;
}

static void a_failed_part_fails_the_value(void **state)
{
	struct two *t = *state;
	uint8_t room[8];

	assert_int_equal(begin(t->client, "h", 4), 0);
	assert_int_equal(put_part(t->client, "h", 0, "ab", 2), 2);
	fake_te_set_hook(fail_data, NULL);
	assert_int_equal(put_part(t->client, "h", 2, "cd", 2), -800);
	fake_te_set_hook(NULL, NULL);
	assert_int_equal(put_part(t->client, "h", 2, "cd", 2), -800);
	assert_int_equal(commit(t->client, "h"), -800);
	assert_int_equal(commit(t->client, "h"), -704);
	/* Its space and its name are free again. */
	assert_int_equal(pool_put(t->client, "h", "again", 5), 0);
	assert_int_equal(pool_get(t->client, "h", room, 8), 5);
}

static void fail_writes(const struct te_request *req,
			struct te_completion *done, void *arg)
{
	(void)arg;
	if (req->op == TE_WRITE)
		done->error = -EIO;
}

static void without_headers_nothing_is_begun(void **state)
{
	struct two *t = *state;

	fake_te_set_hook(fail_writes, NULL);
	assert_int_equal(begin(t->client, "i", 4), -800);
	fake_te_set_hook(NULL, NULL);
	assert_int_equal(put_part(t->client, "i", 0, "ab", 2), -704);
	assert_int_equal(begin(t->client, "i", 4), 0);
	assert_int_equal(give_up(t->client, "i"), 0);
}

/* As if the space got another object between data and header. */
static void spoil_headers(const struct te_request *req,
			  struct te_completion *done, void *arg)
{
	int *left = arg;

	(void)done;
	if (req->op == TE_READ && req->n_pieces == 1 &&
	    req->pieces[0].iov_len == TES_EXTENT_HEADER_LEN && (*left)-- > 0)
		((uint8_t *)(uintptr_t)req->remote)[16] ^= 1;
}

static void without_a_checksum_the_header_is_looked_at_again(void **state)
{
	struct two *t = *state;
	uint8_t room[8];
	int left = 1;

	assert_int_equal(begin(t->client, "j", 4), 0);
	assert_int_equal(put_part(t->client, "j", 2, "cd", 2), 2);
	assert_int_equal(put_part(t->client, "j", 0, "ab", 2), 2);
	assert_int_equal(commit(t->client, "j"), 0);
	assert_int_equal(pool_get(t->client, "j", room, 8), 4);
	fake_te_set_hook(spoil_headers, &left);
	assert_int_equal(pool_get(t->client, "j", room, 8), -704);
}

/* Change a byte of the data, so that only a checksum can tell. */
static void spoil_data(const struct te_request *req, struct te_completion *done,
		       void *arg)
{
	int *left = arg;

	(void)done;
	if (req->op == TE_READ && (*left)-- > 0)
		((uint8_t *)(uintptr_t)
			 req->remote)[TES_EXTENT_HEADER_LEN + 1] ^= 1;
}

static void parts_in_order_have_a_checksum(void **state)
{
	struct two *t = *state;
	uint8_t room[8];
	int left = 1;

	assert_int_equal(begin(t->client, "o", 6), 0);
	assert_int_equal(put_part(t->client, "o", 0, "ab", 2), 2);
	assert_int_equal(put_part(t->client, "o", 2, "cde", 3), 3);
	assert_int_equal(put_part(t->client, "o", 5, "f", 1), 1);
	assert_int_equal(commit(t->client, "o"), 0);
	assert_int_equal(pool_get(t->client, "o", room, 8), 6);
	assert_memory_equal(room, "abcdef", 6);
	fake_te_set_hook(spoil_data, &left);
	assert_int_equal(pool_get(t->client, "o", room, 8), -704);
}

static bool healthy(void *arg)
{
	return te_store_health(arg) == 0;
}

static bool unhealthy(void *arg)
{
	return te_store_health(arg) != 0;
}

static void another_master_takes_no_draft_of_the_last(void **state)
{
	struct te_store *owner, *client;
	struct pool pool;
	uint8_t room[8];

	(void)state;
	pool_start(&pool, pool_patient);
	owner = pool_client(&pool, MIB);
	client = pool_client(&pool, 0);
	assert_int_equal(begin(client, "k", 4), 0);
	assert_int_equal(put_part(client, "k", 0, "abcd", 4), 4);
	pool_kill(&pool);
	assert_true(test_wait_until(unhealthy, client, POOL_START_MS));
	assert_true(test_wait_until(unhealthy, owner, POOL_START_MS));
	pool_restart(&pool, pool_patient);
	assert_true(test_wait_until(healthy, owner, POOL_START_MS));
	assert_true(test_wait_until(healthy, client, POOL_START_MS));
	assert_int_equal(commit(client, "k"), -800);
	assert_int_equal(pool_get(client, "k", room, 8), -704);
	/* One that is still open when its store closes is nobody's. */
	assert_int_equal(begin(client, "l", 4), 0);
	te_store_close(client);
	te_store_close(owner);
	pool_stop(&pool);
}

/* ---- without memory ---- */

static void get_in_all_ways(struct te_store *store, const char *name,
			    const uint8_t bytes[100])
{
	const struct te_store_key key = pool_key(name);
	struct te_store_buffer *buffer = NULL;
	struct te_store_replica replica;
	struct te_store_range range;
	uint8_t room[100];
	size_t n = 1;
	int64_t size;
	int result;

	range = (struct te_store_range){
		.offset = 10, .addr = room, .length = 20};
	if (te_store_get_ranges(store, &key, 1, &range, 1, &size) == 1)
		assert_memory_equal(room, bytes + 10, 20);
	if (te_store_get_buffers(store, &key, 1, &buffer, &size) == 1)
		assert_memory_equal(te_store_buffer_data(buffer), bytes, 100);
	te_store_buffer_free(buffer);
	(void)te_store_get_open(store, &key, 1, &result);
	if (pool_get(store, name, room, sizeof(room)) == 100)
		assert_memory_equal(room, bytes, 100);
	(void)te_store_get_close(store, &key, 1);
	(void)te_store_replicas(store, &key, 1, &result, &replica, &n);
}

static void any_failed_allocation_is_an_error_and_no_more(void **state)
{
	struct two *t = *state;
	struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	const struct te_store_key key = pool_key("m");
	uint8_t bytes[100], room[100];
	const struct iovec piece = {bytes, sizeof(bytes)};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	int result;

	pool_fill(bytes, sizeof(bytes), 7);
	while (test_faults_next(&f)) {
		(void)te_store_remove(t->client, &key, 1, 1, &result);
		(void)begin(t->client, "m", sizeof(bytes));
		(void)put_part(t->client, "m", 50, bytes + 50, 50);
		(void)put_part(t->client, "m", 0, bytes, 50);
		if (commit(t->client, "m"))
			(void)give_up(t->client, "m");
		get_in_all_ways(t->client, "m", bytes);
		(void)te_store_upsert(t->client, &key, &value, 1, NULL,
				      &result);
		get_in_all_ways(t->client, "m", bytes);
	}
	assert_true(f.n > 10); /* all this takes memory */
	assert_true(test_wait_until(healthy, t->client, POOL_START_MS));
	assert_true(test_wait_until(healthy, t->owner, POOL_START_MS));
	assert_int_equal(pool_put(t->client, "n", bytes, sizeof(bytes)), 0);
	assert_int_equal(pool_get(t->client, "n", room, sizeof(room)), 100);
}

#define T(test) cmocka_unit_test_teardown(test, unbend)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(parts_in_any_order_make_a_value),
		T(what_has_holes_is_not_committed),
		T(single_bytes_in_a_wild_order_are_a_value),
		T(empty_parts_are_written_anywhere_in_the_value),
		T(several_keys_go_in_one_call),
		T(what_is_given_up_leaves_nothing),
		T(mistakes_have_their_codes),
		T(a_failed_part_fails_the_value),
		T(without_headers_nothing_is_begun),
		T(without_a_checksum_the_header_is_looked_at_again),
		T(parts_in_order_have_a_checksum),
		T(another_master_takes_no_draft_of_the_last),
		T(any_failed_allocation_is_an_error_and_no_more),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
