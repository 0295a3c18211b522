/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figures.c - what was measured, one figure a row
 */
#include "tests/bench/core-perf/figures.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "perf/lib/report.h"

struct figure *figures_add(struct figures *f, const char *unit, double value,
			   const char *format, ...)
{
	struct figure *row;
	va_list args;

	f->n += f->n < FIGURES_MAX;
	row = &f->row[f->n - 1];
	*row = (struct figure){.unit = unit, .value = value};
	va_start(args, format);
	vsnprintf(row->what, sizeof(row->what), format, args);
	va_end(args);
	return row;
}

static bool has_goal(const struct figure *r)
{
	return r->least > 0 || r->most > 0;
}

static bool is_met(const struct figure *r)
{
	return (r->least <= 0 || r->value >= r->least) &&
	       (r->most <= 0 || r->value <= r->most);
}

static json_t *row_json(const struct figure *r)
{
	json_t *o = json_pack("{s:s, s:s, s:f}", "what", r->what, "unit",
			      r->unit, "value", r->value);

	if (r->least > 0)
		json_object_set_new(o, "least", json_real(r->least));
	if (r->most > 0)
		json_object_set_new(o, "most", json_real(r->most));
	if (has_goal(r))
		json_object_set_new(o, "met", json_boolean(is_met(r)));
	if (r->beside) {
		json_object_set_new(o, "reference", json_string(r->beside));
		json_object_set_new(o, "reference_value", json_real(r->raw));
	}
	return o;
}

static int report_json(const struct figures *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->n; i++)
		json_array_append_new(list, row_json(&f->row[i]));
	return tei_report_json("te-core-perf",
			       json_pack("{s:o, s:o}", "machine",
					 tei_machine_json(), "rows", list));
}

static void cell_number(struct tei_table *t, double x)
{
	double size = x < 0 ? -x : x;

	tei_table_cell(t, size >= 1000 ? "%.0f" : "%.3g", x);
}

static void table_row(struct tei_table *t, const struct figure *r)
{
	double goal = r->least > 0 ? r->least : r->most;

	tei_table_row(t);
	tei_table_cell(t, "%.39s", r->what);
	cell_number(t, r->value);
	tei_table_cell(t, "%s", r->unit);
	if (has_goal(r))
		tei_table_cell(t, "%s %.6g%s", r->least > 0 ? ">=" : "<=", goal,
			       is_met(r) ? "" : " missed");
	else
		tei_table_cell(t, "%s", "");
	if (!r->beside)
		return;
	cell_number(t, r->raw);
	tei_table_cell(t, "%s", r->beside);
}

int figures_report(const struct figures *f, bool json)
{
	static const char *const head[] = {"what", "value", "unit",
					   "goal", "raw",   "of"};
	struct tei_table *t;

	if (json)
		return report_json(f);
	t = tei_calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	tei_table_texts(t, head, sizeof(head) / sizeof(*head));
	for (size_t i = 0; i < f->n; i++)
		table_row(t, &f->row[i]);
	tei_table_print(t, stdout);
	tei_free(t);
	return 0;
}
