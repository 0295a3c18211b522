/* SPDX-License-Identifier: Apache-2.0 */
/* test_region.c - what may be registered, and what of it is published */
#include <errno.h>
#include <stdlib.h>

#include "tests/lib/faults.h"
#include "tests/unit/te/alone.h"

static uint8_t memory[64 << 10];
static const char *const loop[] = {"backends", "loop", NULL};

static int set_up(void **state)
{
	(void)state;
	return alone_open(loop);
}

static int add(uint64_t from, uint64_t length)
{
	struct te_region region = {
		.addr = memory + from, .length = length, .access = RIG_ANY};
	te_region_id id;

	return te_region_add(engine, &region, &id);
}

static void overlap_is_refused_and_neighbours_are_not(void **state)
{
	(void)state;
	assert_int_equal(add(4096, 4096), 0);
	assert_int_equal(add(4096, 4096), -EEXIST);
	assert_int_equal(add(4096, 100), -EINVAL);
	assert_int_equal(add(0, 4097), -EINVAL);
	assert_int_equal(add(8191, 10), -EINVAL);
	assert_int_equal(add(5000, 10), -EINVAL);
	assert_int_equal(add(0, 16384), -EINVAL);
	assert_int_equal(add(0, 4096), 0);
	assert_int_equal(add(8192, 1), 0);
	assert_int_equal(test_stat(engine, "te_regions", NULL), 3);
}

static void impossible_regions_are_refused(void **state)
{
	struct te_region region = {.addr = memory, .length = 1};
	const struct te_region right = region;
	char location[64];
	te_region_id id;

	(void)state;
	region.length = 0;
	assert_int_equal(te_region_add(engine, &region, &id), -EINVAL);
	region.length = TE_LENGTH_MAX + 1;
	assert_int_equal(te_region_add(engine, &region, &id), -EINVAL);
	region = right;
	region.addr = (void *)(UINTPTR_MAX - 10);
	region.length = 100;
	assert_int_equal(te_region_add(engine, &region, &id), -EINVAL);
	region = right;
	region.access = 4;
	assert_int_equal(te_region_add(engine, &region, &id), -EINVAL);
	region = right;
	region.reserved_0 = 1;
	assert_int_equal(te_region_add(engine, &region, &id), -EINVAL);
	region = right;
	region.reserved_1[2] = 1;
	assert_int_equal(te_region_add(engine, &region, &id), -EINVAL);
	region = right;
	memset(location, 'x', sizeof(location));
	location[sizeof(location) - 1] = 0;
	region.location = location;
	assert_int_equal(te_region_add(engine, &region, &id), -EINVAL);
	assert_int_equal(te_region_remove(engine, 0), -ENOENT);
	assert_int_equal(te_region_remove(engine, 12345), -ENOENT);
}

static void removed_region_is_gone_and_its_id_stale(void **state)
{
	te_region_id first, second;

	(void)state;
	first = rig_region(engine, memory, 4096, RIG_ANY);
	assert_int_equal(te_region_remove(engine, first), 0);
	assert_int_equal(te_region_remove(engine, first), -ENOENT);
	second = rig_region(engine, memory, 4096, RIG_ANY);
	assert_true(second != first);
	assert_int_equal(te_region_remove(engine, first), -ENOENT);
	assert_int_equal(te_region_remove(engine, second), 0);
}

