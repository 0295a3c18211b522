/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - methods that begin and end what is put and got in parts
 */
#include "python/src/args.h"
#include "python/src/store/methods.h"
#include "python/src/store/types.h"

/* te_store_put_commit(), _put_abort() or _get_open(). */
typedef int keys_fn(struct te_store *store, const struct te_store_key *keys,
		    size_t n, int *results);

static const char *refusal(const struct ps_client *client)
{
	return client->is_dummy ? "sessions are not for dummies" : "refused";
}

static PyObject *by_keys(PyObject *self, PyObject *args, PyObject *keywords,
			 const char *format, const char *function, keys_fn *op)
{
	static char *names[] = {"keys", NULL};
	struct ps_batch batch = {0};
	struct ps_client *client = NULL;
	PyObject *keys, *list = NULL;
	int *codes = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &keys))
		return NULL;
	if (!ps_batch_keys(&batch, function, keys))
		codes = ps_codes(batch.n);
	if (codes && batch.n)
		client = ps_client_pin((struct ps_store *)self, function);
	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		(void)op(client->te, batch.keys, batch.n, codes);
		Py_END_ALLOW_THREADS;
		ps_batch_explain_codes(&batch, codes, refusal(client));
		ps_client_unpin(client);
	}
	if (codes)
		list = ps_list_of_codes(codes, batch.n);
	PyMem_Free(codes);
	ps_batch_free(&batch);
	return list;
}

static PyObject *batch_put_session_end(PyObject *self, PyObject *args,
				       PyObject *keywords)
{
	return by_keys(self, args, keywords, "O:batch_put_session_end",
		       "batch_put_session_end", te_store_put_commit);
}

static PyObject *batch_put_session_revoke(PyObject *self, PyObject *args,
					  PyObject *keywords)
{
	return by_keys(self, args, keywords, "O:batch_put_session_revoke",
		       "batch_put_session_revoke", te_store_put_abort);
}

static PyObject *batch_get_session_start(PyObject *self, PyObject *args,
					 PyObject *keywords)
{
	return by_keys(self, args, keywords, "O:batch_get_session_start",
		       "batch_get_session_start", te_store_get_open);
}

static PyObject *batch_get_session_end(PyObject *self, PyObject *args,
				       PyObject *keywords)
{
	static char *names[] = {"keys", NULL};
	struct ps_batch batch = {0};
	struct ps_client *client = NULL;
	PyObject *keys;
	int rc, code = TE_STORE_INVALID_PARAMS;

	if (!PyArg_ParseTupleAndKeywords(
		    args, keywords, "O:batch_get_session_end", names, &keys))
		return NULL;
	rc = ps_batch_keys(&batch, "batch_get_session_end", keys);
	if (!rc)
		client = ps_client_pin((struct ps_store *)self, batch.function);
	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		code = te_store_get_close(client->te, batch.keys, batch.n);
		Py_END_ALLOW_THREADS;
		if (code)
			py_warn(batch.function, "keys: %s", refusal(client));
		ps_client_unpin(client);
	}
	ps_batch_free(&batch);
	return rc ? NULL : PyLong_FromLong(code);
}

static void explain_open(const struct ps_batch *batch, const int *codes,
			 const uint64_t *sizes, const struct ps_client *client)
{
	const char *why = client->is_dummy ? refusal(client) : PS_HOW_WRONG;

	for (size_t i = 0; i < batch->n; i++)
		if (codes[i] == TE_STORE_INVALID_PARAMS &&
		    (!sizes[i] || sizes[i] > TE_STORE_VALUE_MAX))
			why = "sizes: one is 0, or too large";
	ps_batch_explain_codes(batch, codes, why);
}

static PyObject *batch_put_session_start(PyObject *self, PyObject *args,
					 PyObject *keywords)
{
	static char *names[] = {"keys", "sizes", "config", NULL};
	struct ps_batch batch = {0};
	struct ps_client *client = NULL;
	struct py_numbers sizes = {0};
	struct ps_how how = {0};
	PyObject *keys, *list, *config = NULL, *result = NULL;
	int *codes = NULL;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords,
					 "OO|O:batch_put_session_start", names,
					 &keys, &list, &config))
		return NULL;
	rc = ps_batch_keys(&batch, "batch_put_session_start", keys);
	if (!rc)
		rc = py_arg_numbers(list, "sizes", &sizes);
	if (!rc && sizes.n != batch.n)
		rc = PY_ARG_RANGE;
	if (rc == PY_ARG_RANGE)
		py_warn(batch.function,
			"sizes: not one that can be of each key");
	if (rc != PY_ARG_RAISED && !ps_how_read(&how, config))
		codes = ps_codes(batch.n);
	if (codes && !rc && batch.n)
		client = ps_client_pin((struct ps_store *)self, batch.function);
	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		(void)te_store_put_open(
			client->te, batch.keys, sizes.values, batch.n,
			how.is_given ? &how.replicate : NULL, codes);
		Py_END_ALLOW_THREADS;
		explain_open(&batch, codes, sizes.values, client);
		ps_client_unpin(client);
	}
	if (codes)
		result = ps_list_of_codes(codes, batch.n);
	PyMem_Free(codes);
	ps_how_free(&how);
	py_numbers_free(&sizes);
	ps_batch_free(&batch);
	return result;
}

const PyMethodDef ps_session_methods[] = {
	PS_METHOD("batch_put_session_start", batch_put_session_start,
		  "keys, sizes, config=None)\n--\n\n"
		  "Begin to put values in parts; nobody sees them yet.\n\n"
		  "0, or a negative code, for each key."),
	PS_METHOD("batch_put_session_end", batch_put_session_end,
		  "keys)\n--\n\n"
		  "Have values seen whose parts are all there.\n\n"
		  "0, or a negative code, for each key."),
	PS_METHOD("batch_put_session_revoke", batch_put_session_revoke,
		  "keys)\n--\n\nGive up. 0, or a negative code, for each key."),
	PS_METHOD("batch_get_session_start", batch_get_session_start,
		  "keys)\n--\n\n"
		  "Keep where values lie, and their leases.\n\n"
		  "0, or a negative code, for each key."),
	PS_METHOD("batch_get_session_end", batch_get_session_end,
		  "keys)\n--\n\nUndo batch_get_session_start(). 0, or -600."),
	{0},
};
