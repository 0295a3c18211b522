/* SPDX-License-Identifier: Apache-2.0 */
/* pin.c - what pins of target endpoints read, and who waits for their end */
#include "base/clock.h"
#include "te/core/engine.h"
#include "te/region/region.h"
#include "te/worker/worker.h"

/* No analysis: it does not follow locks that are taken in a loop. */
void tei_pins_block(struct tei_regions *r) TEI_NO_ANALYSIS
{
	for (uint32_t i = 0; i < r->engine->n_workers; i++)
		tei_mutex_lock(&r->pin_locks[i].mu);
}

/* No analysis: these are the locks of tei_pins_block(). */
void tei_pins_unblock(struct tei_regions *r) TEI_NO_ANALYSIS
{
	for (uint32_t i = r->engine->n_workers; i--;)
		tei_mutex_unlock(&r->pin_locks[i].mu);
}

void tei_region_show(struct tei_regions *r, struct tei_region *region,
		     bool shown)
{
	tei_pins_block(r);
	region->shown = shown;
	tei_pins_unblock(r);
}

/* Counts pins; those of a hidden region never become more. */
static uint32_t count_pins(struct tei_regions *r,
			   const struct tei_region *region) TEI_REQUIRES(r->mu)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < r->engine->n_workers; i++) {
		tei_mutex_lock(&r->pin_locks[i].mu);
		sum += region->pins[i].n;
		tei_mutex_unlock(&r->pin_locks[i].mu);
	}
	return sum;
}

void tei_regions_unpinned(struct tei_regions *r)
{
	tei_mutex_lock(&r->mu);
	tei_cond_broadcast(&r->unpinned);
	tei_mutex_unlock(&r->mu);
}

static uint64_t patience(const struct te_engine *engine)
{
	return engine->config.suspect_after * TEI_NS_PER_MS;
}

bool tei_region_await_unpinned(struct te_engine *engine,
			       struct tei_region *region, uint64_t until)
{
	struct tei_regions *r = engine->regions;
	uint64_t now = tei_now_ns();
	bool unpinned = false;

	tei_mutex_lock(&r->mu);
	while (now < until) {
		/* Dropping endpoints does not hurry a background thread. */
		bool by_peers = count_pins(r, region) != 0;
		uint64_t next = by_peers && region->drop_at < until
					? region->drop_at
					: until;

		unpinned = !by_peers && !region->in_background;
		if (unpinned)
			break;
		if (by_peers && now >= region->drop_at) {
			region->drop_at = now + patience(engine);
			tei_mutex_unlock(&r->mu);
			engine->regions->ops->drop_pinning(engine);
			tei_mutex_lock(&r->mu);
		} else {
			tei_worker_await(engine->worker, &r->unpinned, &r->mu,
					 next);
		}
		now = tei_now_ns();
	}
	if (!unpinned) /* there was no time at all, or it is over */
		unpinned = !count_pins(r, region) && !region->in_background;
	tei_mutex_unlock(&r->mu);
	return unpinned;
}
