/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_copy.c - every way to copy moves the bytes it is told, and no more, and
 * sums what it stores
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy_sum.h"
#include "base/crc.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define PAGE 4096
#define ROOM ((size_t)40 * PAGE)
#define EDGE ((size_t)128) /* around what is written */
#define CRC  0x2545f491u   /* a state before the first byte */

static uint8_t *from, *to, *kept;

static int set_up(void **state)
{
	(void)state;
	from = aligned_alloc(PAGE, ROOM + PAGE);
	to = aligned_alloc(PAGE, ROOM + PAGE);
	kept = aligned_alloc(PAGE, ROOM + PAGE);
	assert_true(from && to && kept);
	for (size_t i = 0; i < ROOM + PAGE; i++)
		from[i] = (uint8_t)(i * 31 + i / 251 + 1);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(from);
	free(to);
	free(kept);
	return 0;
}

static bool is_filled(const uint8_t *bytes, size_t len, uint8_t value)
{
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] != value)
			return false;
	}
	return true;
}

/* @len bytes of @from + @a and nothing else, behind what was 0xee. */
static void check(const uint8_t *room, size_t before, size_t a, size_t len)
{
	assert_true(is_filled(room, before, 0xee));
	assert_memory_equal(room + before, from + a, len);
	assert_true(is_filled(room + before + len, EDGE, 0xee));
}

/* What lies @a and @b bytes behind the begin of a page. */
static void try_copy(const struct tei_copier *copier, size_t a, size_t b,
		     size_t len)
{
	memset(to, 0xee, EDGE + b + len + EDGE);
	copier->copy(to + EDGE + b, from + a, len);
	tei_copy_fence();
	check(to, EDGE + b, a, len);

	memset(to, 0xee, EDGE + b + len + EDGE);
	memset(kept, 0xee, EDGE + len + EDGE);
	copier->keep(to + EDGE + b, kept + EDGE, from + a, len);
	tei_copy_fence();
	check(to, EDGE + b, a, len);
	check(kept, EDGE, a, len);

	memset(to, 0xee, EDGE + b + len + EDGE);
	assert_int_equal(
		tei_copier_sum(copier, CRC, to + EDGE + b, kept, from + a, len),
		tei_crc32c_raw(CRC, from + a, len));
	tei_copy_fence();
	check(to, EDGE + b, a, len);
}

/*
 * Lines are 64 bytes, and large copies go by up to four pages side by side,
 * from the last line to the first where the target is a little ahead within its page.
 */
static void each_kernel_moves_what_it_is_told(void **state)
{
	static const size_t shifts[] = {0, 1, 8, 31, 63, 64, 2048, PAGE - 1};
	static const size_t lengths[] = {0,
					 1,
					 63,
					 64,
					 65,
					 255,
					 PAGE - 1,
					 PAGE,
					 2 * PAGE,
					 3 * PAGE + 320,
					 4 * PAGE - 64,
					 4 * PAGE,
					 4 * PAGE + 1,
					 9 * PAGE + 777,
					 ROOM - PAGE - 2 * EDGE};

	(void)state;
	for (unsigned int v = 0; v < tei_copiers(); v++) {
		const struct tei_copier *copy = tei_copier_at(v);

		for (size_t i = 0; i < TEST_COUNT(shifts); i++) {
			for (size_t k = 0; k < TEST_COUNT(lengths); k++) {
				try_copy(copy, shifts[i], 0, lengths[k]);
				try_copy(copy, 0, shifts[i], lengths[k]);
				try_copy(copy, shifts[i], 17, lengths[k]);
			}
		}
	}
}

/* The state after @len bytes, bit by bit. */
static uint32_t crc_of(uint32_t crc, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len * 8; i++) {
		if (i % 8 == 0)
			crc ^= bytes[i / 8];
		crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return crc;
}

static void a_checksum_by_the_library_is_that_bit_by_bit(void **state)
{
	(void)state;
	for (size_t len = 0; len < 300; len++)
		assert_int_equal(tei_crc32c_raw(CRC, from + len, len),
				 crc_of(CRC, from + len, len));
}

#ifndef __SANITIZE_THREAD__ /* the race is what is tried */
struct changing {
	uint8_t *bytes;
	atomic_uint n_passes;
	atomic_bool enough;
};

