/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_values.c - put and get against a real master and a bendable engine
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/proto/extent.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"
#include "tests/unit/store_client/two.h"

static void what_was_put_is_got(void **state)
{
	struct two *t = *state;
	uint8_t bytes[1000], room[2000];

	pool_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(pool_get(t->client, "a", room, sizeof(room)), -704);
	assert_int_equal(pool_put(t->client, "a", bytes, sizeof(bytes)), 0);
	memset(room, 0x5a, sizeof(room));
	assert_int_equal(pool_get(t->client, "a", room, sizeof(room)), 1000);
	assert_memory_equal(room, bytes, sizeof(bytes));
	assert_int_equal(room[1000], 0x5a);
	assert_int_equal(pool_get(t->owner, "a", room, sizeof(room)), 1000);
}

static void room_of_exactly_the_size_is_enough(void **state)
{
	struct two *t = *state;
	uint8_t bytes[100], room[100];

	pool_fill(bytes, sizeof(bytes), 2);
	assert_int_equal(pool_put(t->client, "b", bytes, sizeof(bytes)), 0);
	assert_int_equal(pool_get(t->client, "b", room, 100), 100);
	assert_int_equal(pool_get(t->client, "b", room, 99),
			 TE_STORE_INVALID_PARAMS);
}

static void a_second_put_leaves_the_object_as_it_is(void **state)
{
	struct two *t = *state;
	uint8_t room[8];

	assert_int_equal(pool_put(t->client, "c", "first", 5), 0);
	assert_int_equal(pool_put(t->client, "c", "other!", 6), 0);
	assert_int_equal(pool_get(t->client, "c", room, sizeof(room)), 5);
	assert_memory_equal(room, "first", 5);
}

static void a_key_twice_in_a_call_counts_once(void **state)
{
	struct two *t = *state;
	const struct te_store_key keys[3] = {
		{.bytes = "d", .len = 1},
		{.bytes = "d", .len = 1},
		{.bytes = "e", .len = 1},
	};
	struct iovec pieces[3] = {{"one", 3}, {"twoo", 4}, {"three", 5}};
	struct te_store_value values[3];
	char room[3][8];
	int results[3], i;
	int64_t sizes[3];

	for (i = 0; i < 3; i++)
		values[i] = (struct te_store_value){.pieces = &pieces[i],
						    .n_pieces = 1};
	assert_int_equal(
		te_store_put(t->client, keys, values, 3, NULL, results), 0);
	for (i = 0; i < 3; i++)
		pieces[i] = (struct iovec){room[i], 8};
	assert_int_equal(te_store_get(t->client, keys, values, 3, sizes), 3);
	assert_int_equal(sizes[0], 3);
	assert_int_equal(sizes[1], 3);
	assert_int_equal(sizes[2], 5);
	assert_memory_equal(room[1], "one", 3);
}

static void fail_quietly(const struct te_request *req,
			 struct te_completion *done, void *arg)
{
	(void)arg;
	if (req->op == TE_WRITE)
		done->error = -EIO;
}

static void the_first_of_a_key_decides_for_the_second(void **state)
{
	struct two *t = *state;
	const struct te_store_key keys[2] = {
		{.bytes = "f", .len = 1},
		{.bytes = "f", .len = 1},
	};
	const struct iovec piece = {"x", 1};
	const struct te_store_value values[2] = {
		{.pieces = &piece, .n_pieces = 1},
		{.pieces = &piece, .n_pieces = 1},
	};
	int results[2];

	fake_te_set_hook(fail_quietly, NULL);
	assert_int_equal(
		te_store_put(t->client, keys, values, 2, NULL, results), -800);
	assert_int_equal(results[0], -800);
	assert_int_equal(results[1], -800);
	/* Revoked: the next one may put it at once. */
	fake_te_set_hook(NULL, NULL);
	assert_int_equal(
		te_store_put(t->client, keys, values, 2, NULL, results), 0);
}

