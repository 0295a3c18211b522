/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc.c - requests of clients: bytes of a frame to an event of the core
 *
 * A frame's length is capped by its type before it comes here, and what it
 * unpacks to by the arena, so a message made of many tiny fields fails instead
 * of growing.
 */
#include "store/server/rpc.h"

#include <string.h>

#include "base/net.h"
#include "store/proto/protocol.h"
#include "store/proto/strings.h"
#include "store/server/rpc_private.h"

void *tei_rpc_unpack(struct tei_arena *arena,
		     const ProtobufCMessageDescriptor *type, const void *body,
		     size_t len)
{
	static const uint8_t empty[1];

	if (!tei_strings_whole(type, body, len))
		return NULL;
	return protobuf_c_message_unpack(type, &arena->pb, len,
					 len ? body : empty);
}

bool tei_rpc_is_name(const char *name)
{
	size_t len = 0;

	for (; name[len]; len++)
		if ((unsigned char)name[len] <= ' ' || name[len] == 0x7f ||
		    len >= TEI_NAME_LEN_MAX)
			return false;
	return len > 0;
}

bool tei_rpc_are_names(char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!tei_rpc_is_name(names[i]))
			return false;
	return true;
}

const uint8_t *tei_rpc_id(const ProtobufCBinaryData *id)
{
	return id->len == TEI_CORE_ID_LEN ? id->data : NULL;
}

int tei_rpc_take_keys(struct tei_arena *arena, const ProtobufCBinaryData *bytes,
		      const uint32_t *lens, size_t n, struct tei_event *out,
		      const char **why)
{
	struct tei_core_key *to;
	size_t at = 0;

	if (n < 1 || n > TEI_CORE_BATCH_MAX)
		return tei_rpc_malformed(why, "a batch has 1 to 4096 keys");
	to = tei_arena_alloc(arena, n * sizeof(*to));
	if (!to)
		return tei_rpc_malformed(why, "batch too large");
	for (size_t i = 0; i < n; i++) {
		if (lens[i] < 1 || lens[i] > TEI_CORE_KEY_MAX)
			return tei_rpc_malformed(why,
						 "a key has 1 to 1024 bytes");
		if (lens[i] > bytes->len - at)
			return tei_rpc_malformed(why,
						 "keys are shorter than told");
		to[i].bytes = bytes->data + at;
		to[i].len = lens[i];
		at += lens[i];
	}
	if (at != bytes->len)
		return tei_rpc_malformed(why, "keys are longer than told");
	out->keys = to;
	out->n = n;
	return 0;
}

/* Whether anybody may call himself so; another question is who has a quota. */
static bool is_tenant(const char *name)
{
	return !*name || tei_core_tenant_name_valid(name);
}

int tei_server_rpc_hello(struct tei_arena *arena, const void *body, size_t len,
			 struct tei_server_rpc_hello *out, const char **why)
{
	const Store__Hello *m =
		tei_rpc_unpack(arena, &store__hello__descriptor, body, len);

	if (!m)
		return tei_rpc_malformed(why, "hello does not decode");
	*out = (struct tei_server_rpc_hello){
		.version = m->version,
		.features = m->features,
		.client_id = tei_rpc_id(&m->client_id),
		.incarnation = tei_rpc_id(&m->incarnation),
		.engine = m->engine,
		.host = m->host.data,
		.host_len = m->host.len,
		.tenant = m->tenant,
		.heartbeat = m->heartbeat,
		.epoch = m->epoch,
	};
	if (m->version != TEI_STORE_VERSION)
		return 0;
	if (!out->client_id || !out->incarnation)
		return tei_rpc_malformed(why, "hello: ids are 16 bytes");
	if (!tei_rpc_is_name(m->engine))
		return tei_rpc_malformed(why, "hello: no usable engine name");
	if (m->host.len > TEI_CORE_HOST_MAX)
		return tei_rpc_malformed(why,
					 "hello: a host has at most 64 bytes");
	if (!is_tenant(m->tenant))
		return tei_rpc_malformed(why, "hello: no usable tenant");
	return 0;
}

