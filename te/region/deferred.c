/* SPDX-License-Identifier: Apache-2.0 */
/* deferred.c - regions that rails could not take at first */
#include "te/region/deferred.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "te/core/engine.h"
#include "te/region/region.h"
#include "te/worker/worker.h"

#define PAUSE_MIN TEI_NS_PER_S
#define PAUSE_MAX (64 * TEI_NS_PER_S)

void tei_deferred_init(struct tei_deferred *deferred)
{
	*deferred = (struct tei_deferred){.again_at = UINT64_MAX,
					  .pause = PAUSE_MIN};
	tei_list_init(&deferred->todo);
	tei_list_init(&deferred->waiting);
	tei_cond_init(&deferred->work);
}

void tei_deferred_fini(struct tei_deferred *deferred)
{
	tei_cond_fini(&deferred->work);
}

/* ---- one region ---- */

static uint64_t bit_of(const struct tei_rail_box *box)
{
	return (uint64_t)1 << box->rail.index;
}

/* True: the rail is to be tried; a rail that is down is not tried twice. */
static bool is_due(const struct tei_region *region,
		   const struct tei_rail_box *box)
{
	return (region->due & bit_of(box)) && !tei_rail_is_down(box);
}

/* Logs what became of a region that had been deferred. */
static void log_late_offer(const struct te_engine *engine,
			   const struct tei_region *region,
			   const struct tei_rail_box *box, int rc)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (!tei_log_allowed(&limit))
		return;
	if (!rc)
		LOG_INFO("engine %s: rail %s has a region of %" PRIu64
			 " bytes now",
			 engine->name, box->name, region->length);
	else
		LOG_WARN(
			"engine %s: a region is still not registered on rail %s: %s",
			engine->name, box->name, strerror(-rc));
}

/*
 * Notes that the rail, which had a link, refused the region. True: it had not
 * before.
 */
static bool note_refusal(struct tei_region *region,
			 const struct tei_rail_box *box)
{
	uint64_t bit = bit_of(box);

	if (region->refused & bit)
		return false;
	region->refused |= bit;
	return true;
}

/*
 * Offers a deferred region to a rail; lets go of the lock meanwhile. True:
 * peers are to be told, of the key or that there will be none soon.
 */
static bool offer_late(struct te_engine *engine, struct tei_regions *r,
		       struct tei_region *region, struct tei_rail_box *box)
	TEI_REQUIRES(r->mu)
{
	bool was_down = tei_rail_is_down(box);
	struct tei_key *key;
	int rc;

	tei_mutex_unlock(&r->mu);
	rc = tei_region_export(engine, region);
	if (!rc)
		rc = tei_region_offer(region, box, &key);
	tei_region_export_end(region);
	log_late_offer(engine, region, box, rc);
	tei_mutex_lock(&r->mu);
	if (!rc) {
		tei_pins_block(r);
		region->key[box->rail.index] = key;
		tei_pins_unblock(r);
		atomic_fetch_add_explicit(&r->changes, 1, memory_order_release);
	}
	if (rc && rc != -EOPNOTSUPP)
		return !was_down && note_refusal(region, box);
	region->due &= ~bit_of(box);
	return true;
}

/*
 * Defers the region for a while, unless some rail has come up since @n_ups were
 * counted.
 */
static void defer(struct tei_deferred *deferred, struct tei_region *region,
		  uint64_t n_ups)
{
	if (deferred->n_ups != n_ups) {
		tei_list_add_tail(&deferred->todo, &region->deferred);
		return;
	}
	tei_list_add_tail(&deferred->waiting, &region->deferred);
	if (deferred->again_at != UINT64_MAX)
		return;
	deferred->again_at = tei_now_ns() + deferred->pause;
	deferred->pause *= deferred->pause < PAUSE_MAX ? 2 : 1;
}

/* Offers the region to rails without it. True: peers are to be told. */
static bool register_deferred(struct te_engine *engine, struct tei_regions *r,
			      struct tei_region *region) TEI_REQUIRES(r->mu)
{
	const struct tei_worker *w = engine->worker;
	uint64_t n_ups = r->deferred.n_ups;
	bool news = false;

