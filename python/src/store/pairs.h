/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.h - arguments of setup(), as te_store_setup_pairs() takes them
 */
#ifndef PYTHON_STORE_PAIRS_H
#define PYTHON_STORE_PAIRS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <te/store_setup.h>

struct ps_pairs {
	struct te_store_pair *pairs; /* pairs[n] */
	size_t n;
	PyObject *texts; /* a list of what they point to */
};

/*
 * Converters return an enum py_arg; with PY_ARG_RANGE the log says which value
 * is wrong.
 */

/* Keys and values by str(); None is left out. */
int ps_pairs_of_dict(struct ps_pairs *pairs, PyObject *dict);
/*
 * The arguments of the longer form. *engine is borrowed, None or NULL where
 * there is none.
 */
int ps_pairs_of_call(struct ps_pairs *pairs, PyObject *args, PyObject *keywords,
		     PyObject **engine);
/* Adds a pair; both texts must live as long as @pairs. */
int ps_pairs_add(struct ps_pairs *pairs, const char *key, const char *value);
void ps_pairs_free(struct ps_pairs *pairs); /* all zero is fine */

#endif
