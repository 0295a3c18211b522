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
#include "perf/lib/fields.h"
#include "perf/lib/report.h"

static uint64_t wrong_bytes(const struct results *r)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < r->n_rows; i++)
		wrong += r->row[i].wrong_bytes;
	return wrong;
}

/* ---- for machines ---- */

#define FIELDS 20

static void fields_of(const struct options *o, const struct row *row,
		      struct tei_field out[FIELDS])
{
	const struct tei_field fields[FIELDS] = {
		TEI_TEXT("op", o->op),
		TEI_COUNT("value_size", row->value_size),
		TEI_COUNT("batch", o->batch),
		TEI_COUNT("clients", o->clients),
		TEI_COUNT("threads", o->threads),
		TEI_COUNT("rate", o->rate),
		TEI_REAL("gb_per_s", row->gb_per_s),
		TEI_REAL("keys_per_s", row->keys_per_s),
		TEI_REAL("calls_per_s", row->calls_per_s),
		TEI_REAL("p50_us", row->p50_us),
		TEI_REAL("p99_us", row->p99_us),
		TEI_REAL("p999_us", row->p999_us),
		TEI_REAL("cpu_s_per_gb", row->cpu_s_per_gb),
		TEI_REAL("join_ms", row->join_ms),
		TEI_REAL("register_ms", row->register_ms),
		TEI_REAL("first_us", row->first_us),
		TEI_COUNT("missed", row->missed),
		TEI_COUNT("failed", row->failed),
		TEI_COUNT("behind", row->behind),
		TEI_COUNT("wrong_bytes", row->wrong_bytes),
	};

	memcpy(out, fields, sizeof(fields));
}

static json_t *row_json(const struct options *o, const struct row *row)
{
	struct tei_field fields[FIELDS];
	json_t *j;

	fields_of(o, row, fields);
	j = tei_fields_json(fields, FIELDS);
	if (row->series)
		tei_json_set(&j, "series", json_incref(row->series));
	return j;
}

static int report_csv(const struct results *r, const struct options *o)
{
	struct tei_csv csv = {.out = stdout};
	struct tei_field fields[FIELDS];

	for (size_t i = 0; i < r->n_rows; i++) {
		fields_of(o, &r->row[i], fields);
		if (!i)
			tei_fields_csv_names(fields, FIELDS, &csv);
		tei_fields_csv(fields, FIELDS, &csv);
	}
	return 0;
}

static json_t *report_json(const struct results *r, const struct options *o)
{
	json_t *list = json_array(), *report;

	for (size_t i = 0; i < r->n_rows; i++)
		tei_json_append(&list, row_json(o, &r->row[i]));
	report = json_pack(
		"{s:o, s:I, s:b, s:b, s:s*, s:s*, s:I, s:o}", "rows", list,
		"working_set", (json_int_t)o->working_set, "pinned", o->pin,
		"unaligned", o->unaligned, "location", o->location,
		"remote_location", o->remote_location, "wrong_bytes",
		(json_int_t)wrong_bytes(r), "machine", tei_machine_json());
	if (o->reference)
		tei_json_set(&report, "reference",
			     tei_reference_json(&r->reference));
	return report;
}

/* ---- for people ---- */

static void table_head(struct tei_table *t, const struct options *o)
{
	static const char *const names[] = {"operation", "value",   "batch",
					    "clients",   "threads", "GB/s",
					    "keys/s",    "p50 us",  "p99 us",
					    "p999 us",   "missed",  "CPU s/GB"};

	tei_table_texts(t, names, sizeof(names) / sizeof(*names));
	if (o->rate) {
		tei_table_cell(t, "calls/s");
		tei_table_cell(t, "behind");
	}
	if (o->reference)
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
	if (o->rate) {
		tei_table_cell(
			t, "%s",
			tei_text_count((uint64_t)row->calls_per_s, text));
		tei_table_cell(t, "%s", tei_text_count(row->behind, text));
	}
	if (o->reference)
		tei_table_cell(t, "%.0f %%",
			       100 * row->gb_per_s /
				       r->reference.stream_gb_per_s);
}

static void print_first(const struct row *row, const struct options *o)
{
	char size[24], memory[24];

	printf("%s of %s: one more client joined in %.2f ms, registered %s in "
	       "%.3f ms, and its first call took %.1f us\n",
	       o->op, tei_text_bytes(row->value_size, size), row->join_ms,
	       tei_text_bytes(o->memory_each, memory), row->register_ms,
	       row->first_us);
}

static int report_table(const struct results *r, const struct options *o)
{
	struct tei_table *t = tei_calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	table_head(t, o);
	for (size_t i = 0; i < r->n_rows; i++)
		table_row(t, r, o, &r->row[i]);
	tei_table_print(t, stdout);
	for (size_t i = 0; o->first_call && i < r->n_rows; i++)
		print_first(&r->row[i], o);
	tei_free(t);
	if (o->reference)
		tei_reference_print(&r->reference, stdout);
	return 0;
}

int results_report(const struct results *r, const struct options *o)
{
	uint64_t wrong = wrong_bytes(r);
	int rc;

	if (o->json)
		rc = tei_report_json("store-perf", report_json(r, o));
	else
		rc = o->csv ? report_csv(r, o) : report_table(r, o);
	if (wrong)
		fprintf(stderr, "store-perf: %" PRIu64 " wrong bytes\n", wrong);
	return rc ? rc : wrong ? -EIO : 0;
}

void results_warn_behind(uint64_t behind, uint64_t n_threads, uint64_t rate)
{
	char count[32], per_s[32];

	if (behind <= n_threads)
		return;
	fprintf(stderr,
		"store-perf: rate: %s calls of %s a second were due before the "
		"end and had not begun: the pool does not keep up\n",
		tei_text_count(behind, count), tei_text_count(rate, per_s));
}

void results_fini(struct results *r)
{
	for (size_t i = 0; i < sizeof(r->row) / sizeof(*r->row); i++)
		json_decref(r->row[i].series);
}
