/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h - keys, and the memory of their values, as the library takes them
 *
 * Objects that Python's lists refer to are held until ps_batch_free(), so that
 * other threads may change those lists.
 *
 * Functions return an enum py_arg. PY_ARG_RANGE: the arguments do not go
 * together, which a line says; every key of the call fails with -600 then. What
 * is wrong with one key only is left for the library to refuse.
 */
#ifndef PYTHON_STORE_BATCH_H
#define PYTHON_STORE_BATCH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <te/store.h>

struct ps_batch {
	const char *function; /* static; of the log */
	size_t n;
	struct te_store_key *keys;     /* keys[n] */
	struct te_store_value *values; /* values[n]; NULL: keys alone */
	struct iovec *pieces;          /* pieces[n_pieces] */
	size_t n_pieces;
	Py_buffer *views;
	size_t n_views;
	/* Store of the call under way, and whether it writes to the pieces. */
	struct te_store *te;
	bool is_read;
	PyObject *names;   /* a tuple of the keys */
	bool is_explained; /* what is wrong with it */
};

/* Begins a batch, before the calls below. @function is static. */
int ps_batch_key(struct ps_batch *batch, const char *function, PyObject *key);
int ps_batch_keys(struct ps_batch *batch, const char *function, PyObject *keys);

/* Adds memory by one of these, or by none. */
/* An address and a size of each key. */
int ps_batch_flat(struct ps_batch *batch, PyObject *addrs, PyObject *sizes);
/* Lists of addresses and sizes of each key. */
int ps_batch_scattered(struct ps_batch *batch, PyObject *addrs,
		       PyObject *sizes);
/* Adds one key with @n pieces. */
int ps_batch_pieces(struct ps_batch *batch, const uint64_t *addrs,
		    const uint64_t *sizes, size_t n);
/* Adds a contiguous buffer for each key, from the sequence @argument. */
int ps_batch_views(struct ps_batch *batch, PyObject *values,
		   const char *argument);
/*
 * Adds one key whose value is the buffers of a tuple, one after the other. A
 * buffer that is not one dimension of bytes raises a RuntimeError.
 */
int ps_batch_parts(struct ps_batch *batch, PyObject *parts);

/* Bytes of the value of a key; 0 also for one that cannot be. */
uint64_t ps_batch_bytes(const struct ps_batch *batch, size_t i);
/* Say what is wrong with key @i that the library has refused with -600. */
void ps_batch_explain(const struct ps_batch *batch, size_t i,
		      const char *otherwise);
/* The same of the first such key, by codes[n]. */
void ps_batch_explain_codes(const struct ps_batch *batch, const int *codes,
			    const char *otherwise);
void ps_batch_free(struct ps_batch *batch); /* all zero is fine */

#endif
