/* SPDX-License-Identifier: Apache-2.0 */
/* health.c - meters, breakers and the watch over links */
#include "te/transfer/health.h"

#include <errno.h>
#include <string.h>

#include "base/chance.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/net.h"
#include "te/core/engine.h"
#include "te/transfer/link.h"
#include "te/transfer/peer.h"
#include "te/transfer/rails.h"
#include "te/transfer/request.h"
#include "te/transfer/schedule.h"
#include "te/worker/worker.h"

#define HALF_LIFE     (5 * TEI_NS_PER_S)
#define DEVICE_PEERS  3u /* that blame it in a row */
#define DEVICE_WITHIN TEI_NS_PER_S

static struct tei_breaker_limits limits_of(const struct te_engine *engine)
{
	return (struct tei_breaker_limits){
		.pause_min = engine->config.pause_min * TEI_NS_PER_MS,
		.pause_max = engine->config.pause_max * TEI_NS_PER_MS,
		.half_life = HALF_LIFE,
	};
}

static uint64_t end_of(const struct tei_breaker *b)
{
	return b->state == TEI_BREAKER_CLOSED ? 0 : b->until;
}

void tei_health_show(struct tei_peer_work *peer, uint32_t rail)
{
	struct tei_pair *pair = &peer->pairs[rail];
	uint64_t until = end_of(&pair->breaker);

	if (pair->link && pair->link->out.overdue)
		until = UINT64_MAX;
	atomic_store_explicit(pair->held_until, until, memory_order_relaxed);
}

void tei_health_overdue(struct tei_link *link, bool overdue)
{
	if (link->out.overdue == overdue)
		return;
	link->out.overdue = overdue;
	tei_health_show(link->out.peer, link->rail->rail.index);
}

/* Shows a pause of the whole rail, or its end. */
static void show_rail(struct tei_rail_box *box)
{
	tei_rail_show(box);
	atomic_store_explicit(&box->held_until, end_of(&box->breaker),
			      memory_order_relaxed);
}

void tei_health_hold(struct tei_link *link)
{
	struct tei_worker *w = link->rail->worker;
	struct tei_breaker_limits limits = limits_of(link->engine);

	link->out.pair->err = link->why;
	tei_breaker_hold(&link->out.pair->breaker, w->now,
			 tei_chance(&w->chance), &limits);
	tei_health_show(link->out.peer, link->rail->rail.index);
}

void tei_health_refused(struct tei_peer_work *peer, uint32_t rail, int err)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	struct tei_worker *w = peer->worker;
	struct tei_breaker_limits limits = limits_of(peer->engine);

	if (tei_log_allowed(&limit))
		LOG_WARN("rail %s: open an endpoint to %s: %s",
			 w->rails[rail]->name, peer->name, strerror(-err));
	peer->pairs[rail].err = err;
	tei_breaker_fail(&peer->pairs[rail].breaker, w->now,
			 tei_chance(&w->chance), &limits);
	tei_health_show(peer, rail);
	tei_peer_detour(peer, rail);
}

/* ---- blame ---- */

static void blame_device(struct tei_link *link, int err)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	struct tei_rail_box *box = link->rail;
	struct tei_worker *w = link->rail->worker;
	struct tei_breaker_limits limits = limits_of(link->engine);

	if (box->good_at >= box->blamed_at ||
	    w->now - box->blamed_at > DEVICE_WITHIN) {
		box->n_blamed = 0;
		box->blamed_by = NULL;
	}
	box->blamed_at = w->now;
	if (box->blamed_by == link->out.peer)
		return;
	box->blamed_by = link->out.peer;
	if (++box->n_blamed < DEVICE_PEERS)
		return;
	tei_breaker_fail(&box->breaker, w->now, tei_chance(&w->chance),
			 &limits);
	show_rail(box);
	TEI_COUNT(link->engine, device_pauses);
	if (box->breaker.reported || !tei_log_allowed(&limit))
		return;
	LOG_WARN("rail %s: paused, it reaches no peer: %s", box->name,
		 strerror(-err));
	box->breaker.reported = true;
}

/* True: @err says nothing about the path between two rails. */
static bool is_no_fault(const struct tei_link *link, int err)
{
	return err == -ESTALE || err == -ECANCELED || err == -ENOTCONN ||
	       err == -ENETDOWN || link->rail->down || link->rail->dead;
}

static void tell_pause(struct tei_link *link, int err)
{
	LOG_WARN("rail %s: paused towards %s: %s", link->rail->name,
		 link->out.peer->name, strerror(-err));
	link->out.pair->breaker.reported = true;
}

