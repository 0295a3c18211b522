/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enums.c - Mooncake's enumerations, as enum.IntEnum
 */
#include "python/src/args.h"
#include "python/src/store/types.h"

struct member {
	const char *name;
	uint32_t value;
};

static const struct member soft_pins[] = {
	{"PRESERVE", TE_STORE_SOFT_PIN_PRESERVE},
	{"ENABLE", TE_STORE_SOFT_PIN_ENABLE},
	{"DISABLE", TE_STORE_SOFT_PIN_DISABLE},
	{0},
};
static const struct member data_types[] = {
	{"UNKNOWN", TE_STORE_DATA_UNKNOWN},
	{"KVCACHE", TE_STORE_DATA_KVCACHE},
	{"TENSOR", TE_STORE_DATA_TENSOR},
	{"WEIGHT", TE_STORE_DATA_WEIGHT},
	{"SAMPLE", TE_STORE_DATA_SAMPLE},
	{"ACTIVATION", TE_STORE_DATA_ACTIVATION},
	{"GRADIENT", TE_STORE_DATA_GRADIENT},
	{"OPTIMIZER_STATE", TE_STORE_DATA_OPTIMIZER_STATE},
	{"METADATA", TE_STORE_DATA_METADATA},
	{"GENERAL", TE_STORE_DATA_GENERAL},
	{0},
};
/* Of these only COMPLETE is ever seen. */
static const struct member replica_statuses[] = {
	{"UNDEFINED", 0},
	{"INITIALIZED", 1},
	{"PROCESSING", 2},
	{"COMPLETE", TE_STORE_REPLICA_COMPLETE},
	{"REMOVED", 4},
	{"FAILED", 5},
	{0},
};
static const struct member task_types[] = {
	{"REPLICA_COPY", TE_STORE_TASK_COPY},
	{"REPLICA_MOVE", TE_STORE_TASK_MOVE},
	{0},
};
static const struct member task_statuses[] = {
	{"PENDING", TE_STORE_TASK_PENDING},
	{"PROCESSING", TE_STORE_TASK_PROCESSING},
	{"SUCCESS", TE_STORE_TASK_SUCCESS},
	{"FAILED", TE_STORE_TASK_FAILED},
	{0},
};

static const struct {
	const char *name;
	const struct member *members;
} enums[PS_ENUMS] = {
	[PS_SOFT_PIN_ACTION] = {"SoftPinAction", soft_pins},
	[PS_OBJECT_DATA_TYPE] = {"ObjectDataType", data_types},
	[PS_REPLICA_STATUS] = {"ReplicaStatus", replica_statuses},
	[PS_TASK_TYPE] = {"TaskType", task_types},
	[PS_TASK_STATUS] = {"TaskStatus", task_statuses},
};

static PyObject *types[PS_ENUMS]; /* live as long as the process */

static PyObject *list_of(const struct member *members)
{
	PyObject *list = PyList_New(0), *pair;

	for (; list && members->name; members++) {
		pair = Py_BuildValue("(sI)", members->name, members->value);
		if (!pair || PyList_Append(list, pair))
			Py_CLEAR(list);
		Py_XDECREF(pair);
	}
	return list;
}

static PyObject *create(PyObject *int_enum, enum ps_enum which)
{
	PyObject *members = list_of(enums[which].members), *type = NULL;
	PyObject *args, *keywords;

	if (!members)
		return NULL;
	args = Py_BuildValue("(sO)", enums[which].name, members);
	keywords = Py_BuildValue("{ss}", "module", "mooncake.store");
	if (args && keywords)
		type = PyObject_Call(int_enum, args, keywords);
	Py_XDECREF(args);
	Py_XDECREF(keywords);
	Py_DECREF(members);
	return type;
}

bool ps_enums_add(PyObject *module)
{
	PyObject *package = PyImport_ImportModule("enum"), *int_enum;
	bool done = package != NULL;

	if (!package)
		return false;
	int_enum = PyObject_GetAttrString(package, "IntEnum");
	Py_DECREF(package);
	if (!int_enum)
		return false;
	for (int i = 0; done && i < PS_ENUMS; i++) {
		types[i] = create(int_enum, (enum ps_enum)i);
		done = types[i] &&
		       !PyModule_AddObjectRef(module, enums[i].name, types[i]);
	}
	Py_DECREF(int_enum);
	return done;
}

PyObject *ps_enum_member(enum ps_enum which, uint32_t value)
{
	PyObject *member = PyObject_CallFunction(types[which], "I", value);

	if (member || !PyErr_ExceptionMatches(PyExc_ValueError))
		return member;
	PyErr_Clear();
	return PyLong_FromUnsignedLong(value);
}

static bool is_listed(enum ps_enum which, uint64_t value)
{
	const struct member *member = enums[which].members;

	while (member->name && member->value != value)
		member++;
	return member->name != NULL;
}

int ps_enum_value(enum ps_enum which, PyObject *value, const char *name,
		  uint32_t *out)
{
	int is_member = PyObject_IsInstance(value, types[which]);
	uint64_t number;
	int rc;

	if (is_member < 0)
		return -1;
	if (!is_member) {
		PyErr_Format(PyExc_TypeError, "%s must be of %s, not %R", name,
			     enums[which].name, (PyObject *)Py_TYPE(value));
		return -1;
	}
	rc = py_arg_uint64(value, name, &number);
	/* int.__new__() makes members that none of the list is. */
	if (rc == PY_ARG_RANGE || (!rc && !is_listed(which, number)))
		PyErr_Format(PyExc_ValueError, "%s is out of range", name);
	if (PyErr_Occurred())
		return -1;
	*out = (uint32_t)number;
	return 0;
}
