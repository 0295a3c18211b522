/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work.h - parts of requests on links: made, posted, done, done again
 *
 * Threads: the token, everywhere.
 */
#ifndef TE_TRANSFER_WORK_H
#define TE_TRANSFER_WORK_H

#include "te/transfer/request.h"

struct tei_link;

/* Of the request's next @length bytes, for the link. False: no memory. */
bool tei_work_make(struct tei_request *r, struct tei_link *link,
		   uint64_t length);
/* Of a part that came back undone (n_redo > 0). False: no memory. */
bool tei_work_make_again(struct tei_request *r, struct tei_link *link);
/* Of the part that make_again() takes. */
uint64_t tei_work_redo_length(struct tei_request *r);
/* The link is broken: what was not posted is done again. */
void tei_works_of_broken(struct tei_link *link);
/* The owner has confirmed that nothing of @link can land any more. */
void tei_works_quiet(struct tei_link *link);
/* The owner will never confirm: the requests of what is in limbo end. */
void tei_works_lost(struct tei_link *link);
/* One for the link, ready and counted there, but not yet of the request. */
struct tei_work *tei_work_new(struct tei_request *r, struct tei_link *link,
			      uint64_t offset, uint64_t length);
/* The reverse; it was of no request, or of none any more. */
void tei_work_release(struct tei_work *work);
/* Give it up: nobody will ask for it again. */
void tei_work_free(struct tei_work *work);
/* request.c: end the request if nothing of it is out and all is said. */
void tei_request_settle(struct tei_request *r);

#endif
