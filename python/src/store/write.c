/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write.c - methods that put values, and that put them in place of others
 *
 * Every method fills a batch and gives it to write_list() or write_one(), with
 * what came of filling it.
 */
#include <string.h>

#include "python/src/args.h"
#include "python/src/store/methods.h"
#include "python/src/store/types.h"

/* te_store_put() or te_store_upsert(). */
typedef int write_fn(struct te_store *store, const struct te_store_key *keys,
		     const struct te_store_value *values, size_t n,
		     const struct te_store_replicate *how, int *results);

/* results[n], or NULL: raised. */
static int *write_all(struct ps_store *self, struct ps_batch *batch, int rc,
		      PyObject *config, write_fn *op)
{
	struct ps_how how = {0};
	struct ps_client *client = NULL;
	int *results = NULL;

	if (rc != PY_ARG_RAISED && !ps_how_read(&how, config))
		results = ps_codes(batch->n);
	if (results && !rc && batch->n)
		client = ps_client_pin(self, batch->function);
	if (client) {
		batch->te = client->te;
		Py_BEGIN_ALLOW_THREADS;
		(void)op(client->te, batch->keys, batch->values, batch->n,
			 how.is_given ? &how.replicate : NULL, results);
		Py_END_ALLOW_THREADS;
		ps_batch_explain_codes(batch, results, PS_HOW_WRONG);
		ps_client_unpin(client);
	}
	ps_how_free(&how);
	return results;
}

static PyObject *write_list(PyObject *self, struct ps_batch *batch, int rc,
			    PyObject *config, write_fn *op)
{
	int *results =
		write_all((struct ps_store *)self, batch, rc, config, op);
	PyObject *list = NULL;

	if (results)
		list = ps_list_of_codes(results, batch->n);
	PyMem_Free(results);
	ps_batch_free(batch);
	return list;
}

/* The first code that is not 0. */
static PyObject *write_one(PyObject *self, struct ps_batch *batch, int rc,
			   PyObject *config, write_fn *op)
{
	int *results =
		write_all((struct ps_store *)self, batch, rc, config, op);
	PyObject *code = NULL;
	size_t i = 0;

	if (results) {
		while (i + 1 < batch->n && !results[i])
			i++;
		code = PyLong_FromLong(batch->n ? results[i] : 0);
	}
	PyMem_Free(results);
	ps_batch_free(batch);
	return code;
}

/* Values of 0 bytes are no objects, but Mooncake's programs want a 0 here. */
static PyObject *write_unless_empty(PyObject *self, struct ps_batch *batch,
				    int rc, PyObject *config, write_fn *op)
{
	struct ps_how unused = {0};
	bool is_empty = !rc;

	for (uint32_t k = 0; !rc && k < batch->values[0].n_pieces; k++)
		is_empty = is_empty && !batch->pieces[k].iov_len;
	if (!is_empty)
		return write_one(self, batch, rc, config, op);
	rc = ps_how_read(&unused, config);
	ps_how_free(&unused);
	if (!rc)
		py_warn(batch->function,
			"the value has 0 bytes: nothing is stored");
	ps_batch_free(batch);
	return rc ? NULL : PyLong_FromLong(0);
}

/* The function's name, which follows the colon of @format. */
static const char *name_of(const char *format)
{
	return strchr(format, ':') + 1;
}

static PyObject *write_value(PyObject *self, PyObject *args, PyObject *keywords,
			     const char *format, write_fn *op)
{
	static char *names[] = {"key", "value", "config", NULL};
	struct ps_batch batch = {0};
	PyObject *key, *value, *config = NULL, *values;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &key,
					 &value, &config))
		return NULL;
	values = PyTuple_Pack(1, value);
	if (!values)
		return NULL;
	rc = ps_batch_key(&batch, name_of(format), key);
	if (!rc)
		rc = ps_batch_views(&batch, values, "value");
	Py_DECREF(values);
	return write_one(self, &batch, rc, config, op);
}

