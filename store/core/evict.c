/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evict.c - objects that may be evicted, and eviction when space is short
 *
 * The policy chooses the object that is worth least. Objects under a read lease
 * are not in its queues but wait in order of their lease's end; so a pool full
 * of leases is seen to be full at once. Softly pinned objects wait by their
 * pin's end, protected ones and those with a task at work in no list. Objects
 * of suspect owners are parked when their turn comes: evicting them would free
 * nothing that can be used. All come back in steps.
 *
 * Nothing here takes longer than a few ms: ticks have a budget of objects, and
 * the starts of one batch share an effort; a start that needs more is asked
 * again.
 */
#include "store/core/evict.h"

#include <assert.h>

#include "store/core/codes.h"
#include "store/core/epoch.h"
#include "store/core/fence.h"
#include "store/core/object.h"
#include "store/core/policy.h"
#include "store/core/replica.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/tenant.h"

/* Cost of an eviction, where looking at an object costs 1 (some 40 ns). */
#define EVICT_COST 8
/* Cost of each extent but the first that goes with it. */
#define EXTENT_COST 3
/* Members of a group that go with the one that was chosen. */
#define GROUP_MAX 32
#define FREED_MAX 8
/* Objects that a start requeues at once, whose lease has ended or owner is
 * back. */
#define TAKE_IN 64
/* Objects that a tick requeues, whose pin has ended. */
#define END_PINS 64

/* ---- lists that an object may be in ---- */

/* True: @o is softly pinned now. */
static bool is_pinned(const struct tes_core *core, const struct tes_object *o)
{
	const struct tes_extra *x = tes_core_object_extra(o);

	return x && x->pin_until_ms > core->now_ms;
}

/* Counts the bytes of its extents. */
static uint64_t room_of(const struct tes_object *o)
{
	uint64_t bytes = 0;

	for (const struct tes_extent *e = o->extents; e; e = e->next)
		bytes += e->size;
	return bytes;
}

/* Finds the object whose pin ends first; there is one. */
static struct tes_object *first_pinned(const struct tes_core *core)
{
	return TEI_CONTAINER(tei_heap_top(&core->pins), struct tes_extra, pin)
		->object;
}

/* Takes @o out of whatever list its link is in. */
static void take_out(struct tes_core *core, struct tes_object *o)
{
	struct tes_extra *x = tes_core_object_extra(o);

	tes_policy_hold(tes_core_policy_of(core, o), &o->policy);
	tei_list_del(&o->link);
	if (x)
		tei_heap_remove(&core->pins, &x->pin);
}

