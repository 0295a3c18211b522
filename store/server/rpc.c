/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc.c - requests of clients: bytes of a frame to an event of the core
 *
 * A frame's length is capped by its type before it comes here, and what it
 * unpacks to by the arena, so a message made of many tiny fields fails instead
 * of growing.
 */
#include "store/server/rpc.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/incarnation.h"
#include "base/net.h"
#include "base/text.h"
#include "store/core/core.h"
#include "store/proto/identity.h"
#include "store/proto/objects.h"
#include "store/proto/protocol.h"
#include "store/proto/store.pb-c.h"
#include "store/proto/strings.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bytes of a request's columns of numbers. An end of 4,096 puts has a tenth of
 * a MB, an owner's largest offer, of 1,024 objects in 16 extents, a third.
 */
#define NUMBERS_MAX ((size_t)512 << 10)

/* -EBADMSG, and why. */
static int malformed(const char **why, const char *text)
{
	*why = text;
	return -EBADMSG;
}

/* A request into its part of @out. 0, -EBADMSG with *why. */
typedef int decode_fn(struct tei_arena *arena, const void *body, size_t len,
		      struct tes_event *out, const char **why);

/*
 * The message in @body; NULL: it does not decode. The keys are not copied where
 * they are long: new memory for 4 MiB alone takes a turn.
 */
static void *rpc_unpack(struct tei_arena *arena,
			const ProtobufCMessageDescriptor *type,
			const void *body, size_t len)
{
	static const uint8_t empty[1];
	const ProtobufCFieldDescriptor *first =
		protobuf_c_message_descriptor_get_field(type, 1);
	ProtobufCBinaryData lent, *keys;
	size_t skip = 0;
	void *m;

	if (!tes_strings_whole(type, body, len, NUMBERS_MAX))
		return NULL;
	if (len >= TES_SERVER_RPC_LENT && first &&
	    first->type == PROTOBUF_C_TYPE_BYTES)
		skip = tes_first_bytes(body, len, &lent);
	m = protobuf_c_message_unpack(type, &arena->pb, len - skip,
				      len > skip ? (const uint8_t *)body + skip
						 : empty);
	if (!m || !skip)
		return m;
	keys = (ProtobufCBinaryData *)(void *)((char *)m + first->offset);
	if (!keys->len) /* the last one counts */
		*keys = lent;
	return m;
}

/* Names are shown to people and put in lists of one a line. */
static bool rpc_is_name(const char *name)
{
	size_t len = strnlen(name, TEI_NAME_LEN_MAX + 1);

	return len && len <= TEI_NAME_LEN_MAX && !strchr(name, ' ') &&
	       tei_text_is_shown(name);
}

static bool rpc_are_names(char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!rpc_is_name(names[i]))
			return false;
	return true;
}

/* NULL: it has not the length of one. */
static const uint8_t *rpc_id(const ProtobufCBinaryData *id)
{
	return id->len == TES_CORE_ID_LEN ? id->data : NULL;
}

/*
 * The key column of every batch, bytes of all keys and @n lengths, to keys of
 * @out. 0, -EBADMSG.
 */
static int rpc_take_keys(struct tei_arena *arena,
			 const ProtobufCBinaryData *bytes, const uint32_t *lens,
			 size_t n, struct tes_event *out, const char **why)
{
	struct tes_core_key *to;
	size_t at = 0;

	if (n < 1 || n > TES_CORE_BATCH_MAX)
		return malformed(why, "a batch has 1 to 4096 keys");
	to = tei_arena_alloc(arena, n * sizeof(*to));
	if (!to)
		return malformed(why, "batch too large");
	for (size_t i = 0; i < n; i++) {
		if (lens[i] < 1 || lens[i] > TES_CORE_KEY_MAX)
			return malformed(why, "a key has 1 to 1024 bytes");
		if (lens[i] > bytes->len - at)
			return malformed(why, "keys are shorter than told");
		to[i].bytes = bytes->data + at;
		to[i].len = lens[i];
		at += lens[i];
	}
	if (at != bytes->len)
		return malformed(why, "keys are longer than told");
	out->keys = to;
	out->n = n;
	return 0;
}

