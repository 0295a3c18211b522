/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evictable.c - which objects may be evicted, and which not yet
 *
 * Objects under a read lease are not in the policy's queues but wait in order of
 * their lease's end; so a pool full of leases is seen to be full at once. Those
 * that are pinned wait by their pin's end, those that are sheltered or at work
 * in no list. They come back in steps.
 */
#include "store/core/evictable.h"

#include <assert.h>

#include "store/core/object.h"
#include "store/core/policy.h"
#include "store/core/readers.h"
#include "store/core/space.h"
#include "store/core/state.h"

bool tei_core_pinned(const struct tei_core *core, const struct tei_object *o)
{
	const struct tei_extra *x = tei_core_object_extra(o);

	return x && x->pin_until_ms > core->now_ms;
}

uint64_t tei_core_object_room(const struct tei_object *o)
{
	uint64_t bytes = 0;

	for (const struct tei_extent *e = o->extents; e; e = e->next)
		bytes += e->size;
	return bytes;
}

struct tei_object *tei_core_first_pinned(const struct tei_core *core)
{
	return TEI_CONTAINER(tei_heap_top(&core->pins), struct tei_extra, pin)
		->object;
}

void tei_core_take_out(struct tei_core *core, struct tei_object *o)
{
	struct tei_extra *x = tei_core_object_extra(o);

	tei_policy_hold(tei_core_policy_of(core, o), &o->policy);
	tei_list_del(&o->link);
	if (x)
		tei_heap_remove(&core->pins, &x->pin);
}

void tei_core_put_back(struct tei_core *core, struct tei_object *o)
{
	if (o->flags &
	    (TEI_OBJECT_HARD | TEI_OBJECT_SHELTERED | TEI_OBJECT_BUSY))
		return;
	if (tei_core_pinned(core, o)) {
		struct tei_extra *x = tei_core_object_extra(o);
		int rc = tei_heap_add(&core->pins, &x->pin, x->pin_until_ms);

		assert(!rc); /* it has a place as long as there is the extra */
		(void)rc;
	} else {
		tei_policy_release(tei_core_policy_of(core, o), &o->policy);
		if (o->flags & TEI_OBJECT_EXTRA)
			tei_core_object_unpin(core, tei_core_object_extra(o));
	}
}

void tei_core_evictable(struct tei_core *core, struct tei_object *o)
{
	tei_policy_add(tei_core_policy_of(core, o), &o->policy,
		       tei_core_object_room(o), o->node.hash);
	tei_core_take_out(core, o);
	/* One that never goes is not counted as one that goes later. */
	if (tei_core_pinned(core, o) && !(o->flags & TEI_OBJECT_HARD)) {
		tei_core_object_extra(o)->pinned = true;
		core->figures.soft_pinned++;
	}
	tei_core_put_back(core, o);
}

void tei_core_unevictable(struct tei_core *core, struct tei_object *o)
{
	tei_policy_removed(tei_core_policy_of(core, o), &o->policy);
	tei_core_take_out(core, o);
}

void tei_core_touch(struct tei_core *core, struct tei_object *o)
{
	tei_policy_touch(tei_core_policy_of(core, o), &o->policy);
}

void tei_core_shelter(struct tei_core *core, struct tei_object *o)
{
	o->flags |= TEI_OBJECT_SHELTERED;
	if (!(o->flags & TEI_OBJECT_LEASED))
		tei_core_take_out(core, o);
}

void tei_core_hold(struct tei_core *core, struct tei_object *o)
{
	o->flags |= TEI_OBJECT_BUSY;
	if (!(o->flags & TEI_OBJECT_LEASED))
		tei_core_take_out(core, o);
}

void tei_core_unpark(struct tei_core *core, struct tei_object *o)
{
	o->flags &= (uint16_t)~TEI_OBJECT_SHELTERED;
	if ((o->flags & TEI_OBJECT_LEASED) || o->policy.queued)
		return;
	tei_core_take_out(core, o);
	tei_core_put_back(core, o);
}

void tei_core_unhold(struct tei_core *core, struct tei_object *o)
{
	if (!(o->flags & TEI_OBJECT_BUSY))
		return;
	o->flags &= (uint16_t)~TEI_OBJECT_BUSY;
	tei_core_unpark(core, o);
}

void tei_core_lease(struct tei_core *core, struct tei_object *o,
		    const struct tei_session *s)
{
	uint64_t until = core->now_ms + core->config.lease_ttl_ms;

	/* Those before will not release any more. */
	if (o->read_until_ms + core->config.lease_ttl_ms <= core->now_ms)
		tei_core_readers_clear(&o->readers);
	tei_core_readers_add(&o->readers, s);
	if ((o->flags & TEI_OBJECT_LEASED) && o->read_until_ms == until)
		return;
	o->flags |= TEI_OBJECT_LEASED;
	o->read_until_ms = until;
	tei_core_take_out(core, o);
	tei_list_add_tail(&core->leased, &o->link);
}

void tei_core_unlease(struct tei_core *core, struct tei_object *o)
{
	if (o->weak_until_ms < o->read_until_ms)
		o->weak_until_ms = o->read_until_ms;
	o->flags &= (uint16_t)~TEI_OBJECT_LEASED;
	tei_core_take_out(core, o);
	tei_core_put_back(core, o);
}

bool tei_core_lease_over(const struct tei_core *core)
{
	return !tei_list_empty(&core->leased) &&
	       tei_core_object_at(core->leased.next)->read_until_ms <=
		       core->now_ms;
}

static void end_leases(struct tei_core *core, unsigned int *budget)
{
	while (*budget && tei_core_lease_over(core)) {
		tei_core_unlease(core, tei_core_object_at(core->leased.next));
		--*budget;
	}
}

void tei_core_take_in(struct tei_core *core, unsigned int *budget)
{
	for (; *budget && !tei_list_empty(&core->back); --*budget)
		tei_core_put_back(
			core, tei_core_object_at(tei_list_pop(&core->back)));
	end_leases(core, budget);
}

unsigned int tei_core_end_pins(struct tei_core *core, unsigned int n)
{
	unsigned int i = 0;

	while (i < n && core->pins.n &&
	       !tei_core_pinned(core, tei_core_first_pinned(core))) {
		struct tei_object *o = tei_core_first_pinned(core);

		tei_core_take_out(core, o);
		tei_core_put_back(core, o);
		i++;
	}
	return i;
}
