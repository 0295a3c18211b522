/* SPDX-License-Identifier: Apache-2.0 */
/* region.c - add, remove, pin and describe regions */
#include "te/region/region.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "te/api/engine.h"
#include "te/control/control.h"
#include "te/control/control.pb-c.h"
#include "te/transfer/link.h"

#define SPINS      2000 /* about as long as a chunk takes */
#define WARN_MS    2000
#define ACCESS_ALL (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

void tei_regions_init(struct tei_regions *r)
{
	tei_mutex_init(&r->mu);
	tei_cond_init(&r->unpinned);
	tei_handles_init(&r->handles);
	r->sorted = NULL;
	r->n = r->room = 0;
	r->groups.n = 0;
	atomic_init(&r->version, 1);
	atomic_init(&r->changes, 1);
	atomic_init(&r->any_near, false);
	tei_late_init(&r->late);
}

static void region_free(struct tei_region *region, uint32_t n_rails)
{
	uint32_t i;

	for (i = 0; i < n_rails; i++)
		tei_free(region->key[i]);
	tei_free(region);
}

void tei_regions_fini(struct tei_regions *r)
{
	tei_free(r->sorted);
	tei_late_fini(&r->late);
	tei_handles_fini(&r->handles);
	tei_cond_fini(&r->unpinned);
	tei_mutex_fini(&r->mu);
}

size_t tei_regions_place(const struct tei_regions *r, uint64_t addr)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct tei_region *region = r->sorted[mid];

		if (region->addr + region->length > addr)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static int make_room(struct tei_regions *r)
{
	size_t room = r->room ? r->room * 2 : 16;
	struct tei_region **sorted;

	if (r->n < r->room)
		return 0;
	sorted = tei_realloc(r->sorted, room * sizeof(struct tei_region *));
	if (!sorted)
		return -ENOMEM;
	r->sorted = sorted;
	r->room = room;
	return 0;
}

/* Put a hidden region into the table, so that no other can take its range. */
static int insert(struct tei_regions *r, struct tei_region *region)
	TEI_REQUIRES(r->mu)
{
	size_t place = tei_regions_place(r, region->addr);
	struct tei_region *next = place < r->n ? r->sorted[place] : NULL;

	if (next && next->addr == region->addr &&
	    next->length == region->length)
		return -EEXIST;
	if (next && next->addr < region->addr + region->length)
		return -EINVAL;
	if (make_room(r))
		return -ENOMEM;
	region->id = tei_handle_add(&r->handles, region);
	if (!region->id)
		return -ENOMEM;
	memmove(&r->sorted[place + 1], &r->sorted[place],
		(r->n - place) * sizeof(struct tei_region *));
	r->sorted[place] = region;
	r->n++;
	atomic_fetch_add_explicit(&r->changes, 1, memory_order_release);
	return 0;
}

static void take_out(struct tei_regions *r, struct tei_region *region)
	TEI_REQUIRES(r->mu)
{
	size_t place = tei_regions_place(r, region->addr);

	memmove(&r->sorted[place], &r->sorted[place + 1],
		(r->n - place - 1) * sizeof(struct tei_region *));
	r->n--;
	tei_list_del(&region->late);
	atomic_fetch_add_explicit(&r->changes, 1, memory_order_release);
	tei_handle_remove(&r->handles, region->id);
}

static int check(const struct te_region *region)
{
	uint64_t addr = (uintptr_t)region->addr;

	if (!addr || !region->length || region->length > TE_LENGTH_MAX ||
	    addr + region->length < addr)
		return -EINVAL;
	if (region->access & ~(uint32_t)ACCESS_ALL)
		return -EINVAL;
	if (region->reserved_0 || region->reserved_1[0] ||
	    region->reserved_1[1] || region->reserved_1[2])
		return -EINVAL;
	if (region->location &&
	    strlen(region->location) >=
		    sizeof(((struct tei_region *)0)->location))
		return -EINVAL;
	return 0;
}

static struct tei_region *region_make(struct te_engine *engine,
				      const struct te_region *from)
{
	struct tei_region *region;

	region =
		tei_calloc(1, sizeof(*region) + engine->worker.n_rails *
							sizeof(region->key[0]));
	if (!region)
		return NULL;
	region->addr = (uintptr_t)from->addr;
	region->length = from->length;
	region->access = from->access;
	region->group = -1;
	tei_list_init(&region->late);
	tei_topology_locate(engine, from->addr, from->location,
			    region->location, sizeof(region->location));
	region->near = tei_topology_near(engine, region->location);
	if (region->near)
		atomic_store_explicit(&engine->regions.any_near, true,
				      memory_order_relaxed);
	return region;
}

