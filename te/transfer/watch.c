/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c - links that owe something and do not move
 *
 * A link is silent when nothing of it was done for a while though something
 * is posted. While another link to the peer works, a silent one is broken:
 * its slices go there once the peer has confirmed that nothing more can land.
 * If it is the only one the peer is just suspected, and asked over control
 * whether it lives: slow is not dead, and requests have their deadlines. Where
 * nobody listens any more all its links are broken (peer_work.c). Links that are
 * missing are opened then: one that comes up can take its place.
 *
 * A link whose last slices take several times as long as its rate lets expect
 * holds up the end of a transfer. When others have nothing left to do, it is
 * broken as well, at most once in a while.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "te/common/engine.h"
#include "te/transfer/fill.h"
#include "te/transfer/link.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/worker/worker.h"

#define LOOK      (25 * TEI_NS_PER_MS) /* with others up: so often */
#define GRACE     (10 * TEI_NS_PER_MS) /* for what is done but not seen yet */
#define SLOW      (10 * TEI_NS_PER_MS) /* at least, to be called slow */
#define SLOW_BY   4u                   /* times what was to be expected */
#define SLOW_WAIT TEI_NS_PER_S         /* between two such of a pair */

#define GRACE_SLOW (2 * TEI_NS_PER_MS)

/* Links to the same peer that work, with something posted or without. */
static bool has_other(const struct tei_link *link, bool idle)
{
	const struct tei_peer *peer = link->out.peer;
	const struct te_engine *engine = link->engine;
	uint64_t now = engine->worker->now;
	uint64_t patience = engine->config.reroute_after * TEI_NS_PER_MS;
	uint32_t i;

	for (i = 0; i < engine->worker->n_rails; i++) {
		const struct tei_link *other = peer->w.pairs[i].link;

		if (!other || other == link || other->out.state != TEI_LINK_UP)
			continue;
		if (!other->out.n_posted ||
		    (!idle && now - other->out.moved_at < patience))
			return true;
	}
	return false;
}

uint64_t tei_link_late(const struct tei_link *link, uint64_t now)
{
	const struct tei_meter *m = &link->out.pair->meter;
	uint64_t slow = 0;

	if (link->out.peer->w.n_up < 2 || !m->rate)
		return UINT64_MAX;
	slow = SLOW_BY * ((uint64_t)((double)link->out.bytes *
				     (double)TEI_NS_PER_S / (double)m->rate) +
			  m->delay);
	return now + (slow > SLOW ? slow : SLOW);
}

static const struct tei_work *oldest(const struct tei_link *link)
{
	return tei_list_entry(link->out.posted.next, struct tei_work, of_link);
}

static uint64_t next_look(const struct tei_link *link)
{
	const struct tei_config *config = &link->engine->config;
	uint64_t reroute = config->reroute_after * TEI_NS_PER_MS;
	uint64_t now = link->engine->worker->now;
	uint64_t next = now + (reroute < LOOK ? reroute : LOOK);
	uint64_t late = oldest(link)->late_at;

	if (link->out.peer->w.n_up < 2)
		return now + config->suspect_after * TEI_NS_PER_MS;
	return late > now && late < next ? late : next;
}

void tei_link_watch(struct tei_link *link)
{
	struct tei_worker *w = link->engine->worker;

	if (!tei_heap_has(&link->out.due.node))
		tei_due_set(w, &link->out.due, next_look(link));
}

void tei_links_watch_again(struct tei_peer *peer)
{
	struct tei_worker *w = peer->engine->worker;
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		struct tei_link *link = peer->w.pairs[i].link;

		if (link && link->out.state == TEI_LINK_UP &&
		    link->out.n_posted)
			tei_due_set(w, &link->out.due, next_look(link));
	}
}

/* ---- silent ---- */

void tei_endpoint_moved(struct tei_endpoint *ep)
{
	struct tei_link *link = ep->link;

	if (!ep->target)
		link->out.peer->w.moved_at = link->engine->worker->now;
}

static void suspect(struct tei_link *link, uint64_t now)
{
	uint64_t patience = link->engine->config.suspect_after * TEI_NS_PER_MS;

	if (now - link->out.moved_at < patience ||
	    now - link->out.suspected_at < patience)
		return;
	link->out.suspected_at = now;
	TEI_COUNT(link->engine, suspects);
	LOG_DEBUG("peer %s: silent though data is owed", link->out.peer->name);
	tei_peer_ask(link->out.peer, TEI_ASK_PROBE);
	tei_fill_widen(link->out.peer);
}

/*
 * Looked at twice, with a round of progress in between: it may be that this
 * process was not run for a while.
 */
static bool is_silent(struct tei_link *link, uint64_t now)
{
	uint64_t patience = link->engine->config.reroute_after * TEI_NS_PER_MS;

	if (now - link->out.moved_at < patience || !has_other(link, false)) {
		link->out.doubted_at = 0;
		return false;
	}
	if (link->out.doubted_at <= link->out.moved_at)
		link->out.doubted_at = now;
	return now - link->out.doubted_at >= GRACE;
}

/* ---- slow ---- */

/* Nothing waits, others have nothing to do, and its oldest slice is late. */
static bool is_slow(struct tei_link *link, uint64_t now)
{
	const struct tei_pair *pair = link->out.pair;

	if (now < oldest(link)->late_at ||
	    (pair->slow_at && now - pair->slow_at < SLOW_WAIT) ||
	    !tei_queue_empty(&link->out.peer->w.queue) ||
	    !has_other(link, true)) {
		link->out.late_since = 0;
		return false;
	}
	if (!link->out.late_since)
		link->out.late_since = now;
	return now - link->out.late_since >= GRACE_SLOW;
}

static void give_up(struct tei_link *link, uint64_t now, bool silent)
{
	LOG_DEBUG("peer %s: %s is %s, its part goes elsewhere",
		  link->out.peer->name, link->rail->name,
		  silent ? "silent" : "slow");
	if (silent) {
		TEI_COUNT(link->engine, given_up_silent);
	} else {
		TEI_COUNT(link->engine, given_up_slow);
		link->out.pair->slow_at = now;
	}
	tei_meter_stalled(&link->out.pair->meter);
	tei_link_break(link, -ETIMEDOUT);
}

static uint64_t look_again(const struct tei_link *link, uint64_t now)
{
	if (link->out.late_since)
		return now + GRACE_SLOW;
	if (link->out.doubted_at > link->out.moved_at)
		return now + GRACE;
	return next_look(link);
}

void tei_link_due(struct tei_due *due)
{
	struct tei_link *link = TEI_CONTAINER(due, struct tei_link, out.due);
	struct tei_worker *w = link->engine->worker;
	bool silent, slow;

	if (link->out.state == TEI_LINK_CONNECTING) {
		tei_link_break(link, -ETIMEDOUT);
		return;
	}
	if (link->out.state != TEI_LINK_UP || !link->out.n_posted)
		return;
	silent = is_silent(link, w->now);
	slow = !silent && is_slow(link, w->now);
	if (silent || slow) {
		give_up(link, w->now, silent);
		return;
	}
	suspect(link, w->now);
	tei_due_set(w, due, look_again(link, w->now));
	/* What it has not moved by now may go by others. */
	if (!tei_queue_empty(&link->out.peer->w.queue))
		tei_peer_run(link->out.peer);
}
