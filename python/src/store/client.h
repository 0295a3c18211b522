/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - a te_store that the object, its calls and its buffers share
 *
 * A user pins the store, and the last one to release it closes it: close()
 * takes it away from the object, but neither from a call of another thread nor
 * from a BufferHandle. In a forked child it is dead.
 *
 * All of it is guarded by the GIL.
 */
#ifndef PYTHON_STORE_CLIENT_H
#define PYTHON_STORE_CLIENT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <te/store.h>

#include "python/src/warn.h"

struct ps_client {
	struct te_store *te;
	PyObject *engine; /* a capsule that keeps the engine; or NULL */
	size_t n_pins;
	bool is_dummy;
	pid_t pid; /* who set it up */
};

/* MooncakeDistributedStore */
struct ps_store {
	PyObject_HEAD struct ps_client
		*client; /* NULL: not set up, or closed */
	bool setting_up; /* by some thread just now */
	bool warned;     /* that there is no client */
};

/*
 * Takes @te, and a reference of @engine (NULL: none), and gives them to @self.
 * False: no memory, raised; @te is closed.
 */
bool ps_client_give(struct ps_store *self, struct te_store *te,
		    PyObject *engine, bool is_dummy);
/* NULL, and a line the first time: there is none. Else unpin. */
struct ps_client *ps_client_pin(struct ps_store *self, const char *function);
/* May close it, without the GIL. Keeps an exception that is set. */
void ps_client_unpin(struct ps_client *client);
/* Take it from @self. */
void ps_client_drop(struct ps_store *self);

#endif
