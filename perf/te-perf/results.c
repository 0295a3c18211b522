/* SPDX-License-Identifier: Apache-2.0 */
/* results.c - te-perf's rows: medians, tables, JSON, a drawing */
#include "perf/te-perf/results.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <te/te.h>

#include "base/mem.h"
#include "perf/lib/csv.h"
#include "perf/lib/plot.h"
#include "perf/lib/reference.h"
#include "perf/lib/report.h"

static json_t *real_or_null(double v)
{
	return isnan(v) || isinf(v) ? json_null() : json_real(v);
}

static void set_number(json_t *o, const char *name, double v)
{
	json_object_set_new(o, name, real_or_null(v));
}

/* Medians of the figures first .. last - 1. */
static void set_figures(json_t *o, const struct row *row, enum figure first,
			enum figure last)
{
	for (enum figure f = first; f < last; f++)
		set_number(o, figure_names[f], row_median(row, f));
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
	set_number(o, "end_s", p->end_s);
	set_number(o, "gb_per_s", p->gb_per_s);
	set_number(o, "ops_per_s", p->ops_per_s);
	set_number(o, "gap_ms", p->gap_ms);
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
	set_number(o, "gb_per_s", row_median(row, rate));
	set_number(o, "share", row_median(row, share));
	return o;
}

static void add_reference(json_t *o, const struct row *row)
{
	json_t *reference = json_object();

	set_figures(reference, row, STREAM_GB_PER_S, RAW_GB_PER_S);
	set_figures(reference, row, OF_PINGPONG_SPINNING, N_FIGURES);
	if (row->kernel)
		json_object_set_new(reference, "best_copy_kernel",
				    json_string(row->kernel));
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
	if (o->rate)
		json_object_set_new(j, "behind",
				    json_integer((json_int_t)row->behind));
	json_object_set_new(j, "spread", spread_json(row));
	json_object_set_new(j, "rails", rails_json(&row->rails));
	json_object_set_new(j, "errors", errors_json(row));
	if (row->from) {
		json_object_set_new(j, "from", json_string(row->from));
		json_object_set_new(j, "to", json_string(row->to));
	}
	if (o->location)
		json_object_set_new(j, "location", json_string(o->location));
	if (o->remote_location)
		json_object_set_new(j, "remote_location",
				    json_string(o->remote_location));
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

static json_t *choices_json(const struct results *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->n_choices; i++) {
		const struct copy_choice *c = &r->choices[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:f}", "copies",
						c->copies, "kernel", c->kernel,
						"gb_per_s", c->gb_per_s));
	}
	return list;
}

/* The two ways; -ENOMEM, -EIO. */
static int print_json(const struct results *r, const struct options *o)
{
	json_t *list = json_array(), *report;

	for (size_t i = 0; i < r->n_rows; i++)
		json_array_append_new(list, row_json(&r->row[i], o));
	report = json_pack(
		"{s:o, s:I, s:b, s:b, s:b, s:b, s:b, s:s, s:f, s:I, s:o, s:o}",
		"rows", list, "working_set", (json_int_t)o->working_set, "hot",
		o->hot, "random", o->random, "unaligned", o->unaligned,
		"pinned", o->pin, "foreign", o->foreign, "fault", o->fault,
		"verify_percent", o->verify, "wrong_bytes",
		(json_int_t)results_wrong_bytes(r), "choices", choices_json(r),
		"machine", tei_machine_json());
	if (report && o->rate)
		json_object_set_new(report, "rate",
				    json_integer((json_int_t)o->rate));
	if (report && o->reference)
		json_object_set_new(report, "congestion",
				    json_string(r->congestion));
	return tei_report_json("te-perf", report);
}

/* ---- CSV ---- */

static const char *const csv_names[] = {
	"backend", "carrier",       "from",       "to",     "op",
	"size",    "batch",         "threads",    "rounds", "failed",
	"behind",  "checked_bytes", "wrong_bytes"};

