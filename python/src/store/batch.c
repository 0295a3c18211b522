/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.c - keys, and the memory of their values, as the library takes them
 */
#include "python/src/store/batch.h"

#include <sys/mman.h>

#include <te/memory.h>

#include "python/src/args.h"
#include "python/src/store/client.h"

static int no_memory(void)
{
	PyErr_NoMemory();
	return PY_ARG_RAISED;
}

/* Text, or any bytes. */
static int read_key(PyObject *name, const char *argument,
		    struct te_store_key *key)
{
	const char *bytes;
	Py_ssize_t len;

	if (PyUnicode_Check(name)) {
		bytes = PyUnicode_AsUTF8AndSize(name, &len);
		if (!bytes && !PyErr_ExceptionMatches(PyExc_UnicodeError))
			return PY_ARG_RAISED;
		if (!bytes) { /* half of a surrogate pair: no key */
			PyErr_Clear();
			len = 0;
		}
	} else if (PyBytes_Check(name)) {
		bytes = PyBytes_AsString(name);
		len = PyBytes_Size(name);
	} else {
		PyErr_Format(PyExc_TypeError, "%s must be a str, not %R",
			     argument, (PyObject *)Py_TYPE(name));
		return PY_ARG_RAISED;
	}
	key->bytes = bytes;
	/* A length that does not fit stays too long, so it is refused. */
	key->len = len > (Py_ssize_t)UINT32_MAX ? UINT32_MAX : (uint32_t)len;
	return PY_ARG_OK;
}

static int read_names(struct ps_batch *batch, const char *argument)
{
	int rc = PY_ARG_OK;

	batch->n = (size_t)PyTuple_Size(batch->names);
	batch->keys = PyMem_Calloc(batch->n + 1, sizeof(*batch->keys));
	if (!batch->keys)
		return no_memory();
	for (size_t i = 0; !rc && i < batch->n; i++)
		rc = read_key(PyTuple_GetItem(batch->names, (Py_ssize_t)i),
			      argument, &batch->keys[i]);
	return rc;
}

int ps_batch_key(struct ps_batch *batch, const char *function, PyObject *key)
{
	batch->function = function;
	batch->names = PyTuple_Pack(1, key);
	return batch->names ? read_names(batch, "key") : PY_ARG_RAISED;
}

int ps_batch_keys(struct ps_batch *batch, const char *function, PyObject *keys)
{
	int rc = py_arg_tuple(keys, "keys", &batch->names);

	batch->function = function;
	return rc ? rc : read_names(batch, "keys");
}

/* Room for the values of all keys, in so many pieces altogether. */
static int make_room(struct ps_batch *batch, size_t n_pieces)
{
	batch->values = PyMem_Calloc(batch->n + 1, sizeof(*batch->values));
	batch->pieces = PyMem_Calloc(n_pieces + 1, sizeof(*batch->pieces));
	batch->n_pieces = n_pieces;
	return batch->values && batch->pieces ? PY_ARG_OK : no_memory();
}

/* An address that cannot be becomes NULL, which the library refuses. */
static struct iovec piece_of(uint64_t addr, uint64_t size)
{
	struct iovec piece = {.iov_base = (void *)(uintptr_t)addr,
			      .iov_len = size};

	if (size > UINTPTR_MAX - addr)
		piece.iov_base = NULL;
	return piece;
}

static int mismatch(struct ps_batch *batch, const char *argument, size_t n,
		    size_t wanted)
{
	py_warn(batch->function, "%s has %zu entries for %zu", argument, n,
		wanted);
	batch->is_explained = true;
	return PY_ARG_RANGE;
}

static int out_of_range(struct ps_batch *batch, int rc, const char *argument)
{
	if (rc == PY_ARG_RANGE)
		py_warn(batch->function,
			"%s: a number is negative or beyond 64 bits", argument);
	batch->is_explained = rc == PY_ARG_RANGE;
	return rc;
}

static int read_numbers(struct ps_batch *batch, PyObject *list,
			const char *argument, size_t n, struct py_numbers *out)
{
	int rc = py_arg_numbers(list, argument, out);

	if (rc)
		return out_of_range(batch, rc, argument);
	return out->n == n ? PY_ARG_OK : mismatch(batch, argument, out->n, n);
}

int ps_batch_flat(struct ps_batch *batch, PyObject *addrs, PyObject *sizes)
{
	struct py_numbers a = {0}, s = {0};
	int rc = read_numbers(batch, addrs, "buffer_ptrs", batch->n, &a);

	if (!rc)
		rc = read_numbers(batch, sizes, "sizes", batch->n, &s);
	if (!rc)
		rc = make_room(batch, batch->n);
	for (size_t i = 0; !rc && i < batch->n; i++) {
		batch->pieces[i] = piece_of(a.values[i], s.values[i]);
		batch->values[i].pieces = &batch->pieces[i];
		batch->values[i].n_pieces = 1;
	}
	py_numbers_free(&a);
	py_numbers_free(&s);
	return rc;
}

