/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.c - links as initiator: opened, used, broken, dropped */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/common/engine.h"
#include "te/transfer/health.h"
#include "te/transfer/link.h"
#include "te/transfer/peer.h"
#include "te/transfer/slots.h"
#include "te/transfer/transfer.h"
#include "te/transfer/work.h"
#include "te/worker/worker.h"

#define POST_MAX 64

struct tei_link *tei_link_make(struct te_engine *engine,
			       struct tei_rail_box *rail)
{
	struct tei_link *link;

	link = tei_calloc(1, sizeof(*link) + rail->rail.ops->endpoint_size);
	if (!link)
		return NULL;
	link->engine = engine;
	link->rail = rail;
	link->ep.rail = &rail->rail;
	link->ep.link = link;
	tei_list_init(&link->link);
	tei_list_init(&link->of_rail);
	tei_list_init(&link->broken);
	tei_list_init(&link->out.ready);
	tei_list_init(&link->out.posted);
	tei_list_init(&link->out.limbo);
	tei_list_init(&link->out.asked);
	tei_list_init(&link->in.droppers);
	return link;
}

void tei_link_free(struct tei_link *link)
{
	tei_free(link);
}

/* ---- opening ---- */

static void answered(struct tei_call *call);

static void set_up(struct tei_link *link, struct tei_peer *peer,
		   struct tei_pair *pair)
{
	struct tei_worker *w = peer->engine->worker;

	link->number = ++w->next_number;
	link->out.peer = peer;
	link->out.pair = pair;
	link->out.life = peer->w.life;
	link->out.remote_pos = pair->remote_pos;
	link->out.remote_rail = pair->remote_rail;
	link->out.state = TEI_LINK_ASKING;
	link->out.moved_at = w->now;
	link->out.due.fn = tei_link_due;
	link->out.ask.fn = link->engine->transfer->messages->connect;
	link->out.answer.fn = answered;
	link->ep.epoch = peer->w.epoch;
	link->ep.peer = peer->w.address;
	tei_address_set_port(&link->ep.peer, 0);
}

void tei_link_open(struct tei_peer *peer, uint32_t rail)
{
	struct te_engine *engine = peer->engine;
	struct tei_rail_box *box = engine->worker->rails[rail];
	const struct tei_backend_ops *ops = box->rail.ops;
	struct tei_pair *pair = &peer->w.pairs[rail];
	struct tei_link *link;
	int rc = -ENOMEM;

	if (!tei_slots_let(peer, rail))
		return;
	link = tei_link_make(engine, box);
	if (!link)
		goto fail;
	set_up(link, peer, pair);
	link->out.address_len = TEI_BLOB_MAX;
	rc = ops->endpoint_open(&link->ep, link->out.address,
				&link->out.address_len);
	if (rc)
		goto fail;
	link->open = true;
	tei_list_add_tail(&box->links, &link->of_rail);
	tei_slots_opened(link);
	tei_list_add_tail(&peer->w.links, &link->link);
	pair->link = link;
	if (peer->self)
		tei_self_connect(link);
	else
		tei_loop_post(engine->loop, &link->out.ask);
	return;

fail:
	tei_link_free(link);
	if (rc == -ENOBUFS)
		tei_slots_short(box);
	tei_health_refused(peer, rail, rc);
}

/* The owner's half is there, or is not to be had. Token. */
static void answered(struct tei_call *call)
{
	struct tei_link *link =
		TEI_CONTAINER(call, struct tei_link, out.answer);
	struct tei_worker *w = link->engine->worker;
	int err = link->out.err;

	link->out.accepted = !err;
	link->out.state = TEI_LINK_CONNECTING;
	if (!err)
		err = link->out.doomed;
	if (!err)
		err = link->ep.rail->ops->endpoint_connect(
			&link->ep, link->out.address, link->out.address_len);
	if (!err) {
		tei_endpoint_up(&link->ep);
		return;
	}
	if (err == -EINPROGRESS)
		err = tei_due_set(w, &link->out.due,
				  w->now +
					  link->engine->config.connect_timeout *
						  TEI_NS_PER_MS);
	if (err)
		tei_link_break(link, err);
}

