/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - te-perf's rows for other programs: JSON and CSV */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <te/te.h>

#include "perf/lib/fields.h"
#include "perf/lib/report.h"
#include "perf/te-perf/results.h"

static json_t *real_or_null(double v)
{
	return isnan(v) || isinf(v) ? json_null() : json_real(v);
}

/* Sets medians of the figures first .. last - 1. */
static void set_figures(json_t **o, const struct row *row, enum figure first,
			enum figure last)
{
	for (enum figure f = first; f < last; f++)
		tei_json_set(o, figure_names[f],
			     real_or_null(row_median(row, f)));
}

#define FIELDS_MAX (13 + N_FIGURES)

/* Lists a row's fields, with figures below @end; returns how many. */
static size_t fields_of(const struct row *row, const struct options *o,
			enum figure end, struct tei_field out[FIELDS_MAX])
{
	const struct tei_field first[] = {
		TEI_TEXT("backend", o->backend),
		TEI_TEXT("carrier", row->carrier),
		TEI_TEXT("from", row->from),
		TEI_TEXT("to", row->to),
		TEI_TEXT("op", row->op),
		TEI_COUNT("size", row->size),
		TEI_COUNT("batch", row->batch),
		TEI_COUNT("threads", row->threads),
		TEI_COUNT("rounds", row->n_rounds),
		TEI_COUNT("failed", row_failed(row)),
		TEI_COUNT("behind", row->behind),
		TEI_COUNT("checked_bytes", row->checked_bytes),
		TEI_COUNT("wrong_bytes", row->wrong_bytes),
	};
	size_t n = sizeof(first) / sizeof(*first);

	memcpy(out, first, sizeof(first));
	for (enum figure f = 0; f < end; f++)
		out[n++] = TEI_REAL(figure_names[f], row_median(row, f));
	return n;
}

static json_t *spread_json(const struct row *row)
{
	json_t *o = json_object(), *pair;

	for (enum figure f = 0; f < N_FIGURES; f++) {
		if (isnan(row_median(row, f)))
			continue;
		pair = json_array();
		tei_json_append(&pair, real_or_null(row_min(row, f)));
		tei_json_append(&pair, real_or_null(row_max(row, f)));
		tei_json_set(&o, figure_names[f], pair);
	}
	return o;
}

static json_t *rail_json(const struct rail_bytes *rail, uint64_t sum)
{
	double share = sum ? (double)rail->bytes / (double)sum : 0;

	return json_pack("{s:s, s:s, s:I, s:i, s:s, s:I, s:f}", "name",
			 rail->name, "backend", rail->backend, "speed_bps",
			 (json_int_t)rail->speed_bps, "numa_node",
			 rail->numa_node, "state",
			 te_rail_state_name(rail->state), "bytes",
			 (json_int_t)rail->bytes, "share", share);
}

static json_t *rails_json(const struct rails *rails)
{
	json_t *list = json_array();

	for (size_t i = 0; i < rails->n; i++)
		tei_json_append(&list,
				rail_json(&rails->v[i], rails_sum(rails)));
	return list;
}

static json_t *point_json(const struct row *row, const struct series_point *p)
{
	const struct tei_field fields[] = {
		TEI_REAL("end_s", p->end_s),
		TEI_REAL("gb_per_s", p->gb_per_s),
		TEI_REAL("ops_per_s", p->ops_per_s),
		TEI_REAL("gap_ms", p->gap_ms),
	};
	json_t *o = tei_fields_json(fields, sizeof(fields) / sizeof(*fields));
	json_t *rails = json_object();

	for (size_t i = 0; i < row->point_rails.n; i++)
		tei_json_set(&rails, row->point_rails.v[i].name,
			     json_integer((json_int_t)p->rail_bytes[i]));
	tei_json_set(&o, "rail_bytes", rails);
	return o;
}

static json_t *series_json(const struct row *row)
{
	json_t *list = json_array();

	for (size_t i = 0; i < row->n_points; i++)
		tei_json_append(&list, point_json(row, &row->points[i]));
	return list;
}

static json_t *errors_json(const struct row *row)
{
	json_t *list = json_array();

	for (size_t i = 0; i < LOAD_ERRORS; i++) {
		const struct load_error *e = &row->errors[i];

		if (e->n)
			tei_json_append(
				&list,
				json_pack("{s:i, s:s, s:I}", "error", e->error,
					  "text", te_strerror(e->error),
					  "requests", (json_int_t)e->n));
	}
	return list;
}

