/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - adjacent requests that travel as one slice */
#include "te/transfer/merge.h"

#include <errno.h>

#include <te/te.h>

#include "base/clock.h"
#include "te/common/engine.h"
#include "te/transfer/batch.h"
#include "te/transfer/link.h"
#include "te/transfer/peer.h"
#include "te/transfer/work.h"
#include "te/worker/worker.h"

#define MERGE_LEN (256u << 10) /* beyond that it saves nothing */
#define MERGE_MAX 128u         /* requests */
/* For a slice to end by itself when one of its requests is cancelled. */
#define GRACE (20 * TEI_NS_PER_MS)

/* ---- making ---- */

static bool is_whole(const struct tei_request *r)
{
	return r->n_pieces == 1 && !r->cursor && !r->n_redo && !r->alone &&
	       !(r->flags & TE_CRC);
}

/* Who is next in the queue exists, and is the next of the batch. */
static bool follows(const struct tei_request *r, const struct tei_request *next)
{
	return r->queue.next == &next->queue && next->cohort == r->cohort &&
	       next->remote == r->remote + r->length && next->op == r->op &&
	       next->flags == r->flags && next->priority == r->priority &&
	       next->region == r->region && next->avoid == r->avoid &&
	       is_whole(next);
}

bool tei_merge_may(const struct tei_request *r)
{
	return is_whole(r) && follows(r, r + 1);
}

static uint32_t count(const struct tei_request *first, uint64_t most,
		      uint64_t *length)
{
	const struct tei_request *r = first;
	uint32_t n = 1;

	*length = r->length;
	for (; n < MERGE_MAX && follows(r, r + 1); n++, r++) {
		if (r[1].length > most - *length)
			break;
		*length += r[1].length;
	}
	return n;
}

/* The pieces, joined where they are adjacent as well. Returns how many. */
static uint32_t lay_out(const struct tei_request *first, uint32_t n,
			struct iovec *to)
{
	uint32_t i, k = 0;

	to[0] = first->pieces[0];
	for (i = 1; i < n; i++) {
		const struct iovec *piece = first[i].pieces;

		if ((char *)to[k].iov_base + to[k].iov_len == piece->iov_base)
			to[k].iov_len += piece->iov_len;
		else
			to[++k] = *piece;
	}
	return k + 1;
}

bool tei_merge_make(struct tei_request *first, struct tei_link *link,
		    uint64_t most)
{
	struct iovec *iov = &first->batch->merged[first->index];
	struct tei_work *work;
	uint64_t length;
	uint32_t i, n;

	if (most > MERGE_LEN)
		most = MERGE_LEN;
	if (!is_whole(first) || first->length > most)
		return false;
	n = count(first, most, &length);
	work = n > 1 ? tei_work_new(first, link, 0, length) : NULL;
	if (!work)
		return false;
	work->n = work->n_live = n;
	work->slice.iov = iov;
	work->slice.n_iov = lay_out(first, n, iov);
	for (i = 0; i < n; i++) {
		struct tei_request *r = &first[i];

		tei_list_del(&r->queue);
		r->cursor = r->length;
		r->merged = work;
		r->n_out = 1;
		r->rail = link->rail->rail.index;
	}
	TEI_COUNT_OWN(link->engine, merged, n);
	return true;
}

/* ---- the end ---- */

/* The request is not of the work any more; settle it or queue it again. */
static void leave(struct tei_work *work, struct tei_request *r)
{
	r->merged = NULL;
	r->n_out = 0;
	work->n_live--;
}

static void leave_all(struct tei_work *work)
{
	uint32_t i;

	for (i = 0; i < work->n; i++) {
		if (work->request[i].merged == work)
			leave(work, &work->request[i]);
	}
}

void tei_merged_good(struct tei_work *work)
{
	struct tei_request *first = work->request;
	uint32_t i, n = work->n;

	for (i = 0; i < n; i++) {
		if (first[i].merged == work)
			first[i].bytes = first[i].length;
	}
	leave_all(work);
	tei_work_release(work);
	for (i = 0; i < n; i++)
		tei_request_settle(&first[i]);
}

void tei_merged_bad(struct tei_work *work, int err, bool loud)
{
	struct tei_request *first = work->request;
	int32_t code = work->slice.provider_code;
	uint32_t i, n = work->n;

	for (i = 0; i < n; i++) {
		if (first[i].merged != work)
			continue;
		first[i].loud |= loud && first[i].op == TE_WRITE;
		if (!first[i].provider_code)
			first[i].provider_code = code;
	}
	leave_all(work);
	tei_work_release(work);
	for (i = 0; i < n; i++)
		tei_request_refuse(&first[i], err);
}

