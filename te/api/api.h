/* SPDX-License-Identifier: Apache-2.0 */
/* api.h - what the end of an engine takes of its batches and memory */
#ifndef TE_API_API_H
#define TE_API_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct te_batch;
struct te_engine;
struct te_request;
struct tei_list;
struct tei_worker;

/* Publishes completions, see worker.ops->publish(). Token. */
bool tei_batch_publish_dirty(struct tei_worker *w, bool with_callbacks);
/*
 * Cancels like te_batch_cancel(), but leaves the work to the worker's thread.
 */
void tei_batch_post_cancel_all(struct te_batch *batch);
/* Frees a batch with its engine: requests have ended, both threads too. */
void tei_batch_free(struct te_batch *batch);
/*
 * Checks and copies requests to the places from *@first on, without submitting
 * them: until n_submitted counts them the places are nobody's. Returns as
 * te_batch_submit().
 */
int tei_batch_take(struct te_batch *batch, const struct te_request *reqs,
		   size_t n, uint32_t *first);

/* The worker of this thread's batches, as long as any will do. Any thread. */
struct tei_worker *tei_own_worker(const struct te_engine *engine);
/* Room for the piece lists of a batch, te_batch.chunks: all is unused. */
void tei_pieces_reset(struct tei_list *chunks);
void tei_pieces_free(struct tei_list *chunks);

#endif
