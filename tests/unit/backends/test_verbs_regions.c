/* SPDX-License-Identifier: Apache-2.0 */
/* test_verbs_regions.c - memory registered in chunks, keys found by address */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <te/te.h>

#include "backends/verbs/regions.h"
#include "base/log.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#include "tests/lib/faults.h"
#include "tests/lib/test.h"

#define PAGE 4096u
#define RW   (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

static struct verbs_config config;
static struct verbs_port port;
static struct ibv_pd *pd;
static struct verbs_regions regions;
static uint8_t memory[64 * PAGE];

static int set_up(void **state)
{
	(void)state;
	fake_verbs_start(1);
	config = (struct verbs_config){
		.lanes = 1, .depth = 16, .mtu = 4096, .pieces = 1};
	if (tei_verbs_port_open(&port, &fake_verbs, &config, "fake0/1"))
		return -1;
	pd = fake_verbs.alloc_pd(port.context);
	tei_verbs_regions_init(&regions, &port, pd);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	test_faults_end();
	tei_verbs_regions_fini(&regions);
	fake_verbs.dealloc_pd(pd);
	tei_verbs_port_close(&port);
	fake_verbs_stop();
	return 0;
}

static int add_at(uint64_t id, uint8_t *at, size_t length, uint32_t access,
		  struct verbs_key *out)
{
	static _Thread_local uint8_t bytes[TEI_KEY_MAX];
	size_t len = sizeof(bytes);
	int rc = tei_verbs_region_add(&regions, id, at, length, access, bytes,
				      &len);

	if (!rc)
		assert_null(tei_verbs_key_decode(bytes, len, out));
	return rc;
}

static int add(uint64_t id, size_t from, size_t length, uint32_t access,
	       struct verbs_key *out)
{
	return add_at(id, memory + from, length, access, out);
}

static void take_away(uint64_t id)
{
	assert_int_equal(tei_verbs_region_hide(&regions, id), 0);
	tei_verbs_region_remove(&regions, id);
}

static struct rdma_region *find(const uint8_t *at)
{
	struct rdma_region *region;

	tei_rdma_regions_lock(&regions.table);
	region = tei_rdma_region_find(&regions.table, (uintptr_t)at);
	tei_rdma_regions_unlock(&regions.table);
	return region;
}

static void big_region_is_registered_in_chunks(void **state)
{
	struct rdma_region *region;
	struct verbs_key key = {0};
	uint64_t room;

	(void)state;
	fake_verbs_device(0)->max_mr_size = port.device.max_mr_size =
		4 * PAGE + 100; /* whole pages of it are used */
	assert_int_equal(add(1, 0, 9 * PAGE + 1, RW, &key), 0);
	assert_int_equal(key.range.n, 3);
	assert_int_equal(key.range.chunk, 4 * PAGE);
	assert_int_equal(key.range.base, (uintptr_t)memory);
	assert_int_equal(fake_verbs_counts().keys, 3);
	region = find(memory + 4 * PAGE);
	assert_non_null(region);
	assert_int_equal(tei_verbs_region_key(region,
					      (uintptr_t)memory + 4 * PAGE - 1,
					      &room),
			 verbs_region(region)->mrs[0]->lkey);
	assert_int_equal(room, 1);
	assert_int_equal(tei_verbs_region_key(
				 region, (uintptr_t)memory + 8 * PAGE, &room),
			 verbs_region(region)->mrs[2]->lkey);
	assert_int_equal(room, PAGE + 1);
	take_away(1);
	assert_int_equal(fake_verbs_counts().keys, 0);
}

static char line[512];

static void note_line(int level, const char *text, void *arg)
{
	(void)level;
	(void)arg;
	(void)snprintf(line, sizeof(line), "%s", text);
}

static void settings_make_chunks_smaller(void **state)
{
	struct verbs_key key = {0};

	(void)state;
	config.chunk = 16;
	assert_int_equal(add(1, 0, VERBS_CHUNKS_MAX * 16, RW, &key), 0);
	assert_int_equal(key.range.n, VERBS_CHUNKS_MAX);
	take_away(1);
	assert_int_equal(fake_verbs_counts().keys, 0);
}

