/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fields.h - a row of a report for machines: the same names in JSON and in CSV
 *
 * Names end with the unit. Rows of one report have the same fields.
 */
#ifndef PERF_LIB_FIELDS_H
#define PERF_LIB_FIELDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/lib/csv.h"

struct tei_field {
	const char *name; /* static */
	enum { TEI_FIELD_TEXT, TEI_FIELD_COUNT, TEI_FIELD_REAL } kind;
	const char *text; /* not owned; NULL: not known */
	uint64_t count;
	double real; /* NAN and infinities: not known */
};

#define TEI_TEXT(name_, text_) \
	((struct tei_field){   \
		.name = (name_), .kind = TEI_FIELD_TEXT, .text = (text_)})
#define TEI_COUNT(name_, count_) \
	((struct tei_field){     \
		.name = (name_), .kind = TEI_FIELD_COUNT, .count = (count_)})
#define TEI_REAL(name_, real_) \
	((struct tei_field){   \
		.name = (name_), .kind = TEI_FIELD_REAL, .real = (real_)})

/* A new object of field[@n]; what is not known is null. NULL: no memory. */
json_t *tei_fields_json(const struct tei_field *field, size_t n);
/* Writes a row of CSV: their names, or their values. */
void tei_fields_csv_names(const struct tei_field *field, size_t n,
			  struct tei_csv *csv);
void tei_fields_csv(const struct tei_field *field, size_t n,
		    struct tei_csv *csv);

/*
 * Add @value, whose reference they take, to an object or an array. Without
 * memory, for which a NULL @value also stands, the whole is freed and becomes
 * NULL, which it stays: so one look at the end sees every failure.
 */
void tei_json_set(json_t **object, const char *name, json_t *value);
void tei_json_append(json_t **array, json_t *value);

#endif
