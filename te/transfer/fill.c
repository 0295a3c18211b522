/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fill.c - which part of which request goes to which of a peer's links next
 *
 * Backends stand in tiers, in their order of preference. A request goes by the
 * first tier that reaches its region and has a pair in health, connected or
 * still about to be; the tiers after it stand by and are not even connected.
 * Pairs that are on trial get one small slice, and what they have shown decides.
 */
#include "te/transfer/fill.h"

#include "base/clock.h"
#include "te/common/engine.h"
#include "te/transfer/health.h"
#include "te/transfer/link.h"
#include "te/transfer/merge.h"
#include "te/transfer/near.h"
#include "te/transfer/peer.h"
#include "te/transfer/plan.h"
#include "te/transfer/work.h"
#include "te/worker/worker.h"

#define READY_MAX   64u /* the first half is on its way while the next is cut */
#define TRIES       16u /* requests looked at for one slice */
#define LOOK_AHEAD  128u
#define STALLED     (5 * TEI_NS_PER_MS)
#define UNKNOWN_BPS 1000000000ull

#define BIT(i) ((uint64_t)1 << (i))

struct fill {
	struct tei_peer *peer;
	struct tei_worker *w;
	uint64_t usable;   /* rails that may have a link to it */
	uint64_t healthy;  /* of these, without a trial */
	uint64_t up;       /* of these, with a link that can take something */
	uint64_t coming;   /* of healthy, with a link that is about to be up */
	uint64_t leaving;  /* of usable, with a link that gets nothing new */
	uint64_t trial;    /* of usable, with a link that should be tried */
	uint64_t lean;     /* of up, too busy for bulk */
	uint64_t wanted;   /* of usable, which requests would like to use */
	uint64_t again_at; /* when a pause ends, or patience with a connect */
	uint64_t made;     /* bytes */
	bool more;         /* a link took as many as fit into one post */
	/* The last answer of tei_near_choose(), and what to; 0: none. */
	uint64_t near_able, near_to, near_rails;
	struct tei_plan plan;
};

static struct tei_link *link_at(const struct fill *f, int i)
{
	return f->peer->w.pairs[i].link;
}

/* ---- what the rails look like ---- */

/*
 * A link that takes long to come up is not waited for where another backend
 * could carry; if it comes up yet, it is used.
 */
static uint64_t patience_ends(const struct tei_link *link)
{
	uint64_t patience = link->engine->config.reroute_after;

	return link->out.moved_at + patience * TEI_NS_PER_MS;
}

static bool is_overdue(const struct tei_link *link, uint64_t now)
{
	return link && link->out.state < TEI_LINK_UP &&
	       now >= patience_ends(link);
}

static void look_at_pair(struct fill *f, uint32_t i)
{
	struct tei_pair *pair = &f->peer->w.pairs[i];
	const struct tei_rail_box *box = f->w->rails[i];
	const struct tei_link *link = pair->link;

	if (!pair->usable || box->dead || box->down ||
	    !tei_health_lets(f->peer, i, &f->again_at))
		return;
	f->usable |= BIT(i);
	if (pair->breaker.state == TEI_BREAKER_CLOSED &&
	    !is_overdue(link, f->w->now))
		f->healthy |= BIT(i);
	if (link && link->out.state < TEI_LINK_UP)
		f->coming |= BIT(i) & f->healthy;
	if (!link || link->out.state != TEI_LINK_UP)
		return;
	if (link->out.retiring) /* also: it leads to another of its rails */
		f->leaving |= BIT(i);
	else if (pair->breaker.state == TEI_BREAKER_CLOSED)
		f->up |= BIT(i);
	else if (!link->out.bytes && !link->out.full)
		f->trial |= BIT(i);
}

/* A rail that has stood still for long is as slow as it looks. */
static uint64_t rate_now(const struct tei_link *link, uint64_t now,
			 uint64_t prior)
{
	uint64_t rate = tei_meter_rate(&link->out.pair->meter, now, prior);
	uint64_t still = now - link->out.moved_at, seen;

	if (!link->out.n_posted || still < STALLED)
		return rate;
	seen = link->out.bytes / (still / STALLED) * (TEI_NS_PER_S / STALLED);
	return seen < rate ? seen + 1 : rate;
}

