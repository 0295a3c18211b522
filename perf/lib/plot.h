/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plot.h - lines over a logarithmic axis of sizes, as SVG
 */
#ifndef PERF_LIB_PLOT_H
#define PERF_LIB_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#define TEI_PLOT_NAME   64
#define TEI_PLOT_LINES  12
#define TEI_PLOT_POINTS 64

enum tei_plot_style {
	TEI_PLOT_OURS,  /* solid, with marks */
	TEI_PLOT_RAW,   /* dashed */
	TEI_PLOT_BOUND, /* dotted */
};

struct tei_plot_line {
	enum tei_plot_style style;
	char name[TEI_PLOT_NAME];
	size_t n;
	double x[TEI_PLOT_POINTS], y[TEI_PLOT_POINTS];
	double low[TEI_PLOT_POINTS], high[TEI_PLOT_POINTS];
};

/* A panel; all zero is an empty one. Empty titles take no room. */
struct tei_plot {
	char title[128], subtitle[128], x_label[32], y_label[32];
	bool log_y;  /* else it begins at 0 */
	bool time_y; /* y is microseconds */
	size_t n;
	struct tei_plot_line line[TEI_PLOT_LINES];
};

/* Add a line; NULL: no room. */
struct tei_plot_line *tei_plot_line(struct tei_plot *plot,
				    enum tei_plot_style style,
				    const char *name);
/*
 * Adds a point with the spread around it. Left out: without room, x not above
 * 0, values that are not numbers, with a logarithmic axis y not above 0.
 */
void tei_plot_point(struct tei_plot_line *line, double x, double y, double low,
		    double high);

/* Draws panels plots[n], one below the other, into a file. -errno. */
int tei_plot_write(const struct tei_plot *plots, size_t n, const char *path);

#endif
