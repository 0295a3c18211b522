/* SPDX-License-Identifier: Apache-2.0 */
/* serve_admin.c - calls that read and write no values */
#include <string.h>

#include "base/clock.h"
#include "store/daemon/agent_private.h"

#define WAIT_MS 1000 /* unless the dummy says otherwise */

bool tes_agent_is_late(struct tes_agent *agent, const struct tes_agent_job *job,
		       uint32_t wait_ms)
{
	uint64_t ms = wait_ms ? wait_ms : WAIT_MS;

	if (tei_now_ns() - job->since_ns <= ms * TEI_NS_PER_MS)
		return false;
	atomic_fetch_add_explicit(&agent->stats.late, 1, memory_order_relaxed);
	return true;
}

static void fill_pool(Agent__StatusReply *out, struct te_store *store)
{
	struct te_store_pool pool = {0};

	out->pool_code = te_store_pool(store, &pool);
	if (out->pool_code)
		return;
	out->capacity_bytes = pool.capacity_bytes;
	out->used_bytes = pool.used_bytes;
	out->objects = pool.objects;
	out->owners = pool.owners;
	out->clients = pool.clients;
	out->evicted_objects = pool.evicted_objects;
	out->evicted_bytes = pool.evicted_bytes;
	out->master_metadata_bytes = pool.master_metadata_bytes;
	out->master_key_bytes = pool.master_key_bytes;
}

void tes_agent_serve_status(struct tes_agent *agent, struct tes_agent_job *job)
{
	Agent__StatusReply *out = tei_arena_alloc(&job->arena, sizeof(*out));
	const char *name = te_store_hostname(agent->store);
	char *hostname = tei_arena_alloc(&job->arena, strlen(name) + 1);

	if (!out || !hostname)
		return;
	agent__status_reply__init(out);
	memcpy(hostname, name, strlen(name) + 1);
	out->hostname = hostname;
	out->health = te_store_health(agent->store);
	if (job->frame.type == AGENT__AGENT_TYPE__AGENT_POOL)
		fill_pool(out, agent->store);
	job->answer = &out->base;
}

/* ---- removing all ---- */

static int remove_all(struct tes_agent *agent, struct tes_agent_job *job,
		      Agent__RemoveAllReply *out)
{
	Agent__RemoveAll *msg =
		agent__remove_all__unpack(&job->arena.pb, job->len, job->body);
	uint32_t wait_ms;

	if (!msg || !tes_strings_whole(&agent__remove_all__descriptor,
				       job->body, job->len))
		return TE_STORE_INVALID_PARAMS;
	/* It may have stood behind another one. */
	wait_ms = msg->wait_ms ? msg->wait_ms : WAIT_MS;
	if (wait_ms <= UINT32_MAX - TES_AGENT_WALK_MS)
		wait_ms += TES_AGENT_WALK_MS;
	if (tes_agent_is_late(agent, job, wait_ms))
		return TE_STORE_RPC_TIMEOUT;
	if (*msg->pattern)
		return te_store_remove_matching(agent->store, msg->pattern,
						msg->force, &out->removed);
	return te_store_remove_all(agent->store, msg->force, &out->removed);
}

void tes_agent_serve_remove_all(struct tes_agent *agent,
				struct tes_agent_job *job)
{
	Agent__RemoveAllReply *out = tei_arena_alloc(&job->arena, sizeof(*out));

	if (!out)
		return;
	agent__remove_all_reply__init(out);
	out->code = remove_all(agent, job, out);
	job->answer = &out->base;
}

/* ---- replicas ---- */

static int make_columns(struct tei_arena *arena, Agent__ReplicasReply *out,
			struct te_store_replica *replicas, size_t n)
{
	out->status = tei_arena_alloc(arena, (n + 1) * sizeof(uint32_t));
	out->n_extents = tei_arena_alloc(arena, (n + 1) * sizeof(uint32_t));
	out->address = tei_arena_alloc(arena, (n + 1) * sizeof(uint64_t));
	out->size = tei_arena_alloc(arena, (n + 1) * sizeof(uint64_t));
	out->segment = tei_arena_alloc(arena, (n + 1) * sizeof(char *));
	if (!out->status || !out->n_extents || !out->address || !out->size ||
	    !out->segment)
		return TE_STORE_INTERNAL_ERROR;
	for (size_t i = 0; i < n; i++) {
		out->status[i] = replicas[i].status;
		out->n_extents[i] = replicas[i].n_extents;
		out->address[i] = replicas[i].address;
		out->size[i] = replicas[i].size;
		out->segment[i] = replicas[i].segment;
	}
	out->n_status = out->n_n_extents = out->n_address = n;
	out->n_size = out->n_segment = n;
	return 0;
}

static int replicas(struct tes_agent *agent, struct tes_agent_job *job,
		    const struct te_store_key *keys, size_t n,
		    Agent__ReplicasReply *out)
{
	size_t room = n * TE_STORE_REPLICAS_MAX, n_out = room;
	struct te_store_replica *found;
	int *results;

	if (n > TES_AGENT_REPLICAS_KEYS_MAX)
		return TE_STORE_INVALID_PARAMS;
	found = tei_arena_alloc(&job->arena, (room + 1) * sizeof(*found));
	results = tei_arena_calloc(&job->arena, n + 1, sizeof(*results));
	if (!found || !results)
		return TE_STORE_INTERNAL_ERROR;
	if (te_store_replicas(agent->store, keys, n, results, found, &n_out) <
	    0)
		return TE_STORE_INVALID_PARAMS;
	if (n_out > room)
		return TE_STORE_INTERNAL_ERROR;
	out->result = results;
	out->n_result = n;
	return make_columns(&job->arena, out, found, n_out);
}

void tes_agent_serve_replicas(struct tes_agent *agent,
			      struct tes_agent_job *job,
			      const struct te_store_key *keys, size_t n,
			      int code)
{
	Agent__ReplicasReply *out = tei_arena_alloc(&job->arena, sizeof(*out));

	if (!out)
		return;
	agent__replicas_reply__init(out);
	out->code = code ? code : replicas(agent, job, keys, n, out);
	if (out->code)
		out->n_result = 0;
	job->answer = &out->base;
}
