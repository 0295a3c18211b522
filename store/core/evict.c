/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evict.c - which object goes when space is short
 *
 * CLOCK: the hand stands at the front of a ring; an object that was asked for
 * since the hand last came by goes round once more. Objects under a read lease
 * are not in the ring at all but wait in order of their lease's end and come
 * back behind the hand; so a pool full of leases is seen to be full at once.
 * Objects of suspect owners are parked beside the ring when the hand meets
 * them: evicting them would free nothing that can be used.
 *
 * Nothing here takes longer than a few ms: ticks have a budget of objects, and
 * the starts of one batch share an effort; who needs more is asked again.
 */
#include "store/core/state.h"

/* Of an eviction, where looking at an object costs 1 (some 40 ns). */
#define EVICT_COST 8

static struct tei_object *object_at(struct tei_list *link)
{
	return tei_list_entry(link, struct tei_object, link);
}

void tei_core_ring_add(struct tei_core *core, struct tei_object *o)
{
	tei_list_add_tail(&core->ring, &o->link);
}

void tei_core_lease(struct tei_core *core, struct tei_object *o)
{
	uint64_t until = core->now_ms + core->config.lease_ttl_ms;

	if (o->read_until_ms <= core->now_ms)
		o->readers = 0; /* those before did not release in time */
	if (o->readers < UINT32_MAX)
		o->readers++;
	if ((o->flags & TEI_OBJECT_LEASED) && o->read_until_ms == until)
		return;
	o->flags |= TEI_OBJECT_LEASED;
	o->read_until_ms = until;
	tei_list_del(&o->link);
	tei_list_add_tail(&core->leased, &o->link);
}

void tei_core_unlease(struct tei_core *core, struct tei_object *o)
{
	if (o->soft_until_ms < o->read_until_ms)
		o->soft_until_ms = o->read_until_ms;
	o->readers = 0;
	o->flags &= (uint8_t)~TEI_OBJECT_LEASED;
	tei_list_del(&o->link);
	tei_core_ring_add(core, o);
}

static bool lease_over(const struct tei_core *core)
{
	return !tei_list_empty(&core->leased) &&
	       object_at(core->leased.next)->read_until_ms <= core->now_ms;
}

static void end_leases(struct tei_core *core, unsigned int *budget)
{
	while (*budget && lease_over(core)) {
		tei_core_unlease(core, object_at(core->leased.next));
		--*budget;
	}
}

static void evict(struct tei_core *core, struct tei_object *o)
{
	core->figures.evicted_objects_total++;
	core->figures.evicted_bytes_total += o->extent->size;
	tei_core_object_drop(core, o);
}

/*
 * Deal with the object under the hand: park it, @spare it once more, or evict
 * it. The mount that it was evicted from, or NULL.
 */
static struct tei_mount *turn(struct tei_core *core, bool spare)
{
	struct tei_object *o = object_at(core->ring.next);
	struct tei_mount *m = tei_core_object_mount(o);

	if (!tei_core_mount_live(m)) {
		tei_list_del(&o->link);
		tei_list_add_tail(&m->parked, &o->link);
		return NULL;
	}
	if (spare && (o->flags & TEI_OBJECT_REF)) {
		o->flags &= (uint8_t)~TEI_OBJECT_REF;
		tei_list_del(&o->link);
		tei_list_add_tail(&core->ring, &o->link);
		return NULL;
	}
	evict(core, o);
	return m;
}

static void spend(unsigned int *budget, unsigned int cost)
{
	*budget -= *budget < cost ? *budget : cost;
}

void tei_core_evict_begin(struct tei_core *core)
{
	core->effort = TEI_CORE_EFFORT * core->config.step_objects;
}

/*
 * Evict one for a start; NULL: nothing can go, or the step has done its share.
 * When half of that is spent nothing is spared any more, so that a pool in
 * which everything was asked for costs no step a whole turn.
 */
static struct tei_mount *evict_any(struct tei_core *core)
{
	unsigned int half = TEI_CORE_EFFORT / 2 * core->config.step_objects;
	struct tei_mount *m;
	unsigned int some;

	do {
		while (core->effort && !tei_list_empty(&core->ring)) {
			m = turn(core, core->effort > half);
			spend(&core->effort, m ? EVICT_COST : 1);
			if (m)
				return m;
		}
		some = 64;
		end_leases(core, &some);
	} while (core->effort && !tei_list_empty(&core->ring));
	return NULL;
}

struct tei_extent *tei_core_place_or_evict(struct tei_core *core, uint64_t size,
					   void *user)
{
	struct tei_extent *e = tei_core_place(core, size, user);
	struct tei_mount *m;

	if (e || !tei_core_mounts_hold(core, size))
		return e;
	while ((m = evict_any(core))) {
		e = tei_core_place_on(core, m, size, user);
		if (e)
			return e;
	}
	return NULL;
}

uint32_t tei_core_retry_ms(const struct tei_core *core)
{
	uint64_t wait = 0;

	if (!core->effort && !tei_list_empty(&core->ring))
		return 1; /* the next step evicts more */
	if (!tei_list_empty(&core->leased) && !lease_over(core))
		wait = object_at(core->leased.next)->read_until_ms -
		       core->now_ms;
	if (core->figures.building || core->figures.fencing)
		if (!wait || wait > TEI_CORE_RETRY_MS)
			wait = TEI_CORE_RETRY_MS;
	return wait > UINT32_MAX ? UINT32_MAX : (uint32_t)wait;
}

static bool above(const struct tei_core *core, double ratio)
{
	return (double)core->figures.used_bytes >
	       (double)core->figures.capacity_bytes * ratio;
}

static double low_watermark(const struct tei_core *core)
{
	double low = core->config.high_watermark - core->config.eviction_ratio;

	return low > 0 ? low : 0;
}

void tei_core_evict_tick(struct tei_core *core, unsigned int *budget)
{
	end_leases(core, budget);
	if (above(core, core->config.high_watermark))
		core->evicting = true;
	while (core->evicting && *budget) {
		if (above(core, low_watermark(core)) &&
		    !tei_list_empty(&core->ring)) {
			turn(core, true);
			--*budget;
		} else {
			core->evicting = false;
		}
	}
}

bool tei_core_evict_busy(const struct tei_core *core)
{
	return core->evicting || lease_over(core);
}
