/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_stall.c - processes that are stopped or killed while bytes move
 *
 * By tcp an owner that is stopped takes no bytes, so that a writer is in the
 * middle of a value for as long as the test wants. By shared memory the writer
 * itself stands still there, with a chunk half copied.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define MIB        (1024u * 1024u)
#define BIG        3000000u /* of 4 MiB: there is no second place for it */
#define END_MS     2000  /* within which a program ends, and a client closes */
#define SLACK_MS   10000 /* for machines that have other things to do */
#define GIVE_UP_MS 1000  /* a replica */

/* Owners that stand still are remembered, however long a test takes. */
static const char *const hasty_puts[] = {"--put_start_discard_timeout_sec",
					 "2s",
					 "--default_kv_lease_ttl",
					 "100ms",
					 "--client_ttl",
					 "100s",
					 NULL};

static bool by_shm;

struct stall {
	struct pool pool;
	struct test_process *owner, *writer;
	struct te_store *client;
};

static int set_up(void **state)
{
	struct stall *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	pool_start(&s->pool, hasty_puts);
	s->owner = pool_owner(&s->pool, "4 MB");
	s->client = pool_client(&s->pool, 0);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct stall *s = *state;

	te_store_close(s->client);
	test_process_end(s->writer);
	test_process_end(s->owner);
	pool_stop(&s->pool);
	free(s);
	return 0;
}

/* A writer with half a value on its way; the owner goes on reading. */
static void stop_writer_midway(struct stall *s, int sig)
{
	const char *const args[] = {s->pool.address, "key", "3000000",
				    by_shm ? "halt" : "whole", NULL};

	s->writer = test_process_start("store_writer", args);
	assert_non_null(test_process_line(s->writer, "ready", POOL_START_MS));
	if (!by_shm)
		test_process_signal(s->owner, SIGSTOP);
	test_process_signal(s->writer, SIGUSR1);
	assert_non_null(test_process_line(s->writer, "moving", POOL_START_MS));
	test_process_signal(s->writer, sig);
	if (!by_shm)
		test_process_signal(s->owner, SIGCONT);
}

static bool nothing_used(void *arg)
{
	struct te_store_pool figures;

	return te_store_pool(arg, &figures) == 0 && figures.used_bytes == 0;
}

struct wanted {
	struct te_store *client;
	const char *key;
	uint64_t id;
};

static bool byte_is_there(void *arg)
{
	uint8_t room[8];

	return pool_get(arg, "a", room, sizeof(room)) == 1;
}

static bool is_right(struct te_store *client, const char *key, uint64_t id)
{
	uint8_t *bytes = malloc(BIG);
	bool right;

	assert_non_null(bytes);
	right = pool_get(client, key, bytes, BIG) == BIG;
	/* There and wrong is never right, whatever was waited for. */
	assert_true(!right || pool_is_filled(bytes, BIG, id));
	free(bytes);
	return right;
}

static bool put_and_there(void *arg)
{
	const struct wanted *w = arg;
	uint8_t *bytes = malloc(BIG);
	int code;

	assert_non_null(bytes);
	pool_fill(bytes, BIG, w->id);
	code = pool_put(w->client, w->key, bytes, BIG);
	free(bytes);
	return !code && is_right(w->client, w->key, w->id);
}

static void await_put(struct te_store *client, const char *key, uint64_t id)
{
	struct wanted w = {client, key, id};

	assert_true(test_wait_until(put_and_there, &w, POOL_START_MS));
}

static void a_writer_killed_midway_leaves_key_and_space(void **state)
{
	struct stall *s = *state;

	stop_writer_midway(s, SIGKILL);
	assert_true(test_wait_until(nothing_used, s->client, POOL_START_MS));
	await_put(s->client, "key", 5);
}

static void a_writer_stopped_midway_harms_nobody(void **state)
{
	struct stall *s = *state;
	const char *line;
	int code;

	stop_writer_midway(s, SIGSTOP);
	await_put(s->client, "other", 5);
	/* It starts again by itself, in space that is its own. */
	test_process_signal(s->writer, SIGCONT);
	line = test_process_line(s->writer, "put ", POOL_START_MS);
	assert_non_null(line);
	code = atoi(line + 4);
	if (!code)
		assert_true(is_right(s->client, "key", WRITER_ID));
	else
		assert_true(is_right(s->client, "other", 5));
}

static bool small_put_and_there(void *arg)
{
	struct te_store *client = arg;
	uint8_t bytes[10000];

	pool_fill(bytes, sizeof(bytes), 7);
	if (pool_put(client, "small", bytes, sizeof(bytes)))
		return false;
	memset(bytes, 0, sizeof(bytes));
	if (pool_get(client, "small", bytes, sizeof(bytes)) != sizeof(bytes))
		return false; /* room was made for others */
	assert_true(pool_is_filled(bytes, sizeof(bytes), 7));
	return true;
}

