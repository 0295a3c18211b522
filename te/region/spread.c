/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spread.c - memory that is too large for one rail
 *
 * Devices have a limit of what can be registered. Rails near such a region, or
 * all where none is, take as much of it as they have room for, each from
 * another place on, so that together they reach all of it, and most of it by
 * several.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/log.h"
#include "te/core/engine.h"
#include "te/region/region.h"
#include "te/worker/worker.h"

/* Returns the rails that are near region @id; 0: none is known to be. */
static uint64_t near_of(struct te_engine *engine, uint64_t id)
{
	struct tei_regions *r = engine->regions;
	const struct tei_region *region;
	uint64_t near;

	tei_mutex_lock(&r->mu);
	region = tei_handle_get(&r->handles, id);
	near = region ? region->near : 0;
	tei_mutex_unlock(&r->mu);
	return near;
}

uint32_t tei_region_spread(const struct tei_rail *rail, uint64_t id,
			   uint32_t *n)
{
	struct te_engine *engine = rail->core->engine;
	const struct tei_worker *w = engine->worker;
	uint64_t near = near_of(engine, id);
	uint32_t i, place = 0;

	*n = 0;
	if (near && !(near >> rail->index & 1))
		return 0;
	for (i = 0; i < w->n_rails; i++) {
		if (w->rails[i]->rail.ops != rail->ops ||
		    (near && !(near >> i & 1)))
			continue;
		place += i < rail->index;
		++*n;
	}
	return place;
}

/* Tells whether the rail has the byte at @addr; *@room as key_covers(). */
static bool rail_has(const struct tei_rail *rail, const struct tei_key *key,
		     uint64_t addr, uint64_t *room)
{
	return !rail->ops->key_covers ||
	       rail->ops->key_covers(key->bytes, key->len, addr, room);
}

/*
 * Tells whether peers of other hosts reach the byte at @addr by some rail;
 * *@room: bytes of which the same holds, at most what it was.
 */
static bool is_reached(const struct te_engine *engine,
		       const struct tei_region *region, uint64_t addr,
		       uint64_t *room)
{
	const struct tei_worker *w = engine->worker;
	bool reached = false;

	for (uint32_t i = 0; i < w->n_rails; i++) {
		const struct tei_rail *rail = &w->rails[i]->rail;
		uint64_t same = *room;

		if (!region->key[i] || !(rail->ops->caps & TEI_CAP_REMOTE))
			continue;
		reached |= rail_has(rail, region->key[i], addr, &same);
		*room = same < *room ? same : *room;
	}
	return reached;
}

uint64_t tei_region_rails_at(const struct te_engine *engine,
			     const struct tei_region *region, uint64_t addr)
{
	const struct tei_worker *w = engine->worker;
	uint64_t have = 0;

	for (uint32_t i = 0; i < w->n_rails; i++) {
		uint64_t room;

		if (region->key[i] &&
		    rail_has(&w->rails[i]->rail, region->key[i], addr, &room))
			have |= (uint64_t)1 << i;
	}
	return have;
}

bool tei_region_is_spread(const struct te_engine *engine,
			  const struct tei_region *region)
{
	const struct tei_worker *w = engine->worker;
	uint64_t left;

	for (left = w->spreads; left; left &= left - 1) {
		int i = __builtin_ctzll(left);
		uint64_t room = region->length;

		if (region->key[i] &&
		    (!rail_has(&w->rails[i]->rail, region->key[i], region->addr,
			       &room) ||
		     room < region->length))
			return true;
	}
	return false;
}

/* Finds the first byte that no rail has. False: there is none. */
static bool find_gap(const struct te_engine *engine,
		     const struct tei_region *region, uint64_t *at)
{
	uint64_t from = 0, room;

	for (; from < region->length; from += room) {
		room = region->length - from;
		*at = region->addr + from;
		if (!is_reached(engine, region, *at, &room))
			return true;
	}
	return false;
}

int tei_region_check_gaps(struct te_engine *engine,
			  const struct tei_region *region)
{
	uint64_t at;

	if (!tei_region_is_spread(engine, region))
		return 0;
	atomic_store_explicit(&engine->regions->any_near, true,
			      memory_order_relaxed);
	if (!find_gap(engine, region, &at))
		return 0;
	LOG_WARN("engine %s: a region of %" PRIu64 " bytes is refused: no rail "
		 "has room for the part of it at %#" PRIx64,
		 engine->name, region->length, at);
	return -ENOBUFS;
}
