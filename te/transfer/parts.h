/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.h - parts of requests on links: made, posted, done, done again
 *
 * Threads: the token, everywhere.
 */
#ifndef TE_TRANSFER_PARTS_H
#define TE_TRANSFER_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "te/transfer/request.h"

struct tei_link;
struct tei_transfer;

/*
 * Makes a part of the request's next bytes, at most @length. False: there is no
 * memory, or none of a stage; or the request has ended, as its memory is gone.
 */
bool tei_work_make(struct tei_request *r, struct tei_link *link,
		   uint64_t length);
/*
 * Makes a part anew that came back undone (n_redo > 0), or its first @length
 * bytes. False: the same.
 */
bool tei_work_make_again(struct tei_request *r, struct tei_link *link,
			 uint64_t length);
/* Returns the part that make_again() takes; NULL: there is none. */
static inline struct tei_work *tei_work_redo(const struct tei_request *r)
{
	tei_list_for_each (node, &r->works) {
		struct tei_work *work =
			tei_list_entry(node, struct tei_work, of_request);

		if (work->state == TEI_WORK_REDO)
			return work;
	}
	return NULL;
}
/* The link is broken: what was not posted is done again. */
void tei_works_of_broken(struct tei_link *link);
/* The owner has confirmed that nothing of @link can land any more. */
void tei_works_quiet(struct tei_link *link);
/* The owner will never confirm: the requests of what is in limbo end. */
void tei_works_lost(struct tei_link *link);
/* A stage has room: runs the peers whose requests found none. */
void tei_works_have_room(struct tei_transfer *transfer);
/* Give it up: nobody will ask for it again. */
void tei_work_free(struct tei_work *work);
/* request.c: end the request if nothing of it is out and all is said. */
void tei_request_settle(struct tei_request *r);

/* ---- adjacent requests that travel as one slice ---- */

/*
 * Requests of one cohort that stand side by side in the batch and in the queue
 * and touch one contiguous remote range become one work. Each still ends on its
 * own: what goes wrong with one of them takes the work apart, and the requests
 * go on alone. Only what holds for each of them ends all: their access epoch is
 * over, or the owner will never say what became of the work.
 *
 * A merged work is in no list of its requests; they point to it (merged) and
 * count it once (n_out). A request leaves it only by becoming final.
 *
 * Threads: the token, everywhere.
 */

static inline bool tei_work_is_merged(const struct tei_work *work)
{
	return work->n > 1;
}

/* True: the request and the next one of batch and queue could share a part. */
bool tei_merge_may(const struct tei_request *r);
/*
 * Makes one part of the request and those that follow it, all of them whole and
 * at most @most bytes in sum. False: nothing to merge, or no memory; unchanged.
 */
bool tei_merge_make(struct tei_request *first, struct tei_link *link,
		    uint64_t most);

/* @r has failed: leave the work unless it is posted. */
void tei_merged_drop(struct tei_request *r);
/*
 * @r has failed and its work is posted: take it back when all have failed, or
 * else, so that the others stay whole, when it does not end soon by itself.
 */
void tei_merged_cancel(struct tei_request *r);

#endif
