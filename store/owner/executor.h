/* SPDX-License-Identifier: Apache-2.0 */
/*
 * executor.h - what an owner copies to others for the master
 *
 * The master pushes tasks: an object that lies whole in a segment of ours goes
 * to extents that it has reserved elsewhere. A few threads carry them out, so
 * that neither heartbeats nor fences wait; they start with the first task.
 *
 *   loop: task --> queue --> thread: copy --> loop: answer
 *
 * A task uses a segment's memory only while it is bound to it. Who wants the
 * memory back releases it first: what only waits is dropped, what runs is
 * cancelled. The latest answers are kept, for a master that did not get them.
 *
 * Threads: the loop's unless a function says otherwise.
 */
#ifndef STORE_OWNER_EXECUTOR_H
#define STORE_OWNER_EXECUTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/thread.h"
#include "store/client/helper.h"
#include "store/proto/store.pb-c.h"

#define TES_EXECUTOR_THREADS 2
#define TES_EXECUTOR_JOBS    16 /* at a time; more are refused */
#define TES_EXECUTOR_ANSWERS 32
#define TES_COPY_EXTENTS     16 /* of a replica */

struct te_store;
struct tei_frame;
struct tes_master_link;
struct tes_segment;

struct tes_copy_answer {
	uint8_t id[16];
	int32_t status;
	bool used, quiet, no_crc;
	const char *message;
	size_t n_crcs;
	uint32_t crcs[TES_COPY_EXTENTS];
};

struct tes_copy {
	struct tes_job job;
	struct tei_call over;
	struct tei_list link; /* guarded by executor's mu */
	struct te_store *store;
	Store__Task *task;
	uint64_t begun_ns, digest_seed;
	struct tes_segment *segment; /* guarded by mu; NULL: not bound to it */
	bool running;                /* guarded by mu */
	atomic_bool cancelled;
	struct tes_copy_answer answer;
};

struct tes_executor {
	struct tes_helper threads[TES_EXECUTOR_THREADS];
	unsigned int n_threads, turn;
	bool started, ended;
	struct tes_copy_answer answers[TES_EXECUTOR_ANSWERS];
	unsigned int next_answer;

	struct tei_mutex mu;    /* lock 36 */
	struct tei_cond left;   /* a copy is not bound any more */
	struct tei_list copies; /* guarded by mu: all that are not answered */
	size_t n_copies;        /* guarded by mu */
};

void tes_executor_init(struct tes_executor *executor);
/* Frees the executor, after stop(). */
void tes_executor_fini(struct tes_executor *executor);
/* End all copies, soon. Set-up only, before the loop stops. */
void tes_executor_stop(struct tes_executor *executor);

void tes_executor_on_task(struct tes_master_link *link,
			  const struct tei_frame *f);
/*
 * No copy reads @segment any more, which is in no list. False: one still does
 * after @ms. Any thread but the executor's.
 */
bool tes_executor_release(struct tes_executor *executor,
			  const struct tes_segment *segment, uint32_t ms);

#endif