static void put_back(struct tes_core *core, struct tes_object *o)
{
	if (o->flags &
	    (TES_OBJECT_HARD | TES_OBJECT_PROTECTED | TES_OBJECT_BUSY))
		return;
	if (is_pinned(core, o)) {
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
	tes_policy_add(tes_core_policy_of(core, o), &o->policy, room_of(o),
		       o->node.hash);
	take_out(core, o);
	/* An object that never goes is not counted as one that goes later. */
	if (is_pinned(core, o) && !(o->flags & TES_OBJECT_HARD)) {
		tes_core_object_extra(o)->pinned = true;
		core->figures.soft_pinned++;
	}
	put_back(core, o);
}

void tes_core_unevictable(struct tes_core *core, struct tes_object *o)
{
	tes_policy_removed(tes_core_policy_of(core, o), &o->policy);
	take_out(core, o);
}

void tes_core_touch(struct tes_core *core, struct tes_object *o)
{
	tes_policy_touch(tes_core_policy_of(core, o), &o->policy);
}

void tes_core_protect(struct tes_core *core, struct tes_object *o)
{
	o->flags |= TES_OBJECT_PROTECTED;
	if (!(o->flags & TES_OBJECT_LEASED))
		take_out(core, o);
}

void tes_core_make_busy(struct tes_core *core, struct tes_object *o)
{
	o->flags |= TES_OBJECT_BUSY;
	if (!(o->flags & TES_OBJECT_LEASED))
		take_out(core, o);
}

void tes_core_requeue(struct tes_core *core, struct tes_object *o)
{
	o->flags &= (uint16_t)~TES_OBJECT_PROTECTED;
	if ((o->flags & TES_OBJECT_LEASED) || o->policy.queued)
		return;
	take_out(core, o);
	put_back(core, o);
}

void tes_core_end_busy(struct tes_core *core, struct tes_object *o)
{
	if (!(o->flags & TES_OBJECT_BUSY))
		return;
	o->flags &= (uint16_t)~TES_OBJECT_BUSY;
	tes_core_requeue(core, o);
}

void tes_core_evict_later(struct tes_core *core, struct tes_object *o,
			  struct tei_list *list)
{
	take_out(core, o);
	tei_list_add_tail(list, &o->link);
}

/* ---- leases and pins end ---- */

bool tes_core_leased(const struct tes_core *core, const struct tes_object *o)
{
	return o->weak_until_ms > core->now_ms ||
	       ((o->flags & TES_OBJECT_LEASED) &&
		o->read_until_ms > core->now_ms);
}

void tes_core_unlease(struct tes_core *core, struct tes_object *o)
{
	if (o->weak_until_ms < o->read_until_ms)
		o->weak_until_ms = o->read_until_ms;
	o->flags &= (uint16_t)~TES_OBJECT_LEASED;
	take_out(core, o);
	put_back(core, o);
}

/* True: the first of the leases is over. */
static bool lease_ended(const struct tes_core *core)
{
	return !tei_list_empty(&core->leased) &&
	       tes_core_object_at(core->leased.next)->read_until_ms <=
		       core->now_ms;
}

static void end_leases(struct tes_core *core, unsigned int *budget)
{
	while (*budget && lease_ended(core)) {
		tes_core_unlease(core, tes_core_object_at(core->leased.next));
		--*budget;
	}
}

/* Requeues objects whose owner is back, and those whose lease is over. */
static void take_in(struct tes_core *core, unsigned int *budget)
{
	for (; *budget && !tei_list_empty(&core->back); --*budget)
		put_back(core, tes_core_object_at(tei_list_pop(&core->back)));
	end_leases(core, budget);
}

/* Requeues at most @n objects whose pin is over; returns how many. */
static unsigned int end_pins(struct tes_core *core, unsigned int n)
{
	unsigned int i = 0;

	while (i < n && core->pins.n && !is_pinned(core, first_pinned(core))) {
		struct tes_object *o = first_pinned(core);

		take_out(core, o);
		put_back(core, o);
		i++;
	}
	return i;
}

/* ---- one eviction ---- */

/* Purpose of evictions, and the mounts on which they have freed something. */
struct freed {
	uint64_t need;         /* bytes in a row; 0: any are welcome */
	struct tes_tenant *of; /* of its objects only; NULL: of all */
	/* Objects that lie on smaller mounts only, unpinned and pinned. */
	struct tei_list aside, pinned;
	struct tes_mount *mounts[FREED_MAX];
	size_t n;
	bool more;         /* and on others */
	uint64_t later;    /* bytes that owners have to confirm before */
	unsigned int cost; /* of all that went */
};

static void note_freed(struct freed *f, const struct tes_object *o)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		struct tes_mount *m = tes_core_extent_mount(e);

		if (f->n && f->mounts[f->n - 1] == m)
			continue;
		if (f->n < FREED_MAX)
			f->mounts[f->n++] = m;
		else
			f->more = true;
	}
}

static unsigned int cost_of(const struct tes_object *o)
{
	unsigned int cost = EVICT_COST;

	for (const struct tes_extent *e = o->extents->next; e; e = e->next)
		cost += EXTENT_COST;
	return cost;
}

static void evict_one(struct tes_core *core, struct tes_object *o,
		      struct freed *f)
{
	f->cost += cost_of(o);
	core->figures.evicted_objects_total++;
	core->figures.evicted_bytes_total += room_of(o);
	tes_policy_evicted(tes_core_policy_of(core, o), &o->policy,
			   o->node.hash);
	/* Without a checksum readers could not notice the bytes of the next
	 * object. */
	if ((o->flags & TES_OBJECT_NO_CRC) && tes_core_may_bury(o) &&
	    tes_core_bury_reserve(core, o, NULL) == 0) {
		f->later += room_of(o);
		tes_core_bury(core, o, NULL);
		return;
	}
	tes_core_notice(core, o);
	note_freed(f, o);
	tes_core_object_drop(core, o);
}

