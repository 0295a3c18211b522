/* SPDX-License-Identifier: Apache-2.0 */
#include "python/src/lazy.h"

PyObject *py_lazy_get(const struct py_lazy *lazy, size_t n, const char *of,
		      PyObject *name)
{
	PyObject *module, *found;

	if (!PyUnicode_Check(name)) {
		PyErr_SetString(PyExc_TypeError, "a name must be a str");
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		if (PyUnicode_CompareWithASCIIString(name, lazy[i].name))
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
