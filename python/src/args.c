/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.c - what Python passes, as C has it
 */
#include "python/src/args.h"

#include <string.h>

#include "python/src/warn.h"

static int wrong_type(const char *name, const char *wanted, PyObject *value)
{
	PyErr_Format(PyExc_TypeError, "%s must be %s, not %R", name, wanted,
		     (PyObject *)Py_TYPE(value));
	return PY_ARG_RAISED;
}

/* The int of an integer, a new reference; NULL: raised. */
static PyObject *index_of(PyObject *value, const char *name)
{
	if (!PyIndex_Check(value)) {
		(void)wrong_type(name, "an integer", value);
		return NULL;
	}
	return PyNumber_Index(value);
}

/* Clears an OverflowError, which is a value out of range here: PY_ARG_RANGE. */
static int overflow(void)
{
	if (!PyErr_ExceptionMatches(PyExc_OverflowError))
		return PY_ARG_RAISED;
	PyErr_Clear();
	return PY_ARG_RANGE;
}

int py_arg_uint64(PyObject *value, const char *name, uint64_t *out)
{
	PyObject *index = index_of(value, name);
	unsigned long long number;

	if (!index)
		return PY_ARG_RAISED;
	number = PyLong_AsUnsignedLongLong(index);
	Py_DECREF(index);
	if (number == (unsigned long long)-1 && PyErr_Occurred())
		return overflow();
	*out = number;
	return PY_ARG_OK;
}

int py_arg_number(const char *function, PyObject *value, const char *name,
		  uint64_t *out)
{
	int rc = py_arg_uint64(value, name, out);

	if (rc == PY_ARG_RANGE)
		py_warn(function, "%s is negative or beyond 64 bits", name);
	return rc;
}

int py_arg_int64(PyObject *value, const char *name, int64_t *out)
{
	PyObject *index = index_of(value, name);
	long long number;

	if (!index)
		return PY_ARG_RAISED;
	number = PyLong_AsLongLong(index);
	Py_DECREF(index);
	if (number == -1 && PyErr_Occurred())
		return overflow();
	*out = number;
	return PY_ARG_OK;
}

/* False: raised. */
static bool is_utf8(const char *bytes, Py_ssize_t len)
{
	PyObject *text = PyUnicode_DecodeUTF8(bytes, len, NULL);

	Py_XDECREF(text);
	return text != NULL;
}

int py_arg_text(PyObject *value, const char *name, const char **out)
{
	const char *text;
	Py_ssize_t len;

	if (PyUnicode_Check(value)) {
		text = PyUnicode_AsUTF8AndSize(value, &len);
	} else if (PyBytes_Check(value)) {
		text = PyBytes_AsString(value);
		len = PyBytes_Size(value);
		if (!is_utf8(text, len))
			text = NULL;
	} else {
		return wrong_type(name, "a str", value);
	}
	if (!text && PyErr_ExceptionMatches(PyExc_UnicodeError)) {
		PyErr_Clear(); /* half of a surrogate pair, or no UTF-8 */
		return PY_ARG_RANGE;
	}
	if (!text)
		return PY_ARG_RAISED;
	if (strlen(text) != (size_t)len)
		return PY_ARG_RANGE;
	*out = text;
	return PY_ARG_OK;
}

int py_arg_tuple(PyObject *value, const char *name, PyObject **out)
{
	PyObject *tuple;

	if (!PySequence_Check(value) || PyUnicode_Check(value) ||
	    PyBytes_Check(value) || PyByteArray_Check(value))
		return wrong_type(name, "a list or tuple", value);
	tuple = PySequence_Tuple(value);
	if (!tuple)
		return PY_ARG_RAISED;
	*out = tuple;
	return PY_ARG_OK;
}

int py_arg_numbers(PyObject *value, const char *name, struct py_numbers *out)
{
	struct py_numbers numbers = {0};
	PyObject *tuple;
	int rc = py_arg_tuple(value, name, &tuple);

	if (rc)
		return rc;
	numbers.n = (size_t)PyTuple_Size(tuple);
	numbers.values = PyMem_Malloc((numbers.n + 1) * sizeof(uint64_t));
	if (!numbers.values) {
		PyErr_NoMemory();
		rc = PY_ARG_RAISED;
	}
	for (size_t i = 0; !rc && i < numbers.n; i++)
		rc = py_arg_uint64(PyTuple_GetItem(tuple, (Py_ssize_t)i), name,
				   &numbers.values[i]);
	Py_DECREF(tuple);
	if (rc)
		py_numbers_free(&numbers);
	else
		*out = numbers;
	return rc;
}

void py_numbers_free(struct py_numbers *numbers)
{
	PyMem_Free(numbers->values);
	numbers->values = NULL;
}

int py_arg_view(PyObject *value, const char *name, bool writable,
		Py_buffer *out)
{
	if (!PyObject_CheckBuffer(value))
		return wrong_type(name, "a buffer", value);
	if (!PyObject_GetBuffer(value, out,
				writable ? PyBUF_WRITABLE : PyBUF_SIMPLE))
		return PY_ARG_OK;
	if (!PyErr_ExceptionMatches(PyExc_BufferError))
		return PY_ARG_RAISED;
	PyErr_Clear();
	return wrong_type(name,
			  writable ? "a contiguous writable buffer"
				   : "a contiguous buffer",
			  value);
}
