/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - clients: who uses one, and who closes it
 */
#include "python/src/store/client.h"

#include <unistd.h>

static void close_unlocked(struct te_store *te)
{
	Py_BEGIN_ALLOW_THREADS;
	te_store_close(te);
	Py_END_ALLOW_THREADS;
}

bool ps_client_give(struct ps_store *self, struct te_store *te,
		    PyObject *engine, bool is_dummy)
{
	struct ps_client *client = PyMem_Calloc(1, sizeof(*client));

	if (!client) {
		close_unlocked(te);
		PyErr_NoMemory();
		return false;
	}
	Py_XINCREF(engine);
	client->te = te;
	client->engine = engine;
	client->n_pins = 1;
	client->is_dummy = is_dummy;
	client->pid = getpid();
	self->client = client;
	self->warned = false;
	return true;
}

struct ps_client *ps_client_pin(struct ps_store *self, const char *function)
{
	struct ps_client *client = self->client;

	if (client && client->pid == getpid()) {
		client->n_pins++;
		return client;
	}
	if (!self->warned)
		py_warn(function,
			client ? "the store was set up by the process "
				 "that this one was forked off"
			       : "the store is not set up");
	self->warned = true;
	return NULL;
}

void ps_client_unpin(struct ps_client *client)
{
	PyObject *type, *value, *trace;

	if (--client->n_pins)
		return;
	PyErr_Fetch(&type, &value, &trace);
	/* The threads of a process's clients are not in its children. */
	if (client->pid == getpid())
		close_unlocked(client->te);
	Py_XDECREF(client->engine);
	PyMem_Free(client);
	PyErr_Restore(type, value, trace);
}

void ps_client_drop(struct ps_store *self)
{
	struct ps_client *client = self->client;

	self->client = NULL;
	if (client)
		ps_client_unpin(client);
}
