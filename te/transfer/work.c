/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - cutting requests into works, and what becomes of each */
#include "te/transfer/work.h"

#include <assert.h>
#include <errno.h>

#include "base/clock.h"
#include "base/crc.h"
#include "te/common/engine.h"
#include "te/transfer/health.h"
#include "te/transfer/link.h"
#include "te/transfer/merge.h"
#include "te/transfer/peer.h"
#include "te/transfer/slots.h"
#include "te/worker/worker.h"

#define PAUSE_STEPS 6u /* of no room at the owner: 1 ms .. 64 ms */
#define BUSY_MAX    1000u

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

/* What the backend has not taken yet, urgent things first. */
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

struct tei_work *tei_work_new(struct tei_request *r, struct tei_link *link,
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

static struct tei_work *make(struct tei_request *r, struct tei_link *link,
			     uint64_t offset, uint64_t length)
{
	struct tei_work *work = tei_work_new(r, link, offset, length);

	if (!work)
		return NULL;
	aim_crc(work);
	tei_list_add_tail(&r->works, &work->of_request);
	r->n_out++;
	r->rail = link->rail->rail.index;
	return work;
}

void tei_work_release(struct tei_work *work)
{
	struct tei_link *link = work->link;

	if (work->state == TEI_WORK_READY) {
		link->out.n_ready--;
		link->out.bytes -= work->slice.length;
		tei_slots_idle(link);
	}
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
	tei_work_release(work);
}

/* Where byte @offset of the request is. */
static uint32_t locate(const struct tei_request *r, uint64_t offset,
		       uint64_t *skip)
{
	uint32_t i = 0;

	while (offset >= r->pieces[i].iov_len)
		offset -= r->pieces[i++].iov_len;
	*skip = offset;
	return i;
}

static struct tei_work *first_redo(struct tei_request *r)
{
	tei_list_for_each (node, &r->works) {
		struct tei_work *work =
			tei_list_entry(node, struct tei_work, of_request);

		if (work->state == TEI_WORK_REDO)
			return work;
	}
	return NULL;
}

uint64_t tei_work_redo_length(struct tei_request *r)
{
	return first_redo(r)->slice.length;
}

bool tei_work_make_again(struct tei_request *r, struct tei_link *link)
{
	struct tei_work *old = first_redo(r), *work;
	uint64_t skip;
	uint32_t piece = locate(r, old->offset, &skip);

	work = make(r, link, old->offset, old->slice.length);
	if (!work)
		return false;
	aim(work, &r->pieces[piece], skip);
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
	struct tei_work *work = make(r, link, r->cursor, length);

	if (!work)
		return false;
	aim(work, &r->pieces[r->cursor_piece], r->cursor_skip);
	advance(r, length);
	return true;
}

/* ---- done ---- */

static void count_down(struct tei_work *work)
{
	struct tei_link *link = work->link;

	tei_list_del(&work->of_link);
	link->out.n_posted--;
	link->out.bytes -= work->slice.length;
	link->out.moved_at = link->engine->worker->now;
	link->rail->n_posted--;
	link->rail->posted_bytes -= work->slice.length;
	if (link->out.n_posted)
		return;
	link->rail->n_busy--;
	tei_slots_idle(link);
}

/* What it says of the way that it went. */
static void learn(const struct tei_work *work)
{
	struct tei_link *link = work->link;
	struct tei_pair *pair = link->out.pair;
	uint64_t now = link->engine->worker->now;

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

	if (tei_work_is_merged(work)) {
		tei_merged_good(work);
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
static void bad(struct tei_work *work, int err, bool loud)
{
	struct tei_request *r = work->request;

	if (tei_work_is_merged(work)) {
		tei_merged_bad(work, err, loud);
		return;
	}
	if (loud && r->op == TE_WRITE)
		r->loud = true;
	if (!r->provider_code)
		r->provider_code = work->slice.provider_code;
	tei_work_free(work);
	tei_request_refuse(r, err);
}

/* Post it again, on whatever link comes first. */
static void redo(struct tei_work *work)
{
	struct tei_request *r = work->request;
	struct tei_link *link = work->link;

	assert(link); /* only those in state REDO have none */
	if (tei_work_is_merged(work)) {
		tei_merged_apart(work, false);
		return;
	}
	if (work->state == TEI_WORK_READY) {
		link->out.n_ready--;
		link->out.bytes -= work->slice.length;
	} else {
		r->retries++;
		TEI_COUNT(link->engine, retries);
	}
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
		tei_merged_apart(work, true);
		return;
	}
	if (r->error || r->doubted || r->peer->self) {
		bad(work, err, false);
		return;
	}
	r->doubting = true;
	r->refusal = err;
	tei_list_del(&r->queue);
	redo(work);
}

/* Its link is being flushed. */
static void unsettled(struct tei_work *work)
{
	struct tei_request *r = work->request;
	struct tei_link *link = work->link;

	if (!r->provider_code)
		r->provider_code = work->slice.provider_code;
	if (r->error && !tei_work_is_merged(work)) {
		bad(work, r->error, !link->out.settled);
	} else if (r->op == TE_READ || link->out.settled) {
		redo(work);
	} else if (tei_work_is_merged(work)) {
		tei_merged_limbo(work);
	} else {
		work->state = TEI_WORK_LIMBO;
		tei_list_add_tail(&link->out.limbo, &work->of_link);
	}
}

/* Its epoch has ended, though the word of that has not come to us yet. */
static void stale(struct tei_work *work)
{
	tei_peer_epoch_over(work->request->peer, work->request->epoch);
	bad(work, -ESTALE, false);
}

/* The owner has no room: not an error, but not again at once either. */
static void busy(struct tei_work *work)
{
	struct tei_request *r = work->request;
	struct tei_peer *peer = r->peer;
	uint32_t step = r->retries < PAUSE_STEPS ? r->retries : PAUSE_STEPS;
	bool enough = r->retries > BUSY_MAX;

	if (!tei_work_is_merged(work) && (r->error || enough)) {
		bad(work, r->error ? r->error : -EIO, false);
		return;
	}
	peer->w.pause_until =
		peer->engine->worker->now + (TEI_NS_PER_MS << step);
	if (tei_work_is_merged(work))
		tei_merged_apart(work, enough);
	else
		redo(work);
}

/* The rail does not reach the region, though it has a key for it. */
static void elsewhere(struct tei_work *work)
{
	struct tei_request *r = work->request;
	uint32_t i;

	for (i = 0; i < work->n; i++)
		r[i].avoid |= (uint64_t)1 << work->rail->rail.index;
	if (tei_work_is_merged(work))
		redo(work);
	else if (r->error || !(r->reach & ~r->avoid))
		bad(work, r->error ? r->error : -EIO, false);
	else
		redo(work);
}

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
		good(work);
	} else if (link->out.state == TEI_LINK_BROKEN && !work->canceled)
		unsettled(work);
	else if (link->flushing) /* @err is of the link */
		bad(work, -ECANCELED, !link->out.settled);
	else if (err == -EACCES || err == -EFAULT)
		doubt(work, err);
	else if (err == -ESTALE)
		stale(work);
	else if (err == -EAGAIN || err == -ENOMEM)
		busy(work);
	else if (err == -EOPNOTSUPP && !work->canceled)
		elsewhere(work);
	else if (work->canceled)
		bad(work, -ECANCELED, !link->out.settled);
	else if (tei_work_is_merged(work))
		tei_merged_failed(work);
	else
		bad(work, -EIO, true);
	if (err == -ESTALE && link->out.state != TEI_LINK_BROKEN)
		tei_link_break(link, err);
	/* It has room now; who lets go of the token looks whether that helps. */
	if (link->out.n_ready || !tei_queue_empty(&link->out.peer->w.queue))
		tei_peer_run(link->out.peer);
}

/* ---- broken links ---- */

void tei_works_of_broken(struct tei_link *link)
{
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

		bad(work, tei_lost_error(link->out.err), true);
	}
}
