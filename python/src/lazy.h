/* SPDX-License-Identifier: Apache-2.0 */
/* lazy.h - names of a module that are written in Python, read when asked for */
#ifndef PYTHON_LAZY_H
#define PYTHON_LAZY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

struct py_lazy {
	const char *name;
	const char *module; /* NULL: its own __getattr__() knows the value */
};

/*
 * Implements __getattr__() of module @of: returns the attribute @name of the
 * module that lazy[n] has for it. NULL: raised.
 */
PyObject *py_lazy_get(const struct py_lazy *lazy, size_t n, const char *of,
		      PyObject *name);

/* Implements __dir__() of @module: all that it has, and lazy[n]. */
PyObject *py_lazy_dir(PyObject *module, const struct py_lazy *lazy, size_t n);

/*
 * Adds __all__, so that "import *" brings lazy[n], too: what dir() tells but
 * for names with a _ before. All else has been added. Returns 0, or -1: raised.
 */
int py_lazy_add_all(PyObject *module, const struct py_lazy *lazy, size_t n);

#endif
