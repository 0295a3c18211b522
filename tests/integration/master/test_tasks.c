/* SPDX-License-Identifier: Apache-2.0 */
/* test_tasks.c - copies of objects, by hand: what goes over the wire */
#include <string.h>

#include "base/clock.h"
#include "store/proto/protocol.h"
#include "tests/integration/master/caller.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define MIB (1ull << 20)

static struct master master;

static int start(void **state)
{
	(void)state;
	caller_features = TES_STORE_EXECUTES;
	master_start(&master,
		     (const char *const[]){"-client_ttl=20",
					   "-max_retry_attempts=2", NULL});
	return 0;
}

static int stop(void **state)
{
	(void)state;
	master_stop(&master);
	return 0;
}

/* An owner with both of its connections, and one segment. */
struct owner {
	struct caller *main, *heart;
};

static struct owner owner_open(uint8_t who)
{
	struct owner o = {.main = caller_join(&master, who, false)};

	o.heart = caller_join(&master, who, true);
	assert_int_equal(caller_mount(o.main, who, MIB), 0);
	return o;
}

static void owner_close(struct owner *o)
{
	caller_close(o->heart);
	caller_close(o->main);
}

static int32_t create(struct caller *c, const char *key, const char *source,
		      const char *target, uint8_t *id)
{
	Store__TaskCreate m = STORE__TASK_CREATE__INIT;
	char *targets[] = {(char *)(uintptr_t)target};
	Store__TaskCreateReply *reply;
	int32_t status;

	m.key.data = (uint8_t *)(uintptr_t)key;
	m.key.len = strlen(key);
	m.type = source ? STORE__TASK_TYPE__TASK_MOVE
			: STORE__TASK_TYPE__TASK_COPY;
	m.targets = targets;
	m.n_targets = 1;
	if (source)
		m.source = (char *)(uintptr_t)source;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_TASK_CREATE, &m,
			    &store__task_create_reply__descriptor);
	assert_non_null(reply);
	status = reply->status;
	assert_int_equal(reply->id.len, status ? 0 : 16);
	if (!status)
		memcpy(id, reply->id.data, 16);
	caller_free(reply);
	return status;
}

static Store__TaskQueryReply *query(struct caller *c, uint8_t *id, size_t len)
{
	Store__TaskQuery m = STORE__TASK_QUERY__INIT;
	Store__TaskQueryReply *reply;

	m.id.data = id;
	m.id.len = len;
	reply = caller_call(c, STORE__STORE_TYPE__STORE_TASK_QUERY, &m,
			    &store__task_query_reply__descriptor);
	assert_non_null(reply);
	return reply;
}

static void check_state(struct caller *c, uint8_t *id, uint32_t state)
{
	Store__TaskQueryReply *reply = query(c, id, 16);
	uint64_t now = tei_wall_us() / 1000;

	assert_int_equal(reply->status, 0);
	assert_int_equal(reply->task_status, state);
	/* Within a minute of now, by this machine's clock. */
	assert_in_range(reply->created_ms, now - SOON_MS, now + SOON_MS);
	assert_true(reply->updated_ms >= reply->created_ms);
	assert_int_equal(*reply->message != 0,
			 state == STORE__TASK_STATUS__TASK_FAILED);
	caller_free(reply);
}

static void wait_state(struct caller *c, uint8_t *id, uint32_t state)
{
	uint64_t end = tei_now_ms() + SOON_MS;
	uint32_t now;

	do {
		Store__TaskQueryReply *reply = query(c, id, 16);

		assert_int_equal(reply->status, 0);
		now = reply->task_status;
		caller_free(reply);
		assert_true(tei_now_ms() < end);
	} while (now != state);
	check_state(c, id, state);
}

static void answer(struct owner *o, const Store__Task *task, int32_t status)
{
	Store__TaskDone m = STORE__TASK_DONE__INIT;
	uint32_t crc = 0x12345678; /* as caller_put_end() has it */
	static char why[] = "the disk is on fire";

	m.id = task->id;
	m.status = status;
	m.quiet = true;
	m.n_crc = 1;
	m.crc = &crc;
	if (status)
		m.message = why;
	caller_send(o->heart, STORE__STORE_TYPE__STORE_TASK_DONE, 0, 0, &m);
}

