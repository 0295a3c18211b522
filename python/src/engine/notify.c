/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.c - TransferNotify, a name and a text, and those that have come
 *
 * Goes as one TE_NOTIFY: 4 bytes length of the name (little-endian), the name,
 * the text, as those of libtransfer_engine; docs/wire.md.
 */
#include "python/src/engine/engine.h"

#include <endian.h>
#include <string.h>

#define HEAD 4

struct notify {
	PyObject_HEAD PyObject *name, *msg; /* str */
};

/* Bytes are UTF-8; what of them is none goes and comes back as it is. */
static PyObject *text_from(PyObject *value, const char *name)
{
	PyObject *bytes;

	if (PyBytes_Check(value))
		return PyUnicode_DecodeUTF8(PyBytes_AsString(value),
					    PyBytes_Size(value),
					    "surrogateescape");
	if (!PyUnicode_Check(value)) {
		PyErr_Format(PyExc_TypeError, "%s must be a str, not %R", name,
			     (PyObject *)Py_TYPE(value));
		return NULL;
	}
	bytes = PyUnicode_AsEncodedString(value, "utf-8", "surrogateescape");
	if (!bytes) {
		PyErr_Format(PyExc_ValueError, "%s: half of a character", name);
		return NULL;
	}
	Py_DECREF(bytes);
	Py_INCREF(value);
	return value;
}

static int set_text(PyObject **field, PyObject *value, const char *name)
{
	PyObject *old = *field, *text;

	if (!value) {
		PyErr_Format(PyExc_AttributeError, "%s cannot be deleted",
			     name);
		return -1;
	}
	text = text_from(value, name);
	if (!text)
		return -1;
	*field = text;
	Py_XDECREF(old);
	return 0;
}

/* Both or neither. */
static int init(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"name", "msg", NULL};
	struct notify *self = (struct notify *)object;
	PyObject *name = NULL, *msg = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:TransferNotify",
					 names, &name, &msg))
		return -1;
	if (!name != !msg) {
		PyErr_Format(PyExc_TypeError,
			     "TransferNotify() missing argument '%s'",
			     name ? names[1] : names[0]);
		return -1;
	}
	if (!name)
		return 0;
	if (set_text(&self->name, name, names[0]))
		return -1;
	return set_text(&self->msg, msg, names[1]);
}

