/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_open.c - keys that are open stay leased for as long as they are, and no
 * longer; what they name may go or be replaced all the same
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/client/client.h"
#include "store/proto/extent.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define MIB      ((uint64_t)1 << 20)
#define LEASE_NS (4 * TEI_NS_PER_S) /* a crowded machine renews it in time */
#define N_KEYS   2500u              /* of several calls to the master */
#define WAIT_MS  (2 * POOL_START_MS)

static const char *const short_leases[] = {"--default_kv_lease_ttl", "4s",
					   "--client_ttl", "100s", NULL};

struct rig {
	struct pool pool;
	struct te_store *reader, *other;
	struct te_store_key keys[N_KEYS];
	char names[N_KEYS][16];
	int codes[N_KEYS];
	uint64_t until_ns; /* what is waited for */
};

static struct rig *rig_start(void)
{
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	pool_start(&r->pool, short_leases);
	r->other = pool_client(&r->pool, 16 * MIB);
	r->reader = pool_client(&r->pool, 0);
	for (unsigned int i = 0; i < N_KEYS; i++) {
		(void)snprintf(r->names[i], sizeof(r->names[i]), "open/%u", i);
		r->keys[i] = pool_key(r->names[i]);
	}
	return r;
}

static void rig_stop(struct rig *r)
{
	te_store_close(r->reader);
	te_store_close(r->other);
	pool_stop(&r->pool);
	free(r);
}

static void open_keys(struct rig *r, size_t n)
{
	assert_int_equal(te_store_get_open(r->reader, r->keys, n, r->codes), 0);
}

static void close_keys(struct rig *r, size_t n)
{
	assert_int_equal(te_store_get_close(r->reader, r->keys, n), 0);
}

/* Until when the reader takes key @i for leased; 0: it does not. */
static uint64_t leased_until(const struct rig *r, size_t i)
{
	struct tes_locations *l = &r->reader->locations;
	const struct te_store_key *key = &r->keys[i];
	uint64_t seed = atomic_load(&r->reader->digest_seed), until;
	struct tes_location *e = tes_locations_get(
		l, key->bytes, key->len,
		tes_key_digest(key->bytes, key->len, seed), tei_now_ns());

	until = e ? atomic_load(&e->expires_ns) : 0;
	tes_location_put(l, e);
	return until;
}

/* ---- as long as they are open ---- */

static void begin(struct rig *r)
{
	open_keys(r, N_KEYS);
	r->until_ns = tei_now_ns() + 2 * LEASE_NS;
}

/*
 * Far beyond what they were opened with. Where the machine stood still for so
 * long that they ended all the same, they are opened anew.
 */
static bool all_are_renewed(void *arg)
{
	struct rig *r = arg;

	for (unsigned int i = 0; i < N_KEYS; i++) {
		uint64_t until = leased_until(r, i);

		if (!until) {
			close_keys(r, N_KEYS);
			begin(r);
		}
		if (until < r->until_ns)
			return false;
	}
	return true;
}

static bool all_are_removed(void *arg)
{
	struct rig *r = arg;
	unsigned int n = 0;

	(void)te_store_remove(r->other, r->keys, N_KEYS, 0, r->codes);
	for (unsigned int i = 0; i < N_KEYS; i++)
		n += !r->codes[i] || r->codes[i] == TE_STORE_OBJECT_NOT_FOUND;
	return n == N_KEYS;
}

static void leases_of_open_keys_are_renewed(void **state)
{
	struct rig *r = rig_start();

	(void)state;
	for (unsigned int i = 0; i < N_KEYS; i++)
		assert_int_equal(pool_put(r->other, r->names[i], "v", 1), 0);
	begin(r);
	assert_true(test_wait_until(all_are_renewed, r, WAIT_MS));
	(void)te_store_remove(r->other, r->keys, N_KEYS, 0, r->codes);
	for (unsigned int i = 0; i < N_KEYS; i++)
		assert_int_equal(r->codes[i], TE_STORE_OBJECT_HAS_LEASE);
	close_keys(r, N_KEYS);
	assert_true(test_wait_until(all_are_removed, r, POOL_START_MS));
	rig_stop(r);
}

/* ---- what they name ---- */

static bool first_is_over(void *arg)
{
	return !leased_until(arg, 0);
}

static void what_was_removed_is_not_renewed(void **state)
{
	struct rig *r = rig_start();
	uint8_t room[8];

	(void)state;
	assert_int_equal(pool_put(r->other, r->names[0], "old", 3), 0);
	open_keys(r, 1);
	assert_int_equal(te_store_remove(r->other, r->keys, 1, 1, r->codes), 0);
	assert_true(test_wait_until(first_is_over, r, POOL_START_MS));
	assert_int_equal(pool_get(r->reader, r->names[0], room, 8), -704);
	assert_int_equal(pool_put(r->other, r->names[0], "newer", 5), 0);
	assert_int_equal(pool_get(r->reader, r->names[0], room, 8), 5);
	assert_memory_equal(room, "newer", 5);
	close_keys(r, 1);
	rig_stop(r);
}

static bool first_is_renewed(void *arg)
{
	struct rig *r = arg;
	uint64_t until = leased_until(r, 0);
	uint8_t room[8];

	if (!until) {
		/* This read looks it up, and keeps that. */
		assert_int_equal(pool_get(r->reader, r->names[0], room, 8), 5);
		r->until_ns = tei_now_ns() + 2 * LEASE_NS;
	}
	return until >= r->until_ns;
}

static void what_was_replaced_is_renewed_as_it_is_now(void **state)
{
	struct iovec piece = {(void *)(uintptr_t) "newer", 5};
	const struct te_store_value value = {.pieces = &piece, .n_pieces = 1};
	struct rig *r = rig_start();
	uint8_t room[8];

	(void)state;
	assert_int_equal(pool_put(r->other, r->names[0], "old", 3), 0);
	open_keys(r, 1);
	assert_int_equal(
		te_store_upsert(r->other, r->keys, &value, 1, NULL, r->codes),
		0);
	assert_true(test_wait_until(first_is_over, r, POOL_START_MS));
	assert_int_equal(pool_get(r->reader, r->names[0], room, 8), 5);
	assert_memory_equal(room, "newer", 5);
	r->until_ns = tei_now_ns() + 2 * LEASE_NS;
	assert_true(test_wait_until(first_is_renewed, r, WAIT_MS));
	close_keys(r, 1);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leases_of_open_keys_are_renewed),
		cmocka_unit_test(what_was_removed_is_not_renewed),
		cmocka_unit_test(what_was_replaced_is_renewed_as_it_is_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
