/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.c - TransferEngine: made, initialized, looked into, destroyed
 */
#include "python/src/engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <te/topo.h>

#define TIMEOUT_S      30
#define TIMEOUT_MIN_S  5
#define TIMEOUT_MAX_S  (7 * 24 * 3600)
#define ENGINE_CAPSULE "mooncake.te_engine"

PyObject *py_refuse(const char *method, const char *argument, const char *why)
{
	py_warn(method, "%s: %s", argument, why);
	return PyLong_FromLong(PY_FAILED);
}

PyObject *py_bad_argument(const char *method, const char *argument, int rc)
{
	if (rc == PY_ARG_RAISED)
		return NULL;
	return py_refuse(method, argument, "out of range");
}

bool py_is_ready(const struct py_engine *self, const char *method)
{
	if (!self->te)
		py_warn(method, "the engine is not initialized");
	return self->te != NULL;
}

/* ---- life ---- */

static PyObject *new_engine(PyTypeObject *type, PyObject *args,
			    PyObject *kwargs)
{
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct py_engine *self = (struct py_engine *)allocate(type, 0);

	(void)args;
	(void)kwargs;
	if (!self)
		return NULL;
	self->segments = PyDict_New();
	self->transfers = PyDict_New();
	self->managed = PyDict_New();
	if (self->segments && self->transfers && self->managed)
		return (PyObject *)self;
	Py_DECREF(self);
	return NULL;
}

static void dealloc(PyObject *object)
{
	struct py_engine *self = (struct py_engine *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->transfers)
		py_transfers_end(self);
	py_on_streams_end(self);
	Py_BEGIN_ALLOW_THREADS;
	/* Batches that are kept for the next go with their engine. */
	te_engine_destroy(self->te);
	Py_END_ALLOW_THREADS;
	py_arena_free(self);
	free(self->regions);
	Py_XDECREF(self->segments);
	Py_XDECREF(self->transfers);
	Py_XDECREF(self->managed);
	release(object);
	Py_DECREF(type);
}

/* MC_TRANSFER_TIMEOUT, seconds. */
static uint32_t timeout_ms(void)
{
	const char *text = getenv("MC_TRANSFER_TIMEOUT");
	long seconds = TIMEOUT_S;
	char *end;

	if (text && *text) {
		errno = 0;
		seconds = strtol(text, &end, 10);
		if (errno || *end || seconds > TIMEOUT_MAX_S) {
			py_warn("initialize",
				"MC_TRANSFER_TIMEOUT \"%s\" is no number "
				"of seconds: %d it is",
				text, TIMEOUT_S);
			seconds = TIMEOUT_S;
		} else if (seconds < TIMEOUT_MIN_S) {
			seconds = TIMEOUT_MIN_S;
		}
	}
	return (uint32_t)seconds * 1000;
}

static PyObject *start_engine(struct py_engine *self,
			      const struct py_start *how)
{
	struct te_engine *te = NULL;
	int rc;

	if (self->te || self->is_starting)
		return py_refuse("initialize", "self",
				 "it is initialized already");
	self->is_starting = true;
	Py_BEGIN_ALLOW_THREADS;
	rc = py_start_engine(how, &te);
	Py_END_ALLOW_THREADS;
	self->is_starting = false;
	self->te = te;
	self->timeout_ms = timeout_ms();
	return PyLong_FromLong(rc ? PY_FAILED : 0);
}

static PyObject *initialize(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"local_hostname", "metadata_server", "protocol",
				"device_name", NULL};
	PyObject *values[4];
	const char *texts[4];

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO:initialize", names,
					 &values[0], &values[1], &values[2],
					 &values[3]))
		return NULL;
	for (int i = 0; i < 4; i++) {
		int rc = py_arg_text(values[i], names[i], &texts[i]);

		if (rc)
			return py_bad_argument("initialize", names[i], rc);
	}
	return start_engine(
		(struct py_engine *)object,
		&(struct py_start){texts[0], texts[1], texts[2], texts[3]});
}

static PyObject *initialize_ext(PyObject *object, PyObject *args,
				PyObject *kwargs)
{
	static char *names[] = {"local_hostname", "metadata_server", "protocol",
				"device_name",    "metadata_type",   NULL};
	PyObject *values[5];
	const char *texts[5];
	char metadata[512];

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOO:initialize_ext",
					 names, &values[0], &values[1],
					 &values[2], &values[3], &values[4]))
		return NULL;
	for (int i = 0; i < 5; i++) {
		int rc = py_arg_text(values[i], names[i], &texts[i]);

		if (rc)
			return py_bad_argument("initialize_ext", names[i], rc);
	}
	if (!strcmp(texts[4], "p2p") || !strcmp(texts[4], "P2PHANDSHAKE"))
		texts[1] = "P2PHANDSHAKE";
	if (strcmp(texts[1], "P2PHANDSHAKE") && !strstr(texts[1], "://") &&
	    *texts[4]) {
		if ((size_t)snprintf(metadata, sizeof(metadata), "%s://%s",
				     texts[4], texts[1]) >= sizeof(metadata))
			return py_refuse("initialize_ext", "metadata_server",
					 "too long");
		texts[1] = metadata;
	}
	return start_engine(
		(struct py_engine *)object,
		&(struct py_start){texts[0], texts[1], texts[2], texts[3]});
}

/* ---- looking inside ---- */

