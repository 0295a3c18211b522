/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.c - methods that get values, and that ask for them
 */
#include "python/src/args.h"
#include "python/src/store/methods.h"
#include "python/src/store/types.h"

static void explain(const struct ps_batch *batch, const int64_t *results)
{
	for (size_t i = 0; i < batch->n; i++) {
		if (results[i] != TE_STORE_INVALID_PARAMS)
			continue;
		ps_batch_explain(batch, i, "sizes are less than the value has");
		return;
	}
}

/* ---- into the caller's memory ---- */

/* results[n], or NULL: raised. */
static int64_t *get_all(struct ps_store *self, struct ps_batch *batch, int rc)
{
	struct ps_client *client = NULL;
	int64_t *results = NULL;

	if (rc != PY_ARG_RAISED)
		results = ps_sizes(batch->n);
	if (results && !rc && batch->n)
		client = ps_client_pin(self, batch->function);
	if (client) {
		batch->te = client->te;
		batch->is_read = true;
		Py_BEGIN_ALLOW_THREADS;
		(void)te_store_get(client->te, batch->keys, batch->values,
				   batch->n, results);
		Py_END_ALLOW_THREADS;
		explain(batch, results);
		ps_client_unpin(client);
	}
	return results;
}

static PyObject *get_list(PyObject *self, struct ps_batch *batch, int rc)
{
	int64_t *results = get_all((struct ps_store *)self, batch, rc);
	PyObject *list = NULL;

	if (results)
		list = ps_list_of_sizes(results, batch->n);
	PyMem_Free(results);
	ps_batch_free(batch);
	return list;
}

static PyObject *get_into(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"key", "buffer_ptr", "size", NULL};
	struct ps_batch batch = {0};
	PyObject *key, *addr, *size, *result = NULL;
	uint64_t numbers[2];
	int64_t *results;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO:get_into", names,
					 &key, &addr, &size))
		return NULL;
	rc = ps_batch_key(&batch, "get_into", key);
	if (!rc)
		rc = py_arg_number("get_into", addr, names[1], &numbers[0]);
	if (!rc)
		rc = py_arg_number("get_into", size, names[2], &numbers[1]);
	if (!rc)
		rc = ps_batch_pieces(&batch, &numbers[0], &numbers[1], 1);
	results = get_all((struct ps_store *)self, &batch, rc);
	if (results)
		result = PyLong_FromLongLong(results[0]);
	PyMem_Free(results);
	ps_batch_free(&batch);
	return result;
}

static PyObject *batch_get_into(PyObject *self, PyObject *args,
				PyObject *keywords)
{
	static char *names[] = {"keys", "buffer_ptrs", "sizes", NULL};
	struct ps_batch batch = {0};
	PyObject *keys, *addrs, *sizes;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO:batch_get_into",
					 names, &keys, &addrs, &sizes))
		return NULL;
	rc = ps_batch_keys(&batch, "batch_get_into", keys);
	if (!rc)
		rc = ps_batch_flat(&batch, addrs, sizes);
	return get_list(self, &batch, rc);
}

static PyObject *batch_get_into_multi_buffers(PyObject *self, PyObject *args,
					      PyObject *keywords)
{
	static char *names[] = {"keys", "all_buffer_ptrs", "all_sizes",
				"prefer_alloc_in_same_node", NULL};
	struct ps_batch batch = {0};
	PyObject *keys, *addrs, *sizes, *same_node = NULL;
	bool unused;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(
		    args, keywords, "OOO|O:batch_get_into_multi_buffers", names,
		    &keys, &addrs, &sizes, &same_node))
		return NULL;
	rc = ps_arg_bool(same_node, names[3], &unused);
	if (!rc)
		rc = ps_batch_keys(&batch, "batch_get_into_multi_buffers",
				   keys);
	if (!rc)
		rc = ps_batch_scattered(&batch, addrs, sizes);
	return get_list(self, &batch, rc);
}

/* ---- into memory of the client's ---- */

struct fetched {
	struct te_store_buffer **buffers; /* buffers[n]; NULL: there is none */
	struct ps_client *client;         /* pinned; NULL: there is none */
};

