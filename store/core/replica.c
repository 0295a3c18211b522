/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica.c - replicas: chains of extents, and the segments they are placed on
 *
 * A chain is in order of replicas and, in each, of offsets in the object. All
 * extents of a replica but the last are full, so lengths need no room. While an
 * object is BUILDING its chain keeps the place of extents whose mount has gone:
 * its writer counts entries as they were given to it.
 *
 * Replicas of one object lie on distinct segments, and on distinct machines
 * where there are several. Segments that the writer prefers come first, then
 * those that the strategy names, then any. On one segment a single extent is
 * better than several; but rather several here than one beside a replica that
 * would be lost with the same machine.
 */
#include "store/core/replica.h"

#include <errno.h>
#include <string.h>

#include "base/chance.h"
#include "store/core/object.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/tenant.h"

/* Replicas below this are not split: headers and requests would cost more. */
#define PART_MIN 65536u
/* Segments among which free_ratio_first chooses. */
#define SAMPLES 6
/* Looked at in one search before it is charged to the starts of the event. */
#define LOOKS_FREE 16

/* ---- chains of extents ---- */

struct tes_mount *tes_core_extent_mount(const struct tes_extent *e)
{
	if (!e->space)
		return NULL;
	return TEI_CONTAINER(e->space, struct tes_mount, space);
}

bool tes_core_extent_begins(const struct tes_object *o,
			    const struct tes_extent *e)
{
	const struct tes_extent *at = o->extents;

	while (at->replica != e->replica)
		at = at->next;
	return at == e;
}

bool tes_core_extent_there(const struct tes_extent *e)
{
	return e->space && !tes_core_extent_mount(e)->dropping;
}

uint64_t tes_core_extent_length(const struct tes_extent *e, uint64_t rest)
{
	uint64_t room = e->size - TES_CORE_HEADER_LEN;

	return rest < room ? rest : room;
}

void tes_core_extent_own(struct tes_core *core, struct tes_extent *e,
			 struct tes_object *o)
{
	e->user = o;
	tes_core_tenant_of(core, o)->charged += e->size;
}

void tes_core_extent_disown(struct tes_core *core, struct tes_extent *e)
{
	const struct tes_object *o = e->user;

	if (o && e->space)
		tes_core_tenant_of(core, o)->charged -= e->size;
	e->user = NULL;
}

/* ---- mounts without room ---- */

/* Notes that something has become free on @m. */
static void except_mount(struct tes_core *core, struct tes_mount *m)
{
	for (size_t k = 0; k < 2; k++) {
		struct tes_no_room *t = &core->no_room[k];
		size_t i = 0;

		if (t->size == UINT64_MAX)
			continue;
		while (i < t->n && t->except[i] != m)
			i++;
		if (i == sizeof(t->except) / sizeof(t->except[0]))
			t->size = UINT64_MAX;
		else if (i == t->n)
			t->except[t->n++] = m;
	}
}

void tes_core_forget_no_room(struct tes_core *core)
{
	for (size_t k = 0; k < 2; k++)
		core->no_room[k].size = UINT64_MAX;
}

bool tes_core_mount_may_fit(const struct tes_mount *m, uint64_t size)
{
	const struct tes_space *s = &m->space;
	uint64_t total = tes_core_extent_size(size);

	return s->size - s->used >= total &&
	       (total < s->too_large ||
		(size > PART_MIN && size < s->too_wide));
}

/* ---- extents are freed ---- */

void tes_core_extent_free(struct tes_core *core, struct tes_extent *e)
{
	struct tes_mount *m = tes_core_extent_mount(e);

	tes_core_extent_disown(core, e);
	if (!m) {
		tei_slab_put(&core->extents, e);
		return;
	}
	if (tes_core_mount_live(m))
		core->figures.used_bytes -= e->size;
	tes_space_give(&m->space, e);
	if (!m->dropping)
		except_mount(core, m);
}

void tes_core_chain_free(struct tes_core *core, struct tes_extent *chain)
{
	struct tes_extent *next;

	for (; chain; chain = next) {
		next = chain->next;
		tes_core_extent_free(core, chain);
	}
}

/* ---- replicas of an object ---- */

struct tes_extent *tes_core_replica_cut(struct tes_core *core,
					struct tes_object *o, uint8_t replica)
{
	struct tes_extent **from = &o->extents, *cut, **to = &cut;

	while (*from && (*from)->replica != replica)
		from = &(*from)->next;
	while (*from && (*from)->replica == replica) {
		tes_core_extent_disown(core, *from);
		*to = *from;
		to = &(*from)->next;
		*from = *to;
	}
	*to = NULL;
	return cut;
}

