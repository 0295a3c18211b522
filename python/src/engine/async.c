/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async.c - transfers that are asked about by number
 *
 * A number is good until it has been told how its transfer ended.
 */
#include "python/src/engine/call.h"

#include <errno.h>

#define CAPSULE "mooncake.engine.transfer"

enum check { DONE = 1, PENDING = 0, TIMED_OUT = -2 };

/* Gives @t a number. -1: raised, and @t is still the caller's. */
static int keep(struct py_engine *self, struct py_transfer *t, PyObject **out)
{
	PyObject *number = PyLong_FromUnsignedLongLong(self->last_transfer + 1);
	PyObject *capsule = number ? PyCapsule_New(t, CAPSULE, NULL) : NULL;
	int rc =
		capsule ? PyDict_SetItem(self->transfers, number, capsule) : -1;

	Py_XDECREF(capsule);
	if (rc) {
		Py_XDECREF(number);
		return rc;
	}
	self->last_transfer++;
	*out = number;
	return 0;
}

static PyObject *start_transfer(PyObject *object, const struct py_call *call)
{
	struct py_engine *self = (struct py_engine *)object;
	struct py_transfer *t = NULL;
	PyObject *number = NULL;
	int rc = py_call_transfer(self, call, &t);

	if (!rc)
		rc = py_transfer_start(self, t, false) ? PY_ARG_RANGE
						       : keep(self, t, &number);
	if (!rc)
		return number;
	py_transfer_destroy(self, t);
	return rc == PY_ARG_RAISED ? NULL : PyLong_FromLong(0);
}

static PyObject *by_name(PyObject *object, PyObject *args, PyObject *kwargs,
			 const char *format, struct py_call *call)
{
	return py_call_parse(call, args, kwargs, format)
		       ? start_transfer(object, call)
		       : NULL;
}

static PyObject *transfer_submit_write(PyObject *object, PyObject *args,
				       PyObject *kwargs)
{
	struct py_call call = {.method = __func__, .op = TE_WRITE};

	return by_name(object, args, kwargs, "OOOO|O:transfer_submit_write",
		       &call);
}

static PyObject *batch_transfer_async_write(PyObject *object, PyObject *args,
					    PyObject *kwargs)
{
	struct py_call call = {
		.method = __func__, .op = TE_WRITE, .many = true};

	return by_name(object, args, kwargs,
		       "OOOO|O:batch_transfer_async_write", &call);
}

static PyObject *batch_transfer_async_read(PyObject *object, PyObject *args,
					   PyObject *kwargs)
{
	struct py_call call = {.method = __func__, .op = TE_READ, .many = true};

	return by_name(object, args, kwargs, "OOOO|O:batch_transfer_async_read",
		       &call);
}

static PyObject *batch_transfer_async(PyObject *object, PyObject *args,
				      PyObject *kwargs)
{
	static char *names[] = {"target_hostname",
				"buffers",
				"peer_buffer_addresses",
				"lengths",
				"opcode",
				"transport_hint",
				NULL};
	struct py_call call = {.method = __func__, .many = true};

	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "OOOOO|O:batch_transfer_async", names,
		    &call.target, &call.buffers, &call.peers, &call.lengths,
		    &call.opcode, &call.hint))
		return NULL;
	return start_transfer(object, &call);
}

/*
 * The transfer of this number, which stays where it is. NULL: none, or raised.
 */
static struct py_transfer *find(const struct py_engine *self, PyObject *number)
{
	PyObject *capsule = PyDict_GetItemWithError(self->transfers, number);

	return capsule ? PyCapsule_GetPointer(capsule, CAPSULE) : NULL;
}

static enum check outcome(int rc)
{
	if (rc == -ETIMEDOUT)
		return TIMED_OUT;
	return rc ? (enum check)PY_FAILED : DONE;
}

/* Returns the status of transfer @number; forgets it when it is over. */
static PyObject *check_status(struct py_engine *self, PyObject *number)
{
	struct py_transfer *t = find(self, number);
	int rc;

	if (!t && PyErr_Occurred())
		return NULL;
	if (!t)
		return py_refuse("transfer_check_status", "batch_id",
				 "no transfer has it (any more)");
	if (t->is_busy) /* another thread asks, too, and sends it again */
		return PyLong_FromLong(PENDING);
	t->is_busy = true;
	rc = py_transfer_look(self, t);
	t->is_busy = false;
	if (rc == -EAGAIN)
		return PyLong_FromLong(PENDING);
	if (PyDict_DelItem(self->transfers, number))
		return NULL;
	py_transfer_destroy(self, t);
	return PyLong_FromLong(outcome(rc));
}

