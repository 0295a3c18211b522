/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.c - mooncake.store: Mooncake's store for Python, on te/store.h
 *
 * Classes are kept in static variables: one interpreter a process.
 */
#include <errno.h>
#include <stdlib.h>

#include <te/gpu.h>
#include <te/memory.h>

#include "python/src/args.h"
#include "python/src/lazy.h"
#include "python/src/store/types.h"

PyObject *ps_add_type(PyObject *module, const char *name, PyType_Spec *spec)
{
	PyObject *type = PyType_FromSpec(spec);

	if (type && PyModule_AddObjectRef(module, name, type))
		Py_CLEAR(type);
	return type;
}

static const struct py_lazy from_python[] = {
	{"BufferPool", "mooncake._buffer_pool"},
	{"RegisteredBufferPool", "mooncake._buffer_pool"},
	{"BufferLease", "mooncake._buffer_pool"},
	{"RegisteredBufferLease", "mooncake._buffer_pool"},
	{"BufferLeaseView", "mooncake._buffer_pool"},
	{"RegisteredBufferLeaseView", "mooncake._buffer_pool"},
	{"ParallelAxis", "mooncake._parallelism"},
	{"TensorParallelism", "mooncake._parallelism"},
	{"ReadTarget", "mooncake._parallelism"},
	{"_tensor_metadata_size", "mooncake._layout"},
	{"_serialize_tensor", "mooncake._tensors"},
	{"_deserialize_tensor", "mooncake._tensors"},
};

#define N_FROM_PYTHON (sizeof(from_python) / sizeof(from_python[0]))

static PyObject *get_attribute(PyObject *module, PyObject *name)
{
	(void)module;
	return py_lazy_get(from_python, N_FROM_PYTHON, "mooncake.store", name);
}

static PyObject *list_names(PyObject *module, PyObject *none)
{
	(void)none;
	return py_lazy_dir(module, from_python, N_FROM_PYTHON);
}

/*
 * _is_usable(addr, size, writable): of the modules that are Python, before they
 * touch memory that was named by a number.
 */
static PyObject *is_usable(PyObject *self, PyObject *args)
{
	PyObject *addr, *size;
	uint64_t numbers[2];
	bool usable = false;
	int writable, rc;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOp:_is_usable", &addr, &size, &writable))
		return NULL;
	rc = py_arg_uint64(addr, "buffer_ptr", &numbers[0]);
	if (!rc)
		rc = py_arg_uint64(size, "size", &numbers[1]);
	if (rc == PY_ARG_RAISED)
		return NULL;
	if (!rc) {
		Py_BEGIN_ALLOW_THREADS;
		usable = te_memory_is_usable(numbers[0], numbers[1], writable);
		Py_END_ALLOW_THREADS;
	}
	return PyBool_FromLong(usable);
}

/* Copies n pieces of the host to GPUs' memory. 0 or a negative errno. */
static int copy_to_gpus(const struct py_numbers columns[3])
{
	size_t n = columns[0].n;
	struct te_gpu_copy *copies;
	int rc = -ENOMEM;

	if (columns[1].n != n || columns[2].n != n)
		return -EINVAL;
	copies = calloc(n + 1, sizeof(*copies));
	for (size_t i = 0; copies && i < n; i++)
		copies[i] = (struct te_gpu_copy){
			.gpu = columns[0].values[i],
			.host = (const void *)(uintptr_t)columns[1].values[i],
			.length = columns[2].values[i],
		};
	Py_BEGIN_ALLOW_THREADS;
	if (copies)
		rc = te_gpu_copy_in(copies, n);
	Py_END_ALLOW_THREADS;
	free(copies);
	return rc;
}

/*
 * _copy_to_gpus(gpu_ptrs, host_ptrs, sizes): for values that lie in memory of
 * the host. Whether all has been copied.
 */
static PyObject *py_copy_to_gpus(PyObject *self, PyObject *args)
{
	static const char *const names[] = {"gpu_ptrs", "host_ptrs", "sizes"};
	struct py_numbers columns[3] = {{0}};
	PyObject *values[3];
	int rc = 0;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOO:_copy_to_gpus", &values[0], &values[1],
			      &values[2]))
		return NULL;
	for (int i = 0; i < 3 && !rc; i++)
		rc = py_arg_numbers(values[i], names[i], &columns[i]);
	if (!rc)
		rc = copy_to_gpus(columns);
	for (int i = 0; i < 3; i++)
		py_numbers_free(&columns[i]);
	return PyErr_Occurred() ? NULL : PyBool_FromLong(rc == 0);
}

static PyMethodDef functions[] = {
	{"__getattr__", get_attribute, METH_O, NULL},
	{"__dir__", list_names, METH_NOARGS, NULL},
	{"_is_usable", is_usable, METH_VARARGS, NULL},
	{"_copy_to_gpus", py_copy_to_gpus, METH_VARARGS, NULL},
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
	    ps_memory_add(module) && ps_store_add(module) &&
	    !py_lazy_add_all(module, from_python, N_FROM_PYTHON))
		return module;
	Py_XDECREF(module);
	return NULL;
}
