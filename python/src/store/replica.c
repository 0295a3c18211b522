/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica.c - methods about where objects lie, and that copy and move them
 */
#include <string.h>

#include "python/src/args.h"
#include "python/src/store/methods.h"
#include "python/src/store/types.h"

/* ---- where objects lie ---- */

struct places {
	int *counts; /* counts[n]: replicas of each key, or a code */
	struct te_store_replica *replicas;
};

/* Asks with room for @room replicas. Returns how many there are. */
static size_t ask_replicas(struct te_store *te, const struct ps_batch *batch,
			   struct places *places, size_t room)
{
	size_t n = room;

	Py_BEGIN_ALLOW_THREADS;
	(void)te_store_replicas(te, batch->keys, batch->n, places->counts,
				places->replicas, &n);
	Py_END_ALLOW_THREADS;
	return n;
}

/* False: raised. Free what comes in either case. */
static bool find(struct ps_store *self, const struct ps_batch *batch,
		 struct places *places)
{
	struct ps_client *client = NULL;
	size_t room, n = batch->n + 1;

	places->counts = ps_codes(batch->n);
	if (places->counts && batch->n)
		client = ps_client_pin(self, batch->function);
	if (!client)
		return places->counts != NULL;
	do { /* there may be more of them each time */
		room = n;
		PyMem_Free(places->replicas);
		places->replicas =
			PyMem_Calloc(room, sizeof(*places->replicas));
		if (!places->replicas)
			PyErr_NoMemory();
		else
			n = ask_replicas(client->te, batch, places, room);
	} while (places->replicas && n > room);
	ps_client_unpin(client);
	if (places->replicas)
		ps_batch_explain_codes(batch, places->counts, "refused");
	return places->replicas != NULL;
}

static PyObject *list_of(const struct te_store_replica *replicas, int n)
{
	PyObject *list = PyList_New(n < 0 ? 0 : n), *item;

	for (int i = 0; list && i < n; i++) {
		item = ps_describe_replica(&replicas[i]);
		if (!item || PyList_SetItem(list, i, item))
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *get_replica_desc(PyObject *self, PyObject *args,
				  PyObject *keywords)
{
	static char *names[] = {"key", NULL};
	struct ps_batch batch = {0};
	struct places places = {0};
	PyObject *key, *list = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:get_replica_desc",
					 names, &key))
		return NULL;
	if (!ps_batch_key(&batch, "get_replica_desc", key) &&
	    find((struct ps_store *)self, &batch, &places))
		list = list_of(places.replicas, places.counts[0]);
	PyMem_Free(places.counts);
	PyMem_Free(places.replicas);
	ps_batch_free(&batch);
	return list;
}

/* Keys that have replicas, with them. */
static PyObject *dict_of(const struct ps_batch *batch,
			 const struct places *places)
{
	const struct te_store_replica *next = places->replicas;
	PyObject *dict = PyDict_New(), *list;

	for (size_t i = 0; dict && i < batch->n; i++) {
		int n = places->counts[i];

		if (n <= 0)
			continue;
		list = list_of(next, n);
		if (!list ||
		    PyDict_SetItem(dict,
				   PyTuple_GetItem(batch->names, (Py_ssize_t)i),
				   list))
			Py_CLEAR(dict);
		Py_XDECREF(list);
		next += n;
	}
	return dict;
}

static PyObject *batch_get_replica_desc(PyObject *self, PyObject *args,
					PyObject *keywords)
{
	static char *names[] = {"keys", NULL};
	struct ps_batch batch = {0};
	struct places places = {0};
	PyObject *keys, *dict = NULL;

	if (!PyArg_ParseTupleAndKeywords(
		    args, keywords, "O:batch_get_replica_desc", names, &keys))
		return NULL;
	if (!ps_batch_keys(&batch, "batch_get_replica_desc", keys) &&
	    find((struct ps_store *)self, &batch, &places))
		dict = dict_of(&batch, &places);
	PyMem_Free(places.counts);
	PyMem_Free(places.replicas);
	ps_batch_free(&batch);
	return dict;
}

