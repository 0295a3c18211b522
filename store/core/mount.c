/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount.c - segments that owners lend to the pool
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/core/evict.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/task.h"

#define SEGMENT_MIN 1024u

struct tes_mount *tes_core_mount_find(const struct tes_session *s,
				      const uint8_t *id)
{
	tei_list_for_each (link, &s->mounts) {
		struct tes_mount *m =
			tei_list_entry(link, struct tes_mount, link);

		if (!m->dropping && memcmp(m->id, id, TES_CORE_ID_LEN) == 0)
			return m;
	}
	return NULL;
}

/* ---- mounts by name ---- */

struct tes_mount *tes_core_mount_named(const struct tes_core *core,
				       const char *name)
{
	struct tei_hash_node *n = tei_hash_first(
		&core->names, tes_core_hash(core, name, strlen(name)));

	for (; n; n = tei_hash_next(&core->names, n)) {
		struct tes_mount *m =
			TEI_CONTAINER(n, struct tes_mount, by_name);

		if (strcmp(m->name, name) == 0)
			return m;
	}
	return NULL;
}

struct tes_mount *tes_core_mount_namesake(const struct tes_mount *m)
{
	struct tes_mount *next =
		tei_list_entry(m->namesakes.next, struct tes_mount, namesakes);

	/* Behind the last one of the ring is the first. */
	return next->serial > m->serial ? next : NULL;
}

static void add_name(struct tes_core *core, struct tes_mount *m)
{
	struct tes_mount *first = tes_core_mount_named(core, m->name);

	if (first)
		tei_list_add_tail(&first->namesakes, &m->namesakes);
	else
		tei_hash_insert(&core->names, &m->by_name,
				tes_core_hash(core, m->name, strlen(m->name)));
}

static void remove_name(struct tes_core *core, struct tes_mount *m)
{
	struct tes_mount *next = tes_core_mount_namesake(m);

	if (tes_core_mount_named(core, m->name) == m) {
		tei_hash_remove(&core->names, &m->by_name);
		if (next)
			tei_hash_insert(&core->names, &next->by_name,
					m->by_name.hash);
	}
	tei_list_del(&m->namesakes);
}

/* ---- a mount comes ---- */

static bool overlaps(const struct tes_session *s, uint64_t base, uint64_t size)
{
	tei_list_for_each (link, &s->mounts) {
		struct tes_mount *m =
			tei_list_entry(link, struct tes_mount, link);

		if (!m->dropping && base < m->base + m->size &&
		    m->base < base + size)
			return true;
	}
	return false;
}

/* Counts what clients lend that have come from where @s has. */
static size_t mounts_of_source(const struct tes_core *core,
			       const struct tes_session *s)
{
	size_t n = 0;

	for (size_t i = 0; i < core->n_mounts; i++)
		n += core->mounts[i]->owner->source == s->source;
	tei_list_for_each (link, &core->dropping)
		n += tei_list_entry(link, struct tes_mount, drop_link)
			     ->owner->source == s->source;
	return n;
}

/*
 * Tells why @s may lend no more; NULL: it may. Neither one client nor one
 * source may use up what is there for all.
 */
static const char *no_place(const struct tes_core *core,
			    const struct tes_session *s)
{
	if (s->n_mounts >= TES_CORE_MOUNTS_EACH)
		return "this client lends 256 segments, the most that it may: "
		       "lend larger ones";
	if (core->n_all_mounts >= TES_CORE_MOUNTS_MAX)
		return "the master has 4096 segments, the most that it takes: "
		       "lend fewer, larger ones";
	if (core->n_all_mounts >= TES_CORE_MOUNTS_SOURCE &&
	    mounts_of_source(core, s) >= TES_CORE_MOUNTS_SOURCE)
		return "clients of this user or address lend 3072 segments, "
		       "the most that they may: lend fewer, larger ones";
	return NULL;
}

