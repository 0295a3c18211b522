/* SPDX-License-Identifier: Apache-2.0 */
/* test_csv.c - rows are CSV as RFC 4180 has it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "perf/lib/csv.h"

static char text[256];

static struct tei_csv begin(void)
{
	struct tei_csv c = {.out = fmemopen(text, sizeof(text), "w")};

	assert_non_null(c.out);
	return c;
}

static void a_header_is_followed_by_rows_that_end_with_crlf(void **state)
{
	static const char *const names[] = {"op", "keys", "gb_per_s"};
	struct tei_csv c = begin();

	(void)state;
	tei_csv_names(&c, names, 3);
	for (uint64_t i = 1; i <= 2; i++) {
		tei_csv_text(&c, "put");
		tei_csv_integer(&c, i);
		tei_csv_real(&c, 1.5 * (double)i);
		tei_csv_end(&c);
	}
	fclose(c.out);
	assert_string_equal(text, "op,keys,gb_per_s\r\n"
				  "put,1,1.5\r\n"
				  "put,2,3\r\n");
}

static void commas_quotes_and_lines_are_quoted(void **state)
{
	struct tei_csv c = begin();

	(void)state;
	tei_csv_text(&c, "get:1,put:2");
	tei_csv_text(&c, "a \"b\"");
	tei_csv_text(&c, "two\nlines");
	tei_csv_text(&c, "");
	tei_csv_end(&c);
	fclose(c.out);
	assert_string_equal(text, "\"get:1,put:2\",\"a \"\"b\"\"\","
				  "\"two\nlines\",\r\n");
}

static void numbers_keep_their_digits_and_the_unknown_is_empty(void **state)
{
	struct tei_csv c = begin();

	(void)state;
	tei_csv_integer(&c, UINT64_MAX);
	tei_csv_real(&c, 288500.125);
	tei_csv_real(&c, NAN);
	tei_csv_real(&c, INFINITY);
	tei_csv_real(&c, 0);
	tei_csv_end(&c);
	fclose(c.out);
	assert_string_equal(text, "18446744073709551615,288500.125,,,0\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_header_is_followed_by_rows_that_end_with_crlf),
		cmocka_unit_test(commas_quotes_and_lines_are_quoted),
		cmocka_unit_test(
			numbers_keep_their_digits_and_the_unknown_is_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
