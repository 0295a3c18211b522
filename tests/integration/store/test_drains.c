/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_drains.c - segments of owners, processes of their own, that an operator
 * has emptied over HTTP
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define N_KEYS 48
#define LEN    20000u

struct emptied {
	struct master master;
	struct pool pool; /* of the master's address */
	struct te_store *client;
	struct test_process *from, *to;
	char name[TE_NAME_LEN_MAX + 1];   /* of the segment to be emptied */
	char target[TE_NAME_LEN_MAX + 1]; /* of the other one */
	char job[64];
	uint8_t bytes[LEN];
};

/* ---- HTTP ---- */

static json_t *answer_to(const struct emptied *e, const char *request,
			 const char *body, int status)
{
	int got;
	char *text = master_send(&e->master, request, body, strlen(body), &got);
	json_t *root = json_loads(text, 0, NULL);

	if (got != status || !root)
		fail_msg("%s: %d, %s", request, got, text);
	free(text);
	return root;
}

static json_int_t number_at(const json_t *root, const char *name)
{
	assert_true(json_is_integer(json_object_get(root, name)));
	return json_integer_value(json_object_get(root, name));
}

static const char *string_at(const json_t *root, const char *name)
{
	assert_true(json_is_string(json_object_get(root, name)));
	return json_string_value(json_object_get(root, name));
}

static json_t *job(const struct emptied *e)
{
	char request[128];

	snprintf(request, sizeof(request),
		 "GET /api/v1/drain_jobs/query?job_id=%s", e->job);
	return answer_to(e, request, "", 200);
}

static void assert_segment_is(const struct emptied *e, const char *status)
{
	char request[TE_NAME_LEN_MAX + 64], word[32];
	char *text;
	int got;

	snprintf(request, sizeof(request),
		 "GET /api/v1/segments/status?segment=%s", e->name);
	snprintf(word, sizeof(word), "\"%s\"", status);
	text = master_ask(&e->master, request, &got);
	assert_int_equal(got, 200);
	if (!strstr(text, word))
		fail_msg("it is %s", text);
	free(text);
}

/* ---- the pool ---- */

static void key_of(char out[16], int i)
{
	snprintf(out, 16, "key-%d", i);
}

/* On the only owner that there is. */
static void put(struct emptied *e, int i, bool pinned)
{
	struct te_store_replicate how = pool_several(1);
	char key[16];

	how.flags = pinned ? TE_STORE_HARD_PIN : 0;
	key_of(key, i);
	pool_fill(e->bytes, LEN, (uint64_t)i);
	assert_int_equal(pool_put_as(e->client, key, e->bytes, LEN, &how), 0);
}

static void assert_all_are_read(struct emptied *e)
{
	char key[16];

	for (int i = 0; i < N_KEYS; i++) {
		key_of(key, i);
		assert_int_equal(pool_get(e->client, key, e->bytes, LEN), LEN);
		assert_true(pool_is_filled(e->bytes, LEN, (uint64_t)i));
	}
}

/* The name of the segment that only @key is in. */
static void name_of(struct emptied *e, const char *key, char *name)
{
	struct te_store_replica r[POOL_REPLICAS];

	assert_int_equal(pool_replicas(e->client, key, r), 1);
	snprintf(name, TE_NAME_LEN_MAX + 1, "%s", r[0].segment);
}

static int set_up(void **state)
{
	struct emptied *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	master_start(&e->master,
		     (const char *const[]){"--client_ttl=100s",
					   "--default_kv_lease_ttl=200", NULL});
	snprintf(e->pool.address, sizeof(e->pool.address), "127.0.0.1:%u",
		 e->master.rpc);
	e->from = pool_owner(&e->pool, "32MB");
	e->client = pool_client(&e->pool, 0);
	*state = e;
	return 0;
}

static int tear_down(void **state)
{
	struct emptied *e = *state;

	te_store_close(e->client);
	test_process_end(e->from);
	test_process_end(e->to);
	master_stop(&e->master);
	free(e);
	return 0;
}

/* Objects, of which the last may be @pinned, then a second owner. */
static void fill(struct emptied *e, bool pinned)
{
	char *text;
	int status;

	for (int i = 0; i < N_KEYS; i++)
		put(e, i, pinned && i == N_KEYS - 1);
	name_of(e, "key-0", e->name);
	e->to = pool_owner(&e->pool, "32MB");
	text = master_get(&e->master, "/get_all_segments", &status);
	for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n"))
		if (strcmp(at, e->name) != 0)
			snprintf(e->target, sizeof(e->target), "%s", at);
	free(text);
	assert_true(*e->target);
}

