/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enums.c - Mooncake's enumerations
 */
#include "python/src/enums.h"
#include "python/src/args.h"
#include "python/src/store/types.h"

static const struct py_member soft_pins[] = {
	{"PRESERVE", TE_STORE_SOFT_PIN_PRESERVE},
	{"ENABLE", TE_STORE_SOFT_PIN_ENABLE},
	{"DISABLE", TE_STORE_SOFT_PIN_DISABLE},
	{0},
};
static const struct py_member data_types[] = {
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
/* Callers only ever see COMPLETE. */
static const struct py_member replica_statuses[] = {
	{"UNDEFINED", 0},
	{"INITIALIZED", 1},
	{"PROCESSING", 2},
	{"COMPLETE", TE_STORE_REPLICA_COMPLETE},
	{"REMOVED", 4},
	{"FAILED", 5},
	{0},
};
static const struct py_member task_types[] = {
	{"REPLICA_COPY", TE_STORE_TASK_COPY},
	{"REPLICA_MOVE", TE_STORE_TASK_MOVE},
	{0},
};
static const struct py_member task_statuses[] = {
	{"PENDING", TE_STORE_TASK_PENDING},
	{"PROCESSING", TE_STORE_TASK_PROCESSING},
	{"SUCCESS", TE_STORE_TASK_SUCCESS},
	{"FAILED", TE_STORE_TASK_FAILED},
	{0},
};

/*
 * Enumerations; where two of them export one name, the module has the last
 * one's.
 */
static const struct {
	const char *name;
	const struct py_member *members;
	bool is_exported; /* each member, to the module */
} enums[PS_ENUMS] = {
	[PS_SOFT_PIN_ACTION] = {"SoftPinAction", soft_pins, false},
	[PS_OBJECT_DATA_TYPE] = {"ObjectDataType", data_types, true},
	[PS_REPLICA_STATUS] = {"ReplicaStatus", replica_statuses, true},
	[PS_TASK_TYPE] = {"TaskType", task_types, true},
	[PS_TASK_STATUS] = {"TaskStatus", task_statuses, true},
};

static PyObject *types[PS_ENUMS]; /* live as long as the process */

/* The members as attributes of the module. */
static int export(PyObject *module, PyObject *type,
		  const struct py_member *members)
{
	int rc = 0;

	for (; !rc && members->name; members++) {
		PyObject *member = PyObject_GetAttrString(type, members->name);

		rc = member ? PyModule_AddObjectRef(module, members->name,
						    member)
			    : -1;
		Py_XDECREF(member);
	}
	return rc;
}

static int add_enum(PyObject *module, enum ps_enum which)
{
	const char *name = enums[which].name;
	PyObject *type =
		py_enum_create("mooncake.store", name, enums[which].members);

	types[which] = type;
	if (!type || PyModule_AddObjectRef(module, name, type))
		return -1;
	return enums[which].is_exported
		       ? export(module, type, enums[which].members)
		       : 0;
}

bool ps_enums_add(PyObject *module)
{
	int rc = 0;

	for (int i = 0; !rc && i < PS_ENUMS; i++)
		rc = add_enum(module, (enum ps_enum)i);
	return !rc;
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
	const struct py_member *member = enums[which].members;

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
