/* SPDX-License-Identifier: Apache-2.0 */
/* from.h - batches that belong to a worker of the test's choice */
#ifndef TESTS_UNIT_TE_FROM_H
#define TESTS_UNIT_TE_FROM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "te/core/engine.h"
#include "te/transfer/request.h"
#include "te/worker/worker.h"
#include "tests/unit/te/rig.h"

#define FROM_MORE 8 /* room of the batch for others beside them */

struct from {
	struct te_engine *engine;
	uint32_t worker;
	const struct te_request *requests;
	uint32_t n;
	struct te_batch *batch; /* out, with submitted */
	bool submitted;
};

/* Makes a batch, and submits if this thread has the worker. */
static void *from_submit(void *arg)
{
	struct from *f = arg;

	assert_int_equal(
		te_batch_create(f->engine, f->n + FROM_MORE, &f->batch), 0);
	f->submitted = tei_batch_home(f->batch)->index == f->worker;
	if (f->submitted)
		assert_int_equal(te_batch_submit(f->batch, f->requests, f->n),
				 0);
	return NULL;
}

/* Threads have workers by turns: submits by one that has @worker. */
static inline struct te_batch *submit_from(struct te_engine *engine,
					   uint32_t worker,
					   const struct te_request *requests,
					   uint32_t n)
{
	struct from f = {.engine = engine,
			 .worker = worker,
			 .requests = requests,
			 .n = n};
	pthread_t thread;

	assert_in_range(worker, 0, engine->n_workers - 1);
	for (;;) {
		assert_int_equal(pthread_create(&thread, NULL, from_submit, &f),
				 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		if (f.submitted)
			return f.batch;
		te_batch_destroy(f.batch);
	}
}

#endif
