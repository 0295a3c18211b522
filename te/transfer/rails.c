/* SPDX-License-Identifier: Apache-2.0 */
/* rails.c - which of our rails go with a peer's, and which a request may use */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "te/core/engine.h"
#include "te/region/region.h"
#include "te/transfer/peer.h"
#include "te/transfer/rails.h"
#include "te/transfer/request.h"
#include "te/transfer/spread.h"
#include "te/transfer/transfer.h"
#include "te/worker/breaker.h"
#include "te/worker/worker.h"

#define REMOTE_MAX 64
#define LIST_LEN   64 /* of a text */

/* The choice among all pairs that are left. */
struct choice {
	int rank;
	uint32_t used; /* how often the peer's rail has been taken */
	uint32_t skew; /* distance of their places */
	uint32_t mine, remote;
};

static int rank_of(const struct tei_peer_work *peer, uint32_t mine,
		   uint32_t remote)
{
	struct tei_rail *rail = &peer->worker->rails[mine]->rail;
	const struct tei_remote_rail *other = &peer->remote->rails[remote];
	struct tei_address from = peer->address;

	if (!!(rail->ops->caps & TEI_CAP_SELF) != peer->self ||
	    strcmp(rail->ops->name, other->backend))
		return 0;
	if (!rail->ops->rail_match)
		return 1;
	tei_address_set_port(&from, 0);
	return rail->ops->rail_match(rail, &from, other->match,
				     other->match_len);
}

static bool is_better(const struct choice *a, const struct choice *b)
{
	if (!b->rank || a->used != b->used)
		return !b->rank || a->used < b->used;
	if (a->rank != b->rank)
		return a->rank > b->rank;
	return a->skew < b->skew;
}

static uint32_t place(const struct tei_peer_work *peer, uint32_t mine)
{
	struct tei_rail_box *const *rails = peer->worker->rails;
	uint32_t i, n = 0;

	for (i = 0; i < mine; i++)
		n += rails[i]->rail.ops == rails[mine]->rail.ops;
	return n;
}

/* The peer's rails: place of each among those of its backend, and its use. */
struct remotes {
	uint32_t place[REMOTE_MAX], used[REMOTE_MAX];
};

static void place_remotes(const struct tei_remote *remote, struct remotes *out)
{
	uint32_t i, k;

	for (k = 0; k < remote->n_rails; k++) {
		out->place[k] = out->used[k] = 0;
		for (i = 0; i < k; i++)
			out->place[k] += !strcmp(remote->rails[i].backend,
						 remote->rails[k].backend);
	}
}

static void consider(const struct tei_peer_work *peer, uint32_t mine,
		     const struct remotes *remotes, struct choice *best)
{
	uint32_t k, p = place(peer, mine);

	for (k = 0; k < peer->remote->n_rails; k++) {
		uint32_t q = remotes->place[k];
		struct choice c = {.rank = rank_of(peer, mine, k),
				   .used = remotes->used[k],
				   .skew = p > q ? p - q : q - p,
				   .mine = mine,
				   .remote = k};

		if (c.rank && is_better(&c, best))
			*best = c;
	}
}

/* @text: those of our backends that reach the peer, in order of preference. */
static const struct tei_backend_ops *
list_backends(const struct tei_peer_work *peer, char text[LIST_LEN])
{
	const struct tei_backend_ops *first = NULL, *last = NULL;
	size_t len = 0;

	for (uint32_t i = 0; i < peer->worker->n_rails; i++) {
		const struct tei_backend_ops *ops =
			peer->worker->rails[i]->rail.ops;

		if (!(peer->pairs[i].usable || peer->elsewhere >> i & 1) ||
		    ops == last || len >= LIST_LEN)
			continue;
		len += (size_t)snprintf(text + len, LIST_LEN - len, "%s%s",
					first ? ", else " : "", ops->name);
		first = first ? first : ops;
		last = ops;
	}
	return first;
}

/* Logs by which backend the bytes of the peer go: at first, and when that
 * changes. */
static void tell_choice(struct tei_peer_work *peer)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	const struct tei_backend_ops *first;
	char text[LIST_LEN];

	first = list_backends(peer, text);
	if (first == peer->choice && peer->chosen)
		return;
	peer->choice = first;
	peer->chosen = true;
	if (tei_log_allowed(&limit))
		LOG_INFO("peer %s: reached by %s", peer->name,
			 first ? text : "no rail of ours");
}