static void drain(struct emptied *e)
{
	char body[3 * TE_NAME_LEN_MAX];
	json_t *root;

	snprintf(body, sizeof(body),
		 "{\"segments\":[\"%s\"],\"target_segments\":[\"%s\"],"
		 "\"max_concurrency\":8}",
		 e->name, e->target);
	root = answer_to(e, "POST /api/v1/drain_jobs", body, 200);
	assert_true(json_is_true(json_object_get(root, "success")));
	assert_string_equal(string_at(root, "status"), "CREATED");
	snprintf(e->job, sizeof(e->job), "%s", string_at(root, "job_id"));
	json_decref(root);
}

static bool has_ended(void *arg)
{
	json_t *root = job(arg);
	bool ended = number_at(root, "status") > 2;

	json_decref(root);
	return ended;
}

/* All but the one that is pinned. */
static bool is_stuck(void *arg)
{
	json_t *root = job(arg);
	bool stuck = number_at(root, "succeeded_units") == N_KEYS - 1 &&
		     number_at(root, "blocked_units") == 1;

	json_decref(root);
	return stuck;
}

/* ---- what is proved ---- */

static void a_drained_segment_may_go_and_nothing_is_lost(void **state)
{
	struct emptied *e = *state;
	json_t *root;

	fill(e, false);
	drain(e);
	assert_true(test_wait_until(has_ended, e, POOL_START_MS));
	root = job(e);
	assert_string_equal(string_at(root, "job_id"), e->job);
	assert_string_equal(string_at(root, "type_name"), "DRAIN");
	assert_int_equal(number_at(root, "status"), 3);
	assert_string_equal(string_at(root, "status_name"), "SUCCEEDED");
	assert_string_equal(json_string_value(json_array_get(
				    json_object_get(root, "segments"), 0)),
			    e->name);
	assert_int_equal(number_at(root, "succeeded_units"), N_KEYS);
	assert_int_equal(number_at(root, "failed_units"), 0);
	assert_int_equal(number_at(root, "blocked_units"), 0);
	assert_int_equal(number_at(root, "active_units"), 0);
	assert_true(number_at(root, "migrated_bytes") >= N_KEYS * (long)LEN);
	assert_true(number_at(root, "created_at_ms_epoch") <=
		    number_at(root, "last_updated_at_ms_epoch"));
	json_decref(root);
	assert_segment_is(e, "DRAINED");
	assert_int_equal(
		master_metric(&e->master, "te_master_drained_replicas_total"),
		N_KEYS);
	test_process_signal(e->from, SIGKILL);
	assert_all_are_read(e);
}

static void a_job_that_is_stuck_can_be_cancelled(void **state)
{
	struct emptied *e = *state;
	char request[128];
	json_t *root;

	fill(e, true);
	drain(e);
	assert_true(test_wait_until(is_stuck, e, POOL_START_MS));
	assert_segment_is(e, "DRAINING");
	snprintf(request, sizeof(request),
		 "POST /api/v1/drain_jobs/cancel?job_id=%s", e->job);
	root = answer_to(e, request, "", 200);
	assert_true(json_is_true(json_object_get(root, "success")));
	assert_string_equal(string_at(root, "status"), "CANCELED");
	json_decref(root);
	assert_segment_is(e, "OK");
	root = job(e);
	assert_int_equal(number_at(root, "status"), 5);
	json_decref(root);
	root = answer_to(e, request, "", 409);
	assert_int_equal(number_at(root, "error_code"), -1010);
	json_decref(root);
	assert_all_are_read(e);
}

/* The segment of the job that is under way has its place in it already. */
static void a_segment_is_drained_by_one_job(void **state)
{
	struct emptied *e = *state;
	char body[2 * TE_NAME_LEN_MAX];
	json_t *root;

	fill(e, true);
	drain(e);
	snprintf(body, sizeof(body), "{\"segments\":[\"%s\"]}", e->name);
	root = answer_to(e, "POST /api/v1/drain_jobs", body, 409);
	assert_int_equal(number_at(root, "error_code"), -1010);
	json_decref(root);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_drained_segment_may_go_and_nothing_is_lost),
		T(a_job_that_is_stuck_can_be_cancelled),
		T(a_segment_is_drained_by_one_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
