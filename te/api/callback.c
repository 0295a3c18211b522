/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callback.c - te_batch_on_done()
 *
 * The driver calls, at the end of its round and before it publishes n_done:
 * who waits for that counter has all calls behind him. What a callback submits
 * or cancels is queued, since the token is held, and served in the next round.
 */
#include <errno.h>

#include "te/api/batch.h"
#include "te/api/engine.h"

static _Thread_local bool calling;

bool tei_in_callback(void)
{
	return calling;
}

void tei_batch_call_back(struct te_batch *batch)
{
	struct te_completion completion;

	calling = true;
	while (batch->n_called < batch->n_final) {
		uint32_t index = batch->order[batch->n_called++];

		tei_batch_completion(&batch->requests[index], &completion);
		batch->fn(batch, &completion, batch->fn_arg);
	}
	calling = false;
}

int te_batch_on_done(struct te_batch *batch, te_done_fn *fn, void *arg)
{
	uint32_t n_done;

	if (!tei_engine_alive(batch->engine))
		return -ESTALE;
	n_done = atomic_load(&batch->n_done);
	if (n_done !=
	    atomic_load_explicit(&batch->n_submitted, memory_order_relaxed))
		return -EBUSY;
	batch->fn = fn;
	batch->fn_arg = arg;
	batch->n_taken = n_done;
	batch->n_called = n_done;
	return 0;
}
