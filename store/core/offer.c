/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offer.c - what owners have from a life of the master before this one
 *
 * An offered object is committed as it stands. Of several generations of one
 * key the highest counts, {epoch, counter}; the same one at another owner is
 * another replica. Our own counter takes no notice of theirs: a number from
 * outside could use it up. A put that is under way yields to what was
 * acknowledged before. What was put in this life is known here better than to
 * its owner: it is newer than all that is offered, and what is not here any
 * more was given up. A life above ours is one that its owner was not believed
 * to know of, or ours would be above it: nothing of it is taken. Nobody has
 * looked at the bytes: space that was given to a put which never ended is still
 * the older object's by the owner's directory.
 */
#include <errno.h>

#include "base/mem.h"
#include "store/core/codes.h"
#include "store/core/epoch.h"
#include "store/core/evict.h"
#include "store/core/fence.h"
#include "store/core/object.h"
#include "store/core/replica.h"
#include "store/core/session.h"
#include "store/core/space.h"
#include "store/core/state.h"
#include "store/core/step.h"
#include "store/core/tenant.h"

/* Object of an offer. */
struct offered {
	const struct tes_core_key *key;
	uint64_t hash, generation, gen_epoch, size;
	struct tes_tenant *tenant; /* NULL: that cannot be here */
	bool ours;                 /* put in this life */
	bool no_crc;
	uint32_t attributes;
	uint64_t pin_ms;
	struct tes_core_key group;
	size_t n; /* entries */
	const uint64_t *address, *length;
	const uint32_t *crc;
};

/* Negative: @o is older than the offered object; 0: the same. */
static int compare_age(const struct tes_core *core, const struct tes_object *o,
		       const struct offered *it)
{
	uint64_t mine = core->epochs[o->epoch].number, its = it->gen_epoch;

	if (core->epochs[o->epoch].ours != it->ours)
		return core->epochs[o->epoch].ours ? 1 : -1;
	if (mine != its)
		return mine < its ? -1 : 1;
	if (o->generation != it->generation)
		return o->generation < it->generation ? -1 : 1;
	return 0;
}

/* ---- its place ---- */

/* True: it lies as placement would have laid it out, all parts but the last
 * full. */
static bool fits_mount(const struct tes_mount *m, const struct offered *it)
{
	uint64_t rest = it->size;

	if (!it->n || it->n > TES_SPACE_PARTS)
		return false;
	for (size_t i = 0; i < it->n; i++) {
		uint64_t at = it->address[i] - m->base, length = it->length[i];

		if (it->address[i] < m->base || at % TES_SPACE_UNIT ||
		    at >= m->space.size || !length || length > rest ||
		    length > m->space.size ||
		    (i + 1 < it->n && length % TES_SPACE_UNIT) ||
		    tes_core_extent_size(length) > m->space.size - at)
			return false;
		rest -= length;
	}
	return !rest;
}

/* Takes its extents, as a chain of @o; NULL: not all of them are free. */
static struct tes_extent *
take_extents(struct tes_core *core, struct tes_mount *m, struct tes_object *o,
	     const struct offered *it, uint8_t replica)
{
	struct tes_extent *chain = NULL, **end = &chain;

	for (size_t i = 0; i < it->n; i++) {
		struct tes_extent *e = tes_space_take_at(
			&m->space, it->address[i] - m->base,
			tes_core_extent_size(it->length[i]), NULL);

		if (!e) {
			tes_core_chain_free(core, chain);
			return NULL;
		}
		tes_core_extent_own(core, e, o);
		if (tes_core_mount_live(m))
			core->figures.used_bytes += e->size;
		e->replica = replica;
		e->crc = it->crc[i];
		*end = e;
		end = &e->next;
	}
	return chain;
}

/* ---- deciding ---- */

