/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enums.c - enumerations for Python
 */
#include "python/src/enums.h"

static PyObject *list_of(const struct py_member *members)
{
	PyObject *list = PyList_New(0), *pair;

	for (; list && members->name; members++) {
		pair = Py_BuildValue("(sI)", members->name, members->value);
		if (!pair || PyList_Append(list, pair))
			Py_CLEAR(list);
		Py_XDECREF(pair);
	}
	return list;
}

/* IntEnum's own text is the number. */
static int print_names(PyObject *package, PyObject *type)
{
	static const char *const methods[] = {"__str__", "__format__"};
	PyObject *plain = PyObject_GetAttrString(package, "Enum"), *method;
	int rc = plain ? 0 : -1;

	for (int i = 0; !rc && i < 2; i++) {
		method = PyObject_GetAttrString(plain, methods[i]);
		rc = method ? PyObject_SetAttrString(type, methods[i], method)
			    : -1;
		Py_XDECREF(method);
	}
	Py_XDECREF(plain);
	return rc;
}

static PyObject *call(PyObject *int_enum, const char *module, const char *name,
		      const struct py_member *members)
{
	PyObject *list = list_of(members);
	PyObject *args = NULL, *keywords = NULL, *type = NULL;

	if (list)
		args = Py_BuildValue("(sO)", name, list);
	if (args)
		keywords = Py_BuildValue("{ss}", "module", module);
	if (keywords)
		type = PyObject_Call(int_enum, args, keywords);
	Py_XDECREF(keywords);
	Py_XDECREF(args);
	Py_XDECREF(list);
	return type;
}

PyObject *py_enum_create(const char *module, const char *name,
			 const struct py_member *members)
{
	PyObject *package = PyImport_ImportModule("enum");
	PyObject *int_enum = NULL, *type = NULL;

	if (package)
		int_enum = PyObject_GetAttrString(package, "IntEnum");
	if (int_enum)
		type = call(int_enum, module, name, members);
	if (type && print_names(package, type))
		Py_CLEAR(type);
	Py_XDECREF(int_enum);
	Py_XDECREF(package);
	return type;
}
