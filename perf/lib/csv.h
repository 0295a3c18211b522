/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csv.h - rows of a report as CSV (RFC 4180): a header, then a line a row
 *
 * Lines end with CR LF. A text that has a comma, a quote or the end of a line
 * in it is quoted. Numbers have a point and no separators, in the unit that the
 * column's name ends with; a value that is not known is empty.
 *
 * Threads: one per file at a time.
 */
#ifndef PERF_LIB_CSV_H
#define PERF_LIB_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tei_csv {
	FILE *out;   /* not owned; its errors are its owner's to look for */
	bool in_row; /* a field has been written */
};

/* Writes the next field of a row. */
void tei_csv_text(struct tei_csv *c, const char *text);
void tei_csv_integer(struct tei_csv *c, uint64_t value);
/* Writes nine significant digits; NAN and infinities are not known. */
void tei_csv_real(struct tei_csv *c, double value);
/* Ends the row. */
void tei_csv_end(struct tei_csv *c);

/* Writes a row of names[@n]: the header. */
void tei_csv_names(struct tei_csv *c, const char *const names[], size_t n);

#endif