/* @o is the same object: it gets one more replica, unless it is this one. */
static int32_t join_replica(struct tes_core *core, struct tes_mount *m,
			    struct tes_object *o, const struct offered *it)
{
	uint8_t replica = tes_core_replica_free(o);
	struct tes_extent *chain;

	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_mount(e) == m)
			return m->base + e->offset == it->address[0]
				       ? CODE_OK
				       : CODE_EXISTS;
	if (o->size != it->size || replica == TES_CORE_REPLICAS_MAX)
		return CODE_EXISTS;
	chain = take_extents(core, m, o, it, replica);
	if (!chain)
		return CODE_EXISTS;
	tes_core_replica_join(o, chain, replica);
	tes_core_requeue(core, o);
	return CODE_OK;
}

/* Make way. CODE_OK: the key is free. *@same: it is there already. */
static int32_t displace_older(struct tes_core *core, const struct offered *it,
			      struct tes_object **same)
{
	struct tes_object *o;

	*same = NULL;
	while ((o = tes_core_object_find(core, it->tenant->index, it->key,
					 it->hash))) {
		if (o->state == TES_OBJECT_BUILDING) {
			if (tes_core_discard(core, o) < 0)
				return CODE_INTERNAL;
		} else if (tes_core_object_gone(o)) {
			tes_core_object_drop(core, o);
		} else if (compare_age(core, o, it) < 0) {
			if (tes_core_bury_reserve(core, o, NULL) < 0)
				return CODE_INTERNAL;
			tes_core_bury(core, o, NULL);
		} else if (compare_age(core, o, it) == 0) {
			*same = o;
			return CODE_OK;
		} else {
			return CODE_EXISTS;
		}
	}
	return CODE_OK;
}

/* Length of its soft pin from now. */
static uint64_t pin_of(const struct tes_core *core, const struct offered *it)
{
	uint64_t most = core->config.soft_pin_ttl_max_ms;

	if (!most)
		most = TES_CORE_PIN_MAX_MS;
	return it->pin_ms < most ? it->pin_ms : most;
}

/* NULL: no memory. */
static struct tes_object *create_offered(struct tes_core *core,
					 const struct offered *it)
{
	uint32_t type = it->attributes >> TES_CORE_TYPE_SHIFT;
	bool extra = type || it->pin_ms || it->group.len;
	struct tes_object *o =
		tes_core_object_new(core, it->tenant->index, it->key, extra);
	struct tes_extra *x = o ? tes_core_object_extra(o) : NULL;

	if (o && it->attributes & TES_CORE_PINNED)
		o->flags |= TES_OBJECT_HARD;
	if (!x)
		return o;
	x->data_type = type;
	if (it->pin_ms)
		x->pin_until_ms = core->now_ms + pin_of(core, it);
	if (it->group.len &&
	    tes_core_group_join(core, x, it->group.bytes, it->group.len) < 0) {
		tes_core_object_free(core, o);
		return NULL;
	}
	return o;
}

static int32_t add_offered(struct tes_core *core, struct tes_mount *m,
			   const struct offered *it, uint16_t epoch)
{
	struct tes_object *o = create_offered(core, it);

	if (!o)
		return CODE_INTERNAL;
	o->size = it->size;
	o->extents = take_extents(core, m, o, it, 0);
	if (!o->extents) {
		tes_core_object_free(core, o);
		return CODE_EXISTS;
	}
	o->generation = it->generation;
	tes_core_epoch_change(core, o, epoch);
	o->state = TES_OBJECT_READY;
	o->flags |= TES_OBJECT_UNVERIFIED;
	if (it->no_crc)
		o->flags |= TES_OBJECT_NO_CRC;
	tei_hash_insert(&core->objects, &o->node, it->hash);
	tes_core_evictable(core, o);
	core->figures.objects++;
	tes_core_notify_watch(core, o, TES_CORE_STORED);
	return CODE_OK;
}

/* Returns CODE_OK when the offered object is the one that is here. */
static int32_t confirm_known(const struct tes_core *core,
			     const struct tes_mount *m,
			     const struct offered *it)
{
	const struct tes_object *o = tes_core_object_find(
		core, it->tenant->index, it->key, it->hash);

	if (!o || o->state != TES_OBJECT_READY || compare_age(core, o, it) != 0)
		return CODE_NOT_FOUND;
	for (const struct tes_extent *e = o->extents; e; e = e->next)
		if (tes_core_extent_mount(e) == m &&
		    m->base + e->offset == it->address[0])
			return CODE_OK;
	return CODE_NOT_FOUND;
}