static void own_segment_shows_open_regions_sorted(void **state)
{
	struct te_segment_region regions[8];
	te_segment_id segment;
	size_t n = 8;

	(void)state;
	rig_region(engine, memory + 8192, 4096, TE_ACCESS_REMOTE_READ);
	segment = rig_segment(engine, engine);
	rig_region(engine, memory, 4096, RIG_ANY);
	rig_region(engine, memory + 4096, 4096, TE_ACCESS_LOCAL);
	assert_int_equal(te_segment_regions(engine, segment, regions, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(regions[0].addr, (uintptr_t)memory);
	assert_int_equal(regions[0].length, 4096);
	assert_int_equal(regions[0].access, RIG_ANY);
	assert_string_equal(regions[0].location, "cpu:0");
	assert_int_equal(regions[1].addr, (uintptr_t)memory + 8192);
	assert_int_equal(regions[1].access, TE_ACCESS_REMOTE_READ);
	n = 1;
	assert_int_equal(te_segment_regions(engine, segment, regions, &n), 0);
	assert_int_equal(n, 2);
	te_segment_close(engine, segment);
	assert_int_equal(te_segment_regions(engine, segment, regions, &n),
			 -ENOENT);
}

static void region_added_later_is_reached_at_once(void **state)
{
	te_segment_id segment = rig_segment(engine, engine);
	uint8_t local[16] = "fifteen letters";
	te_region_id id;

	(void)state;
	assert_int_equal(rig_move(engine, segment, TE_WRITE, memory, local, 16),
			 -EFAULT);
	id = rig_region(engine, memory, 4096, RIG_ANY);
	assert_int_equal(rig_move(engine, segment, TE_WRITE, memory, local, 16),
			 0);
	assert_memory_equal(memory, local, 16);
	assert_int_equal(te_region_remove(engine, id), 0);
	assert_int_equal(rig_move(engine, segment, TE_WRITE, memory, local, 16),
			 -EFAULT);
}

static void allocated_memory_is_whole_pages_and_freed(void **state)
{
	void *small, *large;

	(void)state;
	assert_int_equal(te_memory_alloc(engine, 0, &small), -EINVAL);
	assert_int_equal(te_memory_alloc(engine, 1, &small), 0);
	assert_int_equal(te_memory_alloc(engine, 5 << 20, &large), 0);
	assert_int_equal((uintptr_t)small % 4096, 0);
	memset(small, 1, 4096);
	memset(large, 1, 5 << 20);
	te_memory_free(engine, small);
	te_memory_free(engine, NULL);
	te_memory_free(engine, memory); /* not ours: ignored */
}

static void many_regions_are_kept_apart(void **state)
{
	static te_region_id ids[512];
	te_segment_id segment = rig_segment(engine, engine);
	uint8_t byte;

	(void)state;
	srand(3);
	for (unsigned int i = 0; i < 512; i++) {
		unsigned int at = i * 5 % 512; /* not in order */

		ids[at] = rig_region(engine, memory + at * 128, 64, RIG_ANY);
	}
	for (unsigned int i = 0; i < 512; i += 37) {
		byte = (uint8_t)i;
		assert_int_equal(rig_move(engine, segment, TE_WRITE,
					  memory + i * 128 + 63, &byte, 1),
				 0);
		assert_int_equal(memory[i * 128 + 63], (uint8_t)i);
		assert_int_equal(rig_move(engine, segment, TE_WRITE,
					  memory + i * 128 + 64, &byte, 1),
				 -EFAULT);
	}
	for (unsigned int i = 0; i < 512; i++)
		assert_int_equal(te_region_remove(engine, ids[i]), 0);
	assert_int_equal(test_stat(engine, "te_regions", NULL), 0);
}

static void lack_of_memory_leaves_the_table_as_it_was(void **state)
{
	struct te_region region = {.addr = memory, .length = 4096};
	te_region_id id;
	int rc;

	(void)state;
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		rc = te_region_add(engine, &region, &id);
		if (!rc) {
			assert_int_equal(te_region_remove(engine, id), 0);
			continue;
		}
		assert_int_equal(rc, -ENOMEM);
		assert_int_equal(test_stat(engine, "te_regions", NULL), 0);
	}
}

#define WITH_ENGINE(test) \
	cmocka_unit_test_setup_teardown(test, set_up, alone_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENGINE(overlap_is_refused_and_neighbours_are_not),
		WITH_ENGINE(impossible_regions_are_refused),
		WITH_ENGINE(removed_region_is_gone_and_its_id_stale),
		WITH_ENGINE(own_segment_shows_open_regions_sorted),
		WITH_ENGINE(region_added_later_is_reached_at_once),
		WITH_ENGINE(allocated_memory_is_whole_pages_and_freed),
		WITH_ENGINE(many_regions_are_kept_apart),
		WITH_ENGINE(lack_of_memory_leaves_the_table_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
