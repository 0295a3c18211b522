/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - the class MooncakeDistributedStore
 */
#include "python/src/store/methods.h"
#include "python/src/store/types.h"

#define METHODS_MAX 100

static const PyMethodDef *const tables[] = {
	ps_life_methods,    ps_write_methods,   ps_read_methods,
	ps_range_methods,   ps_session_methods, ps_remove_methods,
	ps_replica_methods, ps_segment_methods, ps_tensor_methods,
};

static PyMethodDef methods[METHODS_MAX + 1]; /* of all tables */

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	void *object_init = PyType_GetSlot(&PyBaseObject_Type, Py_tp_init);

	/* A subclass's __init__() may have some. */
	if ((PyTuple_Size(args) || (keywords && PyDict_Size(keywords))) &&
	    PyType_GetSlot(type, Py_tp_init) == object_init) {
		PyErr_SetString(
			PyExc_TypeError,
			"MooncakeDistributedStore() takes no arguments: "
			"setup() does");
		return NULL;
	}
	return PyType_GenericAlloc(type, 0);
}

/* Consumers leave stores that they have not closed. */
static void destroy(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	ps_client_drop((struct ps_store *)self);
	release(self);
	Py_DECREF(type);
}

static PyType_Slot slots[] = {
	{Py_tp_new, create},
	{Py_tp_dealloc, destroy},
	{Py_tp_methods, methods},
	{Py_tp_doc,
	 "MooncakeDistributedStore()\n--\n\n"
	 "A client of the pool, once it is set up.\n\n"
	 "Methods may be called from any thread, also before setup() and\n"
	 "after close(). Addresses and sizes are integers, lists may be\n"
	 "tuples, keys are str or bytes."},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "mooncake.store.MooncakeDistributedStore",
	.basicsize = sizeof(struct ps_store),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};

bool ps_store_add(PyObject *module)
{
	size_t n = 0;
	PyObject *type;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const PyMethodDef *row = tables[i]; row->ml_name; row++)
			if (n < METHODS_MAX)
				methods[n++] = *row;
	type = ps_add_type(module, "MooncakeDistributedStore", &spec);
	Py_XDECREF(type);
	return type != NULL;
}