void tei_self_connected(struct tei_link *link, int err)
{
	link->out.err = err;
	answered(&link->out.answer);
}

void tei_endpoint_up(struct tei_endpoint *ep)
{
	struct tei_link *link = ep->link;
	struct tei_worker *w = link->engine->worker;

	if (ep->target) {
		tei_due_clear(w, &link->in.due);
		return;
	}
	if (link->out.state != TEI_LINK_CONNECTING)
		return;
	link->out.state = TEI_LINK_UP;
	link->out.was_up = true;
	tei_slots_up(link);
	tei_due_clear(w, &link->out.due);
	if (link->out.peer->w.n_up++)
		tei_links_watch_again(link->out.peer);
	TEI_COUNT(link->engine, links_up);
	LOG_DEBUG("peer %s: endpoint %llu up on %s", link->out.peer->name,
		  (unsigned long long)link->number, link->rail->name);
	tei_peer_run(link->out.peer);
}

void tei_endpoint_down(struct tei_endpoint *ep, int err)
{
	tei_link_break(ep->link, err);
}

/* ---- posting ---- */

/* The link was idle and is not any more. */
static void begin_busy(struct tei_link *link)
{
	struct tei_work *first =
		tei_list_entry(link->out.posted.next, struct tei_work, of_link);
	uint64_t now = link->engine->worker->now;

	first->lone = true;
	link->rail->n_busy++;
	link->out.moved_at = now;
	tei_meter_start(&link->out.pair->meter);
	tei_link_watch(link);
}

static void mark_posted(struct tei_link *link, int n)
{
	uint64_t now = link->engine->worker->now;
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
	TEI_COUNT_OWN(link->engine, slices, (uint64_t)n);
	if (idle)
		begin_busy(link);
}

