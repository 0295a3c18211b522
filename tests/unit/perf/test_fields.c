/* SPDX-License-Identifier: Apache-2.0 */
/* test_fields.c - a row has the same names and values in JSON and in CSV */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "perf/lib/fields.h"

#define N 5

static void row(struct tei_field out[N])
{
	out[0] = TEI_TEXT("op", "get:1,put:2");
	out[1] = TEI_COUNT("keys", 12345678901);
	out[2] = TEI_REAL("p50_us", 1.5);
	out[3] = TEI_REAL("cpu_s_per_gb", NAN);
	out[4] = TEI_TEXT("from", NULL);
}

static void csv_has_a_line_of_names_and_a_line_of_values(void **state)
{
	char text[256] = "";
	struct tei_csv csv = {.out = fmemopen(text, sizeof(text), "w")};
	struct tei_field fields[N];

	(void)state;
	assert_non_null(csv.out);
	row(fields);
	tei_fields_csv_names(fields, N, &csv);
	tei_fields_csv(fields, N, &csv);
	fclose(csv.out);
	assert_string_equal(text, "op,keys,p50_us,cpu_s_per_gb,from\r\n"
				  "\"get:1,put:2\",12345678901,1.5,,\r\n");
}

static void json_has_null_for_what_is_not_known(void **state)
{
	struct tei_field fields[N];
	json_t *o;
	char *text;

	(void)state;
	row(fields);
	o = tei_fields_json(fields, N);
	assert_non_null(o);
	text = json_dumps(o, JSON_COMPACT);
	assert_string_equal(text,
			    "{\"op\":\"get:1,put:2\",\"keys\":12345678901,"
			    "\"p50_us\":1.5,\"cpu_s_per_gb\":null,"
			    "\"from\":null}");
	free(text);
	json_decref(o);
}

static void what_lacks_memory_is_nothing_at_all(void **state)
{
	json_t *object = json_object(), *array = json_array();

	(void)state;
	tei_json_set(&object, "a", json_integer(1));
	tei_json_append(&array, json_integer(1));
	assert_int_equal(json_object_size(object), 1);
	assert_int_equal(json_array_size(array), 1);
	tei_json_set(&object, "b", NULL);
	tei_json_append(&array, NULL);
	assert_null(object);
	assert_null(array);
	tei_json_set(&object, "c", json_integer(1));
	tei_json_append(&array, json_integer(1));
	assert_null(object);
	assert_null(array);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_has_a_line_of_names_and_a_line_of_values),
		cmocka_unit_test(json_has_null_for_what_is_not_known),
		cmocka_unit_test(what_lacks_memory_is_nothing_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
