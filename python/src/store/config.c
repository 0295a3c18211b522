/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - ReplicateConfig: how objects are to be kept
 *
 * Attributes are checked when they are set. Lists come back as copies.
 */
#include <string.h>

#include "python/src/args.h"
#include "python/src/store/types.h"

struct config {
	PyObject_HEAD uint64_t replica_num;
	uint64_t nof_replica_num, dfs_replica_num; /* kept, without effect */
	uint32_t soft_pin_action;                  /* enum te_store_soft_pin */
	uint32_t data_type;                        /* enum te_store_data_type */
	PyObject *soft_pin_ttl_ms;                 /* int or None */
	bool with_hard_pin, prefer_alloc_in_same_node;
	PyObject *preferred_segment;      /* str */
	PyObject *preferred_segments;     /* tuple of str */
	PyObject *preferred_nof_segments; /* the same, without effect */
	PyObject *group_ids;              /* the same, or None */
};

static PyTypeObject *config_type; /* lives as long as the process */

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = {NULL};
	struct config *self;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, ":ReplicateConfig",
					 names))
		return NULL;
	self = (struct config *)PyType_GenericAlloc(type, 0);
	if (!self)
		return NULL;
	self->replica_num = 1;
	Py_INCREF(Py_None);
	self->soft_pin_ttl_ms = Py_None;
	Py_INCREF(Py_None);
	self->group_ids = Py_None;
	self->preferred_segment = PyUnicode_FromString("");
	self->preferred_segments = PyTuple_New(0);
	self->preferred_nof_segments = PyTuple_New(0);
	if (!self->preferred_segment || !self->preferred_segments ||
	    !self->preferred_nof_segments)
		Py_CLEAR(self);
	return (PyObject *)self;
}

