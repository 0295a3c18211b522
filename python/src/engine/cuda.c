/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.c - transfers in the order of a CUDA stream: refused
 *
 * Mooncake puts them into the stream, where they begin when what is before them
 * has ended. Without streams (SUPPORT_CUDA is False) they cannot begin at the
 * right time, so nothing is moved, and the caller is told so.
 */
#include "python/src/engine/call.h"

static PyObject *refuse_cuda(PyObject *object, PyObject *args, PyObject *kwargs,
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
	int rc;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, format, call->many ? many : one,
		    &call->target, &call->buffers, &call->peers, &call->lengths,
		    &call->stream, &call->hint))
		return NULL;
	rc = py_call_check(call);
	if (rc == PY_ARG_RAISED)
		return NULL;
	if (!rc && py_is_ready((struct py_engine *)object, call->method))
		py_warn(call->method, "stream_ptr: there are no CUDA streams "
				      "here: nothing is moved");
	return PyLong_FromLong(PY_FAILED);
}

static PyObject *transfer_write_on_cuda(PyObject *object, PyObject *args,
					PyObject *kwargs)
{
	struct py_call call = {.method = __func__};

	return refuse_cuda(object, args, kwargs,
			   "OOOO|OO:transfer_write_on_cuda", &call);
}

static PyObject *transfer_read_on_cuda(PyObject *object, PyObject *args,
				       PyObject *kwargs)
{
	struct py_call call = {.method = __func__};

	return refuse_cuda(object, args, kwargs,
			   "OOOO|OO:transfer_read_on_cuda", &call);
}

static PyObject *batch_transfer_write_on_cuda(PyObject *object, PyObject *args,
					      PyObject *kwargs)
{
	struct py_call call = {.method = __func__, .many = true};

	return refuse_cuda(object, args, kwargs,
			   "OOOO|OO:batch_transfer_write_on_cuda", &call);
}

static PyObject *batch_transfer_read_on_cuda(PyObject *object, PyObject *args,
					     PyObject *kwargs)
{
	struct py_call call = {.method = __func__, .many = true};

	return refuse_cuda(object, args, kwargs,
			   "OOOO|OO:batch_transfer_read_on_cuda", &call);
}

#define ONE                                                       \
	"(target_hostname, buffer, peer_buffer_address, length, " \
	"stream_ptr=0, transport_hint='')\n--\n\n"
#define MANY                                                          \
	"(target_hostname, buffers, peer_buffer_addresses, lengths, " \
	"stream_ptr=0, transport_hint='')\n--\n\n"
#define WHY "-1: there are no CUDA streams here, and nothing is moved."

PyMethodDef py_cuda_methods[] = {
	{"transfer_write_on_cuda",
	 (PyCFunction)(void (*)(void))transfer_write_on_cuda,
	 METH_VARARGS | METH_KEYWORDS, "transfer_write_on_cuda" ONE WHY},
	{"transfer_read_on_cuda",
	 (PyCFunction)(void (*)(void))transfer_read_on_cuda,
	 METH_VARARGS | METH_KEYWORDS, "transfer_read_on_cuda" ONE WHY},
	{"batch_transfer_write_on_cuda",
	 (PyCFunction)(void (*)(void))batch_transfer_write_on_cuda,
	 METH_VARARGS | METH_KEYWORDS, "batch_transfer_write_on_cuda" MANY WHY},
	{"batch_transfer_read_on_cuda",
	 (PyCFunction)(void (*)(void))batch_transfer_read_on_cuda,
	 METH_VARARGS | METH_KEYWORDS, "batch_transfer_read_on_cuda" MANY WHY},
	{NULL, NULL, 0, NULL},
};