static void pieces_are_put_together(void **state)
{
	struct two *t = *state;
	const struct te_store_key key = {.bytes = "g", .len = 1};
	uint8_t in[300], out[300];
	const struct iovec from[4] = {
		{in, 1}, {in + 1, 0}, {in + 1, 199}, {in + 200, 100}};
	const struct iovec to[3] = {
		{out, 150}, {out + 150, 149}, {out + 299, 1}};
	const struct te_store_value put = {.pieces = from, .n_pieces = 4};
	const struct te_store_value get = {.pieces = to, .n_pieces = 3};
	int result;
	int64_t size;

	pool_fill(in, sizeof(in), 3);
	assert_int_equal(te_store_put(t->client, &key, &put, 1, NULL, &result),
			 0);
	assert_int_equal(te_store_get(t->client, &key, &get, 1, &size), 1);
	assert_int_equal(size, 300);
	assert_memory_equal(in, out, 300);
}

static void bad_keys_fail_alone(void **state)
{
	struct two *t = *state;
	const struct te_store_key keys[3] = {
		{.bytes = "h", .len = 1},
		{.bytes = "h", .len = 0},
		{.bytes = "i", .len = 1},
	};
	const struct iovec piece = {"x", 1};
	const struct te_store_value values[3] = {
		{.pieces = &piece, .n_pieces = 1},
		{.pieces = &piece, .n_pieces = 1},
		{.pieces = NULL, .n_pieces = 1},
	};
	int results[3];
	int64_t sizes[3];

	assert_int_equal(
		te_store_put(t->client, keys, values, 3, NULL, results), -600);
	assert_int_equal(results[0], 0);
	assert_int_equal(results[1], -600);
	assert_int_equal(results[2], -600);
	assert_int_equal(te_store_exist(t->client, keys, 3, results), -600);
	assert_int_equal(results[0], 1);
	assert_int_equal(results[1], -600);
	assert_int_equal(results[2], 0);
	assert_int_equal(te_store_size(t->client, keys, 3, sizes), -600);
	assert_int_equal(sizes[0], 1);
	assert_int_equal(sizes[2], -704);
	assert_int_equal(
		te_store_put(t->client, NULL, values, 3, NULL, results), -600);
	assert_int_equal(te_store_put(t->client, keys, NULL, 3, NULL, results),
			 -600);
	assert_int_equal(te_store_put(NULL, keys, values, 3, NULL, results),
			 -600);
	assert_int_equal(te_store_put(t->client, NULL, NULL, 0, NULL, NULL), 0);
	assert_int_equal(te_store_get(t->client, keys, values, 3, NULL), -600);
}

static void removed_objects_are_misses(void **state)
{
	struct two *t = *state;
	const struct te_store_key key = {.bytes = "j", .len = 1};
	uint8_t room[8];
	int result;

	assert_int_equal(pool_put(t->client, "j", "x", 1), 0);
	assert_int_equal(te_store_remove(t->client, &key, 1, 0, &result), 0);
	assert_int_equal(pool_get(t->client, "j", room, 8), -704);
	assert_int_equal(te_store_remove(t->client, &key, 1, 1, &result), -704);
	assert_int_equal(pool_put(t->client, "j", "y", 1), 0);
}

/* ---- what does not verify is a miss ---- */

/* Change a byte of what a read is about to find. */
struct vandal {
	size_t at; /* from the header's start */
	int left;  /* reads to spoil */
};

static void spoil(const struct te_request *req, struct te_completion *done,
		  void *arg)
{
	struct vandal *v = arg;

	(void)done;
	if (req->op == TE_READ && v->left-- > 0)
		((uint8_t *)(uintptr_t)req->remote)[v->at] ^= 1;
}

static void changed_bytes_are_a_miss(void **state)
{
	struct two *t = *state;
	struct vandal v = {.at = TES_EXTENT_HEADER_LEN + 17, .left = 1};
	uint8_t bytes[100], room[100];

	pool_fill(bytes, sizeof(bytes), 4);
	assert_int_equal(pool_put(t->client, "k", bytes, sizeof(bytes)), 0);
	fake_te_set_hook(spoil, &v);
	assert_int_equal(pool_get(t->client, "k", room, sizeof(room)), -704);
}