static int reserve(struct tei_regions *r, struct tei_region *region,
		   const uint8_t *secret)
{
	int rc = 0;

	tei_mutex_lock(&r->mu);
	if (secret) {
		region->group = tei_group_add(&r->groups, secret);
		if (region->group < 0)
			rc = region->group;
	}
	if (!rc)
		rc = insert(r, region);
	tei_mutex_unlock(&r->mu);
	return rc;
}

/*
 * Free a region that is not in the table. When it was the last of its group,
 * who has proven that one must not be taken for a member of the next group in
 * the same place.
 */
static void discard(struct te_engine *engine, struct tei_region *region)
{
	struct tei_regions *r = &engine->regions;
	bool last = false;
	unsigned int place = (unsigned int)region->group;

	tei_mutex_lock(&r->mu);
	if (region->group >= 0)
		last = tei_group_remove(&r->groups, place);
	tei_mutex_unlock(&r->mu);
	if (last) {
		tei_guests_forget_group(engine, place);
		tei_mutex_lock(&r->mu);
		tei_group_free(&r->groups, place);
		tei_mutex_unlock(&r->mu);
	}
	region_free(region, engine->worker.n_rails);
}

void tei_regions_changed(struct tei_regions *r, const struct tei_region *region)
{
	if (region->access)
		atomic_fetch_add_explicit(&r->version, 1, memory_order_release);
}

int te_region_add(struct te_engine *engine, const struct te_region *region,
		  te_region_id *out)
{
	struct tei_regions *r = &engine->regions;
	struct tei_region *added;
	int rc;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!region || !out || check(region))
		return -EINVAL;
	added = region_make(engine, region);
	if (!added)
		return -ENOMEM;
	rc = reserve(r, added, region->group);
	if (rc)
		goto discard;
	rc = tei_region_register(engine, added);
	if (rc)
		goto take_out;

	tei_mutex_lock(&r->mu);
	added->shown = true;
	tei_regions_changed(r, added);
	tei_late_add(r, added);
	*out = added->id;
	tei_mutex_unlock(&r->mu);
	if (region->access)
		tei_control_push_regions(engine);
	return 0;

take_out:
	tei_mutex_lock(&r->mu);
	take_out(r, added);
	tei_mutex_unlock(&r->mu);
discard:
	discard(engine, added);
	assert(rc < 0);
	return rc;
}

static uint64_t patience(const struct te_engine *engine)
{
	return engine->config.suspect_after * TEI_NS_PER_MS;
}

/*
 * A peer that stopped in the middle of a slice holds its pin for ever: when
 * patience ends, the endpoints that pin something are dropped. False: some
 * still pin it at @until.
 */
static bool await_unpinned(struct te_engine *engine, struct tei_region *region,
			   uint64_t until)
{
	struct tei_regions *r = &engine->regions;
	uint64_t now = tei_now_ns();
	bool unpinned;

	tei_mutex_lock(&r->mu);
	while (region->pins && now < until) {
		/* Dropping endpoints does not hurry the clerk. */
		bool by_peers = region->pins > region->at_clerk;
		uint64_t next = by_peers && region->drop_at < until
					? region->drop_at
					: until;

		if (by_peers && now >= region->drop_at) {
			region->drop_at = now + patience(engine);
			tei_mutex_unlock(&r->mu);
			tei_guests_drop_pinning(engine);
			tei_mutex_lock(&r->mu);
		} else {
			tei_worker_await(&engine->worker, &r->unpinned, &r->mu,
					 next);
		}
		now = tei_now_ns();
	}
	unpinned = !region->pins;
	tei_mutex_unlock(&r->mu);
	return unpinned;
}

/* False: some rail's peers still touch it. */
static bool hide(struct te_engine *engine, struct tei_region *region)
{
	struct tei_worker *w = &engine->worker;
	bool quiet = true;
	uint32_t i;

	for (i = 0; i < w->n_rails; i++) {
		struct tei_rail *rail = &w->rails[i]->rail;

		if (region->key[i] && rail->ops->region_hide &&
		    rail->ops->region_hide(rail, region->id))
			quiet = false;
	}
	return quiet;
}