/* The lists of one key, whose pieces begin at @at. */
static int scatter(struct ps_batch *batch, size_t i, PyObject *addrs,
		   PyObject *sizes, size_t at)
{
	struct py_numbers a = {0}, s = {0};
	size_t n = (size_t)PyTuple_Size(addrs);
	int rc = read_numbers(batch, addrs, "all_buffer_ptrs", n, &a);

	if (!rc)
		rc = read_numbers(batch, sizes, "all_sizes", n, &s);
	for (size_t k = 0; !rc && k < n; k++)
		batch->pieces[at + k] = piece_of(a.values[k], s.values[k]);
	batch->values[i].pieces = &batch->pieces[at];
	/* Without pieces, or with too many, the library refuses this key. */
	if (!rc)
		batch->values[i].n_pieces =
			n > TE_PIECES_MAX ? TE_PIECES_MAX : (uint32_t)n;
	py_numbers_free(&a);
	py_numbers_free(&s);
	return rc == PY_ARG_RANGE ? PY_ARG_OK : rc;
}

/* A tuple of tuples, and how many items these have together. */
static int read_nested(struct ps_batch *batch, PyObject *list,
		       const char *argument, PyObject **out, size_t *sum)
{
	PyObject *outer = NULL, *copy = NULL, *inner;
	int rc = py_arg_tuple(list, argument, &outer);
	size_t n = 0;

	if (!rc)
		n = (size_t)PyTuple_Size(outer);
	if (!rc && n != batch->n)
		rc = mismatch(batch, argument, n, batch->n);
	if (!rc && !(copy = PyTuple_New((Py_ssize_t)n)))
		rc = PY_ARG_RAISED;
	*sum = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		rc = py_arg_tuple(PyTuple_GetItem(outer, (Py_ssize_t)i),
				  argument, &inner);
		if (rc)
			break;
		*sum += (size_t)PyTuple_Size(inner);
		rc = PyTuple_SetItem(copy, (Py_ssize_t)i, inner);
	}
	Py_XDECREF(outer);
	if (rc)
		Py_XDECREF(copy);
	else
		*out = copy;
	return rc;
}

int ps_batch_scattered(struct ps_batch *batch, PyObject *addrs, PyObject *sizes)
{
	PyObject *a = NULL, *s = NULL;
	size_t n_addrs, n_sizes, at = 0;
	int rc = read_nested(batch, addrs, "all_buffer_ptrs", &a, &n_addrs);

	if (!rc)
		rc = read_nested(batch, sizes, "all_sizes", &s, &n_sizes);
	if (!rc)
		rc = make_room(batch, n_addrs);
	for (size_t i = 0; !rc && i < batch->n; i++) {
		PyObject *mine = PyTuple_GetItem(a, (Py_ssize_t)i);

		rc = scatter(batch, i, mine, PyTuple_GetItem(s, (Py_ssize_t)i),
			     at);
		at += (size_t)PyTuple_Size(mine);
	}
	Py_XDECREF(a);
	Py_XDECREF(s);
	return rc;
}

int ps_batch_pieces(struct ps_batch *batch, const uint64_t *addrs,
		    const uint64_t *sizes, size_t n)
{
	int rc = make_room(batch, n);

	for (size_t i = 0; !rc && i < n; i++)
		batch->pieces[i] = piece_of(addrs[i], sizes[i]);
	if (!rc) {
		batch->values[0].pieces = batch->pieces;
		batch->values[0].n_pieces = (uint32_t)n;
	}
	return rc;
}

static int add_view(struct ps_batch *batch, PyObject *value,
		    const char *argument)
{
	Py_buffer *view = &batch->views[batch->n_views];
	int rc = py_arg_view(value, argument, false, view);

	if (rc)
		return rc;
	batch->pieces[batch->n_views].iov_base = view->buf;
	batch->pieces[batch->n_views].iov_len = (size_t)view->len;
	batch->n_views++;
	return PY_ARG_OK;
}

/* Room for @n buffers. */
static int view_room(struct ps_batch *batch, size_t n)
{
	int rc = make_room(batch, n);

	if (rc)
		return rc;
	batch->views = PyMem_Calloc(n + 1, sizeof(*batch->views));
	return batch->views ? PY_ARG_OK : no_memory();
}

int ps_batch_views(struct ps_batch *batch, PyObject *values,
		   const char *argument)
{
	PyObject *tuple;
	size_t n;
	int rc = py_arg_tuple(values, argument, &tuple);

	if (rc)
		return rc;
	n = (size_t)PyTuple_Size(tuple);
	if (n != batch->n)
		rc = mismatch(batch, argument, n, batch->n);
	if (!rc)
		rc = view_room(batch, n);
	for (size_t i = 0; !rc && i < n; i++) {
		rc = add_view(batch, PyTuple_GetItem(tuple, (Py_ssize_t)i),
			      argument);
		batch->values[i].pieces = &batch->pieces[i];
		batch->values[i].n_pieces = 1;
	}
	Py_DECREF(tuple);
	return rc;
}