static void csv_row(struct tei_csv *c, const struct row *row,
		    const struct options *o, enum figure end)
{
	tei_csv_text(c, o->backend);
	tei_csv_text(c, row->carrier);
	tei_csv_text(c, row->from ? row->from : "");
	tei_csv_text(c, row->from ? row->to : "");
	tei_csv_text(c, row->op);
	tei_csv_integer(c, row->size);
	tei_csv_integer(c, row->batch);
	tei_csv_integer(c, row->threads);
	tei_csv_integer(c, row->n_rounds);
	tei_csv_integer(c, row_failed(row));
	tei_csv_integer(c, row->behind);
	tei_csv_integer(c, row->checked_bytes);
	tei_csv_integer(c, row->wrong_bytes);
	for (enum figure f = 0; f < end; f++)
		tei_csv_real(c, row_median(row, f));
	tei_csv_end(c);
}

static int print_csv(const struct results *r, const struct options *o)
{
	struct tei_csv c = {.out = stdout};
	enum figure end = o->reference ? N_FIGURES : FIGURES_OURS;

	for (size_t i = 0; i < sizeof(csv_names) / sizeof(*csv_names); i++)
		tei_csv_text(&c, csv_names[i]);
	tei_csv_names(&c, figure_names, end);
	for (size_t i = 0; i < r->n_rows; i++)
		csv_row(&c, &r->row[i], o, end);
	return 0; /* errors of stdout: tei_tool_main() */
}

/* ---- histograms ---- */

int results_open(struct results *r, const struct options *o)
{
	return tei_percentiles_open(&r->histograms, "te-perf", o->histogram);
}

static int write_histograms(struct results *r)
{
	char title[1024];

	for (size_t i = 0; i < r->n_rows; i++) {
		const struct row *row = &r->row[i];

		if (!row->latency)
			continue;
		snprintf(title, sizeof(title),
			 "%s %s, size %" PRIu64
			 ", batch %u, threads %u%s%s%s%s",
			 row->carrier, row->op, row->size, row->batch,
			 row->threads, row->from ? ", from " : "",
			 row->from ? row->from : "", row->from ? " to " : "",
			 row->from ? row->to : "");
		tei_percentiles_add(&r->histograms, title, row->latency);
	}
	return tei_percentiles_close(&r->histograms);
}

/* ---- a drawing ---- */

#define OURS_MAX 6

static bool same_line(const struct row *a, const struct row *b)
{
	return !strcmp(a->op, b->op) && a->batch == b->batch &&
	       a->threads == b->threads;
}

/* Points of all rows on @like's line. */
static void add_line(struct tei_plot *plot, const struct results *r,
		     const struct row *like, enum figure f,
		     enum tei_plot_style style, const char *name)
{
	struct tei_plot_line *line = tei_plot_line(plot, style, name);

	for (size_t i = 0; line && i < r->n_rows; i++)
		if (same_line(&r->row[i], like))
			tei_plot_point(line, (double)r->row[i].size,
				       row_median(&r->row[i], f),
				       row_min(&r->row[i], f),
				       row_max(&r->row[i], f));
}

/* The first row of each line. */
static size_t heads(const struct results *r, const struct row *out[OURS_MAX])
{
	size_t n = 0, k;

	for (size_t i = 0; i < r->n_rows; i++) {
		for (k = 0; k < n && !same_line(out[k], &r->row[i]); k++)
			;
		if (k == n && n < OURS_MAX)
			out[n++] = &r->row[i];
	}
	return n;
}

static const char *name_of(const struct row *row, bool one_shape,
			   char out[TEI_PLOT_NAME])
{
	if (one_shape)
		snprintf(out, TEI_PLOT_NAME, "%s %s", row->carrier, row->op);
	else
		snprintf(out, TEI_PLOT_NAME, "%s %s x %u, %u thr.",
			 row->carrier, row->op, row->batch, row->threads);
	return out;
}

