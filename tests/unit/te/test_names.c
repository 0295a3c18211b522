/* SPDX-License-Identifier: Apache-2.0 */
/* test_names.c - peers whose names a resolver takes its time for */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "te/control/peer.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define HANG_MS   600000u
#define N_OPENERS 24

static struct te_engine *engine, *owner;

static int set_up(void **state)
{
	(void)state;
	engine = rig_engine(NULL);
	owner = rig_engine(NULL);
	return 0;
}

struct opener {
	pthread_t thread;
	char name[64];
	_Atomic int rc;
};

static void *open_slowly(void *arg)
{
	struct opener *o = arg;
	te_segment_id id;

	atomic_store(&o->rc, te_segment_open(engine, o->name, 500, &id));
	return NULL;
}

static void start_openers(struct opener *openers, int n)
{
	for (int i = 0; i < n; i++) {
		snprintf(openers[i].name, sizeof(openers[i].name),
			 "host-%d.invalid:7", i);
		assert_int_equal(pthread_create(&openers[i].thread, NULL,
						open_slowly, &openers[i]),
				 0);
	}
}

static void join_openers(struct opener *openers, int n)
{
	for (int i = 0; i < n; i++)
		pthread_join(openers[i].thread, NULL);
}

static unsigned int n_look_ups(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned int n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%.200s/comm",
			 entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		n += fgets(name, sizeof(name), file) &&
		     !strcmp(name, "te-lookup\n");
		fclose(file);
	}
	closedir(dir);
	return n;
}

static bool hang(void *arg)
{
	(void)arg;
	return n_look_ups() == TEI_NAMES_AT_ONCE;
}

static bool none_hangs(void *arg)
{
	(void)arg;
	return !n_look_ups();
}

/* What was given up must not count in the next test. */
static int tear_down(void **state)
{
	(void)state;
	te_engine_destroy(engine);
	te_engine_destroy(owner);
	tei_fault_slow_names(0);
	return test_wait_until(none_hangs, NULL, RIG_WAIT_MS) ? 0 : -1;
}

static void names_that_hang_hold_up_nobody_else(void **state)
{
	struct opener openers[N_OPENERS];
	te_segment_id id;

	(void)state;
	tei_fault_slow_names(HANG_MS);
	start_openers(openers, N_OPENERS);
	assert_true(test_wait_until(hang, NULL, RIG_WAIT_MS));
	assert_int_equal(te_segment_open(engine, te_engine_name(owner),
					 RIG_WAIT_MS, &id),
			 0);
	assert_int_equal(
		te_peer_probe(engine, te_engine_name(owner), RIG_WAIT_MS, NULL),
		0);
	join_openers(openers, N_OPENERS);
	for (int i = 0; i < N_OPENERS; i++)
		assert_int_equal(openers[i].rc, -ETIMEDOUT);
	assert_int_equal(n_look_ups(), TEI_NAMES_AT_ONCE);
}

static void engine_ends_while_names_hang(void **state)
{
	struct opener openers[N_OPENERS];
	uint64_t begun;

	(void)state;
	tei_fault_slow_names(HANG_MS);
	start_openers(openers, N_OPENERS);
	assert_true(test_wait_until(hang, NULL, RIG_WAIT_MS));
	join_openers(openers, N_OPENERS);
	begun = tei_now_ms();
	te_engine_destroy(engine);
	assert_true(tei_now_ms() - begun < HANG_MS / 10);
	tei_fault_slow_names(0);
	assert_true(test_wait_until(none_hangs, NULL, RIG_WAIT_MS));
	engine = rig_engine(NULL);
}

static void names_that_waited_for_others_are_found(void **state)
{
	struct opener openers[N_OPENERS];
	const char *port = strchr(te_engine_name(owner), ':') + 1;
	char name[64];
	te_segment_id id;

	(void)state;
	tei_fault_slow_names(HANG_MS);
	start_openers(openers, N_OPENERS);
	assert_true(test_wait_until(hang, NULL, RIG_WAIT_MS));
	snprintf(name, sizeof(name), "localhost:%s", port);
	tei_fault_slow_names(0);
	assert_int_equal(te_segment_open(engine, name, RIG_WAIT_MS, &id), 0);
	join_openers(openers, N_OPENERS);
	for (int i = 0; i < N_OPENERS; i++)
		assert_true(openers[i].rc < 0);
}

static void name_without_memory_or_thread_is_tried_again(void **state)
{
	const char *port = strchr(te_engine_name(owner), ':') + 1;
	te_segment_id id;
	char name[64];

	(void)state;
	snprintf(name, sizeof(name), "localhost:%s", port);
	tei_fault_arm(TEI_FAULT_THREAD, 1);
	assert_int_equal(te_segment_open(engine, name, RIG_WAIT_MS, &id), 0);
	assert_true(tei_fault_struck(TEI_FAULT_THREAD));
	tei_fault_disarm_all();
}

#define WITH_ENGINE(test) \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINE(names_that_hang_hold_up_nobody_else),
		WITH_ENGINE(engine_ends_while_names_hang),
		WITH_ENGINE(names_that_waited_for_others_are_found),
		WITH_ENGINE(name_without_memory_or_thread_is_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