static void destroy(PyObject *object)
{
	struct config *self = (struct config *)object;
	PyTypeObject *type = Py_TYPE(object);

	Py_XDECREF(self->soft_pin_ttl_ms);
	Py_XDECREF(self->preferred_segment);
	Py_XDECREF(self->preferred_segments);
	Py_XDECREF(self->preferred_nof_segments);
	Py_XDECREF(self->group_ids);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

/* ---- attributes ---- */

static int is_deleted(PyObject *value)
{
	if (!value)
		PyErr_SetString(PyExc_AttributeError,
				"attributes of a ReplicateConfig stay");
	return !value;
}

/* The closure of an attribute: its name, and its offset in the object. */
struct place {
	const char *name;
	size_t offset;
	enum ps_enum which; /* of those that are enumerations */
};

static void *at(PyObject *self, const struct place *place)
{
	return (char *)self + place->offset;
}

static PyObject *number_get(PyObject *self, void *place)
{
	return PyLong_FromUnsignedLongLong(*(uint64_t *)at(self, place));
}

/* A number of 64 bits; all others are of a wrong type, as with Mooncake. */
static int read_number(PyObject *value, const char *name, uint64_t *out)
{
	int rc = py_arg_uint64(value, name, out);

	if (rc == PY_ARG_RANGE)
		PyErr_Format(PyExc_TypeError,
			     "%s must be 0 to 2^64 - 1, not %R", name, value);
	return rc ? -1 : 0;
}

static int number_set(PyObject *self, PyObject *value, void *closure)
{
	const struct place *place = closure;

	if (is_deleted(value))
		return -1;
	return read_number(value, place->name, at(self, place));
}

static PyObject *bool_get(PyObject *self, void *place)
{
	return PyBool_FromLong(*(bool *)at(self, place));
}

/*
 * Whatever has __bool__, as with Mooncake: numbers, numpy's bools and None; a
 * text has none.
 */
static int read_bool(PyObject *value, const char *name, bool *out)
{
	int truth;

	if (is_deleted(value))
		return -1;
	if (!PyType_GetSlot(Py_TYPE(value), Py_nb_bool)) {
		PyErr_Format(PyExc_TypeError, "%s must be a bool, not %R", name,
			     (PyObject *)Py_TYPE(value));
		return -1;
	}
	truth = PyObject_IsTrue(value);
	if (truth < 0)
		return -1;
	*out = truth;
	return 0;
}

static int bool_set(PyObject *self, PyObject *value, void *closure)
{
	const struct place *place = closure;

	return read_bool(value, place->name, at(self, place));
}

static PyObject *enum_get(PyObject *self, void *closure)
{
	const struct place *place = closure;

	return ps_enum_member(place->which, *(uint32_t *)at(self, place));
}

static int enum_set(PyObject *self, PyObject *value, void *closure)
{
	const struct place *place = closure;

	if (is_deleted(value))
		return -1;
	return ps_enum_value(place->which, value, place->name, at(self, place));
}

static void replace_object(PyObject **held, PyObject *value)
{
	PyObject *old = *held;

	*held = value;
	Py_DECREF(old);
}

static PyObject *text_get(PyObject *self, void *place)
{
	PyObject *text = *(PyObject **)at(self, place);

	Py_INCREF(text);
	return text;
}

static int check_text(PyObject *value, const char *name)
{
	const char *text;

	if (!PyUnicode_Check(value)) {
		PyErr_Format(PyExc_TypeError, "%s must be a str, not %R", name,
			     (PyObject *)Py_TYPE(value));
		return -1;
	}
	switch (py_arg_text(value, name, &text)) {
	case PY_ARG_OK:
		return 0;
	case PY_ARG_RANGE:
		PyErr_Format(PyExc_ValueError, "%s is out of range", name);
		return -1;
	default:
		return -1;
	}
}

static int text_set(PyObject *self, PyObject *value, void *closure)
{
	const struct place *place = closure;

	if (is_deleted(value) || check_text(value, place->name))
		return -1;
	Py_INCREF(value);
	replace_object(at(self, place), value);
	return 0;
}

static PyObject *texts_get(PyObject *self, void *place)
{
	PyObject *texts = *(PyObject **)at(self, place);

	if (texts != Py_None)
		return PySequence_List(texts);
	Py_INCREF(texts);
	return texts;
}

static int texts_set(PyObject *self, PyObject *value, void *closure)
{
	const struct place *place = closure;
	PyObject *texts;

	if (is_deleted(value) || py_arg_tuple(value, place->name, &texts))
		return -1;
	for (Py_ssize_t i = 0; i < PyTuple_Size(texts); i++) {
		if (!check_text(PyTuple_GetItem(texts, i), place->name))
			continue;
		Py_DECREF(texts);
		return -1;
	}
	replace_object(at(self, place), texts);
	return 0;
}

static int set_none(PyObject *self, const struct place *place)
{
	Py_INCREF(Py_None);
	replace_object(at(self, place), Py_None);
	return 0;
}

static int optional_texts_set(PyObject *self, PyObject *value, void *place)
{
	return value == Py_None ? set_none(self, place)
				: texts_set(self, value, place);
}

static int ttl_set(PyObject *self, PyObject *value, void *closure)
{
	const struct place *place = closure;
	uint64_t ms;

	if (is_deleted(value))
		return -1;
	if (value == Py_None)
		return set_none(self, place);
	if (read_number(value, place->name, &ms))
		return -1;
	value = PyLong_FromUnsignedLongLong(ms);
	if (!value)
		return -1;
	replace_object(at(self, place), value);
	return 0;
}

/* The older boolean: another face of soft_pin_action. */
static PyObject *soft_pin_get(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(((struct config *)self)->soft_pin_action ==
			       TE_STORE_SOFT_PIN_ENABLE);
}

static int soft_pin_set(PyObject *self, PyObject *value, void *closure)
{
	bool on = false;

	(void)closure;
	if (read_bool(value, "with_soft_pin", &on))
		return -1;
	((struct config *)self)->soft_pin_action =
		on ? TE_STORE_SOFT_PIN_ENABLE : TE_STORE_SOFT_PIN_PRESERVE;
	return 0;
}

#define PLACE(field, ...)                                                 \
	(void *)&(const struct place)                                     \
	{                                                                 \
		.name = #field, .offset = offsetof(struct config, field), \
		__VA_ARGS__                                               \
	}

static PyGetSetDef attributes[] = {
	{"replica_num", number_get, number_set,
	 "How many replicas of each object, 1 to 32", PLACE(replica_num)},
	{"nof_replica_num", number_get, number_set, "Kept, without effect",
	 PLACE(nof_replica_num)},
	{"dfs_replica_num", number_get, number_set, "Kept, without effect",
	 PLACE(dfs_replica_num)},
	{"soft_pin_action", enum_get, enum_set, "A SoftPinAction",
	 PLACE(soft_pin_action, .which = PS_SOFT_PIN_ACTION)},
	{"soft_pin_ttl_ms", text_get, ttl_set, "None: the master's default",
	 PLACE(soft_pin_ttl_ms)},
	{"with_soft_pin", soft_pin_get, soft_pin_set,
	 "The older form of soft_pin_action", NULL},
	{"with_hard_pin", bool_get, bool_set, "Never evicted",
	 PLACE(with_hard_pin)},
	{"preferred_segments", texts_get, texts_set,
	 "Names of owners, tried in this order", PLACE(preferred_segments)},
	{"preferred_segment", text_get, text_set,
	 "One that is tried before those", PLACE(preferred_segment)},
	{"preferred_nof_segments", texts_get, texts_set, "Kept, without effect",
	 PLACE(preferred_nof_segments)},
	{"prefer_alloc_in_same_node", bool_get, bool_set,
	 "All of a call in one segment if it fits",
	 PLACE(prefer_alloc_in_same_node)},
	{"data_type", enum_get, enum_set, "An ObjectDataType",
	 PLACE(data_type, .which = PS_OBJECT_DATA_TYPE)},
	{"group_ids", texts_get, optional_texts_set,
	 "None, or one for each key: a group is evicted together",
	 PLACE(group_ids)},
	{0},
};

static PyObject *describe(PyObject *self)
{
	PyObject *text = PyUnicode_FromString("ReplicateConfig: {"), *value;

	for (size_t i = 0; text && attributes[i].name; i++) {
		PyObject *longer = NULL;

		value = attributes[i].get(self, attributes[i].closure);
		if (value)
			longer = PyUnicode_FromFormat(
				"%U%s%s: %S", text, i ? ", " : " ",
				attributes[i].name, value);
		Py_XDECREF(value);
		Py_DECREF(text);
		text = longer;
	}
	if (!text)
		return NULL;
	value = PyUnicode_FromFormat("%U }", text);
	Py_DECREF(text);
	return value;
}

/* ---- for calls ---- */

static size_t n_texts(PyObject *tuple)
{
	return tuple ? (size_t)PyTuple_Size(tuple) : 0;
}

static int point(const char **out, PyObject *tuple)
{
	Py_ssize_t n = PyTuple_Size(tuple);

	for (Py_ssize_t i = 0; i < n; i++)
		if (py_arg_text(PyTuple_GetItem(tuple, i), "", &out[i]))
			return PY_ARG_RAISED;
	return PY_ARG_OK;
}

/* The single one comes first, as it does with Mooncake. */
static PyObject *all_preferred(const struct config *config)
{
	PyObject *first, *all;

	if (!PyUnicode_GetLength(config->preferred_segment)) {
		Py_INCREF(config->preferred_segments);
		return config->preferred_segments;
	}
	first = PyTuple_Pack(1, config->preferred_segment);
	if (!first)
		return NULL;
	all = PySequence_Concat(first, config->preferred_segments);
	Py_DECREF(first);
	return all;
}

static int read_names(struct ps_how *how, const struct config *config)
{
	struct te_store_replicate *replicate = &how->replicate;
	size_t n;

	how->preferred = all_preferred(config);
	if (!how->preferred)
		return PY_ARG_RAISED;
	if (config->group_ids != Py_None) {
		how->groups = config->group_ids;
		Py_INCREF(how->groups);
	}
	n = n_texts(how->preferred);
	how->names =
		PyMem_Calloc(n + n_texts(how->groups) + 1, sizeof(*how->names));
	if (!how->names) {
		PyErr_NoMemory();
		return PY_ARG_RAISED;
	}
	replicate->preferred_segments = how->names;
	replicate->n_preferred_segments = n;
	replicate->group_ids = how->names + n;
	replicate->n_group_ids = n_texts(how->groups);
	if (point(how->names, how->preferred))
		return PY_ARG_RAISED;
	return how->groups ? point(how->names + n, how->groups) : PY_ARG_OK;
}

/*
 * With 0 ms a value comes without a pin, and replaces one's; the library has 0
 * for the master's default. A time that is given with another action is
 * refused, 0 too.
 */
static int read_soft_pin(struct te_store_replicate *replicate,
			 const struct config *config)
{
	uint64_t *ms = &replicate->soft_pin_ttl_ms;

	replicate->soft_pin_action = config->soft_pin_action;
	if (config->soft_pin_ttl_ms == Py_None)
		return PY_ARG_OK;
	if (py_arg_uint64(config->soft_pin_ttl_ms, "soft_pin_ttl_ms", ms))
		return PY_ARG_RAISED;
	if (config->soft_pin_action != TE_STORE_SOFT_PIN_ENABLE)
		*ms = UINT64_MAX;
	else if (!*ms)
		replicate->soft_pin_action = TE_STORE_SOFT_PIN_DISABLE;
	return PY_ARG_OK;
}

int ps_how_read(struct ps_how *how, PyObject *object)
{
	struct te_store_replicate *replicate = &how->replicate;
	const struct config *config = (const struct config *)object;

	if (!object || object == Py_None)
		return PY_ARG_OK;
	if (!PyObject_TypeCheck(object, config_type)) {
		PyErr_Format(PyExc_TypeError,
			     "config must be a ReplicateConfig, not %R",
			     (PyObject *)Py_TYPE(object));
		return PY_ARG_RAISED;
	}
	how->is_given = true;
	replicate->size = sizeof(*replicate);
	replicate->replica_num = config->replica_num > TE_STORE_REPLICAS_MAX
					 ? TE_STORE_REPLICAS_MAX + 1
					 : (uint32_t)config->replica_num;
	replicate->data_type = config->data_type;
	replicate->flags =
		(config->with_hard_pin ? TE_STORE_HARD_PIN : 0u) |
		(config->prefer_alloc_in_same_node ? TE_STORE_SAME_NODE : 0u);
	if (read_soft_pin(replicate, config))
		return PY_ARG_RAISED;
	return read_names(how, config);
}

void ps_how_free(struct ps_how *how)
{
	PyMem_Free((void *)how->names);
	Py_XDECREF(how->preferred);
	Py_XDECREF(how->groups);
}

static PyType_Slot slots[] = {
	{Py_tp_new, create},
	{Py_tp_dealloc, destroy},
	{Py_tp_getset, attributes},
	{Py_tp_str, describe},
	{Py_tp_repr, describe},
	{Py_tp_doc, "ReplicateConfig()\n--\n\nHow objects are to be kept."},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "mooncake.store.ReplicateConfig",
	.basicsize = sizeof(struct config),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};

bool ps_config_add(PyObject *module)
{
	config_type =
		(PyTypeObject *)ps_add_type(module, "ReplicateConfig", &spec);
	return config_type != NULL;
}
