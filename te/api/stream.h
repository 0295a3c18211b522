/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - a batch whose requests begin when a GPU's stream gets there
 *
 * The requests are submitted as any, but held: they begin when the stream has
 * reached its gate (te/device/runtime.h), or to be cancelled. The gate is
 * opened when all have ended, before anybody hears of that.
 *
 *   held --reached, or cancelled--> begun --all ended, or late--> open
 *
 * Threads: a function says "token" when its caller must hold it.
 */
#ifndef TE_API_STREAM_H
#define TE_API_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "te/device/runtime.h"
#include "te/transfer/request.h"

struct tei_gated {
	struct te_batch *batch;
	const struct tei_runtime_ops *ops;
	/*
	 * NULL: none. Written by a submission while nothing is in flight, then
	 * with the token.
	 */
	_Atomic(struct tei_gpu_gate *) gate;
	uint32_t first;       /* place of the first request */
	uint64_t since;       /* ns: the submission */
	uint64_t limit;       /* ns: when `late` is due. Token */
	bool held;            /* token: they have not begun */
	bool counted;         /* token: `late` is armed */
	struct tei_call call; /* the stream has got there */
	_Atomic bool posted;  /* it is in the worker's queue, or runs */
	struct tei_due late;  /* the gate is opened even so */
};

/* Tells whether requests on a stream are in flight. Any thread. */
static inline bool tei_is_gated(struct te_batch *batch)
{
	struct tei_gated *gated =
		atomic_load_explicit(&batch->gated, memory_order_acquire);

	return gated && atomic_load(&gated->gate);
}

/* Tells whether a call of the stream's is still to be served. Any thread. */
static inline bool tei_gated_is_called(struct te_batch *batch)
{
	struct tei_gated *gated =
		atomic_load_explicit(&batch->gated, memory_order_acquire);

	return gated &&
	       atomic_load_explicit(&gated->posted, memory_order_acquire);
}

/*
 * Begins what is held, as cancelled, and has a stream wait for what has begun
 * already no longer than some seconds. Token.
 */
void tei_gated_cancel(struct te_batch *batch);
/*
 * Lets the stream go on: all requests have ended; or the engine ends, and they
 * are waited for no more. Token.
 */
void tei_gated_end(struct te_batch *batch);
void tei_gated_free(struct te_batch *batch); /* with the batch */

#endif
