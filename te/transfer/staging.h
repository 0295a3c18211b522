/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging.h - parts of requests whose local memory is copied by the host
 *
 * Where no rail of a request takes its memory, which is a GPU's, each part gets
 * memory of the GPU's stage (te/device/stage.h) in its place: before a write is
 * posted its bytes are copied out to that, after a read they are copied in. A
 * copy touches the request's memory as a backend does, so the request is not
 * final before it has ended.
 *
 * Threads: the token of the first worker, which has all stages.
 */
#ifndef TE_TRANSFER_STAGING_H
#define TE_TRANSFER_STAGING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "te/device/runtime.h"

struct te_engine;
struct tei_request;
struct tei_stage;
struct tei_stage_job;
struct tei_staged;
struct tei_worker;

/*
 * Prepares a part of @*length bytes from @skip in the request's pieces[@at] on,
 * and makes it shorter where its memory is of another GPU, or more than fits.
 * *@out NULL: none of it needs to be staged. -EAGAIN: the stage has no room
 * before some of it is given back; -EFAULT: some of it is no memory any more,
 * which the log names; -ENOMEM.
 */
int tei_staging_prepare(struct tei_request *r, uint32_t at, uint64_t skip,
			uint64_t *length, struct tei_staged **out);
/* Gives it back; no copy is under way. */
void tei_staging_end(struct te_engine *engine, struct tei_staged *staged);
/* The part as a backend moves it; iov[*n], as long as @staged. */
const struct iovec *tei_staging_iov(const struct tei_staged *staged,
				    uint32_t *n);
/*
 * Begins the copy of its bytes; done(@arg, 0 or -EIO) follows from turn(), when
 * none of them is touched any more.
 */
void tei_staging_copy(struct tei_worker *w, struct tei_staged *staged,
		      enum tei_copy_way way, void (*done)(void *arg, int err),
		      void *arg);

/*
 * Has turn() begin a job of the stage; its done() takes it from
 * worker.n_copying.
 */
void tei_staging_begin(struct tei_worker *w, struct tei_stage *stage,
		       struct tei_stage_job *job);

/*
 * Tells whether the first or last byte of some piece is neither memory that the
 * host can access as the request does, nor in a region of a GPU's. A line of
 * the log names the first such piece. Any thread. Takes lock 12.
 */
bool tei_local_is_gone(const struct tei_request *r);

/* Goes on with copies. True: some have ended. */
bool tei_staging_turn(struct tei_worker *w);

#endif
