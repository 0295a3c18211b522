/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - a peer as the holder of the drive token sees it */
#include "te/transfer/peer.h"

#include <errno.h>
#include <string.h>

#include <te/te.h>

#include "base/clock.h"
#include "base/log.h"
#include "te/core/engine.h"
#include "te/notify/notify.h"
#include "te/region/description.h"
#include "te/region/region.h"
#include "te/transfer/link.h"
#include "te/transfer/parts.h"
#include "te/transfer/rails.h"
#include "te/transfer/request.h"
#include "te/transfer/schedule.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

#define WORKS_CHUNK 64u

static void retry_due(struct tei_due *due)
{
	struct tei_peer_work *peer =
		TEI_CONTAINER(due, struct tei_peer_work, retry);

	/* What is known of the owner's regions may serve them by now. */
	peer->to_rematch |= peer->waits;
	tei_peer_run(peer);
}

static void news_came(struct tei_call *call)
{
	struct tei_peer_work *peer =
		TEI_CONTAINER(call, struct tei_peer_work, news_call);

	atomic_store(&peer->news_posted, false);
	tei_peer_sync(peer);
}

static void break_number(struct tei_peer_work *peer, uint64_t number, int why)
{
	tei_list_for_each_safe (node, tmp, &peer->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		if (link->number == number)
			tei_link_break(link, why);
	}
}

static void gone_came(struct tei_call *call)
{
	struct tei_peer_work *peer =
		TEI_CONTAINER(call, struct tei_peer_work, gone_call);
	uint64_t numbers[TEI_PEER_GONE];
	bool wanted[TEI_PEER_GONE];
	uint32_t n;

	tei_mutex_lock(&peer->engine->mu);
	n = peer->n_gone;
	memcpy(numbers, peer->gone, n * sizeof(numbers[0]));
	memcpy(wanted, peer->gone_wanted, n * sizeof(wanted[0]));
	peer->n_gone = 0;
	tei_mutex_unlock(&peer->engine->mu);
	while (n--)
		break_number(peer, numbers[n],
			     wanted[n] ? -ESTALE : -ENETRESET);
}

static void stand_by_came(struct tei_call *call)
{
	struct tei_peer_work *peer =
		TEI_CONTAINER(call, struct tei_peer_work, stand_by_call);

	atomic_store(&peer->stand_by_posted, false);
	if (atomic_load_explicit(&peer->of->news, memory_order_acquire) !=
	    peer->news)
		tei_peer_sync(peer);
	tei_schedule_links(peer);
}

static int work_init(struct tei_peer_work *w, struct tei_peer *peer,
		     struct tei_worker *worker)
{
	uint32_t i;

	w->of = peer;
	w->engine = peer->engine;
	w->worker = worker;
	w->name = peer->name;
	w->self = peer->self;
	w->asked_with = UINT64_MAX;
	tei_list_init(&w->active);
	tei_queue_init(&w->queue);
	tei_list_init(&w->parked);
	tei_list_init(&w->warmers);
	tei_list_init(&w->links);
	tei_list_init(&w->run);
	tei_list_init(&w->starving);
	w->retry.fn = retry_due;
	w->news_call.fn = news_came;
	w->gone_call.fn = gone_came;
	w->stand_by_call.fn = stand_by_came;
	w->pairs = tei_calloc(worker->n_rails, sizeof(*w->pairs));
	if (!w->pairs)
		return -ENOMEM;
	for (i = 0; i < worker->n_rails; i++) {
		tei_list_init(&w->pairs[i].slot);
		/* Only the worker that has the rail writes it. */
		w->pairs[i].held_until = &peer->held_until[i];
	}
	return 0;
}

