/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.c - the rows that store-perf has measured, for people and machines
 */
#include "perf/store-perf/results.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "perf/lib/report.h"

static uint64_t wrong_bytes(const struct results *r)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < r->n_rows; i++)
		wrong += r->row[i].wrong_bytes;
	return wrong;
}

static json_t *row_json(const struct options *o, const struct row *row)
{
	return json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:o, s:I, "
		"s:I, s:I}",
		"op", o->op, "value_size", (json_int_t)row->value_size, "batch",
		(json_int_t)o->batch, "clients", (json_int_t)o->clients,
		"threads", (json_int_t)o->threads, "gb_per_s", row->gb_per_s,
		"keys_per_s", row->keys_per_s, "p50_us", row->p50_us, "p99_us",
		row->p99_us, "p999_us", row->p999_us, "cpu_s_per_gb",
		isnan(row->cpu_s_per_gb) ? json_null()
					 : json_real(row->cpu_s_per_gb),
		"missed", (json_int_t)row->missed, "failed",
		(json_int_t)row->failed, "wrong_bytes",
		(json_int_t)row->wrong_bytes);
}

static json_t *report_json(const struct results *r, const struct options *o)
{
	json_t *list = json_array(), *report;

	for (size_t i = 0; i < r->n_rows; i++)
		json_array_append_new(list, row_json(o, &r->row[i]));
	report = json_pack("{s:o, s:I, s:b, s:I}", "rows", list, "working_set",
			   (json_int_t)o->working_set, "pinned", o->pin,
			   "wrong_bytes", (json_int_t)wrong_bytes(r));
	if (o->reference)
		json_object_set_new(report, "reference",
				    tei_reference_json(&r->reference));
	return report;
}

static void table_head(struct tei_table *t, bool reference)
{
	static const char *const names[] = {"operation", "value",   "batch",
					    "clients",   "threads", "GB/s",
					    "keys/s",    "p50 us",  "p99 us",
					    "p999 us",   "missed",  "CPU s/GB"};

	tei_table_row(t);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		tei_table_cell(t, "%s", names[i]);
	if (reference)
		tei_table_cell(t, "of stream");
}

static void table_row(struct tei_table *t, const struct results *r,
		      const struct options *o, const struct row *row)
{
	char text[32];

	tei_table_row(t);
	tei_table_cell(t, "%s", o->op);
	tei_table_cell(t, "%s", tei_text_bytes(row->value_size, text));
	tei_table_cell(t, "%d", (int)o->batch);
	tei_table_cell(t, "%d", (int)o->clients);
	tei_table_cell(t, "%d", (int)o->threads);
	tei_table_cell(t, "%.2f", row->gb_per_s);
	tei_table_cell(t, "%s",
		       tei_text_count((uint64_t)row->keys_per_s, text));
	tei_table_cell(t, "%.1f", row->p50_us);
	tei_table_cell(t, "%.1f", row->p99_us);
	tei_table_cell(t, "%.1f", row->p999_us);
	tei_table_cell(t, "%s", tei_text_count(row->missed, text));
	if (isnan(row->cpu_s_per_gb))
		tei_table_cell(t, "-");
	else
		tei_table_cell(t, "%.3f", row->cpu_s_per_gb);
	if (o->reference)
		tei_table_cell(t, "%.0f %%",
			       100 * row->gb_per_s /
				       r->reference.stream_gb_per_s);
}

static int report_table(const struct results *r, const struct options *o)
{
	struct tei_table *t = tei_calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	table_head(t, o->reference);
	for (size_t i = 0; i < r->n_rows; i++)
		table_row(t, r, o, &r->row[i]);
	tei_table_print(t, stdout);
	tei_free(t);
	if (o->reference)
		tei_reference_print(&r->reference, stdout);
	return 0;
}

int results_report(const struct results *r, const struct options *o)
{
	uint64_t wrong = wrong_bytes(r);
	int rc = o->json ? tei_report_json("store-perf", report_json(r, o))
			 : report_table(r, o);

	if (wrong)
		fprintf(stderr, "store-perf: %" PRIu64 " wrong bytes\n", wrong);
	return rc ? rc : wrong ? -EIO : 0;
}
