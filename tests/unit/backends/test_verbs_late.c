/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_verbs_late.c - memory that a NIC gets after te_region_add() has returned
 *
 * A machine with one NIC in each of two NUMA nodes; the memory is in the first.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/verbs/verbs.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"
#include "tests/lib/wait.h"
#include "tests/unit/te/rig.h"

#define NEAR 0
#define FAR  1
#define LEN  ((size_t)1 << 20)

static const char picture[] =
	"{\"nics\": [{\"name\": \"fake0\", \"numa_node\": 0},"
	" {\"name\": \"fake1\", \"numa_node\": 1}],"
	" \"mems\": [{\"name\": \"cpu:0\", \"numa_node\": 0},"
	"  {\"name\": \"cpu:1\", \"numa_node\": 1}]}";

static char folder[TEST_PATH_MAX], file[TEST_PATH_MAX + 16];
static uint8_t *remote, *local;

static struct te_engine *engine_of_machine(void)
{
	const char *const settings[] = {"backends", "verbs", "topology", file,
					NULL};

	return rig_engine(settings);
}

static te_region_id add(struct te_engine *engine, uint8_t *memory)
{
	struct te_region region = {.addr = memory,
				   .length = LEN,
				   .access = RIG_ANY,
				   .location = "cpu:0"};
	te_region_id id;

	assert_int_equal(te_region_add(engine, &region, &id), 0);
	return id;
}

static bool keys_are(void *arg)
{
	return fake_verbs_counts().keys == *(unsigned int *)arg;
}

static void await_keys(unsigned int n)
{
	assert_true(test_wait_until(keys_are, &n, RIG_WAIT_MS));
}

/* ---- refused ---- */

static struct te_engine *owner, *user;
static te_segment_id segment;

static uint64_t carried(uint32_t i)
{
	struct te_rail_info rails[2];
	size_t n = 2;

	assert_int_equal(te_engine_rails(user, rails, &n), 0);
	return rails[i].sent_bytes;
}

static void move(void)
{
	rig_fill(local, LEN);
	memset(remote, 0, LEN);
	assert_int_equal(rig_move(user, segment, TE_WRITE, remote, local, LEN),
			 0);
	assert_memory_equal(remote, local, LEN);
}

static bool near_one_carries(void *arg)
{
	uint64_t before = carried(NEAR);

	(void)arg;
	move();
	return carried(NEAR) > before;
}

static void nic_that_refused_without_a_link_has_memory_with_it(void **state)
{
	(void)state;
	fake_verbs_link(NEAR, 1, false);
	owner = engine_of_machine();
	user = engine_of_machine();
	fake_verbs_refuse_memory(NEAR, ENOMEM);
	add(owner, remote);
	add(user, local);
	segment = rig_segment(user, owner);
	move();
	assert_int_equal(carried(NEAR), 0);
	fake_verbs_refuse_memory(NEAR, 0);
	fake_verbs_link(NEAR, 1, true);
	assert_true(test_wait_until(near_one_carries, NULL, RIG_WAIT_MS));
	te_engine_destroy(user);
	te_engine_destroy(owner);
}

static void nic_that_has_refused_is_asked_again(void **state)
{
	struct te_engine *engine = engine_of_machine();
	unsigned int before = fake_verbs_counts().keys;
	te_region_id id;

	(void)state;
	fake_verbs_refuse_memory(FAR, ENOMEM);
	id = add(engine, local);
	await_keys(before + 1);
	fake_verbs_refuse_memory(FAR, 0);
	await_keys(before + 2);
	assert_int_equal(te_region_remove(engine, id), 0);
	assert_int_equal(fake_verbs_counts().keys, before);
	te_engine_destroy(engine);
}

static void region_that_some_nic_still_lacks_is_removed(void **state)
{
	struct te_engine *engine = engine_of_machine();
	unsigned int before = fake_verbs_counts().keys;
	te_region_id id;

	(void)state;
	fake_verbs_refuse_memory(FAR, ENOMEM);
	for (int i = 0; i < 100; i++) {
		id = add(engine, local);
		assert_int_equal(te_region_remove(engine, id), 0);
	}
	add(engine, local);
	await_keys(before + 1);
	te_engine_destroy(engine);
}

/* ---- the machine ---- */

static int set_up(void **state)
{
	(void)state;
	te_log_set_level(0);
	fake_verbs_start(2);
	tei_verbs_use(&fake_verbs);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tei_verbs_use(NULL);
	fake_verbs_stop(); /* nothing is left of all */
	return 0;
}

static int make_machine(void **state)
{
	(void)state;
	test_tmpdir_create(folder);
	test_tree_write(folder, "machine.json", picture);
	(void)snprintf(file, sizeof(file), "%s/machine.json", folder);
	remote = malloc(LEN);
	local = malloc(LEN);
	assert_true(remote && local);
	return 0;
}

static int unmake_machine(void **state)
{
	(void)state;
	free(remote);
	free(local);
	test_tmpdir_remove(folder);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nic_that_refused_without_a_link_has_memory_with_it),
		TEST(nic_that_has_refused_is_asked_again),
		TEST(region_that_some_nic_still_lacks_is_removed),
	};

	return cmocka_run_group_tests(tests, make_machine, unmake_machine);
}
