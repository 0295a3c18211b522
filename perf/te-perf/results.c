/* SPDX-License-Identifier: Apache-2.0 */
/* results.c - te-perf's rows for people: tables and what follows them */
#include "perf/te-perf/results.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <te/te.h>

#include "base/mem.h"
#include "perf/lib/reference.h"
#include "perf/lib/report.h"

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

#define SMALL 4096 /* requests below cost by number, not by bytes */

/* @format: a digit for the decimals, then what follows the number. */
static void add_number(struct tei_table *t, const char *format, double v)
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
	add_number(t, "2", row_median(row, GB_PER_S));
	add_number(t, "1", row_median(row, OPS_PER_S) / 1e3);
	add_number(t, "1", row_median(row, P50_US));
	add_number(t, "1", row_median(row, P99_US));
	add_number(t, "1", row_median(row, P999_US));
	if (row->size < SMALL)
		add_number(t, "1 us each", row_median(row, CPU_US_PER_REQUEST));
	else
		add_number(t, "3", row_median(row, CPU_S_PER_GB));
	if (o->rounds > 1)
		tei_table_cell(t, "%.2f..%.2f", row_min(row, GB_PER_S),
			       row_max(row, GB_PER_S));
	if (!o->reference)
		return;
	add_number(t, "2", row_median(row, RAW_GB_PER_S));
	add_number(t, "0 %", 100 * row_median(row, OF_RAW));
	add_number(t, "2", row_median(row, BOUND_GB_PER_S));
	add_number(t, "0 %", 100 * row_median(row, OF_BOUND));
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

static void reference_row(struct tei_table *t, const struct results *r,
			  const struct row *row)
{
	char text[24];

	tei_table_row(t);
	tei_table_cell(t, "%s %s, %s x %u, %u thr.", row->carrier, row->op,
		       tei_text_bytes(row->size, text), row->batch,
		       row->threads);
	for (size_t c = 0; c < N_COLUMNS; c++)
		if (results_have(r, columns[c].figure))
			add_number(t, columns[c].format,
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
		if (results_have(r, columns[c].figure))
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

/* Tells whether kernels of the engine copy what a row moves. */
static bool is_copied_here(const struct row *row, const struct options *o)
{
	return !strcmp(row->carrier, "loop") ||
	       (!strcmp(row->carrier, "shm") && !o->foreign);
}

static bool kernel_is_named(const struct options *o)
{
	return o->engine && strstr(o->engine, "copy_kernel=") &&
	       !strstr(o->engine, "copy_kernel=auto");
}

/* Says why no choice is printed, where the engine has copied. */
static void print_no_choice(const struct results *r, const struct options *o)
{
	size_t i = 0;

	while (i < r->n_rows && !is_copied_here(&r->row[i], o))
		i++;
	if (i == r->n_rows)
		return;
	if (kernel_is_named(o))
		printf("copies by the kernel that copy_kernel names\n");
	else
		printf("copies: no kernel chosen yet, too few large ones "
		       "were undisturbed\n");
}

/* Prints what the engine has measured: kernels of large copies, wake-ups. */
static void print_measurements(const struct results *r, const struct options *o)
{
	if (!r->n_choices)
		print_no_choice(r, o);
	for (size_t i = 0; i < r->n_choices; i++) {
		const struct copy_choice *c = &r->choices[i];

		printf("%s: %s, %.2f GB/s\n", c->copies, c->kernel,
		       c->gb_per_s);
	}
	if (r->wakeup_us > 0)
		printf("wake-up of a thread: %.1f us\n", r->wakeup_us);
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
	print_measurements(r, o);
	if (o->location || o->remote_location)
		printf("memory of %s, the target's of %s\n",
		       o->location ? o->location : "the host",
		       o->remote_location ? o->remote_location : "its host");
	if (o->reference)
		printf("raw sockets: congestion control %s\n",
		       r->congestion[0] ? r->congestion : "unknown");
	print_checked(r);
}

/* Prints tables, and what follows them. -ENOMEM. */
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
		return results_json(r, o);
	if (!o->csv)
		return print_table(r, o);
	results_csv(r, o); /* errors of stdout: tei_tool_main() */
	return 0;
}

int results_report(struct results *r, const struct options *o)
{
	uint64_t wrong = results_wrong_bytes(r);
	int rc = print_rows(r, o);

	if (!rc && tei_path_given(o->svg))
		rc = results_draw(r, o);
	if (!rc)
		rc = write_histograms(r);
	for (size_t i = 0; !o->json && i < r->n_rows; i++)
		say_what_failed(&r->row[i]);
	if (wrong)
		fprintf(stderr, "te-perf: %" PRIu64 " wrong bytes\n", wrong);
	return rc ? rc : wrong ? -EIO : 0;
}
