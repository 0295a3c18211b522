/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.c - what methods return, and arguments that many of them have
 */
#include "python/src/args.h"
#include "python/src/store/methods.h"

PyObject *ps_list_of_codes(const int *codes, size_t n)
{
	PyObject *list = PyList_New((Py_ssize_t)n), *code;

	for (size_t i = 0; list && i < n; i++) {
		code = PyLong_FromLong(codes[i]);
		if (!code || PyList_SetItem(list, (Py_ssize_t)i, code))
			Py_CLEAR(list);
	}
	return list;
}

PyObject *ps_list_of_sizes(const int64_t *sizes, size_t n)
{
	PyObject *list = PyList_New((Py_ssize_t)n), *size;

	for (size_t i = 0; list && i < n; i++) {
		size = PyLong_FromLongLong(sizes[i]);
		if (!size || PyList_SetItem(list, (Py_ssize_t)i, size))
			Py_CLEAR(list);
	}
	return list;
}

int *ps_codes(size_t n)
{
	int *codes = PyMem_Malloc((n + 1) * sizeof(*codes));

	for (size_t i = 0; codes && i < n; i++)
		codes[i] = TE_STORE_INVALID_PARAMS;
	if (!codes)
		PyErr_NoMemory();
	return codes;
}

int64_t *ps_sizes(size_t n)
{
	int64_t *sizes = PyMem_Malloc((n + 1) * sizeof(*sizes));

	for (size_t i = 0; sizes && i < n; i++)
		sizes[i] = TE_STORE_INVALID_PARAMS;
	if (!sizes)
		PyErr_NoMemory();
	return sizes;
}

int ps_arg_bool(PyObject *value, const char *name, bool *out)
{
	int64_t number = 0;
	int rc;

	*out = false;
	if (!value)
		return PY_ARG_OK;
	if (!PyIndex_Check(value)) {
		PyErr_Format(PyExc_TypeError, "%s must be a bool, not %R", name,
			     (PyObject *)Py_TYPE(value));
		return PY_ARG_RAISED;
	}
	rc = py_arg_int64(value, name, &number);
	if (rc == PY_ARG_RAISED)
		return rc;
	*out = rc == PY_ARG_RANGE || number;
	return PY_ARG_OK;
}