/*
 * Tells whether anybody may call himself so; another question is who has a
 * quota.
 */
static bool is_tenant(const char *name)
{
	return !*name || tes_core_tenant_name_valid(name);
}

int tes_server_rpc_hello(struct tei_arena *arena, const void *body, size_t len,
			 struct tes_server_rpc_hello *out, const char **why)
{
	const Store__Hello *m =
		rpc_unpack(arena, &store__hello__descriptor, body, len);

	if (!m)
		return malformed(why, "hello does not decode");
	*out = (struct tes_server_rpc_hello){
		.version = m->version,
		.features = m->features,
		.engine = m->engine,
		.host = m->host.data,
		.host_len = m->host.len,
		.tenant = m->tenant,
		.heartbeat = m->heartbeat,
		.epoch = m->epoch,
		.epoch_proof = m->epoch_proof.data,
		.epoch_proof_len = m->epoch_proof.len,
		.name_proof = m->name_proof.data,
		.name_proof_len = m->name_proof.len,
	};
	if (m->version != TES_STORE_VERSION)
		return 0;
	if (m->client_secret.len != TES_STORE_SECRET_LEN)
		return malformed(why, "hello: a client's secret is 32 bytes");
	if (m->engine_secret.len != TES_STORE_ENGINE_LEN)
		return malformed(why, "hello: an engine's secret is 32 bytes");
	if (tes_client_id(m->client_secret.data, out->client_id) ||
	    tei_incarnation(m->engine_secret.data, out->incarnation))
		return malformed(why, "hello: no memory for the client's id");
	if (!rpc_is_name(m->engine))
		return malformed(why, "hello: no usable engine name");
	if (m->host.len > TES_CORE_HOST_MAX)
		return malformed(why, "hello: a host has at most 64 bytes");
	if (!is_tenant(m->tenant))
		return malformed(why, "hello: no usable tenant");
	return 0;
}

int tes_server_rpc_heartbeat(struct tei_arena *arena, const void *body,
			     size_t len, uint64_t *epoch, uint32_t *mounts,
			     const char **why)
{
	const Store__Heartbeat *m =
		rpc_unpack(arena, &store__heartbeat__descriptor, body, len);

	if (!m)
		return malformed(why, "heartbeat does not decode");
	*epoch = m->epoch;
	*mounts = m->mounts;
	return 0;
}

static int take_how(struct tei_arena *arena, const Store__Replicate *m,
		    struct tes_event *out, const char **why)
{
	struct tes_core_replicate *how;

	if (m->n_preferred > TES_CORE_PREFERRED_MAX ||
	    !rpc_are_names(m->preferred, m->n_preferred))
		return malformed(why, "put start: no usable preferred segment");
	how = tei_arena_calloc(arena, 1, sizeof(*how));
	if (!how)
		return malformed(why, "batch too large");
	how->replica_num = m->replica_num;
	how->soft_pin = m->soft_pin;
	how->soft_pin_ttl_ms = m->soft_pin_ttl_ms;
	how->data_type = m->data_type;
	how->hard_pin = m->hard_pin != 0;
	how->same_node = m->same_node != 0;
	how->preferred = (const char *const *)m->preferred;
	how->n_preferred = m->n_preferred;
	out->u.put_start.how = how;
	return 0;
}

static int take_groups(const Store__PutStart *m, struct tes_event *out,
		       const char **why)
{
	if (m->n_group && m->n_group != m->n_key_lens)
		return malformed(why, "put start: columns differ in length");
	if (m->n_groups > m->n_key_lens)
		return malformed(why, "put start: more groups than keys");
	if (!rpc_are_names(m->groups, m->n_groups))
		return malformed(why, "put start: no usable group");
	for (size_t i = 0; i < m->n_group; i++)
		if (m->group[i] > m->n_groups)
			return malformed(why, "put start: no such group");
	out->u.put_start.groups = (const char *const *)m->groups;
	out->u.put_start.n_groups = m->n_groups;
	out->u.put_start.group = m->n_group ? m->group : NULL;
	return 0;
}

