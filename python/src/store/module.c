/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.c - mooncake.store: Mooncake's store for Python, on te/store.h
 *
 * Classes are kept in static variables: one interpreter a process.
 */
#include "python/src/store/types.h"

PyObject *ps_add_type(PyObject *module, const char *name, PyType_Spec *spec)
{
	PyObject *type = PyType_FromSpec(spec);

	if (type && PyModule_AddObjectRef(module, name, type))
		Py_CLEAR(type);
	return type;
}

/* BufferPool is written in Python, on top of this module. */
static PyObject *get_lazily(PyObject *self, PyObject *name)
{
	PyObject *module, *found;

	(void)self;
	if (!PyUnicode_Check(name) ||
	    PyUnicode_CompareWithASCIIString(name, "BufferPool")) {
		PyErr_Format(PyExc_AttributeError,
			     "module 'mooncake.store' has no attribute %R",
			     name);
		return NULL;
	}
	module = PyImport_ImportModule("mooncake.buffer_pool");
	if (!module)
		return NULL;
	found = PyObject_GetAttr(module, name);
	Py_DECREF(module);
	return found;
}

static PyMethodDef functions[] = {
	{"__getattr__", get_lazily, METH_O, NULL},
	{0},
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "mooncake.store",
	.m_doc = "Client of the key/value pool.",
	.m_size = -1,
	.m_methods = functions,
};

PyMODINIT_FUNC PyInit_store(void);

PyMODINIT_FUNC PyInit_store(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (module && ps_enums_add(module) && ps_config_add(module) &&
	    ps_handle_add(module) && ps_describe_add(module) &&
	    ps_memory_add(module) && ps_store_add(module))
		return module;
	Py_XDECREF(module);
	return NULL;
}
