/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync.c - transfers that are over when the method returns
 */
#include "python/src/engine/call.h"

/* Moves all of it, then tells the peer @bytes (NULL: nothing). */
static int run_transfer(struct py_engine *self, struct py_transfer *t,
			PyObject *bytes)
{
	int rc = py_transfer_start(self, t, true);

	if (!rc)
		rc = py_transfer_finish(self, t);
	if (!rc && bytes && t->n)
		rc = py_notify_send(self, t, bytes);
	return rc ? PY_FAILED : 0;
}

static PyObject *transfer(PyObject *object, const struct py_call *call)
{
	struct py_engine *self = (struct py_engine *)object;
	struct py_transfer *t = NULL;
	PyObject *bytes = NULL;
	int rc;

	if (call->notify && call->notify != Py_None) {
		bytes = py_notify_pack(call->notify, "notify");
		if (!bytes)
			return NULL;
	}
	if (bytes && PyBytes_Size(bytes) > TE_NOTIFY_MAX) {
		py_warn(call->method, "notify is longer than %d bytes",
			TE_NOTIFY_MAX);
		rc = PY_FAILED;
	} else {
		rc = py_call_transfer(self, call, &t);
	}
	if (!rc)
		rc = run_transfer(self, t, bytes);
	else if (rc == PY_ARG_RANGE)
		rc = PY_FAILED;
	py_transfer_destroy(self, t);
	Py_XDECREF(bytes);
	return PyErr_Occurred() ? NULL : PyLong_FromLong(rc);
}

static PyObject *by_name(PyObject *object, PyObject *args, PyObject *kwargs,
			 const char *format, struct py_call *call)
{
	return py_call_parse(call, args, kwargs, format)
		       ? transfer(object, call)
		       : NULL;
}

static PyObject *transfer_sync_write(PyObject *object, PyObject *args,
				     PyObject *kwargs)
{
	struct py_call call = {.method = __func__, .op = TE_WRITE};

	return by_name(object, args, kwargs, "OOOO|O:transfer_sync_write",
		       &call);
}

static PyObject *transfer_sync_read(PyObject *object, PyObject *args,
				    PyObject *kwargs)
{
	struct py_call call = {.method = __func__, .op = TE_READ};

	return by_name(object, args, kwargs, "OOOO|O:transfer_sync_read",
		       &call);
}

static PyObject *batch_transfer_sync_write(PyObject *object, PyObject *args,
					   PyObject *kwargs)
{
	struct py_call call = {
		.method = __func__, .op = TE_WRITE, .many = true};

	return by_name(object, args, kwargs, "OOOO|O:batch_transfer_sync_write",
		       &call);
}

static PyObject *batch_transfer_sync_read(PyObject *object, PyObject *args,
					  PyObject *kwargs)
{
	struct py_call call = {.method = __func__, .op = TE_READ, .many = true};

	return by_name(object, args, kwargs, "OOOO|O:batch_transfer_sync_read",
		       &call);
}

static PyObject *transfer_sync(PyObject *object, PyObject *args,
			       PyObject *kwargs)
{
	static char *names[] = {
		"target_hostname", "buffer", "peer_buffer_address", "length",
		"opcode",          "notify", "transport_hint",      NULL};
	struct py_call call = {.method = __func__};

	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "OOOOO|OO:transfer_sync", names, &call.target,
		    &call.buffers, &call.peers, &call.lengths, &call.opcode,
		    &call.notify, &call.hint))
		return NULL;
	return transfer(object, &call);
}

static PyObject *batch_transfer_sync(PyObject *object, PyObject *args,
				     PyObject *kwargs)
{
	static char *names[] = {
		"target_hostname", "buffers", "peer_buffer_addresses",
		"lengths",         "opcode",  "notify",
		"transport_hint",  NULL};
	struct py_call call = {.method = __func__, .many = true};

	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "OOOOO|OO:batch_transfer_sync", names,
		    &call.target, &call.buffers, &call.peers, &call.lengths,
		    &call.opcode, &call.notify, &call.hint))
		return NULL;
	return transfer(object, &call);
}

#define ONE                                                       \
	"(target_hostname, buffer, peer_buffer_address, length, " \
	"transport_hint='')\n--\n\n"
#define MANY                                                          \
	"(target_hostname, buffers, peer_buffer_addresses, lengths, " \
	"transport_hint='')\n--\n\n"

PyMethodDef py_sync_methods[] = {
	{"transfer_sync_write",
	 (PyCFunction)(void (*)(void))transfer_sync_write,
	 METH_VARARGS | METH_KEYWORDS,
	 "transfer_sync_write" ONE
	 "Write local memory to the peer's. 0 when it is there, else -1."},
	{"transfer_sync_read", (PyCFunction)(void (*)(void))transfer_sync_read,
	 METH_VARARGS | METH_KEYWORDS,
	 "transfer_sync_read" ONE
	 "Read the peer's memory into local memory. 0 or -1."},
	{"batch_transfer_sync_write",
	 (PyCFunction)(void (*)(void))batch_transfer_sync_write,
	 METH_VARARGS | METH_KEYWORDS,
	 "batch_transfer_sync_write" MANY
	 "Write all entries as one operation. 0 when all are there, else -1."},
	{"batch_transfer_sync_read",
	 (PyCFunction)(void (*)(void))batch_transfer_sync_read,
	 METH_VARARGS | METH_KEYWORDS,
	 "batch_transfer_sync_read" MANY
	 "Read all entries as one operation. 0 or -1."},
	{"transfer_sync", (PyCFunction)(void (*)(void))transfer_sync,
	 METH_VARARGS | METH_KEYWORDS,
	 "transfer_sync(target_hostname, buffer, peer_buffer_address, length, "
	 "opcode, notify=None, transport_hint='')\n--\n\n"
	 "Read or write, then tell the peer. 0 when it has both, else -1."},
	{"batch_transfer_sync",
	 (PyCFunction)(void (*)(void))batch_transfer_sync,
	 METH_VARARGS | METH_KEYWORDS,
	 "batch_transfer_sync(target_hostname, buffers, peer_buffer_addresses, "
	 "lengths, opcode, notify=None, transport_hint='')\n--\n\n"
	 "Read or write all entries, then tell the peer. 0 or -1."},
	{NULL, NULL, 0, NULL},
};
