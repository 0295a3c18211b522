/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - what a handle of store_c.h stands for
 *
 * Every function enters the store it was given, and leaves it before it
 * returns. A store that is set up or closed by one thread is as one that is not
 * set up for the others; closing waits until they have left.
 */
#ifndef COMPAT_STORE_STORE_H
#define COMPAT_STORE_STORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <te/store.h>

#include "compat/store_c.h"

struct mc_store {
	uint64_t handle;
	pid_t pid; /* whose it is; a fork child has no threads for it */
	pthread_mutex_t mutex; /* of what follows; held for no call */
	pthread_cond_t left;
	struct te_store *te; /* NULL: not set up */
	size_t n_inside;     /* threads that use it */
	bool changing;       /* by the thread that sets it up or closes it */
	bool warned;         /* that it is not set up: said once */
};

/*
 * NULL, with a line of the log that names @function: no such store, or one that
 * is not set up (said at the first call). Else leave.
 */
struct mc_store *mc_store_enter(mooncake_store_t handle, const char *function);
void mc_store_leave(struct mc_store *store);

#endif