static uint32_t partner_of(const struct tei_peer_work *peer, uint32_t i)
{
	const struct tei_pair *pair = &peer->pairs[i];

	return pair->usable || peer->elsewhere >> i & 1 ? pair->remote_pos
							: UINT32_MAX;
}

/* Returns workers that have rails of the first tier that reaches the peer. */
static uint64_t favored(const struct tei_peer_work *peer)
{
	const struct tei_worker *w = peer->worker;
	uint64_t workers = 0;
	uint32_t t, i;

	for (t = 0; t < w->n_tiers && !workers; t++) {
		for (i = 0; i < w->n_rails; i++) {
			if (w->tiers[t] >> i & 1 &&
			    partner_of(peer, i) != UINT32_MAX &&
			    !w->rails[i]->dead && !w->rails[i]->down)
				workers |= (uint64_t)1
					   << w->rails[i]->worker->index;
		}
	}
	return workers;
}

/*
 * All workers match all rails, and come to the same: no rail of the peer is to
 * be taken by two of ours while another has none. Here only those of its own
 * are of use to a worker.
 */
static void part_with_foreign(struct tei_peer_work *peer)
{
	const struct tei_worker *w = peer->worker;

	peer->elsewhere = 0;
	for (uint32_t i = 0; i < w->n_rails; i++) {
		if (!peer->pairs[i].usable || tei_worker_has(w, i))
			continue;
		peer->pairs[i].usable = false;
		peer->elsewhere |= (uint64_t)1 << i;
	}
}

void tei_pairs_favor(struct tei_peer_work *peer)
{
	if (!peer->remote) /* others know more */
		return;
	atomic_store_explicit(&peer->of->favored, favored(peer),
			      memory_order_relaxed);
}

bool tei_pairs_match(struct tei_peer_work *peer)
{
	uint32_t i, n = peer->worker->n_rails, before[REMOTE_MAX];
	struct tei_pair *pairs = peer->pairs;
	struct remotes remotes;
	uint64_t elsewhere = peer->elsewhere;
	struct choice best;
	bool changed;

	peer->seen.region = NULL;
	place_remotes(peer->remote, &remotes);
	for (i = 0; i < n; i++) {
		before[i] = partner_of(peer, i);
		pairs[i].usable = false;
	}
	do {
		best = (struct choice){.rank = 0};
		for (i = 0; i < n; i++) {
			if (!pairs[i].usable)
				consider(peer, i, &remotes, &best);
		}
		if (!best.rank)
			break;
		remotes.used[best.remote]++;
		pairs[best.mine].usable = true;
		pairs[best.mine].remote_pos = best.remote;
		pairs[best.mine].remote_rail =
			peer->remote->rails[best.remote].index;
	} while (best.rank);
	part_with_foreign(peer);
	tei_pairs_favor(peer);
	if (!peer->worker->index)
		tell_choice(peer);
	changed = peer->elsewhere != elsewhere;
	for (i = 0; i < n; i++)
		changed |= partner_of(peer, i) != before[i];
	return changed;
}

static bool is_silent(const struct tei_remote_rail *rail,
		      const struct tei_backend_ops *ops)
{
	return ops->rail_describe && !rail->match_len &&
	       !strcmp(rail->backend, ops->name);
}

bool tei_pairs_may_come(const struct tei_peer_work *peer, uint32_t mine)
{
	const struct tei_rail_box *box = peer->worker->rails[mine];
	const struct tei_backend_ops *ops = box->rail.ops;
	const struct tei_remote *remote = peer->remote;
	bool silent = false;
	uint32_t k;

	if (peer->self || box->dead ||
	    !tei_remote_has_backend(remote, ops->name))
		return false;
	for (k = 0; k < remote->n_rails; k++)
		silent |= is_silent(&remote->rails[k], ops);
	return box->down || silent;
}

static bool is_across(const struct tei_peer_work *peer, uint32_t rail,
		      const struct tei_blob *key)
{
	const struct tei_backend_ops *ops = peer->worker->rails[rail]->rail.ops;

	return ops->region_is_across &&
	       ops->region_is_across(key->bytes, key->len);
}

