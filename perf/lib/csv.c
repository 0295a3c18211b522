/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - rows of a report as CSV (RFC 4180): a header, then a line a row */
#include "perf/lib/csv.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void begin_field(struct tei_csv *c)
{
	if (c->in_row)
		fputc(',', c->out);
	c->in_row = true;
}

void tei_csv_text(struct tei_csv *c, const char *text)
{
	begin_field(c);
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, c->out);
		return;
	}
	fputc('"', c->out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', c->out);
		fputc(*text, c->out);
	}
	fputc('"', c->out);
}

void tei_csv_integer(struct tei_csv *c, uint64_t value)
{
	begin_field(c);
	fprintf(c->out, "%" PRIu64, value);
}

void tei_csv_real(struct tei_csv *c, double value)
{
	begin_field(c);
	if (isfinite(value))
		fprintf(c->out, "%.9g", value);
}

void tei_csv_end(struct tei_csv *c)
{
	fputs("\r\n", c->out);
	c->in_row = false;
}

void tei_csv_names(struct tei_csv *c, const char *const names[], size_t n)
{
	for (size_t i = 0; i < n; i++)
		tei_csv_text(c, names[i]);
	tei_csv_end(c);
}