static int decode_put_start(struct tei_arena *arena, const void *body,
			    size_t len, struct tes_event *out, const char **why)
{
	const Store__PutStart *m =
		rpc_unpack(arena, &store__put_start__descriptor, body, len);
	int rc = 0;

	if (!m)
		return malformed(why, "put start does not decode");
	if (m->n_sizes != m->n_key_lens)
		return malformed(why, "put start: columns differ in length");
	if (m->how)
		rc = take_how(arena, m->how, out, why);
	if (!rc)
		rc = take_groups(m, out, why);
	if (rc)
		return rc;
	out->u.put_start.sizes = m->sizes;
	out->u.put_start.upsert = m->upsert != 0;
	out->u.put_start.unanswered = m->unanswered != 0;
	return rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens, out,
			     why);
}

/* Tells whether the columns of extents fit those of keys. */
static bool entries_fit(const Store__PutEnd *m)
{
	size_t n = m->n_extents ? 0 : m->n_key_lens;

	if (m->n_extents && m->n_extents != m->n_key_lens)
		return false;
	for (size_t i = 0; i < m->n_extents; i++)
		n += m->extents[i];
	return !m->n_crc || m->n_crc == n;
}

static int take_no_crc(struct tei_arena *arena, const Store__PutEnd *m,
		       struct tes_event *out, const char **why)
{
	bool *no_crc;

	if (!m->n_no_crc)
		return 0;
	if (m->n_no_crc != m->n_key_lens)
		return malformed(why, "put end: columns differ in length");
	no_crc = tei_arena_calloc(arena, m->n_no_crc, sizeof(*no_crc));
	if (!no_crc)
		return malformed(why, "batch too large");
	for (size_t i = 0; i < m->n_no_crc; i++)
		no_crc[i] = m->no_crc[i] != 0;
	out->u.put_end.no_crc = no_crc;
	return 0;
}

static int decode_put_end(struct tei_arena *arena, const void *body, size_t len,
			  struct tes_event *out, const char **why)
{
	const Store__PutEnd *m =
		rpc_unpack(arena, &store__put_end__descriptor, body, len);
	int rc;

	if (!m)
		return malformed(why, "put end does not decode");
	if (m->n_generation != m->n_key_lens || m->n_written != m->n_key_lens ||
	    (m->n_quiet && m->n_quiet != m->n_key_lens) || !entries_fit(m))
		return malformed(why, "put end: columns differ in length");
	rc = rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens, out,
			   why);
	if (!rc)
		rc = take_no_crc(arena, m, out, why);
	if (rc)
		return rc;
	out->u.put_end.generations = m->generation;
	out->u.put_end.extents = m->n_extents ? m->extents : NULL;
	out->u.put_end.crcs = m->n_crc ? m->crc : NULL;
	out->u.put_end.written = m->written;
	out->u.put_end.quiet = m->n_quiet ? m->quiet : NULL;
	out->u.put_end.epoch = m->epoch;
	return 0;
}

static int decode_lookup(struct tei_arena *arena, const void *body, size_t len,
			 struct tes_event *out, const char **why)
{
	const Store__Lookup *m =
		rpc_unpack(arena, &store__lookup__descriptor, body, len);

	if (!m)
		return malformed(why, "look-up does not decode");
	return rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens, out,
			     why);
}

static int decode_release(struct tei_arena *arena, const void *body, size_t len,
			  struct tes_event *out, const char **why)
{
	const Store__Release *m =
		rpc_unpack(arena, &store__release__descriptor, body, len);