/* True: @o may go with another member of its group. */
static bool may_follow(const struct tes_core *core, const struct tes_object *o)
{
	return o->state == TES_OBJECT_READY &&
	       !(o->flags & (TES_OBJECT_LEASED | TES_OBJECT_HARD |
			     TES_OBJECT_PROTECTED | TES_OBJECT_BUSY)) &&
	       !is_pinned(core, o) && tes_core_object_live(o);
}

/* Evicts one object, and some of its group. */
static void evict_with_group(struct tes_core *core, struct tes_object *o,
			     struct freed *f)
{
	struct tes_extra *x = tes_core_object_extra(o);
	struct tes_group *g = x ? x->group : NULL;
	bool last = !g || g->members.next == g->members.prev;
	unsigned int n = GROUP_MAX;

	evict_one(core, o, f);
	if (last)
		return; /* the group went with it */
	for (; n && g->members.next != g->members.prev; n--, f->cost++) {
		x = tei_list_entry(g->members.next, struct tes_extra, link);
		tei_list_del(&x->link);
		tei_list_add_tail(&g->members, &x->link);
		if (may_follow(core, x->object))
			evict_one(core, x->object, f);
	}
	x = tei_list_entry(g->members.next, struct tes_extra, link);
	if (n && may_follow(core, x->object))
		evict_one(core, x->object, f);
}

/* Puts @o aside with its mount; with the core when it lies on several, as any
 * owner may bring it back. */
static void park_object(struct tes_core *core, struct tes_object *o)
{
	const struct tes_extent *e = o->extents;
	struct tes_mount *m = tes_core_extent_mount(e);

	while (e && tes_core_extent_mount(e) == m)
		e = e->next;
	take_out(core, o);
	tei_list_add_tail(e ? &core->parked : &m->parked, &o->link);
}

static struct tes_object *next_in_queue(struct tes_core *core,
					struct tes_object *o)
{
	struct tes_policy_node *node =
		tes_policy_after(tes_core_policy_of(core, o), &o->policy);

	return node ? TEI_CONTAINER(node, struct tes_object, policy) : NULL;
}

/*
 * Start to load what evicting those after @o will touch, so that their cache
 * misses overlap with other work: of each what can be seen of it by now.
 */
static void prefetch_next(struct tes_core *core, struct tes_object *o)
{
	o = next_in_queue(core, o);
	if (!o)
		return;
	__builtin_prefetch(o->extents->order.next, 1);
	__builtin_prefetch(o->extents->order.prev, 1);
	o = next_in_queue(core, o);
	if (!o)
		return;
	tei_hash_prefetch(&core->objects, o->node.hash);
	tes_policy_prefetch(tes_core_policy_of(core, o), o->node.hash);
	tes_core_tombstone_prefetch(core, o->node.hash);
	__builtin_prefetch(o->extents, 1);
	o = next_in_queue(core, o);
	if (o) {
		__builtin_prefetch(o, 1);
		__builtin_prefetch((const char *)o + 64, 1);
	}
}

/* True: without @o there could be room, as some mount of it could hold the new
 * object if it were empty. */
static bool may_help(const struct freed *f, const struct tes_object *o)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next) {
		const struct tes_mount *m = tes_core_extent_mount(e);

		if (m && tes_core_mount_takes(m) && m->space.size >= f->need)
			return true;
	}
	return false;
}

/* Puts the objects set aside back where they were. When the effort is out the
 * next start is to see others first, so they come back in steps. */