/* ---- giving replicas up ---- */

/* The keys whose code is 0. */
static PyObject *list_cleared(const struct ps_batch *batch, const int *codes)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < batch->n; i++)
		if (!codes[i] &&
		    PyList_Append(list,
				  PyTuple_GetItem(batch->names, (Py_ssize_t)i)))
			Py_CLEAR(list);
	return list;
}

static PyObject *batch_replica_clear(PyObject *self, PyObject *args,
				     PyObject *keywords)
{
	static char *names[] = {"keys", "segment_name", NULL};
	struct ps_batch batch = {0};
	struct ps_client *client = NULL;
	PyObject *keys, *segment = NULL, *list = NULL;
	const char *name = "";
	int *codes = NULL;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords,
					 "O|O:batch_replica_clear", names,
					 &keys, &segment))
		return NULL;
	rc = ps_batch_keys(&batch, "batch_replica_clear", keys);
	if (!rc && segment)
		rc = py_arg_text(segment, "segment_name", &name);
	if (rc == PY_ARG_RANGE)
		py_warn("batch_replica_clear", "segment_name is no text");
	if (rc != PY_ARG_RAISED)
		codes = ps_codes(batch.n);
	if (codes && !rc && batch.n)
		client = ps_client_pin((struct ps_store *)self,
				       "batch_replica_clear");
	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		(void)te_store_replica_clear(client->te, batch.keys, batch.n,
					     name, codes);
		Py_END_ALLOW_THREADS;
		ps_client_unpin(client);
		ps_batch_explain_codes(&batch, codes, "segment_name: refused");
	}
	if (codes)
		list = list_cleared(&batch, codes);
	PyMem_Free(codes);
	ps_batch_free(&batch);
	return list;
}

/* ---- tasks ---- */

/* Mooncake's code for a segment that is not there, or has no replica. */
static int task_code(int code)
{
	return code == TE_STORE_SEGMENT_NOT_FOUND ||
			       code == TE_STORE_REPLICA_NOT_FOUND
		       ? TE_STORE_INVALID_PARAMS
		       : code;
}

/* (id, code) */
static PyObject *task_answer(const uint8_t id[16], int code)
{
	return Py_BuildValue("(Ni)", ps_id_object(id), code);
}

/* The texts of a tuple, from PyMem; NULL: *rc says why. */
static const char **read_targets(PyObject *targets, int *rc)
{
	Py_ssize_t n = PyTuple_Size(targets);
	const char **texts = PyMem_Calloc((size_t)n + 1, sizeof(*texts));

	*rc = texts ? PY_ARG_OK : PY_ARG_RAISED;
	if (!texts)
		PyErr_NoMemory();
	for (Py_ssize_t i = 0; !*rc && i < n; i++)
		*rc = py_arg_text(PyTuple_GetItem(targets, i), "targets",
				  &texts[i]);
	if (!*rc)
		return texts;
	PyMem_Free(texts);
	return NULL;
}

static PyObject *create_copy_task(PyObject *self, PyObject *args,
				  PyObject *keywords)
{
	static char *names[] = {"key", "targets", NULL};
	struct ps_batch batch = {0};
	struct ps_client *client = NULL;
	PyObject *key, *list, *targets = NULL;
	uint8_t id[TE_STORE_TASK_ID_LEN] = {0};
	const char **texts = NULL;
	int rc, code = TE_STORE_INVALID_PARAMS;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:create_copy_task",
					 names, &key, &list))
		return NULL;
	rc = ps_batch_key(&batch, "create_copy_task", key);
	if (!rc)
		rc = py_arg_tuple(list, "targets", &targets);
	if (!rc)
		texts = read_targets(targets, &rc);
	if (rc == PY_ARG_RANGE)
		py_warn(batch.function, "targets: one is no text");
	if (texts)
		client = ps_client_pin((struct ps_store *)self,
				       "create_copy_task");
	if (client) {
		size_t n = (size_t)PyTuple_Size(targets);

		Py_BEGIN_ALLOW_THREADS;
		code = te_store_copy(client->te, batch.keys, texts, n, id);
		Py_END_ALLOW_THREADS;
		ps_client_unpin(client);
		code = task_code(code);
		ps_batch_explain_codes(
			&batch, &code,
			"targets: none, or one is no segment's name");
	}
	PyMem_Free((void *)texts);
	Py_XDECREF(targets);
	ps_batch_free(&batch);
	return rc == PY_ARG_RAISED ? NULL : task_answer(id, code);
}

