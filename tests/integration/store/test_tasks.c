/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tasks.c - objects that are copied and moved between owners that are
 * processes of their own, some of which die in the middle of it
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define LEN   300000u
#define N_MAX 64

static struct pool pool;
static uint8_t bytes[LEN], room[LEN];

static int set_up(void **state)
{
	static const char *const args[] = {
		"--client_ttl", "100s", "--default_kv_lease_ttl", "200", NULL};

	(void)state;
	pool_start(&pool, args);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pool_stop(&pool);
	return 0;
}

/* ---- owners ---- */

struct owner {
	struct test_process *process;
	char name[TE_NAME_LEN_MAX + 1];
};

static struct te_store_replicate only_at(const char *const *names, size_t n)
{
	return (struct te_store_replicate){
		.size = sizeof(struct te_store_replicate),
		.replica_num = 1,
		.preferred_segments = names,
		.n_preferred_segments = n,
	};
}

/* The name of the owner that has @key alone. */
static void owner_of(struct te_store *store, const char *key, char *name)
{
	struct te_store_replica r[POOL_REPLICAS];

	assert_int_equal(pool_replicas(store, key, r), 1);
	(void)snprintf(name, TE_NAME_LEN_MAX + 1, "%s", r[0].segment);
}

/* While it is the only owner: what is put is at it. */
static void owner_start(struct owner *o, struct te_store *store,
			const char *size, const char *key)
{
	o->process = pool_owner(&pool, size);
	assert_int_equal(pool_put(store, key, "x", 1), 0);
	owner_of(store, key, o->name);
}

static void owner_kill(struct owner *o)
{
	test_process_signal(o->process, SIGKILL);
	test_process_end(o->process);
	o->process = NULL;
}

/* The other one's name, by an object that is moved there. */
static void second_start(struct owner *o, struct te_store *store,
			 const struct owner *first)
{
	struct te_store_replica r[POOL_REPLICAS];
	struct te_store_replicate two = pool_several(2);

	o->process = pool_owner(&pool, "64MB");
	assert_int_equal(pool_put_as(store, "on both", "x", 1, &two), 0);
	assert_int_equal(pool_replicas(store, "on both", r), 2);
	(void)snprintf(o->name, sizeof(o->name), "%s",
		       r[strcmp(r[0].segment, first->name) == 0].segment);
}

/* ---- tasks ---- */

struct asked {
	struct te_store *store;
	uint8_t id[TE_STORE_TASK_ID_LEN];
	struct te_store_task task;
};

static bool has_ended(void *arg)
{
	struct asked *a = arg;

	return te_store_task(a->store, a->id, &a->task) == 0 &&
	       a->task.status >= TE_STORE_TASK_SUCCESS;
}

static void await_success(struct asked *a)
{
	assert_true(test_wait_until(has_ended, a, POOL_START_MS));
	if (a->task.status != TE_STORE_TASK_SUCCESS)
		fail_msg("task: %s", a->task.message);
}

static void put_filled(struct te_store *store, const char *key, uint64_t id,
		       const char *const *at)
{
	struct te_store_replicate how = only_at(at, 1);

	pool_fill(bytes, LEN, id);
	assert_int_equal(pool_put_as(store, key, bytes, LEN, &how), 0);
}

static void assert_filled(struct te_store *store, const char *key, uint64_t id)
{
	assert_int_equal(pool_get(store, key, room, LEN), LEN);
	assert_true(pool_is_filled(room, LEN, id));
}

struct lonely {
	struct te_store *store;
	const char *key;
	int64_t size;
};

static bool is_read(void *arg)
{
	struct lonely *l = arg;

	l->size = pool_get(l->store, l->key, room, LEN);
	return l->size == LEN;
}

/* ---- what is proved ---- */

static void a_copy_is_read_when_the_first_owner_has_died(void **state)
{
	struct te_store *store = pool_client(&pool, 0);
	const char *targets[1], *sources[1];
	struct owner first, second;
	struct asked a = {.store = store};
	struct te_store_key key = pool_key("copied");
	struct lonely l = {store, "copied", 0};
	struct te_store_replica r[POOL_REPLICAS];

	(void)state;
	owner_start(&first, store, "64MB", "here");
	second_start(&second, store, &first);
	sources[0] = first.name;
	targets[0] = second.name;
	put_filled(store, "copied", 1, sources);
	assert_int_equal(te_store_copy(store, &key, targets, 1, a.id), 0);
	await_success(&a);
	assert_int_equal(a.task.type, TE_STORE_TASK_COPY);
	assert_true(a.task.created_ms <= a.task.updated_ms);
	assert_int_equal(pool_replicas(store, "copied", r), 2);
	/* It is there now: no more to do. */
	assert_int_equal(te_store_copy(store, &key, targets, 1, a.id), 0);
	await_success(&a);
	assert_int_equal(pool_replicas(store, "copied", r), 2);
	owner_kill(&first);
	assert_true(test_wait_until(is_read, &l, POOL_START_MS));
	assert_true(pool_is_filled(room, LEN, 1));
	owner_kill(&second);
	te_store_close(store);
}