static void restore_aside(struct tes_core *core, struct freed *f)
{
	if (!core->effort) {
		tei_list_splice_tail(&core->back, &f->aside);
		tei_list_splice_tail(&core->back, &f->pinned);
		return;
	}
	while (!tei_list_empty(&f->pinned))
		put_back(core, tes_core_object_at(tei_list_pop(&f->pinned)));
	while (!tei_list_empty(&f->aside)) {
		struct tes_object *o = tes_core_object_at(f->aside.prev);

		tei_list_del(&o->link);
		tes_policy_restore(tes_core_policy_of(core, o), &o->policy);
	}
}

/* Chooses the tenant whose objects go now; NULL: nothing is left. */
static struct tes_tenant *choose_payer(struct tes_core *core,
				       const struct freed *f)
{
	if (!f->of)
		return tes_core_tenant_payer(core);
	return tes_policy_empty(&f->of->policy) ? NULL : f->of;
}

/* Evict the object of @t that is worth least, or put it by. False: nothing
 * went. */
static bool evict_victim(struct tes_core *core, struct tes_tenant *t,
			 struct freed *f)
{
	struct tes_policy_node *node = tes_policy_victim(&t->policy);
	struct tes_object *o = TEI_CONTAINER(node, struct tes_object, policy);

	prefetch_next(core, o);
	if (!tes_core_object_live(o)) {
		park_object(core, o);
		return false;
	}
	if (f->need && !may_help(f, o)) {
		take_out(core, o);
		tei_list_add_tail(&f->aside, &o->link);
		return false;
	}
	evict_with_group(core, o, f);
	return true;
}

/* Evicts, when nothing else is left, the softly pinned object whose pin ends
 * first. False: nothing was freed. */
static bool evict_pinned(struct tes_core *core, struct freed *f)
{
	struct tes_object *o = first_pinned(core);

	if ((f->of && f->of->index != o->tenant) || !may_help(f, o)) {
		take_out(core, o);
		tei_list_add_tail(&f->pinned, &o->link);
		return false;
	}
	evict_with_group(core, o, f);
	return true;
}

/* ---- room for starts ---- */

void tes_core_evict_begin(struct tes_core *core)
{
	unsigned int some = TAKE_IN;

	take_in(core, &some);
	core->effort = TES_CORE_EFFORT * core->config.step_objects;
}

/* Evict one that is not pinned. */
static bool evict_unpinned(struct tes_core *core, struct freed *f)
{
	struct tes_tenant *t;
	unsigned int some;
	bool went;

	do {
		while (core->effort && (t = choose_payer(core, f))) {
			went = evict_victim(core, t, f);
			tes_core_spend(&core->effort, went ? f->cost : 1);
			if (went)
				return true;
		}
		some = TAKE_IN;
		take_in(core, &some);
	} while (core->effort && choose_payer(core, f));
	return false;
}

/*
 * Evict one for a start; false: nothing can go, or the step has done its share.
 */
static bool evict_any(struct tes_core *core, struct freed *f)
{
	f->n = f->cost = 0;
	f->more = false;
	f->later = 0;
	do
		if (evict_unpinned(core, f))
			return true;
	while (core->effort && end_pins(core, TAKE_IN));
	while (core->config.evict_soft_pinned && core->effort && core->pins.n) {
		tes_core_spend(&core->effort, EVICT_COST);
		if (evict_pinned(core, f)) {
			tes_core_spend(&core->effort, f->cost);
			return true;
		}
	}
	return false;
}

static bool place_freed(struct tes_core *core, struct tes_placement *placement,
			struct tes_object *o, const struct freed *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (tes_core_place_on(core, f->mounts[i], o, 0))
			return true;
	return f->more && tes_core_place(core, placement, o, 0);
}

bool tes_core_place_or_evict(struct tes_core *core,
			     struct tes_placement *placement,
			     struct tes_object *o)
{
	uint64_t total = tes_core_extent_size(o->size), later = 0;
	struct freed f = {.need = total};
	bool placed = false;

	if (tes_core_place(core, placement, o, 0))
		return true;
	if (!tes_core_mounts_hold(core, total))
		return false;
	tei_list_init(&f.aside);
	tei_list_init(&f.pinned);
	core->figures.evictions_attempted_total++;
	while (!placed && later < total && evict_any(core, &f)) {
		placed = place_freed(core, placement, o, &f);
		later += f.later;
	}
	core->figures.evictions_successful_total += placed;
	restore_aside(core, &f);
	return placed;
}

