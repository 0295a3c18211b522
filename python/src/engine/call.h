/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - the arguments that all transfer methods share
 */
#ifndef PYTHON_ENGINE_CALL_H
#define PYTHON_ENGINE_CALL_H

#include "python/src/engine/transfer.h"

/* Arguments as parsed; borrowed. NULL: not given, or none of the method's. */
struct py_call {
	const char *method;
	PyObject *target, *buffers, *peers, *lengths, *opcode, *notify, *hint;
	bool raises; /* RuntimeError, not a line of the log */
	bool many;   /* lists, of an entry for each place */
	uint32_t op; /* enum te_op, unless there is an opcode */
};

/*
 * Read the arguments of a method that has its opcode in its name: five, by
 * names that follow from call->many. False: raised.
 */
bool py_call_parse(struct py_call *call, PyObject *args, PyObject *kwargs,
		   const char *format);
/*
 * Make the transfer that a call asks for. 0; PY_ARG_RAISED; PY_ARG_RANGE after
 * a line of the log, which a call that raises does not return.
 */
int py_call_transfer(struct py_engine *self, const struct py_call *call,
		     struct py_transfer **out);

#endif
