/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - a peer as the holder of the drive token sees it */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "te/common/engine.h"
#include "te/notify/notify.h"
#include "te/region/description.h"
#include "te/region/region.h"
#include "te/transfer/cohort.h"
#include "te/transfer/fill.h"
#include "te/transfer/link.h"
#include "te/transfer/pairs.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/transfer/slots.h"
#include "te/transfer/transfer.h"
#include "te/transfer/unmatched.h"
#include "te/transfer/warm.h"
#include "te/transfer/work.h"
#include "te/worker/worker.h"

#define QUANTUM     (1u << 20) /* bytes that a peer posts before the next one */
#define WORKS_CHUNK 64u

static void retry_due(struct tei_due *due)
{
	tei_peer_run(TEI_CONTAINER(due, struct tei_peer, w.retry));
}

static void news_came(struct tei_call *call)
{
	struct tei_peer *peer = TEI_CONTAINER(call, struct tei_peer, news_call);

	atomic_store(&peer->news_posted, false);
	tei_peer_sync(peer);
}

void tei_peer_work_init(struct tei_peer *peer)
{
	struct tei_peer_work *w = &peer->w;

	tei_list_init(&w->active);
	tei_queue_init(&w->queue);
	tei_list_init(&w->parked);
	tei_list_init(&w->warmers);
	tei_list_init(&w->links);
	tei_list_init(&w->run);
	w->retry.fn = retry_due;
	peer->news_call.fn = news_came;
}

void tei_peer_run(struct tei_peer *peer)
{
	if (peer->w.runnable)
		return;
	peer->w.runnable = true;
	tei_list_add_tail(&peer->engine->worker->runnable, &peer->w.run);
}

/* ---- asking control ---- */

static void post_asks(struct tei_peer *peer)
{
	if (!atomic_exchange(&peer->asks_posted, true))
		tei_loop_post(peer->engine->loop, &peer->asks_call);
}

void tei_peer_ask(struct tei_peer *peer, uint32_t asks)
{
	if (peer->self)
		return;
	atomic_fetch_or(&peer->asks, asks);
	post_asks(peer);
}

void tei_peer_update_want(struct tei_peer *peer)
{
	bool want;

	/* Also where links work: they may not tell that the peer is dead. */
	want = !peer->self && !peer->w.up &&
	       (!tei_list_empty(&peer->w.active) ||
		!tei_list_empty(&peer->w.warmers));
	if (want == atomic_load_explicit(&peer->want, memory_order_relaxed))
		return;
	atomic_store(&peer->want, want);
	if (want)
		post_asks(peer);
}

/* ---- all requests of a peer, while any of them may end ---- */

typedef void request_fn(struct tei_request *r, int err);

/*
 * Ending one request may end others, so neither a position in the list nor
 * its successor is safe to keep: each is moved back before it is looked at.
 */
static void each_active(struct tei_peer *peer, request_fn *fn, int err)
{
	struct tei_list all, *node;

	tei_list_init(&all);
	tei_list_splice_tail(&all, &peer->w.active);
	while ((node = tei_list_pop(&all))) {
		tei_list_add_tail(&peer->w.active, node);
		tei_cohort_each(
			tei_list_entry(node, struct tei_cohort, of_peer), fn,
			err);
	}
}

static bool awaits_a_link(const struct tei_request *r)
{
	if (r->op == TE_NOTIFY)
		return tei_notify_is_going(r->notify);
	if (r->n_redo || r->parked ||
	    (r->merged && r->merged->state == TEI_WORK_LIMBO))
		return true;
	tei_list_for_each (node, &r->works) {
		if (tei_list_entry(node, struct tei_work, of_request)->state ==
		    TEI_WORK_LIMBO)
			return true;
	}
	return r->cursor < r->length && !r->peer->w.n_up;
}

static void fail_fast(struct tei_request *r, int err)
{
	if ((r->flags & TE_FAIL_FAST) && awaits_a_link(r))
		tei_request_abort(r, err);
}

void tei_peer_fail_fast(struct tei_peer *peer, int err)
{
	each_active(peer, fail_fast, tei_lost_error(err));
}

void tei_peer_abort_all(struct tei_peer *peer, int err)
{
	each_active(peer, tei_request_abort, err);
}

