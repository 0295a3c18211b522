/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - figures for people: aligned tables and readable numbers
 */
#include "perf/lib/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

void tei_table_row(struct tei_table *t)
{
	t->n_rows++;
	t->column = 0;
}

void tei_table_cell(struct tei_table *t, const char *format, ...)
{
	va_list args;

	if (!t->n_rows || t->n_rows > TEI_TABLE_ROWS ||
	    t->column >= TEI_TABLE_COLUMNS)
		return;
	va_start(args, format);
	vsnprintf(t->cell[t->n_rows - 1][t->column], TEI_TABLE_CELL, format,
		  args);
	va_end(args);
	t->column++;
	if (t->column > t->n_columns)
		t->n_columns = t->column;
}

static int width_of(const struct tei_table *t, size_t n_rows, size_t column)
{
	size_t width = 0, len;

	for (size_t r = 0; r < n_rows; r++) {
		len = strlen(t->cell[r][column]);
		if (len > width)
			width = len;
	}
	return (int)width;
}

static void print_row(const struct tei_table *t, size_t r, const int *width,
		      FILE *out)
{
	for (size_t c = 0; c < t->n_columns; c++)
		fprintf(out, "%s%*s", c ? "  " : "", c ? width[c] : -width[c],
			t->cell[r][c]);
	fputc('\n', out);
}

static void print_line(const struct tei_table *t, const int *width, FILE *out)
{
	int total = -2;

	for (size_t c = 0; c < t->n_columns; c++)
		total += width[c] + 2;
	while (total-- > 0)
		fputc('-', out);
	fputc('\n', out);
}

void tei_table_print(const struct tei_table *t, FILE *out)
{
	size_t n = t->n_rows < TEI_TABLE_ROWS ? t->n_rows : TEI_TABLE_ROWS;
	int width[TEI_TABLE_COLUMNS] = {0};

	for (size_t c = 0; c < t->n_columns; c++)
		width[c] = width_of(t, n, c);
	for (size_t r = 0; r < n; r++) {
		print_row(t, r, width, out);
		if (r == 0)
			print_line(t, width, out);
	}
}

const char *tei_text_bytes(uint64_t bytes, char out[24])
{
	static const char *const unit[] = {"B",   "KiB", "MiB", "GiB",
					   "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t u = 0;

	while (value >= 1024 && u < 6) {
		value /= 1024;
		u++;
	}
	if (value == (double)(uint64_t)value)
		snprintf(out, 24, "%" PRIu64 " %s", (uint64_t)value, unit[u]);
	else
		snprintf(out, 24, "%.1f %s", value, unit[u]);
	return out;
}

const char *tei_text_count(uint64_t n, char out[32])
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			out[at++] = ',';
		out[at++] = digits[i];
	}
	out[at] = 0;
	return out;
}
