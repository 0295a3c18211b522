/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.c - arguments of setup(), as te_store_setup_pairs() takes them
 *
 * Programs find out what a version of this package can do by what it says in a
 * TypeError: of a keyword that it does not know it names that one alone.
 */
#include "python/src/store/pairs.h"

#include "python/src/args.h"
#include "python/src/store/client.h"

int ps_pairs_add(struct ps_pairs *pairs, const char *key, const char *value)
{
	struct te_store_pair *more = PyMem_Realloc(
		pairs->pairs, (pairs->n + 1) * sizeof(*pairs->pairs));

	if (!more) {
		PyErr_NoMemory();
		return PY_ARG_RAISED;
	}
	pairs->pairs = more;
	pairs->pairs[pairs->n++] = (struct te_store_pair){key, value};
	return PY_ARG_OK;
}

/* str(@object) as text that lives as long as @pairs. */
static int keep_text(struct ps_pairs *pairs, PyObject *object, const char *name,
		     const char **out)
{
	PyObject *text = PyObject_Str(object);
	int rc = PY_ARG_RAISED;

	if (!pairs->texts)
		pairs->texts = PyList_New(0);
	if (text && pairs->texts && !PyList_Append(pairs->texts, text))
		rc = py_arg_text(text, name, out);
	Py_XDECREF(text);
	if (rc == PY_ARG_RANGE)
		py_warn("setup", "%s is no text", name);
	return rc;
}

int ps_pairs_of_dict(struct ps_pairs *pairs, PyObject *dict)
{
	PyObject *items = PyDict_Items(dict);
	int rc = items ? PY_ARG_OK : PY_ARG_RAISED;

	for (Py_ssize_t i = 0; !rc && i < PyList_Size(items); i++) {
		PyObject *item = PyList_GetItem(items, i);
		PyObject *value = PyTuple_GetItem(item, 1);
		const char *key, *text;

		if (value == Py_None)
			continue;
		rc = keep_text(pairs, PyTuple_GetItem(item, 0), "a key", &key);
		if (!rc)
			rc = keep_text(pairs, value, key, &text);
		if (!rc)
			rc = ps_pairs_add(pairs, key, text);
	}
	Py_XDECREF(items);
	return rc;
}

enum kind { TEXT, NUMBER, SWITCH, OBJECT };

/*
 * Parameters in their order. The last two are other spellings, by keyword only.
 */
static const struct parameter {
	const char *name;
	enum kind kind;
} parameters[] = {
	{"local_hostname", TEXT},
	{"metadata_server", TEXT},
	{"global_segment_size", NUMBER},
	{"local_buffer_size", NUMBER},
	{"protocol", TEXT},
	{"rdma_devices", TEXT},
	{"master_server_addr", TEXT},
	{"engine", OBJECT},
	{"enable_ssd_offload", SWITCH},
	{"ssd_offload_path", TEXT},
	{"tenant_id", TEXT},
	{"enable_client_http_server", SWITCH},
	{"client_http_port", NUMBER},
	{"device_name", TEXT},
	{"master_server_address", TEXT},
};
#define N_PARAMETERS (sizeof(parameters) / sizeof(parameters[0]))
enum { N_REQUIRED = 7, ENGINE = 7 };
enum { DEVICES = 5, MASTER = 6, OLD_DEVICES = 13, OLD_MASTER = 14 };

static int check_given(PyObject *const values[])
{
	for (int i = 0; i < N_REQUIRED; i++) {
		bool is_given = values[i] ||
				(i == DEVICES && values[OLD_DEVICES]) ||
				(i == MASTER && values[OLD_MASTER]);

		if (is_given)
			continue;
		PyErr_Format(PyExc_TypeError,
			     "setup() missing required argument '%s'",
			     parameters[i].name);
		return PY_ARG_RAISED;
	}
	return PY_ARG_OK;
}

static int check_type(PyObject *value, const struct parameter *parameter)
{
	bool fits = parameter->kind == TEXT ? PyUnicode_Check(value)
					    : PyIndex_Check(value);

	if (fits)
		return PY_ARG_OK;
	PyErr_Format(PyExc_TypeError, "%s must be %s, not %R", parameter->name,
		     parameter->kind == TEXT     ? "a str"
		     : parameter->kind == SWITCH ? "a bool"
						 : "an integer",
		     (PyObject *)Py_TYPE(value));
	return PY_ARG_RAISED;
}

static int add_value(struct ps_pairs *pairs, PyObject *value,
		     const struct parameter *parameter)
{
	const char *text;
	uint64_t number = 0;
	int rc = check_type(value, parameter);

	if (!rc && parameter->kind != TEXT)
		rc = py_arg_uint64(value, parameter->name, &number);
	if (rc == PY_ARG_RANGE)
		py_warn("setup", "%s is negative or beyond 64 bits",
			parameter->name);
	if (rc)
		return rc;
	if (parameter->kind == SWITCH)
		return ps_pairs_add(pairs, parameter->name, number ? "1" : "0");
	if (parameter->kind == NUMBER)
		value = PyNumber_Index(value);
	else
		Py_INCREF(value);
	rc = value ? keep_text(pairs, value, parameter->name, &text)
		   : PY_ARG_RAISED;
	Py_XDECREF(value);
	return rc ? rc : ps_pairs_add(pairs, parameter->name, text);
}

int ps_pairs_of_call(struct ps_pairs *pairs, PyObject *args, PyObject *keywords,
		     PyObject **engine)
{
	char *names[N_PARAMETERS + 1] = {NULL};
	PyObject *v[N_PARAMETERS] = {NULL};
	int rc;

	for (size_t i = 0; i < N_PARAMETERS; i++)
		names[i] = (char *)(uintptr_t)parameters[i].name;
	if (!PyArg_ParseTupleAndKeywords(
		    args, keywords, "|OOOOOOOOOOOOO$OO:setup", names, &v[0],
		    &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8],
		    &v[9], &v[10], &v[11], &v[12], &v[13], &v[14]))
		return PY_ARG_RAISED;
	rc = check_given(v);
	*engine = v[ENGINE];
	for (size_t i = 0; !rc && i < N_PARAMETERS; i++)
		if (v[i] && i != ENGINE)
			rc = add_value(pairs, v[i], &parameters[i]);
	return rc;
}

void ps_pairs_free(struct ps_pairs *pairs)
{
	PyMem_Free(pairs->pairs);
	Py_XDECREF(pairs->texts);
}