static uint64_t best_rate(const struct fill *f)
{
	uint64_t left, best = 0;

	for (left = f->up; left; left &= left - 1) {
		const struct tei_pair *pair =
			&f->peer->w.pairs[__builtin_ctzll(left)];

		if (pair->meter.rate > best)
			best = pair->meter.rate;
	}
	return best ? best : UNKNOWN_BPS;
}

static bool has_company(const struct fill *f, int i)
{
	uint64_t all = f->up | f->coming;
	uint64_t tier = all & f->w->tiers[f->w->rails[i]->tier];

	return tier & (tier - 1);
}

/*
 * Alone, a link may have all that is configured in flight, unless others come
 * up just now: they would find nothing left; as one of several
 * to the peer only what keeps it busy, and beside other peers on the same rail
 * not so much that they would wait long.
 */
static void look_at_link(struct fill *f, int i, uint64_t prior)
{
	const struct tei_link *link = link_at(f, i);
	const struct tei_config *config = &link->engine->config;
	struct tei_plan_rail *rail = &f->plan.rails[i];
	struct tei_meter *meter = &link->out.pair->meter;
	uint64_t shared = 2 * config->slice_max;

	tei_meter_settle(meter);
	rail->in_flight = link->out.bytes;
	rail->idle = f->w->now - link->out.moved_at;
	rail->full = link->out.full || link->out.n_ready >= READY_MAX;
	rail->delay = meter->delay;
	rail->rate = rate_now(link, f->w->now, prior);
	tei_plan_size(rail, meter->rate, &f->plan.limits);
	if (rail->window > config->window)
		rail->window = config->window;
	if (rail->in_flight >= rail->window)
		f->lean |= BIT(i);
	if (has_company(f, i))
		return;
	rail->slice = config->slice_max;
	rail->window = config->window;
	if (link->rail->n_busy > 1 && shared < rail->window)
		rail->window = shared;
}

static uint64_t count_waiting(const struct tei_queue *q)
{
	uint64_t sum = 0;
	uint32_t i, n = 0;

	for (i = 0; i < TEI_QUEUE_CLASSES; i++) {
		tei_list_for_each (node, &q->classes[i]) {
			const struct tei_request *r =
				tei_list_entry(node, struct tei_request, queue);

			if (n++ == LOOK_AHEAD)
				return sum;
			sum += r->length - r->cursor;
		}
	}
	return sum;
}

static void look_at_pairs(struct fill *f)
{
	uint32_t i;

	f->usable = f->healthy = f->up = f->coming = f->trial = f->lean = 0;
	f->leaving = 0;
	f->near_able = 0;
	f->again_at = UINT64_MAX;
	for (i = 0; i < f->w->n_rails; i++)
		look_at_pair(f, i);
}

static void look(struct fill *f)
{
	const struct tei_config *config = &f->peer->engine->config;
	uint64_t left, prior;

	f->more = false;
	f->plan.limits =
		(struct tei_plan_limits){config->slice_min, config->slice_max};
	look_at_pairs(f);
	prior = best_rate(f);
	for (left = f->up; left; left &= left - 1)
		look_at_link(f, __builtin_ctzll(left), prior);
	f->plan.waiting =
		f->up & (f->up - 1) ? count_waiting(&f->peer->w.queue) : 0;
}

/* ---- one slice ---- */

static bool has_key(const struct tei_request *r, const struct tei_link *link)
{
	return link->out.remote_pos < r->held->n_rails &&
	       r->region->key[link->out.remote_pos].bytes;
}

/* Requests in a row are mostly of the same memory. */
static uint64_t nearest(struct fill *f, uint64_t able, uint64_t near)
{
	if (!near)
		return able;
	if (f->near_able != able || f->near_to != near) {
		f->near_able = able;
		f->near_to = near;
		f->near_rails =
			tei_near_choose(f->peer, able, f->healthy, near);
	}
	return f->near_rails;
}