int tei_peer_works_make(struct tei_peer *peer)
{
	struct te_engine *engine = peer->engine;
	uint32_t i;
	int rc = 0;

	peer->works = tei_calloc(engine->n_workers, sizeof(*peer->works));
	peer->held_until =
		tei_calloc(engine->worker->n_rails, sizeof(*peer->held_until));
	if (!peer->works || !peer->held_until)
		rc = -ENOMEM;
	for (i = 0; !rc && i < engine->n_workers; i++)
		rc = work_init(&peer->works[i], peer, &engine->worker[i]);
	if (rc)
		tei_peer_works_free(peer);
	return rc;
}

void tei_peer_works_free(struct tei_peer *peer)
{
	uint32_t i;

	for (i = 0; peer->works && i < peer->engine->n_workers; i++) {
		/* Where no link is left it may still have been set. */
		if (tei_heap_has(&peer->works[i].retry.node))
			tei_due_clear(peer->works[i].worker,
				      &peer->works[i].retry);
		tei_remote_put(peer->works[i].remote);
		tei_free(peer->works[i].pairs);
	}
	tei_free(peer->works);
	tei_free((void *)peer->held_until);
	peer->works = NULL;
	peer->held_until = NULL;
}

void tei_peer_run(struct tei_peer_work *peer)
{
	if (peer->runnable)
		return;
	peer->runnable = true;
	tei_list_add_tail(&peer->worker->runnable, &peer->run);
}

/* ---- asking control ---- */

static void post_asks(struct tei_peer *peer)
{
	if (!atomic_exchange(&peer->asks_posted, true))
		tei_loop_post(peer->engine->loop, &peer->asks_call);
}

void tei_peer_ask(struct tei_peer_work *peer, uint32_t asks)
{
	if (peer->self)
		return;
	atomic_fetch_or(&peer->of->asks, asks);
	post_asks(peer->of);
}

static void note_silent(struct tei_peer *peer, uint64_t number)
	TEI_REQUIRES(peer->engine->mu)
{
	uint32_t i = 0;

	while (i < peer->n_silent && peer->silent[i] != number)
		i++;
	if (i == peer->n_silent && i < TEI_PEER_GONE)
		peer->silent[peer->n_silent++] = number;
}

void tei_peer_ask_silent(struct tei_peer_work *peer, uint64_t number)
{
	struct tei_peer *of = peer->of;

	tei_mutex_lock(&of->engine->mu);
	note_silent(of, number);
	tei_mutex_unlock(&of->engine->mu);
	tei_peer_ask(peer, TEI_ASK_PROBE);
}

uint32_t tei_peer_take_silent(struct tei_peer *peer,
			      uint64_t numbers[TEI_PEER_GONE])
{
	uint32_t n;

	tei_mutex_lock(&peer->engine->mu);
	n = peer->n_silent;
	memcpy(numbers, peer->silent, n * sizeof(numbers[0]));
	peer->n_silent = 0;
	tei_mutex_unlock(&peer->engine->mu);
	return n;
}

void tei_peer_update_want(struct tei_peer_work *peer)
{
	bool want;

	/* Also where links work: they may not tell that the peer is dead. */
	want = !peer->self && !peer->up &&
	       (!tei_list_empty(&peer->active) ||
		!tei_list_empty(&peer->warmers));
	if (want == peer->wants)
		return;
	peer->wants = want;
	if (!want)
		atomic_fetch_sub(&peer->of->n_want, 1);
	else if (!atomic_fetch_add(&peer->of->n_want, 1))
		post_asks(peer->of);
}

/* ---- all requests of a peer, while any of them may end ---- */

/*
 * Ending one request may end others, so neither a position in the list nor
 * its successor is safe to keep: each is moved back before it is looked at.
 */
void tei_peer_each_active(struct tei_peer_work *peer,
			  void (*fn)(struct tei_request *r, int err), int err)
{
	struct tei_list all, *node;

	tei_list_init(&all);
	tei_list_splice_tail(&all, &peer->active);
	while ((node = tei_list_pop(&all))) {
		tei_list_add_tail(&peer->active, node);
		tei_cohort_each(
			tei_list_entry(node, struct tei_cohort, of_peer), fn,
			err);
	}
}

