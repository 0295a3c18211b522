/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enums.h - enumerations for Python: integers that print their names
 */
#ifndef PYTHON_ENUMS_H
#define PYTHON_ENUMS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

struct py_member {
	const char *name; /* NULL ends a list */
	uint32_t value;   /* of two with one value the second is an alias */
};

/*
 * An enum.IntEnum called @name in @module, whose members are also equal to
 * plain integers, but whose text is that of Mooncake's:
 * "ReplicaStatus.COMPLETE". A new reference; NULL: raised. With the GIL held.
 */
PyObject *py_enum_create(const char *module, const char *name,
			 const struct py_member *members);

#endif
