/* SPDX-License-Identifier: Apache-2.0 */
/* test_rdma_regions.c - regions are found by address, used, hidden, taken */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/rdma/regions.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/fake_core.h"

static struct rdma_regions regions;

static int set_up(void **state)
{
	(void)state;
	tei_rdma_regions_init(&regions);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	test_faults_end();
	tei_rdma_regions_fini(&regions);
	return 0;
}

static void fill(struct rdma_region *region, uint64_t id, uint64_t base,
		 uint64_t length)
{
	*region = (struct rdma_region){
		.id = id, .range = {.base = base, .length = length}};
}

static struct rdma_region *find(uint64_t addr)
{
	struct rdma_region *region;

	tei_rdma_regions_lock(&regions);
	region = tei_rdma_region_find(&regions, addr);
	tei_rdma_regions_unlock(&regions);
	return region;
}

static bool use(struct rdma_uses *uses, struct rdma_region *region)
{
	bool noted;

	tei_rdma_regions_lock(&regions);
	noted = tei_rdma_use(&regions, uses, region);
	tei_rdma_regions_unlock(&regions);
	return noted;
}

static bool is_used(uint64_t id)
{
	bool used;

	(void)tei_rdma_region_hide(&regions, id, &used);
	return used;
}

#define MANY 1000u

/* The n-th of them to come, in no order; there is a gap behind each. */
static uint64_t base_of(uint64_t n)
{
	return 1 + n * 389 % MANY * 20;
}

static void many_regions_are_found_by_each_of_their_bytes(void **state)
{
	static struct rdma_region many[MANY];

	(void)state;
	assert_null(find(1));
	for (uint64_t i = 0; i < MANY; i++) {
		fill(&many[i], i, base_of(i), 16);
		assert_int_equal(tei_rdma_region_insert(&regions, &many[i]), 0);
	}
	for (uint64_t i = 0; i < MANY; i++) {
		assert_null(find(base_of(i) - 1));
		assert_ptr_equal(find(base_of(i)), &many[i]);
		assert_ptr_equal(find(base_of(i) + 15), &many[i]);
		assert_null(find(base_of(i) + 16));
	}
	for (uint64_t i = 0; i < MANY; i++) {
		assert_ptr_equal(tei_rdma_region_take(&regions, i), &many[i]);
		assert_null(find(base_of(i)));
	}
}

static void table_that_cannot_grow_stays_as_it_was(void **state)
{
	static struct rdma_region many[MANY];
	uint64_t n = 0;

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		fill(&many[n], n, base_of(i), 16);
		tei_fault_arm(TEI_FAULT_ALLOC, 1);
		if (tei_rdma_region_insert(&regions, &many[n])) {
			tei_fault_disarm_all();
			assert_null(find(base_of(i)));
			assert_int_equal(
				tei_rdma_region_insert(&regions, &many[n]), 0);
		}
		tei_fault_disarm_all();
		assert_ptr_equal(find(base_of(i)), &many[n]);
		n++;
	}
	while (n--)
		(void)tei_rdma_region_take(&regions, n);
}

static void hidden_region_is_not_found_and_used_until_all_uses_end(void **state)
{
	struct rdma_uses first = {{NULL}}, second = {{NULL}};
	struct rdma_region region;
	bool used;

	(void)state;
	fill(&region, 7, 1000, 100);
	assert_int_equal(tei_rdma_region_insert(&regions, &region), 0);
	assert_true(use(&first, &region) && use(&second, &region));
	assert_ptr_equal(tei_rdma_region_hide(&regions, 7, &used), &region);
	assert_true(used);
	assert_null(find(1000));
	tei_rdma_uses_end(&first);
	assert_true(is_used(7));
	tei_rdma_uses_end(&first); /* it names none any more */
	assert_true(is_used(7));
	tei_rdma_uses_end(&second);
	assert_false(is_used(7));
	(void)tei_rdma_region_take(&regions, 7);
}

static void operation_names_two_regions_each_once(void **state)
{
	struct rdma_region three[3];
	struct rdma_uses uses = {{NULL}};

	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		fill(&three[i], i, 1000 * (i + 1), 10);
		assert_int_equal(tei_rdma_region_insert(&regions, &three[i]),
				 0);
	}
	assert_true(use(&uses, &three[0]));
	assert_true(use(&uses, &three[0]));
	assert_true(use(&uses, &three[1]));
	assert_true(use(&uses, &three[0]));
	assert_false(use(&uses, &three[2]));
	assert_true(is_used(0) && is_used(1) && !is_used(2));
	tei_rdma_uses_end(&uses);
	for (uint64_t i = 0; i < 3; i++) {
		assert_false(is_used(i));
		(void)tei_rdma_region_take(&regions, i);
	}
}