static void unpark(struct tei_peer_work *peer);

/* Other rails carry parts of requests with those that are paused. */
void tei_peer_detour(struct tei_peer_work *peer, uint32_t rail)
{
	const struct tei_rail *r = &peer->worker->rails[rail]->rail;

	if (!(r->ops->caps & TEI_CAP_ACROSS))
		return;
	peer->to_rematch = true;
	tei_peer_run(peer);
}

void tei_peer_rematch(struct tei_peer_work *peer)
{
	peer->to_rematch = false;
	tei_peer_each_active(peer, tei_request_rematch, 0);
	if (peer->elsewhere) /* some of them may go there */
		unpark(peer);
}

static bool awaits_a_link(const struct tei_request *r)
{
	if (r->op == TE_NOTIFY)
		return tei_notify_is_going(r->notify);
	if (r->n_redo || r->parked ||
	    (r->merged && r->merged->state == TEI_WORK_LIMBO))
		return true;
	tei_list_for_each (node, &r->works) {
		const struct tei_work *work =
			tei_list_entry(node, struct tei_work, of_request);

		if (work->state == TEI_WORK_LIMBO ||
		    (work->state == TEI_WORK_COPYING && !work->link &&
		     r->op == TE_WRITE))
			return true;
	}
	return r->cursor < r->length && !r->peer->n_up;
}

/* Tells whether another worker has a link: requests go to it, then. */
static bool is_up_elsewhere(const struct tei_peer_work *peer)
{
	bool up = false;

	for (uint32_t i = 0; i < peer->engine->n_workers; i++)
		if (i != peer->worker->index)
			up |= atomic_load_explicit(&peer->of->works[i].n_up,
						   memory_order_relaxed) > 0;
	return up;
}

static void fail_fast(struct tei_request *r, int err)
{
	if ((r->flags & TE_FAIL_FAST) && awaits_a_link(r))
		tei_request_abort(r, err);
}

/* Leaves those alone that go to another worker's link. */
static void fail_fast_here(struct tei_request *r, int err)
{
	if (!tei_request_rests(r) || !tei_request_better_part(r))
		fail_fast(r, err);
}

void tei_peer_fail_fast(struct tei_peer_work *peer, int err)
{
	tei_peer_each_active(peer,
			     is_up_elsewhere(peer) ? fail_fast_here : fail_fast,
			     tei_lost_error(err));
}

void tei_peer_abort_all(struct tei_peer_work *peer, int err)
{
	tei_peer_each_active(peer, tei_request_abort, err);
}

static void end_if_stale(struct tei_request *r, int err)
{
	const struct tei_peer_work *peer = r->peer;

	if (!r->life) /* waits for the first one */
		return;
	if (r->life != peer->life || (r->epoch && r->epoch != peer->epoch))
		tei_request_refuse(r, err);
}

/*
 * @settled: the owner has confirmed that nothing of the old epoch can land, so
 * what is in limbo is quiet as well.
 */
static void end_stale(struct tei_peer_work *peer, bool settled)
{
	tei_list_for_each_safe (node, tmp, &peer->links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		/* Whose halves are both ours is quiet when they are closed. */
		if (settled && !link->out.mate) {
			link->out.settled = true;
			tei_works_quiet(link);
		}
		tei_link_break(link, -ESTALE);
	}
	tei_peer_each_active(peer, end_if_stale, -ESTALE);
}

/*
 * The engine that listened there is gone, and the far ends of the links with
 * it. A single refusal may be the network's, so links that work are kept.
 */
static void end_refused(struct tei_peer_work *peer, bool absent)
{
	if (peer->n_up && !absent)
		return;
	tei_list_for_each_safe (node, tmp, &peer->links)
		tei_link_break(tei_list_entry(node, struct tei_link, link),
			       -ECONNREFUSED);
}

static void end_unmet(struct tei_request *r, int err)
{
	if (!r->life)
		tei_request_refuse(r, err);
}

