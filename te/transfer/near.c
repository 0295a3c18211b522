/* SPDX-License-Identifier: Apache-2.0 */
/* near.c - rails that are near the memory of a request, at both ends */
#include "te/transfer/near.h"

#include "te/common/engine.h"
#include "te/region/region.h"
#include "te/transfer/pairs.h"
#include "te/transfer/peer.h"
#include "te/transfer/request.h"
#include "te/transfer/transfer.h"
#include "te/worker/worker.h"

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
