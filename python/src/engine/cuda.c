/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.c - transfers in the order of a CUDA stream
 *
 * A call puts a transfer into the stream: it begins when what is before it has
 * ended, and what is put there later begins when it has ended. How it ended is
 * for the next call to tell. Kernels behind a transfer that failed run even so,
 * since a stream that stood still could not be waited for by anybody.
 */
#include "python/src/engine/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The first of those that have failed, and how many did. */
struct failure {
	size_t n;
	PyObject *text; /* NULL: none has, or raised */
};

static void note(struct failure *failure, const struct py_transfer *t, int rc)
{
	if (!failure->n++)
		failure->text = PyUnicode_FromFormat(
			"an earlier %s of %zu entries to %s failed: %s",
			t->method, t->n, t->target, te_strerror(rc));
}

static struct py_transfer *take(struct py_engine *self, size_t i)
{
	struct py_transfer *t = self->on_streams[i];

	self->n_on_streams--;
	memmove(&self->on_streams[i], &self->on_streams[i + 1],
		(self->n_on_streams - i) * sizeof(struct py_transfer *));
	return t;
}

/* Forgets what has ended. -1: raised, as some of it has failed. */
static int end_done(struct py_engine *self)
{
	struct failure failure = {.n = 0};
	size_t i = 0;

	while (i < self->n_on_streams) {
		int rc = py_transfer_result(self->on_streams[i]);
		struct py_transfer *t;

		if (rc == -EAGAIN) {
			i++;
			continue;
		}
		t = take(self, i);
		if (rc)
			note(&failure, t, rc);
		py_transfer_destroy(self, t);
		i = 0; /* others may have called meanwhile */
	}
	if (!failure.n)
		return 0;
	if (failure.text && failure.n > 1)
		PyErr_Format(PyExc_RuntimeError, "%U (and %zu more)",
			     failure.text, failure.n - 1);
	else if (failure.text)
		PyErr_SetObject(PyExc_RuntimeError, failure.text);
	Py_XDECREF(failure.text);
	return -1;
}

/* Room for one more. -1: raised. */
static int reserve(struct py_engine *self)
{
	size_t room = 2 * self->n_on_streams + 16;
	struct py_transfer **more;

	if (self->n_on_streams < self->room_on_streams)
		return 0;
	more = realloc(self->on_streams, room * sizeof(*more));
	if (!more) {
		PyErr_NoMemory();
		return -1;
	}
	self->on_streams = more;
	self->room_on_streams = room;
	return 0;
}

/* 0, or -1: raised. */
static int read_stream(PyObject *value, const char *method, uint64_t *out)
{
	int rc = PY_ARG_OK;

	*out = 0;
	if (value)
		rc = py_arg_uint64(value, "stream_ptr", out);
	if (rc == PY_ARG_RANGE)
		PyErr_Format(PyExc_RuntimeError,
			     "%s: stream_ptr is out of range", method);
	return rc ? -1 : 0;
}

static PyObject *put_into_stream(struct py_engine *self,
				 const struct py_call *call, uint64_t stream)
{
	struct py_transfer *t = NULL;

	if (end_done(self) || py_call_transfer(self, call, &t))
		return NULL;
	if (py_transfer_on_stream(self, t, stream) || reserve(self)) {
		py_transfer_destroy(self, t);
		return NULL;
	}
	self->on_streams[self->n_on_streams++] = t;
	Py_RETURN_NONE;
}

void py_on_streams_end(struct py_engine *self)
{
	while (self->n_on_streams)
		py_transfer_destroy(self, take(self, 0));
	free(self->on_streams);
	self->on_streams = NULL;
	self->room_on_streams = 0;
}

static PyObject *on_cuda(PyObject *object, PyObject *args, PyObject *kwargs,
			 const char *format, struct py_call *call)
{
	static char *one[] = {"target_hostname",
			      "buffer",
			      "peer_buffer_address",
			      "length",
			      "stream_ptr",
			      "transport_hint",
			      NULL};
	static char *many[] = {"target_hostname",
			       "buffers",
			       "peer_buffer_addresses",
			       "lengths",
			       "stream_ptr",
			       "transport_hint",
			       NULL};
	PyObject *value = NULL;
	uint64_t stream;

	call->raises = true;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, format,
					 call->many ? many : one, &call->target,
					 &call->buffers, &call->peers,
					 &call->lengths, &value, &call->hint) ||
	    read_stream(value, call->method, &stream))
		return NULL;
	return put_into_stream((struct py_engine *)object, call, stream);
}

static PyObject *transfer_write_on_cuda(PyObject *object, PyObject *args,
					PyObject *kwargs)
{
	struct py_call call = {.method = __func__, .op = TE_WRITE};

	return on_cuda(object, args, kwargs, "OOOO|OO:transfer_write_on_cuda",
		       &call);
}

static PyObject *transfer_read_on_cuda(PyObject *object, PyObject *args,
				       PyObject *kwargs)
{
	struct py_call call = {.method = __func__, .op = TE_READ};

	return on_cuda(object, args, kwargs, "OOOO|OO:transfer_read_on_cuda",
		       &call);
}

static PyObject *batch_transfer_write_on_cuda(PyObject *object, PyObject *args,
					      PyObject *kwargs)
{
	struct py_call call = {
		.method = __func__, .op = TE_WRITE, .many = true};

	return on_cuda(object, args, kwargs,
		       "OOOO|OO:batch_transfer_write_on_cuda", &call);
}

static PyObject *batch_transfer_read_on_cuda(PyObject *object, PyObject *args,
					     PyObject *kwargs)
{
	struct py_call call = {.method = __func__, .op = TE_READ, .many = true};

	return on_cuda(object, args, kwargs,
		       "OOOO|OO:batch_transfer_read_on_cuda", &call);
}

#define ONE                                                       \
	"(target_hostname, buffer, peer_buffer_address, length, " \
	"stream_ptr=0, transport_hint='')\n--\n\n"
#define MANY                                                          \
	"(target_hostname, buffers, peer_buffer_addresses, lengths, " \
	"stream_ptr=0, transport_hint='')\n--\n\n"
#define WRITES                                                               \
	"Write when the stream gets there; what follows in it waits. None; " \
	"RuntimeError, also for an earlier call whose transfer failed."
#define READS                                                               \
	"Read when the stream gets there; what follows in it waits. None; " \
	"RuntimeError, also for an earlier call whose transfer failed."

PyMethodDef py_cuda_methods[] = {
	{"transfer_write_on_cuda",
	 (PyCFunction)(void (*)(void))transfer_write_on_cuda,
	 METH_VARARGS | METH_KEYWORDS, "transfer_write_on_cuda" ONE WRITES},
	{"transfer_read_on_cuda",
	 (PyCFunction)(void (*)(void))transfer_read_on_cuda,
	 METH_VARARGS | METH_KEYWORDS, "transfer_read_on_cuda" ONE READS},
	{"batch_transfer_write_on_cuda",
	 (PyCFunction)(void (*)(void))batch_transfer_write_on_cuda,
	 METH_VARARGS | METH_KEYWORDS,
	 "batch_transfer_write_on_cuda" MANY WRITES},
	{"batch_transfer_read_on_cuda",
	 (PyCFunction)(void (*)(void))batch_transfer_read_on_cuda,
	 METH_VARARGS | METH_KEYWORDS,
	 "batch_transfer_read_on_cuda" MANY READS},
	{NULL, NULL, 0, NULL},
};
