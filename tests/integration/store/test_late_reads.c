/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_late_reads.c - readers that are stopped in the middle of a get, and go
 * on when what they read is gone and its space is others'
 *
 * Each reads another object, in another way, and stands still before it reads
 * or in the middle. Their leases end; the objects are removed, replaced or
 * evicted, and the pool is filled to the last byte. A reader that goes on gets
 * an error, a miss or the value as it was, and where the value was replaced the
 * whole new one: never bytes of others. One with a hot cache then gets it again:
 * what came late is not kept for that.
 *
 * TE_TEST_FENCES says how often, for each way to move bytes. What was counted is
 * printed: what an assertion refuses ends the test.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/store/cram.h"
#include "tests/integration/store/halt.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"
#include "tests/store/pool.h"

#define PARTS   4 /* that a value takes */
#define KEY_LEN 64
#define SIZE    CRAM_VALUE(PARTS)

/* Leases that end soon; a reader may take long all the same. */
static const char *const hasty_leases[] = {"--default_kv_lease_ttl", "100ms",
					   "--client_ttl", "100s", NULL};

enum fate { REMOVED, REPLACED, EVICTED, N_FATES };

static const struct reading {
	const char *what, *point;
} readings[] = {
	{"get", "start"},     {"get", "middle"},    {"ranges", "middle"},
	{"session", "start"}, {"cached", "middle"}, {"buffers", "start"},
	{"hot", "middle"},
};
#define N_READERS (sizeof(readings) / sizeof(readings[0]))

struct way {
	const char *name;
	const char *backends; /* NULL: by itself, which is shm */
	bool mapped;          /* the memory, by readers */
	bool by_itself;       /* the process copies: a page can stop it */
};

struct tally {
	unsigned long rounds, readers;
	unsigned long none, old, new; /* what they got */
};

struct rig {
	const struct way *way;
	struct pool pool;
	struct cram cram;
	struct tally tally;
	struct test_process *readers[N_READERS];
	enum fate fate;
};

static uint8_t room[SIZE];

static void name_value(const struct rig *r, size_t i, char key[KEY_LEN])
{
	(void)snprintf(key, KEY_LEN, "read/%llu/%zu",
		       (unsigned long long)r->cram.round, i);
}

static void put_values(struct rig *r)
{
	char key[KEY_LEN];

	pool_fill(room, SIZE, WRITER_ID);
	for (size_t i = 0; i < N_READERS; i++) {
		name_value(r, i, key);
		assert_int_equal(pool_put(r->cram.store, key, room, SIZE), 0);
	}
}

static void start_reader(struct rig *r, size_t i)
{
	const struct reading *it = &readings[i];
	bool page = r->way->by_itself && !strcmp(it->point, "middle");
	char key[KEY_LEN], size[32];
	const char *const args[] = {
		r->pool.address,      it->what, key, size, it->point,
		page ? "page" : NULL, NULL};

	name_value(r, i, key);
	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)SIZE);
	r->readers[i] = test_process_start("store_halter", args);
	assert_non_null(
		test_process_line(r->readers[i], "ready", POOL_START_MS));
}

static void halt_readers(struct rig *r)
{
	for (size_t i = 0; i < N_READERS; i++) {
		start_reader(r, i);
		test_process_signal(r->readers[i], SIGUSR1);
		assert_non_null(test_process_line(r->readers[i], "halted",
						  POOL_START_MS));
		test_process_signal(r->readers[i], SIGSTOP);
	}
}

/* ---- what becomes of the values ---- */

static bool remove_all_values(void *arg)
{
	struct rig *r = arg;
	struct te_store_key k;
	char key[KEY_LEN];
	int code;

	for (size_t i = 0; i < N_READERS; i++) {
		name_value(r, i, key);
		k = pool_key(key);
		(void)te_store_remove(r->cram.store, &k, 1, 0, &code);
		if (code && code != TE_STORE_OBJECT_NOT_FOUND)
			return false; /* under a lease */
	}
	return true;
}

