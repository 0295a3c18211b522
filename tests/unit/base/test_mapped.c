/* SPDX-License-Identifier: Apache-2.0 */
/* test_mapped.c - what the kernel says about memory */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mapped.h"
#include "tests/lib/self.h"
#include "tests/lib/test.h"

#define LEN ((size_t)300 * 4096) /* more than one question asks of */

static char *map(int prot, int flags, int fd)
{
	char *at = mmap(NULL, LEN, prot, flags, fd, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static bool is_resident(int maps, const char *at, size_t length, bool writable)
{
	return tei_is_resident(maps, (uintptr_t)at, length, writable);
}

/* What is not known is answered by tei_is_there(), so false is always right. */
static void only_what_is_there_and_may_be_used_is_resident(void **state)
{
	char *at = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	int maps = tei_maps_open();
	bool knows = maps >= 0;

	(void)state;
	assert_false(is_resident(maps, at, LEN, false)); /* never touched */
	memset(at, 1, LEN - 1);
	assert_int_equal(is_resident(maps, at, LEN, true), knows);
	assert_int_equal(is_resident(maps, at + 5, LEN - 9, false), knows);
	assert_false(is_resident(-1, at, LEN, false));
	assert_false(is_resident(maps, at, SIZE_MAX, false));

	assert_int_equal(mprotect(at + LEN - 4096, 4096, PROT_READ), 0);
	assert_int_equal(is_resident(maps, at, LEN, false), knows);
	assert_false(is_resident(maps, at, LEN, true));
	assert_int_equal(mprotect(at + LEN - 4096, 4096, PROT_NONE), 0);
	assert_false(is_resident(maps, at, LEN, false));
	munmap(at + LEN - 4096, 4096);
	assert_false(is_resident(maps, at, LEN, false));
	assert_int_equal(is_resident(maps, at, LEN - 4096, true), knows);
	munmap(at, LEN - 4096);
	assert_false(is_resident(maps, at, 1, false));
	if (knows)
		close(maps);
}

static void a_file_that_was_made_shorter_is_not_resident(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC), maps = tei_maps_open();
	char *at, *copy;

	(void)state;
	assert_int_equal(ftruncate(fd, LEN), 0);
	at = map(PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	copy = map(PROT_READ, MAP_PRIVATE, fd);
	memset(at, 1, LEN);
	assert_int_equal(is_resident(maps, at, LEN, true), maps >= 0);
	/* Of one that is not written through the kernel might not tell. */
	assert_false(is_resident(maps, copy, LEN, false));
	assert_int_equal(ftruncate(fd, LEN - 4096), 0);
	assert_false(is_resident(maps, at, LEN, true));
	assert_false(tei_is_there((uintptr_t)at, LEN, true));
	munmap(at, LEN);
	munmap(copy, LEN);
	close(fd);
	if (maps >= 0)
		close(maps);
}

/* Memory of a driver that its mapping permits to read, and that faults. */
static void what_is_listed_and_cannot_be_read_is_not_there(void **state)
{
	uint64_t at = (uintptr_t)test_page_out_of_reach();

	(void)state;
	if (!at)
		skip();
	assert_true(tei_is_mapped(at, 1));
	assert_false(tei_is_touchable(at, false));
	assert_false(tei_is_usable(at, 4096, false));
	assert_false(tei_is_there(at + 5, 100, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			only_what_is_there_and_may_be_used_is_resident),
		cmocka_unit_test(a_file_that_was_made_shorter_is_not_resident),
		cmocka_unit_test(
			what_is_listed_and_cannot_be_read_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