	if (!m)
		return malformed(why, "release does not decode");
	if (m->n_generation != m->n_key_lens ||
	    (m->n_gen_epoch > 1 && m->n_gen_epoch != m->n_key_lens))
		return malformed(why, "release: columns differ in length");
	out->u.release.generations = m->generation;
	out->u.release.gen_epochs = m->gen_epoch;
	out->u.release.n_gen_epochs = m->n_gen_epoch;
	return rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens, out,
			     why);
}

static int decode_keys(struct tei_arena *arena, const void *body, size_t len,
		       struct tes_event *out, const char **why)
{
	const Store__Keys *m =
		rpc_unpack(arena, &store__keys__descriptor, body, len);

	if (!m)
		return malformed(why, "keys do not decode");
	out->u.remove.force = m->force;
	return rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens, out,
			     why);
}

static int decode_replica_clear(struct tei_arena *arena, const void *body,
				size_t len, struct tes_event *out,
				const char **why)
{
	const Store__ReplicaClear *m =
		rpc_unpack(arena, &store__replica_clear__descriptor, body, len);

	if (!m)
		return malformed(why, "replica clear does not decode");
	if (*m->segment && !rpc_is_name(m->segment))
		return malformed(why, "replica clear: no usable segment name");
	out->u.replica_clear.segment = m->segment;
	return rpc_take_keys(arena, &m->keys, m->key_lens, m->n_key_lens, out,
			     why);
}

static int decode_task_create(struct tei_arena *arena, const void *body,
			      size_t len, struct tes_event *out,
			      const char **why)
{
	const Store__TaskCreate *m =
		rpc_unpack(arena, &store__task_create__descriptor, body, len);
	struct tes_core_key *key;

	if (!m)
		return malformed(why, "task create does not decode");
	if (m->key.len < 1 || m->key.len > TES_CORE_KEY_MAX)
		return malformed(why, "a key has 1 to 1024 bytes");
	if (m->n_targets > TES_CORE_TARGETS_MAX ||
	    !rpc_are_names(m->targets, m->n_targets) ||
	    (*m->source && !rpc_is_name(m->source)))
		return malformed(why, "task create: no usable segment name");
	key = tei_arena_alloc(arena, sizeof(*key));
	if (!key)
		return malformed(why, "batch too large");
	*key = (struct tes_core_key){m->key.data, m->key.len};
	out->keys = key;
	out->n = 1;
	out->u.task_create.move = m->type == STORE__TASK_TYPE__TASK_MOVE;
	out->u.task_create.targets = (const char *const *)m->targets;
	out->u.task_create.n_targets = m->n_targets;
	out->u.task_create.source = *m->source ? m->source : NULL;
	return 0;
}

static int decode_task_query(struct tei_arena *arena, const void *body,
			     size_t len, struct tes_event *out,
			     const char **why)
{
	const Store__TaskQuery *m =
		rpc_unpack(arena, &store__task_query__descriptor, body, len);

	if (!m)
		return malformed(why, "task query does not decode");
	out->u.task_query.id = rpc_id(&m->id);
	return 0;
}

static int decode_mount(struct tei_arena *arena, const void *body, size_t len,
			struct tes_event *out, const char **why)
{
	const Store__Mount *m =
		rpc_unpack(arena, &store__mount__descriptor, body, len);

	if (!m)
		return malformed(why, "mount does not decode");
	if (!rpc_id(&m->segment))
		return malformed(why, "mount: a segment's id is 16 bytes");
	if (!rpc_is_name(m->name))
		return malformed(why, "mount: no usable name");
	out->u.mount.segment = m->segment.data;
	out->u.mount.name = m->name;
	out->u.mount.base = m->address;
	out->u.mount.size = m->size;
	out->u.mount.offering = m->offering != 0;
	return 0;
}

static int decode_unmount(struct tei_arena *arena, const void *body, size_t len,
			  struct tes_event *out, const char **why)
{
	const Store__Unmount *m =
		rpc_unpack(arena, &store__unmount__descriptor, body, len);

