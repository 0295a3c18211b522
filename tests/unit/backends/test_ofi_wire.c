/* SPDX-License-Identifier: Apache-2.0 */
/* test_ofi_wire.c - blobs of the ofi backend: round trips, and nonsense */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/ofi/wire.h"
#include "tests/lib/test.h"

static const struct ofi_self rails[] = {
	{.ip = true, .provider = "tcp", .fabric = "192.0.2.0/24"},
	{.ip = true, .provider = "tcp", .fabric = "198.51.100.0/24"},
	{.ip = true,
	 .at_home = true,
	 .provider = "tcp",
	 .fabric = "127.0.0.1/32"},
	{.provider = "efa", .fabric = "efa"},
	{.provider = "verbs", .fabric = "IB-0xfe80000000000000"},
	{.provider = "verbs", .fabric = "IB-0xfe80000000000001"},
};

static void rails_are_told_as_they_are(void **state)
{
	uint8_t bytes[TEI_BLOB_MAX];
	struct ofi_self other;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(rails); i++) {
		size_t len = sizeof(bytes);

		assert_int_equal(tei_ofi_self_encode(&rails[i], bytes, &len),
				 0);
		assert_null(tei_ofi_self_decode(bytes, len, &other));
		assert_int_equal(tei_ofi_match(&rails[i], &other), 2);
		for (size_t cut = 0; cut < len; cut++)
			assert_non_null(
				tei_ofi_self_decode(bytes, cut, &other));
	}
}

static void only_rails_that_reach_each_other_go_together(void **state)
{
	(void)state;
	assert_int_equal(tei_ofi_match(&rails[0], &rails[1]), 1);
	assert_int_equal(tei_ofi_match(&rails[0], &rails[2]), 0);
	assert_int_equal(tei_ofi_match(&rails[0], &rails[3]), 0);
	assert_int_equal(tei_ofi_match(&rails[4], &rails[5]), 0);
}

static void names_that_no_line_may_show_are_refused(void **state)
{
	static const uint8_t bad[] = {1, 0, 3, 't', '\n', 'p', 0};
	static const uint8_t none[] = {1, 0, 0, 0};
	struct ofi_self self;

	(void)state;
	assert_non_null(tei_ofi_self_decode(bad, sizeof(bad), &self));
	assert_non_null(tei_ofi_self_decode(none, sizeof(none), &self));
}

static void addresses_are_told_as_they_are(void **state)
{
	struct ofi_address mine = {.emulates = true,
				   .token = "fifteen letters",
				   .len = 28},
			   theirs;
	uint8_t bytes[TEI_BLOB_MAX];
	size_t len = sizeof(bytes);

	(void)state;
	memset(mine.bytes, 7, mine.len);
	assert_int_equal(tei_ofi_address_encode(&mine, bytes, &len), 0);
	assert_null(tei_ofi_address_decode(bytes, len, &theirs));
	assert_true(theirs.emulates);
	assert_int_equal(theirs.len, mine.len);
	assert_memory_equal(theirs.bytes, mine.bytes, mine.len);
	assert_memory_equal(theirs.token, mine.token, OFI_TOKEN_LEN);
	for (size_t cut = 0; cut < len; cut++)
		assert_non_null(tei_ofi_address_decode(bytes, cut, &theirs));
	bytes[18] = OFI_ADDRESS_MAX + 1;
	assert_non_null(tei_ofi_address_decode(bytes, sizeof(bytes), &theirs));
}

static void keys_name_places_in_their_chunks(void **state)
{
	struct ofi_key mine = {.range = {.base = 0x10000,
					 .chunk = 4096,
					 .length = 10000,
					 .n = 3}},
		       key;
	uint8_t bytes[TEI_KEY_MAX];
	struct ofi_place place;

	(void)state;
	for (unsigned int offsets = 0; offsets < 2; offsets++) {
		size_t len = sizeof(bytes);

		mine.offsets = offsets;
		assert_int_equal(tei_ofi_key_encode(&mine, bytes, &len), 0);
		for (uint32_t i = 0; i < mine.range.n; i++)
			tei_ofi_key_set(bytes, i, UINT64_MAX - i);
		assert_null(tei_ofi_key_decode(bytes, len, &key));
		assert_true(tei_ofi_key_at(&key, 0x10000 + 8200, &place));
		assert_int_equal(place.key, UINT64_MAX - 2);
		assert_int_equal(place.addr, offsets ? 8 : 0x10000 + 8200);
		assert_int_equal(place.room, 1800);
		assert_false(tei_ofi_key_at(&key, 0x10000 + 10000, &place));
		assert_false(tei_ofi_key_at(&key, 0xffff, &place));
	}
}

/* By the published test vectors of SipHash-2-4. */
static void bound_keys_are_made_of_token_and_chunk(void **state)
{
	uint8_t token[OFI_TOKEN_LEN];

	(void)state;
	for (uint8_t i = 0; i < OFI_TOKEN_LEN; i++)
		token[i] = i;
	assert_true(tei_ofi_bound_key(token, 0x0706050403020100, 8) ==
		    0x93f5f5799a932462);
	assert_true(tei_ofi_bound_key(token, 0x0706050403020100, 4) ==
		    0x9a932462);
	token[0]++;
	assert_true(tei_ofi_bound_key(token, 0x0706050403020100, 4) !=
		    0x9a932462);
}

