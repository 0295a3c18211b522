/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - what each peer posts next: whose turn it is, by which links */
#include <errno.h>

#include <te/te.h>

#include "base/clock.h"
#include "te/core/engine.h"
#include "te/transfer/health.h"
#include "te/transfer/link.h"
#include "te/transfer/parts.h"
#include "te/transfer/peer.h"
#include "te/transfer/plan.h"
#include "te/transfer/rails.h"
#include "te/transfer/request.h"
#include "te/transfer/schedule.h"
#include "te/transfer/spread.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

#define QUANTUM (1u << 20) /* bytes that a peer posts before the next one */

/* ---- whether near rails will do ---- */

#define FAR_BELOW 4 /* near rails together carry less than one far by this */

/* Sum and maximum of a figure over some rails; 0 of a rail means unknown. */
struct figure {
	uint64_t sum, most;
	bool all; /* it is known of each */
};

/*
 * Rates of some rails to a peer: as measured, at their best, as devices say.
 */
struct rates {
	struct figure measured, peak, said;
};

static void add_figure(struct figure *figure, uint64_t value)
{
	figure->sum += value;
	figure->all = figure->all && value;
	if (value > figure->most)
		figure->most = value;
}

static struct rates rates_of(const struct tei_peer_work *peer, uint64_t rails)
{
	const struct tei_worker *w = peer->worker;
	struct rates rates = {{.all = true}, {.all = true}, {.all = true}};

	for (; rails; rails &= rails - 1) {
		int i = __builtin_ctzll(rails);
		const struct tei_meter *meter = &peer->pairs[i].meter;

		add_figure(&rates.measured,
			   meter->guess ? 0 : tei_meter_rate(meter, w->now, 0));
		add_figure(&rates.peak, meter->peak);
		add_figure(&rates.said, w->rails[i]->rail.device.speed_bps);
	}
	return rates;
}

/*
 * Measured rates count before those that devices state. A far rail that was not
 * used lately may reach the best rate of the near ones: so near ones that have
 * become slow let it be tried.
 */
static bool will_do(const struct tei_peer_work *peer, uint64_t near,
		    uint64_t far)
{
	struct rates n = rates_of(peer, near), f = rates_of(peer, far);
	uint64_t hope = f.measured.most ? f.measured.most : n.peak.most;

	if (n.measured.all)
		return n.measured.sum >= hope / FAR_BELOW;
	if (n.said.all && f.said.all)
		return n.said.sum >= f.said.most / FAR_BELOW;
	return true;
}

/*
 * Chooses, among the rails @able, those that should carry bytes of memory that
 * the rails @near are near to; @fit: the healthy ones. Never 0 unless @able is.
 * Token.
 */
static uint64_t near_choose(const struct tei_peer_work *peer, uint64_t able,
			    uint64_t fit, uint64_t near)
{
	near &= able;
	if (!(near & fit) || near == able)
		return able;
	return will_do(peer, near & fit, able & fit & ~near) ? near : able;
}

/* ---- whose turn it is ---- */

void tei_queue_init(struct tei_queue *q)
{
	uint32_t i;

	for (i = 0; i < TEI_QUEUE_CLASSES; i++) {
		tei_list_init(&q->classes[i]);
		q->passed[i] = 0;
	}
}

uint32_t tei_queue_class(uint32_t priority)
{
	switch (priority) {
	case TE_PRIORITY_URGENT:
		return TEI_QUEUE_URGENT;
	case TE_PRIORITY_BULK:
		return TEI_QUEUE_BULK;
	default:
		return TEI_QUEUE_NORMAL;
	}
}

int tei_queue_turn(const struct tei_queue *q, uint32_t not )
{
	int first = -1;
	uint32_t i;

	for (i = 0; i < TEI_QUEUE_CLASSES; i++) {
		if ((not >> i & 1) || tei_list_empty(&q->classes[i]))
			continue;
		if (tei_queue_is_overdue(q, i))
			return (int)i;
		if (first < 0)
			first = (int)i;
	}
	return first;
}

