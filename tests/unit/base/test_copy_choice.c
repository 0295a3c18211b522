/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_copy_choice.c - cold copies move what they are told while the kernels
 * are compared, by the one that is named or by one that was measured
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/copy_choice.h"
#include "base/crc.h"
#include "tests/lib/test.h"

#define PIECE ((size_t)64 << 10)
#define GROUP ((size_t)TEI_COPY_GROUP)
#define LEN   ((size_t)2 << 20)

static uint8_t *from, *to;

static int set_up(void **state)
{
	(void)state;
	from = aligned_alloc(4096, LEN);
	to = aligned_alloc(4096, LEN);
	assert_true(from && to);
	for (size_t i = 0; i < LEN; i++)
		from[i] = (uint8_t)(i * 31 + i / 251 + 1);
	memset(to, 0, LEN);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(from);
	free(to);
	return 0;
}

static bool is_known(const char *name)
{
	for (unsigned int i = 0; i < tei_copiers(); i++) {
		if (!strcmp(tei_copier_at(i)->name, name))
			return true;
	}
	return false;
}

/* A pass over all the memory, in pieces of @len. */
static void copy_all(struct tei_copy_use *use, unsigned int of, bool sums,
		     size_t len)
{
	uint8_t *kept = sums ? malloc(len) : NULL;

	memset(to, 0, LEN);
	for (size_t at = 0; at + len <= LEN; at += len) {
		if (kept)
			assert_int_equal(tei_copy_cold_summed(use, of, 77,
							      to + at, kept,
							      from + at, len),
					 tei_crc32c_raw(77, from + at, len));
		else
			tei_copy_cold(use, of, to + at, from + at, len);
		tei_copy_fence();
		assert_memory_equal(to + at, from + at, len);
	}
	free(kept);
}

/* Runs first: nothing is chosen in a process that made no large copy. */
static void nothing_is_chosen_before_the_first_copy(void **state)
{
	struct tei_copy_choice choice;

	(void)state;
	for (unsigned int i = 0; i < TEI_COPY_CLASSES; i++)
		assert_false(tei_copy_choice(i, &choice));
}

static void a_named_kernel_is_not_measured(void **state)
{
	struct tei_copy_use use = {.named = tei_copier_find("movsb")};
	struct tei_copy_choice choice;

	(void)state;
	if (!use.named)
		use.named = tei_copier_at(0);
	for (int i = 0; i < 100; i++)
		copy_all(&use, 0, i % 2, PIECE);
	for (unsigned int i = 0; i < TEI_COPY_CLASSES; i++)
		assert_false(tei_copy_choice(i, &choice));
}

/* A choice comes of copies in each class, and by then all were right. */
static void each_class_finds_its_kernel(void **state)
{
	struct tei_copy_use use = {0};
	struct tei_copy_choice choice;

	(void)state;
	for (unsigned int class = 0; class < TEI_COPY_CLASSES; class ++) {
		unsigned int of =
			class & (TEI_COPY_OF_HUGE | TEI_COPY_OF_SHORT);
		bool sums = class & 2;
		int n = 0;

		/* Disturbed pieces do not count, so their number is open. */
		while (!tei_copy_choice(class, &choice) && n++ < 20000)
			copy_all(&use, of, sums, class & 1 ? GROUP : GROUP / 2);
		assert_true(tei_copy_choice(class, &choice));
		assert_true(is_known(choice.copier));
		assert_true(choice.bytes_per_s > 1000000);
		assert_int_equal(strncmp(choice.stat, "te_copy_", 8), 0);
		copy_all(&use, of, sums, class & 1 ? PIECE : GROUP / 2);
	}
}

static void *copy_in_thread(void *arg)
{
	struct tei_copy_use use = {0};
	uint8_t *ours = arg;

	for (int n = 0; n < 50; n++) {
		for (size_t at = 0; at + PIECE <= LEN; at += PIECE)
			tei_copy_cold(&use, 0, ours + at, from + at, PIECE);
		tei_copy_fence();
		assert_memory_equal(ours, from, LEN);
		memset(ours, 0, LEN);
	}
	return NULL;
}

static void threads_share_what_they_measure(void **state)
{
	pthread_t threads[3];
	uint8_t *rooms[TEST_COUNT(threads)];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(threads); i++) {
		rooms[i] = aligned_alloc(4096, LEN);
		assert_non_null(rooms[i]);
		assert_int_equal(pthread_create(&threads[i], NULL,
						copy_in_thread, rooms[i]),
				 0);
	}
	for (size_t i = 0; i < TEST_COUNT(threads); i++) {
		pthread_join(threads[i], NULL);
		free(rooms[i]);
	}
}

/* More pieces than a comparison takes. */
#define FRESH_LEN ((size_t)4 * TEI_FASTEST_WAYS * TEI_FASTEST_SAMPLES * GROUP)

/* Pages that are touched for the first time disturb each piece of them. */
static void fresh_memory_tells_nothing(void **state)
{
	struct tei_copy_result result;
	uint8_t *fresh = mmap(NULL, 2 * FRESH_LEN, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(fresh, MAP_FAILED);
	assert_int_equal(madvise(fresh, 2 * FRESH_LEN, MADV_NOHUGEPAGE), 0);
	tei_copy_compare(fresh, fresh + FRESH_LEN, FRESH_LEN, GROUP, false,
			 &result);
	assert_ptr_equal(result.best, tei_copier_plain());
	assert_true(result.best_gb_per_s == 0);
	munmap(fresh, 2 * FRESH_LEN);
}

static void a_comparison_is_never_below_memcpy(void **state)
{
	struct tei_copy_result result;

	(void)state;
	for (int i = 0; i < 50; i++) {
		tei_copy_compare(to, from, LEN, PIECE, true, &result);
		if (result.best_gb_per_s > 0)
			break;
	}
	assert_true(result.best_gb_per_s > 0);
	assert_true(result.best_gb_per_s >= result.memcpy_gb_per_s);
	assert_memory_equal(to, from, LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_chosen_before_the_first_copy),
		cmocka_unit_test(a_named_kernel_is_not_measured),
		cmocka_unit_test(each_class_finds_its_kernel),
		cmocka_unit_test(threads_share_what_they_measure),
		cmocka_unit_test(fresh_memory_tells_nothing),
		cmocka_unit_test(a_comparison_is_never_below_memcpy),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