static PyObject *write_values(PyObject *self, PyObject *args,
			      PyObject *keywords, const char *format,
			      write_fn *op)
{
	static char *names[] = {"keys", "values", "config", NULL};
	struct ps_batch batch = {0};
	PyObject *keys, *values, *config = NULL;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &keys,
					 &values, &config))
		return NULL;
	rc = ps_batch_keys(&batch, name_of(format), keys);
	if (!rc)
		rc = ps_batch_views(&batch, values, "values");
	return write_one(self, &batch, rc, config, op);
}

static PyObject *write_parts(PyObject *self, PyObject *args, PyObject *keywords,
			     const char *format, write_fn *op)
{
	static char *names[] = {"key", "config", NULL};
	struct ps_batch batch = {0};
	PyObject *head = PyTuple_GetSlice(args, 0, 1), *parts = NULL;
	PyObject *key, *config = NULL, *result = NULL;
	int rc;

	if (head && PyArg_ParseTupleAndKeywords(head, keywords, format, names,
						&key, &config))
		parts = PyTuple_GetSlice(args, 1, PyTuple_Size(args));
	if (parts) {
		rc = ps_batch_key(&batch, name_of(format), key);
		if (!rc)
			rc = ps_batch_parts(&batch, parts);
		result = write_unless_empty(self, &batch, rc, config, op);
	}
	Py_XDECREF(parts);
	Py_XDECREF(head);
	return result;
}

/* Addresses and sizes of one key; a number that cannot be is said. */
static int read_pieces(struct ps_batch *batch, PyObject *const objects[],
		       const char *const names[], size_t n)
{
	uint64_t numbers[4];
	int rc = PY_ARG_OK;

	for (size_t i = 0; !rc && i < 2 * n; i++)
		rc = py_arg_number(batch->function, objects[i], names[i],
				   &numbers[i]);
	return rc ? rc : ps_batch_pieces(batch, numbers, numbers + n, n);
}

static PyObject *write_from(PyObject *self, PyObject *args, PyObject *keywords,
			    const char *format, write_fn *op)
{
	static char *names[] = {"key", "buffer_ptr", "size", "config", NULL};
	struct ps_batch batch = {0};
	PyObject *key, *numbers[2], *config = NULL;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &key,
					 &numbers[0], &numbers[1], &config))
		return NULL;
	rc = ps_batch_key(&batch, name_of(format), key);
	if (!rc)
		rc = read_pieces(&batch, numbers,
				 (const char *const *)&names[1], 1);
	return write_unless_empty(self, &batch, rc, config, op);
}

static PyObject *write_list_from(PyObject *self, PyObject *args,
				 PyObject *keywords, const char *format,
				 write_fn *op)
{
	static char *names[] = {"keys", "buffer_ptrs", "sizes", "config", NULL};
	struct ps_batch batch = {0};
	PyObject *keys, *addrs, *sizes, *config = NULL;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &keys,
					 &addrs, &sizes, &config))
		return NULL;
	rc = ps_batch_keys(&batch, name_of(format), keys);
	if (!rc)
		rc = ps_batch_flat(&batch, addrs, sizes);
	return write_list(self, &batch, rc, config, op);
}

static PyObject *write_scattered(PyObject *self, PyObject *args,
				 PyObject *keywords, const char *format,
				 write_fn *op)
{
	static char *names[] = {"keys", "all_buffer_ptrs", "all_sizes",
				"config", NULL};
	struct ps_batch batch = {0};
	PyObject *keys, *addrs, *sizes, *config = NULL;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &keys,
					 &addrs, &sizes, &config))
		return NULL;
	rc = ps_batch_keys(&batch, name_of(format), keys);
	if (!rc)
		rc = ps_batch_scattered(&batch, addrs, sizes);
	return write_list(self, &batch, rc, config, op);
}

static PyObject *put_from_with_metadata(PyObject *self, PyObject *args,
					PyObject *keywords)
{
	static char *names[] = {"key",  "buffer_ptr",    "metadata_buffer_ptr",
				"size", "metadata_size", "config",
				NULL};
	static const char *const order[] = {"metadata_buffer_ptr", "buffer_ptr",
					    "metadata_size", "size"};
	struct ps_batch batch = {0};
	PyObject *key, *config = NULL;
	PyObject *numbers[4]; /* in that order */
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords,
					 "OOOOO|O:put_from_with_metadata",
					 names, &key, &numbers[1], &numbers[0],
					 &numbers[3], &numbers[2], &config))
		return NULL;
	rc = ps_batch_key(&batch, "put_from_with_metadata", key);
	if (!rc)
		rc = read_pieces(&batch, numbers, order, 2);
	return write_unless_empty(self, &batch, rc, config, te_store_put);
}

