/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_drains.c - segments of owners, processes of their own, that an operator
 * has emptied over HTTP
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/store/emptied.h"
#include "tests/lib/json.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define N_KEYS 48
#define LEN    20000u

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

static void key_of(char out[16], int i)
{
	snprintf(out, 16, "key-%d", i);
}

/* On the only owner that there is. */
static void put(struct emptied *e, int i, bool pinned)
{
	struct te_store_replicate how = pool_several(1);
	uint8_t bytes[LEN];
	char key[16];

	how.flags = pinned ? TE_STORE_HARD_PIN : 0;
	key_of(key, i);
	pool_fill(bytes, LEN, (uint64_t)i);
	assert_int_equal(pool_put_as(e->client, key, bytes, LEN, &how), 0);
}

static void assert_all_are_read(struct emptied *e)
{
	uint8_t bytes[LEN];
	char key[16];

	for (int i = 0; i < N_KEYS; i++) {
		key_of(key, i);
		assert_int_equal(pool_get(e->client, key, bytes, LEN), LEN);
		assert_true(pool_is_filled(bytes, LEN, (uint64_t)i));
	}
}

static int set_up(void **state)
{
	struct emptied *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	emptied_start(e, "--default_kv_lease_ttl=200", "32MB");
	*state = e;
	return 0;
}

static int tear_down(void **state)
{
	emptied_stop(*state);
	free(*state);
	return 0;
}

/*
 * Objects, of which the last may be @pinned, then a second owner, and a job that
 * moves all to it.
 */
static void drain(struct emptied *e, bool pinned)
{
	char target[TE_NAME_LEN_MAX + 1] = "", *text;
	int status;

	for (int i = 0; i < N_KEYS; i++)
		put(e, i, pinned && i == N_KEYS - 1);
	emptied_find(e, "key-0", e->name);
	emptied_join(e, 1);
	text = master_get(&e->master, "/get_all_segments", &status);
	for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n"))
		if (strcmp(at, e->name) != 0)
			(void)snprintf(target, sizeof(target), "%s", at);
	free(text);
	assert_true(*target);
	emptied_begin(e, target);
}

static bool is_stuck(void *e)
{
	return emptied_is_stuck(e, N_KEYS - 1);
}

/* ---- what is proved ---- */

static void a_drained_segment_may_go_and_nothing_is_lost(void **state)
{
	struct emptied *e = *state;
	json_t *root;

	drain(e, false);
	assert_true(test_wait_until(emptied_has_ended, e, POOL_START_MS));
	root = emptied_job(e);
	assert_string_equal(test_json_text(root, "job_id"), e->job);
	assert_string_equal(test_json_text(root, "type_name"), "DRAIN");
	assert_int_equal(test_json_number(root, "status"), 3);
	assert_string_equal(test_json_text(root, "status_name"), "SUCCEEDED");
	assert_string_equal(json_string_value(json_array_get(
				    json_object_get(root, "segments"), 0)),
			    e->name);
	assert_int_equal(test_json_number(root, "succeeded_units"), N_KEYS);
	assert_int_equal(test_json_number(root, "failed_units"), 0);
	assert_int_equal(test_json_number(root, "blocked_units"), 0);
	assert_int_equal(test_json_number(root, "active_units"), 0);
	assert_true(test_json_number(root, "migrated_bytes") >=
		    N_KEYS * (long)LEN);
	assert_true(test_json_number(root, "created_at_ms_epoch") <=
		    test_json_number(root, "last_updated_at_ms_epoch"));
	json_decref(root);
	assert_segment_is(e, "DRAINED");
	assert_int_equal(
		master_metric(&e->master, "te_master_drained_replicas_total"),
		N_KEYS);
	test_process_signal(e->owners[0], SIGKILL);
	assert_all_are_read(e);
}

static void a_job_that_is_stuck_can_be_cancelled(void **state)
{
	struct emptied *e = *state;
	char request[128];
	json_t *root;

	drain(e, true);
	assert_true(test_wait_until(is_stuck, e, POOL_START_MS));
	assert_segment_is(e, "DRAINING");
	snprintf(request, sizeof(request),
		 "POST /api/v1/drain_jobs/cancel?job_id=%s", e->job);
	root = emptied_ask(e, request, "", 200);
	assert_true(json_is_true(json_object_get(root, "success")));
	assert_string_equal(test_json_text(root, "status"), "CANCELED");
	json_decref(root);
	assert_segment_is(e, "OK");
	root = emptied_job(e);
	assert_int_equal(test_json_number(root, "status"), 5);
	json_decref(root);
	root = emptied_ask(e, request, "", 409);
	assert_int_equal(test_json_number(root, "error_code"), -1010);
	json_decref(root);
	assert_all_are_read(e);
}

/* The segment of the job that is under way has its place in it already. */
static void a_segment_is_drained_by_one_job(void **state)
{
	struct emptied *e = *state;
	char body[2 * TE_NAME_LEN_MAX];
	json_t *root;

	drain(e, true);
	snprintf(body, sizeof(body), "{\"segments\":[\"%s\"]}", e->name);
	root = emptied_ask(e, "POST /api/v1/drain_jobs", body, 409);
	assert_int_equal(test_json_number(root, "error_code"), -1010);
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