/* False: raised. */
static bool fetch(struct ps_store *self, const struct ps_batch *batch, int rc,
		  struct fetched *out)
{
	int64_t *results;

	out->client = NULL;
	out->buffers = NULL;
	if (rc == PY_ARG_RAISED)
		return false;
	out->buffers =
		PyMem_Calloc(batch->n + 1, sizeof(struct te_store_buffer *));
	results = ps_sizes(batch->n);
	if (results && out->buffers && !rc && batch->n)
		out->client = ps_client_pin(self, batch->function);
	if (out->client) {
		Py_BEGIN_ALLOW_THREADS;
		(void)te_store_get_buffers(out->client->te, batch->keys,
					   batch->n, out->buffers, results);
		Py_END_ALLOW_THREADS;
		explain(batch, results);
	}
	PyMem_Free(results);
	return results && out->buffers;
}

static void fetched_free(struct fetched *fetched, size_t n)
{
	for (size_t i = 0; fetched->buffers && i < n; i++)
		te_store_buffer_free(fetched->buffers[i]);
	PyMem_Free(fetched->buffers);
	if (fetched->client)
		ps_client_unpin(fetched->client);
}

/* Bytes; none where there is nothing. */
static PyObject *bytes_of(struct fetched *fetched, size_t i)
{
	const struct te_store_buffer *buffer = fetched->buffers[i];

	if (!buffer)
		return PyBytes_FromStringAndSize(NULL, 0);
	return PyBytes_FromStringAndSize(
		te_store_buffer_data(buffer),
		(Py_ssize_t)te_store_buffer_length(buffer));
}

/* A BufferHandle, or None. */
static PyObject *handle_of(struct fetched *fetched, size_t i)
{
	struct te_store_buffer *buffer = fetched->buffers[i];

	if (!buffer)
		return Py_NewRef(Py_None);
	fetched->buffers[i] = NULL;
	return ps_handle_create(fetched->client, buffer);
}

typedef PyObject *present_fn(struct fetched *fetched, size_t i);

static PyObject *fetch_one(PyObject *self, PyObject *args, PyObject *keywords,
			   const char *format, const char *function,
			   present_fn *present)
{
	static char *names[] = {"key", NULL};
	struct ps_batch batch = {0};
	struct fetched fetched;
	PyObject *key, *result = NULL;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &key))
		return NULL;
	rc = ps_batch_key(&batch, function, key);
	if (fetch((struct ps_store *)self, &batch, rc, &fetched))
		result = present(&fetched, 0);
	fetched_free(&fetched, batch.n);
	ps_batch_free(&batch);
	return result;
}

static PyObject *fetch_list(PyObject *self, PyObject *args, PyObject *keywords,
			    const char *format, const char *function,
			    present_fn *present)
{
	static char *names[] = {"keys", NULL};
	struct ps_batch batch = {0};
	struct fetched fetched;
	PyObject *keys, *list = NULL, *item;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &keys))
		return NULL;
	rc = ps_batch_keys(&batch, function, keys);
	if (fetch((struct ps_store *)self, &batch, rc, &fetched))
		list = PyList_New((Py_ssize_t)batch.n);
	for (size_t i = 0; list && i < batch.n; i++) {
		item = present(&fetched, i);
		if (!item || PyList_SetItem(list, (Py_ssize_t)i, item))
			Py_CLEAR(list);
	}
	fetched_free(&fetched, batch.n);
	ps_batch_free(&batch);
	return list;
}

static PyObject *get_bytes(PyObject *self, PyObject *args, PyObject *keywords)
{
	return fetch_one(self, args, keywords, "O:get", "get", bytes_of);
}

static PyObject *get_buffer(PyObject *self, PyObject *args, PyObject *keywords)
{
	return fetch_one(self, args, keywords, "O:get_buffer", "get_buffer",
			 handle_of);
}

static PyObject *get_batch(PyObject *self, PyObject *args, PyObject *keywords)
{
	return fetch_list(self, args, keywords, "O:get_batch", "get_batch",
			  bytes_of);
}

static PyObject *batch_get_buffer(PyObject *self, PyObject *args,
				  PyObject *keywords)
{
	return fetch_list(self, args, keywords, "O:batch_get_buffer",
			  "batch_get_buffer", handle_of);
}