static void replace_values(struct rig *r)
{
	const struct iovec piece = {room, SIZE};
	const struct te_store_value v = {.pieces = &piece, .n_pieces = 1};
	struct te_store_key k;
	char key[KEY_LEN];
	int code;

	pool_fill(room, SIZE, HALTER_NEW_ID);
	for (size_t i = 0; i < N_READERS; i++) {
		name_value(r, i, key);
		k = pool_key(key);
		(void)te_store_upsert(r->cram.store, &k, &v, 1, NULL, &code);
		assert_int_equal(code, 0);
	}
}

static void end_values(struct rig *r)
{
	if (r->fate == REPLACED)
		replace_values(r);
	if (r->fate == REMOVED)
		assert_true(
			test_wait_until(remove_all_values, r, POOL_START_MS));
}

/* ---- what the readers say ---- */

static void continue_reader(struct rig *r, size_t i)
{
	const char *line;
	char bytes[8] = "";
	int code = 0;

	test_process_signal(r->readers[i], SIGCONT);
	line = test_process_line(r->readers[i], "done ", POOL_START_MS);
	assert_non_null(line);
	assert_int_equal(sscanf(line, "done %d %7s", &code, bytes), 2);
	/* All of them are gone. */
	if (!strcmp(readings[i].what, "hot"))
		assert_true(code < 0);
	if (code < 0)
		assert_string_equal(bytes, "none");
	else if (r->fate == REPLACED)
		assert_true(!strcmp(bytes, "old") || !strcmp(bytes, "new"));
	else
		assert_string_equal(bytes, "old");
	r->tally.readers++;
	r->tally.none += code < 0;
	r->tally.old += !strcmp(bytes, "old");
	r->tally.new += !strcmp(bytes, "new");
	assert_int_equal(test_process_wait(r->readers[i], POOL_START_MS), 0);
	test_process_end(r->readers[i]);
	r->readers[i] = NULL;
}

static void run_round(struct rig *r)
{
	put_values(r);
	halt_readers(r);
	end_values(r);
	/* Evicts whatever is left of the values. */
	cram_fill(&r->cram, CRAM_PARTS);
	for (size_t i = 0; i < N_READERS; i++)
		continue_reader(r, i);
	cram_check(&r->cram);
	cram_empty(&r->cram);
	r->tally.rounds++;
	r->fate = (r->fate + 1) % N_FATES;
}

static unsigned long n_rounds(void)
{
	const char *times = getenv("TE_TEST_FENCES");

	return times ? strtoul(times, NULL, 10) : N_FATES;
}

static void print_tally(const struct rig *r)
{
	const struct tally *t = &r->tally;

	print_message("%s: %lu rounds: of %lu late readers %lu got nothing, "
		      "%lu the value as it was, %lu the whole new one, 0 bytes "
		      "of others\n",
		      r->way->name, t->rounds, t->readers, t->none, t->old,
		      t->new);
}

static void run(const struct way *way)
{
	struct rig r = {.way = way};

	if (way->backends)
		setenv("TE_BACKENDS", way->backends, 1);
	else
		unsetenv("TE_BACKENDS");
	pool_start(&r.pool, hasty_leases);
	r.cram.store = cram_owner(r.pool.address, way->mapped);
	for (unsigned long i = n_rounds(); i; i--)
		run_round(&r);
	print_tally(&r);
	te_store_close(r.cram.store);
	pool_stop(&r.pool);
}

static void late_reads_by_tcp_never_see_bytes_of_others(void **state)
{
	const struct way tcp = {
		.name = "tcp", .backends = "loop,tcp", .mapped = true};

	(void)state;
	run(&tcp);
}

static void late_reads_of_mapped_memory_never_see_bytes_of_others(void **state)
{
	const struct way shm = {
		.name = "shm, mapped", .mapped = true, .by_itself = true};

	(void)state;
	run(&shm);
}

static void late_reads_of_foreign_memory_never_see_bytes_of_others(void **state)
{
	const struct way foreign = {.name = "shm, by process copy"};

	(void)state;
	run(&foreign);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late_reads_by_tcp_never_see_bytes_of_others),
		cmocka_unit_test(
			late_reads_of_mapped_memory_never_see_bytes_of_others),
		cmocka_unit_test(
			late_reads_of_foreign_memory_never_see_bytes_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