int32_t tes_core_afford(struct tes_core *core, struct tes_tenant *t,
			uint64_t bytes)
{
	struct freed f = {.of = t};
	uint64_t had;

	/* Without a pool the refusal is not the quota's. */
	if (tes_core_tenant_has_room(t, bytes) || !core->pool_bytes)
		return CODE_OK;
	tei_list_init(&f.aside);
	tei_list_init(&f.pinned);
	core->figures.evictions_attempted_total++;
	had = t->charged;
	while (bytes <= t->effective && !tes_core_tenant_has_room(t, bytes) &&
	       evict_any(core, &f))
		;
	t->evicted_bytes_total += had - t->charged;
	restore_aside(core, &f);
	if (tes_core_tenant_has_room(t, bytes)) {
		core->figures.evictions_successful_total++;
		return CODE_OK;
	}
	if (bytes <= t->effective && !core->effort)
		return CODE_FULL;
	t->rejects_total++;
	return CODE_QUOTA;
}

uint32_t tes_core_retry_ms(const struct tes_core *core)
{
	uint64_t wait = 0;

	if (!core->effort)
		return 1; /* the next step looks on */
	if (!tei_list_empty(&core->leased) && !lease_ended(core))
		wait = tes_core_object_at(core->leased.next)->read_until_ms -
		       core->now_ms;
	if (core->pins.n &&
	    (!wait || tei_heap_top(&core->pins)->at < core->now_ms + wait))
		wait = tei_heap_top(&core->pins)->at > core->now_ms
			       ? tei_heap_top(&core->pins)->at - core->now_ms
			       : 1;
	if (core->figures.building || core->figures.fencing)
		if (!wait || wait > TES_CORE_RETRY_MS)
			wait = TES_CORE_RETRY_MS;
	return wait > UINT32_MAX ? UINT32_MAX : (uint32_t)wait;
}

/* ---- watermarks ---- */

/* @later of the bytes in use are as good as free. */
static bool is_above(const struct tes_core *core, double ratio, uint64_t later)
{
	return (double)core->figures.used_bytes - (double)later >
	       (double)core->figures.capacity_bytes * ratio;
}

static double low_watermark(const struct tes_core *core)
{
	double low = core->config.high_watermark - core->config.eviction_ratio;

	return low > 0 ? low : 0;
}

void tes_core_evict_tick(struct tes_core *core, unsigned int *budget)
{
	struct freed f = {.n = 0};
	struct tes_tenant *t;

	take_in(core, budget);
	(void)end_pins(core, END_PINS);
	if (!core->evicting && is_above(core, core->config.high_watermark, 0)) {
		core->evicting = true;
		core->figures.evictions_attempted_total++;
	}
	while (core->evicting && *budget) {
		if (is_above(core, low_watermark(core), f.later) &&
		    (t = choose_payer(core, &f))) {
			f.n = f.cost = 0;
			evict_victim(core, t, &f);
			tes_core_spend(budget, f.cost ? f.cost : 1);
		} else {
			core->evicting = false;
			core->figures.evictions_successful_total +=
				!is_above(core, low_watermark(core), f.later);
		}
	}
}

/*
 * Evicts twice as much as was put: between the watermarks the pool gets emptier
 * only when more goes than comes, and it must not be full in the midst of many
 * starts.
 */
int tes_core_on_make_room(struct tes_step *step)
{
	struct tes_core *core = step->core;
	size_t n = step->ev->n;
	unsigned int budget;

	if (n > TES_CORE_ROOM_KEYS)
		n = TES_CORE_ROOM_KEYS;
	budget = (unsigned int)n * 2 * EVICT_COST;
	tes_core_evict_tick(core, &budget);
	return 0;
}

bool tes_core_short(const struct tes_core *core)
{
	return core->evicting || is_above(core, core->config.high_watermark, 0);
}

bool tes_core_evict_busy(const struct tes_core *core)
{
	return core->evicting || lease_ended(core) ||
	       !tei_list_empty(&core->back);
}