/* What is set aside makes no room for a big one; the rest is in use. */
static void only_small_ones_fit(struct stall *s, int times)
{
	uint8_t *bytes = calloc(1, BIG);
	int i;

	assert_non_null(bytes);
	for (i = 0; i < times; i++) {
		assert_int_not_equal(pool_put(s->client, "big", bytes, BIG), 0);
		assert_true(test_wait_until(small_put_and_there, s->client,
					    POOL_START_MS));
	}
	free(bytes);
}

/* Its chunk may still land: what it had reserved is not given to others. */
static void a_writer_stopped_in_a_chunk_keeps_only_its_space(void **state)
{
	struct stall *s = *state;

	stop_writer_midway(s, SIGSTOP);
	only_small_ones_fit(s, 8);
	test_process_signal(s->writer, SIGCONT);
	assert_non_null(test_process_line(s->writer, "put ", POOL_START_MS));
	await_put(s->client, "other", 5);
}

/* ---- many of them ---- */

#define N_HALTED 8 /* their values are no room for a big one */

static void halt_writers(struct stall *s, struct test_process *writers[])
{
	char key[32];
	size_t i;

	for (i = 0; i < N_HALTED; i++) {
		const char *const args[] = {s->pool.address, key, "200000",
					    "halt", NULL};

		(void)snprintf(key, sizeof(key), "half/%zu", i);
		writers[i] = test_process_start("store_writer", args);
		/* One after the other: all put the same key first. */
		assert_non_null(
			test_process_line(writers[i], "ready", POOL_START_MS));
	}
	for (i = 0; i < N_HALTED; i++)
		test_process_signal(writers[i], SIGUSR1);
	for (i = 0; i < N_HALTED; i++) {
		assert_non_null(
			test_process_line(writers[i], "moving", POOL_START_MS));
		test_process_signal(writers[i], SIGSTOP);
	}
}

/* The owner has as many fences to answer for at once. */
static void writers_stopped_in_a_chunk_keep_only_their_space(void **state)
{
	struct test_process *writers[N_HALTED];
	struct stall *s = *state;
	int i;

	halt_writers(s, writers);
	only_small_ones_fit(s, 6);
	for (i = 0; i < N_HALTED; i++)
		test_process_signal(writers[i], SIGCONT);
	for (i = 0; i < N_HALTED; i++) {
		assert_non_null(
			test_process_line(writers[i], "put ", POOL_START_MS));
		test_process_end(writers[i]);
	}
	await_put(s->client, "other", 5);
}

#define N_WRITERS 20
#define PART      150000
#define N_PARTS   25 /* just under where eviction begins */

static void start_writers(struct stall *s, struct test_process *writers[])
{
	char key[32];
	size_t i;

	for (i = 0; i < N_WRITERS; i++) {
		const char *const args[] = {s->pool.address, key, "150000",
					    NULL};

		(void)snprintf(key, sizeof(key), "late/%zu", i);
		writers[i] = test_process_start("store_writer", args);
	}
	for (i = 0; i < N_WRITERS; i++) {
		assert_non_null(test_process_line(writers[i], "started",
						  POOL_START_MS));
		test_process_signal(writers[i], SIGSTOP);
	}
}

/* And nothing else has space: every writer has been fenced. */
static bool all_parts_put(void *arg)
{
	static uint8_t bytes[PART];
	struct te_store_pool figures;
	char key[32];
	uint64_t i;

	for (i = 0; i < N_PARTS; i++) {
		(void)snprintf(key, sizeof(key), "part/%d", (int)i);
		pool_fill(bytes, sizeof(bytes), i);
		if (pool_put(arg, key, bytes, sizeof(bytes)))
			return false;
	}
	assert_int_equal(te_store_pool(arg, &figures), 0);
	return figures.objects == N_PARTS &&
	       figures.used_bytes < N_PARTS * (PART + 4096);
}

static void check_parts(struct te_store *client)
{
	static uint8_t bytes[PART];
	char key[32];
	uint64_t i;

	for (i = 0; i < N_PARTS; i++) {
		(void)snprintf(key, sizeof(key), "part/%d", (int)i);
		assert_int_equal(pool_get(client, key, bytes, sizeof(bytes)),
				 PART);
		assert_true(pool_is_filled(bytes, sizeof(bytes), i));
	}
}

