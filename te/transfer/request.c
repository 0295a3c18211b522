/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - the way of a request from submission to its final status */
#include "te/transfer/request.h"

#include <assert.h>
#include <errno.h>

#include "base/crc.h"
#include "te/common/engine.h"
#include "te/notify/notify.h"
#include "te/transfer/batch.h"
#include "te/transfer/cohort.h"
#include "te/transfer/link.h"
#include "te/transfer/merge.h"
#include "te/transfer/near.h"
#include "te/transfer/pairs.h"
#include "te/transfer/peer.h"
#include "te/transfer/work.h"
#include "te/worker/worker.h"

/* ---- the end ---- */

static uint32_t final_crc(const struct tei_request *r)
{
	return r->crc_len ? ~r->crc : 0;
}

/* By its error. */
static void count_failed(struct te_engine *engine, int error)
{
	switch (error) {
	case -ETIMEDOUT:
		TEI_COUNT(engine, failed_timeout);
		break;
	case -ECANCELED:
		TEI_COUNT(engine, failed_canceled);
		break;
	case -ESTALE:
		TEI_COUNT(engine, failed_stale);
		break;
	case -EACCES:
		TEI_COUNT(engine, failed_access);
		break;
	case -EFAULT:
		TEI_COUNT(engine, failed_range);
		break;
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -EHOSTUNREACH:
		TEI_COUNT(engine, failed_connection);
		break;
	case -EHOSTDOWN:
		TEI_COUNT(engine, failed_silent);
		break;
	default:
		TEI_COUNT(engine, failed_other);
	}
}

static void count(struct te_engine *engine, const struct tei_request *r)
{
	if (r->error)
		count_failed(engine, r->error);
	else if (r->op == TE_READ)
		TEI_COUNT_OWN(engine, bytes_read, r->bytes);
	else if (r->op == TE_NOTIFY)
		TEI_COUNT_OWN(engine, notifies_sent, 1);
	else
		TEI_COUNT_OWN(engine, bytes_written, r->bytes);
}

/* Put it in order, to be published at the end of the round. */
static void end_in_batch(struct te_batch *batch, struct tei_request *r)
{
	batch->order[batch->n_final++] = r->index;
	if (tei_list_empty(&batch->dirty))
		tei_list_add_tail(&batch->engine->worker->dirty, &batch->dirty);
}

static void finish(struct tei_request *r)
{
	assert(!r->n_out && !r->n_redo);
	tei_list_del(&r->queue);
	if (!r->error)
		r->crc = final_crc(r);
	tei_remote_release(r->held);
	r->held = NULL;
	if (r->op != TE_NOTIFY)
		r->region = NULL;
	else
		tei_notify_ended(r);
	count(r->peer->engine, r);
	atomic_store_explicit(&r->final, true, memory_order_release);
	end_in_batch(r->batch, r);
	tei_cohort_ended_one(r->cohort);
	if (!tei_list_empty(&r->batch->notifies))
		tei_notify_look(r->batch);
}

void tei_request_settle(struct tei_request *r)
{
	if (r->n_out || tei_request_is_final(r))
		return;
	if (r->error || r->bytes == r->length)
		finish(r);
	else if (r->doubting)
		tei_request_reconsider(r);
}

/* All that is not at a backend; a write in limbo may still land. */
static void drop_unposted(struct tei_request *r)
{
	if (r->merged)
		tei_merged_drop(r);
	tei_list_for_each_safe (node, tmp, &r->works) {
		struct tei_work *work =
			tei_list_entry(node, struct tei_work, of_request);

		if (work->state == TEI_WORK_POSTED)
			continue;
		if (work->state == TEI_WORK_LIMBO)
			r->loud = true;
		tei_work_free(work);
	}
}

void tei_request_refuse(struct tei_request *r, int err)
{
	if (tei_request_is_final(r))
		return;
	if (!r->error)
		r->error = err;
	tei_list_del(&r->queue);
	drop_unposted(r);
	tei_request_settle(r);
}

/* cancel() may end other works too, so look from the start each time. */
static struct tei_work *next_to_cancel(struct tei_request *r)
{
	tei_list_for_each (node, &r->works) {
		struct tei_work *work =
			tei_list_entry(node, struct tei_work, of_request);

		if (!work->canceled)
			return work;
	}
	return NULL;
}

void tei_request_abort(struct tei_request *r, int err)
{
	struct tei_work *work;

	if (tei_request_is_final(r))
		return;
	if (!r->error)
		r->error = err;
	tei_list_del(&r->queue);
	drop_unposted(r);
	if (r->merged)
		tei_merged_cancel(r);
	while ((work = next_to_cancel(r))) {
		struct tei_endpoint *ep = &work->link->ep;

		work->canceled = true;
		if (!work->link->flushing) /* else it comes back anyway */
			ep->rail->ops->cancel(ep, &work->slice);
	}
	tei_request_settle(r);
}

/* ---- the start ---- */

static bool is_answered(const struct tei_request *r)
{
	return r->question && r->peer->w.fresh >= r->question;
}

/*
 * What is known of the peer forbids it with @err, but the owner may have
 * changed its regions meanwhile. Its answer to our question is the last word.
 */