static void dealloc(PyObject *object)
{
	struct notify *self = (struct notify *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	Py_XDECREF(self->name);
	Py_XDECREF(self->msg);
	release(object);
	Py_DECREF(type);
}

static PyObject *text_of(PyObject *text)
{
	if (!text)
		return PyUnicode_FromString("");
	Py_INCREF(text);
	return text;
}

static PyObject *get_name(PyObject *object, void *closure)
{
	(void)closure;
	return text_of(((struct notify *)object)->name);
}

static PyObject *get_msg(PyObject *object, void *closure)
{
	(void)closure;
	return text_of(((struct notify *)object)->msg);
}

static int set_name(PyObject *object, PyObject *value, void *closure)
{
	(void)closure;
	return set_text(&((struct notify *)object)->name, value, "name");
}

static int set_msg(PyObject *object, PyObject *value, void *closure)
{
	(void)closure;
	return set_text(&((struct notify *)object)->msg, value, "msg");
}

static PyGetSetDef fields[] = {
	{"name", get_name, set_name, "str", NULL},
	{"msg", get_msg, set_msg, "str", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "TransferNotify(name='', msg='')\n--\n\n"
		    "What the other engine is told once data is there."},
	{Py_tp_init, (void *)(uintptr_t)init},
	{Py_tp_dealloc, (void *)(uintptr_t)dealloc},
	{Py_tp_getset, fields},
	{0, NULL},
};

PyType_Spec py_notify_spec = {
	.name = "mooncake.engine.TransferNotify",
	.basicsize = sizeof(struct notify),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

/* Bytes that are no UTF-8 come back as they went. */
static PyObject *encode(PyObject *object, const char *field)
{
	PyObject *text = PyObject_GetAttrString(object, field), *bytes;

	if (!text)
		return NULL;
	if (!PyUnicode_Check(text)) {
		PyErr_Format(PyExc_TypeError, "%s must be a str", field);
		Py_DECREF(text);
		return NULL;
	}
	bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
	Py_DECREF(text);
	return bytes;
}

PyObject *py_notify_pack(PyObject *notify, const char *argument)
{
	PyObject *name, *msg = NULL, *packed = NULL;
	Py_ssize_t name_len, msg_len;
	uint32_t head;
	char *out;

	if (!PyObject_HasAttrString(notify, "name") ||
	    !PyObject_HasAttrString(notify, "msg")) {
		PyErr_Format(PyExc_TypeError,
			     "%s must be a TransferNotify, not %R", argument,
			     (PyObject *)Py_TYPE(notify));
		return NULL;
	}
	name = encode(notify, "name");
	if (name)
		msg = encode(notify, "msg");
	if (msg) {
		name_len = PyBytes_Size(name);
		msg_len = PyBytes_Size(msg);
		head = htole32((uint32_t)name_len);
		packed = PyBytes_FromStringAndSize(NULL,
						   HEAD + name_len + msg_len);
	}
	if (packed) {
		out = PyBytes_AsString(packed);
		memcpy(out, &head, HEAD);
		memcpy(out + HEAD, PyBytes_AsString(name), (size_t)name_len);
		memcpy(out + HEAD + name_len, PyBytes_AsString(msg),
		       (size_t)msg_len);
	}
	Py_XDECREF(name);
	Py_XDECREF(msg);
	return packed;
}

/* A TransferNotify, of @module; one of those who use te.h alone has no name but
 * its sender's. */
static PyObject *unpack(PyObject *type, const struct te_notify *in)
{
	const char *bytes = in->bytes, *name = in->from, *msg = bytes;
	size_t name_len = strlen(in->from), msg_len = in->length;
	PyObject *name_text, *msg_text, *notify = NULL;
	uint32_t head;

	if (in->length >= HEAD) {
		memcpy(&head, bytes, HEAD);
		head = le32toh(head);
		if (head <= in->length - HEAD) {
			name = bytes + HEAD;
			name_len = head;
			msg = name + name_len;
			msg_len = in->length - HEAD - name_len;
		}
	}
	name_text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)name_len,
					 "surrogateescape");
	msg_text = PyUnicode_DecodeUTF8(msg, (Py_ssize_t)msg_len,
					"surrogateescape");
	if (name_text && msg_text)
		notify = PyObject_CallFunctionObjArgs(type, name_text, msg_text,
						      NULL);
	Py_XDECREF(name_text);
	Py_XDECREF(msg_text);
	return notify;
}

static PyObject *notify_type(void)
{
	PyObject *module = PyImport_ImportModule("mooncake.engine");
	PyObject *type =
		module ? PyObject_GetAttrString(module, "TransferNotify")
		       : NULL;

	Py_XDECREF(module);
	return type;
}

static PyObject *get_notifies(PyObject *object, PyObject *ignored)
{
	struct py_engine *self = (struct py_engine *)object;
	PyObject *list = PyList_New(0), *type, *one;
	struct te_notify notify;
	int rc = 0;

	(void)ignored;
	if (!list || !self->te)
		return list;
	type = notify_type();
	while (type && !rc && !te_notify_take(self->te, &notify)) {
		one = unpack(type, &notify);
		te_notify_free(&notify);
		rc = one ? PyList_Append(list, one) : -1;
		Py_XDECREF(one);
	}
	Py_XDECREF(type);
	if (type && !rc)
		return list;
	Py_DECREF(list);
	return NULL;
}

PyMethodDef py_notify_methods[] = {
	{"get_notifies", get_notifies, METH_NOARGS,
	 "get_notifies()\n--\n\n"
	 "Every TransferNotify that has come since the last call."},
	{NULL, NULL, 0, NULL},
};
