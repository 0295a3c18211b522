/* SPDX-License-Identifier: Apache-2.0 */
/* test_strings.c - strings of messages, whole and with a 0 byte in them */
#include <stdlib.h>
#include <string.h>

#include "store/proto/store.pb-c.h"
#include "store/proto/strings.h"
#include "tests/lib/test.h"

#define NUMBERS 3u /* bytes of columns */

static bool whole(const ProtobufCMessageDescriptor *type, const void *bytes,
		  size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	bool yes;

	assert_non_null(copy);
	memcpy(copy, bytes, len); /* exactly, so that ASan sees a read beyond */
	yes = tes_strings_whole(type, copy, len, NUMBERS);
	free(copy);
	return yes;
}

#define WHOLE(type, bytes) \
	whole(&store__##type##__descriptor, bytes, sizeof(bytes) - 1)

static void a_string_with_a_0_is_not_whole(void **state)
{
	(void)state;
	assert_true(
		tes_strings_whole(&store__remove_all__descriptor, NULL, 0, 0));
	assert_true(WHOLE(remove_all, "\x08\x01\x12\x02"
				      "ab"));
	assert_true(WHOLE(remove_all, "\x12\x00"));
	assert_false(WHOLE(remove_all, "\x12\x01\x00"));
	assert_false(WHOLE(remove_all, "\x12\x03"
				       "a\0b"));
	/* Again later, and with its tag and length in more bytes than due. */
	assert_false(WHOLE(remove_all, "\x12\x01"
				       "a\x12\x01\x00"));
	assert_false(WHOLE(remove_all, "\x92\x80\x00\x81\x00\x00"));
}

static void strings_are_looked_for_within_messages(void **state)
{
	Store__Replicate how = STORE__REPLICATE__INIT;
	char *names[] = {"name-of-a-segment"};
	Store__PutStart m = STORE__PUT_START__INIT;
	uint8_t bytes[64], *at;
	size_t len;

	(void)state;
	how.preferred = names;
	how.n_preferred = 1;
	m.how = &how;
	len = store__put_start__pack(&m, bytes);
	assert_true(whole(&store__put_start__descriptor, bytes, len));
	at = memmem(bytes, len, "of", 2);
	assert_non_null(at);
	*at = 0;
	assert_false(whole(&store__put_start__descriptor, bytes, len));
}

static void zeros_elsewhere_are_fine(void **state)
{
	(void)state;
	assert_true(WHOLE(remove_all, "\x08\x00"));
	/* Bytes; and fields that nobody knows, of every kind. */
	assert_true(WHOLE(keys, "\x0a\x02\x00\x00"));
	assert_true(WHOLE(remove_all, "\xf8\x06\x00\xf9\x06\0\0\0\0\0\0\0\0"
				      "\xfd\x06\0\0\0\0\xfa\x06\x01\x00"));
}

static void what_is_no_message_is_not_whole(void **state)
{
	(void)state;
	assert_false(WHOLE(remove_all, "\x12"));
	assert_false(WHOLE(remove_all, "\x12\x02"
				       "a"));
	assert_false(WHOLE(remove_all, "\x08"));
	assert_false(WHOLE(remove_all, "\x09\x00"));
	assert_false(WHOLE(remove_all, "\x0b"));
	assert_false(WHOLE(remove_all, "\x12\xff\xff\xff\xff\xff\xff\xff"
				       "\xff\xff\x01"));
	/* A tag that is the string's once its upper bits are dropped. */
	assert_false(WHOLE(remove_all, "\x92\x80\x80\x80\x10\x01\x00"));
}

/* With a number each, which some decoders would take for a column. */
static void few_fields_are_enough(void **state)
{
	static uint8_t bytes[2 * TES_FIELDS_MAX + 4];

	(void)state;
	for (size_t i = 0; i < 2 * TES_FIELDS_MAX; i += 2)
		bytes[i] = 0x10; /* key_lens, not packed */
	assert_true(whole(&store__keys__descriptor, bytes, 2 * TES_FIELDS_MAX));
	bytes[2 * TES_FIELDS_MAX] = 0x78; /* nobody knows it */
	assert_false(
		whole(&store__keys__descriptor, bytes, 2 * TES_FIELDS_MAX + 2));
	/* Those of messages within count as well. */
	memset(bytes, 0, sizeof(bytes));
	for (size_t i = 0; i < 2 * TES_FIELDS_MAX; i += 2)
		bytes[i] = 0x22; /* put start: how */
	assert_true(whole(&store__put_start__descriptor, bytes,
			  2 * TES_FIELDS_MAX));
	memcpy(bytes + 2 * TES_FIELDS_MAX - 2, "\x22\x02\x08\x00", 4);
	assert_false(whole(&store__put_start__descriptor, bytes,
			   2 * TES_FIELDS_MAX + 2));
}

static void columns_of_numbers_are_short(void **state)
{
	(void)state;
	assert_true(WHOLE(keys, "\x12\x03\x01\x01\x01"));
	assert_false(WHOLE(keys, "\x12\x04\x01\x01\x01\x01"));
	assert_false(WHOLE(keys, "\x12\x02\x01\x01\x12\x02\x01\x01"));
	/* Those of a fixed length are copied as they are. */
	assert_true(WHOLE(put_end, "\x22\x04\0\0\0\0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_string_with_a_0_is_not_whole),
		cmocka_unit_test(strings_are_looked_for_within_messages),
		cmocka_unit_test(zeros_elsewhere_are_fine),
		cmocka_unit_test(what_is_no_message_is_not_whole),
		cmocka_unit_test(few_fields_are_enough),
		cmocka_unit_test(columns_of_numbers_are_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
