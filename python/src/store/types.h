/* SPDX-License-Identifier: Apache-2.0 */
/*
 * types.h - the classes of mooncake.store beside MooncakeDistributedStore
 *
 * All with the GIL held. Functions that return an object return a new
 * reference, or NULL with an exception.
 */
#ifndef PYTHON_STORE_TYPES_H
#define PYTHON_STORE_TYPES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/store.h>

#include "python/src/store/client.h"

/* Adders put their classes into the module. False: raised. */
bool ps_enums_add(PyObject *module);
bool ps_config_add(PyObject *module);
bool ps_handle_add(PyObject *module);
bool ps_describe_add(PyObject *module);
bool ps_memory_add(PyObject *module);
bool ps_store_add(PyObject *module);

/* Made from a spec, and added under its own name. */
PyObject *ps_add_type(PyObject *module, const char *name, PyType_Spec *spec);

enum ps_enum {
	PS_SOFT_PIN_ACTION,
	PS_OBJECT_DATA_TYPE,
	PS_REPLICA_STATUS,
	PS_TASK_TYPE,
	PS_TASK_STATUS,
	PS_ENUMS,
};

/* The member with that value; the bare number where there is none. */
PyObject *ps_enum_member(enum ps_enum which, uint32_t value);
/* 0, or raised: @value is no member, and @name is whose it was to be. */
int ps_enum_value(enum ps_enum which, PyObject *value, const char *name,
		  uint32_t *out);

/* Contents of a ReplicateConfig, for the time of a call. */
struct ps_how {
	struct te_store_replicate replicate;
	bool is_given;
	PyObject *preferred; /* tuples, whose texts are pointed to */
	PyObject *groups;
	const char **names; /* of both */
};

/*
 * @config: a ReplicateConfig, None or NULL. Returns an enum py_arg and never
 * PY_ARG_RANGE; what cannot be is left for the library to refuse.
 */
int ps_how_read(struct ps_how *how, PyObject *config);
/* Why it has been refused. */
#define PS_HOW_WRONG                                              \
	"config: replica_num is 1 to 32, names have no blanks, "  \
	"soft_pin_ttl_ms goes with ENABLE and is a day at most, " \
	"groups are one a key and the object's own"
void ps_how_free(struct ps_how *how); /* all zero is fine */

/* A BufferHandle of @buffer, which it takes, with a pin of @client. */
PyObject *ps_handle_create(struct ps_client *client,
			   struct te_store_buffer *buffer);

PyObject *ps_describe_replica(const struct te_store_replica *replica);
PyObject *ps_describe_task(PyObject *id, const struct te_store_task *task);

/* 16 bytes as Mooncake's pair of integers, and back. */
PyObject *ps_id_object(const uint8_t bytes[16]);
/* An enum py_arg. */
int ps_id_read(PyObject *pair, const char *name, uint8_t bytes[16]);

#endif