void tei_health_blame(struct tei_link *link, int err)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	struct tei_breaker *b = &link->out.pair->breaker;
	struct tei_worker *w = link->rail->worker;
	struct tei_breaker_limits limits = limits_of(link->engine);
	uint8_t state = b->state;

	if (is_no_fault(link, err))
		return;
	tei_breaker_fail(b, w->now, tei_chance(&w->chance), &limits);
	tei_peer_detour(link->out.peer, link->rail->rail.index);
	TEI_COUNT(link->engine, pair_pauses);
	if (state == TEI_BREAKER_CLOSED)
		b->state = state; /* it works again; only remember */
	else if (!b->reported && tei_log_allowed(&limit))
		tell_pause(link, err);
	tei_health_show(link->out.peer, link->rail->rail.index);
	if (!link->out.peer->self && !tei_is_shortage(err) && err != -EREMOTEIO)
		blame_device(link, err);
}

/* ---- praise ---- */

static void device_proven(struct tei_rail_box *box)
{
	if (!tei_breaker_good(&box->breaker))
		return;
	show_rail(box);
	if (box->breaker.reported)
		LOG_WARN("rail %s: in use again", box->name);
	box->breaker.reported = false;
}

void tei_health_proven(struct tei_link *link)
{
	struct tei_breaker *b = &link->out.pair->breaker;

	device_proven(link->rail);
	if (!tei_breaker_good(b))
		return;
	tei_health_show(link->out.peer, link->rail->rail.index);
	TEI_COUNT(link->engine, pair_returns);
	if (b->reported)
		LOG_WARN("rail %s: in use again towards %s", link->rail->name,
			 link->out.peer->name);
	b->reported = false;
	tei_peer_run(link->out.peer);
}

bool tei_health_lets(struct tei_peer_work *peer, uint32_t rail, uint64_t *until)
{
	struct tei_rail_box *box = peer->worker->rails[rail];
	struct tei_breaker *b = &peer->pairs[rail].breaker;
	uint64_t now = peer->worker->now;
	bool device = tei_breaker_lets(&box->breaker, now);
	bool pair = tei_breaker_lets(b, now);

	if (!device && box->breaker.until < *until)
		*until = box->breaker.until;
	if (!pair && b->until < *until)
		*until = b->until;
	return device && pair;
}

/* ---- rate and delay of a rail towards a peer ---- */

#define SAMPLE     TEI_NS_PER_MS       /* at least, while it is busy */
#define SAMPLE_MIN ((uint64_t)1 << 16) /* bytes; fewer say nothing */
#define MEMORY     (2 * TEI_NS_PER_MS) /* of the average, while busy */
#define REMEMBER   TEI_NS_PER_S        /* of disuse: all is known */
#define FORGET     (8 * TEI_NS_PER_S)  /* of disuse: nothing is known */
#define DELAY_MAX  (100 * TEI_NS_PER_MS)

void tei_meter_start(struct tei_meter *m)
{
	m->running = false;
	m->busy_since = m->busy_bytes = 0;
}

static uint64_t time_of(uint64_t bytes, uint64_t rate)
{
	return (uint64_t)((double)bytes * (double)TEI_NS_PER_S / (double)rate);
}

/* The new value weighs by its share of the time that is remembered. */
static void mix(struct tei_meter *m, uint64_t bytes, uint64_t elapsed,
		bool guess)
{
	double seen =
		(double)bytes * (double)TEI_NS_PER_S / (double)elapsed + 1;
	double weight = (double)elapsed / (double)(elapsed + MEMORY);
	double old = (double)m->rate;

	if (!m->rate || (m->guess && !guess))
		weight = 1;
	m->rate = (uint64_t)(old + (seen - old) * weight);
	m->guess = guess;
	if (!guess && m->rate > m->peak)
		m->peak = m->rate;
}

/* ---- delay ---- */

static void tell_delay(struct tei_meter *m)
{
	uint64_t moving = time_of(m->lone_bytes, m->rate);
	uint64_t delay = m->lone_took > moving ? m->lone_took - moving : 0;

	m->lone_took = 0;
	if (delay > DELAY_MAX)
		delay = DELAY_MAX;
	if (!m->delay)
		m->delay = delay;
	else
		m->delay += delay / 8 - m->delay / 8;
}

