/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_room.c - the memory that is left is that of the tightest limit
 */
#include "perf/lib/room.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"

#define MIB (1ull << 20)

static char root[TEST_PATH_MAX];

static int make_root(void **state)
{
	(void)state;
	test_tmpdir_create(root);
	test_tree_write(root, "proc/meminfo",
			"MemTotal:        8192 kB\nMemFree:  1 kB\n"
			"MemAvailable:    4096 kB\n");
	return 0;
}

static int remove_root(void **state)
{
	(void)state;
	test_tmpdir_remove(root);
	return 0;
}

static void without_groups_the_host_is_the_limit(void **state)
{
	(void)state;
	assert_int_equal(tei_room_left(root).bytes, 4 * MIB);
	test_tree_write(root, "proc/self/cgroup", "0::/\n");
	assert_int_equal(tei_room_left(root).bytes, 4 * MIB);
	assert_int_equal(tei_room_left("/nowhere").bytes, UINT64_MAX);
}

static void any_group_above_may_be_the_limit(void **state)
{
	(void)state;
	test_tree_write(root, "proc/self/cgroup",
			"1:cpu:/else\n0::/slice/job\n");
	test_tree_write(root, "sys/fs/cgroup/slice/job/memory.max", "max\n");
	test_tree_write(root, "sys/fs/cgroup/slice/job/memory.current", "9\n");
	assert_int_equal(tei_room_left(root).bytes, 4 * MIB);
	test_tree_write(root, "sys/fs/cgroup/slice/memory.max", "3145728\n");
	test_tree_write(root, "sys/fs/cgroup/slice/memory.current",
			"2097152\n");
	assert_int_equal(tei_room_left(root).bytes, 1 * MIB);
	/* Cached files make way. */
	test_tree_write(root, "sys/fs/cgroup/slice/memory.stat",
			"anon 1048576\ninactive_file 1048576\n");
	assert_int_equal(tei_room_left(root).bytes, 2 * MIB);
	test_tree_write(root, "sys/fs/cgroup/slice/memory.current",
			"5242880\n");
	assert_int_equal(tei_room_left(root).bytes, 0);
}

static void groups_of_the_first_kind_count_too(void **state)
{
	(void)state;
	test_tree_write(root, "proc/self/cgroup",
			"9:name=systemd:/\n4:memory:/box/inner\n0::/\n");
	/* A container sees its own group as the top. */
	test_tree_write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes",
			"2097152\n");
	test_tree_write(root, "sys/fs/cgroup/memory/memory.usage_in_bytes",
			"1048576\n");
	assert_int_equal(tei_room_left(root).bytes, 1 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			without_groups_the_host_is_the_limit, make_root,
			remove_root),
		cmocka_unit_test_setup_teardown(
			any_group_above_may_be_the_limit, make_root,
			remove_root),
		cmocka_unit_test_setup_teardown(
			groups_of_the_first_kind_count_too, make_root,
			remove_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