	if (!m)
		return malformed(why, "unmount does not decode");
	if (!rpc_id(&m->segment))
		return malformed(why, "unmount: a segment's id is 16 bytes");
	out->u.mount.segment = m->segment.data;
	out->u.mount.grace_ms = m->grace_ms;
	return 0;
}

static int decode_drain(struct tei_arena *arena, const void *body, size_t len,
			struct tes_event *out, const char **why)
{
	const Store__Drain *m =
		rpc_unpack(arena, &store__drain__descriptor, body, len);

	if (!m)
		return malformed(why, "drain does not decode");
	if (m->segment.len && !rpc_id(&m->segment))
		return malformed(why, "drain: a segment's id is 16 bytes");
	out->u.drain_leave.segment = rpc_id(&m->segment);
	out->u.drain_leave.timeout_ms = m->timeout_ms;
	return 0;
}

static int take_object_groups(struct tei_arena *arena, const Store__Objects *m,
			      struct tes_core_objects *c, const char **why)
{
	if (!rpc_are_names(m->groups, m->n_groups))
		return malformed(why, "objects: no usable group");
	c->groups = tei_arena_calloc(arena, m->n_group, sizeof(*c->groups));
	if (!c->groups)
		return malformed(why, "batch too large");
	for (size_t i = 0; i < m->n_group; i++) {
		const char *name;

		if (m->group[i] > m->n_groups)
			return malformed(why, "objects: no such group");
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
		return malformed(why, "batch too large");
	if (!tes_objects_fit(m))
		return malformed(why, "objects: columns differ in length");
	if (!tenants_hold(m))
		return malformed(why, "objects: no usable tenant");
	if (m->n_key_lens && rpc_take_keys(arena, &m->keys, m->key_lens,
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

static int decode_offer(struct tei_arena *arena, const void *body, size_t len,
			struct tes_event *out, const char **why)
{
	static const Store__Objects none = STORE__OBJECTS__INIT;
	const Store__Offer *m =
		rpc_unpack(arena, &store__offer__descriptor, body, len);
	struct tes_core_objects *objects;

	if (!m)
		return malformed(why, "offer does not decode");
	if (!rpc_id(&m->segment))
		return malformed(why, "offer: a segment's id is 16 bytes");
	if (take_objects(arena, m->objects ? m->objects : &none, out, &objects,
			 why))
		return -EBADMSG;
	out->u.offer.objects = objects;
	out->u.offer.segment = m->segment.data;
	out->u.offer.last = m->last != 0;
	return 0;
}

static int decode_fenced(struct tei_arena *arena, const void *body, size_t len,
			 struct tes_event *out, const char **why)
{
	const Store__Fenced *m =
		rpc_unpack(arena, &store__fenced__descriptor, body, len);

	if (!m)
		return malformed(why, "fenced does not decode");
	out->u.fenced.fence = m->fence;
	out->u.fenced.confirmed = m->status == 0;
	out->u.fenced.pending = m->pending;
	return 0;
}

static int decode_buried(struct tei_arena *arena, const void *body, size_t len,
			 struct tes_event *out, const char **why)
{
	const Store__Buried *m =
		rpc_unpack(arena, &store__buried__descriptor, body, len);

	if (!m)
		return malformed(why, "buried does not decode");
	out->u.fenced.fence = m->burial;
	out->u.fenced.confirmed = out->u.fenced.burial = true;
	return 0;
}

static int decode_task_done(struct tei_arena *arena, const void *body,
			    size_t len, struct tes_event *out, const char **why)
{
	const Store__TaskDone *m =
		rpc_unpack(arena, &store__task_done__descriptor, body, len);

	if (!m)
		return malformed(why, "task done does not decode");
	out->u.task_done.id = rpc_id(&m->id);
	out->u.task_done.status = m->status;
	out->u.task_done.quiet = m->quiet != 0;
	out->u.task_done.crcs = m->crc;
	out->u.task_done.n_crcs = m->n_crc;
	out->u.task_done.no_crc = m->no_crc != 0;
	out->u.task_done.message = *m->message ? m->message : NULL;
	return 0;
}

static int decode_report(struct tei_arena *arena, const void *body, size_t len,
			 struct tes_event *out, const char **why)
{
	const Store__Report *m =
		rpc_unpack(arena, &store__report__descriptor, body, len);

	if (!m || !rpc_id(&m->incarnation))
		return malformed(why, "report does not decode");
	out->u.report.incarnation = m->incarnation.data;
	return 0;
}

static int decode_probed(struct tei_arena *arena, const void *body, size_t len,
			 struct tes_event *out, const char **why)
{
	const Store__Probed *m =
		rpc_unpack(arena, &store__probed__descriptor, body, len);

	if (!m)
		return malformed(why, "probed does not decode");
	out->u.probed.probe = m->n;
	return 0;
}

static const struct {
	decode_fn *decode;
	enum tes_event_type event;
} requests[TEI_FRAME_TYPES] = {
	[STORE__STORE_TYPE__STORE_MOUNT] = {decode_mount, TES_EVENT_MOUNT},
	[STORE__STORE_TYPE__STORE_UNMOUNT] = {decode_unmount,
					      TES_EVENT_UNMOUNT},
	[STORE__STORE_TYPE__STORE_DRAIN] = {decode_drain,
					    TES_EVENT_DRAIN_LEAVE},
	[STORE__STORE_TYPE__STORE_PUT_START] = {decode_put_start,
						TES_EVENT_PUT_START},
	[STORE__STORE_TYPE__STORE_PUT_END] = {decode_put_end,
					      TES_EVENT_PUT_END},
	[STORE__STORE_TYPE__STORE_LOOKUP] = {decode_lookup, TES_EVENT_LOOKUP},
	[STORE__STORE_TYPE__STORE_RELEASE] = {decode_release,
					      TES_EVENT_RELEASE},
	[STORE__STORE_TYPE__STORE_EXIST] = {decode_keys, TES_EVENT_EXIST},
	[STORE__STORE_TYPE__STORE_SIZE] = {decode_keys, TES_EVENT_SIZE},
	[STORE__STORE_TYPE__STORE_REMOVE] = {decode_keys, TES_EVENT_REMOVE},
	[STORE__STORE_TYPE__STORE_REPLICA_CLEAR] = {decode_replica_clear,
						    TES_EVENT_REPLICA_CLEAR},
	[STORE__STORE_TYPE__STORE_FENCED] = {decode_fenced, TES_EVENT_FENCED},
	[STORE__STORE_TYPE__STORE_BURIED] = {decode_buried, TES_EVENT_FENCED},
	[STORE__STORE_TYPE__STORE_OFFER] = {decode_offer, TES_EVENT_OFFER},
	[STORE__STORE_TYPE__STORE_REPORT] = {decode_report, TES_EVENT_REPORT},
	[STORE__STORE_TYPE__STORE_PROBED] = {decode_probed, TES_EVENT_PROBED},
	[STORE__STORE_TYPE__STORE_TASK_CREATE] = {decode_task_create,
						  TES_EVENT_TASK_CREATE},
	[STORE__STORE_TYPE__STORE_TASK_QUERY] = {decode_task_query,
						 TES_EVENT_TASK_QUERY},
	[STORE__STORE_TYPE__STORE_TASK_DONE] = {decode_task_done,
						TES_EVENT_TASK_DONE},
};

int tes_server_rpc_event(struct tei_arena *arena, uint16_t type,
			 const void *body, size_t len, struct tes_event *out,
			 const char **why)
{
	if (type >= TEI_FRAME_TYPES || !requests[type].decode)
		return malformed(why, "no such request here");
	memset(out, 0, sizeof(*out));
	out->type = requests[type].event;
	return requests[type].decode(arena, body, len, out, why);
}
