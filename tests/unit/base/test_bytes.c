/* SPDX-License-Identifier: Apache-2.0 */
/* test_bytes.c - little-endian reader and writer */
#include <string.h>

#include "base/bytes.h"
#include "tests/lib/test.h"

#define LEN 18

static void write_all(struct tei_writer *w)
{
	tei_write_u8(w, 0x01);
	tei_write_u16(w, 0x0203);
	tei_write_u32(w, 0x04050607);
	tei_write_u64(w, 0x08090a0b0c0d0e0full);
	tei_write_bytes(w, "abc", 3);
}

static void what_is_written_is_read_little_endian(void **state)
{
	uint8_t bytes[LEN];
	struct tei_writer w;
	struct tei_reader r;

	(void)state;
	tei_writer_init(&w, bytes, sizeof(bytes));
	write_all(&w);
	assert_false(w.bad);
	assert_ptr_equal(w.at, w.end);
	assert_int_equal(bytes[1], 0x03);
	assert_int_equal(bytes[2], 0x02);

	tei_reader_init(&r, bytes, sizeof(bytes));
	assert_int_equal(tei_read_u8(&r), 0x01);
	assert_int_equal(tei_read_u16(&r), 0x0203);
	assert_int_equal(tei_read_u32(&r), 0x04050607);
	assert_true(tei_read_u64(&r) == 0x08090a0b0c0d0e0full);
	assert_false(tei_reader_done(&r));
	assert_memory_equal(tei_read_bytes(&r, 3), "abc", 3);
	assert_true(tei_reader_done(&r));
	assert_int_equal(tei_read_u8(&r), 0);
	assert_false(tei_reader_done(&r));
}

static void overrun_at_any_byte_is_bad_and_touches_nothing(void **state)
{
	(void)state;
	for (size_t len = 0; len < LEN; len++) {
		uint8_t bytes[LEN + 1];
		struct tei_writer w;

		memset(bytes, 0xee, sizeof(bytes));
		tei_writer_init(&w, bytes, len);
		write_all(&w);
		assert_true(w.bad);
		for (size_t i = len; i < sizeof(bytes); i++)
			assert_int_equal(bytes[i], 0xee);
	}
}

static void absurd_length_is_bad(void **state)
{
	uint8_t bytes[4] = {1, 2, 3, 4};
	struct tei_reader r;

	(void)state;
	tei_reader_init(&r, bytes, sizeof(bytes));
	assert_null(tei_read_bytes(&r, SIZE_MAX));
	assert_true(r.bad);
	assert_int_equal(tei_read_u8(&r), 0);
}

static void hexadecimal_digits_are_those_of_both_cases(void **state)
{
	static const char lower[] = "0123456789abcdef",
			  upper[] = "0123456789ABCDEF";
	int n = 0;

	(void)state;
	for (int i = 0; i < 16; i++) {
		assert_int_equal(tei_hex_digit(lower[i]), i);
		assert_int_equal(tei_hex_digit(upper[i]), i);
	}
	for (int c = -128; c < 128; c++)
		n += tei_hex_digit((char)c) >= 0;
	assert_int_equal(n, 22);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_little_endian),
		cmocka_unit_test(
			overrun_at_any_byte_is_bad_and_touches_nothing),
		cmocka_unit_test(absurd_length_is_bad),
		cmocka_unit_test(hexadecimal_digits_are_those_of_both_cases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
