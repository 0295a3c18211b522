/* SPDX-License-Identifier: Apache-2.0 */
/* rails.c - pairing our rails with a peer's */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "te/common/engine.h"
#include "te/region/region.h"
#include "te/transfer/peer.h"
#include "te/transfer/rails.h"
#include "te/transfer/request.h"
#include "te/transfer/transfer.h"
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

static int rank_of(const struct tei_peer *peer, uint32_t mine, uint32_t remote)
{
	struct tei_rail *rail = &peer->engine->worker->rails[mine]->rail;
	const struct tei_remote_rail *other = &peer->w.remote->rails[remote];
	struct tei_address from = peer->w.address;

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

static uint32_t place(const struct tei_peer *peer, uint32_t mine)
{
	struct tei_rail_box *const *rails = peer->engine->worker->rails;
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

static void consider(const struct tei_peer *peer, uint32_t mine,
		     const struct remotes *remotes, struct choice *best)
{
	uint32_t k, p = place(peer, mine);

	for (k = 0; k < peer->w.remote->n_rails; k++) {
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
static const struct tei_backend_ops *list_backends(const struct tei_peer *peer,
						   char text[LIST_LEN])
{
	const struct tei_backend_ops *first = NULL, *last = NULL;
	size_t len = 0;

	for (uint32_t i = 0; i < peer->engine->worker->n_rails; i++) {
		const struct tei_backend_ops *ops =
			peer->engine->worker->rails[i]->rail.ops;

		if (!peer->w.pairs[i].usable || ops == last || len >= LIST_LEN)
			continue;
		len += (size_t)snprintf(text + len, LIST_LEN - len, "%s%s",
					first ? ", else " : "", ops->name);
		first = first ? first : ops;
		last = ops;
	}
	return first;
}

/* Once, and when it is another: by what its bytes will go. */
static void tell_choice(struct tei_peer *peer)
{
	const struct tei_backend_ops *first;
	char text[LIST_LEN];

	first = list_backends(peer, text);
	if (first == peer->w.choice && peer->w.chosen)
		return;
	peer->w.choice = first;
	peer->w.chosen = true;
	LOG_INFO("peer %s: reached by %s", peer->name,
		 first ? text : "no rail of ours");
}

static uint32_t partner_of(const struct tei_pair *pair)
{
	return pair->usable ? pair->remote_pos : UINT32_MAX;
}

bool tei_pairs_match(struct tei_peer *peer)
{
	uint32_t i, n = peer->engine->worker->n_rails, before[REMOTE_MAX];
	struct tei_pair *pairs = peer->w.pairs;
	struct remotes remotes;
	struct choice best;
	bool changed = false;

	place_remotes(peer->w.remote, &remotes);
	for (i = 0; i < n; i++) {
		before[i] = partner_of(&pairs[i]);
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
			peer->w.remote->rails[best.remote].index;
	} while (best.rank);
	tell_choice(peer);
	for (i = 0; i < n; i++)
		changed |= partner_of(&pairs[i]) != before[i];
	return changed;
}

static bool is_silent(const struct tei_remote_rail *rail,
		      const struct tei_backend_ops *ops)
{
	return ops->rail_describe && !rail->match_len &&
	       !strcmp(rail->backend, ops->name);
}

bool tei_pairs_may_come(const struct tei_peer *peer, uint32_t mine)
{
	const struct tei_rail_box *box = peer->engine->worker->rails[mine];
	const struct tei_backend_ops *ops = box->rail.ops;
	const struct tei_remote *remote = peer->w.remote;
	bool silent = false;
	uint32_t k;

	if (peer->self || box->dead ||
	    !tei_remote_has_backend(remote, ops->name))
		return false;
	for (k = 0; k < remote->n_rails; k++)
		silent |= is_silent(&remote->rails[k], ops);
	return box->down || silent;
}

uint64_t tei_pairs_that_reach(const struct tei_peer *peer,
			      const struct tei_remote *remote,
			      const struct tei_remote_region *region)
{
	uint64_t reach = 0;
	uint32_t i;

	for (i = 0; i < peer->engine->worker->n_rails; i++) {
		const struct tei_pair *pair = &peer->w.pairs[i];

		if (pair->usable && pair->remote_pos < remote->n_rails &&
		    region->key[pair->remote_pos].bytes)
			reach |= (uint64_t)1 << i;
	}
	return reach;
}

uint64_t tei_pairs_near(const struct tei_peer *peer,
			const struct tei_remote_region *region)
{
	uint64_t near = 0;
	uint32_t i;

	if (!region->near)
		return 0;
	for (i = 0; i < peer->engine->worker->n_rails; i++) {
		const struct tei_pair *pair = &peer->w.pairs[i];

		if (pair->usable && region->near >> pair->remote_pos & 1)
			near |= (uint64_t)1 << i;
	}
	return near;
}

/* ---- rails that reach none of a peer's, though both have the backend ---- */

static void tell(const struct tei_peer *peer, struct tei_rail_box *box)
{
	TEI_COUNT(peer->engine, rails_unmatched);
	if (!box->unmatched_told)
		LOG_WARN("rail %s: not used for %s, which has rails of its "
			 "backend but none that it reaches: another network or "
			 "kind of link, or a map of rails says so",
			 box->name, peer->name);
	box->unmatched_told = true;
}

static void look_at(struct tei_peer *peer, uint32_t i)
{
	struct tei_rail_box *box = peer->engine->worker->rails[i];
	const struct tei_backend_ops *ops = box->rail.ops;
	struct tei_pair *pair = &peer->w.pairs[i];
	bool before = pair->unmatched;

	/* That shm does not reach another host is no news. */
	pair->unmatched = !pair->usable && (ops->caps & TEI_CAP_REMOTE) &&
			  tei_remote_has_backend(peer->w.remote, ops->name) &&
			  !tei_pairs_may_come(peer, i);
	if (pair->unmatched == before)
		return;
	if (before) {
		atomic_fetch_sub_explicit(&box->n_unmatched, 1,
					  memory_order_relaxed);
		return;
	}
	atomic_fetch_add_explicit(&box->n_unmatched, 1, memory_order_relaxed);
	tell(peer, box);
}

void tei_unmatched_look(struct tei_peer *peer)
{
	uint32_t i;

	if (peer->self) /* loop carries that */
		return;
	for (i = 0; i < peer->engine->worker->n_rails; i++)
		look_at(peer, i);
}

/* ---- rails that are near the memory of a request, at both ends ---- */

#define FAR_BELOW 4 /* near rails together carry less than one far by this */

/* ---- which are near ---- */

static uint64_t look_up(struct tei_regions *regions, uint64_t addr,
			struct tei_near_seen *seen)
{
	struct tei_region *region = NULL;
	size_t place;

	tei_mutex_lock(&regions->mu);
	seen->changes =
		atomic_load_explicit(&regions->changes, memory_order_relaxed);
	seen->length = seen->near = 0;
	place = tei_regions_place(regions, addr);
	if (place < regions->n)
		region = regions->sorted[place];
	if (region && region->addr <= addr) {
		seen->addr = region->addr;
		seen->length = region->length;
		seen->near = region->near;
	}
	tei_mutex_unlock(&regions->mu);
	return seen->near;
}

static uint64_t near_of_local(struct te_engine *engine, uint64_t addr)
{
	struct tei_near_seen *seen = &engine->transfer->near_seen;
	struct tei_regions *regions = engine->regions;

	if (!atomic_load_explicit(&regions->any_near, memory_order_relaxed))
		return 0;
	if (seen->changes == atomic_load_explicit(&regions->changes,
						  memory_order_acquire) &&
	    addr - seen->addr < seen->length)
		return seen->near;
	return look_up(regions, addr, seen);
}

uint64_t tei_near_of(const struct tei_request *r)
{
	uint64_t addr = (uintptr_t)r->pieces[0].iov_base;
	uint64_t here = near_of_local(r->peer->engine, addr) & r->reach;
	uint64_t there = tei_pairs_near(r->peer, r->region) & r->reach;

	return here & there ? here & there : here | there;
}

/* ---- whether they will do ---- */

/* Of one figure of some rails; where it is 0 it is unknown. */
struct figure {
	uint64_t sum, most;
	bool all; /* it is known of each */
};

/* What some rails carry to a peer: as measured, at their best, as devices say. */
struct rates {
	struct figure measured, peak, said;
};

static void add(struct figure *figure, uint64_t value)
{
	figure->sum += value;
	figure->all = figure->all && value;
	if (value > figure->most)
		figure->most = value;
}

static struct rates rates_of(const struct tei_peer *peer, uint64_t rails)
{
	const struct tei_worker *w = peer->engine->worker;
	struct rates rates = {{.all = true}, {.all = true}, {.all = true}};

	for (; rails; rails &= rails - 1) {
		int i = __builtin_ctzll(rails);
		const struct tei_meter *meter = &peer->w.pairs[i].meter;

		add(&rates.measured,
		    meter->guess ? 0 : tei_meter_rate(meter, w->now, 0));
		add(&rates.peak, meter->peak);
		add(&rates.said, w->rails[i]->rail.device.speed_bps);
	}
	return rates;
}

/*
 * What was measured counts before what devices say. A far rail that was not
 * used lately may well do what the near ones have done at their best: so near
 * ones that have become slow let it be tried.
 */
static bool will_do(const struct tei_peer *peer, uint64_t near, uint64_t far)
{
	struct rates n = rates_of(peer, near), f = rates_of(peer, far);
	uint64_t hope = f.measured.most ? f.measured.most : n.peak.most;

	if (n.measured.all)
		return n.measured.sum >= hope / FAR_BELOW;
	if (n.said.all && f.said.all)
		return n.said.sum >= f.said.most / FAR_BELOW;
	return true;
}

uint64_t tei_near_choose(const struct tei_peer *peer, uint64_t able,
			 uint64_t fit, uint64_t near)
{
	near &= able;
	if (!(near & fit) || near == able)
		return able;
	return will_do(peer, near & fit, able & fit & ~near) ? near : able;
}
