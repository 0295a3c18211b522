/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_room.c - the memory that is left is that of the tightest limit
 */
#include "base/room.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/tree.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

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

static void a_group_is_slowed_down_before_its_limit(void **state)
{
	(void)state;
	test_tree_write(root, "proc/self/cgroup", "0::/job\n");
	test_tree_write(root, "sys/fs/cgroup/job/memory.max", "3145728\n");
	test_tree_write(root, "sys/fs/cgroup/job/memory.high", "2097152\n");
	test_tree_write(root, "sys/fs/cgroup/job/memory.current", "1048576\n");
	assert_int_equal(tei_room_left(root).bytes, 1 * MIB);
}

static void a_tenth_of_each_limit_is_left_to_others(void **state)
{
	(void)state;
	assert_int_equal(tei_room_spare(root).bytes, 4 * MIB - 8 * MIB / 10);
	test_tree_write(root, "proc/self/cgroup", "0::/job\n");
	test_tree_write(root, "sys/fs/cgroup/job/memory.max", "3145728\n");
	test_tree_write(root, "sys/fs/cgroup/job/memory.current", "1048576\n");
	assert_int_equal(tei_room_spare(root).bytes, 2 * MIB - 314572);
	assert_string_equal(tei_room_spare(root).whose,
			    "the limit of its control group");
	test_tree_write(root, "sys/fs/cgroup/job/memory.current", "3100000\n");
	assert_int_equal(tei_room_spare(root).bytes, 0);
	/* Of a large one a GiB. */
	test_tree_write(root, "proc/self/cgroup", "");
	test_tree_write(root, "proc/meminfo",
			"MemTotal: 104857600 kB\nMemAvailable: 10485760 kB\n");
	assert_int_equal(tei_room_spare(root).bytes, 9 * GIB);
}

/* What cannot be read is no limit, and none that is read is passed. */
static void garbage_is_no_limit(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"MemAvailable:",
		"MemAvailable: \n",
		"MemAvailable: much kB\n",
		"MemAvailable: -1 kB\n",
		"MemAvailable: 99999999999999999999999 kB\n",
		"MemAvailable: 18446744073709551615 kB\n",
		" MemAvailable: 1 kB\n",
		"memavailable: 1 kB\n",
	};
	static const char *const groups[] = {
		"",    "0",        "0:",        "0::",
		"::",  "\n\n",     "0::/",      "0::/a/../../b",
		":::", "4:memory", "4:memory:", "4:memory:/\n0::/a\n:",
	};
	static const char *const limits[] = {"", "max", "-1", "\n", "x1", " "};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		test_tree_write(root, "proc/meminfo", texts[i]);
		assert_true(tei_room_left(root).bytes == UINT64_MAX);
		assert_true(tei_room_spare(root).bytes == UINT64_MAX);
	}
	test_tree_write(root, "sys/fs/cgroup/a/memory.current", "5\n");
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		test_tree_write(root, "proc/self/cgroup", groups[i]);
		assert_true(tei_room_spare(root).bytes == UINT64_MAX);
	}
	test_tree_write(root, "proc/self/cgroup", "0::/a\n");
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		test_tree_write(root, "sys/fs/cgroup/a/memory.max", limits[i]);
		assert_true(tei_room_spare(root).bytes == UINT64_MAX);
	}
	test_tree_write(root, "sys/fs/cgroup/a/memory.max", "5\n");
	test_tree_write(root, "sys/fs/cgroup/a/memory.current", "\n");
	assert_true(tei_room_spare(root).bytes == UINT64_MAX);
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
		cmocka_unit_test_setup_teardown(
			a_group_is_slowed_down_before_its_limit, make_root,
			remove_root),
		cmocka_unit_test_setup_teardown(
			a_tenth_of_each_limit_is_left_to_others, make_root,
			remove_root),
		cmocka_unit_test_setup_teardown(garbage_is_no_limit, make_root,
						remove_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