static void too_many_chunks_are_refused_with_what_to_change(void **state)
{
	struct verbs_key key = {0};

	(void)state;
	tei_log_set_sink(note_line, NULL);
	config.chunk = 16;
	assert_int_equal(add(1, 0, VERBS_CHUNKS_MAX * 16 + 1, RW, &key),
			 -ENOBUFS);
	assert_non_null(strstr(line, "4090 keys of 16 bytes"));
	assert_non_null(strstr(line, "raise verbs.chunk"));
	port.device.max_mr_size = 16; /* no setting helps */
	assert_int_equal(add(1, 0, VERBS_CHUNKS_MAX * 16 + 1, RW, &key),
			 -ENOBUFS);
	assert_non_null(strstr(line, "make several regions"));
	assert_int_equal(fake_verbs_counts().keys, 0);
	tei_log_set_sink(NULL, NULL);
}

/* Memory that takes no room before it is touched; munmap() it. */
static uint8_t *reserve(size_t length, int access)
{
	uint8_t *at = mmap(NULL, length, access,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

/* Only addresses are looked at: the fake provider pins nothing. */
static void a_gigabyte_goes_in_chunks_of_16_mebibytes(void **state)
{
	size_t length = (size_t)1 << 30;
	uint8_t *big = reserve(length, PROT_NONE);
	struct verbs_key key = {0};
	uint64_t room;
	uint32_t rkey;

	(void)state;
	config.chunk = 16 << 20;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(add_at(1, big, length, RW, &key), 0);
		assert_int_equal(key.range.n, 64);
		assert_int_equal(fake_verbs_counts().keys, 64);
		assert_true(tei_verbs_key_at(&key, key.range.base + length - 1,
					     &rkey, &room));
		assert_int_equal(
			rkey,
			verbs_region(find(big + length - 1))->mrs[63]->rkey);
		take_away(1);
		assert_int_equal(fake_verbs_counts().keys, 0);
	}
	munmap(big, length);
}

/* The fake provider touches nothing: whatever is there came before. */
static size_t pages_there(uint8_t *at, size_t length)
{
	static unsigned char there[40 << 8];
	size_t n = 0;

	assert_true(length / PAGE <= sizeof(there));
	assert_int_equal(mincore(at, length, there), 0);
	for (size_t i = 0; i < length / PAGE; i++)
		n += there[i] & 1;
	return n;
}

/* Kernels before 5.14 cannot. */
static bool can_populate(uint8_t *at)
{
	return !madvise(at, PAGE, 23 /* MADV_POPULATE_WRITE */);
}

static void threads_that_are_not_to_be_had_are_done_without(void **state)
{
	size_t length = 40 << 20;
	uint8_t *big = reserve(length, PROT_READ | PROT_WRITE);
	struct verbs_key key = {0};
	unsigned int n_runs = 0;

	(void)state;
	config.prefault = PAGE;
	for (struct test_faults f = {.kind = TEI_FAULT_THREAD};
	     test_faults_next(&f);) {
		assert_int_equal(madvise(big, length, MADV_DONTNEED), 0);
		assert_int_equal(add_at(1, big, length, RW, &key), 0);
		if (can_populate(big))
			assert_int_equal(pages_there(big, length),
					 length / PAGE);
		take_away(1);
		n_runs++;
	}
	/* One for each helper that was refused, and one with all of them. */
	assert_true(n_runs > 1 || sysconf(_SC_NPROCESSORS_ONLN) == 1);
	munmap(big, length);
}

static void big_regions_are_brought_in_and_small_ones_not(void **state)
{
	size_t length = 40 << 20;
	uint8_t *big = reserve(length, PROT_READ | PROT_WRITE);
	struct verbs_key key = {0};

	(void)state;
	/* Huge pages would bring in what is beside. */
	(void)madvise(big, length, MADV_NOHUGEPAGE);
	big[0] = big[length - 1] = 7;
	config.prefault = length;
	assert_int_equal(add_at(1, big, length - 1, RW, &key), 0);
	assert_int_equal(pages_there(big, length), 2);
	take_away(1);
	config.prefault = length - 1;
	assert_int_equal(add_at(1, big, length - 1, RW, &key), 0);
	if (can_populate(big))
		assert_int_equal(pages_there(big, length), length / PAGE);
	assert_int_equal(big[0] + big[length - 1], 14);
	take_away(1);
	munmap(big, length);
}

static void memory_that_cannot_be_brought_in_is_left_to_the_device(void **state)
{
	size_t length = 40 << 20;
	uint8_t *big = reserve(length, PROT_READ);
	struct verbs_key key = {0};

	(void)state;
	config.prefault = PAGE;
	assert_int_equal(add_at(1, big, length, TE_ACCESS_LOCAL, &key), 0);
	assert_int_equal(pages_there(big, length), 0);
	take_away(1);
	munmap(big, length);
}

static void local_memory_has_no_key_for_peers(void **state)
{
	struct verbs_key key = {0};
	uint64_t room;
	uint32_t rkey;

	(void)state;
	assert_int_equal(add(1, 0, PAGE, TE_ACCESS_LOCAL, &key), 0);
	assert_int_equal(key.range.n, 0);
	assert_false(tei_verbs_key_at(&key, (uintptr_t)memory, &rkey, &room));
	assert_non_null(find(memory));
	take_away(1);
}

static void regions_are_found_by_address(void **state)
{
	struct verbs_key key = {0};

	(void)state;
	/* Neither in order nor side by side. */
	assert_int_equal(add(7, 8 * PAGE, PAGE, RW, &key), 0);
	assert_int_equal(add(3, 2 * PAGE, PAGE, RW, &key), 0);
	assert_int_equal(add(5, 3 * PAGE, PAGE, RW, &key), 0);
	assert_null(find(memory));
	assert_null(find(memory + 2 * PAGE - 1));
	assert_int_equal(find(memory + 2 * PAGE)->id, 3);
	assert_int_equal(find(memory + 3 * PAGE - 1)->id, 3);
	assert_int_equal(find(memory + 3 * PAGE)->id, 5);
	assert_null(find(memory + 4 * PAGE));
	assert_int_equal(find(memory + 9 * PAGE - 1)->id, 7);
	assert_null(find(memory + 9 * PAGE));
	take_away(3);
	assert_null(find(memory + 2 * PAGE));
	assert_int_equal(find(memory + 3 * PAGE)->id, 5);
	take_away(7);
	take_away(5);
}

#define MANY 10000u

/* In no order. */
static size_t place(uint64_t i)
{
	return i * 2039 % MANY * 16;
}

static void ten_thousand_regions_are_found_and_leave_no_key(void **state)
{
	struct verbs_key key = {0};

	(void)state;
	for (uint64_t i = 0; i < MANY; i++)
		assert_int_equal(add(i, place(i), 16, RW, &key), 0);
	assert_int_equal(fake_verbs_counts().keys, MANY);
	for (uint64_t i = 0; i < MANY; i++)
		assert_int_equal(find(memory + place(i) + 15)->id, i);
	for (uint64_t i = 0; i < MANY; i++)
		take_away(i);
	assert_int_equal(fake_verbs_counts().keys, 0);
}

static void region_in_use_stays_until_it_is_not(void **state)
{
	struct rdma_uses uses = {{NULL}};
	struct verbs_key key = {0};

	(void)state;
	assert_int_equal(add(1, 0, PAGE, RW, &key), 0);
	tei_rdma_regions_lock(&regions.table);
	assert_true(tei_rdma_use(
		&regions.table, &uses,
		tei_rdma_region_find(&regions.table, (uintptr_t)memory)));
	tei_rdma_regions_unlock(&regions.table);
	assert_int_equal(tei_verbs_region_hide(&regions, 1), -EBUSY);
	assert_null(find(memory)); /* for nothing new */
	assert_int_equal(fake_verbs_counts().keys, 1);
	tei_rdma_uses_end(&uses);
	assert_int_equal(tei_verbs_region_hide(&regions, 1), 0);
	assert_int_equal(fake_verbs_counts().keys, 0);
	assert_int_equal(tei_verbs_region_hide(&regions, 1), 0); /* again */
	tei_verbs_region_remove(&regions, 1);
}

static void relaxed_ordering_is_asked_for_where_it_is_set(void **state)
{
	struct verbs_key key = {0};

	(void)state;
	assert_int_equal(add(1, 0, PAGE, RW, &key), 0);
	assert_int_equal(fake_verbs_counts().relaxed, 0);
	config.relaxed = true;
	assert_int_equal(add(2, PAGE, PAGE, RW, &key), 0);
	assert_int_equal(fake_verbs_counts().relaxed, 1);
	take_away(1);
	take_away(2);
}

static void failed_chunk_takes_the_others_back(void **state)
{
	struct verbs_key key = {0};
	int rc;

	(void)state;
	config.chunk = PAGE;
	for (unsigned int nth = 1; nth <= 4; nth++) {
		fake_verbs_fail(nth, nth == 2 ? ENOSPC : ENOMEM);
		rc = add(1, 0, 4 * PAGE, RW, &key);
		assert_int_equal(rc, nth == 2 ? -ENOBUFS : -ENOMEM);
		assert_int_equal(fake_verbs_counts().keys, 0);
		assert_null(find(memory));
	}
	fake_verbs_device(0)->max_mr = 3;
	assert_int_equal(add(1, 0, 4 * PAGE, RW, &key), -ENOMEM);
	assert_int_equal(add(1, 0, 3 * PAGE, RW, &key), 0);
	take_away(1);
}

static void lack_of_memory_or_room_leaves_nothing_behind(void **state)
{
	struct verbs_key key = {0};
	uint8_t bytes[TEI_BLOB_MAX];
	size_t len = 10;

	(void)state;
	for (struct test_faults f = {.kind = TEI_FAULT_ALLOC};
	     test_faults_next(&f);) {
		if (add(1, 0, PAGE, RW, &key))
			assert_int_equal(fake_verbs_counts().keys, 0);
		else
			take_away(1);
	}
	assert_int_equal(tei_verbs_region_add(&regions, 1, memory, PAGE, RW,
					      bytes, &len),
			 -ENOBUFS);
	assert_int_equal(fake_verbs_counts().keys, 0);
}

static void refusals_are_told_in_words(void **state)
{
	(void)state;
	assert_string_equal(tei_verbs_refusal(-ENOMEM, 1 << 20, 64 << 10),
			    "more than this process may lock (ulimit -l)");
	assert_string_equal(tei_verbs_refusal(-ENOMEM, 1 << 20, UINT64_MAX),
			    "no memory, or no keys left in the device");
	assert_non_null(strstr(tei_verbs_refusal(-ENOMEM, 1 << 20, 8 << 20),
			       "with what is locked already more than"));
	assert_string_equal(tei_verbs_refusal(-EFAULT, 1, UINT64_MAX),
			    "not mapped, or not for this access");
	assert_string_equal(tei_verbs_refusal(-EIO, 1, UINT64_MAX),
			    strerror(EIO));
	assert_string_equal(tei_verbs_refusal_hint(fake_verbs_device(0)), "");
	fake_verbs_make_erdma(0, true);
	assert_non_null(
		strstr(tei_verbs_refusal_hint(fake_verbs_device(0)), "64 GiB"));
}

/* ---- several threads ---- */

#define TURNS 500

static void *come_and_go(void *arg)
{
	uint64_t id = (uintptr_t)arg;
	struct verbs_key key = {0};

	for (int i = 0; i < TURNS; i++) {
		assert_int_equal(add(id, id * 2 * PAGE, PAGE, RW, &key), 0);
		while (tei_verbs_region_hide(&regions, id) == -EBUSY)
			sched_yield();
		tei_verbs_region_remove(&regions, id);
	}
	return NULL;
}

static void regions_come_and_go_while_others_are_used(void **state)
{
	pthread_t threads[3];
	struct verbs_key key = {0};

	(void)state;
	assert_int_equal(add(0, 0, PAGE, RW, &key), 0);
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go,
						(void *)(i + 1)),
				 0);
	for (uint32_t i = 0; i < 20000; i++) {
		struct rdma_uses uses = {{NULL}};
		struct rdma_region *region;

		tei_rdma_regions_lock(&regions.table);
		region = tei_rdma_region_find(
			&regions.table, (uintptr_t)memory + i % 4 * 2 * PAGE);
		if (region)
			(void)tei_rdma_use(&regions.table, &uses, region);
		tei_rdma_regions_unlock(&regions.table);
		tei_rdma_uses_end(&uses);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	take_away(0);
	assert_int_equal(fake_verbs_counts().keys, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(big_region_is_registered_in_chunks),
		TEST(settings_make_chunks_smaller),
		TEST(too_many_chunks_are_refused_with_what_to_change),
		TEST(a_gigabyte_goes_in_chunks_of_16_mebibytes),
		TEST(big_regions_are_brought_in_and_small_ones_not),
		TEST(threads_that_are_not_to_be_had_are_done_without),
		TEST(memory_that_cannot_be_brought_in_is_left_to_the_device),
		TEST(local_memory_has_no_key_for_peers),
		TEST(regions_are_found_by_address),
		TEST(ten_thousand_regions_are_found_and_leave_no_key),
		TEST(region_in_use_stays_until_it_is_not),
		TEST(relaxed_ordering_is_asked_for_where_it_is_set),
		TEST(failed_chunk_takes_the_others_back),
		TEST(lack_of_memory_or_room_leaves_nothing_behind),
		TEST(refusals_are_told_in_words),
		TEST(regions_come_and_go_while_others_are_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
