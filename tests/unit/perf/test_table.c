/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_table.c - tables line up, numbers read well
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "perf/lib/report.h"

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
	static struct tei_table t;
	char text[512] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)state;
	tei_table_row(&t);
	tei_table_cell(&t, "op");
	tei_table_cell(&t, "GB/s");
	tei_table_row(&t);
	tei_table_cell(&t, "write");
	tei_table_cell(&t, "%.1f", 10.25);
	tei_table_print(&t, out);
	fclose(out);
	assert_string_equal(text, "op     GB/s\n"
				  "-----------\n"
				  "write  10.2\n");
}

static void more_cells_and_rows_than_there_is_room_are_dropped(void **state)
{
	static struct tei_table t;

	(void)state;
	for (int r = 0; r < TEI_TABLE_ROWS + 5; r++) {
		tei_table_row(&t);
		for (int c = 0; c < TEI_TABLE_COLUMNS + 5; c++)
			tei_table_cell(&t, "%060d", c);
	}
	assert_int_equal(t.n_columns, TEI_TABLE_COLUMNS);
}

static void numbers_are_grouped_and_scaled(void **state)
{
	char bytes[24], count[32];

	(void)state;
	assert_string_equal(tei_text_bytes(0, bytes), "0 B");
	assert_string_equal(tei_text_bytes(1023, bytes), "1023 B");
	assert_string_equal(tei_text_bytes(16384, bytes), "16 KiB");
	assert_string_equal(tei_text_bytes(1536, bytes), "1.5 KiB");
	assert_string_equal(tei_text_bytes(160ull << 20, bytes), "160 MiB");
	assert_string_equal(tei_text_count(0, count), "0");
	assert_string_equal(tei_text_count(999, count), "999");
	assert_string_equal(tei_text_count(1000, count), "1,000");
	assert_string_equal(tei_text_count(288500, count), "288,500");
	assert_string_equal(tei_text_count(UINT64_MAX, count),
			    "18,446,744,073,709,551,615");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
		cmocka_unit_test(
			more_cells_and_rows_than_there_is_room_are_dropped),
		cmocka_unit_test(numbers_are_grouped_and_scaled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