/*
 * What is awaited is a word that another process stores into shared memory:
 * nobody here could signal it.
 */
static void pause_a_while(struct tei_regions *r, unsigned int turn)
{
	if (turn < SPINS) {
		(void)sched_yield();
		return;
	}
	tei_mutex_lock(&r->mu);
	tei_cond_wait(&r->unpinned, &r->mu, tei_now_ns() + TEI_NS_PER_MS);
	tei_mutex_unlock(&r->mu);
}

/*
 * A copy under way takes microseconds, or as long as its process stands still.
 * False: until after @until.
 */
static bool await_hidden(struct te_engine *engine, struct tei_region *region,
			 uint64_t until)
{
	uint64_t warn = tei_now_ns() + WARN_MS * TEI_NS_PER_MS;
	unsigned int turn;

	for (turn = 0; !hide(engine, region); turn++) {
		uint64_t now = tei_now_ns();

		if (now >= until)
			return false;
		if (now >= warn) {
			LOG_WARN(
				"engine %s: a region cannot be removed before "
				"a process of this host, stopped in the middle "
				"of a copy, goes on or ends",
				engine->name);
			warn = UINT64_MAX;
		}
		pause_a_while(&engine->regions, turn);
	}
	return true;
}

static void remove_quiet(struct te_engine *engine, struct tei_region *region)
{
	struct tei_regions *r = &engine->regions;

	tei_region_unregister(engine, region);
	tei_mutex_lock(&r->mu);
	take_out(r, region);
	tei_mutex_unlock(&r->mu);
	discard(engine, region);
}

/* Shown, or left by one that ran out of time. */
static struct tei_region *claim(struct te_engine *engine, te_region_id id,
				bool *visible)
{
	struct tei_regions *r = &engine->regions;
	struct tei_region *region;

	tei_mutex_lock(&r->mu);
	region = tei_handle_get(&r->handles, id);
	if (region && !region->shown && !region->left)
		region = NULL;
	if (region) {
		*visible = region->shown && region->access != 0;
		if (region->shown) {
			tei_regions_changed(r, region);
			region->drop_at = tei_now_ns() + patience(engine);
		}
		region->shown = region->left = false;
	}
	tei_mutex_unlock(&r->mu);
	return region;
}

static void leave(struct tei_regions *r, struct tei_region *region)
{
	tei_mutex_lock(&r->mu);
	region->left = true;
	tei_mutex_unlock(&r->mu);
}

static int remove_until(struct te_engine *engine, te_region_id id,
			uint64_t until)
{
	struct tei_region *region;
	bool visible;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	region = claim(engine, id, &visible);
	if (!region)
		return -ENOENT;
	if (visible)
		tei_control_push_regions(engine);
	if (!await_unpinned(engine, region, until) ||
	    !await_hidden(engine, region, until)) {
		leave(&engine->regions, region);
		return -ETIMEDOUT;
	}
	remove_quiet(engine, region);
	return 0;
}

int te_region_remove(struct te_engine *engine, te_region_id id)
{
	return remove_until(engine, id, UINT64_MAX);
}

int te_region_remove_within(struct te_engine *engine, te_region_id id,
			    uint32_t timeout_ms)
{
	return remove_until(engine, id,
			    tei_now_ns() + timeout_ms * TEI_NS_PER_MS);
}

/* Every endpoint is closed: nobody is left who touches anything. */
void tei_regions_remove_all(struct te_engine *engine)
{
	struct tei_regions *r = &engine->regions;

	while (r->n) { /* from the end, so that none has to move up */
		struct tei_region *last = r->sorted[r->n - 1];

		last->shown = false;
		await_unpinned(engine, last, UINT64_MAX);
		remove_quiet(engine, last);
	}
}

void tei_regions_renew(struct te_engine *engine)
{
	struct tei_regions *r = &engine->regions;

	tei_mutex_lock(&r->mu);
	atomic_fetch_add_explicit(&r->version, 1, memory_order_release);
	tei_mutex_unlock(&r->mu);
	tei_control_push_regions(engine);
}

void tei_regions_groups(struct tei_regions *r, struct tei_group_set *out)
{
	tei_mutex_lock(&r->mu);
	*out = r->groups;
	tei_mutex_unlock(&r->mu);
}