	region->in_background++;
	for (uint32_t i = 0; i < w->n_rails; i++) {
		if (region->shown && !r->deferred.stop &&
		    is_due(region, w->rails[i]))
			news |= offer_late(engine, r, region, w->rails[i]);
	}
	region->in_background--;
	if (!region->shown) {
		tei_cond_broadcast(&r->unpinned);
		return false;
	}
	if (region->due)
		defer(&r->deferred, region, n_ups);
	if (news)
		tei_regions_changed(r, region);
	return news && region->access;
}

/* ---- all of them ---- */

static void try_again(struct tei_deferred *deferred)
{
	tei_list_splice_tail(&deferred->todo, &deferred->waiting);
	deferred->again_at = UINT64_MAX;
}

/* Sleeps until a region is deferred, or one is to be tried again. */
static void await_deferred(struct tei_regions *r) TEI_REQUIRES(r->mu)
{
	if (tei_list_empty(&r->deferred.waiting))
		r->deferred.pause = PAUSE_MIN;
	(void)tei_cond_wait(&r->deferred.work, &r->mu, r->deferred.again_at);
}

static void *retry_regions(void *arg)
{
	struct te_engine *engine = arg;
	struct tei_regions *r = engine->regions;
	struct tei_deferred *deferred = &r->deferred;
	struct tei_list *node;

	tei_mutex_lock(&r->mu);
	while (!deferred->stop) {
		if (tei_now_ns() >= deferred->again_at)
			try_again(deferred);
		node = tei_list_pop(&deferred->todo);
		if (!node) {
			await_deferred(r);
		} else if (register_deferred(engine, r,
					     tei_list_entry(node,
							    struct tei_region,
							    deferred))) {
			tei_mutex_unlock(&r->mu);
			engine->regions->ops->push(engine);
			tei_mutex_lock(&r->mu);
		}
	}
	tei_mutex_unlock(&r->mu);
	return NULL;
}

/* A simulated clock waits for no thread. */
int tei_deferred_start(struct te_engine *engine)
{
	const struct tei_worker *w = engine->worker;
	struct tei_deferred *deferred = &engine->regions->deferred;
	bool any = false;
	int rc;

	for (uint32_t i = 0; i < w->n_rails; i++)
		any |= tei_is_rdma(w->rails[i]->rail.ops);
	if (!any || tei_clock_simulated())
		return 0;
	rc = tei_thread_start(&deferred->thread, "te-regions", retry_regions,
			      engine);
	deferred->started = !rc;
	return rc;
}

void tei_deferred_stop(struct te_engine *engine)
{
	struct tei_regions *r = engine->regions;

	if (!r->deferred.started)
		return;
	tei_mutex_lock(&r->mu);
	r->deferred.stop = true;
	tei_cond_signal(&r->deferred.work);
	tei_mutex_unlock(&r->mu);
	pthread_join(r->deferred.thread, NULL);
	r->deferred.started = false;
}

void tei_deferred_add(struct tei_regions *r, struct tei_region *region)
{
	if (!region->due || !r->deferred.started)
		return;
	tei_list_add_tail(&r->deferred.todo, &region->deferred);
	tei_cond_signal(&r->deferred.work);
}

void tei_deferred_rail_up(struct te_engine *engine)
{
	struct tei_regions *r = engine->regions;

	tei_mutex_lock(&r->mu);
	r->deferred.n_ups++;
	r->deferred.pause = PAUSE_MIN;
	try_again(&r->deferred);
	tei_cond_signal(&r->deferred.work);
	tei_mutex_unlock(&r->mu);
}

/*
 * Returns a bit for each rail that some region awaits that peers see. With mu
 * held.
 */
static uint64_t awaited_rails(const struct tei_regions *r)
{
	uint64_t rails = 0;

	for (size_t i = 0; i < r->n; i++) {
		const struct tei_region *region = r->sorted[i];

		if (region->shown && region->access)
			rails |= region->due & ~region->refused;
	}
	return rails;
}

uint64_t tei_deferred_hold_back(const struct tei_regions *r)
{
	const struct tei_worker *w = r->engine->worker;
	uint64_t rails = 0;

	for (uint32_t i = 0; i < w->n_rails; i++) {
		if (!w->rails[i]->dead) /* else it will be offered nothing */
			rails |= bit_of(w->rails[i]);
	}
	rails &= ~r->deferred.known;
	return r->deferred.started && rails ? rails & awaited_rails(r) : 0;
}

void tei_deferred_described(struct tei_regions *r, uint64_t rails)
{
	tei_mutex_lock(&r->mu);
	r->deferred.known |= rails;
	tei_mutex_unlock(&r->mu);
}