/* The epoch is known before an older object makes way for this one. */
static int32_t take_offered(struct tes_core *core, struct tes_mount *m,
			    const struct offered *it)
{
	struct tes_object *same;
	uint16_t epoch;
	int rc = tes_core_epoch_index(core, it->gen_epoch, &epoch);
	int32_t code;

	if (rc)
		return rc == -ENOSPC ? CODE_FULL : CODE_INTERNAL;
	code = displace_older(core, it, &same);
	if (!code)
		code = same ? join_replica(core, m, same, it)
			    : add_offered(core, m, it, epoch);
	tes_core_epoch_release(core, epoch);
	return code;
}

static int32_t offer_one(struct tes_core *core, struct tes_mount *m,
			 const struct offered *it)
{
	if (!tes_core_key_valid(it->key) || !it->generation ||
	    it->generation > INT64_MAX ||
	    !tes_core_epoch_valid(it->gen_epoch) || !fits_mount(m, it))
		return CODE_ARGUMENT;
	if (!it->tenant)
		return CODE_NO_TENANT;
	if (!it->ours && it->gen_epoch > core->config.epoch)
		return CODE_VERSION;
	if (it->ours || !tes_core_may_return(core, it->tenant, it->hash))
		return confirm_known(core, m, it);
	return take_offered(core, m, it);
}

/* Finds the tenant of object @i; NULL: there is no place for it. With tenants
 * off nobody may have what another tenant put: its owner buries it. */
static struct tes_tenant *tenant_of_offer(struct tes_core *core,
					  const struct tes_core_objects *c,
					  size_t i)
{
	if (!c->tenant || !c->tenant[i])
		return tes_core_tenant_get(core, NULL);
	if (!core->config.tenants)
		return NULL;
	return tes_core_tenant_get(core, c->tenants[c->tenant[i] - 1]);
}

static struct offered offered_of(struct tes_core *core,
				 const struct tes_core_objects *c, size_t i,
				 size_t entry)
{
	static const struct tes_core_key no_group;
	const struct tes_core_key *key = &c->keys[i];
	struct tes_tenant *tenant = tenant_of_offer(core, c, i);

	return (struct offered){
		.key = key,
		.hash = tes_core_hash_of(core, tenant ? tenant->index : 0,
					 key->bytes, key->len),
		.tenant = tenant,
		.generation = c->generation[i],
		.size = c->size[i],
		.gen_epoch = c->gen_epoch[i],
		.ours = tes_core_epoch_is_ours(core, c->gen_epoch[i]),
		.no_crc = c->no_crc && c->no_crc[i],
		.attributes = c->attributes ? c->attributes[i] : 0,
		.pin_ms = c->pin_ms ? c->pin_ms[i] : 0,
		.group = c->groups ? c->groups[i] : no_group,
		.n = c->extents ? c->extents[i] : 1,
		.address = &c->address[entry],
		.length = &c->length[entry],
		.crc = &c->crc[entry],
	};
}

int tes_core_on_offer(struct tes_step *step)
{
	struct tes_core *core = step->core;
	const struct tes_event *ev = step->ev;
	struct tes_action *reply = step->reply;
	const struct tes_core_objects *c = ev->u.offer.objects;
	struct tes_mount *m = NULL;
	size_t entry = ev->part ? ev->part->entry : 0;

	if (ev->u.offer.segment)
		m = tes_core_mount_find(step->session, ev->u.offer.segment);
	if (!m || !m->offering) {
		reply->u.reply.code = CODE_NO_SEGMENT;
		return 0;
	}
	for (size_t i = step->from; i < step->to; i++) {
		struct offered it = offered_of(core, c, i, entry);
		int32_t code = offer_one(core, m, &it);

		reply->u.reply.status[i] = code;
		core->figures.offered_total += !code;
		core->figures.offers_refused_total += code != CODE_OK;
		entry += it.n;
	}
	if (ev->part)
		ev->part->entry = entry;
	if (!ev->u.offer.last || step->to < ev->n)
		return 0;
	m->offering = false;
	tes_core_forget_no_room(core);
	return 0;
}
