/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_owners.c - what owners say, and what is said of them */
#include "store/server/rpc_private.h"

#include <errno.h>
#include <string.h>

#include "store/proto/objects.h"
#include "store/proto/store.pb-c.h"

int tes_rpc_decode_mount(struct tei_arena *arena, const void *body, size_t len,
			 struct tes_event *out, const char **why)
{
	const Store__Mount *m =
		tes_rpc_unpack(arena, &store__mount__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "mount does not decode");
	if (!tes_rpc_id(&m->segment))
		return tes_rpc_malformed(why,
					 "mount: a segment's id is 16 bytes");
	if (!tes_rpc_is_name(m->name))
		return tes_rpc_malformed(why, "mount: no usable name");
	out->u.mount.segment = m->segment.data;
	out->u.mount.name = m->name;
	out->u.mount.base = m->address;
	out->u.mount.size = m->size;
	out->u.mount.offering = m->offering != 0;
	return 0;
}

int tes_rpc_decode_unmount(struct tei_arena *arena, const void *body,
			   size_t len, struct tes_event *out, const char **why)
{
	const Store__Unmount *m =
		tes_rpc_unpack(arena, &store__unmount__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "unmount does not decode");
	if (!tes_rpc_id(&m->segment))
		return tes_rpc_malformed(why,
					 "unmount: a segment's id is 16 bytes");
	out->u.mount.segment = m->segment.data;
	out->u.mount.grace_ms = m->grace_ms;
	return 0;
}

int tes_rpc_decode_drain(struct tei_arena *arena, const void *body, size_t len,
			 struct tes_event *out, const char **why)
{
	const Store__Drain *m =
		tes_rpc_unpack(arena, &store__drain__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "drain does not decode");
	if (m->segment.len && !tes_rpc_id(&m->segment))
		return tes_rpc_malformed(why,
					 "drain: a segment's id is 16 bytes");
	out->u.drain_leave.segment = tes_rpc_id(&m->segment);
	out->u.drain_leave.timeout_ms = m->timeout_ms;
	return 0;
}

static int take_object_groups(struct tei_arena *arena, const Store__Objects *m,
			      struct tes_core_objects *c, const char **why)
{
	if (!tes_rpc_are_names(m->groups, m->n_groups))
		return tes_rpc_malformed(why, "objects: no usable group");
	c->groups = tei_arena_calloc(arena, m->n_group, sizeof(*c->groups));
	if (!c->groups)
		return tes_rpc_malformed(why, "batch too large");
	for (size_t i = 0; i < m->n_group; i++) {
		const char *name;

		if (m->group[i] > m->n_groups)
			return tes_rpc_malformed(why, "objects: no such group");
		if (!m->group[i])
			continue;
		name = m->groups[m->group[i] - 1];
		c->groups[i] = (struct tes_core_key){name, strlen(name)};
	}
	return 0;
}

static bool tenants_hold(const Store__Objects *m)
{
	for (size_t i = 0; i < m->n_tenants; i++)
		if (!tes_core_tenant_name_valid(m->tenants[i]))
			return false;
	for (size_t i = 0; i < m->n_tenant; i++)
		if (m->tenant[i] > m->n_tenants)
			return false;
	return true;
}

static int take_objects(struct tei_arena *arena, const Store__Objects *m,
			struct tes_event *out,
			struct tes_core_objects **objects, const char **why)
{
	struct tes_core_objects *c = tei_arena_calloc(arena, 1, sizeof(*c));
	bool *no_crc = tei_arena_calloc(arena, m->n_key_lens, sizeof(*no_crc));

