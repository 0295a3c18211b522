/* SPDX-License-Identifier: Apache-2.0 */
/*
 * methods.h - methods of MooncakeDistributedStore, by subject
 *
 * Each table ends with an empty row. Without a client methods answer with -600,
 * or as many of them as there are keys, those that mount with -1, and reads
 * with nothing.
 */
#ifndef PYTHON_STORE_METHODS_H
#define PYTHON_STORE_METHODS_H

#include "python/src/store/batch.h"
#include "python/src/store/client.h"

extern const PyMethodDef ps_life_methods[];
extern const PyMethodDef ps_write_methods[];
extern const PyMethodDef ps_read_methods[];
extern const PyMethodDef ps_range_methods[];
extern const PyMethodDef ps_session_methods[];
extern const PyMethodDef ps_remove_methods[];
extern const PyMethodDef ps_replica_methods[];
extern const PyMethodDef ps_segment_methods[];
extern const PyMethodDef ps_tensor_methods[];

/* A row. @doc begins with the signature, which has to name the parameters. */
#define PS_METHOD(name, function, doc)                                    \
	{                                                                 \
		name, (PyCFunction)(void (*)(void))(function),            \
			METH_VARARGS | METH_KEYWORDS, name "($self, " doc \
	}

/* Lists of results, new references; NULL: raised. */
PyObject *ps_list_of_codes(const int *codes, size_t n);
PyObject *ps_list_of_sizes(const int64_t *sizes, size_t n);
/* n times -600, from PyMem; NULL: raised. */
int *ps_codes(size_t n);
int64_t *ps_sizes(size_t n);

/* An enum py_arg, never PY_ARG_RANGE: a bool or an integer. NULL: false. */
int ps_arg_bool(PyObject *value, const char *name, bool *out);

#endif