/* To the head of the queue, unless it has ended or no rail is left for it. */
static void go_on(struct tei_request *r)
{
	if (tei_request_is_final(r))
		return;
	if (r->error) {
		tei_request_settle(r);
	} else if (!(r->reach & ~r->avoid)) {
		tei_request_refuse(r, -EIO);
	} else {
		r->cursor = 0;
		r->cursor_piece = 0;
		r->cursor_skip = 0;
		tei_list_add_head(tei_request_class(r), &r->queue);
	}
}

void tei_merged_apart(struct tei_work *work, bool alone)
{
	struct tei_request *first = work->request;
	bool tried = work->state != TEI_WORK_READY;
	struct tei_peer *peer = first->peer;
	uint32_t i, n = work->n;

	for (i = 0; i < n; i++) {
		if (first[i].merged != work)
			continue;
		first[i].alone |= alone;
		first[i].retries += tried;
	}
	if (tried)
		TEI_COUNT(peer->engine, retries);
	leave_all(work);
	tei_work_release(work);
	while (n-- > 0)
		go_on(&first[n]);
	tei_peer_run(peer);
}

void tei_merged_limbo(struct tei_work *work)
{
	struct tei_request *first = work->request;
	uint32_t i, n = work->n;

	work->state = TEI_WORK_LIMBO;
	tei_list_add_tail(&work->link->out.limbo, &work->of_link);
	/* The last to leave frees the work; nobody joins it. */
	for (i = 0; i < n; i++) {
		if (!tei_request_is_final(&first[i]) && first[i].error)
			tei_request_refuse(&first[i], first[i].error);
	}
}

/*
 * What of a write is on its way may land until the owner has dropped the
 * endpoint, so there is no other way to have the right to try again.
 */
void tei_merged_failed(struct tei_work *work)
{
	struct tei_request *first = work->request;
	struct tei_link *link = work->link;
	uint32_t i, n = work->n;

	if (first->op == TE_READ || link->out.settled) {
		tei_merged_apart(work, true);
		return;
	}
	for (i = 0; i < n; i++) {
		if (first[i].merged == work)
			first[i].alone = true;
	}
	tei_merged_limbo(work);
	tei_link_break(link, -ECANCELED);
}

/* ---- one of them has failed ---- */

void tei_merged_drop(struct tei_request *r)
{
	struct tei_work *work = r->merged;

	if (work->state == TEI_WORK_READY) {
		tei_merged_apart(work, false);
	} else if (work->state == TEI_WORK_LIMBO) {
		r->loud = true;
		leave(work, r);
		if (!work->n_live)
			tei_work_release(work);
	}
}

/* They are mostly ended in order, so the last one knows. */
static bool have_all_failed(const struct tei_work *work)
{
	uint32_t i = work->n;

	while (i-- > 0) {
		if (!work->request[i].error)
			return false;
	}
	return true;
}

void tei_merged_cancel(struct tei_request *r)
{
	struct tei_work *work = r->merged;
	struct tei_link *link = work->link;
	struct tei_worker *w = link->engine->worker;

	if (work->canceled)
		return;
	if (have_all_failed(work)) {
		work->canceled = true;
		if (!link->flushing) /* else it comes back anyway */
			link->ep.rail->ops->cancel(&link->ep, &work->slice);
		return;
	}
	link->out.part.fn = tei_merged_part_due;
	if (!tei_heap_has(&link->out.part.node) &&
	    tei_due_set(w, &link->out.part, w->now + GRACE))
		tei_link_break(link, -ECANCELED);
}

static bool has_any_failed(const struct tei_work *work)
{
	uint32_t i;

	for (i = 0; i < work->n; i++) {
		if (work->request[i].error)
			return true;
	}
	return false;
}

/*
 * Only without its endpoint is local memory quiet for some and the rest known
 * to be to do again.
 */
void tei_merged_part_due(struct tei_due *due)
{
	struct tei_link *link = TEI_CONTAINER(due, struct tei_link, out.part);

	tei_list_for_each (node, &link->out.posted) {
		const struct tei_work *work =
			tei_list_entry(node, struct tei_work, of_link);

		if (tei_work_is_merged(work) && has_any_failed(work)) {
			tei_link_break(link, -ECANCELED);
			return;
		}
	}
}