static PyObject *get_rpc_port(PyObject *object, PyObject *ignored)
{
	const struct py_engine *self = (struct py_engine *)object;
	const char *colon;

	(void)ignored;
	if (!py_is_ready(self, "get_rpc_port"))
		return PyLong_FromLong(PY_FAILED);
	colon = strrchr(te_engine_name(self->te), ':');
	return PyLong_FromLong(colon ? strtol(colon + 1, NULL, 10) : 0);
}

static void drop_engine(PyObject *capsule)
{
	Py_XDECREF(PyCapsule_GetContext(capsule));
}

static PyObject *get_engine(PyObject *object, PyObject *ignored)
{
	const struct py_engine *self = (struct py_engine *)object;
	PyObject *capsule;

	(void)ignored;
	if (!py_is_ready(self, "get_engine"))
		Py_RETURN_NONE;
	capsule = PyCapsule_New(self->te, ENGINE_CAPSULE, drop_engine);
	if (!capsule)
		return NULL;
	if (PyCapsule_SetContext(capsule, object)) {
		Py_DECREF(capsule);
		return NULL;
	}
	Py_INCREF(object); /* lives as long as the capsule */
	return capsule;
}

static PyObject *get_engine_ptr(PyObject *object, PyObject *ignored)
{
	const struct py_engine *self = (struct py_engine *)object;

	(void)ignored;
	if (!py_is_ready(self, "get_engine_ptr"))
		return PyLong_FromLong(0);
	return PyLong_FromVoidPtr(self->te);
}

/* Two arrays of names for each memory; NULL: cannot be looked at, logged. */
static char *matrix(void)
{
	char error[256], *text = NULL;
	struct te_topo *topo;
	size_t len = 0;

	if (te_topo_load(NULL, &topo, error, sizeof(error))) {
		py_warn("get_local_topology", "%s", error);
		return NULL;
	}
	(void)te_topo_format(topo, TE_TOPO_MATRIX, NULL, &len);
	text = malloc(len + 1);
	if (text && te_topo_format(topo, TE_TOPO_MATRIX, text, &len)) {
		free(text);
		text = NULL;
	}
	te_topo_destroy(topo);
	return text;
}

/* @text with the devices alone that @names, separated by commas, has. */
static PyObject *only(const char *text, PyObject *names)
{
	PyObject *json = PyImport_ImportModule("mooncake._topology");
	PyObject *result = NULL;

	if (json)
		result = PyObject_CallMethod(json, "only", "sO", text, names);
	Py_XDECREF(json);
	return result;
}

static PyObject *get_local_topology(PyObject *object, PyObject *args,
				    PyObject *kwargs)
{
	static char *names[] = {"device_name", NULL};
	PyObject *value = Py_None, *result;
	const char *devices;
	char *text;
	int rc;

	(void)object;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:get_local_topology",
					 names, &value))
		return NULL;
	if (value != Py_None) {
		rc = py_arg_text(value, names[0], &devices);
		if (rc == PY_ARG_RAISED)
			return NULL;
		if (rc || !*devices)
			value = Py_None;
	}
	Py_BEGIN_ALLOW_THREADS;
	text = matrix();
	Py_END_ALLOW_THREADS;
	if (!text)
		return PyUnicode_FromString("");
	result = value == Py_None ? PyUnicode_FromString(text)
				  : only(text, value);
	free(text);
	return result;
}

PyMethodDef py_engine_methods[] = {
	{"initialize", (PyCFunction)(void (*)(void))initialize,
	 METH_VARARGS | METH_KEYWORDS,
	 "initialize(local_hostname, metadata_server, protocol, device_name)\n"
	 "--\n\n"
	 "Start. metadata_server: 'P2PHANDSHAKE', 'http://host:port/metadata', "
	 "'etcd://host:port', 'redis://host:port'. 0 or -1."},
	{"initialize_ext", (PyCFunction)(void (*)(void))initialize_ext,
	 METH_VARARGS | METH_KEYWORDS,
	 "initialize_ext(local_hostname, metadata_server, protocol, "
	 "device_name, metadata_type)\n--\n\n"
	 "As initialize(), with 'http', 'etcd', 'redis' or 'p2p' apart."},
	{"get_rpc_port", get_rpc_port, METH_NOARGS,
	 "get_rpc_port()\n--\n\nThe port of 'host:port', this engine's name."},
	{"get_engine", get_engine, METH_NOARGS,
	 "get_engine()\n--\n\n"
	 "The engine for MooncakeDistributedStore.setup(); None before "
	 "initialize()."},
	{"get_engine_ptr", get_engine_ptr, METH_NOARGS,
	 "get_engine_ptr()\n--\n\nAddress of the engine (struct te_engine)."},
	{"get_local_topology", (PyCFunction)(void (*)(void))get_local_topology,
	 METH_VARARGS | METH_KEYWORDS,
	 "get_local_topology(device_name=None)\n--\n\n"
	 "JSON: for each memory its preferred and its other devices."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "TransferEngine()\n--\n\n"
		    "Moves bytes between memory of processes."},
	{Py_tp_new, (void *)(uintptr_t)new_engine},
	{Py_tp_dealloc, (void *)(uintptr_t)dealloc},
	{0, NULL},
};

PyType_Spec py_engine_spec = {
	.name = "mooncake.engine.TransferEngine",
	.basicsize = sizeof(struct py_engine),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};