static bool has_curve(const struct results *r, enum figure f)
{
	for (size_t i = 0; i < r->n_rows; i++)
		if (!isnan(row_median(&r->row[i], f)))
			return true;
	return false;
}

static void fill_rates(struct tei_plot *plot, const struct results *r,
		       const struct row *const head[], size_t n, bool one_shape)
{
	char name[TEI_PLOT_NAME];

	snprintf(plot->y_label, sizeof(plot->y_label), "GB/s");
	for (size_t i = 0; i < n; i++)
		add_line(plot, r, head[i], GB_PER_S, TEI_PLOT_OURS,
			 name_of(head[i], one_shape, name));
	if (has_curve(r, RAW_GB_PER_S)) {
		snprintf(name, sizeof(name), "raw: bare %s",
			 head[0]->raw ? head[0]->raw : "");
		add_line(plot, r, head[0], RAW_GB_PER_S, TEI_PLOT_RAW, name);
	}
	if (has_curve(r, BOUND_GB_PER_S)) {
		snprintf(name, sizeof(name), "bound: bare %s",
			 head[0]->bound ? head[0]->bound : "");
		add_line(plot, r, head[0], BOUND_GB_PER_S, TEI_PLOT_BOUND,
			 name);
	}
}

static void fill_latencies(struct tei_plot *plot, const struct results *r,
			   const struct row *const head[], size_t n,
			   bool one_shape)
{
	char name[TEI_PLOT_NAME];

	plot->log_y = plot->time_y = true;
	snprintf(plot->y_label, sizeof(plot->y_label), "p50 of a batch");
	for (size_t i = 0; i < n; i++)
		add_line(plot, r, head[i], P50_US, TEI_PLOT_OURS,
			 name_of(head[i], one_shape, name));
	if (has_curve(r, EXCHANGE_P50_US))
		add_line(plot, r, head[0], EXCHANGE_P50_US, TEI_PLOT_RAW,
			 "raw: bare exchange");
}

static void fill_titles(struct tei_plot *plot, const struct options *o,
			const struct row *row, bool one_shape)
{
	char shape[64] = "";

	if (one_shape)
		snprintf(shape, sizeof(shape), "batches of %u, %u thread%s, ",
			 row->batch, row->threads, row->threads > 1 ? "s" : "");
	snprintf(plot->title, sizeof(plot->title),
		 "te-perf: %s over request size", row->carrier);
	snprintf(plot->subtitle, sizeof(plot->subtitle),
		 "%s%s data, median of %d round%s%s", shape,
		 o->hot ? "hot" : "cold", (int)o->rounds,
		 o->rounds > 1 ? "s" : "",
		 o->rounds > 1 ? " (bars: min to max)" : "");
	snprintf(plot->x_label, sizeof(plot->x_label), "request size");
}

/* Draw the sweep to o->svg. -errno, said on stderr. */
static int draw_svg(const struct results *r, const struct options *o)
{
	struct tei_plot *plots = tei_calloc(2, sizeof(*plots));
	const struct row *head[OURS_MAX];
	size_t n = heads(r, head);
	bool one_shape = o->batches.n == 1 && o->thread_counts.n == 1;
	int rc = -ENOMEM;

	if (!plots)
		return rc;
	if (n) {
		fill_titles(&plots[0], o, head[0], one_shape);
		fill_rates(&plots[0], r, head, n, one_shape);
		snprintf(plots[1].x_label, sizeof(plots[1].x_label),
			 "request size");
		fill_latencies(&plots[1], r, head, n, one_shape);
	}
	rc = tei_plot_write(plots, 2, o->svg);
	if (rc)
		fprintf(stderr, "te-perf: svg: cannot write %s: %s\n", o->svg,
			te_strerror(rc));
	tei_free(plots);
	return rc;
}

#define SMALL 4096 /* requests below cost by number, not by bytes */

