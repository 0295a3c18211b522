/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - members of JSON that must be there; what is not fails the test */
#ifndef TESTS_LIB_JSON_H
#define TESTS_LIB_JSON_H

#include <jansson.h>

#include "tests/lib/test.h"

static inline json_int_t test_json_number(const json_t *root, const char *name)
{
	assert_true(json_is_integer(json_object_get(root, name)));
	return json_integer_value(json_object_get(root, name));
}

/* Lives as long as @root. */
static inline const char *test_json_text(const json_t *root, const char *name)
{
	assert_true(json_is_string(json_object_get(root, name)));
	return json_string_value(json_object_get(root, name));
}

#endif
