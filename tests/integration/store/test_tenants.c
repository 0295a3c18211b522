/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tenants.c - tenants of one pool: each sees its own, and pays itself
 *
 * The owner is a process that has no quota: it may lend memory all the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define KIB        1024u
#define MIB        (1024u * KIB)
#define VALUE      (64 * KIB)
#define RED        2 /* MiB */
#define WAIT_MS    60000
#define TENANT_MAX 64 /* bytes of a name */

struct world {
	struct pool pool;
	struct test_process *owner;
	struct te_store *red, *blue, *nobody;
	char folder[TEST_PATH_MAX], quotas[TEST_PATH_MAX + 32];
	const char *args[8];
};

static struct te_store *client(const struct world *w, const char *tenant)
{
	const struct te_store_config config = {
		.size = sizeof(config),
		.call_timeout_ms = 30000,
		.replica_timeout_ms = 30000,
		.setup_timeout_ms = WAIT_MS,
		.master = w->pool.address,
		.tenant = tenant,
	};
	struct te_store *store = NULL;

	assert_int_equal(te_store_setup(&config, &store), 0);
	return store;
}

static void write_quotas(const struct world *w)
{
	FILE *f = fopen(w->quotas, "wb");

	assert_non_null(f);
	(void)fprintf(f,
		      "version: 1\ntenants:\n- {name: red, quota: %uMB}\n"
		      "- {name: blue, quota: 8MB}\n",
		      RED);
	assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	const char *const args[] = {"--client_ttl", "100s",
				    "--enable_multi_tenants",
				    "--tenant_quota_connector_uri"};

	assert_non_null(w);
	test_tmpdir_create(w->folder);
	(void)snprintf(w->quotas, sizeof(w->quotas), "%s/quotas.yaml",
		       w->folder);
	write_quotas(w);
	memcpy(w->args, args, sizeof(args));
	w->args[4] = w->quotas;
	pool_start(&w->pool, w->args);
	w->owner = pool_owner(&w->pool, "16 MB");
	w->red = client(w, "red");
	w->blue = client(w, "blue");
	w->nobody = client(w, NULL);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	te_store_close(w->red);
	te_store_close(w->blue);
	te_store_close(w->nobody);
	test_process_end(w->owner);
	pool_stop(&w->pool);
	test_tmpdir_remove(w->folder);
	free(w);
	return 0;
}

static int put(struct te_store *store, const char *key, uint64_t id)
{
	static uint8_t bytes[VALUE];

	pool_fill(bytes, sizeof(bytes), id);
	return pool_put(store, key, bytes, sizeof(bytes));
}

static bool has(struct te_store *store, const char *key, uint64_t id)
{
	static uint8_t bytes[VALUE];

	return pool_get(store, key, bytes, sizeof(bytes)) ==
		       (int64_t)sizeof(bytes) &&
	       pool_is_filled(bytes, sizeof(bytes), id);
}

static int exists(struct te_store *store, const char *key)
{
	const struct te_store_key k = pool_key(key);
	int result = -1;

	(void)te_store_exist(store, &k, 1, &result);
	return result;
}

static void two_tenants_have_two_values_of_one_key(void **state)
{
	struct world *w = *state;
	uint64_t removed = 0;

	assert_int_equal(put(w->red, "k", 1), 0);
	assert_int_equal(exists(w->blue, "k"), 0);
	assert_int_equal(put(w->blue, "k", 2), 0);
	assert_int_equal(put(w->blue, "l", 3), 0);
	assert_true(has(w->red, "k", 1));
	assert_true(has(w->blue, "k", 2));
	assert_int_equal(exists(w->red, "l"), 0);
	assert_int_equal(te_store_remove_all(w->blue, 1, &removed), 0);
	assert_int_equal(removed, 2);
	assert_int_equal(exists(w->blue, "k"), 0);
	assert_true(has(w->red, "k", 1));
}

static void who_has_no_quota_is_told_so(void **state)
{
	struct world *w = *state;
	uint64_t removed = 0;
	uint8_t byte;

	assert_int_equal(put(w->nobody, "k", 1),
			 TE_STORE_TENANT_NOT_REGISTERED);
	assert_int_equal(exists(w->nobody, "k"),
			 TE_STORE_TENANT_NOT_REGISTERED);
	assert_int_equal(pool_get(w->nobody, "k", &byte, 1),
			 TE_STORE_TENANT_NOT_REGISTERED);
	assert_int_equal(te_store_remove_all(w->nobody, 1, &removed),
			 TE_STORE_TENANT_NOT_REGISTERED);
	assert_string_equal(te_store_strerror(TE_STORE_TENANT_NOT_REGISTERED),
			    "TENANT_NOT_REGISTERED");
}

