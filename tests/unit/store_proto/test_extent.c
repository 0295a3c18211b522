/* SPDX-License-Identifier: Apache-2.0 */
/* test_extent.c - the extent header: what is written is read, else refused */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/proto/extent.h"

static const struct tes_extent_header sample = {
	.gen_epoch = 0x0123456789abcdefull,
	.generation = 42,
	.digest = 0xfedcba9876543210ull,
	.object_size = 1000,
	.offset = 100,
	.length = 900,
	.index = 1,
	.count = 2,
};

static void what_is_encoded_is_decoded(void **state)
{
	uint8_t bytes[TES_EXTENT_HEADER_LEN];
	struct tes_extent_header h;

	(void)state;
	tes_extent_encode(&sample, bytes);
	assert_int_equal(tes_extent_decode(bytes, &h), 0);
	assert_int_equal(h.gen_epoch, sample.gen_epoch);
	assert_int_equal(h.generation, sample.generation);
	assert_int_equal(h.digest, sample.digest);
	assert_int_equal(h.object_size, sample.object_size);
	assert_int_equal(h.offset, sample.offset);
	assert_int_equal(h.length, sample.length);
	assert_int_equal(h.index, sample.index);
	assert_int_equal(h.count, sample.count);
}

static void the_layout_is_the_documented_one(void **state)
{
	uint8_t bytes[TES_EXTENT_HEADER_LEN];

	(void)state;
	tes_extent_encode(&sample, bytes);
	assert_memory_equal(bytes, "TXT1\1\0\2\0", 8);
	assert_memory_equal(bytes + 8, "\xef\xcd\xab\x89\x67\x45\x23\x01", 8);
	assert_memory_equal(bytes + 16, "\x2a\0\0\0\0\0\0\0", 8);
	assert_memory_equal(bytes + 24, "\x10\x32\x54\x76\x98\xba\xdc\xfe", 8);
	assert_memory_equal(bytes + 32, "\xe8\x03\0\0\0\0\0\0", 8);
	assert_memory_equal(bytes + 56, "\0\0\0\0", 4);
}

static void whatever_the_seed_an_extent_is_the_same(void **state)
{
	struct tes_extent_header h = sample;

	(void)state;
	h.digest++;
	assert_true(tes_extent_same(&h, &sample));
#define DIFFERS(field)                                      \
	do {                                                \
		h = sample;                                 \
		h.field++;                                  \
		assert_false(tes_extent_same(&h, &sample)); \
	} while (0)
	DIFFERS(gen_epoch);
	DIFFERS(generation);
	DIFFERS(object_size);
	DIFFERS(offset);
	DIFFERS(length);
	DIFFERS(index);
	DIFFERS(count);
#undef DIFFERS
}

static void every_flipped_bit_is_refused(void **state)
{
	uint8_t bytes[TES_EXTENT_HEADER_LEN];
	struct tes_extent_header h;
	unsigned int bit;

	(void)state;
	tes_extent_encode(&sample, bytes);
	for (bit = 0; bit < 8 * sizeof(bytes); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		assert_int_equal(tes_extent_decode(bytes, &h), -EBADMSG);
		bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
	assert_int_equal(tes_extent_decode(bytes, &h), 0);
}

static void zeroes_and_ones_are_refused(void **state)
{
	uint8_t bytes[TES_EXTENT_HEADER_LEN];
	struct tes_extent_header h;

	(void)state;
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(tes_extent_decode(bytes, &h), -EBADMSG);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(tes_extent_decode(bytes, &h), -EBADMSG);
}

static int decode_of(struct tes_extent_header h)
{
	uint8_t bytes[TES_EXTENT_HEADER_LEN];
	struct tes_extent_header out;

	tes_extent_encode(&h, bytes);
	return tes_extent_decode(bytes, &out);
}

static void parts_outside_the_object_are_refused(void **state)
{
	struct tes_extent_header h = sample;

	(void)state;
	h.count = 0;
	assert_int_equal(decode_of(h), -EBADMSG);
	h = sample;
	h.index = h.count;
	assert_int_equal(decode_of(h), -EBADMSG);
	h = sample;
	h.length = 901;
	assert_int_equal(decode_of(h), -EBADMSG);
	h = sample;
	h.offset = UINT64_MAX - 100;
	assert_int_equal(decode_of(h), -EBADMSG);
	h = sample;
	h.length = UINT64_MAX;
	h.offset = 0;
	assert_int_equal(decode_of(h), -EBADMSG);
}

static void a_refused_header_leaves_the_output_alone(void **state)
{
	uint8_t bytes[TES_EXTENT_HEADER_LEN];
	struct tes_extent_header h = {.generation = 7};

	(void)state;
	tes_extent_encode(&sample, bytes);
	bytes[0] ^= 1;
	assert_int_equal(tes_extent_decode(bytes, &h), -EBADMSG);
	assert_int_equal(h.generation, 7);
	assert_int_equal(h.digest, 0);
}

static void digests_depend_on_key_length_and_seed(void **state)
{
	uint64_t a = tes_key_digest("abc", 3, 1);

	(void)state;
	assert_int_equal(a, tes_key_digest("abc", 3, 1));
	assert_true(a != tes_key_digest("abc", 3, 2));
	assert_true(a != tes_key_digest("abc", 2, 1));
	assert_true(a != tes_key_digest("abd", 3, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_encoded_is_decoded),
		cmocka_unit_test(the_layout_is_the_documented_one),
		cmocka_unit_test(whatever_the_seed_an_extent_is_the_same),
		cmocka_unit_test(every_flipped_bit_is_refused),
		cmocka_unit_test(zeroes_and_ones_are_refused),
		cmocka_unit_test(parts_outside_the_object_are_refused),
		cmocka_unit_test(a_refused_header_leaves_the_output_alone),
		cmocka_unit_test(digests_depend_on_key_length_and_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
