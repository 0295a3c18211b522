/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plot.c - lines over a logarithmic axis of sizes, as SVG
 *
 * Names stand at the right end of their lines, moved apart where they would
 * touch, so that no legend has to be looked up.
 */
#include "perf/lib/plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "perf/lib/report.h"

#define WIDTH    900.0
#define LEFT     74.0
#define RIGHT    196.0 /* of it the names */
#define HEIGHT   330.0 /* of a panel's frame */
#define ABOVE    26.0
#define HEAD     58.0 /* a title and a subtitle */
#define BELOW    52.0
#define NAME_GAP 17.0

/* Told apart by most colour-blind readers, and on paper by their dashes. */
static const char *const colors[] = {"#1f5fbf", "#c8501e", "#2f8f4e",
				     "#8a3fa0", "#b08a00", "#007c89"};
#define N_COLORS (sizeof(colors) / sizeof(*colors))

struct frame {
	const struct tei_plot *plot;
	double top; /* of the frame, in the picture */
	double x_min, x_max, y_min, y_max;
};

/* ---- what is drawn ---- */

struct tei_plot_line *tei_plot_line(struct tei_plot *plot,
				    enum tei_plot_style style, const char *name)
{
	struct tei_plot_line *line;

	if (plot->n == TEI_PLOT_LINES)
		return NULL;
	line = &plot->line[plot->n++];
	line->style = style;
	snprintf(line->name, sizeof(line->name), "%s", name);
	return line;
}

void tei_plot_point(struct tei_plot_line *line, double x, double y, double low,
		    double high)
{
	size_t at = line->n;

	if (at == TEI_PLOT_POINTS || !isfinite(y) || !(x > 0) || y < 0)
		return;
	/* In the order of x, whatever order they come in. */
	for (; at && line->x[at - 1] > x; at--) {
		line->x[at] = line->x[at - 1];
		line->y[at] = line->y[at - 1];
		line->low[at] = line->low[at - 1];
		line->high[at] = line->high[at - 1];
	}
	line->x[at] = x;
	line->y[at] = y;
	line->low[at] = isfinite(low) ? low : y;
	line->high[at] = isfinite(high) ? high : y;
	line->n++;
}

/* ---- scales ---- */

static void measure_line(struct frame *f, const struct tei_plot_line *line)
{
	for (size_t i = 0; i < line->n; i++) {
		f->x_min = fmin(f->x_min, line->x[i]);
		f->x_max = fmax(f->x_max, line->x[i]);
		f->y_max = fmax(f->y_max, line->high[i]);
		if (line->low[i] > 0)
			f->y_min = fmin(f->y_min, line->low[i]);
	}
}

/* A step of 1, 2 or 5 that leaves four to ten of them. */
static double nice_step(double range)
{
	double step = pow(10, floor(log10(range)));

	if (range / step < 2)
		return step / 5;
	return range / step < 5 ? step / 2 : step;
}

static struct frame frame_of(const struct tei_plot *plot, double top)
{
	struct frame f = {plot, top, INFINITY, 0, INFINITY, 0};
	double step;

	for (size_t i = 0; i < plot->n; i++)
		measure_line(&f, &plot->line[i]);
	if (!(f.x_max > 0))
		f.x_min = f.x_max = 1;
	if (!(f.y_max > 0))
		f.y_min = f.y_max = 1;
	if (f.x_min == f.x_max) {
		f.x_min /= 2;
		f.x_max *= 2;
	}
	if (plot->log_y) {
		f.y_min = pow(10, floor(log10(f.y_min)));
		f.y_max = pow(10, ceil(log10(f.y_max)));
		if (f.y_min == f.y_max)
			f.y_max *= 10;
		return f;
	}
	step = nice_step(f.y_max);
	f.y_min = 0;
	f.y_max = ceil(f.y_max / step * 1.02) * step;
	return f;
}

static double at_x(const struct frame *f, double x)
{
	return LEFT + (WIDTH - LEFT - RIGHT) * log2(x / f->x_min) /
			      log2(f->x_max / f->x_min);
}

static double at_y(const struct frame *f, double y)
{
	double share = (y - f->y_min) / (f->y_max - f->y_min);

	if (f->plot->log_y)
		share = y > f->y_min
				? log(y / f->y_min) / log(f->y_max / f->y_min)
				: 0;
	return f->top + HEIGHT * (1 - share);
}

/* ---- axes ---- */

