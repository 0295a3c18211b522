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
 */
#include "store/core/state.h"

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
 * Move the hand until one object is evicted; the mount that it was on. NULL:
 * the ring has none, or *@budget objects have been looked at.
 */
static struct tei_mount *evict_one(struct tei_core *core, unsigned int *budget)
{
	struct tei_object *o;
	struct tei_mount *m;

	while (*budget && !tei_list_empty(&core->ring)) {
		--*budget;
		o = object_at(core->ring.next);
		m = tei_core_object_mount(o);
		if (!tei_core_mount_live(m)) {
			tei_list_del(&o->link);
			tei_list_add_tail(&m->parked, &o->link);
		} else if (o->flags & TEI_OBJECT_REF) {
			o->flags &= (uint8_t)~TEI_OBJECT_REF;
			tei_list_del(&o->link);
			tei_list_add_tail(&core->ring, &o->link);
		} else {
			evict(core, o);
			return m;
		}
	}
	return NULL;
}

/* As evict_one(), ending leases that are over when the ring is empty. */
static struct tei_mount *evict_any(struct tei_core *core)
{
	unsigned int all, some;
	struct tei_mount *m;

	do {
		all = UINT32_MAX;
		some = 64;
		m = evict_one(core, &all);
		if (m)
			return m;
		end_leases(core, &some);
	} while (!tei_list_empty(&core->ring));
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
		if (!above(core, low_watermark(core)) ||
		    (!evict_one(core, budget) && tei_list_empty(&core->ring)))
			core->evicting = false;
	}
}

bool tei_core_evict_busy(const struct tei_core *core)
{
	return core->evicting || lease_over(core);
}
