/* SPDX-License-Identifier: Apache-2.0 */
/*
 * describe.c - what the pool says of replicas and tasks, as objects
 */
#include <string.h>

#include "python/src/args.h"
#include "python/src/store/types.h"

static PyStructSequence_Field buffer_fields[] = {
	{"size", "of the value"},
	{"buffer_address", "of its first part, in its owner"},
	{"transport_endpoint", "name of its owner"},
	{0},
};
static PyStructSequence_Field memory_fields[] = {
	{"buffer_descriptor", "a Descriptor"},
	{0},
};
static PyStructSequence_Field disk_fields[] = {
	{"file_path", NULL},
	{"object_size", NULL},
	{0},
};
static PyStructSequence_Field task_fields[] = {
	{"id", "a pair of integers"},
	{"type", "a TaskType"},
	{"status", "a TaskStatus"},
	{"created_at_ms_epoch", NULL},
	{"last_updated_at_ms_epoch", NULL},
	{"assigned_client", "a pair of integers; (0, 0): nobody yet"},
	{"message", "of a task that failed: why"},
	{0},
};

enum record { BUFFER, MEMORY, DISK, TASK, RECORDS };

static PyStructSequence_Desc records[RECORDS] = {
	[BUFFER] = {"mooncake.store.Descriptor", NULL, buffer_fields, 3},
	[MEMORY] = {"mooncake.store.MemoryDescriptor", NULL, memory_fields, 1},
	[DISK] = {"mooncake.store.DiskDescriptor", NULL, disk_fields, 2},
	[TASK] = {"mooncake.store.QueryTaskResponse", NULL, task_fields, 7},
};

static PyTypeObject *types[RECORDS]; /* live as long as the process */

/* Takes items[n]; NULL when one of them is. */
static PyObject *create(enum record which, PyObject *items[])
{
	int n = records[which].n_in_sequence;
	PyObject *self = PyStructSequence_New(types[which]);

	for (int i = 0; i < n; i++) {
		if (!items[i])
			Py_CLEAR(self);
		if (self)
			PyStructSequence_SetItem(self, i, items[i]);
		else
			Py_XDECREF(items[i]);
	}
	return self;
}

/* ---- replicas ---- */

struct replica {
	PyObject_HEAD PyObject *status, *memory;
};

static PyObject *replica_type; /* lives as long as the process */

PyObject *ps_describe_replica(const struct te_store_replica *from)
{
	PyObject *place[] = {PyLong_FromUnsignedLongLong(from->size),
			     PyLong_FromUnsignedLongLong(from->address),
			     PyUnicode_FromString(from->segment)};
	PyObject *memory[] = {create(BUFFER, place)};
	struct replica *self;

	self = (struct replica *)PyType_GenericAlloc(
		(PyTypeObject *)replica_type, 0);
	if (!self) {
		Py_XDECREF(memory[0]);
		return NULL;
	}
	self->memory = create(MEMORY, memory);
	self->status = ps_enum_member(PS_REPLICA_STATUS, from->status);
	if (!self->memory || !self->status)
		Py_CLEAR(self);
	return (PyObject *)self;
}

static void destroy(PyObject *object)
{
	struct replica *self = (struct replica *)object;
	PyTypeObject *type = Py_TYPE(object);

	Py_XDECREF(self->status);
	Py_XDECREF(self->memory);
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *get_status(PyObject *self, void *closure)
{
	(void)closure;
	return Py_NewRef(((struct replica *)self)->status);
}

static PyObject *get_memory(PyObject *self, PyObject *unused)
{
	(void)unused;
	return Py_NewRef(((struct replica *)self)->memory);
}

static PyObject *is_true(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyBool_FromLong(1);
}

static PyObject *is_false(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyBool_FromLong(0);
}

static PyObject *get_disk(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	PyErr_SetString(PyExc_RuntimeError, "the replica is not on a disk");
	return NULL;
}

static PyMethodDef methods[] = {
	{"is_memory_replica", is_true, METH_NOARGS, NULL},
	{"is_disk_replica", is_false, METH_NOARGS, NULL},
	{"is_local_disk_replica", is_false, METH_NOARGS, NULL},
	{"get_memory_descriptor", get_memory, METH_NOARGS, NULL},
	{"get_disk_descriptor", get_disk, METH_NOARGS, NULL},
	{0},
};

static PyGetSetDef attributes[] = {
	{"status", get_status, NULL, "A ReplicaStatus", NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_dealloc, destroy},
	{Py_tp_methods, methods},
	{Py_tp_getset, attributes},
	{Py_tp_doc, "Where a replica lies."},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "mooncake.store.ReplicaDescriptor",
	.basicsize = sizeof(struct replica),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

/* ---- tasks ---- */

PyObject *ps_id_object(const uint8_t bytes[16])
{
	unsigned long long halves[2];

	memcpy(halves, bytes, sizeof(halves));
	return Py_BuildValue("(KK)", halves[0], halves[1]);
}

int ps_id_read(PyObject *pair, const char *name, uint8_t bytes[16])
{
	struct py_numbers numbers = {0};
	int rc = py_arg_numbers(pair, name, &numbers);

	if (!rc && numbers.n != 2)
		rc = PY_ARG_RANGE;
	if (!rc)
		memcpy(bytes, numbers.values, 16);
	py_numbers_free(&numbers);
	return rc;
}

PyObject *ps_describe_task(PyObject *id, const struct te_store_task *task)
{
	PyObject *items[] = {
		Py_NewRef(id),
		ps_enum_member(PS_TASK_TYPE, task->type),
		ps_enum_member(PS_TASK_STATUS, task->status),
		PyLong_FromUnsignedLongLong(task->created_ms),
		PyLong_FromUnsignedLongLong(task->updated_ms),
		ps_id_object(task->client),
		PyUnicode_DecodeUTF8(task->message,
				     (Py_ssize_t)strnlen(task->message,
							 sizeof(task->message)),
				     "replace"),
	};

	return create(TASK, items);
}

bool ps_describe_add(PyObject *module)
{
	for (int i = 0; i < RECORDS; i++) {
		types[i] = PyStructSequence_NewType(&records[i]);
		if (!types[i] ||
		    PyModule_AddObjectRef(module,
					  strrchr(records[i].name, '.') + 1,
					  (PyObject *)types[i]))
			return false;
	}
	replica_type = ps_add_type(module, "ReplicaDescriptor", &spec);
	return replica_type != NULL;
}