static uint64_t look_at_keys(const struct tei_peer_work *peer,
			     const struct tei_remote *remote,
			     const struct tei_remote_region *region,
			     uint64_t *across)
{
	uint64_t reach = 0;
	uint32_t i;

	*across = 0;
	for (i = 0; i < peer->worker->n_rails; i++) {
		const struct tei_pair *pair = &peer->pairs[i];

		if (!pair->usable || pair->remote_pos >= remote->n_rails ||
		    !region->key[pair->remote_pos].bytes)
			continue;
		reach |= (uint64_t)1 << i;
		if (is_across(peer, i, &region->key[pair->remote_pos]))
			*across |= (uint64_t)1 << i;
	}
	return reach;
}

/* Requests in a row are mostly for the same region. */
uint64_t tei_pairs_that_reach(struct tei_peer_work *peer,
			      const struct tei_remote *remote,
			      const struct tei_remote_region *region,
			      uint64_t *across)
{
	if (remote != peer->remote) /* a request still holds an earlier one */
		return look_at_keys(peer, remote, region, across);
	if (region != peer->seen.region) {
		peer->seen.reach =
			look_at_keys(peer, remote, region, &peer->seen.across);
		peer->seen.spread =
			tei_spread_of(peer, remote, region, peer->seen.reach);
		peer->seen.region = region;
	}
	*across = peer->seen.across;
	return peer->seen.reach;
}

uint64_t tei_pairs_elsewhere(const struct tei_peer_work *peer,
			     const struct tei_remote *remote,
			     const struct tei_remote_region *region,
			     uint64_t *across)
{
	uint64_t left, reach = 0;

	*across = 0;
	for (left = peer->elsewhere; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);
		const struct tei_pair *pair = &peer->pairs[i];

		if (pair->remote_pos >= remote->n_rails ||
		    !region->key[pair->remote_pos].bytes)
			continue;
		reach |= left & -left;
		if (is_across(peer, i, &region->key[pair->remote_pos]))
			*across |= left & -left;
	}
	return reach;
}

static bool is_over(const _Atomic uint64_t *held_until, uint64_t now)
{
	return atomic_load_explicit(held_until, memory_order_relaxed) <= now;
}

uint64_t tei_pairs_live(const struct tei_peer_work *peer, uint64_t rails)
{
	uint64_t left, live = 0, now = peer->worker->now;

	for (left = rails; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);
		struct tei_rail_box *box = peer->worker->rails[i];

		if (!box->dead && !box->down &&
		    is_over(&box->held_until, now) &&
		    is_over(&peer->of->held_until[i], now))
			live |= left & -left;
	}
	return live;
}

uint64_t tei_pairs_near(const struct tei_peer_work *peer,
			const struct tei_remote_region *region)
{
	uint64_t near = 0;
	uint32_t i;

	if (!region->near)
		return 0;
	for (i = 0; i < peer->worker->n_rails; i++) {
		const struct tei_pair *pair = &peer->pairs[i];

		if ((pair->usable || peer->elsewhere >> i & 1) &&
		    region->near >> pair->remote_pos & 1)
			near |= (uint64_t)1 << i;
	}
	return near;
}

/* ---- rails that are near the memory of a request, at both ends ---- */

static void look_up(struct te_engine *engine, uint64_t addr,
		    struct tei_near_seen *seen)
{
	struct tei_regions *regions = engine->regions;
	const struct tei_region *region;

	tei_mutex_lock(&regions->mu);
	seen->changes =
		atomic_load_explicit(&regions->changes, memory_order_relaxed);
	seen->length = seen->near = 0;
	seen->takes = UINT64_MAX;
	seen->staged = seen->spread = false;
	region = tei_regions_find(regions, addr);
	if (region) {
		seen->addr = region->addr;
		seen->length = region->length;
		seen->near = region->near;
		seen->takes = tei_region_takers(engine, region);
		seen->staged = region->stage;
		seen->spread = tei_region_is_spread(engine, region);
	}
	tei_mutex_unlock(&regions->mu);
}

/* What is known of the region that has the byte at @addr. */
static const struct tei_near_seen *local_region(const struct tei_worker *w,
						uint64_t addr)
{
	struct te_engine *engine = w->engine;
	struct tei_near_seen *seen = &engine->transfer->near[w->index].seen;
	struct tei_regions *regions = engine->regions;

	if (seen->changes != atomic_load_explicit(&regions->changes,
						  memory_order_acquire) ||
	    addr - seen->addr >= seen->length)
		look_up(engine, addr, seen);
	return seen;
}