static json_t *kind_json(const struct row *row, const char *kind,
			 enum figure rate, enum figure share)
{
	const struct tei_field fields[] = {
		TEI_TEXT("kind", kind),
		TEI_REAL("gb_per_s", row_median(row, rate)),
		TEI_REAL("share", row_median(row, share)),
	};

	return tei_fields_json(fields, sizeof(fields) / sizeof(*fields));
}

static void add_reference(json_t **o, const struct row *row)
{
	json_t *reference = json_object();

	set_figures(&reference, row, STREAM_GB_PER_S, RAW_GB_PER_S);
	set_figures(&reference, row, OF_PINGPONG_SPINNING, N_FIGURES);
	if (row->kernel)
		tei_json_set(&reference, "best_copy_kernel",
			     json_string(row->kernel));
	tei_json_set(o, "reference", reference);
	if (row->raw)
		tei_json_set(o, "raw",
			     kind_json(row, row->raw, RAW_GB_PER_S, OF_RAW));
	if (row->bound)
		tei_json_set(
			o, "bound",
			kind_json(row, row->bound, BOUND_GB_PER_S, OF_BOUND));
}

static void add_fault(json_t **o, const struct row *row)
{
	tei_json_set(o, "fault_quiet", json_boolean(row->fault_quiet));
	tei_json_set(o, "bystander",
		     json_pack("{s:I, s:I}", "requests",
			       (json_int_t)row->bystander_requests, "errors",
			       (json_int_t)row->bystander_errors));
}

static json_t *row_json(const struct row *row, const struct options *o)
{
	struct tei_field fields[FIELDS_MAX];
	size_t n = fields_of(row, o, FIGURES_OURS, fields);
	json_t *j = tei_fields_json(fields, n);

	tei_json_set(&j, "spread", spread_json(row));
	tei_json_set(&j, "rails", rails_json(&row->rails));
	tei_json_set(&j, "errors", errors_json(row));
	if (o->location)
		tei_json_set(&j, "location", json_string(o->location));
	if (o->remote_location)
		tei_json_set(&j, "remote_location",
			     json_string(o->remote_location));
	if (o->interval)
		tei_json_set(&j, "series", series_json(row));
	if (o->reference)
		add_reference(&j, row);
	if (strcmp(o->fault, "none") != 0)
		add_fault(&j, row);
	return j;
}

static json_t *choices_json(const struct results *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->n_choices; i++) {
		const struct copy_choice *c = &r->choices[i];

		tei_json_append(&list, json_pack("{s:s, s:s, s:f}", "copies",
						 c->copies, "kernel", c->kernel,
						 "gb_per_s", c->gb_per_s));
	}
	return list;
}

int results_json(const struct results *r, const struct options *o)
{
	json_t *list = json_array(), *report;

	for (size_t i = 0; i < r->n_rows; i++)
		tei_json_append(&list, row_json(&r->row[i], o));
	report = json_pack(
		"{s:o, s:I, s:b, s:b, s:b, s:b, s:b, s:s, s:f, s:I, s:o, s:f, s:o}",
		"rows", list, "working_set", (json_int_t)o->working_set, "hot",
		o->hot, "random", o->random, "unaligned", o->unaligned,
		"pinned", o->pin, "foreign", o->foreign, "fault", o->fault,
		"verify_percent", o->verify, "wrong_bytes",
		(json_int_t)results_wrong_bytes(r), "choices", choices_json(r),
		"wakeup_us", r->wakeup_us, "machine", tei_machine_json());
	if (o->rate)
		tei_json_set(&report, "rate",
			     json_integer((json_int_t)o->rate));
	if (o->reference)
		tei_json_set(&report, "congestion", json_string(r->congestion));
	return tei_report_json("te-perf", report);
}

void results_csv(const struct results *r, const struct options *o)
{
	enum figure end = o->reference ? N_FIGURES : FIGURES_OURS;
	struct tei_field fields[FIELDS_MAX];
	struct tei_csv csv = {.out = stdout};
	size_t n = fields_of(&r->row[0], o, end, fields);

	tei_fields_csv_names(fields, n, &csv); /* all rows have the same */
	for (size_t i = 0; i < r->n_rows; i++) {
		n = fields_of(&r->row[i], o, end, fields);
		tei_fields_csv(fields, n, &csv);
	}
}