static void what_is_registered_is_readable_without_a_look(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, 2 * page, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addr = (uintptr_t)at;
	struct rdma_region region;

	(void)state;
	assert_true(at != MAP_FAILED);
	fill(&region, 1, addr, page);
	assert_int_equal(tei_rdma_region_insert(&regions, &region), 0);
	tei_rdma_regions_lock(&regions);
	assert_true(tei_rdma_is_readable(&regions, addr, page));
	assert_false(tei_rdma_is_readable(&regions, addr, page + 1));
	assert_false(tei_rdma_is_readable(&regions, addr + page, 1));
	assert_true(tei_rdma_is_readable(&regions, (uintptr_t)&region, 1));
	assert_false(tei_rdma_is_gpu(&regions, addr));
	region.gpu = true;
	assert_true(tei_rdma_is_gpu(&regions, addr));
	assert_false(tei_rdma_is_readable(&regions, addr, 1));
	tei_rdma_regions_unlock(&regions);
	(void)tei_rdma_region_take(&regions, 1);
	munmap(at, 2 * page);
}

/* The core is opaque, and the fake looks at its address as little. */
static struct tei_engine_core *const core = (void *)&regions;

static void chunk_is_no_larger_than_what_a_gpu_exports_alone(void **state)
{
	struct tei_gpu_memory memory = {.fd = 3, .addr = 1000, .length = 64};
	struct rdma_range range = {.base = 1000, .length = 250, .chunk = 100};
	struct tei_gpu_memory found;

	(void)state;
	assert_false(tei_rdma_is_of_gpu(core, 1, &range, &found));
	fake_gpu_memory = &memory;
	assert_false(tei_rdma_is_of_gpu(NULL, 1, &range, &found));
	assert_int_equal(range.chunk, 100);
	assert_true(tei_rdma_is_of_gpu(core, 1, &range, &found));
	assert_int_equal(range.chunk, 64);
	range.chunk = 32;
	assert_true(tei_rdma_is_of_gpu(core, 1, &range, &found));
	assert_int_equal(range.chunk, 32);
	range.chunk = 100;
	memory.fd = -1; /* it goes by address, if at all */
	assert_true(tei_rdma_is_of_gpu(core, 1, &range, &found));
	assert_int_equal(range.chunk, 100);
	fake_gpu_memory = NULL;
}

static void chunk_is_registered_of_a_part_that_has_all_of_it(void **state)
{
	struct tei_gpu_memory memory = {.fd = 3, .addr = 1000, .length = 200};
	struct rdma_region region;
	struct tei_gpu_memory part;

	(void)state;
	fill(&region, 1, 1000, 250);
	region.range.chunk = 100;
	assert_false(tei_rdma_gpu_part(core, &region, 0, &part));
	fake_gpu_memory = &memory;
	assert_true(tei_rdma_gpu_part(core, &region, 1, &part));
	assert_int_equal(part.fd, 3);
	assert_false(tei_rdma_gpu_part(core, &region, 2, &part));
	memory.length = 249;
	assert_false(tei_rdma_gpu_part(core, &region, 2, &part));
	memory.length = 250; /* the last chunk is a short one */
	assert_true(tei_rdma_gpu_part(core, &region, 2, &part));
	memory.fd = -1;
	assert_false(tei_rdma_gpu_part(core, &region, 0, &part));
	fake_gpu_memory = NULL;
}

/* ---- several threads ---- */

#define TURNS 2000

static void *come_and_go(void *arg)
{
	uint64_t id = (uintptr_t)arg;
	struct rdma_region region;

	for (int i = 0; i < TURNS; i++) {
		fill(&region, id, id * 100, 50);
		assert_int_equal(tei_rdma_region_insert(&regions, &region), 0);
		while (is_used(id))
			sched_yield();
		assert_ptr_equal(tei_rdma_region_take(&regions, id), &region);
		memset(&region, 0xff, sizeof(region)); /* it is ours again */
	}
	return NULL;
}

static void regions_come_and_go_while_others_are_used(void **state)
{
	pthread_t threads[3];

	(void)state;
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go,
						(void *)(i + 1)),
				 0);
	for (uint64_t i = 0; i < 20 * TURNS; i++) {
		struct rdma_uses uses = {{NULL}};
		struct rdma_region *region;

		tei_rdma_regions_lock(&regions);
		region = tei_rdma_region_find(&regions, (1 + i % 3) * 100 + 49);
		if (region)
			assert_true(tei_rdma_use(&regions, &uses, region));
		tei_rdma_regions_unlock(&regions);
		tei_rdma_uses_end(&uses);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(many_regions_are_found_by_each_of_their_bytes),
		TEST(table_that_cannot_grow_stays_as_it_was),
		TEST(hidden_region_is_not_found_and_used_until_all_uses_end),
		TEST(operation_names_two_regions_each_once),
		TEST(what_is_registered_is_readable_without_a_look),
		TEST(chunk_is_no_larger_than_what_a_gpu_exports_alone),
		TEST(chunk_is_registered_of_a_part_that_has_all_of_it),
		TEST(regions_come_and_go_while_others_are_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
