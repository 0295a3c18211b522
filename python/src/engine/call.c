/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c - the arguments that all transfer methods share
 */
#include "python/src/engine/call.h"

/* Reads a number alone, like py_arg_numbers() does a list. */
static int one_number(PyObject *value, const char *name, struct py_numbers *out)
{
	uint64_t number;
	int rc = py_arg_uint64(value, name, &number);

	if (rc)
		return rc;
	out->values = PyMem_Malloc(sizeof(number));
	if (!out->values) {
		PyErr_NoMemory();
		return PY_ARG_RAISED;
	}
	out->values[0] = number;
	out->n = 1;
	return PY_ARG_OK;
}

static int read_numbers(const struct py_call *call, struct py_entries *out,
			const char **wrong)
{
	static const char *const names[2][3] = {
		{"buffer", "peer_buffer_address", "length"},
		{"buffers", "peer_buffer_addresses", "lengths"},
	};
	PyObject *values[] = {call->buffers, call->peers, call->lengths};
	struct py_numbers *to[] = {&out->buffers, &out->peers, &out->lengths};
	int rc = PY_ARG_OK;

	for (int i = 0; !rc && i < 3; i++) {
		*wrong = names[call->many][i];
		rc = call->many ? py_arg_numbers(values[i], *wrong, to[i])
				: one_number(values[i], *wrong, to[i]);
	}
	return rc;
}

/* Mooncake's numbers: 0 reads, 1 writes. */
static int read_op(const struct py_call *call, uint32_t *op)
{
	int64_t number;
	int rc;

	*op = call->op;
	if (!call->opcode)
		return PY_ARG_OK;
	rc = py_arg_int64(call->opcode, "opcode", &number);
	if (!rc && number != 0 && number != 1)
		rc = PY_ARG_RANGE;
	if (!rc)
		*op = number ? TE_WRITE : TE_READ;
	return rc;
}

static int read_all(const struct py_call *call, struct py_entries *out,
		    const char **wrong)
{
	const char *hint;
	int rc;

	*wrong = "target_hostname";
	rc = py_arg_text(call->target, *wrong, &out->target);
	if (!rc && !*out->target)
		rc = PY_ARG_RANGE;
	if (!rc)
		rc = read_numbers(call, out, wrong);
	if (!rc && call->hint) { /* what is best is chosen anyway */
		*wrong = "transport_hint";
		rc = py_arg_text(call->hint, *wrong, &hint);
	}
	if (!rc) {
		*wrong = "opcode";
		rc = read_op(call, &out->op);
	}
	return rc;
}

static void free_entries(struct py_entries *entries)
{
	py_numbers_free(&entries->buffers);
	py_numbers_free(&entries->peers);
	py_numbers_free(&entries->lengths);
}

bool py_call_parse(struct py_call *call, PyObject *args, PyObject *kwargs,
		   const char *format)
{
	static char *one[] = {"target_hostname",     "buffer",
			      "peer_buffer_address", "length",
			      "transport_hint",      NULL};
	static char *many[] = {"target_hostname",       "buffers",
			       "peer_buffer_addresses", "lengths",
			       "transport_hint",        NULL};

	return PyArg_ParseTupleAndKeywords(
		args, kwargs, format, call->many ? many : one, &call->target,
		&call->buffers, &call->peers, &call->lengths, &call->hint);
}

int py_call_transfer(struct py_engine *self, const struct py_call *call,
		     struct py_transfer **out)
{
	struct py_entries entries = {.method = call->method,
				     .raises = call->raises};
	const char *wrong;
	int rc = read_all(call, &entries, &wrong);

	if (rc == PY_ARG_RANGE)
		py_entries_refuse(&entries, "%s is out of range", wrong);
	else if (!rc && py_transfer_create(self, &entries, out))
		rc = PY_ARG_RANGE;
	if (rc && call->raises)
		rc = PY_ARG_RAISED;
	free_entries(&entries);
	return rc;
}