int tei_server_rpc_heartbeat(struct tei_arena *arena, const void *body,
			     size_t len, uint64_t *epoch, uint32_t *mounts,
			     const char **why)
{
	const Store__Heartbeat *m =
		tei_rpc_unpack(arena, &store__heartbeat__descriptor, body, len);

	if (!m)
		return tei_rpc_malformed(why, "heartbeat does not decode");
	*epoch = m->epoch;
	*mounts = m->mounts;
	return 0;
}

static const struct {
	tei_rpc_decode_fn *decode;
	enum tei_event_type event;
} requests[TEI_FRAME_TYPES] = {
	[STORE__STORE_TYPE__STORE_MOUNT] = {tei_rpc_decode_mount,
					    TEI_EVENT_MOUNT},
	[STORE__STORE_TYPE__STORE_UNMOUNT] = {tei_rpc_decode_unmount,
					      TEI_EVENT_UNMOUNT},
	[STORE__STORE_TYPE__STORE_DRAIN] = {tei_rpc_decode_drain,
					    TEI_EVENT_DRAIN_LEAVE},
	[STORE__STORE_TYPE__STORE_PUT_START] = {tei_rpc_decode_put_start,
						TEI_EVENT_PUT_START},
	[STORE__STORE_TYPE__STORE_PUT_END] = {tei_rpc_decode_put_end,
					      TEI_EVENT_PUT_END},
	[STORE__STORE_TYPE__STORE_LOOKUP] = {tei_rpc_decode_lookup,
					     TEI_EVENT_LOOKUP},
	[STORE__STORE_TYPE__STORE_RELEASE] = {tei_rpc_decode_release,
					      TEI_EVENT_RELEASE},
	[STORE__STORE_TYPE__STORE_EXIST] = {tei_rpc_decode_keys,
					    TEI_EVENT_EXIST},
	[STORE__STORE_TYPE__STORE_SIZE] = {tei_rpc_decode_keys, TEI_EVENT_SIZE},
	[STORE__STORE_TYPE__STORE_REMOVE] = {tei_rpc_decode_keys,
					     TEI_EVENT_REMOVE},
	[STORE__STORE_TYPE__STORE_REPLICA_CLEAR] =
		{tei_rpc_decode_replica_clear, TEI_EVENT_REPLICA_CLEAR},
	[STORE__STORE_TYPE__STORE_FENCED] = {tei_rpc_decode_fenced,
					     TEI_EVENT_FENCED},
	[STORE__STORE_TYPE__STORE_BURIED] = {tei_rpc_decode_buried,
					     TEI_EVENT_FENCED},
	[STORE__STORE_TYPE__STORE_OFFER] = {tei_rpc_decode_offer,
					    TEI_EVENT_OFFER},
	[STORE__STORE_TYPE__STORE_REPORT] = {tei_rpc_decode_report,
					     TEI_EVENT_REPORT},
	[STORE__STORE_TYPE__STORE_PROBED] = {tei_rpc_decode_probed,
					     TEI_EVENT_PROBED},
	[STORE__STORE_TYPE__STORE_TASK_CREATE] = {tei_rpc_decode_task_create,
						  TEI_EVENT_TASK_CREATE},
	[STORE__STORE_TYPE__STORE_TASK_QUERY] = {tei_rpc_decode_task_query,
						 TEI_EVENT_TASK_QUERY},
	[STORE__STORE_TYPE__STORE_TASK_DONE] = {tei_rpc_decode_task_done,
						TEI_EVENT_TASK_DONE},
};

int tei_server_rpc_event(struct tei_arena *arena, uint16_t type,
			 const void *body, size_t len, struct tei_event *out,
			 const char **why)
{
	if (type >= TEI_FRAME_TYPES || !requests[type].decode)
		return tei_rpc_malformed(why, "no such request here");
	memset(out, 0, sizeof(*out));
	out->type = requests[type].event;
	return requests[type].decode(arena, body, len, out, why);
}
