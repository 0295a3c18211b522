/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_drain_jobs.c - a job empties one of three owners while everybody goes on
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/master/caller.h"
#include "tests/integration/store/load.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define N_REMOVED 20u

struct world {
	struct master master;
	struct pool pool; /* of the master's address */
	struct te_store *client;
	struct test_process *owners[3]; /* the first is emptied */
	struct load load;
	char name[TE_NAME_LEN_MAX + 1]; /* of its segment */
	char job[64];
};

static int start(void **state, const char *lease)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	master_start(&w->master,
		     (const char *const[]){"--client_ttl=100s", lease, NULL});
	(void)snprintf(w->pool.address, sizeof(w->pool.address), "127.0.0.1:%u",
		       w->master.rpc);
	w->client = pool_client(&w->pool, 0);
	w->owners[0] = pool_owner(&w->pool, "64MB");
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

/* All values are on the first owner; then the others come. */
static void fill(struct world *w)
{
	struct te_store_replica r[POOL_REPLICAS];
	char name[LOAD_ROOM];

	for (unsigned int k = 0; k <= LOAD_KEYS + N_REMOVED; k++)
		load_put(w->client, k);
	(void)load_name(LOAD_KEYS + N_REMOVED, name);
	assert_int_equal(pool_replicas(w->client, name, r), 1);
	(void)snprintf(w->name, sizeof(w->name), "%s", r[0].segment);
	load_remove(w->client, LOAD_KEYS + N_REMOVED); /* leased by now */
	w->owners[1] = pool_owner(&w->pool, "64MB");
	w->owners[2] = pool_owner(&w->pool, "64MB");
}

static int tear_down(void **state)
{
	struct world *w = *state;

	te_store_close(w->client);
	for (size_t i = 0; i < 3; i++)
		test_process_end(w->owners[i]);
	master_stop(&w->master);
	free(w);
	return 0;
}

/* ---- the job ---- */

/* What follows "@member": in the answer, or NULL; as long as *text. */
static const char *member_of(const char *text, const char *member)
{
	char quoted[64];
	const char *at;

	(void)snprintf(quoted, sizeof(quoted), "\"%s\":", member);
	at = strstr(text, quoted);
	return at ? at + strlen(quoted) : NULL;
}

static void begin(struct world *w)
{
	char body[2 * TE_NAME_LEN_MAX];
	const char *id;
	int status;
	char *text;

	(void)snprintf(body, sizeof(body),
		       "{\"segments\":[\"%s\"],\"max_concurrency\":8}",
		       w->name);
	text = master_send(&w->master, "POST /api/v1/drain_jobs", body,
			   strlen(body), &status);
	assert_int_equal(status, 200);
	id = member_of(text, "job_id");
	assert_non_null(id);
	assert_int_equal(sscanf(id, " \"%63[^\"]", w->job), 1);
	free(text);
}

static int ask(const struct world *w, const char *member)
{
	char request[128];
	const char *value;
	int status, n;
	char *text;

	(void)snprintf(request, sizeof(request),
		       "GET /api/v1/drain_jobs/query?job_id=%s", w->job);
	text = master_ask(&w->master, request, &status);
	assert_int_equal(status, 200);
	value = member_of(text, member);
	assert_non_null(value);
	n = atoi(value);
	free(text);
	return n;
}

static bool has_ended(void *arg)
{
	return ask(arg, "status") > 2;
}

static bool has_moved_some(void *arg)
{
	return ask(arg, "succeeded_units") >= (int)(LOAD_KEYS / 8);
}

/* All but one have been moved. */
static bool is_stuck(void *arg)
{
	return ask(arg, "succeeded_units") ==
		       (int)(LOAD_KEYS + N_REMOVED - 1) &&
	       ask(arg, "blocked_units") == 1;
}

static void await_end(struct world *w)
{
	assert_true(test_wait_until(has_ended, w, POOL_START_MS));
	assert_int_equal(ask(w, "status"), 3);
	assert_int_equal(ask(w, "failed_units"), 0);
	assert_int_equal(ask(w, "blocked_units"), 0);
}

/* ---- what is proved ---- */

static void nothing_is_lost_when_it_is_emptied(void **state)
{
	struct world *w = *state;

	fill(w);
	load_start(&w->load, &w->pool);
	begin(w);
	for (unsigned int k = LOAD_KEYS; k < LOAD_KEYS + N_REMOVED; k++)
		load_remove(w->client, k);
	await_end(w);
	test_process_signal(w->owners[0], SIGKILL);
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
	load_start(&w->load, &w->pool);
	begin(w);
	assert_true(test_wait_until(has_moved_some, w, POOL_START_MS));
	test_process_signal(w->owners[1], SIGKILL);
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
	begin(w);
	assert_true(test_wait_until(is_stuck, w, POOL_START_MS));
	assert_int_equal(ask(w, "status"), 2);
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
