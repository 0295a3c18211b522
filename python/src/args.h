/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.h - what Python passes, as C has it
 *
 * A value of the wrong type raises a TypeError that names the argument. A value
 * of the right type that cannot be meant (a negative length, say) raises
 * nothing: callers return the code that their method has for it.
 *
 * Integers are whatever has __index__. Threads: all of this with the GIL held.
 */
#ifndef PYTHON_ARGS_H
#define PYTHON_ARGS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum py_arg {
	PY_ARG_OK = 0,
	PY_ARG_RAISED = -1, /* an exception is set: return NULL */
	PY_ARG_RANGE = 1,   /* the content is wrong, and nothing is raised */
};

/* Converters: @name is the argument's; *out is written on PY_ARG_OK only. */

/* PY_ARG_RANGE: negative, or 2^64 and more. */
int py_arg_uint64(PyObject *value, const char *name, uint64_t *out);
/* The same, and the log of @function says what is out of range. */
int py_arg_number(const char *function, PyObject *value, const char *name,
		  uint64_t *out);
/* PY_ARG_RANGE: outside of 64 bits with a sign. */
int py_arg_int64(PyObject *value, const char *name, int64_t *out);

/*
 * A str, or bytes in UTF-8. *out is borrowed from @value and ends with a 0.
 * PY_ARG_RANGE: it has a 0 inside, or is no UTF-8.
 */
int py_arg_text(PyObject *value, const char *name, const char **out);

struct py_numbers {
	uint64_t *values; /* values[n] */
	size_t n;
};

/*
 * A list or tuple, or any other sequence but str and bytes, of integers.
 * PY_ARG_RANGE: one of them is, as for py_arg_uint64(). Free what comes.
 */
int py_arg_numbers(PyObject *value, const char *name, struct py_numbers *out);
void py_numbers_free(struct py_numbers *numbers); /* all zero is fine */

/*
 * A sequence as a tuple, whose items nobody can take away meanwhile; a new
 * reference.
 */
int py_arg_tuple(PyObject *value, const char *name, PyObject **out);

/*
 * A contiguous buffer: bytes, bytearray, memoryview, mmap, an array. Give it
 * back with PyBuffer_Release(). @writable: the caller writes to it.
 */
int py_arg_view(PyObject *value, const char *name, bool writable,
		Py_buffer *out);

#endif