/*
 * Those of the rails @reach whose links may carry something now, near @near as
 * far as that goes.
 */
static uint64_t carriers(struct fill *f, uint64_t reach, uint64_t near)
{
	uint32_t t;

	reach &= f->usable;
	for (t = 0; t < f->w->n_tiers && reach; t++) {
		uint64_t able = reach & f->w->tiers[t];

		if (!able)
			continue;
		able = nearest(f, able, near);
		f->wanted |= able;
		if (able & f->healthy)
			return able & f->up;
	}
	return 0;
}

static void left_queue(struct tei_request *r)
{
	if (!r->n_redo && r->cursor == r->length)
		tei_list_del(&r->queue);
}

/* @together: bytes that it and those that follow may have in one slice. */
static bool make(struct fill *f, struct tei_request *r, int i, uint64_t length,
		 uint64_t together)
{
	struct tei_link *link = link_at(f, i);
	struct tei_plan_rail *rail = &f->plan.rails[i];
	uint64_t before = link->out.bytes;
	bool made;

	if (!has_key(r, link))
		return false;
	if (r->n_redo)
		made = tei_work_make_again(r, link);
	else
		made = tei_merge_make(r, link, together) ||
		       tei_work_make(r, link, length);
	if (!made)
		return false;
	left_queue(r);
	rail->in_flight = link->out.bytes;
	length = rail->in_flight - before;
	f->made += length;
	f->plan.waiting -= length < f->plan.waiting ? length : f->plan.waiting;
	if (link->out.n_ready >= READY_MAX)
		rail->full = f->more = true;
	return true;
}

static bool offer(struct fill *f, struct tei_request *r, uint64_t may)
{
	uint64_t length = 0, together = 0, rest = r->length - r->cursor;
	int i;

	if (r->n_redo)
		rest = tei_work_redo_length(r);
	if (f->plan.waiting < rest)
		f->plan.waiting = rest;
	i = tei_plan_next(&f->plan, may, rest, &length);
	if (i < 0)
		return false;
	if (length == r->length && tei_merge_may(r))
		together = tei_plan_part(&f->plan, may, i);
	return make(f, r, i, length, together);
}

/*
 * By how much a slice may exceed the windows. Urgent ones do, so a window that
 * they keep full never has room for others: what has been passed too often goes
 * on top of them, even where it is a large slice. They wait for it then.
 */
static uint64_t extra_of(const struct fill *f, uint32_t class, bool overdue)
{
	if (overdue)
		return 2 * f->plan.limits.slice_max;
	return class == TEI_QUEUE_URGENT ? f->plan.limits.slice_max : 0;
}

/*
 * False: nothing of that class can be posted now. Where one request finds no
 * rail, others that may use the same ones would hardly do better; those of other
 * memory may be further back.
 */
static bool serve(struct fill *f, uint32_t class)
{
	struct tei_queue *q = &f->peer->w.queue;
	struct tei_list *requests = &q->classes[class];
	bool overdue = tei_queue_is_overdue(q, class);
	uint64_t barred = class == TEI_QUEUE_BULK && !overdue ? f->lean : 0;
	uint32_t n = 0;

	f->plan.extra = extra_of(f, class, overdue);
	tei_list_for_each_safe (node, tmp, requests) {
		struct tei_request *r =
			tei_list_entry(node, struct tei_request, queue);
		uint64_t may = carriers(f, r->reach & ~r->avoid, r->near);

		may &= ~barred;
		if (may && offer(f, r, may))
			return true;
		barred |= may;
		if (++n >= (r->near ? LOOK_AHEAD : TRIES))
			break;
	}
	return false;
}

/* ---- trials ---- */

/* Not an urgent one: who knows how long it takes. */
static struct tei_request *first_for(const struct fill *f, int i)
{
	uint32_t class = TEI_QUEUE_CLASSES, n = 0;