static int32_t check_mount(struct tes_core *core, const struct tes_event *ev,
			   const struct tes_session *s, const char **why)
{
	uint64_t base = ev->u.mount.base, size = ev->u.mount.size;
	struct tes_session *other;
	const struct tes_mount *m;

	if (!ev->u.mount.segment || !ev->u.mount.name || size < SEGMENT_MIN ||
	    size > TES_SPACE_MAX || base % TES_SPACE_UNIT || base + size < base)
		return CODE_ARGUMENT;
	m = tes_core_mount_find(s, ev->u.mount.segment);
	if (m)
		return m->base == base && m->size == size ? CODE_OK
							  : CODE_SEGMENT_EXISTS;
	if (overlaps(s, base, size))
		return CODE_ARGUMENT;
	other = tes_core_name_owner(core, s, ev->u.mount.name);
	if (other) {
		/* The other may have died unnoticed, and @s follow it. */
		tes_core_session_doubt(core, other);
		*why = "another engine that is there has this name";
		return CODE_NOT_YOURS;
	}
	*why = no_place(core, s);
	return *why ? CODE_NOT_NOW : CODE_OK;
}

static int grow_mounts(struct tes_core *core)
{
	size_t room = core->mounts_room ? core->mounts_room * 2 : 16;
	struct tes_mount **grown;

	if (core->n_mounts < core->mounts_room)
		return 0;
	grown = tei_realloc(core->mounts, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	core->heap_bytes += (room - core->mounts_room) * sizeof(*grown);
	core->mounts = grown;
	core->mounts_room = room;
	return 0;
}

static size_t mount_bytes(const struct tes_mount *m)
{
	return sizeof(*m) + strlen(m->name) + 1;
}

static struct tes_mount *new_mount(struct tes_core *core,
				   const struct tes_event *ev)
{
	size_t name_len = strlen(ev->u.mount.name);
	uint64_t usable = ev->u.mount.size / TES_SPACE_UNIT * TES_SPACE_UNIT;
	struct tes_mount *m = tei_calloc(1, sizeof(*m) + name_len + 1);

	if (!m)
		return NULL;
	if (tes_space_init(&m->space, &core->extents, usable) < 0) {
		tei_free(m);
		return NULL;
	}
	tei_list_init(&m->namesakes);
	tei_list_init(&m->drop_link);
	tei_list_init(&m->parked);
	tei_list_init(&m->resyncs);
	tei_list_init(&m->grace);
	m->status = TES_CORE_SEGMENT_OK;
	m->serial = ++core->mount_serial;
	m->base = ev->u.mount.base;
	m->size = ev->u.mount.size;
	memcpy(m->id, ev->u.mount.segment, sizeof(m->id));
	memcpy(m->name, ev->u.mount.name, name_len + 1);
	core->heap_bytes += mount_bytes(m);
	core->n_all_mounts++;
	return m;
}

static bool is_live_and_ok(const struct tes_mount *m)
{
	return tes_core_mount_live(m) && m->status == TES_CORE_SEGMENT_OK;
}

/* True: the owner is only silent, and may be back with its next heartbeat. */
static bool is_to_come(const struct tes_mount *m)
{
	const struct tes_session *s = m->owner;

	if (m->dropping || m->status != TES_CORE_SEGMENT_OK)
		return false;
	if (s->state == TES_SESSION_SUSPECT)
		return !s->left;
	return m->offering;
}

static bool any_mount_holds(const struct tes_core *core, uint64_t size,
			    bool (*is_meant)(const struct tes_mount *m))
{
	for (size_t i = 0; i < core->n_mounts; i++)
		if (core->mounts[i]->space.size >= size &&
		    is_meant(core->mounts[i]))
			return true;
	return false;
}

bool tes_core_mounts_hold(const struct tes_core *core, uint64_t size)
{
	return any_mount_holds(core, size, is_live_and_ok);
}

bool tes_core_mounts_to_come(const struct tes_core *core, uint64_t size)
{
	return any_mount_holds(core, size, is_to_come);
}

void tes_core_mount_count(struct tes_core *core, const struct tes_mount *m,
			  int sign)
{
	if (sign > 0) {
		core->figures.capacity_bytes += m->space.size;
		core->figures.used_bytes += m->space.used;
		core->n_live_mounts++;
	} else {
		core->figures.capacity_bytes -= m->space.size;
		core->figures.used_bytes -= m->space.used;
		core->n_live_mounts--;
	}
}

/*
 * Mounts of suspect owners belong to it, since what is on them does: else an
 * object would seem to fill the pool many times over while they are away.
 */
static void set_pool_bytes(struct tes_core *core, uint64_t bytes)
{
	core->pool_bytes = bytes;
	core->shares_due = true;
}

int tes_core_on_mount(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	struct tes_session *s = step->session;
	struct tes_action *reply = step->reply;
	struct tes_mount *m;

	reply->u.reply.code = check_mount(core, ev, s, &reply->u.reply.why);
	if (reply->u.reply.code)
		return 0;
	m = tes_core_mount_find(s, ev->u.mount.segment);
	if (m) {
		m->offering = ev->u.mount.offering;
		tes_core_forget_no_room(core);
		reply->u.reply.kept = true;
		return 0;
	}
	if (!grow_mounts(core))
		m = new_mount(core, ev);
	if (!m) {
		reply->u.reply.code = CODE_INTERNAL;
		reply->u.reply.why = "the master has no memory for a segment";
		return 0;
	}
	m->owner = s;
	s->n_mounts++;
	s->hold = (struct tes_core_hold){0};
	m->offering = ev->u.mount.offering;
	add_name(core, m);
	tes_core_name_claim(core, m);
	tei_list_add_tail(&s->mounts, &m->link);
	core->mounts[core->n_mounts++] = m;
	tes_core_forget_no_room(core);
	if (m->space.size > core->largest_mount)
		core->largest_mount = m->space.size;
	set_pool_bytes(core, core->pool_bytes + m->space.size);
	if (tes_core_mount_live(m))
		tes_core_mount_count(core, m, 1);
	return 0;
}

/* Keeps @m readable until then, or until an earlier end that it had. */
static void unmount_later(struct tes_core *core, struct tes_mount *m,
			  uint64_t grace_ms)
{
	uint64_t until = core->now_ms + grace_ms;

	if (until < core->now_ms)
		until = UINT64_MAX;
	if (tei_list_empty(&m->grace)) {
		tei_list_add_tail(&core->graces, &m->grace);
		m->leave_ms = UINT64_MAX;
	}
	if (until < m->leave_ms)
		m->leave_ms = until;
	m->status = TES_CORE_SEGMENT_GRACEFULLY_UNMOUNTING;
}

void tes_core_graces_tick(struct tes_core *core)
{
	tei_list_for_each_safe (link, next, &core->graces) {
		struct tes_mount *m =
			tei_list_entry(link, struct tes_mount, grace);

		if (m->leave_ms <= core->now_ms)
			tes_core_mount_drop(core, m);
	}
}

int tes_core_on_unmount(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	struct tes_action *reply = step->reply;
	struct tes_mount *m = NULL;

	if (ev->u.mount.segment)
		m = tes_core_mount_find(step->session, ev->u.mount.segment);
	if (!m)
		reply->u.reply.code = CODE_NO_SEGMENT;
	else if (ev->u.mount.grace_ms)
		unmount_later(core, m, ev->u.mount.grace_ms);
	else
		tes_core_mount_drop(core, m);
	return 0;
}

/* Finds the largest mount anew: once for all that go together, and not before
 * it matters. */
static void find_largest(struct tes_core *core)
{
	uint64_t largest = 0;

	for (size_t i = 0; i < core->n_mounts; i++)
		if (core->mounts[i]->space.size > largest)
			largest = core->mounts[i]->space.size;
	core->largest_mount = largest;
	core->largest_went = false;
}

bool tes_core_mounts_fit(struct tes_core *core, uint64_t size)
{
	if (core->largest_went && size <= core->largest_mount)
		find_largest(core);
	return size <= core->largest_mount;
}

/* Finds the place of the first mount whose serial is not below @serial. */
static size_t place_of_mount(const struct tes_core *core, uint64_t serial)
{
	size_t from = 0, to = core->n_mounts;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (core->mounts[mid]->serial < serial)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

struct tes_mount *tes_core_mount_of(const struct tes_core *core,
				    uint64_t serial)
{
	size_t i = place_of_mount(core, serial);

	return i < core->n_mounts && core->mounts[i]->serial == serial
		       ? core->mounts[i]
		       : NULL;
}

void tes_core_mount_drop(struct tes_core *core, struct tes_mount *m)
{
	size_t i;

	if (m->dropping)
		return;
	if (tes_core_mount_live(m))
		tes_core_mount_count(core, m, -1);
	m->dropping = true;
	remove_name(core, m);
	m->owner->hold = (struct tes_core_hold){0};
	m->status = TES_CORE_SEGMENT_UNMOUNTING;
	tei_list_del(&m->grace);
	set_pool_bytes(core, core->pool_bytes - m->space.size);
	tes_core_forget_no_room(core);
	tei_list_del(&m->resyncs);
	tei_list_add_tail(&core->dropping, &m->drop_link);
	i = place_of_mount(core, m->serial);
	assert(core->mounts[i] == m);
	core->n_mounts--;
	memmove(&core->mounts[i], &core->mounts[i + 1],
		(core->n_mounts - i) * sizeof(core->mounts[0]));
	core->largest_went |= m->space.size >= core->largest_mount;
}

bool tes_core_segment_next(const struct tes_core *core, size_t *cursor,
			   struct tes_core_segment *out)
{
	size_t i = place_of_mount(core, (uint64_t)*cursor + 1);
	const struct tes_mount *m;

	if (i == core->n_mounts)
		return false;
	m = core->mounts[i];
	*cursor = (size_t)m->serial;
	*out = (struct tes_core_segment){
		.name = m->name,
		.engine = m->owner->engine,
		.id = m->id,
		.client_id = m->owner->client_id,
		.base = m->base,
		.size = m->size,
		.used = m->space.used,
		.suspect = m->owner->state != TES_SESSION_LIVE,
		.status = m->status,
	};
	return true;
}

/* A replica of @o went with its mount: it is made again from another one. */
static void lose_replica(struct tes_core *core, struct tes_object *o,
			 uint8_t replica)
{
	struct tes_extent *e = tes_core_replica_cut(core, o, replica), *next;

	for (; e; e = next) {
		next = e->next;
		tes_space_detach(e->space, e);
	}
	if (o->extents) {
		core->figures.lost_replicas_total++;
		tes_core_requeue(core, o);
		tes_core_repair(core, o);
	} else {
		core->figures.dropped_objects_total++;
		tes_core_object_forget(core, o);
	}
}

/* Take @e out of the mount, and out of the object that holds it. */
static void drop_extent(struct tes_core *core, struct tes_mount *m,
			struct tes_extent *e)
{
	struct tes_object *o = e->user;

	if (!o) {
		if (e->space) {
			tei_list_del(&e->link);
			core->figures.fencing--;
		}
		tes_space_detach(&m->space, e);
	} else if (o->state == TES_OBJECT_READY) {
		lose_replica(core, o, e->replica);
	} else {
		tes_core_extent_disown(core, e);
		tes_space_lose(&m->space, e);
		if (!tes_core_object_gone(o))
			return;
		core->figures.dropped_objects_total +=
			!(o->flags & TES_OBJECT_COPY);
		tes_core_object_drop(core, o);
	}
}

static void free_mount(struct tes_core *core, struct tes_mount *m)
{
	core->heap_bytes -= mount_bytes(m);
	core->n_all_mounts--;
	m->owner->n_mounts--;
	tei_list_del(&m->link);
	tei_list_del(&m->drop_link);
	tei_free(m);
}

void tes_core_mounts_drop_some(struct tes_core *core, unsigned int *budget)
{
	struct tes_extent *e;
	struct tes_mount *m;

	while (*budget && !tei_list_empty(&core->dropping)) {
		m = tei_list_entry(core->dropping.next, struct tes_mount,
				   drop_link);
		e = tes_space_first(&m->space);
		if (e)
			drop_extent(core, m, e);
		else
			free_mount(core, m);
		--*budget;
	}
}