static void a_changed_header_is_a_miss(void **state)
{
	struct two *t = *state;
	struct vandal v = {.at = 16, .left = 1};
	uint8_t bytes[100], room[100];

	pool_fill(bytes, sizeof(bytes), 6);
	assert_int_equal(pool_put(t->client, "l", bytes, sizeof(bytes)), 0);
	fake_te_set_hook(spoil, &v);
	assert_int_equal(pool_get(t->client, "l", room, sizeof(room)), -704);
}

static void bytes_that_come_right_are_read_again(void **state)
{
	struct two *t = *state;
	/* Spoiled by the first read, put right again by the second. */
	struct vandal v = {.at = TES_EXTENT_HEADER_LEN, .left = 2};
	uint8_t bytes[100], room[100];

	pool_fill(bytes, sizeof(bytes), 5);
	assert_int_equal(pool_put(t->client, "m", bytes, sizeof(bytes)), 0);
	fake_te_set_hook(spoil, &v);
	assert_int_equal(pool_get(t->client, "m", room, sizeof(room)), 100);
	assert_true(pool_is_filled(room, 100, 5));
}

/* ---- owners that do not answer ---- */

struct ending {
	uint32_t op;
	int error, left;
	bool loud; /* not remote quiet */
	uint64_t last_epoch;
};

static void end_with(const struct te_request *req, struct te_completion *done,
		     void *arg)
{
	struct ending *e = arg;

	if (req->op != e->op || e->left-- <= 0)
		return;
	done->error = e->error;
	e->last_epoch = req->epoch;
	if (e->loud)
		done->flags = 0;
}

static void a_read_that_times_out_is_a_failed_transfer(void **state)
{
	struct two *t = *state;
	struct ending e = {.op = TE_READ, .error = -ETIMEDOUT, .left = 1};
	uint8_t room[8];

	assert_int_equal(pool_put(t->client, "n", "x", 1), 0);
	fake_te_set_hook(end_with, &e);
	assert_int_equal(pool_get(t->client, "n", room, 8), -800);
}

static void a_refused_read_is_tried_again_and_then_a_miss(void **state)
{
	struct two *t = *state;
	struct ending e = {.op = TE_READ, .error = -ECONNREFUSED, .left = 1};
	uint8_t room[8];

	assert_int_equal(pool_put(t->client, "o", "x", 1), 0);
	fake_te_set_hook(end_with, &e);
	assert_int_equal(pool_get(t->client, "o", room, 8), 1);
	e.left = 2;
	assert_int_equal(pool_get(t->client, "o", room, 8), -704);
}

static void a_stale_write_starts_again(void **state)
{
	struct two *t = *state;
	struct ending e = {.op = TE_WRITE, .error = -ESTALE, .left = 2};
	uint8_t room[8];

	fake_te_set_hook(end_with, &e);
	assert_int_equal(pool_put(t->client, "p", "x", 1), 0);
	assert_int_equal(pool_get(t->client, "p", room, 8), 1);
	e.left = 3;
	assert_int_equal(pool_put(t->client, "q", "x", 1), -800);
}

static uint64_t used_bytes(struct te_store *store)
{
	struct te_store_pool figures;

	assert_int_equal(te_store_pool(store, &figures), 0);
	return figures.used_bytes;
}

struct use {
	struct te_store *store;
	uint64_t bytes;
};

static bool is_used(void *arg)
{
	const struct use *use = arg;

	return used_bytes(use->store) == use->bytes;
}

