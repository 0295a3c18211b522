/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c - parts of requests, as slices of links; merged small requests */
#include <assert.h>
#include <errno.h>

#include <te/te.h>

#include "base/clock.h"
#include "base/crc.h"
#include "te/core/engine.h"
#include "te/transfer/health.h"
#include "te/transfer/link.h"
#include "te/transfer/parts.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/transfer/staging.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

#define MERGE_LEN (256u << 10) /* beyond that it saves nothing */
#define MERGE_MAX 128u         /* requests */
/* Time for a slice to end by itself when one of its requests is cancelled. */
#define GRACE (20 * TEI_NS_PER_MS)

/* ---- making ---- */

static bool is_whole(const struct tei_request *r)
{
	return r->n_pieces == 1 && !r->cursor && !r->n_redo && !r->alone &&
	       !r->staged && !r->spread && !(r->flags & TE_CRC);
}

/* True: @next, of the queue, exists and is also the next of the batch. */
static bool follows(const struct tei_request *r, const struct tei_request *next)
{
	return r->queue.next == &next->queue &&
	       tei_cohort_of(next) == tei_cohort_of(r) &&
	       next->remote == r->remote + r->length && next->op == r->op &&
	       next->flags == r->flags && next->priority == r->priority &&
	       next->region == r->region && next->avoid == r->avoid &&
	       next->reach == r->reach && is_whole(next);
}

bool tei_merge_may(const struct tei_request *r)
{
	return is_whole(r) && follows(r, r + 1);
}

static uint32_t count_mergeable(const struct tei_request *first, uint64_t most,
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

static struct tei_work *work_new(struct tei_request *r, struct tei_link *link,
				 uint64_t offset, uint64_t length);

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
	n = count_mergeable(first, most, &length);
	work = n > 1 ? work_new(first, link, 0, length) : NULL;
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
	TEI_COUNT_OWN(link->rail->worker, merged, n);
	return true;
}

/* ---- the end ---- */

/* Takes the request off the work; the caller settles or queues it again. */
static void leave_work(struct tei_work *work, struct tei_request *r)
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
			leave_work(work, &work->request[i]);
	}
}

static void work_release(struct tei_work *work);

/* Ends merged requests as the backend ended @work, which is freed. */
static void merged_good(struct tei_work *work)
{
	struct tei_request *first = work->request;
	uint32_t i, n = work->n;

	for (i = 0; i < n; i++) {
		if (first[i].merged == work)
			first[i].bytes = first[i].length;
	}
	leave_all(work);
	work_release(work);
	for (i = 0; i < n; i++)
		tei_request_settle(&first[i]);
}

static void merged_bad(struct tei_work *work, int err, bool loud)
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
	work_release(work);
	for (i = 0; i < n; i++)
		tei_request_refuse(&first[i], err);
}

/*
 * Puts it at the head of the queue, unless it has ended or no rail is left for
 * it.
 */
static void go_on(struct tei_request *r)
{
	if (tei_request_is_final(r))
		return;
	if (r->error) {
		tei_request_settle(r);
	} else if (tei_request_is_out_of_rails(r)) {
		tei_request_refuse(r, -EIO);
	} else {
		r->cursor = 0;
		r->cursor_piece = 0;
		r->cursor_skip = 0;
		tei_list_add_head(tei_request_class(r), &r->queue);
	}
}

/* Puts each back into the queue; @alone: and is not merged again. */
static void merged_apart(struct tei_work *work, bool alone)
{
	struct tei_request *first = work->request;
	bool tried = work->state != TEI_WORK_READY;
	struct tei_peer_work *peer = first->peer;
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
	work_release(work);
	while (n-- > 0)
		go_on(&first[n]);
	tei_peer_run(peer);
}

/* The bytes might still land: failed requests end, the others wait. */
static void merged_limbo(struct tei_work *work)
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
 * Bytes of a write that are under way may land until the owner has dropped the
 * endpoint: only after that may the write be tried again.
 */
static void merged_failed(struct tei_work *work)
{
	struct tei_request *first = work->request;
	struct tei_link *link = work->link;
	uint32_t i, n = work->n;

	if (first->op == TE_READ || link->out.settled) {
		merged_apart(work, true);
		return;
	}
	for (i = 0; i < n; i++) {
		if (first[i].merged == work)
			first[i].alone = true;
	}
	merged_limbo(work);
	tei_link_break(link, -ECANCELED);
}