void tei_link_post(struct tei_link *link)
{
	struct tei_slice *slices[POST_MAX];
	int taken, n = 0;

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

/* ---- the end ---- */

void tei_link_break(struct tei_link *link, int why)
{
	struct tei_worker *w = link->engine->worker;

	if (!link->open || link->flushing || !tei_list_empty(&link->broken))
		return;
	if (!link->ep.target && link->out.state == TEI_LINK_ASKING) {
		link->out.doomed = why; /* control has it just now */
		return;
	}
	if (!link->ep.target && link->out.state >= TEI_LINK_BROKEN)
		return; /* it is just being closed */
	link->why = why;
	tei_list_add_tail(&w->broken, &link->broken);
	if (link->ep.target)
		return;
	if (link->out.state == TEI_LINK_UP)
		link->out.peer->w.n_up--;
	link->out.state = TEI_LINK_BROKEN;
	LOG_DEBUG("peer %s: endpoint %llu on %s: %s", link->out.peer->name,
		  (unsigned long long)link->number, link->rail->name,
		  strerror(-why));
}

bool tei_link_flush(struct tei_link *link)
{
	int why = link->why ? link->why : -ECANCELED;

	if (!link->flushing) {
		link->flushing = true;
		link->flushed = !link->ep.rail->ops->flush(&link->ep, why);
	}
	return link->flushed;
}

void tei_endpoint_flushed(struct tei_endpoint *ep)
{
	struct tei_link *link = ep->link;

	assert(link->flushing && !link->flushed);
	link->flushed = true;
	if (ep->target && link->in.self_of)
		link = link->in.self_of;
	if (tei_list_empty(&link->broken))
		tei_list_add_tail(&link->engine->worker->broken, &link->broken);
}

/* Until when somebody is interested in the drop: the last deadline. */
static uint64_t drop_until(const struct tei_link *link)
{
	uint64_t until = 0;

	tei_list_for_each (node, &link->out.limbo) {
		struct tei_work *work =
			tei_list_entry(node, struct tei_work, of_link);

		if (work->request->deadline > until)
			until = work->request->deadline;
	}
	return until;
}

static void retire(struct tei_link *link)
{
	assert(tei_list_empty(&link->out.limbo));
	tei_list_del(&link->link);
	tei_link_free(link);
}

/* Control has asked the owner to drop it, or has given up. Token. */
static void dropped(struct tei_call *call)
{
	struct tei_link *link =
		TEI_CONTAINER(call, struct tei_link, out.answer);

	if (!link->out.err) {
		tei_health_blame(link, link->why);
		tei_works_quiet(link);
	} else {
		tei_works_lost(link);
	}
	retire(link);
}

static void ask_drop(struct tei_link *link)
{
	link->out.state = TEI_LINK_DROPPING;
	link->out.drop_until = drop_until(link);
	link->out.ask.fn = link->engine->transfer->messages->drop;
	link->out.answer.fn = dropped;
	TEI_COUNT(link->engine, drops_asked);
	tei_loop_post(link->engine->loop, &link->out.ask);
}

/*
 * Links that end because we or the owner want it so say nothing of the way
 * between them, and may be opened again at once.
 */
static void assess(struct tei_link *link, bool confirms)
{
	bool wanted = link->why == -ESTALE || link->why == -ECANCELED;

	if (!(wanted && link->out.was_up))
		tei_health_hold(link);
	if (!confirms && link->out.peer->w.up)
		tei_health_blame(link, link->why);
}

/* The owner has a half of it, and its word is needed that it is dropped. */
static bool must_confirm(const struct tei_link *link)
{
	const struct tei_peer *peer = link->out.peer;

	return link->out.accepted && !link->out.settled && !peer->self &&
	       link->out.life == peer->w.life;
}

static void fail_fast(struct tei_link *link)
{
	if (tei_is_lost(link->why))
		tei_peer_fail_fast(link->out.peer, link->why);
}

/* What it has not taken goes other ways, at once. */
static void part_with(struct tei_link *link)
{
	struct tei_worker *w = link->engine->worker;
	struct tei_pair *pair = link->out.pair;

	tei_works_of_broken(link);
	tei_due_clear(w, &link->out.due);
	tei_due_clear(w, &link->out.part);
	if (pair->link == link)
		pair->link = NULL;
	assess(link, must_confirm(link));
	fail_fast(link);
	tei_peer_run(link->out.peer);
}

static bool flush_halves(struct tei_link *link)
{
	struct tei_link *mate = link->out.mate;
	bool flushed = tei_link_flush(link);

	return (!mate || tei_link_flush(mate)) && flushed;
}

static void close_initiator(struct tei_link *link)
{
	bool first = !link->flushing, flushed = flush_halves(link);

	if (first)
		part_with(link);
	if (!flushed)
		return;
	assert(!link->out.n_posted);
	if (!first) /* what has come back since */
		fail_fast(link);
	link->ep.rail->ops->endpoint_close(&link->ep);
	link->open = false;
	tei_list_del(&link->of_rail);
	tei_slots_closed(link);
	TEI_COUNT(link->engine, links_down);
	if (link->out.mate) {
		tei_self_close(link);
		tei_works_quiet(link);
	}
	if (must_confirm(link))
		ask_drop(link);
	else
		retire(link);
}

bool tei_links_close_broken(struct tei_worker *w)
{
	struct tei_list *node;
	bool any = false;

	while ((node = tei_list_pop(&w->broken))) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, broken);

		if (link->ep.target)
			tei_target_close(link);
		else
			close_initiator(link);
		any = true;
	}
	return any;
}

void tei_peer_end_links(struct tei_peer *peer)
{
	tei_peer_abort_all(peer, -ECANCELED);
	tei_links_close_broken(peer->engine->worker);
	tei_list_for_each_safe (node, tmp, &peer->w.links) {
		struct tei_link *link =
			tei_list_entry(node, struct tei_link, link);

		link->out.accepted = false; /* nobody is left to ask */
		if (!link->open) {
			retire(link);
		} else if (!link->flushing) {
			link->why = -ECANCELED;
			if (link->out.state == TEI_LINK_UP)
				peer->w.n_up--;
			link->out.state = TEI_LINK_BROKEN;
			close_initiator(link);
		}
	}
}
