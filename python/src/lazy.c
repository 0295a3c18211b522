/* SPDX-License-Identifier: Apache-2.0 */
#include "python/src/lazy.h"

#include <stdbool.h>

PyObject *py_lazy_get(const struct py_lazy *lazy, size_t n, const char *of,
		      PyObject *name)
{
	PyObject *module, *found;

	if (!PyUnicode_Check(name)) {
		PyErr_SetString(PyExc_TypeError, "a name must be a str");
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		if (!lazy[i].module ||
		    PyUnicode_CompareWithASCIIString(name, lazy[i].name))
			continue;
		module = PyImport_ImportModule(lazy[i].module);
		if (!module)
			return NULL;
		found = PyObject_GetAttr(module, name);
		Py_DECREF(module);
		return found;
	}
	PyErr_Format(PyExc_AttributeError, "module '%s' has no attribute %R",
		     of, name);
	return NULL;
}

static int append(PyObject *names, const char *text)
{
	PyObject *name = PyUnicode_FromString(text);
	int rc = name ? PyList_Append(names, name) : -1;

	Py_XDECREF(name);
	return rc;
}

PyObject *py_lazy_dir(PyObject *module, const struct py_lazy *lazy, size_t n)
{
	PyObject *names = PyDict_Keys(PyModule_GetDict(module));

	for (size_t i = 0; names && i < n; i++)
		if (append(names, lazy[i].name))
			Py_CLEAR(names);
	return names;
}

static bool is_public(PyObject *name)
{
	return PyUnicode_Check(name) && PyUnicode_GetLength(name) > 0 &&
	       PyUnicode_ReadChar(name, 0) != '_';
}

int py_lazy_add_all(PyObject *module, const struct py_lazy *lazy, size_t n)
{
	PyObject *names = py_lazy_dir(module, lazy, n), *all = PyList_New(0);
	int rc = names && all ? 0 : -1;

	for (Py_ssize_t i = 0; !rc && i < PyList_Size(names); i++)
		if (is_public(PyList_GetItem(names, i)))
			rc = PyList_Append(all, PyList_GetItem(names, i));
	if (!rc)
		rc = PyModule_AddObjectRef(module, "__all__", all);
	Py_XDECREF(all);
	Py_XDECREF(names);
	return rc;
}
