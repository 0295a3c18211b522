/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - a request from its submission to its final status */
#include "te/transfer/request.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/mem.h"
#include "te/core/engine.h"
#include "te/notify/notify.h"
#include "te/transfer/health.h"
#include "te/transfer/link.h"
#include "te/transfer/parts.h"
#include "te/transfer/peer.h"
#include "te/transfer/rails.h"
#include "te/transfer/staging.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

/* ---- the end ---- */

static uint32_t final_crc(const struct tei_request *r)
{
	return r->crc_len ? ~r->crc : 0;
}

static void count_request(struct te_engine *engine, const struct tei_request *r)
{
	if (r->error)
		tei_count_failed(engine, r->error);
	else if (r->op == TE_READ)
		TEI_COUNT_OWN(r->peer->worker, bytes_read, r->bytes);
	else if (r->op == TE_NOTIFY)
		TEI_COUNT_OWN(r->peer->worker, notifies_sent, 1);
	else
		TEI_COUNT_OWN(r->peer->worker, bytes_written, r->bytes);
}

/* Put it in order, to be published at the end of the round. */
static void end_in_batch(struct te_batch *batch, struct tei_request *r)
{
	batch->order[batch->n_final++] = r->index;
	if (tei_list_empty(&batch->dirty))
		tei_list_add_tail(&tei_batch_home(batch)->dirty, &batch->dirty);
}

static void cohort_ended_one(struct tei_cohort *cohort);

static void notify_ended(struct tei_request *r);

static void notify_look(struct te_batch *batch);

static void finish_request(struct tei_request *r)
{
	assert(!r->n_out && !r->n_redo);
	tei_list_del(&r->queue);
	if (!r->error)
		r->crc = final_crc(r);
	tei_remote_release(r->held, r->peer->worker->index);
	r->held = NULL;
	if (r->op != TE_NOTIFY)
		r->region = NULL;
	else
		notify_ended(r);
	count_request(r->peer->engine, r);
	atomic_store_explicit(&r->final, true, memory_order_release);
	if (tei_batch_home(r->batch) != r->peer->worker) {
		/* Handed back when the round ends: its cohort is needed. */
		tei_list_add_tail(&r->peer->worker->ended, &r->queue);
		cohort_ended_one(tei_cohort_of(r));
		return;
	}
	end_in_batch(r->batch, r);
	cohort_ended_one(tei_cohort_of(r));
	if (!tei_list_empty(&r->batch->notifies))
		notify_look(r->batch);
}

void tei_request_ended(struct tei_call *call)
{
	struct tei_request *r = TEI_CONTAINER(call, struct tei_request, call);

	end_in_batch(r->batch, r);
	if (!tei_list_empty(&r->batch->notifies))
		notify_look(r->batch);
}

static void request_reconsider(struct tei_request *r);

void tei_request_settle(struct tei_request *r)
{
	if (r->n_out || tei_request_is_final(r))
		return;
	if (r->error || r->bytes == r->length)
		finish_request(r);
	else if (r->doubting)
		request_reconsider(r);
}