static void blob_says_how_long_bound_keys_are(void **state)
{
	struct ofi_key mine = {.range = {.chunk = 4096,
					 .length = 4096,
					 .n = 1}},
		       key;
	uint8_t bytes[TEI_KEY_MAX];

	(void)state;
	for (unsigned int n = 0; n <= 15; n++) {
		size_t len = sizeof(bytes);
		const char *fault;

		mine.bound = n;
		assert_int_equal(tei_ofi_key_encode(&mine, bytes, &len), 0);
		fault = tei_ofi_key_decode(bytes, len, &key);
		assert_true(n <= 8 ? !fault && key.bound == n : !!fault);
	}
}

static void keys_of_nonsense_are_refused(void **state)
{
	struct ofi_key mine = {.range = {.base = UINT64_MAX - 10,
					 .chunk = 4096,
					 .length = 4096,
					 .n = 1}},
		       key;
	uint8_t bytes[TEI_KEY_MAX];
	size_t len = sizeof(bytes);

	(void)state;
	assert_int_equal(tei_ofi_key_encode(&mine, bytes, &len), 0);
	assert_non_null(tei_ofi_key_decode(bytes, len, &key)); /* wraps */
	mine.range.base = 0;
	mine.range.chunk = 0;
	len = sizeof(bytes);
	assert_int_equal(tei_ofi_key_encode(&mine, bytes, &len), 0);
	assert_non_null(tei_ofi_key_decode(bytes, len, &key));
	mine.range.chunk = 1024; /* one key of four */
	len = sizeof(bytes);
	assert_int_equal(tei_ofi_key_encode(&mine, bytes, &len), 0);
	assert_non_null(tei_ofi_key_decode(bytes, len, &key));
	assert_non_null(tei_ofi_key_decode(bytes, len - 1, &key));
	bytes[0] = 9;
	assert_non_null(tei_ofi_key_decode(bytes, len, &key));
}

/* ---- keys of some chunks ---- */

#define PART 4096u

/* Of @n chunks, those of @lacks without a key; chunk i has key 100 + i. */
static size_t encode_parts(uint8_t *bytes, uint32_t n, uint64_t lacks)
{
	const struct ofi_key mine = {.range = {.base = 0x10000,
					       .chunk = PART,
					       .length = PART * n - 96,
					       .n = n},
				     .lacks = lacks};
	size_t len = TEI_KEY_MAX;

	assert_int_equal(tei_ofi_key_encode(&mine, bytes, &len), 0);
	for (uint32_t i = 0; i < n; i++)
		tei_ofi_key_set(bytes, i,
				n <= 64 && lacks >> i & 1 ? 0 : 100 + i);
	return len;
}

static void key_says_which_chunks_have_one(void **state)
{
	static const struct {
		uint32_t n;
		uint64_t lacks;
	} some[] = {{2, 1},
		    {3, 6},
		    {63, 1ull << 62},
		    {64, 1},
		    {64, 0xff00ff0000000000u},
		    {64, ~(uint64_t)1}};
	uint8_t bytes[TEI_KEY_MAX];
	struct ofi_place place;
	struct ofi_key key;

	(void)state;
	for (size_t k = 0; k < TEST_COUNT(some); k++) {
		size_t len = encode_parts(bytes, some[k].n, some[k].lacks);

		assert_int_equal(len, OFI_KEY_LEN + 8 + 8 * some[k].n);
		assert_null(tei_ofi_key_decode(bytes, len, &key));
		assert_true(key.lacks == some[k].lacks);
		for (uint32_t i = 0; i < some[k].n; i++) {
			bool has = !(some[k].lacks >> i & 1);

			assert_int_equal(tei_ofi_key_at(&key,
							0x10000 + PART * i + 9,
							&place),
					 has);
			if (has)
				assert_int_equal(place.key, 100 + i);
		}
	}
}

/* Asserts that [@from, @to) is alike, and has a key or none. */
static void is_alike(const struct ofi_key *key, uint64_t from, uint64_t to,
		     bool has)
{
	uint64_t room;

	assert_int_equal(tei_ofi_key_covers(key, 0x10000 + from, &room), has);
	assert_int_equal(room, to - from);
}

