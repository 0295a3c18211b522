/* SPDX-License-Identifier: Apache-2.0 */
/* emptied.c - an owner whose segment a job empties, as HTTP tells of it */
#include "tests/integration/store/emptied.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/json.h"
#include "tests/lib/test.h"

void emptied_start(struct emptied *e, const char *lease, const char *bytes)
{
	master_start(&e->master,
		     (const char *const[]){"--client_ttl=100s", lease, NULL});
	(void)snprintf(e->pool.address, sizeof(e->pool.address), "127.0.0.1:%u",
		       e->master.rpc);
	e->bytes = bytes;
	e->owners[0] = pool_owner(&e->pool, bytes);
	e->client = pool_client(&e->pool, 0);
}

void emptied_stop(struct emptied *e)
{
	te_store_close(e->client);
	for (int i = 0; i < EMPTIED_OWNERS; i++)
		test_process_end(e->owners[i]);
	master_stop(&e->master);
}

void emptied_find(struct emptied *e, const char *key,
		  char name[TE_NAME_LEN_MAX + 1])
{
	struct te_store_replica r[POOL_REPLICAS];

	assert_int_equal(pool_replicas(e->client, key, r), 1);
	(void)snprintf(name, TE_NAME_LEN_MAX + 1, "%s", r[0].segment);
}

void emptied_join(struct emptied *e, int n)
{
	for (int i = 1; i <= n; i++)
		e->owners[i] = pool_owner(&e->pool, e->bytes);
}

json_t *emptied_ask(const struct emptied *e, const char *request,
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

void emptied_begin(struct emptied *e, const char *target)
{
	char body[3 * TE_NAME_LEN_MAX], targets[TE_NAME_LEN_MAX + 32] = "";
	json_t *root;

	if (target)
		(void)snprintf(targets, sizeof(targets),
			       "\"target_segments\":[\"%s\"],", target);
	(void)snprintf(body, sizeof(body),
		       "{\"segments\":[\"%s\"],%s\"max_concurrency\":8}",
		       e->name, targets);
	root = emptied_ask(e, "POST /api/v1/drain_jobs", body, 200);
	assert_true(json_is_true(json_object_get(root, "success")));
	assert_string_equal(test_json_text(root, "status"), "CREATED");
	(void)snprintf(e->job, sizeof(e->job), "%s",
		       test_json_text(root, "job_id"));
	json_decref(root);
}

json_t *emptied_job(const struct emptied *e)
{
	char request[128];

	(void)snprintf(request, sizeof(request),
		       "GET /api/v1/drain_jobs/query?job_id=%s", e->job);
	return emptied_ask(e, request, "", 200);
}

json_int_t emptied_figure(const struct emptied *e, const char *member)
{
	json_t *root = emptied_job(e);
	json_int_t figure = test_json_number(root, member);

	json_decref(root);
	return figure;
}

bool emptied_has_ended(void *e)
{
	return emptied_figure(e, "status") > 2;
}

bool emptied_is_stuck(const struct emptied *e, unsigned int moved)
{
	json_t *root = emptied_job(e);
	bool stuck = test_json_number(root, "succeeded_units") == moved &&
		     test_json_number(root, "blocked_units") == 1;

	json_decref(root);
	return stuck;
}