/* Put @key of 100 bytes: where there is room. */
static void a_copy_is_pushed_answered_and_told(void **state)
{
	struct caller *user = caller_join(&master, 9, false);
	struct owner a = owner_open(1), b;
	uint8_t id[16] = {0};
	uint8_t incarnation[16];
	Store__Task *task;

	(void)state;
	caller_put(user, "k");
	b = owner_open(2);
	assert_int_equal(create(user, "none", NULL, "owner-2", id), -704);
	assert_int_equal(create(user, "k", NULL, "owner-3", id), -101);
	assert_int_equal(create(user, "k", NULL, "owner-2", id), 0);
	task = caller_wait_task(a.heart);
	assert_int_equal(task->id.len, 16);
	assert_int_equal(task->source->n_key_lens, 1);
	assert_int_equal(task->source->key_lens[0], 1);
	assert_int_equal(task->source->keys.data[0], 'k');
	assert_int_equal(task->source->size[0], 100);
	assert_int_equal(task->source->crc[0], 0x12345678);
	assert_string_equal(task->target->engine, "127.0.0.1:1002");
	caller_incarnation(2, incarnation);
	assert_int_equal(task->target->incarnation.len, sizeof(incarnation));
	assert_memory_equal(task->target->incarnation.data, incarnation,
			    sizeof(incarnation));
	assert_int_equal(task->n_address, 1);
	assert_int_equal(task->length[0], 100);
	assert_int_equal(task->timeout_ms, 300000);
	check_state(user, id, STORE__TASK_STATUS__TASK_PROCESSING);
	assert_int_equal(caller_remove(user, "k", true), -708);
	assert_int_equal(master_metric(&master, "te_master_processing_tasks"),
			 1);

	answer(&a, task, 0);
	wait_state(user, id, STORE__TASK_STATUS__TASK_SUCCESS);
	assert_int_equal(
		master_metric(&master,
			      "master_create_copy_task_requests_total"),
		3);
	assert_int_equal(
		master_metric(&master,
			      "master_create_copy_task_failures_total"),
		2);
	assert_int_equal(
		master_metric(&master, "master_update_task_requests_total"), 1);
	assert_int_equal(
		master_metric(&master, "te_master_succeeded_tasks_total"), 1);
	assert_true(master_metric(&master, "master_query_task_requests_total") >
		    0);
	assert_int_equal(caller_remove(user, "k", true), 0);
	caller_free(task);
	owner_close(&b);
	owner_close(&a);
	caller_close(user);
}

static void why_a_move_failed_can_be_read(void **state)
{
	struct caller *user = caller_join(&master, 9, false);
	struct owner a = owner_open(3), b;
	Store__TaskQueryReply *reply;
	uint8_t id[16] = {0};
	Store__Task *task;

	(void)state;
	caller_put(user, "m");
	b = owner_open(4);
	assert_int_equal(create(user, "m", "owner-4", "owner-3", id), -710);
	assert_int_equal(create(user, "m", "owner-3", "owner-4", id), 0);
	task = caller_wait_task(a.heart);
	answer(&a, task, -800);
	wait_state(user, id, STORE__TASK_STATUS__TASK_FAILED);
	reply = query(user, id, 16);
	assert_int_equal(reply->type, STORE__TASK_TYPE__TASK_MOVE);
	assert_string_equal(reply->message, "the disk is on fire");
	assert_int_equal(reply->assigned_client.len, 16);
	caller_client_id(3, id);
	assert_memory_equal(reply->assigned_client.data, id, sizeof(id));
	caller_free(reply);
	caller_free(task);
	assert_int_equal(caller_remove(user, "m", true), 0);
	owner_close(&b);
	owner_close(&a);
	caller_close(user);
}

static void tasks_that_are_not_known_are_not_found(void **state)
{
	struct caller *user = caller_join(&master, 9, false);
	uint8_t id[16] = {1, 2, 3};
	Store__TaskQueryReply *reply;

	(void)state;
	for (size_t len = 0; len <= 16; len += 8) {
		reply = query(user, id, len);
		assert_int_equal(reply->status, -1400);
		caller_free(reply);
	}
	caller_close(user);
}

static void a_task_comes_again_on_a_new_heartbeat_connection(void **state)
{
	struct caller *user = caller_join(&master, 9, false);
	struct owner a = owner_open(5), b;
	uint8_t id[16] = {0};
	Store__Task *task, *again;

	(void)state;
	caller_put(user, "again");
	b = owner_open(6);
	assert_int_equal(create(user, "again", NULL, "owner-6", id), 0);
	task = caller_wait_task(a.heart);
	caller_close(a.heart);
	a.heart = caller_join(&master, 5, true);
	again = caller_wait_task(a.heart);
	assert_memory_equal(task->id.data, again->id.data, 16);
	answer(&a, again, 0);
	wait_state(user, id, STORE__TASK_STATUS__TASK_SUCCESS);
	assert_int_equal(caller_remove(user, "again", true), 0);
	caller_free(task);
	caller_free(again);
	owner_close(&b);
	owner_close(&a);
	caller_close(user);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_copy_is_pushed_answered_and_told, start, stop),
		cmocka_unit_test_setup_teardown(why_a_move_failed_can_be_read,
						start, stop),
		cmocka_unit_test_setup_teardown(
			tasks_that_are_not_known_are_not_found, start, stop),
		cmocka_unit_test_setup_teardown(
			a_task_comes_again_on_a_new_heartbeat_connection, start,
			stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