static PyObject *create_move_task(PyObject *self, PyObject *args,
				  PyObject *keywords)
{
	static char *names[] = {"key", "source", "target", NULL};
	struct ps_batch batch = {0};
	struct ps_client *client = NULL;
	PyObject *key, *from, *to;
	uint8_t id[TE_STORE_TASK_ID_LEN] = {0};
	const char *source, *target;
	int rc, code = TE_STORE_INVALID_PARAMS;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO:create_move_task",
					 names, &key, &from, &to))
		return NULL;
	rc = ps_batch_key(&batch, "create_move_task", key);
	if (!rc)
		rc = py_arg_text(from, "source", &source);
	if (!rc)
		rc = py_arg_text(to, "target", &target);
	if (rc == PY_ARG_RANGE)
		py_warn(batch.function, "source or target is no text");
	if (!rc)
		client = ps_client_pin((struct ps_store *)self,
				       "create_move_task");
	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		code = te_store_move(client->te, batch.keys, source, target,
				     id);
		Py_END_ALLOW_THREADS;
		ps_client_unpin(client);
		code = task_code(code);
		ps_batch_explain_codes(
			&batch, &code,
			"source or target: no segment's name, "
			"the same, or the source has no replica");
	}
	ps_batch_free(&batch);
	return rc == PY_ARG_RAISED ? NULL : task_answer(id, code);
}

static PyObject *query_task(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"task_id", NULL};
	struct ps_client *client = NULL;
	struct te_store_task task = {0};
	uint8_t id[TE_STORE_TASK_ID_LEN];
	PyObject *pair;
	int rc, code = TE_STORE_INVALID_PARAMS;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:query_task", names,
					 &pair))
		return NULL;
	rc = ps_id_read(pair, "task_id", id);
	if (rc == PY_ARG_RAISED)
		return NULL;
	if (rc)
		py_warn("query_task", "task_id is no pair of 64 bits each");
	else
		client = ps_client_pin((struct ps_store *)self, "query_task");
	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		code = te_store_task(client->te, id, &task);
		Py_END_ALLOW_THREADS;
		ps_client_unpin(client);
	}
	if (code)
		return Py_BuildValue("(Oi)", Py_None, code);
	return Py_BuildValue("(Ni)", ps_describe_task(pair, &task), 0);
}

const PyMethodDef ps_replica_methods[] = {
	PS_METHOD("get_replica_desc", get_replica_desc,
		  "key)\n--\n\nA list of ReplicaDescriptors."),
	PS_METHOD(
		"batch_get_replica_desc", batch_get_replica_desc,
		"keys)\n--\n\n"
		"A list of ReplicaDescriptors by key, of those that are there."),
	PS_METHOD("batch_replica_clear", batch_replica_clear,
		  "keys, segment_name='')\n--\n\n"
		  "Give up replicas in a segment, or in all of them.\n\n"
		  "The keys of which some were given up."),
	PS_METHOD("create_copy_task", create_copy_task,
		  "key, targets)\n--\n\n"
		  "Have replicas made. Its id, a pair, and 0 or a code."),
	PS_METHOD("create_move_task", create_move_task,
		  "key, source, target)\n--\n\n"
		  "Have a replica moved. Its id, a pair, and 0 or a code."),
	PS_METHOD("query_task", query_task,
		  "task_id)\n--\n\n"
		  "(QueryTaskResponse, 0), or (None, a negative code)."),
	{0},
};
