/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h - what batch.c and again.c know of a batch */
#ifndef COMPAT_ENGINE_BATCH_H
#define COMPAT_ENGINE_BATCH_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "compat/engine/engine.h"

/* A request of the batch, and where it went when its peer had restarted. */
struct mc_try {
	uint64_t end_ms; /* by then it has ended */
	uint32_t index;  /* its place in batch->te */
	uint32_t again;  /* its place in batch->again, from 1; 0: none */
	bool leaves;     /* for the next batch->again */
	bool went;       /* in one at least once */
	bool follows;    /* a notification */
	/* Result in an earlier batch->again; 0: it has not ended. */
	struct transfer_status ended;
};

struct mc_task {
	struct mc_try try;
	struct transfer_request entry;
};

struct mc_notify {
	struct mc_try try;
	size_t tasks; /* that were submitted before it */
	segment_id_t target;
	struct iovec bytes;
};

struct mc_batch {
	struct mc_engine *engine;
	uint64_t handle;
	pthread_mutex_t mutex; /* of all that follows */
	struct te_batch *te;
	size_t size, n_tasks;
	struct mc_task *tasks; /* tasks[size] */
	/*
	 * Requests whose peer had restarted, and the notifications that follow
	 * them, under way to its new incarnation; or NULL.
	 */
	struct te_batch *again;
	struct mc_notify *notifies; /* notifies[n_notifies], in that order */
	size_t n_notifies;
	struct mc_batch *next; /* that leave; with the engine's mutex */
};

/* CLOCK_MONOTONIC. */
uint64_t mc_now_ms(void);

/* State of task @task; called with the mutex. */
struct transfer_status mc_task_status(struct mc_batch *batch, size_t task);

#endif
