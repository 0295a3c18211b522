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

void *tes_rpc_unpack(struct tei_arena *arena,
		     const ProtobufCMessageDescriptor *type, const void *body,
		     size_t len)
{
	static const uint8_t empty[1];

	if (!tes_strings_whole(type, body, len))
		return NULL;
	return protobuf_c_message_unpack(type, &arena->pb, len,
					 len ? body : empty);
}

bool tes_rpc_is_name(const char *name)
{
	size_t len = 0;

	for (; name[len]; len++)
		if ((unsigned char)name[len] <= ' ' || name[len] == 0x7f ||
		    len >= TEI_NAME_LEN_MAX)
			return false;
	return len > 0;
}

bool tes_rpc_are_names(char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!tes_rpc_is_name(names[i]))
			return false;
	return true;
}

const uint8_t *tes_rpc_id(const ProtobufCBinaryData *id)
{
	return id->len == TES_CORE_ID_LEN ? id->data : NULL;
}

int tes_rpc_take_keys(struct tei_arena *arena, const ProtobufCBinaryData *bytes,
		      const uint32_t *lens, size_t n, struct tes_event *out,
		      const char **why)
{
	struct tes_core_key *to;
	size_t at = 0;

	if (n < 1 || n > TES_CORE_BATCH_MAX)
		return tes_rpc_malformed(why, "a batch has 1 to 4096 keys");
	to = tei_arena_alloc(arena, n * sizeof(*to));
	if (!to)
		return tes_rpc_malformed(why, "batch too large");
	for (size_t i = 0; i < n; i++) {
		if (lens[i] < 1 || lens[i] > TES_CORE_KEY_MAX)
			return tes_rpc_malformed(why,
						 "a key has 1 to 1024 bytes");
		if (lens[i] > bytes->len - at)
			return tes_rpc_malformed(why,
						 "keys are shorter than told");
		to[i].bytes = bytes->data + at;
		to[i].len = lens[i];
		at += lens[i];
	}
	if (at != bytes->len)
		return tes_rpc_malformed(why, "keys are longer than told");
	out->keys = to;
	out->n = n;
	return 0;
}

/* Whether anybody may call himself so; another question is who has a quota. */
static bool is_tenant(const char *name)
{
	return !*name || tes_core_tenant_name_valid(name);
}

int tes_server_rpc_hello(struct tei_arena *arena, const void *body, size_t len,
			 struct tes_server_rpc_hello *out, const char **why)
{
	const Store__Hello *m =
		tes_rpc_unpack(arena, &store__hello__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "hello does not decode");
	*out = (struct tes_server_rpc_hello){
		.version = m->version,
		.features = m->features,
		.client_id = tes_rpc_id(&m->client_id),
		.incarnation = tes_rpc_id(&m->incarnation),
		.engine = m->engine,
		.host = m->host.data,
		.host_len = m->host.len,
		.tenant = m->tenant,
		.heartbeat = m->heartbeat,
		.epoch = m->epoch,
	};
	if (m->version != TES_STORE_VERSION)
		return 0;
	if (!out->client_id || !out->incarnation)
		return tes_rpc_malformed(why, "hello: ids are 16 bytes");
	if (!tes_rpc_is_name(m->engine))
		return tes_rpc_malformed(why, "hello: no usable engine name");
	if (m->host.len > TES_CORE_HOST_MAX)
		return tes_rpc_malformed(why,
					 "hello: a host has at most 64 bytes");
	if (!is_tenant(m->tenant))
		return tes_rpc_malformed(why, "hello: no usable tenant");
	return 0;
}

int tes_server_rpc_heartbeat(struct tei_arena *arena, const void *body,
			     size_t len, uint64_t *epoch, uint32_t *mounts,
			     const char **why)
{
	const Store__Heartbeat *m =
		tes_rpc_unpack(arena, &store__heartbeat__descriptor, body, len);

	if (!m)
		return tes_rpc_malformed(why, "heartbeat does not decode");
	*epoch = m->epoch;
	*mounts = m->mounts;
	return 0;
}

static const struct {
	tes_rpc_decode_fn *decode;
	enum tes_event_type event;
} requests[TEI_FRAME_TYPES] = {
	[STORE__STORE_TYPE__STORE_MOUNT] = {tes_rpc_decode_mount,
					    TES_EVENT_MOUNT},
	[STORE__STORE_TYPE__STORE_UNMOUNT] = {tes_rpc_decode_unmount,
					      TES_EVENT_UNMOUNT},
	[STORE__STORE_TYPE__STORE_DRAIN] = {tes_rpc_decode_drain,
					    TES_EVENT_DRAIN_LEAVE},
	[STORE__STORE_TYPE__STORE_PUT_START] = {tes_rpc_decode_put_start,
						TES_EVENT_PUT_START},
	[STORE__STORE_TYPE__STORE_PUT_END] = {tes_rpc_decode_put_end,
					      TES_EVENT_PUT_END},
	[STORE__STORE_TYPE__STORE_LOOKUP] = {tes_rpc_decode_lookup,
					     TES_EVENT_LOOKUP},
	[STORE__STORE_TYPE__STORE_RELEASE] = {tes_rpc_decode_release,
					      TES_EVENT_RELEASE},
	[STORE__STORE_TYPE__STORE_EXIST] = {tes_rpc_decode_keys,
					    TES_EVENT_EXIST},
	[STORE__STORE_TYPE__STORE_SIZE] = {tes_rpc_decode_keys, TES_EVENT_SIZE},
	[STORE__STORE_TYPE__STORE_REMOVE] = {tes_rpc_decode_keys,
					     TES_EVENT_REMOVE},
	[STORE__STORE_TYPE__STORE_REPLICA_CLEAR] =
		{tes_rpc_decode_replica_clear, TES_EVENT_REPLICA_CLEAR},
	[STORE__STORE_TYPE__STORE_FENCED] = {tes_rpc_decode_fenced,
					     TES_EVENT_FENCED},
	[STORE__STORE_TYPE__STORE_BURIED] = {tes_rpc_decode_buried,
					     TES_EVENT_FENCED},
	[STORE__STORE_TYPE__STORE_OFFER] = {tes_rpc_decode_offer,
					    TES_EVENT_OFFER},
	[STORE__STORE_TYPE__STORE_REPORT] = {tes_rpc_decode_report,
					     TES_EVENT_REPORT},
	[STORE__STORE_TYPE__STORE_PROBED] = {tes_rpc_decode_probed,
					     TES_EVENT_PROBED},
	[STORE__STORE_TYPE__STORE_TASK_CREATE] = {tes_rpc_decode_task_create,
						  TES_EVENT_TASK_CREATE},
	[STORE__STORE_TYPE__STORE_TASK_QUERY] = {tes_rpc_decode_task_query,
						 TES_EVENT_TASK_QUERY},
	[STORE__STORE_TYPE__STORE_TASK_DONE] = {tes_rpc_decode_task_done,
						TES_EVENT_TASK_DONE},
};

int tes_server_rpc_event(struct tei_arena *arena, uint16_t type,
			 const void *body, size_t len, struct tes_event *out,
			 const char **why)
{
	if (type >= TEI_FRAME_TYPES || !requests[type].decode)
		return tes_rpc_malformed(why, "no such request here");
	memset(out, 0, sizeof(*out));
	out->type = requests[type].event;
	return requests[type].decode(arena, body, len, out, why);
}