static int ask_again(struct tei_request *r, int err)
{
	struct tei_peer *peer = r->peer;

	if (peer->self || is_answered(r))
		return r->refusal ? r->refusal : err;
	if (!r->question) {
		r->question = atomic_fetch_add(&peer->questions, 1) + 1;
		tei_peer_ask(peer, TEI_ASK_DESCRIBE);
	}
	return -EAGAIN;
}

/*
 * Of a request submitted after its epoch was said to be over: it belongs to
 * the next one. What the owner answers to a question asked since then says
 * whether there will be one, unless its word of that came before.
 */
static int bind_epoch(struct tei_request *r)
{
	struct tei_peer *peer = r->peer;

	if (r->epoch)
		return 0;
	if (peer->w.epoch == peer->w.epoch_over &&
	    (ask_again(r, -ESTALE) == -EAGAIN || peer->w.remote->epoch_ending))
		return -EAGAIN;
	tei_peer_epoch_goes_on(peer);
	r->epoch = peer->w.epoch;
	r->question = 0;
	return 0;
}

/* Of a request submitted before its peer was met. -EAGAIN: it still is not. */
static int bind_life(struct tei_request *r)
{
	if (!r->life)
		r->life = r->peer->w.life;
	return r->life ? 0 : -EAGAIN;
}

/* No rail reaches the memory, but one may when a port has its link. */
static bool awaits_rail(const struct tei_request *r)
{
	bool may_come = false;
	uint32_t i;

	for (i = 0; i < r->peer->engine->worker->n_rails; i++)
		may_come |= tei_pairs_may_come(r->peer, i);
	return may_come && !(r->flags & TE_FAIL_FAST);
}

/*
 * 0: may go. -EAGAIN: the peer must describe itself first, or a rail have its
 * link. Else final.
 */
static int resolve(struct tei_request *r)
{
	uint32_t access = r->op == TE_READ ? TE_ACCESS_REMOTE_READ
					   : TE_ACCESS_REMOTE_WRITE;
	struct tei_peer *peer = r->peer;
	const struct tei_remote_region *region;

	if (bind_life(r))
		return -EAGAIN;
	if (r->life != peer->w.life)
		return -ESTALE;
	if (bind_epoch(r))
		return -EAGAIN;
	if (r->epoch != peer->w.epoch)
		return -ESTALE;
	if (r->doubted && !is_answered(r))
		return -EAGAIN;
	region = tei_remote_find(peer->w.remote, r->remote, r->length);
	if (!region)
		return ask_again(r, -EFAULT);
	if (!(region->access & access))
		return ask_again(r, -EACCES);
	r->reach = tei_pairs_that_reach(peer, peer->w.remote, region);
	if (!r->reach && awaits_rail(r))
		return -EAGAIN;
	r->held = tei_remote_hold(peer->w.remote);
	r->region = region;
	if (!r->reach) {
		r->provider_code = EOPNOTSUPP;
		return -EIO;
	}
	r->near = tei_near_of(r);
	return 0;
}

struct tei_list *tei_request_class(const struct tei_request *r)
{
	return &r->peer->w.queue.classes[tei_queue_class(r->priority)];
}

void tei_request_admit(struct tei_request *r)
{
	struct tei_peer *peer = r->peer;
	int rc;

	if (r->op != TE_NOTIFY) {
		rc = resolve(r);
	} else if (!bind_life(r) &&
		   (r->life != peer->w.life || !bind_epoch(r))) {
		r->parked = false;
		tei_notify_begin(r);
		return;
	} else {
		rc = -EAGAIN;
	}
	tei_list_del(&r->queue);
	r->parked = rc == -EAGAIN;
	if (rc && rc != -EAGAIN) {
		tei_request_refuse(r, rc);
		return;
	}
	if (rc)
		tei_list_add_tail(&peer->w.parked, &r->queue);
	else
		tei_list_add_tail(tei_request_class(r), &r->queue);
	tei_peer_run(peer);
}

void tei_request_reconsider(struct tei_request *r)
{
	r->doubting = false;
	r->doubted = true;
	tei_remote_release(r->held);
	r->held = NULL;
	r->region = NULL;
	r->question = 0;
	ask_again(r, -EFAULT);
	tei_list_del(&r->queue);
	r->parked = true;
	tei_list_add_tail(&r->peer->w.parked, &r->queue);
	tei_peer_run(r->peer);
}

void tei_request_rematch(struct tei_request *r, int err)
{
	uint64_t reach;

	(void)err;
	if (r->op == TE_NOTIFY || !r->region)
		return;
	reach = tei_pairs_that_reach(r->peer, r->held, r->region);
	if (reach & ~r->avoid) {
		r->reach = reach;
		r->near = tei_near_of(r);
		return;
	}
	if (r->n_out || r->n_redo || r->merged || tei_request_is_final(r))
		return; /* with what it has, until that has ended */
	tei_remote_release(r->held);
	r->held = NULL;
	r->region = NULL;
	tei_request_admit(r);
}

void tei_request_submitted(struct tei_call *call)
{
	struct tei_request *r = TEI_CONTAINER(call, struct tei_request, call);
	uint32_t n = r->n_following + 1;
	struct tei_cohort *cohort;

	TEI_COUNT_OWN(r->peer->engine, requests, n);
	for (; n; n -= cohort->n, r += cohort->n) {
		cohort = r->cohort;
		tei_cohort_begin(cohort);
	}
}
