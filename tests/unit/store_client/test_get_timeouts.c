/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_get_timeouts.c - the time limits of gets of many bytes
 *
 * They share one link, so each has time for what is read beside it.
 */
#include <stdlib.h>

#include "tests/lib/test.h"
#include "tests/store/fake_te.h"
#include "tests/store/pool.h"

#define MIB        (1u << 20)
#define REPLICA_MS 1000u /* of reading one replica */
#define MIB_MS     16u   /* more for each MiB */
#define VALUES     3u
#define PATIENT_MS 30000u

struct rig {
	struct pool pool;
	struct te_store *owner, *client;
	uint8_t *room;             /* VALUES MiB */
	uint32_t times_ms[VALUES]; /* of reads, in order */
	uint32_t n_reads;
};

static void see_time(const struct te_request *req, struct te_completion *done,
		     void *arg)
{
	struct rig *r = arg;

	(void)done;
	if (req->op == TE_READ && r->n_reads < VALUES)
		r->times_ms[r->n_reads++] = req->timeout_ms;
}

static int set_up(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->room = calloc(VALUES, MIB);
	assert_non_null(r->room);
	pool_start(&r->pool, pool_patient);
	r->owner = pool_client(&r->pool, 16 * MIB);
	r->client = pool_hasty_client(&r->pool, 0, PATIENT_MS, REPLICA_MS);
	fake_te_set_hook(see_time, r);
	*state = r;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *r = *state;

	fake_te_set_hook(NULL, NULL);
	te_store_close(r->client);
	te_store_close(r->owner);
	pool_stop(&r->pool);
	free(r->room);
	free(r);
	return 0;
}

/* Puts @n values of @bytes each, "0", "1" .., and gets them by one call. */
static void get(struct rig *r, uint32_t n, size_t bytes)
{
	static const char *const names[VALUES] = {"0", "1", "2"};
	struct te_store_key keys[VALUES] = {{0}};
	struct te_store_value values[VALUES] = {{0}};
	struct iovec pieces[VALUES];
	int64_t results[VALUES] = {0};

	for (uint32_t i = 0; i < n; i++) {
		pieces[i] = (struct iovec){r->room + i * bytes, bytes};
		keys[i] = pool_key(names[i]);
		values[i] = (struct te_store_value){.pieces = &pieces[i],
						    .n_pieces = 1};
		assert_int_equal(pool_put(r->client, names[i], r->room, bytes),
				 0);
	}
	(void)te_store_get(r->client, keys, values, n, results);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(results[i], bytes);
	assert_int_equal(r->n_reads, n);
}

static void few_bytes_have_the_time_that_is_set(void **state)
{
	struct rig *r = *state;

	get(r, 2, 1000);
	assert_int_equal(r->times_ms[0], REPLICA_MS);
	assert_int_equal(r->times_ms[1], REPLICA_MS);
}

static void a_large_value_has_more(void **state)
{
	struct rig *r = *state;

	get(r, 1, VALUES * MIB);
	assert_int_equal(r->times_ms[0], REPLICA_MS + VALUES * MIB_MS);
}

static void each_has_time_for_all_of_the_call(void **state)
{
	struct rig *r = *state;

	get(r, VALUES, MIB);
	for (uint32_t i = 0; i < VALUES; i++)
		assert_int_equal(r->times_ms[i], REPLICA_MS + VALUES * MIB_MS);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(few_bytes_have_the_time_that_is_set),
		T(a_large_value_has_more),
		T(each_has_time_for_all_of_the_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