/* @format: a digit for the decimals, then what follows the number. */
static void cell(struct tei_table *t, const char *format, double v)
{
	char text[TEI_TABLE_CELL];

	if (isnan(v) || isinf(v)) {
		tei_table_cell(t, "-");
		return;
	}
	snprintf(text, sizeof(text), "%.*f", *format - '0', v);
	tei_table_cell(t, "%s%s", text, format + 1);
}

static void table_head(struct tei_table *t, const struct options *o)
{
	static const char *const names[] = {
		"operation", "size",   "batch",  "threads", "GB/s",
		"1000/s",    "p50 us", "p99 us", "p999 us", "CPU s/GB"};

	tei_table_row(t);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		tei_table_cell(t, "%s", names[i]);
		if (i || !o->pairs.n)
			continue;
		tei_table_cell(t, "from");
		tei_table_cell(t, "to");
	}
	if (o->rounds > 1)
		tei_table_cell(t, "GB/s min..max");
	if (!o->reference)
		return;
	tei_table_cell(t, "raw");
	tei_table_cell(t, "of raw");
	tei_table_cell(t, "bound");
	tei_table_cell(t, "of bound");
}

static void table_row(struct tei_table *t, const struct options *o,
		      const struct row *row)
{
	char text[24];

	tei_table_row(t);
	tei_table_cell(t, "%s%s%s", row->carrier, *row->carrier ? " " : "",
		       row->op);
	if (row->from) {
		tei_table_cell(t, "%s", row->from);
		tei_table_cell(t, "%s", row->to);
	}
	tei_table_cell(t, "%s", tei_text_bytes(row->size, text));
	tei_table_cell(t, "%u", row->batch);
	tei_table_cell(t, "%u", row->threads);
	cell(t, "2", row_median(row, GB_PER_S));
	cell(t, "1", row_median(row, OPS_PER_S) / 1e3);
	cell(t, "1", row_median(row, P50_US));
	cell(t, "1", row_median(row, P99_US));
	cell(t, "1", row_median(row, P999_US));
	if (row->size < SMALL)
		cell(t, "1 us each", row_median(row, CPU_US_PER_REQUEST));
	else
		cell(t, "3", row_median(row, CPU_S_PER_GB));
	if (o->rounds > 1)
		tei_table_cell(t, "%.2f..%.2f", row_min(row, GB_PER_S),
			       row_max(row, GB_PER_S));
	if (!o->reference)
		return;
	cell(t, "2", row_median(row, RAW_GB_PER_S));
	cell(t, "0 %", 100 * row_median(row, OF_RAW));
	cell(t, "2", row_median(row, BOUND_GB_PER_S));
	cell(t, "0 %", 100 * row_median(row, OF_BOUND));
}

/* ---- the bare system ---- */

static const struct {
	enum figure figure;
	const char *name, *format;
} columns[] = {
	{STREAM_GB_PER_S, "stream GB/s", "2"},
	{STREAM_CPU_S_PER_GB, "its CPU s/GB", "3"},
	{CPU_OF_STREAM, "ours", "2 x"},
	{EXCHANGE_GB_PER_S, "exchange GB/s", "2"},
	{EXCHANGE_P50_US, "p50 us", "1"},
	{PINGPONG_SPINNING_US, "ping-pong us", "1"},
	{OF_PINGPONG_SPINNING, "ours", "2 x"},
	{PINGPONG_BLOCKING_US, "blocking us", "1"},
	{OF_PINGPONG_BLOCKING, "ours", "2 x"},
	{MEMCPY_GB_PER_S, "memcpy GB/s", "2"},
	{BEST_COPY_GB_PER_S, "best copy GB/s", "2"},
	{PROCESS_VM_GB_PER_S, "process_vm GB/s", "2"},
	{P99_OF_IDEAL, "p99 of ideal", "2 x"},
};
#define N_COLUMNS (sizeof(columns) / sizeof(*columns))

static bool has(const struct results *r, enum figure f)
{
	for (size_t i = 0; i < r->n_rows; i++)
		if (!isnan(row_median(&r->row[i], f)))
			return true;
	return false;
}