/* Tells the others, too, unless what they know is newer. */
static void set_epoch_over(struct tei_peer_work *peer, uint64_t epoch)
{
	struct tei_announced *announced = &peer->of->announced;
	bool known;

	peer->epoch_over = epoch;
	tei_mutex_lock(&peer->engine->mu);
	known = announced->epoch == peer->epoch &&
		announced->epoch_over != epoch;
	if (known)
		announced->epoch_over = epoch;
	tei_mutex_unlock(&peer->engine->mu);
	if (known && peer->engine->n_workers > 1)
		tei_peer_post_news(peer->of);
}

void tei_peer_epoch_over(struct tei_peer_work *peer, uint64_t epoch)
{
	if (epoch == peer->epoch && epoch != peer->epoch_over)
		set_epoch_over(peer, epoch);
}

void tei_peer_epoch_goes_on(struct tei_peer_work *peer)
{
	if (peer->epoch == peer->epoch_over)
		set_epoch_over(peer, 0);
}

/* ---- the peer's description, taken over from control ---- */

static void unpark(struct tei_peer_work *peer)
{
	struct tei_list all, *node;

	tei_list_init(&all);
	tei_list_splice_tail(&all, &peer->parked);
	while ((node = tei_list_pop(&all))) {
		struct tei_request *r =
			tei_list_entry(node, struct tei_request, queue);

		if (!tei_request_may_leave(r))
			tei_request_admit(r);
	}
}