void tei_queue_served(struct tei_queue *q, uint32_t class)
{
	uint32_t i;

	q->passed[class] = 0;
	for (i = class + 1; i < TEI_QUEUE_CLASSES; i++) {
		if (!tei_list_empty(&q->classes[i]))
			q->passed[i]++;
	}
}

/* ---- which part of which request goes to which of a peer's links next ---- */

/*
 * Backends stand in tiers, in their order of preference. A request goes by the
 * first tier that reaches its region and has a pair in health, connected or
 * still about to be; the tiers after it stand by and are not even connected.
 * Pairs that are on trial get one small slice, and what they have shown
 * decides.
 */

#define READY_MAX   64u /* the first half is on its way while the next is cut */
#define TRIES       16u /* requests looked at for one slice */
#define LOOK_AHEAD  128u
#define STALLED     (5 * TEI_NS_PER_MS)
#define UNKNOWN_BPS 1000000000ull

#define BIT(i) ((uint64_t)1 << (i))

struct schedule {
	struct tei_peer_work *peer;
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
	bool stranded;     /* a request was seen that no rail here carries */
	/* The last answer of near_choose(), and what to; 0: none. */
	uint64_t near_able, near_to, near_rails;
	struct tei_plan plan;
};

static struct tei_link *link_at(const struct schedule *s, int i)
{
	return s->peer->pairs[i].link;
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

static void look_at_pair(struct schedule *s, uint32_t i)
{
	struct tei_pair *pair = &s->peer->pairs[i];
	const struct tei_rail_box *box = s->w->rails[i];
	struct tei_link *link = pair->link;

	if (!pair->usable || box->dead || box->down ||
	    !tei_health_lets(s->peer, i, &s->again_at))
		return;
	s->usable |= BIT(i);
	if (is_overdue(link, s->w->now))
		tei_health_overdue(link, true);
	if (pair->breaker.state == TEI_BREAKER_CLOSED &&
	    !is_overdue(link, s->w->now))
		s->healthy |= BIT(i);
	if (link && link->out.state < TEI_LINK_UP)
		s->coming |= BIT(i) & s->healthy;
	if (!link || link->out.state != TEI_LINK_UP)
		return;
	if (link->out.retiring) /* also: it leads to another of its rails */
		s->leaving |= BIT(i);
	else if (pair->breaker.state == TEI_BREAKER_CLOSED)
		s->up |= BIT(i);
	else if (!link->out.bytes && !link->out.full)
		s->trial |= BIT(i);
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

/*
 * Highest rate and least delay of all rails: what those of an unused one become
 * in time. A delay that has not been measured counts as 0.
 */
struct prior {
	uint64_t rate, delay;
};

static struct prior best_of(const struct schedule *s)
{
	struct prior best = {.rate = 0, .delay = UINT64_MAX};
	uint64_t left;

	for (left = s->up; left; left &= left - 1) {
		const struct tei_meter *meter =
			&s->peer->pairs[__builtin_ctzll(left)].meter;

		if (meter->rate > best.rate)
			best.rate = meter->rate;
		if (meter->delay < best.delay)
			best.delay = meter->delay;
	}
	if (!best.rate)
		best.rate = UNKNOWN_BPS;
	return best;
}

static bool has_company(const struct schedule *s, int i)
{
	uint64_t all = s->up | s->coming;
	uint64_t tier = all & s->w->tiers[s->w->rails[i]->tier];

	return tier & (tier - 1);
}

/*
 * Alone, a link may have all that is configured in flight, unless others come
 * up just now: they would find nothing left; as one of several
 * to the peer only what keeps it busy, and beside other peers on the same rail
 * not so much that they would wait long.
 */
static void look_at_link(struct schedule *s, int i, const struct prior *prior)
{
	const struct tei_link *link = link_at(s, i);
	const struct tei_config *config = &link->engine->config;
	struct tei_plan_rail *rail = &s->plan.rails[i];
	struct tei_meter *meter = &link->out.pair->meter;
	uint64_t shared = 2 * config->slice_max;

	tei_meter_settle(meter);
	rail->in_flight = link->out.bytes;
	rail->idle = s->w->now - link->out.moved_at;
	rail->full = link->out.full || link->out.n_ready >= READY_MAX;
	rail->delay = tei_meter_delay(meter, s->w->now, prior->delay);
	rail->rate = rate_now(link, s->w->now, prior->rate);
	tei_plan_size(rail, meter->rate, &s->plan.limits);
	if (rail->window > config->window)
		rail->window = config->window;
	if (rail->in_flight >= rail->window)
		s->lean |= BIT(i);
	if (has_company(s, i))
		return;
	rail->slice = config->slice_max;
	rail->window = config->window;
	if (link->rail->n_busy > 1 && shared < rail->window)
		rail->window = shared;
}

static void look_at_links(struct schedule *s)
{
	const struct prior prior = best_of(s);
	uint64_t left;

	for (left = s->up; left; left &= left - 1) {
		int i = __builtin_ctzll(left);

		look_at_link(s, i, &prior);
		tei_plan_look(&s->plan, i);
	}
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

static void look_at_pairs(struct schedule *s)
{
	uint32_t i;

	s->usable = s->healthy = s->up = s->coming = s->trial = s->lean = 0;
	s->leaving = 0;
	s->near_able = 0;
	s->again_at = UINT64_MAX;
	for (i = 0; i < s->w->n_rails; i++)
		look_at_pair(s, i);
}

static void read_state(struct schedule *s)
{
	const struct tei_config *config = &s->peer->engine->config;
	struct tei_plan_limits limits = {config->slice_min, config->slice_max};

	s->more = false;
	tei_plan_begin(&s->plan, &limits);
	look_at_pairs(s);
	look_at_links(s);
	if (s->up & (s->up - 1))
		s->plan.waiting = count_waiting(&s->peer->queue);
}

/* ---- one slice ---- */

static bool has_key(const struct tei_request *r, const struct tei_link *link)
{
	return link->out.remote_pos < r->held->n_rails &&
	       r->region->key[link->out.remote_pos].bytes;
}

/*
 * Tells whether the request may go by the link. Where its description of the
 * region is older than the link's partner, and has no key for that, it takes
 * the one that is known now, once nothing of it is out: nobody tells of a key
 * that comes after the partner. Another worker has it where that has a key.
 */
static bool may_go(struct schedule *s, struct tei_request *r,
		   const struct tei_link *link)
{
	uint64_t reach = r->reach;

	if (has_key(r, link))
		return true;
	if (!tei_request_rests(r))
		return false;
	if (tei_request_renew(r))
		s->more |= r->reach != reach;
	else if (tei_request_better_part(r))
		r->reach = 0; /* it is stranded here */
	return has_key(r, link);
}

/* Requests in a row are mostly of the same memory. */
static uint64_t nearest(struct schedule *s, uint64_t able, uint64_t near)
{
	if (!near)
		return able;
	if (s->near_able != able || s->near_to != near) {
		s->near_able = able;
		s->near_to = near;
		s->near_rails = near_choose(s->peer, able, s->healthy, near);
	}
	return s->near_rails;
}

/*
 * Rails of @reach whose links may carry something now, those of @near if there
 * are any.
 */
static uint64_t carriers(struct schedule *s, uint64_t reach, uint64_t near)
{
	uint32_t t;

	reach &= s->usable;
	for (t = 0; t < s->w->n_tiers && reach; t++) {
		uint64_t able = reach & s->w->tiers[t];

		if (!able)
			continue;
		able = nearest(s, able, near);
		s->wanted |= able;
		if (able & s->healthy)
			return able & s->up;
	}
	return 0;
}

/*
 * Returns the rails that reach what the request posts next; *@room: so much of
 * it at a time.
 */
static uint64_t rails_for(const struct tei_request *r, uint64_t *room)
{
	*room = UINT64_MAX;
	return r->spread ? tei_spread_next(r, room) : r->reach & ~r->avoid;
}

static void left_queue(struct tei_request *r)
{
	if (!r->n_redo && r->cursor == r->length)
		tei_list_del(&r->queue);
}

static void wake_at(struct schedule *s, uint64_t at)
{
	struct tei_due *due = &s->peer->retry;

	if (!tei_heap_has(&due->node) || due->node.at > at)
		tei_due_set(s->w, due, at);
}

/* Who has found no room is run when there is; without memory it tries again. */
static void await_memory(struct schedule *s)
{
	if (tei_list_empty(&s->peer->starving))
		wake_at(s, s->w->now + TEI_NS_PER_MS);
}

/*
 * @length: bytes of the part, at most; @together: that it and those that follow
 * may have in one slice.
 */
static bool make_part(struct schedule *s, struct tei_request *r, int i,
		      uint64_t length, uint64_t together)
{
	struct tei_link *link = link_at(s, i);
	struct tei_plan_rail *rail = &s->plan.rails[i];
	uint64_t before = link->out.bytes;
	bool made;

	if (!may_go(s, r, link))
		return false;
	if (r->n_redo)
		made = tei_work_make_again(r, link, length);
	else
		made = tei_merge_make(r, link, together) ||
		       tei_work_make(r, link, length);
	if (!made) {
		await_memory(s);
		return false;
	}
	left_queue(r);
	rail->in_flight = link->out.bytes;
	length = rail->in_flight - before;
	s->made += length;
	s->plan.waiting -= length < s->plan.waiting ? length : s->plan.waiting;
	if (link->out.n_ready >= READY_MAX)
		rail->full = s->more = true;
	if (s->up & BIT(i)) /* else it is on trial, and not planned with */
		tei_plan_look(&s->plan, i);
	return true;
}

static bool offer(struct schedule *s, struct tei_request *r, uint64_t may,
		  uint64_t room)
{
	uint64_t length = 0, together = 0, rest = r->length - r->cursor;
	int i;

	if (r->n_redo)
		rest = tei_work_redo(r)->slice.length;
	if (rest > room)
		rest = room;
	if (s->plan.waiting < rest)
		s->plan.waiting = rest;
	i = tei_plan_next(&s->plan, may, rest, &length);
	if (i < 0)
		return false;
	if (r->n_redo) /* is not cut once more */
		length = rest;
	else if (length == r->length && tei_merge_may(r))
		together = tei_plan_part(&s->plan, may, i);
	return make_part(s, r, i, length, together);
}

/*
 * Returns by how much a slice may exceed the windows. Urgent ones do, so a
 * window that they keep full never has room for others: what has been passed
 * too often goes on top of them, even where it is a large slice. They wait for
 * it then.
 */
static uint64_t extra_of(const struct schedule *s, uint32_t class, bool overdue)
{
	if (overdue)
		return 2 * s->plan.limits.slice_max;
	return class == TEI_QUEUE_URGENT ? s->plan.limits.slice_max : 0;
}

/* Memory of a stage, which requests for other memory need not wait for. */
static bool awaits_room(const struct schedule *s, const struct tei_request *r)
{
	return r->staged && !tei_list_empty(&s->peer->starving);
}

/*
 * Tells whether no rail of ours carries the request, now or soon: of the
 * healthy ones it may go by none has a link, or can get one.
 */
static bool is_stranded(const struct schedule *s, const struct tei_request *r)
{
	uint64_t room, able = rails_for(r, &room) & s->healthy;

	return !(s->peer->up ? able : able & (s->up | s->coming));
}

/*
 * False: nothing of that class can be posted now. Where one request finds no
 * rail, others that may use the same ones would hardly do better; those of
 * other memory may be further back.
 */
static bool serve_class(struct schedule *s, uint32_t class)
{
	struct tei_queue *q = &s->peer->queue;
	struct tei_list *requests = &q->classes[class];
	bool overdue = tei_queue_is_overdue(q, class);
	uint64_t barred = class == TEI_QUEUE_BULK && !overdue ? s->lean : 0;
	uint32_t n = 0;

	s->plan.extra = extra_of(s, class, overdue);
	tei_list_for_each_safe (node, tmp, requests) {
		struct tei_request *r =
			tei_list_entry(node, struct tei_request, queue);
		uint64_t room, reach = rails_for(r, &room);
		uint64_t may = carriers(s, reach, r->near) & ~barred;

		if (may && offer(s, r, may, room))
			return true;
		s->stranded |= is_stranded(s, r);
		if (!awaits_room(s, r))
			barred |= may;
		if (++n >= (r->near ? LOOK_AHEAD : TRIES))
			break;
	}
	return false;
}

/* ---- trials ---- */

/*
 * Finds a first request, not an urgent one: who knows how long it takes; *@room
 * as rails_for().
 */
static struct tei_request *first_for(const struct schedule *s, int i,
				     uint64_t *room)
{
	uint32_t class = TEI_QUEUE_CLASSES, n = 0;

	while (class -- > (s->healthy ? TEI_QUEUE_NORMAL : TEI_QUEUE_URGENT)) {
		tei_list_for_each (node, &s->peer->queue.classes[class]) {
			struct tei_request *r =
				tei_list_entry(node, struct tei_request, queue);

			if (rails_for(r, room) & BIT(i))
				return r;
			if (++n == TRIES)
				return NULL;
		}
	}
	return NULL;
}

/* Returns the bytes of a part that tries a pair, of @room that it may have. */
static uint64_t trial_length(const struct schedule *s,
			     const struct tei_request *r, uint64_t room)
{
	uint64_t least = s->plan.limits.slice_min;
	uint64_t length = r->length - r->cursor;

	if (r->n_redo)
		return room;
	length = length < room ? length : room;
	return length < 2 * least ? length : least;
}

static void try_pairs(struct schedule *s)
{
	uint64_t left;

	for (left = s->trial; left; left &= left - 1) {
		int i = __builtin_ctzll(left);
		uint64_t room;
		struct tei_request *r = first_for(s, i, &room);

		if (r)
			make_part(s, r, i, trial_length(s, r, room), 0);
	}
}

/* ---- what other workers serve ---- */

/* Sends the request to another worker, or ends it if no rail is left for it. */
static bool has_left(struct tei_request *r)
{
	if (tei_request_may_leave(r))
		return true;
	if (!tei_request_rests(r) || !tei_request_is_out_of_rails(r))
		return false;
	tei_request_refuse(r, -EIO);
	return true;
}

/* Looks at the first requests of a class; true: one has left it. */
static bool send_one(const struct schedule *s, uint32_t class)
{
	uint32_t n = 0;

	tei_list_for_each (node, &s->peer->queue.classes[class]) {
		struct tei_request *r =
			tei_list_entry(node, struct tei_request, queue);

		if ((!s->up || is_stranded(s, r)) && has_left(r))
			return true;
		if (++n == TRIES)
			break;
	}
	return false;
}

/*
 * Sends requests to workers that serve them. Each run of the peer comes here
 * while some are stranded, or no link is up: so all are asked only when other
 * rails work than the last time; in between those at the head of the queue,
 * where requests are put of which parts came back undone. What stays is looked
 * at again after a while: nobody tells when rails of others come up, or a pause
 * of them ends.
 */
static void send_stranded(struct schedule *s)
{
	struct tei_peer_work *peer = s->peer;
	uint64_t working = s->healthy | tei_pairs_live(peer, peer->elsewhere);
	uint64_t patience = peer->engine->config.reroute_after * TEI_NS_PER_MS;
	uint32_t i;

	if (working != peer->asked_with) {
		peer->asked_with = working;
		tei_cohorts_leave(peer);
	}
	for (i = 0; i < TEI_QUEUE_CLASSES; i++)
		while (send_one(s, i))
			;
	peer->waits = !tei_queue_empty(&peer->queue);
	if (peer->waits)
		wake_at(s, s->w->now + patience);
}

/* ---- all of it ---- */

/* Posts all that is ready, also where nothing new is made: it was copied. */
static void post(struct schedule *s)
{
	for (uint32_t i = 0; i < s->w->n_rails; i++) {
		struct tei_link *link = link_at(s, (int)i);

		if (link && link->out.n_ready && !link->out.full &&
		    link->out.state == TEI_LINK_UP)
			tei_link_post(link);
	}
}

static bool schedule_once(struct schedule *s, uint64_t quantum)
{
	struct tei_queue *q = &s->peer->queue;
	uint32_t stuck = 0;
	bool spent = false;
	int class;

	read_state(s);
	if (s->trial)
		try_pairs(s);
	while (!spent && (class = tei_queue_turn(q, stuck)) >= 0) {
		if (serve_class(s, (uint32_t) class))
			tei_queue_served(q, (uint32_t) class);
		else
			stuck |= 1u << class;
		spent = s->made >= quantum;
	}
	post(s);
	return spent;
}

static void await_link(struct schedule *s, const struct tei_link *link)
{
	if (!link || link->out.state >= TEI_LINK_UP ||
	    is_overdue(link, s->w->now))
		return;
	if (patience_ends(link) < s->again_at)
		s->again_at = patience_ends(link);
}

/* Links for what waits; a pause that is in the way ends by itself. */
static void open_links(struct schedule *s)
{
	struct tei_peer_work *peer = s->peer;
	uint64_t left;

	if (!peer->up)
		return;
	for (left = s->wanted; left; left &= left - 1) {
		int i = __builtin_ctzll(left);

		if (!link_at(s, i)) {
			tei_link_open(peer, (uint32_t)i);
			tei_health_lets(peer, (uint32_t)i, &s->again_at);
		}
		await_link(s, link_at(s, i));
	}
	if (s->again_at != UINT64_MAX && !tei_queue_empty(&peer->queue))
		wake_at(s, s->again_at);
}

static bool schedule_peer(struct tei_peer_work *peer, uint64_t quantum)
{
	struct schedule s; /* large; read_state() sets what is used */
	bool spent;

	s.peer = peer;
	s.w = peer->worker;
	s.wanted = s.made = 0;
	s.stranded = false;
	do {
		spent = schedule_once(&s, quantum);
	} while (s.more && !spent);
	open_links(&s);
	peer->waits = false;
	if (s.up && !s.stranded)
		peer->asked_with = UINT64_MAX;
	else if (peer->elsewhere && !tei_queue_empty(&peer->queue))
		send_stranded(&s);
	return spent;
}

static void look_for(struct schedule *s, struct tei_peer_work *peer,
		     uint64_t reach)
{
	s->peer = peer;
	s->w = peer->worker;
	s->wanted = 0;
	look_at_pairs(s);
	carriers(s, reach, 0);
}

uint64_t tei_schedule_rails(struct tei_peer_work *peer, uint64_t reach)
{
	struct schedule s; /* large; look_for() sets what is used */

	look_for(&s, peer, reach);
	return s.wanted;
}

void tei_schedule_links(struct tei_peer_work *peer)
{
	struct schedule s; /* large; look_for() sets what is used */

	look_for(&s, peer, UINT64_MAX);
	open_links(&s);
}

/* ---- peers in turn ---- */

static bool pump_peer(struct tei_peer_work *peer, uint64_t quantum)
{
	struct tei_worker *w = peer->worker;
	bool more;

	if (atomic_load_explicit(&peer->of->news, memory_order_acquire) !=
	    peer->news)
		tei_peer_sync(peer);
	if (peer->to_rematch)
		tei_peer_rematch(peer);
	tei_warm_look(peer);
	if (w->now < peer->pause_until) {
		tei_due_set(w, &peer->retry, peer->pause_until);
		return false;
	}
	more = schedule_peer(peer, quantum);
	tei_peer_update_want(peer);
	return more;
}

/*
 * Serves peers in turns, so that one with much to post does not hold up the
 * others.
 */
void tei_transfer_pump(struct tei_worker *w)
{
	struct tei_list now, *node;
	bool more;

	tei_list_init(&now);
	tei_list_splice_tail(&now, &w->runnable);
	while ((node = tei_list_pop(&now))) {
		struct tei_peer_work *peer =
			tei_list_entry(node, struct tei_peer_work, run);

		peer->runnable = false;
		more = pump_peer(peer,
				 tei_list_empty(&now) ? UINT64_MAX : QUANTUM);
		if (more && !peer->runnable) {
			peer->runnable = true;
			tei_list_add_tail(&now, &peer->run);
		}
	}
}