/* "1.5", "2000"; as a time "10 us", "2 ms". */
static void print_number(FILE *out, double v, bool is_time)
{
	if (!is_time)
		fprintf(out, "%g", v);
	else if (v >= 1e6)
		fprintf(out, "%g s", v / 1e6);
	else if (v >= 1e3)
		fprintf(out, "%g ms", v / 1e3);
	else
		fprintf(out, "%g us", v);
}

static void grid_y(FILE *out, const struct frame *f, double v)
{
	double y = at_y(f, v);

	fprintf(out,
		"<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
		"y2=\"%.1f\"/>\n<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" "
		"text-anchor=\"end\">",
		LEFT, WIDTH - RIGHT, y, y, LEFT - 8, y + 4);
	print_number(out, v, f->plot->time_y);
	fputs("</text>\n", out);
}

static void draw_y(FILE *out, const struct frame *f)
{
	double step = nice_step(f->y_max);
	double decades = round(log10(f->y_max / fmax(f->y_min, 1e-300)));

	for (int i = 0; f->plot->log_y && i <= (int)decades; i++)
		grid_y(out, f, f->y_min * pow(10, i));
	for (int i = 0; !f->plot->log_y && i * step <= f->y_max * 1.001; i++)
		grid_y(out, f, i * step);
	fprintf(out,
		"<text class=\"axis\" transform=\"translate(20 %.1f) "
		"rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
		f->top + HEIGHT / 2, f->plot->y_label);
}

/* Every power of two, or every second or fourth where they would touch. */
static double ratio_of(const struct frame *f)
{
	double n = log2(f->x_max / f->x_min);

	return n <= 14 ? 2 : n <= 28 ? 4 : 16;
}

static void draw_x(FILE *out, const struct frame *f)
{
	double first = exp2(ceil(log2(f->x_min))), v, x;
	char text[24];

	for (int i = 0;; i++) {
		v = first * pow(ratio_of(f), i);
		if (v > f->x_max * 1.001)
			break;
		x = at_x(f, v);
		fprintf(out,
			"<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" "
			"y1=\"%.1f\" y2=\"%.1f\"/>\n<text class=\"tick\" "
			"x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s"
			"</text>\n",
			x, x, f->top + HEIGHT, f->top + HEIGHT + 5, x,
			f->top + HEIGHT + 19,
			tei_text_bytes((uint64_t)v, text));
	}
	fprintf(out,
		"<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
		"y2=\"%.1f\"/>\n<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" "
		"text-anchor=\"middle\">%s</text>\n",
		LEFT, WIDTH - RIGHT, f->top + HEIGHT, f->top + HEIGHT,
		(LEFT + WIDTH - RIGHT) / 2, f->top + HEIGHT + 40,
		f->plot->x_label);
}

/* ---- lines ---- */

/*
 * Picks colours for ours, in the order they were added; greys for the bare
 * system.
 */
static const char *color_of(const struct tei_plot *plot, size_t index)
{
	size_t ours = 0;

	if (plot->line[index].style == TEI_PLOT_RAW)
		return "#6b6b6b";
	if (plot->line[index].style == TEI_PLOT_BOUND)
		return "#222222";
	for (size_t i = 0; i < index; i++)
		ours += plot->line[i].style == TEI_PLOT_OURS;
	return colors[ours % N_COLORS];
}

static void draw_spread(FILE *out, const struct frame *f,
			const struct tei_plot_line *line, const char *color)
{
	for (size_t i = 0; i < line->n; i++) {
		double x = at_x(f, line->x[i]);

		if (line->high[i] > line->low[i])
			fprintf(out,
				"<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
				"y2=\"%.1f\" stroke=\"%s\" "
				"stroke-width=\"5\" opacity=\"0.25\"/>\n",
				x, x, at_y(f, line->low[i]),
				at_y(f, line->high[i]), color);
	}
}

static void draw_line(FILE *out, const struct frame *f, size_t index)
{
	static const char *const dashes[] = {"none", "8 5", "2 4"};
	const struct tei_plot_line *line = &f->plot->line[index];
	const char *color = color_of(f->plot, index);

	if (line->style == TEI_PLOT_OURS)
		draw_spread(out, f, line, color);
	fprintf(out,
		"<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" "
		"stroke-dasharray=\"%s\" points=\"",
		color, line->style == TEI_PLOT_OURS ? "2.5" : "1.8",
		dashes[line->style]);
	for (size_t i = 0; i < line->n; i++)
		fprintf(out, "%.1f,%.1f ", at_x(f, line->x[i]),
			at_y(f, line->y[i]));
	fputs("\"/>\n", out);
	for (size_t i = 0; line->style == TEI_PLOT_OURS && i < line->n; i++)
		fprintf(out,
			"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" "
			"fill=\"%s\"/>\n",
			at_x(f, line->x[i]), at_y(f, line->y[i]), color);
}