static PyObject *transfer_check_status(PyObject *object, PyObject *args,
				       PyObject *kwargs)
{
	static char *names[] = {"batch_id", NULL};
	struct py_engine *self = (struct py_engine *)object;
	PyObject *value, *number, *result;
	uint64_t id;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "O:transfer_check_status", names, &value))
		return NULL;
	rc = py_arg_uint64(value, names[0], &id);
	if (rc)
		return py_bad_argument("transfer_check_status", names[0], rc);
	if (!py_is_ready(self, "transfer_check_status"))
		return PyLong_FromLong(PY_FAILED);
	/* A caller that polls drives the transfers. */
	Py_BEGIN_ALLOW_THREADS;
	(void)te_engine_drive(self->te, 0);
	Py_END_ALLOW_THREADS;
	number = PyLong_FromUnsignedLongLong(id);
	if (!number)
		return NULL;
	result = check_status(self, number);
	Py_DECREF(number);
	return result;
}

/* Takes a transfer and waits for it. 0, or PY_FAILED, or PY_ARG_RAISED. */
static int finish_transfer(struct py_engine *self, uint64_t id)
{
	PyObject *number = PyLong_FromUnsignedLongLong(id);
	struct py_transfer *t = number ? find(self, number) : NULL;
	int rc = PY_FAILED;

	if (!t || t->is_busy) {
		if (!PyErr_Occurred())
			py_warn("get_batch_transfer_status",
				"batch_ids: %llu is no transfer (any "
				"more), or another thread waits for it",
				(unsigned long long)id);
	} else if (!PyDict_DelItem(self->transfers, number)) {
		rc = py_transfer_finish(self, t) ? PY_FAILED : 0;
		py_transfer_destroy(self, t);
	}
	Py_XDECREF(number);
	return rc;
}

static PyObject *get_batch_transfer_status(PyObject *object, PyObject *args,
					   PyObject *kwargs)
{
	static char *names[] = {"batch_ids", NULL};
	const char *method = "get_batch_transfer_status";
	struct py_engine *self = (struct py_engine *)object;
	struct py_numbers ids = {0};
	PyObject *list;
	int rc, all = 0;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "O:get_batch_transfer_status", names, &list))
		return NULL;
	rc = py_arg_numbers(list, names[0], &ids);
	if (rc)
		return py_bad_argument(method, names[0], rc);
	if (!py_is_ready(self, method)) {
		py_numbers_free(&ids);
		return PyLong_FromLong(PY_FAILED);
	}
	for (size_t i = 0; i < ids.n && !PyErr_Occurred(); i++)
		if (finish_transfer(self, ids.values[i]))
			all = PY_FAILED;
	py_numbers_free(&ids);
	return PyErr_Occurred() ? NULL : PyLong_FromLong(all);
}

void py_transfers_end(struct py_engine *self)
{
	PyObject *capsule;
	Py_ssize_t at = 0;

	while (PyDict_Next(self->transfers, &at, NULL, &capsule))
		py_transfer_destroy(self,
				    PyCapsule_GetPointer(capsule, CAPSULE));
	PyDict_Clear(self->transfers);
}

#define MANY                                                          \
	"(target_hostname, buffers, peer_buffer_addresses, lengths, " \
	"transport_hint='')\n--\n\n"

PyMethodDef py_async_methods[] = {
	{"transfer_submit_write",
	 (PyCFunction)(void (*)(void))transfer_submit_write,
	 METH_VARARGS | METH_KEYWORDS,
	 "transfer_submit_write(target_hostname, buffer, peer_buffer_address, "
	 "length, transport_hint='')\n--\n\n"
	 "Start a write. A number for transfer_check_status(), or 0: refused."},
	{"batch_transfer_async_write",
	 (PyCFunction)(void (*)(void))batch_transfer_async_write,
	 METH_VARARGS | METH_KEYWORDS,
	 "batch_transfer_async_write" MANY
	 "Start writing all entries. A number, or 0."},
	{"batch_transfer_async_read",
	 (PyCFunction)(void (*)(void))batch_transfer_async_read,
	 METH_VARARGS | METH_KEYWORDS,
	 "batch_transfer_async_read" MANY
	 "Start reading all entries. A number, or 0."},
	{"batch_transfer_async",
	 (PyCFunction)(void (*)(void))batch_transfer_async,
	 METH_VARARGS | METH_KEYWORDS,
	 "batch_transfer_async(target_hostname, buffers, "
	 "peer_buffer_addresses, lengths, opcode, transport_hint='')\n--\n\n"
	 "Start reading or writing all entries. A number, or 0."},
	{"transfer_check_status",
	 (PyCFunction)(void (*)(void))transfer_check_status,
	 METH_VARARGS | METH_KEYWORDS,
	 "transfer_check_status(batch_id)\n--\n\n"
	 "1 done, 0 under way, -1 failed, -2 out of time. Once it is not 0 the "
	 "number is forgotten."},
	{"get_batch_transfer_status",
	 (PyCFunction)(void (*)(void))get_batch_transfer_status,
	 METH_VARARGS | METH_KEYWORDS,
	 "get_batch_transfer_status(batch_ids)\n--\n\n"
	 "Wait for all, and forget them. 0 when all went well, else -1."},
	{NULL, NULL, 0, NULL},
};