void tei_meter_lone(struct tei_meter *m, uint64_t now, uint64_t posted,
		    uint64_t bytes)
{
	/* Other slices may have been done since: they overtook this one. */
	if (posted > m->used_at && posted - m->used_at >= REMEMBER)
		m->delay = 0; /* what is seen now counts alone */
	m->lone_took = now - posted;
	m->lone_bytes = bytes;
	m->busy_since = posted;
	if (!m->lone_took)
		return;
	if (m->rate && !m->guess)
		tell_delay(m);
	else if (bytes >= SAMPLE_MIN)
		mix(m, bytes, m->lone_took, true);
}

/* ---- rate ---- */

static void take_sample(struct tei_meter *m)
{
	if (m->bytes < SAMPLE_MIN || m->last == m->since)
		return;
	m->busy_since = 0;
	mix(m, m->bytes, m->last - m->since, false);
	if (m->lone_took)
		tell_delay(m);
}

/*
 * Slices that are done all at one instant give no sample, but they show how
 * fast the rail is at least. Without that a rate once measured too low would
 * stay: a rail that is thought slow gets little, and has done it all at once.
 */
static void raise_rate(struct tei_meter *m)
{
	double least = (double)m->busy_bytes * (double)TEI_NS_PER_S /
		       (double)(m->last - m->busy_since);

	if (least > (double)m->rate)
		m->rate = (uint64_t)least;
}

static void begin_sample(struct tei_meter *m, uint64_t at)
{
	m->since = m->last = at;
	m->bytes = 0;
}

void tei_meter_settle(struct tei_meter *m)
{
	if (!m->running || m->last - m->since < SAMPLE)
		return;
	take_sample(m);
	begin_sample(m, m->last);
}

/*
 * Slices that are done at one instant were moved before it: they belong to the
 * sample that ends there, which is closed only when a later slice is done.
 */
void tei_meter_done(struct tei_meter *m, uint64_t now, uint64_t bytes,
		    bool busy)
{
	m->used_at = now;
	m->busy_bytes += bytes;
	if (!m->running) {
		begin_sample(m, now);
		m->running = busy;
		return;
	}
	if (now > m->last)
		tei_meter_settle(m);
	if (now > m->since)
		m->bytes += bytes;
	m->last = now;
	if (busy)
		return;
	take_sample(m);
	if (m->busy_since)
		raise_rate(m);
	m->running = false;
}

void tei_meter_stalled(struct tei_meter *m)
{
	m->rate = m->rate > 4 ? m->rate / 4 : 1;
	m->running = false;
}

/* Returns what is left of @measured after @idle, ns, and has become @prior. */
static uint64_t faded(uint64_t measured, uint64_t prior, uint64_t idle)
{
	double part = (double)idle / (double)FORGET;

	if (idle >= FORGET)
		return prior;
	if (idle < REMEMBER)
		return measured;
	return (uint64_t)((double)measured +
			  ((double)prior - (double)measured) * part);
}

uint64_t tei_meter_rate(const struct tei_meter *m, uint64_t now, uint64_t prior)
{
	uint64_t idle = now - m->used_at;

	if (!m->rate || idle >= FORGET)
		return prior;
	return prior ? faded(m->rate, prior, idle) : m->rate;
}

uint64_t tei_meter_delay(const struct tei_meter *m, uint64_t now,
			 uint64_t prior)
{
	return prior < m->delay ? faded(m->delay, prior, now - m->used_at)
				: m->delay;
}

/* ---- links that owe something and do not move ---- */

/*
 * A link is silent when nothing of it was done for a while though something is
 * posted. While another link to the peer works, a silent one is broken: its
 * slices go there once the peer has confirmed that nothing more can land. Links
 * of other workers count as well, and are opened when one of ours is silent;
 * requests go to the worker of one (request.c). If it is the only one the peer
 * is just suspected, and asked over control whether it lives and has its half
 * of the link still: slow is not dead, and requests have their deadlines. Where
 * nobody listens any more all its links are broken (peer.c). Links that are
 * missing are opened then: one that comes up can take its place.
 *
 * A link whose last slices take several times as long as its rate lets expect
 * holds up the end of a transfer. When others have nothing left to do, it is
 * broken as well, at most once in a while.
 */

#define LOOK      (25 * TEI_NS_PER_MS) /* with others up: so often */
#define GRACE     (10 * TEI_NS_PER_MS) /* for what is done but not seen yet */
#define SLOW      (10 * TEI_NS_PER_MS) /* at least, to be called slow */
#define SLOW_BY   4u                   /* times what was to be expected */
#define SLOW_WAIT TEI_NS_PER_S         /* between two such of a pair */