/* Returns those of @near that have the byte at @addr; if none, all that do. */
static uint64_t near_in_part(struct te_engine *engine, uint64_t addr,
			     uint64_t near)
{
	struct tei_regions *regions = engine->regions;
	const struct tei_region *region;
	uint64_t have = 0;

	tei_mutex_lock(&regions->mu);
	region = tei_regions_find(regions, addr);
	if (region)
		have = tei_region_rails_at(engine, region, addr);
	tei_mutex_unlock(&regions->mu);
	return near & have ? near & have : have;
}

static uint64_t near_of_local(const struct tei_worker *w, uint64_t addr)
{
	const struct tei_near_seen *seen;

	if (!atomic_load_explicit(&w->engine->regions->any_near,
				  memory_order_relaxed))
		return 0;
	seen = local_region(w, addr);
	return seen->spread ? near_in_part(w->engine, addr, seen->near)
			    : seen->near;
}

void tei_takers_of(const struct tei_request *r, struct tei_takers *out)
{
	struct te_engine *engine = r->peer->engine;

	*out = (struct tei_takers){.rails = UINT64_MAX, .stageable = true};
	if (!atomic_load_explicit(&engine->regions->any_gpu,
				  memory_order_relaxed))
		return;
	out->all_gpu = true;
	for (uint32_t i = 0; i < r->n_pieces; i++) {
		const struct tei_near_seen *seen = local_region(
			r->peer->worker, (uintptr_t)r->pieces[i].iov_base);

		out->rails &= seen->takes;
		out->stageable &= seen->takes == UINT64_MAX || seen->staged;
		out->all_gpu &= seen->staged;
		out->unknown |= !seen->length;
	}
}

uint64_t tei_near_of_any(const struct tei_request *r,
			 const struct tei_remote_region *region, uint64_t reach)
{
	uint64_t addr = (uintptr_t)r->pieces[0].iov_base;
	uint64_t here = near_of_local(r->peer->worker, addr) & reach;
	uint64_t there = tei_pairs_near(r->peer, region) & reach;

	return here & there ? here & there : here | there;
}

uint64_t tei_near_of(const struct tei_request *r)
{
	return tei_near_of_any(r, r->region, r->reach);
}

/* ---- rails of a request ---- */

static uint64_t not_paused(struct tei_peer_work *peer, uint64_t rails)
{
	uint64_t left, lets = 0, now = peer->worker->now;

	for (left = rails; left; left &= left - 1) {
		int i = __builtin_ctzll(left);
		bool device =
			tei_breaker_lets(&peer->worker->rails[i]->breaker, now);

		if (tei_breaker_lets(&peer->pairs[i].breaker, now) && device)
			lets |= left & -left;
	}
	return lets;
}

/*
 * Returns the rails, of all workers, that move bytes of the request. Stages are
 * the first worker's, and rails of others not for what moves between GPUs only.
 */
static uint64_t all_rails(const struct tei_request *r,
			  const struct tei_remote *remote,
			  const struct tei_remote_region *region)
{
	uint64_t across, rails = r->reach;
	struct tei_takers takers;

	if (!r->staged) {
		tei_takers_of(r, &takers);
		rails |= tei_pairs_elsewhere(r->peer, remote, region, &across) &
			 ~across & takers.rails;
	}
	return rails & ~r->avoid;
}

bool tei_request_lacks_rails(const struct tei_request *r)
{
	uint64_t rails;

	if (!r->spread)
		return false;
	rails = all_rails(r, r->held, r->region);
	tei_list_for_each (node, &r->works) {
		const struct tei_work *work =
			tei_list_entry(node, struct tei_work, of_request);

		if (tei_spread_has_gap(r, r->held, r->region, rails,
				       work->offset,
				       work->offset + work->slice.length))
			return true;
	}
	return tei_spread_has_gap(r, r->held, r->region, rails, r->cursor,
				  r->length);
}

/*
 * Notes which of the rails found have the region in part. Where rails lack
 * bytes of the request, it has none.
 */
static void reach_in_part(struct tei_request *r,
			  const struct tei_remote *remote,
			  const struct tei_remote_region *region)
{
	const struct tei_peer_work *peer = r->peer;
	uint64_t some = region == peer->seen.region
				? peer->seen.spread
				: tei_spread_of(peer, remote, region, r->reach);

	r->spread = some & r->reach;
	if (!r->spread ||
	    !tei_spread_has_gap(r, remote, region, all_rails(r, remote, region),
				0, r->length))
		return;
	r->reach = 0;
	r->spread = false;
}