	if (!c || !no_crc)
		return tes_rpc_malformed(why, "batch too large");
	if (!tes_objects_fit(m))
		return tes_rpc_malformed(why,
					 "objects: columns differ in length");
	if (!tenants_hold(m))
		return tes_rpc_malformed(why, "objects: no usable tenant");
	if (m->n_key_lens && tes_rpc_take_keys(arena, &m->keys, m->key_lens,
					       m->n_key_lens, out, why))
		return -EBADMSG;
	for (size_t i = 0; i < m->n_no_crc; i++)
		no_crc[i] = m->no_crc[i] != 0;
	c->n = m->n_key_lens;
	c->n_entries = m->n_address;
	c->keys = (struct tes_core_key *)(uintptr_t)out->keys;
	c->generation = m->generation;
	c->gen_epoch = m->gen_epoch;
	c->size = m->size;
	c->extents = m->n_extents ? m->extents : NULL;
	c->address = m->address;
	c->length = m->length;
	c->crc = m->crc;
	c->no_crc = no_crc;
	c->attributes = m->n_attributes ? m->attributes : NULL;
	c->pin_ms = m->n_soft_pin_ms ? m->soft_pin_ms : NULL;
	c->tenant = m->n_tenant ? m->tenant : NULL;
	c->tenants = (const char **)m->tenants;
	c->n_tenants = m->n_tenants;
	*objects = c;
	return m->n_group ? take_object_groups(arena, m, c, why) : 0;
}

int tes_rpc_decode_offer(struct tei_arena *arena, const void *body, size_t len,
			 struct tes_event *out, const char **why)
{
	static const Store__Objects none = STORE__OBJECTS__INIT;
	const Store__Offer *m =
		tes_rpc_unpack(arena, &store__offer__descriptor, body, len);
	struct tes_core_objects *objects;

	if (!m)
		return tes_rpc_malformed(why, "offer does not decode");
	if (!tes_rpc_id(&m->segment))
		return tes_rpc_malformed(why,
					 "offer: a segment's id is 16 bytes");
	if (take_objects(arena, m->objects ? m->objects : &none, out, &objects,
			 why))
		return -EBADMSG;
	out->u.offer.objects = objects;
	out->u.offer.segment = m->segment.data;
	out->u.offer.last = m->last != 0;
	return 0;
}

int tes_rpc_decode_fenced(struct tei_arena *arena, const void *body, size_t len,
			  struct tes_event *out, const char **why)
{
	const Store__Fenced *m =
		tes_rpc_unpack(arena, &store__fenced__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "fenced does not decode");
	out->u.fenced.fence = m->fence;
	out->u.fenced.confirmed = m->status == 0;
	out->u.fenced.pending = m->pending;
	return 0;
}

int tes_rpc_decode_buried(struct tei_arena *arena, const void *body, size_t len,
			  struct tes_event *out, const char **why)
{
	const Store__Buried *m =
		tes_rpc_unpack(arena, &store__buried__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "buried does not decode");
	out->u.fenced.fence = m->burial;
	out->u.fenced.confirmed = out->u.fenced.burial = true;
	return 0;
}

int tes_rpc_decode_task_done(struct tei_arena *arena, const void *body,
			     size_t len, struct tes_event *out,
			     const char **why)
{
	const Store__TaskDone *m =
		tes_rpc_unpack(arena, &store__task_done__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "task done does not decode");
	out->u.task_done.id = tes_rpc_id(&m->id);
	out->u.task_done.status = m->status;
	out->u.task_done.quiet = m->quiet != 0;
	out->u.task_done.crcs = m->crc;
	out->u.task_done.n_crcs = m->n_crc;
	out->u.task_done.no_crc = m->no_crc != 0;
	out->u.task_done.message = *m->message ? m->message : NULL;
	return 0;
}

int tes_rpc_decode_report(struct tei_arena *arena, const void *body, size_t len,
			  struct tes_event *out, const char **why)
{
	const Store__Report *m =
		tes_rpc_unpack(arena, &store__report__descriptor, body, len);

	if (!m || !tes_rpc_id(&m->incarnation))
		return tes_rpc_malformed(why, "report does not decode");
	out->u.report.incarnation = m->incarnation.data;
	return 0;
}

int tes_rpc_decode_probed(struct tei_arena *arena, const void *body, size_t len,
			  struct tes_event *out, const char **why)
{
	const Store__Probed *m =
		tes_rpc_unpack(arena, &store__probed__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "probed does not decode");
	out->u.probed.probe = m->n;
	return 0;
}
