/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_drain_jobs.c - a job empties one of three owners while everybody goes on
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/integration/store/emptied.h"
#include "tests/integration/store/load.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define N_REMOVED 20u

struct world {
	struct emptied e;
	struct te_store *client; /* of @e, not owned */
	struct load load;
};

static int start(void **state, const char *lease)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	emptied_start(&w->e, lease, "64MB");
	w->client = w->e.client;
	*state = w;
	return 0;
}

/* What is read all the time is leased now and then. */
static int set_up(void **state)
{
	return start(state, "--default_kv_lease_ttl=10");
}

static int set_up_leases(void **state)
{
	return start(state, "--default_kv_lease_ttl=300000");
}

static int tear_down(void **state)
{
	struct world *w = *state;

	emptied_stop(&w->e);
	free(w);
	return 0;
}

/* All values are on the first owner; then the others come. */
static void fill(struct world *w)
{
	char name[LOAD_ROOM];

	for (unsigned int k = 0; k <= LOAD_KEYS + N_REMOVED; k++)
		load_put(w->client, k);
	emptied_find(&w->e, load_name(LOAD_KEYS + N_REMOVED, name), w->e.name);
	load_remove(w->client, LOAD_KEYS + N_REMOVED); /* leased by now */
	emptied_join(&w->e, 2);
}

static bool has_moved_some(void *e)
{
	return emptied_figure(e, "succeeded_units") >= LOAD_KEYS / 8;
}

static bool is_stuck(void *e)
{
	return emptied_is_stuck(e, LOAD_KEYS + N_REMOVED - 1);
}

static void await_end(struct world *w)
{
	assert_true(test_wait_until(emptied_has_ended, &w->e, POOL_START_MS));
	assert_int_equal(emptied_figure(&w->e, "status"), 3);
	assert_int_equal(emptied_figure(&w->e, "failed_units"), 0);
	assert_int_equal(emptied_figure(&w->e, "blocked_units"), 0);
}

/* ---- what is proved ---- */

static void nothing_is_lost_when_it_is_emptied(void **state)
{
	struct world *w = *state;

	fill(w);
	load_start(&w->load, &w->e.pool);
	emptied_begin(&w->e, NULL);
	for (unsigned int k = LOAD_KEYS; k < LOAD_KEYS + N_REMOVED; k++)
		load_remove(w->client, k);
	await_end(w);
	test_process_signal(w->e.owners[0], SIGKILL);
	load_stop(&w->load);
	print_message("missed while it moved: %u\n",
		      atomic_load(&w->load.missed));
	for (unsigned int k = 0; k < LOAD_KEYS; k++)
		assert_int_equal(load_get(w->client, k), LOAD_LEN);
	for (unsigned int k = LOAD_KEYS; k < LOAD_KEYS + N_REMOVED; k++)
		assert_int_equal(load_get(w->client, k), -704);
}

static void it_goes_on_when_a_target_dies(void **state)
{
	struct world *w = *state;
	unsigned int lost = 0;

	fill(w);
	load_start(&w->load, &w->e.pool);
	emptied_begin(&w->e, NULL);
	assert_true(test_wait_until(has_moved_some, &w->e, POOL_START_MS));
	test_process_signal(w->e.owners[1], SIGKILL);
	await_end(w);
	load_stop(&w->load);
	for (unsigned int k = 0; k < LOAD_KEYS; k++)
		lost += load_get(w->client, k) != LOAD_LEN;
	print_message("lost with the target: %u\n", lost);
	assert_true(lost < LOAD_KEYS);
}

/* An open key is leased as long as it is open. */
static void what_is_leased_is_blocked(void **state)
{
	char name[LOAD_ROOM];
	struct world *w = *state;
	struct te_store_key key;
	int rc;

	fill(w);
	key = pool_key(load_name(7, name));
	assert_int_equal(te_store_get_open(w->client, &key, 1, &rc), 0);
	assert_int_equal(rc, 0);
	emptied_begin(&w->e, NULL);
	assert_true(test_wait_until(is_stuck, &w->e, POOL_START_MS));
	assert_int_equal(emptied_figure(&w->e, "status"), 2);
	assert_int_equal(load_get(w->client, 7), LOAD_LEN);
	assert_int_equal(te_store_get_close(w->client, &key, 1), 0);
	load_remove(w->client, 7); /* nothing else ends its lease so soon */
	await_end(w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_lost_when_it_is_emptied),
		TEST(it_goes_on_when_a_target_dies),
		cmocka_unit_test_setup_teardown(what_is_leased_is_blocked,
						set_up_leases, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
