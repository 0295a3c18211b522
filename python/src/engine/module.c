/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.c - mooncake.engine: what is in it
 */
#include "python/src/engine/engine.h"
#include "python/src/enums.h"
#include "python/src/lazy.h"

/* Methods are in the file whose subject they are: all are added here. */
static int add_methods(PyObject *type)
{
	PyMethodDef *const tables[] = {
		py_engine_methods, py_segment_methods, py_memory_methods,
		py_arena_methods,  py_sync_methods,    py_async_methods,
		py_notify_methods, py_cuda_methods,
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		for (PyMethodDef *def = tables[i]; def->ml_name; def++) {
			PyObject *method =
				PyDescr_NewMethod((PyTypeObject *)type, def);
			int rc = method ? PyObject_SetAttrString(
						  type, def->ml_name, method)
					: -1;

			Py_XDECREF(method);
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* Names in both spellings that are in use. */
static const struct py_member members[] = {
	{"Read", 0}, {"Write", 1}, {"READ", 0}, {"WRITE", 1}, {0},
};

/* Takes the reference. */
static int add_value(PyObject *module, const char *name, PyObject *value)
{
	int rc = value ? PyModule_AddObjectRef(module, name, value) : -1;

	Py_XDECREF(value);
	return rc;
}

static int add_opcodes(PyObject *module, PyObject *engine)
{
	PyObject *opcodes =
		py_enum_create("mooncake.engine", "TransferOpcode", members);
	int rc = opcodes ? 0 : -1;

	if (!rc)
		rc = PyObject_SetAttrString(engine, "TransferOpcode", opcodes);
	if (!rc)
		rc = add_value(module, "Read",
			       PyObject_GetAttrString(opcodes, "Read"));
	if (!rc)
		rc = add_value(module, "Write",
			       PyObject_GetAttrString(opcodes, "Write"));
	return add_value(module, "TransferOpcode", opcodes) || rc ? -1 : 0;
}

/* Flags of devices that Mooncake can be built for: of these none is set. */
static int add_support(PyObject *module)
{
	static const char *const names[] = {
		"SUPPORT_EFA",   "SUPPORT_HIP",          "SUPPORT_MUSA",
		"SUPPORT_MNNVL", "SUPPORT_INTRA_NVLINK",
	};
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(names) / sizeof(names[0]); i++)
		rc = add_value(module, names[i], PyBool_FromLong(0));
	return rc;
}

#define SUPPORT_CUDA "SUPPORT_CUDA"

static const struct py_lazy from_python[] = {
	{"RpcInterface", "mooncake._rpc"},
	{"CoroRPCInterface", "mooncake._rpc"},
	{"ReceivedData", "mooncake._rpc"},
	{"ReceivedTensor", "mooncake._rpc"},
	{"create_rpc_client", "mooncake._rpc"},
	{"create_rpc_server", "mooncake._rpc"},
	{"SharedSegment", "mooncake._shared"},
	{SUPPORT_CUDA, NULL}, /* has_gpu() */
};

#define N_FROM_PYTHON (sizeof(from_python) / sizeof(from_python[0]))

/* Whether there is a GPU, asked when somebody wants to know it. */
static PyObject *has_gpu(void)
{
	int rc;

	Py_BEGIN_ALLOW_THREADS;
	rc = te_gpu_probe(NULL, "cuda", NULL, 0);
	Py_END_ALLOW_THREADS;
	return PyBool_FromLong(!rc);
}

static PyObject *get_attribute(PyObject *module, PyObject *name)
{
	(void)module;
	if (PyUnicode_Check(name) &&
	    !PyUnicode_CompareWithASCIIString(name, SUPPORT_CUDA))
		return has_gpu();
	return py_lazy_get(from_python, N_FROM_PYTHON, "mooncake.engine", name);
}

static PyObject *list_names(PyObject *module, PyObject *none)
{
	(void)none;
	return py_lazy_dir(module, from_python, N_FROM_PYTHON);
}

static PyMethodDef functions[] = {
	{"__getattr__", get_attribute, METH_O, NULL},
	{"__dir__", list_names, METH_NOARGS, NULL},
	{"_peer_refusal", py_peer_refusal, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module)
{
	PyObject *engine = PyType_FromSpec(&py_engine_spec);
	int rc = engine ? add_methods(engine) : -1;

	if (!rc)
		rc = add_opcodes(module, engine);
	if (!rc)
		rc = PyModule_AddObjectRef(module, "TransferEngine", engine);
	Py_XDECREF(engine);
	if (!rc)
		rc = add_value(module, "TransferNotify",
			       PyType_FromSpec(&py_notify_spec));
	if (!rc) /* of what get_engine() returns */
		rc = PyModule_AddObjectRef(module, "InnerTransferEngine",
					   (PyObject *)&PyCapsule_Type);
	if (!rc)
		rc = add_support(module);
	return rc ? rc : py_lazy_add_all(module, from_python, N_FROM_PYTHON);
}

static PyModuleDef_Slot slots[] = {
	{Py_mod_exec, (void *)(uintptr_t)fill_module},
	{0, NULL},
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "engine",
	.m_doc = "The transfer engine, with Mooncake's names and results.",
	.m_methods = functions,
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit_engine(void);

PyMODINIT_FUNC PyInit_engine(void)
{
	return PyModuleDef_Init(&definition);
}
