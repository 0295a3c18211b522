/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - figures for people: aligned tables and readable numbers
 */
#ifndef PERF_LIB_TABLE_H
#define PERF_LIB_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TEI_TABLE_COLUMNS 16
#define TEI_TABLE_ROWS    256
#define TEI_TABLE_CELL    40

/* A table of texts; the first row is the head. All zero is an empty one. */
struct tei_table {
	size_t n_rows, n_columns, column;
	char cell[TEI_TABLE_ROWS][TEI_TABLE_COLUMNS][TEI_TABLE_CELL];
};

/* Begin the next row; rows and cells beyond the room are dropped. */
void tei_table_row(struct tei_table *t);
/* The row's next cell; longer texts are cut. */
void tei_table_cell(struct tei_table *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* First column to the left, the others to the right, a line under the head. */
void tei_table_print(const struct tei_table *t, FILE *out);

/* "16 KiB", "1.5 GiB", "100 B". Returns @out. */
const char *tei_text_bytes(uint64_t bytes, char out[24]);
/* "288,500". Returns @out. */
const char *tei_text_count(uint64_t n, char out[32]);

#endif
