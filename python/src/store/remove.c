/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove.c - methods that remove values
 */
#include "python/src/args.h"
#include "python/src/store/methods.h"

/* results[n], or NULL: raised. */
static int *remove_keys(PyObject *self, const struct ps_batch *batch, int rc,
			PyObject *force)
{
	struct ps_client *client = NULL;
	int *results = NULL;
	bool forced;

	if (rc != PY_ARG_RAISED && !ps_arg_bool(force, "force", &forced))
		results = ps_codes(batch->n);
	if (results && batch->n)
		client =
			ps_client_pin((struct ps_store *)self, batch->function);
	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		(void)te_store_remove(client->te, batch->keys, batch->n, forced,
				      results);
		Py_END_ALLOW_THREADS;
		ps_client_unpin(client);
		ps_batch_explain_codes(batch, results, "refused");
	}
	return results;
}

static PyObject *remove_one(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"key", "force", NULL};
	struct ps_batch batch = {0};
	PyObject *key, *force = NULL, *result = NULL;
	int *results;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:remove", names,
					 &key, &force))
		return NULL;
	results = remove_keys(self, &batch, ps_batch_key(&batch, "remove", key),
			      force);
	if (results)
		result = PyLong_FromLong(results[0]);
	PyMem_Free(results);
	ps_batch_free(&batch);
	return result;
}

static PyObject *batch_remove(PyObject *self, PyObject *args,
			      PyObject *keywords)
{
	static char *names[] = {"keys", "force", NULL};
	struct ps_batch batch = {0};
	PyObject *keys, *force = NULL, *list = NULL;
	int *results;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:batch_remove",
					 names, &keys, &force))
		return NULL;
	results =
		remove_keys(self, &batch,
			    ps_batch_keys(&batch, "batch_remove", keys), force);
	if (results)
		list = ps_list_of_codes(results, batch.n);
	PyMem_Free(results);
	ps_batch_free(&batch);
	return list;
}

/* @pattern: NULL: all. */
static PyObject *remove_many(PyObject *self, const char *function,
			     const char *pattern, bool force)
{
	struct ps_client *client =
		ps_client_pin((struct ps_store *)self, function);
	uint64_t removed = 0;
	int rc = TE_STORE_INVALID_PARAMS;

	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		if (pattern)
			rc = te_store_remove_matching(client->te, pattern,
						      force, &removed);
		else
			rc = te_store_remove_all(client->te, force, &removed);
		Py_END_ALLOW_THREADS;
		ps_client_unpin(client);
	}
	if (client && rc == TE_STORE_INVALID_PARAMS)
		py_warn(function,
			pattern ? "regex_pattern is no regular expression"
				: "another one is under way");
	if (rc)
		return PyLong_FromLong(rc);
	return PyLong_FromUnsignedLongLong(removed);
}

static PyObject *remove_all(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"force", NULL};
	PyObject *force = NULL;
	bool forced;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:remove_all", names,
					 &force) ||
	    ps_arg_bool(force, "force", &forced))
		return NULL;
	return remove_many(self, "remove_all", NULL, forced);
}

static PyObject *remove_by_regex(PyObject *self, PyObject *args,
				 PyObject *keywords)
{
	static char *names[] = {"regex_pattern", "force", NULL};
	PyObject *pattern, *force = NULL;
	const char *text;
	bool forced;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:remove_by_regex",
					 names, &pattern, &force) ||
	    ps_arg_bool(force, "force", &forced))
		return NULL;
	rc = py_arg_text(pattern, "regex_pattern", &text);
	if (!rc)
		return remove_many(self, "remove_by_regex", text, forced);
	if (rc == PY_ARG_RAISED)
		return NULL;
	py_warn("remove_by_regex", "regex_pattern is no text");
	return PyLong_FromLong(TE_STORE_INVALID_PARAMS);
}

const PyMethodDef ps_remove_methods[] = {
	PS_METHOD("remove", remove_one,
		  "key, force=False)\n--\n\n"
		  "0, -704: not there, -706: leased, -703: being put."),
	PS_METHOD("batch_remove", batch_remove,
		  "keys, force=False)\n--\n\nAs remove(), for each key."),
	PS_METHOD("remove_by_regex", remove_by_regex,
		  "regex_pattern, force=False)\n--\n\n"
		  "Remove the keys that match somewhere.\n\n"
		  "How many were removed, or a negative code."),
	PS_METHOD("remove_all", remove_all,
		  "force=False)\n--\n\n"
		  "Remove all that is not leased; with force, all.\n\n"
		  "How many were removed, or a negative code."),
	{0},
};