/* tei_request_reach(), of regions that each rail has whole. */
static bool reach_whole(struct tei_request *r, const struct tei_remote *remote,
			const struct tei_remote_region *region)
{
	struct tei_takers takers;
	uint64_t across;
	uint64_t reach = tei_pairs_that_reach(r->peer, remote, region, &across);

	tei_takers_of(r, &takers);
	r->staged = false;
	r->direct = takers.rails != UINT64_MAX;
	r->reach = across;
	if (takers.all_gpu && !(r->flags & TE_CRC) &&
	    not_paused(r->peer, across & ~r->avoid))
		return false;
	reach &= ~across;
	r->staged = takers.stageable && takers.rails != UINT64_MAX &&
		    (!(reach & takers.rails) || r->flags & TE_CRC);
	r->direct = !r->staged && takers.rails != UINT64_MAX;
	r->reach = r->staged ? reach : reach & takers.rails;
	if (r->staged && r->peer->worker->index) {
		/* Stages are the first worker's. */
		r->staged = false;
		r->reach = 0;
	}
	return takers.unknown;
}

bool tei_request_reach(struct tei_request *r, const struct tei_remote *remote,
		       const struct tei_remote_region *region)
{
	bool unknown = reach_whole(r, remote, region);

	reach_in_part(r, remote, region);
	return unknown;
}

/* ---- which worker has them ---- */

/* Returns the part of the worker that has the first of @rails. */
static struct tei_peer_work *part_of(const struct tei_peer_work *peer,
				     uint64_t rails)
{
	const struct tei_rail_box *box =
		peer->worker->rails[__builtin_ctzll(rails)];

	return &peer->of->works[box->worker->index];
}

/* Finds rails of the best tier that is live, near the memory if any is. */
static uint64_t best_rails(const struct tei_request *r,
			   const struct tei_remote_region *region,
			   uint64_t reach)
{
	const struct tei_worker *w = r->peer->worker;
	uint64_t live = tei_pairs_live(r->peer, reach), able = 0, near;

	for (uint32_t t = 0; t < w->n_tiers && !able; t++)
		able = live & w->tiers[t];
	near = able ? tei_near_of_any(r, region, able) : 0;
	return near ? near : able;
}

/*
 * Without a connection to the peer's control no link can be opened: leaves
 * those of @rails out whose workers have none up, unless none has.
 */
static uint64_t openable(const struct tei_peer_work *peer, uint64_t rails)
{
	uint64_t left, up = 0;

	if (peer->up)
		return rails;
	for (left = rails; left; left &= left - 1)
		if (atomic_load_explicit(&part_of(peer, left)->n_up,
					 memory_order_relaxed))
			up |= left & -left;
	return up ? up : rails;
}

/* Leaves out those that are down or gone, unless all are. */
static uint64_t not_down(const struct tei_worker *w, uint64_t rails)
{
	uint64_t left, linked = 0;

	for (left = rails; left; left &= left - 1) {
		const struct tei_rail_box *box =
			w->rails[__builtin_ctzll(left)];

		if (!box->dead && !box->down)
			linked |= left & -left;
	}
	return linked ? linked : rails;
}

struct tei_peer_work *tei_pairs_best_part(const struct tei_request *r)
{
	struct tei_peer_work *peer = r->peer;
	const struct tei_remote_region *region;
	uint64_t reach, across, more, best, room = r->length;
	struct tei_takers takers;

	region = tei_remote_find(peer->remote, r->remote, r->length);
	if (!region)
		return peer;
	reach = tei_pairs_that_reach(peer, peer->remote, region, &across);
	reach |= tei_pairs_elsewhere(peer, peer->remote, region, &more);
	across |= more;
	tei_takers_of(r, &takers);
	if (takers.rails != UINT64_MAX) {
		/* Stages, and copies across, are the first worker's. */
		if (r->flags & TE_CRC || !(reach & ~across & takers.rails) ||
		    (takers.all_gpu && across))
			return peer->of->works;
		reach &= takers.rails;
	}
	reach &= ~across & ~r->avoid;
	if (reach & peer->worker->spreads)
		reach = tei_spread_at(peer, peer->remote, region, reach,
				      r->remote + tei_spread_offset(r), &room);
	best = best_rails(r, region, openable(peer, reach));
	if (!best) /* all are paused or down: with one that will be back */
		best = not_down(peer->worker, reach);
	return !best || best & peer->worker->mine ? peer : part_of(peer, best);
}

/* ---- what the rails of other workers do ---- */

