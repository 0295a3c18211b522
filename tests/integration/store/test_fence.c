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
 * is through. By verbs there is no middle: the device writes on by itself.
 *
 * TE_TEST_FENCES says how often, for each way to move bytes. What was counted is
 * printed: what an assertion refuses ends the test.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/store/late.h"
#include "tests/lib/libfabric.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define PARTS 4 /* that a writer's value takes */

#define KEY_LEN 64

enum { START, MIDDLE, END, N_POINTS };

/*
 * How long a put may take, which is how long each round does: also one of those
 * that fill the pool, which is not late.
 */
#define PUT_MS 1500

static const char *const points[N_POINTS] = {
	[START] = "start", [MIDDLE] = "middle", [END] = "end"};

struct tally {
	unsigned long rounds, writers, refused;
	unsigned long set_aside; /* chunks that were under way: space kept */
	unsigned long late;      /* requests that the owner refused as late */
	unsigned long objects;   /* of others, compared when all had gone on */
};

struct rig {
	struct late late;
	struct tally tally;
	struct test_process *writers[N_POINTS];
};

static void name_value(const struct rig *r, size_t i, char key[KEY_LEN])
{
	(void)snprintf(key, KEY_LEN, "late/%llu/%s",
		       (unsigned long long)r->late.cram.round, points[i]);
}

static bool has_point(const struct rig *r, size_t i)
{
	return i != MIDDLE || !r->late.way->by_device;
}

static void halt_writers(struct rig *r)
{
	char key[KEY_LEN];

	for (size_t i = 0; i < N_POINTS; i++) {
		if (!has_point(r, i))
			continue;
		name_value(r, i, key);
		r->writers[i] = late_begin(&r->late, "put", key,
					   CRAM_VALUE(PARTS), points[i]);
	}
	for (size_t i = 0; i < N_POINTS; i++)
		if (has_point(r, i))
			test_process_signal(r->writers[i], SIGUSR1);
	for (size_t i = 0; i < N_POINTS; i++)
		if (has_point(r, i))
			late_halt(r->writers[i]);
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
	assert_int_equal(
		pool_get(r->late.cram.store, key, bytes, sizeof(bytes)),
		sizeof(bytes));
	assert_true(pool_is_filled(bytes, sizeof(bytes), WRITER_ID));
	(void)te_store_remove(r->late.cram.store, &k, 1, 1, &code);
	assert_int_equal(code, 0);
}

/*
 * What it did late was refused, and it knows; before it writes anything it may
 * have heard that it must not.
 */
static void continue_writer(struct rig *r, size_t i)
{
	struct late_end end = late_go_on(r->writers[i]);
	bool marked = r->late.way->marked;

	if (!end.code && i == MIDDLE && marked)
		take_away(r);
	else
		assert_true(end.code < 0);
	r->tally.writers++;
	r->tally.refused += end.code < 0;
	r->tally.late += end.stale;
	if (i == MIDDLE && !marked)
		assert_true(end.stale > 0);
	if (i == END)
		assert_int_equal(end.code, TE_STORE_TRANSFER_FAIL);
}

static void run_round(struct rig *r)
{
	size_t aside = r->late.way->marked ? PARTS : 0;

	halt_writers(r);
	cram_fill(&r->late.cram, CRAM_PARTS - aside);
	cram_is_full(&r->late.cram);
	cram_check(&r->late.cram);
	for (size_t i = 0; i < N_POINTS; i++)
		if (has_point(r, i))
			continue_writer(r, i);
	cram_check(&r->late.cram);
	r->tally.rounds++;
	r->tally.objects += r->late.cram.n;
	r->tally.set_aside += r->late.way->marked;
	/* What was set aside is free now. */
	cram_fill(&r->late.cram, CRAM_PARTS);
	cram_check(&r->late.cram);
	cram_empty(&r->late.cram);
}

static void print_tally(const struct rig *r)
{
	const struct tally *t = &r->tally;

	print_message("%s: %lu rounds: of %lu late writers %lu were refused "
		      "(%lu late requests counted), the space of %lu was set "
		      "aside until they were through; %lu objects compared, "
		      "0 touched\n",
		      r->late.way->name, t->rounds, t->writers, t->refused,
		      t->late, t->set_aside, t->objects);
}

static void run(const struct late_way *way)
{
	struct rig r = {.tally = {0}};
	char put_time[32];
	const char *const hasty_puts[] = {"--put_start_discard_timeout_sec",
					  put_time, "--client_ttl", "100s",
					  NULL};

	(void)snprintf(put_time, sizeof(put_time), "%.0fms",
		       PUT_MS * test_stretch());
	late_start(&r.late, way, hasty_puts);
	for (unsigned long i = late_rounds(1); i; i--)
		run_round(&r);
	print_tally(&r);
	late_stop(&r.late);
}

static void late_writes_by_tcp_are_refused_and_touch_no_object(void **state)
{
	(void)state;
	run(&late_tcp);
}

/* The lab has such devices. */
static void late_writes_by_verbs_find_their_queue_pairs_gone(void **state)
{
	(void)state;
	if (access("/sys/class/infiniband/rxe0", F_OK))
		skip();
	run(&late_verbs);
}

static void run_by(const char *provider, const struct late_way *way)
{
	if (!test_libfabric_has(provider))
		skip();
	test_libfabric_set(provider);
	run(way);
	test_libfabric_unset();
}

static void late_writes_by_libfabric_find_their_connections_gone(void **state)
{
	(void)state;
	run_by("tcp", &late_ofi_tcp);
}

static void late_writes_by_libfabric_find_their_endpoints_gone(void **state)
{
	(void)state;
	run_by("net", &late_ofi_net);
}

/* In the lab. */
static void
late_writes_by_libfabrics_verbs_find_their_connections_gone(void **state)
{
	(void)state;
	run_by("verbs", &late_ofi_verbs);
}

static void late_writes_to_mapped_memory_touch_no_object(void **state)
{
	(void)state;
	run(&late_mapped);
}

static void late_writes_to_foreign_memory_touch_no_object(void **state)
{
	(void)state;
	run(&late_foreign);
}

/* An argument: only tests of such a name, "*verbs*". */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			late_writes_by_tcp_are_refused_and_touch_no_object),
		cmocka_unit_test(
			late_writes_by_verbs_find_their_queue_pairs_gone),
		cmocka_unit_test(
			late_writes_by_libfabric_find_their_connections_gone),
		cmocka_unit_test(
			late_writes_by_libfabric_find_their_endpoints_gone),
		cmocka_unit_test(
			late_writes_by_libfabrics_verbs_find_their_connections_gone),
		cmocka_unit_test(late_writes_to_mapped_memory_touch_no_object),
		cmocka_unit_test(late_writes_to_foreign_memory_touch_no_object),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