static void a_write_that_may_still_arrive_is_fenced_first(void **state)
{
	struct two *t = *state;
	struct ending e = {
		.op = TE_WRITE, .error = -ETIMEDOUT, .left = 1, .loud = true};
	struct use before = {t->client, used_bytes(t->client)};
	uint8_t room[8];

	fake_te_hold_revokes(FAKE_TE_LATE);
	fake_te_set_hook(end_with, &e);
	assert_int_equal(pool_put(t->client, "r", "x", 1), -800);
	assert_int_equal(pool_get(t->client, "r", room, 8), -704);
	/* The space is still the writer's, until its owner has ended it. */
	assert_true(used_bytes(t->client) > before.bytes);
	fake_te_hold_revokes(FAKE_TE_FREE);
	assert_true(test_wait_until(is_used, &before, POOL_START_MS));
}

static void a_failed_upsert_leaves_what_is_there(void **state)
{
	struct two *t = *state;
	const struct te_store_key key = {.bytes = "v", .len = 1};
	const struct iovec piece = {"new", 3};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	struct ending e = {.op = TE_WRITE, .error = -EIO, .left = 1};
	uint8_t room[8];
	int result;

	assert_int_equal(pool_put(t->client, "v", "old", 3), 0);
	fake_te_set_hook(end_with, &e);
	assert_int_equal(
		te_store_upsert(t->client, &key, &value, 1, NULL, &result),
		-800);
	assert_int_equal(pool_get(t->client, "v", room, 8), 3);
	assert_memory_equal(room, "old", 3);
	assert_int_equal(
		te_store_upsert(t->client, &key, &value, 1, NULL, &result), 0);
	assert_int_equal(pool_get(t->client, "v", room, 8), 3);
	assert_memory_equal(room, "new", 3);
}

/* ---- access epochs ---- */

/* The owner revokes us and we learn of it before the first write goes out. */
struct revoker {
	struct two *t;
	int left;
	uint64_t epochs[8];
	int n;
};

static void note_epoch(const struct te_request *req, struct te_completion *done,
		       void *arg)
{
	struct revoker *r = arg;

	(void)done;
	if (req->op == TE_WRITE && r->n < 8)
		r->epochs[r->n++] = req->epoch;
}

static void writes_carry_the_epoch_they_were_started_under(void **state)
{
	struct two *t = *state;
	struct revoker r = {.t = t};
	uint8_t incarnation[TE_INCARNATION_LEN];
	uint64_t first;

	/* Others have been fenced before: from here on it is known. */
	assert_int_equal(pool_put(t->client, "s0", "x", 1), 0);
	fake_te_set_hook(note_epoch, &r);
	assert_int_equal(pool_put(t->client, "s", "x", 1), 0);
	assert_int_equal(r.n, 1);
	first = r.epochs[0];
	te_engine_incarnation(te_store_engine(t->client), incarnation);
	assert_int_equal(
		te_peer_revoke(te_store_engine(t->owner), incarnation, 0), 0);
	/* It hears of the revocation by its first write and starts again. */
	assert_int_equal(pool_put(t->client, "t", "x", 1), 0);
	assert_int_equal(r.n, 3);
	assert_int_equal(r.epochs[1], first);
	assert_int_equal(r.epochs[2], first + 1);
	/* Known from before the start: at once. */
	assert_int_equal(pool_put(t->client, "u", "x", 1), 0);
	assert_int_equal(r.n, 4);
	assert_int_equal(r.epochs[3], first + 1);
}

#define T(test) cmocka_unit_test_teardown(test, unbend)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_was_put_is_got),
		T(room_of_exactly_the_size_is_enough),
		T(a_second_put_leaves_the_object_as_it_is),
		T(a_key_twice_in_a_call_counts_once),
		T(the_first_of_a_key_decides_for_the_second),
		T(pieces_are_put_together),
		T(bad_keys_fail_alone),
		T(removed_objects_are_misses),
		T(changed_bytes_are_a_miss),
		T(a_changed_header_is_a_miss),
		T(bytes_that_come_right_are_read_again),
		T(a_read_that_times_out_is_a_failed_transfer),
		T(a_refused_read_is_tried_again_and_then_a_miss),
		T(a_stale_write_starts_again),
		T(a_write_that_may_still_arrive_is_fenced_first),
		T(a_failed_upsert_leaves_what_is_there),
		T(writes_carry_the_epoch_they_were_started_under),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