/* Rails of the peer that came or went may have left links to the wrong ones. */
static void leave_others(struct tei_peer_work *peer)
{
	tei_list_for_each (node, &peer->links) {
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

static void match(struct tei_peer_work *peer)
{
	if (!peer->remote)
		return;
	if (tei_pairs_match(peer)) {
		leave_others(peer);
		tei_peer_each_active(peer, tei_request_rematch, 0);
	}
	tei_unmatched_look(peer);
}

/* Takes over the caller's hold on @remote. */
static void replace_remote(struct tei_peer_work *peer,
			   struct tei_remote *remote)
{
	tei_remote_put(peer->remote);
	peer->remote = remote;
	peer->seen.region = NULL;
}

static void take_remote(struct tei_peer_work *peer, struct tei_remote *remote)
{
	if (remote == peer->remote) {
		tei_remote_put(remote);
		return;
	}
	replace_remote(peer, remote);
	match(peer);
}

void tei_peer_sync(struct tei_peer_work *peer)
{
	struct te_engine *engine = peer->engine;
	struct tei_peer_work *w = peer;
	struct tei_announced announced;
	bool new_life, new_epoch, new_fails, refused, absent;

	w->news = atomic_load_explicit(&peer->of->news, memory_order_acquire);
	tei_mutex_lock(&engine->mu);
	announced = peer->of->announced;
	if (announced.remote)
		tei_remote_get(announced.remote);
	tei_mutex_unlock(&engine->mu);

	new_life = announced.life != w->life;
	new_epoch = announced.epoch != w->epoch;
	new_fails = announced.fails != w->fails;
	refused = announced.refusals != w->refusals;
	absent = announced.absences != w->absences;
	w->life = announced.life;
	w->epoch = announced.epoch;
	w->epoch_over = announced.epoch_over;
	w->fails = announced.fails;
	w->refusals = announced.refusals;
	w->absences = announced.absences;
	w->fresh = announced.fresh;
	w->address = announced.address;
	w->up = announced.up;
	w->asked_with = UINT64_MAX;
	take_remote(peer, announced.remote);
	if (atomic_exchange(&peer->to_match, false))
		match(peer);
	if (new_life || new_epoch)
		end_stale(peer, !new_life);
	if (refused)
		end_refused(peer, absent);
	if (new_fails && tei_is_lost(announced.fail_err))
		tei_peer_fail_fast(peer, announced.fail_err);
	if (new_fails && announced.fail_final)
		tei_peer_each_active(peer, end_unmet, announced.fail_err);
	unpark(peer);
	tei_peer_run(peer);
}

static void rematch_peer(struct tei_peer_work *peer)
{
	match(peer);
	unpark(peer);
	tei_peer_run(peer);
}

void tei_peer_sync_self(struct tei_peer_work *peer)
{
	struct te_engine *engine = peer->engine;
	struct tei_remote *remote;

	if (peer->remote->version ==
	    atomic_load_explicit(&engine->regions->version,
				 memory_order_acquire))
		return;
	remote = tei_describe_self(engine);
	if (remote)
		replace_remote(peer, remote);
}

void tei_peer_link_gone(struct tei_peer *peer, uint64_t number, bool wanted)
{
	struct te_engine *engine = peer->engine;
	uint32_t n, index = tei_link_worker(number);
	struct tei_peer_work *w;

	if (index >= engine->n_workers) /* no number of ours */
		return;
	w = &peer->works[index];
	tei_mutex_lock(&engine->mu);
	n = w->n_gone;
	if (n < TEI_PEER_GONE) {
		w->gone[n] = number;
		w->gone_wanted[n] = wanted;
		w->n_gone++;
	}
	tei_mutex_unlock(&engine->mu);
	if (!n)
		tei_worker_post(w->worker, &w->gone_call);
}

void tei_peer_post_news(struct tei_peer *peer)
{
	uint32_t i;

	atomic_fetch_add_explicit(&peer->news, 1, memory_order_release);
	for (i = 0; i < peer->engine->n_workers; i++) {
		struct tei_peer_work *w = &peer->works[i];

		if (!atomic_exchange(&w->news_posted, true))
			tei_worker_post(w->worker, &w->news_call);
	}
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

/* Has submissions begin at workers of other rails: this one is of no use. */
static void favor_others(const struct tei_rail_box *box)
{
	struct te_engine *engine = box->rail.core->engine;
	struct tei_peer *peer = NULL;

	while ((peer = tei_peer_next(engine, peer)))
		tei_pairs_favor(&peer->works[box->worker->index]);
}

void tei_transfer_rail_lost(struct tei_rail_box *box, int err)
{
	tei_list_for_each_safe (node, tmp, &box->links) {
		tei_link_break(tei_list_entry(node, struct tei_link, of_rail),
			       err);
	}
	if (box->rail.core->engine->n_workers > 1)
		favor_others(box);
}

/* Has the other workers look at our rails again. */
static void match_elsewhere(struct tei_peer_work *peer)
{
	for (uint32_t i = 0; i < peer->engine->n_workers; i++)
		if (i != peer->worker->index)
			atomic_store(&peer->of->works[i].to_match, true);
	tei_peer_post_news(peer->of);
}

/*
 * Resets the breakers of the rail's pairs, since its link is up, and matches
 * them anew: the rail may reach other peers than before.
 */
void tei_transfer_rail_up(struct tei_rail_box *box)
{
	struct te_engine *engine = box->rail.core->engine;
	struct tei_peer *peer = NULL;

	while ((peer = tei_peer_next(engine, peer))) {
		struct tei_peer_work *w = &peer->works[box->worker->index];

		tei_breaker_reset(&w->pairs[box->rail.index].breaker);
		tei_health_show(w, box->rail.index);
		rematch_peer(w);
		if (engine->n_workers > 1)
			match_elsewhere(w);
	}
}

/* ---- te_segment_warm_up() ---- */

/*
 * A peer says what regions it has, and may say a million: so many are looked
 * at, and so many routes to them are kept apart. They are much alike.
 */
#define LOOK_MAX  1024u
#define REACH_MAX 16u

/* Sets of rails that reach a region, from the peer's description. */
struct reaches {
	const struct tei_remote *remote; /* not kept; only to be compared */
	uint64_t version;                /* of remote */
	uint64_t sets[REACH_MAX];
	uint32_t n;
};

/* A warm-up: lies on the stack of te_segment_warm_up(), which waits for it. */
struct tei_warmer {
	struct tei_list link; /* peer->warmers. Token, as all up to n_up */
	struct tei_call begin;
	struct tei_due due;
	struct tei_peer_work *peer;
	uint32_t life;
	uint64_t until; /* ns */
	uint64_t tried; /* rails: none is tried twice */
	bool alone;     /* whatever rails other workers have */
	struct reaches reaches;
	uint32_t n_up;
	bool done; /* guarded by engine->mu, as err */
	int err;
	struct tei_cond cond;
};

/* ---- token ---- */

/* Wakes the caller, in whose frame @m is: not to be touched after this. */
static void finish_warming(struct tei_warmer *m, int err)
{
	struct te_engine *engine = m->peer->engine;

	tei_list_del(&m->link);
	tei_due_clear(m->peer->worker, &m->due);
	tei_peer_update_want(m->peer);
	tei_mutex_lock(&engine->mu);
	m->err = err;
	m->done = true;
	tei_cond_signal(&m->cond);
	tei_mutex_unlock(&engine->mu);
}

static void too_late(struct tei_due *due)
{
	finish_warming(TEI_CONTAINER(due, struct tei_warmer, due), -ETIMEDOUT);
}

static void add_reach(struct reaches *reaches, uint64_t set)
{
	uint32_t i;

	for (i = 0; i < reaches->n; i++) {
		if (reaches->sets[i] == set)
			return;
	}
	if (reaches->n < REACH_MAX)
		reaches->sets[reaches->n++] = set;
	else
		reaches->sets[REACH_MAX - 1] |= set;
}

/* Finds the sets of pairs, once for each description: every run calls this. */
static void find_reaches(struct tei_warmer *m)
{
	const struct tei_remote *remote = m->peer->remote;
	size_t i, step = remote->n_regions / LOOK_MAX + 1;
	uint64_t reach, across, more;

	if (m->reaches.remote == remote &&
	    m->reaches.version == remote->version)
		return;
	m->reaches =
		(struct reaches){.remote = remote, .version = remote->version};
	for (i = 0; i < remote->n_regions; i += step) {
		reach = tei_pairs_that_reach(m->peer, remote,
					     &remote->regions[i], &across);
		reach |= tei_pairs_elsewhere(m->peer, remote,
					     &remote->regions[i], &more);
		across |= more;
		add_reach(&m->reaches, reach & ~across);
		if (across) /* for memory of GPUs */
			add_reach(&m->reaches, across);
	}
	if (!remote->n_regions)
		add_reach(&m->reaches, UINT64_MAX);
}

/*
 * Tells whether other workers have rails of @reach that are of a better backend
 * than @own: then requests go by those.
 */
static bool others_do_better(const struct tei_warmer *m, uint64_t reach,
			     uint64_t own)
{
	const struct tei_worker *w = m->peer->worker;
	uint64_t live = tei_pairs_live(m->peer, reach & m->peer->elsewhere);
	uint32_t t;

	for (t = 0; t < w->n_tiers && !((own | live) & w->tiers[t]); t++)
		;
	return !m->alone && t < w->n_tiers && !(own & w->tiers[t]);
}

/*
 * Returns the rails by which requests to any of its regions would go; if it has
 * none, all.
 */
static uint64_t wanted_rails(const struct tei_warmer *m)
{
	uint64_t wanted = 0;
	uint32_t i;

	for (i = 0; i < m->reaches.n; i++) {
		uint64_t own = tei_schedule_rails(m->peer, m->reaches.sets[i]);

		if (!others_do_better(m, m->reaches.sets[i], own))
			wanted |= own;
	}
	return wanted;
}

/* True: it is not known yet what becomes of it. */
static bool try_rail(struct tei_warmer *m, uint32_t rail)
{
	struct tei_peer_work *peer = m->peer;
	struct tei_pair *pair = &peer->pairs[rail];
	uint64_t bit = (uint64_t)1 << rail;

	if (!pair->link && !(m->tried & bit))
		tei_link_open(peer, rail);
	m->tried |= bit;
	if (pair->link && pair->link->out.state == TEI_LINK_UP)
		m->n_up++;
	return pair->link && pair->link->out.state != TEI_LINK_UP;
}

/* Tries the rails; where one has failed, others may be wanted instead. */
static bool try_rails(struct tei_warmer *m)
{
	uint64_t before, left;
	bool open;

	find_reaches(m);
	do {
		open = false;
		before = m->tried;
		m->n_up = 0;
		for (left = wanted_rails(m); left; left &= left - 1) {
			uint32_t rail = (uint32_t)__builtin_ctzll(left);

			open = try_rail(m, rail) || open;
		}
	} while (m->tried != before);
	return open;
}

static void advance_warmer(struct tei_warmer *m)
{
	struct tei_peer_work *peer = m->peer;

	if (m->life != peer->life)
		finish_warming(m, -ESTALE);
	else if (peer->up && !try_rails(m))
		finish_warming(m, 0);
}

void tei_warm_look(struct tei_peer_work *peer)
{
	tei_list_for_each_safe (node, tmp, &peer->warmers)
		advance_warmer(tei_list_entry(node, struct tei_warmer, link));
}

static void begin_expect(struct tei_call *call)
{
	struct tei_warmer *m = TEI_CONTAINER(call, struct tei_warmer, begin);
	struct tei_peer_work *peer = m->peer;

	if (atomic_load_explicit(&peer->of->news, memory_order_acquire) !=
	    peer->news)
		tei_peer_sync(peer);
	if (peer->self)
		tei_peer_sync_self(peer);
	tei_list_add_tail(&peer->warmers, &m->link);
	if (tei_due_set(peer->worker, &m->due, m->until)) {
		finish_warming(m, -ENOMEM);
		return;
	}
	tei_peer_update_want(peer);
	advance_warmer(m);
}

/* ---- any thread ---- */

static void begin_warming(struct tei_warmer *m)
{
	tei_list_init(&m->link);
	tei_cond_init(&m->cond);
	m->begin.fn = begin_expect;
	m->due.fn = too_late;
	tei_worker_post(m->peer->worker, &m->begin);
}

static int end_warming(struct tei_warmer *m, uint32_t *n_up)
{
	struct te_engine *engine = m->peer->engine;

	tei_mutex_lock(&engine->mu);
	while (!m->done)
		tei_worker_await(m->peer->worker, &m->cond, &engine->mu,
				 UINT64_MAX);
	tei_mutex_unlock(&engine->mu);
	tei_cond_fini(&m->cond);
	*n_up += m->n_up;
	return m->err;
}

/* Has all workers warm up; @alone: each without a look at the others. */
static int warm_all(struct tei_peer *peer, uint32_t life, uint64_t until,
		    bool alone, uint32_t *n_rails)
{
	struct tei_warmer warmers[TEI_WORKERS_MAX];
	uint32_t i, n = peer->engine->n_workers;
	int rc = 0, err;

	*n_rails = 0;
	for (i = 0; i < n; i++) {
		warmers[i] = (struct tei_warmer){.peer = &peer->works[i],
						 .life = life,
						 .until = until,
						 .alone = alone};
		begin_warming(&warmers[i]);
	}
	for (i = 0; i < n; i++) {
		err = end_warming(&warmers[i], n_rails);
		rc = rc ? rc : err;
	}
	return rc;
}

int tei_peer_warm_up(struct tei_peer *peer, uint32_t life, uint64_t until,
		     uint32_t *n_rails)
{
	int rc = warm_all(peer, life, until, false, n_rails);

	/* One may have counted on another, whose rails have failed. */
	if (!rc && !*n_rails && peer->engine->n_workers > 1)
		rc = warm_all(peer, life, until, true, n_rails);
	return rc;
}