/* Mooncake's programs expect another exception here than a TypeError. */
static int check_part(PyObject *part)
{
	Py_buffer view;
	int rc;

	if (!PyObject_CheckBuffer(part) ||
	    PyObject_GetBuffer(part, &view, PyBUF_ND)) {
		PyErr_Clear();
		PyErr_SetString(PyExc_RuntimeError,
				"parts must be contiguous buffers");
		return PY_ARG_RAISED;
	}
	rc = view.ndim == 1 && view.itemsize == 1 ? PY_ARG_OK : PY_ARG_RAISED;
	PyBuffer_Release(&view);
	if (rc)
		PyErr_SetString(PyExc_RuntimeError,
				"parts must be buffers of bytes with one "
				"dimension");
	return rc;
}

int ps_batch_parts(struct ps_batch *batch, PyObject *parts)
{
	size_t n = (size_t)PyTuple_Size(parts);
	int rc = view_room(batch, n);

	for (size_t i = 0; !rc && i < n; i++) {
		PyObject *part = PyTuple_GetItem(parts, (Py_ssize_t)i);

		rc = check_part(part);
		if (!rc)
			rc = add_view(batch, part, "parts");
	}
	if (!rc) {
		batch->values[0].pieces = batch->pieces;
		batch->values[0].n_pieces = (uint32_t)n;
	}
	return rc;
}

/* Says what is wrong with the memory of key @i, or NULL. */
static const char *wrong_memory(const struct ps_batch *batch, size_t i)
{
	const struct te_store_value *value = &batch->values[i];
	int wanted = batch->is_read ? PROT_WRITE : PROT_READ;

	for (uint32_t k = 0; k < value->n_pieces; k++) {
		const struct iovec *piece = &value->pieces[k];
		uint64_t addr = (uintptr_t)piece->iov_base, left;

		if (!piece->iov_len)
			continue;
		left = te_store_registered_bytes(batch->te, piece->iov_base);
		if (left && piece->iov_len > left)
			return "memory runs past the end of what is registered";
		/* A GPU's memory: the host has it mapped without access. */
		if (left && te_memory_is_mapped(addr, 1) &&
		    !te_memory_protection(addr, 1))
			continue;
		if (!te_memory_is_mapped(addr, piece->iov_len) ||
		    !(te_memory_protection(addr, piece->iov_len) & wanted))
			return "no memory of ours is";
	}
	return NULL;
}

uint64_t ps_batch_bytes(const struct ps_batch *batch, size_t i)
{
	const struct te_store_value *value = &batch->values[i];
	uint64_t sum = 0;

	for (uint32_t k = 0; k < value->n_pieces; k++) {
		if (value->pieces[k].iov_len > TE_STORE_VALUE_MAX - sum)
			return 0;
		sum += value->pieces[k].iov_len;
	}
	return sum;
}

void ps_batch_explain(const struct ps_batch *batch, size_t i,
		      const char *otherwise)
{
	const char *function = batch->function, *wrong = NULL;
	uint32_t len = batch->keys[i].len;

	if (batch->is_explained)
		return;
	if (batch->values && batch->values[i].n_pieces < TE_PIECES_MAX)
		wrong = wrong_memory(batch, i);
	if (!len || len > TE_STORE_KEY_MAX)
		py_warn(function, "key %zu has %u bytes, not 1 to %u", i, len,
			TE_STORE_KEY_MAX);
	else if (batch->values && batch->values[i].n_pieces > TE_PIECES_MAX - 1)
		py_warn(function, "key %zu has more than %u buffers", i,
			TE_PIECES_MAX - 1);
	else if (wrong)
		py_warn(function, "buffer_ptrs: %s at one of key %zu", wrong,
			i);
	else if (batch->values && !ps_batch_bytes(batch, i))
		py_warn(function, "sizes: those of key %zu are 0, or too large",
			i);
	else
		py_warn(function, "key %zu: %s", i, otherwise);
}

void ps_batch_explain_codes(const struct ps_batch *batch, const int *codes,
			    const char *otherwise)
{
	for (size_t i = 0; i < batch->n; i++) {
		if (codes[i] != TE_STORE_INVALID_PARAMS)
			continue;
		ps_batch_explain(batch, i, otherwise);
		return;
	}
}

void ps_batch_free(struct ps_batch *batch)
{
	for (size_t i = 0; i < batch->n_views; i++)
		PyBuffer_Release(&batch->views[i]);
	PyMem_Free(batch->views);
	PyMem_Free(batch->pieces);
	PyMem_Free(batch->values);
	PyMem_Free(batch->keys);
	Py_XDECREF(batch->names);
}
