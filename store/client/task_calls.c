/* SPDX-License-Identifier: Apache-2.0 */
/* task_calls.c - have objects copied and moved, and ask how far that is */
#include <stdio.h>
#include <string.h>

#include "store/client/client.h"
#include "store/proto/store.pb-c.h"

_Static_assert(sizeof(struct te_store_task) == 168, "pinned");

static bool name_holds(const char *name)
{
	return name && *name &&
	       strnlen(name, TE_NAME_LEN_MAX + 1) <= TE_NAME_LEN_MAX;
}

static int create(struct te_store *store, Store__TaskCreate *msg,
		  const struct te_store_key *key, uint8_t *id)
{
	Store__TaskCreateReply *answer;
	struct tei_arena arena;
	struct tes_reply reply;
	int code;

	msg->key.data = (uint8_t *)(uintptr_t)key->bytes;
	msg->key.len = key->len;
	tei_arena_init(&arena, 64u << 10);
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_TASK_CREATE,
			      &msg->base, &arena, tes_call_deadline(store),
			      &reply);
	if (code)
		goto out;
	answer = store__task_create_reply__unpack(&arena.pb, reply.len,
						  reply.body);
	if (!answer ||
	    (!answer->status && answer->id.len != TE_STORE_TASK_ID_LEN)) {
		code = tes_bad_reply("task create");
		goto out;
	}
	code = answer->status;
	if (!code)
		memcpy(id, answer->id.data, TE_STORE_TASK_ID_LEN);
out:
	tei_arena_fini(&arena);
	return code;
}

int tes_direct_copy(struct te_store *store, const struct te_store_key *key,
		    const char *const *targets, size_t n,
		    uint8_t id[TE_STORE_TASK_ID_LEN])
{
	Store__TaskCreate msg = STORE__TASK_CREATE__INIT;
	size_t i;

	if (!key || !tes_key_holds(key) || !targets || !id || !n ||
	    n > TE_STORE_REPLICAS_MAX)
		return TE_STORE_INVALID_PARAMS;
	for (i = 0; i < n; i++)
		if (!name_holds(targets[i]))
			return TE_STORE_INVALID_PARAMS;
	msg.type = STORE__TASK_TYPE__TASK_COPY;
	msg.targets = (char **)(uintptr_t)targets;
	msg.n_targets = n;
	return create(store, &msg, key, id);
}

int tes_direct_move(struct te_store *store, const struct te_store_key *key,
		    const char *source, const char *target,
		    uint8_t id[TE_STORE_TASK_ID_LEN])
{
	Store__TaskCreate msg = STORE__TASK_CREATE__INIT;
	char *targets[1] = {(char *)(uintptr_t)target};

	if (!key || !tes_key_holds(key) || !id || !name_holds(source) ||
	    !name_holds(target))
		return TE_STORE_INVALID_PARAMS;
	msg.type = STORE__TASK_TYPE__TASK_MOVE;
	msg.source = (char *)(uintptr_t)source;
	msg.targets = targets;
	msg.n_targets = 1;
	return create(store, &msg, key, id);
}

static void take(struct te_store_task *out, const Store__TaskQueryReply *answer)
{
	memset(out, 0, sizeof(*out));
	out->type = answer->type;
	out->status = answer->task_status;
	out->created_ms = answer->created_ms;
	out->updated_ms = answer->updated_ms;
	if (answer->assigned_client.len == sizeof(out->client))
		memcpy(out->client, answer->assigned_client.data,
		       sizeof(out->client));
	(void)snprintf(out->message, sizeof(out->message), "%s",
		       answer->message);
}

int tes_direct_task(struct te_store *store,
		    const uint8_t id[TE_STORE_TASK_ID_LEN],
		    struct te_store_task *out)
{
	Store__TaskQuery msg = STORE__TASK_QUERY__INIT;
	Store__TaskQueryReply *answer;
	struct tei_arena arena;
	struct tes_reply reply;
	int code;

	if (!id || !out)
		return TE_STORE_INVALID_PARAMS;
	msg.id.data = (uint8_t *)(uintptr_t)id;
	msg.id.len = TE_STORE_TASK_ID_LEN;
	tei_arena_init(&arena, 64u << 10);
	code = tes_store_call(store, STORE__STORE_TYPE__STORE_TASK_QUERY,
			      &msg.base, &arena, tes_call_deadline(store),
			      &reply);
	if (code)
		goto out;
	answer = store__task_query_reply__unpack(&arena.pb, reply.len,
						 reply.body);
	code = answer ? answer->status : tes_bad_reply("task query");
	if (answer && !code)
		take(out, answer);
out:
	tei_arena_fini(&arena);
	return code;
}