/* A method @name: @shape of its arguments, @op of the library. */
#define METHOD(name, shape, format, op)                                   \
	static PyObject *name(PyObject *self, PyObject *args,             \
			      PyObject *keywords)                         \
	{                                                                 \
		return shape(self, args, keywords, format ":" #name, op); \
	}

METHOD(put, write_value, "OO|O", te_store_put)
METHOD(put_batch, write_values, "OO|O", te_store_put)
METHOD(put_parts, write_parts, "O|$O", te_store_put)
METHOD(put_from, write_from, "OOO|O", te_store_put)
METHOD(batch_put_from, write_list_from, "OOO|O", te_store_put)
METHOD(batch_put_from_multi_buffers, write_scattered, "OOO|O", te_store_put)
METHOD(upsert, write_value, "OO|O", te_store_upsert)
METHOD(upsert_batch, write_values, "OO|O", te_store_upsert)
METHOD(upsert_parts, write_parts, "O|$O", te_store_upsert)
METHOD(upsert_from, write_from, "OOO|O", te_store_upsert)
METHOD(batch_upsert_from, write_list_from, "OOO|O", te_store_upsert)
METHOD(batch_upsert_from_multi_buffers, write_scattered, "OOO|O",
       te_store_upsert)

#define STORED \
	"\n\n0, also for a key that is there already and stays as it is, "
#define PLACED "\n\nIn place of what is there. 0, "
#define CODE   "or a negative code.\nConfig is a ReplicateConfig."
#define CODES  "or a negative code, for each key.\nConfig is a ReplicateConfig."
#define FIRST \
	"or the first negative code; each key is tried.\nConfig is a ReplicateConfig."
#define VALUE_DOC  "key, value, config=None)\n--\n\nStore a contiguous buffer."
#define VALUES_DOC "keys, values, config=None)\n--\n\nStore contiguous buffers."
#define PARTS_DOC \
	"key, *parts, config=None)\n--\n\nStore buffers of bytes as one value."
#define FROM_DOC \
	"key, buffer_ptr, size, config=None)\n--\n\nStore memory by address."
#define LIST_DOC \
	"keys, buffer_ptrs, sizes, config=None)\n--\n\nStore memory by address."
#define SCATTERED_DOC                                            \
	"keys, all_buffer_ptrs, all_sizes, config=None)\n--\n\n" \
	"Store values that lie in several pieces each."

const PyMethodDef ps_write_methods[] = {
	PS_METHOD("put", put, VALUE_DOC STORED CODE),
	PS_METHOD("put_batch", put_batch, VALUES_DOC STORED FIRST),
	PS_METHOD("put_parts", put_parts, PARTS_DOC STORED CODE),
	PS_METHOD("put_from", put_from, FROM_DOC STORED CODE),
	PS_METHOD("put_from_with_metadata", put_from_with_metadata,
		  "key, buffer_ptr, metadata_buffer_ptr, size, metadata_size, "
		  "config=None)\n--\n\nStore the metadata and then the data as "
		  "one value." STORED CODE),
	PS_METHOD("batch_put_from", batch_put_from, LIST_DOC STORED CODES),
	PS_METHOD("batch_put_from_multi_buffers", batch_put_from_multi_buffers,
		  SCATTERED_DOC STORED CODES),
	PS_METHOD("upsert", upsert, VALUE_DOC PLACED CODE),
	PS_METHOD("upsert_batch", upsert_batch, VALUES_DOC PLACED FIRST),
	PS_METHOD("upsert_parts", upsert_parts, PARTS_DOC PLACED CODE),
	PS_METHOD("upsert_from", upsert_from, FROM_DOC PLACED CODE),
	PS_METHOD("batch_upsert_from", batch_upsert_from,
		  LIST_DOC PLACED CODES),
	PS_METHOD("batch_upsert_from_multi_buffers",
		  batch_upsert_from_multi_buffers, SCATTERED_DOC PLACED CODES),
	{0},
};
