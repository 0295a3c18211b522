/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c - a drawing of te-perf's rows over the size of requests */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <te/te.h>

#include "base/mem.h"
#include "perf/lib/plot.h"
#include "perf/te-perf/results.h"

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

/* Finds the first row of each line; returns how many. */
static size_t find_heads(const struct results *r,
			 const struct row *out[OURS_MAX])
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

static void fill_rates(struct tei_plot *plot, const struct results *r,
		       const struct row *const head[], size_t n, bool one_shape)
{
	char name[TEI_PLOT_NAME];

	snprintf(plot->y_label, sizeof(plot->y_label), "GB/s");
	for (size_t i = 0; i < n; i++)
		add_line(plot, r, head[i], GB_PER_S, TEI_PLOT_OURS,
			 name_of(head[i], one_shape, name));
	if (results_have(r, RAW_GB_PER_S)) {
		snprintf(name, sizeof(name), "raw: bare %s",
			 head[0]->raw ? head[0]->raw : "");
		add_line(plot, r, head[0], RAW_GB_PER_S, TEI_PLOT_RAW, name);
	}
	if (results_have(r, BOUND_GB_PER_S)) {
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
	if (results_have(r, EXCHANGE_P50_US))
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

int results_draw(const struct results *r, const struct options *o)
{
	struct tei_plot *plots = tei_calloc(2, sizeof(*plots));
	const struct row *head[OURS_MAX];
	size_t n = find_heads(r, head);
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