/* All that is not at a backend; a write in limbo may still land. */
static void drop_unposted(struct tei_request *r)
{
	if (r->merged)
		tei_merged_drop(r);
	tei_list_for_each_safe (node, tmp, &r->works) {
		struct tei_work *work =
			tei_list_entry(node, struct tei_work, of_request);

		if (work->state == TEI_WORK_POSTED ||
		    work->state == TEI_WORK_COPYING)
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

		if (!work->canceled && work->state != TEI_WORK_COPYING)
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
	return r->question && r->peer->fresh >= r->question;
}

/*
 * The known description forbids the request with @err, but the owner may have
 * changed its regions meanwhile: its answer to a new describe decides.
 */
static int ask_again(struct tei_request *r, int err)
{
	struct tei_peer_work *peer = r->peer;

	if (peer->self || is_answered(r))
		return r->refusal ? r->refusal : err;
	if (!r->question) {
		r->question = atomic_fetch_add(&peer->of->questions, 1) + 1;
		tei_peer_ask(peer, TEI_ASK_DESCRIBE);
	}
	return -EAGAIN;
}

/*
 * Binds a request that was submitted after its epoch had ended to the next one.
 * The owner's answer to a question asked since then says whether there will be
 * one, unless its announcement came before.
 */
static int bind_epoch(struct tei_request *r)
{
	struct tei_peer_work *peer = r->peer;

	if (r->epoch)
		return 0;
	if (peer->epoch == peer->epoch_over &&
	    (ask_again(r, -ESTALE) == -EAGAIN || peer->remote->epoch_ending))
		return -EAGAIN;
	tei_peer_epoch_goes_on(peer);
	r->epoch = peer->epoch;
	r->question = 0;
	return 0;
}

/*
 * Binds requests that were submitted before their peer was met, all of a cohort
 * at once. They stay with their batch's worker until then: it compares lives
 * (same_segment() below), so that no other worker writes them. -EAGAIN: the
 * peer is not met yet.
 */
static int bind_life(struct tei_cohort *cohort)
{
	uint32_t i, life = cohort->first->peer->life;

	if (cohort->first->life)
		return 0;
	if (!life)
		return -EAGAIN;
	for (i = 0; i < cohort->n; i++)
		cohort->first[i].life = life;
	return 0;
}

/* Tells whether other workers are worth a look. */
static bool has_choice(const struct tei_request *r)
{
	const struct tei_peer_work *peer = r->peer;

	return peer->elsewhere && peer->remote && r->op != TE_NOTIFY &&
	       (!r->life || r->life == peer->life) &&
	       tei_cohort_may_move(tei_cohort_of(r), peer->worker->now);
}

/*
 * True: no rail of this worker reaches the memory, but one may when its port
 * has a link, or others have one, to which it goes when its cohort rests.
 */
static bool awaits_rail(const struct tei_request *r)
{
	bool may_come = has_choice(r) && tei_pairs_best_part(r) != r->peer;
	uint32_t i;

	for (i = 0; i < r->peer->worker->n_rails; i++)
		may_come |= tei_pairs_may_come(r->peer, i);
	return may_come && !(r->flags & TE_FAIL_FAST);
}

static uint32_t access_of(const struct tei_request *r)
{
	return r->op == TE_READ ? TE_ACCESS_REMOTE_READ
				: TE_ACCESS_REMOTE_WRITE;
}

/*
 * 0: may go. -EAGAIN: the peer must describe itself first, or a rail have its
 * link. Else final.
 */
static int resolve(struct tei_request *r)
{
	struct tei_peer_work *peer = r->peer;
	const struct tei_remote_region *region;

	if (bind_life(tei_cohort_of(r)))
		return -EAGAIN;
	if (r->life != peer->life)
		return -ESTALE;
	if (bind_epoch(r))
		return -EAGAIN;
	if (r->epoch != peer->epoch)
		return -ESTALE;
	if (r->doubted && !is_answered(r))
		return -EAGAIN;
	region = tei_remote_find(peer->remote, r->remote, r->length);
	if (!region)
		return ask_again(r, -EFAULT);
	if (!(region->access & access_of(r)))
		return ask_again(r, -EACCES);
	/* A processor that copies it, as for an arena, would get a signal. */
	if (tei_request_reach(r, peer->remote, region) && tei_local_is_gone(r))
		return -EFAULT;
	if (!r->reach && awaits_rail(r))
		return -EAGAIN;
	r->held = tei_remote_hold(peer->remote, peer->worker->index);
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
	return &r->peer->queue.classes[tei_queue_class(r->priority)];
}

static void notify_begin(struct tei_request *r);

void tei_request_admit(struct tei_request *r)
{
	struct tei_peer_work *peer = r->peer;
	int rc;

	if (r->op != TE_NOTIFY) {
		rc = resolve(r);
	} else if (!bind_life(tei_cohort_of(r)) &&
		   (r->life != peer->life || !bind_epoch(r))) {
		r->parked = false;
		notify_begin(r);
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
		tei_list_add_tail(&peer->parked, &r->queue);
	else
		tei_list_add_tail(tei_request_class(r), &r->queue);
	tei_peer_run(peer);
}

/*
 * The owner refused a part with what we know of its regions, and nothing is
 * out any more: ask it for its regions, then go on or end.
 */
static void request_reconsider(struct tei_request *r)
{
	r->doubting = false;
	r->doubted = true;
	tei_remote_release(r->held, r->peer->worker->index);
	r->held = NULL;
	r->region = NULL;
	r->question = 0;
	ask_again(r, -EFAULT);
	tei_list_del(&r->queue);
	r->parked = true;
	tei_list_add_tail(&r->peer->parked, &r->queue);
	tei_peer_run(r->peer);
}

/* Finds its rails to @region. False: there are none, and all is as before. */
static bool reach_anew(struct tei_request *r, const struct tei_remote *remote,
		       const struct tei_remote_region *region)
{
	uint64_t reach = r->reach;
	bool staged = r->staged, direct = r->direct, spread = r->spread;

	(void)tei_request_reach(r, remote, region);
	if (r->reach & ~r->avoid)
		return true;
	r->reach = reach;
	r->spread = spread;
	r->staged = staged;
	r->direct = direct;
	return false;
}

bool tei_request_renew(struct tei_request *r)
{
	struct tei_peer_work *peer = r->peer;
	const struct tei_remote_region *region;

	assert(!r->n_out);
	region = tei_remote_find(peer->remote, r->remote, r->length);
	if (!region || !(region->access & access_of(r)) ||
	    !reach_anew(r, peer->remote, region))
		return false;
	tei_remote_release(r->held, peer->worker->index);
	r->held = tei_remote_hold(peer->remote, peer->worker->index);
	r->region = region;
	r->near = tei_near_of(r);
	return true;
}

void tei_request_rematch(struct tei_request *r, int err)
{
	(void)err;
	if (r->op == TE_NOTIFY || !r->region)
		return;
	if (reach_anew(r, r->held, r->region)) {
		r->near = tei_near_of(r);
		return;
	}
	if (r->n_out || r->n_redo || r->merged || tei_request_is_final(r)) {
		/* With what it has, until that has ended; then it may leave. */
		if (tei_request_better_part(r))
			r->reach = 0;
		return;
	}
	tei_remote_release(r->held, r->peer->worker->index);
	r->held = NULL;
	r->region = NULL;
	tei_request_admit(r);
}

static void cohort_begin(struct tei_cohort *cohort);
static void cohort_keep(struct tei_cohort *cohort, struct tei_worker *w);
static void cohort_send(struct tei_cohort *cohort, struct tei_peer_work *to,
			uint64_t now);

void tei_request_submitted(struct tei_call *call)
{
	struct tei_request *r = TEI_CONTAINER(call, struct tei_request, call);
	uint32_t n_begun, n = r->n_following + 1;
	struct tei_worker *home = tei_batch_home(r->batch);
	struct tei_cohort *cohort;

	TEI_COUNT_OWN(home, requests, n);
	for (; n; n -= n_begun, r += n_begun) {
		cohort = tei_cohort_of(r);
		n_begun = cohort->n; /* some may leave it now */
		if (!r->life)
			cohort_keep(cohort, home);
		if (r->peer->worker == home)
			cohort_begin(cohort);
		else
			cohort_send(cohort, r->peer, home->now);
	}
}

/* ---- requests that begin and time out together ---- */

/* ---- its end ---- */

static void deadline_due(struct tei_due *due)
{
	struct tei_cohort *cohort = TEI_CONTAINER(due, struct tei_cohort, due);
	struct tei_worker *w = cohort->first->peer->worker;

	if (w->now >= cohort->first->deadline)
		tei_cohort_each(cohort, tei_request_abort, -ETIMEDOUT);
	else if (tei_cohort_is_silent(cohort, w->now))
		tei_cohort_each(cohort, tei_request_abort, -EHOSTDOWN);
	else /* into the heap that it has just left */
		tei_due_set(w, due, tei_cohort_next_look(cohort));
}

/* ---- its beginning ---- */

static void refuse_for_memory(struct tei_request *r, int err)
{
	r->provider_code = ENOMEM;
	tei_request_refuse(r, err);
}

/*
 * Tells whether the peer changed since the request was checked, also without
 * news: what submit has read under the lock is announced a moment after it was
 * written there.
 */
static bool is_behind(const struct tei_request *r)
{
	const struct tei_peer_work *peer = r->peer;

	return atomic_load_explicit(&peer->of->news, memory_order_acquire) !=
		       peer->news ||
	       r->life != peer->life || (r->epoch && r->epoch != peer->epoch);
}

static bool is_canceled(const struct tei_request *r)
{
	return atomic_load(&r->canceled) ||
	       r->index < atomic_load(&r->batch->n_canceled);
}

/* ---- cohorts that another worker serves better ---- */

/*
 * A worker has its own rails only, so where others lead to the peer and these
 * do not, or where others are of a better tier or near the memory, the whole
 * cohort goes to their worker, while nothing of it is out. What has been done
 * of its requests is done again there, unless no worker may have rails for all
 * of it: writing the same bytes twice is no harm while the request lasts.
 * Before it begins at a worker its requests are asked for one by one, and those
 * that others serve better become cohorts of their own: their memory is a
 * GPU's, say, whose stages are the first worker's.
 */

static void arrived(struct tei_call *call)
{
	cohort_begin(TEI_CONTAINER(call, struct tei_cohort, arrive));
}

/* Makes it a cohort of @w, the worker of its batch, whatever submit chose. */
static void cohort_keep(struct tei_cohort *cohort, struct tei_worker *w)
{
	for (uint32_t i = 0; i < cohort->n; i++) {
		struct tei_request *r = &cohort->first[i];

		r->peer = &r->to->works[w->index];
	}
	atomic_store(&cohort->at, w->index);
}

/* Requests that are sent have a life: see bind_life(). @now: of the sender. */
static void cohort_send(struct tei_cohort *cohort, struct tei_peer_work *to,
			uint64_t now)
{
	struct te_batch *batch = cohort->first->batch;

	assert(cohort->first->life);
	for (uint32_t i = 0; i < cohort->n; i++)
		cohort->first[i].peer = to;
	tei_cohort_count_move(cohort, now);
	cohort->arrive.fn = arrived;
	atomic_fetch_or(&batch->used, (uint64_t)1 << to->worker->index);
	atomic_store(&cohort->at, to->worker->index);
	tei_worker_post(to->worker, &cohort->arrive);
}

/*
 * Takes a request back to before it had begun. Where rails of several workers
 * have its region together, what has been moved stays so: no worker may have
 * rails for all of it.
 */
static void rewind_request(struct tei_request *r)
{
	bool goes_on = r->spread && !r->n_redo;

	tei_list_del(&r->queue);
	drop_unposted(r);
	tei_remote_release(r->held, r->peer->worker->index);
	r->held = NULL;
	r->region = NULL;
	r->question = 0;
	if (!goes_on) {
		r->cursor = r->cursor_skip = r->bytes = 0;
		r->cursor_piece = r->crc = 0;
	}
	r->begun = r->parked = r->doubting = r->doubted = false;
	r->refusal = 0;
}

static void cohort_leave(struct tei_cohort *cohort, struct tei_peer_work *to)
{
	struct tei_peer_work *peer = cohort->first->peer;

	for (uint32_t i = 0; i < cohort->n; i++)
		if (!tei_request_is_final(&cohort->first[i]))
			rewind_request(&cohort->first[i]);
	tei_due_clear(peer->worker, &cohort->due);
	tei_list_del(&cohort->of_peer);
	if (tei_list_empty(&peer->active))
		tei_peer_update_want(peer);
	cohort_send(cohort, to, peer->worker->now);
}

/* Cuts the cohort in two, which are both active. False: no memory. */
static bool cohort_part(struct tei_cohort *cohort, uint32_t n)
{
	struct tei_worker *w = cohort->first->peer->worker;
	struct tei_cohort *rest;

	if (tei_heap_reserve(&w->dues, w->dues.n + 1))
		return false;
	rest = tei_cohort_cut(cohort, n);
	tei_list_insert(&cohort->of_peer, &rest->of_peer);
	rest->due.fn = deadline_due;
	(void)tei_due_set(w, &rest->due, tei_cohort_next_look(rest));
	return true;
}

struct tei_peer_work *tei_request_better_part(struct tei_request *r)
{
	struct tei_peer_work *best;

	if (!has_choice(r) || bind_life(tei_cohort_of(r)))
		return NULL;
	best = tei_pairs_best_part(r);
	return best == r->peer ? NULL : best;
}

bool tei_request_is_out_of_rails(struct tei_request *r)
{
	if (tei_request_lacks_rails(r))
		return true;
	/* Without a reach it is to be looked up anew: tei_request_rematch(). */
	return r->reach && !(r->reach & ~r->avoid) &&
	       !tei_request_better_part(r);
}

/* Returns where to the request may go at once; NULL: it stays. */
static struct tei_peer_work *way_of(struct tei_request *r)
{
	return tei_request_rests(r) ? tei_request_better_part(r) : NULL;
}

/*
 * Cuts the cohort where requests that go to one worker and others meet; from
 * its end on, so that each request is written once.
 */
static void cohort_separate(struct tei_cohort *cohort)
{
	struct tei_request *first = cohort->first, *after = NULL;
	struct tei_peer_work *way_after = NULL;

	for (uint32_t i = cohort->n; i--;) {
		struct tei_request *r = &first[i];
		struct tei_peer_work *way;

		if (tei_request_is_final(r))
			continue;
		way = way_of(r);
		if (after && way != way_after &&
		    !cohort_part(cohort, (uint32_t)(after - first)))
			return;
		after = r;
		way_after = way;
	}
}

bool tei_request_may_leave(struct tei_request *r)
{
	struct tei_peer_work *to = way_of(r);

	if (!to)
		return false;
	if (!tei_cohort_is_at_rest(tei_cohort_of(r)))
		cohort_separate(tei_cohort_of(r));
	if (!tei_cohort_is_at_rest(tei_cohort_of(r)))
		return false; /* no memory, or its way is another one by now */
	cohort_leave(tei_cohort_of(r), to);
	return true;
}

/* Sends all of its requests that others serve better to these. */
static void leave_in_parts(struct tei_cohort *cohort)
{
	struct tei_request *r = cohort->first, *end = r + cohort->n, *resting;

	cohort_separate(cohort);
	while (r < end) {
		cohort = tei_cohort_of(r);
		resting = tei_cohort_resting(cohort);
		r += cohort->n; /* first: then it may be another worker's */
		if (resting)
			(void)tei_request_may_leave(resting);
	}
}

void tei_cohorts_leave(struct tei_peer_work *peer)
{
	struct tei_list all, *node;

	tei_list_init(&all);
	tei_list_splice_tail(&all, &peer->active);
	while ((node = tei_list_pop(&all))) {
		struct tei_cohort *cohort =
			tei_list_entry(node, struct tei_cohort, of_peer);

		tei_list_add_tail(&peer->active, node);
		leave_in_parts(cohort);
	}
}

/*
 * Cuts the cohort where the best worker is another one for the next request;
 * from its end on, as above.
 */
static void cut_by_worker(struct tei_cohort *cohort)
{
	struct tei_peer_work *after = NULL;
	uint32_t place = 0;

	for (uint32_t i = cohort->n; i--;) {
		struct tei_peer_work *best;

		if (tei_request_is_final(&cohort->first[i]))
			continue;
		best = tei_pairs_best_part(&cohort->first[i]);
		if (after && best != after)
			(void)tei_cohort_cut(cohort, place);
		after = best;
		place = i;
	}
}

/* Begins all of its requests that have not ended at another worker. */
static void begin_here(struct tei_cohort *cohort)
{
	struct tei_request *first = cohort->first;
	struct tei_peer_work *peer = first->peer;
	/* A callback has submitted it while its batch was being cancelled. */
	bool closing = atomic_load_explicit(&first->batch->closing,
					    memory_order_relaxed);
	uint32_t i;
	int rc;

	tei_list_add_tail(&peer->active, &cohort->of_peer);
	if (!cohort->begun_at) /* else it has come from another worker */
		cohort->begun_at = peer->worker->now;
	cohort->due.fn = deadline_due;
	rc = tei_due_set(peer->worker, &cohort->due,
			 tei_cohort_next_look(cohort));
	for (i = 0; i < cohort->n; i++) {
		struct tei_request *r = &first[i];

		if (tei_request_is_final(r))
			continue;
		r->begun = true;
		if (rc)
			refuse_for_memory(r, -EIO);
		else if (r->error) /* it was refused before it was submitted */
			tei_request_refuse(r, r->error);
		else if (closing || is_canceled(r))
			tei_request_refuse(r, -ECANCELED);
		else
			tei_request_admit(r);
	}
}

/* Begins it at the worker that serves its first request best. */
static void begin_at_best(struct tei_cohort *cohort)
{
	struct tei_request *first = tei_cohort_resting(cohort);
	struct tei_peer_work *peer = cohort->first->peer, *to = peer;

	if (first)
		to = tei_pairs_best_part(first);
	if (to == peer)
		begin_here(cohort);
	else
		cohort_send(cohort, to, peer->worker->now);
}

/* Begins its requests, each at the worker that serves it best. */
static void cohort_begin(struct tei_cohort *cohort)
{
	struct tei_request *r = cohort->first, *end = r + cohort->n;
	struct tei_peer_work *peer = r->peer;

	/* Before it is active: news end active ones that they make stale. */
	if (is_behind(r))
		tei_peer_sync(peer);
	if (peer->self)
		tei_peer_sync_self(peer);
	if (!has_choice(r) || bind_life(cohort)) {
		begin_here(cohort);
		return;
	}
	if (cohort->n > 1)
		cut_by_worker(cohort);
	while (r < end) {
		cohort = tei_cohort_of(r);
		r += cohort->n; /* first: then it may be another worker's */
		begin_at_best(cohort);
	}
}

/* Counts a request of the cohort that has become final. */
static void cohort_ended_one(struct tei_cohort *cohort)
{
	struct tei_peer_work *peer = cohort->first->peer;

	if (--cohort->n_live)
		return;
	tei_due_clear(peer->worker, &cohort->due);
	tei_list_del(&cohort->of_peer);
	if (tei_list_empty(&peer->active))
		tei_peer_update_want(peer);
}

/* ---- notifications until control has them, and their end ---- */

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

static void gather_new(struct tei_notify *n)
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

	gather_new(n);
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

/* An earlier one of no life has ended before its peer was met. */
static bool same_segment(const struct tei_request *earlier,
			 const struct tei_request *r)
{
	return earlier->to == r->to &&
	       (!earlier->life || earlier->life == r->life);
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

/*
 * 0: all before it have ended well. -EAGAIN: not yet. -ECANCELED. -EFAULT: its
 * bytes are a GPU's, which a processor does not reach, or none are there.
 */
static int examine(struct te_batch *batch, struct tei_notify *n)
{
	const struct tei_request *r = n->request;
	struct tei_takers takers;

	if (atomic_load(&n->state) != TEI_NOTIFY_WAITING)
		return -EAGAIN;
	for (; n->cursor < r->index; n->cursor++) {
		const struct tei_request *q = &batch->requests[n->cursor];

		if (!same_segment(q, r))
			continue;
		/* Another worker may have had it. */
		if (!atomic_load_explicit(&q->final, memory_order_acquire))
			return -EAGAIN;
		if (q->error)
			return -ECANCELED;
	}
	tei_takers_of(r, &takers);
	return takers.rails == UINT64_MAX && !tei_local_is_gone(r) ? 0
								   : -EFAULT;
}

/* True: the list may have changed. */
static bool look_once(struct te_batch *batch)
{
	tei_list_for_each (node, &batch->notifies) {
		struct tei_notify *n =
			tei_list_entry(node, struct tei_notify, of_batch);
		int rc = examine(batch, n);

		if (!rc) {
			hand_over(n);
		} else if (rc != -EAGAIN) {
			tei_request_refuse(n->request, rc);
			return true;
		}
	}
	return false;
}

/*
 * Looks for notifications to send; not recursive, however many follow one that
 * has failed.
 */
static void notify_look(struct te_batch *batch)
{
	if (batch->looking)
		return;
	batch->looking = true;
	while (look_once(batch))
		;
	batch->looking = false;
}

/* The request has begun. */
static void notify_begin(struct tei_request *r)
{
	struct te_batch *batch = r->batch;
	struct tei_notify *n, *first;

	if (r->life != r->peer->life || r->epoch != r->peer->epoch) {
		tei_request_refuse(r, -ESTALE);
		return;
	}
	n = tei_malloc(sizeof(*n) + r->length);
	if (!n) {
		r->provider_code = ENOMEM;
		tei_request_refuse(r, -EIO);
		return;
	}
	memset(n, 0, sizeof(*n)); /* not the bytes: gather_new() fills them */
	atomic_init(&n->refs, 1);
	n->peer = r->to;
	n->worker = r->peer->worker;
	n->request = r;
	n->life = r->life;
	n->epoch = r->epoch;
	n->length = (uint32_t)r->length;
	tei_list_init(&n->of_batch);
	tei_list_init(&n->followers);
	tei_list_init(&n->link);
	r->notify = n;
	first = first_to(batch, r);
	if (!first && batch->well_peer == r->to && batch->well_life == r->life)
		n->cursor = batch->n_well;
	tei_list_add_tail(first ? &first->followers : &batch->notifies,
			  &n->of_batch);
	notify_look(batch);
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

/* The request becomes final; says whether the message may still arrive. */
static void notify_ended(struct tei_request *r)
{
	struct te_batch *batch = r->batch;
	struct tei_notify *n = r->notify;

	r->notify = NULL;
	if (!n)
		return; /* it was refused before it could begin */
	if (!r->error) {
		/* Requests before this one need no second check. */
		batch->well_peer = r->to;
		batch->well_life = r->life;
		batch->n_well = r->index + 1;
	}
	leave_batch(n);
	take_back(n);
	n->request = NULL;
	tei_notify_put(n);
}
