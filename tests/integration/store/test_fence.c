/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fence.c - writers that are stopped in the middle of a put, past every
 * timeout, and go on when what they had reserved is others'
 *
 * One stands still before it writes, one in the middle of the value, one before
 * it says that all is there. The pool is then filled with others' objects to
 * the last byte, which proves that their space has been given away; all of it
 * is compared before and after they go on. By shared memory the one in the
 * middle may have marked a chunk: then its space alone stays set aside until it
 * is through.
 *
 * TE_TEST_FENCES says how often, for each way to move bytes. What was counted is
 * printed: what an assertion refuses ends the test.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/store/cram.h"
#include "tests/lib/test.h"
#include "tests/store/pool.h"

#define PARTS 4 /* that a writer's value takes */

#define KEY_LEN 64

enum { START, MIDDLE, END, N_POINTS };

/* How long a put may take, which is how long each round does. */
static const char *const hasty_puts[] = {"--put_start_discard_timeout_sec",
					 "1500ms", "--client_ttl", "100s",
					 NULL};
static const char *const points[N_POINTS] = {
	[START] = "start", [MIDDLE] = "middle", [END] = "end"};

struct way {
	const char *name;
	const char *backends; /* NULL: by itself, which is shm */
	bool mapped;          /* the memory, by writers */
	bool by_itself;       /* the process copies: a page can stop it */
	bool marked;          /* the middle is in a marked chunk */
};

struct tally {
	unsigned long rounds, writers, refused;
	unsigned long set_aside; /* chunks that were under way: space kept */
	unsigned long late;      /* requests that the owner refused as late */
	unsigned long objects;   /* of others, compared when all had gone on */
};

struct rig {
	const struct way *way;
	struct pool pool;
	struct cram cram;
	struct tally tally;
	struct test_process *writers[N_POINTS];
};

static void name_value(const struct rig *r, size_t i, char key[KEY_LEN])
{
	(void)snprintf(key, KEY_LEN, "late/%llu/%s",
		       (unsigned long long)r->cram.round, points[i]);
}

static void halt_writer(struct rig *r, size_t i)
{
	char key[KEY_LEN], size[32];
	const char *const args[] = {r->pool.address,
				    "put",
				    key,
				    size,
				    points[i],
				    r->way->by_itself && i == MIDDLE ? "page"
								     : NULL,
				    NULL};
	struct test_process *w;

	name_value(r, i, key);
	(void)snprintf(size, sizeof(size), "%llu",
		       (unsigned long long)CRAM_VALUE(PARTS));
	w = r->writers[i] = test_process_start("store_halter", args);
	assert_non_null(test_process_line(w, "ready", POOL_START_MS));
}

static void halt_writers(struct rig *r)
{
	for (size_t i = 0; i < N_POINTS; i++)
		halt_writer(r, i);
	for (size_t i = 0; i < N_POINTS; i++)
		test_process_signal(r->writers[i], SIGUSR1);
	for (size_t i = 0; i < N_POINTS; i++) {
		assert_non_null(test_process_line(r->writers[i], "halted",
						  POOL_START_MS));
		test_process_signal(r->writers[i], SIGSTOP);
	}
}

/* Its space was free when it tried again: then all of it is there. */
static void take_away(struct rig *r)
{
	static uint8_t bytes[CRAM_VALUE(PARTS)];
	struct te_store_key k;
	char key[KEY_LEN];
	int code = 1;

	name_value(r, MIDDLE, key);
	k = pool_key(key);
	assert_int_equal(pool_get(r->cram.store, key, bytes, sizeof(bytes)),
			 sizeof(bytes));
	assert_true(pool_is_filled(bytes, sizeof(bytes), WRITER_ID));
	(void)te_store_remove(r->cram.store, &k, 1, 1, &code);
	assert_int_equal(code, 0);
}

/*
 * What it did late was refused, and it knows; before it writes anything it may
 * have heard that it must not.
 */
static void continue_writer(struct rig *r, size_t i)
{
	unsigned long long stale = 0;
	const char *line;
	char bytes[8];
	int code = 0;

	test_process_signal(r->writers[i], SIGCONT);
	line = test_process_line(r->writers[i], "done ", POOL_START_MS);
	assert_non_null(line);
	assert_int_equal(sscanf(line, "done %d %7s %llu", &code, bytes, &stale),
			 3);
	if (!code && i == MIDDLE && r->way->marked)
		take_away(r);
	else
		assert_true(code < 0);
	r->tally.writers++;
	r->tally.refused += code < 0;
	r->tally.late += stale;
	if (i == MIDDLE && !r->way->marked)
		assert_true(stale > 0);
	if (i == END)
		assert_int_equal(code, TE_STORE_TRANSFER_FAIL);
	assert_int_equal(test_process_wait(r->writers[i], POOL_START_MS), 0);
	test_process_end(r->writers[i]);
	r->writers[i] = NULL;
}

static void run_round(struct rig *r)
{
	size_t aside = r->way->marked ? PARTS : 0;

	halt_writers(r);
	cram_fill(&r->cram, CRAM_PARTS - aside);
	cram_is_full(&r->cram);
	cram_check(&r->cram);
	for (size_t i = 0; i < N_POINTS; i++)
		continue_writer(r, i);
	cram_check(&r->cram);
	r->tally.rounds++;
	r->tally.objects += r->cram.n;
	r->tally.set_aside += r->way->marked;
	/* What was set aside is free now. */
	cram_fill(&r->cram, CRAM_PARTS);
	cram_check(&r->cram);
	cram_empty(&r->cram);
}

static unsigned long n_rounds(void)
{
	const char *times = getenv("TE_TEST_FENCES");

	return times ? strtoul(times, NULL, 10) : 1;
}

static void print_tally(const struct rig *r)
{
	const struct tally *t = &r->tally;

	print_message("%s: %lu rounds: of %lu late writers %lu were refused "
		      "(%lu late requests counted), the space of %lu was set "
		      "aside until they were through; %lu objects compared, "
		      "0 touched\n",
		      r->way->name, t->rounds, t->writers, t->refused, t->late,
		      t->set_aside, t->objects);
}

static void run(const struct way *way)
{
	struct rig r = {.way = way};

	if (way->backends)
		setenv("TE_BACKENDS", way->backends, 1);
	else
		unsetenv("TE_BACKENDS");
	pool_start(&r.pool, hasty_puts);
	r.cram.store = cram_owner(r.pool.address, way->mapped);
	for (unsigned long i = n_rounds(); i; i--)
		run_round(&r);
	print_tally(&r);
	te_store_close(r.cram.store);
	pool_stop(&r.pool);
}

static void late_writes_by_tcp_are_refused_and_touch_no_object(void **state)
{
	const struct way tcp = {
		.name = "tcp", .backends = "loop,tcp", .mapped = true};

	(void)state;
	run(&tcp);
}

static void late_writes_to_mapped_memory_touch_no_object(void **state)
{
	const struct way shm = {.name = "shm, mapped",
				.mapped = true,
				.by_itself = true,
				.marked = true};

	(void)state;
	run(&shm);
}

static void late_writes_to_foreign_memory_touch_no_object(void **state)
{
	const struct way foreign = {.name = "shm, by process copy",
				    .marked = true};

	(void)state;
	run(&foreign);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			late_writes_by_tcp_are_refused_and_touch_no_object),
		cmocka_unit_test(late_writes_to_mapped_memory_touch_no_object),
		cmocka_unit_test(late_writes_to_foreign_memory_touch_no_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