uint8_t tes_core_replica_free(const struct tes_object *o)
{
	uint32_t taken = 0;
	uint8_t r = 0;

	for (const struct tes_extent *e = o->extents; e; e = e->next)
		taken |= (uint32_t)1 << e->replica;
	while (r < TES_CORE_REPLICAS_MAX && taken >> r & 1)
		r++;
	return r;
}

void tes_core_replica_join(struct tes_object *o, struct tes_extent *chain,
			   uint8_t replica)
{
	struct tes_extent **at = &o->extents, *last = chain;

	while (*at && (*at)->replica < replica)
		at = &(*at)->next;
	for (; last->next; last = last->next)
		last->replica = replica;
	last->replica = replica;
	last->next = *at;
	*at = chain;
}

bool tes_core_object_live(const struct tes_object *o)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (e->space && tes_core_mount_live(tes_core_extent_mount(e)))
			return true;
	return false;
}

bool tes_core_object_gone(const struct tes_object *o)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_there(e))
			return false;
	return true;
}

bool tes_core_object_on(const struct tes_object *o, const struct tes_mount *m)
{
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_mount(e) == m)
			return true;
	return false;
}

size_t tes_core_object_entries(const struct tes_object *o)
{
	size_t n = 0;

	for (const struct tes_extent *e = o->extents; e; e = e->next)
		n++;
	return n;
}

uint16_t tes_core_object_writer(const struct tes_object *o)
{
	/* Replicas that owners have brought know of none. */
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (e->writer)
			return e->writer;
	return 0;
}

/* ---- placement on one mount ---- */

/* Link @n extents that were taken to the end of the chain of @o. */
static void append_extents(struct tes_core *core, struct tes_object *o,
			   uint8_t replica, struct tes_extent *const *parts,
			   size_t n)
{
	struct tes_extent **end = &o->extents;

	while (*end)
		end = &(*end)->next;
	for (size_t i = 0; i < n; i++) {
		tes_core_extent_own(core, parts[i], o);
		parts[i]->replica = replica;
		parts[i]->next = NULL;
		core->figures.used_bytes += parts[i]->size;
		*end = parts[i];
		end = &parts[i]->next;
	}
}

static bool place_whole(struct tes_core *core, struct tes_mount *m,
			struct tes_object *o, uint8_t replica)
{
	uint64_t total = tes_core_extent_size(o->size);
	struct tes_extent *e = tes_space_take(&m->space, total, NULL);

	if (!e)
		return false;
	append_extents(core, o, replica, &e, 1);
	return true;
}

static bool place_split(struct tes_core *core, struct tes_mount *m,
			struct tes_object *o, uint8_t replica)
{
	struct tes_extent *parts[TES_SPACE_PARTS];
	uint64_t floor = o->size / TES_SPACE_PARTS;
	size_t n;

	if (o->size <= PART_MIN)
		return false;
	if (floor < PART_MIN)
		floor = PART_MIN;
	n = tes_space_take_parts(&m->space, o->size, TES_CORE_HEADER_LEN, floor,
				 NULL, parts);
	append_extents(core, o, replica, parts, n);
	return n > 0;
}

bool tes_core_place_on(struct tes_core *core, struct tes_mount *m,
		       struct tes_object *o, uint8_t replica)
{
	return tes_core_mount_takes(m) && (place_whole(core, m, o, replica) ||
					   place_split(core, m, o, replica));
}

/* ---- search for a mount ---- */

struct place_search {
	struct tes_core *core;
	struct tes_placement *placement;
	struct tes_object *object;
	uint8_t replica;
	bool other_host; /* than those of the object's replicas */
	bool split;
};

static bool may_place(const struct place_search *s, const struct tes_mount *m)
{
	if (!tes_core_mount_takes(m))
		return false;
	for (const struct tes_extent *e = s->object->extents; e; e = e->next) {
		const struct tes_mount *at = tes_core_extent_mount(e);

		if (at == m ||
		    (s->other_host && at->owner->host == m->owner->host))
			return false;
	}
	return true;
}

static bool try_mount(const struct place_search *s, struct tes_mount *m)
{
	if (!may_place(s, m))
		return false;
	return s->split ? place_split(s->core, m, s->object, s->replica)
			: place_whole(s->core, m, s->object, s->replica);
}

static bool try_preferred(const struct place_search *s)
{
	for (size_t i = 0; i < s->placement->n_preferred; i++)
		if (try_mount(s, s->placement->preferred[i]))
			return true;
	return s->placement->near && try_mount(s, s->placement->near);
}

