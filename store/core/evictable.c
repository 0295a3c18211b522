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

bool tes_core_pinned(const struct tes_core *core, const struct tes_object *o)
{
	const struct tes_extra *x = tes_core_object_extra(o);

	return x && x->pin_until_ms > core->now_ms;
}

uint64_t tes_core_object_room(const struct tes_object *o)
{
	uint64_t bytes = 0;

	for (const struct tes_extent *e = o->extents; e; e = e->next)
		bytes += e->size;
	return bytes;
}

struct tes_object *tes_core_first_pinned(const struct tes_core *core)
{
	return TEI_CONTAINER(tei_heap_top(&core->pins), struct tes_extra, pin)
		->object;
}

void tes_core_take_out(struct tes_core *core, struct tes_object *o)
{
	struct tes_extra *x = tes_core_object_extra(o);

	tes_policy_hold(tes_core_policy_of(core, o), &o->policy);
	tei_list_del(&o->link);
	if (x)
		tei_heap_remove(&core->pins, &x->pin);
}

void tes_core_put_back(struct tes_core *core, struct tes_object *o)
{
	if (o->flags &
	    (TES_OBJECT_HARD | TES_OBJECT_SHELTERED | TES_OBJECT_BUSY))
		return;
	if (tes_core_pinned(core, o)) {
		struct tes_extra *x = tes_core_object_extra(o);
		int rc = tei_heap_add(&core->pins, &x->pin, x->pin_until_ms);

		assert(!rc); /* it has a place as long as there is the extra */
		(void)rc;
	} else {
		tes_policy_release(tes_core_policy_of(core, o), &o->policy);
		if (o->flags & TES_OBJECT_EXTRA)
			tes_core_object_unpin(core, tes_core_object_extra(o));
	}
}

void tes_core_evictable(struct tes_core *core, struct tes_object *o)
{
	tes_policy_add(tes_core_policy_of(core, o), &o->policy,
		       tes_core_object_room(o), o->node.hash);
	tes_core_take_out(core, o);
	/* One that never goes is not counted as one that goes later. */
	if (tes_core_pinned(core, o) && !(o->flags & TES_OBJECT_HARD)) {
		tes_core_object_extra(o)->pinned = true;
		core->figures.soft_pinned++;
	}
	tes_core_put_back(core, o);
}

void tes_core_unevictable(struct tes_core *core, struct tes_object *o)
{
	tes_policy_removed(tes_core_policy_of(core, o), &o->policy);
	tes_core_take_out(core, o);
}

void tes_core_touch(struct tes_core *core, struct tes_object *o)
{
	tes_policy_touch(tes_core_policy_of(core, o), &o->policy);
}

void tes_core_shelter(struct tes_core *core, struct tes_object *o)
{
	o->flags |= TES_OBJECT_SHELTERED;
	if (!(o->flags & TES_OBJECT_LEASED))
		tes_core_take_out(core, o);
}

void tes_core_hold(struct tes_core *core, struct tes_object *o)
{
	o->flags |= TES_OBJECT_BUSY;
	if (!(o->flags & TES_OBJECT_LEASED))
		tes_core_take_out(core, o);
}

void tes_core_unpark(struct tes_core *core, struct tes_object *o)
{
	o->flags &= (uint16_t)~TES_OBJECT_SHELTERED;
	if ((o->flags & TES_OBJECT_LEASED) || o->policy.queued)
		return;
	tes_core_take_out(core, o);
	tes_core_put_back(core, o);
}

void tes_core_unhold(struct tes_core *core, struct tes_object *o)
{
	if (!(o->flags & TES_OBJECT_BUSY))
		return;
	o->flags &= (uint16_t)~TES_OBJECT_BUSY;
	tes_core_unpark(core, o);
}

void tes_core_lease(struct tes_core *core, struct tes_object *o,
		    const struct tes_session *s)
{
	uint64_t until = core->now_ms + core->config.lease_ttl_ms;

	/* Those before will not release any more. */
	if (o->read_until_ms + core->config.lease_ttl_ms <= core->now_ms)
		tes_core_readers_clear(&o->readers);
	tes_core_readers_add(&o->readers, s);
	if ((o->flags & TES_OBJECT_LEASED) && o->read_until_ms == until)
		return;
	o->flags |= TES_OBJECT_LEASED;
	o->read_until_ms = until;
	tes_core_take_out(core, o);
	tei_list_add_tail(&core->leased, &o->link);
}

void tes_core_unlease(struct tes_core *core, struct tes_object *o)
{
	if (o->weak_until_ms < o->read_until_ms)
		o->weak_until_ms = o->read_until_ms;
	o->flags &= (uint16_t)~TES_OBJECT_LEASED;
	tes_core_take_out(core, o);
	tes_core_put_back(core, o);
}

bool tes_core_lease_over(const struct tes_core *core)
{
	return !tei_list_empty(&core->leased) &&
	       tes_core_object_at(core->leased.next)->read_until_ms <=
		       core->now_ms;
}

static void end_leases(struct tes_core *core, unsigned int *budget)
{
	while (*budget && tes_core_lease_over(core)) {
		tes_core_unlease(core, tes_core_object_at(core->leased.next));
		--*budget;
	}
}

void tes_core_take_in(struct tes_core *core, unsigned int *budget)
{
	for (; *budget && !tei_list_empty(&core->back); --*budget)
		tes_core_put_back(
			core, tes_core_object_at(tei_list_pop(&core->back)));
	end_leases(core, budget);
}

unsigned int tes_core_end_pins(struct tes_core *core, unsigned int n)
{
	unsigned int i = 0;

	while (i < n && core->pins.n &&
	       !tes_core_pinned(core, tes_core_first_pinned(core))) {
		struct tes_object *o = tes_core_first_pinned(core);

		tes_core_take_out(core, o);
		tes_core_put_back(core, o);
		i++;
	}
	return i;
}
