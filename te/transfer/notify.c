/* SPDX-License-Identifier: Apache-2.0 */
/* notify.c - notifications until control has them, and their end */
#include "te/notify/notify.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "te/common/engine.h"
#include "te/transfer/batch.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/transfer/transfer.h"
#include "te/transfer/work.h"

/* ---- to control and back ---- */

static void answered(struct tei_call *call)
{
	struct tei_notify *n = TEI_CONTAINER(call, struct tei_notify, answer);
	struct tei_request *r = n->request;

	n->answered = true;
	if (r && n->err) {
		r->loud = n->loud;
		r->provider_code = n->err == -EIO ? ENOMEM : 0;
		tei_request_refuse(r, n->err);
	} else if (r) {
		r->bytes = r->length;
		tei_request_settle(r);
	}
	tei_notify_put(n);
}

static void gather(struct tei_notify *n)
{
	const struct tei_request *r = n->request;
	uint8_t *to = n->bytes;
	uint32_t i;

	for (i = 0; i < r->n_pieces; i++) {
		memcpy(to, r->pieces[i].iov_base, r->pieces[i].iov_len);
		to += r->pieces[i].iov_len;
	}
}

static void hand_over(struct tei_notify *n)
{
	const struct tei_transfer_messages *messages =
		n->peer->engine->transfer->messages;

	gather(n);
	n->ask.fn = messages->notify;
	n->withdraw.fn = messages->withdraw;
	n->answer.fn = answered;
	atomic_fetch_add(&n->refs, 1);
	atomic_store(&n->state, TEI_NOTIFY_QUEUED);
	if (!tei_loop_post(n->peer->engine->loop, &n->ask))
		tei_notify_put(n); /* it ends with the engine */
}

/* The copy in the queue is of no use; one that was sent may arrive. */
static void take_back(struct tei_notify *n)
{
	uint8_t queued = TEI_NOTIFY_QUEUED;

	if (n->answered)
		return;
	if (atomic_compare_exchange_strong(&n->state, &queued,
					   TEI_NOTIFY_WITHDRAWN)) {
		atomic_fetch_add(&n->refs, 1);
		if (!tei_loop_post(n->peer->engine->loop, &n->withdraw))
			tei_notify_put(n);
	} else if (queued == TEI_NOTIFY_SENT) {
		n->request->loud = true;
		atomic_store(&n->state, TEI_NOTIFY_LEFT);
	}
}

/* ---- what must end before it ---- */

static bool same_segment(const struct tei_request *a,
			 const struct tei_request *b)
{
	return a->peer == b->peer && a->life == b->life;
}

static struct tei_notify *first_to(struct te_batch *batch,
				   const struct tei_request *r)
{
	tei_list_for_each (node, &batch->notifies) {
		struct tei_notify *n =
			tei_list_entry(node, struct tei_notify, of_batch);

		if (same_segment(n->request, r))
			return n;
	}
	return NULL;
}

/* 0: all before it have ended well. -EAGAIN: not yet. -ECANCELED. */
static int examine(struct te_batch *batch, struct tei_notify *n)
{
	const struct tei_request *r = n->request;

	if (atomic_load(&n->state) != TEI_NOTIFY_WAITING)
		return -EAGAIN;
	for (; n->cursor < r->index; n->cursor++) {
		const struct tei_request *q = &batch->requests[n->cursor];

		if (!same_segment(q, r))
			continue;
		if (!tei_request_is_final(q))
			return -EAGAIN;
		if (q->error)
			return -ECANCELED;
	}
	return 0;
}

/* True: the list may have changed. */
static bool look_once(struct te_batch *batch)
{
	tei_list_for_each (node, &batch->notifies) {
		struct tei_notify *n =
			tei_list_entry(node, struct tei_notify, of_batch);
		int rc = examine(batch, n);

		if (rc == -ECANCELED) {
			tei_request_refuse(n->request, rc);
			return true;
		}
		if (!rc)
			hand_over(n);
	}
	return false;
}

/* Not recursive, however many follow one that has failed. */
void tei_notify_look(struct te_batch *batch)
{
	if (batch->looking)
		return;
	batch->looking = true;
	while (look_once(batch))
		;
	batch->looking = false;
}

void tei_notify_begin(struct tei_request *r)
{
	struct te_batch *batch = r->batch;
	struct tei_notify *n, *first;

	if (r->life != r->peer->w.life || r->epoch != r->peer->w.epoch) {
		tei_request_refuse(r, -ESTALE);
		return;
	}
	n = tei_malloc(sizeof(*n) + r->length);
	if (!n) {
		r->provider_code = ENOMEM;
		tei_request_refuse(r, -EIO);
		return;
	}
	memset(n, 0, sizeof(*n)); /* not the bytes: gather() fills them */
	atomic_init(&n->refs, 1);
	n->peer = r->peer;
	n->request = r;
	n->life = r->life;
	n->epoch = r->epoch;
	n->length = (uint32_t)r->length;
	tei_list_init(&n->of_batch);
	tei_list_init(&n->followers);
	tei_list_init(&n->link);
	r->notify = n;
	first = first_to(batch, r);
	if (!first && batch->well_peer == r->peer &&
	    batch->well_life == r->life)
		n->cursor = batch->n_well;
	tei_list_add_tail(first ? &first->followers : &batch->notifies,
			  &n->of_batch);
	tei_notify_look(batch);
}

/* The next one to the segment takes its place. */
static void leave_batch(struct tei_notify *n)
{
	struct tei_notify *next;

	if (tei_list_empty(&n->followers)) {
		tei_list_del(&n->of_batch);
		return;
	}
	next = tei_list_entry(tei_list_pop(&n->followers), struct tei_notify,
			      of_batch);
	next->cursor = n->cursor;
	tei_list_splice_tail(&next->followers, &n->followers);
	tei_list_insert(&n->of_batch, &next->of_batch);
	tei_list_del(&n->of_batch);
}

void tei_notify_ended(struct tei_request *r)
{
	struct te_batch *batch = r->batch;
	struct tei_notify *n = r->notify;

	r->notify = NULL;
	if (!n)
		return; /* it was refused before it could begin */
	if (!r->error) {
		/* What is before it need not be looked at again. */
		batch->well_peer = r->peer;
		batch->well_life = r->life;
		batch->n_well = r->index + 1;
	}
	leave_batch(n);
	take_back(n);
	n->request = NULL;
	tei_notify_put(n);
}