static void end_if_stale(struct tei_request *r, int err)
{
	const struct tei_peer *peer = r->peer;

	if (!r->life) /* waits for the first one */
		return;
	if (r->life != peer->w.life || (r->epoch && r->epoch != peer->w.epoch))
		tei_request_refuse(r, err);
}

/*
 * @settled: the owner has confirmed that nothing of the old epoch can land, so
 * what is in limbo is quiet as well.
 */
static void end_stale(struct tei_peer *peer, bool settled)
{
	tei_list_for_each_safe (node, tmp, &peer->w.links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		if (settled) {
			link->out.settled = true;
			tei_works_quiet(link);
		}
		tei_link_break(link, -ESTALE);
	}
	each_active(peer, end_if_stale, -ESTALE);
}

/*
 * Who listened there is gone, and with it what our links led to. One refusal may be
 * the network's, so it says nothing against links that work.
 */
static void end_refused(struct tei_peer *peer, bool absent)
{
	if (peer->w.n_up && !absent)
		return;
	tei_list_for_each_safe (node, tmp, &peer->w.links)
		tei_link_break(tei_list_entry(node, struct tei_link, link),
			       -ECONNREFUSED);
}

static void end_unmet(struct tei_request *r, int err)
{
	if (!r->life)
		tei_request_refuse(r, err);
}

static void set_epoch_over(struct tei_peer *peer, uint64_t epoch)
{
	peer->w.epoch_over = epoch;
	tei_mutex_lock(&peer->engine->mu);
	peer->told.epoch_over = epoch;
	tei_mutex_unlock(&peer->engine->mu);
}

void tei_peer_epoch_over(struct tei_peer *peer, uint64_t epoch)
{
	if (epoch == peer->w.epoch && epoch != peer->w.epoch_over)
		set_epoch_over(peer, epoch);
}

void tei_peer_epoch_goes_on(struct tei_peer *peer)
{
	if (peer->w.epoch == peer->w.epoch_over)
		set_epoch_over(peer, 0);
}

/* ---- taking over what control has told ---- */

static void unpark(struct tei_peer *peer)
{
	struct tei_list all, *node;

	tei_list_init(&all);
	tei_list_splice_tail(&all, &peer->w.parked);
	while ((node = tei_list_pop(&all)))
		tei_request_admit(
			tei_list_entry(node, struct tei_request, queue));
}

/* Rails of the peer that came or went may have left links to the wrong ones. */
static void leave_others(struct tei_peer *peer)
{
	tei_list_for_each (node, &peer->w.links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);
		const struct tei_pair *pair = link->out.pair;

		if (!pair->usable || link->out.remote_pos == pair->remote_pos)
			continue;
		if (link->out.state == TEI_LINK_UP)
			tei_slots_retire(link);
		else
			tei_link_break(link, -ECANCELED);
	}
}

static void match(struct tei_peer *peer)
{
	if (!peer->w.remote)
		return;
	if (tei_pairs_match(peer)) {
		leave_others(peer);
		each_active(peer, tei_request_rematch, 0);
	}
	tei_unmatched_look(peer);
}

static void take_remote(struct tei_peer *peer, struct tei_remote *remote)
{
	if (remote == peer->w.remote) {
		tei_remote_put(remote);
		return;
	}
	tei_remote_put(peer->w.remote);
	peer->w.remote = remote;
	match(peer);
}

void tei_peer_sync(struct tei_peer *peer)
{
	struct te_engine *engine = peer->engine;
	struct tei_peer_work *w = &peer->w;
	struct tei_told told;
	bool new_life, new_epoch, new_fails, refused, absent;

	w->news = atomic_load_explicit(&peer->news, memory_order_acquire);
	tei_mutex_lock(&engine->mu);
	told = peer->told;
	if (told.remote)
		tei_remote_get(told.remote);
	tei_mutex_unlock(&engine->mu);

	new_life = told.life != w->life;
	new_epoch = told.epoch != w->epoch;
	new_fails = told.fails != w->fails;
	refused = told.refusals != w->refusals;
	absent = told.absences != w->absences;
	w->life = told.life;
	w->epoch = told.epoch;
	w->epoch_over = told.epoch_over;
	w->fails = told.fails;
	w->refusals = told.refusals;
	w->absences = told.absences;
	w->fresh = told.fresh;
	w->address = told.address;
	w->up = told.up;
	take_remote(peer, told.remote);
	if (new_life || new_epoch)
		end_stale(peer, !new_life);
	if (refused)
		end_refused(peer, absent);
	if (new_fails && tei_is_lost(told.fail_err))
		tei_peer_fail_fast(peer, told.fail_err);
	if (new_fails && told.fail_final)
		each_active(peer, end_unmet, told.fail_err);
	unpark(peer);
	tei_peer_run(peer);
}