/* Places the names at their line's end, pushed down where they touch. */
static void place_names(const struct frame *f, double y[TEI_PLOT_LINES],
			size_t order[TEI_PLOT_LINES])
{
	size_t n = f->plot->n, k;
	double below = f->top + HEIGHT;

	for (size_t i = 0; i < n; i++) {
		const struct tei_plot_line *line = &f->plot->line[i];

		y[i] = line->n ? at_y(f, line->y[line->n - 1]) : below;
		for (k = i; k && y[order[k - 1]] > y[i]; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
	for (size_t i = 1; i < n; i++)
		y[order[i]] = fmax(y[order[i]], y[order[i - 1]] + NAME_GAP);
	if (n && y[order[n - 1]] > below)
		y[order[n - 1]] = below;
	for (size_t i = n; i-- > 1;)
		y[order[i - 1]] = fmin(y[order[i - 1]], y[order[i]] - NAME_GAP);
}

static void draw_names(FILE *out, const struct frame *f)
{
	double y[TEI_PLOT_LINES] = {0};
	size_t order[TEI_PLOT_LINES] = {0};

	place_names(f, y, order);
	for (size_t i = 0; i < f->plot->n; i++) {
		const struct tei_plot_line *line = &f->plot->line[i];
		double end = line->n ? at_y(f, line->y[line->n - 1]) : y[i];

		fprintf(out,
			"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
			"y2=\"%.1f\" stroke=\"%s\" opacity=\"0.5\"/>\n"
			"<text class=\"name\" x=\"%.1f\" y=\"%.1f\" "
			"style=\"fill:%s\">%s</text>\n",
			WIDTH - RIGHT + 5, end, WIDTH - RIGHT + 17, y[i],
			color_of(f->plot, i), WIDTH - RIGHT + 21, y[i] + 4,
			color_of(f->plot, i), line->name);
	}
}

/* ---- the picture ---- */

static double head_of(const struct tei_plot *plot)
{
	return plot->title[0] ? HEAD : ABOVE;
}

static void draw_panel(FILE *out, const struct tei_plot *plot, double top)
{
	struct frame f = frame_of(plot, top + head_of(plot));

	if (plot->title[0])
		fprintf(out,
			"<text class=\"title\" x=\"%.1f\" y=\"%.1f\">%s"
			"</text>\n<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">"
			"%s</text>\n",
			LEFT, top + 24, plot->title, LEFT, top + 43,
			plot->subtitle);
	draw_y(out, &f);
	draw_x(out, &f);
	for (size_t i = plot->n; i-- > 0;) /* the first one on top */
		draw_line(out, &f, i);
	draw_names(out, &f);
}

static void draw_plots(FILE *out, const struct tei_plot *plots, size_t n)
{
	double height = 0, top = 0;

	for (size_t i = 0; i < n; i++)
		height += head_of(&plots[i]) + HEIGHT + BELOW;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
		"height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n<style>\n"
		"text { font-family: sans-serif; fill: #333 }\n"
		".title { font-size: 18px; font-weight: bold; fill: #111 }\n"
		".tick { font-size: 12px } .axis { font-size: 13px }\n"
		".name { font-size: 12.5px; font-weight: bold }\n"
		".grid { stroke: #e2e2e2 } .mark { stroke: #888 }\n"
		"</style>\n<rect width=\"100%%\" height=\"100%%\" "
		"fill=\"white\"/>\n",
		WIDTH, height, WIDTH, height);
	for (size_t i = 0; i < n; i++) {
		draw_panel(out, &plots[i], top);
		top += head_of(&plots[i]) + HEIGHT + BELOW;
	}
	fputs("</svg>\n", out);
}

int tei_plot_write(const struct tei_plot *plots, size_t n, const char *path)
{
	FILE *out = fopen(path, "we");
	bool bad;

	if (!out)
		return -errno;
	draw_plots(out, plots, n);
	bad = ferror(out);
	return fclose(out) || bad ? -EIO : 0;
}