/* ---- one of them has failed ---- */

void tei_merged_drop(struct tei_request *r)
{
	struct tei_work *work = r->merged;

	if (work->state == TEI_WORK_READY) {
		merged_apart(work, false);
	} else if (work->state == TEI_WORK_LIMBO) {
		r->loud = true;
		leave_work(work, r);
		if (!work->n_live)
			work_release(work);
	}
}

/* Looks at the last request first: they mostly end in order, so it is the one
 * likeliest to be good. */
static bool have_all_failed(const struct tei_work *work)
{
	uint32_t i = work->n;

	while (i-- > 0) {
		if (!work->request[i].error)
			return false;
	}
	return true;
}

static void merged_part_due(struct tei_due *due);

void tei_merged_cancel(struct tei_request *r)
{
	struct tei_work *work = r->merged;
	struct tei_link *link = work->link;
	struct tei_worker *w = link->rail->worker;

	if (work->canceled)
		return;
	if (have_all_failed(work)) {
		work->canceled = true;
		if (!link->flushing) /* else the part comes back anyway */
			link->ep.rail->ops->cancel(&link->ep, &work->slice);
		return;
	}
	if (link->flushing) /* its parts come back, and it may be freed then */
		return;
	link->out.part.fn = merged_part_due;
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
 * Breaks a link whose merged part has failed in some requests. Only the end of
 * its endpoint makes their memory quiet, and tells which others are to be done
 * again.
 */
static void merged_part_due(struct tei_due *due)
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

/* ---- cutting requests into works, and what becomes of each ---- */

#define PAUSE_STEPS 6u /* of no room at the owner: 1 ms .. 64 ms */
#define BUSY_MAX    1000u
#define POST_MAX    64

/* ---- making ---- */

static void aim(struct tei_work *work, const struct iovec *pieces,
		uint64_t skip)
{
	struct tei_slice *slice = &work->slice;
	uint64_t need = slice->length + skip;
	uint32_t n = 0;

	while (need > pieces[n].iov_len)
		need -= pieces[n++].iov_len;
	slice->iov = pieces;
	slice->n_iov = n + 1;
	slice->skip = skip;
}

/* The part of the slice that is under the request's checksum. */
static void aim_crc(struct tei_work *work)
{
	const struct tei_request *r = work->request;
	struct tei_slice *slice = &work->slice;
	uint64_t from = r->crc_from, to = from + r->crc_len;

	if (from < work->offset)
		from = work->offset;
	if (to > work->offset + slice->length)
		to = work->offset + slice->length;
	if (!r->crc_len || from >= to)
		return;
	slice->crc_from = from - work->offset;
	slice->crc_len = to - from;
	slice->crc = from == r->crc_from ? ~0u : 0;
}

/*
 * Puts @work among the parts that the backend has not taken, urgent ones first.
 */
static void overtake(struct tei_link *link, struct tei_work *work)
{
	tei_list_for_each (node, &link->out.ready) {
		const struct tei_work *other =
			tei_list_entry(node, struct tei_work, of_link);

		if (other->slice.priority == TE_PRIORITY_URGENT)
			continue;
		tei_list_del(&work->of_link);
		tei_list_insert(node->prev, &work->of_link);
		return;
	}
}

/*
 * Makes a part that is ready and counted at the link, not yet at the request.
 */
static struct tei_work *work_new(struct tei_request *r, struct tei_link *link,
				 uint64_t offset, uint64_t length)
{
	const struct tei_blob *key = &r->region->key[link->out.remote_pos];
	struct tei_work *work = tei_slab_get(&link->rail->works);

	if (!work)
		return NULL;
	work->request = r;
	work->link = link;
	work->rail = link->rail;
	work->offset = offset;
	work->n = work->n_live = 1;
	work->state = TEI_WORK_READY;
	tei_list_init(&work->slice.link);
	work->slice.ep = &link->ep;
	work->slice.work = work;
	work->slice.op = r->op == TE_READ ? TEI_READ : TEI_WRITE;
	work->slice.priority = r->priority;
	work->slice.remote = r->remote + offset;
	work->slice.length = length;
	work->slice.key = key->bytes;
	work->slice.key_len = (uint32_t)key->len;
	tei_list_init(&work->of_request);
	tei_list_add_tail(&link->out.ready, &work->of_link);
	if (r->priority == TE_PRIORITY_URGENT)
		overtake(link, work);
	link->out.n_ready++;
	link->out.bytes += length;
	return work;
}

static struct tei_work *make_work(struct tei_request *r, struct tei_link *link,
				  uint64_t offset, uint64_t length)
{
	struct tei_work *work = work_new(r, link, offset, length);

	if (!work)
		return NULL;
	aim_crc(work);
	tei_list_add_tail(&r->works, &work->of_request);
	r->n_out++;
	r->rail = link->rail->rail.index;
	return work;
}

void tei_works_have_room(struct tei_transfer *transfer)
{
	while (!tei_list_empty(&transfer->starving))
		tei_peer_run(tei_list_entry(tei_list_pop(&transfer->starving),
					    struct tei_peer_work, starving));
}

/* Gives back the stage's memory, if it has any. No copy is under way. */
static void unstage(struct tei_work *work)
{
	struct te_engine *engine = work->request->peer->engine;

	if (!work->staged)
		return;
	tei_staging_end(engine, work->staged);
	work->staged = NULL;
	tei_works_have_room(engine->transfer);
}

/* Frees a part that is of no request, or of none any more. */
static void work_release(struct tei_work *work)
{
	struct tei_link *link = work->link;

	if (work->state <= TEI_WORK_READY && link) {
		link->out.n_ready--;
		link->out.bytes -= work->slice.length;
		tei_slots_idle(link);
	}
	unstage(work);
	tei_list_del(&work->of_link);
	tei_list_del(&work->of_request);
	tei_slab_put(&work->rail->works, work);
}

void tei_work_free(struct tei_work *work)
{
	if (work->state == TEI_WORK_REDO)
		work->request->n_redo--;
	else
		work->request->n_out--;
	work_release(work);
}

/* Finds where byte @offset of the request is. */
static uint32_t locate(const struct tei_request *r, uint64_t offset,
		       uint64_t *skip)
{
	uint32_t i = 0;

	while (offset >= r->pieces[i].iov_len)
		offset -= r->pieces[i++].iov_len;
	*skip = offset;
	return i;
}

static void copied(void *arg, int err);

/* Has the bytes of a write copied out before it is posted. */
static void copy_out(struct tei_work *work)
{
	tei_list_del(&work->of_link);
	tei_list_add_tail(&work->link->out.copying, &work->of_link);
	work->state = TEI_WORK_COPYING;
	tei_staging_copy(work->rail->worker, work->staged, TEI_COPY_OUT, copied,
			 work);
}

/* Prepares what the request's local memory needs. False: it has to wait. */
static bool stage(struct tei_request *r, uint32_t at, uint64_t skip,
		  uint64_t *length, struct tei_staged **staged)
{
	struct te_engine *engine = r->peer->engine;
	int rc;

	*staged = NULL;
	if (!r->staged)
		return true;
	rc = tei_staging_prepare(r, at, skip, length, staged);
	if (rc == -EAGAIN) {
		tei_list_del(&r->peer->starving);
		tei_list_add_tail(&engine->transfer->starving,
				  &r->peer->starving);
	} else if (rc == -EFAULT) {
		tei_request_refuse(r, rc);
	}
	return !rc;
}

/*
 * Makes a part of @*length bytes from @offset on, which is @skip in pieces[at];
 * of fewer where they are staged and do not go together. False: no memory.
 */
static bool make_aimed(struct tei_request *r, struct tei_link *link,
		       uint64_t offset, uint32_t at, uint64_t skip,
		       uint64_t *length)
{
	struct tei_staged *staged;
	struct tei_work *work;

	if (!stage(r, at, skip, length, &staged))
		return false;
	work = make_work(r, link, offset, *length);
	if (!work) {
		if (staged)
			tei_staging_end(link->engine, staged);
		return false;
	}
	if (!staged) {
		aim(work, &r->pieces[at], skip);
		return true;
	}
	work->staged = staged;
	work->slice.iov = tei_staging_iov(staged, &work->slice.n_iov);
	if (r->op == TE_WRITE)
		copy_out(work);
	return true;
}

bool tei_work_make_again(struct tei_request *r, struct tei_link *link,
			 uint64_t length)
{
	struct tei_work *old = tei_work_redo(r);
	uint64_t skip;
	uint32_t piece = locate(r, old->offset, &skip);

	if (length > old->slice.length)
		length = old->slice.length;
	if (!make_aimed(r, link, old->offset, piece, skip, &length))
		return false;
	old->offset += length;
	old->slice.length -= length;
	if (!old->slice.length)
		tei_work_free(old);
	return true;
}

static void advance(struct tei_request *r, uint64_t length)
{
	r->cursor += length;
	r->cursor_skip += length;
	while (r->cursor_piece < r->n_pieces &&
	       r->cursor_skip >= r->pieces[r->cursor_piece].iov_len)
		r->cursor_skip -= r->pieces[r->cursor_piece++].iov_len;
}

bool tei_work_make(struct tei_request *r, struct tei_link *link,
		   uint64_t length)
{
	if (!make_aimed(r, link, r->cursor, r->cursor_piece, r->cursor_skip,
			&length))
		return false;
	advance(r, length);
	return true;
}

/* ---- posting ---- */

/* The link was idle and is not any more. */
static void begin_busy(struct tei_link *link)
{
	struct tei_work *first =
		tei_list_entry(link->out.posted.next, struct tei_work, of_link);
	uint64_t now = link->rail->worker->now;

	first->lone = true;
	tei_link_count_busy(link, 1);
	link->out.moved_at = now;
	tei_meter_start(&link->out.pair->meter);
	tei_link_watch(link);
}

static void mark_posted(struct tei_link *link, int n)
{
	uint64_t now = link->rail->worker->now;
	uint64_t late = tei_link_late(link, now);
	bool idle = !link->out.n_posted;
	int i;

	for (i = 0; i < n; i++) {
		struct tei_work *work =
			tei_list_entry(tei_list_pop(&link->out.ready),
				       struct tei_work, of_link);

		work->state = TEI_WORK_POSTED;
		work->posted_at = now;
		work->late_at = late;
		link->rail->posted_bytes += work->slice.length;
		tei_list_add_tail(&link->out.posted, &work->of_link);
	}
	link->out.n_ready -= (uint32_t)n;
	link->out.n_posted += (uint32_t)n;
	link->rail->n_posted += (uint32_t)n;
	TEI_COUNT_OWN(link->rail->worker, slices, (uint64_t)n);
	if (idle)
		begin_busy(link);
}

void tei_link_post(struct tei_link *link)
{
	struct tei_slice *slices[POST_MAX];
	int taken, n = 0;

	if (tei_list_empty(&link->out.ready)) /* they are copied yet */
		return;
	tei_list_for_each (node, &link->out.ready) {
		if (n == POST_MAX)
			break;
		slices[n++] =
			&tei_list_entry(node, struct tei_work, of_link)->slice;
	}
	taken = link->ep.rail->ops->post(&link->ep, slices, n);
	if (taken < 0) {
		tei_link_break(link, taken);
		return;
	}
	assert(taken <= n);
	link->out.full = taken < n;
	if (taken)
		mark_posted(link, taken);
}

/* ---- done ---- */

static void count_down(struct tei_work *work)
{
	struct tei_link *link = work->link;

	tei_list_del(&work->of_link);
	link->out.n_posted--;
	link->out.bytes -= work->slice.length;
	link->out.moved_at = link->rail->worker->now;
	link->rail->n_posted--;
	link->rail->posted_bytes -= work->slice.length;
	if (link->out.n_posted)
		return;
	tei_link_count_busy(link, -1);
	tei_slots_idle(link);
}

/* Learns about the path from how the part ended. */
static void learn(const struct tei_work *work)
{
	struct tei_link *link = work->link;
	struct tei_pair *pair = link->out.pair;
	uint64_t now = link->rail->worker->now;

	link->rail->good_at = now;
	if (work->lone)
		tei_meter_lone(&pair->meter, now, work->posted_at,
			       work->slice.length);
	tei_meter_done(&pair->meter, now, work->slice.length,
		       link->out.n_posted > 0);
	if (pair->breaker.state | link->rail->breaker.state)
		tei_health_proven(link);
}

static void good(struct tei_work *work)
{
	struct tei_request *r = work->request;
	struct tei_slice *slice = &work->slice;
	uint64_t after;

	if (work->staged)
		TEI_COUNT_OWN(r->peer->worker, gpu_staged, slice->length);
	else if (r->direct)
		TEI_COUNT_OWN(r->peer->worker, gpu_direct, slice->length);
	if (tei_work_is_merged(work)) {
		merged_good(work);
		return;
	}
	r->bytes += slice->length;
	if (slice->crc_len) {
		after = r->crc_from + r->crc_len -
			(work->offset + slice->crc_from + slice->crc_len);
		r->crc ^= tei_crc32c_shift(slice->crc, after);
	}
	tei_work_free(work);
	tei_request_settle(r);
}

/* The request has ended already, or ends now with @err. */
static void fail_part(struct tei_work *work, int err, bool loud)
{
	struct tei_request *r = work->request;

	if (tei_work_is_merged(work)) {
		merged_bad(work, err, loud);
		return;
	}
	if (loud && r->op == TE_WRITE)
		r->loud = true;
	if (!r->provider_code)
		r->provider_code = work->slice.provider_code;
	tei_work_free(work);
	tei_request_refuse(r, err);
}

/* Takes a work that is not posted off its link, which is broken. */
static void leave_link(struct tei_link *link, struct tei_work *work)
{
	link->out.n_ready--;
	link->out.bytes -= work->slice.length;
	tei_list_del(&work->of_link);
	work->link = NULL;
}

/* Post it again, on whatever link comes first. */
static void redo(struct tei_work *work)
{
	struct tei_request *r = work->request;

	if (tei_work_is_merged(work)) {
		merged_apart(work, false);
		return;
	}
	if (work->state == TEI_WORK_READY) {
		assert(work->link);
		leave_link(work->link, work);
	} else if (work->state != TEI_WORK_COPYING) {
		r->retries++;
		TEI_COUNT(r->peer->engine, retries);
	}
	unstage(work);
	tei_list_del(&work->of_link);
	work->state = TEI_WORK_REDO;
	work->link = NULL;
	r->n_out--;
	r->n_redo++;
	if (r->doubting)
		tei_request_settle(r);
	else if (tei_list_empty(&r->queue))
		tei_list_add_head(tei_request_class(r), &r->queue);
	tei_peer_run(r->peer);
}

/*
 * The owner refused it, but by a key or rights that may be of a region that
 * it has replaced since: no part goes out until it has been asked.
 */
static void doubt(struct tei_work *work, int err)
{
	struct tei_request *r = work->request;

	if (tei_work_is_merged(work)) {
		merged_apart(work, true);
		return;
	}
	if (r->error || r->doubted || r->peer->self ||
	    (err == -EFAULT && tei_local_is_gone(r))) {
		fail_part(work, err, false);
		return;
	}
	r->doubting = true;
	r->refusal = err;
	tei_list_del(&r->queue);
	redo(work);
}

/* Handles a part whose link is being flushed. */
static void unsettled(struct tei_work *work)
{
	struct tei_request *r = work->request;
	struct tei_link *link = work->link;

	if (!r->provider_code)
		r->provider_code = work->slice.provider_code;
	if (r->error && !tei_work_is_merged(work)) {
		fail_part(work, r->error, !link->out.settled);
	} else if (r->op == TE_READ || link->out.settled) {
		redo(work);
	} else if (tei_work_is_merged(work)) {
		merged_limbo(work);
	} else {
		unstage(work);
		work->state = TEI_WORK_LIMBO;
		tei_list_add_tail(&link->out.limbo, &work->of_link);
	}
}

/*
 * Handles a refusal as stale: the epoch has ended before its announcement came.
 */
static void stale(struct tei_work *work)
{
	tei_peer_epoch_over(work->request->peer, work->request->epoch);
	fail_part(work, -ESTALE, false);
}

/* The owner has no room: not an error, but not again at once either. */
static void busy(struct tei_work *work)
{
	struct tei_request *r = work->request;
	struct tei_peer_work *peer = r->peer;
	uint32_t step = r->retries < PAUSE_STEPS ? r->retries : PAUSE_STEPS;
	bool enough = r->retries > BUSY_MAX;

	if (!tei_work_is_merged(work) && (r->error || enough)) {
		fail_part(work, r->error ? r->error : -EIO, false);
		return;
	}
	peer->pause_until = peer->worker->now + (TEI_NS_PER_MS << step);
	if (tei_work_is_merged(work))
		merged_apart(work, enough);
	else
		redo(work);
}

/* The rail does not reach the region, though it has a key for it. */
static void elsewhere(struct tei_work *work)
{
	struct tei_request *r = work->request;
	uint32_t i;

	for (i = 0; i < work->n; i++) {
		r[i].avoid |= (uint64_t)1 << work->rail->rail.index;
		if (!(r[i].reach & ~r[i].avoid))
			tei_request_rematch(&r[i], -EOPNOTSUPP);
	}
	if (tei_work_is_merged(work))
		redo(work);
	else if (r->error || tei_request_is_out_of_rails(r))
		fail_part(work, r->error ? r->error : -EIO, false);
	else
		redo(work);
}

/* ---- copies by the host ---- */

/* Has the bytes of a read copied to where they belong. */
static void copy_in(struct tei_work *work)
{
	work->state = TEI_WORK_COPYING;
	work->link = NULL;
	tei_staging_copy(work->rail->worker, work->staged, TEI_COPY_IN, copied,
			 work);
}

/* Puts a part that was copied out where the backend gets it. */
static void copied_out(struct tei_work *work)
{
	struct tei_link *link = work->link;

	tei_list_del(&work->of_link);
	work->state = TEI_WORK_READY;
	tei_list_add_tail(&link->out.ready, &work->of_link);
	if (work->slice.priority == TE_PRIORITY_URGENT)
		overtake(link, work);
}

/* The host has copied a part's bytes, or @err. */
static void copied(void *arg, int err)
{
	struct tei_work *work = arg;
	struct tei_request *r = work->request;

	if (work->link) /* which has room for more, or something to post */
		tei_peer_run(work->link->out.peer);

	if (!err)
		err = r->error;
	if (err)
		fail_part(work, err, false);
	else if (r->op == TE_READ)
		good(work);
	else if (work->link)
		copied_out(work);
	else
		redo(work);
}

/* ---- done ---- */

void tei_slice_done(struct tei_slice *slice, int err, uint64_t bytes)
{
	struct tei_work *work = slice->work;
	struct tei_link *link = work->link;

	assert(work->state == TEI_WORK_POSTED);
	assert(err <= 0 && (err || bytes == slice->length));
	if (link->out.state == TEI_LINK_UP && !work->canceled)
		tei_endpoint_moved(&link->ep);
	count_down(work);
	if (!err) {
		learn(work);
		if (work->staged && slice->op == TEI_READ)
			copy_in(work);
		else
			good(work);
	} else if (link->out.state == TEI_LINK_BROKEN && !work->canceled)
		unsettled(work);
	else if (link->flushing) /* @err is of the link */
		fail_part(work, -ECANCELED, !link->out.settled);
	else if (err == -EACCES || err == -EFAULT)
		doubt(work, err);
	else if (err == -ESTALE)
		stale(work);
	else if (err == -EAGAIN || err == -ENOMEM)
		busy(work);
	else if (err == -EOPNOTSUPP && !work->canceled)
		elsewhere(work);
	else if (work->canceled)
		fail_part(work, -ECANCELED, !link->out.settled);
	else if (tei_work_is_merged(work))
		merged_failed(work);
	else
		fail_part(work, -EIO, true);
	if (err == -ESTALE && link->out.state != TEI_LINK_BROKEN)
		tei_link_break(link, err);
	/* The link has room now: the driver schedules more when it releases. */
	if (link->out.n_ready || !tei_queue_empty(&link->out.peer->queue))
		tei_peer_run(link->out.peer);
}

/* ---- broken links ---- */

void tei_works_of_broken(struct tei_link *link)
{
	while (!tei_list_empty(&link->out.copying)) /* redone when copied */
		leave_link(link, tei_list_entry(link->out.copying.next,
						struct tei_work, of_link));
	while (!tei_list_empty(&link->out.ready))
		redo(tei_list_entry(link->out.ready.next, struct tei_work,
				    of_link));
}

void tei_works_quiet(struct tei_link *link)
{
	while (!tei_list_empty(&link->out.limbo))
		redo(tei_list_entry(link->out.limbo.next, struct tei_work,
				    of_link));
}

void tei_works_lost(struct tei_link *link)
{
	while (!tei_list_empty(&link->out.limbo)) {
		struct tei_work *work = tei_list_entry(
			link->out.limbo.next, struct tei_work, of_link);

		fail_part(work, tei_lost_error(link->out.err), true);
	}
}
