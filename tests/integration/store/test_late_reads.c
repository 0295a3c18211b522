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
#include <string.h>

#include "tests/integration/store/halt.h"
#include "tests/integration/store/late.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

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

struct tally {
	unsigned long rounds, readers;
	unsigned long none, old, new; /* what they got */
};

struct rig {
	struct late late;
	struct tally tally;
	struct test_process *readers[N_READERS];
	enum fate fate;
};

static uint8_t room[SIZE];

static void name_value(const struct rig *r, size_t i, char key[KEY_LEN])
{
	(void)snprintf(key, KEY_LEN, "read/%llu/%zu",
		       (unsigned long long)r->late.cram.round, i);
}

static void put_values(struct rig *r)
{
	char key[KEY_LEN];

	pool_fill(room, SIZE, WRITER_ID);
	for (size_t i = 0; i < N_READERS; i++) {
		name_value(r, i, key);
		assert_int_equal(pool_put(r->late.cram.store, key, room, SIZE),
				 0);
	}
}

static void halt_readers(struct rig *r)
{
	char key[KEY_LEN];

	for (size_t i = 0; i < N_READERS; i++) {
		name_value(r, i, key);
		r->readers[i] = late_begin(&r->late, readings[i].what, key,
					   SIZE, readings[i].point);
		test_process_signal(r->readers[i], SIGUSR1);
		late_halt(r->readers[i]);
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
		(void)te_store_remove(r->late.cram.store, &k, 1, 0, &code);
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
		(void)te_store_upsert(r->late.cram.store, &k, &v, 1, NULL,
				      &code);
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
	struct late_end end = late_go_on(r->readers[i]);
	bool old = !strcmp(end.bytes, "old"), new = !strcmp(end.bytes, "new");

	/* All of them are gone. */
	if (!strcmp(readings[i].what, "hot"))
		assert_true(end.code < 0);
	if (end.code < 0)
		assert_string_equal(end.bytes, "none");
	else if (r->fate == REPLACED)
		assert_true(old || new);
	else
		assert_string_equal(end.bytes, "old");
	r->tally.readers++;
	r->tally.none += end.code < 0;
	r->tally.old += old;
	r->tally.new += new;
}

static void run_round(struct rig *r)
{
	put_values(r);
	halt_readers(r);
	end_values(r);
	/* Evicts whatever is left of the values. */
	cram_fill(&r->late.cram, CRAM_PARTS);
	for (size_t i = 0; i < N_READERS; i++)
		continue_reader(r, i);
	cram_check(&r->late.cram);
	cram_empty(&r->late.cram);
	r->tally.rounds++;
	r->fate = (r->fate + 1) % N_FATES;
}

static void print_tally(const struct rig *r)
{
	const struct tally *t = &r->tally;

	print_message("%s: %lu rounds: of %lu late readers %lu got nothing, "
		      "%lu the value as it was, %lu the whole new one, 0 bytes "
		      "of others\n",
		      r->late.way->name, t->rounds, t->readers, t->none, t->old,
		      t->new);
}

static void run(const struct late_way *way)
{
	struct rig r = {.tally = {0}};

	late_start(&r.late, way, hasty_leases);
	for (unsigned long i = late_rounds(N_FATES); i; i--)
		run_round(&r);
	print_tally(&r);
	late_stop(&r.late);
}

static void late_reads_by_tcp_never_see_bytes_of_others(void **state)
{
	(void)state;
	run(&late_tcp);
}

static void late_reads_of_mapped_memory_never_see_bytes_of_others(void **state)
{
	(void)state;
	run(&late_mapped);
}

static void late_reads_of_foreign_memory_never_see_bytes_of_others(void **state)
{
	(void)state;
	run(&late_foreign);
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