	while (class -- > (f->healthy ? TEI_QUEUE_NORMAL : TEI_QUEUE_URGENT)) {
		tei_list_for_each (node, &f->peer->w.queue.classes[class]) {
			struct tei_request *r =
				tei_list_entry(node, struct tei_request, queue);

			if (r->reach & ~r->avoid & BIT(i))
				return r;
			if (++n == TRIES)
				return NULL;
		}
	}
	return NULL;
}

static void try_pairs(struct fill *f)
{
	uint64_t left;

	for (left = f->trial; left; left &= left - 1) {
		int i = __builtin_ctzll(left);
		struct tei_request *r = first_for(f, i);
		uint64_t length;

		if (!r)
			continue;
		length = r->length - r->cursor;
		if (length >= 2 * f->plan.limits.slice_min)
			length = f->plan.limits.slice_min;
		make(f, r, i, length, 0);
	}
}

/* ---- all of it ---- */

static void post(struct fill *f)
{
	uint64_t left;

	for (left = f->up | f->trial | f->leaving; left; left &= left - 1) {
		struct tei_link *link = link_at(f, __builtin_ctzll(left));

		if (link->out.n_ready && !link->out.full &&
		    link->out.state == TEI_LINK_UP)
			tei_link_post(link);
	}
}

static bool fill_once(struct fill *f, uint64_t quantum)
{
	struct tei_queue *q = &f->peer->w.queue;
	uint32_t stuck = 0;
	bool spent = false;
	int class;

	look(f);
	if (f->trial)
		try_pairs(f);
	while (!spent && (class = tei_queue_turn(q, stuck)) >= 0) {
		if (serve(f, (uint32_t) class))
			tei_queue_served(q, (uint32_t) class);
		else
			stuck |= 1u << class;
		spent = f->made >= quantum;
	}
	post(f);
	return spent;
}

static void wake_at(struct fill *f, uint64_t at)
{
	struct tei_due *due = &f->peer->w.retry;

	if (!tei_heap_has(&due->node) || due->node.at > at)
		tei_due_set(f->w, due, at);
}

static void await_link(struct fill *f, const struct tei_link *link)
{
	if (!link || link->out.state >= TEI_LINK_UP ||
	    is_overdue(link, f->w->now))
		return;
	if (patience_ends(link) < f->again_at)
		f->again_at = patience_ends(link);
}

/* Links for what waits; a pause that is in the way ends by itself. */
static void open_links(struct fill *f)
{
	struct tei_peer *peer = f->peer;
	uint64_t left;

	if (!peer->w.up)
		return;
	for (left = f->wanted; left; left &= left - 1) {
		int i = __builtin_ctzll(left);

		if (!link_at(f, i)) {
			tei_link_open(peer, (uint32_t)i);
			tei_health_lets(peer, (uint32_t)i, &f->again_at);
		}
		await_link(f, link_at(f, i));
	}
	if (f->again_at != UINT64_MAX && !tei_queue_empty(&peer->w.queue))
		wake_at(f, f->again_at);
}

bool tei_fill(struct tei_peer *peer, uint64_t quantum)
{
	struct fill f; /* large; look() sets what is used */
	bool spent;

	f.peer = peer;
	f.w = peer->engine->worker;
	f.wanted = f.made = 0;
	do {
		spent = fill_once(&f, quantum);
	} while (f.more && !spent);
	open_links(&f);
	return spent;
}

static void look_for(struct fill *f, struct tei_peer *peer, uint64_t reach)
{
	f->peer = peer;
	f->w = peer->engine->worker;
	f->wanted = 0;
	look_at_pairs(f);
	carriers(f, reach, 0);
}

uint64_t tei_fill_wants(struct tei_peer *peer, uint64_t reach)
{
	struct fill f; /* large; look_for() sets what is used */

	look_for(&f, peer, reach);
	return f.wanted;
}

void tei_fill_widen(struct tei_peer *peer)
{
	struct fill f; /* large; look_for() sets what is used */

	look_for(&f, peer, UINT64_MAX);
	open_links(&f);
}
