/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region_late.c - give regions to rails that could not take them at first
 *
 * A rail that had no link and refused a region gets it when it has one; one that is
 * far from it (near.h) and refused is asked again, less and less often. Registering
 * a big region takes a device seconds, so it is done by a thread, the clerk of the
 * regions. Each key that is new is told to peers as any change of the regions is.
 *
 * The clerk pins the region that it is at, so that nobody removes it meanwhile.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "te/api/engine.h"
#include "te/control/control.h"
#include "te/region/region.h"

#define PAUSE_MIN TEI_NS_PER_S
#define PAUSE_MAX (64 * TEI_NS_PER_S)

void tei_late_init(struct tei_late *late)
{
	*late = (struct tei_late){.again_at = UINT64_MAX, .pause = PAUSE_MIN};
	tei_list_init(&late->todo);
	tei_list_init(&late->waiting);
	tei_cond_init(&late->work);
}

void tei_late_fini(struct tei_late *late)
{
	tei_cond_fini(&late->work);
}

/* ---- one region ---- */

static bool is_down(const struct tei_rail_box *box)
{
	return atomic_load_explicit(&box->shown, memory_order_relaxed) ==
	       TE_RAIL_DOWN;
}

static uint64_t bit_of(const struct tei_rail_box *box)
{
	return (uint64_t)1 << box->rail.index;
}

/* One that is down is not asked twice: it may be gone for good. */
static bool is_due(const struct tei_region *region,
		   const struct tei_rail_box *box)
{
	return (region->due & bit_of(box)) && !is_down(box);
}

static void say(const struct te_engine *engine, const struct tei_region *region,
		const struct tei_rail_box *box, int rc)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (!tei_log_allowed(&limit))
		return;
	if (!rc)
		LOG_INFO("engine %s: rail %s has a region of %" PRIu64
			 " bytes after all",
			 engine->name, box->name, region->length);
	else
		LOG_WARN("engine %s: a region still goes without rail %s: %s",
			 engine->name, box->name, strerror(-rc));
}

/* Lets go of the lock meanwhile. True: it took it. */
static bool give(const struct te_engine *engine, struct tei_regions *r,
		 struct tei_region *region, struct tei_rail_box *box)
	TEI_REQUIRES(r->mu)
{
	struct tei_key *key;
	int rc;

	tei_mutex_unlock(&r->mu);
	rc = tei_region_offer(region, box, &key);
	say(engine, region, box, rc);
	tei_mutex_lock(&r->mu);
	if (!rc)
		region->key[box->rail.index] = key;
	if (!rc || rc == -EOPNOTSUPP)
		region->due &= ~bit_of(box);
	return !rc;
}

/* For a while, unless some rail has come up since @n_ups were counted. */
static void put_off(struct tei_late *late, struct tei_region *region,
		    uint64_t n_ups)
{
	if (late->n_ups != n_ups) {
		tei_list_add_tail(&late->todo, &region->late);
		return;
	}
	tei_list_add_tail(&late->waiting, &region->late);
	if (late->again_at != UINT64_MAX)
		return;
	late->again_at = tei_now_ns() + late->pause;
	late->pause *= late->pause < PAUSE_MAX ? 2 : 1;
}

/* True: peers may use a rail more. */
static bool serve(const struct te_engine *engine, struct tei_regions *r,
		  struct tei_region *region) TEI_REQUIRES(r->mu)
{
	const struct tei_worker *w = &engine->worker;
	uint64_t n_ups = r->late.n_ups;
	bool news = false;

	region->pins++;
	region->at_clerk = true;
	for (uint32_t i = 0; i < w->n_rails; i++) {
		if (region->shown && !r->late.stop &&
		    is_due(region, w->rails[i]))
			news |= give(engine, r, region, w->rails[i]);
	}
	region->pins--;
	region->at_clerk = false;
	if (!region->shown) {
		tei_cond_broadcast(&r->unpinned);
		return false;
	}
	if (region->due)
		put_off(&r->late, region, n_ups);
	if (news)
		tei_regions_changed(r, region);
	return news && region->access;
}

/* ---- all of them ---- */

static void try_again(struct tei_late *late)
{
	tei_list_splice_tail(&late->todo, &late->waiting);
	late->again_at = UINT64_MAX;
}

/* Until there is something to do, or something to be tried again. */
static void rest(struct tei_regions *r) TEI_REQUIRES(r->mu)
{
	if (tei_list_empty(&r->late.waiting))
		r->late.pause = PAUSE_MIN;
	(void)tei_cond_wait(&r->late.work, &r->mu, r->late.again_at);
}

static void *run(void *arg)
{
	struct te_engine *engine = arg;
	struct tei_regions *r = &engine->regions;
	struct tei_late *late = &r->late;
	struct tei_list *node;

	tei_mutex_lock(&r->mu);
	while (!late->stop) {
		if (tei_now_ns() >= late->again_at)
			try_again(late);
		node = tei_list_pop(&late->todo);
		if (!node) {
			rest(r);
		} else if (serve(engine, r,
				 tei_list_entry(node, struct tei_region,
						late))) {
			tei_mutex_unlock(&r->mu);
			tei_control_push_regions(engine);
			tei_mutex_lock(&r->mu);
		}
	}
	tei_mutex_unlock(&r->mu);
	return NULL;
}

/* A simulated clock waits for no thread. */
int tei_late_start(struct te_engine *engine)
{
	const struct tei_worker *w = &engine->worker;
	struct tei_late *late = &engine->regions.late;
	bool any = false;
	int rc;

	for (uint32_t i = 0; i < w->n_rails; i++)
		any |= tei_is_rdma(w->rails[i]->rail.ops);
	if (!any || tei_clock_simulated())
		return 0;
	rc = tei_thread_start(&late->thread, "te-regions", run, engine);
	late->started = !rc;
	return rc;
}

void tei_late_stop(struct te_engine *engine)
{
	struct tei_regions *r = &engine->regions;

	if (!r->late.started)
		return;
	tei_mutex_lock(&r->mu);
	r->late.stop = true;
	tei_cond_signal(&r->late.work);
	tei_mutex_unlock(&r->mu);
	pthread_join(r->late.thread, NULL);
	r->late.started = false;
}

void tei_late_add(struct tei_regions *r, struct tei_region *region)
{
	if (!region->due || !r->late.started)
		return;
	tei_list_add_tail(&r->late.todo, &region->late);
	tei_cond_signal(&r->late.work);
}

void tei_late_rail_up(struct te_engine *engine)
{
	struct tei_regions *r = &engine->regions;

	tei_mutex_lock(&r->mu);
	r->late.n_ups++;
	r->late.pause = PAUSE_MIN;
	try_again(&r->late);
	tei_cond_signal(&r->late.work);
	tei_mutex_unlock(&r->mu);
}
