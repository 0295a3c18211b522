/* SPDX-License-Identifier: Apache-2.0 */
/* test_crc.c - CRC32C and the sum of parts */
#include "base/crc.h"

#include <stdlib.h>
#include <te/te.h>

#include "te/backend.h"
#include "tests/lib/test.h"

#define LEN 5000

static uint8_t bytes[LEN];

static int fill(void **state)
{
	(void)state;
	srand(4711);
	for (size_t i = 0; i < LEN; i++)
		bytes[i] = (uint8_t)rand();
	return 0;
}

static void check_value_is_the_published_one(void **state)
{
	(void)state;
	assert_int_equal(te_crc32c(0, "123456789", 9), 0xe3069283u);
	assert_int_equal(te_crc32c(0, "", 0), 0);
}

static void crc_continues_where_it_stopped(void **state)
{
	uint32_t whole = te_crc32c(0, bytes, LEN);

	(void)state;
	for (size_t cut = 0; cut <= LEN; cut += 7)
		assert_int_equal(te_crc32c(te_crc32c(0, bytes, cut),
					   bytes + cut, LEN - cut),
				 whole);
}

static void crcs_of_neighbours_combine(void **state)
{
	uint32_t whole = te_crc32c(0, bytes, LEN);

	(void)state;
	for (size_t cut = 0; cut <= LEN; cut += 11)
		assert_int_equal(
			te_crc32c_combine(te_crc32c(0, bytes, cut),
					  te_crc32c(0, bytes + cut, LEN - cut),
					  LEN - cut),
			whole);
}

/* As the engine does: seeded at the start, shifted by what follows, XORed. */
static void parts_sum_up_in_any_order(void **state)
{
	uint32_t whole = te_crc32c(0, bytes, LEN);

	(void)state;
	for (int round = 0; round < 200; round++) {
		size_t at = 0;
		uint32_t sum = 0;

		while (at < LEN) {
			size_t len = 1 + (size_t)rand() % 900;
			uint32_t part;

			if (len > LEN - at)
				len = LEN - at;
			part = tei_crc32c_raw(at ? 0 : ~0u, bytes + at, len);
			sum ^= tei_crc32c_shift(part, LEN - at - len);
			at += len;
		}
		assert_int_equal(~sum, whole);
	}
}

static void shift_by_a_tebibyte_is_that_of_its_halves(void **state)
{
	uint64_t half = 1ull << 39;

	(void)state;
	assert_int_equal(tei_crc32c_shift(tei_crc32c_shift(12345, half), half),
			 tei_crc32c_shift(12345, 2 * half));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_value_is_the_published_one),
		cmocka_unit_test(crc_continues_where_it_stopped),
		cmocka_unit_test(crcs_of_neighbours_combine),
		cmocka_unit_test(parts_sum_up_in_any_order),
		cmocka_unit_test(shift_by_a_tebibyte_is_that_of_its_halves),
	};

	return cmocka_run_group_tests(tests, fill, NULL);
}