/* How many of @n keys of @store are there. */
static int count(struct te_store *store, const char *prefix, int n)
{
	char key[32];
	int there = 0;

	for (int i = 0; i < n; i++) {
		(void)snprintf(key, sizeof(key), "%s%d", prefix, i);
		there += exists(store, key) == 1;
	}
	return there;
}

static void put_many(struct te_store *store, const char *prefix, int n)
{
	char key[32];

	for (int i = 0; i < n; i++) {
		(void)snprintf(key, sizeof(key), "%s%d", prefix, i);
		assert_int_equal(put(store, key, (uint64_t)i), 0);
	}
}

static void a_tenant_evicts_its_own_and_no_others(void **state)
{
	struct world *w = *state;
	int fit = RED * MIB / (VALUE + 64);

	put_many(w->blue, "b", 50);
	put_many(w->red, "r", 3 * fit);
	assert_int_equal(count(w->red, "r", 3 * fit), fit);
	assert_int_equal(count(w->blue, "b", 50), 50);
}

static void beyond_its_quota_it_is_told_so(void **state)
{
	struct te_store_replicate pinned = pool_several(1);
	struct world *w = *state;
	int fit = RED * MIB / (VALUE + 64), code = 0, n = 0;
	uint8_t *large = calloc(1, RED * MIB);
	uint64_t removed = 0;
	char key[32];

	assert_non_null(large);
	put_many(w->blue, "b", 50);
	put_many(w->red, "r", fit);
	assert_int_equal(pool_put(w->red, "large", large, RED * MIB),
			 TE_STORE_TENANT_QUOTA_EXCEEDED);
	assert_int_equal(count(w->red, "r", fit), fit);
	/* Nothing of it can go any more. */
	pinned.flags = TE_STORE_HARD_PIN;
	while (!code && n <= fit) {
		(void)snprintf(key, sizeof(key), "p%d", n);
		code = pool_put_as(w->red, key, large, VALUE, &pinned);
		n += !code;
	}
	assert_int_equal(code, TE_STORE_TENANT_QUOTA_EXCEEDED);
	assert_int_equal(n, fit);
	assert_int_equal(count(w->blue, "b", 50), 50);
	/* With room it goes on. */
	assert_int_equal(te_store_remove_all(w->red, 1, &removed), 0);
	assert_int_equal(removed, (uint64_t)fit);
	assert_int_equal(put(w->red, "r", 1), 0);
	free(large);
}

struct wanted {
	struct te_store *store;
	uint64_t id;
};

static bool has_it(void *arg)
{
	const struct wanted *wanted = arg;

	return has(wanted->store, "k", wanted->id);
}

/* Each client finds the new master by itself. */
static bool reaches_the_master(void *arg)
{
	return exists(arg, "k") != TE_STORE_RPC_FAIL;
}

static void tenants_survive_the_master(void **state)
{
	struct world *w = *state;
	struct wanted red = {w->red, 1}, blue = {w->blue, 2};

	assert_int_equal(put(w->red, "k", 1), 0);
	assert_int_equal(put(w->blue, "k", 2), 0);
	pool_kill(&w->pool);
	pool_restart(&w->pool, w->args);
	assert_true(test_wait_until(has_it, &red, WAIT_MS));
	assert_true(test_wait_until(has_it, &blue, WAIT_MS));
	assert_true(test_wait_until(reaches_the_master, w->nobody, WAIT_MS));
	assert_int_equal(exists(w->nobody, "k"),
			 TE_STORE_TENANT_NOT_REGISTERED);
}

static void without_tenants_all_have_the_same_keys(void **state)
{
	struct world w = {.folder = ""};
	struct te_store *lender;

	(void)state;
	pool_start(&w.pool, pool_patient);
	lender = pool_client(&w.pool, 4 * MIB);
	w.red = client(&w, "red");
	w.blue = client(&w, "blue");
	assert_int_equal(put(w.red, "k", 1), 0);
	assert_true(has(w.blue, "k", 1));
	assert_true(has(lender, "k", 1));
	te_store_close(w.red);
	te_store_close(w.blue);
	te_store_close(lender);
	pool_stop(&w.pool);
}

static void names_that_nobody_may_have_are_refused(void **state)
{
	char long_name[TENANT_MAX + 2];
	const char *const bad[] = {"_x", "a\nb", "\x7f", long_name};
	struct te_store *store = NULL;

	(void)state;
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		const struct te_store_config config = {
			.size = sizeof(config),
			.master = "127.0.0.1:1",
			.tenant = bad[i],
		};

		assert_int_equal(te_store_setup(&config, &store),
				 TE_STORE_INVALID_PARAMS);
	}
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(two_tenants_have_two_values_of_one_key),
		T(who_has_no_quota_is_told_so),
		T(a_tenant_evicts_its_own_and_no_others),
		T(beyond_its_quota_it_is_told_so),
		T(tenants_survive_the_master),
		cmocka_unit_test(without_tenants_all_have_the_same_keys),
		cmocka_unit_test(names_that_nobody_may_have_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