static void rematch_peer(struct tei_peer *peer)
{
	match(peer);
	unpark(peer);
	tei_peer_run(peer);
}

void tei_peer_sync_self(struct tei_peer *peer)
{
	struct te_engine *engine = peer->engine;
	struct tei_remote *remote;

	if (peer->w.remote->version ==
	    atomic_load_explicit(&engine->regions->version,
				 memory_order_acquire))
		return;
	remote = tei_describe_self(engine);
	if (!remote)
		return;
	tei_remote_put(peer->w.remote);
	peer->w.remote = remote;
}

/* ---- posting ---- */

static bool pump_peer(struct tei_peer *peer, uint64_t quantum)
{
	struct tei_worker *w = peer->engine->worker;
	bool more;

	if (atomic_load_explicit(&peer->news, memory_order_acquire) !=
	    peer->w.news)
		tei_peer_sync(peer);
	tei_warm_look(peer);
	if (w->now < peer->w.pause_until) {
		tei_due_set(w, &peer->w.retry, peer->w.pause_until);
		return false;
	}
	more = tei_fill(peer, quantum);
	tei_peer_update_want(peer);
	return more;
}

/* In turns, so that a peer with much to post does not hold up the others. */
void tei_transfer_pump(struct tei_worker *w)
{
	struct tei_list now, *node;
	bool more;

	tei_list_init(&now);
	tei_list_splice_tail(&now, &w->runnable);
	while ((node = tei_list_pop(&now))) {
		struct tei_peer *peer =
			tei_list_entry(node, struct tei_peer, w.run);

		peer->w.runnable = false;
		more = pump_peer(peer,
				 tei_list_empty(&now) ? UINT64_MAX : QUANTUM);
		if (more && !peer->w.runnable) {
			peer->w.runnable = true;
			tei_list_add_tail(&now, &peer->w.run);
		}
	}
}

void tei_peer_post_news(struct tei_peer *peer)
{
	atomic_fetch_add_explicit(&peer->news, 1, memory_order_release);
	if (!atomic_exchange(&peer->news_posted, true))
		tei_worker_post(peer->engine->worker, &peer->news_call);
}

struct tei_peer *tei_peer_next(struct te_engine *engine, struct tei_peer *peer)
{
	struct tei_list *at;

	/* They are only ever added, at the end. */
	tei_mutex_lock(&engine->mu);
	at = peer ? peer->link.next : engine->peers.next;
	tei_mutex_unlock(&engine->mu);
	return at == &engine->peers ? NULL
				    : tei_list_entry(at, struct tei_peer, link);
}

/* ---- rails ---- */

void tei_transfer_rail_init(struct tei_rail_box *box)
{
	tei_slab_init(&box->works,
		      sizeof(struct tei_work) + box->rail.ops->slice_size,
		      WORKS_CHUNK);
	tei_slots_init(box);
}

void tei_transfer_rail_fini(struct tei_rail_box *box)
{
	tei_slots_fini(box);
	tei_slab_fini(&box->works);
}

void tei_transfer_rail_has_room(struct tei_rail_box *box)
{
	tei_list_for_each (node, &box->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, of_rail);

		if (link->ep.target || !link->out.full)
			continue;
		link->out.full = false;
		tei_peer_run(link->out.peer);
	}
}

void tei_transfer_rail_lost(struct tei_rail_box *box, int err)
{
	tei_list_for_each_safe (node, tmp, &box->links) {
		tei_link_break(tei_list_entry(node, struct tei_link, of_rail),
			       err);
	}
}

/*
 * Nobody has to sit out a pause that the dead link has earned. Whom the rail
 * reaches may be others than before.
 */
void tei_transfer_rail_up(struct tei_rail_box *box)
{
	struct te_engine *engine = box->rail.core->engine;
	struct tei_peer *peer = NULL;

	while ((peer = tei_peer_next(engine, peer))) {
		tei_breaker_reset(&peer->w.pairs[box->rail.index].breaker);
		rematch_peer(peer);
	}
}