static void a_move_leaves_one_replica_at_the_target(void **state)
{
	struct te_store *store = pool_client(&pool, 0);
	struct te_store_key key = pool_key("moved");
	char at[TE_NAME_LEN_MAX + 1];
	struct owner first, second;
	struct asked a = {.store = store};
	const char *sources[1];

	(void)state;
	owner_start(&first, store, "64MB", "here");
	second_start(&second, store, &first);
	sources[0] = first.name;
	put_filled(store, "moved", 2, sources);
	assert_int_equal(
		te_store_move(store, &key, second.name, first.name, a.id),
		-710);
	assert_int_equal(
		te_store_move(store, &key, first.name, "nobody:1", a.id), -101);
	assert_int_equal(
		te_store_move(store, &key, first.name, second.name, a.id), 0);
	await_success(&a);
	assert_int_equal(a.task.type, TE_STORE_TASK_MOVE);
	owner_of(store, "moved", at);
	assert_string_equal(at, second.name);
	assert_filled(store, "moved", 2);
	owner_kill(&first);
	assert_filled(store, "moved", 2);
	owner_kill(&second);
	te_store_close(store);
}

static void mistakes_are_told(void **state)
{
	struct te_store *store = pool_client(&pool, 0);
	struct te_store_key key = pool_key("none");
	const char *names[1] = {"nobody:1"};
	uint8_t id[TE_STORE_TASK_ID_LEN] = {1};
	struct te_store_task task;

	(void)state;
	assert_int_equal(te_store_copy(store, &key, names, 1, id), -704);
	assert_int_equal(te_store_copy(store, &key, names, 0, id), -600);
	assert_int_equal(te_store_copy(store, NULL, names, 1, id), -600);
	assert_int_equal(te_store_copy(NULL, &key, names, 1, id), -600);
	assert_int_equal(te_store_move(store, &key, "", names[0], id), -600);
	assert_int_equal(te_store_task(store, id, &task), -1400);
	assert_int_equal(te_store_task(store, NULL, &task), -600);
	assert_string_equal(te_store_strerror(-1400), "TASK_NOT_FOUND");
	te_store_close(store);
}

static void whoever_dies_in_the_middle_no_byte_is_wrong(void **state)
{
	struct te_store *store = pool_client(&pool, 0);
	struct owner first, second;
	struct asked a[N_MAX];
	const char *sources[1], *targets[1];
	int kill_target;

	(void)state;
	for (kill_target = 0; kill_target < 2; kill_target++) {
		struct lonely l = {store, "here", 0};

		owner_start(&first, store, "64MB", "here");
		second_start(&second, store, &first);
		sources[0] = first.name;
		targets[0] = second.name;
		for (unsigned int i = 0; i < N_MAX; i++) {
			char name[32];
			struct te_store_key key;

			(void)snprintf(name, sizeof(name), "k%d.%u",
				       kill_target, i);
			put_filled(store, name, i, sources);
			key = pool_key(name);
			a[i].store = store;
			assert_int_equal(
				te_store_copy(store, &key, targets, 1, a[i].id),
				0);
		}
		owner_kill(kill_target ? &second : &first);
		for (unsigned int i = 0; i < N_MAX; i++) {
			char name[32];
			int64_t size;

			(void)snprintf(name, sizeof(name), "k%d.%u",
				       kill_target, i);
			l.key = name;
			if (kill_target)
				assert_true(test_wait_until(is_read, &l,
							    POOL_START_MS));
			size = pool_get(store, name, room, LEN);
			if (size != LEN)
				assert_true(size == -704 || size == -800);
			else
				assert_true(pool_is_filled(room, LEN, i));
		}
		owner_kill(kill_target ? &first : &second);
		pool_await_capacity(store, 0);
	}
	te_store_close(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_copy_is_read_when_the_first_owner_has_died),
		TEST(a_move_leaves_one_replica_at_the_target),
		TEST(mistakes_are_told),
		TEST(whoever_dies_in_the_middle_no_byte_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
