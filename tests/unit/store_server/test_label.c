/* SPDX-License-Identifier: Apache-2.0 */
/* test_label.c - names from outside between the quotes of a metric's label */
#include <string.h>

#include "store/server/metrics.h"
#include "tests/lib/test.h"

static void a_label_is_text_whatever_the_name_is(void **state)
{
	static const struct {
		const char *name, *label;
	} cases[] = {
		{"host:1", "host:1"},
		{"a\"b\\c\nd", "a\\\"b\\\\c\\nd"},
		{"\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80",
		 "\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80"},
		{"\xff:1", "?:1"},
		{"a\xc3", "a?"},
		{"\xc0\x80\xed\xa0\x80", "?????"},
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		tes_server_label(cases[i].name, out, sizeof(out));
		assert_string_equal(out, cases[i].label);
	}
}

static void a_label_is_cut_between_characters(void **state)
{
	char out[8];

	(void)state;
	for (size_t room = 1; room <= sizeof(out); room++) {
		memset(out, 'x', sizeof(out));
		tes_server_label("\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad", out,
				 room);
		assert_int_equal(strlen(out), (room - 1) / 3 * 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_label_is_text_whatever_the_name_is),
		cmocka_unit_test(a_label_is_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