static void *change_all(void *arg)
{
	struct changing *c = arg;
	volatile uint8_t *bytes = c->bytes;

	while (!atomic_load(&c->enough)) {
		uint8_t n = (uint8_t)atomic_fetch_add(&c->n_passes, 1);

		for (size_t i = 0; i < ROOM; i++)
			bytes[i] = n;
	}
	return NULL;
}

static bool has_passed(void *arg)
{
	struct changing *c = arg;

	return atomic_load(&c->n_passes) > 0;
}

/* Copies until the source has changed within so many copies, or for long. */
#define MIXED_LEAST 50u
#define TRIES_MOST  200000u

static bool is_mixed(const uint8_t *bytes, size_t len)
{
	return !is_filled(bytes, len, bytes[0]);
}

static void sum_changing(const struct tei_copier *copier,
			 const struct changing *c)
{
	unsigned int n_mixed = 0;

	for (unsigned int i = 0; i < TRIES_MOST && n_mixed < MIXED_LEAST; i++) {
		size_t a = i * 7 % 130, b = i * 13 % 130;
		size_t len = TEI_COPY_GROUP + i * 31 % 700;
		uint32_t crc = tei_copier_sum(copier, CRC, to + b, kept,
					      c->bytes + a, len);

		tei_copy_fence();
		assert_int_equal(crc, tei_crc32c_raw(CRC, to + b, len));
		n_mixed += is_mixed(to + b, len);
	}
}

/* The sum is that of the bytes that were stored, whatever they were. */
static void a_source_that_changes_is_summed_as_it_is_stored(void **state)
{
	struct changing c = {.bytes = malloc(ROOM)};
	pthread_t thread;

	(void)state;
	assert_non_null(c.bytes);
	assert_int_equal(pthread_create(&thread, NULL, change_all, &c), 0);
	assert_true(test_wait_until(has_passed, &c, 60000));
	for (unsigned int i = 0; i < tei_copiers(); i++)
		sum_changing(tei_copier_at(i), &c);
	atomic_store(&c.enough, true);
	pthread_join(thread, NULL);
	free(c.bytes);
}
#endif

static void a_group_is_copied_with_its_checksum(void **state)
{
	static const size_t shifts[] = {0, 1, 63, 64, 2048, PAGE - 1};
	unsigned int n_summed = 0;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(shifts); i++) {
		const uint8_t *bytes = from + shifts[i];
		tei_sum_group_fn *sum = tei_copy_summing(to + PAGE, bytes);

		if (!sum)
			continue;
		n_summed++;
		memset(to, 0xee, PAGE + TEI_COPY_GROUP + EDGE);
		assert_int_equal(sum(CRC, to + PAGE, bytes),
				 crc_of(CRC, bytes, TEI_COPY_GROUP));
		tei_copy_fence();
		check(to, PAGE, shifts[i], TEI_COPY_GROUP);
	}
	if (!n_summed)
		skip(); /* a processor without the instructions */
	assert_true(n_summed >= 3);
}

/* Those of this CPU are found by name, and all names are in the list. */
static void kernels_have_names(void **state)
{
	char list[] = TEI_COPY_KERNELS, *rest = list, *name;
	unsigned int n = 0, n_found = 0;

	(void)state;
	assert_string_equal(tei_copier_at(0)->name, "memcpy");
	while ((name = strsep(&rest, "|"))) {
		const struct tei_copier *copier = tei_copier_find(name);

		n++;
		if (!copier)
			continue;
		assert_ptr_equal(copier, tei_copier_at(n_found++));
		assert_string_equal(copier->name, name);
	}
	assert_int_equal(n, TEI_COPY_KERNELS_MAX);
	assert_int_equal(n_found, tei_copiers());
	assert_ptr_equal(tei_copier_find(tei_copier_plain()->name),
			 tei_copier_plain());
	name = strchr(tei_copier_plain()->name, '-');
	assert_string_equal(name ? name : "-1", "-1");
	assert_null(tei_copier_find("avx1024-8"));
	assert_null(tei_copier_find(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kernel_moves_what_it_is_told),
		cmocka_unit_test(a_checksum_by_the_library_is_that_bit_by_bit),
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test(
			a_source_that_changes_is_summed_as_it_is_stored),
#endif
		cmocka_unit_test(a_group_is_copied_with_its_checksum),
		cmocka_unit_test(kernels_have_names),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
