/* SPDX-License-Identifier: Apache-2.0 */
/* test_available.c - limits of the machine and of control groups */
#include <stdint.h>

#include "base/available.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"

#define MIB (UINT64_C(1) << 20)

static char root[TEST_PATH_MAX];

static int make_root(void **state)
{
	(void)state;
	test_tmpdir_create(root);
	return 0;
}

static int remove_root(void **state)
{
	(void)state;
	test_tmpdir_remove(root);
	return 0;
}

static void a_machine_of_100_mib(void)
{
	test_tree_write(root, "proc/meminfo",
			"MemTotal:   204800 kB\n"
			"MemFree:      1000 kB\n"
			"MemAvailable: 102400 kB\n");
}

static void without_files_there_is_no_limit(void **state)
{
	(void)state;
	assert_true(tei_memory_available(root) == UINT64_MAX);
}

static void without_groups_the_machine_is_the_limit(void **state)
{
	(void)state;
	a_machine_of_100_mib();
	assert_int_equal(tei_memory_available(root), 100 * MIB);
	test_tree_write(root, "proc/self/cgroup", "1:cpu:/a\n0::/\n");
	assert_int_equal(tei_memory_available(root), 100 * MIB);
}

static void a_group_leaves_what_it_does_not_use(void **state)
{
	(void)state;
	a_machine_of_100_mib();
	test_tree_write(root, "proc/self/cgroup", "0::/a/b\n");
	test_tree_write(root, "sys/fs/cgroup/a/b/memory.max", "33554432\n");
	test_tree_write(root, "sys/fs/cgroup/a/b/memory.current", "20971520\n");
	assert_int_equal(tei_memory_available(root), 12 * MIB);
	/* Ten of the twenty are files, four of those shared memory. */
	test_tree_write(root, "sys/fs/cgroup/a/b/memory.stat",
			"anon 10485760\nfile 10485760\nshmem 4194304\n");
	assert_int_equal(tei_memory_available(root), 18 * MIB);
}

static void a_group_above_limits_as_well(void **state)
{
	(void)state;
	a_machine_of_100_mib();
	test_tree_write(root, "proc/self/cgroup", "0::/a/b\n");
	test_tree_write(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
	test_tree_write(root, "sys/fs/cgroup/a/memory.max", "1048576\n");
	test_tree_write(root, "sys/fs/cgroup/a/memory.current", "1048577\n");
	assert_int_equal(tei_memory_available(root), 0);
}

static void in_a_container_the_group_is_the_root(void **state)
{
	(void)state;
	a_machine_of_100_mib();
	test_tree_write(root, "proc/self/cgroup", "0::/host/path/unseen\n");
	test_tree_write(root, "sys/fs/cgroup/memory.max", "2097152\n");
	test_tree_write(root, "sys/fs/cgroup/memory.current", "1048576\n");
	assert_int_equal(tei_memory_available(root), MIB);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)
	const struct CMUnitTest tests[] = {
		TEST(without_files_there_is_no_limit),
		TEST(without_groups_the_machine_is_the_limit),
		TEST(a_group_leaves_what_it_does_not_use),
		TEST(a_group_above_limits_as_well),
		TEST(in_a_container_the_group_is_the_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
