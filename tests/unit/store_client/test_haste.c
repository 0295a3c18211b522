/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_haste.c - gets from owners that are silent, where others have it too
 *
 * The engine is one that says at once that an owner was silent, of those who do
 * not want to wait for that.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/lib/test.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"

#define MIB  (1u << 20)
#define SIZE 1000u

struct rig {
	struct pool pool;
	struct te_store *first, *second, *client;
	unsigned int n_hasty, n_patient; /* reads */
	int error;                       /* of the patient ones */
};

/* None answers in time who is in haste. */
static void be_silent(const struct te_request *req, struct te_completion *done,
		      void *arg)
{
	struct rig *r = arg;

	if (req->op != TE_READ)
		return;
	if (req->flags & TE_FAIL_SILENT) {
		r->n_hasty++;
		done->error = -EHOSTDOWN;
	} else {
		r->n_patient++;
		done->error = r->error;
	}
}

static void put(struct rig *r, const char *key, uint32_t n)
{
	const struct te_store_replicate how = pool_several(n);
	struct te_store_replica at[POOL_REPLICAS];
	uint8_t bytes[SIZE];

	pool_fill(bytes, SIZE, n);
	assert_int_equal(pool_put_as(r->client, key, bytes, SIZE, &how), 0);
	assert_int_equal(pool_replicas(r->client, key, at), n);
}

static int set_up(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	pool_start(&r->pool, pool_patient);
	r->first = pool_client(&r->pool, 4 * MIB);
	r->second = pool_client(&r->pool, 4 * MIB);
	r->client = pool_client(&r->pool, 0);
	put(r, "both", 2);
	put(r, "one", 1);
	fake_te_set_hook(be_silent, r);
	*state = r;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *r = *state;

	fake_te_set_hook(NULL, NULL);
	te_store_close(r->client);
	te_store_close(r->second);
	te_store_close(r->first);
	pool_stop(&r->pool);
	free(r);
	return 0;
}

static int64_t get(struct rig *r, const char *key, uint32_t n)
{
	uint8_t room[SIZE] = {0};
	int64_t result = pool_get(r->client, key, room, SIZE);

	assert_true(result < 0 || pool_is_filled(room, SIZE, n));
	return result;
}

static void the_last_replica_is_read_without_haste(void **state)
{
	struct rig *r = *state;

	assert_int_equal(get(r, "both", 2), SIZE);
	assert_int_equal(r->n_hasty, 1);
	assert_int_equal(r->n_patient, 1);
}

static void so_is_the_only_one(void **state)
{
	struct rig *r = *state;

	assert_int_equal(get(r, "one", 1), SIZE);
	assert_int_equal(r->n_hasty, 0);
	assert_int_equal(r->n_patient, 1);
}

static void get_two(struct rig *r, int64_t results[2])
{
	const struct te_store_key keys[2] = {pool_key("one"), pool_key("both")};
	uint8_t rooms[2][SIZE] = {{0}};
	const struct iovec pieces[2] = {{rooms[0], SIZE}, {rooms[1], SIZE}};
	const struct te_store_value values[2] = {
		{.pieces = &pieces[0], .n_pieces = 1},
		{.pieces = &pieces[1], .n_pieces = 1},
	};

	(void)te_store_get(r->client, keys, values, 2, results);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(results[i] < 0 ||
			    pool_is_filled(rooms[i], SIZE, i + 1));
}

static void the_only_one_is_asked_again_after_a_call_in_haste(void **state)
{
	struct rig *r = *state;
	int64_t results[2];

	get_two(r, results);
	assert_int_equal(results[0], SIZE);
	assert_int_equal(results[1], SIZE);
	assert_int_equal(r->n_hasty, 2);
	assert_int_equal(r->n_patient, 2);
}

/* By those who wait, too. */
static void what_nobody_answers_for_fails(void **state)
{
	struct rig *r = *state;
	int64_t results[2];

	r->error = -ETIMEDOUT;
	get_two(r, results);
	assert_int_equal(results[0], TE_STORE_TRANSFER_FAIL);
	assert_int_equal(results[1], TE_STORE_TRANSFER_FAIL);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_last_replica_is_read_without_haste),
		T(so_is_the_only_one),
		T(the_only_one_is_asked_again_after_a_call_in_haste),
		T(what_nobody_answers_for_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
