/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fields.c - a row of a report for machines: the same names in JSON and in CSV
 */
#include "perf/lib/fields.h"

#include <math.h>

static json_t *value_json(const struct tei_field *f)
{
	switch (f->kind) {
	case TEI_FIELD_TEXT:
		return f->text ? json_string(f->text) : json_null();
	case TEI_FIELD_COUNT:
		return json_integer((json_int_t)f->count);
	default:
		return isfinite(f->real) ? json_real(f->real) : json_null();
	}
}

json_t *tei_fields_json(const struct tei_field *field, size_t n)
{
	json_t *o = json_object();

	for (size_t i = 0; i < n; i++)
		tei_json_set(&o, field[i].name, value_json(&field[i]));
	return o;
}

void tei_json_set(json_t **object, const char *name, json_t *value)
{
	/* jansson refuses NULL on either side, and releases the other. */
	if (!json_object_set_new(*object, name, value))
		return;
	json_decref(*object);
	*object = NULL;
}

void tei_json_append(json_t **array, json_t *value)
{
	if (!json_array_append_new(*array, value))
		return;
	json_decref(*array);
	*array = NULL;
}

void tei_fields_csv_names(const struct tei_field *field, size_t n,
			  struct tei_csv *csv)
{
	for (size_t i = 0; i < n; i++)
		tei_csv_text(csv, field[i].name);
	tei_csv_end(csv);
}

void tei_fields_csv(const struct tei_field *field, size_t n,
		    struct tei_csv *csv)
{
	for (size_t i = 0; i < n; i++) {
		if (field[i].kind == TEI_FIELD_TEXT)
			tei_csv_text(csv, field[i].text ? field[i].text : "");
		else if (field[i].kind == TEI_FIELD_COUNT)
			tei_csv_integer(csv, field[i].count);
		else
			tei_csv_real(csv, field[i].real);
	}
	tei_csv_end(csv);
}