/* ---- what is there ---- */

/* results[n], or NULL: raised. */
static int *exist(struct ps_store *self, const struct ps_batch *batch, int rc)
{
	struct ps_client *client = NULL;
	int *results = NULL;

	if (rc != PY_ARG_RAISED)
		results = ps_codes(batch->n);
	if (results && batch->n)
		client = ps_client_pin(self, batch->function);
	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		(void)te_store_exist(client->te, batch->keys, batch->n,
				     results);
		Py_END_ALLOW_THREADS;
		ps_client_unpin(client);
		ps_batch_explain_codes(batch, results, "refused");
	}
	return results;
}

static PyObject *is_exist(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"key", NULL};
	struct ps_batch batch = {0};
	PyObject *key, *result = NULL;
	int *results;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:is_exist", names,
					 &key))
		return NULL;
	results = exist((struct ps_store *)self, &batch,
			ps_batch_key(&batch, "is_exist", key));
	if (results)
		result = PyLong_FromLong(results[0]);
	PyMem_Free(results);
	ps_batch_free(&batch);
	return result;
}

static PyObject *batch_is_exist(PyObject *self, PyObject *args,
				PyObject *keywords)
{
	static char *names[] = {"keys", NULL};
	struct ps_batch batch = {0};
	PyObject *keys, *list = NULL;
	int *results;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:batch_is_exist",
					 names, &keys))
		return NULL;
	results = exist((struct ps_store *)self, &batch,
			ps_batch_keys(&batch, "batch_is_exist", keys));
	if (results)
		list = ps_list_of_codes(results, batch.n);
	PyMem_Free(results);
	ps_batch_free(&batch);
	return list;
}

static PyObject *get_size(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"key", NULL};
	struct ps_batch batch = {0};
	struct ps_client *client = NULL;
	int64_t size = TE_STORE_INVALID_PARAMS;
	PyObject *key;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:get_size", names,
					 &key))
		return NULL;
	rc = ps_batch_key(&batch, "get_size", key);
	if (!rc)
		client = ps_client_pin((struct ps_store *)self, "get_size");
	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		(void)te_store_size(client->te, batch.keys, 1, &size);
		Py_END_ALLOW_THREADS;
		ps_client_unpin(client);
		explain(&batch, &size);
	}
	ps_batch_free(&batch);
	return rc ? NULL : PyLong_FromLongLong(size);
}

const PyMethodDef ps_read_methods[] = {
	PS_METHOD("get", get_bytes,
		  "key)\n--\n\nThe value as bytes; b\"\" for a miss."),
	PS_METHOD("get_batch", get_batch,
		  "keys)\n--\n\nThe values as bytes; b\"\" for a miss."),
	PS_METHOD("get_buffer", get_buffer,
		  "key)\n--\n\nThe value as a BufferHandle; None for a miss."),
	PS_METHOD("batch_get_buffer", batch_get_buffer,
		  "keys)\n--\n\n"
		  "The values as BufferHandles; None for a miss."),
	PS_METHOD("get_into", get_into,
		  "key, buffer_ptr, size)\n--\n\n"
		  "Read a value to an address. Its size, or a negative code."),
	PS_METHOD("batch_get_into", batch_get_into,
		  "keys, buffer_ptrs, sizes)\n--\n\n"
		  "Read values to addresses.\n\n"
		  "The size, or a negative code, for each key."),
	PS_METHOD(
		"batch_get_into_multi_buffers", batch_get_into_multi_buffers,
		"keys, all_buffer_ptrs, all_sizes, "
		"prefer_alloc_in_same_node=False)\n--\n\n"
		"Read each value into several pieces, one after the other.\n\n"
		"The size, or a negative code, for each key."),
	PS_METHOD("is_exist", is_exist,
		  "key)\n--\n\n1: it is there, 0: not, or a negative code."),
	PS_METHOD("batch_is_exist", batch_is_exist,
		  "keys)\n--\n\n"
		  "1: it is there, 0: not, or a negative code, for each key."),
	PS_METHOD("get_size", get_size,
		  "key)\n--\n\nBytes of the value, or a negative code."),
	{0},
};