static void reference_row(struct tei_table *t, const struct results *r,
			  const struct row *row)
{
	char text[24];

	tei_table_row(t);
	tei_table_cell(t, "%s %s, %s x %u, %u thr.", row->carrier, row->op,
		       tei_text_bytes(row->size, text), row->batch,
		       row->threads);
	for (size_t c = 0; c < N_COLUMNS; c++)
		if (has(r, columns[c].figure))
			cell(t, columns[c].format,
			     row_median(row, columns[c].figure));
}

static int print_reference(const struct results *r)
{
	struct tei_table *t = tei_calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	tei_table_row(t);
	tei_table_cell(t, "bare system beside");
	for (size_t c = 0; c < N_COLUMNS; c++)
		if (has(r, columns[c].figure))
			tei_table_cell(t, "%s", columns[c].name);
	for (size_t i = 0; i < r->n_rows; i++)
		reference_row(t, r, &r->row[i]);
	putchar('\n');
	tei_table_print(t, stdout);
	tei_free(t);
	return 0;
}

/* ---- what follows the tables ---- */

static void print_name(const struct row *row)
{
	char text[24];

	printf("%s %s, %s x %u", row->carrier, row->op,
	       tei_text_bytes(row->size, text), row->batch);
	if (row->from)
		printf(", %s to %s", row->from, row->to);
	printf(": ");
}

/* Rails that have carried something. */
static size_t count_rails(const struct rails *rails)
{
	size_t n = 0;

	for (size_t i = 0; i < rails->n; i++)
		n += rails->v[i].bytes != 0;
	return n;
}

static void list_rails(const struct rails *rails)
{
	double sum = (double)rails_sum(rails);
	const char *comma = "rails ";
	char text[24];

	for (size_t i = 0; i < rails->n; i++) {
		if (!rails->v[i].bytes && rails->v[i].state == TE_RAIL_UP)
			continue;
		printf("%s%s %s (%.0f %%", comma, rails->v[i].name,
		       tei_text_bytes(rails->v[i].bytes, text),
		       sum > 0 ? 100 * (double)rails->v[i].bytes / sum : 0);
		if (rails->v[i].numa_node >= 0)
			printf(", node %d", rails->v[i].numa_node);
		putchar(')');
		if (rails->v[i].state != TE_RAIL_UP)
			printf(" %s", te_rail_state_name(rails->v[i].state));
		comma = ", ";
	}
	putchar('\n');
}

/* Prints rails of each row that has used several, or else once for all. */
static void print_rails(const struct results *r)
{
	struct rails all = r->row[0].rails;
	bool several = false;

	for (size_t i = 0; i < r->n_rows; i++) {
		several |= count_rails(&r->row[i].rails) > 1;
		if (i)
			rails_add(&all, &r->row[i].rails);
	}
	if (!several && count_rails(&all) == 1)
		list_rails(&all);
	for (size_t i = 0; (several || count_rails(&all) > 1) && i < r->n_rows;
	     i++) {
		print_name(&r->row[i]);
		list_rails(&r->row[i].rails);
	}
}

static void print_probe(const struct row *row)
{
	double p50 = row_median(row, PROBE_P50_US);

	if (isnan(p50))
		return;
	print_name(row);
	printf("urgent 8 B beside: p50 %.1f us, p99 %.1f us, p999 %.1f us\n",
	       p50, row_median(row, PROBE_P99_US),
	       row_median(row, PROBE_P999_US));
}

static void print_fault(const struct row *row, const struct options *o)
{
	if (!strcmp(o->fault, "none"))
		return;
	print_name(row);
	printf("memory %s after the end, another peer had %" PRIu64
	       " requests and %" PRIu64 " errors\n",
	       row->fault_quiet ? "quiet" : "TOUCHED", row->bystander_requests,
	       row->bystander_errors);
}