static void chunks_that_are_alike_are_one(void **state)
{
	uint8_t bytes[TEI_KEY_MAX];
	uint64_t all = PART * 5 - 96, room;
	struct ofi_key key;
	size_t len = encode_parts(bytes, 5, 0x6);

	(void)state;
	assert_null(tei_ofi_key_decode(bytes, len, &key));
	is_alike(&key, 0, PART, true);
	is_alike(&key, PART - 1, PART, true);
	is_alike(&key, PART, 3 * PART, false);
	is_alike(&key, 2 * PART + 1, 3 * PART, false);
	is_alike(&key, 3 * PART, all, true);
	is_alike(&key, all - 1, all, true);
	assert_false(tei_ofi_key_covers(&key, 0x10000 + all, &room));
	assert_true(room == UINT64_MAX);
	assert_false(tei_ofi_key_covers(&key, 0xffff, &room));
	assert_true(room == UINT64_MAX);
	len = encode_parts(bytes, 64, 1ull << 63);
	assert_null(tei_ofi_key_decode(bytes, len, &key));
	is_alike(&key, 0, 63 * PART, true);
	is_alike(&key, 63 * PART, 64 * PART - 96, false);
}

static void key_of_all_chunks_covers_all(void **state)
{
	uint8_t bytes[TEI_KEY_MAX];
	struct ofi_key key;
	size_t len = encode_parts(bytes, 300, 0);

	(void)state;
	assert_int_equal(len, OFI_KEY_LEN + 8 * 300);
	assert_null(tei_ofi_key_decode(bytes, len, &key));
	is_alike(&key, 5, 300 * PART - 96, true);
	len = encode_parts(bytes, 1, 0);
	/* Who may reach a region that is not for peers is not asked here. */
	assert_null(tei_ofi_key_decode(bytes, len - 8, &key));
	is_alike(&key, 5, PART - 96, true);
}

#define FLAGS_AT 1
#define PARTS_AT 26 /* of a key that has some chunks only */

static void parts_of_nonsense_are_refused(void **state)
{
	uint8_t bytes[TEI_KEY_MAX];
	struct ofi_key key;
	size_t len = encode_parts(bytes, 5, 0x6);

	(void)state;
	for (size_t cut = 0; cut < len; cut++)
		assert_non_null(tei_ofi_key_decode(bytes, cut, &key));
	bytes[PARTS_AT] = 0;
	assert_string_equal(tei_ofi_key_decode(bytes, len, &key),
			    "no chunk has a key");
	bytes[PARTS_AT] = 0x20;
	assert_string_equal(tei_ofi_key_decode(bytes, len, &key),
			    "keys of more chunks than there are");
	bytes[PARTS_AT] = 1;
	bytes[PARTS_AT + 7] = 0x80;
	assert_non_null(tei_ofi_key_decode(bytes, len, &key));
	bytes[PARTS_AT + 7] = 0;
	assert_null(tei_ofi_key_decode(bytes, len, &key));
	bytes[PARTS_AT] = 0x1f; /* says of none that it has no key */
	assert_null(tei_ofi_key_decode(bytes, len, &key));
	is_alike(&key, 0, PART * 5 - 96, true);
	/* Without the flag it is one chunk more than there are. */
	bytes[FLAGS_AT] &= (uint8_t)~4u;
	assert_non_null(tei_ofi_key_decode(bytes, len, &key));
	len = encode_parts(bytes, 65, 0);
	bytes[FLAGS_AT] |= 4;
	assert_non_null(tei_ofi_key_decode(bytes, len, &key));
	memmove(bytes + PARTS_AT + 8, bytes + PARTS_AT, len - PARTS_AT);
	assert_string_equal(tei_ofi_key_decode(bytes, len + 8, &key),
			    "more chunks than may be without a key");
}

/* At the end of the address space, where sums could wrap. */
static void largest_region_has_rooms_that_do_not_wrap(void **state)
{
	const struct ofi_key mine = {
		.range = {.chunk = 1ull << 63, .length = UINT64_MAX, .n = 2},
		.lacks = 2};
	uint8_t bytes[TEI_KEY_MAX];
	size_t len = sizeof(bytes);
	struct ofi_key key;
	uint64_t room;

	(void)state;
	assert_int_equal(tei_ofi_key_encode(&mine, bytes, &len), 0);
	assert_null(tei_ofi_key_decode(bytes, len, &key));
	assert_true(tei_ofi_key_covers(&key, 0, &room));
	assert_true(room == 1ull << 63);
	assert_false(tei_ofi_key_covers(&key, 1ull << 63, &room));
	assert_true(room == UINT64_MAX >> 1);
	assert_false(tei_ofi_key_covers(&key, UINT64_MAX - 1, &room));
	assert_true(room == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rails_are_told_as_they_are),
		cmocka_unit_test(only_rails_that_reach_each_other_go_together),
		cmocka_unit_test(names_that_no_line_may_show_are_refused),
		cmocka_unit_test(addresses_are_told_as_they_are),
		cmocka_unit_test(keys_name_places_in_their_chunks),
		cmocka_unit_test(bound_keys_are_made_of_token_and_chunk),
		cmocka_unit_test(blob_says_how_long_bound_keys_are),
		cmocka_unit_test(keys_of_nonsense_are_refused),
		cmocka_unit_test(key_says_which_chunks_have_one),
		cmocka_unit_test(chunks_that_are_alike_are_one),
		cmocka_unit_test(key_of_all_chunks_covers_all),
		cmocka_unit_test(parts_of_nonsense_are_refused),
		cmocka_unit_test(largest_region_has_rooms_that_do_not_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
