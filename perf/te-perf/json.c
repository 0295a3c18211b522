/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c - the rows for machines; docs/te-perf.md names every field
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include <te/te.h>

#include "perf/lib/machine.h"
#include "perf/lib/report.h"
#include "perf/te-perf/results.h"

static json_t *real_or_null(double v)
{
	return isnan(v) || isinf(v) ? json_null() : json_real(v);
}

static void set(json_t *o, const char *name, double v)
{
	json_object_set_new(o, name, real_or_null(v));
}

/* Medians of the figures first .. last - 1. */
static void set_figures(json_t *o, const struct row *row, enum figure first,
			enum figure last)
{
	for (enum figure f = first; f < last; f++)
		set(o, figure_names[f], row_median(row, f));
}

static json_t *spread_json(const struct row *row)
{
	json_t *o = json_object(), *pair;

	for (enum figure f = 0; f < N_FIGURES; f++) {
		if (isnan(row_median(row, f)))
			continue;
		pair = json_array();
		json_array_append_new(pair, real_or_null(row_min(row, f)));
		json_array_append_new(pair, real_or_null(row_max(row, f)));
		json_object_set_new(o, figure_names[f], pair);
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
		json_array_append_new(
			list, rail_json(&rails->v[i], rails_sum(rails)));
	return list;
}

static json_t *point_json(const struct row *row, const struct series_point *p)
{
	json_t *rails = json_object(), *o = json_object();

	for (size_t i = 0; i < row->point_rails.n; i++)
		json_object_set_new(rails, row->point_rails.v[i].name,
				    json_integer((json_int_t)p->rail_bytes[i]));
	set(o, "end_s", p->end_s);
	set(o, "gb_per_s", p->gb_per_s);
	set(o, "ops_per_s", p->ops_per_s);
	set(o, "gap_ms", p->gap_ms);
	json_object_set_new(o, "rail_bytes", rails);
	return o;
}

static json_t *series_json(const struct row *row)
{
	json_t *list = json_array();

	for (size_t i = 0; i < row->n_points; i++)
		json_array_append_new(list, point_json(row, &row->points[i]));
	return list;
}

static json_t *errors_json(const struct row *row)
{
	json_t *list = json_array();

	for (size_t i = 0; i < LOAD_ERRORS; i++)
		if (row->errors[i].n)
			json_array_append_new(
				list,
				json_pack("{s:i, s:s, s:I}", "error",
					  row->errors[i].error, "text",
					  te_strerror(row->errors[i].error),
					  "requests",
					  (json_int_t)row->errors[i].n));
	return list;
}

static json_t *kind_json(const struct row *row, const char *kind,
			 enum figure rate, enum figure share)
{
	json_t *o = json_object();

	json_object_set_new(o, "kind", json_string(kind));
	set(o, "gb_per_s", row_median(row, rate));
	set(o, "share", row_median(row, share));
	return o;
}

static void add_reference(json_t *o, const struct row *row)
{
	json_t *reference = json_object();

	set_figures(reference, row, STREAM_GB_PER_S, RAW_GB_PER_S);
	set_figures(reference, row, OF_PINGPONG_SPINNING, N_FIGURES);
	json_object_set_new(o, "reference", reference);
	if (row->raw)
		json_object_set_new(
			o, "raw",
			kind_json(row, row->raw, RAW_GB_PER_S, OF_RAW));
	if (row->bound)
		json_object_set_new(
			o, "bound",
			kind_json(row, row->bound, BOUND_GB_PER_S, OF_BOUND));
}

static json_t *row_json(const struct row *row, const struct options *o)
{
	json_t *j = json_pack(
		"{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "backend",
		o->backend, "carrier", row->carrier, "op", row->op, "size",
		(json_int_t)row->size, "batch", (json_int_t)row->batch,
		"threads", (json_int_t)row->threads, "rounds",
		(json_int_t)row->n_rounds, "checked_bytes",
		(json_int_t)row->checked_bytes, "wrong_bytes",
		(json_int_t)row->wrong_bytes, "failed",
		(json_int_t)row_failed(row));

	set_figures(j, row, 0, FIGURES_OURS);
	json_object_set_new(j, "spread", spread_json(row));
	json_object_set_new(j, "rails", rails_json(&row->rails));
	json_object_set_new(j, "errors", errors_json(row));
	if (o->interval)
		json_object_set_new(j, "series", series_json(row));
	if (o->reference)
		add_reference(j, row);
	if (strcmp(o->fault, "none")) {
		json_object_set_new(j, "fault_quiet",
				    json_boolean(row->fault_quiet));
		json_object_set_new(
			j, "bystander",
			json_pack("{s:I, s:I}", "requests",
				  (json_int_t)row->bystander_requests, "errors",
				  (json_int_t)row->bystander_errors));
	}
	return j;
}

int results_json(const struct results *r, const struct options *o)
{
	json_t *list = json_array(), *report;

	for (size_t i = 0; i < r->n_rows; i++)
		json_array_append_new(list, row_json(&r->row[i], o));
	report = json_pack("{s:o, s:I, s:b, s:b, s:b, s:s, s:f, s:I, s:o}",
			   "rows", list, "working_set",
			   (json_int_t)o->working_set, "hot", o->hot, "pinned",
			   o->pin, "foreign", o->foreign, "fault", o->fault,
			   "verify_percent", o->verify, "wrong_bytes",
			   (json_int_t)results_wrong_bytes(r), "machine",
			   tei_machine_json());
	if (report && o->reference)
		json_object_set_new(report, "congestion",
				    json_string(r->congestion));
	return tei_report_json("te-perf", report);
}