static void print_failed(const struct row *row)
{
	double late = row_median(row, LATE_MS);

	if (!row_failed(row))
		return;
	print_name(row);
	printf("%" PRIu64 " requests failed", row_failed(row));
	if (!isnan(late))
		printf(", the latest %.1f ms %s its deadline", fabs(late),
		       late < 0 ? "before" : "after");
	putchar('\n');
}

static void print_behind(const struct row *row)
{
	if (!row->behind)
		return;
	print_name(row);
	printf("%" PRIu64 " batches were due and had not begun at the end\n",
	       row->behind);
}

static void print_gap(const struct row *row)
{
	print_name(row);
	printf("longest time without a completed batch %.1f ms\n",
	       row_max(row, GAP_MS));
}

static void print_checked(const struct results *r)
{
	uint64_t checked = 0;
	char text[24];

	for (size_t i = 0; i < r->n_rows; i++)
		checked += r->row[i].checked_bytes;
	if (checked)
		printf("%s compared, %" PRIu64 " wrong bytes\n",
		       tei_text_bytes(checked, text), results_wrong_bytes(r));
}

/* The kernels that large copies went by, as the engine measured them. */
static void print_choices(const struct results *r, const struct options *o)
{
	for (size_t i = 0; i < r->n_choices; i++) {
		const struct copy_choice *c = &r->choices[i];

		printf("%s: %s, %.2f GB/s\n", c->copies, c->kernel,
		       c->gb_per_s);
	}
	for (size_t i = 0; i < r->n_rows && o->reference; i++) {
		if (!r->row[i].kernel)
			continue;
		print_name(&r->row[i]);
		printf("best copy by %s\n", r->row[i].kernel);
	}
}

static void print_notes(const struct results *r, const struct options *o)
{
	putchar('\n');
	for (size_t i = 0; i < r->n_rows; i++) {
		const struct row *row = &r->row[i];

		print_probe(row);
		print_behind(row);
		print_fault(row, o);
		print_failed(row);
		if (o->interval || row_failed(row))
			print_gap(row);
	}
	print_rails(r);
	print_choices(r, o);
	if (o->location || o->remote_location)
		printf("memory of %s, the target's of %s\n",
		       o->location ? o->location : "the host",
		       o->remote_location ? o->remote_location : "its host");
	if (o->reference)
		printf("raw sockets: congestion control %s\n",
		       r->congestion[0] ? r->congestion : "unknown");
	print_checked(r);
}

/* The two ways; -ENOMEM, -EIO. */
static int print_table(const struct results *r, const struct options *o)
{
	struct tei_table *t = tei_calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	table_head(t, o);
	for (size_t i = 0; i < r->n_rows; i++)
		table_row(t, o, &r->row[i]);
	tei_table_print(t, stdout);
	tei_free(t);
	if (o->reference && print_reference(r))
		return -ENOMEM;
	print_notes(r, o);
	return 0;
}

static void say_what_failed(const struct row *row)
{
	for (size_t i = 0; i < LOAD_ERRORS; i++)
		if (row->errors[i].n)
			fprintf(stderr,
				"te-perf: %s%s%s%s%" PRIu64
				" requests failed: %s\n",
				row->from ? row->from : "",
				row->from ? " to " : "",
				row->from ? row->to : "", row->from ? ": " : "",
				row->errors[i].n,
				te_strerror(row->errors[i].error));
}

static int print_rows(const struct results *r, const struct options *o)
{
	if (o->json)
		return print_json(r, o);
	return o->csv ? print_csv(r, o) : print_table(r, o);
}

int results_report(struct results *r, const struct options *o)
{
	uint64_t wrong = results_wrong_bytes(r);
	int rc = print_rows(r, o);

	if (!rc && tei_path_given(o->svg))
		rc = draw_svg(r, o);
	if (!rc)
		rc = write_histograms(r);
	for (size_t i = 0; !o->json && i < r->n_rows; i++)
		say_what_failed(&r->row[i]);
	if (wrong)
		fprintf(stderr, "te-perf: %" PRIu64 " wrong bytes\n", wrong);
	return rc ? rc : wrong ? -EIO : 0;
}
