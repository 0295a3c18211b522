/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.c - BufferHandle: a value in memory of the client's
 */
#include <unistd.h>

#include "python/src/store/types.h"

struct handle {
	PyObject_HEAD struct ps_client *client; /* pinned */
	struct te_store_buffer *buffer;
};

static PyObject *handle_type; /* lives as long as the process */

PyObject *ps_handle_create(struct ps_client *client,
			   struct te_store_buffer *buffer)
{
	struct handle *self = (struct handle *)PyType_GenericAlloc(
		(PyTypeObject *)handle_type, 0);

	if (!self) {
		te_store_buffer_free(buffer);
		return NULL;
	}
	client->n_pins++;
	self->client = client;
	self->buffer = buffer;
	return (PyObject *)self;
}

static void destroy(PyObject *object)
{
	struct handle *self = (struct handle *)object;
	PyTypeObject *type = Py_TYPE(object);

	/* In a child of a fork the client is dead, and so are its locks. */
	if (self->client->pid == getpid())
		te_store_buffer_free(self->buffer);
	ps_client_unpin(self->client);
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *address(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyLong_FromVoidPtr(
		te_store_buffer_data(((struct handle *)self)->buffer));
}

static PyObject *size(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(
		te_store_buffer_length(((struct handle *)self)->buffer));
}

static Py_ssize_t length(PyObject *self)
{
	return (Py_ssize_t)te_store_buffer_length(
		((struct handle *)self)->buffer);
}

static int get_buffer(PyObject *object, Py_buffer *view, int flags)
{
	const struct handle *self = (struct handle *)object;

	/* A dummy's may lie in memory that only its daemon writes to. */
	return PyBuffer_FillInfo(view, object,
				 te_store_buffer_data(self->buffer),
				 length(object), self->client->is_dummy, flags);
}

static PyMethodDef methods[] = {
	{"ptr", address, METH_NOARGS, "ptr()\n--\n\nAddress of the bytes."},
	{"size", size, METH_NOARGS, "size()\n--\n\nHow many there are."},
	{"len", size, METH_NOARGS, "len()\n--\n\nHow many there are."},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_dealloc, destroy},
	{Py_tp_methods, methods},
	{Py_sq_length, length},
	{Py_mp_length, length},
	{Py_bf_getbuffer, get_buffer},
	{Py_tp_doc, "A value in memory of the client's, which stays as long "
		    "as this object or a view of it."},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "mooncake.store.BufferHandle",
	.basicsize = sizeof(struct handle),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

bool ps_handle_add(PyObject *module)
{
	handle_type = ps_add_type(module, "BufferHandle", &spec);
	return handle_type != NULL;
}