static double used_ratio(const struct tes_mount *m)
{
	return (double)m->space.used / (double)m->space.size;
}

/*
 * True: @m should be passed over this time. A segment that has just come is the
 * emptiest of all for long; it gets at most one and a half times its share, so
 * that its machine is not flooded.
 */
static bool would_flood(struct tes_core *core, const struct tes_mount *m)
{
	double pool = (double)core->figures.used_bytes /
		      (double)core->figures.capacity_bytes;
	size_t n = core->n_mounts < SAMPLES ? core->n_mounts : SAMPLES;

	return used_ratio(m) < pool / 2 &&
	       tei_chance(&core->random) % (2 * n) >= 3;
}

/* Finds the emptiest of some; NULL: none of them will do. */
static struct tes_mount *emptiest_of_some(const struct place_search *s)
{
	struct tes_core *core = s->core;
	struct tes_mount *best = NULL;

	for (int i = 0; i < SAMPLES; i++) {
		struct tes_mount *m = core->mounts[tei_chance(&core->random) %
						   core->n_mounts];

		if (m == best || !may_place(s, m) ||
		    (best && used_ratio(m) >= used_ratio(best)) ||
		    would_flood(core, m))
			continue;
		best = m;
	}
	return best;
}

/* Tries every mount from @start on; @host: of this machine only, or NULL. False
 * with effort left: none of them has room. */
static bool try_all_mounts(const struct place_search *s, size_t start,
			   const uint64_t *host)
{
	struct tes_core *core = s->core;

	for (size_t i = 0; i < core->n_mounts; i++) {
		struct tes_mount *m =
			core->mounts[(start + i) % core->n_mounts];

		if (i >= LOOKS_FREE && !core->effort)
			return false;
		core->effort -= i >= LOOKS_FREE;
		if ((!host || m->owner->host == *host) && try_mount(s, m))
			return true;
	}
	return false;
}

static bool try_excepted(const struct place_search *s, struct tes_no_room *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (try_mount(s, t->except[i]))
			return true;
	if (s->object->size == t->size && !s->object->extents)
		t->n = 0;
	return false;
}

/* Remembers that no mount had room for @s; those that it has replicas on were
 * not tried. */
static void remember_no_room(const struct place_search *s,
			     struct tes_no_room *t)
{
	const size_t room = sizeof(t->except) / sizeof(t->except[0]);
	const struct tes_extent *e = s->object->extents;

	if (s->other_host || !s->core->effort)
		return; /* nor were others */
	t->size = s->object->size;
	t->n = 0;
	for (; e; e = e->next) {
		struct tes_mount *m = tes_core_extent_mount(e);

		if (m->dropping || (t->n && t->except[t->n - 1] == m))
			continue;
		if (t->n == room) {
			t->size = UINT64_MAX;
			return;
		}
		t->except[t->n++] = m;
	}
}

static bool try_by_strategy(const struct place_search *s)
{
	struct tes_core *core = s->core;
	struct tes_mount *best;
	size_t start;

	if (core->config.strategy == TES_CORE_FREE_RATIO_FIRST) {
		best = emptiest_of_some(s);
		if (best && try_mount(s, best))
			return true;
	}
	/* Randomness only spreads, and is the same every time. */
	start = (size_t)(tei_chance(&core->random) % core->n_mounts);
	if (core->config.strategy == TES_CORE_LOCAL_FIRST &&
	    try_all_mounts(s, start, &s->placement->writer->host))
		return true;
	return try_all_mounts(s, start, NULL);
}

static bool try_others(const struct place_search *s)
{
	struct tes_no_room *t = &s->core->no_room[s->split];

	if (s->object->size >= t->size)
		return try_excepted(s, t);
	if (try_by_strategy(s))
		return true;
	remember_no_room(s, t);
	return false;
}

static bool search_mounts(struct place_search *s)
{
	s->split = false;
	if (try_preferred(s) || try_others(s))
		return true;
	s->split = s->object->size > PART_MIN;
	return s->split && (try_preferred(s) || try_others(s));
}

bool tes_core_place(struct tes_core *core, struct tes_placement *placement,
		    struct tes_object *o, uint8_t replica)
{
	struct place_search s = {
		.core = core,
		.placement = placement,
		.object = o,
		.replica = replica,
	};

	if (!core->n_mounts)
		return false;
	if (!o->extents)
		placement->hosts_tried = false;
	s.other_host = o->extents && !placement->hosts_tried;
	if (search_mounts(&s))
		return true;
	if (!s.other_host)
		return false;
	placement->hosts_tried = true;
	s.other_host = false;
	return search_mounts(&s);
}
