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

/* Formats the name; the Enum of 3.10 would format the number. */
static PyObject *format(PyObject *self, PyObject *spec)
{
	PyObject *text = PyObject_Str(self);
	PyObject *result = text ? PyObject_Format(text, spec) : NULL;

	Py_XDECREF(text);
	return result;
}

/* Takes @method, which may be NULL: raised. */
static int add_method(PyObject *type, const char *name, PyObject *method)
{
	int rc = method ? PyObject_SetAttrString(type, name, method) : -1;

	Py_XDECREF(method);
	return rc;
}

/* IntEnum's own text is the number. */
static int print_names(PyObject *package, PyObject *type)
{
	static PyMethodDef formats = {"__format__", format, METH_O, NULL};
	PyObject *plain = PyObject_GetAttrString(package, "Enum");
	int rc = -1;

	if (plain)
		rc = add_method(type, "__str__",
				PyObject_GetAttrString(plain, "__str__"));
	if (!rc)
		rc = add_method(
			type, formats.ml_name,
			PyDescr_NewMethod((PyTypeObject *)type, &formats));
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