static void post_stand_by(struct tei_peer_work *there)
{
	if (!atomic_load_explicit(&there->n_up, memory_order_relaxed) &&
	    !atomic_exchange(&there->stand_by_posted, true))
		tei_worker_post(there->worker, &there->stand_by_call);
}

void tei_elsewhere_stand_by(struct tei_peer_work *peer, uint32_t tier)
{
	const struct tei_worker *w = peer->worker;
	uint64_t left = peer->elsewhere, good = 0;

	for (uint32_t t = 0; t <= tier; t++)
		good |= w->tiers[t];
	for (left &= good; left; left &= left - 1) {
		const struct tei_rail_box *box =
			w->rails[__builtin_ctzll(left)];

		post_stand_by(&peer->of->works[box->worker->index]);
	}
}

/* Tells whether both are of one NIC, as far as is known: "tcp/eth0#2". */
static bool is_same_nic(const struct tei_rail_box *a,
			const struct tei_rail_box *b)
{
	size_t len = strcspn(a->name, "#");

	return (a->nic >= 0 && a->nic == b->nic) ||
	       (len == strcspn(b->name, "#") &&
		!strncmp(a->name, b->name, len));
}

/* Workers that have one of @rails, of another NIC than @own; a bit each. */
static uint64_t workers_beside(const struct tei_rail_box *own, uint64_t rails)
{
	uint64_t workers = 0;

	for (; rails; rails &= rails - 1) {
		const struct tei_rail_box *box =
			own->worker->rails[__builtin_ctzll(rails)];

		if (!is_same_nic(own, box))
			workers |= (uint64_t)1 << box->worker->index;
	}
	return workers;
}

static bool has_idle(const struct tei_peer_work *there)
{
	return atomic_load_explicit(&there->n_up, memory_order_relaxed) >
	       atomic_load_explicit(&there->n_owing, memory_order_relaxed);
}

static bool has_moved(const struct tei_peer_work *there, uint64_t since)
{
	return atomic_load_explicit(&there->n_up, memory_order_relaxed) &&
	       atomic_load_explicit(&there->moved_at, memory_order_relaxed) >
		       since;
}

bool tei_elsewhere_works(const struct tei_peer_work *peer,
			 const struct tei_rail_box *box, uint64_t since)
{
	uint64_t tried =
		atomic_load_explicit(&peer->of->tried, memory_order_relaxed);
	uint64_t left = workers_beside(box, peer->elsewhere);
	uint64_t idle = workers_beside(box, peer->elsewhere & ~tried);
	bool works = false;

	for (; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);
		const struct tei_peer_work *there = &peer->of->works[i];

		works |= has_moved(there, since) ||
			 (idle >> i & 1 && has_idle(there));
	}
	return works;
}

/* ---- rails that reach none of a peer's, though both have the backend ---- */

static void report_unmatched(const struct tei_peer_work *peer,
			     struct tei_rail_box *box)
{
	TEI_COUNT(peer->engine, rails_unmatched);
	if (!box->unmatched_reported)
		LOG_WARN("rail %s: not used for %s, which has rails of its "
			 "backend but none that it reaches: another network or "
			 "kind of link, or a map of rails says so",
			 box->name, peer->name);
	box->unmatched_reported = true;
}

static void look_at(struct tei_peer_work *peer, uint32_t i)
{
	struct tei_rail_box *box = peer->worker->rails[i];
	const struct tei_backend_ops *ops = box->rail.ops;
	struct tei_pair *pair = &peer->pairs[i];
	bool before = pair->unmatched;

	/* Counts only backends that reach other hosts: shm never does. */
	pair->unmatched = !pair->usable && (ops->caps & TEI_CAP_REMOTE) &&
			  tei_remote_has_backend(peer->remote, ops->name) &&
			  !tei_pairs_may_come(peer, i);
	if (pair->unmatched == before)
		return;
	if (before) {
		atomic_fetch_sub_explicit(&box->n_unmatched, 1,
					  memory_order_relaxed);
		return;
	}
	atomic_fetch_add_explicit(&box->n_unmatched, 1, memory_order_relaxed);
	report_unmatched(peer, box);
}

void tei_unmatched_look(struct tei_peer_work *peer)
{
	uint32_t i;

	if (peer->self) /* loop carries that */
		return;
	for (i = 0; i < peer->worker->n_rails; i++)
		if (tei_worker_has(peer->worker, i))
			look_at(peer, i);
}