#define GRACE_SLOW (2 * TEI_NS_PER_MS)

/* Links to the same peer that work, with something posted or without. */
static bool has_other(const struct tei_link *link, bool idle)
{
	const struct tei_peer_work *peer = link->out.peer;
	const struct te_engine *engine = link->engine;
	uint64_t now = link->rail->worker->now;
	uint64_t patience = engine->config.reroute_after * TEI_NS_PER_MS;
	uint32_t i;

	for (i = 0; i < engine->worker->n_rails; i++) {
		const struct tei_link *other = peer->pairs[i].link;

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

	if (link->out.peer->n_up < 2 || !m->rate)
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
	uint64_t now = link->rail->worker->now;
	uint64_t next = now + (reroute < LOOK ? reroute : LOOK);
	uint64_t late = oldest(link)->late_at;

	/* Links of others need no such haste, which has the thread woken up. */
	if (link->out.peer->n_up < 2)
		return now + (link->out.peer->elsewhere
				      ? reroute / 2
				      : config->suspect_after * TEI_NS_PER_MS);
	return late > now && late < next ? late : next;
}

void tei_link_count_busy(struct tei_link *link, int by)
{
	_Atomic uint32_t *owing = &link->out.peer->n_owing;
	uint32_t n = atomic_load_explicit(owing, memory_order_relaxed);

	link->rail->n_busy += (uint32_t)by;
	/* Nobody else writes it. */
	atomic_store_explicit(owing, n + (uint32_t)by, memory_order_relaxed);
}

void tei_link_watch(struct tei_link *link)
{
	struct tei_worker *w = link->rail->worker;

	if (!tei_heap_has(&link->out.due.node))
		tei_due_set(w, &link->out.due, next_look(link));
}

void tei_links_watch_again(struct tei_peer_work *peer)
{
	struct tei_worker *w = peer->worker;
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		struct tei_link *link = peer->pairs[i].link;

		if (link && link->out.state == TEI_LINK_UP &&
		    link->out.n_posted)
			tei_due_set(w, &link->out.due, next_look(link));
	}
}

/* ---- silent ---- */

void tei_endpoint_moved(struct tei_endpoint *ep)
{
	struct tei_link *link = ep->link;
	struct tei_peer_work *peer = link->out.peer;

	if (ep->target)
		return;
	atomic_store_explicit(&peer->moved_at, link->rail->worker->now,
			      memory_order_relaxed);
	if (peer->elsewhere &&
	    atomic_load_explicit(&peer->of->tried, memory_order_relaxed))
		atomic_store_explicit(&peer->of->tried, 0,
				      memory_order_relaxed);
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
	tei_peer_ask_silent(link->out.peer, link->number);
	tei_schedule_links(link->out.peer);
}

/*
 * Looked at twice, with a round of progress in between: it may be that this
 * process was not run for a while.
 */
static bool is_silent(struct tei_link *link, uint64_t now)
{
	uint64_t patience = link->engine->config.reroute_after * TEI_NS_PER_MS;
	uint64_t since = link->out.moved_at;

	if (now - since < patience) {
		link->out.doubted_at = 0;
		return false;
	}
	if (now - patience > since)
		since = now - patience;
	if (!has_other(link, false) &&
	    !tei_elsewhere_works(link->out.peer, link->rail, since)) {
		link->out.doubted_at = 0;
		tei_elsewhere_stand_by(link->out.peer, link->rail->tier);
		return false;
	}
	if (link->out.doubted_at <= link->out.moved_at)
		link->out.doubted_at = now;
	return now - link->out.doubted_at >= GRACE;
}

/* ---- slow ---- */

/*
 * Tells whether a link is slow: nothing waits, others have nothing to do, and
 * its oldest slice is late.
 */
static bool is_slow(struct tei_link *link, uint64_t now)
{
	const struct tei_pair *pair = link->out.pair;

	if (now < oldest(link)->late_at ||
	    (pair->slow_at && now - pair->slow_at < SLOW_WAIT) ||
	    !tei_queue_empty(&link->out.peer->queue) ||
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
		atomic_fetch_or_explicit(&link->out.peer->of->tried,
					 (uint64_t)1 << link->rail->rail.index,
					 memory_order_relaxed);
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
	struct tei_worker *w = link->rail->worker;
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
	/* Slices that the link has not moved by now may go over others. */
	if (!tei_queue_empty(&link->out.peer->queue))
		tei_peer_run(link->out.peer);
}