static void late_writes_are_refused_20_times_of_20(void **state)
{
	struct test_process *writers[N_WRITERS];
	struct stall *s = *state;
	size_t i;

	start_writers(s, writers);
	/* What they had reserved goes to others. */
	assert_true(test_wait_until(all_parts_put, s->client, POOL_START_MS));
	for (i = 0; i < N_WRITERS; i++) {
		test_process_signal(writers[i], SIGUSR1);
		test_process_signal(writers[i], SIGCONT);
	}
	for (i = 0; i < N_WRITERS; i++) {
		const char *line =
			test_process_line(writers[i], "wrote", POOL_START_MS);

		assert_non_null(line);
		assert_int_equal(atoi(line + 6), -ESTALE);
		test_process_end(writers[i]);
	}
	check_parts(s->client);
}

/* ---- what has to end in time ---- */

static uint64_t ms_since(uint64_t from_ns)
{
	return (tei_now_ns() - from_ns) / TEI_NS_PER_MS;
}

static void a_get_from_a_stopped_owner_ends_at_its_deadline(void **state)
{
	struct stall *s = *state;
	struct te_store *hasty =
		pool_hasty_client(&s->pool, 0, POOL_START_MS, GIVE_UP_MS);
	uint64_t from;
	uint8_t room[8];

	assert_int_equal(pool_put(s->client, "a", "x", 1), 0);
	assert_true(test_wait_until(byte_is_there, hasty, POOL_START_MS));
	test_process_signal(s->owner, SIGSTOP);
	from = tei_now_ns();
	assert_int_equal(pool_get(hasty, "a", room, 8), -800);
	assert_true(ms_since(from) >= GIVE_UP_MS);
	assert_true(ms_since(from) <= GIVE_UP_MS + SLACK_MS);
	test_process_signal(s->owner, SIGCONT);
	te_store_close(hasty);
}

static void a_stopped_owner_is_read_all_the_same(void **state)
{
	struct stall *s = *state;
	uint8_t room[8];

	assert_int_equal(pool_put(s->client, "a", "x", 1), 0);
	assert_int_equal(pool_get(s->client, "a", room, 8), 1);
	test_process_signal(s->owner, SIGSTOP);
	assert_int_equal(pool_get(s->client, "a", room, 8), 1);
	test_process_signal(s->owner, SIGCONT);
}

/* Nobody answers: not the master, and not the writer with half a value. */
static void an_owner_ends_in_time_when_nobody_answers(void **state)
{
	struct stall *s = *state;

	stop_writer_midway(s, SIGSTOP);
	test_process_signal(s->pool.master, SIGSTOP);
	test_process_signal(s->owner, SIGTERM);
	assert_int_equal(test_process_wait(s->owner, END_MS + SLACK_MS), 0);
	test_process_signal(s->pool.master, SIGCONT);
}

static void a_client_closes_in_time_when_nobody_answers(void **state)
{
	struct stall *s = *state;
	struct te_store *lender = pool_client(&s->pool, MIB);
	uint8_t room[8];
	uint64_t from;

	assert_int_equal(pool_put(lender, "a", "x", 1), 0);
	assert_int_equal(pool_get(lender, "a", room, 8), 1);
	test_process_signal(s->owner, SIGSTOP);
	test_process_signal(s->pool.master, SIGSTOP);
	from = tei_now_ns();
	te_store_close(lender);
	assert_true(ms_since(from) <= END_MS + SLACK_MS);
	test_process_signal(s->pool.master, SIGCONT);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static int run_by_tcp(void)
{
	const struct CMUnitTest tests[] = {
		T(a_writer_killed_midway_leaves_key_and_space),
		T(a_writer_stopped_midway_harms_nobody),
		T(late_writes_are_refused_20_times_of_20),
		T(a_get_from_a_stopped_owner_ends_at_its_deadline),
		T(an_owner_ends_in_time_when_nobody_answers),
		T(a_client_closes_in_time_when_nobody_answers),
	};

	setenv("TE_BACKENDS", "loop,tcp", 1);
	return cmocka_run_group_tests_name("by tcp", tests, NULL, NULL);
}

static int run_by_shm(void)
{
	const struct CMUnitTest tests[] = {
		T(a_writer_killed_midway_leaves_key_and_space),
		T(a_writer_stopped_in_a_chunk_keeps_only_its_space),
		T(writers_stopped_in_a_chunk_keep_only_their_space),
		T(late_writes_are_refused_20_times_of_20),
		T(a_stopped_owner_is_read_all_the_same),
		T(an_owner_ends_in_time_when_nobody_answers),
		T(a_client_closes_in_time_when_nobody_answers),
	};

	by_shm = true;
	unsetenv("TE_BACKENDS"); /* it is chosen by itself */
	return cmocka_run_group_tests_name("by shm", tests, NULL, NULL);
}

int main(void)
{
	int failed = run_by_tcp();

	return failed + run_by_shm();
}
