/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h - what batch.c and again.c know of a batch */
#ifndef COMPAT_ENGINE_BATCH_H
#define COMPAT_ENGINE_BATCH_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "compat/engine/engine.h"

struct mc_task {
	struct transfer_request entry;
	uint64_t end_ms; /* by then it has ended */
	uint32_t again;  /* its place in batch->again, from 1; 0: none */
	bool leaves;     /* for the next batch->again */
	/* How its try in an earlier batch->again has ended; 0: none has. */
	struct transfer_status ended;
};

struct mc_notify {
	size_t tasks; /* that were submitted before it */
	struct iovec bytes;
};

struct mc_batch {
	struct mc_engine *engine;
	uint64_t handle;
	pthread_mutex_t mutex; /* of all that follows */
	struct te_batch *te;
	size_t size, n_tasks;
	struct mc_task *tasks; /* tasks[size] */
	/* Those whose peer had restarted, under way to its new life; or NULL. */
	struct te_batch *again;
	struct mc_notify *notifies; /* notifies[n_notifies], in that order */
	size_t n_notifies;
	struct mc_batch *next; /* that leave; with the engine's mutex */
};

/* CLOCK_MONOTONIC. */
uint64_t mc_now_ms(void);

/* How task @task stands; called with the mutex. */
struct transfer_status mc_task_status(struct mc_batch *batch, size_t task);

#endif
